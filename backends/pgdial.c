/*
 * Connects to one of the hosts, its addresses one by one, each with a limit of
 * ours.  libpq has none for a connection that is made without blocking.
 */
#include <sys/stat.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pgdial.h"

#define NS_PER_MS	INT64_C(1000000)
#define PARAMS_MAX	64

/* --- Texts --- */

/* "…FATAL:  28P01: password…": the state, and the text without it. */
static char *
find_state(char *text)
{
	char *p = text;
	int i;

	while ((p = strstr(p, ":  ")) != NULL) {
		p += 3;
		for (i = 0; i < 5 && isalnum((unsigned char)p[i]); i++)
			continue;
		if (i == 5 && p[5] == ':' && p[6] == ' ')
			return p;
	}
	return NULL;
}

void
pgdial_keep_text(struct pgconn *c, const char *text)
{
	char line[LEASERUN_ERROR_SIZE], *state;
	size_t len;

	snprintf(line, sizeof(line), "%s", text);
	line[strcspn(line, "\n")] = '\0';
	len = strlen(line);
	while (len > 0 && strchr(" .:\t", line[len - 1]) != NULL)
		line[--len] = '\0';
	state = find_state(line);
	if (state != NULL) {
		memcpy(c->state, state, 5);
		c->state[5] = '\0';
		memmove(state - 1, state + 7, strlen(state + 7) + 1);
	}
	snprintf(c->text, sizeof(c->text), "%s", line[0] == '\0' ?
	    "the connection to the server is gone" : line);
}

/*
 * libpq would write to standard error that it ignores the file, each time.
 * NULL: it is fine, or there is none.
 */
static const char *
unsafe_passfile(const struct pgurl *url)
{
	const char *path = pgurl_value(url, "passfile");
	struct stat st;

	if (path == NULL || stat(path, &st) == -1)
		return NULL;
	return S_ISREG(st.st_mode) && (st.st_mode & 077) == 0 ? NULL : path;
}

/* Where the password came from that was refused. */
static void
add_source(const struct pgconn *c, char *text, size_t size)
{
	const char *file = pgurl_value(c->url, "passfile");
	size_t len = strlen(text);

	if (strcmp(c->state, "28P01") != 0 || !PQconnectionUsedPassword(c->pg))
		return;
	if (pgurl_value(c->url, "password") != NULL)
		snprintf(text + len, size - len, "; the password is that of "
		    "the URL, of its service or of PGPASSWORD");
	else if (file != NULL)
		snprintf(text + len, size - len, "; the password is that of "
		    "'%.150s'", file);
}

/* Asked for a password, and there is none: where libpq looks for it. */
static void
no_password(const struct pgconn *c, const char *unsafe)
{
	const char *file = pgurl_value(c->url, "passfile");

	if (unsafe != NULL)
		c->host->error(c->host, "%s; '%.150s' is ignored, run chmod "
		    "600 on it", c->text, unsafe);
	else
		c->host->error(c->host, "%s; put HOST:PORT:DATABASE:%.64s:"
		    "PASSWORD into '%.150s', which only uid %u may read",
		    c->text, PQuser(c->pg), file == NULL ? "~/.pgpass" : file,
		    (unsigned int)geteuid());
}

/* --- One address --- */

/* Sync replication that was not waited for comes as a warning with COMMIT. */
static void
receive_notice(void *arg, const PGresult *res)
{
	struct pgconn *c = arg;
	const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	const char *severity = PQresultErrorField(res,
	    PG_DIAG_SEVERITY_NONLOCALIZED);

	if (c->part == c->commit && severity != NULL &&
	    strcmp(severity, "WARNING") == 0 && state != NULL &&
	    (strcmp(state, "01000") == 0 || strcmp(state, "57P01") == 0))
		c->is_in_doubt = true;
}

static bool
is_ours(const char *keyword)
{
	static const char *const ours[] = { "host", "hostaddr", "port",
	    "service", "gssencmode", "passfile", "fallback_application_name" };
	size_t i;

	for (i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		if (strcmp(keyword, ours[i]) == 0)
			return true;
	}
	return false;
}

static PGconn *
start(const struct pgconn *c, const struct pgurl_host *h, const char *address)
{
	/* Looking for tickets may ask a name server. */
	const char *gss = c->url->gssencmode == NULL ? "disable" :
	    c->url->gssencmode;
	/* A file that is not there is passed over in silence. */
	const char *passfile = unsafe_passfile(c->url) != NULL ?
	    "/nonexistent" : pgurl_value(c->url, "passfile");
	const char *keywords[PARAMS_MAX] = { "host", "hostaddr", "port",
	    "gssencmode", "passfile", "fallback_application_name" };
	const char *values[PARAMS_MAX] = { h->name, address, h->port, gss,
	    passfile, "leaserun" };
	const PQconninfoOption *o;
	unsigned int n = 6;

	for (o = c->url->info; o->keyword != NULL && n + 1 < PARAMS_MAX; o++) {
		if (o->val == NULL || is_ours(o->keyword))
			continue;
		keywords[n] = o->keyword;
		values[n++] = o->val;
	}
	return PQconnectStartParams(keywords, values, 0);
}

static enum leaserun_result
failed(struct pgconn *c)
{
	const char *file = unsafe_passfile(c->url);

	char text[LEASERUN_ERROR_SIZE];
	enum leaserun_result result = LEASERUN_DENIED;

	c->state[0] = '\0';
	pgdial_keep_text(c, PQerrorMessage(c->pg));
	if (strncmp(c->state, "28", 2) == 0) {
		snprintf(text, sizeof(text), "%.*s%s%.150s%s",
		    (int)sizeof(text) - 200, c->text, file == NULL ? "" :
		    "; '", file == NULL ? "" : file, file == NULL ? "" :
		    "' is ignored, run chmod 600 on it");
		add_source(c, text, sizeof(text));
		memcpy(c->denied_text, text, sizeof(text));
		c->denied_until[c->turn] = c->host->now() + c->denied_ns;
		c->host->error(c->host, "%s", c->denied_text);
	} else if (strstr(c->text, "no password supplied") != NULL)
		no_password(c, file);
	else {
		c->host->error(c->host, "%s", c->text);
		result = pgconn_classify(c);
	}
	pgconn_close(c);
	return result;
}

static enum leaserun_result
established(struct pgconn *c)
{
	if (PQsetnonblocking(c->pg, 1) == -1 ||
	    PQenterPipelineMode(c->pg) != 1)
		return failed(c);
	return LEASERUN_OK;
}

static void
no_answer(struct pgconn *c, const char *server, int64_t limit)
{
	if (limit < PGCONN_SHORT_NS && c->text[0] != '\0')
		c->host->error(c->host, "%s", c->text);
	else
		c->host->error(c->host, "no answer from the server at '%s'",
		    server);
}

static enum leaserun_result
connect_address(struct pgconn *c, const struct pgurl_host *h,
    const char *address, int64_t deadline)
{
	PostgresPollingStatusType status = PGRES_POLLING_WRITING;
	int64_t limit = deadline - c->host->now();
	enum leaserun_result result;
	struct pollfd pfd;

	c->pg = start(c, h, address);
	if (c->pg == NULL) {
		c->host->error(c->host, "out of memory");
		return LEASERUN_UNAVAILABLE;
	}
	PQsetErrorVerbosity(c->pg, PQERRORS_VERBOSE);
	PQsetNoticeReceiver(c->pg, receive_notice, c);
	if (PQstatus(c->pg) == CONNECTION_BAD)
		return failed(c);
	for (;;) {
		pfd.fd = PQsocket(c->pg);
		pfd.events = status == PGRES_POLLING_READING ? POLLIN : POLLOUT;
		result = c->host->wait(c->host, &pfd, 1, deadline);
		if (result == LEASERUN_OK && pfd.revents == 0) {
			no_answer(c, address != NULL ? address :
			    h->name != NULL ? h->name : PQhost(c->pg), limit);
			result = LEASERUN_UNAVAILABLE;
		}
		if (result != LEASERUN_OK) {
			pgconn_close(c);
			return result;
		}
		status = PQconnectPoll(c->pg);
		if (status == PGRES_POLLING_FAILED)
			return failed(c);
		if (status == PGRES_POLLING_OK)
			return established(c);
	}
}

/* --- All of them --- */

/* The time for one of so many tries. */
static int64_t
share(const struct pgconn *c, int64_t deadline, unsigned int parts)
{
	int64_t now = c->host->now(), left = deadline - now;

	if (deadline == INT64_MAX || left / parts > c->answer_ns)
		left = c->answer_ns;
	else
		left /= parts;
	return now + (left > NS_PER_MS ? left : NS_PER_MS);
}

/* The name is looked up again only when its known addresses have failed. */
static enum leaserun_result
look_up(struct pgconn *c, unsigned int i, int64_t deadline)
{
	enum leaserun_result result;
	char why[RESOLVE_WHY_SIZE];

	if (c->found[i].n > 0 && !c->is_stale[i])
		return LEASERUN_OK;
	result = resolve(c->host, c->url->hosts[i].name, deadline,
	    &c->found[i], why);
	if (result == LEASERUN_OK)
		c->is_stale[i] = false;
	else if (result == LEASERUN_UNAVAILABLE)
		c->host->error(c->host, "%s", why);
	/* An old address is better than none. */
	return result == LEASERUN_UNAVAILABLE && c->found[i].n > 0 ?
	    LEASERUN_OK : result;
}

/* The one that answered is the first to be tried next time. */
static void
prefer(struct resolve *found, unsigned int a)
{
	char address[RESOLVE_SIZE];

	memcpy(address, found->addresses[a], sizeof(address));
	memmove(found->addresses[1], found->addresses[0],
	    a * sizeof(address));
	memcpy(found->addresses[0], address, sizeof(address));
}

static enum leaserun_result
connect_host(struct pgconn *c, unsigned int i, int64_t deadline)
{
	const struct pgurl_host *h = &c->url->hosts[i];
	struct resolve *found = &c->found[i];
	enum leaserun_result result;
	unsigned int a;

	if (c->host->now() < c->denied_until[i]) {
		c->host->error(c->host, "%s", c->denied_text);
		return LEASERUN_DENIED;
	}
	if (h->address != NULL || h->name == NULL ||
	    resolve_is_literal(h->name))
		return connect_address(c, h, h->address, deadline);
	result = look_up(c, i, share(c, deadline, 2));
	if (result != LEASERUN_OK)
		return result;
	result = LEASERUN_UNAVAILABLE;
	for (a = 0; a < found->n && (result == LEASERUN_UNAVAILABLE ||
	    result == LEASERUN_DENIED); a++) {
		result = connect_address(c, h, found->addresses[a],
		    share(c, deadline, found->n - a));
		if (result == LEASERUN_OK)
			prefer(found, a);
	}
	if (result != LEASERUN_OK && result != LEASERUN_INTERRUPTED)
		c->is_stale[i] = true;
	return result;
}

void
pgdial_next_host(struct pgconn *c)
{
	c->is_stale[c->turn] = true;
	c->turn = (c->turn + 1) % c->url->nhosts;
	pgconn_close(c);
}

/*
 * The same refusal from all of them is final; one that could not be asked may
 * be the one that matters.
 */
enum leaserun_result
pgdial(struct pgconn *c, int64_t deadline)
{
	enum leaserun_result result = LEASERUN_UNAVAILABLE, all;
	unsigned int i, n = c->url->nhosts;

	if (c->pg != NULL)
		return LEASERUN_OK;
	for (i = 0, all = LEASERUN_OK; i < n; i++) {
		result = connect_host(c, c->turn, share(c, deadline, n - i));
		if (result == LEASERUN_OK || result == LEASERUN_INTERRUPTED)
			return result;
		c->turn = (c->turn + 1) % n;
		all = i == 0 || all == result ? result : LEASERUN_UNAVAILABLE;
	}
	return all;
}
