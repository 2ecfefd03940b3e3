/*
 * Goes through a configuration file ahead of libconfuse.  Its version 3.3
 * counts the lines of comments wrong, takes an unclosed comment or brace for
 * the end of the file, refuses a comment between a key and its value, skips '*'
 * and '+', and drops the rest of a string after "\0".  Must never change what
 * is not a comment.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "confscan.h"

#define BYTE_ORDER_MARK	"\xef\xbb\xbf"

/* Where we are. */
struct scan {
	char		*p;
	int		 line;
	int		 depth;		/* of braces */
	int		 opened;	/* line of the last one that opened */
	bool		 in_word;	/* p goes on with an unquoted word */
	char		*why;
};

/* Always false. */
static bool __attribute__((format(printf, 2, 3)))
scan_fail(struct scan *scan, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(scan->why, CONFSCAN_WHY_SIZE, fmt, ap);
	va_end(ap);
	return false;
}

static void
step(struct scan *scan, size_t n)
{
	for (; n > 0; n--)
		scan->line += *scan->p++ == '\n';
}

static void
blank(struct scan *scan, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (scan->p[i] != '\n')
			scan->p[i] = ' ';
	}
	step(scan, n);
	scan->in_word = false;
}

static bool
skip_long_comment(struct scan *scan)
{
	char *end = strstr(scan->p + 2, "*/");

	if (end == NULL)
		return scan_fail(scan, "a comment is not closed");
	blank(scan, (size_t)(end + 2 - scan->p));
	return true;
}

/* Without the check libconfuse goes on to any '}' further down. */
static bool
skip_variable(struct scan *scan)
{
	size_t n = 2 + strcspn(scan->p + 2, "}\"'\n");

	if (scan->p[n] != '}')
		return scan_fail(scan, "'${' without '}'");
	step(scan, n + 1);
	return true;
}

/* One character, escape or variable between quotes. */
static bool
skip_in_quotes(struct scan *scan, char quote)
{
	const char *p = scan->p;

	if (quote == '"' && p[0] == '$' && p[1] == '{')
		return skip_variable(scan);
	if (quote == '"' && p[0] == '\\' &&
	    (p[1] == 'x' || (p[1] >= '0' && p[1] <= '9')))
		return scan_fail(scan, "bytes cannot be given as numbers "
		    "('\\%c'); '\\\\' is a backslash", p[1]);
	step(scan, p[0] == '\\' && p[1] != '\0' ? 2 : 1);
	return true;
}

static bool
skip_quoted(struct scan *scan)
{
	char quote = *scan->p, *start = scan->p, *next;
	int line = scan->line;

	step(scan, 1);
	while (*scan->p != quote) {
		if (*scan->p == '\0') {
			scan->line = line;
			return scan_fail(scan, "a quote is not closed");
		}
		if (!skip_in_quotes(scan, quote))
			return false;
	}
	step(scan, 1);
	scan->in_word = false;
	/* "job=a|ttl" = ... would be looked up as a path. */
	next = scan->p + strspn(scan->p, " \t");
	if (*next == '=' && memchr(start, '|', (size_t)(scan->p - start)))
		return scan_fail(scan, "'|' cannot be part of a key");
	return true;
}

/* One that nobody would find in a message; editors and browsers leave them. */
static const char *
invisible(const char *p)
{
	static const char *const found[][2] = {
		{ "\xc2\xa0", "U+00A0, a no-break space" },
		{ "\xe2\x80\x8b", "U+200B, a zero-width space" },
		{ BYTE_ORDER_MARK, "U+FEFF, a byte order mark" },
	};
	size_t i;

	for (i = 0; i < sizeof(found) / sizeof(found[0]); i++) {
		if (strncmp(p, found[i][0], strlen(found[i][0])) == 0)
			return found[i][1];
	}
	return NULL;
}

/* One piece of the text, never at its end. */
static bool
skip_piece(struct scan *scan)
{
	const char *p = scan->p, *name = invisible(p);

	if (name != NULL)
		return scan_fail(scan, "an invisible character outside quotes "
		    "(%s)", name);
	if (*p == '#' || (p[0] == '/' && p[1] == '/' && !scan->in_word))
		blank(scan, strcspn(p, "\n"));
	else if (p[0] == '/' && p[1] == '*')
		return skip_long_comment(scan);
	else if (*p == '"' || *p == '\'')
		return skip_quoted(scan);
	else if (p[0] == '$' && p[1] == '{')
		return skip_variable(scan);
	else if (*p == '*' || *p == '+')
		return scan_fail(scan, "'%c' belongs in quotes", *p);
	else {
		if (*p == '{') {
			scan->depth++;
			scan->opened = scan->line;
		} else if (*p == '}')
			scan->depth--;
		scan->in_word = strchr(" \t\r\n={}(),", *p) == NULL;
		step(scan, 1);
	}
	return true;
}

int
confscan(char *text, char why[CONFSCAN_WHY_SIZE])
{
	struct scan scan = { .p = text, .line = 1, .why = why };

	/* Some editors begin every file with it. */
	if (strncmp(text, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0)
		blank(&scan, strlen(BYTE_ORDER_MARK));
	while (*scan.p != '\0') {
		if (!skip_piece(&scan))
			return scan.line;
	}
	if (scan.depth > 0) {
		scan_fail(&scan, "a '{' is not closed");
		return scan.opened;
	}
	return 0;
}
