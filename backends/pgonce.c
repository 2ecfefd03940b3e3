/*
 * The records of --once in PostgreSQL.  Those that are too old are written over
 * by the next ones of their name, so nothing has to be deleted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgonce.h"

#define NS_PER_MS	INT64_C(1000000)

/* All keys of a name: '!' comes after the blank. */
#define OF_NAME(row) \
    row ".state = 'done' AND " row ".name > $1 || ' '" \
    " AND " row ".name < $1 || '!'"

/* name, key, period: this one, or a later one of the same period. */
static const char look_sql[] =
    "SELECT EXISTS (SELECT 1 FROM @ AS l WHERE l.state = 'done'"
    "  AND l.name = $1 || ' ' || $2)"
    " OR ($3::bigint > 0 AND EXISTS (SELECT 1 FROM @ AS l WHERE "
    OF_NAME("l") " AND l.name > $1 || ' ' || $2 COLLATE \"C\""
    " AND l.ttl_ms = $3::bigint"
    " AND length(l.name) = length($1 || ' ' || $2))),"
    " (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/* name, owner, token, key, period, ran, keep; the lease's row is locked. */
static const char record_sql[] =
    "WITH h AS (SELECT l.token, l.owner, l.label, l.host FROM @ AS l"
    "  WHERE l.name = $1 AND l.state = 'held' AND l.owner = $2"
    "  AND l.token = $3::bigint FOR UPDATE),"
    " o AS (UPDATE @ AS d SET name = $1 || ' ' || $4, token = h.token,"
    "  owner = h.owner, label = h.label, host = h.host,"
    "  ttl_ms = $5::bigint, ran_ms = $6::bigint,"
    "  ended_at = clock_timestamp() FROM h WHERE d.name = (SELECT x.name"
    "   FROM @ AS x WHERE " OF_NAME("x") " AND x.ended_at <"
    "   clock_timestamp() - $7::bigint * interval '1 ms'"
    "   ORDER BY x.name LIMIT 1)"
    "  AND NOT EXISTS (SELECT 1 FROM @ AS k WHERE k.name = $1 || ' ' || $4)"
    "  RETURNING 1)"
    "INSERT INTO @ (name, state, token, owner, label, host, ttl_ms, ran_ms,"
    " ended_at) SELECT $1 || ' ' || $4, 'done', h.token, h.owner, h.label,"
    " h.host, $5::bigint, $6::bigint, clock_timestamp() FROM h"
    " WHERE NOT EXISTS (SELECT 1 FROM o) ON CONFLICT (name) DO NOTHING";

static const char list_sql[] =
    "SELECT substr(l.name, length($1) + 2), l.owner, l.label, l.host,"
    " l.token, (extract(epoch FROM l.ended_at) * 1000)::bigint, l.ran_ms"
    " FROM @ AS l WHERE " OF_NAME("l")
    " ORDER BY l.ended_at DESC, l.name DESC";

enum { KEY, OWNER, LABEL, HOST, TOKEN, ENDED, RAN };

/*
 * A host whose clock is elsewhere would name another period.  The server looked
 * at its own between these two moments.
 */
static enum leaserun_result
check_clock(const struct postgres *p, int64_t store_ms, int64_t from_ms,
    int64_t to_ms, int64_t period_ms)
{
	int64_t offset = 0;

	if (store_ms < from_ms)
		offset = from_ms - store_ms;
	else if (store_ms > to_ms)
		offset = to_ms - store_ms;
	if (period_ms == 0 || llabs(offset) <= period_ms / 10)
		return LEASERUN_OK;
	p->host->error(p->host, "the clock of this host is %lld.%03d s %s the "
	    "server's, more than a tenth of the period of --once-per; set it "
	    "right", llabs(offset) / 1000, (int)(llabs(offset) % 1000),
	    offset < 0 ? "behind" : "ahead of");
	return LEASERUN_MISCONFIGURED;
}

enum leaserun_result
pgonce_look(struct postgres *p, const struct leaserun_request *r,
    int64_t deadline)
{
	int64_t period_ms = r->once_period_ns / NS_PER_MS, now, took;
	char period[PGSQL_NUMBER_SIZE];
	const char *const params[] = { r->name, r->once_key,
	    pgsql_number(period, period_ms) };
	const struct pgstatement s = { look_sql, params, 3 };
	enum leaserun_result result;
	PGresult *res;

	result = postgres_run(p, &s, 1, deadline, &res);
	if (result != LEASERUN_OK)
		return result;
	now = postgres_wall_ms();
	took = (p->host->now() - p->conn.sent_ns) / NS_PER_MS;
	result = check_clock(p, pgsql_count(res, 0, 1), now - took, now,
	    period_ms);
	if (result == LEASERUN_OK && strcmp(pgsql_value(res, 0, 0), "t") == 0)
		result = LEASERUN_DONE;
	PQclear(res);
	return result;
}

struct pgstatement
pgonce_record(struct pgonce *o, const struct leaserun_lease *lease,
    const struct leaserun_end *end)
{
	o->params[0] = lease->name;
	o->params[1] = lease->owner;
	o->params[2] = pgsql_number(o->token, (int64_t)lease->token);
	o->params[3] = end->once_key;
	o->params[4] = pgsql_number(o->period, end->once_period_ns / NS_PER_MS);
	o->params[5] = pgsql_number(o->ran, end->ran_ns / NS_PER_MS);
	o->params[6] = pgsql_number(o->keep, end->once_keep_ns / NS_PER_MS);
	return (struct pgstatement){ record_sql, o->params, PGONCE_PARAMS };
}

enum leaserun_result
pgonce_list(void *self, const char *name, int64_t deadline,
    leaserun_entry_fn *fn, void *arg)
{
	const char *const params[] = { name };
	const struct pgstatement s = { list_sql, params, 1 };
	struct postgres *p = self;
	enum leaserun_result result;
	struct leaserun_entry e;
	PGresult *res;
	int i;

	result = postgres_run(p, &s, 1, deadline, &res);
	for (i = 0; result == LEASERUN_OK && i < PQntuples(res); i++) {
		memset(&e, 0, sizeof(e));
		e.held_for_ms = e.expires_in_ms = e.waiting = -1;
		e.has_end = true;
		snprintf(e.name, sizeof(e.name), "%s",
		    pgsql_value(res, i, KEY));
		snprintf(e.owner, sizeof(e.owner), "%s",
		    pgsql_value(res, i, OWNER));
		pgsql_decode(pgsql_value(res, i, LABEL), e.label,
		    sizeof(e.label));
		pgsql_decode(pgsql_value(res, i, HOST), e.host,
		    sizeof(e.host));
		e.token = strtoull(pgsql_value(res, i, TOKEN), NULL, 10);
		e.end_ms = strtoll(pgsql_value(res, i, ENDED), NULL, 10);
		e.ran_ms = strtoll(pgsql_value(res, i, RAN), NULL, 10);
		fn(arg, &e);
	}
	PQclear(res);
	return result;
}
