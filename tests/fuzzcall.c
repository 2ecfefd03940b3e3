/* Calls a backend as the input says; see fuzz.h. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define NAME	"job"
#define OWNER	"host:00112233445566778899aabbccddeeff"

int64_t fuzz_deadline;

static void
acquire(const struct leaserun_backend *b, void *self,
    const struct leaserun_host *host, uint8_t how)
{
	struct leaserun_request request = {
		.name = NAME, .owner = OWNER, .label = "host", .host = "host",
		.pid = 7, .ttl_ns = INT64_C(10000000000),
		.min_hold_ns = (how & 1) != 0 ? INT64_C(20000000000) : 0,
		.once_key = (how & 2) != 0 ? "daily" : NULL,
		.once_period_ns = (how & 4) != 0 ? INT64_C(86400000000000) : 0,
		.wait = (how & 8) != 0, .answer_ns = INT64_C(3000000000),
	};
	struct leaserun_grant grant = { .hold_fd = -1 };

	fuzz_deadline = host->now() + ((how & 0x20) != 0 ?
	    INT64_C(3000000000) : INT64_C(60000000000));
	if (b->acquire(self, &request, fuzz_deadline, &grant) != LEASERUN_OK)
		return;
	fuzz_check(grant.token > 0 && grant.token <= LEASERUN_TOKEN_MAX);
	fuzz_check(grant.ttl_ns > 0 && grant.sent_ns > 0);
	if (grant.took_over)
		fuzz_entry(NULL, &grant.previous);
}

static void
call(const struct leaserun_backend *b, void *self,
    const struct leaserun_host *host, uint8_t what, uint8_t how)
{
	struct leaserun_lease lease = { .name = NAME, .owner = OWNER,
	    .token = 5, .ttl_ns = INT64_C(10000000000) };
	struct leaserun_end end = { .ran = true,
	    .once_key = (how & 1) != 0 ? "daily" : NULL,
	    .once_period_ns = (how & 2) != 0 ? INT64_C(86400000000000) : 0,
	    .once_keep_ns = INT64_C(86400000000000) };
	struct leaserun_revoke revoke = { .name = NAME,
	    .token = (how & 1) != 0 ? 5 : 0, .force = (how & 2) != 0 };
	struct leaserun_init init = { .print = (how & 1) != 0,
	    .raise_token = (how & 2) != 0 ? 9 : 0 };
	struct leaserun_renewal renewal = { 0 };
	struct leaserun_entry entry = { 0 };
	int64_t deadline = host->now() + INT64_C(60000000000);

	fuzz_deadline = deadline;
	switch (what) {
	case 'a':
		acquire(b, self, host, how);
		break;
	case 'b':
		b->abandon(self, NAME, OWNER, deadline);
		break;
	case 'r':
		if (b->renew(self, &lease, deadline, &renewal) == LEASERUN_OK)
			fuzz_check(renewal.ttl_ns > 0 && renewal.sent_ns > 0);
		break;
	case 'e':
		b->release(self, &lease, &end, deadline);
		break;
	case 'l':
		b->list(self, (how & 1) != 0 ? NAME : NULL, deadline,
		    fuzz_entry, NULL);
		break;
	case 'v':
		if (b->revoke(self, &revoke, deadline, &entry) == LEASERUN_OK)
			fuzz_entry(NULL, &entry);
		break;
	case 'i':
		b->init(self, &init, deadline, fuzz_line, NULL);
		break;
	case 'd':
		b->doctor(self, deadline, fuzz_line, NULL);
		break;
	default:
		b->list_once(self, NAME, deadline, fuzz_entry, NULL);
		break;
	}
}

void
fuzz_calls(const struct leaserun_backend *b, struct fuzz *f, const char *url)
{
	const struct leaserun_host *host = fuzz_host();
	char *given = NULL, *key = NULL, *value = NULL;
	struct leaserun_option option = { NULL, NULL };
	struct leaserun_target target = { .url = url, .options = &option };
	uint8_t what = fuzz_byte(f), how = fuzz_byte(f), i;
	unsigned int endpoints;
	void *self;

	if (what == 'u') {
		target.url = given = fuzz_text(f, '\n');
		option.key = key = fuzz_text(f, '\n');
		option.value = value = fuzz_text(f, '\n');
		target.noptions = 1;
	}
	/* The scheme is how a backend is found. */
	if (strchr(target.url, ':') != NULL &&
	    b->open(host, &target, &self, &endpoints) == LEASERUN_OK) {
		fuzz_check(endpoints > 0);
		call(b, self, host, what, how);
		/* What one call has kept is met by the next ones. */
		for (i = 0; i < 3 && f->size > 0 && what != 'u'; i++)
			call(b, self, host, fuzz_byte(f), how);
		b->close(self);
	}
	free(given);
	free(key);
	free(value);
}
