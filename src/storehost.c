/*
 * What a backend is given by the program while it works for a keeper: its only
 * way to wait, and whom to tell who holds the lease.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "holder.h"
#include "log.h"
#include "notify.h"
#include "report.h"
#include "signals.h"
#include "storehost.h"
#include "timeutil.h"
#include "util.h"

#define PROGRESS_EVERY	(10 * NS_PER_S)
#define WAIT_FDS	14

static const char hangs[] =
    "leaserun: the store's library does not come back, giving up\n";

struct leaserun_entry
storehost_holder(const struct store *st)
{
	struct leaserun_entry e = st->holder;
	int64_t since = (now_ns() - st->heard_at) / NS_PER_MS;

	if (e.held_for_ms >= 0)
		e.held_for_ms += since;
	if (e.expires_in_ms >= since)
		e.expires_in_ms -= since;
	else
		e.expires_in_ms = e.state == LEASERUN_HOLDING ? 0 : -1;
	return e;
}

static void
tell_progress(struct store *st)
{
	struct leaserun_entry e = storehost_holder(st);
	char text[256], waited[32];

	if (!st->is_held)
		return;
	holder_describe(&e, text, sizeof(text));
	holder_duration((now_ns() - st->wait_since) / NS_PER_MS, waited,
	    sizeof(waited));
	log_notice("'%s': waiting for %s; held by %s", st->s->shown, waited,
	    text);
}

void
storehost_bound(const struct store *st, int64_t from)
{
	signals_bound(time_add(from, time_add(STORE_CANCEL_BOUND,
	    st->s->conf->connect_timeout)), EXIT_UNAVAILABLE, hangs);
}

static struct store *
store_of(const struct leaserun_host *host)
{
	return host->keeper;
}

/*
 * The only place where a backend waits.  The bound on a library that blocks is
 * off meanwhile: here nothing can hang.
 */
static enum leaserun_result
host_wait(const struct leaserun_host *host, struct pollfd *fds, unsigned int n,
    int64_t deadline)
{
	struct store *st = store_of(host);
	struct pollfd all[WAIT_FDS + 3];
	unsigned int i;
	int rc;

	if (n > WAIT_FDS)
		return LEASERUN_UNAVAILABLE;
	for (i = 0; i < n; i++)
		all[i] = fds[i];
	all[n] = (struct pollfd){ .fd = st->timer, .events = POLLIN };
	all[n + 1] = (struct pollfd){
		.fd = st->is_releasing ? -1 : signals_fd(), .events = POLLIN };
	all[n + 2] = (struct pollfd){
		.fd = st->is_releasing || st->is_alone ? -1 : st->s->link,
		.events = POLLIN };
	if (st->is_acquiring)
		signals_bound(TIME_NEVER, 0, NULL);
	for (;;) {
		timer_arm(st->timer, time_earlier(deadline, st->progress_at));
		rc = poll(all, n + 3, -1);
		if (rc == -1 && errno == EINTR)
			continue;
		if (rc > 0 && all[n].revents != 0) {
			st->due_at = time_earlier(deadline, st->progress_at);
			st->woke_at = now_ns();
		}
		timer_clear(st->timer);		/* it changes errno */
		if (rc == -1)
			return LEASERUN_UNAVAILABLE;
		if (all[n + 1].revents != 0 || all[n + 2].revents != 0)
			return LEASERUN_INTERRUPTED;
		for (i = 0; i < n; i++) {
			fds[i].revents = all[i].revents;
			rc -= all[i].revents != 0;
		}
		if (all[n].revents == 0 || rc == 0 || now_ns() >= deadline)
			break;
		tell_progress(st);
		st->progress_at = time_add(now_ns(), PROGRESS_EVERY);
	}
	if (st->is_acquiring)
		storehost_bound(st, now_ns());
	return LEASERUN_OK;
}

/* Whether the owner is one of the runs that we are part of. */
static bool
is_in_chain(const char *chain, const char *owner)
{
	size_t len = strlen(owner);
	const char *p = chain;

	while (len > 0 && (p = strstr(p, owner)) != NULL) {
		if ((p == chain || p[-1] == ' ') &&
		    (p[len] == '\0' || p[len] == ' '))
			return true;
		p += len;
	}
	return false;
}

static bool
host_holder(const struct leaserun_host *host,
    const struct leaserun_entry *entry)
{
	struct store *st = store_of(host);
	char text[256];
	bool is_new;

	is_new = !st->is_held || strcmp(st->holder.owner, entry->owner) != 0;
	st->holder = *entry;
	st->is_held = true;
	st->heard_at = now_ns();
	/* What --min-hold keeps is over by itself, whoever had it. */
	if (entry->state != LEASERUN_HOLDING &&
	    is_in_chain(st->s->chain, entry->owner)) {
		st->is_outer = true;
		return false;
	}
	if (st->s->conf->wait > 0) {
		holder_identify(entry, text, sizeof(text));
		notify_status(st->s->notify, "waiting for '%s', held by %s",
		    st->s->shown, text);
	}
	if (is_new) {
		report_other(st->s->report, EVENT_BUSY, entry);
		holder_describe(entry, text, sizeof(text));
		log_info("'%s': held by %s", st->s->shown, text);
	}
	return st->s->conf->wait > 0;
}

void
storehost_setup(struct store *st, const struct keeper_setup *s)
{
	memset(st, 0, sizeof(*st));
	st->s = s;
	st->timer = -1;
	st->progress_at = st->due_at = TIME_NEVER;
	st->heard_at = st->wait_since = now_ns();
	st->plugin.host.keeper = st;
	st->plugin.host.wait = host_wait;
	st->plugin.host.holder = host_holder;
	/* Someone who looks on wants to know why nothing happens. */
	if (s->conf->wait > 0 && (log_level() >= LOG_LEVEL_INFO ||
	    isatty(STDERR_FILENO)))
		st->progress_at = time_add(now_ns(), PROGRESS_EVERY);
}

void
storehost_pause(struct store *st, int64_t at)
{
	host_wait(&st->plugin.host, NULL, 0, at);
}
