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

/*
 * Their parameters, in this order.  Each touches one row at most, and answers
 * with nothing where its condition does not hold.
 */
extern const char pgsql_take[];		/* name owner ttl label host pid hold */
extern const char pgsql_take_plain[];	/* without the timeline */
extern const char pgsql_add[];		/* the same: of a new name */
extern const char pgsql_add_plain[];
extern const char pgsql_mend[];		/* name: after a step of the clock */
extern const char pgsql_renew[];	/* name owner token ttl */
extern const char pgsql_abandon[];	/* name owner */
extern const char pgsql_release[];	/* name owner token ran status ran_ms */
extern const char pgsql_released[];	/* name owner token */
extern const char pgsql_list[];		/* name or NULL: any number of rows */
extern const char pgsql_revoke[];	/* name token */
extern const char pgsql_force[];	/* name token */
extern const char pgsql_tell[];		/* name: behind what frees it */
extern const char pgsql_table_blocker[];	/* quoted table */
extern const char pgsql_blocker[];	/* name */

/* A number as one of them. */
#define PGSQL_NUMBER_SIZE	24
const char *pgsql_number(char buf[PGSQL_NUMBER_SIZE], int64_t n);

/* A row of the table, as the server's clock saw it. */
struct pgsql_row {
	struct leaserun_entry entry;	/* as status shows it */
	char		owner[LEASERUN_OWNER_SIZE];	/* even of a free one */
	bool		is_held;	/* neither released nor freed */
	bool		is_live;	/* held, and not run out */
	bool		is_forced;	/* freed by force */
	bool		is_released;
	int64_t		left_ms;	/* of the lease */
	int64_t		hold_ms;	/* of --min-hold; 0: none */
};

/* The statement for this table (quoted); owned by the caller; NULL: memory. */
char	*pgsql_for(const char *sql, const char *table);

/* A value; "" for NULL, and where a server left out a row or a column. */
const char *pgsql_value(const PGresult *, int n, int column);

/* A number, 0 for NULL; cut so that sums and differences of two have room. */
int64_t	pgsql_count(const PGresult *, int n, int column);

/*
 * Reads row n of pgsql_list; false: a column is not of the type that it should
 * be, *wrong names it.
 */
bool	pgsql_read(const PGresult *, int n, struct pgsql_row *,
	    const char **wrong);

/*
 * Reads what pgsql_take or pgsql_add granted, in the same way: the token, and
 * from whom it was taken.
 */
void	pgsql_read_grant(const PGresult *, uint64_t *token,
	    struct leaserun_entry *from);

/* Reads the answer of pgsql_renew: what is left, and whether to end. */
void	pgsql_read_renewal(const PGresult *, int64_t *left_ms, bool *revoke);

/* Text from anywhere as printable ASCII, for a database of any encoding. */
void	pgsql_encode(const char *text, char *to, size_t size);

/* What nobody could have encoded stays as it is; what is too long is cut. */
void	pgsql_decode(const char *text, char *to, size_t size);

#endif
