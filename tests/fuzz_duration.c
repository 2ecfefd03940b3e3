/*
 * Whatever duration_parse() takes, duration_format() writes in a form that
 * reads back as the same time and is written the same again.
 */
#include <stdlib.h>
#include <string.h>

#include "../src/timeutil.h"
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = { data, size };
	char *text = fuzz_text(&f, '\0'), form[32], again[32], seconds[32];
	int64_t ns, back;

	if (duration_parse(text, &ns) == 0) {
		fuzz_check(ns >= 0 && ns <= DURATION_MAX);
		duration_format(ns, form, sizeof(form));
		fuzz_check(duration_parse(form, &back) == 0 && back == ns);
		duration_format(back, again, sizeof(again));
		fuzz_check(strcmp(form, again) == 0);
		seconds_format(ns, seconds);
	}
	free(text);
	return 0;
}
