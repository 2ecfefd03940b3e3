/*
 * The keeper's signals.  Handlers relay to the guard, end the job when the
 * guard is gone, and cut short a library that blocks too long; they use system
 * calls only.  One keeper a process.
 */
#ifndef SIGNALS_H
#define SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "guard.h"
#include "link.h"
#include "tree.h"

/*
 * Installs the handlers and unblocks everything.  What was ignored stays
 * ignored.  All pointers stay valid; *exempt may be changed with signals
 * blocked, and exempt children that end are reaped.  -1 and errno.
 */
int	signals_init(int link, pid_t guard, struct deadline_page *,
	    struct tree_exempt *);

/* Readable when a signal came that the main loop should look at. */
int	signals_fd(void);
void	signals_clear(void);

/* The first terminating signal that came before the start, or 0. */
int	signals_cancelled(void);

/* A stop signal that came before the start, once; or 0. */
int	signals_take_stop(void);

/*
 * Sends LINK_START unless a terminating signal was there first: the order on
 * the link is then the order of events.  False: cancelled, or (errno != 0) not
 * sent.
 */
bool	signals_start(struct link_msg *, int hold_fd);

/* For changes of what a handler reads. */
void	signals_block(sigset_t *saved);
void	signals_restore(const sigset_t *saved);

/*
 * From `at' on the process leaves with this exit status, even from inside a
 * library; text is a whole line for standard error, or NULL.  TIME_NEVER
 * disarms.
 */
void	signals_bound(int64_t at, int status, const char *text);

/*
 * The job is over, and what is left to do may take long.  Until when there is
 * time for it: a TERM that came before, or a HUP, INT, QUIT or TERM that comes
 * from now on, leaves five seconds and limits every signals_bound(); else
 * TIME_NEVER.
 */
int64_t	signals_finish(void);

/*
 * Around a renewal, which a library may never come back from.  When the job is
 * over meanwhile the process leaves after a while with what that is worth, and
 * a guard that does not end it by kill_at is replaced from the handler, which
 * then goes on until nothing is left or the lease is over at `deadline'.  The
 * library has until `attempt' to come back.
 */
void	signals_renewing(int64_t kill_at, int64_t deadline, int64_t attempt,
	    int lost_exit_code);
void	signals_renewed(void);

/* Whether the guard has ended (it is not reaped). */
bool	signals_guard_ended(void);

/* Only if it has not. */
void	 signals_kill_guard(void);

#endif
