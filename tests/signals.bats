# Signals to the keeper: each reaches the job once; and whatever comes at
# whatever moment, nothing is left behind.

load helpers
load jobs

# recorded [CHILDREN]: a command that notes its signals, $first; not on a
# terminal, so that its group is its own.
recorded() {
	: >got
	bg "$STARTWITH" -s "$LEASERUN" run "${FAKE[@]}" --owner first job -- \
	    "$SIGRECORD" got "${1:-0}"
	first=$!
	wait_until 10 ready $((${1:-0} + 1))
	command=$(ps -o pid= --ppid "$(guard "$first")")
	command=$((command))
}

ready() {
	[ "$(grep -c ready got)" -eq "$1" ]
}

# count SIGNAL [PID]: how often it has come.
count() {
	grep -c "^$1 ${2:-}" got || :
}

come() {
	[ "$(count "$1")" -ge "${2:-1}" ]
}

# Every signal that a process may handle, but CHLD, TTOU and those that tell of
# a crash; 32 and 33 are the C library's.
relayed() {
	echo 1 2 3 6 10 12 13 14 15 16 18 20 21 23 24 25 26 27 28 29 30 \
	    {34..64}
}

@test "each signal reaches the command once" {
	local signo

	recorded
	for signo in $(relayed); do
		kill -$signo "$first"
		wait_until 10 come $signo
	done
	# Nothing more comes after that; TERM came with a CONT.
	kill -USR1 "$first"
	wait_until 10 come 10 2
	for signo in $(relayed); do
		case $signo in
		10 | 18) assert_equal "$signo $(count $signo)" "$signo 2" ;;
		*) assert_equal "$signo $(count $signo)" "$signo 1" ;;
		esac
	done
	assert_equal "$(count 17) $(count 22)" "0 0"
	kill -KILL "$command"
	assert_ends 137 "$first"
}

@test "INT, QUIT and TERM reach every process once, others the command alone" {
	local signo pid

	recorded 4
	for signo in 2 3 15; do
		kill -$signo "$first"
		wait_until 10 come $signo 5
	done
	for signo in 1 10 12 28; do
		kill -$signo "$first"
		wait_until 10 come $signo
	done
	kill -TERM "$first"
	wait_until 10 come 15 10
	for pid in $(awk '$1 == "ready" { print $2 }' got); do
		assert_equal "$(count 2 "$pid") $(count 3 "$pid") $(
		    )$(count 15 "$pid")" "1 1 2"
	done
	for signo in 1 10 12 28; do
		assert_equal "$(count $signo) $(count $signo "$command")" "1 1"
	done
	awk '$1 == "ready" { print $2 }' got | xargs kill -KILL
	assert_ends 137 "$first"
}

@test "TERM comes with a CONT" {
	recorded 1
	kill -TERM "$first"
	wait_until 10 come 15 2
	wait_until 10 come 18 2
	awk '$1 == "ready" { print $2 }' got | xargs kill -KILL
	assert_ends 137 "$first"
}

@test "signals come while the store's library blocks" {
	recorded
	script renew slow 60000
	wait_until 10 called renew first
	kill -USR1 "$first"
	wait_until 1 come 10
	kill -TERM "$first"
	wait_until 1 come 15
	kill -KILL "$command"
	wait_until 1 is_gone "$command"
}

# Until it is gone.
keep_signalling() {
	while kill -USR1 "$1" 2>/dev/null; do
		sleep 0.01
	done
}

@test "signals that come all the time do not keep the lease from renewal" {
	recorded
	script renew wait 150
	keep_signalling "$first" 3>&- &
	bg_pids+=("$!")
	wait_until 10 come 10
	wait_until 30 calls_reach renew first ok 5
	kill -KILL "$command"
	assert_ends 137 "$first"
}

@test "a signal for the keeper's group comes once" {
	recorded
	# Its group is $first, and the command has its own.
	kill -USR2 -- "-$first"
	wait_until 10 come 12
	kill -HUP -- "-$first"
	wait_until 10 come 1
	kill -USR1 "$first"
	wait_until 10 come 10
	assert_equal "$(count 12) $(count 1)" "1 1"
	kill -KILL "$command"
	assert_ends 137 "$first"
}

@test "KILL for the keeper's group leaves a guard that ends the job" {
	local guard

	bg "$STARTWITH" -s "$LEASERUN" run "${FAKE[@]}" --owner first job -- \
	    "$PROBE" out tree ignore
	first=$!
	wait_until 10 ticking 4
	guard=$(guard "$first")
	kill -KILL -- "-$first"
	assert_ends 137 "$first"
	wait_until 10 is_gone "$guard"
	job_gone ""
}

@test "every terminating signal ends run and job, and leaves nothing" {
	local signo name

	for signo in 1 2 3 6 10 12 13 14 15 16 24 25 26 27 29 30 34 64; do
		name=$signo
		rm -f out status "$STORE/log"
		bg "$STARTWITH" -s -d $signo -w status "$LEASERUN" run \
		    "${FAKE[@]}" --owner first job -- "$PROBE" out
		wait_until 10 file_has out tick
		kill -$signo "$(cat status.pid)"
		wait_until 10 test -s status
		assert_equal "$(cat status)" "killed $name"
		called release first ok
	done
	wait_until 5 all_gone
}

@test "a signal that tells of a crash: the guard ends the job" {
	local signo guard

	no_sanitizer
	for signo in 4 5 7 8 11 31 32 33; do
		rm -f out
		# What make starts ignores 32 and 33.
		bg "$STARTWITH" -d $signo "$LEASERUN" run job -- "$PROBE" out tree
		first=$!
		wait_until 10 file_has out tick
		guard=$(guard "$first")
		kill -$signo "$first"
		assert_ends $((128 + signo)) "$first"
		wait_until 10 is_gone "$guard"
		job_gone ""
	done
}

@test "the last real-time signal is passed on even if it was ignored" {
	: >got
	bg "$STARTWITH" -s -i 64 "$LEASERUN" run job -- "$SIGRECORD" got
	first=$!
	wait_until 10 ready 1
	kill -64 "$first"
	wait_until 10 come 64
	kill -TERM "$first"
	wait_until 10 come 15
	awk '$1 == "ready" { print $2 }' got | xargs kill -KILL
	assert_ends 137 "$first"
}

@test "TERM from outside does not escalate, the lease is renewed" {
	first -- cleanup=3000 tree
	wait_until 10 ticking 4
	kill -TERM "$first"
	wait_until 10 calls_reach renew first ok \
	    $(($(call_count renew first ok) + 6))
	assert_ends 0 "$first"
	assert_equal "$(lines term)" 4
	called release first ok
}

@test "a second TERM is passed on like the first" {
	first -- cleanup=1500
	wait_until 10 ticking 1
	kill -TERM "$first"
	wait_until 10 eval '[ "$(lines term)" -ge 1 ]'
	kill -TERM "$first"
	wait_until 10 eval '[ "$(lines term)" -ge 2 ]'
	assert_ends 0 "$first"
	assert_equal "$(lines term)" 2
}

@test "TERM: the last sign of life comes before the next grant" {
	first -- cleanup=500 tree
	wait_until 10 ticking 4
	second
	kill -TERM "$first"
	assert_ends 0 "$first"
	assert_ends 0 "$second"
	assert_order
	job_gone ""
}

@test "TERM and the loss of the lease: the loss decides" {
	first -- tree ignore
	wait_until 10 ticking 4
	kill -TERM "$first"
	wait_until 10 eval '[ "$(lines term)" -ge 4 ]'
	script renew lost
	assert_ends 79 "$first"
	job_gone ""
}

@test "a command that is gone already when the signal comes: no matter" {
	script release slow 500
	first -- ticks=2 exit=3
	wait_until 10 called release first
	kill -TERM "$first"
	kill -HUP "$first"
	assert_ends 3 "$first"
	called release first ok
}

@test "a terminating signal while waiting: 128 + N, nothing is held" {
	local signo

	first -- tree
	wait_until 10 ticking 4
	for signo in 1 2 3 10 14 15 24; do
		bg "$LEASERUN" run "${FAKE[@]}" --owner "w$signo" --wait inf \
		    job -- "$PROBE" out
		wait_until 10 called acquire "w$signo"
		kill -$signo "$!"
		assert_ends $((128 + signo)) "$!"
	done
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_equal "$(lines start)" 1
	assert_free
}

@test "a terminating signal while waiting, on the file backend" {
	local waiter guard

	bg "$LEASERUN" run job -- "$PROBE" out tree
	first=$!
	wait_until 10 ticking 4
	bg "$LEASERUN" run --wait inf job -- "$PROBE" out
	waiter=$!
	wait_until 10 has_guard "$waiter"
	guard=$(guard "$waiter")
	kill -TERM "$waiter"
	assert_ends 143 "$waiter"
	is_gone "$guard"
	kill -TERM "$first"
	assert_ends 143 "$first"
	wait_until 1 all_gone
	run_tool 0 run job -- true
	assert_equal "$(lines start)" 1
}

@test "a signal that terminates nobody does not end a wait" {
	local signo

	first -- cleanup=1
	wait_until 10 ticking 1
	second
	for signo in 18 22 23 28; do
		kill -$signo "$second"
	done
	kill -TERM "$first"
	assert_ends 0 "$first"
	assert_ends 0 "$second"
	assert_order
}

@test "TERM between grant and start: 143, not started, released at once" {
	script acquire slow-answer 300 once
	first -- ticks=1
	wait_until 10 test -s "$STORE/job.state"
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_equal "$(lines start)" 0
	assert_free
}

@test "TERM between grant and start, the answer is too late: 143" {
	script acquire slow-answer 60000 once
	first -- ticks=1
	wait_until 10 test -s "$STORE/job.state"
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_equal "$(lines start)" 0
	wait_until 1 all_gone
}

# A grant so late that the lease has to be renewed first.
@test "TERM in a renewal before the start, the release hangs: 143" {
	script acquire slow-answer 2500 once
	script renew hang-interruptible
	script release hang
	first -t 4s -r 1300ms -g 500ms -- ticks=1
	wait_until 10 called renew first
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_equal "$(lines start)" 0
	wait_until 1 all_gone
}

# --- At any moment ---

: "${HAMMER_ROUNDS:=600}" "${HAMMER_SECONDS:=20}"

# hammer HARM [OPTION]...: at most so long, and until every process is gone each
# time.
hammer() {
	local harm=$1

	shift
	timeout -s KILL 110 "$HAMMER" "$harm" "$HAMMER_ROUNDS" \
	    "$HAMMER_SECONDS" out state/job.lock "$LEASERUN" run -g 100ms \
	    "$@" job -- "$PROBE" out ticks=2 every=2 tree live=2
}

@test "TERM to the keeper at any moment: not started, ended, or too late" {
	hammer term
}

@test "TERM to the keeper at any moment: what was granted is released" {
	HAMMER_ROUNDS=$((HAMMER_ROUNDS / 4))
	hammer term "${FAKE[@]}"
	awk '$5 != "ok" { next }
	    $2 == "acquire" { n++; held[$4] = 1 }
	    $2 == "release" || $2 == "abandon" { delete held[$4] }
	    END { for (owner in held) { print owner; bad = 1 }
	    exit bad || n < 10 }' "$STORE/log"
	assert_free
}

@test "KILL to the keeper at any moment: nothing of the job is left" {
	HAMMER_ROUNDS=$((HAMMER_ROUNDS / 2))
	hammer kill
}

@test "KILL to the guard at any moment: nothing of the job is left" {
	HAMMER_ROUNDS=$((HAMMER_ROUNDS / 2))
	hammer kill-guard
}

@test "STOP and CONT to the keeper at any moment: no matter" {
	HAMMER_ROUNDS=$((HAMMER_ROUNDS / 6))
	hammer stop
}

@test "STOP and CONT to the guard at any moment: no matter" {
	HAMMER_ROUNDS=$((HAMMER_ROUNDS / 6))
	hammer stop-guard
}
