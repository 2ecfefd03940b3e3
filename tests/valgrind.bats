#!/usr/bin/env bats
# The short paths under valgrind.  A build with AddressSanitizer has its own
# checks, which valgrind cannot be put around.

load helpers

# checked RC ARG...: like run_tool.
checked() {
	local want=$1 status=0
	local -a wrap=(valgrind -q --error-exitcode=99 --leak-check=full
	    --errors-for-leak-kinds=definite --child-silent-after-fork=no)

	shift
	! nm "$LEASERUN" | grep -q __asan_init || wrap=()
	timeout -s KILL 60 "${wrap[@]}" "$LEASERUN" "$@" >out 2>err 3>&- ||
	    status=$?
	cat out err
	assert_equal "$status" "$want" || return
	assert_lacks "$(cat err)" "==ERROR"
	assert_lacks "$(cat err)" "definitely lost"
	assert_lacks "$(cat err)" "uninitialised"
	assert_lacks "$(cat err)" "Invalid"
}

@test "a run, a skip, a failure to execute and a wait" {
	checked 0 run job true
	checked 3 run -vv --token-env T job -- sh -c 'exit 3'
	checked 127 run job -- no-such-command
	bg "$LEASERUN" run job -- sh -c \
	    'echo x >held; while [ ! -e over ]; do sleep 0.02; done'
	wait_until 10 test -s held
	checked 75 run -v job true
	checked 75 run --wait 200ms job true
	touch over
	checked 0 run --wait 20s job true
}

@test "help, usage errors, configuration" {
	checked 0 --help
	checked 0 run --help
	checked 64 run --ttl 10x job true
	printf 'ttl = 40s\njob "j*" { owner = "x" }\n' >leaserun.conf
	checked 0 run job true
	printf 'ttk = 40s\n' >leaserun.conf
	checked 78 run job true
}

@test "status, check, revoke, init, doctor" {
	checked 0 run job true
	checked 0 status
	checked 0 status --json job other
	checked 75 check --token 1 job
	checked 0 revoke job
	checked 0 init
	checked 0 doctor
}
