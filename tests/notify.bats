# What a service manager is told: --notify.

load helpers
load jobs

LISTEN=$builddir/tests/listen

# manager [ADDRESS]: one that writes what it is told to the file told, $manager.
manager() {
	export NOTIFY_SOCKET=${1:-$BATS_TEST_TMPDIR/manager}

	bg env -u NOTIFY_SOCKET "$LISTEN" -p "$NOTIFY_SOCKET" >told
	manager=$!
	wait_until 20 grep -qF "$NOTIFY_SOCKET" /proc/net/unix
}

told() {
	grep -qxE -e "$1" told
}

# What the manager was told so far, a line each; tokens and pids are N.
said() {
	grep -vxE 'from [0-9]+|--' told | sed -E 's/\b[0-9]{2,}\b/N/g'
}

# The run has ended, so all was sent: it is there once the last line is.
assert_said() {
	wait_until 20 told "${*: -1}"
	assert_equal "$(said)" "$(printf '%s\n' "$@" |
	    sed -E 's/\[0-9\]\+/N/g; s/\\//g')"
}

@test "the manager is told when the command runs, and of its end" {
	manager
	bg "$LEASERUN" run --notify ready job -- \
	    sh -c 'echo "${NOTIFY_SOCKET-unset}" >seen; exit 3'
	assert_ends 3 $!
	assert_said "STATUS=asking for 'job'" READY=1 \
	    "STATUS=running 'job' with token [0-9]+" STOPPING=1 \
	    "STATUS='job' has ended, status 3 \(token [0-9]+\)"
	# With NotifyAccess=main it listens to the process that it has started.
	assert_equal "$(grep '^from ' told | sort -u)" "from $!"
	assert_equal "$(cat seen)" unset
}

# Whoever starts what depends on the command waits for this.
@test "the manager is told that the command runs while it does" {
	local how

	mkfifo end
	manager
	for how in ready status; do
		bg "$LEASERUN" run --notify $how $how -- sh -c 'read line <end'
		wait_until 20 told "STATUS=running '$how' with token [0-9]+"
		told READY=1
		assert_lacks "$(cat told)" "STATUS='$how' has ended"
		echo >end
		assert_ends 0 $!
	done
}

@test "an address that is in no file system will do" {
	manager "@leaserun-test-$BASHPID"
	run_tool 0 run --notify ready job true
	wait_until 20 told READY=1
}

@test "the token that is told is the one of the command" {
	manager
	run_tool 0 run --notify ready job -- \
	    sh -c 'echo "$LEASERUN_FENCE_TOKEN" >token'
	wait_until 20 told "STATUS=running 'job' with token $(cat token)"
}

@test "one that waits is not ready, and says for whom it waits" {
	mkfifo go
	bg "$LEASERUN" run --owner first job -- sh -c ': >held; read -r _ <go'
	first=$!
	wait_until 20 test -e held
	manager
	bg "$LEASERUN" run --owner second --wait 60s --notify ready job true
	second=$!
	wait_until 20 grep -q '^STATUS=waiting' told
	assert_matches "$(said | tail -n 1)" \
	    "^STATUS=waiting for 'job', held by 'first' \(host '.*', pid N, token N\)$"
	run said
	assert_lacks "$output" READY=1
	echo >go
	assert_ends 0 "$first"
	assert_ends 0 "$second"
	wait_until 20 told READY=1
}

@test "a run that is skipped, cancelled or refused says so and is never ready" {
	mkfifo go
	bg "$LEASERUN" run --owner first job -- sh -c 'read -r _ <go'
	wait_until 20 sh -c '"$1" status | grep -q "job *held"' sh "$LEASERUN"
	manager
	run_tool 75 run --notify ready job true
	wait_until 20 grep -q "^STATUS='job' not run: held by 'first' (host" told
	bg "$LEASERUN" run --notify ready --wait inf job true
	wait_until 20 grep -q '^STATUS=waiting' told
	kill -TERM $!
	assert_ends 143 $!
	wait_until 20 told "STATUS='job' not run: told to stop"
	run_tool 78 run --notify ready -b file:/nowhere/at/all other true
	wait_until 20 grep -q "^STATUS='other' not run: .*/nowhere/at/all" told
	run_tool 0 run --once a past true
	run_tool 0 run --notify ready --once a past true
	wait_until 20 told "STATUS='past' not run: it is done"
	run_tool 127 run --notify ready other no-such-command
	wait_until 20 told "STATUS='other' has ended, status 127.*"
	run said
	assert_lacks "$output" READY=1
}

@test "with status, READY=1 is left to the command" {
	manager
	bg "$LEASERUN" run --notify status job -- \
	    sh -c 'echo "$NOTIFY_SOCKET" >seen'
	assert_ends 0 $!
	assert_said "STATUS=asking for 'job'" \
	    "STATUS=running 'job' with token [0-9]+" STOPPING=1 \
	    "STATUS='job' has ended, status 0 \(token [0-9]+\)"
	assert_equal "$(cat seen)" "$NOTIFY_SOCKET"
}

@test "without --notify nobody is told, and the command may tell" {
	manager
	run_tool 0 run job -- sh -c 'echo "$NOTIFY_SOCKET" >seen'
	run_tool 0 run --notify no job true
	assert_equal "$(cat seen)" "$NOTIFY_SOCKET"
	printf 'notify = status\njob "told" { notify = ready }\n' >leaserun.conf
	run_tool 0 run --notify no job true
	run_tool 0 run told true
	# Datagrams keep their order: of the others nothing comes any more.
	wait_until 20 told STOPPING=1
	assert_equal "$(grep -c asking told)" 1
	told "STATUS=asking for 'told'"
}

@test "a manager that does not listen delays nothing, and hears it later" {
	local -i i

	manager
	freeze "$manager"
	# More than the queue of a socket holds.
	for ((i = 0; i < 40; i++)); do
		run_tool 0 run --notify ready filler true
		assert_equal "$stderr" ""
	done
	mkfifo go
	bg "$LEASERUN" run --notify ready job -- sh -c 'echo >ran; read -r _ <go'
	wait_until 20 test -e ran
	kill -CONT "$manager"
	wait_until 20 told "STATUS=running 'job' with token [0-9]+"
	grep -A 1 '^READY=1' told | grep "running 'job'"
	echo >go
	assert_ends 0 $!
}

@test "a manager that goes away is missed once" {
	manager
	mkfifo go
	bg "$LEASERUN" run --notify ready job -- sh -c 'read -r _ <go' 2>err
	wait_until 20 told READY=1
	kill "$manager"
	wait_until 20 is_gone "$manager"
	echo >go
	assert_ends 0 $!
	assert_equal "$(cat err)" "leaserun: --notify: the service manager is\
 not told: Connection refused"
}

@test "no manager, or an address that is none, is no failure" {
	unset NOTIFY_SOCKET
	run_tool 5 run --notify ready job sh -c 'exit 5'
	assert_equal "$stderr" ""
	export NOTIFY_SOCKET
	for NOTIFY_SOCKET in /nowhere/at/all relative "" / @ vsock:2:1 \
	    "/$(printf '%0200d' 0)"; do
		run_tool 5 run --notify ready job sh -c 'exit 5'
		assert_contains "$stderr" \
		    "leaserun: --notify: the service manager is not told: "
		assert_equal "$(grep -c . <<<"$stderr")" 1
	done
}

@test "renewals that fail, and that go on, are told" {
	manager
	script renew unavailable
	first --notify ready -t 60s -r 1s -- ticks=2000
	wait_until 20 grep -q "^STATUS=cannot renew the lease 'job' (token" told
	unscript renew
	wait_until 20 told "STATUS=the lease 'job' \(token [0-9]+\) is renewed again"
	kill -TERM "$first"
	assert_ends 143 "$first"
	wait_until 20 told "STATUS='job' has ended, status 143.*"
}

@test "a job that is being ended is stopping, and nothing else is told then" {
	manager
	script renew revoke
	first --notify ready -- cleanup=1000
	assert_ends 79 "$first"
	wait_until 20 told "STATUS='job' has ended, status 79.*"
	assert_equal "$(said | sed -n '/STOPPING/,$p')" "$(printf '%s\n' \
	    STOPPING=1 "STATUS=ending 'job': the lease is revoked" \
	    "STATUS='job' has ended, status N (token N)")"
}

@test "the end of the guard is told" {
	manager
	first --notify ready -- ticks=9000
	wait_until 20 told READY=1
	kill -KILL "$(guard "$first")"
	assert_ends 70 "$first"
	wait_until 20 told "STATUS=ending 'job': the guard is gone"
}

@test "a store that cannot be reached is told while it is waited for" {
	manager
	script acquire unavailable
	bg "$LEASERUN" run "${FAKE[@]}" --notify ready --wait 60s \
	    --connect-timeout 60s job true
	wait_until 20 grep -q "^STATUS=asking for 'job' again: " told
	unscript acquire
	assert_ends 0 $!
	wait_until 20 told READY=1
}

@test "text of the store cannot be taken for another message" {
	manager
	bg "$LEASERUN" run --owner 'é READY=1' --notify ready job true
	assert_ends 0 $!
	run_tool 78 run --notify ready -b "file:$PWD/"$'a\nREADY=1\nb' x true
	wait_until 20 grep -q "^STATUS='x' not run" told
	assert_equal "$(grep -cx READY=1 told)" 1
}
