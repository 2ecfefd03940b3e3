/*
 * Opens the backend, acquires, waits, gives up, renews and releases on the
 * keeper's behalf.  Must never read "cannot tell" as "held" or as "lost".
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "holder.h"
#include "leave.h"
#include "log.h"
#include "notify.h"
#include "report.h"
#include "signals.h"
#include "store.h"
#include "storehost.h"
#include "timeutil.h"
#include "util.h"

#define BACKOFF_MIN	(100 * NS_PER_MS)
#define BACKOFF_MAX	(2 * NS_PER_S)
#define ATTEMPT_MAX	(2 * NS_PER_S)
#define ATTEMPT_MIN	(50 * NS_PER_MS)
/* Three requests without an answer fit into the connect timeout. */
#define ANSWER_MAX	(5 * NS_PER_S)
/* With less than these a backend fails, and waiting does not help. */
#define FDS_LEAST	6

static void
tell_manager(const struct store *st, enum report_refusal refusal)
{
	const char *why = st->plugin.error, *by = "";
	char holder[256];

	if (refusal == REFUSED_DONE)
		why = "it is done";
	else if (refusal == REFUSED_INTERRUPTED)
		why = "told to stop";
	else if (st->is_held && (refusal == REFUSED_HELD ||
	    refusal == REFUSED_BLOCKED || refusal == REFUSED_OUTER)) {
		holder_identify(&st->holder, holder, sizeof(holder));
		by = "held by ";
		why = holder;
	}
	notify_stopping(st->s->notify, "'%s' not run: %s%s", st->s->shown, by,
	    why);
}

/* The command is not run; why is said next. */
static void
refused(const struct store *st, enum report_refusal refusal, int status)
{
	struct leaserun_entry holder = storehost_holder(st);

	tell_manager(st, refusal);
	st->s->report->waited_ns = now_ns() - st->wait_since;
	report_refusal(st->s->report, refusal, status,
	    st->is_held ? &holder : NULL, st->plugin.error);
}

bool
store_events(struct store *st)
{
	int signo;

	signals_clear();
	if (signals_cancelled()) {
		st->leave = EXIT_SIGNAL + signals_cancelled();
		return true;
	}
	if (signals_guard_ended()) {
		log_error("'%s': the guard is gone, the command is not "
		    "started", st->s->shown);
		st->leave = EXIT_INTERNAL;
		return true;
	}
	if ((signo = signals_take_stop()) != 0)
		leave_stopped(signo);
	return false;
}

/* What may have been granted is given back, within two seconds. */
static void
abandon(struct store *st, int status)
{
	int64_t limit = time_add(now_ns(), STORE_CANCEL_BOUND);

	st->is_releasing = true;
	signals_bound(limit, status, NULL);
	st->plugin.ops->abandon(st->plugin.self, st->s->name, st->s->owner,
	    limit);
	signals_bound(TIME_NEVER, 0, NULL);
}

/* Held elsewhere: quiet, unless someone should look. */
static int
skip(struct store *st)
{
	struct leaserun_entry holder = storehost_holder(st);
	const struct conf *conf = st->s->conf;
	char text[256];

	if (st->is_outer) {
		refused(st, REFUSED_OUTER, EXIT_USAGE);
		log_error("'%s' is held by an outer run of this one, which "
		    "would wait for itself; use another name", st->s->shown);
		return EXIT_USAGE;
	}
	holder_describe(&holder, text, sizeof(text));
	if (conf->complain_after != TIME_NEVER && st->is_held &&
	    holder.held_for_ms >= conf->complain_after / NS_PER_MS) {
		refused(st, REFUSED_BLOCKED, EXIT_HELD);
		log_error("'%s' has been blocked by %s", st->s->shown, text);
		return EXIT_HELD;
	}
	refused(st, REFUSED_HELD, conf->conflict_exit_code);
	if (conf->wait > 0)
		log_info("'%s': not run, the wait ran out", st->s->shown);
	else
		log_info("'%s': not run, it is held", st->s->shown);
	return conf->conflict_exit_code;
}

/* Why there is no lease, said once; the exit status. */
static int
refuse(struct store *st, enum leaserun_result result)
{
	if (result == LEASERUN_UNAVAILABLE && !fds_left(FDS_LEAST)) {
		refused(st, REFUSED_INTERNAL, EXIT_INTERNAL);
		log_error("'%s': the command is not started: %s%s",
		    st->s->shown, st->plugin.error, limit_hint(EMFILE));
		return EXIT_INTERNAL;
	}
	switch (result) {
	case LEASERUN_HELD:
		return skip(st);
	case LEASERUN_DONE:
		refused(st, REFUSED_DONE, EXIT_OK);
		log_info("'%s': not run, it is done (%s)", st->s->shown,
		    st->s->once_shown);
		return EXIT_OK;
	case LEASERUN_UNAVAILABLE:
	case LEASERUN_INTERRUPTED:
	case LEASERUN_OK:
	case LEASERUN_LOST:
		refused(st, REFUSED_UNAVAILABLE, EXIT_UNAVAILABLE);
		log_error("'%s': the store cannot be reached or cannot "
		    "answer, the command is not started: %s", st->s->shown,
		    st->plugin.error);
		return EXIT_UNAVAILABLE;
	case LEASERUN_DENIED:
	case LEASERUN_MISCONFIGURED:
		break;
	}
	refused(st, result == LEASERUN_DENIED ? REFUSED_DENIED :
	    REFUSED_MISCONFIGURED, plugin_exit_status(result));
	log_error("'%s': %s", st->s->shown, st->plugin.error);
	return plugin_exit_status(result);
}

/* Until when one call of acquire() may go on. */
static int64_t
acquire_deadline(const struct store *st, int64_t limit)
{
	if (st->s->conf->wait > 0)
		return limit;
	return time_add(st->wait_since, st->s->conf->connect_timeout);
}

/*
 * A store that has told of a holder may have nothing to say for long: then its
 * silence counts from the first answer on that did not come.
 */
static bool
is_hopeless(const struct store *st, int64_t limit, int64_t failing_at,
    int64_t now)
{
	return now >= limit || now >= time_add(time_later(st->heard_at,
	    failing_at), st->s->conf->connect_timeout);
}

/* The wait is over, and it was held when the store was last heard. */
static bool
is_held_at_last(const struct store *st, int64_t limit, int64_t now)
{
	return st->is_held && now >= limit &&
	    now < time_add(st->heard_at, st->s->conf->connect_timeout);
}

/* Repeats the same request while the answer is not one. */
static enum leaserun_result
acquire(struct store *st, const struct leaserun_request *request,
    struct leaserun_grant *grant)
{
	const struct conf *conf = st->s->conf;
	int64_t limit = TIME_NEVER, backoff = BACKOFF_MIN, begun;
	int64_t failing_at = 0;
	char reason[sizeof(st->plugin.error)] = "";
	enum leaserun_result result;

	if (conf->wait > 0)
		limit = time_add(st->wait_since, conf->wait);
	for (;;) {
		begun = now_ns();
		storehost_bound(st, begun);
		result = st->plugin.ops->acquire(st->plugin.self, request,
		    acquire_deadline(st, limit), grant);
		signals_bound(TIME_NEVER, 0, NULL);
		if (result != LEASERUN_UNAVAILABLE &&
		    result != LEASERUN_INTERRUPTED)
			return result;
		if (store_events(st))
			return LEASERUN_INTERRUPTED;
		if (result == LEASERUN_INTERRUPTED)
			continue;
		/* Held when it was heard last, but it may be ours by now. */
		if (is_held_at_last(st, limit, now_ns())) {
			st->is_unsure = true;
			return LEASERUN_HELD;
		}
		if (st->is_held && failing_at <= st->heard_at)
			failing_at = now_ns();
		if (is_hopeless(st, limit, failing_at, now_ns()) ||
		    !fds_left(FDS_LEAST)) {
			/* A try that was cut short knows no better. */
			if (reason[0] != '\0' && time_add(begun,
			    request->answer_ns) > now_ns())
				memcpy(st->plugin.error, reason,
				    sizeof(reason));
			return result;
		}
		memcpy(reason, st->plugin.error, sizeof(reason));
		notify_status(st->s->notify, "asking for '%s' again: %s",
		    st->s->shown, reason);
		log_debug("'%s': trying again: %s", st->s->shown,
		    st->plugin.error);
		storehost_pause(st, time_earlier(limit, time_add(now_ns(),
		    backoff / 2 +
		    (int64_t)random_below((uint64_t)backoff))));
		backoff = time_earlier(2 * backoff, BACKOFF_MAX);
		if (store_events(st))
			return LEASERUN_INTERRUPTED;
	}
}

static enum leaserun_result
open_backend(struct store *st)
{
	struct leaserun_target target = {
		.url = st->s->conf->backend,
		.options = st->s->conf->options,
		.noptions = st->s->conf->noptions,
	};

	return plugin_open(&st->plugin, &target, st->s->conf->module_dir);
}

bool
store_skips(struct store *st, const struct keeper_setup *s, int *status)
{
	const struct leaserun_request request = {
		.name = s->name, .once_key = s->once_key,
		.once_period_ns = s->conf->once_per,
	};
	enum leaserun_result result;

	storehost_setup(st, s);
	/* What fails here is tried again, and told, where it is needed. */
	if (!plugin_is_built_in(s->conf->backend) ||
	    open_backend(st) != LEASERUN_OK || s->conf->wait > 0 || (result =
	    plugin_refuses(&st->plugin, &request)) == LEASERUN_OK)
		return false;
	*status = refuse(st, result);
	plugin_close(&st->plugin);
	return true;
}

/* In the bound that a library may need. */
static enum leaserun_result
open_in_time(struct store *st)
{
	enum leaserun_result result;

	if (st->plugin.self != NULL)
		return LEASERUN_OK;
	storehost_bound(st, now_ns());
	result = open_backend(st);
	signals_bound(TIME_NEVER, 0, NULL);
	return result;
}

bool
store_acquire(struct store *st, const struct keeper_setup *s,
    struct leaserun_grant *grant, int *status)
{
	char host[LEASERUN_HOST_SIZE] = "";
	struct leaserun_request request = {
		.name = s->name, .owner = s->owner, .label = s->conf->owner,
		.host = host, .pid = getpid(), .ttl_ns = s->conf->ttl,
		.min_hold_ns = s->conf->min_hold, .wait = s->conf->wait > 0,
		.once_key = s->once_key, .once_period_ns = s->conf->once_per,
		.answer_ns = time_earlier(ANSWER_MAX,
		    s->conf->connect_timeout / 3),
	};
	enum leaserun_result result;

	notify_status(s->notify, "asking for '%s'", s->shown);
	gethostname(host, sizeof(host) - 1);
	if ((st->timer = timer_open()) == -1) {
		refused(st, REFUSED_INTERNAL, EXIT_INTERNAL);
		log_error("cannot make a timer: %s%s", strerror(errno),
		    limit_hint(errno));
		*status = EXIT_INTERNAL;
		return false;
	}
	if ((result = open_in_time(st)) != LEASERUN_OK) {
		*status = refuse(st, result);
		return false;
	}
	if (s->once_key != NULL && st->plugin.ops->list_once == NULL) {
		snprintf(st->plugin.error, sizeof(st->plugin.error), "the "
		    "backend '%s' keeps no record of what is done; use another "
		    "one for --once", st->plugin.ops->name);
		*status = refuse(st, LEASERUN_MISCONFIGURED);
		return false;
	}
	st->is_acquiring = true;
	result = acquire(st, &request, grant);
	st->is_acquiring = false;
	st->progress_at = TIME_NEVER;
	if (result == LEASERUN_OK) {
		s->report->waited_ns = now_ns() - st->wait_since;
		return true;
	}
	*status = result == LEASERUN_INTERRUPTED ? st->leave :
	    refuse(st, result);
	if (result == LEASERUN_INTERRUPTED)
		refused(st, st->leave == EXIT_INTERNAL ? REFUSED_INTERNAL :
		    REFUSED_INTERRUPTED, *status);
	if (result == LEASERUN_INTERRUPTED || result == LEASERUN_UNAVAILABLE ||
	    st->is_unsure)
		abandon(st, *status);
	return false;
}

enum leaserun_result
store_renew(struct store *st, const struct leaserun_lease *lease,
    int64_t deadline, struct leaserun_renewal *renewal)
{
	st->due_at = TIME_NEVER;
	return st->plugin.ops->renew(st->plugin.self, lease, deadline, renewal);
}

/* Three tries fit, unless little is left. */
static int64_t
attempt_deadline(int64_t deadline)
{
	int64_t now = now_ns();

	return time_add(now, time_later(ATTEMPT_MIN,
	    time_earlier(ATTEMPT_MAX, (deadline - now) / 3)));
}

enum leaserun_result
store_release(struct store *st, const struct leaserun_lease *lease,
    const struct leaserun_end *end, int64_t deadline)
{
	enum leaserun_result result;
	int64_t backoff = BACKOFF_MIN;
	bool is_repeated = false;

	st->is_releasing = true;
	st->due_at = TIME_NEVER;
	for (;; is_repeated = true) {
		result = st->plugin.ops->release(st->plugin.self, lease, end,
		    attempt_deadline(deadline));
		/*
		 * The lease is confirmed still: if it is somebody else's, then
		 * it was our first try that gave it away, without an answer.
		 * Or it was freed by force, so a record is looked for.
		 */
		if (result == LEASERUN_LOST && is_repeated &&
		    end->once_key == NULL && now_ns() < deadline)
			return LEASERUN_OK;
		if (result == LEASERUN_OK || result == LEASERUN_LOST ||
		    time_add(now_ns(), backoff) >= deadline)
			return result;
		storehost_pause(st, time_add(now_ns(), backoff));
		backoff = time_earlier(2 * backoff, BACKOFF_MAX);
	}
}

void
store_close(struct store *st)
{
	if (st->timer != -1)
		close(st->timer);
	plugin_close(&st->plugin);
}
