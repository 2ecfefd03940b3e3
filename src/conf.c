/*
 * What the user asked for: built-in values, files, environment and command
 * line, in that order.  Must never let a lower one win over a higher one, and
 * never print; the words of each key are in confkeys.c and confvalue.c.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"
#include "confargv.h"
#include "conffile.h"
#include "confhand.h"
#include "confvalue.h"
#include "name.h"
#include "timeutil.h"
#include "util.h"

#ifndef SYSCONFDIR
#define SYSCONFDIR	"/etc"
#endif

/* Where a value came from; a file has one each of its three. */
enum layer {
	LAYER_BUILT_IN,
	LAYER_FILES,
	LAYER_ENVIRONMENT = 100,
	LAYER_ARGV
};

struct load {
	struct conf	*conf;
	struct conf_error *err;
	enum conf_scope	 scope;
	const char	*command;	/* argv[0] */
	const char	*job;		/* whose blocks count; may be NULL */
	struct settings	 argv;
	struct settings	 options;	/* of the files; job: the URL that each
					 * was written for, if one was named */
	unsigned int	 layer[KEYS_MAX];	/* by key, what set it */
	unsigned int	 files;		/* layers used by files so far */
	char		*known;		/* LEASERUN_BACKEND as a file has it,
					 * with its password; NULL: in none */
};

static void
set_defaults(struct conf *conf, enum conf_scope scope)
{
	*conf = (struct conf){
		.backend = xstrdup("file:"),
		.ttl = 60 * NS_PER_S,
		.wait = scope == CONF_FENCE ? 10 * NS_PER_S : 0,
		.connect_timeout = 10 * NS_PER_S,
		.once_keep = 30 * 86400 * NS_PER_S,
		.conflict_exit_code = EXIT_HELD,
		.lost_exit_code = EXIT_LOST,
		.max_run = TIME_NEVER,
		.leftovers = LEFTOVERS_WAIT,
		.complain_after = TIME_NEVER,
		.log = xstrdup("stderr"),
		.log_level = LOG_LEVEL_WARNING,
	};
}

static void
set_layer(struct load *load, const struct key *key, unsigned int layer)
{
	load->layer[key - conf_keys] = layer;
}

static unsigned int
layer_of(const struct load *load, const char *name)
{
	return load->layer[key_of_file(name) - conf_keys];
}

/* What was checked before: it may be a key of other commands only. */
static void
apply(struct load *load, const struct setting *s, unsigned int layer)
{
	char why[KEY_WHY_SIZE];

	if ((s->key->scope & load->scope) == 0)
		return;
	key_set(s->key, s->value, load->conf, why);
	set_layer(load, s->key, layer);
}

/* How specific a setting is for the job: 0 not at all, then its order. */
static unsigned int
rank(const struct setting *s, const char *job)
{
	if (s->job == NULL)
		return 1;
	if (job == NULL)
		return 0;
	if (strcmp(s->job, job) == 0)
		return 3;
	/* '*' matches '/' and a dot in front; a backslash is itself. */
	return fnmatch(s->job, job, FNM_NOESCAPE) == 0 ? 2 : 0;
}

/*
 * What is equally strong in a file.  Whose the options are is known when the
 * other keys have been read, and if they count, at the very end.
 */
static void
apply_rank(struct load *load, const struct settings *settings, unsigned int r)
{
	const struct setting *s;
	const char *url;
	size_t i;

	for (i = 0; i < settings->n; i++) {
		s = &settings->list[i];
		if (s->key->kind != KEY_OPTION && rank(s, load->job) == r)
			apply(load, s, LAYER_FILES + load->files);
	}
	url = layer_of(load, "backend") == LAYER_BUILT_IN ? NULL :
	    load->conf->backend;
	for (i = 0; i < settings->n; i++) {
		s = &settings->list[i];
		if (s->key->kind == KEY_OPTION && rank(s, load->job) == r)
			settings_add(&load->options, s->key, s->value, url,
			    s->line);
	}
	load->files++;
}

/* The store that an outer run has handed on may be that of another job. */
static void
find_known(struct load *load, const struct settings *settings)
{
	const char *backend = getenv("LEASERUN_BACKEND");
	size_t i;

	for (i = 0; backend != NULL && i < settings->n; i++) {
		const struct setting *s = &settings->list[i];

		if (s->key->kind == KEY_BACKEND &&
		    conf_is_same_store(s->value, backend)) {
			free(load->known);
			load->known = xstrdup(s->value);
		}
	}
}

/* A later file wins over an earlier one, whatever its blocks are. */
static int
apply_file(struct load *load, const char *path, bool must_exist)
{
	struct settings settings = { NULL, 0 };
	unsigned int r;

	if (conffile_read(path, must_exist, &settings, load->err) == -1)
		return -1;
	for (r = 1; r <= 3; r++)
		apply_rank(load, &settings, r);
	find_known(load, &settings);
	settings_clear(&settings);
	return 0;
}

/* The file of the user, or NULL when there is no place for it. */
static char *
user_file(void)
{
	const char *dir = getenv("XDG_CONFIG_HOME");

	/* The specification has relative ones ignored. */
	if (dir != NULL && *dir == '/')
		return xasprintf("%s/leaserun.conf", dir);
	dir = getenv("HOME");
	if (dir != NULL && *dir == '/')
		return xasprintf("%s/.config/leaserun.conf", dir);
	return NULL;
}

static int
apply_default_files(struct load *load)
{
	char *path;
	int rc;

	if (apply_file(load, SYSCONFDIR "/leaserun.conf", false) == -1)
		return -1;
	if ((path = user_file()) == NULL)
		return 0;
	rc = apply_file(load, path, false);
	free(path);
	return rc;
}

/* --config and LEASERUN_CONFIG replace the usual files. */
static int
apply_files(struct load *load)
{
	const char *path = getenv("LEASERUN_CONFIG");
	size_t i;

	if (path != NULL && *path == '\0')
		return conf_fail(load->err, EXIT_CONFIG,
		    "LEASERUN_CONFIG: is set but empty; unset it or name a "
		    "file");
	for (i = 0; i < load->argv.n; i++) {
		if (load->argv.list[i].key->offset ==
		    offsetof(struct conf, config))
			path = load->argv.list[i].value;
	}
	return path == NULL ? apply_default_files(load) :
	    apply_file(load, path, true);
}

static bool
is_in_argv(const struct load *load, const struct key *key)
{
	size_t i;

	for (i = 0; i < load->argv.n; i++) {
		if (load->argv.list[i].key == key)
			return true;
	}
	return false;
}

static int
apply_environment(struct load *load)
{
	const char *backend = getenv("LEASERUN_BACKEND"), *value = backend;
	const struct key *key = key_of_file("backend");
	char why[KEY_WHY_SIZE];

	if (backend == NULL)
		return 0;
	if (*backend == '\0')
		return conf_fail(load->err, EXIT_CONFIG,
		    "LEASERUN_BACKEND: is set but empty; unset it or give a "
		    "URL");
	if (conf_is_same_store(load->conf->backend, backend))
		value = load->conf->backend;
	else if (load->known != NULL)
		value = load->known;
	if (value != load->conf->backend &&
	    key_set(key, value, load->conf, why) == -1)
		return conf_fail(load->err, EXIT_CONFIG,
		    "LEASERUN_BACKEND: %s", why);
	set_layer(load, key, LAYER_ENVIRONMENT);
	return 0;
}

/* etcd: and etcds: are one kind of store, postgres: and postgresql: too. */
static bool
is_same_kind(const char *a, const char *b)
{
	size_t n = strcspn(a, ":"), m = strcspn(b, ":");

	return strncmp(a, b, n < m ? n : m) == 0;
}

/* Those for another kind of store than the one in effect are left out. */
static void
apply_options(struct load *load)
{
	const struct setting *s = load->options.list;
	const char *url = load->conf->backend;
	size_t i;

	for (i = 0; i < load->argv.n; i++) {
		if (load->argv.list[i].key->kind == KEY_BACKEND)
			url = load->argv.list[i].value;
	}
	for (i = 0; i < load->options.n; i++, s++) {
		if (s->job == NULL || is_keep(s->value) ||
		    is_same_kind(s->job, url))
			apply(load, s, LAYER_FILES);
	}
}

static void
apply_argv(struct load *load)
{
	const struct setting *s = load->argv.list;
	size_t i;

	for (i = 0; i < load->argv.n; i++, s++) {
		/* -v counts from the usual level, not from that of a file. */
		if (s->key->kind == KEY_VERBOSE &&
		    layer_of(load, "verbose") != LAYER_ARGV)
			load->conf->log_level = LOG_LEVEL_WARNING;
		if (s->value != NULL && key_has_password(s->key, s->value))
			load->conf->password_in_argv = true;
		apply(load, s, LAYER_ARGV);
	}
}

/* For what is wrong with several values together. */
static int
fail_together(struct load *load, unsigned int layer, const char *text)
{
	if (layer == LAYER_ARGV)
		return conf_usage(load->err, load->command, "%s", text);
	return conf_fail(load->err, EXIT_CONFIG, "configuration: %s", text);
}

static unsigned int
max(unsigned int a, unsigned int b)
{
	return a > b ? a : b;
}

/* The one that was set by a higher layer counts. */
static int
resolve_once(struct load *load)
{
	unsigned int key = layer_of(load, "once");
	unsigned int per = layer_of(load, "once-per");
	struct conf *conf = load->conf;

	if (key == LAYER_BUILT_IN || per == LAYER_BUILT_IN)
		return 0;
	if (key == per)
		return fail_together(load, key,
		    "once and once-per exclude each other");
	if (key > per)
		conf->once_per = 0;
	else {
		free(conf->once);
		conf->once = NULL;
	}
	return 0;
}

static int
resolve_schedule(struct load *load)
{
	struct conf *conf = load->conf;
	struct schedule s;
	char ttl[32], renew[32], grace[32], margin[32], sum[32], text[240];

	if (layer_of(load, "renew-every") == LAYER_BUILT_IN)
		conf->renew_every = conf->ttl / 3;
	if (layer_of(load, "grace") == LAYER_BUILT_IN)
		conf->grace = conf->ttl / 6 < 10 * NS_PER_S ? conf->ttl / 6 :
		    10 * NS_PER_S;
	s = (struct schedule){ conf->ttl, conf->renew_every, conf->grace };
	if (schedule_fits(&s))
		return 0;
	duration_format(s.ttl, ttl, sizeof(ttl));
	duration_format(s.renew_every, renew, sizeof(renew));
	duration_format(s.grace, grace, sizeof(grace));
	duration_format(schedule_margin(s.ttl), margin, sizeof(margin));
	duration_format(time_add(time_add(s.renew_every, s.renew_every),
	    time_add(s.grace, schedule_margin(s.ttl))), sum, sizeof(sum));
	snprintf(text, sizeof(text), "2 x renew-every (%s) + grace (%s) + "
	    "margin (%s) = %s, more than the ttl (%s)", renew, grace, margin,
	    sum, ttl);
	return fail_together(load, max(layer_of(load, "ttl"),
	    max(layer_of(load, "renew-every"), layer_of(load, "grace"))),
	    text);
}

static void
resolve_owner(struct conf *conf)
{
	char name[LEASERUN_LABEL_SIZE], host[256];
	char *p;

	if (conf->owner != NULL)
		return;
	if (gethostname(host, sizeof(host)) == -1 || host[0] == '\0')
		strcpy(host, "localhost");
	host[sizeof(host) - 1] = '\0';
	text_copy(name, sizeof(name), host);
	/* Not the name of a host anywhere, and not to be printed. */
	for (p = name; !text_is_clean(name) && *p != '\0'; p++) {
		if (*p < ' ' || *p > '~')
			*p = '?';
	}
	conf->owner = xstrdup(name);
}

/* Whose job blocks count.  Status with several names asks for each again. */
static const char *
find_job(enum conf_scope scope, int argc, char *argv[], int operands)
{
	if (operands >= argc ||
	    (scope & (CONF_RUN | CONF_CHECK | CONF_REVOKE | CONF_STATUS)) == 0)
		return NULL;
	if (scope == CONF_STATUS && argc - operands > 1)
		return NULL;
	return argv[operands];
}

static int
load_all(struct load *load)
{
	/* Fence has no store, and no need of a configuration. */
	if (key_of_command(load->scope, "config", 6) != NULL &&
	    (apply_files(load) == -1 || apply_environment(load) == -1))
		return -1;
	apply_options(load);
	/* Those of the environment belong to the backend beside them. */
	if (layer_of(load, "backend") == LAYER_ENVIRONMENT &&
	    !is_in_argv(load, key_of_file("backend")) &&
	    conf_take_options(load->conf, load->err) == -1)
		return -1;
	apply_argv(load);
	resolve_owner(load->conf);
	if (load->scope == CONF_RUN && (resolve_once(load) == -1 ||
	    resolve_schedule(load) == -1))
		return -1;
	return 0;
}

int
conf_load(struct conf *conf, enum conf_scope scope, int argc, char *argv[],
    int *operands, struct conf_error *err)
{
	struct load load = {
		.conf = conf,
		.err = err,
		.scope = scope,
		.command = argv[0],
	};
	int rc;

	set_defaults(conf, scope);
	rc = argv_read(scope, argc, argv, &load.argv, &conf->help, operands,
	    err);
	if (rc == 0 && !conf->help) {
		load.job = find_job(scope, argc, argv, *operands);
		rc = load_all(&load);
	}
	settings_clear(&load.argv);
	settings_clear(&load.options);
	free(load.known);
	if (rc == -1)
		conf_free(conf);
	return rc;
}

void
conf_free(struct conf *conf)
{
	char **const texts[] = { &conf->backend, &conf->once,
	    &conf->token_env, &conf->owner, &conf->events, &conf->metrics,
	    &conf->log, &conf->config, &conf->module_dir };
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		free(*texts[i]);
		*texts[i] = NULL;
	}
	for (i = 0; i < conf->noptions; i++) {
		free((void *)(uintptr_t)conf->options[i].key);
		free((void *)(uintptr_t)conf->options[i].value);
	}
	free(conf->options);
	conf->options = NULL;
	conf->noptions = 0;
}
