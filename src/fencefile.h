/*
 * FILE.fence: the record of the highest token that FILE has seen, and the lock
 * under which it is compared.  Functions log what is wrong and return 0 or the
 * exit status.
 */
#ifndef FENCEFILE_H
#define FENCEFILE_H

#include <stdbool.h>
#include <stdint.h>

struct fencefile {
	const char	*shown;		/* FILE, as it was given */
	char		*path;		/* of the record; owned */
	const char	*name;		/* its last component, in path */
	int		 dirfd, fd;	/* -1 when not open */
};

/* Looks at the name of FILE; *f is to be cleared in any case. */
int	fencefile_init(struct fencefile *, const char *file);

/*
 * Opens the directory and the record, makes the latter if it is missing, and
 * checks whose they are.
 */
int	fencefile_open(struct fencefile *);

/*
 * Takes the lock at once, or waits until the time `deadline' without polling.
 * The lock belongs to the open description: whoever inherits fd keeps it.
 * *locked is false when the time ran out.
 */
int	fencefile_lock(struct fencefile *, int64_t deadline, bool *locked);

/* Whether the path still is the file that is open; else open it anew. */
bool	fencefile_is_current(const struct fencefile *);

/* Before the first record is written: the name must outlast a power cut. */
int	fencefile_sync_name(const struct fencefile *);

/* For a system call on the record that failed; the exit status. */
int	fencefile_fail(const struct fencefile *, const char *what, int error);

void	fencefile_clear(struct fencefile *);

#endif
