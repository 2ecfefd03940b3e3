/*
 * Acquires, renews and releases the lease while the guard runs the command.
 * Must never raise the deadline but from what the store confirmed, and never
 * release before the guard, or ECHILD, says that nothing of the job is left.
 */
#include <sys/wait.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "account.h"
#include "giveback.h"
#include "holder.h"
#include "job.h"
#include "keeper.h"
#include "leave.h"
#include "log.h"
#include "notify.h"
#include "plugin.h"
#include "report.h"
#include "signals.h"
#include "store.h"
#include "storehost.h"
#include "timeutil.h"
#include "util.h"

#define ATTEMPT_MAX	(2 * NS_PER_S)
#define ATTEMPT_MIN	(50 * NS_PER_MS)
#define BACKOFF_MIN	(50 * NS_PER_MS)
#define BACKOFF_MAX	NS_PER_S

struct keeper {
	const struct keeper_setup *s;
	const struct conf *conf;
	struct store	*store;
	struct leaserun_lease lease;
	struct job	 job;
	struct account	 account;
	int		 timer;
	int64_t		 ttl;		/* granted; 0: does not expire */
	int64_t		 deadline;
	int64_t		 next_renew;
	int64_t		 backoff;	/* 0: the last renewal was good */
	int64_t		 ran_ns;	/* the job; -1: it was not started */
	bool		 is_lost;	/* the store said so */
	bool		 is_revoked;
};

static int64_t
kill_at(const struct keeper *k)
{
	return schedule_kill_at(k->deadline, k->ttl);
}

static int64_t
term_at(const struct keeper *k)
{
	return schedule_term_at(k->deadline, k->ttl, k->conf->grace);
}

/* What the store confirmed, measured from before the request was sent. */
static void
confirm(struct keeper *k, int64_t sent, int64_t ttl)
{
	int64_t deadline = ttl == 0 ? TIME_NEVER : time_add(sent, ttl);

	if (ttl != 0 && (k->ttl == 0 || ttl < k->ttl))
		k->ttl = ttl;
	if (deadline > atomic_load(&k->s->page->deadline)) {
		k->deadline = deadline;
		atomic_store(&k->s->page->deadline, deadline);
	}
	k->next_renew = time_add(sent, k->conf->renew_every);
	account_confirm(&k->account, sent, k->ttl);
	job_expect(&k->job, kill_at(k));
}

static int64_t
attempt_deadline(const struct keeper *k)
{
	int64_t now = now_ns(), left, parts;

	if (k->deadline == TIME_NEVER)
		return time_add(now, ATTEMPT_MAX);
	/* After term_at it goes on, for what is left of the lease. */
	left = now < term_at(k) ? term_at(k) - now : k->deadline - now;
	parts = k->store->plugin.endpoints > 3 ? k->store->plugin.endpoints : 3;
	return time_add(now, time_later(ATTEMPT_MIN,
	    time_earlier(ATTEMPT_MAX, left / parts)));
}

static void
note_failure(struct keeper *k)
{
	int64_t now, wait;
	char left[32];

	now = now_ns();
	account_failed(&k->account, k->backoff == 0,
	    k->deadline == TIME_NEVER ? -1 : time_later(0, term_at(k) - now),
	    k->store->plugin.error);
	notify_status(k->s->notify, "cannot renew the lease '%s' (token %"
	    PRIu64 "): %s", k->s->shown, k->lease.token,
	    k->store->plugin.error);
	if (k->backoff == 0) {
		k->backoff = BACKOFF_MIN;
		if (k->deadline == TIME_NEVER)
			log_warning("'%s': cannot renew the lease, trying "
			    "again: %s", k->s->shown, k->store->plugin.error);
		else {
			duration_format((time_later(0, term_at(k) - now) /
			    NS_PER_MS) * NS_PER_MS, left, sizeof(left));
			log_warning("'%s': cannot renew the lease, trying "
			    "again for %s: %s", k->s->shown, left,
			    k->store->plugin.error);
		}
	} else
		k->backoff = time_earlier(k->backoff * 2, BACKOFF_MAX);
	now = now_ns();
	wait = k->backoff / 2 + (int64_t)random_below((uint64_t)k->backoff);
	/* More often towards term_at, so that no chance is slept through. */
	if (now < term_at(k))
		wait = time_earlier(wait, time_later(BACKOFF_MIN,
		    (term_at(k) - now) / 4));
	k->next_renew = time_add(now, wait);
}

/* The store's answer or, without one, what was amiss with it. */
static void
tell_loss(struct keeper *k, enum loss_reason reason, const char *error)
{
	char paused[48] = "", text[32];

	if (!account_lost(&k->account, reason, error))
		return;
	if (reason == LOSS_OWN_PAUSE) {
		duration_format(account_pause(&k->account) / NS_PER_MS *
		    NS_PER_MS, text, sizeof(text));
		snprintf(paused, sizeof(paused), ", for %s", text);
	}
	log_error("'%s': the lease (token %" PRIu64 ") is lost: %s%s%s%s",
	    k->s->shown, k->lease.token, loss_text(reason), paused,
	    *error == '\0' ? "" : ": ", error);
}

/* "Not yours": the job has to be gone at once. */
static void
note_loss(struct keeper *k, enum leaserun_loss loss)
{
	k->is_lost = true;
	k->next_renew = TIME_NEVER;
	job_end(&k->job, SIGKILL, END_LOST);
	tell_loss(k, loss_by_store(loss, now_ns() < k->deadline,
	    account_pause(&k->account) > 0), "");
}

static void
note_revoked(struct keeper *k)
{
	if (k->is_revoked)
		return;
	k->is_revoked = true;
	job_end(&k->job, SIGTERM, END_REVOKED);
	report_plain(k->s->report, EVENT_REVOKED, NULL);
	log_warning("'%s': the lease is being revoked, %s", k->s->shown,
	    k->job.is_started ? "ending the command" :
	    "the command is not started");
}

static enum leaserun_result
renew(struct keeper *k)
{
	struct leaserun_renewal renewal = { 0 };
	int64_t attempt = attempt_deadline(k);
	enum leaserun_result result;

	k->store->is_alone = k->job.is_taken_over;
	signals_renewing(kill_at(k), k->deadline, attempt,
	    k->conf->lost_exit_code);
	result = store_renew(k->store, &k->lease, attempt, &renewal);
	signals_renewed();
	account_woke(&k->account, k->store->due_at, k->store->woke_at,
	    term_at(k));
	switch (result) {
	case LEASERUN_OK:
		confirm(k, renewal.sent_ns, renewal.ttl_ns);
		account_renewed(&k->account, k->deadline, k->backoff != 0);
		if (k->backoff != 0) {
			notify_status(k->s->notify, "the lease '%s' (token %"
			    PRIu64 ") is renewed again", k->s->shown,
			    k->lease.token);
			log_warning("'%s': the lease is renewed again",
			    k->s->shown);
		}
		k->backoff = 0;
		if (renewal.revoke)
			note_revoked(k);
		break;
	case LEASERUN_LOST:
		note_loss(k, renewal.loss);
		break;
	case LEASERUN_INTERRUPTED:
		break;		/* due again as soon as that is looked at */
	default:
		note_failure(k);
		break;
	}
	return result;
}

static bool
may_renew(const struct keeper *k, int64_t now)
{
	return !k->is_lost && now < k->deadline;
}

static void
wait_for_events(struct keeper *k)
{
	struct pollfd fds[3] = {
		{ .fd = k->job.is_taken_over ? -1 : k->s->link,
		    .events = POLLIN },
		{ .fd = signals_fd(), .events = POLLIN },
		{ .fd = k->timer, .events = POLLIN },
	};
	int signo;
	int64_t now = now_ns(), at = job_next(&k->job, now);

	at = time_earlier(at, notify_next(k->s->notify, now));
	if (may_renew(k, now))
		at = time_earlier(at, k->next_renew);
	timer_arm(k->timer, at);
	poll(fds, 3, -1);
	/* What was due long ago was not slept for. */
	account_woke(&k->account, time_later(at, now), now_ns(), term_at(k));
	timer_clear(k->timer);
	signals_clear();
	if ((signo = signals_take_stop()) != 0)
		leave_stopped(signo);
}

/*
 * A process that may not be killed keeps the lease; once that is over there is
 * nothing to keep, and the guard goes on alone.
 */
static bool
is_hopeless(const struct keeper *k, int64_t now)
{
	return k->job.survivor != 0 && k->deadline != TIME_NEVER &&
	    (now >= k->deadline || k->is_lost);
}

/* Nothing was confirmed in time, whatever the job is ended for. */
static void
note_deadline(struct keeper *k, int64_t now)
{
	if (k->job.ending != END_DEADLINE && k->job.reason != END_DEADLINE &&
	    (k->job.is_ended || !is_hopeless(k, now)))
		return;
	if (account_pause(&k->account) > 0)
		tell_loss(k, LOSS_OWN_PAUSE, "");
	else
		tell_loss(k, LOSS_OUTAGE, k->backoff == 0 ? "" :
		    k->store->plugin.error);
}

/*
 * The order inside one wake-up: the deadline, the guard, its messages, then the
 * store, which may block.
 */
static void
hold(struct keeper *k)
{
	bool is_due;
	int64_t now;

	while (!k->job.is_ended) {
		wait_for_events(k);
		now = now_ns();
		is_due = may_renew(k, now) && now >= k->next_renew;
		job_look(&k->job, now, is_due);
		note_deadline(k, now);
		notify_repeat(k->s->notify);
		if (k->job.is_ended || is_hopeless(k, now))
			break;
		if (is_due)
			renew(k);
	}
}

/*
 * The lease must be long enough for what was asked, and fresh enough for one
 * whole renewal period before anything would have to be ended.
 */
static int
check_schedule(struct keeper *k, int64_t granted)
{
	struct schedule s = {
		.ttl = time_earlier(granted, k->conf->ttl),
		.renew_every = k->conf->renew_every,
		.grace = k->conf->grace,
	};
	char ttl[32], every[32], grace[32], margin[32];

	if (granted == 0 || schedule_fits(&s))
		return 0;
	duration_format(s.ttl, ttl, sizeof(ttl));
	duration_format(s.renew_every, every, sizeof(every));
	duration_format(s.grace, grace, sizeof(grace));
	duration_format(schedule_margin(s.ttl), margin, sizeof(margin));
	log_error("'%s': the store grants %s only, too short for 2 x "
	    "renew-every %s + grace %s + margin %s; lower these, or raise "
	    "the store's limit", k->s->shown, ttl, every, grace, margin);
	return EXIT_CONFIG;
}

static int
freshen(struct keeper *k)
{
	while (k->deadline != TIME_NEVER &&
	    time_add(now_ns(), k->conf->renew_every) > term_at(k)) {
		if (now_ns() >= term_at(k)) {
			log_error("'%s': the lease could not be renewed before "
			    "the command was started: %s", k->s->shown,
			    k->store->plugin.error);
			return EXIT_UNAVAILABLE;
		}
		if (now_ns() >= k->next_renew || k->backoff == 0)
			renew(k);
		if (k->is_lost)
			return EXIT_UNAVAILABLE;
		if (k->is_revoked)
			return k->conf->lost_exit_code;
		if (store_events(k->store))
			return k->store->leave;
		if (k->backoff != 0)
			storehost_pause(k->store, k->next_renew);
	}
	return 0;
}

static int
start(struct keeper *k, const struct leaserun_grant *grant)
{
	struct link_msg msg = {
		.type = LINK_START, .token = grant->token,
		.ttl_ns = grant->ttl_ns,
	};
	int status;

	if ((status = check_schedule(k, grant->ttl_ns)) != 0 ||
	    (status = freshen(k)) != 0)
		return status;
	msg.ttl_ns = k->ttl;
	if (job_start(&k->job, &msg, grant->hold_fd)) {
		if (k->ttl != 0)
			tree_hurry(TREE_KEEPER);
		return 0;
	}
	if (signals_cancelled())
		return EXIT_SIGNAL + signals_cancelled();
	if (signals_guard_ended())
		log_error("'%s': the guard is gone", k->s->shown);
	else
		log_error("'%s': cannot start the command: %s", k->s->shown,
		    strerror(errno));
	return EXIT_INTERNAL;
}

/* The job was ended since the lease was, or is to be, somebody else's. */
static bool
is_cut_short(const struct keeper *k)
{
	return k->is_lost || k->job.reason == END_LOST ||
	    k->job.reason == END_DEADLINE || k->job.reason == END_REVOKED;
}

/* What to leave with, as a wait status. */
static int
outcome(const struct keeper *k)
{
	if (is_cut_short(k))
		return exited_with(k->conf->lost_exit_code);
	if (k->job.failure != 0)
		return exited_with(k->job.failure);
	if (k->job.reason == END_MAX_RUN)
		return exited_with(EXIT_MAX_RUN);
	return k->job.status;
}

static int
finish(struct keeper *k, int status)
{
	struct giveback g = {
		.s = k->s, .store = k->store, .lease = &k->lease,
		.account = &k->account, .deadline = k->deadline,
		.ran = k->job.is_started,
		.succeeded = k->job.is_started && status == 0 &&
		    !is_cut_short(k),
		.ran_ns = time_later(0, k->ran_ns),
	};

	notify_stopping(k->s->notify, "'%s' has ended, status %d (token %"
	    PRIu64 ")", k->s->shown, giveback_number(status), k->lease.token);
	if (k->is_lost)
		return status;
	return giveback(&g, status);
}

static int
run_with_lease(struct keeper *k, const struct leaserun_grant *grant)
{
	char previous[256], ttl[32] = "";
	int status;

	k->lease.token = grant->token;
	confirm(k, grant->sent_ns, grant->ttl_ns);
	account_acquired(&k->account, grant, k->deadline);
	if (grant->ttl_ns > 0)
		duration_format(grant->ttl_ns, ttl, sizeof(ttl));
	log_info("'%s': acquired, token %" PRIu64 "%s%s", k->s->shown,
	    grant->token, grant->ttl_ns > 0 ? ", ttl " : "", ttl);
	if (grant->took_over) {
		report_other(k->s->report, EVENT_TOOK_OVER,
		    &grant->previous);
		holder_identify(&grant->previous, previous, sizeof(previous));
		log_warning("'%s': took over from %s, which ended without "
		    "releasing", k->s->shown, previous);
	}
	if ((status = start(k, grant)) != 0) {
		status = exited_with(status);
		k->job.is_ended = true;
		return finish(k, status);
	}
	hold(k);
	if (k->job.is_started)
		k->ran_ns = now_ns() - k->job.started_at;
	if (is_hopeless(k, now_ns()) && !k->job.is_ended)
		return exited_with(k->conf->lost_exit_code);
	return finish(k, outcome(k));
}

/* How the run ended, for the reports. */
static enum report_outcome
outcome_kind(const struct keeper *k, int status)
{
	if (k->account.is_lost)
		return OUTCOME_LOST;
	if (k->job.reason == END_REVOKED)
		return OUTCOME_REVOKED;
	if (k->job.failure == EXIT_INTERNAL && k->job.is_taken_over)
		return OUTCOME_INTERNAL;
	if (!k->job.is_started)
		return OUTCOME_NOT_STARTED;
	if (k->job.reason == END_MAX_RUN)
		return OUTCOME_MAX_RUN;
	return status == 0 ? OUTCOME_SUCCESS : OUTCOME_FAILURE;
}

int
keeper_run(const struct keeper_setup *s)
{
	struct keeper k = {
		.s = s, .conf = s->conf, .store = s->store,
		.deadline = TIME_NEVER, .next_renew = TIME_NEVER,
		.ran_ns = -1,
		.lease = { .name = s->name, .owner = s->owner,
		    .ttl_ns = s->conf->ttl },
	};
	struct leaserun_grant grant = { .hold_fd = -1 };
	int status;

	job_init(&k.job, s);
	account_init(&k.account, s->report);
	if (signals_init(s->link, s->guard, s->page, s->exempt) == -1 ||
	    (k.timer = timer_open()) == -1) {
		log_error("cannot prepare the run: %s%s", strerror(errno),
		    limit_hint(errno));
		report_refused(s->report, EXIT_INTERNAL);
		return exited_with(EXIT_INTERNAL);
	}
	if (store_acquire(k.store, s, &grant, &status)) {
		status = run_with_lease(&k, &grant);
		account_end(&k.account, outcome_kind(&k, status),
		    giveback_number(status), k.ran_ns);
	} else {
		status = exited_with(status);
		k.job.is_ended = true;
	}
	store_close(k.store);
	job_dismiss_guard(&k.job);
	return status;
}
