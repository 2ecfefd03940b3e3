# shellcheck shell=bash
# For every bats file: `load helpers'.  Each test has its own folder, store and
# configuration; what it leaves running is killed.  Never waits without a bound.

: "${srcdir:=$(cd "$BATS_TEST_DIRNAME/.." && pwd)}"
: "${builddir:=$srcdir}"
: "${LEASERUN:=$builddir/src/leaserun}"
: "${MODULES:=$builddir/tests/.libs}"
: "${BACKENDS:=$builddir/backends/.libs}"

# A file that defines its own calls these.
setup() {
	test_setup
}

teardown() {
	test_teardown
}

test_setup() {
	bg_pids=()
	cd "$BATS_TEST_TMPDIR" || return
	exec </dev/null
	unset XDG_CONFIG_HOME XDG_STATE_HOME "${!LEASERUN_@}"
	mkdir home state
	: >leaserun.conf
	export HOME=$BATS_TEST_TMPDIR/home
	export LEASERUN_BACKEND=file:$BATS_TEST_TMPDIR/state
	export LEASERUN_CONFIG=$BATS_TEST_TMPDIR/leaserun.conf
	# What the test starts is known by this, wherever it ends up.
	export TEST_MARK=$BATS_TEST_TMPDIR
}

test_teardown() {
	local -i i
	local pids

	for ((i = 0; i < 250; i++)); do
		mapfile -t pids < <(test_processes)
		[ ${#pids[@]} -gt 0 ] || break
		kill -KILL "${pids[@]}" 2>/dev/null || :
		sleep 0.02
	done
	[ ${#bg_pids[@]} -eq 0 ] || wait "${bg_pids[@]}" 2>/dev/null || :
}

# The pids of everything that the test started and that is still there.
test_processes() (
	unset TEST_MARK
	grep -lzxF "TEST_MARK=$BATS_TEST_TMPDIR" /proc/[0-9]*/environ \
	    2>/dev/null | grep -o '[0-9]*'
)

fail() {
	printf '%s\n' "$*" >&2
	return 1
}

# run_tool RC ARG...: runs leaserun and fails unless its exit status is RC.
# Sets stdout, stderr, and output, which is both.  137: it took over 20 s.
# shellcheck disable=SC2034
run_tool() {
	local want=$1 status=0

	shift
	printf '$ leaserun'
	printf ' %q' "$@"
	printf '\n'
	# Files, since a pipe would wait for every process that has it open.
	timeout -s KILL 20 "$LEASERUN" "$@" >"$BATS_TEST_TMPDIR/stdout" \
	    2>"$BATS_TEST_TMPDIR/stderr" 3>&- || status=$?
	stdout=$(cat "$BATS_TEST_TMPDIR/stdout")
	stderr=$(cat "$BATS_TEST_TMPDIR/stderr")
	output=$(cat "$BATS_TEST_TMPDIR/stdout" "$BATS_TEST_TMPDIR/stderr")
	printf '%s\n' "$output"
	[ "$status" -eq "$want" ] ||
	    fail "exit status $status, expected $want"
}

# bg PROGRAM [ARG]...: starts it in the background, its pid is $!.  INT and QUIT
# are not ignored, as the shell would have it.
bg() {
	env --default-signal=INT,QUIT "$@" 3>&- &
	bg_pids+=("$!")
}

# wait_until SECONDS COMMAND...: until it succeeds, tried every 20 ms.
wait_until() {
	local -i left=$(($1 * 50))
	local seconds=$1

	shift
	until "$@"; do
		((left-- > 0)) || fail "not within $seconds s: $*" || return
		sleep 0.02
	done
}

# A zombie is not alive.
is_alive() {
	grep -q '^State:.[^ZX]' "/proc/$1/status" 2>/dev/null
}

is_gone() {
	! is_alive "$1"
}

file_has() {
	grep -qF -e "$2" "$1" 2>/dev/null
}

assert_equal() {
	[ "$1" = "$2" ] || fail "got '$1', expected '$2'"
}

assert_contains() {
	[[ $1 == *"$2"* ]] || fail "'$1' does not contain '$2'"
}

assert_lacks() {
	[[ $1 != *"$2"* ]] || fail "'$1' contains '$2'"
}

assert_matches() {
	[[ $1 =~ $2 ]] || fail "'$1' does not match '$2'"
}

# assert_ends RC PID: within 20 s, what bg started ends with exit status RC.
assert_ends() {
	local status=0

	wait_until 20 is_gone "$2" || return
	wait "$2" || status=$?
	[ "$status" -eq "$1" ] ||
	    fail "process $2 ended with $status, expected $1"
}
