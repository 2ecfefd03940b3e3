/* doctor of the Postgres backend, as struct leaserun_backend has it. */
#ifndef PGDOCTOR_H
#define PGDOCTOR_H

#include "postgres.h"

enum leaserun_result pgdoctor(void *self, int64_t deadline,
	    leaserun_line_fn *, void *arg);

#endif
