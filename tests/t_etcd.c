/*
 * The etcd backend behind a server that is made up.  Without memory, at each
 * allocation in turn: a request is whole or is not sent, and what was read in
 * part is no loss.  With a member that nobody follows any more: what it alone
 * says is no renewal, and no grant.
 */
#include <sys/resource.h>
#include <sys/wait.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../backends/etcdhttp.h"
#include "../backends/etcdjson.h"
#include "../backends/etcdlease.h"
#include "tap.h"

#define NAME	"job"
#define OWNER	"host:00112233445566778899aabbccddeeff"
#define NS	INT64_C(1000000000)
#define MAX	64

/* How a process ends that was without memory. */
#define BROKEN	103
#define WRONG	104

/* --- Memory: malloc() of all that is linked from here (--wrap) --- */

void	*__real_malloc(size_t);
void	*__wrap_malloc(size_t);

static unsigned int allocated, fail_at;

void *
__wrap_malloc(size_t size)
{
	return ++allocated == fail_at ? NULL : __real_malloc(size);
}

/* --- The server --- */

static int64_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return ts.tv_sec * NS + ts.tv_nsec;
}

/* What is sent when there is memory: all of one path have these lengths. */
static struct {
	char		path[40];
	size_t		len;
} whole[MAX];
static unsigned int nwhole, nbroken;
static bool is_first, is_held;
/* The first member answers keepalives only. */
static bool is_alone;
static bool has_joined;
static int64_t kept_ns[2];	/* by it, and by the other one; 0: not */
static enum {
	NEVER = 0,
	GRANTING,		/* so it does from the grant on, */
	FINDING,		/* from when that turns out to be there, */
	RENEWING,		/* from the renewal on, */
	JOINING			/* and finds the others behind it */
} is_left;
static int64_t sent_ns;		/* of what it answers in part */
static char held[600], answer_body[1000];

struct etcdhttp {
	int		 nothing;
};

struct etcdhttp *
etcdhttp_new(const struct etcdhttp_setup *setup)
{
	static struct etcdhttp h;

	(void)setup;
	return &h;
}

void
etcdhttp_free(struct etcdhttp *h)
{
	(void)h;
}

static void
note(const char *path, size_t len)
{
	unsigned int i;

	for (i = 0; i < nwhole; i++) {
		if (strcmp(whole[i].path, path) == 0 && whole[i].len == len)
			return;
	}
	if (!is_first || nwhole == MAX) {
		nbroken++;
		printf("# without allocation %u: %s of %zu bytes\n", fail_at,
		    path, len);
		return;
	}
	snprintf(whole[nwhole].path, sizeof(whole[0].path), "%s", path);
	whole[nwhole++].len = len;
}

enum leaserun_result
etcdhttp_post(struct etcdhttp *h, const char *server, const char *path,
    const char *body, const char *authorization, int64_t deadline,
    struct etcdhttp_answer *answer)
{
	const char *id = strstr(body, "\"ID\":\"");
	bool takes = strstr(body, "\"create_revision\":\"0\"") != NULL;
	bool finds = takes && is_left == FINDING;
	int term;

	(void)h;
	(void)authorization;
	(void)deadline;
	memset(answer, 0, sizeof(*answer));
	answer->text = "no answer in time";
	answer->body = "";
	if (takes && is_left == GRANTING)
		is_alone = true;
	term = is_alone && (strstr(server, "//b:") != NULL || has_joined) ?
	    3 : 2;
	if (!is_alone)
		note(path, strlen(body));
	else if (strcmp(path, "/v3/lease/keepalive") == 0)
		kept_ns[strstr(server, "//b:") != NULL || has_joined] = now();
	else if (is_left == JOINING && !has_joined) {
		has_joined = true;
		term = 3;
	} else if (strstr(server, "//a:") != NULL && !has_joined)
		return LEASERUN_OK;
	if (strcmp(path, "/v3/kv/txn") == 0)
		snprintf(answer_body, sizeof(answer_body), "{\"header\":"
		    "{\"revision\":\"7\",\"raft_term\":\"%d\"},"
		    "\"succeeded\":%s,\"responses\":["
		    "{\"response_range\":{%s}},{\"response_range\":{}}]}",
		    term, finds ? "false" : "true",
		    is_held || finds ? held : "");
	else
		snprintf(answer_body, sizeof(answer_body), "{\"header\":"
		    "{\"raft_term\":\"%d\"},\"ID\":\"%.*s\","
		    "\"TTL\":\"60\"}", term, id == NULL ? 0 :
		    (int)strcspn(id + 6, "\""), id == NULL ? "" : id + 6);
	is_alone = is_alone || finds;
	is_held = is_held || takes;
	answer->status = 200;
	answer->text = "";
	answer->body = answer_body;
	answer->len = strlen(answer_body);
	return LEASERUN_OK;
}

enum leaserun_result
etcdhttp_get(struct etcdhttp *h, const char *server, const char *path,
    int64_t deadline, struct etcdhttp_answer *answer)
{
	return etcdhttp_post(h, server, path, "", "", deadline, answer);
}

enum leaserun_result
etcdhttp_open(struct etcdhttp *h, const char *server, const char *path,
    const char *body, const char *authorization, int64_t deadline)
{
	(void)h;
	(void)server;
	(void)path;
	(void)body;
	(void)authorization;
	(void)deadline;
	return LEASERUN_UNAVAILABLE;
}

void
etcdhttp_close(struct etcdhttp *h)
{
	(void)h;
}

bool
etcdhttp_is_open(const struct etcdhttp *h)
{
	(void)h;
	return false;
}

const char *
etcdhttp_line(struct etcdhttp *h)
{
	(void)h;
	return NULL;
}

enum leaserun_result
etcdhttp_wait(struct etcdhttp *h, int64_t deadline)
{
	(void)h;
	(void)deadline;
	return LEASERUN_OK;
}

int64_t
etcdhttp_expiry(struct etcdhttp *h)
{
	(void)h;
	return 0;
}

const char *
etcdhttp_lacks(bool tls, const char *proxy)
{
	(void)tls;
	(void)proxy;
	return NULL;
}

/* --- The program --- */

static enum leaserun_result
wait_not(const struct leaserun_host *h, struct pollfd *fds, unsigned int n,
    int64_t deadline)
{
	(void)h;
	(void)fds;
	(void)n;
	(void)deadline;
	return LEASERUN_OK;
}

static bool
hear(const struct leaserun_host *h, const struct leaserun_entry *entry)
{
	(void)h;
	(void)entry;
	return true;
}

static void __attribute__((format(printf, 2, 3)))
say(const struct leaserun_host *h, const char *fmt, ...)
{
	(void)h;
	(void)fmt;
}

static uint64_t
none(uint64_t limit)
{
	(void)limit;
	return 0;
}

static const struct leaserun_host host = {
	.size = sizeof(host), .version = LEASERUN_BACKEND_VERSION,
	.now = now, .wait = wait_not, .holder = hear, .debug = say,
	.error = say, .random = none
};

/* The key that acquire makes. */
static void
make_held(void)
{
	json_t *key = etcdjson_bytes("/leaserun/lease/" NAME "/held");
	json_t *value = etcdjson_bytes("{\"layout\":1,\"owner\":\"" OWNER
	    "\"}");

	snprintf(held, sizeof(held), "\"kvs\":[{\"key\":\"%s\",\"value\":"
	    "\"%s\",\"create_revision\":\"7\",\"mod_revision\":\"7\","
	    "\"lease\":\"%" PRId64 "\"}]", json_string_value(key),
	    json_string_value(value), etcdlease_id(OWNER));
	json_decref(key);
	json_decref(value);
}

/* One run, as far as it comes.  False: nothing was taken for an answer. */
static bool
run(void)
{
	const struct leaserun_backend *b = &leaserun_backend;
	struct leaserun_target target = { .url = "etcd://a,b" };
	struct leaserun_request request = { .name = NAME, .owner = OWNER,
	    .label = "host", .host = "host", .pid = 7, .ttl_ns = 60 * NS,
	    .min_hold_ns = 60 * NS, .once_key = "daily",
	    .once_period_ns = 86400 * NS, .answer_ns = 3 * NS };
	struct leaserun_lease lease = { .name = NAME, .owner = OWNER,
	    .ttl_ns = 60 * NS };
	struct leaserun_end end = { .ran = true, .once_key = "daily",
	    .once_period_ns = 86400 * NS, .once_keep_ns = 86400 * NS };
	struct leaserun_grant grant = { .hold_fd = -1 };
	struct leaserun_renewal renewal = { 0 };
	enum leaserun_result result;
	unsigned int endpoints;
	void *self;

	is_held = false;
	allocated = 0;
	if (b->open(&host, &target, &self, &endpoints) != LEASERUN_OK)
		return fail_at != 0;
	result = b->acquire(self, &request, now() + 60 * NS, &grant);
	if (result == LEASERUN_OK) {
		is_alone = is_left >= RENEWING;
		lease.token = grant.token;
		result = b->renew(self, &lease, now() + 60 * NS, &renewal);
		sent_ns = is_alone ? renewal.sent_ns : grant.sent_ns;
	}
	is_alone = false;
	if (result == LEASERUN_OK)
		result = b->release(self, &lease, &end, now() + 60 * NS);
	b->close(self);
	if (result == LEASERUN_OK || (fail_at != 0 &&
	    result == LEASERUN_UNAVAILABLE))
		return true;
	printf("# without allocation %u: %d\n", fail_at, result);
	return false;
}

/* A backend may crash, and jansson does where it cannot go on reading. */
static int
run_apart(void)
{
	const struct rlimit no_core = { 0, 0 };
	int status, result;
	pid_t child;

	fflush(stdout);
	if ((child = fork()) == -1)
		return BROKEN;
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		result = run() ? 0 : WRONG;
		fflush(stdout);
		_exit(nbroken > 0 ? BROKEN : result);
	}
	if (waitpid(child, &status, 0) != child)
		return BROKEN;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* What the first member says alone does not count. */
static void
leave(int when, const char *what)
{
	is_left = when;
	has_joined = false;
	kept_ns[0] = kept_ns[1] = 0;
	ok(run(), "a run of which a member answers in part %s", what);
	ok((kept_ns[0] > 0) == (when != GRANTING) && kept_ns[1] > 0,
	    "who keeps the lease alive");
	ok(kept_ns[0] < sent_ns && sent_ns <= kept_ns[1],
	    "from the one of the other on it counts");
	is_left = NEVER;
}

int
main(void)
{
	unsigned int broken = 0, wrong = 0, n;
	int result;

	plan(16);
	make_held();
	is_first = true;
	ok(run(), "a run with memory");
	is_first = false;
	n = allocated;
	ok(n > 100, "which is asked for often");
	leave(GRANTING, "the grant");
	leave(FINDING, "what was granted");
	leave(RENEWING, "the renewal");
	leave(JOINING, "the renewal, and then as the others do");
	for (fail_at = 1; fail_at <= n; fail_at++) {
		result = run_apart();
		broken += result == BROKEN;
		wrong += result == WRONG;
	}
	is_int(broken, 0, "what is sent without memory is whole");
	is_int(wrong, 0, "and what is answered is 'cannot tell', or right");
	return done();
}
