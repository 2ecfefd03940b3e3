# What networks, servers, administrators and clocks do to leases in PostgreSQL,
# with real servers behind a network that can be told to fail.  That a job is
# gone before the server could let anyone else in is shown by the order of the
# job's last sign of life and of the grant, as the server wrote it down.

load helpers
load jobs
load postgres

# One server for all tests that do not harm it; each has a table of its own.
setup_file() {
	BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR
	pg_make shared || return
	pg_start || return
	export PGDIR
}

teardown_file() {
	pg_stop QUIT
}

setup() {
	test_setup
	STORE=$BATS_TEST_TMPDIR/store
	mkdir store
	: >out
	FAKE=(-t 3s -g 300ms -r 400ms)
	T=t$BATS_TEST_NUMBER
	printf '%s\n' "module-dir = \"$BACKENDS\"" \
	    "option { table = \"$T\" }" >leaserun.conf
	use_server
}

# The server of PGPORT is the store, seen from here and through a relay.
use_server() {
	export LEASERUN_BACKEND=postgres://postgres@127.0.0.1:$PGPORT/postgres
	"$LEASERUN" init >/dev/null
}

# own_server [LINE]...: one for this test alone.
own_server() {
	pg_make server "$@"
	pg_start
	use_server
}

relay() {
	relay_set pass
	relay_start
	RELAYED=postgres://postgres@127.0.0.1:$RELAYPORT/postgres
}

# contender [OPTION]...: waits for the lease directly at the server, $second.
contender() {
	bg "$LEASERUN" run "${FAKE[@]}" --owner second -v --wait 60s "$@" \
	    job -- "$PROBE" out ticks=3 2>second
	second=$!
	wait_until 10 file_has second "held by"
}

# first_behind_relay [OPTION]...: a whole tree that ignores TERM.
first_behind_relay() {
	relay
	first -b "$RELAYED" "$@" -- tree frozen ignore
	wait_until 10 ticking 5
}

# When the server let the last one in, as the order wants it.
note_grant() {
	local offset

	offset=$(perl -MTime::HiRes=clock_gettime -e \
	    'printf "%.6f", clock_gettime(0) - clock_gettime(7)')
	sql "SELECT ((extract(epoch FROM acquired_at) - $offset) * 1e9)::bigint
	    || ' acquire job second ok ' || token FROM $T WHERE name = 'job'" \
	    >"$STORE/log"
	test -s "$STORE/log"
}

# assert_succeeded RC [COUNT]: the first ends with RC; nothing of it is there
# when the server lets the second in.
assert_succeeded() {
	assert_ends "$1" "$first"
	assert_ends 0 "$second"
	note_grant
	assert_order "${2:-2}"
	job_gone ""
}

row() {
	sql "SELECT $1 FROM $T WHERE name = 'job'"
}

row_is() {
	[ "$(row "$1")" = "$2" ]
}

held() {
	row_is state held
}

# Nothing that was given up keeps the lease.
assert_free_now() {
	run_tool 0 run -t 60s job -- true
}

# What the requests contain whose answers are to be lost.
ACQUIRE='RETURNING l.token, l.from_owner'
ADD='INSERT INTO'
RENEW='ttl_ms = $4'
RELEASE='ended_at = CASE'

lost() {
	file_has relay.log lost
}

# A row of the table that has been there before.
used_before() {
	run_tool 0 run job -- true
	before=$(row token)
}

# --- a. Lost answers ---

@test "the answer to acquire is lost once: one token, one start" {
	used_before
	relay
	relay_set lose-once "$ACQUIRE"
	first -b "$RELAYED" -- ticks=3
	assert_ends 0 "$first"
	lost
	assert_equal "$(lines start)" 1
	assert_equal "$(token 1)" $((before + 1))
	assert_equal "$(row token)" $((before + 1))
}

@test "the answer to the first acquire of a name is lost once" {
	relay
	relay_set lose-once "$ADD"
	first -b "$RELAYED" -- ticks=3
	assert_ends 0 "$first"
	lost
	assert_equal "$(lines start)" 1
	assert_equal "$(token 1)" "$(row token)"
}

@test "the answer to acquire is lost, and revoke --force was quicker" {
	used_before
	relay
	relay_set swallow-once "$ACQUIRE"
	bg "$LEASERUN" run "${FAKE[@]}" --owner first -b "$RELAYED" job -- \
	    "$PROBE" out ticks=3 2>first
	first=$!
	wait_until 10 held
	run_tool 0 revoke --force job
	assert_ends 0 "$first"
	assert_equal "$(lines start)" 1
	# From whom?  It was the same one.
	assert_equal "$(grep -c 'took over' first)" 0
}

@test "the answers to acquire are lost always: 69, no lease stays" {
	used_before
	relay
	relay_set lose "$ACQUIRE"
	run_tool 69 run -b "$RELAYED" -t 60s --connect-timeout 1s job -- \
	    "$PROBE" out ticks=3
	lost
	assert_equal "$(lines start)" 0
	assert_equal "$(row "state || token")" released$((before + 1))
	assert_free_now
}

@test "TERM while the answers to acquire are lost: no lease stays" {
	used_before
	relay
	relay_set lose "$ACQUIRE"
	first -b "$RELAYED" -t 60s -- ticks=3
	wait_until 10 held
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_equal "$(lines start)" 0
	assert_free_now
}

@test "the answer to acquire is lost while others wait: one after the other" {
	relay
	relay_set lose-once "$ACQUIRE"
	first -b "$RELAYED" -- ticks=-1
	wait_until 10 held
	contender
	kill -TERM "$first"
	assert_succeeded 143
}

@test "the answer to a renewal is lost once: the job knows nothing of it" {
	relay
	relay_set lose-once "$RENEW"
	first -b "$RELAYED" -- ticks=60
	wait_until 10 file_has first "renewed again"
	assert_ends 0 "$first"
	lost
	assert_equal "$(lines start)" 1
	assert_lacks "$(cat first)" "lost:"
}

@test "the answers to renewals are lost always: dead before the next grant" {
	first_behind_relay
	contender
	relay_set lose "$RENEW"
	assert_succeeded 79
	lost
	assert_contains "$(cat first)" "could not be renewed in time"
}

@test "the answer to the release is lost once: free, and no loss" {
	relay
	relay_set lose-once "$RELEASE"
	first -b "$RELAYED" -t 60s -- ticks=3 exit=3
	assert_ends 3 "$first"
	lost
	assert_equal "$(row "state || end_status")" released3
	assert_equal "$(cat first)" ""
	assert_free_now
}

@test "the answer to the release is lost, and another has it by then: no loss" {
	relay
	relay_set lose-once "$RELEASE"
	first -b "$RELAYED" -t 60s -- ticks=-1
	wait_until 10 ticking 1
	contender
	kill -TERM "$first"
	assert_succeeded 143
	lost
	assert_equal "$(cat first)" ""
}

@test "the answers to the release are lost always: free, its status counts" {
	relay
	relay_set lose "$RELEASE"
	first -b "$RELAYED" -t 60s -- ticks=3 exit=3
	wait_until 10 lost
	assert_free_now
	assert_ends 3 "$first"
}

# --- b. Cut networks ---

# The network is cut for shorter than the lease.
cut_short() {
	relay
	first -b "$RELAYED" -t 8s -- tree
	wait_until 10 ticking 4
	relay_set "$1"
	wait_until 10 file_has first "cannot renew the lease"
	relay_set pass
	wait_until 10 file_has first "renewed again"
	is_alive "$first"
	assert_equal "$(lines term)" 0
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_free_now
}

# For longer.
cut_long() {
	first_behind_relay
	contender
	relay_set "$1"
	assert_succeeded 79
	assert_contains "$(cat second)" "took over from 'first'"
}

@test "silent network, shorter than the lease: the job lives" {
	cut_short stall
}

@test "closed connections, shorter than the lease: the job lives" {
	cut_short close
}

@test "reset connections, shorter than the lease: the job lives" {
	cut_short reset
}

@test "no answers, for shorter than the lease: the job lives" {
	cut_short drop
}

@test "silent network, longer than the lease: dead before the next grant" {
	cut_long stall
}

@test "closed connections, longer: dead before the next grant" {
	cut_long close
}

@test "reset connections, longer: dead before the next grant" {
	cut_long reset
}

@test "no answers, for longer: dead before the next grant" {
	cut_long drop
}

# lock_row [SQL]: an open transaction keeps it; unlock ends it.
lock_row() {
	rm -f sql
	mkfifo sql
	(cd / && exec psql -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -p "$PGPORT" \
	    -U postgres -d postgres) <sql >locker 2>&1 3>&- &
	bg_pids+=("$!")
	exec 5>sql
	echo "BEGIN; ${1-SELECT 1 FROM $T WHERE name = 'job' FOR UPDATE};" >&5
	echo "SELECT 'locked ' || pg_backend_pid();" >&5
	wait_until 10 file_has locker locked
	locker=$(sed -n 's/^locked //p' locker)
}

unlock() {
	echo "${1-ROLLBACK};" >&5
	exec 5>&-
}

in_mid_query() {
	[ "$(sql "SELECT count(*) FROM pg_stat_activity WHERE
	    wait_event_type = 'Lock' AND query LIKE '%$T%'")" -gt 0 ]
}

cut_in_mid_query() {
	relay
	first -b "$RELAYED" -t 8s -- tree
	wait_until 10 ticking 4
	lock_row
	wait_until 10 in_mid_query
	relay_set "$1"
	wait_until 10 file_has first "cannot renew the lease"
	unlock
	relay_set pass
	wait_until 10 file_has first "renewed again"
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_free_now
}

@test "silent network in mid-query: the job lives" {
	cut_in_mid_query stall
}

@test "closed connection in mid-query: the job lives" {
	cut_in_mid_query close
}

@test "reset connection in mid-query: the job lives" {
	cut_in_mid_query reset
}

@test "a signal while an answer is lost: the job lives" {
	relay
	first -b "$RELAYED" -t 8s -- tree
	wait_until 10 ticking 4
	relay_set drop
	wait_until 10 file_has relay.log dropped
	kill -URG "$first"
	relay_set pass
	wait_until 10 renewed_since "$(row renewed_at)"
	wait_until 10 renewed_since "$(row renewed_at)"
	assert_equal "$(lines term)" 0
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_free_now
}

# forgotten COUNT: so many connections.
forgotten() {
	[ "$(grep -c forgotten relay.log)" -ge "$1" ]
}

@test "connections forgotten by the network between heartbeats: the job lives" {
	relay
	relay_set forget 300
	first -b "$RELAYED" -o connection=keep -t 12s -r 1s -- tree
	wait_until 20 ticking 4
	before=$(row token)
	for n in 2 4; do
		wait_until 40 forgotten "$n"
		wait_until 20 renewed_since "$(row renewed_at)"
	done
	assert_equal "$(lines term)" 0
	kill -TERM "$first"
	assert_ends 143 "$first"
	# The release found its connection forgotten, too.
	assert_equal "$(row "state || token")" "released$before"
	assert_lacks "$(cat first)" "is lost"
}

@test "a connection forgotten by the network while waiting: gets the lease" {
	relay
	first -t 6s -- ticks=-1
	wait_until 10 ticking 1
	contender -b "$RELAYED"
	relay_set forget 500
	wait_until 10 forgotten 1
	kill -TERM "$first"
	assert_ends 143 "$first"
	wait_until 30 is_gone "$second"
	assert_ends 0 "$second"
	assert_equal "$(lines start)" 2
}

# A waiter behind a network that fails for a while, for the lease of a direct
# holder, which ends meanwhile.
cut_waiter() {
	relay
	first -t 30s -- ticks=-1
	wait_until 10 ticking 1
	contender -b "$RELAYED"
	relay_set "$1"
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_equal "$(row state) $(cat first)" "released "
	assert_equal "$(lines start)" 1
	relay_set pass
	assert_ends 0 "$second"
	assert_equal "$(lines start)" 2
}

@test "silent network while waiting: goes on when it is back" {
	cut_waiter stall
}

@test "closed connections while waiting: goes on when they are back" {
	cut_waiter close
}

@test "reset connections while waiting: goes on when they are back" {
	cut_waiter reset
}

# told_before SECONDS: who holds it was told longer ago than that.
told_before() {
	[ $(($(date +%s) - $(stat -c %Y second))) -gt "$1" ]
}

@test "an outage begins when it begins, not when the holder was told" {
	relay
	first -t 60s -- ticks=-1
	wait_until 10 ticking 1
	contender -vv -b "$RELAYED" --connect-timeout 4s
	wait_until 20 told_before 4
	relay_set reset
	wait_until 30 file_has second "trying again"
	relay_set pass
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_ends 0 "$second"
	assert_equal "$(lines start)" 2
}

@test "the network is gone for good while waiting: 69" {
	local kind

	relay
	for kind in stall close reset; do
		relay_set pass
		: >out
		# What was on its way may get there now, and be granted.
		first --wait 20s -- ticks=-1
		wait_until 10 ticking 1
		contender -b "$RELAYED" --connect-timeout 1s
		relay_set "$kind"
		assert_ends 69 "$second"
		assert_equal "$(lines start)" 1
		assert_contains "$(cat second)" "cannot be reached"
		kill -TERM "$first"
		assert_ends 143 "$first"
	done
}

# cut_at_grant KIND [OPTION]...: cut while the row is locked, so that it is
# granted when nobody can be told.
cut_at_grant() {
	run_tool 0 run --wait 20s job -- true
	before=$(row token)
	relay
	lock_row
	first -b "$RELAYED" "${@:2}" -- ticks=3
	wait_until 10 in_mid_query
	relay_set "$1"
	unlock
}

@test "cut between grant and start, for a while: one token, one start" {
	local kind

	for kind in stall close reset drop; do
		cut_at_grant "$kind" -t 10s
		wait_until 10 held
		relay_set pass
		assert_ends 0 "$first"
		assert_equal "$(row token)" $((before + 1))
		assert_equal "$(tail -n 1 out | cut -d ' ' -f 2)" \
		    $((before + 1))
	done
	assert_equal "$(lines start)" 4
}

@test "cut between grant and start, for good: 69, nothing is started" {
	local kind

	for kind in stall reset; do
		cut_at_grant "$kind" --connect-timeout 2s
		assert_ends 69 "$first"
		assert_equal "$(lines start)" 0
	done
}

# The job ends while nothing gets through.
cut_at_release() {
	relay
	first -b "$RELAYED" -t 6s "${@:2}" -- ticks=100 exit=3
	wait_until 10 ticking 1
	contender
	relay_set "$1"
	wait_until 10 file_has out end
}

@test "cut at the release, for a while: released all the same" {
	local kind

	for kind in stall close reset; do
		: >out
		cut_at_release "$kind"
		relay_set pass
		assert_succeeded 3
		assert_lacks "$(cat second)" "took over"
	done
}

@test "cut at the release, for good: its status, and the lease runs out" {
	local kind

	for kind in stall reset; do
		: >out
		cut_at_release "$kind" -t 4s
		assert_succeeded 3
		assert_contains "$(cat first)" "it runs out by itself"
		assert_contains "$(cat second)" "took over"
	done
}

# --- Servers that stop ---

# The pids of a server and of its sessions.
server_processes() {
	local server

	server=$(pg_pid)
	echo "$server" "$(cat "/proc/$server/task/$server/children")"
}

signal_server() {
	# shellcheck disable=SC2046
	kill -s "$1" $(server_processes) 2>/dev/null || :
}

# pg_crash: all of it at once.
pg_crash() {
	local -a pids
	local pid

	read -ra pids < <(server_processes)
	kill -KILL "${pids[@]}"
	for pid in "${pids[@]}"; do
		wait_until 10 is_gone "$pid"
	done
}

@test "server frozen for shorter than the lease: the job lives" {
	own_server
	first -t 8s -- tree
	wait_until 10 ticking 4
	signal_server STOP
	wait_until 10 file_has first "cannot renew the lease"
	signal_server CONT
	wait_until 10 file_has first "renewed again"
	assert_equal "$(lines term)" 0
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_free_now
}

@test "server frozen for longer: dead before the server goes on" {
	own_server
	first -- tree frozen ignore
	wait_until 10 ticking 5
	contender
	signal_server STOP
	wait_until 20 job_gone ""
	signal_server CONT
	assert_succeeded 79
}

@test "server restarted, fast: the job lives, and the waiter waits" {
	own_server
	first -t 15s -- tree
	wait_until 10 ticking 4
	contender
	pg_stop INT
	pg_start
	wait_until 10 renewed_since "$(row renewed_at)"
	assert_equal "$(lines term)" 0
	is_alive "$second"
	kill -TERM "$first"
	assert_succeeded 143
	assert_lacks "$(cat second)" "took over"
}

@test "server crashed and restarted: the job lives, and no token comes twice" {
	local before

	own_server
	first -t 15s -- tree
	wait_until 10 ticking 4
	before=$(row token)
	contender
	pg_crash
	pg_start
	wait_until 10 renewed_since "$(row renewed_at)"
	assert_equal "$(row token)" "$before"
	kill -TERM "$first"
	assert_succeeded 143
	assert_equal "$(token 2)" $((before + 1))
}

@test "server crashed for good: dead before it lets anyone in again" {
	own_server
	first -- tree frozen ignore
	wait_until 10 ticking 5
	contender
	pg_crash
	wait_until 20 job_gone ""
	pg_start
	assert_succeeded 79
}

@test "server crashed right after a grant: the token is not granted again" {
	own_server "synchronous_commit = off"
	run_tool 0 run job -- true
	first -t 60s -- ticks=-1
	wait_until 10 ticking 1
	pg_crash
	kill -KILL "$first"
	pg_start
	assert_equal "$(row token)" "$(token 1)"
	run_tool 75 run job -- true
	sql "UPDATE $T SET expires_at = clock_timestamp()"
	run_tool 0 run job -- "$PROBE" out ticks=1
	[ "$(token 2)" -gt "$(token 1)" ]
}

# --- c. Bounded exits ---

# within SECONDS RC COMMAND...: the kernel's limit, not a measurement.
within() {
	local bound=$1 want=$2 status=0

	shift 2
	timeout -s KILL "$bound" "$@" >output 2>&1 3>&- || status=$?
	cat output
	[ "$status" -eq "$want" ] ||
	    fail "status $status, not $want (137: it took longer)"
}

# A port that takes connections and says nothing: SILENT.
silent_port() {
	relay
	relay_set stall
	SILENT=$RELAYPORT
}

url() {
	echo "postgres://postgres@$1/postgres"
}

@test "--connect-timeout ends all tries: silent, closed, unroutable" {
	silent_port
	within 6 69 "$LEASERUN" run -b "$(url 127.0.0.1:$SILENT)" \
	    --connect-timeout 1s job -- touch ran
	assert_contains "$(cat output)" "no answer from the server at '127.0.0.1'"
	within 6 69 "$LEASERUN" run -b "$(url "127.0.0.1:$(free_port)")" \
	    --connect-timeout 1s job -- touch ran
	assert_contains "$(cat output)" "refused"
	within 6 69 "$LEASERUN" run --connect-timeout 1s -b \
	    "$(url 127.0.0.1:$SILENT,127.0.0.1:$SILENT,127.0.0.1:$SILENT)" \
	    job -- touch ran
	[ ! -e ran ]
}

@test "--wait is a total: over all hosts of a list, and over all tries" {
	silent_port
	within 8 69 "$LEASERUN" run --wait 2s --connect-timeout 60s -b \
	    "$(url 127.0.0.1:$SILENT,127.0.0.1:$SILENT,127.0.0.1:$SILENT)" \
	    job -- touch ran
	[ ! -e ran ]
}

@test "--wait runs out while the lease is held: 75, in spite of a silent host" {
	silent_port
	first -t 60s -- ticks=-1
	wait_until 10 ticking 1
	within 10 75 "$LEASERUN" run --wait 4s -b \
	    "$(url 127.0.0.1:$SILENT,127.0.0.1:$PGPORT)" job -- touch ran
	[ ! -e ran ]
}

@test "a list of hosts: past a silent, a closed and an unknown one" {
	silent_port
	within 15 0 "$LEASERUN" run -b "$(url "127.0.0.1:$(\
	    )$SILENT,127.0.0.1:$(free_port),no.host.invalid:5432,$(\
	    )127.0.0.1:$PGPORT")" job -- touch ran
	[ -e ran ]
}

@test "a list of hosts: renewals go on when the first one dies" {
	relay
	first -t 6s -b "$(url "127.0.0.1:$RELAYPORT,127.0.0.1:$PGPORT")" -- tree
	wait_until 10 ticking 4
	relay_set stall
	wait_until 10 file_has first "renewed again"
	assert_equal "$(lines term)" 0
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_free_now
}

# signal_while STATE: the run in $first is told to end, and does, within the
# bound that timeout(1) in front of it has.
bounded_first() {
	local bound=$1

	shift
	bg timeout -s KILL "$bound" "$LEASERUN" run "${FAKE[@]}" "$@" job -- \
	    "$PROBE" out 2>first
	first=$!
	wait_until 10 has_child "$first"
	keeper=$(children "$first")
}

children() {
	local -a pids

	read -ra pids <"/proc/$1/task/$1/children"
	echo "${pids[*]}"
}

has_child() {
	[ -n "$(children "$1")" ]
}

connected() {
	[ "$(ss -Htn state established "dport = :$1" | wc -l)" -gt 0 ]
}

@test "TERM while connecting to a silent port: ends" {
	silent_port
	bounded_first 9 -b "$(url 127.0.0.1:$SILENT)" --connect-timeout 60s \
	    --wait inf
	wait_until 10 connected "$SILENT"
	kill -TERM "$keeper"
	assert_ends 143 "$first"
}

@test "TERM while waiting for a server that has become silent: ends" {
	relay
	bg "$LEASERUN" run -t 60s job -- "$PROBE" out
	wait_until 10 ticking 1
	bounded_first 9 -b "$RELAYED" --wait inf -v
	wait_until 10 file_has first "held by"
	relay_set stall
	kill -TERM "$keeper"
	assert_ends 143 "$first"
	assert_equal "$(lines start)" 1
}

@test "TERM while the network is cut in all ways, retrying: ends" {
	local kind

	relay
	for kind in stall close reset drop; do
		relay_set "$kind"
		bounded_first 9 -b "$RELAYED" --connect-timeout 60s --wait inf
		wait_until 10 has_guard "$keeper"
		kill -TERM "$keeper"
		assert_ends 143 "$first"
	done
	assert_equal "$(lines start)" 0
}

@test "TERM while releasing into a silent network: its status, within 5 s" {
	relay
	bounded_first 14 -b "$RELAYED" -t 60s
	wait_until 10 ticking 1
	relay_set stall
	kill -TERM "$keeper"
	wait_until 10 job_gone ""
	kill -TERM "$keeper"
	assert_ends 143 "$first"
	assert_contains "$(cat first)" "it runs out by itself"
}

@test "a frozen server gets no cancel request and no goodbye to wait for" {
	own_server
	first -- tree ignore
	wait_until 10 ticking 4
	bg strace -f -qq -o trace -e trace=connect,sendto,poll,ppoll \
	    -p "$first"
	wait_until 10 grep -q sendto trace
	signal_server STOP
	assert_ends 79 "$first"
	# 80877102 is a cancel request.
	run grep -F '\4\322\26.' trace
	assert_equal "$output" ""
	job_gone ""
}

# --- e. Forgotten transactions ---

@test "a row locked for a moment: the job lives, the warning names the process" {
	first -t 8s -- tree
	wait_until 10 ticking 4
	lock_row
	wait_until 10 file_has first "cannot renew the lease"
	file_has first "transaction of server process $locker;"
	unlock
	wait_until 10 file_has first "renewed again"
	assert_equal "$(lines term)" 0
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_free_now
}

@test "a row updated for a moment by hand: the job lives" {
	first -t 8s -- tree
	wait_until 10 ticking 4
	lock_row "UPDATE $T SET label = label WHERE name = 'job'"
	wait_until 10 file_has first "transaction of server process $locker;"
	unlock COMMIT
	wait_until 10 file_has first "renewed again"
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_free_now
}

@test "a row locked for good: dead before the next grant" {
	first -- tree frozen ignore
	wait_until 10 ticking 5
	contender
	lock_row
	wait_until 20 job_gone ""
	unlock
	assert_succeeded 79
	assert_contains "$(cat first)" "transaction of server process $locker;"
}

# lock_for_good SQL: by one more session that nobody sees to.
lock_for_good() {
	bg psql -XAtq -h "$PGDIR" -p "$PGPORT" -U postgres -d postgres \
	    -c "BEGIN; $1; SELECT pg_sleep(600)"
}

sleepers() {
	[ "$(sql "SELECT count(*) FROM pg_stat_activity
	    WHERE wait_event = 'PgSleep' AND query LIKE '% $T %'")" = "$1" ]
}

# What the last warning says is to be done.
advice() {
	sed -n 's/.*; to end that: \([^"]*\)$/\1/p' first | tail -n 1
}

@test "a row locked by two: the warning names both, and how to end them" {
	first -t 10s -- tree
	wait_until 10 ticking 4
	lock_for_good "SELECT 1 FROM $T WHERE name = 'job' FOR SHARE"
	lock_for_good "SELECT 1 FROM $T WHERE name = 'job' FOR SHARE"
	# This one is not in the way.
	lock_for_good "SELECT 1 FROM $T WHERE name = 'job' FOR KEY SHARE"
	wait_until 10 sleepers 3
	wait_until 10 grep -qE "locked by the transaction of server process \
[0-9]+ and the transaction of server process [0-9]+; to" first
	sql "$(advice)"
	wait_until 10 sleepers 1
	wait_until 10 file_has first "renewed again"
	assert_equal "$(lines term)" 0
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_free_now
}

@test "a row that two refer to: nobody is in the way" {
	first -t 10s -- tree
	wait_until 10 ticking 4
	lock_for_good "SELECT 1 FROM $T WHERE name = 'job' FOR KEY SHARE"
	lock_for_good "SELECT 1 FROM $T WHERE name = 'job' FOR KEY SHARE"
	wait_until 10 sleepers 2
	for _ in 1 2 3; do
		wait_until 10 renewed_since "$(row renewed_at)"
	done
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_equal "$(cat first)" ""
	assert_free_now
}

@test "a row locked by a prepared transaction: the warning says which" {
	own_server 'max_prepared_transactions = 5'
	first -t 10s -- tree
	wait_until 10 ticking 4
	sql "BEGIN; SELECT 1 FROM $T WHERE name = 'job' FOR UPDATE;
	    PREPARE TRANSACTION 'it''s forgotten'" >/dev/null
	wait_until 10 file_has first \
	    "locked by the prepared transaction 'it''s forgotten';"
	sql "$(advice)"
	wait_until 10 file_has first "renewed again"
	sql "BEGIN; LOCK TABLE $T; PREPARE TRANSACTION 'table'"
	wait_until 10 file_has first "locked by the prepared transaction 'table';"
	sql "$(advice)"
	wait_until 10 renewed_since "$(row renewed_at)"
	kill -TERM "$first"
	assert_ends 143 "$first"
}

@test "a locked table: the warning names the process" {
	first -t 8s -- tree
	wait_until 10 ticking 4
	lock_row "LOCK TABLE $T"
	wait_until 10 file_has first "cannot renew the lease"
	assert_contains "$(cat first)" "transaction of server process $locker;"
	unlock
	wait_until 10 file_has first "renewed again"
	kill -TERM "$first"
	assert_ends 143 "$first"
}

# no_ghost: nothing of the server's still wants the row; who gave up has
# nothing.
no_ghost() {
	wait_until 10 not in_mid_query
	unlock
	assert_equal "$(row state)" released
	assert_free_now
}

not() {
	! "$@"
}

@test "a locked row and --connect-timeout: 69, and nothing is granted late" {
	run_tool 0 run job -- true
	lock_row
	run_tool 69 run -t 60s --connect-timeout 1s job -- touch ran
	assert_contains "$stderr" "transaction of server process $locker;"
	no_ghost
	[ ! -e ran ]
}

@test "a locked row and TERM: ends at once, and nothing is granted late" {
	run_tool 0 run job -- true
	lock_row
	bounded_first 9 -t 60s
	wait_until 10 in_mid_query
	kill -TERM "$keeper"
	assert_ends 143 "$first"
	# Straight after: what would wait still would get it now.
	unlock
	wait_until 10 not in_mid_query
	assert_equal "$(row state)" released
	assert_free_now
}

@test "a locked row, a reset connection and TERM: nothing is granted late" {
	run_tool 0 run job -- true
	relay
	lock_row
	bounded_first 9 -b "$RELAYED" -t 60s
	wait_until 10 in_mid_query
	relay_set reset
	kill -TERM "$keeper"
	relay_set pass
	assert_ends 143 "$first"
	unlock
	wait_until 10 not in_mid_query
	assert_equal "$(row state)" released
	assert_free_now
}

@test "a locked row at the release: released when it is free again" {
	first -t 60s -- ticks=30 exit=4
	wait_until 10 ticking 1
	lock_row
	wait_until 10 file_has out end
	wait_until 10 in_mid_query
	unlock
	assert_ends 4 "$first"
	assert_equal "$(row "state || end_status")" released4
}

# --- f. Administrators ---

@test "the row is deleted while held: 79, and the token still grows" {
	first -- tree frozen ignore
	wait_until 10 ticking 5
	sql "DELETE FROM $T WHERE name = 'job'"
	assert_ends 79 "$first"
	job_gone ""
	assert_contains "$(cat first)" "is lost: its record was removed"
	run_tool 0 run job -- "$PROBE" out ticks=1
	[ "$(token 2)" -gt "$(token 1)" ]
}

@test "the row is deleted while free: the token still grows" {
	local -i i

	for ((i = 0; i < 5; i++)); do
		run_tool 0 run job -- "$PROBE" out ticks=1
		sql "DELETE FROM $T WHERE name = 'job'"
	done
	awk '$1 == "start" { if ($2 + 0 <= top) exit 1; top = $2 + 0; n++ }
	    END { exit n != 5 }' out
}

@test "the table is emptied while held: 79, and the token still grows" {
	first -- tree frozen ignore
	wait_until 10 ticking 5
	sql "TRUNCATE $T"
	assert_ends 79 "$first"
	job_gone ""
	assert_contains "$(cat first)" "is lost: its record was removed"
	run_tool 0 run job -- "$PROBE" out ticks=1
	[ "$(token 2)" -gt "$(token 1)" ]
}

@test "the table is renamed and back: the job lives" {
	first -t 8s -- tree
	wait_until 10 ticking 4
	sql "ALTER TABLE $T RENAME TO moved$T"
	wait_until 10 file_has first "there is no table"
	sql "ALTER TABLE moved$T RENAME TO $T"
	wait_until 10 file_has first "renewed again"
	assert_equal "$(lines term)" 0
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_free_now
}

@test "the table is renamed for good: dead before it is there again" {
	first -- tree frozen ignore
	wait_until 10 ticking 5
	sql "ALTER TABLE $T RENAME TO moved$T"
	wait_until 20 job_gone ""
	sql "ALTER TABLE moved$T RENAME TO $T"
	assert_ends 79 "$first"
	assert_contains "$(cat first)" "there is no table"
	run_tool 0 run --wait 10s job -- true
}

@test "no table: 78 with what to run, and never 75" {
	sql "DROP TABLE $T"
	run_tool 78 run job -- touch ran
	assert_contains "$stderr" "-o table=$T' as a role that may create tables"
	run_tool 78 run --wait 5s job -- touch ran
	assert_contains "$stderr" "-o table=$T' as a role that may create tables"
	[ ! -e ran ]
	run_tool 0 init
	run_tool 0 run job -- touch ran
	[ -e ran ]
}

@test "the table goes while somebody waits: 78, and never 75" {
	first -- ticks=-1
	wait_until 10 ticking 1
	contender
	sql "DROP TABLE $T"
	assert_ends 78 "$second"
	assert_contains "$(cat second)" "-o table=$T' as a role that may create tables"
	assert_ends 79 "$first"
	assert_equal "$(lines start)" 1
}

# --- d. Names ---

# slow_names TEXT: what tests/elsewhere.c answers with, for all that follows.
slow_names() {
	echo "$1" >names
	printf '#!/bin/sh\nexec env LD_PRELOAD=%q NAMES=%q %q "$@"\n' \
	    "$MODULES/elsewhere.so" "$BATS_TEST_TMPDIR/names" "$LEASERUN" \
	    >leaserun
	chmod 755 leaserun
	LEASERUN=$BATS_TEST_TMPDIR/leaserun
}

# names_are TEXT: from now on.
names_are() {
	echo "$1" >names.new
	mv names.new names
}

asked_again() {
	[ "$(wc -l <names.log)" -gt "$1" ]
}

@test "a lookup that never ends: --connect-timeout, and the name in the text" {
	slow_names hang
	within 6 69 "$LEASERUN" run --connect-timeout 1s \
	    -b "$(url db.test:$PGPORT)" job -- touch ran
	assert_contains "$(cat output)" "lookup of host 'db.test' takes too long"
	[ ! -e ran ]
}

@test "a lookup that never ends, and TERM: ends" {
	slow_names hang
	bounded_first 9 --connect-timeout 60s --wait inf \
	    -b "$(url db.test:$PGPORT)"
	wait_until 10 test -s names.log
	kill -TERM "$keeper"
	assert_ends 143 "$first"
}

@test "a lookup that never ends during a run: dead before the next grant" {
	relay
	LEASERUN_REAL=$LEASERUN
	slow_names 127.0.0.1
	first -b "$(url db.test:$RELAYPORT)" -- tree frozen ignore
	wait_until 10 ticking 5
	LEASERUN=$LEASERUN_REAL
	contender
	names_are hang
	relay_set reset
	assert_succeeded 79
	asked_again 1
}

@test "a lookup that never ends during a run: signals reach the job" {
	relay
	slow_names 127.0.0.1
	bg "$LEASERUN" run -t 20s -r 400ms -g 300ms \
	    -b "$(url db.test:$RELAYPORT)" job -- bash -c '
		trap "echo usr1 >>signals" USR1
		trap "echo term >>signals; exit 9" TERM
		echo >ready
		while :; do sleep 0.05; done'
	first=$!
	wait_until 10 test -e ready
	names_are hang
	relay_set close
	wait_until 10 asked_again 1
	kill -USR1 "$first"
	wait_until 10 file_has signals usr1
	kill -TERM "$first"
	wait_until 10 file_has signals term
	assert_ends 9 "$first"
}

@test "a lookup that never ends: the address from before still serves" {
	relay
	slow_names 127.0.0.1
	first -t 8s -b "$(url db.test:$RELAYPORT)" -- tree
	wait_until 10 ticking 4
	names_are hang
	relay_set close
	wait_until 10 asked_again 1
	relay_set pass
	wait_until 10 renewed_since "$(row renewed_at)"
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_free_now
}

@test "four addresses, three of them closed: the fourth is found" {
	slow_names "127.0.0.2 127.0.0.3 127.0.0.4 127.0.0.1"
	within 10 0 "$LEASERUN" run -b "$(url db.test:$PGPORT)" job -- touch ran
	[ -e ran ]
}

# silent_addresses: at the port of the server, for each of which a line in the
# file of that name tells that somebody came.
silent_addresses() {
	local i

	for i in 2 3 4; do
		bg perl -MIO::Socket::INET -e '
			$s = IO::Socket::INET->new(LocalAddr => $ARGV[0],
			    LocalPort => $ARGV[1], Listen => 99) || die;
			open(F, ">", $ARGV[0]) || die;
			F->autoflush(1);
			while (1) { push @c, scalar $s->accept; print F "x\n" }
			' "127.0.0.$i" "$PGPORT"
		wait_until 10 test -e "127.0.0.$i"
	done
}

visits() {
	cat 127.0.0.[234] | wc -l
}

@test "four addresses, three of them silent: the fourth is found, and kept" {
	silent_addresses
	slow_names "127.0.0.2 127.0.0.3 127.0.0.4 127.0.0.1"
	first -t 20s -b "$(url db.test:$PGPORT)" -o connection=reopen -- tree
	wait_until 30 ticking 4
	# The first connection has been to all of them, and no other one goes
	# there again.
	before=$(visits)
	[ "$before" -ge 3 ]
	for _ in 1 2 3 4 5; do
		wait_until 10 renewed_since "$(row renewed_at)"
	done
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_equal "$(row state)" released
	assert_equal "$(visits)" "$before"
	assert_equal "$(wc -l <names.log)" 1
	assert_equal "$(cat first)" ""
}

# --- g. Clocks ---

faketime_lib() {
	printf '%s\n' /usr/lib/*/faketime/libfaketime.so.1 | head -n 1
}

# A server with a clock of its own: clock_is OFFSET.
clock_server() {
	clock_is +0
	pg_make server
	pg_start env "LD_PRELOAD=$(faketime_lib)" FAKETIME_NO_CACHE=1 \
	    FAKETIME_DONT_FAKE_MONOTONIC=1 \
	    "FAKETIME_TIMESTAMP_FILE=$BATS_TEST_TMPDIR/clock"
	use_server
}

clock_is() {
	echo "$1" >clock.new
	mv clock.new clock
}

# The row was renewed by a clock that is so many minutes off.
renewed_at_clock() {
	[ "$(sql "SELECT abs(extract(epoch FROM renewed_at) - $(date +%s) -
	    60 * $1) < 60 FROM $T WHERE name = 'job'")" = t ]
}

@test "the server's clock goes on by an hour: lost, and the token grows" {
	clock_server
	first -- tree frozen ignore
	wait_until 10 ticking 5
	contender
	clock_is +1h
	assert_ends 79 "$first"
	assert_contains "$(cat first)" "is lost: "
	assert_ends 0 "$second"
	job_gone ""
	assert_equal "$(lines start)" 2
	[ "$(token 2)" -gt "$(token 1)" ]
}

@test "the server's clock goes on by an hour and nobody waits: lost" {
	clock_server
	first -- tree frozen ignore
	wait_until 10 ticking 5
	clock_is +1h
	assert_ends 79 "$first"
	job_gone ""
	assert_contains "$(cat first)" "is lost: it ran out at the store"
}

@test "the server's clock goes back by an hour: the holder keeps its lease" {
	clock_server
	first -- tree
	wait_until 10 ticking 4
	contender
	clock_is -1h
	wait_until 10 renewed_at_clock -60
	is_alive "$second"
	is_alive "$first"
	assert_equal "$(lines term)" 0
	assert_equal "$(lines start)" 1
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_ends 0 "$second"
	assert_order
	assert_lacks "$(cat second)" "took over"
}

@test "the server's clock goes back: a dead holder does not block for an hour" {
	local guard

	clock_server
	first -- ticks=-1
	wait_until 10 ticking 1
	guard=$(guard "$first")
	kill -KILL "$first"
	wait_until 10 is_gone "$guard"
	held
	clock_is -1h
	run_tool 0 run --wait 15s job -- true
	assert_contains "$stderr" "took over from 'first'"
}

@test "the server's clock goes back: --min-hold does not block for an hour" {
	clock_server
	run_tool 0 run --min-hold 2s job -- true
	clock_is -1h
	run_tool 0 run --wait 15s job -- true
}

@test "clients with any clock and time zone: one after the other" {
	local clock now
	local -a pids=()

	now=$(date +%s)
	# Three minutes off, 1970, and 2038 when 32 bits run out.
	for clock in 180 -180 $((86400 - now)) $((2147483646 - now)) \
	    $((4000000000 - now)); do
		bg env "LD_PRELOAD=$MODULES/elsewhere.so" "WALLCLOCK=$clock" \
		    TZ="UTC-${#pids[@]}:30" \
		    PGTZ="America/St_Johns" "$LEASERUN" run "${FAKE[@]}" -v \
		    --wait 60s job -- "$PROBE" out tree live=40 ticks=40 \
		    2>"client.${#pids[@]}"
		pids+=("$!")
	done
	for clock in "${pids[@]}"; do
		assert_ends 0 "$clock" || { cat client.*; return 1; }
	done
	assert_order 5
	run grep -hE "lost|cannot renew|took over" client.*
	assert_equal "$output" ""
}

# --- h. Credentials, and all that libpq can do ---

# A server that wants a password of the role cron.
password_server() {
	pg_make server "password_encryption = 'scram-sha-256'"
	sed -i '1i host all cron 127.0.0.1/32 scram-sha-256' "$PGDIR/pg_hba.conf"
	pg_start
	use_server
	sql "CREATE ROLE cron LOGIN PASSWORD 'first-secret';
	    GRANT SELECT, INSERT, UPDATE ON $T TO cron"
	passfile first-secret
	AS_CRON=postgres://cron@127.0.0.1:$PGPORT/postgres
}

passfile() {
	rm -f home/.pgpass
	(umask 077; echo "127.0.0.1:$PGPORT:*:cron:$1" >home/.pgpass)
}

terminate_cron() {
	sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	    WHERE usename = 'cron'" >/dev/null
}

renewed_since() {
	! row_is renewed_at "$1"
}

refusals() {
	grep -c 'FATAL:  password authentication failed' server.log || :
}

@test "password changed: the session lives; cut off: ended in time, not hammered" {
	password_server
	first -b "$AS_CRON" -t 5s -- tree frozen ignore
	wait_until 10 ticking 5
	contender
	sql "ALTER ROLE cron PASSWORD 'second-secret'"
	wait_until 10 renewed_since "$(row renewed_at)"
	wait_until 10 renewed_since "$(row renewed_at)"
	assert_equal "$(cat first)" ""
	terminate_cron
	assert_succeeded 79
	assert_matches "$(cat first)" \
	    "is lost.*could not be renewed.*password authentication failed"
	[ "$(refusals)" -ge 2 ]
	[ "$(refusals)" -le 15 ]
}

@test "password changed and the session cut off: goes on with a new .pgpass" {
	password_server
	first -b "$AS_CRON" -t 5s -- tree
	wait_until 10 ticking 4
	sql "ALTER ROLE cron PASSWORD 'second-secret'"
	terminate_cron
	wait_until 10 grep -q 'FATAL:  password authentication' server.log
	passfile second-secret
	wait_until 10 file_has first "renewed again"
	assert_equal "$(lines term)" 0
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_free_now
}

@test "a wrong password at the start: 77, asked for once" {
	password_server
	passfile wrong
	run_tool 77 run -b "$AS_CRON" job -- touch ran
	assert_contains "$stderr" "password authentication failed"
	assert_contains "$stderr" "the password is that of '$PWD/home/.pgpass'"
	assert_equal "$(refusals)" 1
	run_tool 77 run -b "$AS_CRON" --wait 5s job -- touch ran
	[ ! -e ran ]
}

@test "no password, or a wrong one of the URL: where it belongs, and is from" {
	password_server
	rm home/.pgpass
	run_tool 77 run -b "$AS_CRON" job -- touch ran
	assert_contains "$stderr" "no password supplied"
	assert_contains "$stderr" ":cron:PASSWORD into '$PWD/home/.pgpass'"
	PGPASSWORD=s3cret run_tool 77 run -b "$AS_CRON" job -- touch ran
	assert_contains "$stderr" "of the URL, of its service or of PGPASSWORD"
	assert_lacks "$stderr" s3cret
	passfile first-secret
	chmod 644 home/.pgpass
	run_tool 77 run -b "$AS_CRON" job -- touch ran
	assert_contains "$stderr" "run chmod 600 on it"
	assert_equal "$(grep -c WARNING <<<"$stderr")" 1
	[ ! -e ran ]
}

@test "refused by one host, another not yet there: goes on to the other" {
	password_server
	passfile wrong
	relay
	relay_set close
	bg "$LEASERUN" run -v -b "postgres://cron@127.0.0.1:$PGPORT,127.0.0.1:$(\
	    )$RELAYPORT/postgres?passfile=both" job -- touch ran
	first=$!
	(umask 077; printf '%s\n' "*:$PGPORT:*:*:wrong" \
	    "*:$RELAYPORT:*:*:first-secret" >both)
	wait_until 10 grep -q 'FATAL:  password authentication' server.log
	relay_set pass
	assert_ends 0 "$first"
	[ -e ran ]
}

@test "unix sockets and service files" {
	run_tool 0 run -b "postgres:///postgres?host=$PGDIR&port=$(\
	    )$PGPORT&user=postgres" job -- touch by-socket
	[ -e by-socket ]
	printf '%s\n' '[leases]' host=127.0.0.1 "port=$PGPORT" user=postgres \
	    dbname=postgres >services
	PGSERVICEFILE=$PWD/services run_tool 0 run -b \
	    "postgres://?service=leases" job -- touch by-service
	[ -e by-service ]
}

# certificate NAME CA: a key and a certificate for the server of that name.
certificate() {
	openssl req -new -newkey rsa:2048 -nodes -subj "/CN=$1" -keyout "$1.key" \
	    -out "$1.csr" 2>/dev/null
	openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -days 2 \
	    -set_serial 1 -out "$1.pem" \
	    -extfile <(echo "subjectAltName=DNS:$1") 2>/dev/null
}

authority() {
	openssl req -x509 -newkey rsa:2048 -nodes -subj "/CN=$1" -days 2 \
	    -keyout "$1.key" -out "$1.pem" 2>/dev/null
}

# A server, db.test, that wants TLS; it is known by ca.pem.
tls_server() {
	authority ca
	certificate db.test ca
	pg_make server "ssl = on" "ssl_cert_file = 'db.test.pem'" \
	    "ssl_key_file = 'db.test.key'"
	cp db.test.pem db.test.key "$PGDIR"
	[ "$(id -u)" -ne 0 ] || chown postgres "$PGDIR"/db.test.*
	chmod 600 "$PGDIR/db.test.key"
	sed -i 's/^host /hostssl /' "$PGDIR/pg_hba.conf"
	pg_start
	use_server
}

# looks_for_tickets URL: says whether.  It may wait for a name server.
looks_for_tickets() {
	strace -f -qq -e trace=%file -o trace "$LEASERUN" run -b "$1" job true
	if grep -q '/etc/gss/mech' trace; then
		echo yes
	else
		echo no
	fi
}

@test "Kerberos tickets are looked for only where gssencmode is given" {
	local url

	pg_setup
	url=$LEASERUN_BACKEND
	assert_equal "$(looks_for_tickets "$url")" no
	assert_equal "$(looks_for_tickets "$url?gssencmode=prefer")" yes
	assert_equal "$(PGGSSENCMODE=prefer looks_for_tickets "$url")" yes
	printf '[one]\ngssencmode=prefer\n[two]\ngssencmode=require\n' \
	    >services
	export PGSERVICEFILE=$PWD/services
	assert_equal "$(looks_for_tickets "$url?service=one")" no
	run_tool 69 run -b "$url?service=two" --connect-timeout 2s job true
	assert_contains "$stderr" GSSAPI
}

@test "sslmode=verify-full: the right one only" {
	local tls

	tls_server
	authority other
	tls="$PGPORT/postgres?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert"
	run_tool 0 run -b "postgres://postgres@db.test:$tls=$PWD/ca.pem" job -- \
	    touch ran
	[ -e ran ]
	run_tool 69 run --connect-timeout 2s \
	    -b "postgres://postgres@db.test:$tls=$PWD/other.pem" job -- touch no
	assert_contains "$stderr" "certificate verify failed"
	run_tool 69 run --connect-timeout 2s \
	    -b "postgres://postgres@localhost:$tls=$PWD/ca.pem" job -- touch no
	assert_contains "$stderr" "does not match host name"
	[ ! -e no ]
}

# The first thing said in a handshake holds the name of the server.
tls_behind_relay() {
	tls_server
	relay
	RELAYED="postgres://postgres@db.test:$RELAYPORT/postgres?hostaddr=$(\
	    )127.0.0.1&sslmode=verify-full&sslrootcert=$PWD/ca.pem"
}

@test "a TLS handshake that hangs: --connect-timeout, and TERM" {
	tls_behind_relay
	relay_set forget-at db.test
	within 8 69 "$LEASERUN" run -b "$RELAYED" --connect-timeout 1s job -- \
	    touch ran
	assert_contains "$(cat output)" "no answer from the server"
	file_has relay.log forgotten
	rm relay.log
	bounded_first 9 -b "$RELAYED" --connect-timeout 60s --wait inf
	wait_until 10 file_has relay.log forgotten
	kill -TERM "$keeper"
	assert_ends 143 "$first"
	assert_equal "$(lines start)" 0
	[ ! -e ran ]
}

@test "TLS handshakes that hang during a run: dead before the next grant" {
	tls_behind_relay
	first -b "$RELAYED" -- tree frozen ignore
	wait_until 10 ticking 5
	contender
	relay_set reset
	wait_until 10 file_has first "cannot renew the lease"
	relay_set forget-at db.test
	wait_until 10 file_has relay.log forgotten
	assert_succeeded 79
}

# A hot standby of the server, in $STANDBY.
standby() {
	local primary=$PGPORT dir=$PGDIR

	STANDBY=$(free_port)
	(cd / && as_postgres pg_basebackup -h "$dir" -p "$primary" -U postgres \
	    -R -c fast -D "$dir.standby")
	echo "port = $STANDBY" >>"$dir.standby/postgresql.conf"
	PGDIR=$dir.standby PGPORT=$STANDBY
	# The socket is in the folder that the copied configuration names.
	echo "unix_socket_directories = '$PGDIR'" >>"$PGDIR/postgresql.conf"
	pg_start
	PGDIR=$dir PGPORT=$primary
}

@test "a dead host, a standby, the primary: the primary, and never 75" {
	local dead attrs

	own_server
	[ "$(id -u)" -ne 0 ] || chown postgres "$BATS_TEST_TMPDIR"
	standby
	dead=$(free_port)
	for attrs in "" "?target_session_attrs=read-write" \
	    "?target_session_attrs=primary"; do
		run_tool 0 run -b "$(url "127.0.0.1:$dead,127.0.0.1:$STANDBY,$(\
		    )127.0.0.1:$PGPORT")$attrs" job -- touch ran
		[ -e ran ]
		rm ran
	done
	run_tool 69 run --connect-timeout 1s -b "$(url 127.0.0.1:$STANDBY)" \
	    job -- touch ran
	first -t 60s -- ticks=-1
	wait_until 10 ticking 1
	run_tool 69 run --connect-timeout 1s -b "$(url 127.0.0.1:$STANDBY)" \
	    job -- touch ran
	assert_contains "$stderr" "standby"
	[ ! -e ran ]
}

read_only() {
	sql "ALTER SYSTEM SET default_transaction_read_only = $1"
	sql "SELECT pg_reload_conf()" >/dev/null
}

@test "the server becomes read-only for a while: the job lives, nobody is let in" {
	own_server
	first -t 8s -- tree
	wait_until 10 ticking 4
	read_only on
	wait_until 10 file_has first "cannot renew the lease"
	run_tool 69 run --connect-timeout 1s job -- true
	read_only off
	wait_until 10 file_has first "renewed again"
	assert_equal "$(lines term)" 0
	kill -TERM "$first"
	assert_ends 143 "$first"
	assert_free_now
}

# --- i. Passwords ---

@test "no password in any output, in the job, or in a command line" {
	local word

	password_server
	sql "ALTER ROLE cron PASSWORD 's3cr3t-w0rd'"
	rm home/.pgpass
	export LEASERUN_BACKEND=postgres://cron:s3cr3t-w0rd@127.0.0.1:$PGPORT/postgres
	{
		run_tool 0 run -vv job -- sh -c 'env >env
			cat /proc/*/cmdline >cmdlines 2>/dev/null
			cat /proc/*/comm | sort -u'
		file_has env LEASERUN_BACKEND=postgres://cron:@127.0.0.1
		assert_contains "$stdout" leaserun-guard
		cat env cmdlines
		run_tool 0 status
		run_tool 0 status --json
		run_tool 0 doctor
		run_tool 0 init --print
		sql "ALTER ROLE cron PASSWORD 'else'"
		for word in run\ -vv\ job\ --\ true status doctor init; do
			# shellcheck disable=SC2086
			run_tool 77 $word
		done
		for word in "cron:s3cr3t-w0rd@127.0.0.1:1" \
		    "cron:s3cr3t-w0rd@127.0.0.1:bad" "cron:s3cr3t-w0rd@[::" \
		    "cron:s3cr3t-w0rd@no.host.invalid" \
		    "127.0.0.1:$PGPORT/x?user=cron&password=s3cr3t-w0rd&bad=1"; do
			LEASERUN_BACKEND=postgres://$word
			"$LEASERUN" run -vv --connect-timeout 500ms job -- \
			    true 2>&1 && fail "it ran"
		done
	} >everything
	test -s everything
	run grep -a s3cr3t everything
	assert_equal "$output" ""
}

@test "--once-per: a clock that is off by more than a tenth is refused" {
	local clock

	clock_server
	for clock in +8 -8 +1d -1d; do
		clock_is "$clock"
		run_tool 78 run "${FAKE[@]}" --once-per 1m job -- touch ran
		assert_contains "$stderr" \
		    "more than a tenth of the period of --once-per; set it"
		case $clock in
		+*) assert_contains "$stderr" "behind the server's" ;;
		-*) assert_contains "$stderr" "ahead of the server's" ;;
		esac
	done
	[ ! -e ran ]
	# Nothing is held; a longer period, or a key, does not mind.
	for clock in +8 -8; do
		clock_is "$clock"
		run_tool 0 run "${FAKE[@]}" --once-per 10m "job$clock" -- \
		    touch "ran$clock"
		run_tool 0 run "${FAKE[@]}" --once today "job$clock" -- \
		    touch "ran$clock.key"
	done
	[ -e ran+8 ] && [ -e ran-8 ] && [ -e ran+8.key ] && [ -e ran-8.key ]
}

@test "--once-per: an answer that is slow is not a wrong clock" {
	relay
	# Longer than a tenth of the period.
	relay_set delay 150
	run_tool 0 run "${FAKE[@]}" -b "$RELAYED" -t 30s -r 8s \
	    --once-per 1s job -- touch ran
	[ -e ran ]
}
