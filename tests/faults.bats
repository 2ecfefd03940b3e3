# Any one fault at any stage: what the fault table of the design promises.  The
# job is gone before the store can grant the lease again, which is shown by the
# order of the job's last sign of life and of the next grant.

load helpers
load jobs

# With time for everybody to note the TERM, however busy the machine is.
PATIENT=(-t 4s -g 2s)

# first_runs [OPTION]...: the first runs with a whole tree that ignores TERM,
# and the second waits.
first_runs() {
	first "$@" -- tree frozen ignore
	wait_until 10 ticking 5
	second
}

# --- The keeper is killed ---

@test "keeper killed while it waits: nothing of it is left, nothing is run" {
	local guard

	first -- tree
	wait_until 10 ticking 4
	second
	guard=$(guard "$second")
	kill -KILL "$second"
	assert_ends 137 "$second"
	wait_until 10 is_gone "$guard"
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_free
	assert_equal "$(lines start)" 1
}

@test "keeper killed between grant and start: nothing is run" {
	local guard

	script acquire slow-answer 60000 once
	first -- tree
	wait_until 10 test -s "$STORE/job.state"
	guard=$(guard "$first")
	second
	kill -KILL "$first"
	assert_ends 137 "$first"
	wait_until 10 is_gone "$guard"
	assert_ends 0 "$second"
	assert_order 1
}

@test "keeper killed while the job runs: gone before the next grant" {
	first_runs "${PATIENT[@]}"
	kill -KILL "$first"
	assert_taken_over 137
	[ "$(lines term)" -ge 4 ]
}

@test "keeper frozen while the job ends, and past the lease: says so" {
	first --events e -- ticks=50
	wait_until 10 ticking 1
	kill -STOP "$first"
	second
	assert_ends 0 "$second"
	kill -CONT "$first"
	assert_ends 0 "$first"
	file_has first "was not released: it ran out before"
	file_has e '"event":"release_failed"'
	assert_order
}

@test "keeper killed: TERM at once, KILL after the grace" {
	local guard

	first -t 60s -g 3s -- tree ignore
	wait_until 10 ticking 4
	guard=$(guard "$first")
	kill -KILL "$first"
	assert_ends 137 "$first"
	# Not as late as the lease would allow.
	wait_until 20 is_gone "$guard"
	job_gone ""
	[ "$(lines term)" -ge 4 ]
}

@test "keeper killed, the job ends at TERM: the guard leaves with it" {
	local guard

	first -t 60s -g 25s -- tree cleanup=100
	wait_until 10 ticking 4
	guard=$(guard "$first")
	kill -KILL "$first"
	assert_ends 137 "$first"
	wait_until 10 is_gone "$guard"
	job_gone ""
	assert_equal "$(lines end)" 1
}

@test "keeper killed while it releases: the job is over, the next is granted" {
	script release hang
	first -- ticks=2
	wait_until 10 called release first
	second
	unscript release
	kill -KILL "$first"
	assert_taken_over 137
}

@test "keeper killed on the file backend: the lock lasts as long as the job" {
	local file=("$LEASERUN" run -g 300ms --wait 30s job -- "$PROBE" out)

	bg "${file[@]}" tree frozen ignore
	first=$!
	wait_until 10 ticking 5
	bg "${file[@]}" ticks=3
	second=$!
	wait_until 10 has_guard "$second"
	kill -KILL "$first"
	assert_taken_over 137
}

# The command dies with the guard.
command_gone() {
	is_gone "$(awk '$1 == "start" { print $4 }' out)"
}

@test "one of keeper and guard lives on the file backend: not orphaned" {
	local guard

	bg "$LEASERUN" run -g 10s job -- "$PROBE" out tree ignore
	first=$!
	wait_until 10 ticking 4
	guard=$(guard "$first")
	run_tool 0 status --json job
	assert_contains "$stdout" '"orphaned": false'
	freeze "$guard"
	kill -KILL "$first"
	assert_ends 137 "$first"
	# The guard will end the job, if nobody else does.
	run_tool 0 status --json job
	assert_contains "$stdout" '"orphaned": false'
	assert_contains "$stdout" '"state": "held"'
	kill -CONT "$guard"
	wait_until 20 is_gone "$guard"
	run_tool 0 status --json job
	assert_contains "$stdout" '"orphaned": false'
	assert_contains "$stdout" '"unclean_end": true'
}

@test "keeper and guard killed on the file backend: the job keeps the lock" {
	local file=("$LEASERUN" run --wait 30s job -- "$PROBE" out)
	local guard pid name how

	bg "${file[@]}" tree
	first=$!
	wait_until 10 ticking 4
	guard=$(guard "$first")
	# A keeper that is frozen does not see the guard's end.
	freeze "$first"
	kill -KILL "$guard"
	kill -KILL "$first"
	assert_ends 137 "$first"
	run_tool 75 run job -- true
	wait_until 10 command_gone
	for name in "" job; do
		run_tool 0 status $name
		assert_matches "$stdout" "job +orphaned +"
		run_tool 0 status --json $name
		assert_contains "$stdout" '"orphaned": true'
		assert_contains "$stdout" '"state": "held"'
	done
	for how in "" --force; do
		run_tool 78 revoke $how job
		for pid in $(awk '$1 == "member" { print $4 }' out); do
			assert_matches "$stderr" "[ ,]${pid}[,; ]"
		done
	done
	assert_contains "$stderr" "nobody is there to be asked"
	bg "${file[@]}" ticks=3
	second=$!
	status_says() {
		"$LEASERUN" status | grep -q "job  *orphaned, 1 waiting "
	}
	wait_until 20 status_says
	for pid in $(awk '$1 == "member" { print $4 }' out); do
		is_alive "$pid"
		kill -KILL "$pid"
	done
	assert_ends 0 "$second"
	assert_order
}

# --- The guard is killed ---

@test "guard killed while the keeper waits: 70, nothing is run" {
	first -- tree
	wait_until 10 ticking 4
	second
	kill -KILL "$(guard "$second")"
	assert_ends 70 "$second"
	assert_contains "$(cat second)" "guard is gone"
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_free
	assert_equal "$(lines start)" 1
}

@test "guard killed between grant and start: 70, released at once" {
	script acquire slow-answer 500 once
	first -- tree
	wait_until 10 test -s "$STORE/job.state"
	kill -KILL "$(guard "$first")"
	assert_ends 70 "$first"
	assert_free
	assert_equal "$(lines start)" 0
	assert_equal "$(cat first | wc -l)" 1
}

@test "guard killed while the job runs: 70, released when the job is gone" {
	first_runs
	kill -KILL "$(guard "$first")"
	assert_taken_over 70
	called release first ok
	assert_equal "$(lines term)" 0
}

@test "guard killed while the store's library blocks: the job is gone at once" {
	first -t 60s -- tree frozen ignore
	wait_until 10 ticking 5
	script renew hang
	wait_until 10 called renew first
	kill -KILL "$(guard "$first")"
	# Not as late as the lease would allow.
	wait_until 20 job_gone ""
}

@test "guard killed while the store's library blocks: the keeper leaves" {
	local code=0

	first_runs
	script renew hang by first
	wait_until 10 called renew first
	kill -KILL "$(guard "$first")"
	assert_ends 0 "$second"
	assert_order
	wait_until 20 is_gone "$first"
	# Both are true.
	wait "$first" || code=$?
	[ $code -eq 70 ] || [ $code -eq 79 ]
}

@test "guard killed while leftovers stay and the lease is released: no matter" {
	script release slow 600
	first --leftovers leave -- ticks=2 exit=3 tree
	wait_until 10 called release first
	kill -KILL "$(guard "$first")"
	assert_ends 3 "$first"
	called release first ok
	assert_free
}

# --- The keeper is frozen ---

@test "keeper frozen while it waits: it goes on when it is continued" {
	first -- cleanup=1
	wait_until 10 ticking 1
	second
	freeze "$second"
	kill -TERM "$first"
	assert_ends 0 "$first"
	kill -CONT "$second"
	assert_ends 0 "$second"
	assert_order
}

@test "keeper frozen between grant and start for too long: nothing is run" {
	script acquire slow-answer 1500 once
	first -t 5s -- tree
	wait_until 10 test -s "$STORE/job.state"
	freeze "$first"
	second
	assert_ends 0 "$second"
	kill -CONT "$first"
	assert_ends 69 "$first"
	assert_order 1
	assert_contains "$(cat first)" "before the command was started"
}

@test "keeper frozen between grant and start, but not for long: it is run" {
	script acquire slow-answer 1500 once
	first -t 5s -- ticks=3
	wait_until 10 test -s "$STORE/job.state"
	freeze "$first"
	kill -CONT "$first"
	assert_ends 0 "$first"
	assert_order 1
}

@test "keeper frozen while the job runs: the guard ends the job in time" {
	first_runs "${PATIENT[@]}"
	freeze "$first"
	assert_ends 0 "$second"
	assert_order
	job_gone ""
	[ "$(lines term)" -ge 4 ]
	kill -CONT "$first"
	assert_ends 79 "$first"
}

@test "keeper frozen, killed when its lease is over: nothing is left" {
	local guard

	first_runs
	guard=$(guard "$first")
	freeze "$first"
	assert_ends 0 "$second"
	kill -KILL "$first"
	assert_ends 137 "$first"
	is_gone "$guard"
	assert_order
}

@test "keeper frozen while it releases: the next holder keeps its lease" {
	local code=0

	script release slow 1500 once
	first -- ticks=2
	wait_until 10 called release first
	freeze "$first"
	bg "$LEASERUN" run "${FAKE[@]}" --owner second --wait 30s job -- \
	    "$PROBE" out cleanup=1
	second=$!
	wait_until 10 called acquire second ok
	kill -CONT "$first"
	wait_until 20 is_gone "$first"
	# Its time to release is over, or it finds that there is nothing.
	wait "$first" || code=$?
	[ $code -eq 0 ] || [ $code -eq 79 ]
	run_tool 75 run "${FAKE[@]}" job -- true
	wait_until 10 ticking 2
	kill -TERM "$second"
	assert_ends 0 "$second"
	assert_order
}

@test "keeper frozen on the file backend: nothing is lost" {
	local file=("$LEASERUN" run -t 2s -g 300ms -r 400ms job -- "$PROBE" out)

	bg "${file[@]}" ticks=300
	first=$!
	wait_until 10 ticking 1
	freeze "$first"
	wait_until 20 file_has out end
	run_tool 75 run job -- true
	kill -CONT "$first"
	assert_ends 0 "$first"
	assert_equal "$(lines tick)" 300
	run_tool 0 run job -- true
}

# --- The guard is frozen ---

@test "guard frozen while the keeper waits: the job starts when it goes on" {
	local guard

	first -- cleanup=1
	wait_until 10 ticking 1
	second
	guard=$(guard "$second")
	freeze "$guard"
	kill -TERM "$first"
	assert_ends 0 "$first"
	wait_until 10 calls_reach renew second ok 6
	assert_equal "$(lines start)" 1
	kill -CONT "$guard"
	assert_ends 0 "$second"
	assert_order
}

@test "guard frozen on the way to the start, too late: nothing is run" {
	local guard late

	first -- cleanup=1
	wait_until 10 ticking 1
	second -t 24s -g 14s -r 2s
	guard=$(guard "$second")
	freeze "$guard"
	kill -TERM "$first"
	assert_ends 0 "$first"
	wait_until 30 calls_reach acquire second ok 1
	script renew unavailable
	# After the time for TERM, long before that for KILL.
	late=$(awk '$4 ~ /^second/ && $5 == "ok" { at = $1 }
		END { print at + 10500000000 }' "$STORE/log")
	wait_until 30 uptime_exceeds "$late"
	kill -CONT "$guard"
	assert_ends 69 "$second"
	file_has second "too little of the lease was left"
	assert_equal "$(lines start)" 1
}

@test "guard frozen while the keeper renews: the job lives" {
	local guard

	first -- ticks=500 tree live=500
	wait_until 10 ticking 4
	guard=$(guard "$first")
	freeze "$guard"
	wait_until 20 calls_reach renew first ok 8
	is_alive "$first"
	ticking 4
	kill -CONT "$guard"
	assert_ends 0 "$first"
	assert_equal "$(lines tick)" 2000
}

@test "guard frozen, then the lease is lost: the keeper kills guard and job" {
	local guard

	first -t 60s -- tree frozen ignore
	wait_until 10 ticking 5
	guard=$(guard "$first")
	freeze "$guard"
	script renew lost
	# Not as late as the lease would allow.
	assert_ends 79 "$first"
	is_gone "$guard"
	job_gone ""
	assert_equal "$(lines term)" 0
}

@test "guard frozen, then the lease is lost: gone before the next grant" {
	first_runs
	freeze "$(guard "$first")"
	script renew lost once
	assert_taken_over 79
}

@test "guard frozen in an outage: the keeper kills both when kill_at comes" {
	first_runs
	freeze "$(guard "$first")"
	script renew unavailable by first
	wait_until 10 called renew first unavailable
	assert_taken_over 79
}

# Whoever has not the right to go first cannot keep up with many.
@test "guard frozen in an outage, the job forks for ever: gone before" {
	local -i chains=6

	[ "$(id -u)" -eq 0 ] || chains=1
	bg "$LEASERUN" run "${FAKE[@]}" -t 5s -r 1s --owner first job -- \
	    sh -c 'while [ $3 -lt $2 ]; do
		"$0" "$1" chain pause=1 &
		set -- "$1" "$2" $(($3 + 1))
	    done; wait' "$PROBE" out $chains 0 2>first
	first=$!
	wait_until 20 ticking $((chains * 3))
	second
	freeze "$(guard "$first")"
	script renew unavailable by first
	assert_ends 79 "$first"
	assert_ends 0 "$second"
	assert_order $((chains + 1))
}

@test "guard frozen when it has begun to kill: gone before the next grant" {
	first_runs
	bg "$MEDDLE" snare "$(guard "$first")" caught
	wait_until 10 test -s caught
	script renew unavailable by first
	assert_taken_over 79
	file_has caught caught
}

@test "guard frozen while the store's library hangs: killed all the same" {
	first_runs
	freeze "$(guard "$first")"
	script renew hang by first
	assert_taken_over 79
}

@test "guard frozen when the job has ended: noticed when it goes on" {
	local guard

	first -- ticks=20 exit=4
	wait_until 10 ticking 1
	guard=$(guard "$first")
	freeze "$guard"
	wait_until 10 file_has out end
	wait_until 10 calls_reach renew first ok 2
	kill -CONT "$guard"
	assert_ends 4 "$first"
	assert_free
}

@test "guard frozen, then the keeper killed: the job ends at the thaw" {
	local guard

	first -- tree ignore
	wait_until 10 ticking 4
	guard=$(guard "$first")
	freeze "$guard"
	kill -KILL "$first"
	assert_ends 137 "$first"
	kill -CONT "$guard"
	wait_until 10 is_gone "$guard"
	job_gone ""
}

# --- Both are frozen ---

# both_frozen: until another has the lease.
both_frozen() {
	first_runs
	guard=$(guard "$first")
	freeze "$first"
	freeze "$guard"
	assert_ends 0 "$second"
	[ "$(token 2)" -gt "$(token 1)" ]
	is_alive "$first"
}

@test "both frozen, then the guard goes on: the job is killed at once" {
	local guard

	both_frozen
	kill -CONT "$guard"
	wait_until 10 job_gone "$(token 1)"
	assert_equal "$(lines term)" 0
	kill -CONT "$first"
	assert_ends 79 "$first"
}

@test "both frozen, then the keeper goes on: the job is killed at once" {
	local guard

	both_frozen
	kill -CONT "$first"
	assert_ends 79 "$first"
	job_gone ""
	is_gone "$guard"
	assert_equal "$(lines term)" 0
}

@test "both frozen and continued in time: the job lives" {
	local guard

	first -- ticks=200
	wait_until 10 ticking 1
	guard=$(guard "$first")
	wait_until 10 calls_reach renew first ok 1
	freeze "$first"
	freeze "$guard"
	kill -CONT "$guard" "$first"
	assert_ends 0 "$first"
	assert_equal "$(lines tick)" 200
}

# --- The store cannot be reached, or hangs ---

@test "store unreachable at the start: 69, nothing is run" {
	script acquire unavailable
	run_tool 69 run "${FAKE[@]}" --connect-timeout 300ms job -- \
	    "$PROBE" out ticks=1
	[ -n "$stderr" ]
	assert_equal "$(lines start)" 0
	# At most every 50 ms, and less and less often.
	[ "$(wc -l <"$STORE/log")" -le 20 ]
	run_tool 69 run "${FAKE[@]}" --connect-timeout 300ms --wait 20s job -- \
	    "$PROBE" out ticks=1
	assert_equal "$(lines start)" 0
}

@test "store unreachable while the job runs: TERM, KILL, 79" {
	first_runs "${PATIENT[@]}"
	script renew unavailable by first
	assert_taken_over 79
	[ "$(lines term)" -ge 4 ]
	file_has first "cannot renew"
	file_has first "SIGTERM to all: the lease could not be renewed in time"
	file_has first "SIGKILL to all: the lease could not be renewed in time"
}

@test "store unreachable, the job ends at TERM: 79, even if it succeeds" {
	first -t 8s -g 3s -- cleanup=50
	wait_until 10 ticking 1
	script renew unavailable
	assert_ends 79 "$first"
	assert_equal "$(lines end)" 1
	assert_lacks "$(cat first)" SIGKILL
}

@test "store unreachable when the command ends: its status, a warning" {
	script release unavailable
	first -- ticks=2 exit=6
	assert_ends 6 "$first"
	file_has first "could not be released"
}

@test "store unreachable for 60 % of the lease: the job lives, two warnings" {
	local ends

	first -t 10s -- cleanup=1
	wait_until 10 calls_reach renew first ok 1
	script renew unavailable
	ends=$(awk '$2 == "renew" && $5 == "ok" { at = $1 }
	    END { printf "%.0f\n", at + 0.6 * 10e9 }' "$STORE/log")
	wait_until 10 uptime_exceeds "$ends"
	unscript renew
	wait_until 10 calls_reach renew first ok 4
	kill -TERM "$first"
	assert_ends 0 "$first"
	assert_equal "$(grep -c "cannot renew" first)" 1
	assert_equal "$(grep -c "renewed again" first)" 1
	[ "$(call_count renew first unavailable)" -ge 4 ]
}

@test "store hangs in a renewal: the guard ends the job, the keeper leaves" {
	first_runs "${PATIENT[@]}"
	script renew hang by first
	assert_taken_over 79
	[ "$(lines term)" -ge 4 ]
}

@test "store spins in a renewal: the guard ends the job, the keeper leaves" {
	first_runs
	script renew spin by first
	assert_taken_over 79
}

@test "store spins in a renewal, on the only processor: the same" {
	taskset -cp "$(taskset -cp $BASHPID | grep -oE '[0-9]+' | tail -n 1)" \
	    $BASHPID
	first_runs
	script renew spin by first
	assert_taken_over 79
}

@test "store hangs in a renewal when the command ends: its status" {
	first -t 60s -- ticks=60 exit=9
	script renew hang
	wait_until 10 called renew first
	wait_until 10 file_has out end
	assert_ends 9 "$first"
}

@test "store hangs in a renewal: a TERM reaches the job" {
	first -- tree cleanup=1 ignore live=100
	wait_until 10 ticking 4
	script renew hang once
	wait_until 10 test -e "$STORE/script.renew.done"
	kill -TERM "$first"
	wait_until 10 file_has out end
	assert_equal "$(lines term)" 4
}

@test "store hangs while it is opened: 69 within bounds" {
	script open hang
	run_tool 69 run "${FAKE[@]}" --connect-timeout 300ms job -- \
	    "$PROBE" out ticks=1
	assert_equal "$(lines start)" 0
}

@test "store hangs while it is opened: TERM ends it" {
	script open hang
	first --connect-timeout 20s -- ticks=1
	wait_until 10 grep -q ' open ' "$STORE/log"
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_equal "$(lines start)" 0
}

@test "store hangs in an acquire: 69 within bounds" {
	script acquire hang
	run_tool 69 run "${FAKE[@]}" --connect-timeout 300ms job -- \
	    "$PROBE" out ticks=1
	run_tool 69 run "${FAKE[@]}" --connect-timeout 300ms --wait inf job -- \
	    "$PROBE" out ticks=1
	assert_equal "$(lines start)" 0
	wait_until 5 all_gone
}

@test "store hangs in an acquire: TERM ends the wait" {
	script acquire hang
	first --connect-timeout 20s --wait inf -- ticks=1
	wait_until 10 called acquire first
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_equal "$(lines start)" 0
	wait_until 5 all_gone
}

@test "store hangs in giving back what may have been granted: TERM ends it" {
	script acquire drop
	script abandon hang
	first --connect-timeout 20s -- ticks=1
	wait_until 10 test -s "$STORE/job.state"
	kill -TERM "$first"
	wait_until 10 called abandon first
	assert_ends 143 "$first"
	wait_until 5 all_gone
}

@test "store hangs in a release: the command's status within bounds" {
	script release hang
	first -- ticks=2 exit=5
	assert_ends 5 "$first"
	file_has first "could not be released"
	wait_until 5 all_gone
}

@test "store hangs in a release: the command's signal within bounds" {
	script release hang
	bg "$STARTWITH" -w status "$LEASERUN" run "${FAKE[@]}" job -- \
	    sh -c 'kill -KILL $$'
	wait_until 10 test -s status
	assert_equal "$(cat status)" "killed 9"
}

# --- The store's library crashes, or leaves ---

@test "crash in an acquire: nothing is run, nothing is left" {
	script acquire crash
	run_tool 139 run "${FAKE[@]}" job -- "$PROBE" out ticks=1
	wait_until 5 all_gone
	assert_equal "$(lines start)" 0
}

@test "crash in a renewal: the job is gone before the next grant" {
	first_runs "${PATIENT[@]}"
	script renew crash by first
	assert_taken_over 139
	[ "$(lines term)" -ge 4 ]
}

@test "abort in a renewal: the signal is not one for the job" {
	bg "$LEASERUN" run "${FAKE[@]}" job -- bash -c '
		trap "echo abort >>got" ABRT
		trap "echo term >>got; exit" TERM
		echo >up
		while :; do sleep 0.05; done'
	first=$!
	wait_until 10 test -e up
	script renew abort
	assert_ends 134 "$first"
	wait_until 20 test -s got
	wait_until 20 all_gone
	assert_equal "$(cat got)" term
}

@test "crash in a release: the job was gone before" {
	script release crash once
	first -- ticks=2
	wait_until 10 file_has out start
	second
	assert_taken_over 139
}

@test "exit in an acquire: nothing is run, nothing is left" {
	script acquire exit 3
	run_tool 3 run "${FAKE[@]}" job -- "$PROBE" out ticks=1
	wait_until 5 all_gone
	assert_equal "$(lines start)" 0
}

@test "exit in a renewal: the job is gone before the next grant" {
	first_runs
	script renew exit 3 by first
	assert_taken_over 3
}

# --- Nonsense on the link ---

# spoilt_while_running WORD
spoilt_while_running() {
	first_runs
	script renew "$1" once
	assert_taken_over 70
	called release first ok
}

# spoilt_while_acquiring WORD
spoilt_while_acquiring() {
	script acquire "$1" once
	run_tool 70 run "${FAKE[@]}" job -- "$PROBE" out ticks=1
	wait_until 5 all_gone
	assert_equal "$(lines start)" 0
	assert_free
}

# spoilt_while_releasing WORD
spoilt_while_releasing() {
	script release "$1" once
	run_tool 8 run "${FAKE[@]}" job -- "$PROBE" out ticks=1 exit=8
	wait_until 5 all_gone
	assert_free
}

@test "garbage on the link while the job runs: killed, then released, 70" {
	spoilt_while_running garbage
}

@test "much garbage on the link while the job runs: killed, released, 70" {
	spoilt_while_running garbage-big
}

@test "link closed while the job runs: killed, then released, 70" {
	spoilt_while_running close-link
}

@test "garbage on the link in an acquire: nothing is run, 70" {
	spoilt_while_acquiring garbage
}

@test "much garbage on the link in an acquire: nothing is run, 70" {
	spoilt_while_acquiring garbage-big
}

@test "link closed in an acquire: nothing is run, 70" {
	spoilt_while_acquiring close-link
}

@test "garbage on the link in a release, or the link closed: no matter" {
	spoilt_while_releasing garbage
	spoilt_while_releasing close-link
}

# --- Answers that are late, or lost ---

@test "answer that comes when the job is being ended: it stays ended" {
	first_runs "${PATIENT[@]}"
	script renew slow-answer 2700 once
	assert_taken_over 79
	[ "$(lines term)" -ge 4 ]
	file_has first "SIGKILL to all"
}

@test "answer that comes after the lease has ended: the job stays killed" {
	first_runs
	script renew slow-answer 1700 once
	assert_taken_over 79
}

@test "an answer that is slow, then an outage: the lease began at the request" {
	first_runs
	script renew slow-answer 800 once
	wait_until 10 test -e "$STORE/script.renew.done"
	script renew unavailable by first
	assert_taken_over 79
}

@test "answers after the attempt's deadline, but in time: the job lives" {
	first -t 4s -- cleanup=1
	wait_until 10 ticking 1
	script renew late
	wait_until 20 calls_reach renew first ok 5
	kill -TERM "$first"
	assert_ends 0 "$first"
}

@test "no answers: three whole attempts at least before the job is ended" {
	first -t 5s -- cleanup=1
	wait_until 10 ticking 1
	script renew hang-interruptible
	assert_ends 79 "$first"
	awk '$2 == "renew" && $5 == "unavailable" { print $1, $5 }' \
	    "$STORE/log" >order
	awk '$1 == "term" { print $3, $1 }' out >>order
	[ "$(sort -n order | sed '/term/,$ d' | wc -l)" -ge 3 ]
}

@test "late grant: nothing is run under a lease that is over" {
	script acquire slow-answer 2200 once
	first -- ticks=3
	wait_until 10 test -s "$STORE/job.state"
	second
	assert_ends 69 "$first"
	assert_ends 0 "$second"
	assert_order 1
}

@test "late grant: renewed before the command is started" {
	script acquire slow-answer 3200 once
	script renew slow 250 once
	first -t 5s -r 1500ms -- ticks=3
	assert_ends 0 "$first"
	awk '$2 == "renew" && $5 == "ok" { print $1, $2 }' "$STORE/log" >order
	awk '$1 == "start" { print $3, $1 }' out >>order
	assert_equal "$(sort -n order | awk '{ print $2 }' | head -n 2 |
	    paste -sd ' ')" "renew start"
	assert_equal "$(lines tick)" 3
}

@test "late grant: revoked before the command is started, nothing is run" {
	script acquire slow-answer 3200 once
	script renew revoke once
	first -t 5s -r 1500ms --connect-timeout 30s -- ticks=3
	assert_ends 79 "$first"
	file_has first "the lease is being revoked, the command is not started"
	assert_equal "$(lines start)" 0
	assert_free
}

@test "grant whose answer is lost: given back, nothing is run" {
	script acquire drop
	run_tool 69 run "${FAKE[@]}" --connect-timeout 300ms job -- \
	    "$PROBE" out ticks=1
	unscript acquire
	assert_equal "$(lines start)" 0
	assert_free
}

@test "grant whose answer is lost: asked for again, and found" {
	local acquired

	script acquire drop once
	first --connect-timeout 3s -- ticks=1
	assert_ends 0 "$first"
	acquired=$(awk '$2 == "release" && $5 == "ok" { print $6 }' \
	    "$STORE/log")
	assert_equal "$(token 1)" "$acquired"
	assert_equal "$(call_count acquire first -)" 2
	assert_equal "$(awk '$2 == "acquire" && $6 != 0 { print $6 }' \
	    "$STORE/log" | sort -u)" "$acquired"
}

@test "wait whose answer is lost: asked for again, and found" {
	first -- cleanup=1
	wait_until 10 ticking 1
	script acquire drop once
	second --connect-timeout 1500ms
	wait_until 10 called acquire second
	kill -TERM "$first"
	assert_ends 0 "$first"
	assert_ends 0 "$second"
	assert_order
}

@test "wait that runs out while its answer is lost: 75, and given back" {
	first -- cleanup=1
	wait_until 10 ticking 1
	script acquire drop by second
	second --wait 4s --min-hold 1h
	kill -TERM "$first"
	assert_ends 0 "$first"
	assert_ends 75 "$second"
	unscript acquire
	assert_free
	assert_equal "$stderr" ""
	assert_equal "$(lines start)" 1
}

@test "wait that runs out, and the lease is not given back in time: says so" {
	first -- cleanup=1
	wait_until 10 ticking 1
	script acquire drop by second
	script abandon hang
	second --wait 4s -E 0 --complain-after 1s --events e
	kill -TERM "$first"
	assert_ends 0 "$first"
	assert_ends 75 "$second"
	file_has second "has been blocked by"
	file_has e '"reason":"blocked"'
}

# The first request was done; the next holder is not meant by the second.
@test "revoke whose answer is lost: asked again, of the same holder" {
	local -a store=("${FAKE[@]:0:4}") option
	local token

	for option in "" --force; do
		first --lost-exit-code 81 -- ticks=100000
		wait_until 10 ticking 1
		second -t 60s
		token=$(head -1 out | awk '{ print $2 }')
		script revoke lose once
		# shellcheck disable=SC2086
		run_tool 0 revoke $option "${store[@]}" job
		case $option in
		--force)
			assert_contains "$stdout" "'job' is freed; two may"
			;;
		*)
			assert_contains "$stdout" "asked the holder of token"
			assert_contains "$stdout" " $token to end"
			;;
		esac
		assert_equal "$(awk '$2 == "revoke" && $5 == "-" { print $6 }' \
		    "$STORE/log" | xargs)" "0 $token"
		assert_ends 81 "$first"
		assert_ends 0 "$second"
		rm out "$STORE/log"
	done
	script revoke lose once
	run_tool 0 revoke "${store[@]}" job
	assert_contains "$stdout" "'job' is not held"
}

@test "wait whose answer is lost, then TERM: given back" {
	script acquire drop
	first --wait inf -- ticks=1
	wait_until 10 test -s "$STORE/job.state"
	kill -TERM "$first"
	assert_ends 143 "$first"
	unscript acquire
	assert_free
	assert_equal "$(lines start)" 0
}

@test "renewal whose answer is lost: repeated, the job lives" {
	first -- cleanup=1
	wait_until 10 ticking 1
	script renew drop once
	wait_until 20 test -e "$STORE/script.renew.done"
	wait_until 20 calls_reach renew first ok 3
	kill -TERM "$first"
	assert_ends 0 "$first"
	assert_order 1
}

@test "renewals whose answers are all lost: the job is ended in time" {
	first_runs
	script renew drop by first
	assert_taken_over 79
}

@test "release whose answer is lost: the command's status" {
	script release drop once
	first -- ticks=2 exit=7
	wait_until 10 called release first
	second
	assert_ends 7 "$first"
	assert_ends 0 "$second"
	assert_order
}

# --- The store says no ---

@test "lost: SIGKILL at once, 79" {
	first -t 60s -g 20s -- tree frozen ignore
	wait_until 10 ticking 5
	script renew lost once
	assert_ends 79 "$first"
	job_gone ""
	assert_equal "$(lines term)" 0
	assert_equal "$(call_count release first -)" 0
	file_has first "lost: another holder has it"
}

@test "lost: the job is gone before the next grant" {
	first_runs
	script renew lost once
	assert_taken_over 79
}

@test "lost, and the keeper's status is asked for: --lost-exit-code" {
	first --lost-exit-code 33 -- tree
	wait_until 10 ticking 4
	script renew lost
	assert_ends 33 "$first"
	job_gone ""
}

@test "lost while the job is being ended: SIGKILL at once" {
	first -t 99s -g 30s -- tree ignore
	wait_until 10 ticking 4
	script renew revoke once
	wait_until 10 eval '[ "$(lines term)" -ge 4 ]'
	script renew lost
	# Not as late as the grace would allow.
	assert_ends 79 "$first"
	job_gone ""
}

@test "the record is removed: lost, 79, a higher token afterwards" {
	first -- tree ignore
	wait_until 10 ticking 4
	rm "$STORE/job.state"
	assert_ends 79 "$first"
	job_gone ""
	file_has first "removed or replaced"
	second
	assert_taken_over 79
	[ "$(token 2)" -gt "$(token 1)" ]
}

@test "revoked: TERM, grace, KILL, then released, 79" {
	first_runs "${PATIENT[@]}"
	script renew revoke by first
	assert_taken_over 79
	[ "$(lines term)" -ge 4 ]
	called release first ok
}

@test "not ours any more when it is released: 79" {
	script release lost
	first -- ticks=2
	assert_ends 79 "$first"
}

@test "a grant that is too short: 78 with the numbers, nothing is run" {
	script acquire short-ttl 1000
	run_tool 78 run "${FAKE[@]}" job -- "$PROBE" out ticks=1
	unscript acquire
	assert_equal "$(lines start)" 0
	assert_contains "$stderr" "1s"
	assert_contains "$stderr" "400ms"
	assert_contains "$stderr" "300ms"
	assert_contains "$stderr" "220ms"
	assert_free
}

@test "a grant that is longer: renewed as often as asked" {
	script acquire long-ttl 60000
	first -- cleanup=1
	wait_until 10 calls_reach renew first ok 4
	kill -TERM "$first"
	assert_ends 0 "$first"
	assert_free
}

@test "refused by the store: 77 and 78, nothing is run" {
	script acquire denied
	run_tool 77 run "${FAKE[@]}" job -- "$PROBE" out ticks=1
	script acquire misconfigured
	run_tool 78 run "${FAKE[@]}" job -- "$PROBE" out ticks=1
	script open denied
	run_tool 77 run "${FAKE[@]}" job -- "$PROBE" out ticks=1
	assert_equal "$(lines start)" 0
}

@test "renewals refused by the store: like an outage" {
	first_runs "${PATIENT[@]}"
	script renew denied by first
	assert_taken_over 79
	[ "$(lines term)" -ge 4 ]
}

# --- The link is full ---

# filled: the guard's messages to the keeper, who is frozen, are lost.
filled() {
	freeze "$first"
	"$MEDDLE" fill "$(guard "$first")" guard
}

reaped() {
	[ ! -e "/proc/$1" ]
}

@test "the message that all is over is lost: the status, at the next heartbeat" {
	local command how

	for how in leave wait; do
		: >out
		first -t 60s --leftovers $how -- exit=5
		wait_until 10 ticking 1
		command=$(awk '$1 == "start" { print $4 }' out)
		filled
		kill -KILL "$command"
		wait_until 10 reaped "$command"
		kill -CONT "$first"
		assert_ends 137 "$first"
		called release first ok
		assert_lacks "$(cat first)" "guard is gone"
	done
	assert_free
}

# has_failed GUARD: the command that could not be executed has ended.
has_failed() {
	local child

	child=$(cat "/proc/$1/task/$1/children" 2>/dev/null) || return
	state "${child% }" Z
}

@test "the message that the command cannot be run is lost: 127" {
	local guard how

	for how in leave wait; do
		rm -f "$STORE/log"
		script acquire slow-answer 500 once
		bg "$LEASERUN" run "${FAKE[@]}" -t 60s --leftovers $how \
		    --owner first job -- ./nowhere 2>first
		first=$!
		wait_until 10 called acquire first
		guard=$(guard "$first")
		freeze "$guard"
		wait_until 10 calls_reach renew first ok 1
		filled
		kill -CONT "$guard"
		wait_until 10 eval 'has_failed "$guard" || state "$guard" Z'
		kill -CONT "$first"
		assert_ends 127 "$first"
		called release first ok
		file_has first "cannot run './nowhere'"
	done
	assert_free
}

@test "the wish to end the job does not fit: repeated when the guard goes on" {
	local guard

	first -t 60s -- cleanup=1
	wait_until 10 ticking 1
	guard=$(guard "$first")
	freeze "$guard"
	"$MEDDLE" fill "$first" keeper
	script renew revoke by first
	wait_until 10 file_has first "is being revoked"
	kill -CONT "$guard"
	assert_ends 79 "$first"
	assert_equal "$(lines term)" 1
}

# --- A debugger has the guard: one that ended is not let go ---

# traced [HOW]
traced() {
	first_runs "${PATIENT[@]}"
	bg "$MEDDLE" "${1:-seize}" "$(guard "$first")" traced
	wait_until 10 test -s traced
}

@test "guard traced, the keeper is killed: gone before the next grant" {
	traced
	kill -KILL "$first"
	assert_taken_over 137
	[ "$(lines term)" -ge 4 ]
}

@test "guard traced, the lease is lost: gone before the next grant" {
	traced
	script renew lost once
	assert_taken_over 79
}

@test "guard traced, the guard is killed: gone before the next grant" {
	local guard

	traced
	guard=$(guard "$first")
	kill -KILL "$guard"
	assert_taken_over 70
	called release first ok
}

@test "guard traced and killed while the store's library blocks: at once" {
	local guard

	first -t 60s -- tree frozen ignore
	wait_until 10 ticking 5
	guard=$(guard "$first")
	bg "$MEDDLE" seize "$guard" traced
	wait_until 10 test -s traced
	script renew slow 3000 once
	wait_until 10 called renew first
	kill -KILL "$guard"
	wait_until 2 job_gone ""
	# Nothing is left to be killed: the keeper is quiet.
	wait_until 2 state "$first" S
	state "$guard" Z
	assert_ends 70 "$first"
	called release first ok
}

@test "guard stopped by a debugger, the lease is lost: the keeper kills it" {
	traced halt
	wait_until 10 state "$(guard "$first")" t
	script renew lost once
	assert_taken_over 79
}

@test "guard traced, the command ends: its status" {
	first -- ticks=50 exit=4
	wait_until 10 ticking 1
	bg "$MEDDLE" seize "$(guard "$first")" traced
	wait_until 10 test -s traced
	assert_ends 4 "$first"
	called release first ok
}

# --- Recording that the job is done (--once) ---

# done_first [OPTION]... -- WORD...: the first runs for the key of a day.
done_first() {
	first --once today "$@"
}

# done_second: one that waits, and runs if that day is not done.
done_second() {
	second --once today
}

# recorded COUNT: so many keys are done.
assert_recorded() {
	run_tool 0 status --once --json "${FAKE[@]:0:4}" job
	assert_equal "$(grep -c '"key": "today"' <<<"$stdout")" "$1"
}

# The second ended without a run of its own.
assert_not_run_again() {
	assert_ends 0 "$second"
	assert_equal "$(lines start)" 1
	assert_recorded 1
}

@test "recording fails for a while: the lease is kept, then it is recorded" {
	script release unavailable
	done_first -- ticks=2
	wait_until 10 called release first unavailable
	done_second
	# Longer than the lease would last.
	wait_until 20 calls_reach renew first ok 3
	is_alive "$first"
	unscript release
	assert_ends 0 "$first"
	file_has first "cannot record that it is done, trying again"
	assert_not_run_again
}

@test "recording takes more than half of what is left: it is recorded" {
	script release slow 3700 once
	done_first -t 6s -- ticks=2
	assert_ends 0 "$first"
	assert_recorded 1
}

@test "recording fails for a while, a renewal takes a while: the lease is kept" {
	script release unavailable
	script renew slow 650
	done_first -t 5s -r 2s -g 250ms -- ticks=40
	wait_until 10 called release first unavailable
	done_second
	wait_until 20 calls_reach renew first ok 4
	unscript release
	assert_ends 0 "$first"
	assert_not_run_again
}

@test "recording hangs for a while, renewals too: it is recorded" {
	script release hang-interruptible
	script renew hang-interruptible once
	done_first -t 12s -- ticks=2
	wait_until 20 called renew first unavailable
	done_second
	unscript release
	assert_ends 0 "$first"
	assert_not_run_again
}

@test "recording fails for ever: 74 when the lease is over, another runs" {
	done_first -- ticks=20
	wait_until 10 file_has out start
	script release unavailable
	wait_until 10 called release first unavailable
	script renew unavailable by first
	bg "$LEASERUN" run "${FAKE[@]}" --owner second --wait 30s --once today \
	    job -- "$PROBE" out ticks=3 2>second
	second=$!
	assert_ends 74 "$first"
	rm "$STORE"/script.*
	assert_ends 0 "$second"
	# The second text: it was too late for the first one.
	grep -qE "the command succeeded, but that it is done (for today could \
not be recorded: the fake store answers|could not be recorded in time)" first
	assert_order
	assert_recorded 1
}

@test "recording fails, the lease could be kept for ever: 74 after ten ttls" {
	script release unavailable
	done_first -r 100ms -g 100ms -- ticks=2
	wait_until 10 called release first unavailable
	wait_until 30 is_gone "$first"
	assert_ends 74 "$first"
	[ "$(call_count renew first ok)" -ge 5 ]
	assert_recorded 0
}

@test "recorded, the answer is lost: 0" {
	script release drop once
	done_first -- ticks=2
	wait_until 10 called release first
	done_second
	assert_ends 0 "$first"
	assert_not_run_again
}

@test "recorded, the answer is lost, another holds it meanwhile: 0" {
	script release drop once
	done_first -t 60s -- ticks=2
	wait_until 10 called release first
	# What a store says that remembers the last holder alone.
	script release lost
	assert_ends 0 "$first"
	[ "$(call_count release first lost)" -ge 1 ]
	assert_recorded 1
}

@test "recording, the answer is lost for ever: 74" {
	script release drop
	done_first -- ticks=2
	assert_ends 74 "$first"
	file_has first "could not be recorded"
	# Which nobody could tell: it is recorded.
	assert_recorded 1
}

@test "freed by force after a try to record: 79, another runs" {
	script release unavailable
	done_first -t 60s -- ticks=2
	wait_until 10 called release first unavailable
	run_tool 0 revoke --force "${FAKE[@]:0:4}" job
	unscript release
	assert_ends 79 "$first"
	assert_recorded 0
	run_tool 0 run "${FAKE[@]}" --once today job -- "$PROBE" out ticks=1
	assert_order
	assert_recorded 1
}

@test "recording is refused: 74 with the reason, soon" {
	local word

	for word in denied misconfigured; do
		script release $word
		done_first -t 60s -- ticks=2
		assert_ends 74 "$first"
		file_has first "could not be recorded: the fake store answers"
		file_has first "'$word'"
		assert_recorded 0
		rm "$STORE/job.state"
	done
}

@test "recording, and the lease is lost: 79, nothing is recorded" {
	script release lost
	done_first -- ticks=2
	assert_ends 79 "$first"
	file_has first "not ours any more"
	assert_recorded 0
}

@test "recording hangs in the library: 74 within the lease, says so" {
	script release hang
	done_first -t 8s -- ticks=2
	wait_until 10 called release first
	bg "$LEASERUN" run "${FAKE[@]}" --owner second --wait 30s --once today \
	    job -- "$PROBE" out ticks=3
	second=$!
	assert_ends 74 "$first"
	file_has first "could not be recorded in time"
	unscript release
	assert_ends 0 "$second"
	assert_order
	assert_recorded 1
}

@test "a renewal hangs in the library while it is recorded: 74" {
	script release unavailable
	script renew hang
	done_first -- ticks=2
	assert_ends 74 "$first"
	file_has first "could not be recorded"
	assert_recorded 0
}

@test "keeper killed while it records: nothing is recorded, another runs" {
	script release hang
	done_first -- ticks=2
	wait_until 10 called release first
	done_second
	unscript release
	kill -KILL "$first"
	assert_taken_over 137
	assert_recorded 1
}

@test "guard killed while it is recorded: no matter" {
	script release slow 600
	done_first --leftovers leave -- ticks=2 tree
	wait_until 10 called release first
	kill -KILL "$(guard "$first")"
	assert_ends 0 "$first"
	assert_recorded 1
}

@test "keeper frozen while it records: another runs, never 0 at the thaw" {
	local code=0

	script release unavailable
	done_first -- ticks=2
	wait_until 10 called release first unavailable
	freeze "$first"
	unscript release
	done_second
	assert_ends 0 "$second"
	kill -CONT "$first"
	wait_until 20 is_gone "$first"
	# Its time to record is over, or it finds that the lease is lost.
	wait "$first" || code=$?
	[ $code -eq 74 ] || [ $code -eq 79 ]
	assert_order
	assert_recorded 1
}

@test "TERM while it is recorded: it is recorded" {
	script release unavailable
	done_first -- ticks=2
	wait_until 10 called release first unavailable
	kill -TERM "$first"
	wait_until 20 calls_reach renew first ok 2
	unscript release
	assert_ends 0 "$first"
	assert_recorded 1
}

@test "crash while it is recorded: another runs" {
	script release crash once
	done_first -- ticks=2
	assert_ends 139 "$first"
	run_tool 0 run "${FAKE[@]}" --wait 20s --once today job -- \
	    "$PROBE" out ticks=1
	assert_order
	assert_recorded 1
}

@test "a command that fails, dies or cannot be run is not done" {
	local once=(run "${FAKE[@]}" --once today)

	run_tool 3 "${once[@]}" job -- sh -c 'exit 3'
	run_tool 137 "${once[@]}" job -- sh -c 'kill -KILL $$'
	run_tool 127 "${once[@]}" job -- ./missing
	run_tool 126 "${once[@]}" job -- ./out
	run_tool 124 "${once[@]}" --max-run 200ms job -- sleep 1000
	run_tool 124 "${once[@]}" --max-run 200ms job -- sh -c '
		trap "exit 0" TERM
		while :; do sleep 0.05; done'
	assert_recorded 0
	run_tool 0 "${once[@]}" job -- true
	assert_recorded 1
}

@test "a run whose lease is lost or revoked is not done, even with 0" {
	local word

	for word in lost revoke unavailable; do
		done_first --wait 20s -- cleanup=10
		wait_until 10 file_has out tick
		script renew "$word"
		assert_ends 79 "$first"
		rm "$STORE"/script.*
		: >out
	done
	assert_recorded 0
	run_tool 0 run "${FAKE[@]}" --wait 20s --once today job -- true
	assert_recorded 1
}

@test "the guard is killed while the job runs: not done" {
	done_first -- cleanup=10
	wait_until 10 file_has out tick
	kill -KILL "$(guard "$first")"
	assert_ends 70 "$first"
	assert_recorded 0
}

@test "a store that cannot look keys up: 69, nothing is run" {
	script acquire unavailable
	run_tool 69 run "${FAKE[@]}" --connect-timeout 300ms --once today job \
	    -- "$PROBE" out ticks=1
	assert_equal "$(lines start)" 0
}
