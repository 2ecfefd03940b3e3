/*
 * The Postgres backend behind a server that answers what it likes.  The first
 * byte is the call that is made; then come the results, one for each statement:
 * a byte with the number of rows, one with the types of the columns, and the
 * values, a line each.  What is not there is NULL.  Or it is the URL and the
 * options that are tried.
 */
#include <stdlib.h>
#include <string.h>

#include "../backends/pgconn.h"
#include "../backends/pgdial.h"
#include "../backends/pgsql.h"
#include "fuzz.h"

#define COLUMNS	18		/* the most that is asked for */
#define ROWS_MAX	8
#define CALLS_MAX	64

static struct fuzz input;
static unsigned int calls;

/* --- What stands for libpq's connection --- */

static void
set_columns(PGresult *res, uint8_t types)
{
	PGresAttDesc columns[COLUMNS];
	int i;

	memset(columns, 0, sizeof(columns));
	for (i = 0; i < COLUMNS; i++) {
		columns[i].name = (char[]){ "column" };
		columns[i].typid = types == 0xff ? 25 : 1184;
		columns[i].typlen = -1;
	}
	/* Fewer than were asked for, from somebody who is no server. */
	fuzz_check(PQsetResultAttrs(res, types > 0 && types < COLUMNS ?
	    types : COLUMNS, columns) == 1);
}

static PGresult *
make_result(void)
{
	PGresult *res = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	int rows = fuzz_byte(&input) % (ROWS_MAX + 1), i, j;
	char *value;

	fuzz_check(res != NULL);
	set_columns(res, fuzz_byte(&input));
	for (i = 0; i < rows; i++) {
		for (j = 0; j < PQnfields(res); j++) {
			value = input.size == 0 ? NULL :
			    fuzz_text(&input, '\n');
			fuzz_check(PQsetvalue(res, i, j, value, value == NULL ?
			    -1 : (int)strlen(value)) == 1);
			free(value);
		}
	}
	return res;
}

void
pgconn_init(struct pgconn *c, const struct leaserun_host *host,
    const struct pgurl *url)
{
	memset(c, 0, sizeof(*c));
	c->host = host;
	c->url = url;
}

void
pgconn_close(struct pgconn *c)
{
	c->is_listening = false;
}

enum leaserun_result
pgconn_run(struct pgconn *c, const struct pgstatement *s, unsigned int n,
    int64_t deadline, PGresult *res[])
{
	static const enum leaserun_result others[] = { LEASERUN_UNAVAILABLE,
	    LEASERUN_DENIED, LEASERUN_MISCONFIGURED, LEASERUN_INTERRUPTED };
	uint8_t how = fuzz_byte(&input);
	unsigned int i;

	(void)deadline;
	memset(res, 0, n * sizeof(*res));
	c->sent_ns = c->host->now();
	if (++calls > CALLS_MAX || input.size == 0)
		return LEASERUN_UNAVAILABLE;
	for (i = 0; i < n; i++)
		fuzz_check(s[i].sql[0] != '\0' && s[i].nparams < 20);
	c->state[0] = '\0';
	if (how >= 0xf0) {
		strcpy(c->state, how % 2 == 0 ? "55P03" : "42P01");
		return others[how / 2 % 4];
	}
	for (i = 0; i < n; i++)
		res[i] = make_result();
	return LEASERUN_OK;
}

enum leaserun_result
pgconn_may_listen(struct pgconn *c, int64_t deadline, bool *may)
{
	(void)c;
	(void)deadline;
	*may = fuzz_byte(&input) % 2 != 0;
	return LEASERUN_OK;
}

void
pgconn_settle(struct pgconn *c, int64_t deadline)
{
	(void)c;
	(void)deadline;
}

enum leaserun_result
pgconn_say(struct pgconn *c, const char *sql, int64_t deadline)
{
	(void)c;
	(void)deadline;
	fuzz_check(sql[0] != '\0');
	return LEASERUN_OK;
}

enum leaserun_result
pgconn_wait(struct pgconn *c, const char *payload, int64_t until)
{
	fuzz_check(strlen(payload) < LEASERUN_NAME_SIZE);
	return c->host->wait(c->host, NULL, 0, until);
}

enum leaserun_result
pgconn_classify(const struct pgconn *c)
{
	(void)c;
	return LEASERUN_UNAVAILABLE;
}

const char *
pgconn_text(const struct pgconn *c)
{
	return c->text;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input = (struct fuzz){ data, size };
	calls = 0;
	fuzz_calls(&leaserun_backend, &input,
	    "postgres://someone@127.0.0.1/database");
	return 0;
}
