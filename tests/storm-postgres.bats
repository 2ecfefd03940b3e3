# A short storm over the postgres backend, always the same.  `make storm' has longer
# ones.

load helpers
load storm

@test "a storm of less than a minute: no promise is broken" {
	storm postgres 12
}
