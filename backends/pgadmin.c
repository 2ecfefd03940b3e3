/*
 * What an operator asks of the Postgres backend: list and revoke.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pgadmin.h"

#define RACES		3

enum leaserun_result
pgadmin_list(void *self, const char *name, int64_t deadline,
    leaserun_entry_fn *fn, void *arg)
{
	const char *const params[] = { name };
	struct leaserun_entry none = { .held_for_ms = -1, .expires_in_ms = -1,
	    .waiting = -1 };
	struct postgres *p = self;
	enum leaserun_result result;
	struct pgsql_row row;
	PGresult *res;
	int i, n;

	result = postgres_run(p, pgsql_list, params, 1, deadline, &res);
	if (result != LEASERUN_OK)
		return result;
	n = PQntuples(res);
	for (i = 0; i < n && result == LEASERUN_OK; i++) {
		result = postgres_row(p, res, i, &row);
		if (result == LEASERUN_OK)
			fn(arg, &row.entry);
	}
	PQclear(res);
	if (n == 0 && name != NULL) {
		snprintf(none.name, sizeof(none.name), "%s", name);
		fn(arg, &none);
	}
	return result;
}

/* The answer for what the row was when the request came. */
static enum leaserun_result
answer(const struct leaserun_revoke *r, const struct pgsql_row *row,
    struct leaserun_entry *entry)
{
	bool is_meant = r->token == 0 || r->token == row->entry.token;

	*entry = row->entry;
	if (row->outcome == PGSQL_DONE && !r->force)
		entry->state = LEASERUN_REVOKING;
	return !is_meant && entry->state != LEASERUN_FREE ? LEASERUN_HELD :
	    LEASERUN_OK;
}

enum leaserun_result
pgadmin_revoke(void *self, const struct leaserun_revoke *r, int64_t deadline,
    struct leaserun_entry *entry)
{
	char token[24];
	const char *const params[] = { r->name, token };
	struct postgres *p = self;
	enum leaserun_result result;
	struct pgsql_row row;
	PGresult *res;
	int tries;

	snprintf(token, sizeof(token), "%" PRIu64, r->token);
	for (tries = 0; tries < RACES; tries++) {
		result = postgres_run(p, r->force ? pgsql_force : pgsql_revoke,
		    params, 2, deadline, &res);
		if (result != LEASERUN_OK)
			return result;
		if (PQntuples(res) == 0) {
			PQclear(res);
			memset(entry, 0, sizeof(*entry));
			snprintf(entry->name, sizeof(entry->name), "%s",
			    r->name);
			return LEASERUN_OK;
		}
		result = postgres_row(p, res, 0, &row);
		PQclear(res);
		if (result != LEASERUN_OK)
			return result;
		result = answer(r, &row, entry);
		if (result == LEASERUN_HELD || row.outcome == PGSQL_DONE ||
		    !(row.is_live || (r->force && row.hold_ms > 0)))
			return result;
	}
	p->host->error(p->host, "the row changes all the time; try again");
	return LEASERUN_UNAVAILABLE;
}
