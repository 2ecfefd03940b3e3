/*
 * From a request to an answer, whichever endpoint gives it.  Must never take
 * what is not etcd's answer for one, nor ask again with a refused password.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "etcdcall.h"
#include "etcdjson.h"

/* How long a password that was refused is not tried again. */
#define REFUSED_NS	(5 * ETCD_NS_PER_S)
#define CN_BODY		"CommonName of client sending a request against gateway"

/* What etcd says, and what it means.  Never by the HTTP status. */
static const struct meaning {
	int64_t		 code;		/* of gRPC */
	const char	*message;	/* its beginning */
	enum etcdanswer	 what;
} meanings[] = {
	{ 5, "etcdserver: requested lease not found", ETCD_NO_LEASE },
	{ 9, "etcdserver: lease already exists", ETCD_LEASE_EXISTS },
	{ 8, "etcdserver: mvcc: database space exceeded", ETCD_NO_SPACE },
	{ 9, "etcdserver: authentication is not enabled", ETCD_NO_AUTH },
	{ 16, "etcdserver: invalid auth token", ETCD_NO_TOKEN },
	{ 3, "etcdserver: revision of auth store is old", ETCD_NO_TOKEN },
	{ 3, "etcdserver: user name is empty", ETCD_NO_TOKEN },
	{ 3, "etcdserver: authentication failed", ETCD_REFUSED },
	{ 7, "etcdserver: permission denied", ETCD_REFUSED }
};

struct etcdhttp *
etcdcall_http(struct etcd *e)
{
	unsigned int i;

	if (e->http != NULL)
		return e->http;
	e->setup = (struct etcdhttp_setup){
		.host = e->host, .tls = e->url.tls,
		.cacert = e->url.cacert, .cert = e->url.cert,
		.key = e->url.key, .proxy = e->url.proxy,
		.resolves = e->url.proxy != NULL
	};
	for (i = 0; i < e->url.nendpoints; i++) {
		if (strpbrk(strchr(e->url.endpoints[i], ':') + 3,
		    "ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ-_") != NULL)
			e->setup.resolves = true;
	}
	if ((e->http = etcdhttp_new(&e->setup)) == NULL)
		e->host->error(e->host, "out of memory");
	return e->http;
}

static int64_t
local_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / ETCD_NS_PER_MS;
}

int64_t
etcdcall_ahead_ms(const struct etcd *e)
{
	int64_t ours = local_ms() - e->host->now() / ETCD_NS_PER_MS;

	if (!e->has_clock || (ours >= e->clock_min_ms &&
	    ours <= e->clock_max_ms))
		return 0;
	return ours - (ours < e->clock_min_ms ? e->clock_min_ms :
	    e->clock_max_ms);
}

/* This host's clock, brought to the nearest that etcd's could be. */
int64_t
etcdcall_clock_ms(const struct etcd *e)
{
	return local_ms() - etcdcall_ahead_ms(e);
}

/*
 * An answer has the time to the second, of some moment since the request: one
 * that took long to be read proves less than one that did not.
 */
static void
note_clock(struct etcd *e, int64_t sent, int64_t date_ms)
{
	if (date_ms == 0)
		return;
	e->clock_min_ms = date_ms - e->host->now() / ETCD_NS_PER_MS;
	e->clock_max_ms = date_ms + 1000 - sent / ETCD_NS_PER_MS;
	e->has_clock = true;
}

/* The text of others on one line, without a full stop. */
static void
fail(struct etcd *e, unsigned int endpoint, const char *text,
    const char *advice)
{
	char clean[300];
	size_t i, n;

	n = strnlen(text, sizeof(clean) - 1);
	for (i = 0; i < n; i++)
		clean[i] = iscntrl((unsigned char)text[i]) ||
		    (unsigned char)text[i] > 0x7e ? '?' : text[i];
	while (n > 0 && strchr(". ?", clean[n - 1]) != NULL)
		n--;
	clean[n] = '\0';
	snprintf(e->said, sizeof(e->said), "%s%s",
	    n == 0 ? "an empty answer" : clean, advice);
	e->host->error(e->host, "%s: %s", e->url.endpoints[endpoint],
	    e->said);
}

enum leaserun_result
etcdcall_nonsense(const struct etcd *e, const char *what)
{
	e->host->error(e->host, "%s: the answer cannot be understood (%s)",
	    e->url.endpoints[e->endpoint], what);
	return LEASERUN_UNAVAILABLE;
}

bool
etcdcall_is_forbidden(const char *text)
{
	return strstr(text, "permission denied") != NULL;
}

void
etcdcall_rotate(struct etcd *e)
{
	e->endpoint = (e->endpoint + 1) % e->url.nendpoints;
}

/* --- What an answer means --- */

/* What mends it.  Shells may take a prefix as it stands in here. */
static void
advise(const struct etcd *e, const char *text, enum etcdanswer what,
    char *advice, size_t size)
{
	const struct etcdurl *u = &e->url;
	bool has_file = u->password_file != NULL;

	advice[0] = '\0';
	if (what == ETCD_NO_TOKEN && u->user[0] == '\0')
		snprintf(advice, size, "; etcd wants a user and a password, "
		    "give -o user= and -o password-file=");
	else if (etcdcall_is_forbidden(text))
		snprintf(advice, size, "; user '%.64s' needs a role with "
		    "readwrite below the prefix: etcdctl role grant-permission "
		    "ROLE --prefix=true readwrite '%.150s/'", u->user,
		    u->prefix);
	else if (what == ETCD_REFUSED)
		snprintf(advice, size, "; user '%.64s', the password is that "
		    "of %s%.150s%s", u->user, has_file ? "'" : "the URL",
		    has_file ? u->password_file : "", has_file ? "'" : "");
	else if (what == ETCD_NO_SPACE)
		snprintf(advice, size, " (NOSPACE); compact, defragment, then "
		    "'etcdctl alarm disarm'");
	else if (strstr(text, "corrupt cluster") != NULL)
		snprintf(advice, size, " (CORRUPT); look at etcd's log, "
		    "replace the member that is wrong, then 'etcdctl alarm "
		    "disarm'");
}

static enum leaserun_result
refuse(struct etcd *e, unsigned int endpoint, const char *text,
    enum etcdanswer what)
{
	char advice[400];

	advise(e, text, what, advice, sizeof(advice));
	fail(e, endpoint, text, advice);
	if (what == ETCD_NO_TOKEN && e->url.user[0] != '\0')
		return LEASERUN_UNAVAILABLE;	/* it has just changed */
	return what == ETCD_REFUSED || what == ETCD_NO_TOKEN ?
	    LEASERUN_DENIED : LEASERUN_UNAVAILABLE;
}

/* An error of etcd, in one of the forms that its versions have. */
static enum leaserun_result
judge_error(struct etcd *e, unsigned int endpoint, const json_t *error,
    enum etcdanswer *what)
{
	const char *text = json_string_value(json_object_get(error,
	    "message"));
	int64_t code = 0;
	size_t i;

	if (text == NULL)
		text = "an error without a message";
	if (!etcdjson_int(error, "code", &code) || code == 0)
		etcdjson_int(error, "grpc_code", &code);
	*what = ETCD_TRANSIENT;
	for (i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		if (code == meanings[i].code && strncmp(text,
		    meanings[i].message, strlen(meanings[i].message)) == 0)
			*what = meanings[i].what;
	}
	return refuse(e, endpoint, text, *what);
}

/* Not from etcd, or not in JSON. */
static enum leaserun_result
judge_text(struct etcd *e, unsigned int endpoint,
    const struct etcdhttp_answer *http, enum etcdanswer *what)
{
	char text[200];

	*what = ETCD_TRANSIENT;
	if (strstr(http->body, CN_BODY) != NULL) {
		*what = ETCD_REFUSED;
		fail(e, endpoint, "with authentication on, etcd's gateway "
		    "takes no client certificate with a common name", "; use "
		    "one without (openssl req -subj /O=name) and a user with "
		    "a password");
		return LEASERUN_DENIED;
	}
	snprintf(text, sizeof(text), "HTTP status %ld, which is not an answer "
	    "of etcd: %.100s", http->status, http->body);
	fail(e, endpoint, text, "");
	return LEASERUN_UNAVAILABLE;
}

static enum leaserun_result
judge_silence(struct etcd *e, unsigned int endpoint,
    const struct etcdhttp_answer *http, enum etcdanswer *what)
{
	const char *advice = "";

	*what = ETCD_TRANSIENT;
	if (e->url.tls && e->url.cert == NULL && http->has_met &&
	    !http->refused_tls)
		advice = " (if etcd asks for a client certificate, give -o "
		    "cert= and -o key=; if it does without TLS, write etcd:)";
	fail(e, endpoint, http->text, advice);
	if (http->bad_files)
		return LEASERUN_MISCONFIGURED;
	return http->refused_tls ? LEASERUN_DENIED : LEASERUN_UNAVAILABLE;
}

/* A stream has its messages in "result", or an error. */
static enum leaserun_result
judge(struct etcd *e, unsigned int endpoint,
    const struct etcdhttp_answer *http, json_t **answer, enum etcdanswer *what)
{
	enum leaserun_result result;
	json_t *json, *inner;

	if (http->status == 0)
		return judge_silence(e, endpoint, http, what);
	if ((json = etcdjson_parse(http->body, strcspn(http->body, "\n"))) ==
	    NULL)
		return judge_text(e, endpoint, http, what);
	inner = json_object_get(json, "error");
	if (json_is_object(inner))
		result = judge_error(e, endpoint, inner, what);
	else if (inner != NULL || json_object_get(json, "code") != NULL)
		result = judge_error(e, endpoint, json, what);
	else if (http->status != 200)
		result = judge_text(e, endpoint, http, what);
	else {
		inner = json_object_get(json, "result");
		*answer = inner != NULL ? json_incref(inner) :
		    json_incref(json);
		if (!etcdjson_int(json_object_get(*answer, "header"),
		    "raft_term", &e->term))
			e->term = 0;
		*what = ETCD_DONE;
		result = LEASERUN_OK;
	}
	json_decref(json);
	return result;
}

/* --- Authentication --- */

static enum leaserun_result
ask(struct etcd *e, unsigned int endpoint, const char *path, const char *body,
    int64_t deadline, json_t **answer, enum etcdanswer *what)
{
	struct etcdhttp_answer http;
	enum leaserun_result result;
	int64_t sent;

	*what = ETCD_TRANSIENT;
	if (etcdcall_http(e) == NULL)
		return LEASERUN_UNAVAILABLE;
	sent = e->host->now();
	result = etcdhttp_post(e->http, e->url.endpoints[endpoint], path, body,
	    e->token, deadline, &http);
	if (result != LEASERUN_OK)
		return result;
	note_clock(e, sent, http.date_ms);
	return judge(e, endpoint, &http, answer, what);
}

static enum leaserun_result
send_password(struct etcd *e, unsigned int endpoint, const char *password,
    int64_t deadline)
{
	enum leaserun_result result = LEASERUN_UNAVAILABLE;
	json_t *request, *answer = NULL;
	enum etcdanswer what;
	const char *token;
	char *body;

	request = json_pack("{s:s, s:s}", "name", e->url.user, "password",
	    password);
	body = json_dumps(request, JSON_COMPACT);
	json_decref(request);
	if (body == NULL) {
		e->host->error(e->host, "user or password is not UTF-8");
		return LEASERUN_MISCONFIGURED;
	}
	result = ask(e, endpoint, "/v3/auth/authenticate", body, deadline,
	    &answer, &what);
	explicit_bzero(body, strlen(body));
	free(body);
	if (what == ETCD_NO_AUTH) {
		e->is_open = true;
		return LEASERUN_OK;
	}
	if (what == ETCD_REFUSED) {
		snprintf(e->refused, sizeof(e->refused), "%s", password);
		e->refused_at = e->host->now();
	}
	if (result != LEASERUN_OK)
		return result;
	token = json_string_value(json_object_get(answer, "token"));
	/* It becomes a line of a header. */
	if (token == NULL || strlen(token) >= sizeof(e->token) ||
	    strpbrk(token, "\r\n") != NULL)
		result = etcdcall_nonsense(e, "authenticate");
	else
		snprintf(e->token, sizeof(e->token), "%s", token);
	json_decref(answer);
	return result;
}

static enum leaserun_result
authenticate(struct etcd *e, unsigned int endpoint, int64_t deadline)
{
	char password[ETCDURL_WORD_SIZE];
	enum leaserun_result result;

	e->token[0] = '\0';
	e->is_open = false;
	result = etcdurl_password(e->host, &e->url, password,
	    sizeof(password));
	if (result != LEASERUN_OK)
		return result;
	if (e->refused_at != 0 && strcmp(password, e->refused) == 0 &&
	    e->host->now() - e->refused_at < REFUSED_NS) {
		e->host->error(e->host, "user '%s': etcd has just refused "
		    "this password", e->url.user);
		result = LEASERUN_DENIED;
	} else {
		/* What was refused is tried once a while, also unanswered. */
		if (e->refused_at != 0 && strcmp(password, e->refused) == 0)
			e->refused_at = e->host->now();
		result = send_password(e, endpoint, password, deadline);
		if (result == LEASERUN_OK)
			e->refused_at = 0;
	}
	explicit_bzero(password, sizeof(password));
	return result;
}

/* --- A request --- */

static enum leaserun_result
call_once(struct etcd *e, unsigned int endpoint, const char *path,
    const char *body, int64_t deadline, json_t **answer, enum etcdanswer *what)
{
	bool has_user = e->url.user[0] != '\0';
	enum leaserun_result result;

	*what = ETCD_TRANSIENT;
	if (has_user && e->token[0] == '\0' && !e->is_open) {
		result = authenticate(e, endpoint, deadline);
		if (result != LEASERUN_OK)
			return result;
	}
	result = ask(e, endpoint, path, body, deadline, answer, what);
	if (*what != ETCD_NO_TOKEN || !has_user)
		return result;
	*what = ETCD_TRANSIENT;
	result = authenticate(e, endpoint, deadline);
	if (result != LEASERUN_OK)
		return result;
	return ask(e, endpoint, path, body, deadline, answer, what);
}

static enum leaserun_result
make_body(const struct etcd *e, const json_t *request, char **body)
{
	*body = request == NULL ? NULL : json_dumps(request, JSON_COMPACT);
	if (!etcdjson_failed() && *body != NULL)
		return LEASERUN_OK;
	free(*body);
	*body = NULL;
	e->host->error(e->host, "out of memory, or text that is not UTF-8");
	return LEASERUN_UNAVAILABLE;
}

enum leaserun_result
etcdcall_at(struct etcd *e, unsigned int endpoint, const char *path,
    const json_t *request, int64_t deadline, json_t **answer,
    enum etcdanswer *why)
{
	enum leaserun_result result;
	enum etcdanswer what = ETCD_TRANSIENT;
	char *body;

	if ((result = make_body(e, request, &body)) == LEASERUN_OK)
		result = call_once(e, endpoint, path, body, deadline, answer,
		    &what);
	free(body);
	if (why != NULL)
		*why = what;
	return result;
}

/* Each endpoint gets its share of the time. */
enum leaserun_result
etcdcall(struct etcd *e, const char *path, const json_t *request,
    int64_t deadline, json_t **answer, enum etcdanswer *why)
{
	enum etcdanswer what = ETCD_TRANSIENT;
	unsigned int left = e->url.nendpoints;
	enum leaserun_result result;
	int64_t now;
	char *body;

	if ((result = make_body(e, request, &body)) != LEASERUN_OK)
		left = 0;
	for (; left > 0; left--) {
		now = e->host->now();
		result = call_once(e, e->endpoint, path, body, deadline ==
		    INT64_MAX ? INT64_MAX : now + (deadline - now) / left,
		    answer, &what);
		if (result == LEASERUN_OK || result == LEASERUN_INTERRUPTED ||
		    what != ETCD_TRANSIENT)
			break;
		etcdcall_rotate(e);
		if (e->host->now() >= deadline)
			break;
	}
	free(body);
	if (why != NULL)
		*why = what;
	return result;
}

enum leaserun_result
etcdcall_stream(struct etcd *e, const char *path, const json_t *request,
    int64_t deadline)
{
	enum leaserun_result result;
	char *body;

	if ((result = make_body(e, request, &body)) != LEASERUN_OK)
		return result;
	result = etcdcall_http(e) == NULL ? LEASERUN_UNAVAILABLE :
	    etcdhttp_open(e->http, e->url.endpoints[e->endpoint], path, body,
	    e->token, deadline);
	free(body);
	return result;
}
