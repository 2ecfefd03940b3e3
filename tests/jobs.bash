# shellcheck shell=bash disable=SC2034
# For tests that harm a run: `load helpers', `load jobs'.  They have a fake
# store in $STORE with leases of two seconds, and jobs, tests/probe.c, that
# write to the file `out'.

: "${builddir:=$BATS_TEST_DIRNAME/..}"
PROBE=$builddir/tests/probe
STARTWITH=$builddir/tests/startwith
SIGRECORD=$builddir/tests/sigrecord
HAMMER=$builddir/tests/hammer
MEDDLE=$builddir/tests/meddle

setup() {
	test_setup
	STORE=$BATS_TEST_TMPDIR/store
	mkdir store
	: >out
	FAKE=(--module-dir "$MODULES" -b "fake:$STORE" -t 2s -g 300ms -r 400ms)
}

# For tests of what a sanitizer is in the way of: it has handlers for signals
# that tell of a crash, and needs descriptors, processes and /proc at the end.
no_sanitizer() {
	local signo off=detect_leaks=0

	for signo in segv abort; do
		off+=:handle_$signo=0
	done
	for signo in bus ill fpe; do
		off+=:handle_sig$signo=0
	done
	export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}$off
}

# script OP WORD...: what the next calls of OP do.  Where the second renews
# too and is not to be disturbed, `by first'.
script() {
	local op=$1

	shift
	printf '%s\n' "$*" >"$STORE/draft"
	mv "$STORE/draft" "$STORE/script.$op"
}

unscript() {
	rm "$STORE/script.$1"
}

# first [OPTION]... -- WORD...: a run of probe in the background, $first.  What
# it says is in the file first.
first() {
	local -a options=()

	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	bg "$LEASERUN" run "${FAKE[@]}" --owner first "${options[@]}" job -- \
	    "$PROBE" out "$@" 2>first
	first=$!
}

# second [OPTION]...: one that waits for the same lease, $second.
second() {
	bg "$LEASERUN" run "${FAKE[@]}" --owner second --wait 30s "$@" job -- \
	    "$PROBE" out ticks=3 2>second
	second=$!
	wait_until 10 called acquire second
	# Which may be before the guard has had its first turn.
	wait_until 10 eval 'has_guard "$second" || is_gone "$second"'
}

# called OP OWNER [RESULT]: the call was made, or has ended like this.
called() {
	grep -q "^[0-9]* $1 job $2:[0-9a-f]* ${3:--} " "$STORE/log" 2>/dev/null
}

# call_count OP OWNER RESULT: how often.
call_count() {
	cat "$STORE/log" 2>/dev/null |
	    grep -c "^[0-9]* $1 job $2:[0-9a-f]* $3 " || :
}

# calls_reach OP OWNER RESULT COUNT
calls_reach() {
	[ "$(call_count "$1" "$2" "$3")" -ge "$4" ]
}

# ticking COUNT: so many processes have ticked.
ticking() {
	[ "$(awk '$1 == "tick" && !seen[$4]++ { n++ } END { print n + 0 }' \
	    out)" -ge "$1" ]
}

# uptime_exceeds NS: by CLOCK_BOOTTIME, which /proc/uptime shows.
uptime_exceeds() {
	awk -v ns="$1" '{ exit !($1 * 1e9 > ns) }' /proc/uptime
}

# lines WORD [TOKEN]: how many lines of `out' begin like this.
lines() {
	grep -c "^$1 ${2:-}" out || :
}

# The number of ticks so far, and whether there are more than that.
ticks() {
	lines tick
}

ticks_exceed() {
	[ "$(ticks)" -gt "$1" ]
}

# guard KEEPER: the pid of its guard.
guard() {
	local pid comm

	for pid in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
		read -r comm <"/proc/$pid/comm" 2>/dev/null || continue
		[ "$comm" != leaserun-guard ] || { echo "$pid"; return 0; }
	done
	return 1
}

has_guard() {
	guard "$1" >/dev/null
}

# state PID LETTER: its state is this one, as in ps.
state() {
	grep -q "^State:.$2" "/proc/$1/status" 2>/dev/null
}

freeze() {
	kill -STOP "$1"
	wait_until 10 state "$1" T
}

# None of the processes that `out' names, of that token, is there.
job_gone() {
	local pid

	for pid in $(awk -v token="$1" '(token == "" || $2 == token) &&
	    !seen[$4]++ { print $4 }' out); do
		[ ! -e "/proc/$pid" ] || is_gone "$pid" || return
	done
}

# The token of the nth start.
token() {
	awk -v n="$1" '$1 == "start" && ++i == n { print $2 }' out
}

# Nothing of the test is left but this shell.
all_gone() {
	[ -z "$(test_processes)" ]
}

# assert_order [COUNT]: COUNT runs, 2 by default, have begun.  Not one sign of
# life of one comes after the next one was granted: what the store's log says is
# the earliest that can be known of that, if there is one.
assert_order() {
	{
		awk '{ print $3, $2, $1, $4 }' out
		[ ! -e "$STORE/log" ] || awk '$2 == "acquire" && $5 == "ok" {
			print $1, $6, "grant", $4 }' "$STORE/log"
	} | sort -n >order
	awk -v want="${1:-2}" '
		$3 == "alive" { print "still there:", $0; bad = 1 }
		$2 + 0 < top && $3 != "grant" { print "too late:", $0; bad = 1 }
		$2 + 0 > top { top = $2 + 0 }
		$3 == "start" { n++ }
		END {
			if (n != want)
				print n + 0, "runs, not", want
			exit bad || n != want
		}' order || { cat order; fail "the order is wrong"; }
}

# assert_taken_over RC [COUNT]: the first run ends with RC, the second is
# granted the lease after that job is gone, and runs.  Each process of the first
# has ticked.
assert_taken_over() {
	assert_ends "$1" "$first"
	assert_ends 0 "$second"
	assert_order "${2:-2}"
	job_gone ""
}

# A lease that can be had at once is free.
assert_free() {
	run_tool 0 run "${FAKE[@]}" job -- true
}
