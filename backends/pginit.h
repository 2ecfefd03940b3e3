/* init of the Postgres backend: the schema and the table. */
#ifndef PGINIT_H
#define PGINIT_H

#include "postgres.h"

/* What there is of the table, and what is wrong with it. */
struct pglayout {
	bool		 has_schema;
	bool		 has_table;
	bool		 has_key;	/* one row for each name */
	uint32_t	 missing;	/* bit i: pgsql_columns[i] */
	uint32_t	 mistyped;
	char		 types[32][64];	/* of those */
};

/* Looks into the catalog, for which no rights are needed. */
enum leaserun_result pginit_look(struct postgres *, int64_t deadline,
	    struct pglayout *);

/* As in struct leaserun_backend. */
enum leaserun_result pginit(void *self, const struct leaserun_init *,
	    int64_t deadline, leaserun_line_fn *, void *arg);

#endif
