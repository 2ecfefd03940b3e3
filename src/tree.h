/*
 * A process tree: start its root, signal it, kill it.  What is specific to
 * Linux is here and in proc.h.  The caller is a child subreaper, so
 * whatever is orphaned below it becomes its child.
 *
 * System calls only: no heap, no stdio, so that a signal handler can use it.
 * Not reentrant: a handler checks tree_busy() first.
 */
#ifndef TREE_H
#define TREE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Children (and theirs) that are not the job.  Owned by the caller, who blocks
 * signals around every change if a handler uses it as well.
 */
struct tree_exempt {
	pid_t	*pids;
	size_t	 n, room;
	bool	 may_grow;	/* by orphans of theirs, or we are PID 1 */
};

/* Someone whom we may not kill. */
struct tree_survivor {
	pid_t	pid;		/* 0: none */
	uid_t	uid;
};

struct tree_command {
	char *const	*argv;
	char *const	*envp;
	const sigset_t	*mask;		/* to restore */
	bool		 ignore_chld;	/* SIGCHLD was ignored */
	bool		 own_group;
	int		 hold_fd;	/* inherited on a high number; -1 */
};

/*
 * Makes the caller a child subreaper and opens /proc, close-on-exec.  -1 with
 * errno: ENOTSUP when the former is refused, else as proc_init().
 */
int	tree_init(void);

bool	tree_busy(void);

/*
 * Children of the caller, up to size of them, into pids.  The number, or -1.
 */
ssize_t	tree_children(pid_t *pids, size_t size);

/*
 * Forks and executes.  *exec_fd: close-on-exec end of a pipe; end of file once
 * the command runs, an int errno when it cannot.  -1 with errno when no
 * process could be made.
 */
pid_t	tree_spawn(const struct tree_command *, int *exec_fd);

/* Reads what tree_spawn()'s pipe says: 0 it runs, > 0 errno, -1 not yet. */
int	tree_exec_result(int exec_fd);

/*
 * Sends signo to every descendant once, and SIGCONT after it when cont.  What
 * is forked meanwhile is caught up with.
 */
void	tree_signal(int signo, bool cont);

/*
 * One round of SIGKILL to every descendant; how many there were.  They go first
 * from then on, as in tree_hurry().  *survivor: the first that may not be
 * killed.  None found does not prove that none is left; only ECHILD does.
 */
size_t	tree_kill(const struct tree_exempt *, struct tree_survivor *survivor);

/*
 * Takes one child that is over (-1: whichever) without waiting, and its wait
 * status.  Its number, 0 when there is none yet, -1 when there is none at all.
 * That one which asked to be traced by its parent has stopped is no end of it.
 */
pid_t	tree_wait(pid_t, int *status);

/*
 * Reaps every child that is over; one that was exempt is no longer, since its
 * number may be given to a process of the job.  True: there is no child left.
 */
bool	tree_reap(struct tree_exempt *);

/* The same for the exempt ones alone. */
void	tree_reap_exempt(struct tree_exempt *);

/*
 * For process 1, which everyone's orphans come to: reaps those that are over.
 * What a backend has forked for a moment is in our group, and its own affair.
 */
void	tree_reap_strangers(pid_t guard);

/*
 * Every child but the guard is exempt from now on, or reaped if it is over.
 * Nothing is changed if the guard turns out to have ended: what was its may be
 * ours by then.
 */
void	tree_spare_children(struct tree_exempt *, pid_t guard,
	    bool (*has_ended)(void));

/*
 * A child that has ended and that a debugger does not let go is exempt from
 * now on: there is no ECHILD then.
 */
void	tree_spare_zombie(struct tree_exempt *, pid_t child);

/*
 * Who may have to kill the job goes first, if we have the right to do that: on
 * a machine whose processors are all in use a timer's process gets its turn
 * later than the margin allows.  So it is done at the job's start where a
 * lease expires, and where it does not, and every microsecond of a short job
 * is ours, when the job has to end.  A library that spins in the keeper must
 * not be in the guard's way, nor must a real-time job: the rank is added to
 * the priority that we came with.  The caller's children do not inherit it,
 * but lose what else there was, so the command comes before.
 */
enum tree_rank {
	TREE_KEEPER = 1,
	TREE_GUARD
};

void	tree_hurry(enum tree_rank);

/*
 * A daemon that is left behind on purpose has inherited the hold descriptor;
 * an explicit unlock ends the lease all the same.  The keeper does it in its
 * release; this is for a keeper that died just before.
 */
void	tree_drop_hold(int fd);

/*
 * Number and name of some process below root, which is the caller or a child
 * of it, and how many there are, for a message; false when there is none.
 */
bool	tree_example(pid_t root, const struct tree_exempt *, pid_t *pid,
	    char *name, size_t size, size_t *count);

#endif
