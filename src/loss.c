/*
 * Names the reasons for which a lease is lost.  Must never decide anything: by
 * the time it is asked the lease is gone.
 */
#include "loss.h"

static const struct {
	const char	*name;
	const char	*text;
} reasons[LOSS_REASONS] = {
	[LOSS_OUTAGE] = { "outage", "it could not be renewed in time" },
	[LOSS_TAKEN_OVER] = { "taken_over", "another holder has it" },
	[LOSS_DELETED] = { "deleted", "its record was removed or replaced" },
	[LOSS_REVOKED] = { "revoked", "it was revoked" },
	[LOSS_FORCED] = { "forced", "it was freed by revoke --force" },
	[LOSS_EXPIRED] = { "expired", "it ran out at the store" },
	[LOSS_OWN_PAUSE] = { "own_pause",
	    "leaserun was stopped past the deadline (SIGSTOP, suspend, a "
	    "paused machine)" },
	[LOSS_CLOCK] = { "clock", "it ran out at the store before its time; "
	    "a clock was stepped there, or state was lost" },
	[LOSS_UNKNOWN] = { "unknown", "the store says it is not ours" },
};

enum loss_reason
loss_by_store(enum leaserun_loss loss, bool is_early, bool is_paused)
{
	switch (loss) {
	case LEASERUN_LOSS_DELETED:
		return LOSS_DELETED;
	case LEASERUN_LOSS_FORCED:
		return LOSS_FORCED;
	case LEASERUN_LOSS_TAKEN:
		return is_paused ? LOSS_OWN_PAUSE : LOSS_TAKEN_OVER;
	case LEASERUN_LOSS_EXPIRED:
		if (is_paused)
			return LOSS_OWN_PAUSE;
		return is_early ? LOSS_CLOCK : LOSS_EXPIRED;
	case LEASERUN_LOSS_NONE:
		break;
	}
	return LOSS_UNKNOWN;
}

const char *
loss_name(enum loss_reason reason)
{
	return reasons[reason].name;
}

const char *
loss_text(enum loss_reason reason)
{
	return reasons[reason].text;
}
