/*
 * System calls that a filter, see seccomp(2), kills us for, among those that we
 * can do without.  What is refused with an error is no matter.
 */
#ifndef FILTER_H
#define FILTER_H

#include <stdbool.h>

/*
 * Finds out, in a child or three that may be killed for it; without a filter it
 * makes none.  Before there is a guard, and where SIGCHLD is not ignored.
 */
void	filter_init(void);

/* Whether sched_setscheduler(2) and setpriority(2) would be our end. */
bool	filter_kills_priorities(void);

/* The same for pidfd_open(2) and pidfd_send_signal(2). */
bool	filter_kills_pidfds(void);

#endif
