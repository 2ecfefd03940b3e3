/*
 * doctor of the Postgres backend: what the server is and what that means for
 * the leases.  Must never take one.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgdoctor.h"
#include "pgexplain.h"
#include "pglayout.h"

#define NS_PER_MS	INT64_C(1000000)
#define TRIPS		5
#define OFFSET_MS	1000
#define TRIP_SLOW_NS	(100 * NS_PER_MS)
#define OLD_S		3600
#define OLD_VERSION	120000

struct report {
	struct postgres	*p;
	leaserun_line_fn *fn;
	void		*arg;
};

static const char server_sql[] =
    "SELECT current_setting('server_version'),"
    " current_setting('server_version_num')::int,"
    " (extract(epoch FROM clock_timestamp()) * 1000)::bigint,"
    " current_setting('synchronous_standby_names'),"
    " current_setting('fsync'), current_setting('full_page_writes'),"
    " current_setting('max_connections')::int,"
    " (SELECT sum(numbackends) FROM pg_stat_database),"
    " current_user::text,"
    " extract(epoch FROM clock_timestamp() - least((SELECT min(xact_start)"
    "  FROM pg_stat_activity WHERE backend_type = 'client backend'),"
    "  (SELECT min(prepared) FROM pg_prepared_xacts),"
    "  clock_timestamp()))::bigint, pg_backend_pid(),"
    " pg_has_role('pg_read_all_stats', 'USAGE'), quote_ident(current_user)";

enum { SERVER_VERSION, VERSION_NUMBER, CLOCK, STANDBYS, FSYNC, FULL_PAGES,
    MAX_CONNECTIONS, CONNECTIONS, USER, OLDEST, BACKEND,
    SEES_ALL, ROLE };

static const char timeline_sql[] =
    "SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))"
    "::bit(32)::bigint";

static const char rights_sql[] =
    "SELECT has_table_privilege($1::text, 'SELECT'),"
    " has_table_privilege($1::text, 'INSERT'),"
    " has_table_privilege($1::text, 'UPDATE'),"
    " quote_ident(current_user), row_security_active($1::text)";

static const char table_sql[] =
    "SELECT count(*), count(*) FILTER (WHERE l.state = 'held'"
    "  AND l.expires_at > clock_timestamp()),"
    " count(*) FILTER (WHERE l.state = 'held' AND l.expires_at >"
    "  clock_timestamp() + (least(l.ttl_ms, 3000000000000) + 1000)"
    "  * interval '1 ms'),"
    " coalesce(max(l.token) FILTER (WHERE l.name = ''), 0),"
    " pg_relation_size(to_regclass($1))"
    " FROM @ AS l WHERE l.state IS DISTINCT FROM 'done'";

static void __attribute__((format(printf, 4, 5)))
say(const struct report *r, enum leaserun_verdict verdict, const char *what,
    const char *fmt, ...)
{
	char text[LEASERUN_ERROR_SIZE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	r->fn(r->arg, verdict, what, text);
}

static enum leaserun_result
query(const struct report *r, const char *sql, const char *param,
    int64_t deadline, PGresult **res)
{
	const char *const params[] = { param };
	const struct pgstatement s = { sql, params, param == NULL ? 0 : 1 };
	enum leaserun_result result;

	result = pgconn_run(&r->p->conn, &s, 1, deadline, res);
	if (result == LEASERUN_DENIED || result == LEASERUN_MISCONFIGURED)
		pgexplain(r->p);
	return result;
}

static int64_t
number(const PGresult *res, int column)
{
	return pgsql_count(res, 0, column);
}

/* --- The server --- */

static void
say_clock(const struct report *r, const PGresult *res, int64_t local_ms)
{
	int64_t offset = number(res, CLOCK) - local_ms;

	say(r, llabs(offset) > OFFSET_MS ? LEASERUN_NOTE : LEASERUN_GOOD,
	    "clock", "the server's is %lld.%03d s %s this host's%s",
	    llabs(offset) / 1000, (int)(llabs(offset) % 1000),
	    offset < 0 ? "behind" : "ahead of", llabs(offset) > OFFSET_MS ?
	    "; leases do not mind, people who compare logs do" : "");
}

static void
say_durability(const struct report *r, const PGresult *res)
{
	const char *standbys = pgsql_value(res, 0, STANDBYS);

	if (strcmp(pgsql_value(res, 0, FSYNC), "on") != 0 ||
	    strcmp(pgsql_value(res, 0, FULL_PAGES), "on") != 0)
		say(r, LEASERUN_BAD, "durability", "fsync or full_page_writes "
		    "is off: a crash of the server loses grants, and tokens "
		    "go back; switch both on");
	else
		say(r, LEASERUN_GOOD, "durability", "a grant is on disk before "
		    "it is answered");
	if (standbys[0] == '\0')
		say(r, LEASERUN_NOTE, "replication", "not synchronous: if a "
		    "standby is promoted that missed the last grants, two may "
		    "hold a name for up to one ttl (the token still grows); "
		    "set synchronous_standby_names if that must not be");
	else
		say(r, LEASERUN_GOOD, "replication", "synchronous: '%s'",
		    standbys);
}

static void
say_connections(const struct report *r, const PGresult *res)
{
	int64_t used = number(res, CONNECTIONS);
	int64_t most = number(res, MAX_CONNECTIONS);

	/* A pooler makes up a process number of its own. */
	if (number(res, BACKEND) != PQbackendPID(r->p->conn.pg))
		say(r, LEASERUN_NOTE, "pooler", "between us and the server: "
		    "waiters are not told of a release, they look");
	say(r, 2 * used > most ? LEASERUN_WARN : LEASERUN_GOOD, "connections",
	    "%" PRId64 " of %" PRId64 " in use%s", used, most,
	    2 * used > most ? "; over half of them, new runs may be refused: "
	    "raise max_connections or put a pooler in between" : "");
	if (number(res, OLDEST) > OLD_S)
		say(r, LEASERUN_WARN, "old transaction", "one has been open "
		    "for %" PRId64 " s: while it is, each heartbeat leaves a "
		    "dead row; end it (pg_stat_activity, "
		    "pg_prepared_xacts)", number(res, OLDEST));
	else if (strcmp(pgsql_value(res, 0, SEES_ALL), "t") != 0)
		say(r, LEASERUN_NOTE, "old transaction", "those of other roles "
		    "cannot be seen; GRANT pg_read_all_stats TO %s",
		    pgsql_value(res, 0, ROLE));
}

static void
say_version(const struct report *r, const PGresult *res)
{
	bool is_old = number(res, VERSION_NUMBER) < OLD_VERSION;

	say(r, is_old ? LEASERUN_BAD : LEASERUN_GOOD, "server",
	    "PostgreSQL %s, a primary, at '%s', as '%s', %s%s",
	    pgsql_value(res, 0, SERVER_VERSION), PQhost(r->p->conn.pg),
	    pgsql_value(res, 0, USER), PQsslInUse(r->p->conn.pg) ? "with TLS" :
	    "without TLS", is_old ? "; 12 is the oldest that is supported" :
	    "");
}

static enum leaserun_result
check_server(const struct report *r, int64_t deadline, bool *ok)
{
	enum leaserun_result result;
	int64_t before, after;
	PGresult *res;

	/* Connected first, so that only the question takes time. */
	result = query(r, "SELECT 1", NULL, deadline, &res);
	/* With others in the URL it is those that cannot be reached. */
	if (result == LEASERUN_UNAVAILABLE && r->p->url.nhosts == 1 &&
	    strcmp(r->p->conn.state, "25006") == 0) {
		say(r, LEASERUN_BAD, "server", "%s", r->p->conn.text);
		*ok = false;
		return LEASERUN_OK;
	}
	if (result != LEASERUN_OK)
		return result;
	*ok = true;
	PQclear(res);
	before = postgres_wall_ms();
	result = query(r, server_sql, NULL, deadline, &res);
	if (result != LEASERUN_OK)
		return result;
	after = postgres_wall_ms();
	say_version(r, res);
	say_clock(r, res, before + (after - before) / 2);
	say_durability(r, res);
	say_connections(r, res);
	PQclear(res);
	return LEASERUN_OK;
}

static enum leaserun_result
check_timeline(const struct report *r, int64_t deadline)
{
	enum leaserun_result result;
	PGresult *res;

	const struct pgstatement s = { timeline_sql, NULL, 0 };

	result = pgconn_run(&r->p->conn, &s, 1, deadline, &res);
	if (result == LEASERUN_OK) {
		say(r, LEASERUN_GOOD, "timeline", "%s; tokens grow over a "
		    "promotion", pgsql_value(res, 0, 0));
		PQclear(res);
		return LEASERUN_OK;
	}
	if (result != LEASERUN_DENIED && result != LEASERUN_MISCONFIGURED)
		return result;
	say(r, LEASERUN_WARN, "timeline", "cannot be read (%s): after the "
	    "promotion of a standby that missed grants, tokens may repeat; "
	    "GRANT EXECUTE ON FUNCTION pg_walfile_name(pg_lsn), "
	    "pg_current_wal_lsn() TO PUBLIC, or run '%s "
	    "--raise-token N' after each promotion", r->p->conn.text,
	    r->p->url.init);
	return LEASERUN_OK;
}

/* --- The table --- */

static bool
check_layout(const struct report *r, const struct pglayout *layout)
{
	char text[LEASERUN_ERROR_SIZE];
	unsigned int i;
	bool ok = true;

	for (i = 0; i < PGLAYOUT_PARTS; i++) {
		if (!pglayout_wrong(r->p, layout, i, text, sizeof(text)))
			continue;
		say(r, LEASERUN_BAD, "table", "%s", text);
		ok = false;
	}
	return ok;
}

static enum leaserun_result
check_rights(const struct report *r, int64_t deadline, bool *ok)
{
	static const char *const rights[] = { "SELECT", "INSERT", "UPDATE" };
	enum leaserun_result result;
	PGresult *res;
	int i;

	result = query(r, rights_sql, r->p->url.table, deadline, &res);
	if (result == LEASERUN_DENIED) {
		say(r, LEASERUN_BAD, "rights", "%s", r->p->conn.text);
		*ok = false;
		return LEASERUN_OK;
	}
	if (result != LEASERUN_OK)
		return result;
	*ok = true;
	for (i = 0; i < 3; i++) {
		if (strcmp(pgsql_value(res, 0, i), "t") == 0)
			continue;
		say(r, LEASERUN_BAD, "rights", "no %s on %s; its owner runs: "
		    "GRANT SELECT, INSERT, UPDATE ON %s TO %s", rights[i],
		    r->p->url.table, r->p->url.table, pgsql_value(res, 0, 3));
		*ok = false;
	}
	if (strcmp(pgsql_value(res, 0, 4), "t") == 0) {
		say(r, LEASERUN_BAD, "rights", "row security would hide rows; "
		    "its owner runs: ALTER TABLE %s DISABLE ROW LEVEL SECURITY",
		    r->p->url.table);
		*ok = false;
	}
	if (*ok)
		say(r, LEASERUN_GOOD, "rights", "SELECT, INSERT and UPDATE");
	PQclear(res);
	return LEASERUN_OK;
}

static enum leaserun_result
check_rows(const struct report *r, int64_t deadline)
{
	const char *const params[] = { r->p->url.table };
	const struct pgstatement s = { table_sql, params, 1 };
	enum leaserun_result result;
	PGresult *res;

	result = postgres_run(r->p, &s, 1, deadline, &res);
	if (result != LEASERUN_OK)
		return result;
	say(r, LEASERUN_GOOD, "table", "%s, %" PRId64 " names, %" PRId64
	    " held, %" PRId64 " kB", r->p->url.table, number(res, 0) -
	    (number(res, 3) > 0), number(res, 1), number(res, 4) / 1024);
	if (number(res, 2) > 0)
		say(r, LEASERUN_WARN, "expiry", "%" PRId64 " leases end "
		    "implausibly far ahead: the server's clock went back; the "
		    "next run of each name mends it", number(res, 2));
	if (number(res, 3) > 0)
		say(r, LEASERUN_NOTE, "token", "no token up to %" PRId64
		    " is granted", number(res, 3));
	PQclear(res);
	return LEASERUN_OK;
}

static enum leaserun_result
check_table(const struct report *r, int64_t deadline)
{
	struct pglayout layout;
	enum leaserun_result result;
	bool ok = false;

	result = pglayout_look(r->p, deadline, &layout);
	if (result == LEASERUN_DENIED) {
		pgexplain(r->p);
		return result;
	}
	if (result != LEASERUN_OK || !check_layout(r, &layout))
		return result;
	result = check_rights(r, deadline, &ok);
	return result == LEASERUN_OK && ok ? check_rows(r, deadline) : result;
}

/* --- The way to it --- */

static int
compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static enum leaserun_result
check_trips(const struct report *r, int64_t deadline)
{
	const struct leaserun_host *host = r->p->host;
	enum leaserun_result result = LEASERUN_OK;
	int64_t trips[TRIPS], start;
	PGresult *res;
	int i;

	for (i = 0; i < TRIPS && result == LEASERUN_OK; i++) {
		start = host->now();
		result = query(r, "SELECT 1", NULL, deadline, &res);
		if (result == LEASERUN_OK)
			PQclear(res);
		trips[i] = host->now() - start;
	}
	if (result != LEASERUN_OK)
		return result;
	qsort(trips, TRIPS, sizeof(trips[0]), compare);
	say(r, trips[TRIPS / 2] > TRIP_SLOW_NS ? LEASERUN_WARN : LEASERUN_GOOD,
	    "round trip", "%" PRId64 ".%02d ms, at most %" PRId64 ".%02d ms%s",
	    trips[TRIPS / 2] / NS_PER_MS,
	    (int)(trips[TRIPS / 2] % NS_PER_MS / 10000),
	    trips[TRIPS - 1] / NS_PER_MS,
	    (int)(trips[TRIPS - 1] % NS_PER_MS / 10000),
	    trips[TRIPS / 2] > TRIP_SLOW_NS ? "; choose a ttl of a minute or "
	    "more" : "");
	return LEASERUN_OK;
}

enum leaserun_result
pgdoctor(void *self, int64_t deadline, leaserun_line_fn *fn, void *arg)
{
	const struct report r = { self, fn, arg };
	enum leaserun_result result;
	bool ok;

	result = check_server(&r, deadline, &ok);
	if (result == LEASERUN_OK && !ok)
		return LEASERUN_OK;
	if (result == LEASERUN_OK)
		result = check_timeline(&r, deadline);
	if (result == LEASERUN_OK)
		result = check_table(&r, deadline);
	if (result == LEASERUN_OK)
		result = check_trips(&r, deadline);
	if (result == LEASERUN_OK)
		say(&r, LEASERUN_NOTE, "ttl", "more than twice the longest "
		    "failover or restart of the server that a job should "
		    "survive; 60s is a good start");
	return result;
}
