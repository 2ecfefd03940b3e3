#!/bin/sh
# Side by side with flock(1), in one run: prints ratios, decides nothing.
#	LEASERUN  the program	builddir  where tests/bench is
#	ROUNDS    pairs a line (1000)	WAITERS  how many (1 10 100)
# What flock costs depends on the locale, which it reads and leaserun does not.
set -eu

: "${builddir:=.}"
: "${LEASERUN:=$builddir/src/leaserun}"
: "${ROUNDS:=1000}"
: "${WAITERS:=1 10 100}"
bench=$builddir/tests/bench
handover=$builddir/tests/handover

disk=$(mktemp -d "${BENCH_DIR:-/var/tmp}/leaserun-bench.XXXXXX")
memory=$(mktemp -d /dev/shm/leaserun-bench.XXXXXX)
holders=
cleanup() {
	# shellcheck disable=SC2086
	[ -z "$holders" ] || kill $holders 2>/dev/null || :
	rm -rf "$disk" "$memory"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
: >"$disk/leaserun.conf"
export LEASERUN_CONFIG="$disk/leaserun.conf"
true=$(command -v true)

# until_held FILE
until_held() {
	n=0
	until [ -s "$1" ]; do
		n=$((n + 1))
		[ "$n" -lt 500 ] || exit 1
		sleep 0.02
	done
}

# row WHAT UNIT OURS THEIRS
row() {
	awk -v what="$1" -v unit="$2" -v ours="$3" -v theirs="$4" 'BEGIN {
		printf("  %-10s %8s %s | %8s %s | ", what, ours, unit, theirs,
		    unit)
		if (theirs > 0)
			printf("ratio %.2f\n", ours / theirs)
		else
			print("-")
	}'
}

# calls COMMAND...: how many system calls, those of its children included.
calls() {
	strace -f -qqq -e signal=none -o "$disk/trace" "$@" || :
	grep -cE '^[0-9]+ +[a-z0-9_]+\(' "$disk/trace"
}

# compare TITLE STATE NAME LOCK: both around true.
compare() {
	echo "$1"
	"$bench" "$ROUNDS" -- "$LEASERUN" run -b "file:$2" "$3" "$true" -- \
	    flock -n "$4" "$true"
	ours=$(calls "$LEASERUN" run -b "file:$2" "$3" "$true")
	theirs=$(calls flock -n "$4" "$true")
	row calls "  " "$ours" "$theirs"
}

# unshared PID...: memory of the processes together, in kB.
unshared() {
	for pid; do
		cat "/proc/$pid/smaps_rollup"
	done | awk '/^Private_/ { sum += $2 } END { print sum }'
}

# switches PID...: context switches of the processes so far.
switches() {
	for pid; do
		cat "/proc/$pid/status"
	done | awk '/ctxt_switches/ { sum += $2 } END { print sum }'
}

# busy PID...: microseconds that the processes have run so far.
busy() {
	for pid; do
		cat "/proc/$pid/schedstat"
	done | awk '{ sum += $1 / 1000 } END { print int(sum) }'
}

echo "leaserun run -b file: | flock -n, $ROUNDS pairs, medians (quartiles)," \
    "locale ${LC_ALL:-${LC_CTYPE:-${LANG:-C}}}"
for where in "$disk" "$memory"; do
	mkdir "$where/state"
	: >"$where/lock"
	type=$(stat -f -c %T "$where")
	compare "acquire, true, release ($type)" "$where/state" job \
	    "$where/lock"

	"$LEASERUN" run -b "file:$where/state" held -- sh -c \
	    "echo \$\$ >'$where/held'; exec sleep 100000" &
	holders="$holders $!"
	flock -n "$where/lock2" sh -c \
	    "echo \$\$ >'$where/held2'; exec sleep 100000" &
	holders="$holders $!"
	until_held "$where/held"
	until_held "$where/held2"
	holders="$holders $(cat "$where/held" "$where/held2" | tr '\n' ' ')"
	compare "skip when held ($type)" "$where/state" held "$where/lock2"
done

for waiters in $WAITERS; do
	for kill in "" -k; do
		echo "${kill:+kill -9 of all, }hand-over to $waiters in turn," \
		    "each (tmpfs)"
		# shellcheck disable=SC2086
		"$handover" $((ROUNDS / 25 / (waiters < 10 ? 1 : 4) + 1)) \
		    "$waiters" $kill "$memory/state/wait.lock" \
		    "$LEASERUN" run -q -b "file:$memory/state" -w inf wait -- \
		    --- "$memory/lock3" flock "$memory/lock3"
	done
done

echo "while a command runs, by heartbeat"
"$LEASERUN" run -b "file:$disk/state" -t 10s -r 1s idle -- sh -c \
    "echo \$\$ >'$disk/idle'; exec sleep 100000" &
keeper=$!
holders="$holders $keeper"
flock -n "$disk/lock4" sh -c \
    "echo \$\$ >'$disk/idle2'; exec sleep 100000" &
flock=$!
holders="$holders $flock"
until_held "$disk/idle"
until_held "$disk/idle2"
holders="$holders $(cat "$disk/idle2")"
guard=$(awk '{ print $4 }' "/proc/$(cat "$disk/idle")/stat")
beats=15
sleep 0.5
woken=$(switches "$keeper" "$guard")
ran=$(busy "$keeper" "$guard")
sleep "$beats"
woken=$(($(switches "$keeper" "$guard") - woken))
ran=$(($(busy "$keeper" "$guard") - ran))
row wake-ups "  " "$(awk "BEGIN { printf(\"%.1f\", $woken / $beats) }")" 0
row cpu ms "$(awk "BEGIN { printf(\"%.3f\", $ran / $beats / 1000) }")" 0
row unshared kB "$(unshared "$keeper" "$guard")" "$(unshared "$flock")"
