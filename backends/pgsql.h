/*
 * The statements of the Postgres backend, and how their rows are read.
 */
#ifndef PGSQL_H
#define PGSQL_H

#include <libpq-fe.h>

#include "leaserun-backend.h"

/* Where waiters listen; the payload is the encoded name. */
#define PGSQL_CHANNEL	"leaserun"

/* A table's column: what init makes and doctor looks for. */
struct pgsql_column {
	const char	*name;
	const char	*type;		/* as format_type() has it */
	const char	*rest;		/* of its definition */
};

extern const struct pgsql_column pgsql_columns[];
extern const unsigned int pgsql_ncolumns;

/* Each begins with the number that the enum below explains. */
extern const char pgsql_acquire[];	/* name owner ttl label host pid hold */
extern const char pgsql_acquire_plain[]; /* without the timeline */
extern const char pgsql_abandon[];	/* name owner */
extern const char pgsql_renew[];	/* name owner token ttl */
extern const char pgsql_release[];	/* name owner token ran status ran_ms */
extern const char pgsql_list[];		/* name or NULL */
extern const char pgsql_revoke[];	/* name token */
extern const char pgsql_force[];	/* name token */
extern const char pgsql_blocker[];	/* name */

/* What became of it, in the first column. */
enum pgsql_outcome {
	PGSQL_NOT = 0,			/* the row is as it says */
	PGSQL_DONE = 1,
	PGSQL_BEFORE = 2		/* it was done before */
};

/* A row of the table, as the server's clock saw it. */
struct pgsql_row {
	enum pgsql_outcome outcome;
	struct leaserun_entry entry;	/* as status shows it */
	char		owner[LEASERUN_OWNER_SIZE];	/* even of a free one */
	bool		is_held;	/* neither released nor freed */
	bool		is_live;	/* held, and not run out */
	bool		is_forced;	/* freed by force */
	bool		is_revoked;
	int64_t		left_ms;	/* of the lease */
	int64_t		hold_ms;	/* of --min-hold; 0: none */
	struct leaserun_entry previous;	/* whom it was taken from */
};

/* The statement for this table (quoted); owned by the caller; NULL: memory. */
char	*pgsql_for(const char *sql, const char *table);

/*
 * Reads row n; false: the columns are not what they should be, *wrong names
 * the one.
 */
bool	pgsql_read(const PGresult *, int n, struct pgsql_row *,
	    const char **wrong);

/* Text from anywhere as printable ASCII, for a database of any encoding. */
void	pgsql_encode(const char *text, char *to, size_t size);

#endif
