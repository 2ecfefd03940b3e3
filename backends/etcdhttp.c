/*
 * etcdhttp.h with TLS: libcurl's multi interface behind host->wait().  Must
 * never block anywhere else, nor take more of an answer than there is room
 * for.
 */
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <curl/curl.h>

#include "etcdcurl.h"
#include "etcdhttp.h"

#define SOCKETS_MAX	14		/* that host->wait() takes */
#define BODY_MAX	((size_t)8 << 20)
#define NS_PER_MS	INT64_C(1000000)
#define DATE_END	INT64_C(253402300800)	/* of the year 9999, in s */

struct transfer {
	CURL		*easy;
	struct curl_slist *headers;
	bool		 is_active;	/* added to the multi handle */
	bool		 is_done;
	CURLcode	 code;
	char		*buf;		/* owned, with a NUL */
	size_t		 len;
	size_t		 used;		/* lines that were taken */
	char		 error[CURL_ERROR_SIZE];
};

struct etcdhttp {
	const struct leaserun_host *host;
	const struct etcdhttp_setup *setup;
	CURLM		*multi;
	struct pollfd	 fds[SOCKETS_MAX];
	unsigned int	 nfds;
	int64_t		 timer_at;	/* curl wants to be called */
	struct transfer	 call;
	struct transfer	 stream;
	int64_t		 date_ms;
};

/* --- What curl asks for --- */

static int
watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
	struct etcdhttp *h = arg;
	unsigned int i = 0;

	(void)easy;
	(void)unused;
	while (i < h->nfds && h->fds[i].fd != fd)
		i++;
	if (what == CURL_POLL_REMOVE) {
		if (i < h->nfds)
			h->fds[i] = h->fds[--h->nfds];
		return 0;
	}
	if (i == SOCKETS_MAX)
		return -1;
	if (i == h->nfds)
		h->nfds++;
	h->fds[i] = (struct pollfd){ .fd = fd };
	if (what != CURL_POLL_OUT)
		h->fds[i].events |= POLLIN;
	if (what != CURL_POLL_IN)
		h->fds[i].events |= POLLOUT;
	return 0;
}

static int
set_timer(CURLM *multi, long ms, void *arg)
{
	struct etcdhttp *h = arg;

	(void)multi;
	h->timer_at = ms < 0 ? INT64_MAX : h->host->now() + ms * NS_PER_MS;
	return 0;
}

static size_t
take_body(char *data, size_t one, size_t n, void *arg)
{
	struct transfer *t = arg;
	char *buf;

	n *= one;
	if (n > BODY_MAX - t->len)
		return 0;
	if ((buf = realloc(t->buf, t->len + n + 1)) == NULL)
		return 0;
	memcpy(buf + t->len, data, n);
	t->buf = buf;
	t->len += n;
	t->buf[t->len] = '\0';
	return n;
}

static size_t
take_header(char *data, size_t one, size_t n, void *arg)
{
	static const char name[] = "Date:";
	struct etcdhttp *h = arg;
	char value[64];
	time_t when;

	n *= one;
	if (n > sizeof(name) && n < sizeof(value) &&
	    strncasecmp(data, name, sizeof(name) - 1) == 0) {
		memcpy(value, data, n);
		value[n] = '\0';
		when = curl_getdate(value + sizeof(name) - 1, NULL);
		if (when > 0 && when < DATE_END)
			h->date_ms = (int64_t)when * 1000;
	}
	return n;
}

/* --- Setting up --- */

const char *
etcdhttp_lacks(bool tls, const char *proxy)
{
	(void)tls;
	(void)proxy;
	return NULL;
}

static bool
transfer_init(struct etcdhttp *h, struct transfer *t)
{
	CURL *easy = t->easy = etcdcurl_easy(h->setup);

	if (easy == NULL)
		return false;
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, h);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->error);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, t);
	return true;
}

/* Also in the middle: the connection is then closed. */
static void
transfer_stop(struct etcdhttp *h, struct transfer *t)
{
	if (t->is_active)
		curl_multi_remove_handle(h->multi, t->easy);
	t->is_active = false;
	curl_slist_free_all(t->headers);
	t->headers = NULL;
}

static void
transfer_clear(struct etcdhttp *h, struct transfer *t)
{
	if (t->easy == NULL)
		return;
	transfer_stop(h, t);
	curl_easy_cleanup(t->easy);
	free(t->buf);
}

struct etcdhttp *
etcdhttp_new(const struct etcdhttp_setup *setup)
{
	struct etcdhttp *h;

	if ((h = calloc(1, sizeof(*h))) == NULL)
		return NULL;
	h->host = setup->host;
	h->setup = setup;
	h->timer_at = INT64_MAX;
	if ((h->multi = etcdcurl_multi()) == NULL ||
	    !transfer_init(h, &h->call) || !transfer_init(h, &h->stream)) {
		etcdhttp_free(h);
		return NULL;
	}
	curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
	curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h);
	curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h);
	return h;
}

void
etcdhttp_free(struct etcdhttp *h)
{
	if (h == NULL)
		return;
	transfer_clear(h, &h->call);
	transfer_clear(h, &h->stream);
	if (h->multi != NULL)
		curl_multi_cleanup(h->multi);
	free(h);
}

/* --- Going on --- */

static void
collect(struct etcdhttp *h)
{
	struct transfer *t;
	CURLMsg *msg;
	int left;

	while ((msg = curl_multi_info_read(h->multi, &left)) != NULL) {
		if (msg->msg != CURLMSG_DONE || curl_easy_getinfo(
		    msg->easy_handle, CURLINFO_PRIVATE, (char **)&t) !=
		    CURLE_OK)
			continue;
		t->code = msg->data.result;
		t->is_done = true;
	}
}

/*
 * The library resolves names in a thread, which must not run the program's
 * signal handlers: it inherits a mask that blocks them.
 */
static void
act(struct etcdhttp *h, curl_socket_t fd, int what)
{
	sigset_t all, saved;
	int running;

	if (h->setup->resolves) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &saved);
	}
	curl_multi_socket_action(h->multi, fd, what, &running);
	if (h->setup->resolves)
		pthread_sigmask(SIG_SETMASK, &saved, NULL);
}

enum leaserun_result
etcdhttp_wait(struct etcdhttp *h, int64_t deadline)
{
	struct pollfd fds[SOCKETS_MAX];
	unsigned int i, n = h->nfds;
	enum leaserun_result result;
	int what;

	memcpy(fds, h->fds, sizeof(fds));
	result = h->host->wait(h->host, fds, n,
	    h->timer_at < deadline ? h->timer_at : deadline);
	if (result != LEASERUN_OK)
		return result;
	for (i = 0; i < n; i++) {
		if (fds[i].revents == 0)
			continue;
		what = (fds[i].revents & POLLIN ? CURL_CSELECT_IN : 0) |
		    (fds[i].revents & POLLOUT ? CURL_CSELECT_OUT : 0) |
		    (fds[i].revents & (POLLERR | POLLHUP | POLLNVAL) ?
		    CURL_CSELECT_ERR : 0);
		act(h, fds[i].fd, what);
	}
	if (h->host->now() >= h->timer_at) {
		h->timer_at = INT64_MAX;
		act(h, CURL_SOCKET_TIMEOUT, 0);
	}
	collect(h);
	return LEASERUN_OK;
}

/* False: no memory. */
static bool
add_header(struct transfer *t, const char *name, const char *value)
{
	struct curl_slist *more;
	char line[ETCDHTTP_AUTH_SIZE + 32];

	snprintf(line, sizeof(line), "%s: %s", name, value);
	if (value[0] == '\0')
		snprintf(line, sizeof(line), "%s:", name);
	more = curl_slist_append(t->headers, line);
	explicit_bzero(line, sizeof(line));
	if (more != NULL)
		t->headers = more;
	return more != NULL;
}

/* body is NULL for a GET; it has to stay until the transfer is stopped. */
static bool
transfer_start(struct etcdhttp *h, struct transfer *t, const char *server,
    const char *path, const char *body, const char *authorization)
{
	char url[1024];

	transfer_stop(h, t);
	t->len = t->used = 0;
	t->is_done = false;
	t->error[0] = '\0';
	snprintf(url, sizeof(url), "%s%s", server, path);
	if (!add_header(t, "Expect", "") ||
	    !add_header(t, "Content-Type", "application/json") ||
	    /* A member without a leader says so instead of being silent. */
	    !add_header(t, "Grpc-Metadata-hasleader", "true") ||
	    (authorization != NULL && authorization[0] != '\0' &&
	    !add_header(t, "Authorization", authorization)))
		return false;
	curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
	if (body == NULL)
		curl_easy_setopt(t->easy, CURLOPT_HTTPGET, 1L);
	else if (curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE, -1L) !=
	    CURLE_OK || curl_easy_setopt(t->easy, CURLOPT_COPYPOSTFIELDS,
	    body) != CURLE_OK)
		return false;
	if (curl_easy_setopt(t->easy, CURLOPT_URL, url) != CURLE_OK ||
	    curl_multi_add_handle(h->multi, t->easy) != CURLM_OK)
		return false;
	t->is_active = true;
	return true;
}

/* --- Requests --- */

static bool
is_refusal(CURLcode code)
{
	return code == CURLE_PEER_FAILED_VERIFICATION ||
	    code == CURLE_SSL_ISSUER_ERROR || code == CURLE_SSL_CERTPROBLEM;
}

static bool
has_met(CURLcode code)
{
	return code != CURLE_COULDNT_RESOLVE_HOST &&
	    code != CURLE_COULDNT_RESOLVE_PROXY &&
	    code != CURLE_COULDNT_CONNECT && code != CURLE_OPERATION_TIMEDOUT;
}

static void
fill_answer(const struct etcdhttp *h, const struct transfer *t,
    struct etcdhttp_answer *answer)
{
	memset(answer, 0, sizeof(*answer));
	answer->body = t->len == 0 ? "" : t->buf;
	answer->len = t->len;
	if (t->code == CURLE_OK) {
		curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE,
		    &answer->status);
		answer->date_ms = h->date_ms;
		answer->text = "";
		return;
	}
	answer->text = t->error[0] != '\0' ? t->error :
	    curl_easy_strerror(t->code);
	answer->has_met = has_met(t->code);
	answer->refused_tls = is_refusal(t->code);
	answer->bad_files = t->code == CURLE_SSL_CACERT_BADFILE ||
	    t->code == CURLE_SSL_CERTPROBLEM;
}

static enum leaserun_result
exchange(struct etcdhttp *h, const char *server, const char *path,
    const char *body, const char *authorization, int64_t deadline,
    struct etcdhttp_answer *answer)
{
	struct transfer *t = &h->call;
	enum leaserun_result result;

	h->date_ms = 0;
	if (!transfer_start(h, t, server, path, body, authorization)) {
		h->host->error(h->host, "out of memory");
		return LEASERUN_UNAVAILABLE;
	}
	while (!t->is_done && h->host->now() < deadline) {
		result = etcdhttp_wait(h, deadline);
		if (result != LEASERUN_OK) {
			transfer_stop(h, t);
			return result;
		}
	}
	if (!t->is_done) {
		t->code = CURLE_OPERATION_TIMEDOUT;
		snprintf(t->error, sizeof(t->error), "no answer in time");
	}
	fill_answer(h, t, answer);
	transfer_stop(h, t);
	return LEASERUN_OK;
}

enum leaserun_result
etcdhttp_post(struct etcdhttp *h, const char *server, const char *path,
    const char *body, const char *authorization, int64_t deadline,
    struct etcdhttp_answer *answer)
{
	return exchange(h, server, path, body, authorization, deadline,
	    answer);
}

enum leaserun_result
etcdhttp_get(struct etcdhttp *h, const char *server, const char *path,
    int64_t deadline, struct etcdhttp_answer *answer)
{
	return exchange(h, server, path, NULL, NULL, deadline, answer);
}

/* --- The stream --- */

/* It goes on by itself. */
enum leaserun_result
etcdhttp_open(struct etcdhttp *h, const char *server, const char *path,
    const char *body, const char *authorization, int64_t deadline)
{
	(void)deadline;
	if (transfer_start(h, &h->stream, server, path, body, authorization))
		return LEASERUN_OK;
	h->host->error(h->host, "out of memory");
	return LEASERUN_UNAVAILABLE;
}

void
etcdhttp_close(struct etcdhttp *h)
{
	transfer_stop(h, &h->stream);
}

bool
etcdhttp_is_open(const struct etcdhttp *h)
{
	return h->stream.is_active && !h->stream.is_done;
}

/* Whatever the pieces are in which they arrive. */
const char *
etcdhttp_line(struct etcdhttp *h)
{
	struct transfer *t = &h->stream;
	char *line, *end;

	if (t->used > 0) {
		memmove(t->buf, t->buf + t->used, t->len - t->used + 1);
		t->len -= t->used;
		t->used = 0;
	}
	if (t->len == 0 || (end = memchr(t->buf, '\n', t->len)) == NULL)
		return NULL;
	line = t->buf;
	*end = '\0';
	t->used = (size_t)(end + 1 - line);
	return line;
}

int64_t
etcdhttp_expiry(struct etcdhttp *h)
{
	static const char key[] = "Expire date:";
	struct curl_certinfo *info = NULL;
	struct curl_slist *line;
	time_t when = 0;

	if (curl_easy_getinfo(h->call.easy, CURLINFO_CERTINFO, &info) !=
	    CURLE_OK || info == NULL || info->num_of_certs < 1)
		return 0;
	for (line = info->certinfo[0]; line != NULL; line = line->next) {
		if (strncmp(line->data, key, sizeof(key) - 1) == 0)
			when = curl_getdate(line->data + sizeof(key) - 1,
			    NULL);
	}
	return when > 0 ? (int64_t)when : 0;
}
