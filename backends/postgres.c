/*
 * Leases in a table of PostgreSQL, one row for each name.  The server's clock
 * decides when a lease has run out; whatever is not an answer of a primary is
 * UNAVAILABLE.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pgadmin.h"
#include "pgdoctor.h"
#include "pgexplain.h"
#include "pginit.h"
#include "pgonce.h"
#include "pgtake.h"
#include "postgres.h"

#define NS_PER_MS	INT64_C(1000000)
#define NS_PER_S	INT64_C(1000000000)

/*
 * Heartbeats further apart than 10 s do not keep a connection open; the last
 * of these is for one that comes late.
 */
#define FAR_NS		(11 * NS_PER_S)
/* Who keeps a row locked is asked for no longer than this. */
#define BLOCKER_NS	(500 * NS_PER_MS)
/* For an abandon, after the wait for a request that is under way. */
#define ABANDON_NS	(700 * NS_PER_MS)

int64_t
postgres_earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* --- Opening --- */

static enum leaserun_result
pg_open(const struct leaserun_host *host, const struct leaserun_target *target,
    void **self, unsigned int *endpoints)
{
	struct postgres *p = calloc(1, sizeof(*p));
	enum leaserun_result result;

	if (p == NULL) {
		host->error(host, "out of memory");
		return LEASERUN_UNAVAILABLE;
	}
	p->host = host;
	result = pgurl_parse(&p->url, host, target);
	if (result != LEASERUN_OK) {
		pgurl_free(&p->url);
		free(p);
		return result;
	}
	pgconn_init(&p->conn, host, &p->url);
	*endpoints = p->url.nhosts;
	*self = p;
	return LEASERUN_OK;
}

static void
pg_close(void *self)
{
	struct postgres *p = self;

	pgconn_close(&p->conn);
	pgurl_free(&p->url);
	free(p);
}

/* --- Statements --- */

/* Sets p->blocked if this names somebody who is in the way. */
static bool
find_blocker(struct postgres *p, const char *query, const char *param,
    const char *what, int64_t deadline)
{
	char *sql = pgsql_for(query, p->url.table);
	const struct pgstatement s = { sql, &param, 1 };
	PGresult *res = NULL;
	bool found;

	found = sql != NULL && pgconn_run(&p->conn, &s, 1, deadline, &res) ==
	    LEASERUN_OK && !PQgetisnull(res, 0, 0);
	if (found)
		snprintf(p->blocked, sizeof(p->blocked), "%s is locked by %s; "
		    "to end that: %s", what, pgsql_value(res, 0, 0),
		    pgsql_value(res, 0, 1));
	PQclear(res);
	free(sql);
	return found;
}

/* Someone who forgot a transaction is found by what it keeps. */
static void
explain_lock(struct postgres *p, const char *name, int64_t deadline)
{
	int64_t limit = postgres_earlier(deadline, p->host->now() + BLOCKER_NS);

	if (!find_blocker(p, pgsql_table_blocker, p->url.table,
	    "the table of the leases", limit) && !find_blocker(p, pgsql_blocker,
	    name, "the row of the lease", limit) && p->blocked[0] == '\0')
		snprintf(p->blocked, sizeof(p->blocked), "the row of the lease "
		    "is locked by another transaction");
	p->host->error(p->host, "%s", p->blocked);
}

/* Why it failed, in words that help. */
static void
explain(struct postgres *p, const struct pgstatement *s,
    enum leaserun_result result, int64_t deadline)
{
	char text[LEASERUN_ERROR_SIZE];

	if (result == LEASERUN_OK)
		p->blocked[0] = '\0';
	else if (result == LEASERUN_DENIED || result == LEASERUN_MISCONFIGURED)
		pgexplain(p);
	else if (result == LEASERUN_UNAVAILABLE && s->nparams > 0 &&
	    strcmp(p->conn.state, "55P03") == 0)
		explain_lock(p, s->params[0], deadline);
	else if (result == LEASERUN_UNAVAILABLE && p->blocked[0] != '\0') {
		/* A try that was cut short does not hide what was known. */
		memcpy(text, p->conn.text, sizeof(text));
		p->host->error(p->host, "%.60s; before that, %s", text,
		    p->blocked);
	}
}

enum leaserun_result
postgres_run(struct postgres *p, const struct pgstatement *s, unsigned int n,
    int64_t deadline, PGresult *res[])
{
	struct pgstatement ours[POSTGRES_STATEMENTS] = { { NULL, NULL, 0 } };
	enum leaserun_result result = LEASERUN_UNAVAILABLE;
	char *texts[POSTGRES_STATEMENTS];
	bool has_memory = true;
	unsigned int i;

	memset(res, 0, n * sizeof(*res));
	for (i = 0; i < n; i++) {
		texts[i] = pgsql_for(s[i].sql, p->url.table);
		has_memory = has_memory && texts[i] != NULL;
		ours[i] = s[i];
		ours[i].sql = texts[i];
	}
	if (has_memory)
		result = pgconn_run(&p->conn, ours, n, deadline, res);
	else
		p->host->error(p->host, "out of memory");
	for (i = 0; i < n; i++)
		free(texts[i]);
	explain(p, s, result, deadline);
	return result;
}

enum leaserun_result
postgres_give(struct postgres *p, const struct pgstatement *s, unsigned int n,
    int64_t deadline, PGresult *res[])
{
	char *sql = pgsql_for(pgsql_tell, p->url.table);
	const struct pgstatement tell = { sql, s[n - 1].params, 1 };
	enum leaserun_result result;

	p->conn.then = sql == NULL ? NULL : &tell;
	result = postgres_run(p, s, n, deadline, res);
	p->conn.then = NULL;
	free(sql);
	return result;
}

int64_t
postgres_wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / NS_PER_MS;
}

enum leaserun_result
postgres_row(struct postgres *p, const PGresult *res, int n,
    struct pgsql_row *row)
{
	const char *wrong;

	if (pgsql_read(res, n, row, &wrong))
		return LEASERUN_OK;
	pgexplain_column(p, wrong);
	return LEASERUN_MISCONFIGURED;
}

enum leaserun_result
postgres_look(struct postgres *p, const char *name, int64_t deadline,
    struct pgsql_row *row, bool *found)
{
	const char *const params[] = { name };
	const struct pgstatement s = { pgsql_list, params, 1 };
	enum leaserun_result result;
	PGresult *res;

	result = postgres_run(p, &s, 1, deadline, &res);
	if (result != LEASERUN_OK)
		return result;
	*found = PQntuples(res) > 0;
	if (*found)
		result = postgres_row(p, res, 0, row);
	PQclear(res);
	return result;
}

/* Between two heartbeats nothing is left open that the server could miss. */
static void
settle(struct postgres *p)
{
	bool is_far = p->conn.sent_ns - p->beat_ns > FAR_NS;

	p->beat_ns = p->conn.sent_ns;
	if (p->url.connection == PGURL_REOPEN ||
	    (p->url.connection == PGURL_AUTO && is_far))
		pgconn_close(&p->conn);
}

/* --- Holding --- */

static enum leaserun_result
pg_abandon(void *self, const char *name, const char *owner, int64_t deadline)
{
	const char *const params[] = { name, owner };
	const struct pgstatement s = { pgsql_abandon, params, 2 };
	struct postgres *p = self;
	enum leaserun_result result;
	PGresult *res;

	if (p->conn.sent_ns == 0)
		return LEASERUN_OK;	/* nothing was ever asked for */
	/* Granted after it was given up, it would stay for its ttl. */
	pgconn_settle(&p->conn, deadline - ABANDON_NS);
	result = postgres_give(p, &s, 1, deadline, &res);
	PQclear(res);
	return result;
}

static bool
is_of(const struct pgsql_row *row, const struct leaserun_lease *lease)
{
	return row->entry.token == lease->token &&
	    strcmp(row->owner, lease->owner) == 0;
}

/* Why a renewal found nothing to renew. */
static enum leaserun_result
explain_loss(struct postgres *p, const struct leaserun_lease *lease,
    int64_t deadline, enum leaserun_loss *loss)
{
	enum leaserun_result result;
	struct pgsql_row row;
	bool found;

	result = postgres_look(p, lease->name, deadline, &row, &found);
	if (result != LEASERUN_OK)
		return result;
	/* An older row is one that a failover or a backup brought back. */
	if (!found || row.entry.token < lease->token)
		*loss = LEASERUN_LOSS_DELETED;
	else if (!is_of(&row, lease))
		*loss = LEASERUN_LOSS_TAKEN;
	else if (row.is_forced)
		*loss = LEASERUN_LOSS_FORCED;
	else if (!row.is_held)
		*loss = LEASERUN_LOSS_DELETED;
	else if (!row.is_live)
		*loss = LEASERUN_LOSS_EXPIRED;
	else {
		p->host->error(p->host, "the row changed at the same moment");
		return LEASERUN_UNAVAILABLE;
	}
	return LEASERUN_LOST;
}

static enum leaserun_result
pg_renew(void *self, const struct leaserun_lease *lease, int64_t deadline,
    struct leaserun_renewal *renewal)
{
	char token[PGSQL_NUMBER_SIZE], ttl[PGSQL_NUMBER_SIZE];
	const char *const params[] = { lease->name, lease->owner,
	    pgsql_number(token, (int64_t)lease->token),
	    pgsql_number(ttl, lease->ttl_ns / NS_PER_MS) };
	const struct pgstatement s = { pgsql_renew, params, 4 };
	struct postgres *p = self;
	enum leaserun_result result;
	int64_t left_ms = 0;
	bool revoke = false;
	PGresult *res;

	p->conn.denied_ns = postgres_earlier(p->conn.denied_ns,
	    lease->ttl_ns / 10);
	result = postgres_run(p, &s, 1, deadline, &res);
	if (result != LEASERUN_OK)
		return result;
	if (PQntuples(res) == 0)
		result = explain_loss(p, lease, deadline, &renewal->loss);
	else {
		pgsql_read_renewal(res, &left_ms, &revoke);
		renewal->sent_ns = p->conn.sent_ns;
		renewal->ttl_ns = lease->ttl_ns;
		renewal->revoke = revoke;
		/* It ran out while the statement waited for the row. */
		if (left_ms <= 0) {
			renewal->loss = LEASERUN_LOSS_EXPIRED;
			result = LEASERUN_LOST;
		}
	}
	PQclear(res);
	settle(p);
	return result;
}

static enum leaserun_result
pg_release(void *self, const struct leaserun_lease *lease,
    const struct leaserun_end *end, int64_t deadline)
{
	char token[PGSQL_NUMBER_SIZE], status[PGSQL_NUMBER_SIZE];
	char ran[PGSQL_NUMBER_SIZE];
	const char *const params[] = { lease->name, lease->owner,
	    pgsql_number(token, (int64_t)lease->token), end->ran ? "t" : "f",
	    pgsql_number(status, end->status),
	    pgsql_number(ran, end->ran_ns / NS_PER_MS) };
	const struct pgstatement give = { pgsql_release, params, 6 };
	const struct pgstatement before = { pgsql_released, params, 3 };
	struct postgres *p = self;
	enum leaserun_result result;
	struct pgonce once;
	PGresult *res[2] = { NULL, NULL };
	bool found;

	if (end->once_key != NULL) {
		const struct pgstatement s[] = {
			pgonce_record(&once, lease, end), give
		};

		result = postgres_give(p, s, 2, deadline, res);
	} else
		result = postgres_give(p, &give, 1, deadline, &res[1]);
	if (result != LEASERUN_OK)
		return result;
	found = PQntuples(res[1]) > 0;
	PQclear(res[0]);
	PQclear(res[1]);
	if (found)
		return LEASERUN_OK;
	result = postgres_run(p, &before, 1, deadline, res);
	if (result != LEASERUN_OK)
		return result;
	found = PQntuples(res[0]) > 0;
	PQclear(res[0]);
	return found ? LEASERUN_OK : LEASERUN_LOST;
}

const struct leaserun_backend leaserun_backend = {
	.size = sizeof(leaserun_backend),
	.version = LEASERUN_BACKEND_VERSION,
	.name = "postgres",
	.open = pg_open,
	.close = pg_close,
	.acquire = pgtake,
	.abandon = pg_abandon,
	.renew = pg_renew,
	.release = pg_release,
	.list = pgadmin_list,
	.revoke = pgadmin_revoke,
	.init = pginit,
	.doctor = pgdoctor,
	.list_once = pgonce_list,
};
