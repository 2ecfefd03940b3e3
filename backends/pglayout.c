/*
 * Compares the table with what it has to be.  Must never change it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pglayout.h"

static const char look_sql[] =
    "SELECT ($2::text IS NULL OR EXISTS (SELECT 1 FROM pg_namespace"
    "  WHERE nspname = $2::text))::text,"
    " (to_regclass($1) IS NOT NULL)::text,"
    " EXISTS (SELECT 1 FROM pg_index AS i JOIN pg_attribute AS k"
    "  ON k.attrelid = i.indrelid AND k.attnum = i.indkey[0]"
    "  WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid"
    "  AND i.indpred IS NULL AND i.indnkeyatts = 1"
    "  AND k.attname = 'name')::text,"
    " a.attname, format_type(a.atttypid, a.atttypmod),"
    " quote_ident(current_user)"
    " FROM (SELECT 1) AS one LEFT JOIN pg_attribute AS a"
    " ON a.attrelid = to_regclass($1) AND a.attnum > 0"
    " AND NOT a.attisdropped";

static void
look_at_column(struct pglayout *layout, const char *name, const char *type)
{
	unsigned int i;

	for (i = 0; i < pgsql_ncolumns; i++) {
		if (strcmp(pgsql_columns[i].name, name) != 0)
			continue;
		layout->missing &= ~(UINT32_C(1) << i);
		if (strcmp(pgsql_columns[i].type, type) == 0)
			continue;
		layout->mistyped |= UINT32_C(1) << i;
		snprintf(layout->types[i], sizeof(layout->types[i]), "%s",
		    type);
	}
}

enum leaserun_result
pglayout_look(struct postgres *p, int64_t deadline, struct pglayout *layout)
{
	const char *const params[] = { p->url.table, p->url.schema };
	const struct pgstatement s = { look_sql, params, 2 };
	enum leaserun_result result;
	PGresult *res;
	int i;

	memset(layout, 0, sizeof(*layout));
	result = pgconn_run(&p->conn, &s, 1, deadline, &res);
	if (result != LEASERUN_OK)
		return result;
	layout->has_schema = strcmp(pgsql_value(res, 0, 0), "true") == 0;
	layout->has_table = strcmp(pgsql_value(res, 0, 1), "true") == 0;
	layout->has_key = strcmp(pgsql_value(res, 0, 2), "true") == 0;
	layout->missing = (UINT32_C(1) << pgsql_ncolumns) - 1;
	snprintf(layout->role, sizeof(layout->role), "%s",
	    pgsql_value(res, 0, 5));
	for (i = 0; i < PQntuples(res); i++)
		look_at_column(layout, pgsql_value(res, i, 3),
		    pgsql_value(res, i, 4));
	PQclear(res);
	return LEASERUN_OK;
}

bool
pglayout_wrong(const struct postgres *p, const struct pglayout *layout,
    unsigned int i, char *text, size_t size)
{
	const char *table = p->url.table;
	const struct pgsql_column *c = &pgsql_columns[i];

	if (!layout->has_table) {
		snprintf(text, size, "there is no table %s; run '%s' as a "
		    "role that may create tables", table, p->url.init);
		return i == pgsql_ncolumns;
	}
	if (i >= pgsql_ncolumns) {
		snprintf(text, size, "table %s has no primary key on name; run "
		    "'%s'", table, p->url.init);
		return i > pgsql_ncolumns && !layout->has_key;
	}
	if ((layout->missing & UINT32_C(1) << i) != 0) {
		snprintf(text, size, "table %s has no column %s; run '%s'",
		    table, c->name, p->url.init);
		return true;
	}
	snprintf(text, size, "column %s of table %s is %s and has to be %s; "
	    "run: ALTER TABLE %s ALTER COLUMN %s TYPE %s USING %s::%s",
	    c->name, table, layout->types[i], c->type, table, c->name, c->type,
	    c->name, c->type);
	return (layout->mistyped & UINT32_C(1) << i) != 0;
}
