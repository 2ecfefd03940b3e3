# shellcheck shell=bash
# shellcheck disable=SC2120,SC2154,SC2034
# A PostgreSQL of the test's own: `load postgres'.  Each server has a folder
# and a port of its own, listens on the loopback and on a socket in its folder,
# and is known by its pid.  An initialised folder is made once and copied.

: "${PGBIN:=$(printf '%s\n' /usr/lib/postgresql/*/bin | tail -n 1)}"
PATH=$PGBIN:$PATH

# Servers do not run as root.
as_postgres() {
	if [ "$(id -u)" -eq 0 ]; then
		setpriv --reuid=postgres --regid=postgres --clear-groups \
		    env HOME=/ "$@"
	else
		"$@"
	fi
}

# A port that nothing listens on; one that was given is not given again soon.
free_port() {
	local port

	while :; do
		port=$((20000 + RANDOM % 12000))
		(exec 7<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	echo "$port"
}

# The folder that all servers begin as: superuser `postgres', no passwords.
pg_template() {
	local dir=$BATS_RUN_TMPDIR/pg.template

	if mkdir "$dir.lock" 2>/dev/null; then
		if ! pg_template_make "$dir.new" >"$dir.log" 2>&1; then
			cat "$dir.log"
			rmdir "$dir.lock"
			return 1
		fi
		mv "$dir.new" "$dir"
	fi
	wait_until 60 test -d "$dir"
}

pg_template_make() {
	chmod 711 "$BATS_RUN_TMPDIR"
	rm -rf "$1"
	mkdir "$1"
	[ "$(id -u)" -ne 0 ] || chown postgres "$1"
	as_postgres test -w "$1" ||
	    fail "the servers' user cannot reach $1: chmod a+x what is above" ||
	    return
	(cd / && as_postgres "$PGBIN/initdb" -D "$1" -U postgres -A trust \
	    -E UTF8 --locale=C.UTF-8 --no-sync) || return
	cat >>"$1/postgresql.conf" <<-'END'
		listen_addresses = '127.0.0.1'
		shared_buffers = 16MB
		max_connections = 60
		fsync = on
		log_line_prefix = '%m [%p] %a '
		autovacuum_naptime = 10s
		wal_level = replica
	END
}

# pg_make NAME [LINE]...: a server's folder, with these lines in its
# configuration; sets PGDIR and PGPORT, which pg_start and the rest use.
pg_make() {
	PGDIR=$BATS_TEST_TMPDIR/$1
	PGPORT=$(free_port)
	export PGPORT
	shift
	pg_template || return
	# It has to be found by the servers' user.
	chmod 711 "$BATS_TEST_TMPDIR" "${BATS_TEST_TMPDIR%/*}" "$BATS_RUN_TMPDIR"
	cp -a "$BATS_RUN_TMPDIR/pg.template" "$PGDIR"
	printf '%s\n' "port = $PGPORT" "unix_socket_directories = '$PGDIR'" \
	    "$@" >>"$PGDIR/postgresql.conf"
}

# The pid of the server in a folder.
pg_pid() {
	head -n 1 "${1-$PGDIR}/postmaster.pid"
}

pg_ready() {
	(cd / && pg_isready -q -h "$PGDIR" -p "$PGPORT" -U postgres)
}

# Starts the server of PGDIR; WORDs come before its command.
pg_start() {
	# A test that has no mark left does not lose its server.
	(cd / && exec 3>&- && as_postgres "$@" "$PGBIN/postgres" -D "$PGDIR") \
	    >>"$BATS_TEST_TMPDIR/server.log" 2>&1 &
	bg_pids+=("$!")
	wait_until 30 pg_ready
}

# pg_stop [SIGNAL [DIR]]: INT is fast, QUIT immediate, KILL a crash.
pg_stop() {
	local pid

	pid=$(pg_pid "${2-$PGDIR}") || return
	kill -s "${1-INT}" "$pid"
	wait_until 30 is_gone "$pid"
}

# sql COMMAND [OPTION]...: unaligned rows, as the superuser.
sql() {
	local command=$1

	shift
	(cd / && PGOPTIONS='' psql -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" \
	    -p "$PGPORT" -U postgres -d postgres "$@" -c "$command")
}

# A new server and a new table, for LEASERUN_BACKEND.
pg_setup() {
	pg_make server "$@" || return
	pg_start || return
	export LEASERUN_BACKEND=postgres://postgres@127.0.0.1:$PGPORT/postgres
	echo "module-dir = \"$BACKENDS\"" >"$LEASERUN_CONFIG"
	"$LEASERUN" init >/dev/null
}

# setting_is NAME VALUE: a new session has it.
setting_is() {
	[ "$(sql "SHOW $1")" = "$2" ]
}

# set_server NAME VALUE
set_server() {
	sql "ALTER SYSTEM SET $1 = '$2'"
	sql 'SELECT pg_reload_conf()' >&2
	wait_until 20 setting_is "$1" "$2"
}

# relay_start [PORT...]: puts a network that can fail (tests/relay.c) in front of
# the server, or of those; RELAYPORT is its end.  relay_set WORD... tells it what
# to do.
relay_start() {
	rm -f relay.port
	bg "$builddir/tests/relay" relay.port relay.control relay.log \
	    "${@-$PGPORT}"
	wait_until 20 test -s relay.port || return
	RELAYPORT=$(cat relay.port)
}

relay_set() {
	echo "$*" >relay.control.new
	mv relay.control.new relay.control
}

# pooler_start [CONNECTIONS [LINE]...]: PgBouncer in transaction mode with its
# reset query empty, with these lines in its configuration, in front of the
# server of PGPORT; POOLPORT is its port.
pooler_start() {
	local size=${1-5}

	POOLPORT=$(free_port)
	mkdir pooler
	cat >pooler/pooler.ini <<-END
		[databases]
		postgres = host=127.0.0.1 port=$PGPORT
		[pgbouncer]
		listen_addr = 127.0.0.1
		listen_port = $POOLPORT
		unix_socket_dir =
		auth_type = any
		auth_file = $PWD/pooler/users
		logfile = $PWD/pooler/log
		pool_mode = transaction
		server_reset_query =
		default_pool_size = $size
		max_client_conn = 1000
		$(printf "%s\n" "${2}")
	END
	echo '"postgres" ""' >pooler/users
	sed -i 's/^postgres = .*/& user=postgres/' pooler/pooler.ini
	if [ "$(id -u)" -eq 0 ]; then
		chown -R postgres pooler
	fi
	(cd / && exec 3>&- && as_postgres "$(command -v pgbouncer ||
	    echo /usr/sbin/pgbouncer)" "$BATS_TEST_TMPDIR/pooler/pooler.ini") \
	    >>server.log 2>&1 &
	bg_pids+=("$!")
	export LEASERUN_BACKEND=postgres://postgres@127.0.0.1:$POOLPORT/postgres
	wait_until 20 "$LEASERUN" status
}

# What a resource does that remembers the highest token: its file holds all
# that it accepted, in order.
assert_rising() {
	sort -n "$1" | uniq >rising
	cmp rising "$1" || fail "tokens did not rise: $(tr '\n' ' ' <"$1")"
}

# wait_all PID...: every exit status, one a line.
wait_all() {
	local pid status

	for pid; do
		status=0
		wait "$pid" || status=$?
		echo "$status"
	done
}

# For contract.bats.
contract_store() {
	BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR
	pg_make server || return
	pg_start || return
	export PGDIR CONTRACT_MODULES=$BACKENDS
	export CONTRACT_URL=postgres://postgres@127.0.0.1:$PGPORT/postgres
}

contract_store_stop() {
	pg_stop QUIT
}
