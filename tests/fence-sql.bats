# contrib/sql/fence.sql: the resource remembers the highest token.  Two writers
# in sessions of psql, and a holder that was frozen.

load helpers
load postgres

setup_file() {
	# shellcheck disable=SC2034
	BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR
	pg_make server || return
	pg_start || return
	export PGDIR
	sql 'CREATE ROLE writer LOGIN'
}

teardown_file() {
	pg_stop QUIT
}

# Each test has a database, which jobs find as PGDATABASE, as `writer'.
setup() {
	test_setup
	export PGDATABASE=f$BATS_TEST_NUMBER PGHOST=$PGDIR PGUSER=writer
	sql "CREATE DATABASE $PGDATABASE TEMPLATE template0"
	export LEASERUN_BACKEND=postgres://postgres@127.0.0.1:$PGPORT/$PGDATABASE
	echo "module-dir = \"$BACKENDS\"" >leaserun.conf
	run_tool 0 init
	admin "$(cat "$srcdir/contrib/sql/fence.sql")"
	admin "GRANT USAGE ON SCHEMA fence TO writer;
	    GRANT EXECUTE ON FUNCTION fence.require(text, bigint) TO writer;
	    CREATE TABLE account (id int PRIMARY KEY, balance int,
	    last_token bigint NOT NULL DEFAULT 0);
	    INSERT INTO account VALUES (1, 0);
	    GRANT SELECT, UPDATE ON account TO writer"
	quick=(-t 3s -r 300ms -g 300ms)
}

# The same in the database of the test.
admin() {
	sql "$1" -d "$PGDATABASE"
}

writer() {
	PGOPTIONS='' psql -XAtq -v ON_ERROR_STOP=1 -v VERBOSITY=verbose "$@"
}

# session NAME: a psql whose lines come from `tell NAME', its output is in NAME.
session() {
	mkfifo "$1.in"
	bg sh -c 'exec stdbuf -oL psql -XAtq -v VERBOSITY=verbose \
	    <>"$1.in" >"$1" 2>&1' sh "$1"
	tell "$1" '\echo ready'
	wait_until 20 file_has "$1" ready
}

tell() {
	timeout 10 sh -c 'printf "%s\n" "$1" >"$2"' sh "$2" "$1.in"
}

# said NAME TEXT
said() {
	wait_until 20 file_has "$1" "$2" || { cat "$1"; return 1; }
}

# A session that waits for a lock.
one_waits() {
	[ "$(admin "SELECT count(*) FROM pg_stat_activity
	    WHERE wait_event_type = 'Lock'")" -eq 1 ]
}

balance() {
	admin 'SELECT balance FROM account'
}

# write TOKEN BALANCE: in a transaction of its own.
write() {
	writer >out 2>&1 <<-END
		BEGIN;
		SELECT fence.require('account', $1);
		UPDATE account SET balance = $2;
		COMMIT;
	END
}

highest() {
	admin "SELECT last_token FROM fence.token WHERE resource = 'account'"
}

@test "a lower token is refused, an equal and a higher one are not" {
	write 33 1
	write 33 2
	assert_equal "$(balance) $(highest)" "2 33"
	write 34 3
	run write 33 4
	assert_equal "$status" 3
	assert_contains "$(cat out)" 'LR075: token 33 is stale: 34 has written'
	assert_equal "$(balance) $(highest)" "3 34"
	write 34 5
	write 9223372036854775807 6
	run write 9223372036854775806 7
	assert_equal "$status" 3
	assert_equal "$(balance)" 6
}

@test "each resource has a highest token of its own" {
	write 34 1
	writer -c "SELECT fence.require('other', 33)"
	writer -c "SELECT fence.require('o''ther\"; --', 32)"
	run writer -c "SELECT fence.require('other', 32)"
	assert_contains "$output" LR075
	assert_equal "$(highest)" 34
}

@test "no token, and none that is none" {
	local wrong

	for wrong in "'account', NULL" "'account', 0" "'account', -1" \
	    "NULL, 1" "'', 1"; do
		run writer -c "SELECT fence.require($wrong)"
		assert_equal "$status" 1
		assert_contains "$output" 22004
	done
	assert_equal "$(admin 'SELECT count(*) FROM fence.token')" 0
}

@test "a transaction that fails leaves the token as it was" {
	write 33 1
	writer -c "BEGIN" -c "SELECT fence.require('account', 40)" -c ROLLBACK
	assert_equal "$(highest)" 33
	write 34 2
}

@test "the higher token waits for the lower one, and writes last" {
	session old
	session new
	tell old "BEGIN; SELECT fence.require('account', 33);"
	tell old '\echo entered'
	said old entered
	tell new "BEGIN; SELECT fence.require('account', 34);"
	tell new "UPDATE account SET balance = balance + 10; COMMIT;"
	tell new '\echo done'
	wait_until 20 one_waits
	tell old "UPDATE account SET balance = balance + 1; COMMIT;"
	said new 'done'
	assert_lacks "$(cat old new)" ERROR
	assert_equal "$(balance) $(highest)" "11 34"
	tell old "SELECT fence.require('account', 33);"
	said old 'LR075: token 33 is stale: 34 has'
}

@test "the lower token waits for the higher one, and is refused" {
	session old
	session new
	tell new "BEGIN; SELECT fence.require('account', 34);"
	tell new '\echo entered'
	said new entered
	tell old "BEGIN; SELECT fence.require('account', 33);"
	tell old "UPDATE account SET balance = balance + 1; COMMIT;"
	tell old '\echo done'
	wait_until 20 one_waits
	tell new "UPDATE account SET balance = balance + 10; COMMIT;"
	said old 'done'
	assert_contains "$(cat old)" 'LR075: token 33 is stale: 34 has'
	assert_equal "$(balance) $(highest)" "10 34"
}

@test "the lower token waits for a higher one that fails, and writes" {
	session old
	session new
	tell new "BEGIN; SELECT fence.require('account', 34);"
	tell new '\echo entered'
	said new entered
	tell old "BEGIN; SELECT fence.require('account', 33);"
	tell old "UPDATE account SET balance = balance + 1; COMMIT;"
	tell old '\echo done'
	wait_until 20 one_waits
	tell new "ROLLBACK;"
	said old 'done'
	assert_lacks "$(cat old)" ERROR
	assert_equal "$(balance) $(highest)" "1 33"
}

@test "also of the first token of a resource one waits for the other" {
	session old
	session new
	tell new "BEGIN; SELECT fence.require('fresh', 34);"
	tell new '\echo entered'
	said new entered
	tell old "SELECT fence.require('fresh', 33);"
	wait_until 20 one_waits
	tell new "COMMIT;"
	said old 'LR075: token 33 is stale: 34 has'
}

@test "under every isolation level no stale write gets through" {
	local level

	for level in 'repeatable read' serializable; do
		session old
		session new
		tell old "BEGIN ISOLATION LEVEL $level; SELECT 1;"
		tell old '\echo begun'
		said old begun
		tell new "BEGIN ISOLATION LEVEL $level;"
		tell new "SELECT fence.require('account', 34);"
		tell new "UPDATE account SET balance = 10; COMMIT;"
		tell new '\echo done'
		said new 'done'
		tell old "SELECT fence.require('account', 33);"
		tell old "UPDATE account SET balance = 1; COMMIT;"
		tell old '\echo done'
		said old 'done'
		assert_matches "$(cat old)" 'LR075|40001'
		assert_equal "$(balance) $(highest)" "10 34"
		tell old '\q'
		tell new '\q'
		rm old.in new.in
	done
}

@test "a writer has no other way to the tokens" {
	local what

	write 34 1
	for what in "UPDATE fence.token SET last_token = 1" \
	    "DELETE FROM fence.token" "SELECT * FROM fence.token" \
	    "TRUNCATE fence.token" \
	    "CREATE FUNCTION fence.require(text, int) RETURNS void
	    LANGUAGE sql AS 'SELECT'" \
	    "ALTER FUNCTION fence.require(text, bigint) SECURITY INVOKER"; do
		run writer -c "$what"
		assert_equal "$status" 1
		assert_contains "$output" 42501
	done
	assert_equal "$(highest)" 34
}

@test "who was not granted it cannot call it" {
	admin 'CREATE ROLE nobody_f LOGIN; GRANT USAGE ON SCHEMA fence TO nobody_f'
	run writer -U nobody_f -c "SELECT fence.require('account', 99)"
	assert_equal "$status" 1
	assert_contains "$output" 42501
	assert_equal "$(highest)" ''
}

@test "the caller's search_path and temporary tables change nothing" {
	write 34 1
	run writer <<-'END'
		CREATE TEMP TABLE token (resource text, last_token bigint);
		CREATE FUNCTION pg_temp.clock_timestamp() RETURNS timestamptz
		    LANGUAGE plpgsql AS 'BEGIN RAISE ''called''; END';
		SET search_path = pg_temp, fence, pg_catalog;
		SELECT fence.require('account', 33);
	END
	assert_equal "$status" 3
	assert_contains "$output" 'LR075: token 33 is stale: 34 has'
	assert_lacks "$output" called
}

@test "fence.sql may be run again, and keeps the tokens" {
	write 34 1
	admin "$(cat "$srcdir/contrib/sql/fence.sql")"
	run write 33 2
	assert_contains "$(cat out)" LR075
	write 35 3
}

@test "psql -q says nothing, the first time and again" {
	admin 'DROP SCHEMA fence CASCADE'
	for _ in 1 2; do
		psql -X -q -U postgres -f "$srcdir/contrib/sql/fence.sql" \
		    >out 2>&1
		assert_equal "$(cat out)" ""
	done
}

@test "psql -f installs it, from many hosts at once" {
	local -a pids=()
	local pid

	admin 'DROP SCHEMA fence CASCADE'
	for _ in {1..10}; do
		bg psql -XAtq -v ON_ERROR_STOP=1 -U postgres \
		    -f "$srcdir/contrib/sql/fence.sql" >>out 2>&1
		pids+=("$!")
	done
	for pid in "${pids[@]}"; do
		assert_ends 0 "$pid"
	done
	assert_equal "$(admin "SELECT count(*) FROM pg_proc WHERE
	    pronamespace = 'fence'::regnamespace")" 1
}

# by_column TOKEN: says `done' when it has written.
by_column() {
	writer -v token="$1" <<-'END'
		UPDATE account
		   SET balance = balance + 10, last_token = :token
		 WHERE id = 1 AND last_token <= :token
		RETURNING 'done';
	END
}

@test "the WHERE form: stale changes nothing, equal and higher do" {
	local token

	for token in 33 33 34; do
		assert_equal "$(by_column $token)" 'done'
	done
	assert_equal "$(by_column 33)" ''
	assert_equal "$(balance)" 30
}

# The first lines of job.sql in leaserun-fencing(7), and what follows them.
job_sql() {
	sed -n '/^\\eif :{?token}$/,/^\\eendif$/ s/\\e/\\/p
	    /^DO \$\$ BEGIN RAISE/p' "$srcdir/man/leaserun-fencing.7"
	echo "SELECT fence.require('account', :token); SELECT 'written';"
}

@test "a job that is started by hand is told that there is no token" {
	job_sql >job.sql
	assert_equal "$(wc -l <job.sql)" 5
	run writer -f job.sql
	assert_equal "$status" 3
	assert_contains "$output" "no token, see psql -v"
	assert_lacks "$output" "syntax error"
	assert_equal "$(writer -v token=33 -f job.sql | tail -n 1)" written
	# As the manual page has it, in a shell that has none.
	status=0
	sh -c "$(sed -n "/^    'psql -v ON_ERROR/ s/^    '\(.*\)'/\1/p" \
	    "$srcdir/man/leaserun-fencing.7")" 2>said || status=$?
	[ "$status" -ne 0 ]
	assert_contains "$(cat said)" LEASERUN_FENCE_TOKEN
}

@test "the WHERE form: the lower token waits for the higher, and does nothing" {
	local set='UPDATE account SET balance = balance + 10, last_token ='

	session old
	session new
	tell new "BEGIN; $set 34 WHERE id = 1 AND last_token <= 34;"
	tell new '\echo entered'
	said new entered
	tell old "$set 33 WHERE id = 1 AND last_token <= 33;"
	tell old '\echo rows :ROW_COUNT'
	wait_until 20 one_waits
	tell new 'COMMIT;'
	said old 'rows 0'
	assert_equal "$(balance)" 10
}

# frozen STATEMENT...: a holder's keeper and guard are frozen past the lease; a
# successor adds 10 to what it reads; the old job, which had read before, writes
# what it has added 1 to, and both thaw.  The STATEMENTs come before each write.
frozen() {
	local keeper guard

	cat >job <<-'END'
		#!/bin/bash
		# job ADD NAME STATEMENT...: reads, waits, writes.
		add=$1 name=$2
		shift 2
		read=$(psql -XAtqc 'SELECT balance FROM account')
		echo "$PPID $LEASERUN_FENCE_TOKEN" >"$name.read.new"
		mv "$name.read.new" "$name.read"
		[ ! -p "$name.go" ] || read -r _ <"$name.go"
		psql -XAtq -v ON_ERROR_STOP=1 -v VERBOSITY=verbose \
		    -v token="$LEASERUN_FENCE_TOKEN" >"$name.out" 2>&1 <<SQL
		BEGIN;
		$*
		UPDATE account SET balance = $read + $add;
		COMMIT;
		SQL
		echo $? >"$name.status.new"
		mv "$name.status.new" "$name.status"
	END
	chmod 755 job
	mkfifo old.go
	bg "$LEASERUN" run "${quick[@]}" account -- ./job 1 old "$@" 2>old.err
	keeper=$!
	wait_until 20 test -s old.read
	guard=$(cut -d' ' -f1 old.read)
	kill -STOP "$keeper" "$guard"
	run_tool 0 run -w 15s "${quick[@]}" account -- ./job 10 new "$@"
	assert_contains "$stderr" 'took over'
	[ "$(cut -d' ' -f2 new.read)" -gt "$(cut -d' ' -f2 old.read)" ]
	assert_equal "$(cat new.status)" 0
	assert_equal "$(balance)" 10
	timeout 10 sh -c 'echo >old.go'
	wait_until 20 test -s old.status
	kill -CONT "$guard" "$keeper"
	assert_ends 79 "$keeper"
}

@test "a frozen holder's job that lives on is refused by the fence" {
	frozen "SELECT fence.require('account', :token);"
	assert_equal "$(cat old.status)" 3
	assert_matches "$(cat old.out)" 'LR075: token [0-9]+ is stale'
	assert_equal "$(balance)" 10
	assert_equal "$(highest)" "$(cut -d' ' -f2 new.read)"
}

@test "without the fence a frozen holder's job undoes the successor's work" {
	frozen
	assert_equal "$(cat old.status)" 0
	# The ten of the successor are lost.
	assert_equal "$(balance)" 1
}
