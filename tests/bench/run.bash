#!/bin/bash
# shellcheck disable=SC2154
# What leases cost, in one table, next to what people would use instead.
# Prints ratios, decides nothing; tests/bench/compare.c measures.
#	run.bash [STORE]...	file postgres etcd
#	LEASERUN  the program	BACKENDS  its modules	srcdir, builddir
#	ROUNDS	 how often (200)	WAITERS  how many (1 10 100)
#	BEATS	 for how many seconds it is held (10)
#	BENCH_DIR  on a disk (/var/tmp)
# Each store is a server of our own, on the loopback.  Memory is that of all
# processes at their peak, where a page that several have counts in parts, but
# for a lease that is held: there it is what they share with nobody.
set -u

: "${ROUNDS:=200}"
: "${WAITERS:=1 10 100}"
: "${BEATS:=10}"
[ $# -gt 0 ] || set -- file postgres etcd
disk=$(mktemp -d "${BENCH_DIR:-/var/tmp}/leaserun-bench.XXXXXX") || exit
memory=$(mktemp -d /dev/shm/leaserun-bench.XXXXXX) || exit
export BATS_TEST_TMPDIR=$disk BATS_RUN_TMPDIR=$disk
export BATS_TEST_DIRNAME=$srcdir/tests
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY

# shellcheck source=tests/helpers.bash
. "$srcdir/tests/helpers.bash"
# shellcheck source=tests/postgres.bash
. "$srcdir/tests/postgres.bash"
# shellcheck source=tests/etcd.bash
. "$srcdir/tests/etcd.bash"

clean() {
	[ -z "${PGDIR-}" ] || pg_stop QUIT
	test_teardown
	rm -rf "$disk" "$memory"
}
trap clean EXIT
trap 'exit 1' INT TERM
test_setup

# title WHAT THEIRS...: what is in the columns of the next rows.
title() {
	printf '\n%-22s%9s' "$1" leaserun
	printf ' | %-28s' "${@:2}"
	printf '\n'
}

# rows WHAT N ROUNDS COMMANDS...
rows() {
	"$builddir/tests/bench/compare" "$@" 2>err || {
		tail -n 5 err >&2
		exit 1
	}
}

# few N: how often what takes long, with so many waiters.
few() {
	echo $((ROUNDS / 20 / ($1 < 10 ? 1 : $1 < 100 ? 2 : 5) + 1))
}

# both FOLDER: the file store and flock(1) in it.
both() {
	local type ours=("${ours[@]}" -b "file:$1/leases")

	type=$(stat -f -c %T "$1")
	mkdir "$1/leases"
	: >"$1/synced"
	title "acquire, true, release" "flock, $type" "flock + fdatasync, $type"
	rows run 1 "$ROUNDS" -- "${ours[@]}" job JOB -- \
	    flock -n "$1/lock" JOB -- flock -n "$1/lock" dd if=/dev/zero \
	    "of=$1/synced" bs=64 count=1 conv=notrunc,fdatasync status=none
	title "skip when held" "flock, $type"
	rows skip 1 "$ROUNDS" -- "${ours[@]}" held JOB -- flock -n "$1/held" JOB
}

bench_file() {
	local n ours=("${ours[@]}" -b "file:$disk/leases")

	both "$memory"
	both "$disk"
	for n in $WAITERS; do
		title "hand-over to $n, each" flock
		rows pass "$n" "$(few "$n")" -- "${ours[@]}" -w inf wait JOB \
		    -- flock "$disk/wait" JOB
	done
	title "kill -9 of all" flock
	rows kill 1 "$(few 1)" -- "${ours[@]}" -w inf killed JOB -- \
	    flock "$disk/killed" JOB
	title "while held, a second" flock
	rows hold "$BEATS" "$(few 10)" -- "${ours[@]}" -t 10s -r 1s idle JOB -- \
	    flock "$disk/idle" JOB
}

bench_postgres() {
	local url n psql minimal

	pg_setup 'max_connections = 400' || exit
	url=$LEASERUN_BACKEND
	sql 'CREATE TABLE minimal (name text PRIMARY KEY, token bigint,
	    owner text, expires_at timestamptz)'
	# psql hands its variables to a shell by the environment only.
	cat >try.sql <<-'END'
		SELECT pg_try_advisory_lock(:key) AS got \gset
		\if :got
		\setenv JOB :job
		\! $JOB
		\endif
	END
	cat >wait.sql <<-'END'
		SELECT pg_advisory_lock(:key) \g /dev/null
		\setenv JOB :job
		\! $JOB
	END
	psql=(psql -Xqd "$url" -v job=JOB)
	minimal=("$builddir/tests/bench/minimal-pq" "$url")
	title "acquire, true, release" "minimal program" "psql, advisory lock"
	rows run 1 "$ROUNDS" -- "${ours[@]}" job JOB -- "${minimal[@]}" job JOB \
	    -- "${psql[@]}" -v key=1 -f try.sql
	title "skip when held" "minimal program" "psql, advisory lock"
	rows skip 1 "$ROUNDS" -- "${ours[@]}" held JOB -- "${minimal[@]}" held \
	    JOB -- "${psql[@]}" -v key=2 -f try.sql
	psql+=(-f wait.sql)
	for n in $WAITERS; do
		title "hand-over to $n, each" "psql, advisory lock"
		rows pass "$n" "$(few "$n")" -- "${ours[@]}" -w inf wait JOB \
		    -- "${psql[@]}" -v key=3
	done
	title "kill -9 of all, ttl 3s" "psql, advisory lock"
	rows kill 1 "$(few 10)" -- "${ours[@]}" -t 3s -w inf killed JOB -- \
	    "${psql[@]}" -v key=4
	# With the ttl that leases have unless told otherwise, heartbeats are
	# so far apart that each has a connection of its own.
	title "while held, a second" "psql, advisory lock"
	rows hold "$BEATS" "$(few 10)" -- "${ours[@]}" -t 10s -r 1s \
	    -o connection=reopen idle JOB -- "${psql[@]}" -v key=5
}

bench_etcd() {
	local n ctl=(env ETCDCTL_API=3 etcdctl)

	etcd_start || exit
	use "$ETCD"
	ctl+=(--endpoints "http://127.0.0.1:$etcd_port")
	title "acquire, true, release" "etcdctl lock"
	rows run 1 "$ROUNDS" -- "${ours[@]}" job JOB -- "${ctl[@]}" lock job JOB
	# It has no way to say that a lock is held; this is one request.
	title "skip when held" "etcdctl get"
	rows skip 1 "$ROUNDS" -- "${ours[@]}" held JOB -- "${ctl[@]}" get held
	for n in $WAITERS; do
		title "hand-over to $n, each" "etcdctl lock"
		rows pass "$n" "$(few "$n")" -- "${ours[@]}" -w inf wait JOB \
		    -- "${ctl[@]}" lock wait JOB
	done
	title "kill -9 of all, ttl 3s" "etcdctl lock"
	rows kill 1 "$(few 10)" -- "${ours[@]}" -t 3s -w inf killed JOB -- \
	    "${ctl[@]}" lock --ttl 3 killed JOB
	# Both have a heartbeat a second.
	title "while held, a second" "etcdctl lock"
	rows hold "$BEATS" "$(few 10)" -- "${ours[@]}" -t 10s -r 1s idle JOB -- \
	    "${ctl[@]}" lock --ttl 3 idle JOB
}

echo "$ROUNDS rounds, medians; ratios are leaserun / the other, their median" \
    "(quartiles); locale ${LC_ALL:-${LC_CTYPE:-${LANG:-C}}}"
ours=("$LEASERUN" run -q)
for store; do
	printf '\n%s\n' "$store"
	"bench_$store"
done
