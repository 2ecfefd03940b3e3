/*
 * Sends transactions and waits for their answers.  No server-side limit is
 * trusted to protect us, and nothing here blocks but host->wait().
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgconn.h"
#include "pgdial.h"
#include "pgsql.h"

#define NS_PER_MS	INT64_C(1000000)
#define ROLLBACK_NS	INT64_C(1000000000)
#define ANSWER_NS	INT64_C(5000000000)
#define DENIED_NS	INT64_C(5000000000)
/* Nothing of ours waits longer for a lock; then it is over for sure. */
#define LOCK_MS		INT64_C(1000)
#define SETTLED_NS	INT64_C(1200000000)

/* What the transaction of ours begins and ends with, around the statements. */
#define BEFORE	6
#define AFTER	1
/* What comes then, and an error that it may have when it is committed. */
#define THEN	2

/* From here on it is our own limits that end a statement. */
#define PART_LIMITED	2
#define PART_READ_ONLY	5

/* So often what a role's own limit ended is tried at once. */
#define LIMITED_TRIES	20

void
pgconn_init(struct pgconn *c, const struct leaserun_host *host,
    const struct pgurl *url)
{
	unsigned int i;

	memset(c, 0, sizeof(*c));
	c->host = host;
	c->url = url;
	c->answer_ns = ANSWER_NS;
	c->denied_ns = DENIED_NS;
	for (i = 0; i < PGURL_HOSTS; i++)
		c->denied_until[i] = INT64_MIN;
}

void
pgconn_close(struct pgconn *c)
{
	if (c->pg != NULL)
		PQfinish(c->pg);
	c->pg = NULL;
	c->is_in_flight = false;
	c->is_listening = false;
}

const char *
pgconn_text(const struct pgconn *c)
{
	return c->text;
}

static int64_t
earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* --- The answer --- */

static enum leaserun_result
broken(struct pgconn *c, const char *text)
{
	pgdial_keep_text(c, text == NULL ? PQerrorMessage(c->pg) : text);
	c->host->error(c->host, "%s", c->text);
	pgconn_close(c);
	return LEASERUN_UNAVAILABLE;
}

/* What a part of an answer says; the first error counts. */
static void
note_error(struct pgconn *c, const PGresult *res)
{
	const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	const char *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);

	if (c->state[0] != '\0' || c->part > c->commit)
		return;
	snprintf(c->state, sizeof(c->state), "%s",
	    state == NULL ? "XXXXX" : state);
	c->is_early = c->part < PART_LIMITED && strcmp(c->state, "57014") == 0;
	pgdial_keep_text(c, text == NULL ? PQresultErrorMessage(res) : text);
}

/*
 * The server says itself at the start of a session what it is, but a pooler
 * goes on to say what the first server was that it has ever asked.
 */
static void
note_read_only(struct pgconn *c)
{
	char text[LEASERUN_ERROR_SIZE];

	snprintf(text, sizeof(text), "the server at '%.200s' is a standby or "
	    "read-only, it grants no leases; %s", PQhost(c->pg),
	    c->url->nhosts > 1 ? "no other one in the URL answers as a primary"
	    : "name the primary in the URL, or all servers: HOST1,HOST2");
	snprintf(c->state, sizeof(c->state), "25006");
	pgdial_keep_text(c, text);
}

/* One result that is not an error; kept if it is a statement's own. */
static void
note_result(struct pgconn *c, PGresult *part, PGresult *res[])
{
	bool is_ours = res == NULL;	/* nothing is expected of it */

	if (!is_ours && c->part == PART_READ_ONLY &&
	    strcmp(pgsql_value(part, 0, 0), "on") == 0)
		note_read_only(c);
	else if (!is_ours && c->part == c->commit &&
	    strcmp(PQcmdStatus(part), "ROLLBACK") == 0) {
		snprintf(c->state, sizeof(c->state), "25P02");
		pgdial_keep_text(c, "the transaction was rolled back");
	}
	if (!is_ours && c->part >= BEFORE && c->part < c->commit)
		res[c->part - BEFORE] = part;
	else
		PQclear(part);
}

/*
 * Reads whatever is there.  True: all of it, up to the end of the pipeline,
 * which counts as the last part.
 */
static bool
read_parts(struct pgconn *c, PGresult *res[])
{
	PGresult *part;

	while (PQstatus(c->pg) == CONNECTION_OK && !PQisBusy(c->pg)) {
		part = PQgetResult(c->pg);
		if (part == NULL) {
			if (++c->part < c->nparts)
				continue;
			snprintf(c->state, sizeof(c->state), "08P01");
			pgdial_keep_text(c, "an answer without an end");
			return true;
		}
		switch (PQresultStatus(part)) {
		case PGRES_PIPELINE_SYNC:
			PQclear(part);
			return true;
		case PGRES_TUPLES_OK:
		case PGRES_COMMAND_OK:
			note_result(c, part, res);
			break;
		case PGRES_PIPELINE_ABORTED:
			PQclear(part);
			break;
		default:
			note_error(c, part);
			PQclear(part);
			break;
		}
	}
	return false;
}

/*
 * Waits for the rest of the answer.  INTERRUPTED leaves it in flight, a
 * deadline closes the connection.
 */
static enum leaserun_result
collect(struct pgconn *c, int64_t deadline, PGresult *res[])
{
	struct pollfd pfd;
	enum leaserun_result result;
	int unsent;

	c->is_in_flight = true;
	for (;;) {
		unsent = PQflush(c->pg);
		if (unsent == -1)
			return broken(c, NULL);
		if (read_parts(c, res))
			break;
		if (PQstatus(c->pg) != CONNECTION_OK)
			return broken(c, NULL);
		pfd.fd = PQsocket(c->pg);
		pfd.events = (short)(POLLIN | (unsent == 1 ? POLLOUT : 0));
		result = c->host->wait(c->host, &pfd, 1, deadline);
		if (result != LEASERUN_OK)
			return result;
		if (pfd.revents == 0)
			return broken(c, c->before[0] != '\0' &&
			    deadline - c->sent_ns < PGCONN_SHORT_NS ?
			    c->before : "the server does not answer");
		if ((pfd.revents & ~POLLOUT) != 0 &&
		    PQconsumeInput(c->pg) == 0)
			return broken(c, NULL);
	}
	c->is_in_flight = c->is_unanswered = false;
	return LEASERUN_OK;
}

/* --- One request --- */

static bool
send_one(struct pgconn *c, const char *sql, int nparams,
    const char *const *params)
{
	return PQsendQueryParams(c->pg, sql, nparams, NULL, params, NULL, NULL,
	    0) == 1;
}

static void
begin_request(struct pgconn *c, unsigned int nparts)
{
	memcpy(c->before, c->text, sizeof(c->before));
	c->state[0] = '\0';
	c->text[0] = '\0';
	c->is_in_doubt = false;
	c->part = 0;
	c->nparts = nparts;
	c->commit = nparts;
	c->sent_ns = c->host->now();
}

/*
 * The whole transaction in one go, so it costs one round trip.  Everything is
 * set for this transaction alone, so that it works through a pooler.  The
 * limits inside the server end before ours outside, so that what we have given
 * up does not happen later; zero would be none.  A commit is on disk here and
 * at the synchronous standby, whatever the server's default is.  A policy that
 * hides rows is an error, or a name that is held would look free, and the floor
 * of all tokens be missed.
 */
static bool
send_transaction(struct pgconn *c, const struct pgstatement *s, unsigned int n,
    int64_t limit)
{
	char lock[64], statement[64];
	int64_t ms;
	unsigned int i;

	begin_request(c, BEFORE + n + AFTER + 1);
	c->commit = BEFORE + n;
	c->nparts += c->then == NULL ? 0 : THEN;
	c->is_unanswered = true;
	ms = limit > c->sent_ns ? (limit - c->sent_ns) / NS_PER_MS : 1;
	snprintf(lock, sizeof(lock), "SET LOCAL lock_timeout = %" PRId64,
	    earlier(ms * 6 / 10 + 1, LOCK_MS));
	snprintf(statement, sizeof(statement),
	    "SET LOCAL statement_timeout = %" PRId64, ms * 8 / 10 + 2);
	if (!send_one(c, "BEGIN ISOLATION LEVEL READ COMMITTED", 0, NULL) ||
	    !send_one(c, statement, 0, NULL) || !send_one(c, lock, 0, NULL) ||
	    !send_one(c, "SET LOCAL synchronous_commit = on", 0, NULL) ||
	    !send_one(c, "SET LOCAL row_security = off", 0, NULL) ||
	    !send_one(c, "SHOW transaction_read_only", 0, NULL))
		return false;
	for (i = 0; i < n; i++) {
		if (!send_one(c, s[i].sql, s[i].nparams, s[i].params))
			return false;
	}
	return send_one(c, "COMMIT", 0, NULL) && (c->then == NULL ||
	    send_one(c, c->then->sql, c->then->nparams, c->then->params)) &&
	    PQpipelineSync(c->pg) == 1;
}

enum leaserun_result
pgconn_say(struct pgconn *c, const char *sql, int64_t deadline)
{
	char state[PGCONN_STATE_SIZE], text[LEASERUN_ERROR_SIZE];
	bool is_early = c->is_early;
	enum leaserun_result result;

	if (c->pg == NULL)
		return LEASERUN_UNAVAILABLE;
	memcpy(state, c->state, sizeof(state));
	memcpy(text, c->text, sizeof(text));
	begin_request(c, 2);
	if (!send_one(c, sql, 0, NULL) || PQpipelineSync(c->pg) != 1)
		return broken(c, NULL);
	result = collect(c, deadline, NULL);
	if (result == LEASERUN_OK && c->state[0] != '\0')
		result = broken(c, c->text);
	memcpy(c->state, state, sizeof(state));
	memcpy(c->text, text, sizeof(text));
	c->is_early = is_early;
	return result;
}

/* The session is to be had again, or is given up. */
static void
roll_back(struct pgconn *c, int64_t deadline)
{
	if (PQtransactionStatus(c->pg) != PQTRANS_IDLE &&
	    pgconn_say(c, "ROLLBACK", earlier(deadline,
	    c->host->now() + ROLLBACK_NS)) != LEASERUN_OK)
		pgconn_close(c);
}

static bool
is_class(const struct pgconn *c, const char *class)
{
	return strncmp(c->state, class, strlen(class)) == 0;
}

enum leaserun_result
pgconn_classify(const struct pgconn *c)
{
	static const char *const denied[] = { "28", "42501", "0P" };
	static const char *const wrong[] = { "3D", "3F", "42", "22", "23",
	    "0A" };
	size_t i;

	for (i = 0; i < sizeof(denied) / sizeof(denied[0]); i++) {
		if (is_class(c, denied[i]))
			return LEASERUN_DENIED;
	}
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (is_class(c, wrong[i]))
			return LEASERUN_MISCONFIGURED;
	}
	return LEASERUN_UNAVAILABLE;
}

/* One transaction on the connection that there is. */
static enum leaserun_result
transact(struct pgconn *c, const struct pgstatement *s, unsigned int n,
    int64_t limit, PGresult *res[])
{
	enum leaserun_result result;
	unsigned int i;

	if (!send_transaction(c, s, n, limit))
		return broken(c, NULL);
	result = collect(c, limit, res);
	if (result != LEASERUN_OK)
		return result;
	/* Not where a lease is to be had. */
	if (is_class(c, "25006")) {
		c->host->error(c->host, "%s", c->text);
		pgdial_next_host(c);
		return LEASERUN_UNAVAILABLE;
	}
	if (c->state[0] != '\0') {
		c->host->error(c->host, "the server says: %s (SQLSTATE %s)",
		    c->text, c->state);
		roll_back(c, limit);
		return pgconn_classify(c);
	}
	if (c->is_in_doubt) {
		c->host->error(c->host, "the server could not copy the commit "
		    "to its synchronous standby in time");
		return LEASERUN_UNAVAILABLE;
	}
	for (i = 0; i < n; i++) {
		if (res[i] == NULL)
			return broken(c, "half of an answer");
	}
	return LEASERUN_OK;
}

/* An answer that was not waited for is read first, for a while. */
static void
drain(struct pgconn *c, int64_t deadline)
{
	int64_t now = c->host->now();

	if (collect(c, now + earlier((deadline - now) / 3, c->answer_ns),
	    NULL) == LEASERUN_INTERRUPTED || c->state[0] != '\0')
		pgconn_close(c);
}

void
pgconn_settle(struct pgconn *c, int64_t deadline)
{
	int64_t until = earlier(c->sent_ns + SETTLED_NS, deadline);

	if (!c->is_unanswered || c->host->now() >= until)
		return;
	if (c->pg == NULL || !c->is_in_flight ||
	    collect(c, until, NULL) != LEASERUN_OK)
		c->host->wait(c->host, NULL, 0, until);
	else if (c->state[0] != '\0')
		pgconn_close(c);
}

/* It was closed since it was used, perhaps behind a last message. */
static bool
is_over(const struct pgconn *c)
{
	return PQconsumeInput(c->pg) == 0 || PQconsumeInput(c->pg) == 0;
}

static void
clear(PGresult *res[], unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		PQclear(res[i]);
		res[i] = NULL;
	}
}

enum leaserun_result
pgconn_run(struct pgconn *c, const struct pgstatement *s, unsigned int n,
    int64_t deadline, PGresult *res[])
{
	enum leaserun_result result = LEASERUN_UNAVAILABLE;
	unsigned int tries, early = 0;

	memset(res, 0, n * sizeof(*res));
	for (tries = 0; tries <= c->url->nhosts; tries++) {
		if (c->pg != NULL && c->is_in_flight)
			drain(c, deadline);
		c->is_early = false;
		if (c->pg != NULL && is_over(c))
			pgconn_close(c);
		result = pgdial(c, deadline);
		if (result != LEASERUN_OK)
			break;
		result = transact(c, s, n, earlier(deadline,
		    c->host->now() + c->answer_ns), res);
		if (result == LEASERUN_OK)
			break;
		clear(res, n);
		/* Nothing was done but BEGIN, if that. */
		if (c->is_early && early++ < LIMITED_TRIES)
			tries--;
		else if (!is_class(c, "25006"))
			break;
	}
	c->then = NULL;
	return result;
}

enum leaserun_result
pgconn_may_listen(struct pgconn *c, int64_t deadline, bool *may)
{
	static const char sql[] =
	    "SELECT pg_backend_pid(), 2 * count(*) <"
	    " current_setting('max_connections')::int FROM pg_stat_activity"
	    " WHERE backend_type = 'client backend'";
	const struct pgstatement s = { sql, NULL, 0 };
	enum leaserun_result result;
	PGresult *res;

	result = pgconn_run(c, &s, 1, deadline, &res);
	if (result != LEASERUN_OK)
		return result;
	/* A pooler makes up a process number of its own. */
	c->is_pooled = atoi(pgsql_value(res, 0, 0)) != PQbackendPID(c->pg);
	*may = !c->is_pooled && strcmp(pgsql_value(res, 0, 1), "t") == 0;
	PQclear(res);
	return LEASERUN_OK;
}

/* --- Being told --- */

static bool
is_notified(struct pgconn *c, const char *payload)
{
	PGnotify *notify;
	bool found = false;

	while ((notify = PQnotifies(c->pg)) != NULL) {
		found = found || strcmp(notify->extra, payload) == 0;
		PQfreemem(notify);
	}
	return found;
}

enum leaserun_result
pgconn_wait(struct pgconn *c, const char *payload, int64_t until)
{
	struct pollfd pfd = { .events = POLLIN };
	enum leaserun_result result;

	for (;;) {
		if (is_notified(c, payload))
			return LEASERUN_OK;
		pfd.fd = PQsocket(c->pg);
		result = c->host->wait(c->host, &pfd, 1, until);
		if (result != LEASERUN_OK || pfd.revents == 0)
			return result;
		if (PQconsumeInput(c->pg) == 0) {
			pgconn_close(c);
			return LEASERUN_OK;
		}
	}
}
