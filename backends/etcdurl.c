/*
 * From a URL and its options to endpoints, prefix and credentials.  Must never
 * put a password into an error text.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "etcdurl.h"

#define DEFAULT_PORT	"2379"
#define DEFAULT_PREFIX	"/leaserun"

static const char host_characters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
static const char digits[] = "0123456789";

/* What somebody wrote without an '@' may be a password: nothing is quoted. */
static enum leaserun_result
bad(const struct leaserun_host *host, const char *what)
{
	host->error(host, "%s; write etcd://[user[:password]@]"
	    "host[:port][,host[:port]]...[/prefix]", what);
	return LEASERUN_MISCONFIGURED;
}

static enum leaserun_result
bad_endpoint(const struct leaserun_host *host, const struct etcdurl *u,
    const char *what)
{
	char text[80];

	snprintf(text, sizeof(text), "%s at endpoint %u", what,
	    u->nendpoints + 1);
	return bad(host, text);
}

/* "::1]", or with a zone: "fe80::1%25eth0]" (RFC 6874). */
static bool
is_address(const char *text, size_t len)
{
	size_t n = strspn(text, "0123456789abcdefABCDEF:.");

	if (n > 0 && strncmp(text + n, "%25", 3) == 0 && text[n + 3] != ']')
		n += 3 + strspn(text + n + 3, host_characters);
	return n > 0 && n == len - 1;
}

static bool
is_host(const char *text, size_t len)
{
	if (len > 0 && text[0] == '[')
		return is_address(text + 1, len - 1);
	return len > 0 && strspn(text, host_characters) >= len;
}

/* "host", "host:port", "[::1]:port". */
static enum leaserun_result
add_endpoint(const struct leaserun_host *host, struct etcdurl *u,
    const char *text)
{
	size_t len = text[0] == '[' ? strcspn(text, "]") + 1 :
	    strcspn(text, ":");
	const char *port = DEFAULT_PORT;

	if (len > strlen(text))
		return bad_endpoint(host, u, "a bracket is open");
	if (!is_host(text, len))
		return bad_endpoint(host, u, "there is no host");
	if (text[len] == ':') {
		port = text + len + 1;
		if (*port == '\0' || port[strspn(port, digits)] != '\0' ||
		    strlen(port) > 5 || atoi(port) < 1 || atoi(port) > 65535)
			return bad_endpoint(host, u, "there is no port");
	} else if (text[len] != '\0')
		return bad_endpoint(host, u, "something follows the bracket");
	if (u->nendpoints == ETCDURL_ENDPOINTS)
		return bad_endpoint(host, u, "there are too many endpoints");
	if (asprintf(&u->endpoints[u->nendpoints], "%s://%.*s:%s",
	    u->tls ? "https" : "http", (int)len, text, port) == -1) {
		host->error(host, "out of memory");
		return LEASERUN_UNAVAILABLE;
	}
	u->nendpoints++;
	return LEASERUN_OK;
}

/* text is changed. */
static enum leaserun_result
add_endpoints(const struct leaserun_host *host, struct etcdurl *u, char *text)
{
	enum leaserun_result result = LEASERUN_OK;
	char *one;

	while (u->nendpoints > 0)
		free(u->endpoints[--u->nendpoints]);
	while (result == LEASERUN_OK && (one = strsep(&text, ",")) != NULL)
		result = add_endpoint(host, u, one);
	return result;
}

static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decodes; false: it does not fit or is no encoding. */
static bool
decode(const char *text, char *out, size_t size)
{
	int high, low;
	size_t n = 0;

	for (; *text != '\0'; text++) {
		if (n + 1 >= size)
			return false;
		out[n] = *text;
		if (*text == '%') {
			high = hex_value(text[1]);
			low = high < 0 ? -1 : hex_value(text[2]);
			if (low < 0 || (high == 0 && low == 0))
				return false;
			out[n] = (char)(high * 16 + low);
			text += 2;
		}
		n++;
	}
	out[n] = '\0';
	return true;
}

/* text is changed. */
static enum leaserun_result
parse_user(const struct leaserun_host *host, struct etcdurl *u, char *text)
{
	char *colon = strchr(text, ':');

	if (colon != NULL)
		*colon++ = '\0';
	if (decode(text, u->user, sizeof(u->user)) && u->user[0] != '\0' &&
	    (colon == NULL ||
	    decode(colon, u->password, sizeof(u->password))))
		return LEASERUN_OK;
	host->error(host, "user and password in the URL are not "
	    "user:password with other characters as %%XX");
	return LEASERUN_MISCONFIGURED;
}

static enum leaserun_result
parse_prefix(const struct leaserun_host *host, struct etcdurl *u,
    const char *path)
{
	size_t i, len = strlen(path);

	while (len > 0 && path[len - 1] == '/')
		len--;
	for (i = 0; i < len; i++) {
		if ((unsigned char)path[i] <= ' ' || path[i] == 0x7f ||
		    path[i] == '?' || path[i] == '#' || path[i] == '%')
			return bad(host, "there is a character that no prefix "
			    "may have");
	}
	if (len >= sizeof(u->prefix))
		return bad(host, "the prefix is too long");
	if (len == 0)
		snprintf(u->prefix, sizeof(u->prefix), DEFAULT_PREFIX);
	else
		snprintf(u->prefix, sizeof(u->prefix), "%.*s", (int)len, path);
	return LEASERUN_OK;
}

/* Of "//[user@]hosts[/prefix]"; text is changed. */
static enum leaserun_result
parse_rest(const struct leaserun_host *host, struct etcdurl *u, char *text)
{
	enum leaserun_result result;
	char *path, *at;

	if (strncmp(text, "//", 2) != 0) {
		host->error(host, "the URL does not begin with etcd:// or "
		    "etcds://");
		return LEASERUN_MISCONFIGURED;
	}
	text += 2;
	path = text + strcspn(text, "/?#");
	at = strrchr(text, '@');
	if (at != NULL && (at > path || strchr(text, '@') != at)) {
		/* Half a password must not be taken for a host. */
		host->error(host, "in user and password '/', '?', '#' and '@' "
		    "are written as %%2F, %%3F, %%23 and %%40");
		return LEASERUN_MISCONFIGURED;
	}
	if (at != NULL) {
		*at = '\0';
		if ((result = parse_user(host, u, text)) != LEASERUN_OK)
			return result;
		text = at + 1;
	}
	result = parse_prefix(host, u, path);
	*path = '\0';
	if (result != LEASERUN_OK || *text == '\0')
		return result;
	return add_endpoints(host, u, text);
}

static enum leaserun_result
parse_option(const struct leaserun_host *host, struct etcdurl *u,
    const struct leaserun_option *option)
{
	enum leaserun_result result = LEASERUN_UNAVAILABLE;
	const char *key = option->key, *value = option->value;
	char *copy;

	if (strcmp(key, "endpoints") == 0) {
		if ((copy = strdup(value)) != NULL)
			result = add_endpoints(host, u, copy);
		free(copy);
		return result;
	}
	if (strcmp(key, "user") == 0 && strlen(value) < sizeof(u->user))
		snprintf(u->user, sizeof(u->user), "%s", value);
	else if (strcmp(key, "password-file") == 0)
		u->password_file = value;
	else if (strcmp(key, "cacert") == 0)
		u->cacert = value;
	else if (strcmp(key, "cert") == 0)
		u->cert = value;
	else if (strcmp(key, "key") == 0)
		u->key = value;
	else if (strcmp(key, "proxy") == 0)
		u->proxy = value;
	else {
		host->error(host, "the etcd backend has no option '%s', only "
		    "endpoints, user, password-file, cacert, cert, key, proxy "
		    "and keep", key);
		return LEASERUN_MISCONFIGURED;
	}
	return LEASERUN_OK;
}

static enum leaserun_result
check(const struct leaserun_host *host, const struct etcdurl *u)
{
	const char *wrong = NULL;

	if (u->nendpoints == 0)
		wrong = "there is no host: write etcd://host:port, or give "
		    "-o endpoints=host:port";
	else if (!u->tls && (u->cacert != NULL || u->cert != NULL ||
	    u->key != NULL))
		wrong = "cacert, cert and key are for TLS: write etcds://";
	else if ((u->cert == NULL) != (u->key == NULL))
		wrong = "a client certificate needs both, -o cert= and -o key=";
	else if (u->user[0] == '\0' && u->password_file != NULL)
		wrong = "there is a password and no user: give -o user=";
	else if (u->user[0] != '\0' && u->password[0] == '\0' &&
	    u->password_file == NULL)
		wrong = "there is a user and no password: give "
		    "-o password-file=";
	if (wrong == NULL)
		return LEASERUN_OK;
	host->error(host, "%s", wrong);
	return LEASERUN_MISCONFIGURED;
}

enum leaserun_result
etcdurl_parse(const struct leaserun_host *host,
    const struct leaserun_target *target, struct etcdurl *u)
{
	enum leaserun_result result;
	char *copy;
	size_t i;

	memset(u, 0, sizeof(*u));
	if ((copy = strdup(target->url)) == NULL) {
		host->error(host, "out of memory");
		return LEASERUN_UNAVAILABLE;
	}
	u->tls = strncmp(copy, "etcds:", 6) == 0;
	result = parse_rest(host, u, copy + strcspn(copy, ":") + 1);
	explicit_bzero(copy, strlen(target->url));
	free(copy);
	for (i = 0; result == LEASERUN_OK && i < target->noptions; i++)
		result = parse_option(host, u, &target->options[i]);
	return result == LEASERUN_OK ? check(host, u) : result;
}

void
etcdurl_clear(struct etcdurl *u)
{
	while (u->nendpoints > 0)
		free(u->endpoints[--u->nendpoints]);
	explicit_bzero(u->password, sizeof(u->password));
}

/* The first line of a file that only its owner may read. */
static enum leaserun_result
read_file(const struct leaserun_host *host, const char *path, char *out,
    size_t size)
{
	const char *wrong = NULL;
	struct stat st;
	ssize_t n = 0;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd == -1 || fstat(fd, &st) == -1)
		wrong = strerror(errno);
	else if (!S_ISREG(st.st_mode))
		wrong = "it is not a regular file";
	else if ((st.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) != 0)
		wrong = "others may read or change it, run chmod 600";
	else if ((n = read(fd, out, size)) <= 0)
		wrong = n == 0 ? "it is empty" : strerror(errno);
	else if ((size_t)n == size && memchr(out, '\n', size) == NULL)
		wrong = "its first line is too long";
	if (fd != -1)
		close(fd);
	if (wrong == NULL) {
		if ((size_t)n == size)
			n--;
		out[n] = '\0';
		out[strcspn(out, "\r\n")] = '\0';
		return LEASERUN_OK;
	}
	host->error(host, "cannot take the password from '%.200s': %s", path,
	    wrong);
	return LEASERUN_MISCONFIGURED;
}

enum leaserun_result
etcdurl_password(const struct leaserun_host *host, const struct etcdurl *u,
    char *password, size_t size)
{
	if (u->password_file != NULL)
		return read_file(host, u->password_file, password, size);
	snprintf(password, size, "%s", u->password);
	return LEASERUN_OK;
}
