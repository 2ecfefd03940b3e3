/*
 * Which processes have the lock of a lease.  What we may not see is not there,
 * which proves nothing.
 */
#ifndef FILEHOLDERS_H
#define FILEHOLDERS_H

#include "filedir.h"

/* More than this are not named one by one. */
#define FILEHOLDERS_MAX	10

struct fileholders {
	/* "1, 2 and more"; "" when there is none */
	char	text[FILEHOLDERS_MAX * 18 + 10];
	bool	has_leaserun;	/* which looks after the others */
};

void	fileholders_find(const struct filedir *, const char *name,
	    struct fileholders *);

/*
 * A run holds its lock itself, and so does its guard.  True when neither does,
 * but others are seen to: these, who are filled in, are of a job that was left
 * alone.
 */
bool	fileholders_orphaned(const struct filedir *,
	    const struct leaserun_entry *, struct fileholders *);

#endif
