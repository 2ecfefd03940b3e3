/*
 * Getting a lease that somebody else may have, and saying who that is.
 */
#ifndef FILEWAIT_H
#define FILEWAIT_H

#include "filelock.h"

/* What host->holder() was told, and what it wants since then. */
struct filetold {
	bool	any;
	bool	go_on;
	char	owner[LEASERUN_OWNER_SIZE];
};

/* One that wants a lease; nothing is owned. */
struct filewait {
	const struct filedir *dir;
	int		 dirfd;
	struct filelock	*lock;
	const struct leaserun_request *request;
	int64_t		 deadline;
	struct filetold	*told;
};

/*
 * The lock, at once or after a wait: OK, HELD, DONE.  The kernel's queue is
 * not fair: whoever releases and tries again is faster than a waiter that has
 * to wake up first.  So newcomers respect the turnstile.
 */
enum leaserun_result filewait_lock(struct filewait *);

/*
 * Nobody runs, but --min-hold keeps the name: waits without the lock, until
 * then at most.  OK: try again.
 */
enum leaserun_result filewait_hold(const struct filewait *, int64_t until);

#endif
