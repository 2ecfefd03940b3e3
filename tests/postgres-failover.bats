# Postgres with a standby that takes over, and what stands in front of the two.

load helpers
load postgres

# token NAME: of a run of its own.
token() {
	run_tool 0 run "$1" -- sh -c 'echo "$LEASERUN_FENCE_TOKEN"' >&2
	echo "$stdout"
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
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$first"
	assert_equal "$(on_standby sql 'SELECT token FROM leaserun')" \
	    "$(cat started)"
}

renewed_since() {
	[ "$(on_standby sql "SELECT renewed_at > '$1' FROM leaserun")" = t ]
}

# lost_grant: of $first, whose row the standby has never seen, or an older one.
lost_grant() {
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
	assert_contains "$(cat first)" \
	    'is lost: its record was removed or replaced'
	[ "$(token job)" -gt "$(cat started)" ]
}

@test "the job of a grant that the failover lost is ended: a new name" {
	pg_setup
	lost_grant
}

@test "the job of a grant that the failover lost is ended: a known name" {
	pg_setup
	token job >/dev/null
	lost_grant
}

# --- Roles that change ---

# The primary ends in good order, and its standby takes its place; PGDIR, PGPORT
# and STANDBY, STANDBYPORT are who has which role.
swap_roles() {
	local dir=$PGDIR port=$PGPORT

	wait_until 20 has_replayed
	pg_stop INT
	on_standby sql 'SELECT pg_promote()' >/dev/null
	PGDIR=$STANDBY PGPORT=$STANDBYPORT STANDBY=$dir STANDBYPORT=$port
	as_postgres touch "$STANDBY/standby.signal"
	echo "primary_conninfo = 'host=127.0.0.1 port=$PGPORT user=postgres'" \
	    >>"$STANDBY/postgresql.auto.conf"
	on_standby pg_start
}

alone() {
	echo "postgres://postgres@127.0.0.1:$1/postgres"
}

@test "primary and standby swap their roles, and back: the job lives" {
	pg_setup
	standby_make
	on_standby pg_start
	LEASERUN_BACKEND=$(both_hosts)
	mkfifo go
	bg "$LEASERUN" run -t 60s -r 300ms -g 300ms -o connection=keep job -- \
	    sh -c 'echo $LEASERUN_FENCE_TOKEN >started; read -r _ <go' 2>first
	first=$!
	wait_until 20 test -s started
	for _ in 1 2; do
		swap_roles
		assert_renewed
		# It is held there, and nobody gets it from the other one.
		run_tool 75 run job -- touch ran
		run_tool 69 run -b "$(alone "$STANDBYPORT")" \
		    --connect-timeout 1s job -- touch ran
	done
	is_alive "$first"
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$first"
	assert_lacks "$(cat first)" 'is lost'
	assert_equal "$(sql "SELECT token || state FROM leaserun
	    WHERE name = 'job'")" "$(cat started)released"
	cp started tokens
	token job >>tokens
	assert_rising tokens
	[ ! -e ran ]
}

# The primary has a heartbeat that came after this.
assert_renewed() {
	local before

	before=$(sql "SELECT renewed_at FROM leaserun WHERE name = 'job'")
	wait_until 40 primary_renewed_since "$before"
}

primary_renewed_since() {
	[ "$(sql "SELECT renewed_at > '$1' FROM leaserun
	    WHERE name = 'job'")" = t ]
}

@test "a former primary that was not stopped: the fence tells them apart" {
	pg_setup
	token job >tokens
	standby_make
	on_standby pg_start
	wait_until 20 has_replayed
	on_standby sql 'SELECT pg_promote()' >/dev/null
	# Both grant the name from now on.
	for _ in 1 2 3; do
		token job >>tokens
	done
	old=$(tail -n 1 tokens)
	write_as "$old" old
	LEASERUN_BACKEND=$(alone "$STANDBYPORT")
	token job >>tokens
	assert_rising tokens
	write_as "$(tail -n 1 tokens)" new
	run_tool 75 fence --token "$old" resource -- sh -c 'echo late >>resource'
	assert_equal "$(tr '\n' ' ' <resource)" 'old new '
}

# --- A proxy that does not know the roles ---

# One name for both, each connection to the other one of the two.
alternating_proxy() {
	pg_setup 'log_connections = on'
	standby_make
	on_standby pg_start
	relay_set pass
	relay_start "$@" "$STANDBYPORT" "$PGPORT"
	export LEASERUN_BACKEND
	LEASERUN_BACKEND=$(alone "$RELAYPORT")
}

@test "a proxy that alternates between primary and standby: as one primary" {
	alternating_proxy
	for _ in 1 2 3 4 5; do
		run_tool 0 run short -- sh -c 'echo >>ran'
	done
	assert_equal "$(wc -l <ran)" 5
	mkfifo go
	bg "$LEASERUN" run -t 20s -r 300ms -g 300ms -o connection=reopen job \
	    -- sh -c 'echo $LEASERUN_FENCE_TOKEN >started; read -r _ <go' \
	    2>first
	first=$!
	wait_until 20 test -s started
	for _ in 1 2 3 4 5; do
		assert_renewed
		run_tool 75 run job -- touch no
	done
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$first"
	assert_lacks "$(cat first)" 'is lost'
	assert_equal "$(sql "SELECT token || state FROM leaserun
	    WHERE name = 'job'")" "$(cat started)released"
	[ ! -e no ]
}

standby_visits() {
	grep -c 'connection authorized.*application_name=leaserun' server.log ||
	    :
}

@test "a proxy that knows only a standby: 69, and it is not hammered" {
	alternating_proxy "$(free_port)"
	kill -KILL "${bg_pids[-1]}"
	relay_start "$STANDBYPORT"
	export LEASERUN_BACKEND
	LEASERUN_BACKEND=$(alone "$RELAYPORT")
	before=$(standby_visits)
	run_tool 69 run --connect-timeout 4s job -- touch ran
	assert_contains "$stderr" 'is a standby or read-only'
	visits=$(($(standby_visits) - before))
	echo "visits: $visits"
	[ "$visits" -ge 2 ]
	[ "$visits" -le 40 ]
	[ ! -e ran ]
}

@test "a pooler in front of such a proxy: as one primary" {
	alternating_proxy
	PGPORT=$RELAYPORT pooler_start 1 'server_lifetime = 0'
	for _ in 1 2 3 4 5; do
		run_tool 0 run short -- sh -c 'echo >>ran'
	done
	assert_equal "$(wc -l <ran)" 5
}

# --- What waits for a synchronous standby that is not there ---

# held_up TEXT: the server processes whose commit waits, with that in the query.
held_up() {
	sql "SELECT pid FROM pg_stat_activity
	    WHERE wait_event = 'SyncRep' AND query LIKE '%$1%'" | grep .
}

nobody_waits_for_locks() {
	[ "$(sql "SELECT count(*) FROM pg_stat_activity
	    WHERE wait_event_type = 'Lock'")" = 0 ]
}

@test "who notifies and does not get on: releases and revoke --force do" {
	pg_setup
	mkfifo go
	bg "$LEASERUN" run held -- sh -c 'touch started; read -r _ <go'
	wait_until 20 test -e started
	set_server synchronous_standby_names nobody
	sql 'CREATE TABLE elsewhere (); NOTIFY elsewhere' 3>&- &
	other=$!
	wait_until 20 held_up NOTIFY
	pid=$(held_up NOTIFY)
	# Of all commits it is the only one that is held up from now on.
	kill -STOP "$pid"
	set_server synchronous_standby_names ''
	run_tool 0 run -v --once K job -- true
	assert_contains "$stderr" ', done for K'
	assert_lacks "$stderr" 'could not'
	assert_lacks "$stderr" 'trying again'
	run_tool 0 revoke --force held
	run_tool 0 run held -- true
	# Nor does anything stay behind that has a connection.
	wait_until 20 nobody_waits_for_locks
	kill -CONT "$pid"
	wait "$other"
	timeout 10 sh -c 'echo >go' || :
}

@test "a release that the standby may not have is not taken for one" {
	pg_setup
	mkfifo go
	bg "$LEASERUN" run -t 60s --once K job -- \
	    sh -c 'touch started; read -r _ <go'
	first=$!
	wait_until 20 test -e started
	set_server synchronous_standby_names nobody
	timeout 10 sh -c 'echo >go'
	wait_until 20 held_up COMMIT
	sql "SELECT pg_cancel_backend($(held_up COMMIT))"
	wait_until 20 grep -q 'WARNING: *canceling wait' server.log
	# It waits again, although there is nothing left to release.
	wait_until 20 held_up COMMIT
	set_server synchronous_standby_names ''
	assert_ends 0 "$first"
}
