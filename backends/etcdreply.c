/*
 * Reads an answer of HTTP/1.  Must never read beyond its end, take half of one
 * for a whole one, or keep more of it than there is room for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "etcdreply.h"

#define LINES_MAX	100		/* of a header and a trailer */

static const char digits[] = "0123456789";
static const char token[] = "!#$%&'*+-.^_`|~0123456789"
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

void
etcdreply_reset(struct etcdreply *r)
{
	char *body = r->body;

	memset(r, 0, offsetof(struct etcdreply, line));
	r->body = body;
	if (body != NULL)
		body[0] = '\0';
}

void
etcdreply_clear(struct etcdreply *r)
{
	free(r->body);
	r->body = NULL;
}

static void
fail(struct etcdreply *r, const char *why)
{
	r->part = ETCDREPLY_WRONG;
	r->wrong = why;
}

/* --- Lines --- */

/* "HTTP/1.1 200 OK" */
static void
read_status(struct etcdreply *r, const char *line)
{
	if (strncmp(line, "HTTP/1.", 7) != 0 ||
	    (line[7] != '0' && line[7] != '1') || line[8] != ' ' ||
	    strspn(line + 9, digits) != 3 || line[9] == '0' ||
	    (line[12] != ' ' && line[12] != '\0')) {
		fail(r, "what comes is not HTTP");
		return;
	}
	r->is_old = line[7] == '0';
	r->closes = r->is_old;
	r->status = atoi(line + 9);
	r->part = ETCDREPLY_HEADER;
}

/* The one form of a date that is sent today; 0: it is another one. */
static int64_t
read_date(const char *value)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	const char *found;
	char month[4] = "";
	struct tm tm;
	time_t when;

	memset(&tm, 0, sizeof(tm));
	if (sscanf(value, "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d GMT",
	    &tm.tm_mday, month, &tm.tm_year, &tm.tm_hour, &tm.tm_min,
	    &tm.tm_sec) != 6 || strlen(month) != 3 ||
	    (found = strstr(months, month)) == NULL)
		return 0;
	tm.tm_mon = (int)(found - months) / 3;
	tm.tm_year -= 1900;
	when = timegm(&tm);
	return when > 0 ? (int64_t)when * 1000 : 0;
}

/* Two lengths, or one that is none, let others see another end than we do. */
static void
read_length(struct etcdreply *r, const char *value)
{
	size_t n = strspn(value, digits);
	uint64_t length;

	if (n == 0 || n > 18 || value[n] != '\0') {
		fail(r, "the answer's length is no number");
		return;
	}
	length = strtoull(value, NULL, 10);
	if (r->has_length && r->left != length)
		fail(r, "the answer has two lengths");
	r->has_length = true;
	r->left = length;
}

static void
read_field(struct etcdreply *r, const char *name, const char *value)
{
	if (strcasecmp(name, "Content-Length") == 0)
		read_length(r, value);
	else if (strcasecmp(name, "Transfer-Encoding") == 0) {
		if (strcasecmp(value, "chunked") != 0 || r->is_chunked)
			fail(r, "the answer has an unknown encoding");
		r->is_chunked = true;
	} else if (strcasecmp(name, "Connection") == 0) {
		if (strcasecmp(value, "keep-alive") != 0)
			r->closes = true;
	} else if (strcasecmp(name, "Date") == 0)
		r->date_ms = read_date(value);
}

/* Where the body begins, and by what it ends. */
static void
end_header(struct etcdreply *r)
{
	if (r->status == 101)
		fail(r, "the server wants another protocol");
	else if (r->status < 200) {
		/* It is not yet the answer. */
		r->part = ETCDREPLY_STATUS;
		r->is_chunked = r->has_length = false;
	} else if (r->status == 204 || r->status == 304)
		r->part = ETCDREPLY_WHOLE;
	else if (r->is_chunked && (r->has_length || r->is_old))
		fail(r, "the answer has two ends");
	else if (r->is_chunked)
		r->part = ETCDREPLY_CHUNK_SIZE;
	else if (r->has_length)
		r->part = r->left > 0 ? ETCDREPLY_LENGTH : ETCDREPLY_WHOLE;
	else {
		r->closes = true;
		r->part = ETCDREPLY_REST;
	}
}

/* line is changed. */
static void
read_header(struct etcdreply *r, char *line)
{
	size_t n = strspn(line, token), end = strlen(line);
	char *value;

	if (line[0] == '\0') {
		end_header(r);
		return;
	}
	if (n == 0 || line[n] != ':') {
		fail(r, "a header of the answer is none");
		return;
	}
	line[n] = '\0';
	value = line + n + 1;
	while (end > n + 1 && strchr(" \t", line[end - 1]) != NULL)
		line[--end] = '\0';
	read_field(r, line, value + strspn(value, " \t"));
}

/* Behind the number may be what nobody uses. */
static void
read_chunk_size(struct etcdreply *r, const char *line)
{
	size_t n = strspn(line, "0123456789abcdefABCDEF");

	if (n == 0 || n > 8 || strchr("; \t", line[n]) == NULL) {
		fail(r, "a chunk of the answer has no size");
		return;
	}
	r->left = strtoull(line, NULL, 16);
	r->part = r->left > 0 ? ETCDREPLY_CHUNK : ETCDREPLY_TRAILER;
}

static void
read_line(struct etcdreply *r, char *line)
{
	switch (r->part) {
	case ETCDREPLY_STATUS:
		read_status(r, line);
		break;
	case ETCDREPLY_HEADER:
		read_header(r, line);
		break;
	case ETCDREPLY_CHUNK_SIZE:
		read_chunk_size(r, line);
		break;
	case ETCDREPLY_CHUNK_END:
		if (line[0] != '\0')
			fail(r, "a chunk of the answer is longer than it says");
		else
			r->part = ETCDREPLY_CHUNK_SIZE;
		break;
	case ETCDREPLY_TRAILER:
		if (line[0] == '\0')
			r->part = ETCDREPLY_WHOLE;
		break;
	case ETCDREPLY_CHUNK:
	case ETCDREPLY_LENGTH:
	case ETCDREPLY_REST:
	case ETCDREPLY_WHOLE:
	case ETCDREPLY_WRONG:
		break;
	}
}

/* One line, or what there is of it. */
static size_t
take_line(struct etcdreply *r, const char *data, size_t len)
{
	bool counts = r->part < ETCDREPLY_CHUNK_SIZE ||
	    r->part == ETCDREPLY_TRAILER;
	const char *newline = memchr(data, '\n', len);
	size_t n = newline == NULL ? len : (size_t)(newline - data);

	if (n >= sizeof(r->line) - r->line_len ||
	    memchr(data, '\0', n) != NULL || r->lines == LINES_MAX) {
		fail(r, "the answer has no end of its header");
		return 0;
	}
	memcpy(r->line + r->line_len, data, n);
	r->line_len += n;
	if (newline == NULL)
		return n;
	if (counts)
		r->lines++;
	if (r->line_len > 0 && r->line[r->line_len - 1] == '\r')
		r->line_len--;
	r->line[r->line_len] = '\0';
	r->line_len = 0;
	read_line(r, r->line);
	return n + 1;
}

/* --- The body --- */

static size_t
take_body(struct etcdreply *r, const char *data, size_t len)
{
	char *body;

	if (r->part != ETCDREPLY_REST && len > r->left)
		len = (size_t)r->left;
	if (len > ETCDREPLY_BODY - r->len) {
		fail(r, "the answer is too long");
		return 0;
	}
	if ((body = realloc(r->body, r->len + len + 1)) == NULL) {
		fail(r, "out of memory");
		return 0;
	}
	memcpy(body + r->len, data, len);
	r->body = body;
	r->len += len;
	body[r->len] = '\0';
	if (r->part == ETCDREPLY_REST)
		return len;
	r->left -= len;
	if (r->left == 0)
		r->part = r->part == ETCDREPLY_CHUNK ? ETCDREPLY_CHUNK_END :
		    ETCDREPLY_WHOLE;
	return len;
}

size_t
etcdreply_take(struct etcdreply *r, const char *data, size_t len)
{
	size_t n = 0;

	r->begun = r->begun || len > 0;
	while (n < len && r->part < ETCDREPLY_WHOLE) {
		if (r->part < ETCDREPLY_CHUNK)
			n += take_line(r, data + n, len - n);
		else
			n += take_body(r, data + n, len - n);
	}
	return n;
}

void
etcdreply_end(struct etcdreply *r)
{
	if (r->part == ETCDREPLY_REST)
		r->part = ETCDREPLY_WHOLE;
	else if (r->part < ETCDREPLY_WHOLE)
		fail(r, r->begun ? "the answer was cut off" :
		    "the connection was closed instead of an answer");
}

const char *
etcdreply_line(struct etcdreply *r)
{
	char *end;

	if (r->used > 0) {
		memmove(r->body, r->body + r->used, r->len - r->used + 1);
		r->len -= r->used;
		r->used = 0;
	}
	if (r->len == 0 || (end = memchr(r->body, '\n', r->len)) == NULL)
		return NULL;
	*end = '\0';
	r->used = (size_t)(end + 1 - r->body);
	return r->body;
}
