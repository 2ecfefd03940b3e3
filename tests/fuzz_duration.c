/*
 * Whatever duration_parse() takes, duration_format() writes in a form that
 * reads back as the same time and is written the same again.
 */
#include <stdlib.h>
#include <string.h>

#include "../src/timeutil.h"

int	LLVMFuzzerTestOneInput(const uint8_t *, size_t);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text, form[32], again[32];
	int64_t ns, back;

	if ((text = malloc(size + 1)) == NULL)
		abort();
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';

	if (duration_parse(text, &ns) == 0) {
		if (ns < 0 || ns > DURATION_MAX)
			abort();
		duration_format(ns, form, sizeof(form));
		if (duration_parse(form, &back) == -1 || back != ns)
			abort();
		duration_format(back, again, sizeof(again));
		if (strcmp(form, again) != 0)
			abort();
	}
	free(text);
	return 0;
}
