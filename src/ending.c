/*
 * Words for why a job is being ended.
 */
#include <stddef.h>

#include "ending.h"

const char *
ending_name(enum end_reason reason)
{
	static const char *const names[END_REASONS] = {
		[END_LEFTOVERS] = "leftovers", [END_REVOKED] = "revoked",
		[END_MAX_RUN] = "max_run", [END_DEADLINE] = "deadline",
		[END_LOST] = "lost",
	};

	return names[reason] == NULL ? "stopped" : names[reason];
}

const char *
ending_text(enum end_reason reason)
{
	switch (reason) {
	case END_DEADLINE:
		return "the lease could not be renewed in time";
	case END_LOST:
		return "the lease is lost";
	case END_REVOKED:
		return "the lease is revoked";
	case END_MAX_RUN:
		return "it ran longer than --max-run";
	case END_LEFTOVERS:
		return "the command has ended and left processes behind";
	default:
		return "leaserun is being ended";
	}
}
