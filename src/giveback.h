/*
 * The end of a run: the lease goes back, with what became of the command.
 */
#ifndef GIVEBACK_H
#define GIVEBACK_H

#include "account.h"
#include "keeper.h"
#include "store.h"

struct giveback {
	const struct keeper_setup *s;
	struct store	*store;
	const struct leaserun_lease *lease;
	struct account	*account;
	int64_t		 deadline;	/* as it was confirmed last */
	bool		 ran;		/* the command was started */
	bool		 succeeded;	/* it, and not what we leave with */
	int64_t		 ran_ns;
};

/* The exit status that a wait status is told by. */
int	giveback_number(int status);

/* The wait status to leave with, given what the command has earned. */
int	giveback(struct giveback *, int status);

#endif
