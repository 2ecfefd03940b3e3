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
	const struct pgstatement s = { pgsql_list, params, 1 };
	struct leaserun_entry none = { .held_for_ms = -1, .expires_in_ms = -1,
	    .waiting = -1 };
	struct postgres *p = self;
	enum leaserun_result result;
	struct pgsql_row row;
	PGresult *res;
	int i, n;

	result = postgres_run(p, &s, 1, deadline, &res);
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

/*
 * Looks, and asks if there is someone to ask, in one transaction.  False: the
 * row changed in between.
 */
static bool
answer(const struct leaserun_revoke *r, const struct pgsql_row *row,
    bool is_done, struct leaserun_entry *entry, enum leaserun_result *result)
{
	bool is_meant = r->token == 0 || r->token == row->entry.token;
	bool is_due = row->is_live || (r->force && row->hold_ms > 0);

	*entry = row->entry;
	*result = LEASERUN_OK;
	if (is_done && !r->force)
		entry->state = LEASERUN_REVOKING;
	if (!is_meant && row->entry.state != LEASERUN_FREE)
		*result = LEASERUN_HELD;
	return is_done == (is_due && is_meant);
}

enum leaserun_result
pgadmin_revoke(void *self, const struct leaserun_revoke *r, int64_t deadline,
    struct leaserun_entry *entry)
{
	char token[24];
	const char *const params[] = { r->name, token };
	const struct pgstatement s[] = {
		{ pgsql_list, params, 1 },
		{ r->force ? pgsql_force : pgsql_revoke, params, 2 }
	};
	struct postgres *p = self;
	enum leaserun_result result, answered = LEASERUN_OK;
	bool is_clear = false;
	struct pgsql_row row;
	PGresult *res[2];
	int tries;

	snprintf(token, sizeof(token), "%" PRIu64, r->token);
	memset(entry, 0, sizeof(*entry));
	snprintf(entry->name, sizeof(entry->name), "%s", r->name);
	for (tries = 0; tries < RACES && !is_clear; tries++) {
		result = r->force ? postgres_give(p, s, 2, deadline, res) :
		    postgres_run(p, s, 2, deadline, res);
		if (result != LEASERUN_OK)
			return result;
		is_clear = PQntuples(res[0]) == 0 && PQntuples(res[1]) == 0;
		if (PQntuples(res[0]) > 0 && (result = postgres_row(p, res[0],
		    0, &row)) == LEASERUN_OK)
			is_clear = answer(r, &row, PQntuples(res[1]) > 0,
			    entry, &answered);
		PQclear(res[0]);
		PQclear(res[1]);
		if (result != LEASERUN_OK)
			return result;
	}
	if (is_clear)
		return answered;
	p->host->error(p->host, "the row changes all the time; try again");
	return LEASERUN_UNAVAILABLE;
}
