/*
 * Where the file backend keeps its files: the URL and the options.  Touches
 * nothing.
 */
#include <sys/types.h>

#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fileurl.h"

static char *
join(const char *dir, const char *rest)
{
	char *path;

	return asprintf(&path, "%s%s", dir, rest) == -1 ? NULL : path;
}

/* NULL when there is none, or no memory. */
static char *
default_path(void)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	struct passwd *pw;

	if (geteuid() == 0)
		return strdup("/var/lib/leaserun");
	/* A relative one is to be ignored, says the specification. */
	if (state != NULL && state[0] == '/')
		return join(state, "/leaserun");
	if (home == NULL && (pw = getpwuid(geteuid())) != NULL)
		home = pw->pw_dir;
	if (home == NULL || home[0] != '/')
		return NULL;
	return join(home, "/.local/state/leaserun");
}

static enum leaserun_result
parse_url(struct filedir *dir, const char *url)
{
	const char *path = url + strcspn(url, ":");
	size_t len;

	path += *path == ':';
	if (strncmp(path, "///", 3) == 0)
		path += 2;
	dir->is_default = *path == '\0';
	if (!dir->is_default && (path[0] != '/' || path[1] == '/')) {
		/* Relative to what?  Two directories would be two locks. */
		dir->host->error(dir->host, "'%s' names no absolute path on "
		    "this host; write file:/path/of/the/directory",
		    strncmp(path, "//", 2) == 0 && strchr(path, ':') != NULL ?
		    "file://***" : url);
		return LEASERUN_MISCONFIGURED;
	}
	dir->path = dir->is_default ? default_path() : strdup(path);
	if (dir->path == NULL) {
		dir->host->error(dir->host, "there is no home directory for "
		    "the locks; set HOME or give file:/path");
		return LEASERUN_MISCONFIGURED;
	}
	len = strlen(dir->path);
	while (len > 1 && dir->path[len - 1] == '/')
		dir->path[--len] = '\0';
	if (len + 1 + FILEDIR_FILE_SIZE > PATH_MAX) {
		dir->host->error(dir->host, "the path of the directory is too "
		    "long; choose a shorter one");
		return LEASERUN_MISCONFIGURED;
	}
	return LEASERUN_OK;
}

static enum leaserun_result
parse_option(struct filedir *dir, const struct leaserun_option *option)
{
	const struct leaserun_host *host = dir->host;

	if (strcmp(option->key, "allow-network-fs") != 0) {
		host->error(host, "the file backend has no option '%s', only "
		    "'allow-network-fs' and 'keep'", option->key);
		return LEASERUN_MISCONFIGURED;
	}
	dir->allow_network = strcmp(option->value, "yes") == 0;
	if (!dir->allow_network && strcmp(option->value, "no") != 0) {
		host->error(host, "option 'allow-network-fs' is 'yes' or 'no', "
		    "not '%s'", option->value);
		return LEASERUN_MISCONFIGURED;
	}
	return LEASERUN_OK;
}

enum leaserun_result
fileurl_parse(struct filedir *dir, const struct leaserun_target *target)
{
	enum leaserun_result result;
	size_t i;

	result = parse_url(dir, target->url);
	for (i = 0; result == LEASERUN_OK && i < target->noptions; i++)
		result = parse_option(dir, &target->options[i]);
	return result;
}
