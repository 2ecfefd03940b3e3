/* Makes the connection of a struct pgconn. */
#ifndef PGDIAL_H
#define PGDIAL_H

#include "pgconn.h"

/*
 * OK with a connection.  Otherwise as pgconn_run(): every host and address was
 * tried, each with its share of the time.
 */
enum leaserun_result pgdial(struct pgconn *, int64_t deadline);

/* This one will not do: closes it, and another one is tried next. */
void	pgdial_next_host(struct pgconn *);

/* Keeps the first line of a text from libpq, without what is only noise. */
void	pgdial_keep_text(struct pgconn *, const char *text);

#endif
