/*
 * What a run hands on to its job, so that a leaserun in there finds the same
 * store, and what is taken from that.  Must never hand on a secret.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "confhand.h"
#include "confvalue.h"
#include "util.h"

/* The job may go elsewhere. */
static char *
make_absolute(const char *path)
{
	char *cwd, *absolute;

	if (*path == '/' || *path == '\0' || (cwd = getcwd(NULL, 0)) == NULL)
		return xstrdup(path);
	absolute = xasprintf("%s/%s", strcmp(cwd, "/") == 0 ? "" : cwd, path);
	free(cwd);
	return absolute;
}

/* Of which leaserun-backend(3) says that they name files. */
static bool
names_file(const char *key)
{
	static const char *const words[] = { "cacert", "cert", "file", "key" };
	size_t i, n = strlen(key);

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(key, words[i]) == 0)
			return true;
	}
	return n > 5 && strcmp(key + n - 5, "-file") == 0;
}

char *
conf_hand_config(const struct conf *conf)
{
	return conf->config == NULL ? NULL : make_absolute(conf->config);
}

char *
conf_hand_options(const struct conf *conf)
{
	const struct key *key = key_of_file("option");
	char *text = NULL, *value, *line, *longer;
	size_t i;

	for (i = 0; i < conf->noptions; i++) {
		value = names_file(conf->options[i].key) ?
		    make_absolute(conf->options[i].value) :
		    xstrdup(conf->options[i].value);
		line = xasprintf("%s=%s", conf->options[i].key, value);
		if (!key_has_password(key, line)) {
			longer = text == NULL ? xstrdup(line) :
			    xasprintf("%s\n%s", text, line);
			free(text);
			text = longer;
		}
		free(line);
		free(value);
	}
	return text;
}

int
conf_take_options(struct conf *conf, struct conf_error *err)
{
	const char *text = getenv("LEASERUN_OPTIONS");
	const struct key *key = key_of_file("option");
	char why[KEY_WHY_SIZE], *line;
	int number = 0, rc = 0;
	size_t len;

	for (; text != NULL && *text != '\0' && rc == 0; text += len) {
		number++;
		len = strcspn(text, "\n");
		line = xasprintf("%.*s", (int)len, text);
		len += text[len] == '\n';
		if (*line != '\0' && key_set(key, line, conf, why) == -1)
			rc = conf_fail(err, EXIT_CONFIG,
			    "LEASERUN_OPTIONS: line %d: %s", number, why);
		free(line);
	}
	return rc;
}

/* Without the password, and without the colon in front of none. */
static char *
plain_url(const char *url)
{
	char *plain = url_without_password(url), *p;

	if (plain != NULL && (p = strstr(plain, ":@")) != NULL)
		memmove(p, p + 1, strlen(p));
	return plain;
}

bool
conf_is_same_store(const char *url, const char *handed)
{
	char *a = plain_url(url), *b = plain_url(handed);
	bool same = a != NULL && b != NULL && strcmp(a, b) == 0 &&
	    !key_has_password(key_of_file("backend"), handed);

	free(a);
	free(b);
	return same;
}
