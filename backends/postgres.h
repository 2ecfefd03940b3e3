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
	char		 blocked[LEASERUN_ERROR_SIZE];	/* by whom */
	int64_t		 poll_ns;	/* of a waiter that cannot be told */
	int64_t		 beat_ns;	/* granted or renewed last */
};

/* The most statements of pgsql.h in one go. */
#define POSTGRES_STATEMENTS	3

/*
 * Runs statements of pgsql.h, as pgconn_run() does.  The error text says what
 * to do; the first parameter of the first one is the name.
 */
enum leaserun_result postgres_run(struct postgres *,
	    const struct pgstatement *, unsigned int n, int64_t deadline,
	    PGresult *res[]);

/*
 * The same for what frees a name, which is the last of them: then whoever
 * listens is told.
 */
enum leaserun_result postgres_give(struct postgres *,
	    const struct pgstatement *, unsigned int n, int64_t deadline,
	    PGresult *res[]);

/* Of two times. */
int64_t	postgres_earlier(int64_t a, int64_t b);

/* This host's wall clock, to be compared with the server's. */
int64_t	postgres_wall_ms(void);

/* The row of a name; *found is false if there is none. */
enum leaserun_result postgres_look(struct postgres *, const char *name,
	    int64_t deadline, struct pgsql_row *, bool *found);

/* Reads row n of pgsql_list; a wrong type is MISCONFIGURED. */
enum leaserun_result postgres_row(struct postgres *, const PGresult *,
	    int n, struct pgsql_row *);

#endif
