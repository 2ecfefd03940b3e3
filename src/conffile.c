/*
 * Reads one configuration file with libconfuse.  Must never take a file that
 * others may change, nor drop any part of one without a word.
 */
#include <sys/stat.h>

#include <confuse.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conffile.h"
#include "confscan.h"
#include "confvalue.h"
#include "timeutil.h"
#include "util.h"

#define FILE_MAX	(1024 * 1024)

/* What is being read. */
struct source {
	const char	*path;
	struct stat	 st;
	struct settings	*settings;
	struct conf_error *err;
	bool		 failed;	/* *err is filled in */
	int		 line;		/* what libconfuse said last */
	char		 said[200];
};

/* libconfuse hands no pointer of ours to its callbacks. */
static struct source *current;

int
conf_fail(struct conf_error *err, int status, const char *fmt, ...)
{
	va_list ap;

	err->status = status;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return -1;
}

void
settings_add(struct settings *settings, const struct key *key,
    const char *value, const char *job, int line)
{
	struct setting *list;

	/* Grown by doubling: at 0, 8, 16, 32 ... it is full. */
	if ((settings->n & (settings->n - 1)) == 0 &&
	    (settings->n == 0 || settings->n >= 8)) {
		list = xcalloc(settings->n == 0 ? 8 : settings->n * 2,
		    sizeof(*list));
		if (settings->n > 0)
			memcpy(list, settings->list,
			    settings->n * sizeof(*list));
		free(settings->list);
		settings->list = list;
	}
	settings->list[settings->n++] = (struct setting){
		.key = key,
		.value = value == NULL ? NULL : xstrdup(value),
		.job = job == NULL ? NULL : xstrdup(job),
		.line = line,
	};
}

void
settings_clear(struct settings *settings)
{
	size_t i;

	for (i = 0; i < settings->n; i++) {
		free(settings->list[i].value);
		free(settings->list[i].job);
	}
	free(settings->list);
	settings->list = NULL;
	settings->n = 0;
}

/* Always -1, for a callback to return.  The first failure is what counts. */
static int __attribute__((format(printf, 3, 4)))
file_fail(struct source *source, int line, const char *fmt, ...)
{
	char text[sizeof(source->err->text)];
	va_list ap;

	if (source->failed)
		return -1;
	source->failed = true;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (line == 0)
		return conf_fail(source->err, EXIT_CONFIG, "%s: %s",
		    source->path, text);
	return conf_fail(source->err, EXIT_CONFIG, "%s:%d: %s",
	    source->path, line, text);
}

/* The file in memory with a NUL added, or NULL; never of no size. */
static char *
read_all(struct source *source, int fd, size_t *size)
{
	size_t most = (size_t)source->st.st_size, n = 0;
	ssize_t got;
	char *text;

	if (most > FILE_MAX) {
		file_fail(source, 0, "is larger than 1 MiB");
		return NULL;
	}
	text = xcalloc(most + 2, 1);
	do {
		got = read(fd, text + n, most + 1 - n);
		if (got > 0)
			n += (size_t)got;
	} while (n <= most && (got > 0 || (got == -1 && errno == EINTR)));
	if (got == -1)
		file_fail(source, 0, "cannot be read: %s", strerror(errno));
	else if (n > most)
		file_fail(source, 0, "has grown while it was read");
	else if (memchr(text, '\0', n) != NULL)
		file_fail(source, 0, "has a NUL byte, it is not a text");
	else {
		if (n == 0)
			text[n++] = '\n';
		*size = n;
		return text;
	}
	free(text);
	return NULL;
}

static int
check_owner(struct source *source)
{
	const struct stat *st = &source->st;

	if (!S_ISREG(st->st_mode))
		return file_fail(source, 0, "is not a regular file");
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return file_fail(source, 0, "belongs to uid %u, neither to "
		    "root nor to you; run: chown %u '%s'",
		    (unsigned int)st->st_uid, (unsigned int)geteuid(),
		    source->path);
	if ((st->st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return file_fail(source, 0, "others may write to it; run: "
		    "chmod go-w '%s'", source->path);
	return 0;
}

static int
check_passwords(struct source *source)
{
	size_t i;

	if ((source->st.st_mode & S_IROTH) == 0)
		return 0;
	for (i = 0; i < source->settings->n; i++) {
		const struct setting *s = &source->settings->list[i];

		if (key_has_password(s->key, s->value))
			return file_fail(source, s->line, "holds a password, "
			    "and others may read the file; run: chmod o-r '%s'",
			    source->path);
	}
	return 0;
}

/* "10 m": the unit is taken for the next key. */
static bool
is_unit(const char *word, char *said, size_t size)
{
	const struct settings *settings = current->settings;
	const struct setting *last;
	char *joined;
	int64_t ns;
	bool is;

	if (settings->n == 0)
		return false;
	last = &settings->list[settings->n - 1];
	if (last->key->kind != KEY_DURATION && last->key->kind != KEY_LIMIT &&
	    last->key->kind != KEY_WAIT)
		return false;
	joined = xasprintf("%s%s", last->value, word);
	is = duration_parse(joined, &ns) == 0;
	if (is)
		snprintf(said, size, "unknown key '%s'; a duration is one "
		    "word, write %s = %s", word, last->key->name, joined);
	free(joined);
	return is;
}

/* A word that stands here, or right behind, may be a piece of a password. */
static bool
may_be_secret(const cfg_t *cfg)
{
	const struct settings *settings = current->settings;
	const struct setting *last;

	if (cfg->name != NULL && strcmp(cfg->name, "option") == 0)
		return true;
	if (settings->n == 0)
		return false;
	last = &settings->list[settings->n - 1];
	return last->key->kind == KEY_BACKEND && last->line == cfg->line;
}

/*
 * What libconfuse says.  It may go on after that: every key of an `option'
 * section is one that it does not know.
 */
static void __attribute__((format(printf, 2, 0)))
on_error(cfg_t *cfg, const char *fmt, va_list ap)
{
	bool is_unknown = strcmp(fmt, "no such option '%s'") == 0;
	bool is_mark = strcmp(fmt, "unexpected token '%s'") == 0;
	va_list word;

	if (is_unknown)
		fmt = "unknown key '%s'";
	else if (is_mark)
		fmt = "unexpected '%s', quotes may be missing";
	current->line = cfg->line;
	va_copy(word, ap);
	vsnprintf(current->said, sizeof(current->said), fmt, ap);
	if (is_unknown && is_unit(va_arg(word, const char *), current->said,
	    sizeof(current->said))) {
		va_end(word);
		return;
	}
	va_end(word);
	/* An address that lacks its quotes may come here in pieces. */
	if (strchr(current->said, '@') != NULL ||
	    strstr(current->said, "//") != NULL ||
	    (!is_mark && may_be_secret(cfg)))
		strcpy(current->said, "syntax error, quotes may be missing");
}

static int
add(const char *job, const struct key *key, const char *value, int line)
{
	char why[KEY_WHY_SIZE];

	if (key_check(key, value, why) == -1)
		return file_fail(current, line, "%s: %s", key->name, why);
	settings_add(current->settings, key, value, job, line);
	return 0;
}

/* A value was read, and is kept by libconfuse as it is. */
static int
on_value(cfg_t *cfg, cfg_opt_t *opt, const char *value, void *result)
{
	/* Under a quoted name such as "job=a|ttl" it finds keys elsewhere. */
	if (opt < cfg->opts || opt >= cfg->opts + cfg_num(cfg))
		return file_fail(current, cfg->line, "a key is misspelled");
	*(const char **)result = value;
	return add(cfg_title(cfg), key_of_file(opt->name), value, cfg->line);
}

/* An `option' section ends; cfg is what it stands in. */
static int
on_options(cfg_t *cfg, cfg_opt_t *opt)
{
	cfg_t *section = cfg_opt_getnsec(opt, 0);
	const char *name;
	unsigned int i;
	char *text;
	int rc = 0;

	current->said[0] = '\0';
	for (i = 0; i < cfg_num(section) && rc == 0; i++) {
		name = cfg_opt_name(cfg_getnopt(section, i));
		if (strchr(name, '=') != NULL)
			return file_fail(current, cfg->line,
			    "option: a key cannot have '='");
		text = xasprintf("%s=%s", name,
		    cfg_opt_getnstr(cfg_getnopt(section, i), 0));
		rc = add(cfg_title(cfg), key_of_file("option"), text,
		    cfg->line);
		free(text);
	}
	return rc;
}

/* The keys of the table that files have; returns how many. */
static size_t
describe_keys(cfg_opt_t *opts, cfg_opt_t *no_opts)
{
	const struct key *key;
	size_t n = 0;

	for (key = conf_keys; key->name != NULL; key++) {
		if (!key->in_file)
			continue;
		if (key->kind == KEY_OPTION) {
			opts[n] = (cfg_opt_t)CFG_SEC("option", no_opts,
			    CFGF_KEYSTRVAL);
			opts[n].validcb = on_options;
		} else
			opts[n] = (cfg_opt_t)CFG_STR_CB(key->name, NULL,
			    CFGF_NODEFAULT, on_value);
		n++;
	}
	opts[n] = (cfg_opt_t)CFG_END();
	return n;
}

static int
parse(struct source *source, char *text, size_t size)
{
	cfg_opt_t no_opts[] = { CFG_END() };
	cfg_opt_t in_job[KEYS_MAX + 1], top[KEYS_MAX + 2];
	FILE *fp = NULL;
	cfg_t *cfg;
	size_t n;

	describe_keys(in_job, no_opts);
	n = describe_keys(top, no_opts);
	top[n++] = (cfg_opt_t)CFG_SEC("job", in_job, CFGF_MULTI | CFGF_TITLE);
	top[n] = (cfg_opt_t)CFG_END();

	current = source;
	cfg = cfg_init(top, CFGF_NONE);
	if (cfg != NULL && (fp = fmemopen(text, size, "r")) != NULL) {
		cfg_set_error_function(cfg, on_error);
		if (cfg_parse_fp(cfg, fp) != CFG_SUCCESS)
			file_fail(source, source->said[0] == '\0' ?
			    cfg->line : source->line, "%s",
			    source->said[0] == '\0' ? "syntax error" :
			    source->said);
	} else
		file_fail(source, 0, "cannot be read: %s", strerror(errno));
	if (fp != NULL)
		fclose(fp);
	if (cfg != NULL)
		cfg_free(cfg);
	current = NULL;
	return source->failed ? -1 : 0;
}

int
conffile_read(const char *path, bool must_exist, struct settings *settings,
    struct conf_error *err)
{
	struct settings found = { NULL, 0 };
	struct source source = { .path = path, .settings = &found, .err = err };
	char *text = NULL;
	size_t size, i;
	char why[CONFSCAN_WHY_SIZE];
	int fd, line, rc = -1;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd == -1) {
		if ((errno == ENOENT || errno == ENOTDIR) && !must_exist)
			return 0;
		return file_fail(&source, 0, "cannot be opened: %s%s",
		    strerror(errno), errno != EACCES ? "" :
		    "; have it readable for a group that you are in (chgrp "
		    "GROUP, chmod 640), or name another file with --config");
	}
	if (fstat(fd, &source.st) == -1) {
		file_fail(&source, 0, "cannot be read: %s", strerror(errno));
		goto out;
	}
	if (check_owner(&source) == -1 ||
	    (text = read_all(&source, fd, &size)) == NULL)
		goto out;
	if ((line = confscan(text, why)) != 0) {
		file_fail(&source, line, "%s", why);
		goto out;
	}
	/* Comments are blank by now, and there may be nothing else. */
	if (text[strspn(text, " \t\r\n")] == '\0') {
		rc = 0;
		goto out;
	}
	if (parse(&source, text, size) == -1 ||
	    check_passwords(&source) == -1)
		goto out;
	for (i = 0; i < found.n; i++)
		settings_add(settings, found.list[i].key, found.list[i].value,
		    found.list[i].job, found.list[i].line);
	rc = 0;
out:
	settings_clear(&found);
	free(text);
	close(fd);
	return rc;
}
