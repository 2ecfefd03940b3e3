/*
 * A metrics file: what is read is written, and what was written reads the
 * same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/promfile.h"
#include "fuzz.h"

/* Read from text and written again; NULL: refused.  To be freed. */
static char *
pass(char *text)
{
	struct prom_set set = { NULL, 0, 0 };
	char *written = NULL;
	size_t size;
	FILE *f;

	if (prom_read(&set, text) == 0) {
		f = open_memstream(&written, &size);
		fuzz_check(f != NULL && prom_write(&set, f));
		fclose(f);
	}
	prom_free(&set);
	return written;
}

/* The same of a copy. */
static char *
pass_again(const char *text)
{
	char *copy = strdup(text), *written = NULL;

	fuzz_check(copy != NULL && (written = pass(copy)) != NULL);
	free(copy);
	return written;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = { data, size };
	char *text = fuzz_text(&f, '\0'), *once, *twice, *thrice;

	if ((once = pass(text)) != NULL) {
		/* The first one may still be in another order. */
		twice = pass_again(once);
		thrice = pass_again(twice);
		fuzz_check(strlen(once) == strlen(twice));
		fuzz_check(strcmp(twice, thrice) == 0);
		free(twice);
		free(thrice);
	}
	free(once);
	free(text);
	return 0;
}
