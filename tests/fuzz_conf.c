/*
 * A configuration file and a command line, each line of what is behind the NUL
 * an argument: read as for `run', or refused with a reason.
 */
#include <sys/stat.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../src/conf.h"
#include "../src/util.h"
#include "fuzz.h"

#define WORDS_MAX	16

static void
check(struct conf *conf, struct conf_error *err, int rc)
{
	if (rc == -1) {
		fuzz_check(err->status == EXIT_USAGE ||
		    err->status == EXIT_CONFIG);
		fuzz_check(err->text[0] != '\0' && strlen(err->text) <
		    sizeof(err->text));
	} else if (!conf->help)
		fuzz_check(conf->ttl > 0 && conf->renew_every > 0 &&
		    conf->grace >= 0 && conf->backend != NULL &&
		    conf->owner != NULL);
	conf_free(conf);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size == 0 ? NULL : memchr(data, '\0', size);
	size_t len = end == NULL ? size : (size_t)(end - data);
	char path[64], *argv[WORDS_MAX + 6], *words[WORDS_MAX];
	struct fuzz f = { data + len, size - len };
	struct conf_error err = { 0, "" };
	int fd = fuzz_file(data, len), argc = 0, n = 0, operands;
	struct conf conf;

	fchmod(fd, 0600);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	unsetenv("LEASERUN_BACKEND");
	unsetenv("LEASERUN_OPTIONS");
	fuzz_byte(&f);
	while (f.size > 0 && n < WORDS_MAX)
		words[n++] = fuzz_text(&f, '\n');
	argv[argc++] = strdup("run");
	argv[argc++] = strdup("--config");
	argv[argc++] = strdup(path);
	for (; argc < n + 3; argc++)
		argv[argc] = words[argc - 3];
	argv[argc++] = strdup("report-daily");
	argv[argc] = NULL;

	optind = 0;
	check(&conf, &err, conf_load(&conf, CONF_RUN, argc, argv, &operands,
	    &err));
	while (argc > 0)
		free(argv[--argc]);
	close(fd);
	return 0;
}
