/*
 * NAME.lock, an empty file: whoever locked byte 0 of it has the lease, and
 * byte 1 is the turnstile where waiters queue.
 *
 * The locks belong to an open file description: a second one conflicts even in
 * the same process, and every process that inherits the descriptor keeps them.
 */
#ifndef FILELOCK_H
#define FILELOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "filedir.h"

struct filelock {
	const struct filedir *dir;
	char	file[FILEDIR_FILE_SIZE];
	int	fd;		/* -1: not open */
};

/*
 * For people who want to know whom they wait for: called now and then, first
 * soon, as who has just taken the lock is not recorded yet.  It is by time, as
 * a watch on the file would wake all who wait at each hand-over, and to end a
 * watch takes the kernel longer than the hand-over.  False ends the wait.
 */
struct filelock_look {
	bool	(*look)(void *);
	void	*arg;
};

enum leaserun_result filelock_open(struct filelock *, const struct filedir *,
	    int dirfd, const char *name);

/* Frees the lease only if nobody else has the descriptor. */
void	 filelock_close(struct filelock *);

/* Someone waits; whoever comes later must not overtake. */
bool	 filelock_is_queued(const struct filelock *);

/* OK, also when it was ours already, or HELD. */
enum leaserun_result filelock_take(const struct filelock *);

/*
 * Queues for the lease.  OK: it is ours.  HELD: not yet, or the deadline has
 * come.  Anything but OK leaves nothing locked.
 */
enum leaserun_result filelock_wait(const struct filelock *, int64_t deadline,
	    const struct filelock_look *);

/* Frees the lease for all who share the descriptor. */
void	 filelock_drop(const struct filelock *);

/* OK: the file is still the one that others would open.  LOST: it is not. */
enum leaserun_result filelock_check(const struct filelock *);

/* What others hold, without taking anything.  0, or -1 with errno. */
int	 filelock_test(int fd, bool *busy, bool *queued);

/* How many wait for the file; 0 also when the kernel does not tell. */
int64_t	 filelock_waiters(const struct stat *);

#endif
