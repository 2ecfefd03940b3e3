/*
 * Turns an error of the server into the statement that mends it.
 */
#include <stdio.h>
#include <string.h>

#include "pgexplain.h"

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

static void
explain_rights(struct postgres *p)
{
	const char *user = pgurl_value(&p->url, "user");

	if (strstr(p->conn.text, "schema") != NULL)
		p->host->error(p->host, "%s; its owner runs: GRANT USAGE ON "
		    "SCHEMA \"%s\" TO \"%s\"", p->conn.text,
		    p->url.schema == NULL ? "public" : p->url.schema,
		    user == NULL ? "" : user);
	else
		p->host->error(p->host, "%s; its owner runs: GRANT SELECT, "
		    "INSERT, UPDATE ON %s TO \"%s\"", p->conn.text,
		    p->url.table, user == NULL ? "" : user);
}

static void
explain_layout(struct postgres *p)
{
	p->host->error(p->host, "table %s is not laid out as it has to be: %s; "
	    "run 'leaserun init' to add what is missing, or see 'leaserun init "
	    "--print'", p->url.table, p->conn.text);
}

void
pgexplain(struct postgres *p)
{
	if (is(p, "42P01"))
		p->host->error(p->host, "there is no table %s in database "
		    "'%s'; run 'leaserun init'", p->url.table, database(p));
	else if (is(p, "3F000"))
		p->host->error(p->host, "there is no schema '%s' in database "
		    "'%s'; run 'leaserun init'", p->url.schema, database(p));
	else if (is(p, "3D000"))
		p->host->error(p->host, "%s; make it (createdb), or name "
		    "another one in the URL", p->conn.text);
	else if (is(p, "42501"))
		explain_rights(p);
	else if (is(p, "22003"))
		p->host->error(p->host, "the token of this name can grow no "
		    "more: %s", p->conn.text);
	else if (strncmp(p->conn.state, "42", 2) == 0 ||
	    strncmp(p->conn.state, "22", 2) == 0 ||
	    strncmp(p->conn.state, "23", 2) == 0)
		explain_layout(p);
}

void
pgexplain_column(struct postgres *p, const char *column)
{
	p->host->error(p->host, "column \"%s\" of table %s is not of the type "
	    "timestamp with time zone; run: ALTER TABLE %s ALTER COLUMN \"%s\" "
	    "TYPE timestamptz", column, p->url.table, p->url.table, column);
}
