#!/bin/sh
# The backend for PostgreSQL side by side with the least that it can cost, and
# with psql, on a server of its own: prints ratios, decides nothing.
#	LEASERUN  the program	BACKENDS  its modules	builddir  where tests/bench is
#	ROUNDS    pairs a line (100)	LEASES  how many (1000 10000)
set -eu

: "${builddir:=.}"
: "${LEASERUN:=$builddir/src/leaserun}"
: "${BACKENDS:=$builddir/backends/.libs}"
: "${ROUNDS:=100}"
: "${LEASES:=1000 10000}"
bench=$builddir/tests/bench

for bin in /usr/lib/postgresql/*/bin; do :; done
if [ ! -e "$BACKENDS/postgres.so" ] || [ ! -x "$bin/postgres" ]; then
	echo "no backend for PostgreSQL, or no server: left out"
	exit 0
fi

as_postgres() {
	if [ "$(id -u)" -eq 0 ]; then
		setpriv --reuid=postgres --regid=postgres --clear-groups "$@"
	else
		"$@"
	fi
}

dir=$(mktemp -d "${BENCH_DIR:-/var/tmp}/leaserun-bench.XXXXXX")
chmod 755 "$dir"
mkdir "$dir/data"
[ "$(id -u)" -ne 0 ] || chown postgres "$dir/data"
server=
holder=
cleanup() {
	[ -z "$holder" ] || kill "$holder" 2>/dev/null || :
	if [ -n "$server" ]; then
		kill -INT "$(head -n 1 data/postmaster.pid)" || :
		wait "$server" || :
	fi
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

cd "$dir"
as_postgres "$bin/initdb" -D data -U postgres -A trust --locale=C.UTF-8 >log
port=$((20000 + $$ % 12000))
as_postgres "$bin/postgres" -D data -p "$port" -k "$dir/data" \
    -h 127.0.0.1 >>log 2>&1 &
server=$!
url=postgres://postgres@127.0.0.1:$port/postgres
n=0
until "$bin/pg_isready" -q -d "$url"; do
	n=$((n + 1))
	[ "$n" -lt 500 ] || exit 1
	sleep 0.02
done

echo "module-dir = \"$BACKENDS\"" >leaserun.conf
export LEASERUN_CONFIG="$dir/leaserun.conf" LEASERUN_BACKEND="$url"
"$LEASERUN" init >>log
"$bin/psql" -q -d "$url" -c 'CREATE TABLE minimal (name text PRIMARY KEY,
    token bigint, owner text, expires_at timestamptz)'
true=$(command -v true)

echo "leaserun run -b postgres: | a minimal program, $ROUNDS pairs"
"$bench" "$ROUNDS" -- "$LEASERUN" run job "$true" -- \
    "$builddir/tests/minimal-pq" "$url" "$true"
for psql in psql "$bin/psql"; do
	echo "leaserun run -b postgres: | $psql with an advisory lock"
	"$bench" "$ROUNDS" -- "$LEASERUN" run job "$true" -- \
	    "$psql" -q -d "$url" -c 'SELECT pg_try_advisory_lock(1)' \
	    -o "$dir/null"
done
"$LEASERUN" run held -- sh -c "echo >'$dir/held'; exec sleep 1000" &
holder=$!
until [ -s held ]; do
	sleep 0.02
done
echo "skip when held | the same"
"$bench" "$ROUNDS" -- "$LEASERUN" run held "$true" -- \
    "$bin/psql" -q -d "$url" -c 'SELECT pg_try_advisory_lock(1)' -o "$dir/null"

echo "renewals that this server carries, 16 connections"
for leases in $LEASES; do
	"$builddir/tests/load" "$BACKENDS/postgres.so" "$url" "$leases" 16 10
done
"$bin/psql" -XAtq -d "$url" -c "SELECT '  table ' || pg_relation_size('leaserun')
    / 1024 || ' kB, dead rows ' || n_dead_tup || ', updates that touched no'
    || ' index ' || n_tup_hot_upd * 100 / n_tup_upd || ' %'
    FROM pg_stat_user_tables WHERE relname = 'leaserun'"
