/*
 * The key under which a run is done: what --once gives, or the start of the
 * period of --once-per.
 */
#ifndef ONCE_H
#define ONCE_H

#include "../backends/leaserun-backend.h"
#include "conf.h"

#define ONCE_SHOWN_SIZE	(3 * LEASERUN_KEY_SIZE)

/*
 * Writes the key, encoded and as people read it.  unix_ms: the wall clock that
 * fired the job.  Keys of one period have one length and sort as their times
 * do.  False: neither was asked for.
 */
bool	 once_key(const struct conf *, int64_t unix_ms,
	    char key[LEASERUN_KEY_SIZE], char shown[ONCE_SHOWN_SIZE]);

/* How long a record of it is kept at least: -o keep, and never too short. */
int64_t	 once_keep(const struct conf *);

#endif
