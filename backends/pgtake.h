/* acquire of the Postgres backend, as struct leaserun_backend has it. */
#ifndef PGTAKE_H
#define PGTAKE_H

#include "postgres.h"

enum leaserun_result pgtake(void *self, const struct leaserun_request *,
	    int64_t deadline, struct leaserun_grant *);

#endif
