/*
 * No password stays in what is shown of a URL, whatever is around it, nor in
 * what the etcd backend says of it; and a URL of the file backend names an
 * absolute path, or is refused.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../backends/etcdurl.h"
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

static void __attribute__((format(printf, 2, 3)))
check_error(const struct leaserun_host *host, const char *fmt, ...)
{
	char text[LEASERUN_ERROR_SIZE];
	va_list ap;

	(void)host;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fuzz_check(text[0] != '\0' && strstr(text, SECRET) == NULL);
}

static void
check_etcd(const char *url)
{
	struct leaserun_host host = { .error = check_error };
	struct leaserun_target target = { .url = url };
	struct etcdurl u;

	etcdurl_parse(&host, &target, &u);
	etcdurl_clear(&u);
}

/* In a password, whatever is not encoded in it, and in a parameter. */
static void
check_secrets(const char *before, const char *behind)
{
	const char *forms[] = {
		"postgres://user:%s" SECRET "%s@host/database",
		"etcds://user:%s" SECRET "%s@a:2379,b:2379/prefix",
		"postgres://host/database?user=u&password=%s" SECRET "%s",
		/* The host and the '@' were forgotten. */
		"etcd://user:%s" SECRET "%s/prefix",
	};
	char url[512];
	size_t i;

	if (strlen(before) + strlen(behind) > 256 ||
	    strstr(before, SECRET) != NULL || strstr(behind, SECRET) != NULL)
		return;
	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		/* What follows may be another parameter. */
		if (i == 2 && strchr(before, '&') != NULL)
			continue;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(url, sizeof(url), forms[i], before, behind);
#pragma GCC diagnostic pop
		check_etcd(url);
		if (i < 3)
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
