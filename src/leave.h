/*
 * How this process stops and dies: like the command, so that the shell sees
 * what it would have seen without leaserun.
 */
#ifndef LEAVE_H
#define LEAVE_H

#include <stdbool.h>

struct deadline_page;

/* Stops this process the way signo does; returns when it is continued. */
void	leave_stopped(int signo);

/*
 * What to leave with, as a wait status, while a renewal does not come back: by
 * the page, if the command was started.
 */
int	leave_owed(struct deadline_page *, bool is_started, int lost_exit_code);

/*
 * Leaves as a wait status says: exits, or dies of the same signal without a
 * core; as PID 1 exits with 128 + N.
 */
void	leave(int wait_status) __attribute__((noreturn));

#endif
