# Postgres behind PgBouncer in transaction mode, whose reset query is empty: no
# request may count on the session that another one had, nor leave it changed.

load helpers
load postgres

# How long a hundred jobs go on.
: "${POOL_SECONDS:=120}"

setup_file() {
	export BATS_TEST_TIMEOUT=600
}

setup() {
	test_setup
	quick=(-t 4s -r 500ms -g 300ms)
}

# How many connections the pooler has.
pooled() {
	sql "SELECT count(*) FROM pg_stat_activity
	    WHERE backend_type = 'client backend' AND client_addr IS NOT NULL"
}

@test "a hundred jobs through a pooler in transaction mode, for minutes" {
	local jobs=()

	pg_setup
	pooler_start
	mkfifo go
	for ((i = 0; i < 100; i++)); do
		bg "$LEASERUN" run -t 30s -r 1s -g 500ms "job-$i" -- \
		    sh -c 'read -r _ <go; exit 0' 2>>errors
		jobs+=("$!")
	done
	held() {
		sql "SELECT count(*), sum(token) FROM leaserun
		    WHERE name LIKE 'job-%' AND state = 'held'
		    AND expires_at > clock_timestamp()"
	}
	is_full() {
		[[ $(held) == '100|'* ]]
	}
	wait_until 100 is_full
	before=$(held)
	# Each renews for so long, whatever the speed of this machine; others
	# come and go meanwhile.
	since=$(sql 'SELECT clock_timestamp()')
	all_renewed() {
		run_tool 0 run come-and-go -- \
		    sh -c 'echo "$LEASERUN_FENCE_TOKEN" >>tokens' &&
		    [ "$(sql "SELECT count(*) FROM leaserun
		    WHERE name LIKE 'job-%' AND renewed_at >
		    '$since'::timestamptz + interval '$POOL_SECONDS s'")" = 100 ]
	}
	wait_until $((POOL_SECONDS + 200)) all_renewed >/dev/null
	assert_rising tokens
	# All that on the few connections that the pooler has.
	[ "$(pooled)" -ge 1 ]
	[ "$(pooled)" -le 5 ]
	assert_equal "$(held)" "$before"
	# Whoever has it open to read is at its end then.
	timeout 10 sh -c 'echo >go'
	wait_all "${jobs[@]}" >statuses
	assert_equal "$(sort statuses | uniq -c | tr -s ' ')" ' 100 0'
	# One that was late once on a busy machine is no harm.
	assert_equal "$(grep -v -e 'cannot renew' -e 'renewed again' errors)" ''
}

@test "nothing of ours stays in the sessions of a pooler" {
	local parameter

	pg_setup 'synchronous_commit = off'
	pooler_start 1
	parameters() {
		for parameter in statement_timeout lock_timeout row_security \
		    synchronous_commit transaction_isolation; do
			sql "SHOW $parameter"
		done
		sql 'SELECT count(*) FROM pg_listening_channels()'
		sql 'SELECT count(*) FROM pg_prepared_statements'
	}
	run_tool 0 run job -- true
	run_tool 0 run --once key job -- true
	run_tool 0 status
	run_tool 0 doctor
	bg "$LEASERUN" run "${quick[@]}" job -- sh -c 'echo >held; exec sleep 1000'
	first=$!
	wait_until 20 test -s held
	run_tool 75 run -w 1s job true
	run_tool 0 revoke --wait 20s job
	assert_ends 79 "$first"
	# As in a session that nobody had before.
	parameters >new
	PGDIR=127.0.0.1 PGPORT=$POOLPORT parameters >pooled
	diff new pooled
}

@test "through a pooler a waiter gets the lease, and never listens" {
	pg_setup 'log_statement = all'
	pooler_start
	mkfifo go
	bg "$LEASERUN" run "${quick[@]}" job -- sh -c 'echo >held; read -r _ <go'
	wait_until 20 test -s held
	bg "$LEASERUN" run -v -w 60s job -- sh -c 'echo >second' 2>errors
	second=$!
	wait_until 20 file_has errors 'held by'
	timeout 10 sh -c 'echo >go'
	assert_ends 0 "$second"
	test -s second
	# It would be told in somebody else's session.
	assert_equal "$(grep -c ': LISTEN' server.log)" 0
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
