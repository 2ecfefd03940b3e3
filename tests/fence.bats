# `leaserun fence': the highest token beside a file, and one writer at a time.

load helpers
load jobs

@test "a lower token is refused, an equal and a higher one are not" {
	run_tool 0 fence --token 33 data -- sh -c 'echo one >data'
	run_tool 0 fence --token 33 data -- sh -c 'echo two >data'
	run_tool 0 fence --token 34 data -- sh -c 'echo three >data'
	run_tool 75 fence --token 33 data -- sh -c 'echo late >data'
	assert_contains "$stderr" "token 33 is stale: 34 has written"
	assert_equal "$(cat data)" three
	assert_equal "$stdout" ""
}
