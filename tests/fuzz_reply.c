/*
 * An answer of HTTP is the same whatever the pieces are in which it comes, and
 * nothing behind its end is taken.
 */
#include <stdlib.h>
#include <string.h>

#include "../backends/etcdreply.h"
#include "fuzz.h"

/* How much of it belongs to the answer. */
static size_t
read_in_pieces(struct etcdreply *r, const uint8_t *data, size_t size,
    size_t piece)
{
	size_t n = 0, len, taken;
	char *copy;

	memset(r, 0, sizeof(*r));
	while (n < size && r->part < ETCDREPLY_WHOLE) {
		len = size - n < piece ? size - n : piece;
		/* Of its own, so that what is read beyond it is seen. */
		if ((copy = malloc(len)) == NULL)
			abort();
		memcpy(copy, data + n, len);
		taken = etcdreply_take(r, copy, len);
		free(copy);
		if (taken > len || (taken < len && r->part < ETCDREPLY_WHOLE))
			abort();
		n += taken;
	}
	if (n == size)
		etcdreply_end(r);
	if (r->part < ETCDREPLY_WHOLE || r->len > ETCDREPLY_BODY ||
	    (r->part == ETCDREPLY_WRONG) != (r->wrong != NULL) ||
	    (r->body != NULL && r->body[r->len] != '\0') ||
	    (r->body == NULL && r->len != 0))
		abort();
	return n;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct etcdreply whole, parts;
	size_t n, m, piece;

	if (size < 1)
		return 0;
	piece = data[0] == 0 ? 1 : data[0];
	n = read_in_pieces(&whole, data + 1, size - 1, size);
	m = read_in_pieces(&parts, data + 1, size - 1, piece);
	if (whole.part != parts.part || (whole.part == ETCDREPLY_WHOLE &&
	    (n != m || whole.len != parts.len || whole.status != parts.status ||
	    whole.closes != parts.closes || (whole.len > 0 &&
	    memcmp(whole.body, parts.body, whole.len) != 0))))
		abort();
	for (n = 0; etcdreply_line(&whole) != NULL; n++)
		;
	if (n > whole.len + size)
		abort();
	etcdreply_clear(&whole);
	etcdreply_clear(&parts);
	return 0;
}
