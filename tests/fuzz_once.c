/*
 * The records of --once of the file backend: lines, whose checksums are put
 * right if the first byte says so.  A key that is found is there, and one that
 * is recorded is found.
 */
#include "../backends/fileonce.c"
#include "fuzz.h"

/* Sums in front of lines that are as they may be. */
static char *
put_right(const char *text, size_t *size)
{
	char *to = NULL;
	const char *end;
	FILE *f;

	fuzz_check((f = open_memstream(&to, size)) != NULL);
	for (; (end = strchr(text, '\n')) != NULL; text = end + 1)
		fprintf(f, "%08x %.*s\n", record_sum(text,
		    (size_t)(end - text)), (int)(end - text), text);
	fputs(text, f);
	fclose(f);
	return to;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[] = "/nowhere", *text, *plain, again[LINE_SIZE];
	struct filedir dir = { .host = fuzz_host(), .path = path };
	struct fuzz f = { data, size };
	bool is_right = fuzz_byte(&f) % 2 != 0;
	enum leaserun_result result;
	struct line line;
	struct lines lines;
	size_t n = f.size, pos = 0;
	bool found = true;
	int fd, len;

	text = fuzz_text(&f, '\0');
	if (is_right) {
		plain = text;
		text = put_right(plain, &n);
		free(plain);
	} else
		n = strlen(text);
	fd = fuzz_file(text, n);
	free(text);
	fuzz_check(load(&dir, fd, "job.once", &lines) == LEASERUN_OK);
	result = find(&dir, "job.once", &lines, "daily", 86400000);
	fuzz_check(result == LEASERUN_OK || result == LEASERUN_DONE ||
	    result == LEASERUN_MISCONFIGURED);
	show_all(&dir, "job.once", &lines, fuzz_entry, NULL);
	while (next(&dir, "job.once", &lines, &pos, &line, &found) ==
	    LEASERUN_OK && found) {
		len = line_write(again, sizeof(again), &line);
		fuzz_check(len > 0 && (size_t)len < sizeof(again) &&
		    line_read(again, (size_t)len - 1, &line));
	}
	free(lines.text);
	close(fd);
	return 0;
}
