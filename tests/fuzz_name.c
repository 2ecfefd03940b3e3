/*
 * A name that is encoded is portable ASCII and decodes to itself; what decodes
 * is encoded to itself again, so that two names never meet.
 */
#include <stdlib.h>
#include <string.h>

#include "../src/name.h"
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char encoded[LEASERUN_NAME_SIZE], name[LEASERUN_NAME_SIZE], *text;
	struct fuzz f = { data, size };

	text = fuzz_text(&f, '\0');
	if (name_encode(text, encoded, sizeof(encoded)) == NULL) {
		fuzz_check(text_is_clean(text));
		fuzz_check(encoded[0] != '\0' && encoded[0] != '.');
		fuzz_check(encoded[strspn(encoded, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		    "abcdefghijklmnopqrstuvwxyz0123456789._-%")] == '\0');
		fuzz_check(name_decode(encoded, name, sizeof(name)) == 0 &&
		    strcmp(name, text) == 0);
	}
	/* What is longer than a name decodes, too, if it gets short enough. */
	if (name_decode(text, name, sizeof(name)) == 0 &&
	    strlen(text) < sizeof(encoded))
		fuzz_check(name_encode(name, encoded, sizeof(encoded)) ==
		    NULL && strcmp(encoded, text) == 0);
	free(text);
	return 0;
}
