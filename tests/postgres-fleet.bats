# Postgres with many clients at once.

load helpers
load postgres

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

# Its connection, which comes and goes, is not counted as a waiter's.
hold_apart() {
	hold -t 31s -r 500ms -b "$LEASERUN_BACKEND?application_name=holder"
}

@test "a waiter whose connection is ended still gets the lease" {
	pg_setup
	hold_apart
	bg "$LEASERUN" run -w 60s job -- sh -c 'echo >second' 2>errors
	second=$!
	wait_until 20 waiters_idle 1
	for _ in 1 2 3; do
		sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		    WHERE application_name = 'leaserun'" >terminated
		assert_equal "$(cat terminated)" t
		wait_until 20 waiters_idle 1
	done
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$holder"
	assert_ends 0 "$second"
	test -s second
}

@test "a server that is restarted under waiters: each gets the lease" {
	pg_setup
	hold_apart
	for i in 1 2 3 4 5; do
		bg "$LEASERUN" run -w 60s --connect-timeout 60s job -- \
		    sh -c "echo >second.$i" 2>>errors
		waiters+=("$!")
	done
	wait_until 20 waiters_idle 5
	pg_stop INT
	pg_start
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$holder"
	wait_all "${waiters[@]}" >statuses
	assert_equal "$(uniq -c statuses | tr -s ' ')" ' 5 0'
	assert_equal "$(printf '%s\n' second.* | wc -l)" 5
}

# How often anybody has asked for a lease.
attempts() {
	grep -c 'UPDATE.*l.token + 1' server.log || :
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
		    [ "$(attempts)" -ge 80 ]
	}
	wait_until 60 all_wait
	# While nothing happens, hardly anybody asks.
	since=$(sql 'SELECT clock_timestamp()')
	before=$(attempts)
	held_for() {
		[ "$(sql "SELECT renewed_at > '$since'::timestamptz +
		    interval '$1 s' FROM leaserun")" = t ]
	}
	wait_until 60 held_for 10
	echo "attempts meanwhile: $(($(attempts) - before))"
	[ $(($(attempts) - before)) -lt 500 ]
	before=$(attempts)
	timeout 10 sh -c 'echo >go'
	wait_until 100 lines_reach ran 80
	wait_all "${waiters[@]}" >statuses
	assert_equal "$(sort statuses | uniq -c | tr -s ' ')" ' 80 0'
	assert_equal "$(cat holder)" ''
	assert_ends 0 "$holder"
	# 80 hand-overs to at most half of the connections: each wakes those
	# that listen, and nobody asks more than a few times for each.
	echo "attempts: $(($(attempts) - before))"
	[ $(($(attempts) - before)) -lt 8000 ]
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

no_sessions() {
	[ "$(sessions)" = 0 ]
}

@test "connection=auto: none is held when heartbeats are far apart" {
	pg_setup 'log_connections = on'
	before=$(accepted)
	hold -t 40s -r 12s -g 300ms
	wait_until 60 no_sessions
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$holder"
	rm go
	# And one is, when they are not.
	before=$(accepted)
	hold -t 60s -r 300ms
	wait_until 20 renewals
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$holder"
	assert_equal "$(($(accepted) - before))" 1
}

session_is_idle() {
	[ "$(sql "SELECT state FROM pg_stat_activity
	    WHERE application_name = 'leaserun'")" = idle ]
}

# A server may be told to end those that are idle, or be restarted.
@test "a connection that ends between heartbeats is no failed renewal" {
	pg_setup
	hold -t 120s -r 500ms -o connection=keep
	for _ in 1 2 3; do
		wait_until 20 session_is_idle
		# With what it has asked for answered.
		kill -STOP "$holder"
		wait_until 20 session_is_idle
		sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		    WHERE application_name = 'leaserun'"
		wait_until 20 no_sessions
		kill -CONT "$holder"
	done
	wait_until 20 session_is_idle
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$holder"
	assert_equal "$(cat holder)" ''
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

# --- Telling ---

# notify_fails SQL: instead of telling anybody.
notify_fails() {
	sql "CREATE OR REPLACE FUNCTION public.pg_notify(text, text)
	    RETURNS void LANGUAGE plpgsql AS \$\$ BEGIN $1; END \$\$"
}

# Without a warning, and the next one takes nothing over.
released_job() {
	run_tool 0 run job true
	assert_equal "$output" ''
	assert_equal "$(sql "SELECT state FROM leaserun WHERE name = 'job'")" \
	    released
	run_tool 0 run job true
	assert_equal "$output" ''
}

@test "who cannot be told of a release does not hold it up" {
	pg_setup
	sql 'ALTER ROLE postgres SET search_path = public, pg_catalog'
	sql 'CREATE TABLE told (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)'
	sql 'INSERT INTO told VALUES (1)'
	notify_fails "RAISE EXCEPTION 'too many notifications'"
	released_job
	# As when the queue is full: known only at the end.
	notify_fails 'INSERT INTO public.told VALUES (1)'
	released_job
	assert_equal "$(sql 'SELECT count(*) FROM told')" 1
	notify_fails 'INSERT INTO public.told VALUES (2)'
	released_job
	assert_equal "$(sql 'SELECT count(*) > 1 FROM told')" t
}

@test "who cannot be told, since the server refuses that, does not hammer it" {
	pg_setup
	hold -t 60s
	relay_start
	relay_set cut 'LISTEN leaserun'
	run_tool 75 run --wait 5s \
	    -b "postgres://postgres@127.0.0.1:$RELAYPORT/postgres" \
	    job -- touch ran
	# Each time it asks for that once; the pauses in between double.
	tries=$(wc -l <relay.log)
	echo "tries: $tries"
	[ "$tries" -ge 1 ]
	[ "$tries" -le 8 ]
	[ ! -e ran ]
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$holder"
}
