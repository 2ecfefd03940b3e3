/*
 * A stream and a header as the library hands them on, in pieces of any size:
 * the lines are those of the whole.
 */
#include "../backends/etcdhttp.c"
#include "fuzz.h"

CURLM *
etcdcurl_multi(void)
{
	return NULL;
}

CURL *
etcdcurl_easy(const struct etcdhttp_setup *setup)
{
	(void)setup;
	return NULL;
}

static void
check_line(struct fuzz *left, const char *line)
{
	size_t n = strlen(line);

	/* What a NUL hides is behind it. */
	fuzz_check(n < left->size && memcmp(left->data, line, n) == 0 &&
	    (left->data[n] == '\n' || left->data[n] == '\0'));
	while (fuzz_byte(left) != '\n')
		continue;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct etcdhttp h = { .host = fuzz_host() };
	struct fuzz f = { data, size }, left;
	size_t piece = (size_t)fuzz_byte(&f) + 1, n;
	const char *line;

	if (f.size == 0)
		return 0;
	take_header((char *)(uintptr_t)f.data, 1, f.size, &h);
	fuzz_check(h.date_ms >= 0);
	for (left = f; f.size > 0; f.data += n, f.size -= n) {
		n = f.size < piece ? f.size : piece;
		fuzz_check(take_body((char *)(uintptr_t)f.data, 1, n,
		    &h.stream) == n);
		while ((line = etcdhttp_line(&h)) != NULL)
			check_line(&left, line);
	}
	fuzz_check(left.size == 0 ||
	    memchr(left.data, '\n', left.size) == NULL);
	free(h.stream.buf);
	return 0;
}
