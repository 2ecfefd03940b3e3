/*
 * No password stays in what is shown of a URL, whatever is around it; and a
 * URL of the file backend names an absolute path, or is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../backends/fileurl.h"
#include "../src/util.h"
#include "fuzz.h"

#define SECRET	"sEcReT"

static void
check_hidden(const char *url, bool is_hidden)
{
	char *shown = url_redact(url), *handed = url_without_password(url);

	fuzz_check(shown != NULL && handed != NULL);
	fuzz_check(strlen(shown) <= 3 * strlen(url) &&
	    strlen(handed) <= strlen(url));
	fuzz_check(!is_hidden || (strstr(shown, SECRET) == NULL &&
	    strstr(handed, SECRET) == NULL));
	free(shown);
	free(handed);
}

/* In a password as libpq and etcd take it, and in a parameter. */
static void
check_secrets(const char *before, const char *behind)
{
	const char *forms[] = {
		"postgres://user:%s" SECRET "%s@host/database",
		"etcds://user:%s" SECRET "%s@a:2379,b:2379/prefix",
		"postgres://host/database?user=u&password=%s" SECRET "%s",
	};
	char url[512];
	size_t i;

	if (strlen(before) + strlen(behind) > 256 ||
	    strpbrk(before, "/?#@&") != NULL ||
	    strpbrk(behind, "/?#@&") != NULL)
		return;
	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(url, sizeof(url), forms[i], before, behind);
#pragma GCC diagnostic pop
		check_hidden(url, true);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct filedir dir = { .host = fuzz_host() };
	struct fuzz f = { data, size };
	char *url = fuzz_text(&f, '\n'), *key = fuzz_text(&f, '\n');
	char *value = fuzz_text(&f, '\n');
	struct leaserun_option option = { key, value };
	struct leaserun_target target = {
		.url = url, .options = &option, .noptions = *key != '\0',
	};

	check_hidden(url, false);
	check_secrets(url, key);
	if (fileurl_parse(&dir, &target) == LEASERUN_OK)
		fuzz_check(dir.path[0] == '/');
	free(dir.path);
	free(url);
	free(key);
	free(value);
	return 0;
}
