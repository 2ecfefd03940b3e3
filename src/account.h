/*
 * The figures of a run: what the reports say of its renewals, and whether we
 * were stopped ourselves.
 */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "report.h"

struct account {
	struct report	*report;
	int64_t		 confirmed_at;	/* sent_ns of it; 0: never */
	int64_t		 suspended;	/* the clock's own count at that time */
	int64_t		 paused_ns;	/* since, past the deadline; 0: not */
	bool		 is_lost;	/* that was reported */
};

void	account_init(struct account *, struct report *);

/* A grant or a renewal, asked for at sent; ttl 0: does not expire. */
void	account_confirm(struct account *, int64_t sent, int64_t ttl);

void	account_acquired(struct account *, const struct leaserun_grant *,
	    int64_t deadline);
void	account_renewed(struct account *, int64_t deadline, bool was_failing);
void	account_failed(struct account *, bool is_first, int64_t left,
	    const char *error);

/* We meant to sleep until `at'; to be gone by then: term_at. */
void	account_woke(struct account *, int64_t at, int64_t now,
	    int64_t term_at);

/* For how long we were stopped, too long for the lease; 0: we were not. */
int64_t	account_pause(const struct account *);

/* True the first time; error is "" or what the store said last. */
bool	account_lost(struct account *, enum loss_reason, const char *error);

/* `ran' is -1 when the command was not started. */
void	account_end(struct account *, enum report_outcome, int status,
	    int64_t ran);

#endif
