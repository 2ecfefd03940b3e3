# A short storm over the etcd backend, always the same.  `make storm' has longer
# ones.

load helpers
load storm

# Starting a store on a busy machine may take longer than all the rest.
export BATS_TEST_TIMEOUT=300

@test "a storm of less than a minute: no promise is broken" {
	storm etcd 13
}
