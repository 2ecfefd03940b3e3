/*
 * Leases in a table of PostgreSQL, one row for each name.  The server's clock
 * decides when a lease has run out; whatever is not an answer of a primary is
 * UNAVAILABLE.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgadmin.h"
#include "pgdoctor.h"
#include "pgexplain.h"
#include "pginit.h"
#include "postgres.h"

#define NS_PER_MS	INT64_C(1000000)
#define NS_PER_S	INT64_C(1000000000)

/* Heartbeats further apart than this do not keep a connection open. */
#define FAR_NS		(10 * NS_PER_S)
/* One that listens looks from time to time all the same. */
#define LISTEN_NS	(10 * NS_PER_S)
#define POLL_MIN_NS	(500 * NS_PER_MS)
#define POLL_MAX_NS	(8 * NS_PER_S)
#define EXPIRY_NS	(200 * NS_PER_MS)
#define RACE_NS		(10 * NS_PER_MS)
#define RACES		20
#define BLOCKER_NS	(500 * NS_PER_MS)

#define NUMBER_SIZE	24

static int64_t
earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t
jitter(const struct postgres *p, int64_t limit)
{
	return (int64_t)p->host->random((uint64_t)limit);
}

static const char *
number(char buf[NUMBER_SIZE], int64_t n)
{
	snprintf(buf, NUMBER_SIZE, "%" PRId64, n);
	return buf;
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
	p->poll_ns = POLL_MIN_NS;
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

/* --- One statement --- */

/* Someone who forgot a transaction is found by the row that it keeps. */
static void
explain_lock(struct postgres *p, const char *name, int64_t deadline)
{
	const char *const params[] = { name };
	char *sql = pgsql_for(pgsql_blocker, p->url.table);
	const char *const list[] = { sql };
	struct pgquery q = { list, 1, params, 1 };
	PGresult *res = NULL;

	p->host->error(p->host, "the row of the lease is locked by another "
	    "transaction");
	if (sql != NULL && pgconn_run(&p->conn, &q, earlier(deadline,
	    p->host->now() + BLOCKER_NS), &res) == LEASERUN_OK &&
	    PQntuples(res) == 1)
		p->host->error(p->host, "the row of the lease is locked by the "
		    "transaction of server process %s; end that one: SELECT "
		    "pg_terminate_backend(%s)", PQgetvalue(res, 0, 0),
		    PQgetvalue(res, 0, 0));
	PQclear(res);
	free(sql);
}

enum leaserun_result
postgres_run(struct postgres *p, const char *sql, const char *const *params,
    int nparams, int64_t deadline, PGresult **res)
{
	char *text = pgsql_for(sql, p->url.table);
	const char *const list[] = { text };
	struct pgquery q = { list, 1, params, nparams };
	enum leaserun_result result;

	if (text == NULL) {
		p->host->error(p->host, "out of memory");
		return LEASERUN_UNAVAILABLE;
	}
	result = pgconn_run(&p->conn, &q, deadline, res);
	free(text);
	if (result == LEASERUN_DENIED || result == LEASERUN_MISCONFIGURED)
		pgexplain(p);
	else if (result == LEASERUN_UNAVAILABLE && nparams > 0 &&
	    strcmp(p->conn.state, "55P03") == 0)
		explain_lock(p, params[0], deadline);
	return result;
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

/* A statement that answers with one row of the table, or with none. */
static enum leaserun_result
ask(struct postgres *p, const char *sql, const char *const *params,
    int nparams, int64_t deadline, struct pgsql_row *row, bool *found)
{
	enum leaserun_result result;
	PGresult *res;

	result = postgres_run(p, sql, params, nparams, deadline, &res);
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
settle(struct postgres *p, int64_t ttl_ns)
{
	if (p->url.connection == PGURL_REOPEN ||
	    (p->url.connection == PGURL_AUTO && (ttl_ns / 3 > FAR_NS ||
	    p->conn.is_crowded)))
		pgconn_close(&p->conn);
}

/* --- Acquiring --- */

/* Where the timeline may not be asked for, it goes without. */
static enum leaserun_result
try_acquire(struct postgres *p, const struct leaserun_request *r,
    int64_t deadline, struct pgsql_row *row, bool *found)
{
	char ttl[NUMBER_SIZE], pid[NUMBER_SIZE], hold[NUMBER_SIZE];
	char label[3 * LEASERUN_LABEL_SIZE], host[3 * LEASERUN_HOST_SIZE];
	const char *const params[] = { r->name, r->owner,
	    number(ttl, r->ttl_ns / NS_PER_MS), label, host,
	    number(pid, r->pid), number(hold, r->min_hold_ns / NS_PER_MS) };
	enum leaserun_result result;

	pgsql_encode(r->label, label, sizeof(label));
	pgsql_encode(r->host, host, sizeof(host));
	p->conn.answer_ns = r->answer_ns;
	if (!p->no_timeline) {
		result = ask(p, pgsql_acquire, params, 7, deadline, row, found);
		if (result != LEASERUN_DENIED &&
		    result != LEASERUN_MISCONFIGURED)
			return result;
	}
	result = ask(p, pgsql_acquire_plain, params, 7, deadline, row, found);
	p->no_timeline = result == LEASERUN_OK;
	return result;
}

static void
set_grant(struct postgres *p, const struct leaserun_request *r,
    const struct pgsql_row *row, struct leaserun_grant *grant)
{
	grant->token = row->entry.token;
	grant->sent_ns = p->conn.sent_ns;
	grant->ttl_ns = r->ttl_ns;
	grant->hold_fd = -1;
	grant->took_over = row->previous.owner[0] != '\0';
	grant->previous = row->previous;
}

/* The notices of others are not for a holder, and nobody would read them. */
static void
stop_listening(struct postgres *p, int64_t deadline)
{
	if (p->conn.is_listening && pgconn_say(&p->conn, "UNLISTEN *",
	    earlier(deadline, p->host->now() + p->conn.answer_ns)) !=
	    LEASERUN_OK)
		pgconn_close(&p->conn);
	p->conn.is_listening = false;
}

static bool
may_listen(const struct postgres *p)
{
	return p->url.connection != PGURL_REOPEN && !p->conn.is_pooled &&
	    !p->conn.is_crowded && p->conn.pg != NULL;
}

/* Nobody tells us: looked at again at the end of the lease, or earlier. */
static enum leaserun_result
wait_polling(struct postgres *p, int64_t until)
{
	int64_t pause = p->poll_ns / 2 + jitter(p, p->poll_ns);

	p->poll_ns = earlier(p->poll_ns * 2, POLL_MAX_NS);
	stop_listening(p, until);
	if (!p->conn.is_pooled)
		pgconn_close(&p->conn);
	return p->host->wait(p->host, NULL, 0,
	    earlier(until, p->host->now() + pause));
}

/* Until it is worth while to ask again. */
static enum leaserun_result
wait_for_change(struct postgres *p, const struct pgsql_row *row,
    int64_t deadline)
{
	int64_t now = p->host->now(), until, left_ms = row->left_ms;
	enum leaserun_result result;

	if (row->hold_ms > left_ms)
		left_ms = row->hold_ms;
	until = earlier(deadline, now + left_ms * NS_PER_MS +
	    jitter(p, EXPIRY_NS));
	if (!may_listen(p))
		return wait_polling(p, until);
	if (p->conn.is_listening)
		return pgconn_wait(&p->conn, row->entry.name, earlier(until,
		    now + LISTEN_NS + jitter(p, LISTEN_NS)));
	result = pgconn_say(&p->conn, "LISTEN " PGSQL_CHANNEL,
	    earlier(deadline, now + p->conn.answer_ns));
	p->conn.is_listening = result == LEASERUN_OK;
	/* What happened before we listened is seen by asking again. */
	return result == LEASERUN_INTERRUPTED ? result : LEASERUN_OK;
}

static enum leaserun_result
acquire_or_wait(struct postgres *p, const struct leaserun_request *r,
    int64_t deadline, struct leaserun_grant *grant)
{
	enum leaserun_result result;
	struct pgsql_row row;
	bool found;
	int races = 0;

	for (;;) {
		result = try_acquire(p, r, deadline, &row, &found);
		if (result != LEASERUN_OK)
			return result;
		if (found && row.outcome == PGSQL_DONE) {
			set_grant(p, r, &row, grant);
			return LEASERUN_OK;
		}
		/* Someone was faster in between; who, is seen next time. */
		if (!found || row.entry.state == LEASERUN_FREE) {
			if (++races > RACES) {
				p->host->error(p->host, "too many others "
				    "acquire at the same moment");
				return LEASERUN_UNAVAILABLE;
			}
			result = p->host->wait(p->host, NULL, 0,
			    p->host->now() + jitter(p, RACE_NS));
		} else if (!p->host->holder(p->host, &row.entry) || !r->wait ||
		    p->host->now() >= deadline)
			return LEASERUN_HELD;
		else {
			result = wait_for_change(p, &row, deadline);
			/* No request is begun that could not be answered. */
			if (result == LEASERUN_OK &&
			    p->host->now() >= deadline)
				return LEASERUN_HELD;
		}
		if (result != LEASERUN_OK)
			return result;
	}
}

static enum leaserun_result
pg_acquire(void *self, const struct leaserun_request *r, int64_t deadline,
    struct leaserun_grant *grant)
{
	struct postgres *p = self;
	enum leaserun_result result;

	result = acquire_or_wait(p, r, deadline, grant);
	if (result != LEASERUN_OK)
		return result;
	stop_listening(p, deadline);
	/* A short job ends on the connection that it began with. */
	if (p->url.connection == PGURL_REOPEN ||
	    (p->url.connection == PGURL_AUTO && p->conn.is_crowded))
		pgconn_close(&p->conn);
	return LEASERUN_OK;
}

static enum leaserun_result
pg_abandon(void *self, const char *name, const char *owner, int64_t deadline)
{
	const char *const params[] = { name, owner };
	struct postgres *p = self;
	enum leaserun_result result;
	PGresult *res;

	result = postgres_run(p, pgsql_abandon, params, 2, deadline, &res);
	if (result == LEASERUN_OK)
		PQclear(res);
	return result;
}

/* --- Holding --- */

static enum leaserun_loss
loss_of(const struct pgsql_row *row, const struct leaserun_lease *lease)
{
	if (row->entry.token != lease->token ||
	    strcmp(row->owner, lease->owner) != 0)
		return LEASERUN_LOSS_TAKEN;
	if (row->is_forced)
		return LEASERUN_LOSS_FORCED;
	return row->is_held ? LEASERUN_LOSS_EXPIRED : LEASERUN_LOSS_DELETED;
}

static enum leaserun_result
pg_renew(void *self, const struct leaserun_lease *lease, int64_t deadline,
    struct leaserun_renewal *renewal)
{
	char token[NUMBER_SIZE], ttl[NUMBER_SIZE];
	const char *const params[] = { lease->name, lease->owner,
	    number(token, (int64_t)lease->token),
	    number(ttl, lease->ttl_ns / NS_PER_MS) };
	struct postgres *p = self;
	enum leaserun_result result;
	struct pgsql_row row;
	bool found;
	int64_t sent;

	result = ask(p, pgsql_renew, params, 4, deadline, &row, &found);
	if (result != LEASERUN_OK)
		return result;
	sent = p->conn.sent_ns;
	settle(p, lease->ttl_ns);
	if (!found) {
		renewal->loss = LEASERUN_LOSS_DELETED;
		return LEASERUN_LOST;
	}
	if (row.outcome != PGSQL_DONE && row.is_live &&
	    loss_of(&row, lease) == LEASERUN_LOSS_EXPIRED) {
		p->host->error(p->host, "the row changed at the same moment");
		return LEASERUN_UNAVAILABLE;
	}
	if (row.outcome != PGSQL_DONE || !row.is_live) {
		renewal->loss = loss_of(&row, lease);
		return LEASERUN_LOST;
	}
	renewal->sent_ns = sent;
	renewal->ttl_ns = lease->ttl_ns;
	renewal->revoke = row.is_revoked;
	return LEASERUN_OK;
}

static enum leaserun_result
pg_release(void *self, const struct leaserun_lease *lease,
    const struct leaserun_end *end, int64_t deadline)
{
	char token[NUMBER_SIZE], status[NUMBER_SIZE], ran[NUMBER_SIZE];
	const char *const params[] = { lease->name, lease->owner,
	    number(token, (int64_t)lease->token), end->ran ? "t" : "f",
	    number(status, end->status), number(ran, end->ran_ns / NS_PER_MS) };
	struct postgres *p = self;
	enum leaserun_result result;
	PGresult *res;

	result = postgres_run(p, pgsql_release, params, 6, deadline, &res);
	if (result != LEASERUN_OK)
		return result;
	if (PQntuples(res) == 0 ||
	    atoi(PQgetvalue(res, 0, 0)) == PGSQL_NOT)
		result = LEASERUN_LOST;
	PQclear(res);
	return result;
}

const struct leaserun_backend leaserun_backend = {
	.size = sizeof(leaserun_backend),
	.version = LEASERUN_BACKEND_VERSION,
	.name = "postgres",
	.open = pg_open,
	.close = pg_close,
	.acquire = pg_acquire,
	.abandon = pg_abandon,
	.renew = pg_renew,
	.release = pg_release,
	.list = pgadmin_list,
	.revoke = pgadmin_revoke,
	.init = pginit,
	.doctor = pgdoctor,
};
