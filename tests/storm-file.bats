# A short storm over the file backend, always the same.  `make storm' has longer
# ones.

load helpers
load storm

@test "a storm of less than a minute: no promise is broken" {
	storm file 11
}
