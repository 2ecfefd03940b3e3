/*
 * What /proc says of processes.  System calls only: no heap, no stdio, so that
 * a signal handler can use it.
 */
#ifndef PROC_H
#define PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Opens /proc, close-on-exec; once more is free, in a child that was forked as
 * well.  -1 with errno: ENOENT without a usable /proc, ESRCH when it is of
 * another pid namespace (its numbers must not be used), EXDEV when what we
 * fork would be in another pid or time namespace than we are, others.
 * Everything below fails before this.
 */
int	proc_init(void);

/* State ('R', 'S', 'T', 'Z'...) and parent of a process. */
bool	proc_stat(pid_t, char *state, pid_t *parent);

/* When it was made, on the one clock, to a tick; -1: no such process. */
#define PROC_TICK	INT64_C(10000000)
int64_t	proc_born(pid_t);

/* The state alone; 0 when it cannot be told. */
char	proc_state(pid_t);

/* Neither stopped, by whomever, nor dead. */
bool	proc_is_at_work(pid_t);

/* Its name for people; the owner, or (uid_t)-1. */
bool	proc_name(pid_t, char *name, size_t size);
uid_t	proc_owner(pid_t);

/* Calls fn with every child of a process, whichever thread made it. */
void	proc_children(pid_t, void (*fn)(pid_t));

/* Calls fn with every thread of a process. */
void	proc_threads(pid_t, void (*fn)(pid_t));

/* Whether there was a controlling terminal at the time of proc_init(). */
bool	proc_has_terminal(void);

#endif
