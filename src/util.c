/*
 * Small helpers without a home of their own.  Nothing here logs; the x*
 * functions end the program and must never be used once the command runs.
 */
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "util.h"

int
fds_open_standard(void)
{
	int fd;

	/* Not close-on-exec: the command is to find them open. */
	for (fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) == -1 &&
		    open("/dev/null", O_RDWR) == -1)
			return -1;
	}
	return 0;
}

int
children_open(void)
{
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	return signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
}

bool
fds_left(int n)
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	bool enough;

	if (fd == -1)
		return errno != EMFILE;
	enough = n <= 1 || fds_left(n - 1);
	close(fd);
	return enough;
}

const char *
limit_hint(int error)
{
	static char text[80];
	struct rlimit limit;

	/* Of a fork; a timer has a signal in the queue, too. */
	if (error == EAGAIN)
		return "; raise the limits of processes (ulimit -u, pids.max "
		    "of the cgroup) and of signals (ulimit -i)";
	if (error != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) == -1)
		return "";
	snprintf(text, sizeof(text), "; raise the limit of open files "
	    "(ulimit -n), it is %llu", (unsigned long long)limit.rlim_cur);
	return text;
}

int
exec_failure(const char *command, int error, const char **hint)
{
	*hint = "";
	if (error == ENOENT && strchr(command, '/') != NULL &&
	    access(command, F_OK) == 0) {
		*hint = " (its interpreter is missing)";
		return EXIT_CANNOT_EXEC;
	}
	if (error == ENOENT && strchr(command, '/') == NULL)
		*hint = " (in no directory of PATH, or its interpreter is "
		    "missing)";
	else if (error == E2BIG)
		*hint = " (one string over 128 KiB, or all arguments and the "
		    "environment together over the stack limit's quarter)";
	return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXEC;
}

static int
random_bytes(unsigned char *buf, size_t size)
{
	size_t done = 0;
	ssize_t n;

	while (done < size) {
		n = getrandom(buf + done, size - done, 0);
		if (n > 0)
			done += (size_t)n;
		else if (n == -1 && errno != EINTR)
			return -1;
	}
	return 0;
}

int
random_hex(char *text, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char byte;
	size_t i;

	/* The raw bytes go where the upper half of the text comes to be. */
	if (random_bytes((unsigned char *)text + n, n) == -1)
		return -1;
	for (i = 0; i < n; i++) {
		byte = (unsigned char)text[n + i];
		text[2 * i] = digits[byte >> 4];
		text[2 * i + 1] = digits[byte & 15];
	}
	text[2 * n] = '\0';
	return 0;
}

uint64_t
random_below(uint64_t limit)
{
	uint64_t value;

	if (limit == 0 ||
	    random_bytes((unsigned char *)&value, sizeof(value)) == -1)
		return 0;
	return value % limit;
}

int
number_parse(const char *text, uint64_t max, uint64_t *value)
{
	uint64_t n = 0;
	const char *p;

	if (*text == '\0' || text[strspn(text, "0123456789")] != '\0') {
		errno = EINVAL;
		return -1;
	}
	for (p = text; *p != '\0'; p++) {
		if (__builtin_mul_overflow(n, (uint64_t)10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n) ||
		    n > max) {
			errno = ERANGE;
			return -1;
		}
	}
	*value = n;
	return 0;
}

void
number_format(uint64_t number, char *buf)
{
	char digits[21];
	size_t i = sizeof(digits) - 1;

	digits[i] = '\0';
	do {
		digits[--i] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	memcpy(buf, digits + i, sizeof(digits) - i);
}

/* One part of a URL to be replaced by stars; start is NULL for none. */
struct span {
	const char	*start;
	const char	*end;
};

/* "scheme://" in front, or 0. */
static size_t
scheme_length(const char *url)
{
	size_t n = strspn(url, "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");

	return n > 0 && strncmp(url + n, "://", 3) == 0 ? n + 3 : 0;
}

/* True when what stands there can only be hosts with ports. */
static bool
is_host_list(const char *p, const char *end)
{
	bool bracket = false, port = false;

	for (; p < end; p++) {
		if (*p == '[' || *p == ']')
			bracket = *p == '[';
		else if (*p == ',')
			port = false;
		else if (*p == ':' && !bracket)
			port = true;
		else if (port && (*p < '0' || *p > '9'))
			return false;
	}
	return true;
}

/*
 * A correct URL has neither '@' nor ':' where they would be mistaken for
 * something else.  In any other one a password may be anywhere.
 */
static bool
is_doubtful(const char *start, const char *end)
{
	const char *at = memrchr(start, '@', (size_t)(end - start));
	const char *hosts = at == NULL ? start : at + 1;
	const char *last = strrchr(start, '@');

	if (!is_host_list(hosts, end) ||
	    (at != NULL && memchr(start, '@', (size_t)(at - start)) != NULL))
		return true;
	/* No password is without a colon. */
	return last != NULL && last >= end &&
	    memchr(start, ':', (size_t)(last - start)) != NULL;
}

/* The password in front of the hosts, or all where one may be. */
static struct span
find_password(const char *url)
{
	size_t scheme = scheme_length(url);
	const char *start = url + scheme, *end, *at, *colon;

	end = start + strcspn(start, "/?#");
	at = memrchr(start, '@', (size_t)(end - start));
	colon = strchr(start, ':');
	/* Nobody's user or password: "word:word". */
	if (scheme == 0 && (colon == NULL || strchr(start, '@') == NULL))
		return (struct span){ NULL, NULL };
	if (is_doubtful(start, end))
		return (struct span){ scheme == 0 ? colon + 1 : start,
		    url + strlen(url) };
	colon = at == NULL ? NULL : memchr(start, ':', (size_t)(at - start));
	if (colon == NULL)
		return (struct span){ NULL, NULL };
	return (struct span){ colon + 1, at };
}

static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* True for a name, percent-encoded or not, that promises a password. */
static bool
is_secret_name(const char *p, const char *end)
{
	char name[128];
	size_t n = 0;

	for (; p < end; p++) {
		if (n == sizeof(name) - 1)
			return true;
		if (*p == '%' && end - p > 2 && hex_value(p[1]) != -1 &&
		    hex_value(p[2]) != -1) {
			name[n++] = (char)(hex_value(p[1]) * 16 +
			    hex_value(p[2]));
			p += 2;
		} else
			name[n++] = *p;
	}
	name[n] = '\0';
	return strcasestr(name, "password") != NULL ||
	    strcasestr(name, "secret") != NULL;
}

/* "NAME=" */
static bool
is_parameter(const char *p)
{
	size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.%-");

	return n > 0 && p[n] == '=';
}

/*
 * The value of the next such NAME=VALUE, in a query or anywhere else; an '&'
 * that no other one follows is part of it.
 */
static struct span
find_parameter(const char *p)
{
	const char *name, *equals, *end;

	for (; (equals = strchr(p, '=')) != NULL; p = equals + 1) {
		name = equals;
		while (name > p && strchr("?&;#/:@ ", name[-1]) == NULL)
			name--;
		if (!is_secret_name(name, equals))
			continue;
		end = equals + strcspn(equals, "&");
		while (*end == '&' && !is_parameter(end + 1))
			end += 1 + strcspn(end + 1, "&");
		return (struct span){ equals + 1, end };
	}
	return (struct span){ NULL, NULL };
}

/* Copies up to the span, then the text instead; returns where to go on. */
static const char *
put_instead(char **out, const char *from, struct span s, const char *instead)
{
	size_t n = (size_t)(s.start - from);

	memcpy(*out, from, n);
	*out += n;
	if (s.end > s.start) {
		n = strlen(instead);
		memcpy(*out, instead, n);
		*out += n;
	}
	return s.end;
}

/* instead: three bytes at most. */
static char *
replace_passwords(const char *url, const char *instead)
{
	const char *from = url;
	struct span s = { NULL, NULL };
	char *copy, *out;

	/* A span is at least one byte, and has one in front of it. */
	copy = out = malloc(strlen(url) * 3 + 1);
	if (copy == NULL)
		return NULL;
	/* file:/a:b@c is a path. */
	if (strncmp(url, "file:", 5) != 0 || scheme_length(url) != 0) {
		s = find_password(url);
		if (s.start != NULL)
			from = put_instead(&out, from, s, instead);
		for (s = find_parameter(from); s.start != NULL;
		    s = find_parameter(from))
			from = put_instead(&out, from, s, instead);
	}
	strcpy(out, from);
	return copy;
}

char *
url_redact(const char *url)
{
	return replace_passwords(url, "***");
}

char *
url_without_password(const char *url)
{
	return replace_passwords(url, "");
}

char *
word_shown(const char *word, char buf[WORD_SIZE])
{
	char *shown = url_redact(word);

	text_copy(buf, WORD_SIZE, shown == NULL ? "?" : shown);
	free(shown);
	return buf;
}

void
text_copy(char *dst, size_t size, const char *src)
{
	size_t n = strlen(src);

	if (size == 0)
		return;
	if (n >= size) {
		n = size - 1;
		while (n > 0 && ((unsigned char)src[n] & 0xc0) == 0x80)
			n--;
	}
	memcpy(dst, src, n);
	dst[n] = '\0';
}

void
text_escape(char *text)
{
	unsigned char *p = (unsigned char *)text;

	for (; *p != '\0'; p++) {
		if (*p < ' ' || *p == 0x7f)
			*p = '?';
		else if (*p == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f)
			p[0] = p[1] = '?';	/* C1 controls in UTF-8 */
	}
}

int
exited_with(int exit_status)
{
	return exit_status << 8;
}

static void *
check_memory(void *p)
{
	static const char text[] = "leaserun: out of memory\n";
	ssize_t ignored;

	if (p == NULL) {
		ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
		(void)ignored;
		_exit(EXIT_INTERNAL);
	}
	return p;
}

void *
xcalloc(size_t n, size_t size)
{
	/* calloc may return NULL for nothing. */
	return check_memory(calloc(n == 0 ? 1 : n, size == 0 ? 1 : size));
}

char *
xstrdup(const char *text)
{
	return check_memory(strdup(text));
}

char *
xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *text = NULL;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) == -1)
		text = NULL;
	va_end(ap);
	return check_memory(text);
}
