/*
 * A module as it was built when the contract was published: against the header
 * that is kept beside it, which never changes.  It grants everything to
 * everyone and remembers nothing.  For tests/publish.bats, in several shapes:
 *
 *	-DSHORT		made before the last function existed
 *	-DLONG		made when there are functions that we do not know
 *	-DLACKING	without a function that is required
 *	-DCUT		ends in the middle of a pointer
 *	-DVERSION=N	made for another version
 */
#ifdef LONG
#define leaserun_backend	leaserun_backend_1
#endif
#include "leaserun-backend-1.h"
#undef leaserun_backend

#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION	LEASERUN_BACKEND_VERSION
#endif

static const struct leaserun_host *host;

static enum leaserun_result
old_open(const struct leaserun_host *h, const struct leaserun_target *target,
    void **self, unsigned int *endpoints)
{
	(void)target;
	if (!LEASERUN_HOST_HAS(h, random))
		abort();	/* the program has become smaller */
	host = h;
	*self = &host;
	*endpoints = 1;
	return LEASERUN_OK;
}

static void
old_close(void *self)
{
	(void)self;
}

static enum leaserun_result
old_acquire(void *self, const struct leaserun_request *request,
    int64_t deadline_ns, struct leaserun_grant *grant)
{
	(void)self;
	(void)deadline_ns;
	*grant = (struct leaserun_grant){ .token = 41, .hold_fd = -1,
	    .sent_ns = host->now(), .ttl_ns = request->ttl_ns };
	return LEASERUN_OK;
}

static enum leaserun_result
old_abandon(void *self, const char *name, const char *owner,
    int64_t deadline_ns)
{
	(void)self;
	(void)name;
	(void)owner;
	(void)deadline_ns;
	return LEASERUN_OK;
}

#ifndef LACKING
static enum leaserun_result
old_renew(void *self, const struct leaserun_lease *lease, int64_t deadline_ns,
    struct leaserun_renewal *renewal)
{
	(void)self;
	(void)deadline_ns;
	*renewal = (struct leaserun_renewal){ .sent_ns = host->now(),
	    .ttl_ns = lease->ttl_ns };
	return LEASERUN_OK;
}
#else
#define old_renew	NULL
#endif

static enum leaserun_result
old_release(void *self, const struct leaserun_lease *lease,
    const struct leaserun_end *end, int64_t deadline_ns)
{
	(void)self;
	(void)lease;
	(void)end;
	(void)deadline_ns;
	return LEASERUN_OK;
}

static enum leaserun_result
old_list(void *self, const char *name, int64_t deadline_ns,
    leaserun_entry_fn *fn, void *arg)
{
	struct leaserun_entry entry = { .state = LEASERUN_BUSY, .token = 41,
	    .expires_in_ms = 7000, .held_for_ms = 1000, .waiting = -1,
	    .label = "old label", .pid = 4242 };

	(void)self;
	(void)deadline_ns;
	strncpy(entry.name, name == NULL ? "old" : name,
	    sizeof(entry.name) - 1);
	fn(arg, &entry);
	return LEASERUN_OK;
}

static enum leaserun_result
old_revoke(void *self, const struct leaserun_revoke *revoke,
    int64_t deadline_ns, struct leaserun_entry *entry)
{
	(void)self;
	(void)revoke;
	(void)deadline_ns;
	*entry = (struct leaserun_entry){ .state = LEASERUN_FREE };
	return LEASERUN_OK;
}

static enum leaserun_result
old_init(void *self, const struct leaserun_init *init, int64_t deadline_ns,
    leaserun_line_fn *fn, void *arg)
{
	(void)self;
	(void)init;
	(void)deadline_ns;
	fn(arg, LEASERUN_GOOD, "old", "nothing to do");
	return LEASERUN_OK;
}

static enum leaserun_result
old_doctor(void *self, int64_t deadline_ns, leaserun_line_fn *fn, void *arg)
{
	(void)self;
	(void)deadline_ns;
	fn(arg, LEASERUN_NOTE, "old", "as good as ever");
	return LEASERUN_OK;
}

/* Where the struct of a SHORT one has ended; whoever reads on gets here. */
static enum leaserun_result
old_list_once(void *self, const char *name, int64_t deadline_ns,
    leaserun_entry_fn *fn, void *arg)
{
#ifdef SHORT
	abort();
#endif
	return old_list(self, name, deadline_ns, fn, arg);
}

#define FUNCTIONS							\
	.version = VERSION, .name = "old", .open = old_open,		\
	.close = old_close, .acquire = old_acquire,			\
	.abandon = old_abandon, .renew = old_renew,			\
	.release = old_release, .list = old_list,			\
	.revoke = old_revoke, .init = old_init, .doctor = old_doctor,	\
	.list_once = old_list_once

#ifdef LONG
extern const struct later leaserun_backend;
const struct later {
	struct leaserun_backend_1 known;
	void		(*unknown[3])(void);
} leaserun_backend = { .known = { .size = sizeof(struct later), FUNCTIONS },
	.unknown = { abort, abort, abort } };
#else
const struct leaserun_backend leaserun_backend = {
#if defined(SHORT)
	.size = offsetof(struct leaserun_backend, list_once),
#elif defined(CUT)
	.size = offsetof(struct leaserun_backend, doctor) + 4,
#else
	.size = sizeof(struct leaserun_backend),
#endif
	FUNCTIONS
};
#endif
