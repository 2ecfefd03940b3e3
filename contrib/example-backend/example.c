/*
 * A backend to be copied: leases in one file that the processes of this host
 * share.  Has all that leaserun-backend(3) asks for but --once records, which
 * a backend may leave out.
 *
 *	example:/run/leases
 *
 * The file has a slot for each name, and the first one for the floor of the
 * tokens.  Whoever works on it has it locked, and writes one slot with one
 * pwrite(2) inside a page, which a kill does not split.  Its times are since
 * boot, so it must not survive one: keep it in /run or a tmpfs like it.
 */
#define _GNU_SOURCE
#include <sys/param.h>

#include <errno.h>
#include <fcntl.h>
#include <leaserun-backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS	INT64_C(1000000)
#define LOCK_POLL_NS	NS_PER_MS
#define WAIT_POLL_NS	(20 * NS_PER_MS)
#define SLOT_SIZE	2048	/* a part of a page */
#define FLOOR		""	/* the name of the first slot */

struct example {
	const struct leaserun_host *host;
	char		*path;		/* owned */
};

/*
 * A slot: a token belongs to one grant, so it is what the marks go by.  The
 * layout of an entry is fixed by the contract.
 */
struct record {
	struct leaserun_entry entry;	/* of the last grant; the floor is a
					 * token */
	bool		held;
	int64_t		acquired_ns;
	int64_t		expires_ns;
	int64_t		hold_until_ns;	/* --min-hold; 0: none */
	uint64_t	asked;		/* revoked: this grant */
	uint64_t	forced;		/* freed by force: this grant */
	uint64_t	ended;		/* released: this grant */
};

_Static_assert(sizeof(struct record) <= SLOT_SIZE, "a slot is too small");

/* The file, locked, and the slot of a name. */
struct table {
	const struct example *e;
	int		 fd;
	uint64_t	 floor;
	off_t		 at;		/* of the record */
	bool		 known;		/* the record was there */
	struct record	 r;
};

static int64_t
unix_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / NS_PER_MS;
}

/* --- The file --- */

static enum leaserun_result
file_failed(const struct example *e, const char *what)
{
	int error = errno;

	e->host->error(e->host, "cannot %s '%s': %s%s", what, e->path,
	    strerror(error), error == ENOENT ? "; run 'leaserun init'" : "");
	if (error == ENOENT)
		return LEASERUN_MISCONFIGURED;
	return error == EACCES || error == EPERM ? LEASERUN_DENIED :
	    LEASERUN_UNAVAILABLE;
}

/*
 * Polled for, since whoever has it may be stopped for ever, and every wait of a
 * backend goes through host->wait.
 */
static enum leaserun_result
file_lock(const struct example *e, int fd, int64_t deadline_ns)
{
	const struct leaserun_host *host = e->host;
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	enum leaserun_result result;
	int64_t now;

	while (fcntl(fd, F_OFD_SETLK, &lock) == -1) {
		if (errno != EAGAIN && errno != EACCES)
			return file_failed(e, "lock");
		now = host->now();
		if (now >= deadline_ns) {
			host->error(host, "'%s' stays locked by another "
			    "process; is one stopped?", e->path);
			return LEASERUN_UNAVAILABLE;
		}
		result = host->wait(host, NULL, 0,
		    MIN(now + LOCK_POLL_NS, deadline_ns));
		if (result != LEASERUN_OK) {
			host->error(host, "interrupted");
			return result;
		}
	}
	return LEASERUN_OK;
}

static enum leaserun_result
file_is_foreign(const struct example *e)
{
	e->host->error(e->host, "'%s' is no store of the example backend; "
	    "remove it and run 'leaserun init'", e->path);
	return LEASERUN_MISCONFIGURED;
}

/*
 * The record at t->at, unless the file ends there.  What cannot be read is not
 * the end: the name may be behind it.
 */
static enum leaserun_result
record_read(struct table *t, bool *there)
{
	ssize_t n;

	memset(&t->r, 0, sizeof(t->r));
	n = pread(t->fd, &t->r, sizeof(t->r), t->at);
	*there = n == (ssize_t)sizeof(t->r);
	if (n == -1)
		return file_failed(t->e, "read");
	return n == 0 || *there ? LEASERUN_OK : file_is_foreign(t->e);
}

/*
 * Locks the file until t->fd is closed, and finds the name; one that is not
 * there gets the slot at the end, when it is written.  flag: 0, O_CREAT.
 */
static enum leaserun_result
table_open(struct table *t, const struct example *e, const char *name,
    int flag, int64_t deadline_ns)
{
	enum leaserun_result result;
	bool there = false;

	memset(t, 0, sizeof(*t));
	t->e = e;
	t->fd = open(e->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flag, 0600);
	if (t->fd == -1)
		return file_failed(e, "open");
	result = file_lock(e, t->fd, deadline_ns);
	if (result == LEASERUN_OK)
		result = record_read(t, &there);
	if (result == LEASERUN_OK && (there ? t->r.entry.name[0] != '\0' :
	    flag != O_CREAT))
		result = file_is_foreign(e);
	while (result == LEASERUN_OK && there) {
		if (t->at == 0)
			t->floor = t->r.entry.token;
		t->known = strcmp(t->r.entry.name, name) == 0;
		if (t->known)
			return LEASERUN_OK;
		t->at += SLOT_SIZE;
		result = record_read(t, &there);
	}
	if (result != LEASERUN_OK) {
		close(t->fd);
		return result;
	}
	memset(&t->r, 0, sizeof(t->r));
	snprintf(t->r.entry.name, sizeof(t->r.entry.name), "%s", name);
	return LEASERUN_OK;
}

static enum leaserun_result
record_write(struct table *t)
{
	char slot[SLOT_SIZE] = { 0 };

	memcpy(slot, &t->r, sizeof(t->r));
	errno = ENOSPC;		/* if it is written in part */
	return pwrite(t->fd, slot, sizeof(slot), t->at) == SLOT_SIZE ?
	    LEASERUN_OK : file_failed(t->e, "write");
}

/* --- The rules: what a record means at a time --- */

static bool
live(const struct record *r, int64_t now)
{
	return r->held && now < r->expires_ns;
}

static bool
ours(const struct record *r, const struct leaserun_lease *lease, int64_t now)
{
	return live(r, now) && r->entry.token == lease->token &&
	    strcmp(r->entry.owner, lease->owner) == 0;
}

/* As the program sees it.  How the last run ended stays when it is free. */
static void
entry_make(const struct record *r, int64_t now, struct leaserun_entry *entry)
{
	*entry = r->entry;
	entry->held_for_ms = entry->expires_in_ms = entry->waiting = -1;
	if (!live(r, now) && now >= r->hold_until_ns) {
		entry->state = LEASERUN_FREE;
		entry->unclean = r->held || (r->forced != 0 &&
		    r->forced == r->entry.token);
		entry->owner[0] = entry->label[0] = entry->host[0] = '\0';
		entry->pid = entry->acquired_ms = entry->renewed_ms = 0;
		return;
	}
	if (live(r, now)) {
		entry->state = r->asked == r->entry.token ?
		    LEASERUN_REVOKING : LEASERUN_BUSY;
		entry->expires_in_ms = (r->expires_ns - now) / NS_PER_MS;
	} else {
		entry->state = LEASERUN_HOLDING;
		entry->expires_in_ms = (r->hold_until_ns - now) / NS_PER_MS;
	}
	entry->held_for_ms = (now - r->acquired_ns) / NS_PER_MS;
	entry->expires_ms = unix_ms() + entry->expires_in_ms;
}

/* A new name starts at the Unix time, so that a lost file does no harm. */
static uint64_t
token_next(const struct table *t)
{
	if (t->r.entry.token == 0)
		return MAX((uint64_t)unix_ms(), t->floor + 1);
	return MAX(t->r.entry.token, t->floor) + 1;
}

static void
holder_set(struct record *r, const struct leaserun_request *request,
    int64_t now)
{
	struct leaserun_entry *entry = &r->entry;

	snprintf(entry->owner, sizeof(entry->owner), "%s", request->owner);
	snprintf(entry->label, sizeof(entry->label), "%s", request->label);
	snprintf(entry->host, sizeof(entry->host), "%s", request->host);
	entry->pid = request->pid;
	entry->acquired_ms = unix_ms();
	r->held = true;
	r->acquired_ns = now;
	r->hold_until_ns = request->min_hold_ns > 0 ?
	    now + request->min_hold_ns : 0;
}

/*
 * OK, HELD.  The owner of a live lease finds it again, with its token: its
 * first answer may have been lost.
 */
static enum leaserun_result
record_take(struct table *t, const struct leaserun_request *request,
    int64_t now, struct leaserun_grant *grant)
{
	struct record *r = &t->r;
	struct leaserun_entry before;
	bool again;

	entry_make(r, now, &before);
	again = r->held && strcmp(r->entry.owner, request->owner) == 0;
	if (!again && before.state != LEASERUN_FREE)
		return LEASERUN_HELD;
	if (!again && before.unclean) {
		grant->took_over = true;
		grant->previous = r->entry;
	}
	if (!again || !live(r, now)) {
		r->entry.token = token_next(t);
		holder_set(r, request, now);
	}
	r->expires_ns = now + request->ttl_ns;
	r->entry.renewed_ms = unix_ms();
	grant->token = r->entry.token;
	grant->sent_ns = now;
	grant->ttl_ns = request->ttl_ns;
	grant->hold_fd = -1;
	return LEASERUN_OK;
}

/* --- The calls, as in struct leaserun_backend --- */

static enum leaserun_result
example_open(const struct leaserun_host *host,
    const struct leaserun_target *target, void **self,
    unsigned int *endpoints)
{
	const char *colon = strchr(target->url, ':');
	struct example *e;

	if (target->noptions > 0) {
		host->error(host, "no option '%s'; the example backend has "
		    "none", target->options[0].key);
		return LEASERUN_MISCONFIGURED;
	}
	if (colon == NULL || colon[1] != '/') {
		host->error(host, "the URL is not example:/absolute/file");
		return LEASERUN_MISCONFIGURED;
	}
	e = calloc(1, sizeof(*e));
	if (e != NULL)
		e->path = strdup(colon + 1);
	if (e == NULL || e->path == NULL) {
		free(e);
		host->error(host, "no memory");
		return LEASERUN_MISCONFIGURED;
	}
	e->host = host;
	*self = e;
	*endpoints = 1;
	return LEASERUN_OK;
}

static void
example_close(void *self)
{
	struct example *e = self;

	free(e->path);
	free(e);
}

/* One attempt.  *holder: who has it, with HELD. */
static enum leaserun_result
try(const struct example *e, const struct leaserun_request *request,
    int64_t deadline_ns, struct leaserun_grant *grant,
    struct leaserun_entry *holder)
{
	int64_t now = e->host->now();
	enum leaserun_result result;
	struct table t;

	if (request->answer_ns > 0)
		deadline_ns = MIN(deadline_ns, now + request->answer_ns);
	result = table_open(&t, e, request->name, 0, deadline_ns);
	if (result != LEASERUN_OK)
		return result;
	now = e->host->now();
	result = record_take(&t, request, now, grant);
	if (result == LEASERUN_OK)
		result = record_write(&t);
	else
		entry_make(&t.r, now, holder);
	close(t.fd);
	return result;
}

static enum leaserun_result
example_acquire(void *self, const struct leaserun_request *request,
    int64_t deadline_ns, struct leaserun_grant *out)
{
	const struct example *e = self;
	const struct leaserun_host *host = e->host;
	struct leaserun_grant grant;
	struct leaserun_entry holder;
	enum leaserun_result result;
	int64_t now;

	for (;;) {
		memset(&grant, 0, sizeof(grant));
		result = try(e, request, deadline_ns, &grant, &holder);
		if (result != LEASERUN_HELD)
			break;
		now = host->now();
		if (!host->holder(host, &holder) || !request->wait ||
		    now >= deadline_ns)
			return LEASERUN_HELD;
		result = host->wait(host, NULL, 0,
		    MIN(now + WAIT_POLL_NS, deadline_ns));
		if (result != LEASERUN_OK)
			return result;
	}
	if (result == LEASERUN_OK)
		*out = grant;
	return result;
}

static enum leaserun_result
example_abandon(void *self, const char *name, const char *owner,
    int64_t deadline_ns)
{
	enum leaserun_result result;
	struct table t;

	result = table_open(&t, self, name, 0, deadline_ns);
	if (result != LEASERUN_OK)
		return result;
	if (t.r.held && strcmp(t.r.entry.owner, owner) == 0) {
		t.r.held = false;
		t.r.hold_until_ns = 0;
		result = record_write(&t);
	}
	close(t.fd);
	return result;
}

static enum leaserun_result
example_renew(void *self, const struct leaserun_lease *lease,
    int64_t deadline_ns, struct leaserun_renewal *renewal)
{
	const struct example *e = self;
	enum leaserun_result result;
	struct table t;
	int64_t now;

	result = table_open(&t, e, lease->name, 0, deadline_ns);
	if (result != LEASERUN_OK)
		return result;
	now = e->host->now();
	if (ours(&t.r, lease, now)) {
		t.r.expires_ns = now + lease->ttl_ns;
		t.r.entry.renewed_ms = unix_ms();
		result = record_write(&t);
	} else {
		renewal->loss = !t.known ? LEASERUN_LOSS_DELETED :
		    t.r.forced == lease->token ? LEASERUN_LOSS_FORCED :
		    live(&t.r, now) ? LEASERUN_LOSS_TAKEN :
		    LEASERUN_LOSS_EXPIRED;
		result = LEASERUN_LOST;
	}
	close(t.fd);
	if (result == LEASERUN_OK) {
		renewal->sent_ns = now;
		renewal->ttl_ns = lease->ttl_ns;
		renewal->revoke = t.r.asked == lease->token;
		renewal->loss = LEASERUN_LOSS_NONE;
	}
	return result;
}

static enum leaserun_result
example_release(void *self, const struct leaserun_lease *lease,
    const struct leaserun_end *end, int64_t deadline_ns)
{
	const struct example *e = self;
	enum leaserun_result result;
	struct table t;

	result = table_open(&t, e, lease->name, 0, deadline_ns);
	if (result != LEASERUN_OK)
		return result;
	if (ours(&t.r, lease, e->host->now())) {
		t.r.held = false;
		t.r.ended = lease->token;
		if (end->ran) {
			t.r.entry.has_end = true;
			t.r.entry.end_status = end->status;
			t.r.entry.end_ms = unix_ms();
			t.r.entry.ran_ms = end->ran_ns / NS_PER_MS;
		} else {
			t.r.hold_until_ns = 0;	/* nothing to run twice */
		}
		result = record_write(&t);
	} else if (t.r.ended != lease->token) {
		result = LEASERUN_LOST;
	}
	close(t.fd);
	return result;
}

static enum leaserun_result
example_list(void *self, const char *name, int64_t deadline_ns,
    leaserun_entry_fn *fn, void *arg)
{
	const struct example *e = self;
	struct leaserun_entry entry;
	enum leaserun_result result;
	bool there = true;
	struct table t;

	result = table_open(&t, e, name == NULL ? FLOOR : name, 0,
	    deadline_ns);
	if (result != LEASERUN_OK)
		return result;
	while (result == LEASERUN_OK && there) {
		entry_make(&t.r, e->host->now(), &entry);
		if (entry.name[0] != '\0')	/* not the floor */
			fn(arg, &entry);
		t.at += SLOT_SIZE;
		there = false;
		if (name == NULL)
			result = record_read(&t, &there);
	}
	close(t.fd);
	return result;
}

static enum leaserun_result
example_revoke(void *self, const struct leaserun_revoke *revoke,
    int64_t deadline_ns, struct leaserun_entry *out)
{
	const struct example *e = self;
	struct leaserun_entry entry;
	enum leaserun_result result;
	struct table t;
	bool busy;

	result = table_open(&t, e, revoke->name, 0, deadline_ns);
	if (result != LEASERUN_OK)
		return result;
	entry_make(&t.r, e->host->now(), &entry);
	busy = entry.state == LEASERUN_BUSY ||
	    entry.state == LEASERUN_REVOKING;
	if (entry.state != LEASERUN_FREE && revoke->token != 0 &&
	    revoke->token != entry.token) {
		result = LEASERUN_HELD;
	} else if (revoke->force) {
		t.r.hold_until_ns = 0;
		if (busy) {
			t.r.forced = entry.token;
			t.r.held = false;
		}
	} else if (busy) {
		t.r.asked = entry.token;
		entry.state = LEASERUN_REVOKING;
	}
	if (result == LEASERUN_OK && t.known)
		result = record_write(&t);
	close(t.fd);
	if (result == LEASERUN_OK || result == LEASERUN_HELD)
		*out = entry;
	return result;
}

static enum leaserun_result
example_init(void *self, const struct leaserun_init *init,
    int64_t deadline_ns, leaserun_line_fn *fn, void *arg)
{
	const struct example *e = self;
	enum leaserun_result result = LEASERUN_OK;
	struct table t;

	if (init->raise_token >= (uint64_t)LEASERUN_TOKEN_MAX) {
		e->host->error(e->host, "no token is above that; give a lower "
		    "number");
		return LEASERUN_MISCONFIGURED;
	}
	if (!init->print) {
		result = table_open(&t, e, FLOOR, O_CREAT, deadline_ns);
		if (result != LEASERUN_OK)
			return result;
		t.r.entry.token = MAX(t.floor, init->raise_token);
		result = record_write(&t);
		close(t.fd);
	}
	if (result == LEASERUN_OK)
		fn(arg, LEASERUN_GOOD, "file", e->path);
	return result;
}

static enum leaserun_result
example_doctor(void *self, int64_t deadline_ns, leaserun_line_fn *fn,
    void *arg)
{
	const struct example *e = self;
	enum leaserun_result result;
	struct table t;

	result = table_open(&t, e, FLOOR, 0, deadline_ns);
	if (result != LEASERUN_OK)
		return result;
	close(t.fd);
	fn(arg, LEASERUN_GOOD, "file", e->path);
	fn(arg, LEASERUN_NOTE, "reach", "the processes of this host only");
	return LEASERUN_OK;
}

const struct leaserun_backend leaserun_backend = {
	.size = sizeof(struct leaserun_backend),
	.version = LEASERUN_BACKEND_VERSION,
	.name = "example",
	.open = example_open,
	.close = example_close,
	.acquire = example_acquire,
	.abandon = example_abandon,
	.renew = example_renew,
	.release = example_release,
	.list = example_list,
	.revoke = example_revoke,
	.init = example_init,
	.doctor = example_doctor
};
