# shellcheck shell=bash disable=SC2034,SC2120,SC2154
# PostgreSQL on the hosts 1 and 2, a primary and its standby, which change places
# at times, and PgBouncer in front of the primary on host 3.

servers=(1 2 3)
clients=(4 5 6 7 8 9 10 11)
admin=h12
primary=1
standby=2

# shellcheck source=tests/postgres.bash
. "$srcdir/tests/postgres.bash"

# Without root's rights there is nobody to be but oneself.
as=(setpriv --reuid=postgres --regid=postgres --clear-groups env HOME=/)
"${as[@]}" true 2>/dev/null ||
    as=(unshare --user --map-user=1000 -- env HOME=/)

as_postgres() {
	"${as[@]}" "$@"
}

# own FOLDER: it becomes the servers'.
own() {
	"${as[@]}" test -w "$1" || chown -R postgres "$1"
}

faketime_lib() {
	printf '%s\n' /usr/lib/*/faketime/libfaketime.so.1 | head -n 1
}

clock_is() {
	echo "$1" >"$work/clock.new"
	chmod 644 "$work/clock.new"
	mv "$work/clock.new" "$work/clock"
}

server_ready() {
	(cd / && pg_isready -q -h "$work/socket$1" -p 5432 -U postgres)
}

# server_start N: the server of host N, when it answers.
server_start() {
	# No function, so that the pid is the server's.
	nsenter "--net=/run/netns/h$1" -- env --chdir=/ "${as[@]}" \
	    "LD_PRELOAD=$(faketime_lib)" \
	    FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 \
	    "FAKETIME_TIMESTAMP_FILE=$work/clock" \
	    "$PGBIN/postgres" -D "$work/pg$1" >>"$work/pg$1.log" 2>&1 &
	echo "$!" >"$work/server.$1"
	# When it is killed, nobody is to be told.
	disown
	await 60 server_ready "$1"
}

# query N COMMAND: of the server of host N.
query() {
	(cd / && psql -XAtq -h "$work/socket$1" -p 5432 -U postgres -d postgres \
	    -c "$2")
}

# A new standby on host N.
standby_make() {
	rm -rf "$work/pg$1"
	mkdir -m 700 "$work/pg$1"
	own "$work/pg$1"
	at "h$1" env --chdir=/ "${as[@]}" "$PGBIN/pg_basebackup" \
	    -h "10.78.0.$primary" -U postgres -D "$work/pg$1" -R -c fast ||
	    return
	echo "unix_socket_directories = '$work/socket$1'" \
	    >>"$work/pg$1/postgresql.auto.conf"
	server_start "$1"
}

pooler_conf() {
	cat >"$work/pooler/new" <<-END
		[databases]
		postgres = host=10.78.0.$primary port=5432 user=postgres
		[pgbouncer]
		listen_addr = 10.78.0.3
		listen_port = 6432
		unix_socket_dir =
		auth_type = any
		auth_file = $work/pooler/users
		logfile = $work/pooler/log
		pool_mode = transaction
		server_reset_query =
		server_login_retry = 1
		default_pool_size = 5
		max_client_conn = 200
	END
	chmod 644 "$work/pooler/new"
	mv "$work/pooler/new" "$work/pooler/ini"
}

pooler_start() {
	nsenter --net=/run/netns/h3 -- env --chdir=/ "${as[@]}" "$(command -v pgbouncer ||
	    echo /usr/sbin/pgbouncer)" "$work/pooler/ini" \
	    >>"$work/pooler.out" 2>&1 &
	echo "$!" >"$work/pooler.pid"
	disown
}

store_start() {
	clock_is +0
	pg_template_make "$work/pg1" >>"$work/log" 2>&1 || return
	# Beside the folders, which are copied.
	mkdir socket1 socket2
	own socket1
	own socket2
	printf '%s\n' "listen_addresses = '*'" "wal_keep_size = 64MB" \
	    "unix_socket_directories = '$work/socket1'" \
	    >>"$work/pg1/postgresql.conf"
	printf 'host %s all 10.78.0.0/24 trust\n' all replication \
	    >>"$work/pg1/pg_hba.conf"
	server_start 1 || return
	standby_make 2 >>"$work/log" 2>&1 || return
	mkdir "$work/pooler"
	echo '"postgres" ""' >"$work/pooler/users"
	pooler_conf
	own "$work/pooler"
	pooler_start
	await 60 store_healthy || return
	at "$admin" "$LEASERUN" init -b "$(store_url)" >>"$work/log" 2>&1
}

# Every third contender goes through the pooler.
store_url() {
	case ${1-} in
	c3 | c6) echo postgres://postgres@10.78.0.3:6432/postgres ;;
	*) echo postgres://postgres@10.78.0.1,10.78.0.2/postgres ;;
	esac
}

pooler_ready() {
	at h3 psql -XAtq -h 10.78.0.3 -p 6432 -U postgres -d postgres \
	    -c 'SELECT 1' >>"$work/log" 2>&1
}

store_healthy() {
	server_ready 1 && server_ready 2 && pooler_ready
}

# Everybody of the server of host N.
server_tree() {
	local pid

	pid=$(cat "$work/server.$1")
	tree=("$pid")
	tree "$pid"
}

# server_kill N SIGNAL: to the first process; KILL is for all of them.
server_kill() {
	server_tree "$1"
	if [ "$2" = KILL ]; then
		send STOP "${tree[@]}"
		server_tree "$1"
		send KILL "${tree[@]}"
	else
		send "$2" "${tree[0]}"
		# It may wait for a standby that hears nothing.
		await 3 is_gone "${tree[0]}" 2>/dev/null ||
		    send QUIT "${tree[0]}"
	fi
	await 60 is_gone "${tree[0]}"
}

# restart KIND SIGNAL MAX: the primary is away for at most so long.
restart() {
	note fault store "$1"
	server_kill $primary "$2"
	some 10 "$3"
	sleep "$some"
	server_start $primary
	note heal store "$1"
}

# frozen KIND PID...
frozen() {
	local kind=$1

	shift
	lasting store "$kind" 100 $((STORM_TTL * 2)) "$@"
}

# The standby becomes the primary, and what was the primary its standby.  It
# may not have had the last grants yet.
promote() {
	local old=$primary

	note fault store drop-promote
	server_kill $primary KILL
	query $standby 'SELECT pg_promote()' >>"$work/log"
	primary=$standby
	standby=$old
	pooler_conf
	send HUP "$(cat "$work/pooler.pid")"
	note heal store drop-promote
	standby_make $standby
}

store_fault() {
	one_of restart crash crash freeze-primary freeze-backends \
	    freeze-standby freeze-pooler kill-pooler terminate lock-rows \
	    drop-clock promote
	case $one in
	restart) restart "$one" INT 1000 ;;
	crash) restart "$one" KILL $STORM_TTL ;;
	freeze-primary)
		server_tree $primary
		frozen "$one" "${tree[@]}" ;;
	freeze-backends)
		mapfile -t tree < <(query $primary "SELECT pid FROM
		    pg_stat_activity WHERE backend_type = 'client backend'
		    AND pid <> pg_backend_pid()")
		frozen "$one" "${tree[@]}" ;;
	freeze-standby)
		server_tree $standby
		frozen "$one" "${tree[@]}" ;;
	freeze-pooler) frozen "$one" "$(cat "$work/pooler.pid")" ;;
	kill-pooler)
		note fault store "$one"
		send KILL "$(cat "$work/pooler.pid")"
		some 100 2000
		sleep "$some"
		pooler_start
		note heal store "$one" ;;
	terminate)
		note fault store "$one"
		query $primary "SELECT pg_terminate_backend(pid) FROM
		    pg_stat_activity WHERE backend_type = 'client backend'
		    AND pid <> pg_backend_pid()" >>"$work/log"
		note heal store "$one" ;;
	lock-rows)
		some 200 $((STORM_TTL * 3 / 2))
		note fault store "$one"
		query $primary "BEGIN; SELECT name FROM leaserun FOR UPDATE;
		    SELECT pg_sleep($some); ROLLBACK" >>"$work/log"
		note heal store "$one" ;;
	drop-clock)
		some 200 $STORM_TTL
		one_of +20s +1h -20s
		note fault store drop-clock
		clock_is "$one"
		sleep "$some"
		clock_is +0
		note heal store drop-clock ;;
	promote) promote ;;
	esac
}
