/*
 * Answers of HTTP: each whole, byte by byte, and with more behind it.
 */
#include <stdlib.h>

#include "../backends/etcdreply.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define OK11	"HTTP/1.1 200 OK\r\n"
#define CHUNKED	OK11 "Transfer-Encoding: chunked\r\n\r\n"

static const struct good {
	const char	*text;
	const char	*body;
	int		 status;
	bool		 closes;
	bool		 by_end;	/* it ends with the connection */
} goods[] = {
	{ OK11 "Content-Length: 2\r\n\r\n{}", "{}", 200, false, false },
	{ OK11 "content-length:2 \r\n\r\n{}", "{}", 200, false, false },
	{ "HTTP/1.1 200 OK\nContent-Length: 2\n\n{}", "{}", 200, false, false },
	{ OK11 "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", "{}", 200,
	    false, false },
	{ OK11 "Content-Length: 0\r\n\r\n", "", 200, false, false },
	{ OK11 "\r\n{}", "{}", 200, true, true },
	{ "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", "{}", 200, true,
	    false },
	{ OK11 "Connection: close\r\nContent-Length: 2\r\n\r\n{}", "{}", 200,
	    true, false },
	{ OK11 "Connection: Keep-Alive\r\nContent-Length: 0\r\n\r\n", "", 200,
	    false, false },
	{ CHUNKED "2\r\n{}\r\n0\r\n\r\n", "{}", 200, false, false },
	{ CHUNKED "1;a=b\r\n{\r\n01\r\n}\r\n0\r\nA: b\r\n\r\n", "{}", 200,
	    false, false },
	{ CHUNKED "a\r\n0123456789\r\n0\r\n\r\n", "0123456789", 200, false,
	    false },
	{ "HTTP/1.1 503\r\nContent-Length: 1\r\n\r\nx", "x", 503, false,
	    false },
	{ "HTTP/1.1 204 No\r\n\r\n", "", 204, false, false },
	{ "HTTP/1.1 100 Continue\r\n\r\n" OK11 "Content-Length: 2\r\n\r\n{}",
	    "{}", 200, false, false },
};

static const char *const bads[] = {
	"", "HTTP/1.1 200 OK\r\n", "\x16\x03\x01\r\n", "HTTP/2 200 OK\r\n\r\n",
	"HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n",
	"HTTP/1.1  200 OK\r\n\r\n", "HTTP/1.2 200 OK\r\n\r\n",
	"HTTP/1.1 099 OK\r\n\r\n", "HTTP/1.1 101 Switching\r\n\r\n",
	OK11 "Content-Length: 3\r\n\r\n{}",
	OK11 "Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
	OK11 "Content-Length: -1\r\n\r\n",
	OK11 "Content-Length: 1, 1\r\n\r\n{}",
	OK11 "Content-Length: 0x1\r\n\r\n{}", OK11 "Content-Length:\r\n\r\n",
	OK11 "Content-Length: 99999999999999999999\r\n\r\n",
	OK11 "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	OK11 "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
	OK11 "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"
	    "0\r\n\r\n",
	"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	OK11 "Content-Length : 2\r\n\r\n{}", OK11 " Folded: x\r\n\r\n",
	OK11 "No colon\r\n\r\n", OK11 ": no name\r\n\r\n",
	CHUNKED, CHUNKED "2\r\n{}", CHUNKED "2\r\n{}\r\n",
	CHUNKED "2\r\n{}x\r\n0\r\n\r\n",
	CHUNKED "\r\n\r\n", CHUNKED "x\r\n\r\n", CHUNKED "-1\r\n\r\n",
	CHUNKED "0x2\r\n{}\r\n0\r\n\r\n",
	CHUNKED "000000002\r\n{}\r\n0\r\n\r\n",
	CHUNKED "2x\r\n{}\r\n0\r\n\r\n", CHUNKED "0\r\n",
	CHUNKED "0\r\nA: b\r\n",
};

/* How much of it was taken. */
static size_t
give(struct etcdreply *r, const char *text, size_t len, size_t piece)
{
	size_t n = 0, size, taken = 1;

	etcdreply_reset(r);
	for (; n < len && taken > 0 && r->part < ETCDREPLY_WHOLE; n += taken) {
		size = len - n < piece ? len - n : piece;
		taken = etcdreply_take(r, text + n, size);
	}
	return n;
}

static void
check_good(struct etcdreply *r, const struct good *g, size_t piece)
{
	size_t len = strlen(g->text), n;
	char more[512];

	snprintf(more, sizeof(more), "%s%s", g->text, g->by_end ? "" : "HTTP");
	n = give(r, more, strlen(more), piece);
	if (g->by_end)
		etcdreply_end(r);
	ok(n == len && r->part == ETCDREPLY_WHOLE && r->status == g->status &&
	    r->closes == g->closes && r->len == strlen(g->body) &&
	    strcmp(r->body == NULL ? "" : r->body, g->body) == 0,
	    "answer %zu in pieces of %zu", (size_t)(g - goods), piece);
}

/* What has no end, or is too much. */
static void
check_limits(struct etcdreply *r)
{
	size_t i, size = (size_t)9 << 20, n;
	char *big = malloc(size);

	if (big == NULL)
		abort();
	memset(big, 'x', size);
	ok(give(r, big, size, size) < ETCDREPLY_LINE + 1 &&
	    r->part == ETCDREPLY_WRONG, "a line without an end");
	n = (size_t)snprintf(big, size, OK11 "\r\n");
	big[n] = 'x';
	give(r, big, size, 65536);
	ok(r->part == ETCDREPLY_WRONG && r->len <= ETCDREPLY_BODY,
	    "a body without an end");
	n = (size_t)snprintf(big, size, OK11);
	for (i = 0; i < 1000; i++)
		n += (size_t)snprintf(big + n, size - n, "A: b\r\n");
	ok(give(r, big, n, n) < 1000 && r->part == ETCDREPLY_WRONG,
	    "a header without an end");
	give(r, OK11 "A: \0b\r\n\r\n", 26, 26);
	ok(r->part == ETCDREPLY_WRONG, "a NUL in the header");
	free(big);
}

static void
check_dates(struct etcdreply *r)
{
	static const struct {
		const char	*text;
		int64_t		 s;
	} all[] = {
		{ "Sun, 06 Nov 1994 08:49:37 GMT", 784111777 },
		{ "Thu, 29 Feb 2024 23:59:59 GMT", 1709251199 },
		{ "Sun, 06 Nev 1994 08:49:37 GMT", 0 },
		{ "Sunday, 06-Nov-94 08:49:37 GMT", 0 },
		{ "now", 0 }, { "", 0 },
	};
	char text[128];
	size_t i;

	for (i = 0; i < COUNT(all); i++) {
		snprintf(text, sizeof(text), OK11 "Date: %s\r\n\r\n",
		    all[i].text);
		give(r, text, strlen(text), sizeof(text));
		is_int(r->date_ms, all[i].s * 1000, "date '%s'", all[i].text);
	}
}

static void
check_lines(struct etcdreply *r)
{
	static const char text[] = CHUNKED "3\r\none\r\n6\r\n\ntwo\nt\r\n";

	give(r, text, sizeof(text) - 1, 7);
	is_str(etcdreply_line(r), "one", "a line of two pieces");
	is_str(etcdreply_line(r), "two", "the next one");
	is_str(etcdreply_line(r), NULL, "half of one");
	etcdreply_take(r, "5\r\nhree\n\r\n", 10);
	is_str(etcdreply_line(r), "three", "and its end");
	is_str(etcdreply_line(r), NULL, "no more");
}

int
main(void)
{
	struct etcdreply r;
	size_t i;

	memset(&r, 0, sizeof(r));
	plan(3 * (int)COUNT(goods) + 2 * (int)COUNT(bads) + 4 + 6 + 5);
	for (i = 0; i < COUNT(goods); i++) {
		check_good(&r, &goods[i], 1);
		check_good(&r, &goods[i], 3);
		check_good(&r, &goods[i], 512);
	}
	for (i = 0; i < 2 * COUNT(bads); i++) {
		give(&r, bads[i / 2], strlen(bads[i / 2]), i % 2 * 511 + 1);
		etcdreply_end(&r);
		ok(r.part == ETCDREPLY_WRONG && r.wrong != NULL,
		    "refused: answer %zu", i / 2);
	}
	check_limits(&r);
	check_dates(&r);
	check_lines(&r);
	etcdreply_clear(&r);
	return done();
}
