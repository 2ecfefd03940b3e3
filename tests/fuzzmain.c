/*
 * Feeds a fuzz target with the files in tests/fuzz/NAME, and with each of
 * their beginnings.  For builds that are not for fuzzing: what once was wrong
 * stays right.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "tap.h"

#define FILE_MAX	65536
#define BEGINNINGS	2048

/* The input in memory of its size alone, so that a look behind it is seen. */
static void
feed(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size + (size == 0));

	fuzz_check(copy != NULL);
	if (size > 0)
		memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static void
run_file(const char *folder, const char *name)
{
	static uint8_t data[FILE_MAX];
	char path[4096];
	size_t n, i;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if ((f = fopen(path, "re")) == NULL) {
		ok(0, "%s", path);
		return;
	}
	n = fread(data, 1, sizeof(data), f);
	fclose(f);
	for (i = 0; i < n && i < BEGINNINGS; i++)
		feed(data, i);
	feed(data, n);
	ok(n > 0, "%s", name);
}

static int
is_visible(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

int
main(int argc, char *argv[])
{
	const char *top = getenv("srcdir"), *name;
	struct dirent **list;
	char folder[2048];
	int i, n;

	name = argc < 1 ? NULL : strrchr(argv[0], '_');
	if (top == NULL || name == NULL)
		return 99;
	snprintf(folder, sizeof(folder), "%s/tests/fuzz/%s", top, name + 1);
	if ((n = scandir(folder, &list, is_visible, alphasort)) < 1)
		return 99;
	plan(n);
	for (i = 0; i < n; i++) {
		run_file(folder, list[i]->d_name);
		free(list[i]);
	}
	free(list);
	return done();
}
