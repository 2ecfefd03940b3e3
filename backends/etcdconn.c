/*
 * Connections for etcd://.  Must never wait anywhere but in host->wait(), nor
 * take one for good on which something came unasked.
 */
#include <sys/socket.h>

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "etcdconn.h"

#define IDLE_S		60		/* longer ones are not trusted */
#define NS_PER_S	INT64_C(1000000000)
#define PIECE		16384

static enum leaserun_result __attribute__((format(printf, 2, 3)))
fail(struct etcdnet *net, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(net->text, sizeof(net->text), fmt, ap);
	va_end(ap);
	return LEASERUN_UNAVAILABLE;
}

void
etcdconn_close(struct etcdconn *c)
{
	if (c->fd != -1)
		close(c->fd);
	c->fd = -1;
}

enum leaserun_result
etcdconn_wait(struct etcdconn *c, short events, int64_t deadline)
{
	struct pollfd pfd = { .fd = c->fd, .events = events };
	enum leaserun_result result;

	result = c->net->host->wait(c->net->host, &pfd, 1, deadline);
	if (result == LEASERUN_OK && pfd.revents == 0)
		return fail(c->net, "no answer in time");
	return result;
}

/* --- Making one --- */

static void
set_options(int fd)
{
	int on = 1, idle = IDLE_S;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
}

static enum leaserun_result
connect_socket(struct etcdconn *c, const struct addrinfo *ai, int64_t deadline)
{
	enum leaserun_result result = LEASERUN_OK;
	socklen_t len = sizeof(int);
	int error = 0;

	c->fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC |
	    SOCK_NONBLOCK, 0);
	if (c->fd == -1)
		return fail(c->net, "cannot make a socket: %s",
		    strerror(errno));
	set_options(c->fd);
	if (connect(c->fd, ai->ai_addr, ai->ai_addrlen) == -1)
		error = errno;
	if (error == EINPROGRESS) {
		result = etcdconn_wait(c, POLLOUT, deadline);
		getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len);
	}
	if (result == LEASERUN_OK && error != 0)
		result = fail(c->net, "cannot connect: %s", strerror(error));
	if (result != LEASERUN_OK)
		etcdconn_close(c);
	return result;
}

static enum leaserun_result
connect_address(struct etcdconn *c, const char *address, const char *port,
    int64_t deadline)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
	    .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV }, *ai;
	enum leaserun_result result;
	int error;

	if ((error = getaddrinfo(address, port, &hints, &ai)) != 0)
		return fail(c->net, "'%s': %s", address, gai_strerror(error));
	result = connect_socket(c, ai, deadline);
	freeaddrinfo(ai);
	return result;
}

static struct etcdnames *
find_names(struct etcdnet *net, const char *server)
{
	unsigned int i = 0;

	while (i < ETCDCONN_SERVERS - 1 && net->names[i].server != NULL &&
	    net->names[i].server != server)
		i++;
	if (net->names[i].server != server)
		net->names[i] = (struct etcdnames){ .server = server };
	return &net->names[i];
}

/* The time for one of so many tries. */
static int64_t
share(const struct etcdnet *net, int64_t deadline, unsigned int parts)
{
	int64_t now = net->host->now();

	return now + (deadline - now) / parts;
}

static enum leaserun_result
connect_name(struct etcdconn *c, const char *name, const char *port,
    int64_t deadline)
{
	struct etcdnames *n = find_names(c->net, c->server);
	enum leaserun_result result = LEASERUN_OK;
	unsigned int i;

	if (n->found.n == 0 || n->is_stale)
		result = resolve(c->net->host, name,
		    share(c->net, deadline, 2), &n->found, c->net->text);
	/* An old address is better than none. */
	if (result != LEASERUN_OK && (result != LEASERUN_UNAVAILABLE ||
	    n->found.n == 0))
		return result;
	result = LEASERUN_UNAVAILABLE;
	for (i = 0; i < n->found.n && result == LEASERUN_UNAVAILABLE; i++)
		result = connect_address(c, n->found.addresses[i], port,
		    share(c->net, deadline, n->found.n - i));
	n->is_stale = result == LEASERUN_UNAVAILABLE;
	return result;
}

enum leaserun_result
etcdconn_dial(struct etcdconn *c, const char *server, int64_t deadline)
{
	const char *at = c->net->proxy != NULL ? c->net->proxy : server;
	char name[256], *port, *host = name, *zone;

	etcdconn_close(c);
	c->server = server;
	at += strlen(ETCDCONN_SCHEME);
	if (strlen(at) >= sizeof(name))
		return fail(c->net, "no host has such a long name");
	memcpy(name, at, strlen(at) + 1);
	port = strrchr(name, ':');
	*port++ = '\0';
	if (name[0] == '[' && port[-2] == ']') {
		port[-2] = '\0';
		host++;
		/* In a URL its '%' is written as one. */
		if ((zone = strstr(host, "%25")) != NULL)
			memmove(zone + 1, zone + 3, strlen(zone + 3) + 1);
	}
	if (resolve_is_literal(host))
		return connect_address(c, host, port, deadline);
	return connect_name(c, host, port, deadline);
}

/* --- Using it --- */

/* Whatever comes before a request was sent is no answer to it. */
bool
etcdconn_is_good(const struct etcdconn *c, const char *server)
{
	char byte;

	return c->fd != -1 && c->server == server &&
	    c->net->host->now() - c->used_at < IDLE_S * NS_PER_S &&
	    recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == -1 &&
	    errno == EAGAIN;
}

enum leaserun_result
etcdconn_send(struct etcdconn *c, const char *data, int64_t deadline)
{
	enum leaserun_result result = LEASERUN_OK;
	size_t len = strlen(data);
	ssize_t n;

	while (len > 0 && result == LEASERUN_OK) {
		n = send(c->fd, data, len, MSG_NOSIGNAL);
		if (n >= 0) {
			data += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN)
			result = etcdconn_wait(c, POLLOUT, deadline);
		else if (errno != EINTR)
			result = fail(c->net, "cannot send: %s",
			    strerror(errno));
	}
	return result;
}

enum leaserun_result
etcdconn_receive(struct etcdconn *c)
{
	char data[PIECE];
	ssize_t n = recv(c->fd, data, sizeof(data), 0);

	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return LEASERUN_OK;
	if (n == -1)
		return fail(c->net, "no answer: %s", strerror(errno));
	if (n == 0)
		etcdreply_end(&c->reply);
	/* Behind the answer nothing may come. */
	else if (etcdreply_take(&c->reply, data, (size_t)n) < (size_t)n)
		c->reply.closes = true;
	c->used_at = c->net->host->now();
	if (c->reply.part == ETCDREPLY_WRONG)
		return fail(c->net, "%s", c->reply.wrong);
	return LEASERUN_OK;
}
