/* init of the Postgres backend: the schema and the table. */
#ifndef PGINIT_H
#define PGINIT_H

#include "postgres.h"

/* As in struct leaserun_backend. */
enum leaserun_result pginit(void *self, const struct leaserun_init *,
	    int64_t deadline, leaserun_line_fn *, void *arg);

#endif
