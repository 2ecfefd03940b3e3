# What programs and people are told of a lease in a real PostgreSQL: each reason
# for which it is lost, what a waiter sees, what is counted.

load helpers
load jobs
load postgres
load report

setup() {
	test_setup
	pg_setup
}

# row SET: changes the row of the lease.
row() {
	sql "UPDATE leaserun SET $1 WHERE name = 'job'"
}

@test "the server is gone: an outage" {
	told
	pg_stop QUIT
	assert_told outage "could not be renewed in time"
	assert_contains "$(names)" "acquired renew_failed"
	assert_event lost '.failures >= 1 and (.error | length) > 0'
	assert_event term '.reason == "deadline"'
}

@test "another holder has the row: taken over" {
	told
	row "owner = 'other:00000000000000000000000000000000', token = token + 1"
	assert_told taken_over "another holder has it"
	assert_event kill '.reason == "lost"'
}

@test "expired by hand and then taken in a run: taken over" {
	# One heartbeat only, a while from now.
	told -t 40s -r 10s
	row "expires_at = clock_timestamp() - interval '1s'"
	run_tool 0 run -w 5s job true
	assert_told taken_over "another holder has it"
}

@test "the row is deleted, or released by hand: deleted" {
	told
	sql "DELETE FROM leaserun WHERE name = 'job'"
	assert_told deleted "its record was removed or replaced"
	told
	row "state = 'released'"
	assert_told deleted "its record was removed or replaced"
}

@test "revoked: asked, and ended" {
	check_revoked
}

@test "revoked by force: freed, and ended" {
	told
	run_tool 0 revoke --force job
	assert_contains "$output" "two may run"
	assert_told forced "freed by revoke --force"
}

@test "stopped past the deadline: our own pause" {
	check_own_pause
}

@test "stopped past the deadline, and there is another holder: our own pause" {
	check_own_pause_and_successor
}

@test "it ran out at the server before its time: a clock" {
	told
	row "expires_at = clock_timestamp() - interval '1h'"
	assert_told clock "a clock was stepped there"
}

@test "who waits is told for whom" {
	check_waiter
}

@test "counters go on from run to run" {
	check_counters
}

@test "concurrent jobs write one file" {
	check_concurrent
}

@test "the server is gone when the end is to be recorded, and told to stop" {
	check_unrecorded pg_stop QUIT
}

@test "the server is gone for a while when the end is to be recorded" {
	check_recorded_late "pg_stop QUIT" pg_start
}
