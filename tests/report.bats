# What programs and their keepers are told: --events, --metrics and the fields
# of the journal.

load helpers
load jobs
load report

LISTEN=$builddir/tests/listen

teardown() {
	local mount

	for mount in full ro; do
		! mountpoint -q "$mount" || umount -l "$mount"
	done
	test_teardown
}

# tell RC [OPTION]... NAME COMMAND...: a run with both files, on the file store.
tell() {
	local want=$1

	shift
	run_tool "$want" run --events e --metrics m.prom "$@"
}

# fake RC [OPTION]... -- COMMAND...: the same on the fake store.
fake() {
	local want=$1 options=()

	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	tell "$want" "${FAKE[@]}" "${options[@]}" job -- "$@"
}

writer() {
	local pid

	for pid in $(test_processes); do
		[ "$(cat "/proc/$pid/comm" 2>/dev/null)" != leaserun-report ] ||
		    echo "$pid"
	done
}

@test "events: a run has its times, token and end, one object a line" {
	tell 3 'a "b"\ é' sh -c 'echo "$LEASERUN_FENCE_TOKEN" >token
	    echo "$LEASERUN_RUN_ID" >id; sleep 0.2; exit 3'
	assert_equal "$(names)" "acquired released end"
	jq -se --arg id "$(cat id)" --arg host "$(uname -n)" 'all(.[];
	    (.time | test("^20[0-9-]{8}T[0-9:]{8}[.][0-9]{3}Z$")) and
	    .name == "a \"b\"\\ é" and .run_id == $id and .host == $host and
	    .label == $host and .pid > 0 and .ttl_ms == null and
	    (.backend | startswith("file:/")) and has("dropped") == false)' e
	assert_equal "$(jq -r .token e | sort -u)" "$(cat token)"
	assert_event end '.status == 3 and .outcome == "failure" and
	    .ran_ms >= 200 and .ran_ms < 15000 and .waited_ms < 5000 and
	    .renewals == 0 and .failures == 0'
	assert_equal "$(stat -c %a e)" 640
}

@test "events and metrics: every way to end has its status and outcome" {
	local -a ways=("success 0 true" "failure 9 sh -c 'exit 9'"
	    "not_started 127 ./nothing" "max_run 124 sleep 1000")
	local way outcome status

	for way in "${ways[@]}"; do
		rm -f e m.prom
		read -r outcome status way <<<"$way"
		eval "tell $status --max-run 300ms -g 100ms job $way"
		assert_event end ".outcome == \"$outcome\" and
		    .status == $status"
		assert_value runs_total 1 "outcome=\"$outcome\""
		assert_value last_exit_status "$status"
		assert_value held 0
	done
	assert_event term '.reason == "max_run"'
	rm -f e
	tell 143 job sh -c 'kill -TERM $$'
	assert_event end '.status == 143 and .outcome == "failure"'
}

@test "events and metrics: a skip says who is in the way" {
	local holder

	mkfifo go
	bg "$LEASERUN" run --owner them job -- sh -c 'echo >up; read -r _ <go'
	holder=$!
	wait_until 10 test -s up
	tell 9 -E 9 job touch started
	assert_equal "$(names)" "busy not_run"
	assert_event busy ".holder.label == \"them\" and
	    .holder.pid == $holder and .holder.token > 0 and
	    .holder.host == .host"
	assert_event not_run '.status == 9 and .reason == "held" and
	    .holder.label == "them" and .token == null'
	assert_value skips_total 1 'reason="held"'
	assert_equal "$(value held)" ""
	[ "$(value last_skip_timestamp_seconds)" != "" ]
	[ "$(value last_skip_held_seconds)" != "" ]
	tell 75 -E 9 --complain-after 0 job touch started
	assert_event not_run '.status == 75 and .reason == "blocked"'
	tell 75 -w 300ms job touch started
	assert_event not_run '.waited_ms >= 300 and .reason == "held"'
	echo >go
	assert_ends 0 "$holder"
	[ ! -e started ]
}

@test "events and metrics: an outer run is not waited for" {
	run_tool 64 run job "$LEASERUN" run --events e -w 5s job true
	assert_event not_run '.status == 64 and .reason == "outer_run"'
}

@test "events and metrics: what the store says keeps a command from running" {
	local case word status reason

	for case in 'unavailable 69 unavailable' 'denied 77 denied' \
	    'misconfigured 78 misconfigured'; do
		rm -f e m.prom
		read -r word status reason <<<"$case"
		script acquire "$word"
		fake "$status" --connect-timeout 200ms -- touch started
		assert_equal "$(names)" not_run
		assert_event not_run ".status == $status and
		    .reason == \"$reason\" and
		    (.error | contains(\"script.acquire\"))"
		assert_value skips_total 1 "reason=\"$reason\""
	done
	rm e
	script acquire "done"
	fake 0 -- touch started
	assert_equal "$(names)" "done"
	assert_event "done" '.status == 0 and .reason == "done"'
	[ ! -e started ]
}

@test "events: a signal ends a wait" {
	local pid

	first -- tree
	wait_until 10 ticking 4
	bg "$LEASERUN" run "${FAKE[@]}" --events e -w inf job touch started
	pid=$!
	wait_until 10 has_event busy
	kill -INT "$pid"
	assert_ends 130 "$pid"
	assert_event not_run '.status == 130 and .reason == "interrupted"'
}

@test "events and metrics: renewals fail and come back" {
	script renew unavailable
	bg "$LEASERUN" run "${FAKE[@]}" --events e --metrics m.prom job sh -c \
	    'until [ -e go ]; do sleep 0.1; done'
	wait_until 10 has_event renew_failed
	unscript renew
	wait_until 10 has_event renewed
	: >go
	assert_ends 0 $!
	assert_equal "$(names)" "acquired renew_failed renewed released end"
	assert_event renew_failed '.left_ms > 0 and .left_ms < 1700 and
	    (.error | contains("script.renew"))'
	assert_event renewed '.failures >= 1 and .ttl_ms == 2000'
	assert_event end '.longest_gap_ms >= 400 and .longest_gap_ms < 2000'
	[ "$(value renewals_total)" -ge 1 ]
	[ "$(value renewal_failures_total)" -ge 1 ]
	assert_value ttl_seconds 2
	assert_value losses_total 0 'reason="outage"'
}

@test "each loss that the store tells has a reason and words of its own" {
	local case loss reason

	for case in '0 unknown' '1 clock' '2 taken_over' '3 deleted' \
	    '4 forced'; do
		read -r loss reason <<<"$case"
		rm -f e m.prom "$STORE/job.state"
		script renew lost "$loss"
		fake 79 -- sleep 1000
		assert_event lost ".reason == \"$reason\" and .token > 0 and
		    has(\"error\") == false"
		assert_event kill '.reason == "lost"'
		assert_event end '.status == 79 and .outcome == "lost"'
		assert_value losses_total 1 "reason=\"$reason\""
		assert_value held 0
		assert_contains "$stderr" "$(jq -r 'select(.event == "lost")
		    | .detail' e)"
		assert_contains "$stderr" "(token $(jq .token e | head -n 1))"
		grep 'lease (token' stderr >>said
	done
	assert_equal "$(sed 's/.*is lost: //' said | sort -u | wc -l)" 5
}

@test "an outage: the reason, what the store said, TERM and KILL" {
	script renew unavailable
	fake 79 -- sh -c 'trap "" TERM; while :; do sleep 0.1; done'
	assert_contains "$(names)" "acquired renew_failed"
	assert_event lost '.reason == "outage" and .failures >= 2 and
	    (.error | contains("script.renew")) and .longest_gap_ms > 1000'
	assert_event term '.reason == "deadline"'
	assert_event kill '.reason == "deadline"'
	assert_event end '.status == 79 and .outcome == "lost"'
	assert_value losses_total 1 'reason="outage"'
	assert_contains "$stderr" "is lost: it could not be renewed in time"
}

@test "our own pause is no outage: both processes stopped" {
	local keeper guard

	bg "$LEASERUN" run "${FAKE[@]}" --events e --metrics m.prom job sh -c \
	    'echo $$ >up; exec sleep 1000' 2>err
	keeper=$!
	wait_until 10 test -s up
	guard=$(guard "$keeper")
	freeze "$keeper"
	freeze "$guard"
	sleep_past 3
	kill -CONT "$guard"
	wait_until 10 is_gone "$(cat up)"
	kill -CONT "$keeper"
	assert_ends 79 "$keeper"
	assert_event lost '.reason == "own_pause" and .paused_ms >= 2000'
	# Which is no fault of the guard.
	assert_event kill '.reason == "deadline"'
	assert_lacks "$(cat err)" guard
	assert_value losses_total 1 'reason="own_pause"'
	file_has err "leaserun was stopped past the deadline"
}

@test "our own pause is no outage: the machine was suspended" {
	local keeper

	: >suspended
	bg env "LD_PRELOAD=$MODULES/elsewhere.so" SUSPENDED="$PWD/suspended" \
	    "$LEASERUN" run "${FAKE[@]}" -t 60s -r 20s -g 300ms --events e \
	    --metrics m.prom job sh -c 'echo $$ >up; exec sleep 1000' 2>err
	keeper=$!
	wait_until 10 test -s up
	truncate -s 100 suspended
	# Timers do not know of it: something has to wake them both.
	kill -CONT "$keeper"
	assert_ends 79 "$keeper"
	is_gone "$(cat up)"
	assert_event lost '.reason == "own_pause" and .paused_ms >= 99000 and
	    .paused_ms < 110000'
	assert_value losses_total 1 'reason="own_pause"'
	file_has err "leaserun was stopped past the deadline"
}

@test "a suspended machine that wakes in time has lost nothing" {
	local keeper

	: >suspended
	bg env "LD_PRELOAD=$MODULES/elsewhere.so" SUSPENDED="$PWD/suspended" \
	    "$LEASERUN" run "${FAKE[@]}" -t 60s -r 20s -g 300ms --events e \
	    job sh -c 'echo $$ >up; until [ -e go ]; do sleep 0.1; done'
	keeper=$!
	wait_until 10 test -s up
	truncate -s 25 suspended
	kill -CONT "$keeper"
	wait_until 20 calls_reach renew '.*' ok 1
	: >go
	assert_ends 0 "$keeper"
	assert_equal "$(names)" "acquired released end"
	assert_event end '.renewals >= 1 and .longest_gap_ms >= 25000'
}

@test "our own pause is no outage: the keeper stopped, another holder" {
	local keeper

	bg "$LEASERUN" run "${FAKE[@]}" --events e job sh -c \
	    'echo >up; exec sleep 1000' 2>err
	keeper=$!
	wait_until 10 test -s up
	freeze "$keeper"
	run_tool 0 run "${FAKE[@]}" --owner next --events f -w 15s job true
	kill -CONT "$keeper"
	assert_ends 79 "$keeper"
	assert_event lost '.reason == "own_pause" and .paused_ms > 0'
	mv f e
	assert_event took_over ".previous.pid == $keeper and
	    .previous.token < .token and .previous.label == .host"
}

@test "our own pause is no outage: stopped inside a renewal, another holder" {
	local keeper

	script renew wait 800
	bg "$LEASERUN" run "${FAKE[@]}" -t 6s -r 1500ms --owner first \
	    --events e job sleep 1000 2>err
	keeper=$!
	wait_until 20 called renew first
	freeze "$keeper"
	run_tool 0 run "${FAKE[@]}" --owner next -w 15s job true
	sleep_past 1
	kill -CONT "$keeper"
	assert_ends 79 "$keeper"
	assert_event lost '.reason == "own_pause" and .paused_ms > 500'
	file_has err "leaserun was stopped past the deadline"
}

@test "our own pause is no outage: stopped inside a release, another holder" {
	local keeper

	script release wait 500
	bg "$LEASERUN" run "${FAKE[@]}" --owner first --events e job true 2>err
	keeper=$!
	wait_until 20 called release first
	freeze "$keeper"
	run_tool 0 run "${FAKE[@]}" --owner next -w 15s job true
	sleep_past 1
	kill -CONT "$keeper"
	assert_ends 79 "$keeper"
	assert_event lost '.reason == "own_pause" and .paused_ms > 500'
}

@test "metrics: a takeover is counted" {
	local guard

	first -- tree
	wait_until 10 ticking 4
	guard=$(guard "$first")
	freeze "$first"
	kill -KILL "$guard" "$first"
	assert_ends 137 "$first"
	fake 0 -w 15s -- true
	assert_value takeovers_total 1
	assert_event took_over '.previous.label == "first"'
}

@test "revoked: asked first, then ended" {
	script renew revoke
	fake 79 -- sleep 1000
	assert_equal "$(names)" "acquired revoked term released end"
	assert_event term '.reason == "revoked"'
	assert_event end '.status == 79 and .outcome == "revoked"'
	assert_value losses_total 1 'reason="revoked"'
}

@test "on the file backend: deleted, replaced, revoked, and no pause of ours" {
	told
	rm state/job.lock
	assert_told deleted "its record was removed or replaced"
	told
	mv state/job.lock state/away
	run_tool 0 run job true
	assert_told deleted "its record was removed or replaced"
	rm state/away
	check_revoked
	told
	freeze_both
	sleep_past 8
	kill -CONT "$guard" "$keeper"
	run_tool 75 run job true
	kill -TERM "$keeper"
	assert_ends 143 "$keeper"
	assert_equal "$(names)" "acquired released end"
}

@test "a release that fails, and one that comes too late" {
	script release unavailable
	fake 0 -- true
	assert_event release_failed '.error | contains("script.release")'
	assert_event end '.status == 0 and .outcome == "success"'
	rm -rf "$STORE" e
	mkdir "$STORE"
	script release lost
	fake 79 -- true
	assert_event lost '.reason == "unknown"'
	assert_event end '.status == 79 and .outcome == "lost"'
}

@test "the keeper is killed: its end is told nevertheless, at once" {
	local keeper guard

	bg "$LEASERUN" run --events e --metrics m.prom job sh -c \
	    'trap "" TERM; echo >up; while :; do sleep 0.1; done'
	keeper=$!
	wait_until 10 test -s up
	guard=$(guard "$keeper")
	kill -KILL "$keeper"
	assert_ends 137 "$keeper"
	wait_until 5 has_event end
	# It has its grace still, and no part in this.
	is_alive "$guard"
	kill -KILL "$guard"
	assert_event end '.status == null and .outcome == "died" and
	    .token > 0'
	wait_until 10 all_gone
	assert_value runs_total 1 'outcome="died"'
	assert_value held 0
}

@test "events: a full disk drops and counts them, and the run goes on" {
	mkdir full
	mount -t tmpfs -o size=16k none full
	: >full/e
	cat /dev/zero >full/filler 2>/dev/null || :
	run_tool 7 run --events full/e job sh -c 'exit 7'
	assert_equal "$(cat full/e)" ""
	assert_equal "$(grep -c "No space left" stderr)" 1
	assert_contains "$stderr" "3 events were not written"
	run_tool 7 run --renew-every 200ms --events full/e --metrics m job sh -c '
		until grep -q "No space left" stderr; do sleep 0.02; done
		rm full/filler; exit 7'
	mv full/e e
	assert_equal "$(names)" "released end"
	assert_event released '.dropped == 1'
	assert_event end 'has("dropped") == false'
}

@test "events: a heartbeat does not take what is missing for told" {
	bg "$LEASERUN" run -v -t 2s -r 1ms -g 1500ms --max-run 5s --events e \
	    --metrics m.prom job -- "$PROBE" out ignore 2>first
	first=$!
	wait_until 10 file_has first "started process"
	kill -STOP "$(writer)"
	wait_until 10 file_has first "SIGTERM to all"
	kill -CONT "$(writer)"
	assert_ends 124 "$first"
	assert_equal "$(names)" "acquired kill released end"
	assert_event kill '.dropped == 1'
}

@test "events, metrics: what the release takes is not the command's time" {
	script release slow 1500 once
	fake 0 -- true
	assert_event end '.ran_ms < 1000'
	awk '$1 ~ /last_duration_seconds/ { exit $2 >= 1 }' m.prom
}

@test "events: half a line is taken back" {
	mkdir full
	mount -t tmpfs -o size=8k none full
	# 100 bytes are left of the file's second page.
	head -c 8091 /dev/zero | tr '\0' x >full/e
	echo >>full/e
	run_tool 0 run --events full/e job true
	assert_equal "$(stat -c %s full/e)" 8092
	assert_contains "$stderr" "3 events were not written"
}

@test "metrics: a full disk leaves the old file as it was" {
	mkdir full
	mount -t tmpfs -o size=64k none full
	run_tool 0 run --metrics full/m.prom job true
	cp full/m.prom old
	cat /dev/zero >full/filler 2>/dev/null || :
	run_tool 7 run --metrics full/m.prom job sh -c 'exit 7'
	assert_equal "$(grep -c "No space left" stderr)" 1
	cmp full/m.prom old
	assert_equal "$(ls full)" "$(printf '%s\n' filler m.prom m.prom.lock)"
	rm full/filler
	run_tool 0 run --metrics full/m.prom job true
	cp full/m.prom .
	assert_value runs_total 2 'outcome="success"'
}

@test "events: a FIFO is written while somebody reads it, and never waited for" {
	mkfifo pipe
	run_tool 0 run --events pipe job true
	assert_equal "$(grep -c "nobody reads it" stderr)" 1
	assert_contains "$stderr" "3 events were not written"
	timeout 20 cat pipe >e 3>&- &
	exec 4>pipe
	run_tool 0 run --events pipe job true
	exec 4>&-
	wait $!
	assert_equal "$(names)" "acquired released end"
	# A reader that does not read: the pipe is full.
	exec 4<>pipe
	timeout 20 dd if=/dev/zero of=pipe oflag=nonblock bs=4k 2>dd.err || :
	run_tool 0 run --events pipe job true
	exec 4>&-
	assert_contains "$stderr" "3 events were not written"
}

@test "events: after logrotate a new file is begun" {
	mkfifo go
	bg "$LEASERUN" run --events e job -- sh -c 'echo >up; read -r _ <go'
	wait_until 10 test -s up
	wait_until 10 has_event acquired
	mv e e.1
	echo >go
	assert_ends 0 $!
	assert_equal "$(names)" "released end"
	mv e.1 e
	assert_equal "$(names)" acquired
}

@test "a path that cannot be right is refused before anything is taken" {
	local option path

	mkdir dir
	: >file
	ln -s file link
	ln -s nowhere dangling
	for option in --events --metrics; do
		for path in missing/x dir link dangling file/x /dev/null; do
			run_tool 78 run "$option" "$path" job touch started
			assert_contains "$stderr" "'$path'"
		done
	done
	[ ! -e started ]
	[ ! -e nowhere ]
	run_tool 0 status job
	assert_lacks "$stdout" "held"
	assert_equal "$(cat file)" ""
	assert_equal "$(LC_ALL=C ls)" "$(printf '%s\n' dangling dir file home \
	    leaserun.conf link out state stderr stdout store)"
}

@test "a directory without the right to write is refused, with what to do" {
	local open

	open=$(mktemp -d /tmp/leaserun-open.XXXXXX)
	chmod 755 "$open"
	cp "$LEASERUN" "$open/leaserun"
	mkdir -m 755 "$open/dir"
	: >"$open/dir/m.prom.lock"
	mkdir -m 777 "$open/state"
	for option in --events --metrics; do
		status=0
		setpriv --reuid=65534 --regid=65534 --clear-groups \
		    env -i TEST_MARK="$TEST_MARK" PATH="$PATH" HOME="$open" \
		    "$open/leaserun" run -b "file:$open/state" "$option" \
		    "$open/dir/m.prom" job touch "$open/state/started" \
		    2>err || status=$?
		cat err
		assert_equal "$status" 78
		file_has err "the right to write"
		[ ! -e "$open/state/started" ]
	done
	# With that right, and not the one to read what is there.
	chmod 777 "$open/dir"
	install -m 600 /dev/null "$open/dir/m.prom"
	setpriv --reuid=65534 --regid=65534 --clear-groups \
	    env -i TEST_MARK="$TEST_MARK" PATH="$PATH" HOME="$open" \
	    "$open/leaserun" run -b "file:$open" --metrics "$open/dir/m.prom" \
	    job true 2>err || status=$?
	cat err
	rm -r "$open"
	file_has err "cannot read '$open/dir/m.prom': Permission denied; give"
	file_has err "and to read it, or name another file"
}

@test "a read-only file system does not keep a job from running" {
	mkdir ro
	mount -t tmpfs none ro
	mount -o remount,ro ro
	run_tool 0 run --events ro/e --metrics ro/m.prom job true
	assert_equal "$(grep -c "cannot write events.*Read-only" stderr)" 1
	assert_equal "$(grep -c "cannot write metrics.*Read-only" stderr)" 1
}

@test "metrics: counters go on from run to run, in a file for everybody" {
	local start

	(umask 077; tell 0 job sh -c 'until [ -s m.prom ]; do sleep 0.1; done
	    cp m.prom during')
	assert_equal "$(stat -c %a m.prom m.prom.lock)" "$(printf '644\n644')"
	tell 0 job true
	tell 5 job sh -c 'exit 5'
	assert_value runs_total 2 'outcome="success"'
	assert_value runs_total 1 'outcome="failure"'
	assert_value last_exit_status 5
	start=$(value last_start_timestamp_seconds)
	awk -v t="$start" -v now="$(date +%s)" \
	    'BEGIN { exit !(now - t < 60 && t - now < 60) }'
	awk -v a="$(value last_end_timestamp_seconds)" \
	    -v b="$(value last_success_timestamp_seconds)" -v s="$start" \
	    'BEGIN { exit !(b < a && b <= s && s <= a) }'
	# While it ran: the directory has nothing that would be collected.
	mv during m.prom
	assert_value held 1
	assert_equal "$(echo *.prom)" "m.prom"
	assert_equal "$(echo m.prom*)" "m.prom m.prom.lock"
}

@test "metrics: the expiry of a lease is there while it is held" {
	script renew slow 1
	bg "$LEASERUN" run "${FAKE[@]}" --metrics m.prom job sh -c \
	    'until [ -e go ]; do sleep 0.1; done'
	wait_until 10 test -s m.prom
	awk -v t="$(value lease_expiry_timestamp_seconds)" \
	    -v s="$(value last_start_timestamp_seconds)" \
	    'BEGIN { exit !(t > s && t <= s + 2.001) }'
	: >go
	assert_ends 0 $!
	assert_equal "$(value lease_expiry_timestamp_seconds)" ""
}

@test "metrics: concurrent jobs share a file, and none is lost" {
	local i pids=()

	for ((i = 0; i < 20; i++)); do
		bg "$LEASERUN" run --metrics m.prom -w 20s \
		    "job $((i % 10))" true
		pids+=($!)
	done 2>err
	for i in "${pids[@]}"; do
		assert_ends 0 "$i"
	done
	wait_until 10 all_gone
	assert_equal "$(cat err)" ""
	assert_equal "$(value runs_total 'outcome="success"' | sort | uniq -c |
	    tr -s ' ')" " 10 2"
	assert_equal "$(value held | sort | uniq -c | tr -s ' ')" " 10 0"
}

@test "metrics: one who keeps the lock delays nobody" {
	local start

	: >m.prom.lock
	bg flock m.prom.lock sh -c 'echo >locked; exec sleep 1000'
	wait_until 10 test -s locked
	start=$(date +%s)
	tell 7 job sh -c 'exit 7'
	[ $(($(date +%s) - start)) -lt 4 ]
	assert_contains "$stderr" "still being written"
	[ ! -e m.prom ]
}

@test "metrics: a file that is not ours, or damaged, is left alone" {
	echo 'node_load1 0.3' >m.prom
	cp m.prom old
	tell 0 job true
	assert_equal "$(grep -c "is damaged or not a file" stderr)" 1
	cmp m.prom old
	rm m.prom
	tell 0 job true
	head -c 1000 m.prom >old
	cp old m.prom
	tell 0 job true
	assert_contains "$stderr" "move it away"
	cmp m.prom old
	head -c 1000 /dev/urandom >m.prom
	cp m.prom old
	tell 0 job true
	cmp m.prom old
	for line in 'held{name="a",backend="b",c="d",e="f"} 1' \
	    'held{name="a",backend="b"} 1e999' 'held{name="a"} 1' \
	    'renewals_total{name="a",backend="b"} -1' 'held 1'; do
		echo "leaserun_$line" >m.prom
		cp m.prom old
		tell 0 job true
		assert_contains "$stderr" "(line 1), and is left alone"
		cmp m.prom old
	done
	# Of a newer version, perhaps; it is not kept.
	echo 'leaserun_runs_total{name="a",backend="b",unheard="of"} 1' >m.prom
	tell 0 job true
	assert_lacks "$(cat m.prom)" unheard
	: >m.prom
	tell 0 job true
	assert_value runs_total 1 'outcome="success"'
}

@test "metrics: a file that is too large, or full of jobs, is left alone" {
	tell 0 job true
	cp m.prom good
	truncate -s $((9 << 20)) m.prom
	tell 7 job sh -c 'exit 7'
	assert_contains "$stderr" "'m.prom' is too large for a file of metrics"
	assert_equal "$(stat -c %s m.prom)" $((9 << 20))
	rm m.prom
	mkfifo p
	tell 7 job sh -c 'until [ -e m.prom ]; do sleep 0.02; done
	    mv -f p m.prom; exit 7'
	assert_contains "$stderr" "'m.prom' is not a regular file, and is left"
	rm m.prom
	# One sample of each is enough.
	seq -f 'leaserun_ttl_seconds{name="job%g",backend="x"} 1' 4096 >m.prom
	cp m.prom old
	tell 7 job sh -c 'exit 7'
	assert_contains "$stderr" "no more jobs fit into 'm.prom'; name another"
	cmp m.prom old
	# And one that is too large once all is written that belongs to them.
	sed -i 1d m.prom
	cp m.prom old
	tell 7 job sh -c 'exit 7'
	assert_contains "$stderr" "no more jobs fit into 'm.prom'; name another"
	cmp m.prom old
	[ ! -e m.prom.tmp ]
	head -n 100 old >m.prom
	tell 0 job true
	grep 'runs_total{name="job",.*outcome="success"} 1$' m.prom
}

@test "a path that is too long with what is put behind it is refused" {
	local path

	path=$(printf './%.0s' {1..2045})m
	run_tool 0 run --events "$path" job true
	run_tool 78 run --metrics "$path" job touch started
	assert_contains "$stderr" "File name too long"
	[ ! -e started ]
}

@test "a password appears in no event and no metric" {
	tell 69 -b 'postgres://u:s3kret@127.0.0.1:1/db?sslpassword=s3kret' \
	    --module-dir "$BACKENDS" --connect-timeout 300ms job true
	assert_event not_run '.backend | contains("127.0.0.1:1")'
	run grep -r s3kret e m.prom
	assert_equal "$output" ""
}

@test "events: what is not UTF-8 is told as far as it is" {
	tell 78 -b "file:$PWD/not"$'\xff\xc3' job true
	assert_event not_run '(.backend | endswith("/not??"))
	    and (.error | contains("/not??"))'
}

@test "events and metrics are keys of the files, and of job blocks" {
	cat >leaserun.conf <<-'XX'
	events = "e"
	job "report-*" {
		events = "sub/e"
		metrics = "sub/m.prom"
	}
	XX
	mkdir sub
	run_tool 0 run job true
	assert_equal "$(names)" "acquired released end"
	run_tool 0 run report-daily true
	mv sub/* .
	assert_equal "$(jq -r .name e | sort -u)" report-daily
	assert_value runs_total 1 'outcome="success"'
}

@test "a file system that hangs delays neither the job nor its end" {
	local keeper

	bg "$LEASERUN" run "${FAKE[@]}" --events e --metrics m.prom job sh -c \
	    'echo >up; until [ -e go ]; do sleep 0.1; done; exit 7' 2>err
	keeper=$!
	wait_until 10 test -s up
	freeze "$(writer)"
	wait_until 10 calls_reach renew '.*' ok 3
	: >go
	assert_ends 7 "$keeper"
	file_has err "still being written"
	kill -CONT "$(writer)"
	wait_until 10 has_event end
	assert_event end '.status == 7 and .renewals >= 3'
}

@test "whoever writes the files is gone: the run goes on" {
	bg "$LEASERUN" run "${FAKE[@]}" --events e job sh -c \
	    'echo >up; until [ -e go ]; do sleep 0.1; done; exit 7' 2>err
	wait_until 10 test -s up
	kill -KILL "$(writer)"
	: >go
	assert_ends 7 $!
	assert_equal "$(grep -c "their process has ended" err)" 1
}

@test "no process and no descriptor without the options, and none for the job" {
	mkfifo go
	bg "$LEASERUN" run job -- sh -c 'ls /proc/self/fd >fds; read -r _ <go'
	wait_until 10 test -s fds
	mv fds fds.without
	assert_equal "$(writer)" ""
	echo >go
	assert_ends 0 $!
	bg "$LEASERUN" run --events e job -- sh -c \
	    'ls /proc/self/fd >fds; read -r _ <go'
	wait_until 10 test -s fds
	diff fds.without fds
	# It is nobody's child here, and keeps no output open.
	[ "$(writer)" -gt 0 ]
	assert_equal "$(ls "/proc/$(writer)/fd" | wc -l)" 4
	assert_equal "$(readlink "/proc/$(writer)/fd/2")" /dev/null
	run grep -c . "/proc/$!/task/$!/children"
	assert_equal "$(wc -w <"/proc/$!/task/$!/children")" 1
	echo >go
	assert_ends 0 $!
}

@test "as process 1, and inside another run" {
	timeout 20 unshare --fork --pid --mount-proc "$LEASERUN" run \
	    --events e --metrics m.prom job sh -c 'exit 7' 3>&- || status=$?
	assert_equal "$status" 7
	assert_equal "$(names)" "acquired released end"
	assert_value runs_total 1 'outcome="failure"'
	rm e
	run_tool 7 run --events e outer "$LEASERUN" run --events e inner \
	    sh -c 'exit 7'
	assert_equal "$(jq -r '"\(.name) \(.event)"' e | paste -sd ,)" \
	    "$(printf '%s,' 'outer acquired' 'inner acquired' \
	    'inner released' 'inner end' 'outer released')outer end"
	assert_equal "$stderr" ""
}

@test "--log syslog sends fields to the journal" {
	cat >in-namespace <<-'XX'
	mount -t tmpfs none /run && mkdir -p /run/systemd/journal || exit
	"$LISTEN" /run/systemd/journal/socket >got &
	n=0
	until [ -S /run/systemd/journal/socket ] || [ $((n += 1)) -gt 500 ]; do
		sleep 0.02
	done
	"$LEASERUN" run --log syslog -v 'a "b"' -- \
	    sh -c 'echo "$LEASERUN_FENCE_TOKEN" >token; exit 3'
	echo $? >status
	"$LEASERUN" run --log syslog -v -b file:relative job true
	n=0
	until grep -q relative got || [ $((n += 1)) -gt 500 ]; do
		sleep 0.02
	done
	kill $!
	XX
	LISTEN=$LISTEN LEASERUN=$LEASERUN timeout 30 \
	    unshare --mount sh in-namespace 3>&- 2>err
	assert_equal "$(cat status)" 3
	assert_equal "$(cat err)" ""
	awk 'BEGIN { RS = "\n--\n" } /MESSAGE=.a "b".: released/' got >released
	for field in 'PRIORITY=6' 'SYSLOG_IDENTIFIER=leaserun' \
	    'SYSLOG_FACILITY=3' 'LEASERUN_NAME=a "b"' \
	    "LEASERUN_OWNER=$(uname -n)" "LEASERUN_TOKEN=$(cat token)" \
	    'LEASERUN_EVENT=released'; do
		grep -qxF -e "$field" released || fail "no $field"
	done
	grep -q '^LEASERUN_RUN_ID=[0-9a-f]\{32\}$' released
	# A message that is of no event has none.
	awk 'BEGIN { RS = "\n--\n" } /started process/' got >started
	file_has started MESSAGE=
	assert_lacks "$(cat started)" LEASERUN_EVENT
	file_has got LEASERUN_EVENT=not_run
}

@test "--log syslog: without a journal, lines go to /dev/log" {
	cat >in-namespace <<-'XX'
	mount -t tmpfs none /run && mount -t tmpfs none dev || exit
	mknod -m 666 dev/null c 1 3 && mknod -m 666 dev/urandom c 1 9 || exit
	ln -s /proc/self/fd dev/fd
	"$LISTEN" "$PWD/dev/log" >got &
	n=0
	until [ -S dev/log ] || [ $((n += 1)) -gt 500 ]; do
		sleep 0.02
	done
	mount --move dev /dev || exit
	"$LEASERUN" run --log syslog -v job true
	n=0
	until grep -q released got || [ $((n += 1)) -gt 500 ]; do
		sleep 0.02
	done
	kill $!
	XX
	mkdir dev
	LISTEN=$LISTEN LEASERUN=$LEASERUN timeout 30 \
	    unshare --mount sh in-namespace 3>&- 2>err
	cat err
	grep "leaserun\[[0-9]*\]: 'job': released" got
}

@test "--log syslog: with neither, and once it is gone, on standard error" {
	cat >in-namespace <<-'XX'
	mount -t tmpfs none /run && mount -t tmpfs none dev || exit
	mknod -m 666 dev/null c 1 3 && mknod -m 666 dev/urandom c 1 9 || exit
	ln -s /proc/self/fd dev/fd
	mount --move dev /dev || exit
	"$LEASERUN" run --log syslog -- echo 2>usage
	"$LEASERUN" run --log syslog -v job true 2>none
	"$LISTEN" /dev/log >got &
	n=0
	until [ -S /dev/log ] || [ $((n += 1)) -gt 500 ]; do
		sleep 0.02
	done
	"$LEASERUN" run --log syslog -v job sh -c "until grep -q acquired got
	    do
		    sleep 0.02
	    done
	    kill $!
	    while kill -0 $! && ! grep -q '^State:.Z' /proc/$!/status; do
		    sleep 0.02
	    done 2>/dev/null" 2>gone
	XX
	mkdir dev
	LISTEN=$LISTEN LEASERUN=$LEASERUN timeout 60 \
	    unshare --mount sh in-namespace 3>&- 2>err
	cat err usage none gone
	file_has usage "leaserun: run: the name is missing"
	file_has none "leaserun: 'job': acquired"
	file_has none "leaserun: 'job': released"
	grep "leaserun\[[0-9]*\]: 'job': acquired" got
	file_has gone "leaserun: 'job': released"
	assert_lacks "$(cat gone)" acquired
}

@test "promtool accepts the metrics, the alerts and what they say" {
	tell 0 'a "b"\ é' true
	promtool check metrics <m.prom
	cp "$srcdir"/contrib/alerts*.yml .
	promtool check rules alerts.yml
	promtool test rules alerts-test.yml
}

@test "alerts, dashboard and manual name metrics that exist" {
	sed -nE 's/^	\{ "([a-z_]*)", PROM_.*/leaserun_\1/p' \
	    "$srcdir/src/promfile.c" | sort >exist
	[ "$(wc -l <exist)" -ge 18 ]
	jq -e '.panels | length > 5' "$srcdir/contrib/dashboard.json"
	jq -r '.. | .expr? // empty' "$srcdir/contrib/dashboard.json" >exprs
	{ cat exprs; sed -n '/expr:/,/^ *\(for\|labels\):/p' \
	    "$srcdir/contrib/alerts.yml"; } |
	    grep -oE 'leaserun_[a-z_]+' | sort -u >used
	[ "$(wc -l <used)" -ge 10 ]
	assert_equal "$(comm -13 exist used)" ""
	sed -nE 's/^\.It Li (leaserun_[a-z_]+).*/\1/p' \
	    "$srcdir/man/leaserun-events.5" | sort >documented
	diff exist documented
}

@test "the schema in the manual is that of the program" {
	local kind

	sed -n '/event_names\[EVENT_TYPES\] = {/,/};/p' "$srcdir/src/report.c" |
	    grep -oE '"[a-z_]+"' | tr -d '"' | grep -vx beat | sort >should
	sed -n '/^\.Ss Events/,/^\.Ss/s/^\.It Cm \([a-z_]*\).*/\1/p' \
	    "$srcdir/man/leaserun-events.5" | sort >is
	diff -u should is
	sed -n '/refusal_names\[REFUSALS\]/,/^const char/p' \
	    "$srcdir/src/report.c" | grep -oE '"[a-z_]+"' | tr -d '"' >words
	sed -nE 's/.*\{ "([a-z_]+)",.*/\1/p' "$srcdir/src/loss.c" >>words
	[ "$(wc -l <words)" -ge 25 ]
	while read -r kind; do
		grep -qE "^\.It Cm (.* )?$kind( |\$)" "$srcdir/man/leaserun-events.5" ||
		    fail "not in the manual: $kind"
	done <words
}
