/*
 * Counts what happens to a lease and reports it.  Must never decide anything:
 * the keeper would do the same without it.
 */
#include <string.h>
#include <time.h>

#include "account.h"
#include "timeutil.h"
#include "util.h"

/* A busy machine may wake us this late. */
#define PAUSE_LEAST	(NS_PER_S / 2)

/* How long the machine has been suspended since it was started. */
static int64_t
suspended_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return now_ns() - ((int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec);
}

void
account_init(struct account *a, struct report *report)
{
	memset(a, 0, sizeof(*a));
	a->report = report;
}

static void
note_gap(struct account *a, int64_t at)
{
	if (a->confirmed_at != 0)
		a->report->gap_ns = time_later(a->report->gap_ns,
		    at - a->confirmed_at);
}

void
account_confirm(struct account *a, int64_t sent, int64_t ttl)
{
	note_gap(a, sent);
	a->confirmed_at = sent;
	a->suspended = suspended_ns();
	a->paused_ns = 0;
	a->report->ttl_ns = ttl;
}

static int64_t
left_until(int64_t at)
{
	return at == TIME_NEVER ? -1 : time_later(0, at - now_ns());
}

void
account_acquired(struct account *a, const struct leaserun_grant *grant,
    int64_t deadline)
{
	struct report_event event;

	a->report->token = grant->token;
	event = report_event(a->report, EVENT_ACQUIRED);
	event.left_ns = left_until(deadline);
	report_send(a->report, &event);
}

void
account_renewed(struct account *a, int64_t deadline, bool was_failing)
{
	struct report_event event;

	a->report->renewals++;
	if (!was_failing && !a->report->beats)
		return;
	event = report_event(a->report, was_failing ? EVENT_RENEWED :
	    EVENT_BEAT);
	event.left_ns = left_until(deadline);
	report_send(a->report, &event);
}

void
account_failed(struct account *a, bool is_first, int64_t left,
    const char *error)
{
	struct report_event event;

	a->report->failures++;
	if (!is_first)
		return;
	event = report_event(a->report, EVENT_RENEW_FAILED);
	event.left_ns = left;
	text_copy(event.error, sizeof(event.error), error);
	report_send(a->report, &event);
}

void
account_woke(struct account *a, int64_t at, int64_t now, int64_t term_at)
{
	if (at != TIME_NEVER && now >= term_at && now - at > PAUSE_LEAST)
		a->paused_ns = time_later(a->paused_ns, now - at);
}

int64_t
account_pause(const struct account *a)
{
	int64_t suspended = suspended_ns() - a->suspended;

	if (a->confirmed_at == 0 || suspended < PAUSE_LEAST)
		suspended = 0;
	return time_later(a->paused_ns, suspended);
}

bool
account_lost(struct account *a, enum loss_reason reason, const char *error)
{
	struct report_event event;

	if (a->is_lost)
		return false;
	a->is_lost = true;
	note_gap(a, now_ns());
	event = report_event(a->report, EVENT_LOST);
	event.loss = reason;
	event.paused_ns = account_pause(a);
	text_copy(event.error, sizeof(event.error), error);
	report_send(a->report, &event);
	return true;
}

void
account_end(struct account *a, enum report_outcome outcome, int status,
    int64_t ran)
{
	struct report_event event = report_event(a->report, EVENT_END);

	event.outcome = outcome;
	event.status = status;
	event.ran_ns = ran;
	report_send(a->report, &event);
}
