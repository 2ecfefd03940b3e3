#!/bin/sh
# Side by side with flock(1), in one run: prints ratios, decides nothing.
#	LEASERUN  the program	builddir  where tests/bench is
#	ROUNDS    pairs a line (1000)
set -eu

: "${builddir:=.}"
: "${LEASERUN:=$builddir/src/leaserun}"
: "${ROUNDS:=1000}"
bench=$builddir/tests/bench

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

# private PID...: unshared memory of the processes together, in kB.
private() {
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

echo "leaserun run -b file: | flock -n, $ROUNDS pairs, medians (quartiles)"
for where in "$disk" "$memory"; do
	mkdir "$where/state"
	: >"$where/lock"
	type=$(stat -f -c %T "$where")
	echo "acquire, true, release ($type)"
	"$bench" "$ROUNDS" -- "$LEASERUN" run -b "file:$where/state" job \
	    "$true" -- flock -n "$where/lock" "$true"

	"$LEASERUN" run -b "file:$where/state" held -- sh -c \
	    "echo \$\$ >'$where/held'; exec sleep 1000" &
	holders="$holders $!"
	flock -n "$where/lock2" sh -c \
	    "echo \$\$ >'$where/held2'; exec sleep 1000" &
	holders="$holders $!"
	until_held "$where/held"
	until_held "$where/held2"
	echo "skip when held ($type)"
	"$bench" "$ROUNDS" -- "$LEASERUN" run -b "file:$where/state" held \
	    "$true" -- flock -n "$where/lock2" "$true"
done

echo "while a command runs"
"$LEASERUN" run -b "file:$disk/state" -t 30s -r 5s idle -- sh -c \
    "echo \$\$ >'$disk/idle'; exec sleep 1000" &
keeper=$!
holders="$holders $keeper"
flock -n "$disk/lock3" sh -c \
    "echo \$\$ >'$disk/idle2'; exec sleep 1000" &
flock=$!
holders="$holders $flock $(cat "$disk/held" "$memory/held" "$disk/held2" \
    "$memory/held2" | tr '\n' ' ')"
until_held "$disk/idle"
until_held "$disk/idle2"
holders="$holders $(cat "$disk/idle2")"
guard=$(awk '{ print $4 }' "/proc/$(cat "$disk/idle")/stat")
ours=$(private "$keeper" "$guard")
theirs=$(private "$flock")
echo "  unshared   $ours kB (keeper and guard) | $theirs kB"
before=$(switches "$keeper" "$guard")
sleep 16
after=$(switches "$keeper" "$guard")
echo "  wake-ups   $((after - before)) in 16 s with a heartbeat every 5 s"
