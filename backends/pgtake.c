/*
 * Takes a lease in the table, and waits for its holder to go: told by the
 * server where that is possible, else by looking.
 */
#include <stdio.h>
#include <string.h>

#include "pgonce.h"
#include "pgtake.h"

#define NS_PER_MS	INT64_C(1000000)
#define NS_PER_S	INT64_C(1000000000)

/* One that listens looks from time to time all the same. */
#define LISTEN_NS	(10 * NS_PER_S)
#define POLL_MIN_NS	(500 * NS_PER_MS)
#define POLL_MAX_NS	(8 * NS_PER_S)
#define EXPIRY_NS	(200 * NS_PER_MS)
#define RACE_NS		(10 * NS_PER_MS)
#define RACES		20

static int64_t
jitter(const struct postgres *p, int64_t limit)
{
	return (int64_t)p->host->random((uint64_t)limit);
}

/* --- Taking --- */

/* The parameters of a request, as text. */
struct wanted {
	const char	*params[7];
	char		 ttl[PGSQL_NUMBER_SIZE], pid[PGSQL_NUMBER_SIZE];
	char		 hold[PGSQL_NUMBER_SIZE];
	char		 label[3 * LEASERUN_LABEL_SIZE];
	char		 host[3 * LEASERUN_HOST_SIZE];
};

static void
wanted_init(struct wanted *w, const struct leaserun_request *r)
{
	pgsql_encode(r->label, w->label, sizeof(w->label));
	pgsql_encode(r->host, w->host, sizeof(w->host));
	w->params[0] = r->name;
	w->params[1] = r->owner;
	w->params[2] = pgsql_number(w->ttl, r->ttl_ns / NS_PER_MS);
	w->params[3] = w->label;
	w->params[4] = w->host;
	w->params[5] = pgsql_number(w->pid, r->pid);
	w->params[6] = pgsql_number(w->hold, r->min_hold_ns / NS_PER_MS);
}

/* The guard would take no job under a token that is none. */
static enum leaserun_result
read_grant(const struct postgres *p, const struct leaserun_request *r,
    const PGresult *res, struct leaserun_grant *grant)
{
	struct leaserun_grant got = { .sent_ns = p->conn.sent_ns,
	    .ttl_ns = r->ttl_ns, .hold_fd = -1 };

	pgsql_read_grant(res, &got.token, &got.previous);
	got.took_over = got.previous.owner[0] != '\0';
	snprintf(got.previous.name, sizeof(got.previous.name), "%s", r->name);
	if (got.token == 0) {
		p->host->error(p->host, "the answer cannot be understood "
		    "(a grant without a token)");
		return LEASERUN_UNAVAILABLE;
	}
	*grant = got;
	return LEASERUN_OK;
}

/*
 * The row as it is, if there is one by now: a new name is added, and a holder
 * that nobody could outwait is corrected.
 */
static enum leaserun_result
add_or_look(struct postgres *p, const struct leaserun_request *r,
    const struct wanted *w, int64_t deadline, struct leaserun_grant *grant,
    struct pgsql_row *row)
{
	const struct pgstatement s[] = {
		{ p->no_timeline ? pgsql_add_plain : pgsql_add, w->params, 7 },
		{ pgsql_mend, w->params, 1 },
		{ pgsql_list, w->params, 1 }
	};
	enum leaserun_result result;
	PGresult *res[3];
	unsigned int i;

	result = postgres_run(p, s, 3, deadline, res);
	if (result != LEASERUN_OK)
		return result;
	memset(row, 0, sizeof(*row));	/* free, if it is not there */
	if (PQntuples(res[0]) > 0)
		result = read_grant(p, r, res[0], grant);
	else {
		if (PQntuples(res[2]) > 0)
			result = postgres_row(p, res[2], 0, row);
		if (result == LEASERUN_OK)
			result = LEASERUN_HELD;
	}
	for (i = 0; i < 3; i++)
		PQclear(res[i]);
	return result;
}

/* OK; HELD with the row, which may have become free by now. */
static enum leaserun_result
take(struct postgres *p, const struct leaserun_request *r, int64_t deadline,
    struct leaserun_grant *grant, struct pgsql_row *row)
{
	struct wanted w;
	const struct pgstatement s = { p->no_timeline ? pgsql_take_plain :
	    pgsql_take, w.params, 7 };
	enum leaserun_result result;
	PGresult *res;

	wanted_init(&w, r);
	result = postgres_run(p, &s, 1, deadline, &res);
	if (result != LEASERUN_OK)
		return result;
	if (PQntuples(res) > 0)
		result = read_grant(p, r, res, grant);
	else
		result = add_or_look(p, r, &w, deadline, grant, row);
	PQclear(res);
	return result;
}

/* Where the timeline may not be asked for, it goes without. */
static enum leaserun_result
take_somehow(struct postgres *p, const struct leaserun_request *r,
    int64_t deadline, struct leaserun_grant *grant, struct pgsql_row *row)
{
	enum leaserun_result result;

	result = take(p, r, deadline, grant, row);
	if (p->no_timeline || (result != LEASERUN_DENIED &&
	    result != LEASERUN_MISCONFIGURED))
		return result;
	p->no_timeline = true;
	result = take(p, r, deadline, grant, row);
	p->no_timeline = result == LEASERUN_OK || result == LEASERUN_HELD;
	return result;
}

/* --- Waiting --- */

/* The notices of others are not for a holder, and nobody would read them. */
static void
stop_listening(struct postgres *p, int64_t deadline)
{
	if (p->conn.is_listening && pgconn_say(&p->conn, "UNLISTEN *",
	    postgres_earlier(deadline, p->host->now() + p->conn.answer_ns)) !=
	    LEASERUN_OK)
		pgconn_close(&p->conn);
	p->conn.is_listening = false;
}

/* Nobody tells us: looked at again at the end of the lease, or earlier. */
static enum leaserun_result
wait_polling(struct postgres *p, int64_t until)
{
	int64_t pause;

	if (p->poll_ns == 0)
		p->poll_ns = POLL_MIN_NS;
	pause = p->poll_ns / 2 + jitter(p, p->poll_ns);
	p->poll_ns = postgres_earlier(p->poll_ns * 2, POLL_MAX_NS);
	stop_listening(p, until);
	if (!p->conn.is_pooled)
		pgconn_close(&p->conn);
	return p->host->wait(p->host, NULL, 0,
	    postgres_earlier(until, p->host->now() + pause));
}

/* Until it is worth while to ask again. */
static enum leaserun_result
wait_for_change(struct postgres *p, const struct pgsql_row *row,
    int64_t deadline)
{
	int64_t now = p->host->now(), until;
	int64_t left_ms = row->is_live ? row->left_ms : 0;
	enum leaserun_result result;
	bool may = false;

	if (row->hold_ms > left_ms)
		left_ms = row->hold_ms;
	until = postgres_earlier(deadline, now + left_ms * NS_PER_MS +
	    jitter(p, EXPIRY_NS));
	if (p->conn.is_listening)
		return pgconn_wait(&p->conn, row->entry.name,
		    postgres_earlier(until, now + LISTEN_NS +
		    jitter(p, LISTEN_NS)));
	if (p->url.connection != PGURL_REOPEN) {
		result = pgconn_may_listen(&p->conn, deadline, &may);
		if (result != LEASERUN_OK)
			return result;
	}
	if (!may)
		return wait_polling(p, until);
	result = pgconn_say(&p->conn, "LISTEN " PGSQL_CHANNEL,
	    postgres_earlier(deadline, now + p->conn.answer_ns));
	p->conn.is_listening = result == LEASERUN_OK;
	/* What happened before we listened is seen by asking again. */
	return result == LEASERUN_UNAVAILABLE ? wait_polling(p, until) :
	    result;
}

/* Someone was faster in between; who, is seen next time. */
static enum leaserun_result
wait_for_race(struct postgres *p, int *races)
{
	if (++*races <= RACES)
		return p->host->wait(p->host, NULL, 0,
		    p->host->now() + jitter(p, RACE_NS));
	p->host->error(p->host, "too many others acquire at the same moment");
	return LEASERUN_UNAVAILABLE;
}

/*
 * What turns out to be done, or to be refused, while we hold the name is given
 * back unused.  Of any other answer the keeper does that.
 */
static enum leaserun_result
give_up(struct postgres *p, const struct leaserun_request *r,
    enum leaserun_result why, int64_t deadline)
{
	const char *const params[] = { r->name, r->owner };
	const struct pgstatement s = { pgsql_abandon, params, 2 };
	enum leaserun_result result;
	PGresult *res;

	result = postgres_give(p, &s, 1, deadline, &res);
	PQclear(res);
	return result == LEASERUN_OK ? why : result;
}

/*
 * With a key of --once.  That it is done is final, so it may be asked for
 * before; that it is not counts only while we hold the name.
 */
static enum leaserun_result
take_undone(struct postgres *p, const struct leaserun_request *r,
    int64_t deadline, struct leaserun_grant *grant, struct pgsql_row *row)
{
	enum leaserun_result result;

	if (r->once_key == NULL)
		return take_somehow(p, r, deadline, grant, row);
	result = pgonce_look(p, r, deadline);
	if (result != LEASERUN_OK)
		return result;
	result = take_somehow(p, r, deadline, grant, row);
	if (result != LEASERUN_OK)
		return result;
	result = pgonce_look(p, r, deadline);
	if (result == LEASERUN_DONE || result == LEASERUN_MISCONFIGURED ||
	    result == LEASERUN_DENIED)
		return give_up(p, r, result, deadline);
	return result;
}

static enum leaserun_result
acquire_or_wait(struct postgres *p, const struct leaserun_request *r,
    int64_t deadline, struct leaserun_grant *grant)
{
	enum leaserun_result result;
	struct pgsql_row row = { .is_held = false };
	int races = 0;

	for (;;) {
		result = take_undone(p, r, deadline, grant, &row);
		if (result != LEASERUN_HELD)
			return result;
		if (row.entry.state == LEASERUN_FREE)
			result = wait_for_race(p, &races);
		else if (!p->host->holder(p->host, &row.entry) || !r->wait ||
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

enum leaserun_result
pgtake(void *self, const struct leaserun_request *r, int64_t deadline,
    struct leaserun_grant *grant)
{
	struct postgres *p = self;
	enum leaserun_result result;

	p->conn.answer_ns = r->answer_ns;
	result = acquire_or_wait(p, r, deadline, grant);
	if (result != LEASERUN_OK)
		return result;
	stop_listening(p, deadline);
	p->beat_ns = grant->sent_ns;
	/* A short job ends on the connection that it began with. */
	if (p->url.connection == PGURL_REOPEN)
		pgconn_close(&p->conn);
	return LEASERUN_OK;
}
