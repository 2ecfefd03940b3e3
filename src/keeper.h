/*
 * The keeper: talks to the store, keeps the lease alive while the guard runs
 * the command, releases it, and decides the exit status.
 */
#ifndef KEEPER_H
#define KEEPER_H

#include <sys/types.h>

#include "conf.h"
#include "guard.h"
#include "notify.h"
#include "report.h"
#include "tree.h"

struct store;

/* All owned by the caller, valid while the keeper runs. */
struct keeper_setup {
	const struct conf *conf;
	const char	*shown;		/* the name as it was given */
	const char	*name;		/* encoded */
	const char	*owner;		/* owner id, fresh */
	const char	*chain;		/* owner ids of outer runs; "" */
	const char	*command;	/* argv[0], for messages */
	const char	*once_key;	/* encoded; NULL: none */
	const char	*once_shown;	/* the same for people */
	int		 link;		/* the keeper's end */
	pid_t		 guard;
	struct deadline_page *page;
	struct tree_exempt *exempt;	/* children from before */
	struct report	*report;
	struct notify	*notify;
	struct store	*store;		/* store_skips() was asked */
};

/*
 * Runs to the end and returns the wait status to leave with.  All signals are
 * blocked on entry.
 */
int	keeper_run(const struct keeper_setup *);

#endif
