/*
 * NAME.once: which keys are done, a checksummed line for each.  Read and
 * written under the lease's lock only, but for fileonce_list().
 */
#ifndef FILEONCE_H
#define FILEONCE_H

#include "filedir.h"

/* What is recorded beside the key. */
struct fileonce {
	const char	*name;		/* encoded */
	const char	*owner;
	uint64_t	token;
	const char	*host;
	const struct leaserun_end *end;
};

/*
 * DONE, OK (not yet, or no key is given), or why that cannot be told.  Without
 * the lock only DONE counts: it is final.
 */
enum leaserun_result fileonce_look(const struct filedir *, int dirfd,
	    const struct leaserun_request *);

/* OK: it is on the disk.  Repeating it does no harm. */
enum leaserun_result fileonce_record(const struct filedir *,
	    const struct fileonce *);

/* As in struct leaserun_backend; self begins with a struct filedir. */
enum leaserun_result fileonce_list(void *self, const char *name,
	    int64_t deadline, leaserun_entry_fn *, void *arg);

#endif
