/*
 * Why a lease was lost: what the store says, and what we know of ourselves.
 */
#ifndef LOSS_H
#define LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "../backends/leaserun-backend.h"

/* The names are part of the schema of --events, and never change. */
enum loss_reason {
	LOSS_OUTAGE,		/* not renewed in time */
	LOSS_TAKEN_OVER,
	LOSS_DELETED,
	LOSS_REVOKED,
	LOSS_FORCED,
	LOSS_EXPIRED,
	LOSS_OWN_PAUSE,		/* we were stopped past the deadline */
	LOSS_CLOCK,		/* ran out at the store before its time */
	LOSS_UNKNOWN,
	LOSS_REASONS
};

/*
 * The store said LOST.  is_early: the lease should have lasted still;
 * is_paused: this process has been stopped for too long since it was confirmed.
 */
enum loss_reason loss_by_store(enum leaserun_loss, bool is_early,
	    bool is_paused);

/* "taken_over" */
const char *loss_name(enum loss_reason);

/* What follows "the lease is lost: ". */
const char *loss_text(enum loss_reason);

#endif
