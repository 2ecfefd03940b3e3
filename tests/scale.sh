#!/bin/sh
# How much one PostgreSQL, and one etcd of three members, carry on this machine:
# the figures of leaserun-scaling(7).  Decides nothing.
#	LEASERUN  the program	BACKENDS  its modules	builddir  where tests/load is
#	STORES    postgres etcd	SECONDS_EACH  a line (10)
#	LEASES    how many (100 1000 10000)	HELD  where that is not what counts (1000)
#	WAITERS   how many (10 100 1000)
#	POLLERS   waiters that cannot be told (100)	HANDOVERS  a line (10)
#	PROCESSES that renew at once (1 4 16 64)
#	PARTS     renewals bloat as_jobs pooled runs waiters
set -eu

: "${builddir:=.}"
: "${LEASERUN:=$builddir/src/leaserun}"
: "${BACKENDS:=$builddir/backends/.libs}"
: "${STORES:=postgres etcd}"
: "${SECONDS_EACH:=10}"
: "${LEASES:=100 1000 10000}"
: "${HELD:=1000}"
: "${WAITERS:=10 100 1000}"
: "${PROCESSES:=1 4 16 64}"
: "${POLLERS:=100}"
: "${HANDOVERS:=10}"
: "${PARTS:=renewals bloat as_jobs pooled runs waiters}"
load=$builddir/tests/load
crowd=$builddir/tests/crowd

for most in $LEASES; do :; done
for crew in $WAITERS; do :; done
# shellcheck disable=SC3045
ulimit -n "$((most * 2 + 1000))" 2>/dev/null || ulimit -n "$(ulimit -Hn)"

dir=$(mktemp -d "${BENCH_DIR:-/var/tmp}/leaserun-scale.XXXXXX")
chmod 755 "$dir"
holders='' servers=''
stop_servers() {
	for pid in $holders $servers; do
		kill -INT "$pid" 2>/dev/null || :
	done
	wait
	holders='' servers=''
}
cleanup() {
	stop_servers
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
cd "$dir"
unset http_proxy https_proxy all_proxy PGOPTIONS
echo "module-dir = \"$BACKENDS\"" >leaserun.conf
export LEASERUN_CONFIG="$dir/leaserun.conf" ETCDCTL_API=3

# until_ready COMMAND...
until_ready() {
	n=0
	until "$@" >probe.out 2>&1; do
		n=$((n + 1))
		[ "$n" -lt 100 ] || { tail -n 3 probe.out log*; exit 1; }
		sleep 0.2
	done
}

say() {
	echo "$1 (load of the machine $(cut -d' ' -f1 /proc/loadavg))"
}

# --- PostgreSQL ---

as_postgres() {
	if [ "$(id -u)" -eq 0 ]; then
		setpriv --reuid=postgres --regid=postgres --clear-groups "$@"
	else
		"$@"
	fi
}

# Settings as they come, but room for waiters that are all told.
postgres_start() {
	for bin in /usr/lib/postgresql/*/bin; do :; done
	mkdir data
	[ "$(id -u)" -ne 0 ] || chown postgres data
	as_postgres "$bin/initdb" -D data -U postgres -A trust \
	    --locale=C.UTF-8 >log
	port=$((20000 + $$ % 12000))
	as_postgres "$bin/postgres" -D data -p "$port" -k "$dir/data" \
	    -h 127.0.0.1 -c max_connections=$((crew * 2 + 200)) \
	    >>log 2>&1 &
	module=$BACKENDS/postgres.so
	url=postgres://postgres@127.0.0.1:$port/postgres
	until_ready "$bin/pg_isready" -q -d "$url"
	servers=$(head -n 1 data/postmaster.pid)
	pids=$servers
	LEASERUN_BACKEND=$url "$LEASERUN" init >>log
	"$bin/postgres" --version
}

sql() {
	"$bin/psql" -XAtq -d "$url" -c "$1"
}

# What is written and kept, as shell variables.
postgres_mark() {
	sql "SELECT 'wal=' || pg_current_wal_lsn() - '0/0' ||
	    ' updates=' || coalesce(sum(n_tup_upd), 0) ||
	    ' hot=' || coalesce(sum(n_tup_hot_upd), 0)
	    FROM pg_stat_user_tables"
}

postgres_size() {
	sql "SELECT format('  table %s kB, index %s kB, %s names, %s dead rows',
	    pg_relation_size('leaserun') / 1024,
	    pg_indexes_size('leaserun') / 1024, count(*),
	    (SELECT n_dead_tup FROM pg_stat_user_tables
	    WHERE relname = 'leaserun')) FROM leaserun"
}

# Then all statistics are there.
postgres_is_left() {
	[ "$(sql "SELECT count(*) FROM pg_stat_activity
	    WHERE application_name = 'leaserun'")" -eq 0 ]
}

postgres_grown() {
	wal=0 updates=0 hot=0
	eval "$(postgres_mark)"
	wal_before=$wal updates_before=$updates hot_before=$hot
	"$@"
	until_ready postgres_is_left
	eval "$(postgres_mark)"
	awk -v wal="$((wal - wal_before))" -v hot="$((hot - hot_before))" \
	    -v updates="$((updates - updates_before))" 'BEGIN {
		if (updates > 0)
			printf("         %d bytes of WAL for each update, " \
			    "%d %% of them touched no index;", wal / updates,
			    hot * 100 / updates)
	}'
	postgres_size
}

postgres_connections() {
	sql "SELECT '         ' || count(*) - 1 || ' connections'
	    FROM pg_stat_activity WHERE backend_type = 'client backend'"
}

# What nothing can be cleared away for, in the meantime.
postgres_bloat() {
	say "renewals while an old transaction is open"
	(echo 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1;'
	until [ -e end ]; do
		sleep 0.1
	done) | "$bin/psql" -XAtq -d "$url" >>log &
	holders=$!
	postgres_grown "$load" -s "$pids" "$module" "$url" "$HELD" 16 \
	    "$SECONDS_EACH"
	echo >end
	wait "$holders"
	rm end
	holders=
}

# PgBouncer counts as a part of the store.
postgres_pooled() {
	pooler=$(command -v pgbouncer || echo /usr/sbin/pgbouncer)
	[ -x "$pooler" ] || return 0
	mkdir pooler
	cat >pooler/ini <<-END
		[databases]
		postgres = host=127.0.0.1 port=$port user=postgres
		[pgbouncer]
		listen_addr = 127.0.0.1
		listen_port = $((port + 1))
		unix_socket_dir =
		auth_type = any
		logfile = $dir/pooler/log
		pidfile = $dir/pooler/pid
		pool_mode = transaction
		default_pool_size = 10
		max_client_conn = 12000
	END
	[ "$(id -u)" -ne 0 ] || chown -R postgres pooler
	direct=$url direct_pids=$pids
	as_postgres "$pooler" -d "$dir/pooler/ini" 2>>log
	url=postgres://postgres@127.0.0.1:$((port + 1))/postgres
	until_ready "$bin/psql" -XAtq -d "$url" -c 'SELECT 1'
	servers="$servers $(cat pooler/pid)"
	pids=$pids,$(cat pooler/pid)
	say "as jobs do it, through PgBouncer in transaction mode"
	for n in $LEASES; do
		all_held "$n" :
	done
	say "renewals through it, on connections that are kept"
	"$load" -s "$pids" "$module" "$url" "$HELD" 16 "$SECONDS_EACH"
	kill -INT "$(cat pooler/pid)"
	url=$direct pids=$direct_pids
}

# --- etcd ---

etcd_ctl() {
	etcdctl --endpoints "$ends" "$@"
}

etcd_start() {
	base=$((10000 + $$ % 3600 * 6)) cluster='' ends='' servers=''
	for i in 0 1 2; do
		cluster=$cluster,n$i=http://127.0.0.1:$((base + 3 + i))
		ends=$ends,127.0.0.1:$((base + i))
	done
	cluster=${cluster#,} ends=${ends#,}
	for i in 0 1 2; do
		client=http://127.0.0.1:$((base + i))
		peer=http://127.0.0.1:$((base + 3 + i))
		etcd --name "n$i" --data-dir "$dir/n$i" \
		    --listen-client-urls "$client" \
		    --advertise-client-urls "$client" \
		    --listen-peer-urls "$peer" \
		    --initial-advertise-peer-urls "$peer" \
		    --initial-cluster "$cluster" >>"log.$i" 2>&1 &
		servers="$servers $!"
	done
	module=$BACKENDS/etcd.so
	url=etcd://$ends/scale
	pids=$(echo "${servers# }" | tr ' ' ,)
	until_ready timeout 5 etcdctl --endpoints "$ends" endpoint health
	etcd --version | head -n 1
}

etcd_mark() {
	etcd_ctl endpoint status -w json | sed -E \
	    's/.*"revision":([0-9]+).*"dbSize":([0-9]+).*/revision=\1 size=\2/'
}

etcd_grown() {
	revision=0 size=0
	eval "$(etcd_mark)"
	revision_before=$revision size_before=$size
	"$@"
	eval "$(etcd_mark)"
	echo "         revisions $((revision - revision_before)) more," \
	    "database $((size / 1024)) kB," \
	    "$(((size - size_before) / 1024)) more"
}

etcd_connections() {
	ss -Htn state established | grep -cE \
	    ":($base|$((base + 1))|$((base + 2))) +[^ ]+ *$" |
	    sed 's/.*/         & connections/'
}

# --- What is measured ---

# Of the store, in milliseconds.
cpu_ms() {
	cat /proc/[0-9]*/stat 2>/dev/null | awk -v pids="$pids" \
	    -v hz="$(getconf CLK_TCK)" 'BEGIN {
		n = split(pids, list, ",")
		for (i = 1; i <= n; i++)
			named[list[i]] = 1
	}
	$1 in named { sum += $16 + $17 }
	$1 in named || $4 in named { sum += $14 + $15 }
	END { printf("%d\n", sum * 1000 / hz) }'
}

# costs COMMAND...: its time, and that of the store.
costs() {
	cpu=$(cpu_ms)
	begun=$(date +%s%N)
	if "$@" >costs.out 2>&1; then
		echo "$((($(date +%s%N) - begun) / 1000000)) ms, the store" \
		    "$(($(cpu_ms) - cpu)) ms of a processor," \
		    "$(wc -l <costs.out) lines"
	else
		echo "failed with $?: $(head -n 1 costs.out)"
	fi
}

renewals() {
	say "renewals of $HELD leases, as fast as it goes, by how many at once"
	for n in $PROCESSES; do
		"$load" -s "$pids" "$module" "$url" "$HELD" "$n" "$SECONDS_EACH"
	done
	say "the same, by the number of leases"
	for n in $LEASES; do
		"${store}_grown" "$load" -s "$pids" "$module" "$url" "$n" 16 \
		    "$SECONDS_EACH"
	done
}

# all_held N COMMAND...: in this shell, while so many leases are held as jobs
# hold them.
all_held() {
	n=$1
	shift
	rm -f held end
	"$load" -j -s "$pids" -r "$((n / 20))" \
	    -x 'echo >held; until [ -e end ]; do sleep 0.1; done' \
	    "$module" "$url" "$n" 10 "$SECONDS_EACH" &
	holders=$!
	until [ -e held ] || ! kill -0 "$holders"; do
		sleep 0.1
	done
	[ ! -e held ] || "$@"
	echo >end
	wait "$holders"
	holders=
}

# Of the store, each process with its share of what it shares.
memory_mb() {
	for pid in $(echo "$pids" | tr , ' ') $(pgrep -P "$pids"); do
		cat "/proc/$pid/smaps_rollup" 2>/dev/null
	done | awk '/^Pss:/ { kb += $2 } END { printf("%d\n", kb / 1024) }'
}

look() {
	"${store}_connections"
	echo "         memory of the store $(memory_mb) MB"
	echo "         leaserun status: $(costs "$LEASERUN" status)"
	echo "         of one name: $(costs "$LEASERUN" status load-0-0)"
}

as_jobs() {
	say "as jobs do it, ttl 60s: a heartbeat each 20 s"
	for n in $LEASES; do
		all_held "$n" look
	done
}

runs() {
	say "whole runs, a grant and a release, on connections that are kept"
	for n in $PROCESSES; do
		"${store}_grown" "$load" -c -s "$pids" "$module" "$url" "$HELD" \
		    "$n" "$SECONDS_EACH"
	done
	say "whole runs, each with a connection of its own"
	"${store}_grown" "$load" -cj -s "$pids" "$module" "$url" "$HELD" 16 \
	    "$SECONDS_EACH"
}

waiters() {
	say "waiters for one name"
	for n in $WAITERS; do
		"$crowd" -s "$pids" "$module" "$url" 1 "$n" "$HANDOVERS" \
		    "$SECONDS_EACH"
	done
	[ "$store" != postgres ] || "$crowd" -p -s "$pids" "$module" "$url" 1 \
	    "$POLLERS" "$HANDOVERS" "$SECONDS_EACH" | sed 's/waiters/& that poll/'
	say "the same, but all others wait for 100 other names"
	for n in $WAITERS; do
		"$crowd" -s "$pids" "$module" "$url" 101 "$n" \
		    "$HANDOVERS" "$SECONDS_EACH"
	done
}

bloat() {
	[ "$store" != postgres ] || postgres_bloat
}

pooled() {
	[ "$store" != postgres ] || postgres_pooled
}

for store in $STORES; do
	"${store}_start"
	export LEASERUN_BACKEND="$url"
	for part in $PARTS; do
		"$part"
	done
	stop_servers
done
