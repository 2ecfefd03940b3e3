# What programs and people are told of a lease in a real etcd: each reason for
# which it is lost, what a waiter sees, what is counted.

load helpers
load jobs
load etcd
load report

KEY=/test/lease/job/held

setup() {
	test_setup
	unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
	etcd_start
	use "$ETCD"
}

@test "the server is gone: an outage" {
	told
	etcd_stop
	assert_told outage "could not be renewed in time"
	assert_contains "$(names)" "acquired renew_failed"
	assert_event lost '.failures >= 1 and (.error | length) > 0'
	assert_event term '.reason == "deadline"'
}

@test "the server is frozen: an outage" {
	told
	freeze "$etcd_pid"
	assert_told outage "could not be renewed in time"
	assert_event lost '.failures >= 1 and (.error | length) > 0'
}

@test "the key is deleted and then taken in a run: taken over" {
	# One heartbeat only, a while from now.
	told -t 40s -r 10s
	ctl del $KEY
	bg "$LEASERUN" run --owner next job sh -c 'echo >taken; exec sleep 1000'
	wait_until 20 test -s taken
	assert_told taken_over "another holder has it"
	assert_event kill '.reason == "lost"'
}

@test "the key is deleted, written over, or its lease revoked: deleted" {
	local id

	told
	ctl del $KEY
	assert_told deleted "its record was removed or replaced"
	told
	ctl put $KEY nonsense
	assert_told deleted "its record was removed or replaced"
	run_tool 0 revoke --force job
	told
	id=$(ctl get $KEY -w fields | sed -n 's/^"Lease" : //p')
	ctl lease revoke "$(printf '%x' "$id")"
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
	check_unrecorded etcd_stop
}

@test "the server is gone for a while when the end is to be recorded" {
	check_recorded_late etcd_stop etcd_again
}
