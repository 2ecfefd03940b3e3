/*
 * Which servers, which table, and how connections are kept: the URL and the
 * options of the Postgres backend.  Touches no network.
 */
#ifndef PGURL_H
#define PGURL_H

#include <libpq-fe.h>

#include "leaserun-backend.h"

#define PGURL_HOSTS	16		/* in one URL */

/* When the connection is closed between two heartbeats. */
enum pgurl_connection {
	PGURL_AUTO = 0,			/* when they are far apart */
	PGURL_KEEP = 1,
	PGURL_REOPEN = 2
};

struct pgurl_host {
	const char	*name;		/* NULL: libpq's own default */
	const char	*address;	/* NULL: look the name up */
	const char	*port;		/* NULL: libpq's own default */
};

struct pgurl {
	PQconninfoOption *info;		/* owned: as libpq completed it */
	char		*gssencmode;	/* owned; NULL: not given */
	char		*lists[3];	/* owned: what the hosts point into */
	struct pgurl_host hosts[PGURL_HOSTS];
	unsigned int	 nhosts;	/* at least 1 */
	char		*table;		/* owned: quoted for SQL */
	const char	*name;		/* of the table alone, not quoted */
	char		*schema;	/* owned, plain; NULL: none */
	char		*quoted;	/* owned: the schema, quoted */
	char		*list;		/* owned: what name points into */
	char		*init;		/* owned: the command that makes it */
	enum pgurl_connection connection;
};

/* MISCONFIGURED with its text; pgurl_free() is due in any case. */
enum leaserun_result pgurl_parse(struct pgurl *, const struct leaserun_host *,
	    const struct leaserun_target *);

void	pgurl_free(struct pgurl *);

/* The value of a libpq parameter; NULL: not set. */
const char *pgurl_value(const struct pgurl *, const char *keyword);

#endif
