/*
 * Giving a name back: release and abandon.
 */
#ifndef ETCDGIVE_H
#define ETCDGIVE_H

#include "etcdcall.h"

/* As in struct leaserun_backend. */
enum leaserun_result etcdgive_release(void *self,
	    const struct leaserun_lease *, const struct leaserun_end *,
	    int64_t deadline);
enum leaserun_result etcdgive_abandon(void *self, const char *name,
	    const char *owner, int64_t deadline);

#endif
