/*
 * etcdhttp.h for etcd://.  A library that does TLS, too, costs a short run more
 * than everything else together, so this is our own.  Must never send anything
 * but one request at a time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcdconn.h"
#include "etcdhttp.h"

struct etcdhttp {
	struct etcdnet	net;
	struct etcdconn	call;
	struct etcdconn	stream;
};

struct etcdhttp *
etcdhttp_new(const struct etcdhttp_setup *setup)
{
	struct etcdhttp *h;

	if ((h = calloc(1, sizeof(*h))) == NULL)
		return NULL;
	h->net.host = setup->host;
	h->net.proxy = setup->proxy;
	h->call.net = h->stream.net = &h->net;
	h->call.fd = h->stream.fd = -1;
	return h;
}

void
etcdhttp_free(struct etcdhttp *h)
{
	if (h == NULL)
		return;
	etcdconn_close(&h->call);
	etcdconn_close(&h->stream);
	etcdreply_clear(&h->call.reply);
	etcdreply_clear(&h->stream.reply);
	free(h);
}

static bool
is_proxy(const char *url)
{
	size_t len = strlen(ETCDCONN_SCHEME);
	const char *port = strrchr(url, ':');

	return strncmp(url, ETCDCONN_SCHEME, len) == 0 &&
	    strpbrk(url + len, "/@?#") == NULL && port > url + len &&
	    strlen(port) > 1 && strlen(port) <= 6 &&
	    strspn(port + 1, "0123456789") == strlen(port) - 1;
}

const char *
etcdhttp_lacks(bool tls, const char *proxy)
{
	if (tls)
		return "the module for etcds:// is a file of its own, "
		    "etcds.so, and this is the one for etcd://; install that";
	if (proxy != NULL && !is_proxy(proxy))
		return "-o proxy= for etcd:// is http://host:port";
	return NULL;
}

/* --- A request --- */

/* NULL: no memory.  To be wiped, since it may hold a password. */
static char *
make_request(const struct etcdhttp *h, const char *server, const char *path,
    const char *body, const char *authorization)
{
	bool has_token = authorization != NULL && authorization[0] != '\0';
	const char *host = server + strlen(ETCDCONN_SCHEME);
	const char *zone = strchr(host, '%');
	char *request;

	if (asprintf(&request, "%s %s%s HTTP/1.1\r\n"
	    /* A zone means something to this host only. */
	    "Host: %.*s%s\r\n"
	    "Content-Type: application/json\r\n"
	    /* A member without a leader says so instead of being silent. */
	    "Grpc-Metadata-hasleader: true\r\n"
	    "%s%s%s"
	    "Content-Length: %zu\r\n\r\n%s", body == NULL ? "GET" : "POST",
	    h->net.proxy != NULL ? server : "", path,
	    (int)strcspn(host, "%"), host,
	    zone == NULL ? "" : strchr(zone, ']'),
	    has_token ? "Authorization: " : "",
	    has_token ? authorization : "", has_token ? "\r\n" : "",
	    body == NULL ? 0 : strlen(body), body == NULL ? "" : body) != -1)
		return request;
	h->net.host->error(h->net.host, "out of memory");
	return NULL;
}

static void
wipe(char *request)
{
	explicit_bzero(request, strlen(request));
	free(request);
}

static enum leaserun_result
converse(struct etcdconn *c, const char *request, int64_t deadline)
{
	enum leaserun_result result;

	result = etcdconn_send(c, request, deadline);
	while (result == LEASERUN_OK && c->reply.part != ETCDREPLY_WHOLE) {
		result = etcdconn_wait(c, POLLIN, deadline);
		if (result == LEASERUN_OK)
			result = etcdconn_receive(c);
	}
	if (result != LEASERUN_OK || c->reply.closes)
		etcdconn_close(c);
	return result;
}

/* A connection that was used before may be dead without our knowing. */
static enum leaserun_result
exchange(struct etcdconn *c, const char *server, const char *request,
    int64_t deadline)
{
	enum leaserun_result result;

	etcdreply_reset(&c->reply);
	if (etcdconn_is_good(c, server)) {
		result = converse(c, request, deadline);
		if (result != LEASERUN_UNAVAILABLE || c->reply.begun ||
		    c->net->host->now() >= deadline)
			return result;
		etcdreply_reset(&c->reply);
	}
	result = etcdconn_dial(c, server, deadline);
	return result == LEASERUN_OK ? converse(c, request, deadline) : result;
}

enum leaserun_result
etcdhttp_post(struct etcdhttp *h, const char *server, const char *path,
    const char *body, const char *authorization, int64_t deadline,
    struct etcdhttp_answer *answer)
{
	const struct etcdreply *r = &h->call.reply;
	enum leaserun_result result;
	char *request;

	request = make_request(h, server, path, body, authorization);
	if (request == NULL)
		return LEASERUN_UNAVAILABLE;
	result = exchange(&h->call, server, request, deadline);
	wipe(request);
	if (result == LEASERUN_INTERRUPTED)
		return result;
	memset(answer, 0, sizeof(*answer));
	answer->body = r->body == NULL ? "" : r->body;
	answer->len = r->len;
	answer->text = h->net.text;
	if (result == LEASERUN_OK) {
		answer->status = r->status;
		answer->date_ms = r->date_ms;
	}
	return LEASERUN_OK;
}

enum leaserun_result
etcdhttp_get(struct etcdhttp *h, const char *server, const char *path,
    int64_t deadline, struct etcdhttp_answer *answer)
{
	return etcdhttp_post(h, server, path, NULL, NULL, deadline, answer);
}

int64_t
etcdhttp_expiry(struct etcdhttp *h)
{
	(void)h;
	return 0;
}

/* --- The stream --- */

enum leaserun_result
etcdhttp_open(struct etcdhttp *h, const char *server, const char *path,
    const char *body, const char *authorization, int64_t deadline)
{
	struct etcdconn *c = &h->stream;
	enum leaserun_result result;
	char *request;

	etcdreply_reset(&c->reply);
	request = make_request(h, server, path, body, authorization);
	if (request == NULL)
		return LEASERUN_UNAVAILABLE;
	result = etcdconn_dial(c, server, deadline);
	if (result == LEASERUN_OK)
		result = etcdconn_send(c, request, deadline);
	wipe(request);
	if (result == LEASERUN_OK)
		return result;
	etcdconn_close(c);
	if (result == LEASERUN_INTERRUPTED)
		return result;
	h->net.host->debug(h->net.host, "%s: %s", server, h->net.text);
	return LEASERUN_OK;
}

void
etcdhttp_close(struct etcdhttp *h)
{
	etcdconn_close(&h->stream);
}

bool
etcdhttp_is_open(const struct etcdhttp *h)
{
	return h->stream.fd != -1;
}

const char *
etcdhttp_line(struct etcdhttp *h)
{
	return etcdreply_line(&h->stream.reply);
}

enum leaserun_result
etcdhttp_wait(struct etcdhttp *h, int64_t deadline)
{
	const struct leaserun_host *host = h->net.host;
	struct etcdconn *c = &h->stream;
	struct pollfd pfd = { .fd = c->fd, .events = POLLIN };
	enum leaserun_result result;

	result = host->wait(host, &pfd, c->fd == -1 ? 0 : 1, deadline);
	if (result != LEASERUN_OK || c->fd == -1 || pfd.revents == 0)
		return result;
	if (etcdconn_receive(c) != LEASERUN_OK ||
	    c->reply.part == ETCDREPLY_WHOLE)
		etcdconn_close(c);
	return LEASERUN_OK;
}
