/*
 * Which keys of --once are done: rows of the same table, with a blank in their
 * name, which no encoded name has.
 */
#ifndef PGONCE_H
#define PGONCE_H

#include "postgres.h"

/* DONE, OK (not yet), MISCONFIGURED (the clocks), or it cannot be told. */
enum leaserun_result pgonce_look(struct postgres *,
	    const struct leaserun_request *, int64_t deadline);

/*
 * The statement that records it, in the transaction of the release; it does
 * nothing unless that will.  params is filled in: PGONCE_PARAMS of them.
 */
#define PGONCE_PARAMS	7

struct pgonce {
	const char	*params[PGONCE_PARAMS];
	char		 token[PGSQL_NUMBER_SIZE], period[PGSQL_NUMBER_SIZE];
	char		 ran[PGSQL_NUMBER_SIZE], keep[PGSQL_NUMBER_SIZE];
};

struct pgstatement pgonce_record(struct pgonce *,
	    const struct leaserun_lease *, const struct leaserun_end *);

/* As in struct leaserun_backend. */
enum leaserun_result pgonce_list(void *self, const char *name,
	    int64_t deadline, leaserun_entry_fn *, void *arg);

#endif
