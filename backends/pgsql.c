/*
 * The SQL.  Parameters only; the table's name, quoted, takes the place of each
 * '@'.  Times are the server's own, and clock_timestamp(), since now() stands
 * still while a statement waits.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgsql.h"

/*
 * A row is never deleted, so that its token goes on.  The row with the empty
 * name, which encodes no name, holds the floor for all.
 */
const struct pgsql_column pgsql_columns[] = {
	{ "name", "text", "COLLATE \"C\" PRIMARY KEY" },
	{ "token", "bigint", "NOT NULL" },
	{ "timeline", "bigint", "" },
	{ "state", "text", "NOT NULL DEFAULT 'released'" },
	{ "owner", "text", "NOT NULL DEFAULT ''" },
	{ "label", "text", "" },
	{ "host", "text", "" },
	{ "pid", "bigint", "" },
	{ "acquired_at", "timestamp with time zone", "" },
	{ "renewed_at", "timestamp with time zone", "" },
	{ "expires_at", "timestamp with time zone",
	    "NOT NULL DEFAULT clock_timestamp()" },
	{ "ttl_ms", "bigint", "" },
	{ "hold_until", "timestamp with time zone", "" },
	{ "revoke_token", "bigint", "" },
	{ "ended_at", "timestamp with time zone", "" },
	{ "end_status", "integer", "" },
	{ "ran_ms", "bigint", "" },
	{ "from_owner", "text", "" },
	{ "from_label", "text", "" },
	{ "from_host", "text", "" },
	{ "from_token", "bigint", "" }
};
const unsigned int pgsql_ncolumns =
    sizeof(pgsql_columns) / sizeof(pgsql_columns[0]);

#define MS(t)	"(extract(epoch FROM " t ") * 1000)::bigint::text"
#define LEFT(t)	MS(t " - clock_timestamp()")
#define AFTER(ms) "clock_timestamp() + " ms "::bigint * interval '1 ms'"

/* In the order of enum column; `l' is the row. */
#define ROW \
    " l.name, l.token::text, l.state, l.owner, l.label, l.host, l.pid::text," \
    " " MS("l.acquired_at") ", " MS("l.renewed_at") "," \
    " " MS("l.expires_at") ", " MS("clock_timestamp() - l.acquired_at") "," \
    " " LEFT("l.expires_at") ", " LEFT("l.hold_until") "," \
    " (l.revoke_token = l.token)::text, l.end_status::text," \
    " " MS("l.ended_at") ", l.ran_ms::text," \
    " l.from_owner, l.from_label, l.from_host, l.from_token::text," \
    " pg_typeof(l.expires_at)::oid::text, pg_typeof(l.hold_until)::oid::text"

enum column {
	OUTCOME, NAME, TOKEN, STATE, OWNER, LABEL, HOST, PID, ACQUIRED,
	RENEWED, EXPIRES, HELD_FOR, LEASE_LEFT, HOLD_LEFT, REVOKED, END_STATUS,
	ENDED, RAN, FROM_OWNER, FROM_LABEL, FROM_HOST, FROM_TOKEN,
	EXPIRES_TYPE, HOLD_TYPE, NCOLUMNS
};

#define TIMESTAMPTZ	"1184"		/* its fixed number in pg_type */

/*
 * The name is free: nobody holds it, or no longer.  UPDATE tests this without
 * locking the row, so those who find it held do not slow the holder down.  The
 * holder's own row is granted again, with its token if it still is live.
 *
 * The token grows by one with each grant.  Where the timeline is another one,
 * a standby was promoted or a backup restored, and grants may have been lost:
 * a step of 2^44 is more than could have been.  A new row starts with the time
 * in milliseconds, and with all steps that a lost row could have had.
 *
 * A lease cannot run longer than its ttl from now: if it seems to, the clock
 * went back, and the end is put where it is at the latest.
 */
#define LIVE	"l.state = 'held' AND l.expires_at > clock_timestamp()"
#define OWN	"l.state = 'held' AND l.owner = $2"
#define STEP	"17592186044416"
#define ACQUIRE(timeline) \
    "WITH t AS MATERIALIZED (SELECT " timeline " AS line, coalesce(" \
    "  (SELECT f.token FROM @ AS f WHERE f.name = ''), 0) AS least)," \
    " u AS (UPDATE @ AS l SET" \
    "  token = CASE WHEN " OWN " AND " LIVE " THEN l.token" \
    "   ELSE greatest(l.token + 1 + CASE WHEN l.timeline <> t.line" \
    "    THEN " STEP " ELSE 0 END, t.least + 1) END," \
    "  timeline = coalesce(t.line, l.timeline)," \
    "  from_owner = CASE WHEN " OWN " THEN l.from_owner" \
    "   WHEN l.state = 'held' THEN l.owner END," \
    "  from_label = CASE WHEN " OWN " THEN l.from_label" \
    "   WHEN l.state = 'held' THEN l.label END," \
    "  from_host = CASE WHEN " OWN " THEN l.from_host" \
    "   WHEN l.state = 'held' THEN l.host END," \
    "  from_token = CASE WHEN " OWN " THEN l.from_token" \
    "   WHEN l.state = 'held' THEN l.token END," \
    "  revoke_token = CASE WHEN " OWN " AND " LIVE " THEN l.revoke_token END," \
    "  hold_until = CASE WHEN " OWN " AND " LIVE " THEN l.hold_until" \
    "   WHEN $7::bigint > 0 THEN " AFTER("$7") " END," \
    "  acquired_at = CASE WHEN " OWN " AND " LIVE " THEN l.acquired_at" \
    "   ELSE clock_timestamp() END," \
    "  renewed_at = clock_timestamp(), expires_at = " AFTER("$3") "," \
    "  ttl_ms = $3::bigint, state = 'held', owner = $2, label = $4," \
    "  host = $5, pid = $6::bigint" \
    "  FROM t WHERE l.name = $1 AND (" OWN " OR (NOT (" LIVE ")" \
    "   AND (l.hold_until IS NULL OR l.hold_until <= clock_timestamp())))" \
    "  RETURNING l.*)," \
    " i AS (INSERT INTO @ AS l (name, token, timeline, state, owner, label," \
    "  host, pid, acquired_at, renewed_at, expires_at, ttl_ms, hold_until)" \
    "  SELECT $1, greatest((extract(epoch FROM clock_timestamp()) * 1000)" \
    "   ::bigint + coalesce(t.line - 1, 0) * " STEP ", t.least + 1), t.line," \
    "   'held', $2, $4, $5, $6::bigint, clock_timestamp()," \
    "   clock_timestamp(), " AFTER("$3") ", $3::bigint," \
    "   CASE WHEN $7::bigint > 0 THEN " AFTER("$7") " END" \
    "  FROM t WHERE NOT EXISTS (SELECT 1 FROM @ AS x WHERE x.name = $1)" \
    "  ON CONFLICT (name) DO NOTHING RETURNING l.*)," \
    " c AS (UPDATE @ AS l SET expires_at = " AFTER("l.ttl_ms") \
    "  WHERE l.name = $1 AND l.state = 'held' AND l.owner <> $2" \
    "  AND l.expires_at > " AFTER("(l.ttl_ms + 1000)") ")" \
    "SELECT 1," ROW " FROM (SELECT * FROM u UNION ALL SELECT * FROM i) AS l" \
    " UNION ALL SELECT 0," ROW " FROM @ AS l WHERE l.name = $1" \
    " AND NOT EXISTS (SELECT 1 FROM u) AND NOT EXISTS (SELECT 1 FROM i)"

/*
 * pg_control_checkpoint() shows the old timeline for a while after a promotion,
 * the name of the file that is being written does not.
 */
const char pgsql_acquire[] = ACQUIRE("('x' || substr(pg_walfile_name("
    "pg_current_wal_lsn()), 1, 8))::bit(32)::bigint");
const char pgsql_acquire_plain[] = ACQUIRE("NULL::bigint");

/* Whoever listens is told when a name may have become free. */
#define TOLD	"pg_notify('" PGSQL_CHANNEL "', l.name)::text"

const char pgsql_abandon[] =
    "WITH r AS (UPDATE @ AS l SET state = 'released',"
    "  expires_at = clock_timestamp(), hold_until = NULL,"
    "  revoke_token = NULL WHERE l.name = $1 AND " OWN " RETURNING l.name)"
    "SELECT 1, " TOLD " FROM r AS l";

const char pgsql_renew[] =
    "WITH r AS (UPDATE @ AS l SET expires_at = " AFTER("$4") ","
    "  renewed_at = clock_timestamp(), ttl_ms = $4::bigint"
    "  WHERE l.name = $1 AND " OWN " AND l.token = $3::bigint AND " LIVE
    "  RETURNING l.*)"
    "SELECT 1," ROW " FROM r AS l"
    " UNION ALL SELECT 0," ROW " FROM @ AS l WHERE l.name = $1"
    " AND NOT EXISTS (SELECT 1 FROM r)";

/* A command that never ran leaves the last end as it was, and no hold. */
const char pgsql_release[] =
    "WITH r AS (UPDATE @ AS l SET state = 'released',"
    "  expires_at = clock_timestamp(), revoke_token = NULL,"
    "  hold_until = CASE WHEN $4::boolean THEN l.hold_until END,"
    "  ended_at = CASE WHEN $4::boolean THEN clock_timestamp()"
    "   ELSE l.ended_at END,"
    "  end_status = CASE WHEN $4::boolean THEN $5::integer"
    "   ELSE l.end_status END,"
    "  ran_ms = CASE WHEN $4::boolean THEN $6::bigint ELSE l.ran_ms END"
    "  WHERE l.name = $1 AND " OWN " AND l.token = $3::bigint"
    "  RETURNING l.name)"
    "SELECT 1, " TOLD " FROM r AS l"
    " UNION ALL SELECT CASE WHEN l.state = 'released' AND l.owner = $2"
    "  AND l.token = $3::bigint THEN 2 ELSE 0 END, ''"
    " FROM @ AS l WHERE l.name = $1 AND NOT EXISTS (SELECT 1 FROM r)";

const char pgsql_list[] =
    "SELECT 0," ROW " FROM @ AS l WHERE l.name <> ''"
    " AND ($1::text IS NULL OR l.name = $1) ORDER BY l.name";

/* The row that is shown is the one before, since it is of the snapshot. */
#define ASKED \
    "SELECT CASE WHEN EXISTS (SELECT 1 FROM r) THEN 1 ELSE 0 END," ROW \
    " FROM @ AS l WHERE l.name = $1"
#define MEANT	"($2::bigint = 0 OR l.token = $2::bigint)"

const char pgsql_revoke[] =
    "WITH r AS (UPDATE @ AS l SET revoke_token = l.token"
    "  WHERE l.name = $1 AND " LIVE " AND " MEANT " RETURNING l.name)"
    ASKED;

const char pgsql_force[] =
    "WITH r AS (UPDATE @ AS l SET state = 'forced',"
    "  expires_at = clock_timestamp(), hold_until = NULL"
    "  WHERE l.name = $1 AND ((" LIVE ")"
    "   OR l.hold_until > clock_timestamp()) AND " MEANT
    "  RETURNING l.name),"
    " n AS MATERIALIZED (SELECT " TOLD " FROM r AS l)"
    ASKED " AND (SELECT count(*) FROM n) >= 0";

/* Who keeps a row locked: the transaction that is written in it. */
const char pgsql_blocker[] =
    "SELECT k.pid::text FROM @ AS l JOIN pg_locks AS k"
    " ON k.locktype = 'transactionid' AND k.transactionid = l.xmax"
    " AND k.granted WHERE l.name = $1 LIMIT 1";

char *
pgsql_for(const char *sql, const char *table)
{
	size_t len = 0, width = strlen(table);
	const char *p;
	char *text, *to;

	for (p = sql; *p != '\0'; p++)
		len += *p == '@' ? width : 1;
	text = to = malloc(len + 1);
	if (text == NULL)
		return NULL;
	for (p = sql; *p != '\0'; p++) {
		if (*p == '@') {
			memcpy(to, table, width);
			to += width;
		} else
			*to++ = *p;
	}
	*to = '\0';
	return text;
}

/* --- Rows --- */

/* A number, or `absent' for NULL. */
static int64_t
number(const PGresult *res, int n, enum column column, int64_t absent)
{
	if (PQgetisnull(res, n, column))
		return absent;
	return strtoll(PQgetvalue(res, n, column), NULL, 10);
}

static void
text(const PGresult *res, int n, enum column column, char *to, size_t size)
{
	snprintf(to, size, "%s", PQgetvalue(res, n, column));
}

static int
hex(char c)
{
	const char *digits = "0123456789ABCDEF", *p;

	p = c == '\0' ? NULL : strchr(digits, c);
	return p == NULL ? -1 : (int)(p - digits);
}

void
pgsql_encode(const char *from, char *to, size_t size)
{
	size_t used = 0;

	for (; *from != '\0' && used + 4 <= size; from++) {
		if (*from < ' ' || *from > '~' || *from == '%')
			used += (size_t)snprintf(to + used, size - used,
			    "%%%02X", (unsigned char)*from);
		else
			to[used++] = *from;
	}
	to[used] = '\0';
}

/* What nobody could have encoded stays as it is; what is too long is cut. */
static void
decode(const char *from, char *to, size_t size)
{
	size_t used = 0;

	for (; *from != '\0' && used + 1 < size; from++) {
		if (*from == '%' && hex(from[1]) != -1 && hex(from[2]) != -1 &&
		    (from[1] != '0' || from[2] != '0')) {
			to[used++] = (char)(hex(from[1]) * 16 + hex(from[2]));
			from += 2;
		} else
			to[used++] = *from;
	}
	to[used] = '\0';
}

static void
read_previous(const PGresult *res, int n, struct pgsql_row *row)
{
	struct leaserun_entry *e = &row->previous;

	text(res, n, NAME, e->name, sizeof(e->name));
	text(res, n, FROM_OWNER, e->owner, sizeof(e->owner));
	decode(PQgetvalue(res, n, FROM_LABEL), e->label, sizeof(e->label));
	decode(PQgetvalue(res, n, FROM_HOST), e->host, sizeof(e->host));
	e->token = (uint64_t)number(res, n, FROM_TOKEN, 0);
}

static void
read_end(const PGresult *res, int n, struct leaserun_entry *e)
{
	e->has_end = !PQgetisnull(res, n, ENDED);
	e->end_status = (int)number(res, n, END_STATUS, 0);
	e->end_ms = number(res, n, ENDED, 0);
	e->ran_ms = number(res, n, RAN, 0);
}

/* Who has it; nobody, if it is free. */
static void
read_holder(const PGresult *res, int n, struct pgsql_row *row)
{
	struct leaserun_entry *e = &row->entry;

	e->held_for_ms = -1;
	e->expires_in_ms = -1;
	e->waiting = -1;
	if (e->state == LEASERUN_FREE)
		return;
	text(res, n, OWNER, e->owner, sizeof(e->owner));
	decode(PQgetvalue(res, n, LABEL), e->label, sizeof(e->label));
	decode(PQgetvalue(res, n, HOST), e->host, sizeof(e->host));
	e->pid = number(res, n, PID, 0);
	e->acquired_ms = number(res, n, ACQUIRED, 0);
	e->renewed_ms = number(res, n, RENEWED, 0);
	e->expires_ms = number(res, n, EXPIRES, 0);
	e->held_for_ms = number(res, n, HELD_FOR, -1);
	e->expires_in_ms = row->left_ms;
	if (e->state == LEASERUN_HOLDING) {
		e->expires_ms += row->hold_ms - row->left_ms;
		e->expires_in_ms = row->hold_ms;
	}
}

bool
pgsql_read(const PGresult *res, int n, struct pgsql_row *row,
    const char **wrong)
{
	struct leaserun_entry *e = &row->entry;
	const char *state;

	memset(row, 0, sizeof(*row));
	*wrong = "expires_at";
	if (PQnfields(res) != NCOLUMNS ||
	    strcmp(PQgetvalue(res, n, EXPIRES_TYPE), TIMESTAMPTZ) != 0)
		return false;
	*wrong = "hold_until";
	if (strcmp(PQgetvalue(res, n, HOLD_TYPE), TIMESTAMPTZ) != 0)
		return false;
	row->outcome = (enum pgsql_outcome)number(res, n, OUTCOME, 0);
	state = PQgetvalue(res, n, STATE);
	row->is_held = strcmp(state, "held") == 0;
	row->is_forced = strcmp(state, "forced") == 0;
	row->left_ms = number(res, n, LEASE_LEFT, 0);
	row->hold_ms = number(res, n, HOLD_LEFT, 0);
	row->is_live = row->is_held && row->left_ms > 0;
	row->is_revoked = strcmp(PQgetvalue(res, n, REVOKED), "true") == 0;
	text(res, n, OWNER, row->owner, sizeof(row->owner));
	text(res, n, NAME, e->name, sizeof(e->name));
	e->token = (uint64_t)number(res, n, TOKEN, 0);
	e->state = row->is_live ? (row->is_revoked ? LEASERUN_REVOKING :
	    LEASERUN_BUSY) : row->hold_ms > 0 ? LEASERUN_HOLDING :
	    LEASERUN_FREE;
	e->unclean = row->is_held && !row->is_live;
	read_holder(res, n, row);
	read_end(res, n, e);
	read_previous(res, n, row);
	return true;
}
