# The job's processes: found, waited for, ended, whatever they do; and the
# command's own status, whatever happens to the rest.

load helpers
load jobs

teardown() {
	test_teardown
	[ -z "${away:-}" ] || rm -rf "$away"
}

# elsewhere: $away is a folder where anyone may go, with leaserun in it.
elsewhere() {
	away=$(mktemp -d /tmp/leaserun-test.XXXXXX)
	chmod 755 "$away"
	install -m 755 "$LEASERUN" "$away/leaserun"
	: >"$away/leaserun.conf"
	: >"$away/out"
	export LEASERUN_CONFIG=$away/leaserun.conf
}

# terms COUNT: so many processes have had a TERM.
terms() {
	[ "$(lines term)" -ge "$1" ]
}

# --- Kinds of processes ---

@test "sessions and orphans are found: TERM reaches them once" {
	first -- tree ignore
	wait_until 10 ticking 4
	kill -TERM "$first"
	wait_until 10 terms 4
	kill -TERM "$first"
	wait_until 10 terms 8
	assert_equal "$(awk '$1 == "term" { n[$4]++ }
	    END { for (p in n) print n[p] }' out | uniq -c | tr -s ' ')" " 4 2"
}

@test "the deepest is found: TERM reaches it" {
	first -- deep=12 ignore
	wait_until 10 ticking 13
	kill -TERM "$first"
	wait_until 10 terms 13
	second
	script renew lost once
	assert_ends 79 "$first"
	assert_ends 0 "$second"
	assert_order
	job_gone ""
}

@test "orphans that replace themselves are killed before the next grant" {
	first -- chain
	wait_until 10 eval '[ "$(ticks)" -ge 100 ]'
	second
	script renew lost once
	assert_ends 79 "$first"
	assert_ends 0 "$second"
	assert_order
	assert_equal "$(lines alive)" 0
}

@test "orphans that replace themselves are killed when the keeper is gone" {
	local guard

	first -- chain
	wait_until 10 eval '[ "$(ticks)" -ge 100 ]'
	guard=$(guard "$first")
	second
	kill -KILL "$first"
	assert_ends 137 "$first"
	wait_until 10 is_gone "$guard"
	assert_ends 0 "$second"
	assert_order
}

@test "orphans that replace themselves are killed when the guard is gone" {
	first -- chain
	wait_until 10 eval '[ "$(ticks)" -ge 100 ]'
	second
	kill -KILL "$(guard "$first")"
	assert_ends 70 "$first"
	assert_ends 0 "$second"
	assert_order
}

@test "a process that forks all the time is killed with all it made" {
	first -- brood tree ignore
	wait_until 10 ticking 30
	second
	script renew unavailable by first
	assert_ends 79 "$first"
	assert_ends 0 "$second"
	assert_order
	job_gone ""
}

@test "a stopped command is continued for the TERM" {
	local command

	first -- stop cleanup=1
	wait_until 10 ticking 1
	command=$(awk '$1 == "start" { print $4 }' out)
	wait_until 10 state "$command" T
	kill -TERM "$first"
	assert_ends 0 "$first"
	assert_equal "$(lines term)" 1
}

@test "a stopped command dies of the TERM that it does not handle" {
	first -- stop frozen
	wait_until 10 ticking 2
	kill -TERM "$first"
	assert_ends 143 "$first"
	job_gone ""
}

@test "a stopped command counts as alive: the lease is renewed" {
	first -- stop frozen
	wait_until 10 ticking 2
	wait_until 10 calls_reach renew first ok 7
	is_alive "$first"
	script renew lost
	assert_ends 79 "$first"
	job_gone ""
}

@test "the job of another user is killed by root" {
	chmod 666 out
	first -- uid=65534 tree frozen ignore
	wait_until 10 ticking 5
	second
	script renew lost once
	assert_ends 79 "$first"
	assert_ends 0 "$second"
	assert_order
	job_gone ""
}

# may_not_be_killed PROGRAM...: --max-run ends in vain; the lease is kept as
# long as the store confirms it, then 79.  The user in the message is $uid.
may_not_be_killed() {
	local survivor

	bg "$@"
	first=$!
	wait_until 10 ticking 1
	survivor=$(awk '$1 == "start" { print $4 }' out)
	wait_until 10 grep -q "process $survivor of user $uid" first
	# More than a whole lease: it is still held.
	wait_until 10 calls_reach renew first ok \
	    $(($(call_count renew first ok) + 6))
	is_alive "$first"
	is_alive "$survivor"
	run_tool 75 run "${FAKE[@]}" job -- true
	assert_equal "$(grep -c "of user $uid" first)" 1
	script renew lost
	assert_ends 79 "$first"
	assert_equal "$(call_count release first -)" 0
	is_alive "$survivor"
	# The guard stays with it, and goes when it has gone.
	kill -KILL "$survivor"
	wait_until 10 all_gone
}

@test "a process that may not be killed keeps the lease: no CAP_KILL" {
	local uid=65534

	chmod 666 out
	may_not_be_killed setpriv --bounding-set -kill --inh-caps -kill \
	    "$LEASERUN" run "${FAKE[@]}" --owner first --max-run 300ms job -- \
	    "$PROBE" out uid=$uid 2>first
}

@test "a process that may not be killed, and the guard is: not released" {
	local survivor

	chmod 666 out
	bg setpriv --bounding-set -kill --inh-caps -kill \
	    "$LEASERUN" run "${FAKE[@]}" --owner first job -- \
	    "$PROBE" out uid=65534 2>first
	first=$!
	wait_until 10 ticking 1
	survivor=$(awk '$1 == "start" { print $4 }' out)
	kill -KILL "$(guard "$first")"
	wait_until 10 grep -q "process $survivor of user 65534" first
	wait_until 10 calls_reach renew first ok \
	    $(($(call_count renew first ok) + 6))
	is_alive "$first"
	is_alive "$survivor"
	run_tool 75 run "${FAKE[@]}" job -- true
	kill -KILL "$survivor"
	assert_ends 70 "$first"
	called release first ok
	assert_free
}

# survives_outage WORD: what the renewals answer.
survives_outage() {
	local survivor guard ends

	chmod 666 out
	bg setpriv --bounding-set -kill --inh-caps -kill \
	    "$LEASERUN" run "${FAKE[@]}" --owner first job -- \
	    "$PROBE" out uid=65534 2>first
	first=$!
	wait_until 10 calls_reach renew first ok 1
	script renew "$1"
	survivor=$(awk '$1 == "start" { print $4 }' out)
	guard=$(guard "$first")
	assert_ends 79 "$first"
	# Not before it has ended at the store, as near as can be told.
	ends=$(awk '$2 == "renew" && $5 == "ok" { at = $1 }
	    END { printf "%.0f\n", at + 1.97e9 }' "$STORE/log")
	uptime_exceeds "$ends"
	if [ "$1" != hang ]; then
		file_has first \
		    "process $survivor of user 65534 may not be killed"
		assert_lacks "$(cat first)" library
	fi
	is_alive "$survivor"
	assert_equal "$(call_count release first -)" 0
	# Whoever may kill it later does, unless it did not get its turn.
	file_has first "the guard does not end the command" ||
	    is_alive "$guard"
	kill -KILL "$survivor"
	wait_until 10 is_gone "$guard"
}

@test "a process that may not be killed, and an outage: 79 after the lease" {
	survives_outage unavailable
}

@test "a process that may not be killed for --max-run, and an outage: lost" {
	local survivor

	chmod 666 out
	bg setpriv --bounding-set -kill --inh-caps -kill \
	    "$LEASERUN" run "${FAKE[@]}" --owner first --max-run 300ms \
	    --events e job -- "$PROBE" out uid=65534 2>first
	first=$!
	wait_until 10 file_has first "may not be killed"
	survivor=$(awk '$1 == "start" { print $4 }' out)
	script renew unavailable
	assert_ends 79 "$first"
	file_has first "is lost: it could not be renewed in time"
	file_has e '"event":"lost"'
	file_has e '"outcome":"lost"'
	kill -KILL "$survivor"
}

# There is an attempt at each moment, so at the time to kill and after it.
@test "a process that may not be killed, and renewals all the time: the same" {
	survives_outage interrupted
}

# Needs a file system without nosuid.
@test "a process that may not be killed keeps the lease: a setuid program" {
	local uid=0

	elsewhere
	install -m 4755 "$PROBE" "$away/probe"
	install -m 755 "$MODULES/fake.so" "$away/fake.so"
	mv store "$away/store"
	STORE=$away/store
	FAKE=(--module-dir "$away" -b "fake:$STORE" -t 2s -g 300ms -r 400ms)
	chown 65534 "$STORE"
	ln -sf "$away/out" out
	may_not_be_killed setpriv --reuid 65534 --clear-groups \
	    "$away/leaserun" run "${FAKE[@]}" --owner first --max-run 300ms \
	    job -- "$away/probe" "$away/out" uid=0 2>first
}

@test "a process that may not be killed keeps the lease: a security module" {
	local uid=$UID

	may_not_be_killed "$STARTWITH" -r kill "$LEASERUN" run "${FAKE[@]}" \
	    --owner first --max-run 300ms job -- "$PROBE" out 2>first
}

# As SystemCallFilter=~@resources in a systemd unit does, and others for calls
# that are newer than they are.
@test "a filter that kills: the job is ended all the same" {
	bg "$STARTWITH" -r deadly "$LEASERUN" run "${FAKE[@]}" --owner first \
	    job -- "$PROBE" out tree frozen ignore 2>first
	first=$!
	wait_until 10 ticking 5
	script renew lost
	assert_ends 79 "$first"
	job_gone ""
}

@test "a process that is not gone when it was killed is told of" {
	local tracer

	first -- tree
	wait_until 10 ticking 4
	bg "$MEDDLE" seize "$(awk '$5 == "child" { print $4 }' out)" traced
	tracer=$!
	wait_until 10 test -s traced
	script renew lost
	wait_until 30 file_has first "SIGKILL has not ended 1 of its processes"
	is_alive "$first"
	kill -KILL "$tracer"
	assert_ends 79 "$first"
}

@test "a process that is not gone is told of by the keeper as well" {
	local tracer

	first -t 60s -- tree
	wait_until 10 ticking 4
	bg "$MEDDLE" seize "$(awk '$5 == "child" { print $4 }' out)" traced
	tracer=$!
	wait_until 10 test -s traced
	kill -KILL "$(guard "$first")"
	wait_until 30 file_has first "SIGKILL has not ended 1 of its processes"
	is_alive "$first"
	kill -KILL "$tracer"
	assert_ends 70 "$first"
}

# Its parent is taken for a debugger, and is told of each signal before it acts.
@test "a command that asks to be traced: that it stops is no end of it" {
	local command

	bg "$LEASERUN" run "${FAKE[@]}" --owner first --leftovers leave job -- \
	    "$STARTWITH" -t "$PROBE" out
	first=$!
	wait_until 30 eval 'command=$(guard "$first") && command=$(cat \
	    "/proc/$command/task/$command/children") && [ -n "$command" ] &&
	    state "${command% }" t'
	wait_until 30 calls_reach renew first ok \
	    $(($(call_count renew first ok) + 3))
	is_alive "$first"
	run_tool 75 run "${FAKE[@]}" job -- true
	kill -KILL "${command% }"
	assert_ends 137 "$first"
	called release first ok
}

@test "a process that may not be killed goes away: released" {
	local survivor

	chmod 666 out
	bg setpriv --bounding-set -kill --inh-caps -kill \
	    "$LEASERUN" run "${FAKE[@]}" --owner first --max-run 300ms job -- \
	    "$PROBE" out uid=65534 2>first
	first=$!
	wait_until 10 ticking 1
	survivor=$(awk '$1 == "start" { print $4 }' out)
	wait_until 10 file_has first "may not be killed"
	kill -KILL "$survivor"
	assert_ends 124 "$first"
	called release first ok
	assert_free
}

@test "a process that may not be killed, and the library hangs: the guard stays" {
	survives_outage hang
}

# The library has not come back from a renewal.
is_renewing() {
	[ "$(call_count renew first -)" -gt "$(call_count renew first ok)" ]
}

@test "the library hangs, the guard is killed, one may not be: not before the end" {
	local survivor ends

	chmod 666 out
	bg setpriv --bounding-set -kill --inh-caps -kill \
	    "$LEASERUN" run "${FAKE[@]}" --owner first job -- \
	    "$PROBE" out uid=65534 2>first
	first=$!
	wait_until 10 calls_reach renew first ok 1
	survivor=$(awk '$1 == "start" { print $4 }' out)
	script renew hang
	wait_until 10 is_renewing
	kill -KILL "$(guard "$first")"
	assert_ends 79 "$first"
	ends=$(awk '$2 == "renew" && $5 == "ok" { at = $1 }
	    END { printf "%.0f\n", at + 1.97e9 }' "$STORE/log")
	uptime_exceeds "$ends"
	is_alive "$survivor"
}

@test "the library hangs, one may be killed only late: gone when that is so" {
	local survivor

	chmod 666 out
	bg setpriv --bounding-set -kill --inh-caps -kill \
	    "$LEASERUN" run "${FAKE[@]}" -t 60s --owner first job -- \
	    "$PROBE" out uid=65534 2>first
	first=$!
	wait_until 10 calls_reach renew first ok 1
	survivor=$(awk '$1 == "start" { print $4 }' out)
	script renew hang
	wait_until 10 is_renewing
	kill -KILL "$(guard "$first")"
	# Later than the moment when it gives up the library.
	wait_until 10 file_has first "does not come back"
	is_alive "$first"
	kill -KILL "$survivor"
	wait_until 2 is_gone "$first"
	assert_ends 79 "$first"
}

# --- Children from before ---

# with_child LEASERUN-ARG...: a run that had a child, $child, before it was one.
with_child() {
	mkfifo go
	bg sh -c 'read -r _ <go & echo $! >child; exec "$@"' sh \
	    "$LEASERUN" run "$@" 2>first
	first=$!
	wait_until 10 test -s child
	child=$(cat child)
}

reaped() {
	[ ! -e "/proc/$1" ]
}

@test "a child from before that ends during the wait is reaped" {
	local child waiter

	bg "$LEASERUN" run job -- "$PROBE" out
	holder=$!
	wait_until 10 ticking 1
	with_child --wait 30s job -- true
	# What the backend waits with is the backend's.
	wait_until 10 eval '[ "$(ps -o pid= --ppid "$first" | wc -l)" -eq 3 ]'
	waiter=$(ps -o pid=,comm= --ppid "$first" |
	    awk -v c="$child" '$1 != c && $2 != "leaserun-guard" { print $1 }')
	is_alive "$child"
	timeout 10 sh -c 'echo >go'
	wait_until 10 reaped "$child"
	is_alive "$waiter"
	kill -TERM "$holder"
	assert_ends 143 "$holder"
	assert_ends 0 "$first"
}

@test "a child from before that ends while the library blocks is reaped" {
	local child

	script acquire slow 60000
	with_child "${FAKE[@]}" --connect-timeout 20s job -- true
	wait_until 10 grep -q acquire "$STORE/log"
	timeout 10 sh -c 'echo >go'
	wait_until 10 reaped "$child"
	kill -TERM "$first"
	assert_ends 143 "$first"
}

@test "the number of a child from before does not spare a process of the job" {
	local child thief

	script renew slow 4000 once
	mkfifo go
	bg setpriv --bounding-set -kill --inh-caps -kill sh -c '
	    read -r _ <go &
	    exec "$@" steal $! stolen' sh "$LEASERUN" run "${FAKE[@]}" \
	    -t 60s --owner first job -- "$MEDDLE" 2>first
	first=$!
	wait_until 10 test -s stolen
	thief=$(cat stolen)
	child=$(ps -o pid=,comm= --ppid "$first" |
	    awk '$2 != "leaserun-guard" { print $1 }')
	wait_until 10 called renew first
	# Both within one run of the handler.
	freeze "$first"
	timeout 10 sh -c 'echo >go'
	wait_until 10 state "$child" Z
	kill -KILL "$(guard "$first")"
	kill -CONT "$first"
	wait_until 10 file_has stolen stolen
	wait_until 10 is_gone "$child"
	is_alive "$thief"
	is_alive "$first"
	kill -KILL "$thief"
	assert_ends 70 "$first"
	called release first ok
	wait_until 1 all_gone
}

# --- Thousands ---

# crowd [OPTION]...: 3,000 and some, and 300 generations; the second waits.  With
# a sanitizer in it each takes its time to end.
crowd() {
	first -t 8s "$@" -- every=60000 wide=30 deep=300 ignore
	wait_until 30 eval '[ "$(lines tick)" -ge 3331 ]'
	second
}

@test "thousands of processes, the lease is lost: gone before the next grant" {
	crowd
	script renew lost once
	assert_taken_over 79
	wait_until 1 all_gone
}

@test "thousands of processes, the keeper is killed: gone before the grant" {
	crowd
	kill -KILL "$first"
	assert_taken_over 137
	wait_until 1 all_gone
}

@test "thousands of processes, the guard is killed: gone before the grant" {
	crowd -t 60s
	kill -KILL "$(guard "$first")"
	assert_taken_over 70
	called release first ok
	wait_until 1 all_gone
}

# scheduling PID: its nice value, real-time priority and policy (1 is SCHED_FIFO).
scheduling() {
	cut -d' ' -f19,40,41 "/proc/$1/stat"
}

scheduled() {
	[ "$(scheduling "$1")" = "$2" ]
}

@test "who may have to kill goes first, the job has the priority we came with" {
	local keeper="1 1" guard="2 1"

	chrt -f 2 true || keeper="0 0" guard="0 0"
	bg nice -n 5 "$LEASERUN" run "${FAKE[@]}" -t 60s job -- \
	    "$PROBE" out wide=1 2>first
	first=$!
	wait_until 10 ticking 2
	wait_until 10 scheduled "$first" "5 $keeper"
	wait_until 10 scheduled "$(guard "$first")" "5 $guard"
	for pid in $(awk '$1 == "tick" && !seen[$4]++ { print $4 }' out); do
		assert_equal "$(scheduling "$pid")" "5 0 0"
	done
	kill -TERM "$first"
	assert_ends 143 "$first"
}

# Without the right to go first there is nothing to show.
@test "who is killed is gone before the next grant, however busy all is" {
	local cpu
	local -a hogs=()

	chrt -f 2 true || return 0
	cpu=$(taskset -cp $BASHPID | grep -oE '[0-9]+' | tail -n 1)
	bg taskset -c "$cpu" nice -n 19 "$LEASERUN" run "${FAKE[@]}" \
	    --owner first job -- sh -c 'trap "" TERM
	    echo $$ >pid
	    while :; do :; done' 2>first
	first=$!
	wait_until 20 test -s pid
	bg "$LEASERUN" run "${FAKE[@]}" --owner second --wait 30s job -- \
	    sh -c 'grep "^State:.[^ZX]" "/proc/$(cat pid)/status" >alive; :'
	second=$!
	wait_until 10 called acquire second
	while [ ${#hogs[@]} -lt 3 ]; do
		bg taskset -c "$cpu" nice -n -20 sh -c 'while :; do :; done'
		hogs+=("$!")
	done
	script renew unavailable by first
	assert_ends 79 "$first"
	assert_ends 0 "$second"
	kill "${hogs[@]}"
	assert_equal "$(cat alive)" ""
}

@test "without an expiry nobody goes first before the job has to end" {
	local guard="2 1"

	chrt -f 2 true || guard="0 0"
	bg "$LEASERUN" run -r 100ms -g 10s job -- "$PROBE" out ignore 2>first
	first=$!
	wait_until 10 ticking 1
	assert_equal "$(scheduling "$first")" "0 0 0"
	assert_equal "$(scheduling "$(guard "$first")")" "0 0 0"
	run_tool 0 revoke job
	wait_until 10 file_has out term
	wait_until 10 scheduled "$(guard "$first")" "0 $guard"
	assert_ends 79 "$first"
}

@test "a limit to real-time processes is not used up by ours" {
	nice -n -20 true 2>refused
	[ ! -s refused ] || return 0
	bg prlimit --rttime=200000 "$LEASERUN" run "${FAKE[@]}" -t 60s job -- \
	    "$PROBE" out every=100 2>first
	first=$!
	wait_until 10 ticking 1
	wait_until 10 scheduled "$first" "-20 0 0"
	wait_until 10 scheduled "$(guard "$first")" "-20 0 0"
	kill -TERM "$first"
	assert_ends 143 "$first"
}

@test "a real-time priority that we came with is the job's, ours is higher" {
	chrt -f 7 true || return 0
	bg chrt -f 7 "$LEASERUN" run "${FAKE[@]}" -t 60s job -- \
	    "$PROBE" out every=100 2>first
	first=$!
	wait_until 10 ticking 1
	wait_until 10 scheduled "$first" "0 8 1"
	wait_until 10 scheduled "$(guard "$first")" "0 9 1"
	assert_equal "$(scheduling "$(awk '$1 == "start" { print $4 }' out)")" \
	    "0 7 1"
	kill -TERM "$first"
	assert_ends 143 "$first"
}

# It leaves nothing of the processor to others of its priority.
@test "a real-time job that never rests: renewed, and ended in time" {
	local cpu

	chrt -f 7 true || return 0
	[ "$(nproc)" -gt 1 ] || return 0
	cpu=$(taskset -cp $BASHPID | grep -oE '[0-9]+' | tail -n 1)
	bg taskset -c "$cpu" chrt -f 7 "$LEASERUN" run "${FAKE[@]}" \
	    --owner first job -- sh -c 'echo $$ >pid
	    while :; do :; done' 2>first
	first=$!
	wait_until 20 test -s pid
	wait_until 20 calls_reach renew first ok \
	    $(($(call_count renew first ok) + 3))
	script renew unavailable
	assert_ends 79 "$first"
	is_gone "$(cat pid)"
}

# --- Those who outlive the command ---

@test "leftovers are waited for: the lease is kept, the status is kept" {
	first -v -- ticks=2 exit=11 tree
	wait_until 10 ticking 4
	wait_until 10 file_has out end
	wait_until 10 calls_reach renew first ok 7
	run_tool 75 run "${FAKE[@]}" job -- true
	is_alive "$first"
	awk '$1 == "member" { print $4 }' out | xargs kill -KILL
	assert_ends 11 "$first"
	job_gone ""
}

@test "leftovers are waited for: a line says so after 5 s" {
	first -- ticks=2 exit=12 tree live=600
	wait_until 10 file_has first "has ended, waiting for 3 of its processes"
	file_has out end
	assert_ends 12 "$first"
	assert_equal "$(wc -l <first)" 1
}

@test "leftovers that are waited for get a TERM" {
	first -- ticks=2 exit=13 tree
	wait_until 10 ticking 4
	wait_until 10 file_has out end
	wait_until 10 is_gone "$(awk '$1 == "start" { print $4 }' out)"
	kill -TERM "$first"
	assert_ends 13 "$first"
	job_gone ""
}

@test "leftovers that are waited for are killed when the lease is lost" {
	first -- ticks=2 tree frozen ignore
	wait_until 10 ticking 5
	wait_until 10 file_has out end
	script renew lost
	assert_ends 79 "$first"
	job_gone ""
}

@test "leftovers are killed on request: TERM, grace, KILL, and the status" {
	first -t 60s -g 3s --leftovers kill -- ticks=30 exit=14 tree frozen \
	    ignore
	assert_ends 14 "$first"
	job_gone ""
	# Those who run; the stopped one gets it with the CONT.
	[ "$(lines term)" -ge 3 ]
	called release first ok
	assert_free
}

@test "leftovers that end at the TERM are not waited for" {
	first -g 20s -t 60s --leftovers kill -- ticks=30 exit=15 tree frozen
	wait_until 5 is_gone "$first"
	assert_ends 15 "$first"
	job_gone ""
}

@test "leftovers are left on request: released at once, on the file backend" {
	bg "$LEASERUN" run --leftovers leave job -- \
	    "$PROBE" out ticks=2 exit=16 tree
	wait_until 10 ticking 4
	assert_ends 16 "$!"
	# Although they have inherited the descriptor.
	run_tool 0 run job -- true
	ticking 4
	ticks=$(ticks)
	wait_until 10 ticks_exceed $((ticks + 30))
	! job_gone ""
}

@test "leftovers are left on request: released at once, under a lease" {
	first --leftovers leave -- ticks=2 exit=17 tree
	assert_ends 17 "$first"
	called release first ok
	wait_until 10 ticking 4
	wait_until 10 ticks_exceed $(($(ticks) + 30))
}

@test "leftovers are not left when the run is ended by leaserun" {
	first --leftovers leave --max-run 300ms -- tree
	assert_ends 124 "$first"
	job_gone ""
}

@test "the output of a leftover is not waited for" {
	local text

	mkfifo go
	text=$(timeout 10 "$LEASERUN" run --leftovers leave job -- \
	    sh -c '{ read -r _ <go; } >/dev/null 2>&1 3>&- & echo hi')
	assert_equal "$text" hi
	timeout 10 sh -c 'echo >go'
}

# --- A limit of time ---

@test "max-run: TERM, 124, whatever the command's status" {
	first -t 60s -g 3s --max-run 200ms -- cleanup=1
	assert_ends 124 "$first"
	assert_equal "$(lines term)" 1
	assert_equal "$(lines end)" 1
	called release first ok
}

@test "max-run: who ignores TERM is killed after the grace" {
	first -t 60s -g 3s --max-run 200ms -- tree frozen ignore
	assert_ends 124 "$first"
	job_gone ""
	[ "$(lines term)" -ge 4 ]
	called release first ok
	assert_free
}

@test "max-run: leftovers are waited for no longer" {
	first --max-run 300ms -- ticks=2 tree ignore
	assert_ends 124 "$first"
	job_gone ""
}

@test "max-run: a command that ends in time is none of its business" {
	first --max-run 20s -- ticks=2 exit=18
	assert_ends 18 "$first"
}

@test "max-run: not counted while waiting" {
	first -- ticks=350
	wait_until 10 ticking 1
	bg "$LEASERUN" run "${FAKE[@]}" --wait 20s --max-run 3s job -- \
	    "$PROBE" out ticks=2
	assert_ends 0 "$!"
}

@test "max-run: an outage is the graver reason, and puts nothing off" {
	script renew unavailable
	# TERM after 5 s, KILL after 9; the lease has its TERM in between.
	first -g 4s -t 12s -r 500ms --max-run 5s -- ignore
	assert_ends 79 "$first"
	assert_equal "$(lines term)" 1
	assert_contains "$(cat first)" "longer than --max-run"
	assert_contains "$(cat first)" "could not be renewed in time"
}

@test "max-run: a lost lease is the graver reason" {
	first -g 1s -t 4s --max-run 200ms -- ignore
	wait_until 10 terms 1
	script renew lost
	assert_ends 79 "$first"
}

# --- How the command ends ---

@test "every exit status is the command's" {
	local -i status code

	for ((status = 0; status < 256; status++)); do
		code=0
		timeout 20 "$LEASERUN" run job -- sh -c "exit $status" ||
		    code=$?
		assert_equal "$code" "$status" || return
	done
}

@test "a command that dies of a signal: leaserun dies of it, without a core" {
	local signo

	ulimit -S -c unlimited || ulimit -S -c "$(ulimit -H -c)"
	for signo in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 24 25 26 27 29 \
	    30 31 34 64; do
		rm -f status
		timeout 20 "$STARTWITH" -d $signo -w status "$LEASERUN" run \
		    job -- sh -c "ulimit -c 0; kill -$signo \$\$"
		assert_equal "$(cat status)" "killed $signo"
	done
	run_tool 0 run job -- true
}

# not_run RC COMMAND: in one line that names it, and the lease is free again.
not_run() {
	rm -f "$STORE/log"
	run_tool "$1" run "${FAKE[@]}" --owner first job -- "$2" x
	assert_contains "$stderr" "'$2'"
	assert_equal "$(wc -l <stderr)" 1
	called release first ok
	wait_until 1 all_gone
	assert_free
}

@test "a command that cannot be found: 127, released at once" {
	ln -s nowhere dangling
	not_run 127 ./nowhere
	not_run 127 nowhere-at-all
	not_run 127 ./dangling
}

@test "a command that cannot be executed: 126, released at once" {
	printf '#!/bin/sh\n' >plain
	printf '#!/nowhere\n' >badinterpreter
	chmod 644 plain
	chmod 755 badinterpreter
	not_run 126 ./plain
	not_run 126 ./store
	not_run 126 ./plain/x
	not_run 126 ./badinterpreter
	PATH=$PWD:$PATH run_tool 127 run "${FAKE[@]}" job badinterpreter
	assert_contains "$stderr" "or its interpreter is missing"
}

@test "a text without an interpreter is one for the shell, as for execvp" {
	printf 'exit 21\n' >text
	chmod 755 text
	run_tool 21 run job -- ./text
}

@test "arguments that are too long with our variables: 126 and the cause" {
	local low=0 high=131000 pad text status=0
	local -a many=()

	text=$(printf "%0${high}d" 0)
	while timeout 10 true "${many[@]}" "$text" 2>/dev/null; do
		many+=("$text")
	done
	# The longest that leaserun itself can still be started with.
	while ((high - low > 1)); do
		pad=$(((low + high) / 2))
		timeout 10 "$LEASERUN" run --help job -- true "${many[@]}" \
		    "${text:0:pad}" >/dev/null 2>&1 && low=$pad || high=$pad
	done
	timeout 10 "$LEASERUN" run job -- true "${many[@]}" "${text:0:low}" \
	    2>stderr || status=$?
	cut -c 1-200 stderr
	assert_equal $status 126
	file_has stderr "cannot run 'true': Argument list too long"
	run_tool 0 run job -- true
}

@test "a string that is too long only with our variables: 126 and the cause" {
	local status=0

	# LEASERUN_CHAIN grows with every run; one string may have 128 KiB.
	export LEASERUN_CHAIN
	LEASERUN_CHAIN=$(printf '%0131050d' 0)
	timeout 10 "$LEASERUN" run job -- true 2>stderr || status=$?
	assert_equal $status 126
	file_has stderr "cannot run 'true': Argument list too long"
	unset LEASERUN_CHAIN
	run_tool 0 run job -- true
}

@test "a process that cannot be made: 70, released at once" {
	local uid=$((60000 + $$ % 5000)) n code
	local -a run

	no_sanitizer
	elsewhere
	mkdir "$away/state"
	chown $uid "$away/state"
	run=("$away/leaserun" run -b "file:$away/state" job -- true)
	# The keeper and the guard; then the keeper alone.
	for n in 2 1; do
		code=0
		timeout 20 setpriv --reuid $uid --clear-groups \
		    prlimit --nproc=$n "${run[@]}" 2>stderr || code=$?
		cat stderr
		assert_equal "$code" 70
		file_has stderr "cannot start"
		file_has stderr "raise the limits of processes (ulimit -u,"
		timeout 20 setpriv --reuid $uid --clear-groups "${run[@]}"
	done
	# Under a filter, which is tried; there is somebody's child already.
	mkfifo "$away/end"
	exec 6<>"$away/end"
	cp "$STARTWITH" "$away/startwith"
	code=0
	timeout 20 setpriv --reuid $uid --clear-groups prlimit --nproc=2 \
	    "$away/startwith" -r kill -p "$away/end" "${run[@]}" 2>stderr 3>&- \
	    6>&- || code=$?
	exec 6>&-
	cat stderr
	assert_equal "$code" 70
}
