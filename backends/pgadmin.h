/* list and revoke of the Postgres backend: see struct leaserun_backend. */
#ifndef PGADMIN_H
#define PGADMIN_H

#include "postgres.h"

enum leaserun_result pgadmin_list(void *self, const char *name,
	    int64_t deadline, leaserun_entry_fn *, void *arg);
enum leaserun_result pgadmin_revoke(void *self,
	    const struct leaserun_revoke *, int64_t deadline,
	    struct leaserun_entry *);

#endif
