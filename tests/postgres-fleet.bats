# Postgres with many clients, through a pooler, and over a failover.

load helpers
load postgres

# How long a hundred jobs go on.
: "${FLEET_SECONDS:=20}"

setup() {
	test_setup
	quick=(-t 4s -r 500ms -g 300ms)
}

# token NAME: of a run of its own.
token() {
	run_tool 0 run "$1" -- sh -c 'echo "$LEASERUN_FENCE_TOKEN"' >&2
	echo "$stdout"
}

# What a resource does that remembers the highest token: its file holds all
# that it accepted, in order.
assert_rising() {
	sort -n "$1" | uniq >rising
	cmp rising "$1" || fail "tokens did not rise: $(tr '\n' ' ' <"$1")"
}

# --- Promotion ---

# A standby of the server that runs; STANDBY is its folder, STANDBYPORT its port.
standby_make() {
	STANDBY=$BATS_TEST_TMPDIR/standby
	STANDBYPORT=$(free_port)
	# Where its user may make it.
	install -d -m 700 "$STANDBY"
	[ "$(id -u)" -ne 0 ] || chown postgres "$STANDBY"
	(cd / && as_postgres "$PGBIN/pg_basebackup" -h "$PGDIR" -p "$PGPORT" \
	    -U postgres -D "$STANDBY" -R -c fast) || return
	printf '%s\n' "port = $STANDBYPORT" \
	    "unix_socket_directories = '$STANDBY'" \
	    >>"$STANDBY/postgresql.auto.conf"
}

# on_standby COMMAND...: with the standby in the place of the server.
on_standby() {
	PGDIR=$STANDBY PGPORT=$STANDBYPORT "$@"
}

has_replayed() {
	[ "$(sql "SELECT count(*) FROM pg_stat_replication
	    WHERE replay_lsn = pg_current_wal_lsn()")" = 1 ]
}

both_hosts() {
	echo "postgres://postgres@127.0.0.1:$PGPORT,127.0.0.1:$STANDBYPORT/postgres"
}

@test "a promoted standby that lost grants gives higher tokens" {
	pg_setup
	token known >tokens
	standby_make
	on_standby pg_start
	wait_until 20 has_replayed
	on_standby pg_stop
	# The standby sees none of this.
	for _ in 1 2 3 4 5; do
		token known >>tokens
	done
	token unknown >others
	pg_stop KILL
	on_standby pg_start
	on_standby sql 'SELECT pg_promote()'
	LEASERUN_BACKEND=$(both_hosts)
	token known >>tokens
	token known >>tokens
	token unknown >>others
	assert_rising tokens
	assert_rising others
	# Nor do they fall when somebody deletes the rows.
	on_standby sql 'DELETE FROM leaserun'
	token known >>tokens
	token unknown >>others
	assert_rising tokens
	assert_rising others
	# What is not the fence's: the step is known, and the same for all.
	[ "$(tail -n 1 tokens)" -gt $((1 << 44)) ]
}

# The standby gets what it replicates through a network that can fail.
standby_behind_relay() {
	relay_set pass
	relay_start
	echo "primary_conninfo = 'host=127.0.0.1 port=$RELAYPORT user=postgres'" \
	    >>"$STANDBY/postgresql.auto.conf"
}

nobody_receives() {
	[ "$(sql 'SELECT count(*) FROM pg_stat_replication')" = 0 ]
}

has_received() {
	[ "$(on_standby sql "SELECT pg_last_wal_receive_lsn() >=
	    '$(sql 'SELECT pg_current_wal_lsn()')'")" = t ]
}

# write_as TOKEN LINE: what the resource takes, or 75.
write_as() {
	"$LEASERUN" fence --token "$1" resource -- sh -c "echo $2 >>resource"
}

@test "a standby that was paused and cut off, promoted: the fence knows the new" {
	pg_setup
	token known >tokens
	standby_make
	standby_behind_relay
	on_standby pg_start
	wait_until 20 has_replayed
	on_standby sql 'SELECT pg_wal_replay_pause()'
	# These it has, but has not replayed.
	token known >>tokens
	token known >>tokens
	wait_until 20 has_received
	relay_set close
	wait_until 20 nobody_receives
	# And these it never gets; the last one of them still is held.
	token known >>tokens
	token known >>tokens
	bg "$LEASERUN" run -t 60s known -- sh -c '
		echo "$LEASERUN_FENCE_TOKEN" >>tokens
		"$LEASERUN" fence resource -- sh -c "echo old >>resource"
		echo >held
		exec sleep 1000'
	wait_until 20 test -e held
	pg_stop KILL
	on_standby sql 'SELECT pg_promote()' >/dev/null
	LEASERUN_BACKEND=$(both_hosts)
	token known >>tokens
	assert_rising tokens
	assert_equal "$(wc -l <tokens)" 7
	# The new holder may write, and the old one no longer.
	old=$(sed -n 6p tokens)
	write_as "$(tail -n 1 tokens)" new
	run_tool 75 fence --token "$old" resource -- sh -c 'echo late >>resource'
	assert_equal "$(tr '\n' ' ' <resource)" 'old new '
}

@test "the job outlives a failover that lost nothing" {
	pg_setup
	standby_make
	on_standby pg_start
	LEASERUN_BACKEND=$(both_hosts)
	bg "$LEASERUN" run -t 20s -r 300ms -g 300ms --connect-timeout 20s job \
	    -- sh -c 'echo $LEASERUN_FENCE_TOKEN >started; read -r _ <go' \
	    2>first
	first=$!
	mkfifo go
	wait_until 20 test -s started
	wait_until 20 has_replayed
	pg_stop QUIT
	on_standby sql 'SELECT pg_promote()'
	before=$(on_standby sql "SELECT renewed_at FROM leaserun")
	wait_until 20 renewed_since "$before"
	wait_until 20 file_has first 'renewed again'
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$first"
	assert_equal "$(on_standby sql 'SELECT token FROM leaserun')" \
	    "$(cat started)"
}

renewed_since() {
	[ "$(on_standby sql "SELECT renewed_at > '$1' FROM leaserun")" = t ]
}

@test "the job of a grant that the failover lost is ended" {
	pg_setup
	standby_make
	on_standby pg_start
	wait_until 20 has_replayed
	on_standby pg_stop
	LEASERUN_BACKEND=$(both_hosts)
	bg "$LEASERUN" run -t 20s -r 300ms -g 300ms job -- \
	    sh -c 'echo $LEASERUN_FENCE_TOKEN >started; exec sleep 1000' 2>first
	first=$!
	wait_until 20 test -s started
	pg_stop QUIT
	on_standby pg_start
	on_standby sql 'SELECT pg_promote()'
	assert_ends 79 "$first"
	file_has first 'is lost'
	[ "$(token job)" -gt "$(cat started)" ]
}

# --- A pooler ---

# PgBouncer in transaction mode with its reset query empty, in front of the
# server; POOLPORT is its port.
pooler_start() {
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
		default_pool_size = ${1-5}
		max_client_conn = 1000
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

# wait_all PID...: every exit status, one a line.
wait_all() {
	local pid status

	for pid; do
		status=0
		wait "$pid" || status=$?
		echo "$status"
	done
}

@test "a hundred jobs through a pooler in transaction mode" {
	pg_setup
	pooler_start
	mkfifo go
	for ((i = 0; i < 100; i++)); do
		bg "$LEASERUN" run -t 12s -r 1s -g 500ms "job-$i" -- \
		    sh -c 'read -r _ <go; exit 0' 2>>errors
		jobs+=("$!")
	done
	is_full() {
		[ "$(sql "SELECT count(*) FROM leaserun WHERE state = 'held'
		    AND expires_at > clock_timestamp()")" = 100 ]
	}
	wait_until 60 is_full
	# Each renews so many times, whatever the speed of this machine.
	since=$(sql 'SELECT clock_timestamp()')
	all_renewed() {
		[ "$(sql "SELECT count(*) FROM leaserun WHERE renewed_at >
		    '$since'::timestamptz + interval '$FLEET_SECONDS s'")" = 100 ]
	}
	wait_until $((FLEET_SECONDS + 60)) all_renewed
	# On the few connections that the pooler has.
	[ "$(sql "SELECT count(*) FROM pg_stat_activity
	    WHERE application_name = 'leaserun'")" -le 5 ]
	# Whoever has it open to read is at its end then.
	timeout 10 sh -c 'echo >go'
	wait_all "${jobs[@]}" >statuses
	assert_equal "$(sort statuses | uniq -c | tr -s ' ')" ' 100 0'
	assert_equal "$(cat errors)" ''
}

@test "through a pooler a waiter gets the lease, told or not" {
	pg_setup
	pooler_start
	mkfifo go
	bg "$LEASERUN" run "${quick[@]}" job -- sh -c 'echo >held; read -r _ <go'
	wait_until 20 test -s held
	bg "$LEASERUN" run -w 60s job -- sh -c 'echo >second' 2>errors
	second=$!
	wait_until 20 connections_of 1
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$second"
	test -s second
	assert_equal "$(cat errors)" ''
}

connections_of() {
	[ "$(sql "SELECT count(*) FROM pg_stat_activity
	    WHERE backend_type = 'client backend'")" -ge "$1" ]
}

@test "a run that is killed behind a pooler leaves nothing but its lease" {
	pg_setup
	pooler_start
	bg "$LEASERUN" run -t 2s -r 300ms -g 200ms job -- \
	    sh -c 'echo $$ $PPID >held; exec sleep 1000'
	first=$!
	wait_until 20 test -s held
	read -r job guard <held
	kill -KILL "$first" "$guard" "$job"
	run_tool 75 run job true
	run_tool 0 run -w 30s job true
	assert_contains "$stderr" 'took over'
}

# --- Waiters ---

# How the sessions of waiters look at the server.
listeners() {
	sql "SELECT count(*) FROM pg_stat_activity
	    WHERE application_name = 'leaserun' AND state = 'idle'
	    AND query = 'LISTEN leaserun'"
}

# A waiter listens, then asks again, so its last statement is another.
waiters_idle() {
	[ "$(sql "SELECT count(*) FROM pg_stat_activity
	    WHERE application_name = 'leaserun' AND state = 'idle'
	    AND query = 'COMMIT'")" -ge "$1" ]
}

hold() {
	mkfifo go
	rm -f held
	bg "$LEASERUN" run "$@" job -- sh -c 'echo >held; read -r _ <go' 2>holder
	holder=$!
	wait_until 20 test -s held
}

@test "a waiter whose connection is ended still gets the lease" {
	pg_setup
	hold -t 31s -r 500ms
	bg "$LEASERUN" run -w 60s job -- sh -c 'echo >second' 2>errors
	second=$!
	wait_until 20 waiters_idle 2
	for _ in 1 2 3; do
		sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		    WHERE application_name = 'leaserun'" >/dev/null
		wait_until 20 waiters_idle 1
	done
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$holder"
	assert_ends 0 "$second"
	test -s second
}

@test "a server that is restarted under waiters: each gets the lease" {
	pg_setup
	hold -t 31s -r 500ms
	for i in 1 2 3 4 5; do
		bg "$LEASERUN" run -w 60s job -- sh -c "echo >second.$i" \
		    2>>errors
		waiters+=("$!")
	done
	wait_until 20 waiters_idle 6
	pg_stop INT
	pg_start
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$holder"
	wait_all "${waiters[@]}" >statuses
	assert_equal "$(uniq -c statuses | tr -s ' ')" ' 5 0'
	assert_equal "$(printf '%s\n' second.* | wc -l)" 5
}

@test "many waiters and one release: no stampede, no late renewal" {
	pg_setup 'max_connections = 100' 'log_statement = all'
	hold -t 6s -r 500ms -g 300ms
	for ((i = 0; i < 80; i++)); do
		bg "$LEASERUN" run -w 100s job -- sh -c 'echo >>ran' 2>>errors
		waiters+=("$!")
	done
	all_wait() {
		[ "$(sql 'SELECT count(*) FROM pg_stat_activity
		    WHERE application_name = $$leaserun$$')" -ge 40 ] &&
		    [ "$(grep -c 'UPDATE.*l.token + 1' server.log)" -ge 80 ]
	}
	wait_until 60 all_wait
	before=$(grep -c 'UPDATE.*l.token + 1' server.log)
	timeout 10 sh -c 'echo >go'
	wait_until 100 lines_reach ran 80
	wait_all "${waiters[@]}" >statuses
	assert_equal "$(sort statuses | uniq -c | tr -s ' ')" ' 80 0'
	assert_equal "$(cat holder)" ''
	assert_ends 0 "$holder"
	# 80 hand-overs to at most half of the connections: each wakes those
	# that listen, and nobody asks more than a few times for each.
	after=$(grep -c 'UPDATE.*l.token + 1' server.log)
	echo "attempts: $((after - before))"
	[ $((after - before)) -lt 8000 ]
}

lines_reach() {
	[ "$(wc -l <"$1")" -ge "$2" ]
}

# --- Connections ---

sessions() {
	sql "SELECT count(*) FROM pg_stat_activity
	    WHERE application_name = 'leaserun'"
}

# The number of connections that the server has accepted from us.
accepted() {
	grep -c 'connection authorized.*application_name=leaserun' server.log ||
	    :
}

renewals() {
	[ "$(sql "SELECT renewed_at - acquired_at >= interval '1500 ms'
	    FROM leaserun")" = t ]
}

@test "connection=keep: one connection for the whole run" {
	pg_setup 'log_connections = on'
	before=$(accepted)
	hold -t 31s -r 300ms -o connection=keep
	wait_until 20 renewals
	assert_equal "$(sessions)" 1
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$holder"
	assert_equal "$(($(accepted) - before))" 1
}

@test "connection=reopen: none is held between heartbeats" {
	pg_setup 'log_connections = on'
	before=$(accepted)
	hold -t 31s -r 300ms -o connection=reopen
	wait_until 20 renewals
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$holder"
	# Grant, release, and a few heartbeats.
	[ "$(($(accepted) - before))" -ge 5 ]
}

@test "connection=auto: none is held when heartbeats are far apart" {
	no_sessions() {
		[ "$(sessions)" = 0 ]
	}
	pg_setup 'log_connections = on'
	before=$(accepted)
	hold -t 31s -r 300ms
	wait_until 20 no_sessions
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$holder"
	rm go
	# And one is, when they are not.
	before=$(accepted)
	hold -t 6s -r 300ms -g 300ms
	wait_until 20 renewals
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$holder"
	assert_equal "$(($(accepted) - before))" 1
}

@test "twenty connections, two hundred hosts: nobody is harmed" {
	pg_setup 'max_connections = 20'
	hold -t 10s -r 500ms -g 300ms -o connection=keep
	mv go go.holder
	for ((i = 0; i < 200; i++)); do
		bg "$LEASERUN" run -w 100s --connect-timeout 60s many -- \
		    sh -c 'echo >>ran' 2>>errors
		hosts+=("$!")
	done
	# The running job loses its connection again and again.
	for _ in 1 2 3 4 5; do
		sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		    WHERE application_name = 'leaserun' LIMIT 3" >/dev/null || :
	done
	wait_all "${hosts[@]}" >statuses
	sort statuses | uniq -c
	assert_equal "$(grep -cvx -e 0 -e 75 statuses)" 0
	assert_equal "$(grep -cx 0 statuses)" "$(wc -l <ran)"
	[ "$(grep -cx 0 statuses)" -gt 0 ]
	timeout 10 sh -c 'echo >go.holder'
	assert_ends 0 "$holder"
	assert_lacks "$(cat holder)" 'is lost'
}
