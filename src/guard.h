/*
 * The guard: owns the job and the deadline.  It never talks to a store, loads
 * nothing, allocates nothing and never blocks on a write; whatever happens to
 * the keeper, it ends the job in time.
 */
#ifndef GUARD_H
#define GUARD_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "timeutil.h"

/*
 * Shared by both, anonymous.  The deadline is written only by the keeper and
 * never lowered; 0 until the first grant.  The rest is written only by the
 * guard: how the command ended is known even if the guard dies of it.
 */
struct deadline_page {
	_Atomic int64_t	deadline;
	_Atomic int	has_status;
	_Atomic int	status;		/* wait status */
	_Atomic int	done;		/* nothing of the job is left */
	_Atomic int	reason;		/* enum end_reason, with done */
	_Atomic int	failed;		/* link_failure + 1, with done; or 0 */
	_Atomic int	error;		/* errno, with failed */
	_Atomic int	survivor;	/* pid: may not be killed; or 0 */
};

/* All set before the fork; strings and arrays belong to the keeper. */
struct guard_job {
	char *const	*argv;
	char *const	*envp;
	char		*token_text[2];	/* room for 20 digits in envp; NULL */
	char		*ttl_text;	/* room for 24 characters in envp */
	struct schedule	 schedule;	/* as asked */
	int64_t		 max_run;	/* TIME_NEVER: none */
	bool		 kill_leftovers;
	bool		 leave_leftovers;
	bool		 own_group;	/* for the command */
	/*
	 * Someone wants to know at once that the command was executed.  That
	 * wakes up both; a failure ends the child, and does so anyway.
	 */
	bool		 tell_started;
	pid_t		 keeper_group;	/* 0: groups are left alone */
	sigset_t	 mask;		/* for the command */
	bool		 ignore_chld;
};

/*
 * Runs until the job is over or the keeper gone; returns the exit status of
 * the guard's process.  All signals are blocked.  link: the guard's end, owned.
 */
int	guard_run(int link, struct deadline_page *, const struct guard_job *);

#endif
