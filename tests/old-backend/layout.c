/*
 * Prints where everything is that modules are compiled against.  Built twice by
 * tests/publish.bats, with the header of today as HEADER and with the one that
 * was published; what they print must be the same.
 */
#include HEADER

#include <stdio.h>

#define SIZE(s)								\
	printf("%s %zu\n", #s, sizeof(struct s))
#define PLACE(s, m)							\
	printf("%s.%s %zu %zu\n", #s, #m, offsetof(struct s, m),	\
	    sizeof(((struct s *)NULL)->m))
#define VALUE(c)							\
	printf("%s %lld\n", #c, (long long)(c))

static void
values(void)
{
	VALUE(LEASERUN_OK);
	VALUE(LEASERUN_HELD);
	VALUE(LEASERUN_LOST);
	VALUE(LEASERUN_DONE);
	VALUE(LEASERUN_INTERRUPTED);
	VALUE(LEASERUN_UNAVAILABLE);
	VALUE(LEASERUN_DENIED);
	VALUE(LEASERUN_MISCONFIGURED);
	VALUE(LEASERUN_LOSS_NONE);
	VALUE(LEASERUN_LOSS_EXPIRED);
	VALUE(LEASERUN_LOSS_TAKEN);
	VALUE(LEASERUN_LOSS_DELETED);
	VALUE(LEASERUN_LOSS_FORCED);
	VALUE(LEASERUN_FREE);
	VALUE(LEASERUN_BUSY);
	VALUE(LEASERUN_HOLDING);
	VALUE(LEASERUN_REVOKING);
	VALUE(LEASERUN_UNREADABLE);
	VALUE(LEASERUN_GOOD);
	VALUE(LEASERUN_NOTE);
	VALUE(LEASERUN_WARN);
	VALUE(LEASERUN_BAD);
	VALUE(LEASERUN_BACKEND_VERSION);
	VALUE(LEASERUN_NAME_SIZE);
	VALUE(LEASERUN_LABEL_SIZE);
	VALUE(LEASERUN_OWNER_SIZE);
	VALUE(LEASERUN_HOST_SIZE);
	VALUE(LEASERUN_KEY_SIZE);
	VALUE(LEASERUN_ERROR_SIZE);
	VALUE(LEASERUN_TOKEN_MAX);
}

static void
entry(void)
{
	SIZE(leaserun_entry);
	PLACE(leaserun_entry, name);
	PLACE(leaserun_entry, state);
	PLACE(leaserun_entry, owner);
	PLACE(leaserun_entry, label);
	PLACE(leaserun_entry, host);
	PLACE(leaserun_entry, pid);
	PLACE(leaserun_entry, token);
	PLACE(leaserun_entry, acquired_ms);
	PLACE(leaserun_entry, renewed_ms);
	PLACE(leaserun_entry, expires_ms);
	PLACE(leaserun_entry, held_for_ms);
	PLACE(leaserun_entry, expires_in_ms);
	PLACE(leaserun_entry, waiting);
	PLACE(leaserun_entry, unclean);
	PLACE(leaserun_entry, has_end);
	PLACE(leaserun_entry, end_status);
	PLACE(leaserun_entry, end_ms);
	PLACE(leaserun_entry, ran_ms);
	PLACE(leaserun_entry, orphaned);
}

static void
request(void)
{
	SIZE(leaserun_request);
	PLACE(leaserun_request, name);
	PLACE(leaserun_request, owner);
	PLACE(leaserun_request, label);
	PLACE(leaserun_request, host);
	PLACE(leaserun_request, pid);
	PLACE(leaserun_request, ttl_ns);
	PLACE(leaserun_request, min_hold_ns);
	PLACE(leaserun_request, once_key);
	PLACE(leaserun_request, once_period_ns);
	PLACE(leaserun_request, wait);
	PLACE(leaserun_request, answer_ns);
}

static void
grant(void)
{
	SIZE(leaserun_grant);
	PLACE(leaserun_grant, token);
	PLACE(leaserun_grant, sent_ns);
	PLACE(leaserun_grant, ttl_ns);
	PLACE(leaserun_grant, hold_fd);
	PLACE(leaserun_grant, took_over);
	PLACE(leaserun_grant, previous);
}

static void
lease(void)
{
	SIZE(leaserun_lease);
	PLACE(leaserun_lease, name);
	PLACE(leaserun_lease, owner);
	PLACE(leaserun_lease, token);
	PLACE(leaserun_lease, ttl_ns);
}

static void
renewal(void)
{
	SIZE(leaserun_renewal);
	PLACE(leaserun_renewal, sent_ns);
	PLACE(leaserun_renewal, ttl_ns);
	PLACE(leaserun_renewal, revoke);
	PLACE(leaserun_renewal, loss);
}

static void
end(void)
{
	SIZE(leaserun_end);
	PLACE(leaserun_end, status);
	PLACE(leaserun_end, ran_ns);
	PLACE(leaserun_end, ran);
	PLACE(leaserun_end, once_key);
	PLACE(leaserun_end, once_period_ns);
	PLACE(leaserun_end, once_keep_ns);
}

static void
host(void)
{
	PLACE(leaserun_host, size);
	PLACE(leaserun_host, version);
	PLACE(leaserun_host, keeper);
	PLACE(leaserun_host, now);
	PLACE(leaserun_host, wait);
	PLACE(leaserun_host, holder);
	PLACE(leaserun_host, debug);
	PLACE(leaserun_host, error);
	PLACE(leaserun_host, random);
}

static void
option(void)
{
	SIZE(leaserun_option);
	PLACE(leaserun_option, key);
	PLACE(leaserun_option, value);
}

static void
target(void)
{
	SIZE(leaserun_target);
	PLACE(leaserun_target, url);
	PLACE(leaserun_target, options);
	PLACE(leaserun_target, noptions);
}

static void
revoke(void)
{
	SIZE(leaserun_revoke);
	PLACE(leaserun_revoke, name);
	PLACE(leaserun_revoke, token);
	PLACE(leaserun_revoke, force);
}

static void
init(void)
{
	SIZE(leaserun_init);
	PLACE(leaserun_init, print);
	PLACE(leaserun_init, raise_token);
}

static void
backend(void)
{
	PLACE(leaserun_backend, size);
	PLACE(leaserun_backend, version);
	PLACE(leaserun_backend, name);
	PLACE(leaserun_backend, open);
	PLACE(leaserun_backend, close);
	PLACE(leaserun_backend, acquire);
	PLACE(leaserun_backend, abandon);
	PLACE(leaserun_backend, renew);
	PLACE(leaserun_backend, release);
	PLACE(leaserun_backend, list);
	PLACE(leaserun_backend, revoke);
	PLACE(leaserun_backend, init);
	PLACE(leaserun_backend, doctor);
	PLACE(leaserun_backend, list_once);
}

int
main(void)
{
	values();
	entry();
	request();
	grant();
	lease();
	renewal();
	end();
	host();
	option();
	target();
	revoke();
	init();
	backend();
	return 0;
}
