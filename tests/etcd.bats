# The etcd backend against real servers of the test's own.

load helpers
load etcd

setup() {
	test_setup
	unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
	curl_opts=()
	ctl_opts=()
	quick=(-t 6s -r 500ms -g 300ms)
}

# --- The contract, in C ---

@test "the etcd backend keeps the contract" {
	etcd_start
	run "$builddir/tests/contract" "$builddir/backends/.libs/etcd.so" \
	    "$ETCD"
	printf '%s\n' "$output"
	assert_equal "$status" 0
	assert_lacks "$output" "not ok"
	assert_contains "$output" "1.."
}

@test "it does so over TLS, with certificates, users and passwords" {
	etcd_secure
	run "$builddir/tests/contract" "$builddir/backends/.libs/etcd.so" \
	    "$ETCD" "${secure_opts[@]}"
	printf '%s\n' "$output"
	assert_equal "$status" 0
	assert_lacks "$output" "not ok"
	assert_contains "$output" "1.."
}
