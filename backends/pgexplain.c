/*
 * Turns an error of the server into the statement that mends it.
 */
#include <stdio.h>
#include <string.h>

#include "pgexplain.h"
#include "pglayout.h"

#define ANSWER_NS	INT64_C(500000000)

static bool
is(const struct postgres *p, const char *state)
{
	return strcmp(p->conn.state, state) == 0;
}

static const char *
database(const struct postgres *p)
{
	const char *name = pgurl_value(&p->url, "dbname");

	return name == NULL ? "" : name;
}

static enum leaserun_result
ask(struct postgres *p, const char *sql, const char *param, PGresult **res)
{
	const char *const params[] = { p->url.table, param };
	const struct pgstatement s = { sql, params, 2 };

	return pgconn_run(&p->conn, &s, 1, p->host->now() + ANSWER_NS, res);
}

static bool
is_true(const PGresult *res, int column)
{
	return strcmp(pgsql_value(res, 0, column), "t") == 0;
}

/* --- Rights --- */

static const char rights_sql[] =
    "SELECT quote_ident(current_user), u.ok,"
    " CASE WHEN u.ok THEN has_table_privilege(to_regclass($1), 'SELECT')"
    "  AND has_table_privilege(to_regclass($1), 'INSERT')"
    "  AND has_table_privilege(to_regclass($1), 'UPDATE')"
    "  AND row_security_active(to_regclass($1)) END"
    " FROM (SELECT coalesce((SELECT has_schema_privilege(n.oid, 'USAGE')"
    "  FROM pg_namespace AS n WHERE n.nspname = $2::text), true) AS ok) AS u";

static void
explain_rights(struct postgres *p, const char *text)
{
	const char *role;
	PGresult *res;

	if (ask(p, rights_sql, p->url.schema, &res) != LEASERUN_OK) {
		p->host->error(p->host, "%s", text);
		return;
	}
	role = pgsql_value(res, 0, 0);
	if (!is_true(res, 1))
		p->host->error(p->host, "%s; its owner runs: GRANT USAGE ON "
		    "SCHEMA %s TO %s", text, p->url.quoted, role);
	else if (is_true(res, 2))
		p->host->error(p->host, "%s; its owner runs: ALTER TABLE %s "
		    "DISABLE ROW LEVEL SECURITY", text, p->url.table);
	else
		p->host->error(p->host, "%s; its owner runs: GRANT SELECT, "
		    "INSERT, UPDATE ON %s TO %s", text, p->url.table, role);
	PQclear(res);
}

/* --- The table --- */

/* One in a schema that is not looked into, or may not be. */
static const char elsewhere_sql[] =
    "SELECT n.nspname, quote_ident(n.nspname), quote_ident(current_user),"
    " has_schema_privilege(n.oid, 'USAGE')"
    " FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE $1::text IS NOT NULL AND c.relname = $2::text"
    " AND c.relkind IN ('r', 'p') AND n.nspname NOT LIKE 'pg\\_%'"
    " ORDER BY n.nspname <> 'public', n.nspname LIMIT 1";

static void
explain_missing(struct postgres *p)
{
	PGresult *res = NULL;

	if (p->url.schema != NULL || ask(p, elsewhere_sql, p->url.name,
	    &res) != LEASERUN_OK || PQntuples(res) == 0)
		p->host->error(p->host, "there is no table %s in database "
		    "'%s'; run '%s' as a role that may create tables",
		    p->url.table, database(p), p->url.init);
	else if (is_true(res, 3))
		p->host->error(p->host, "there is no table %s in the "
		    "search_path, but one in schema '%s'; use -o 'table=%s.%s'",
		    p->url.table, pgsql_value(res, 0, 0),
		    pgsql_value(res, 0, 0), p->url.name);
	else
		p->host->error(p->host, "table %s is in schema '%s', which we "
		    "may not use; its owner runs: GRANT USAGE ON SCHEMA %s TO "
		    "%s", p->url.table, pgsql_value(res, 0, 0),
		    pgsql_value(res, 0, 1), pgsql_value(res, 0, 2));
	PQclear(res);
}

static void
explain_schema(struct postgres *p)
{
	if (p->url.schema != NULL)
		p->host->error(p->host, "there is no schema '%s' in database "
		    "'%s'; run '%s' as a role that may create schemas",
		    p->url.schema, database(p), p->url.init);
	else
		p->host->error(p->host, "the search_path names no schema that "
		    "is there and may be used; name one with -o "
		    "'table=SCHEMA.%s'", p->url.name);
}

static void
explain_layout(struct postgres *p, const char *text)
{
	bool is_range = is(p, "22003");
	char wrong[LEASERUN_ERROR_SIZE];
	struct pglayout layout;
	unsigned int i;

	if (pglayout_look(p, p->host->now() + ANSWER_NS, &layout) ==
	    LEASERUN_OK) {
		for (i = 0; i < PGLAYOUT_PARTS; i++) {
			if (!pglayout_wrong(p, &layout, i, wrong,
			    sizeof(wrong)))
				continue;
			p->host->error(p->host, "%s", wrong);
			return;
		}
	}
	if (is_range)
		p->host->error(p->host, "the token of this name can grow no "
		    "more: %s", text);
	else
		p->host->error(p->host, "table %s is not what it has to be: "
		    "%s; see 'leaserun doctor'", p->url.table, text);
}

/* --- The server --- */

/* Refused before there was a session. */
static void
explain_database(struct postgres *p, const char *text)
{
	const char *user = pgurl_value(&p->url, "user");

	if (is(p, "3D000"))
		p->host->error(p->host, "%s; name another one in the URL, or "
		    "run: CREATE DATABASE \"%s\"", text, database(p));
	else if (is(p, "42501"))
		p->host->error(p->host, "%s; its owner runs: GRANT CONNECT ON "
		    "DATABASE \"%s\" TO \"%s\"", text, database(p),
		    user == NULL ? "" : user);
}

void
pgexplain(struct postgres *p)
{
	char state[PGCONN_STATE_SIZE], text[LEASERUN_ERROR_SIZE];

	/* What is asked in here must not hide what it was asked for. */
	memcpy(state, p->conn.state, sizeof(state));
	memcpy(text, p->conn.text, sizeof(text));
	if (p->conn.pg == NULL)
		explain_database(p, text);
	else if (is(p, "42P01"))
		explain_missing(p);
	else if (is(p, "3F000"))
		explain_schema(p);
	else if (is(p, "42501"))
		explain_rights(p, text);
	else if (strncmp(state, "42", 2) == 0 ||
	    strncmp(state, "22", 2) == 0 || strncmp(state, "23", 2) == 0)
		explain_layout(p, text);
	memcpy(p->conn.state, state, sizeof(state));
	memcpy(p->conn.text, text, sizeof(text));
}

void
pgexplain_column(struct postgres *p, const char *column)
{
	p->host->error(p->host, "column %s of table %s is not of the type "
	    "timestamp with time zone; run: ALTER TABLE %s ALTER COLUMN %s "
	    "TYPE timestamptz", column, p->url.table, p->url.table, column);
}
