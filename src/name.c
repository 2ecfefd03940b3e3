/*
 * Names of leases and other words of people.  Every store sees the encoded
 * form only; this must never map two names to one.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "name.h"

/*
 * The length of the UTF-8 character at p, 0 when it is not one, and its value.
 * Shortest form, no surrogates, at most U+10FFFF.
 */
static size_t
read_character(const char *text, uint32_t *value)
{
	const unsigned char *p = (const unsigned char *)text;
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len, i;
	uint32_t c;

	if (p[0] < 0x80)
		len = 1;
	else if (p[0] >= 0xc2 && p[0] <= 0xf4)
		len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	else
		return 0;
	c = len == 1 ? p[0] : p[0] & (0x7fU >> len);
	for (i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*value = c;
	return len;
}

bool
text_is_clean(const char *text)
{
	uint32_t c;
	size_t len;

	for (; *text != '\0'; text += len) {
		len = read_character(text, &c);
		if (len == 0 || c < 0x20 || (c >= 0x7f && c <= 0x9f))
			return false;
	}
	return true;
}

/* A dot in front is not: a name must not be "..", nor hide a file. */
static bool
is_plain(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	    (c >= '0' && c <= '9') || c == '_' || c == '-' ||
	    (c == '.' && !first);
}

static size_t
encoded_length(const char *name)
{
	size_t n = 0, i;

	for (i = 0; name[i] != '\0'; i++)
		n += is_plain(name[i], i == 0) ? 1 : 3;
	return n;
}

const char *
name_encode(const char *name, char *encoded, size_t size)
{
	static const char hex[] = "0123456789ABCDEF";
	static char too_long[96];
	unsigned char c;
	size_t n, i;

	if (*name == '\0')
		return "is empty";
	if (!text_is_clean(name))
		return "is not UTF-8 without control characters";
	n = encoded_length(name);
	if (n >= size) {
		snprintf(too_long, sizeof(too_long),
		    "takes %zu bytes percent-encoded, at most %zu fit",
		    n, size == 0 ? 0 : size - 1);
		return too_long;
	}
	for (i = 0; name[i] != '\0'; i++) {
		c = (unsigned char)name[i];
		if (is_plain(name[i], i == 0))
			*encoded++ = name[i];
		else {
			*encoded++ = '%';
			*encoded++ = hex[c >> 4];
			*encoded++ = hex[c & 15];
		}
	}
	*encoded = '\0';
	return NULL;
}

/* Upper case only, or two encodings would stand for one name. */
static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte at *p, or -1 when name_encode() never writes this. */
static int
decode_byte(const char **p, bool first)
{
	int high, low;
	char c = *(*p)++;

	if (is_plain(c, first))
		return (unsigned char)c;
	if (c != '%' || (high = hex_digit((*p)[0])) == -1 ||
	    (low = hex_digit((*p)[1])) == -1)
		return -1;
	*p += 2;
	c = (char)(high * 16 + low);
	return is_plain(c, first) || c == '\0' ? -1 : (unsigned char)c;
}

int
name_decode(const char *encoded, char *name, size_t size)
{
	const char *p = encoded;
	size_t n = 0;
	int c;

	if (size == 0)
		return -1;
	while (*p != '\0') {
		c = decode_byte(&p, n == 0);
		if (c == -1 || n + 1 >= size)
			goto out;
		name[n++] = (char)c;
	}
	name[n] = '\0';
	if (n > 0 && text_is_clean(name))
		return 0;
out:
	name[0] = '\0';
	return -1;
}
