/*
 * The one connection of the Postgres backend: made when it is needed, to
 * whichever host is the primary, and never waited for but through
 * host->wait().
 */
#ifndef PGCONN_H
#define PGCONN_H

#include <libpq-fe.h>

#include "leaserun-backend.h"
#include "pgurl.h"
#include "resolve.h"

#define PGCONN_STATE_SIZE	6	/* SQLSTATE */
/* A last try that had no more time says less than the one before it. */
#define PGCONN_SHORT_NS		INT64_C(200000000)

struct pgstatement {
	const char	*sql;
	const char	*const *params;	/* text; NULL is NULL */
	int		 nparams;
};

struct pgconn {
	const struct leaserun_host *host;
	const struct pgurl *url;
	PGconn		*pg;		/* owned; NULL: not connected */
	struct resolve found[PGURL_HOSTS];
	bool		 is_stale[PGURL_HOSTS];	/* look it up again */
	unsigned int	 turn;		/* the host to try next */
	int64_t		 answer_ns;	/* the longest silence */
	char		 text[LEASERUN_ERROR_SIZE];	/* of the last error */
	char		 state[PGCONN_STATE_SIZE];	/* SQLSTATE, or "" */
	char		 before[LEASERUN_ERROR_SIZE];	/* the last but one */
	int64_t		 denied_until[PGURL_HOSTS];	/* no hammering */
	int64_t		 denied_ns;	/* for so long */
	char		 denied_text[LEASERUN_ERROR_SIZE];
	bool		 is_in_flight;	/* an answer is due that nobody wants */
	bool		 is_unanswered;	/* what was sent last, in all */
	bool		 is_early;	/* our limits were not yet set then */
	bool		 is_listening;
	bool		 is_pooled;	/* the server is not who answers */
	bool		 is_in_doubt;	/* committed, but not everywhere */
	unsigned int	 part;		/* of the answer that is being read */
	unsigned int	 nparts;
	unsigned int	 commit;	/* the part that the answer hangs on */
	int64_t		 sent_ns;	/* before the last request */
	/*
	 * Borrowed for the next pgconn_run() alone: run behind its transaction
	 * if that was committed, in one of its own that nobody waits for to be
	 * on disk.  Whether it worked is not told.  NULL: nothing.
	 */
	const struct pgstatement *then;
};

#define PGCONN_STATEMENTS	48	/* in one transaction */

void	pgconn_init(struct pgconn *, const struct leaserun_host *,
	    const struct pgurl *);

/* Closes the connection, without asking the server for anything. */
void	pgconn_close(struct pgconn *);

/*
 * Runs n statements in one transaction and one round trip on a primary,
 * connecting first if need be.  OK: each of res[] (n of them) is the caller's
 * to clear.  Other answers leave them NULL, and come with state[] and an error
 * text; no transaction is left open, but it may have been committed
 * (UNAVAILABLE, INTERRUPTED).
 */
enum leaserun_result pgconn_run(struct pgconn *, const struct pgstatement *,
	    unsigned int n, int64_t deadline, PGresult *res[]);

/*
 * Whether the server itself is at the other end, and not half of its
 * connections are in use: only then one may be kept just to listen.
 */
enum leaserun_result pgconn_may_listen(struct pgconn *, int64_t deadline,
	    bool *may);

/*
 * What was sent last and not answered may still wait for a lock in the server.
 * Returns when it has been given up there, too, or at the deadline.
 */
void	pgconn_settle(struct pgconn *, int64_t deadline);

/* The same for a statement that may not be in a transaction: LISTEN. */
enum leaserun_result pgconn_say(struct pgconn *, const char *sql,
	    int64_t deadline);

/*
 * Waits until something is notified with that payload, the time has come, or
 * the connection is gone (which closes it): OK.  INTERRUPTED.
 */
enum leaserun_result pgconn_wait(struct pgconn *, const char *payload,
	    int64_t until);

/* What the SQLSTATE means: DENIED, MISCONFIGURED, else UNAVAILABLE. */
enum leaserun_result pgconn_classify(const struct pgconn *);

/* The error text of the last answer, for host->error. */
const char *pgconn_text(const struct pgconn *);

#endif
