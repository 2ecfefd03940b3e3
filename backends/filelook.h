/*
 * The leases as any process sees them: who has which, and the mark that asks
 * one to end.  Takes no lock.
 */
#ifndef FILELOOK_H
#define FILELOOK_H

#include "filedir.h"
#include "fileinfo.h"

/*
 * One name.  A dirfd of -1 is an empty directory.  *entry is always written, as
 * far as it is known; unless the result is OK its state is UNREADABLE.
 */
enum leaserun_result filelook(const struct filedir *, int dirfd,
	    const char *name, struct fileinfo *, struct leaserun_entry *);

/* MISCONFIGURED with what to do, if the record gives no next token. */
enum leaserun_result filelook_record(const struct filedir *, const char *file,
	    const struct record *);

/* OK when this very lease was given back, LOST when not. */
enum leaserun_result filelook_released(const struct filedir *,
	    const struct leaserun_lease *);

/* As in struct leaserun_backend; self begins with a struct filedir. */
enum leaserun_result filelook_list(void *self, const char *name,
	    int64_t deadline, leaserun_entry_fn *, void *arg);
enum leaserun_result filelook_revoke(void *self,
	    const struct leaserun_revoke *, int64_t deadline,
	    struct leaserun_entry *);

#endif
