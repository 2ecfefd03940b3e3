# shellcheck shell=bash disable=SC2120,SC2154
# What --events and --metrics wrote, for `load report': the files are e and
# m.prom.  After `load helpers' and `load jobs'.

# The events so far, in one line.
names() {
	jq -r .event e | paste -sd ' '
}

# assert_event EVENT CONDITION: there is one for which that is true.
assert_event() {
	jq -se --arg event "$1" \
	    "map(select(.event == \$event)) | any(.[]; $2)" e >answer ||
	    { cat e; fail "no '$1' with: $2"; }
}

has_event() {
	jq -se --arg event "$1" 'any(.[]; .event == $event)' e >answer 2>&1
}

# value METRIC [LABEL="VALUE"]: of any job.
value() {
	sed -nE "s/^leaserun_$1\{.*${2:-}.*\} (.*)/\1/p" m.prom
}

# assert_value METRIC NUMBER [LABEL="VALUE"]
assert_value() {
	assert_equal "$1 $(value "$1" "${3:-}")" "$1 $2"
}

# sleep_past SECONDS: until the clock of leases has gone on by so much.
sleep_past() {
	wait_until 60 uptime_exceeds "$(awk -v s="$1" \
	    '{ printf "%.0f", ($1 + s) * 1e9 }' /proc/uptime)"
}

# --- The same on every store; run_tool and bg find it in the environment ---

# told [OPTION]...: a run in the background, $keeper, that goes on for ever and
# tells everything; its command's number is in the file up.
told() {
	rm -f e m.prom up
	bg "$LEASERUN" run -t 6s -g 500ms -r 1s --owner first --events e \
	    --metrics m.prom "$@" job sh -c 'echo $$ >up; exec sleep 1000' 2>err
	keeper=$!
	wait_until 20 test -s up || { cat err; return 1; }
	wait_until 20 has_event acquired
}

# assert_told REASON TEXT: the run has lost its lease, for this reason and no
# other, as events, metrics and people are told, and its job is gone.
assert_told() {
	local token

	assert_ends 79 "$keeper"
	cat err
	is_gone "$(cat up)"
	token=$(jq -rs '.[0].token' e)
	assert_event lost ".reason == \"$1\" and .token == $token and
	    (.detail | contains(\"$2\")) and .name == \"job\" and
	    .label == \"first\""
	assert_equal "$(jq -s 'map(select(.event == "lost")) | length' e)" 1
	assert_equal "$(names | grep -o 'end$')" "end"
	assert_event end '.status == 79 and .outcome == "lost" and .ran_ms > 0'
	file_has err "'job': the lease (token $token) is lost: $(jq -r \
	    'select(.event == "lost") | .detail' e)"
	assert_value losses_total 1 "reason=\"$1\""
	assert_equal "$(value losses_total | awk '{ n += $1 }
	    END { print n }')" 1
	assert_value runs_total 1 'outcome="lost"'
	assert_value last_exit_status 79
	assert_value held 0
}

# freeze_both: keeper and guard.  thaw_both: the guard first.
freeze_both() {
	guard=$(guard "$keeper")
	freeze "$keeper"
	freeze "$guard"
}

thaw_both() {
	kill -CONT "$guard"
	wait_until 20 is_gone "$(cat up)"
	kill -CONT "$keeper"
}

# Revoked, not lost: asked to end, and then ended.
check_revoked() {
	told
	run_tool 0 revoke --wait 20s job
	assert_ends 79 "$keeper"
	assert_equal "$(names)" "acquired revoked term released end"
	assert_event term '.reason == "revoked"'
	assert_event end '.status == 79 and .outcome == "revoked"'
	assert_value losses_total 1 'reason="revoked"'
	assert_value runs_total 1 'outcome="revoked"'
	file_has err "the lease is being revoked"
}

# Both were stopped past the deadline; nobody took the lease meanwhile.
check_own_pause() {
	told
	freeze_both
	sleep_past 8
	thaw_both
	assert_told own_pause "leaserun was stopped"
	assert_event lost '.paused_ms >= 1000'
	assert_event kill '.reason == "deadline"'
	run_tool 0 run -w 20s job true
	assert_contains "$stderr" "took over from 'first'"
}

# Somebody took it meanwhile, and was told from whom.
check_own_pause_and_successor() {
	told
	freeze_both
	run_tool 0 run -w 20s --events next job true
	thaw_both
	assert_told own_pause "leaserun was stopped"
	mv next e
	assert_event took_over ".previous.label == \"first\" and
	    .previous.host == .host and .previous.token < .token"
}

# Who waits is told for whom, and how the wait ended.
check_waiter() {
	local holder

	bg "$LEASERUN" run -t 6s -g 500ms -r 500ms --owner first --events held \
	    job sh -c 'echo >up; exec sleep 1000'
	holder=$!
	wait_until 20 test -s up
	bg "$LEASERUN" run -w inf --events e --metrics m.prom job true
	wait_until 20 has_event busy
	assert_event busy ".holder.label == \"first\" and
	    .holder.host == .host and .holder.pid == $holder and
	    .holder.token == $(jq -s '.[0].token' held) and
	    .holder.held_for_ms >= 0 and .holder.expires_in_ms > 0 and
	    .holder.expires_in_ms <= 6000 and .token == null"
	kill -TERM "$!"
	assert_ends 143 "$!"
	assert_event not_run '.status == 143 and .reason == "interrupted" and
	    .waited_ms > 0 and .holder == null'
	rm e
	run_tool 75 run -w 1s --events e --metrics m.prom job true
	assert_equal "$(names)" "busy not_run"
	assert_event not_run '.status == 75 and .reason == "held" and
	    .waited_ms >= 1000 and .holder.label == "first"'
	rm e
	bg "$LEASERUN" run -w 60s --events e --metrics m.prom job true
	wait_until 20 has_event busy
	kill -TERM "$holder"
	assert_ends 0 "$!"
	assert_equal "$(names)" "busy acquired released end"
	assert_event acquired '.waited_ms > 0'
	assert_value skips_total 1 'reason="held"'
	assert_value skips_total 1 'reason="interrupted"'
	assert_value runs_total 1 'outcome="success"'
}

# Counters go on from run to run, whatever the run before came to.
check_counters() {
	local -a told=(--events e --metrics m.prom)

	run_tool 0 run "${told[@]}" job true
	run_tool 3 run "${told[@]}" job sh -c 'exit 3'
	run_tool 127 run "${told[@]}" job ./nothing
	bg "$LEASERUN" run -t 3s -g 300ms -r 500ms --owner first "${told[@]}" \
	    job sh -c 'echo $$ >up; exec sleep 1000'
	wait_until 20 test -s up
	# Keeper, guard and job: nobody can release it.
	guard=$(guard "$!")
	freeze "$guard"
	kill -KILL "$!" "$guard" "$(cat up)"
	assert_ends 137 "$!"
	run_tool 0 run -w 20s "${told[@]}" job true
	assert_value runs_total 2 'outcome="success"'
	assert_value runs_total 1 'outcome="failure"'
	assert_value runs_total 1 'outcome="not_started"'
	assert_value runs_total 1 'outcome="died"'
	assert_value takeovers_total 1
	assert_value last_exit_status 0
	assert_value held 0
	promtool check metrics <m.prom
}

# run_count COUNT: so many have succeeded, of any job.
run_count() {
	[ "$(value runs_total 'outcome="success"' | awk '{ n += $1 }
	    END { print n + 0 }')" -eq "$1" ]
}

# Twelve runs of six jobs write one file at a time; none is lost.
check_concurrent() {
	local i
	local -a pids=()

	for ((i = 0; i < 12; i++)); do
		bg "$LEASERUN" run --metrics m.prom -w 60s "job $((i % 6))" true
		pids+=($!)
	done 2>err
	for i in "${pids[@]}"; do
		assert_ends 0 "$i"
	done
	wait_until 20 run_count 12
	assert_equal "$(cat err)" ""
	assert_equal "$(value runs_total 'outcome="success"' | sort | uniq -c |
	    tr -s ' ')" " 6 2"
	promtool check metrics <m.prom
}

# A store that is gone at the start, and one that goes when it is to be recorded
# that the job is done; $1 makes that happen.
check_unrecorded() {
	bg "$LEASERUN" run -t 60s -r 20s --once key --events e --metrics m.prom \
	    job sh -c 'echo >up; until [ -e go ]; do sleep 0.1; done' 2>err
	keeper=$!
	wait_until 20 test -s up
	"$@"
	: >go
	wait_until 40 file_has err "cannot record that it is done"
	kill -TERM "$keeper"
	assert_ends 74 "$keeper"
	file_has err "could not be recorded"
	assert_event end '.status == 74'
	rm e
	run_tool 69 run --once key --connect-timeout 1s --events e \
	    --metrics m.prom job touch never
	assert_equal "$(names)" not_run
	assert_event not_run '.status == 69 and .reason == "unavailable" and
	    (.error | length) > 0'
	assert_value skips_total 1 'reason="unavailable"'
	[ ! -e never ]
}

# check_recorded_late STOP AGAIN: two commands for the server.  It is gone for a
# while when it is to be recorded that the job is done.
check_recorded_late() {
	bg "$LEASERUN" run -t 60s -r 20s --once key --events e job sh -c \
	    'echo >up; until [ -e go ]; do sleep 0.1; done' 2>err
	keeper=$!
	wait_until 20 test -s up
	$1
	: >go
	wait_until 40 file_has err "cannot record that it is done"
	$2
	assert_ends 0 "$keeper"
	assert_event end '.status == 0 and .outcome == "success"'
	run_tool 0 run --once key job touch never
	[ ! -e never ]
}
