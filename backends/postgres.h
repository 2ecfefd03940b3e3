/*
 * What the parts of the Postgres backend share: the store, and one statement
 * on it with its errors explained.
 */
#ifndef POSTGRES_H
#define POSTGRES_H

#include "pgconn.h"
#include "pgsql.h"
#include "pgurl.h"

struct postgres {
	const struct leaserun_host *host;
	struct pgurl	 url;
	struct pgconn	 conn;
	bool		 no_timeline;	/* we may not ask for it */
	int64_t		 poll_ns;	/* of a waiter that cannot be told */
};

/*
 * Runs one of pgsql.h with these parameters.  OK: *res is the caller's to
 * clear.  Otherwise the error text says what to do.
 */
enum leaserun_result postgres_run(struct postgres *, const char *sql,
	    const char *const *params, int nparams, int64_t deadline,
	    PGresult **res);

/* Reads the first row of an answer; one that is no answer is MISCONFIGURED. */
enum leaserun_result postgres_row(struct postgres *, const PGresult *,
	    int n, struct pgsql_row *);

#endif
