/*
 * The etcd backend behind a server that answers what it likes.  The first byte
 * is the call that is made; then come lines, one for each answer, which begin
 * with
 *	2	a status of 200
 *	4	one of 400
 *	w	of the watch
 *	0	no answer
 * or are for the URL and the options, when it is these that are tried.
 */
#include <stdlib.h>
#include <string.h>

#include "../backends/etcdhttp.h"
#include "fuzz.h"

#define CALLS_MAX	64
/* For the last try of a wait, and to leave nothing behind. */
#define BEHIND_NS	INT64_C(600000000)

struct etcdhttp {
	const struct leaserun_host *host;
	char		*body;		/* owned: of the last answer */
	char		*line;		/* owned: of the stream */
	bool		 is_open;
};

static struct fuzz input;
static unsigned int calls;

/* --- What stands for libcurl --- */

struct etcdhttp *
etcdhttp_new(const struct etcdhttp_setup *setup)
{
	struct etcdhttp *h = calloc(1, sizeof(*h));

	fuzz_check(h != NULL);
	h->host = setup->host;
	return h;
}

void
etcdhttp_free(struct etcdhttp *h)
{
	if (h == NULL)
		return;
	free(h->body);
	free(h->line);
	free(h);
}

enum leaserun_result
etcdhttp_post(struct etcdhttp *h, const char *server, const char *path,
    const char *body, const char *authorization, int64_t deadline,
    struct etcdhttp_answer *answer)
{
	char kind = (char)fuzz_byte(&input);

	fuzz_check(strncmp(server, "http", 4) == 0 && path[0] == '/');
	fuzz_check(body == NULL || body[0] == '{');
	fuzz_check(authorization == NULL || strlen(authorization) < 1024);
	fuzz_check(deadline <= fuzz_deadline + BEHIND_NS);
	if (++calls > CALLS_MAX)
		return LEASERUN_INTERRUPTED;
	free(h->body);
	h->body = fuzz_text(&input, '\n');
	memset(answer, 0, sizeof(*answer));
	answer->text = kind == '2' || kind == '4' ? "" : "no answer in time";
	answer->status = kind == '2' ? 200 : kind == '4' ? 400 : 0;
	answer->refused_tls = kind == 't';
	answer->bad_files = kind == 'f';
	answer->body = answer->status == 0 ? "" : h->body;
	answer->len = strlen(answer->body);
	answer->date_ms = answer->status == 0 ? 0 : INT64_C(1700000000000);
	return LEASERUN_OK;
}

enum leaserun_result
etcdhttp_get(struct etcdhttp *h, const char *server, const char *path,
    int64_t deadline, struct etcdhttp_answer *answer)
{
	return etcdhttp_post(h, server, path, NULL, NULL, deadline, answer);
}

enum leaserun_result
etcdhttp_open(struct etcdhttp *h, const char *server, const char *path,
    const char *body, const char *authorization, int64_t deadline)
{
	(void)server;
	(void)authorization;
	fuzz_check(path[0] == '/' && body[0] == '{');
	fuzz_check(deadline <= fuzz_deadline + BEHIND_NS);
	h->is_open = true;
	return LEASERUN_OK;
}

void
etcdhttp_close(struct etcdhttp *h)
{
	h->is_open = false;
}

bool
etcdhttp_is_open(const struct etcdhttp *h)
{
	return h->is_open && input.size > 0;
}

const char *
etcdhttp_line(struct etcdhttp *h)
{
	if (input.size == 0 || *input.data != 'w')
		return NULL;
	fuzz_byte(&input);
	free(h->line);
	h->line = fuzz_text(&input, '\n');
	return h->line;
}

enum leaserun_result
etcdhttp_wait(struct etcdhttp *h, int64_t deadline)
{
	return h->host->wait(h->host, NULL, 0, deadline);
}

int64_t
etcdhttp_expiry(struct etcdhttp *h)
{
	(void)h;
	return INT64_C(1893456000);
}

const char *
etcdhttp_lacks(bool tls, const char *proxy)
{
	(void)tls;
	(void)proxy;
	return NULL;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input = (struct fuzz){ data, size };
	calls = 0;
	fuzz_calls(&leaserun_backend, &input,
	    size > 2 && data[1] >= 0x10 ? "etcds://user:word@a,b/leases" :
	    "etcd://a:2379,b:2379/leases");
	return 0;
}
