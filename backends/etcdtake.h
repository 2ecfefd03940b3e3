/*
 * Taking a name: acquire.
 */
#ifndef ETCDTAKE_H
#define ETCDTAKE_H

#include "etcdcall.h"

/* As in struct leaserun_backend. */
enum leaserun_result etcdtake_acquire(void *self,
	    const struct leaserun_request *, int64_t deadline,
	    struct leaserun_grant *);

#endif
