/* How the table is laid out, and what mends it where that is wrong. */
#ifndef PGLAYOUT_H
#define PGLAYOUT_H

#include "postgres.h"

/* What there is of the table, and what is wrong with it. */
struct pglayout {
	bool		 has_schema;
	bool		 has_table;
	bool		 has_key;	/* one row for each name */
	uint32_t	 missing;	/* bit i: pgsql_columns[i] */
	uint32_t	 mistyped;
	char		 types[32][64];	/* of those */
	char		 role[2 * 64 + 3];	/* ours, quoted */
};

/* Looks into the catalog, for which no rights on the table are needed. */
enum leaserun_result pglayout_look(struct postgres *, int64_t deadline,
	    struct pglayout *);

/*
 * What is wrong with part i, and the statement that mends it; false: nothing.
 * Parts 0 to PGLAYOUT_PARTS - 1 are the columns, the table and its key.
 */
#define PGLAYOUT_PARTS	(pgsql_ncolumns + 2)
bool	pglayout_wrong(const struct postgres *, const struct pglayout *,
	    unsigned int i, char *text, size_t size);

#endif
