# What administrators of a PostgreSQL meet: settings, encodings, rights, layouts,
# init, doctor and status.  One server for the file, a database for each test,
# and servers of their own where the server itself is what is wrong.

load helpers
load postgres

FAKETIME=$(printf '%s\n' /usr/lib/*/faketime/libfaketimeMT.so.1 | head -n 1)

setup_file() {
	# shellcheck disable=SC2034
	BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR
	pg_make server 'max_connections = 120' || return
	pg_start || return
	export PGDIR
}

teardown_file() {
	pg_stop QUIT
}

# In the database of the test there is no table yet; `role' is one that may
# log in and nothing else.
setup() {
	test_setup
	db=d$BATS_TEST_NUMBER
	role=r$BATS_TEST_NUMBER
	sql "CREATE DATABASE $db TEMPLATE template0" -c "CREATE ROLE $role LOGIN"
	as postgres
	echo "module-dir = \"$BACKENDS\"" >leaserun.conf
	quick=(-t 4s -r 300ms -g 300ms)
	short=(--connect-timeout 2s)
}

as() {
	export LEASERUN_BACKEND=postgres://$1@127.0.0.1:$PGPORT/$db
}

admin() {
	sql "$1" -d "$db"
}

# grant [TABLE]: what the manual says that a role needs.
grant() {
	admin "GRANT SELECT, INSERT, UPDATE ON ${1-leaserun} TO $role"
}

# hold NAME [OPTION]...: one that has the lease until let_go; its token is in
# the file held.
hold() {
	local name=$1

	shift
	mkfifo go
	bg "$LEASERUN" run "${quick[@]}" "$@" "$name" -- sh -c '
		echo "$LEASERUN_FENCE_TOKEN" >held.new
		mv held.new held
		read -r _ <go' 2>holder.err
	holder=$!
	wait_until 20 test -s held || { cat holder.err; return 1; }
}

let_go() {
	timeout 10 sh -c 'echo >go'
}

# token NAME [OPTION]...: of a run of its own.
token() {
	local name=$1

	shift
	run_tool 0 run "$@" "$name" -- sh -c 'echo "$LEASERUN_FENCE_TOKEN"' >&2
	echo "$stdout"
}

# field NAME KEY [OPTION]...: what status says, as JSON has it.
field() {
	local name=$1 key=$2

	shift 2
	run_tool 0 status --json "$@" "$name" >&2
	sed -n "s/^ *\"$key\": \(.*[^,]\),*\$/\1/p" <<<"$stdout"
}

field_is() {
	[ "$(field "$1" "$2")" = "$3" ]
}

# all_refuse RC TEXT: every command ends with RC and says TEXT, nothing is
# started, and nothing is held.
all_refuse() {
	local -a also=("${short[@]}" "${opts[@]}")

	run_tool "$1" status "${also[@]}" job
	assert_contains "$stderr" "$2"
	run_tool "$1" check "${also[@]}" --token 1 job
	assert_contains "$stderr" "$2"
	run_tool "$1" revoke "${also[@]}" job
	assert_contains "$stderr" "$2"
	run_tool "$1" run -w 1s "${also[@]}" job touch ran
	assert_contains "$stderr" "$2"
	assert_equal "$stdout" ""
	[ ! -e ran ]
}

# Does what the last error says, as the superuser.
mend() {
	local statement

	if [[ $stderr == *"run 'leaserun init"* ]]; then
		"$LEASERUN" init "${opts[@]}" \
		    -b "postgres://postgres@127.0.0.1:$PGPORT/$db"
	else
		statement=$(sed -n 's/^.*runs\{0,1\}: //p' <<<"$stderr")
		[ -n "$statement" ] || fail "no statement in '$stderr'"
		admin "$statement"
	fi
}

# mends RC TEXT: the command is refused, mended as it says, and runs.
mends() {
	run_tool "$1" run "${short[@]}" "${opts[@]}" job touch ran
	assert_contains "$stderr" "$2"
	[ ! -e ran ]
	mend
}

works() {
	run_tool 0 run "${opts[@]}" job touch ran
	[ -e ran ]
	rm ran
}

# No process of the server is left, also after a crash.
no_server() {
	! readlink /proc/[0-9]*/cwd 2>/dev/null | grep -qxF "$PGDIR"
}

# --- Settings of the server, the database and the role ---

conflicts() {
	grep -c 'could not serialize' "$PGDIR/../server.log" || :
}

# eight_at_once: they all run, one after the other, nothing is said, and nobody
# had to try again.
eight_at_once() {
	local -a pids=()
	local pid before

	before=$(conflicts)
	: >runs
	for _ in {1..8}; do
		bg "$LEASERUN" run -w 60s busy -- sh -c \
		    'echo "$LEASERUN_FENCE_TOKEN" >>runs' 2>>contenders
		pids+=("$!")
	done
	for pid in "${pids[@]}"; do
		assert_ends 0 "$pid"
	done
	assert_equal "$(wc -l <runs)" 8
	assert_equal "$(sort -nu runs)" "$(cat runs)"
	assert_equal "$(cat contenders)" ""
	assert_equal "$(conflicts)" "$before"
}

@test "serializable and repeatable read by default, of database and role" {
	local level

	run_tool 0 init
	grant
	for level in serializable 'repeatable read'; do
		admin "ALTER DATABASE $db SET default_transaction_isolation =
		    '$level'"
		as postgres
		eight_at_once
		admin "ALTER DATABASE $db RESET ALL;
		    ALTER ROLE $role SET default_transaction_isolation =
		    '$level'"
		as "$role"
		eight_at_once
		admin "ALTER ROLE $role RESET ALL"
	done
}

# Kills the server, its processes with it, and starts it again.
crash() {
	kill -KILL "$(pg_pid)" "$walwriter"
	wait_until 20 no_server
	pg_start
}

# The one who would write later what is not written at once.
stop_walwriter() {
	walwriter=$(sql "SELECT pid FROM pg_stat_activity
	    WHERE backend_type = 'walwriter'")
	kill -STOP "$walwriter"
}

@test "a grant outlives the crash of a server that does not wait for its disk" {
	local last next setting

	pg_make own 'synchronous_commit = off' 'autovacuum = off' \
	    "default_transaction_isolation = 'serializable'"
	pg_start
	db=postgres
	as postgres
	run_tool 0 init
	sql "CREATE ROLE lax LOGIN; ALTER ROLE lax SET synchronous_commit =
	    'off'; GRANT SELECT, INSERT, UPDATE ON leaserun TO lax"
	eight_at_once
	last=$(token job)
	for setting in postgres lax; do
		as "$setting"
		sql 'CHECKPOINT'
		stop_walwriter
		hold job
		next=$(cat held)
		crash
		kill -KILL "$holder"
		[ "$next" -gt "$last" ]
		assert_equal "$(field job token)" "$next"
		run_tool 0 revoke --force job
		last=$(token job)
		[ "$last" -gt "$next" ] || fail "$last after $next"
		rm go held
	done
	# What the settings do to those who do not mind them.
	sql 'CHECKPOINT'
	stop_walwriter
	sql "UPDATE leaserun SET token = token + 1000 WHERE name = 'job'"
	crash
	assert_equal "$(field job token)" "$last"
}

@test "a role or database that is read-only by default: 69, never 75 or 0" {
	run_tool 0 init
	grant
	admin "ALTER ROLE $role SET default_transaction_read_only = on"
	as "$role"
	all_refuse 69 read-only
	run_tool 69 init "${short[@]}" --raise-token 99
	run_tool 78 doctor "${short[@]}"
	finding bad server "read-only, it grants no leases; name the primary"
	admin "ALTER ROLE $role RESET ALL"
	works
}

@test "the next host is tried when one is read-only or a standby" {
	local port=$PGPORT second both

	# One that takes no writes, with a table of the same name.
	pg_make readonly
	second=$PGPORT
	pg_start
	sql "CREATE DATABASE $db"
	as postgres
	run_tool 0 init
	sql 'ALTER SYSTEM SET default_transaction_read_only = on'
	sql 'SELECT pg_reload_conf()'
	all_refuse 69 read-only
	PGPORT=$port as postgres
	run_tool 0 init
	both=127.0.0.1:$second,127.0.0.1:$port
	export LEASERUN_BACKEND=postgres://postgres@$both/$db
	works
	hold job
	run_tool 0 check --token "$(cat held)" job
	field_is job state '"held"'
	run_tool 0 revoke --wait 20s job
	assert_ends 79 "$holder"
	run_tool 0 doctor
}

@test "a standby alone: 69; with its primary: works, in either order" {
	local port=$PGPORT order

	run_tool 0 init
	install -d -m 700 -o "$(stat -c %U "$PGDIR")" standby
	chmod 711 .
	(cd / && as_postgres pg_basebackup -R -c fast -X stream -h "$PGDIR" \
	    -p "$PGPORT" -U postgres -D "$BATS_TEST_TMPDIR/standby")
	PGDIR=$BATS_TEST_TMPDIR/standby
	PGPORT=$(free_port)
	printf '%s\n' "port = $PGPORT" "unix_socket_directories = '$PGDIR'" \
	    >>"$PGDIR/postgresql.conf"
	pg_start
	as postgres
	all_refuse 69 standby
	run_tool 69 init "${short[@]}"
	run_tool 78 doctor "${short[@]}"
	finding bad server 'is a standby .* name the primary'
	LEASERUN_BACKEND=postgres://postgres@127.0.0.1:1,127.0.0.1:$PGPORT/$db
	run_tool 69 doctor "${short[@]}"
	assert_contains "$stderr" 'no other one in the URL answers as a primary'
	for order in "$PGPORT $port" "$port $PGPORT"; do
		export LEASERUN_BACKEND=postgres://postgres@127.0.0.1:${order% *}
		LEASERUN_BACKEND+=,127.0.0.1:${order#* }/$db
		works
		hold job
		run_tool 0 check --token "$(cat held)" job
		field_is job state '"held"'
		run_tool 0 revoke --wait 20s job
		assert_ends 79 "$holder"
		rm go held
		run_tool 0 doctor
	done
	pg_stop QUIT
}

@test "time zones and styles of clients and roles change nothing" {
	local zone expected

	run_tool 0 init
	grant
	admin "ALTER ROLE $role SET timezone = 'Asia/Kolkata';
	    ALTER ROLE $role SET datestyle = 'SQL, DMY';
	    ALTER ROLE $role SET intervalstyle = 'sql_standard';
	    ALTER ROLE $role SET extra_float_digits = -15"
	hold job -t 60s -r 20s
	expected=$(field job expires_at)
	for zone in America/St_Johns Pacific/Kiritimati :/nowhere; do
		as postgres
		[ "$zone" = :/nowhere ] || assert_equal \
		    "$(PGTZ=$zone field job expires_at)" "$expected"
		as "$role"
		assert_equal "$(TZ=$zone field job expires_at)" "$expected"
		TZ=$zone run_tool 75 run job touch ran
		TZ=$zone run_tool 0 check --token "$(cat held)" job
	done
	let_go
	assert_ends 0 "$holder"
	rm go held
	hold other
	run_tool 0 revoke --wait 20s other
	assert_ends 79 "$holder"
	works
	run_tool 0 doctor
}

@test "a role with an odd search_path" {
	admin 'CREATE SCHEMA odd; CREATE SCHEMA "Odd one"'
	admin "GRANT USAGE ON SCHEMA odd TO $role"
	run_tool 0 init -o table=odd.leaserun
	grant odd.leaserun
	admin "ALTER ROLE $role SET search_path = 'Odd one', odd"
	as "$role"
	works
	# Names of ours, but not ours.
	admin "CREATE FUNCTION odd.clock_timestamp() RETURNS timestamptz
	    LANGUAGE sql AS 'SELECT ''infinity''::timestamptz'"
	works
	run_tool 0 doctor
	admin "ALTER ROLE $role SET search_path = ''"
	mends_not 78 "-o 'table=odd.leaserun'"
	opts=(-o table=odd.leaserun)
	works
	run_tool 0 doctor "${opts[@]}"
}

# mends_not RC TEXT: refused, and it is for us to mend.
mends_not() {
	run_tool "$1" run "${short[@]}" "${opts[@]}" job touch ran
	assert_contains "$stderr" "$2"
	[ ! -e ran ]
}

is_traced() {
	grep -q 'TracerPid:.*[1-9]' "/proc/$server/status"
}

@test "a statement_timeout of 1 ms and a lock_timeout of 1 ms of a role" {
	run_tool 0 init
	grant
	admin "ALTER ROLE $role SET statement_timeout = 1;
	    ALTER ROLE $role SET lock_timeout = 1"
	as "$role"
	works
	hold job
	run_tool 75 run job touch ran
	run_tool 0 revoke --wait 20s job
	assert_ends 79 "$holder"
	# Until our own limits are set, the role's are in force: the first
	# statements of each session take longer.
	server=$(pg_pid)
	bg strace -f -qq -o trace -p "$server" -e trace=setitimer \
	    -e inject=setitimer:delay_exit=5000:when=2..6
	wait_until 20 is_traced
	run_tool 0 init
	run_tool 0 doctor
	[ -s trace ]
}

@test "row security that hides the rows: 77 with the statement, not free" {
	run_tool 0 init
	grant
	hold job
	admin "ALTER TABLE leaserun ENABLE ROW LEVEL SECURITY"
	as "$role"
	all_refuse 77 'ROW LEVEL SECURITY'
	run_tool 78 doctor
	assert_contains "$stdout" 'DISABLE ROW LEVEL SECURITY'
	admin "CREATE POLICY mine ON leaserun USING (name = 'other')"
	mends 77 'ROW LEVEL SECURITY'
	run_tool 75 run job touch ran
	let_go
	assert_ends 0 "$holder"
	works
}

# --- Encodings and names ---

hostile=("'); drop table leaserun; --" "\$1" '"' '%' 'a@b' 'Ä ö ü € 𝄞' 'NULL'
    "\\" "x' OR 'a'='a" '%s%n' 'é')

@test "hostile names and labels in databases of every encoding" {
	local encoding name

	for encoding in UTF8 SQL_ASCII LATIN1; do
		db=e${BATS_TEST_NUMBER}_${encoding,,}
		sql "CREATE DATABASE $db TEMPLATE template0 LOCALE 'C'
		    ENCODING '$encoding'"
		as postgres
		run_tool 0 init
		for name in "${hostile[@]}"; do
			run_tool 0 run --owner "$name" "$name" -- sh -c '
				"$0" check "$1" && "$0" status --json "$1"' \
			    "$LEASERUN" "$name"
			assert_contains "$stdout" '"state": "held"'
			printf '%s\n' "$stdout" >shown
			name=${name//\\/\\\\}
			name=${name//\"/\\\"}
			file_has shown "\"name\": \"$name\""
			file_has shown "\"label\": \"$name\""
		done
		assert_equal "$(admin 'SELECT count(*) FROM leaserun')" \
		    ${#hostile[@]}
		assert_equal "$(admin "SELECT count(*) FROM leaserun
		    WHERE name !~ '^[ -~]+\$' OR label !~ '^[ -~]+\$'")" 0
		PGCLIENTENCODING=LATIN1 run_tool 0 status 'Ä ö ü € 𝄞'
		assert_contains "$stdout" 'Ä ö ü € 𝄞'
	done
}

@test "names that are too long are refused" {
	local long

	run_tool 0 init
	long=$(printf '%09000d' 0)
	run_tool 64 run "$long" touch ran
	run_tool 64 status "$long"
	run_tool 78 init -o "table=$long"
	run_tool 78 run -o "table=$long" job touch ran
	run_tool 78 run -o "table=$(printf '%064d' 0)" job touch ran
	[ ! -e ran ]
	opts=(-o "table=$(printf '%063d' 0)")
	run_tool 0 init "${opts[@]}"
	works
}

@test "tables with every sort of name" {
	local table count=0

	for table in 'public"; --' 'Ops.My Lease' 'a"b.c"d' "o'brien.x'" \
	    'Straße.Tabelle' 'a.b.c' 'select' '$1' '%s' '".".'; do
		opts=(-o "table=$table")
		run_tool 0 init --print "${opts[@]}"
		run_tool 0 init "${opts[@]}"
		works
		run_tool 0 status "${opts[@]}"
		assert_contains "$stdout" "job "
		run_tool 0 doctor "${opts[@]}"
		run_tool 0 init "${opts[@]}"
		assert_contains "$stdout" 'is there'
		count=$((count + 1))
		assert_equal "$(admin "SELECT count(*) FROM pg_attribute
		    WHERE attname = 'revoke_token'")" $count
	done
	for table in '' . a. .b 'a@b'; do
		run_tool 78 run -o "table=$table" job touch ran
	done
}

# --- init ---

many_wait() {
	[ "$(sql "SELECT count(*) FROM pg_stat_activity
	    WHERE datname = '$db' AND wait_event_type = 'Lock'")" -ge 25 ]
}

@test "fifty at once on an empty database make one table" {
	local -a pids=()
	local pid

	opts=(-o table=ops.lease)
	# They all begin when this one gives up.
	session first 'BEGIN; CREATE SCHEMA ops;'
	for _ in {1..50}; do
		bg "$LEASERUN" init --connect-timeout 20s "${opts[@]}" \
		    >>init.out 2>&1
		pids+=("$!")
	done
	wait_until 20 many_wait
	timeout 10 sh -c 'echo "ROLLBACK; \q" >first.in'
	for pid in "${pids[@]}"; do
		assert_ends 0 "$pid" || { cat init.out; return 1; }
	done
	assert_equal "$(admin "SELECT count(*) FROM pg_class
	    WHERE relname = 'lease'")" 1
	works
	run_tool 0 init "${opts[@]}"
	assert_contains "$stdout" 'is there'
}

# Everything in the catalog that is not the system's.
catalog() {
	PGOPTIONS='' pg_dump -h "$PGDIR" -p "$PGPORT" -U postgres -s "$db" |
	    grep -v '^\\'
}

@test "init --print shows what can be piped into psql, and changes nothing" {
	local before

	before=$(catalog)
	for opts in '' '-otable=ops.lease' '-otable=My ops.l"; --'; do
		opts=("${opts:--otable=leaserun}")
		run_tool 0 init --print "${opts[@]}"
		assert_equal "$stderr" ""
		assert_equal "$(catalog)" "$before"
		admin "$stdout"
		before=$(catalog)
		run_tool 0 init --print "${opts[@]}"
		assert_matches "$stdout" '^-- nothing'
		admin "$stdout"
		run_tool 0 init "${opts[@]}"
		assert_contains "$stdout" 'is there'
		assert_equal "$(catalog)" "$before"
		works
	done
}

@test "init adds what an older table lacks, and keeps rows and tokens" {
	run_tool 0 init
	admin "INSERT INTO leaserun (name, token, state, owner, expires_at)
	    VALUES ('old', 41, 'released', 'x', clock_timestamp()),
	    ('held', 51, 'held', 'y', clock_timestamp() + '1 hour')"
	admin "ALTER TABLE leaserun DROP COLUMN from_owner,
	    DROP COLUMN from_label, DROP COLUMN from_host,
	    DROP COLUMN from_token, DROP COLUMN timeline,
	    DROP COLUMN revoke_token, DROP COLUMN hold_until"
	run_tool 78 run old touch ran
	assert_contains "$stderr" "run 'leaserun init --backend postgres://"
	[ ! -e ran ]
	run_tool 0 init --print
	assert_equal "$(grep -c 'ADD COLUMN' <<<"$stdout")" 7
	run_tool 0 init
	assert_contains "$stdout" 'up to date'
	assert_equal "$(token old)" 42
	run_tool 75 run held touch ran
	run_tool 0 revoke --force held
	assert_equal "$(token held)" 52
	run_tool 0 init
	assert_contains "$stdout" 'is there'
	run_tool 0 doctor
}

@test "init without the right: 77, and the SQL for somebody who has it" {
	local table

	for table in leaserun new.leaserun; do
		as "$role"
		opts=(-o "table=$table")
		run_tool 77 init "${opts[@]}"
		assert_contains "$stderr" 'statements above'
		assert_contains "$stdout" 'CREATE TABLE'
		admin "$stdout"
		works
		run_tool 0 init "${opts[@]}"
		# The same for a change.
		admin "ALTER TABLE $table DROP COLUMN ran_ms"
		run_tool 77 init "${opts[@]}"
		assert_contains "$stdout" 'ADD COLUMN'
		admin "$stdout"
		works
	done
}

@test "--raise-token only raises, for old names and for new ones" {
	local last floor

	run_tool 0 init
	last=$(token old)
	run_tool 0 init --raise-token $((last - 1000))
	assert_equal "$(token old)" $((last + 1))
	floor=$((last + 5000000))
	run_tool 0 init --raise-token $floor
	assert_contains "$stdout" $floor
	assert_equal "$(token old)" $((floor + 1))
	assert_equal "$(token new)" $((floor + 1))
	run_tool 0 init --raise-token $((floor - 10))
	assert_equal "$(token newer)" $((floor + 1))
	run_tool 0 init
	assert_equal "$(token newest)" $((floor + 1))
	run_tool 0 init --print --raise-token $((floor + 1000))
	admin "$stdout"
	assert_equal "$(token old)" $((floor + 1001))
	assert_equal "$(token another)" $((floor + 1001))
	admin "DELETE FROM leaserun WHERE name = 'old'"
	assert_equal "$(token old)" $((floor + 1001))
	run_tool 0 status
	assert_lacks "$stdout" $((floor + 1000))
	run_tool 0 doctor
	assert_contains "$stdout" "no token up to $((floor + 1000))"
	run_tool 78 init --raise-token 9223372036854775807
	run_tool 64 init --raise-token 9223372036854775808
	# A run is a run, whatever it is that raised.
	as "$role"
	grant
	run_tool 0 init --raise-token $((floor + 2000))
	assert_equal "$(token old)" $((floor + 2001))
}

waits_for_row() {
	[ "$(sql "SELECT count(*) FROM pg_stat_activity
	    WHERE datname = '$db' AND wait_event_type = 'Lock'")" -ge 1 ]
}

@test "--raise-token: nothing below is granted once it has returned" {
	run_tool 0 init
	last=$(token job)
	session locker "BEGIN; SELECT 1 FROM leaserun WHERE name = 'job'
	    FOR UPDATE;"
	bg "$LEASERUN" run --connect-timeout 60s job -- \
	    sh -c 'echo $LEASERUN_FENCE_TOKEN >granted'
	run=$!
	# It has seen the floor of before.
	wait_until 20 waits_for_row
	from=$(date +%s%3N)
	run_tool 0 init --connect-timeout 1900ms --raise-token $((last + 1000))
	# Longer than any request for a lease, and than it had for its own.
	[ $(($(date +%s%3N) - from)) -ge 2000 ]
	timeout 10 sh -c 'echo "COMMIT;" >locker.in'
	assert_ends 0 "$run"
	assert_equal "$(cat granted)" $((last + 1001))
}

# --- What may be missing or wrong ---

@test "no table: 78 and init, which mends it" {
	all_refuse 78 "run 'leaserun init --backend postgres://"
	run_tool 78 doctor
	assert_contains "$stdout" "run 'leaserun init --backend postgres://"
	mends 78 "run 'leaserun init --backend postgres://"
	works
	opts=(-o table=no.lease)
	all_refuse 78 "-o table=no.lease' as a role"
	run_tool 78 doctor "${opts[@]}"
	mends 78 "-o table=no.lease' as a role"
	works
}

@test "hosts, ports and addresses that do not belong together: 78" {
	local url=postgres://a,b/db

	run_tool 78 run -b "$url?port=1,2,3" job touch ran
	assert_contains "$stderr" "3 port numbers to 2 hosts"
	run_tool 78 run -b "$url?hostaddr=127.0.0.1" job touch ran
	assert_contains "$stderr" "2 host names to 1 hostaddr"
	run_tool 78 run -b "postgres://$(seq -s, 17)/db" job touch ran
	assert_contains "$stderr" "names 17 hosts; at most 16 are tried"
	[ ! -e ran ]
}

@test "the advice names the store, without its password" {
	local url=postgres://postgres@127.0.0.1:$PGPORT/$db

	unset LEASERUN_BACKEND
	run_tool 78 run -b "$url" job touch ran
	assert_contains "$stderr" "run 'leaserun init --backend $url' as a role"
	run_tool 78 run -b "${url/postgres@/postgres:s3cret@}" job touch ran
	assert_contains "$stderr" "run 'leaserun init --backend $url' as a role"
	run_tool 78 run -b "$url?sslmode=disable" -o table=s.t job touch ran
	assert_contains "$stderr" "run 'leaserun init --backend $(\
	    )\"$url?sslmode=disable\" -o table=s.t' as a role"
	run_tool 78 run -b "$url?password=s3cret" job touch ran
	assert_contains "$stderr" "run 'leaserun init --backend URL' as a role"
	run_tool 78 run -b "${url/postgres@/postgres:s3%63ret@}" job touch ran
	assert_contains "$stderr" "run 'leaserun init --backend URL' as a role"
	assert_lacks "$stderr" s3
	[ ! -e ran ]
	run_tool 0 init --backend "$url"
	run_tool 0 run -b "$url" job touch ran
}

@test "what is done is forgotten by what the manual says" {
	local page=$srcdir/man/leaserun-postgres.7

	run_tool 0 init
	run_tool 0 run --once today nightly-report true
	run_tool 0 run --once-per 1d nightly-report true
	run_tool 0 run --once-per 1d nightly-report touch again
	[ ! -e again ]
	sed -n '/^DELETE FROM leaserun/,/^\.Ed/{/^\.Ed/d;s/\\e/\\/;p;}' "$page" \
	    >forget.sql
	admin "$(cat forget.sql)"
	run_tool 0 status --once nightly-report
	assert_lacks "$stdout" today
	run_tool 0 run --once-per 1d nightly-report touch again
	[ -e again ]
}

@test "a missing column: 78 and init, which mends it" {
	local column

	run_tool 0 init
	for column in state label timeline expires_at hold_until from_token \
	    ended_at ran_ms; do
		admin "ALTER TABLE leaserun DROP COLUMN $column"
		run_tool 78 doctor
		assert_contains "$stdout" "no column $column"
		mends 78 "no column $column"
		works
	done
	admin "DELETE FROM leaserun; ALTER TABLE leaserun DROP COLUMN token"
	mends 78 'no column token'
	works
}

@test "a wrong type: 78 and the statement, which mends it" {
	local change

	for change in 'expires_at TYPE timestamp' 'hold_until TYPE timestamp' \
	    'token TYPE text' 'token TYPE integer USING 1' \
	    'token TYPE double precision' 'ttl_ms TYPE text' \
	    'revoke_token TYPE text' 'ended_at TYPE timestamp' \
	    'owner TYPE varchar(20) USING 1' 'name TYPE varchar(2)'; do
		admin 'DROP TABLE IF EXISTS leaserun'
		as postgres
		run_tool 0 init
		admin "ALTER TABLE leaserun ALTER COLUMN $change"
		grant
		as "$role"
		run_tool 78 doctor
		assert_contains "$stdout" "run: ALTER TABLE"
		run_tool 78 init
		mends 78 "column ${change%% *} of table"
		assert_equal "$(admin "SELECT count(*) FROM leaserun
		    WHERE state = 'held'")" 0
		works
		run_tool 0 doctor
	done
}

@test "a wrong type that a lease runs into: it is not taken, nor called free" {
	run_tool 0 init
	hold job
	admin 'ALTER TABLE leaserun ALTER expires_at TYPE timestamp'
	all_refuse 78 'ALTER COLUMN expires_at TYPE timestamp'
	let_go
	wait_until 20 is_gone "$holder"
}

@test "no primary key: 78 and init, which mends it" {
	run_tool 0 init
	admin 'ALTER TABLE leaserun DROP CONSTRAINT leaserun_pkey'
	run_tool 78 doctor
	assert_contains "$stdout" 'no primary key'
	mends 78 'no primary key'
	works
	admin 'ALTER TABLE leaserun DROP CONSTRAINT leaserun_pkey;
	    CREATE INDEX ON leaserun (name)'
	mends_key
	admin 'ALTER TABLE leaserun DROP CONSTRAINT leaserun_pkey;
	    CREATE UNIQUE INDEX ON leaserun (name, token)'
	mends_key
	# Two rows for a name are not for init to choose from.
	admin "ALTER TABLE leaserun DROP CONSTRAINT leaserun_pkey;
	    INSERT INTO leaserun (name, token) VALUES ('job', 7)"
	run_tool 78 init
	assert_contains "$stderr" 'several rows for one name'
}

# With a row for the name the key is not asked for; init does.
mends_key() {
	run_tool 78 doctor
	run_tool 78 run another touch ran
	mend
	works
}

@test "a missing right on the table: 77 and the GRANT, which mends it" {
	local right

	run_tool 0 init
	as "$role"
	all_refuse 77 'GRANT SELECT, INSERT, UPDATE ON "leaserun" TO'
	run_tool 78 doctor
	assert_contains "$stdout" GRANT
	for right in SELECT INSERT UPDATE; do
		grant
		admin "REVOKE $right ON leaserun FROM $role"
		admin 'DELETE FROM leaserun'
		run_tool 78 doctor
		assert_contains "$stdout" "no $right on"
		mends 77 'GRANT SELECT, INSERT, UPDATE'
		works
		run_tool 0 doctor
	done
}

@test "a schema that may not be used: the GRANT, which mends it" {
	opts=(-o table=ops.schema_lease)
	run_tool 0 init "${opts[@]}"
	grant ops.schema_lease
	as "$role"
	all_refuse 77 'GRANT USAGE ON SCHEMA "ops"'
	run_tool 77 doctor "${opts[@]}"
	run_tool 77 init "${opts[@]}"
	mends 77 'GRANT USAGE ON SCHEMA "ops"'
	works
	# The name of a table is not what is asked for.
	admin "REVOKE UPDATE ON ops.schema_lease FROM $role"
	mends 77 'GRANT SELECT, INSERT, UPDATE'
	works
	# What may not be used is not looked into.
	opts=()
	as postgres
	run_tool 0 init
	grant
	as "$role"
	admin 'REVOKE USAGE ON SCHEMA public FROM PUBLIC'
	all_refuse 78 'GRANT USAGE ON SCHEMA public'
	run_tool 78 init
	mends 78 'GRANT USAGE ON SCHEMA public'
	works
}

@test "roles and schemas with odd names: the GRANTs fit" {
	admin 'CREATE ROLE "ro""le x" LOGIN'
	opts=(-o 'table=Sche"ma.ta ble')
	run_tool 0 init "${opts[@]}"
	as 'ro%22le%20x'
	mends 77 'GRANT USAGE'
	mends 77 'GRANT SELECT'
	works
}

@test "no database, no role, no login, no right to connect, wrong password" {
	local hba

	run_tool 0 init
	grant
	db=nowhere
	as "$role"
	opts=()
	all_refuse 78 'CREATE DATABASE "nowhere"'
	run_tool 78 doctor
	run_tool 78 init
	sql "$(sed -n 's/^.*run: //p' <<<"$stderr")"
	run_tool 78 run "${short[@]}" job touch ran
	assert_contains "$stderr" "run 'leaserun init --backend postgres://"
	sql 'DROP DATABASE nowhere'
	db=d$BATS_TEST_NUMBER
	as "no$role"
	all_refuse 77 "no$role"
	as "$role"
	sql "REVOKE CONNECT ON DATABASE $db FROM PUBLIC"
	all_refuse 77 "GRANT CONNECT ON DATABASE \"$db\" TO \"$role\""
	run_tool 77 doctor
	run_tool 77 init
	mends 77 'GRANT CONNECT'
	works
	sql "ALTER ROLE $role NOLOGIN"
	all_refuse 77 "$role"
	sql "ALTER ROLE $role LOGIN PASSWORD 'right'"
	hba=$PGDIR/pg_hba.conf
	{ echo "host $db $role all scram-sha-256"; cat "$hba"; } >hba
	cat hba >"$hba"
	sql 'SELECT pg_reload_conf()'
	echo "*:*:*:*:wrong" >pass
	chmod 600 pass
	export PGPASSFILE=$PWD/pass
	wait_until 20 refused_password
	all_refuse 77 password
	run_tool 77 doctor
	echo "*:*:*:*:right" >pass
	works
	export PGPASSFILE=$PWD/none
	all_refuse 77 password
}

refused_password() {
	run_tool 77 status
}

@test "a setting in the URL that the server does not know: 78, not 69" {
	run_tool 0 init
	LEASERUN_BACKEND+='?options=-cnonsense%3D1'
	all_refuse 78 nonsense
}

@test "a table that appears later, rows and tables that go and come" {
	local last

	run_tool 78 run -w 2s job touch ran
	run_tool 0 init
	last=$(token job)
	admin "DELETE FROM leaserun WHERE name = 'job'"
	[ "$(token job)" -gt "$last" ]
	admin 'TRUNCATE leaserun'
	last=$(token job)
	hold job -t 6s
	last=$(cat held)
	# Away for less than the lease.
	admin 'ALTER TABLE leaserun RENAME TO away'
	wait_until 20 renewal_fails
	admin 'ALTER TABLE away RENAME TO leaserun'
	field_is job state '"held"'
	let_go
	assert_ends 0 "$holder"
	rm go held
	hold job
	[ "$(cat held)" -gt "$last" ]
	last=$(cat held)
	admin "DELETE FROM leaserun WHERE name = 'job'"
	assert_ends 79 "$holder"
	[ "$(token job)" -gt "$last" ]
}

# A table of the name is looked for in vain.
renewal_fails() {
	run_tool 78 status job && file_has "$PGDIR/../server.log" \
	    'relation "leaserun" does not exist'
}

@test "a lease that has run out is taken at the first try" {
	local level

	run_tool 0 init
	for level in 'read committed' serializable; do
		admin "ALTER DATABASE $db SET default_transaction_isolation =
		    '$level'"
		admin "INSERT INTO leaserun (name, token, state, owner,
		    expires_at, label) VALUES ('job', 70, 'held', 'dead:1',
		    clock_timestamp() - interval '1 s', 'dead')
		    ON CONFLICT (name) DO UPDATE SET state = 'held',
		    token = 70, owner = 'dead:1', label = 'dead',
		    expires_at = excluded.expires_at"
		run_tool 0 run job -- sh -c 'echo "$LEASERUN_FENCE_TOKEN"'
		assert_equal "$stdout" 71
		assert_contains "$stderr" 'took over'
		assert_contains "$stderr" dead
	done
}

# --- The least rights ---

@test "CONNECT, USAGE, SELECT, INSERT and UPDATE are enough for everything" {
	local waiter

	opts=(-o table=ops.lease)
	run_tool 0 init "${opts[@]}"
	sql "REVOKE ALL ON DATABASE $db FROM PUBLIC;
	    GRANT CONNECT ON DATABASE $db TO $role"
	admin "REVOKE ALL ON SCHEMA public FROM PUBLIC;
	    GRANT USAGE ON SCHEMA ops TO $role;
	    GRANT SELECT, INSERT, UPDATE ON ops.lease TO $role"
	as "$role"
	works
	hold job "${opts[@]}"
	run_tool 0 check "${opts[@]}" --token "$(cat held)" job
	run_tool 0 status "${opts[@]}"
	assert_contains "$stdout" ' held '
	run_tool 75 run "${opts[@]}" job touch ran
	bg "$LEASERUN" run -v -w 60s "${opts[@]}" job touch waited 2>waiter.err
	waiter=$!
	wait_until 20 file_has waiter.err "pid $holder"
	let_go
	assert_ends 0 "$holder"
	assert_ends 0 "$waiter"
	[ -e waited ]
	rm go held
	hold job "${opts[@]}"
	run_tool 0 revoke "${opts[@]}" --wait 20s job
	assert_ends 79 "$holder"
	rm go held
	hold job "${opts[@]}"
	run_tool 0 revoke "${opts[@]}" --force job
	assert_ends 79 "$holder"
	run_tool 0 init "${opts[@]}"
	run_tool 0 doctor "${opts[@]}"
	assert_contains "$stdout" 'SELECT, INSERT and UPDATE'
	assert_contains "$stdout" 'tokens grow over a promotion'
	assert_contains "$stdout" "GRANT pg_read_all_stats TO $role"
}

@test "without the timeline it runs, and doctor says what is lost" {
	local last

	run_tool 0 init
	grant
	last=$(token job)
	admin 'REVOKE EXECUTE ON FUNCTION pg_walfile_name(pg_lsn),
	    pg_current_wal_lsn() FROM PUBLIC'
	as "$role"
	[ "$(token job)" -gt "$last" ]
	works
	run_tool 0 run new true
	assert_equal "$output" ""
	run_tool 0 doctor
	assert_contains "$stdout" 'tokens may repeat'
	admin "$(grep -o 'GRANT EXECUTE .* TO PUBLIC' <<<"$stdout")"
	run_tool 0 doctor
	assert_contains "$stdout" 'tokens grow over a promotion'
	[ "$(token job)" -lt $((last + 1000)) ]
}

# --- doctor ---

# finding VERDICT WHAT TEXT: it is among what doctor has said.
finding() {
	grep -qE "^$1 +$2: .*$3" <<<"$stdout" || fail "no $1 $2 '$3'"
}

no_finding() {
	! grep -E "^(warning|bad) +$1:" <<<"$stdout" || fail "$1"
}

# session NAME LINE: a psql that does not end, once it has run the line.
session() {
	mkfifo "$1.in"
	bg sh -c 'exec psql -XAtq -h "$2" -U postgres -d "$3" <>"$1.in" \
	    >"$1.out" 2>&1' sh "$1" "$PGDIR" "$db"
	timeout 10 sh -c 'printf "%s\n" "$1" "\\! touch $2" >"$2.in"' sh \
	    "$2" "$1"
	wait_until 20 test -e "$1"
}

@test "doctor: what a good server looks like" {
	run_tool 0 init
	run_tool 0 doctor
	no_finding '.*'
	finding ok server 'PostgreSQL [0-9.]+ .*a primary.*without TLS'
	finding ok clock 's (ahead of|behind) this host'
	finding ok durability 'on disk before'
	finding note replication 'not synchronous'
	finding ok connections 'of 120 in use'
	finding ok timeline '[0-9]+; tokens grow over a promotion'
	finding ok rights 'SELECT, INSERT and UPDATE'
	finding ok table '0 names, 0 held'
	finding ok 'round trip' '[0-9.]+ ms, at most [0-9.]+ ms'
	finding note ttl failover
	assert_lacks "$stdout" pooler
	assert_lacks "$stdout" 'old transaction'
	assert_lacks "$stdout" expiry
	hold job
	run_tool 0 run other true
	run_tool 0 doctor
	finding ok table '2 names, 1 held'
	# Nobody's lease is touched.
	run_tool 0 check --token "$(cat held)" job
}

@test "doctor: durability and replication of the server" {
	pg_make own
	pg_start
	db=postgres
	as postgres
	run_tool 0 init
	set_server fsync off
	run_tool 78 doctor
	finding bad durability 'a crash of the server loses grants'
	set_server fsync on
	set_server full_page_writes off
	run_tool 78 doctor
	finding bad durability 'a crash of the server loses grants'
	set_server full_page_writes on
	run_tool 0 doctor
	finding ok durability 'on disk'
	set_server synchronous_standby_names nobody
	run_tool 0 doctor
	finding ok replication "synchronous: 'nobody'"
	assert_lacks "$stdout" 'not synchronous'
}

@test "doctor: connections, old transactions, clocks and expiries" {
	local n

	pg_make own 'max_connections = 12' 'max_prepared_transactions = 2' \
	    'autovacuum = off'
	echo +0 >clock
	chmod 644 clock
	chmod 711 .
	pg_start env LD_PRELOAD="$FAKETIME" FAKETIME_NO_CACHE=1 \
	    FAKETIME_TIMESTAMP_FILE="$PWD/clock" FAKETIME_DONT_FAKE_MONOTONIC=1
	db=postgres
	as postgres
	run_tool 0 init
	sql "CREATE ROLE plain LOGIN; GRANT SELECT, INSERT, UPDATE ON leaserun
	    TO plain"
	for n in 1 2 3 4 5; do
		session s$n 'SELECT 1;'
	done
	run_tool 0 doctor
	no_finding '.*'
	session s6 'BEGIN; SELECT 1;'
	# Also one that may not see the others' sessions.
	for n in plain postgres; do
		as $n
		run_tool 0 doctor
		finding warning connections '7 of 12 in use; over half'
		no_finding 'old transaction'
	done
	echo +2h >clock
	run_tool 0 doctor
	finding warning 'old transaction' 'open for 72[0-9][0-9] s'
	finding note clock '[0-9]{4}\.[0-9]+ s ahead of'
	as plain
	run_tool 0 doctor
	finding note 'old transaction' 'GRANT pg_read_all_stats TO plain'
	sql 'GRANT pg_read_all_stats TO plain'
	run_tool 0 doctor
	finding warning 'old transaction' 'open for 72'
	timeout 10 sh -c "echo \"ROLLBACK; BEGIN; CREATE TABLE t (); PREPARE
	    TRANSACTION 'forgotten'; \\! touch prepared\" >s6.in"
	wait_until 20 test -e prepared
	run_tool 0 doctor
	no_finding 'old transaction'
	echo +4h >clock
	run_tool 0 doctor
	finding warning 'old transaction' 'open for 72'
	sql "ROLLBACK PREPARED 'forgotten'"
	run_tool 0 doctor
	no_finding 'old transaction'
	# The clock of the server goes back while a lease is held.
	as postgres
	hold job
	kill -STOP "$holder"
	echo +0 >clock
	run_tool 0 doctor
	finding warning expiry '1 leases end implausibly far ahead'
	finding ok clock this
	run_tool 75 run job touch ran
	run_tool 0 doctor
	no_finding expiry
}

# A sanitizer does not start where a library is preloaded; then it is the server
# whose clock is wrong.
@test "doctor: the clock of this host is three hours behind" {
	local program=$LEASERUN
	local -a shift=(env LD_PRELOAD="$FAKETIME" FAKETIME_DONT_FAKE_MONOTONIC=1)

	if grep -q __asan_init "$LEASERUN"; then
		pg_make own
		pg_start "${shift[@]}" FAKETIME=+3h
		sql "CREATE DATABASE $db"
		as postgres
	else
		{
			echo '#!/bin/sh'
			printf 'exec'
			printf ' %q' "${shift[@]}" FAKETIME=-3h "$program"
			echo ' "$@"'
		} >shifted
		chmod 755 shifted
		LEASERUN=$PWD/shifted
	fi
	run_tool 0 init
	run_tool 0 doctor
	finding note clock '10[78][0-9]{2}\.[0-9]+ s ahead of this host'
	works
}

@test "doctor: a server that is far away" {
	run_tool 0 init
	relay_start
	relay_set delay 120
	PGPORT=$RELAYPORT as postgres
	run_tool 0 doctor
	finding warning 'round trip' 'choose a ttl of a minute'
	finding ok clock '0\.[0-9]+ s'
}

@test "doctor: a pooler in between, through which everything works" {
	local port=$PGPORT

	run_tool 0 init
	PGPORT=$(free_port)
	cat >pooler.ini <<-END
		[databases]
		* = host=127.0.0.1 port=$port
		[pgbouncer]
		listen_addr = 127.0.0.1
		listen_port = $PGPORT
		unix_socket_dir =
		auth_type = any
		pool_mode = transaction
		server_reset_query =
		default_pool_size = 2
	END
	sed -i "s/^\* = .*/& user=postgres/" pooler.ini
	chmod 711 .
	chmod 644 pooler.ini
	(cd / && exec 3>&- && as_postgres pgbouncer \
	    "$BATS_TEST_TMPDIR/pooler.ini") >pooler.log 2>&1 &
	bg_pids+=("$!")
	as postgres
	wait_until 20 pooler_answers
	run_tool 0 doctor
	finding note pooler 'not told of a release'
	no_finding '.*'
	run_tool 0 init
	works
	eight_at_once
	hold job
	run_tool 75 run job touch ran
	run_tool 0 revoke --wait 20s job
	assert_ends 79 "$holder"
	# It does not tell what it is connected to.
	PGPORT=$port admin "ALTER DATABASE $db SET
	    default_transaction_read_only = on"
	PGPORT=$port admin "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	    WHERE datname = '$db' AND pid <> pg_backend_pid()"
	# First it has to see what has been closed.
	wait_until 20 eval '"$LEASERUN" status 2>&1 | grep -q read-only'
	all_refuse 69 read-only
	PGOPTIONS='-c default_transaction_read_only=off' psql -XAtq \
	    -h "$PGDIR" -p "$port" -U postgres -d "$db" \
	    -c "ALTER DATABASE $db RESET ALL"
	PGPORT=$port
	as postgres
	run_tool 0 doctor
	assert_lacks "$stdout" pooler
}

pooler_answers() {
	run_tool 0 status
}

# --- status ---

@test "status shows what is held, asked to end, kept, left behind and free" {
	run_tool 0 init
	hold held --owner 'the label' -t 60s -r 20s
	run_tool 0 status held
	assert_matches "$stdout" \
	    "held +held +the label +$holder +[0-9a-z]+ +$(cat held) +[0-9a-z]+ +-"
	assert_equal "$(field held label)" '"the label"'
	assert_equal "$(field held host)" "\"$(uname -n)\""
	assert_equal "$(field held pid)" "$holder"
	assert_equal "$(field held token)" "$(cat held)"
	assert_matches "$(field held owner)" '^"the%20label:[0-9a-f]{32}"$'
	assert_matches "$(field held acquired_at)" '^"20[0-9T:.-]+Z"$'
	assert_matches "$(field held renewed_at)" '^"20[0-9T:.-]+Z"$'
	assert_matches "$(field held expires_at)" '^"20[0-9T:.-]+Z"$'
	assert_matches "$(field held expires_in_ms)" '^[1-5][0-9]{4}$'
	assert_equal "$(field held last_run)" null
	run_tool 0 revoke held
	run_tool 0 status held
	assert_matches "$stdout" "held +revoking +the label +$holder "
	assert_equal "$(field held state)" '"revoking"'
	# shellcheck disable=SC2046
	kill -KILL $(test_processes)
	admin "UPDATE leaserun SET expires_at = clock_timestamp()
	    WHERE name = 'held'"
	run_tool 0 status held
	assert_matches "$stdout" "held +free +- .* $(cat held) +- +not released"
	assert_equal "$(field held state)" '"free"'
	assert_equal "$(field held unclean_end)" true
	assert_equal "$(field held owner)" null
	run_tool 7 run --min-hold 1h kept -- sh -c 'exit 7'
	run_tool 0 status kept
	assert_matches "$stdout" 'kept +min-hold .* exit 7 .* ago, ran '
	assert_equal "$(field kept state)" '"min-hold"'
	assert_matches "$(field kept expires_in_ms)" '^3[56][0-9]{5}$'
	run_tool 0 run free true
	run_tool 0 status free
	assert_matches "$stdout" 'free +free +- .* exit 0 .* ago, ran '
	assert_equal "$(field free status)" 0
	assert_matches "$(field free ended_at)" '^"20[0-9T:.-]+Z"$'
	assert_equal "$(field free expires_at)" null
	run_tool 0 status
	assert_equal "$(wc -l <<<"$stdout")" 4
}

@test "status of two thousand names" {
	run_tool 0 init
	admin "INSERT INTO leaserun (name, token, state, owner, label, host,
	    expires_at, acquired_at) SELECT 'job-' || i, i, 'held', 'o:' || i,
	    'label', 'host', clock_timestamp() + '1 hour', clock_timestamp()
	    FROM generate_series(1, 2000) AS i"
	run_tool 0 status >/dev/null
	assert_equal "$(wc -l <<<"$stdout")" 2001
	run_tool 0 status --json >/dev/null
	assert_equal "$(grep -c '"state": "held"' <<<"$stdout")" 2000
	run_tool 0 status job-7
	assert_equal "$(wc -l <<<"$stdout")" 2
}

# shows_all COUNT: status is clean text and clean JSON of so many names.
shows_all() {
	run_tool 0 status >/dev/null
	assert_equal "$(wc -l <<<"$stdout")" $(($1 + 1))
	assert_equal "$(LC_ALL=C tr -d '\n\040-\176\200-\377' <<<"$stdout")" ''
	iconv -f UTF-8 -t UTF-8 >/dev/null <<<"$stdout"
	run_tool 0 status --json >/dev/null
	assert_equal "$(LC_ALL=C tr -d '\n\040-\176\200-\377' <<<"$stdout")" ''
	assert_equal "$(sql "SELECT json_array_length(\$json\$$stdout\$json\$)")" \
	    "$1"
}

@test "what somebody wrote into the table by hand does no harm" {
	local name

	run_tool 0 init
	admin "ALTER TABLE leaserun ALTER state DROP NOT NULL,
	    ALTER owner DROP NOT NULL, ALTER expires_at DROP NOT NULL,
	    ALTER token DROP NOT NULL"
	admin "INSERT INTO leaserun (name, token, state, owner, expires_at,
	    acquired_at, ttl_ms, hold_until, ran_ms, ended_at, label) VALUES
	    ('ever', 1, 'held', 'x', 'infinity', 'infinity', 60000, NULL, 1,
	    'infinity', E'\\x1b[31m'),
	    ('for ever', 1, 'held', 'x', 'infinity', '-infinity', NULL, NULL,
	    NULL, NULL, '%1B%5B31m'),
	    ('far', 1, 'held', 'x', '294276-12-31', '4713-01-01 BC',
	    9223372036854775807, NULL, 9223372036854775807, '-infinity', NULL),
	    ('keep', 1, 'released', 'x', '-infinity', NULL, -1, 'infinity',
	    -9223372036854775808, '294276-12-31', ''),
	    ('null', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	    ('half', 5, 'held', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	    ('less', -5, 'odd', '', '4713-01-01 BC', NULL, NULL, NULL, NULL,
	    NULL, E'\\xc3\\xa9'),
	    ('most', 9223372036854775807, 'released', '', 'epoch', NULL, NULL,
	    NULL, NULL, NULL, NULL),
	    (E'\\x1b]0;title\\x07', 1, 'held', E'\\x1b[2J', 'infinity', 'epoch',
	    0, NULL, NULL, NULL, repeat('%', 300)),
	    ('%zz%', 1, 'held', repeat('o', 9000), 'infinity', 'epoch', 0, NULL,
	    NULL, NULL, '%FF%C0'), (repeat('n', 2000), 1, 'forced', '', 'epoch',
	    NULL, NULL, NULL, NULL, NULL, NULL),
	    ('%1B%5B31m', 1, 'held', 'x', 'infinity', NULL, 0, NULL, NULL, NULL,
	    NULL), (E'\\xc3\\xa9', 1, '', '', 'epoch', NULL, NULL, NULL, NULL,
	    NULL, NULL)"
	shows_all 13
	run_tool 0 doctor
	works
	for name in ever 'for%20ever' far keep; do
		run_tool 0 init
		admin "UPDATE leaserun SET name = '$name'
		    WHERE name = replace('$name', '%20', ' ')"
		name=${name//%20/ }
		run_tool 75 run -w 3s "$name" touch ran
		assert_lacks "$stderr" $'\033'
		run_tool 75 check --token 7 "$name"
		run_tool 0 revoke --force "$name"
		[ "$(token "$name")" -ge 2 ]
	done
	for name in null half less; do
		[ "$(token "$name")" -ge 1 ]
	done
	run_tool 78 run most touch ran
	assert_contains "$stderr" 'can grow no more'
	[ ! -e ran ]
	shows_all 14
}

@test "names that are not UTF-8 in the table do no harm" {
	local encoding

	for encoding in SQL_ASCII LATIN1; do
		db=e${BATS_TEST_NUMBER}_${encoding,,}
		sql "CREATE DATABASE $db TEMPLATE template0 LOCALE 'C'
		    ENCODING '$encoding'"
		as postgres
		run_tool 0 init
		admin "INSERT INTO leaserun (name, token, label, state, owner,
		    expires_at) VALUES (E'\\xe9', 1, E'\\xe9', 'held',
		    E'\\xe9', 'infinity')"
		shows_all 1
		works
	done
}

# --- Inside a job ---

# inside: what a job of its own asks for, from another folder.
inside() {
	mkdir -p elsewhere
	cat >inside <<-'XX'
	cd elsewhere || exit
	env >../env
	"$LEASERUN" check "$LEASERUN_NAME" || exit
	"$LEASERUN" status >../seen || exit
	"$LEASERUN" run in -- "$LEASERUN" check in
	XX
	export LEASERUN
	rm -f env seen
}

@test "a leaserun inside a job uses its table" {
	run_tool 0 init
	run_tool 0 init -o table=other
	inside
	run_tool 0 run -o table=other job -- sh "$PWD/inside"
	assert_equal "$stderr" ""
	file_has seen 'job '
	file_has env LEASERUN_OPTIONS=table=other
	assert_equal "$(admin 'SELECT name FROM other ORDER BY name')" \
	    $'in\njob'
	assert_equal "$(admin 'SELECT count(*) FROM leaserun')" 0
	# Another one for the inner one alone.
	run_tool 0 run -o table=other job -- "$LEASERUN" run -o table=leaserun \
	    job true
	assert_equal "$(admin 'SELECT name FROM leaserun')" job
}

@test "a leaserun inside a job finds the password in the configuration" {
	local url=postgres://$role:first%23pw@127.0.0.1:$PGPORT/$db where

	run_tool 0 init
	grant
	admin "ALTER ROLE $role PASSWORD 'first#pw'"
	sed -i "1i host all $role 127.0.0.1/32 scram-sha-256" "$PGDIR/pg_hba.conf"
	sql 'SELECT pg_reload_conf()' >/dev/null
	unset LEASERUN_BACKEND
	for where in "backend = '$url'" "job 'jo*' { backend = '$url' }" \
	    "backend = '${url/:first%23pw@/@}?password=first%23pw'"; do
		(umask 077; echo "$where" >site.conf)
		echo "module-dir = \"$BACKENDS\"" >>site.conf
		inside
		LEASERUN_CONFIG=$PWD/site.conf \
		    run_tool 0 run --events ev job -- sh "$PWD/inside"
		assert_equal "$stderr" ""
		file_has seen 'job '
		inside
		run_tool 0 run --config site.conf job -- sh "$PWD/inside"
		assert_equal "$stderr" ""
		file_has seen 'job '
		run grep -F 'first%23pw' env ev seen
		assert_equal "$output" ""
	done
}

@test "a user or password that is not encoded is refused, and not shown" {
	local word

	run_tool 0 init
	for word in "cron:x@sEcret@" "cron:sEcret#x@" "cron:x?sEcret@" \
	    "cron:x/sEcret@" "cron:1/sEcret@" "cron:1?a=sEcret@" \
	    "sE@cret@" "sE#cret@" "sE/cret@" "sE?cret@" "sE?cret=x@"; do
		run_tool 78 run -vv --events ev \
		    -b "postgres://${word}127.0.0.1:$PGPORT/$db" job touch ran
		assert_contains "$stderr" "%40"
		assert_lacks "$output" sEcret
		assert_lacks "$output" cret@
	done
	# The host was forgotten, or a parameter is not one.
	for word in cron:sEcret cron:sEcret/x "cron:1,h:sEcret/x" \
	    "h/x?password=x&sEcret"; do
		run_tool 78 run -vv --events ev -b "postgres://$word" \
		    job touch ran
		assert_lacks "$output" sEcret
	done
	test -s ev
	run grep -F sEcret ev
	assert_equal "$output" ""
	[ ! -e ran ]
	# What libpq and the program read in the same way is fine.
	run_tool 0 run -b "postgres://127.0.0.1/$db?port=$PGPORT&user=postgres" \
	    job true
	admin "CREATE ROLE \"a@b#$role\" LOGIN SUPERUSER"
	run_tool 0 run -b "postgres://a%40b%23$role@127.0.0.1:$PGPORT/$db" \
	    job true
	run_tool 0 run -b "postgres:///$db?user=a@b%23$role&host=$PGDIR&port=$PGPORT" \
	    job true
}

@test "what init says of statements above comes below them" {
	as "$role"
	"$LEASERUN" init >both 2>&1 && fail "it worked"
	assert_contains "$(tail -n 1 both)" 'statements above'
	assert_contains "$(head -n 1 both)" 'CREATE TABLE'
}
