/*
 * Kinds of signals, for handlers: nothing here but the number decides, and who
 * sent it.
 */
#ifndef SIGKIND_H
#define SIGKIND_H

#include <signal.h>
#include <stdbool.h>

/* What ends a process that does not handle it. */
bool	sigkind_is_terminating(int signo);

/* What tells a process to stop: its supervisor, or someone at a terminal. */
bool	sigkind_is_stop(int signo);

/* Sent by the terminal, and to our whole group. */
bool	sigkind_is_from_terminal(int signo, const siginfo_t *);

/*
 * For the job.  Others stand for a fault of our own, or have a use of their own
 * in the keeper.
 */
bool	sigkind_is_relayed(int signo);

#endif
