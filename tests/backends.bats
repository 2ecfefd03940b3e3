#!/usr/bin/env bats
# Every promise of backends/leaserun-backend.h, asked of the backends directly.

load helpers
load postgres

@test "the file backend keeps the contract" {
	run "$builddir/tests/contract" builtin:file "file:$PWD/state"
	printf '%s\n' "$output"
	assert_equal "$status" 0
	assert_lacks "$output" "not ok"
	assert_contains "$output" "1.."
}

@test "the fake backend keeps the contract" {
	run "$builddir/tests/contract" "$MODULES/fake.so" "fake:$PWD/state"
	printf '%s\n' "$output"
	assert_equal "$status" 0
	assert_lacks "$output" "not ok"
	assert_contains "$output" "1.."
}

@test "the postgres backend keeps the contract" {
	pg_setup
	run "$builddir/tests/contract" "$BACKENDS/postgres.so" \
	    "$LEASERUN_BACKEND"
	printf '%s\n' "$output"
	assert_equal "$status" 0
	assert_lacks "$output" "not ok"
	assert_contains "$output" "1.."
}
