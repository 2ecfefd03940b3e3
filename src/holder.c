/*
 * Says to people who holds a lease.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "holder.h"
#include "timeutil.h"

const char *
holder_duration(int64_t ms, char *buf, size_t size)
{
	/* A store may say anything. */
	duration_format(time_times(ms < 1000 ? ms : ms - ms % 1000,
	    NS_PER_MS), buf, size);
	return buf;
}

bool
holder_is_known(const struct leaserun_entry *e)
{
	/* A store may tell some of it. */
	return e->owner[0] != '\0' || e->label[0] != '\0' || e->pid > 0;
}

void
holder_identify(const struct leaserun_entry *e, char *text, size_t size)
{
	char pid[32] = "";

	if (e->pid > 0)
		snprintf(pid, sizeof(pid), ", pid %" PRId64, e->pid);
	if (e->state == LEASERUN_UNREADABLE)
		snprintf(text, size, "somebody unknown (the record cannot be "
		    "read)");
	else if (!holder_is_known(e))
		/* The token would be of the last one. */
		snprintf(text, size, "somebody who is not recorded%s",
		    e->state == LEASERUN_FREE ? "" : " yet");
	else if (e->state == LEASERUN_HOLDING)
		snprintf(text, size, "--min-hold of '%s' (token %" PRIu64 ")",
		    e->label, e->token);
	else
		snprintf(text, size, "'%s' (host '%s'%s, token %" PRIu64 ")",
		    e->label, e->host, pid, e->token);
}

void
holder_describe(const struct leaserun_entry *e, char *text, size_t size)
{
	char held[32], left[32];
	size_t used;

	holder_identify(e, text, size);
	used = strlen(text);
	if (e->state == LEASERUN_HOLDING) {
		snprintf(text + used, size - used, ", for %s more",
		    holder_duration(e->expires_in_ms, left, sizeof(left)));
		return;
	}
	if (e->held_for_ms >= 0)
		snprintf(text + used, size - used, " for %s",
		    holder_duration(e->held_for_ms, held, sizeof(held)));
	used = strlen(text);
	if (e->expires_in_ms >= 0)
		snprintf(text + used, size - used,
		    ", free in at most %s unless renewed",
		    holder_duration(e->expires_in_ms, left, sizeof(left)));
}
