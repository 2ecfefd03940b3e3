#!/usr/bin/env bats
# The short paths under valgrind.  A build with AddressSanitizer has its own
# checks, which valgrind cannot be put around.

load helpers
load jobs
load etcd
load postgres

# How a program is started, and the file that it talks to.
wrap() {
	wrapped=(valgrind -q --error-exitcode=99 --leak-check=full
	    --errors-for-leak-kinds=definite --child-silent-after-fork=no)
	! nm "$LEASERUN" | grep -qE '__asan_init|__llvm_profile' ||
	    wrapped=()
}

# clean FILE: nothing was found by those who watch, in keeper and guard.
clean() {
	local found

	for found in "==ERROR" "definitely lost" uninitialised Invalid \
	    "Mismatched free" "Syscall param" "Process terminating"; do
		assert_lacks "$(cat "$1")" "$found" || return
	done
}

# checked RC ARG...: like run_tool.
checked() {
	local want=$1 status=0 wrapped

	shift
	wrap
	timeout -s KILL 60 "${wrapped[@]}" "$LEASERUN" "$@" >stdout 2>err \
	    3>&- || status=$?
	cat stdout err
	assert_equal "$status" "$want" || return
	clean err
}

# watched ARG...: in the background; what it says is in `watched', and $keeper
# is the pid.
watched() {
	local wrapped

	wrap
	bg "${wrapped[@]}" "$LEASERUN" "$@" 2>watched
	keeper=$!
}

# ends RC: that one.
ends() {
	wait_until 60 is_gone "$keeper" || return
	assert_ends "$1" "$keeper" || { cat watched; return 1; }
	clean watched
}

# The guard of $keeper: under valgrind it keeps the name.
guard_of() {
	tr ' ' '\n' <"/proc/$keeper/task/$keeper/children" | head -n 1
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

@test "faults: a lost lease, an outage, revoked, no answers" {
	local how

	for how in lost unavailable revoke drop; do
		script renew "$how"
		checked 79 run "${FAKE[@]}" -t 6s -r 500ms "$how" -- "$PROBE" \
		    out tree
		unscript renew
	done
	script acquire unavailable
	checked 69 run "${FAKE[@]}" --connect-timeout 2s job true
	script acquire drop once
	checked 0 run "${FAKE[@]}" -t 60s job true
	script release unavailable once
	checked 0 run "${FAKE[@]}" -t 60s --once k job true
	checked 0 run "${FAKE[@]}" -t 60s --once k job false
	checked 0 status --module-dir "$MODULES" -b "fake:$STORE" --once job
}

@test "faults: the guard is killed, the keeper is told to end" {
	watched run "${FAKE[@]}" -t 60s job -- "$PROBE" out tree
	wait_until 60 ticking 4
	kill -KILL "$(guard_of)"
	ends 70
	: >out
	watched run "${FAKE[@]}" -t 60s -g 10s job -- "$PROBE" out tree
	wait_until 60 ticking 4
	kill -TERM "$keeper"
	ends 143
	script acquire held
	watched run "${FAKE[@]}" --wait inf job true
	wait_until 60 test -s "$STORE/log"
	kill -TERM "$keeper"
	ends 143
}

@test "ends: a signal, max-run, leftovers, min-hold" {
	checked 137 run job -- sh -c 'kill -KILL $$'
	checked 124 run --max-run 1s -g 500ms job -- sleep 60
	checked 0 run --leftovers kill -g 500ms job -- sh -c 'sleep 60 &'
	checked 0 run --leftovers leave job -- sh -c 'sleep 60 &'
	checked 126 run job /
	checked 0 run --min-hold 1s --wait 20s job true
}

@test "events, metrics, once, fence" {
	checked 0 run --events e --metrics m.prom job true
	checked 0 run --events e --metrics m.prom -v job true
	echo nonsense >m.prom
	checked 0 run --metrics m.prom --log syslog job true
	checked 0 run --once k --owner x job true
	checked 0 run -v --once k job false
	checked 0 run --once-per 1d job true
	checked 0 status --once
	checked 0 fence --token 5 data true
	checked 75 fence --token 4 data true
	checked 0 fence --token 6 data sh -c 'exit 0'
	printf x | dd of=data.fence bs=1 seek=100 conv=notrunc
	checked 0 fence --token 7 data true
	printf x | dd of=state/job.token bs=1 seek=100 conv=notrunc
	checked 0 run job true
	echo nonsense >>state/job.once
	checked 78 run --once other job true
}

# runs: what is asked of a store over the network for a run.
runs() {
	checked 0 run -t 30s job true
	checked 3 run -t 30s -vv --once k job -- sh -c 'exit 3'
	checked 0 run -t 30s --once k --min-hold 1s job true
	checked 0 run -t 30s --once k job false
	checked 0 run -t 30s --wait 40s --once-per 1d job true
	checked 0 status --json --once job
}

# talks: and between one who holds and others.
talks() {
	bg "$LEASERUN" run -t 6s -r 500ms job -- sh -c 'echo x >held; sleep 60'
	wait_until 30 test -s held
	checked 75 run -v job true
	watched run -t 30s --wait 60s job true
	checked 0 status
	checked 75 check --token 1 job
	checked 0 revoke --wait 30s job
	ends 0
	checked 0 init --raise-token 10
	checked 0 doctor
}

@test "Postgres: runs" {
	pg_setup
	runs
	pg_stop
	checked 69 run --connect-timeout 2s job true
}

@test "Postgres: held, waited for, revoked, looked at" {
	pg_setup
	talks
	pg_stop
}

# shellcheck disable=SC2034
one_etcd() {
	unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
	curl_opts=()
	ctl_opts=()
	etcd_start
	use "$ETCD"
}

@test "etcd: runs" {
	one_etcd
	runs
	etcd_stop
	checked 69 run --connect-timeout 2s job true
}

@test "etcd: held, waited for, revoked, looked at" {
	one_etcd
	talks
	etcd_stop
}
