/*
 * Makes the table, and adds what an older one lacks.  Any number of hosts may
 * do so at once: one transaction, under a lock of its own, of statements that
 * may be repeated.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgexplain.h"
#include "pginit.h"
#include "pglayout.h"

#define STATEMENTS	40
#define TRIES		20
#define RETRY_NS	INT64_C(50000000)
/* A grant that began below the old floor waits for a lock half as long. */
#define RAISED_NS	INT64_C(2000000000)

/*
 * Half of each page is left free, so that a heartbeat finds room beside its
 * row and touches no index: of 80,000 renewals of 1,000 leases all were such,
 * and the table did not grow.  What an old snapshot keeps, the autovacuum of
 * the server's own settings clears away afterwards.
 */
#define STORAGE	"fillfactor = 50"

/* A transaction's lock: it works through a pooler, and ends by itself. */
static const char lock_sql[] =
    "SELECT pg_advisory_xact_lock(1818583922, 1970169203)";

static const char floor_sql[] =
    "INSERT INTO @ AS l (name, token) VALUES ('', $1::bigint)"
    " ON CONFLICT (name) DO UPDATE SET"
    " token = greatest(l.token, excluded.token)";

/* The statements to run, each owned. */
struct script {
	char		*sql[STATEMENTS];
	unsigned int	 n;
	bool		 no_memory;
};

static void __attribute__((format(printf, 2, 3)))
add(struct script *s, const char *fmt, ...)
{
	va_list ap;
	int len;

	if (s->n == STATEMENTS)
		return;
	va_start(ap, fmt);
	len = vasprintf(&s->sql[s->n], fmt, ap);
	va_end(ap);
	if (len == -1)
		s->no_memory = true;
	else
		s->n++;
}

static void
script_clear(struct script *s)
{
	unsigned int i;

	for (i = 0; i < s->n; i++)
		free(s->sql[i]);
	s->n = 0;
}

/* --- What is to be done --- */

static void
add_table(struct script *s, const struct postgres *p)
{
	char columns[2048] = "";
	size_t used = 0;
	unsigned int i;

	for (i = 0; i < pgsql_ncolumns; i++)
		used += (size_t)snprintf(columns + used, sizeof(columns) - used,
		    "%s\n  %s %s%s%s", i == 0 ? "" : ",",
		    pgsql_columns[i].name, pgsql_columns[i].type,
		    pgsql_columns[i].rest[0] == '\0' ? "" : " ",
		    pgsql_columns[i].rest);
	add(s, "CREATE TABLE IF NOT EXISTS %s (%s\n) WITH (%s)", p->url.table,
	    columns, STORAGE);
}

static void
add_changes(struct script *s, const struct postgres *p,
    const struct pglayout *layout)
{
	const struct pgsql_column *c;
	unsigned int i;

	if (!layout->has_schema)
		add(s, "CREATE SCHEMA IF NOT EXISTS %s", p->url.quoted);
	if (!layout->has_table) {
		add_table(s, p);
		return;
	}
	for (i = 0; i < pgsql_ncolumns; i++) {
		c = &pgsql_columns[i];
		if ((layout->missing & UINT32_C(1) << i) != 0)
			add(s, "ALTER TABLE %s ADD COLUMN IF NOT EXISTS %s "
			    "%s%s%s", p->url.table, c->name, c->type,
			    c->rest[0] == '\0' ? "" : " ", c->rest);
	}
	if (!layout->has_key && (layout->missing & 1) == 0)
		add(s, "ALTER TABLE %s ADD PRIMARY KEY (name)", p->url.table);
}

/* A type is not changed behind the back of whoever chose it. */
static enum leaserun_result
refuse_types(const struct postgres *p, const struct pglayout *layout)
{
	char text[LEASERUN_ERROR_SIZE];
	unsigned int i;

	for (i = 0; i < pgsql_ncolumns; i++) {
		if ((layout->mistyped & UINT32_C(1) << i) == 0)
			continue;
		pglayout_wrong(p, layout, i, text, sizeof(text));
		p->host->error(p->host, "%s", text);
		return LEASERUN_MISCONFIGURED;
	}
	return LEASERUN_OK;
}

static void
print(const struct postgres *p, const struct script *s, uint64_t token,
    leaserun_line_fn *fn, void *arg)
{
	char line[4096];
	unsigned int i;

	for (i = 0; i < s->n; i++) {
		snprintf(line, sizeof(line), "%s;", s->sql[i]);
		fn(arg, LEASERUN_GOOD, NULL, line);
	}
	if (token > 0) {
		snprintf(line, sizeof(line), "INSERT INTO %s AS l (name, token)"
		    " VALUES ('', %" PRIu64 ")\n  ON CONFLICT (name) DO UPDATE"
		    " SET token = greatest(l.token, excluded.token);",
		    p->url.table, token);
		fn(arg, LEASERUN_GOOD, NULL, line);
	}
	if (s->n == 0 && token == 0)
		fn(arg, LEASERUN_GOOD, NULL, "-- nothing is to be done");
}

/* --- Doing it --- */

static enum leaserun_result
change(struct postgres *p, const struct script *script, uint64_t token,
    int64_t deadline)
{
	struct pgstatement s[STATEMENTS + 2] = { { lock_sql, NULL, 0 } };
	char *raise = pgsql_for(floor_sql, p->url.table), number[24];
	const char *const params[] = { number };
	enum leaserun_result result = LEASERUN_UNAVAILABLE;
	PGresult *res[STATEMENTS + 2];
	unsigned int i, n = 1;

	for (i = 0; i < script->n; i++)
		s[n++].sql = script->sql[i];
	snprintf(number, sizeof(number), "%" PRIu64, token);
	if (token > 0)
		s[n++] = (struct pgstatement){ raise, params, 1 };
	if (raise == NULL || script->no_memory)
		p->host->error(p->host, "out of memory");
	else
		result = pgconn_run(&p->conn, s, n, deadline, res);
	for (i = 0; result == LEASERUN_OK && i < n; i++)
		PQclear(res[i]);
	free(raise);
	return result;
}

/* Another init was faster in between: what it made is looked at again. */
static bool
is_race(const struct postgres *p)
{
	static const char *const states[] = { "23505", "42P07", "42P06",
	    "42701", "42P16", "42710", "XX000", "40001", "40P01", "55P03" };
	size_t i;

	for (i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		if (strcmp(p->conn.state, states[i]) == 0)
			return true;
	}
	return false;
}

/*
 * What was under way when the floor was raised is granted, or given up.  The
 * server has answered, so how long one is tried that does not is no matter.
 */
static enum leaserun_result
wait_for_grants(const struct postgres *p)
{
	return p->host->wait(p->host, NULL, 0, p->host->now() + RAISED_NS);
}

static void
say(const struct postgres *p, const struct pglayout *layout,
    const struct script *s, uint64_t token, leaserun_line_fn *fn, void *arg)
{
	char line[512];

	if (!layout->has_schema) {
		snprintf(line, sizeof(line), "%s made", p->url.quoted);
		fn(arg, LEASERUN_GOOD, "schema", line);
	}
	snprintf(line, sizeof(line), "%s %s", p->url.table,
	    !layout->has_table ? "made" : s->n > 0 ? "brought up to date" :
	    "is there");
	fn(arg, LEASERUN_GOOD, "table", line);
	if (!layout->has_table) {
		snprintf(line, sizeof(line), "other roles need: GRANT SELECT, "
		    "INSERT, UPDATE ON %s TO ...", p->url.table);
		fn(arg, LEASERUN_NOTE, "rights", line);
	}
	if (token > 0) {
		snprintf(line, sizeof(line), "floor raised: no token up to %"
		    PRIu64 " is granted from now on", token);
		fn(arg, LEASERUN_GOOD, "token", line);
	}
}

/* Several rows for a name: only people know which of them counts. */
static bool
is_twice(const struct postgres *p, const struct pglayout *layout)
{
	return layout->has_table && !layout->has_key &&
	    strcmp(p->conn.state, "23505") == 0;
}

static void
explain_twice(struct postgres *p)
{
	p->host->error(p->host, "table %s has several rows for one name (%s); "
	    "keep the one with the highest token of each and delete the "
	    "others, then run '%s'", p->url.table, p->conn.text, p->url.init);
	p->conn.state[0] = '\0';		/* not a race */
}

/* What a role needs that may not make the table itself. */
static void
print_for_others(const struct postgres *p, const struct script *s,
    const struct pglayout *layout, uint64_t token, leaserun_line_fn *fn,
    void *arg)
{
	char line[512];

	print(p, s, token, fn, arg);
	if (p->url.quoted != NULL) {
		snprintf(line, sizeof(line), "GRANT USAGE ON SCHEMA %s TO %s;",
		    p->url.quoted, layout->role);
		fn(arg, LEASERUN_GOOD, NULL, line);
	}
	snprintf(line, sizeof(line), "GRANT SELECT, INSERT, UPDATE ON %s TO "
	    "%s;", p->url.table, layout->role);
	fn(arg, LEASERUN_GOOD, NULL, line);
	p->host->error(p->host, "not allowed to make or change the table (%s); "
	    "have a role that may run the statements above", p->conn.text);
}

static enum leaserun_result
init_once(struct postgres *p, const struct leaserun_init *init,
    int64_t deadline, leaserun_line_fn *fn, void *arg)
{
	struct script s = { .n = 0 };
	struct pglayout layout;
	enum leaserun_result result;

	result = pglayout_look(p, deadline, &layout);
	if (result == LEASERUN_DENIED || result == LEASERUN_MISCONFIGURED)
		pgexplain(p);
	if (result != LEASERUN_OK)
		return result;
	if ((result = refuse_types(p, &layout)) != LEASERUN_OK)
		return result;
	add_changes(&s, p, &layout);
	if (init->print)
		print(p, &s, init->raise_token, fn, arg);
	else {
		if (s.n > 0 || init->raise_token > 0)
			result = change(p, &s, init->raise_token, deadline);
		if (result == LEASERUN_OK && init->raise_token > 0)
			result = wait_for_grants(p);
		if (result == LEASERUN_OK)
			say(p, &layout, &s, init->raise_token, fn, arg);
		else if (is_twice(p, &layout))
			explain_twice(p);
		else if (result == LEASERUN_DENIED && s.n > 0)
			print_for_others(p, &s, &layout, init->raise_token, fn,
			    arg);
		else if (result != LEASERUN_INTERRUPTED)
			pgexplain(p);
	}
	script_clear(&s);
	return result;
}

enum leaserun_result
pginit(void *self, const struct leaserun_init *init, int64_t deadline,
    leaserun_line_fn *fn, void *arg)
{
	struct postgres *p = self;
	enum leaserun_result result = LEASERUN_UNAVAILABLE;
	int tries;

	if (init->raise_token >= (uint64_t)LEASERUN_TOKEN_MAX) {
		p->host->error(p->host, "above %" PRIu64 " there is no token; "
		    "give a lower number", init->raise_token);
		return LEASERUN_MISCONFIGURED;
	}
	for (tries = 0; tries < TRIES && p->host->now() < deadline; tries++) {
		result = init_once(p, init, deadline, fn, arg);
		if (result == LEASERUN_OK || !is_race(p))
			return result;
		if (p->host->wait(p->host, NULL, 0, p->host->now() +
		    (int64_t)p->host->random((uint64_t)RETRY_NS)) !=
		    LEASERUN_OK)
			return LEASERUN_INTERRUPTED;
	}
	return result;
}
