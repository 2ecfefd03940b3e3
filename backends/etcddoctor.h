/*
 * doctor of the etcd backend.
 */
#ifndef ETCDDOCTOR_H
#define ETCDDOCTOR_H

#include "etcdcall.h"

/* As in struct leaserun_backend. */
enum leaserun_result etcddoctor(void *self, int64_t deadline,
	    leaserun_line_fn *, void *arg);

#endif
