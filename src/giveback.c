/*
 * Releases the lease and, where that was asked for, records that the job is
 * done.  Must never say that it is done before the store has confirmed it.
 */
#include <sys/wait.h>

#include <inttypes.h>
#include <string.h>

#include "giveback.h"
#include "log.h"
#include "loss.h"
#include "once.h"
#include "report.h"
#include "signals.h"
#include "timeutil.h"
#include "util.h"

#define RELEASE_BOUND	(5 * NS_PER_S)
#define ATTEMPT_MAX	(2 * NS_PER_S)
#define ATTEMPT_MIN	(50 * NS_PER_MS)
/* For so many ttls it is tried to record that the job is done. */
#define RECORD_TTLS	10

static const char unrecorded[] = "leaserun: the command succeeded, but that "
    "it is done could not be recorded in time\n";

/* What is looked for among the records of a name. */
struct wanted {
	const char	*key;
	const struct leaserun_lease *lease;
	bool		 is_found;
};

int
giveback_number(int status)
{
	return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) :
	    WEXITSTATUS(status);
}

static struct leaserun_end
make_end(const struct giveback *g, int status)
{
	struct leaserun_end end = {
		.status = giveback_number(status), .ran = g->ran,
		.ran_ns = g->ran_ns,
	};

	if (g->succeeded && g->s->once_key != NULL) {
		end.once_key = g->s->once_key;
		end.once_period_ns = g->s->conf->once_per;
		end.once_keep_ns = once_keep(g->s->conf);
	}
	return end;
}

/* What a library does with its own time is cut short from outside. */
static void
bound(int64_t at, int status, const char *text)
{
	signals_bound(at, WIFSIGNALED(status) ? -status : WEXITSTATUS(status),
	    text);
}

/* Tries until limit; a library that does not come back has until bound_at. */
static enum leaserun_result
release(struct giveback *g, const struct leaserun_end *end, int64_t limit,
    int64_t bound_at, int status)
{
	enum leaserun_result result;

	bound(time_add(bound_at, ATTEMPT_MIN), status, end->once_key == NULL ?
	    "leaserun: the lease could not be released in time, it runs out "
	    "by itself\n" : unrecorded);
	result = store_release(g->store, g->lease, end, limit);
	account_woke(g->account, g->store->due_at, g->store->woke_at,
	    g->deadline);
	return result;
}

/* Keeps the name from others while the record cannot be made. */
static void
prolong(struct giveback *g, int64_t last)
{
	int64_t now = now_ns(), left = g->deadline - now;
	struct leaserun_renewal renewal = { 0 };

	signals_bound(time_add(time_earlier(g->deadline, last), ATTEMPT_MIN),
	    EXIT_UNRECORDED, unrecorded);
	if (store_renew(g->store, g->lease, time_add(now,
	    time_later(ATTEMPT_MIN, time_earlier(ATTEMPT_MAX, left / 3))),
	    &renewal) == LEASERUN_OK && renewal.ttl_ns != 0)
		g->deadline = time_later(g->deadline,
		    time_add(renewal.sent_ns, renewal.ttl_ns));
}

static void
compare(void *arg, const struct leaserun_entry *entry)
{
	struct wanted *wanted = arg;

	if (entry->token == wanted->lease->token &&
	    strcmp(entry->name, wanted->key) == 0 &&
	    strcmp(entry->owner, wanted->lease->owner) == 0)
		wanted->is_found = true;
}

/*
 * The lease is not ours any more.  That is our own release, if its answer was
 * lost and there is the record, and a loss of the lease if there is none.
 */
static enum leaserun_result
look_for_record(struct giveback *g, const char *key)
{
	struct wanted wanted = { key, g->lease, false };
	int64_t limit = time_add(now_ns(), ATTEMPT_MAX);
	enum leaserun_result result;

	signals_bound(time_add(limit, ATTEMPT_MIN), EXIT_UNRECORDED,
	    unrecorded);
	result = g->store->plugin.ops->list_once(g->store->plugin.self,
	    g->lease->name, limit, compare, &wanted);
	if (result != LEASERUN_OK)
		return result;
	return wanted.is_found ? LEASERUN_OK : LEASERUN_LOST;
}

/*
 * That the command succeeded has to be recorded: the lease is kept while that
 * fails, so that nobody runs it again meanwhile.
 */
static enum leaserun_result
record_success(struct giveback *g, const struct leaserun_end *end)
{
	int64_t now = now_ns(), limit, last, spell, tries_end = time_add(now,
	    time_times(g->s->conf->ttl, RECORD_TTLS));
	enum leaserun_result result;
	bool is_repeated = false, is_over = false, is_told = false;

	for (;; is_repeated = true, now = now_ns()) {
		last = time_earlier(tries_end, signals_finish());
		if (last != tries_end && is_repeated && !is_told) {
			is_told = true;
			log_warning("'%s': told to stop, giving up soon",
			    g->s->shown);
		}
		limit = time_earlier(g->deadline, last);
		if (now >= limit && (is_over || now >= last))
			return LEASERUN_UNAVAILABLE;
		/* Who was frozen until now may find that nobody took it. */
		is_over = now >= limit;
		if (is_over)
			limit = time_add(now, ATTEMPT_MAX);
		/* The other half is for a renewal, if that comes to nothing. */
		spell = is_over ? limit - now : (limit - now) / 2;
		limit = time_earlier(limit, time_add(now, RELEASE_BOUND));
		result = release(g, end, time_earlier(limit,
		    time_add(now, spell)), limit,
		    exited_with(EXIT_UNRECORDED));
		if (result == LEASERUN_LOST)
			return look_for_record(g, end->once_key);
		if (result != LEASERUN_UNAVAILABLE &&
		    result != LEASERUN_INTERRUPTED)
			return result;
		if (!is_repeated)
			log_warning("'%s': cannot record that it is done, "
			    "trying again: %s", g->s->shown,
			    g->store->plugin.error);
		if (!is_over)
			prolong(g, last);
	}
}

static int
tell_failure(const struct giveback *g, const struct leaserun_end *end,
    enum leaserun_result result, int status)
{
	if (result == LEASERUN_LOST) {
		account_lost(g->account, account_pause(g->account) > 0 ?
		    LOSS_OWN_PAUSE : LOSS_UNKNOWN, "");
		log_error("'%s': the lease (token %" PRIu64 ") was not ours "
		    "any more when it was released", g->s->shown,
		    g->lease->token);
		return exited_with(g->s->conf->lost_exit_code);
	}
	report_plain(g->s->report, EVENT_RELEASE_FAILED,
	    g->store->plugin.error);
	if (end->once_key != NULL) {
		log_error("'%s': the command succeeded, but that it is done "
		    "for %s could not be recorded: %s; see whether 'leaserun "
		    "status --once' has it", g->s->shown, g->s->once_shown,
		    g->store->plugin.error);
		return exited_with(EXIT_UNRECORDED);
	}
	log_warning("'%s': the lease could not be released, it runs out by "
	    "itself: %s", g->s->shown, g->store->plugin.error);
	return status;
}

static void
tell_end(const struct giveback *g, const struct leaserun_end *end)
{
	int64_t ns = end->ran_ns;
	char ran[32];

	duration_format(ns < NS_PER_S ? ns : ns - ns % NS_PER_S, ran,
	    sizeof(ran));
	if (end->ran)
		log_info("'%s': released, ended with %d after %s%s%s",
		    g->s->shown, end->status, ran,
		    end->once_key == NULL ? "" : ", done for ",
		    end->once_key == NULL ? "" : g->s->once_shown);
	else
		log_info("'%s': released", g->s->shown);
}

static int
tell_result(const struct giveback *g, const struct leaserun_end *end,
    enum leaserun_result result, int status)
{
	if (result != LEASERUN_OK)
		return tell_failure(g, end, result, status);
	report_plain(g->s->report, EVENT_RELEASED, NULL);
	tell_end(g, end);
	return status;
}

/* It has run out, after the end of the job and before we came to it. */
static void
tell_expiry(const struct giveback *g)
{
	static const char text[] = "it ran out before it could be released";

	if (g->account->is_lost)
		return;
	report_plain(g->s->report, EVENT_RELEASE_FAILED, text);
	log_warning("'%s': the lease (token %" PRIu64 ") was not released: %s",
	    g->s->shown, g->lease->token, text);
}

int
giveback(struct giveback *g, int status)
{
	struct leaserun_end end = make_end(g, status);
	enum leaserun_result result;
	int64_t now = now_ns(), limit;

	if (end.once_key != NULL)
		result = record_success(g, &end);
	else if (now >= g->deadline) {
		tell_expiry(g);
		return status;
	} else {
		limit = time_earlier(time_add(now, RELEASE_BOUND),
		    g->deadline);
		result = release(g, &end, limit, limit, status);
	}
	status = tell_result(g, &end, result, status);
	bound(time_add(now_ns(), RELEASE_BOUND), status, NULL);
	return status;
}
