#!/bin/sh
# The backend for etcd side by side with etcdctl lock, on a server of its own:
# prints ratios, decides nothing.
#	LEASERUN  the program	BACKENDS  its modules	builddir  where tests/bench is
#	ROUNDS    pairs a line (100)	LEASES  how many (1000)
set -eu

: "${builddir:=.}"
: "${LEASERUN:=$builddir/src/leaserun}"
: "${BACKENDS:=$builddir/backends/.libs}"
: "${ROUNDS:=100}"
: "${LEASES:=1000}"
bench=$builddir/tests/bench

if [ ! -e "$BACKENDS/etcd.so" ] || ! command -v etcd >/dev/null ||
    ! command -v etcdctl >/dev/null; then
	echo "no backend for etcd, or no server: left out"
	exit 0
fi

dir=$(mktemp -d "${BENCH_DIR:-/var/tmp}/leaserun-bench.XXXXXX")
server=
holder=
cleanup() {
	[ -z "$holder" ] || kill "$holder" 2>/dev/null || :
	if [ -n "$server" ]; then
		kill "$server" || :
		wait "$server" || :
	fi
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

cd "$dir"
unset http_proxy https_proxy all_proxy
port=$((20000 + $$ % 6000 * 2))
endpoint=http://127.0.0.1:$port
peer=http://127.0.0.1:$((port + 1))
etcd --name one --data-dir "$dir/data" --listen-client-urls "$endpoint" \
    --advertise-client-urls "$endpoint" --listen-peer-urls "$peer" \
    --initial-advertise-peer-urls "$peer" --initial-cluster "one=$peer" \
    >log 2>&1 &
server=$!
export ETCDCTL_API=3
n=0
until etcdctl --endpoints "$endpoint" endpoint health >probe.out 2>&1; do
	n=$((n + 1))
	[ "$n" -lt 100 ] || exit 1
	sleep 0.1
done

echo "module-dir = \"$BACKENDS\"" >leaserun.conf
export LEASERUN_CONFIG="$dir/leaserun.conf"
export LEASERUN_BACKEND="etcd://127.0.0.1:$port/bench"
true=$(command -v true)

echo "leaserun run -b etcd: | etcdctl lock, $ROUNDS pairs"
"$bench" "$ROUNDS" -- "$LEASERUN" run job "$true" -- \
    etcdctl --endpoints "$endpoint" lock job "$true"
"$LEASERUN" run --once key once "$true"
echo "what is done by --once | etcdctl lock"
"$bench" "$ROUNDS" -- "$LEASERUN" run --once key once "$true" -- \
    etcdctl --endpoints "$endpoint" lock job "$true"
"$LEASERUN" run held -- sh -c "echo >'$dir/held'; exec sleep 1000" &
holder=$!
until [ -s held ]; do
	sleep 0.02
done
# It has no way to say that a lock is held; this is one request.
echo "skip when held | etcdctl get"
"$bench" "$ROUNDS" -- "$LEASERUN" run held "$true" -- \
    etcdctl --endpoints "$endpoint" get job

echo "renewals that this server carries, 16 connections"
for leases in $LEASES; do
	"$builddir/tests/load" "$BACKENDS/etcd.so" "$LEASERUN_BACKEND" \
	    "$leases" 16 10
done
