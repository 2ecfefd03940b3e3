/*
 * The SQL.  Parameters only; the table's name, quoted, takes the place of each
 * '@'.  Times are the server's own, and clock_timestamp(), since now() stands
 * still while a statement waits.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgsql.h"

/*
 * A row is never deleted, so that its token goes on.  The row with the empty
 * name, which encodes no name, holds the floor for all; rows with a blank in
 * their name say which keys of --once are done.
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

#define AFTER(ms) "clock_timestamp() + " ms "::bigint * interval '1 ms'"
#define EPOCH(t) "extract(epoch FROM " t ")::text"

/*
 * Times without a zone would compare, but not with what is meant, and what is
 * needed to release a lease is missed too late.  Where something is granted or
 * asked for, that is an error which undoes it.
 */
#define TYPES	"l.expires_at, l.hold_until"
#define IS(column, type) "pg_typeof(l." column ") = '" type "'::regtype"
#define CHECK \
    "1 / (" IS("token", "int8") " AND " IS("revoke_token", "int8") \
    " AND " IS("expires_at", "timestamptz") \
    " AND " IS("hold_until", "timestamptz") \
    " AND " IS("ended_at", "timestamptz") " AND " IS("end_status", "int4") \
    " AND " IS("ran_ms", "int8") ")::int"

/* What someone wrote by hand; more has no room in nanoseconds. */
#define TTL	"least(l.ttl_ms, 3000000000000)"

/*
 * The name is free: nobody holds it, or no longer.  UPDATE tests this without
 * locking the row, so those who find it held do not slow the holder down.  The
 * holder's own row is granted again, with its token if it still is live.
 *
 * The token grows by one with each grant.  Where the timeline is another one,
 * a standby was promoted or a backup restored, and grants may have been lost:
 * a step of 2^44 is more than could have been.  A new row starts with the time
 * in milliseconds, and with all steps that a lost row could have had.
 */
#define LIVE \
    "(l.state = 'held' AND l.expires_at > clock_timestamp()) IS TRUE"
#define OWN	"(l.state = 'held' AND l.owner = $2) IS TRUE"
#define STEP	"17592186044416"
#define LEAST	"coalesce((SELECT f.token FROM @ AS f WHERE f.name = ''), 0)"
#define FROM(column) \
    "from_" column " = CASE WHEN " OWN " THEN l.from_" column \
    " WHEN l.state IN ('held', 'forced') AND l.owner <> $2 THEN l." column \
    " END,"
#define GRANTED \
    "RETURNING l.token, l.from_owner, l.from_label, l.from_host," \
    " l.from_token, " CHECK

#define TAKE(timeline) \
    "UPDATE @ AS l SET" \
    " token = CASE WHEN " OWN " AND " LIVE " THEN l.token" \
    "  ELSE greatest(l.token + 1" \
    "   + CASE WHEN l.timeline <> t.line THEN " STEP " ELSE 0 END," \
    "   " LEAST " + 1) END," \
    " timeline = coalesce(t.line, l.timeline)," \
    FROM("owner") FROM("label") FROM("host") FROM("token") \
    " revoke_token = CASE WHEN " OWN " AND " LIVE " THEN l.revoke_token END," \
    " hold_until = CASE WHEN " OWN " AND " LIVE " THEN l.hold_until" \
    "  WHEN $7::bigint > 0 THEN " AFTER("$7") " END," \
    " acquired_at = CASE WHEN " OWN " AND " LIVE " THEN l.acquired_at" \
    "  ELSE clock_timestamp() END," \
    " renewed_at = clock_timestamp(), expires_at = " AFTER("$3") "," \
    " ttl_ms = $3::bigint, state = 'held', owner = $2, label = $4," \
    " host = $5, pid = $6::bigint" \
    " FROM (SELECT " timeline " AS line) AS t" \
    " WHERE l.name = $1 AND (" OWN " OR (NOT (" LIVE ")" \
    "  AND (l.hold_until IS NULL OR l.hold_until <= clock_timestamp())))" \
    " " GRANTED

#define ADD(timeline) \
    "INSERT INTO @ AS l (name, token, timeline, state, owner, label, host," \
    " pid, acquired_at, renewed_at, expires_at, ttl_ms, hold_until)" \
    " SELECT $1, greatest((extract(epoch FROM clock_timestamp()) * 1000)" \
    "  ::bigint + coalesce(t.line - 1, 0) * " STEP ", " LEAST " + 1), t.line," \
    "  'held', $2, $4, $5, $6::bigint, clock_timestamp()," \
    "  clock_timestamp(), " AFTER("$3") ", $3::bigint," \
    "  CASE WHEN $7::bigint > 0 THEN " AFTER("$7") " END" \
    " FROM (SELECT " timeline " AS line) AS t" \
    " WHERE NOT EXISTS (SELECT 1 FROM @ AS x WHERE x.name = $1)" \
    " ON CONFLICT (name) DO NOTHING " GRANTED

/*
 * pg_control_checkpoint() shows the old timeline for a while after a promotion,
 * the name of the file that is being written does not.
 */
#define TIMELINE \
    "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))" \
    "::bit(32)::bigint"

const char pgsql_take[] = TAKE(TIMELINE);
const char pgsql_take_plain[] = TAKE("NULL::bigint");
const char pgsql_add[] = ADD(TIMELINE);
const char pgsql_add_plain[] = ADD("NULL::bigint");

/*
 * A lease cannot run longer than its ttl from now, and was not acquired in the
 * future: if it seems so, the clock went back, and the end of the lease, or of
 * its min-hold, is put where it is at the latest.
 */
#define FUTURE	"l.acquired_at > " AFTER("1000")

const char pgsql_mend[] =
    "UPDATE @ AS l SET"
    " expires_at = least(l.expires_at, " AFTER(TTL) "),"
    " hold_until = CASE WHEN " FUTURE " THEN clock_timestamp()"
    "  + (l.hold_until - l.acquired_at) ELSE l.hold_until END,"
    " acquired_at = least(l.acquired_at, clock_timestamp())"
    " WHERE l.name = $1 AND ((l.state = 'held'"
    "  AND l.expires_at > " AFTER("(" TTL " + 1000)") ")"
    "  OR (" FUTURE " AND l.hold_until > clock_timestamp()))";

/*
 * Whoever listens is told when a name may have become free.  All commits that
 * notify, in all databases, wait for each other, so this is one without
 * anything that would have to be on disk first.  One of them may stay in
 * between for long, for a standby say: who waits is then not told, but looks.
 */
const char pgsql_tell[] =
    "SELECT set_config('lock_timeout', '200', true),"
    " pg_notify('" PGSQL_CHANNEL "', l.name) FROM @ AS l"
    " WHERE l.name = $1 AND l.state <> 'held'";

const char pgsql_abandon[] =
    "UPDATE @ AS l SET state = 'released', expires_at = clock_timestamp(),"
    " hold_until = NULL, revoke_token = NULL"
    " WHERE l.name = $1 AND " OWN;

const char pgsql_renew[] =
    "UPDATE @ AS l SET expires_at = " AFTER("$4") ","
    " renewed_at = clock_timestamp(), ttl_ms = $4::bigint"
    " WHERE l.name = $1 AND " OWN " AND l.token = $3::bigint AND " LIVE
    " RETURNING " EPOCH("l.expires_at - clock_timestamp()") ","
    " l.revoke_token = l.token";

/* A command that never ran leaves the last end as it was, and no hold. */
const char pgsql_release[] =
    "UPDATE @ AS l SET state = 'released', expires_at = clock_timestamp(),"
    " revoke_token = NULL,"
    " hold_until = CASE WHEN $4::boolean THEN l.hold_until END,"
    " ended_at = CASE WHEN $4::boolean THEN clock_timestamp()"
    "  ELSE l.ended_at END,"
    " end_status = CASE WHEN $4::boolean THEN $5::integer"
    "  ELSE l.end_status END,"
    " ran_ms = CASE WHEN $4::boolean THEN $6::bigint ELSE l.ran_ms END"
    " WHERE l.name = $1 AND " OWN " AND l.token = $3::bigint"
    " RETURNING 1";

/*
 * Whether it was done before, and the answer lost.  Written, so that its commit
 * is as sure as that one should have been.
 */
const char pgsql_released[] =
    "UPDATE @ AS l SET state = 'released' WHERE l.name = $1 AND l.owner = $2"
    " AND l.token = $3::bigint AND l.state = 'released' RETURNING 1";

/* In the order of enum column. */
const char pgsql_list[] =
    "SELECT l.name, l.token, l.state, l.owner, l.label, l.host, l.pid, "
    EPOCH("clock_timestamp()") ", " EPOCH("l.acquired_at") ", "
    EPOCH("l.renewed_at") ", " EPOCH("l.expires_at") ", "
    EPOCH("l.hold_until") ", l.revoke_token, " EPOCH("l.ended_at") ","
    " l.end_status, l.ran_ms, " TYPES
    " FROM @ AS l WHERE l.name <> ''"
    " AND l.state IS DISTINCT FROM 'done'"
    " AND ($1::text IS NULL OR l.name = $1) ORDER BY l.name";

enum column {
	NAME, TOKEN, STATE, OWNER, LABEL, HOST, PID, CLOCK, ACQUIRED, RENEWED,
	EXPIRES, HOLD, REVOKE, ENDED, END_STATUS, RAN, TYPE_EXPIRES, TYPE_HOLD
};

#define MEANT	"($2::bigint = 0 OR l.token = $2::bigint)"

const char pgsql_revoke[] =
    "UPDATE @ AS l SET revoke_token = l.token"
    " WHERE l.name = $1 AND " LIVE " AND " MEANT " RETURNING " CHECK;

const char pgsql_force[] =
    "UPDATE @ AS l SET expires_at = clock_timestamp(),"
    " state = CASE WHEN l.state = 'held' THEN 'forced' ELSE l.state END,"
    " hold_until = NULL WHERE l.name = $1 AND ((" LIVE ")"
    "  OR l.hold_until > clock_timestamp()) AND " MEANT
    " RETURNING " CHECK;

/* In words, and the statements that end them; NULL: nobody. */
#define BLOCKERS \
    "SELECT string_agg(DISTINCT coalesce('the transaction of server process '" \
    "  || k.pid, 'the prepared transaction ' || quote_literal(x.gid))," \
    "  ' and '), string_agg(DISTINCT coalesce('SELECT pg_terminate_backend('" \
    "  || k.pid || ')', 'ROLLBACK PREPARED ' || quote_literal(x.gid)), '; ')" \
    " FROM pg_locks AS k LEFT JOIN (pg_locks AS o JOIN pg_prepared_xacts AS x" \
    "  ON o.transactionid = x.transaction AND o.pid IS NULL)" \
    "  ON k.pid IS NULL AND k.virtualtransaction = o.virtualtransaction"

/* Who keeps the whole table locked; it must not be touched to find out. */
const char pgsql_table_blocker[] =
    BLOCKERS " WHERE k.relation = to_regclass($1)"
    " AND k.database = (SELECT d.oid FROM pg_database AS d"
    "  WHERE d.datname = current_database())"
    " AND k.granted AND k.pid IS DISTINCT FROM pg_backend_pid()"
    " AND k.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock',"
    "  'AccessExclusiveLock')";

/*
 * Who keeps a row locked: the transaction that is written in it, or all of a
 * group of them.  Asking for a group that never was, or no longer is, would be
 * an error.
 */
const char pgsql_blocker[] =
    BLOCKERS " WHERE k.locktype = 'transactionid' AND k.granted"
    " AND k.transactionid IN (SELECT l.xmax FROM @ AS l WHERE l.name = $1"
    "  UNION ALL SELECT m.xid FROM @ AS l, pg_get_multixact_members(CASE"
    "   WHEN mxid_age(l.xmax) BETWEEN 1 AND (SELECT mxid_age(c.relminmxid)"
    "    FROM pg_class AS c WHERE c.oid = l.tableoid) THEN l.xmax END) AS m"
    "  WHERE l.name = $1 AND m.mode <> 'keysh')";

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

#define TIMESTAMPTZ	1184		/* its fixed number in pg_type */
/* The year 2200; in nanoseconds, what is left until then has room. */
#define FAR_MS		INT64_C(7258118400000)
#define COUNT_MAX	(INT64_MAX / 4)

const char *
pgsql_number(char buf[PGSQL_NUMBER_SIZE], int64_t n)
{
	snprintf(buf, PGSQL_NUMBER_SIZE, "%" PRId64, n);
	return buf;
}

const char *
pgsql_value(const PGresult *res, int n, int column)
{
	const char *value = PQgetvalue(res, n, column);

	return value == NULL ? "" : value;
}

/* A number, or `absent' for NULL. */
static int64_t
number(const PGresult *res, int n, int column, int64_t absent)
{
	if (PQgetisnull(res, n, column))
		return absent;
	return strtoll(pgsql_value(res, n, column), NULL, 10);
}

int64_t
pgsql_count(const PGresult *res, int n, int column)
{
	int64_t count = number(res, n, column, 0);

	return count < -COUNT_MAX ? -COUNT_MAX :
	    count > COUNT_MAX ? COUNT_MAX : count;
}

/* Nobody was granted one below 1. */
static uint64_t
token_at(const PGresult *res, int n, int column)
{
	int64_t token = number(res, n, column, 0);

	return token < 0 ? 0 : (uint64_t)token;
}

static int64_t
bounded(int64_t ms)
{
	return ms < -FAR_MS ? -FAR_MS : ms > FAR_MS ? FAR_MS : ms;
}

/* Seconds with a fraction, in milliseconds; 0: NULL. */
static int64_t
milliseconds(const PGresult *res, int n, int column)
{
	const char *text = pgsql_value(res, n, column);
	char *end;
	int64_t ms = 0, scale = 100;

	if (strchr(text, 'I') != NULL)		/* Infinity */
		return text[0] == '-' ? 0 : FAR_MS;
	ms = bounded(strtoll(text, &end, 10)) * 1000;
	if (*end == '.') {
		for (end++; scale > 0 && *end >= '0' && *end <= '9'; end++) {
			ms += (text[0] == '-' ? -1 : 1) * (*end - '0') * scale;
			scale /= 10;
		}
	}
	return bounded(ms);
}

static void
text(const PGresult *res, int n, int column, char *to, size_t size)
{
	snprintf(to, size, "%s", pgsql_value(res, n, column));
}

static bool
check_types(const PGresult *res, const char **wrong)
{
	*wrong = "expires_at";
	if (PQftype(res, TYPE_EXPIRES) != TIMESTAMPTZ)
		return false;
	*wrong = "hold_until";
	return PQftype(res, TYPE_HOLD) == TIMESTAMPTZ;
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

void
pgsql_decode(const char *from, char *to, size_t size)
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
read_end(const PGresult *res, int n, struct leaserun_entry *e)
{
	e->has_end = !PQgetisnull(res, n, ENDED);
	e->end_status = (int)number(res, n, END_STATUS, 0);
	e->end_ms = milliseconds(res, n, ENDED);
	e->ran_ms = bounded(number(res, n, RAN, 0));
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
	pgsql_decode(pgsql_value(res, n, LABEL), e->label, sizeof(e->label));
	pgsql_decode(pgsql_value(res, n, HOST), e->host, sizeof(e->host));
	e->pid = number(res, n, PID, 0);
	e->acquired_ms = milliseconds(res, n, ACQUIRED);
	e->renewed_ms = milliseconds(res, n, RENEWED);
	e->expires_ms = milliseconds(res, n, EXPIRES);
	if (e->acquired_ms != 0)
		e->held_for_ms = milliseconds(res, n, CLOCK) - e->acquired_ms;
	if (e->held_for_ms < 0)		/* its clock went back */
		e->held_for_ms = e->acquired_ms == 0 ? -1 : 0;
	e->expires_in_ms = row->left_ms;
	if (e->state == LEASERUN_HOLDING) {
		e->pid = 0;	/* nobody runs */
		e->expires_ms += row->hold_ms - row->left_ms;
		e->expires_in_ms = row->hold_ms;
	}
}

bool
pgsql_read(const PGresult *res, int n, struct pgsql_row *row,
    const char **wrong)
{
	struct leaserun_entry *e = &row->entry;
	int64_t clock = milliseconds(res, n, CLOCK);
	const char *state = pgsql_value(res, n, STATE);
	bool is_revoked;

	memset(row, 0, sizeof(*row));
	if (!check_types(res, wrong))
		return false;
	row->is_held = strcmp(state, "held") == 0;
	row->is_forced = strcmp(state, "forced") == 0;
	row->is_released = strcmp(state, "released") == 0;
	row->left_ms = milliseconds(res, n, EXPIRES) - clock;
	if (!PQgetisnull(res, n, HOLD))
		row->hold_ms = milliseconds(res, n, HOLD) - clock;
	row->is_live = row->is_held && row->left_ms > 0;
	text(res, n, OWNER, row->owner, sizeof(row->owner));
	text(res, n, NAME, e->name, sizeof(e->name));
	e->token = token_at(res, n, TOKEN);
	is_revoked = token_at(res, n, REVOKE) == e->token;
	e->state = row->is_live ? (is_revoked ? LEASERUN_REVOKING :
	    LEASERUN_BUSY) : row->hold_ms > 0 ? LEASERUN_HOLDING :
	    LEASERUN_FREE;
	e->unclean = row->is_forced || (row->is_held && !row->is_live);
	read_holder(res, n, row);
	read_end(res, n, e);
	return true;
}

void
pgsql_read_grant(const PGresult *res, uint64_t *token,
    struct leaserun_entry *from)
{
	*token = token_at(res, 0, 0);
	memset(from, 0, sizeof(*from));
	text(res, 0, 1, from->owner, sizeof(from->owner));
	pgsql_decode(pgsql_value(res, 0, 2), from->label, sizeof(from->label));
	pgsql_decode(pgsql_value(res, 0, 3), from->host, sizeof(from->host));
	from->token = token_at(res, 0, 4);
}

void
pgsql_read_renewal(const PGresult *res, int64_t *left_ms, bool *revoke)
{
	*left_ms = milliseconds(res, 0, 0);
	*revoke = strcmp(pgsql_value(res, 0, 1), "t") == 0;
}
