/*
 * Reads the values of keys.  Must never know where a value came from, and never
 * let one that is out of range pass as something near it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "confvalue.h"
#include "name.h"
#include "timeutil.h"
#include "util.h"

#define LOWER		"abcdefghijklmnopqrstuvwxyz"
#define DIGITS		"0123456789"

static void *
field(const struct key *key, struct conf *conf)
{
	return (char *)conf + key->offset;
}

static void
set_text(const struct key *key, const char *value, struct conf *conf)
{
	char **text = field(key, conf);

	free(*text);
	*text = xstrdup(value);
}

/* Always -1.  The value is shown without its password, and cut. */
static int __attribute__((format(printf, 3, 4)))
refuse(char why[KEY_WHY_SIZE], const char *value, const char *fmt, ...)
{
	char *shown = url_redact(value), cut[200];
	va_list ap;
	int n;

	text_copy(cut, sizeof(cut), shown == NULL ? "" : shown);
	free(shown);
	n = snprintf(why, KEY_WHY_SIZE, "'%s' ", cut);
	va_start(ap, fmt);
	vsnprintf(why + n, KEY_WHY_SIZE - (size_t)n, fmt, ap);
	va_end(ap);
	return -1;
}

static int
parse_text(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	if (*value == '\0')
		return refuse(why, value, "is empty");
	set_text(key, value, conf);
	return 0;
}

static int
refuse_duration(const struct key *key, const char *value, const char *or_else,
    char why[KEY_WHY_SIZE])
{
	char min[32], max[32];

	duration_format(key->min, min, sizeof(min));
	duration_format(key->max, max, sizeof(max));
	if (errno == EINVAL)
		return refuse(why, value, "is not a duration such as 90, "
		    "500ms, 5m or 1h30m, from %s to %s%s", min, max, or_else);
	return refuse(why, value, "is not from %s to %s%s", min, max, or_else);
}

static int
read_duration(const struct key *key, const char *value, int64_t *ns)
{
	int64_t n;

	if (duration_parse(value, &n) == -1)
		return -1;
	if (n < key->min || n > key->max) {
		errno = ERANGE;
		return -1;
	}
	*ns = n;
	return 0;
}

static int
parse_duration(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	if (read_duration(key, value, field(key, conf)) == -1)
		return refuse_duration(key, value, "", why);
	return 0;
}

static int
parse_limit(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	int64_t *ns = field(key, conf);

	if (strcmp(value, "inf") == 0)
		*ns = TIME_NEVER;
	else if (read_duration(key, value, ns) == -1)
		return refuse_duration(key, value, ", or inf", why);
	return 0;
}

static int
parse_wait(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	if (parse_limit(key, value, conf, why) == -1)
		return -1;
	conf->wait_given = true;
	return 0;
}

/* *n from key->min to key->max. */
static int
read_number(const struct key *key, const char *value, uint64_t *n,
    char why[KEY_WHY_SIZE])
{
	uint64_t number;

	if (number_parse(value, (uint64_t)key->max, &number) == -1 ||
	    number < (uint64_t)key->min) {
		refuse(why, value, "is not a whole number from %" PRId64
		    " to %" PRId64, key->min, key->max);
		return -1;
	}
	*n = number;
	return 0;
}

static int
parse_int(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	int *number = field(key, conf);
	uint64_t n;

	if (read_number(key, value, &n, why) == -1)
		return -1;
	*number = (int)n;
	return 0;
}

static int
parse_number(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	return read_number(key, value, field(key, conf), why);
}

static int
parse_token(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	if (read_number(key, value, &conf->token, why) == -1)
		return -1;
	conf->token_given = true;
	return 0;
}

static int
parse_flag(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	(void)value;
	(void)why;
	*(bool *)field(key, conf) = true;
	return 0;
}

/* -v starts from what is usual, whatever a file or a -q before it says. */
static int
parse_verbose(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	uint64_t n;

	if (value == NULL) {
		if (conf->log_level < LOG_LEVEL_WARNING)
			conf->log_level = LOG_LEVEL_WARNING;
		if (conf->log_level < LOG_LEVEL_DEBUG)
			conf->log_level++;
		return 0;
	}
	if (read_number(key, value, &n, why) == -1)
		return -1;
	conf->log_level = (enum log_level)(LOG_LEVEL_WARNING + n);
	return 0;
}

static int
parse_quiet(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	(void)key;
	if (value == NULL || strcmp(value, "true") == 0)
		conf->log_level = LOG_LEVEL_ERROR;
	else if (strcmp(value, "false") != 0)
		return refuse(why, value, "is not true or false");
	else if (conf->log_level == LOG_LEVEL_ERROR)
		conf->log_level = LOG_LEVEL_WARNING;
	return 0;
}

static int
parse_backend(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	size_t n = strspn(value, LOWER DIGITS);

	if (n == 0 || value[n] != ':')
		return refuse(why, value, "is not a URL such as file:/path, "
		    "postgres://host/database or etcd://host");
	set_text(key, value, conf);
	return 0;
}

/* The place of an option given before, or a new one. */
static struct leaserun_option *
find_option(struct conf *conf, const char *key, size_t len)
{
	struct leaserun_option *options;
	size_t i;

	for (i = 0; i < conf->noptions; i++) {
		if (strncmp(conf->options[i].key, key, len) == 0 &&
		    conf->options[i].key[len] == '\0')
			return &conf->options[i];
	}
	options = xcalloc(conf->noptions + 1, sizeof(*options));
	if (conf->noptions > 0)
		memcpy(options, conf->options,
		    conf->noptions * sizeof(*options));
	free(conf->options);
	conf->options = options;
	return &options[conf->noptions++];
}

bool
is_keep(const char *value)
{
	return strncmp(value, "keep=", 5) == 0;
}

static int
parse_keep(const char *value, struct conf *conf, char why[KEY_WHY_SIZE])
{
	int64_t keep;

	if (duration_parse(value, &keep) == -1 || keep < NS_PER_S)
		return refuse(why, value, "is not a duration of at least 1s "
		    "such as 30d, for 'keep'");
	conf->once_keep = keep;
	return 0;
}

static int
parse_option(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	const char *equals = strchr(value, '=');
	struct leaserun_option *option;
	size_t n = strspn(value, LOWER DIGITS "-");

	(void)key;
	/* What it says may be a secret: only the key is shown. */
	if (equals == NULL || n == 0 || value + n != equals) {
		snprintf(why, KEY_WHY_SIZE, "'%.*s' is not KEY=VALUE with a "
		    "key of a-z, 0-9 and '-'", (int)strcspn(value, "=:"),
		    value);
		return -1;
	}
	if (strchr(equals, '\n') != NULL) {
		snprintf(why, KEY_WHY_SIZE, "'%.*s' has a line break in its "
		    "value", (int)n, value);
		return -1;
	}
	if (is_keep(value))
		return parse_keep(equals + 1, conf, why);
	option = find_option(conf, value, n);
	free((void *)(uintptr_t)option->key);
	free((void *)(uintptr_t)option->value);
	option->key = xasprintf("%.*s", (int)n, value);
	option->value = xstrdup(equals + 1);
	return 0;
}

static int
parse_leftovers(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	static const char *const words[] = {
		[LEFTOVERS_WAIT] = "wait",
		[LEFTOVERS_KILL] = "kill",
		[LEFTOVERS_LEAVE] = "leave",
	};
	unsigned int i;

	(void)key;
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(value, words[i]) == 0) {
			conf->leftovers = (enum conf_leftovers)i;
			return 0;
		}
	}
	return refuse(why, value, "is not wait, kill or leave");
}

static int
parse_notify(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	static const char *const words[] = {
		[NOTIFY_NO] = "no", [NOTIFY_READY] = "ready",
		[NOTIFY_STATUS] = "status",
	};
	size_t i;

	(void)key;
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(value, words[i]) == 0) {
			conf->notify = (enum conf_notify)i;
			return 0;
		}
	}
	return refuse(why, value, "is not no, ready or status");
}

static int
parse_log(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	if (strcmp(value, "stderr") != 0 && strcmp(value, "syslog") != 0)
		return refuse(why, value, "is not stderr or syslog");
	set_text(key, value, conf);
	return 0;
}

static int
parse_variable(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	size_t n = strspn(value, LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "_");

	if (n == 0 || value[n] != '\0' || (*value >= '0' && *value <= '9'))
		return refuse(why, value, "is not the name of a variable "
		    "(letters, digits and '_', no digit first)");
	if (strncmp(value, "LEASERUN_", 9) == 0)
		return refuse(why, value, "is reserved: LEASERUN_*");
	set_text(key, value, conf);
	return 0;
}

static int
parse_owner(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	size_t n = strlen(value);

	if (n == 0 || n >= LEASERUN_LABEL_SIZE)
		return refuse(why, value, "is %zu bytes long, not from 1 to %d",
		    n, LEASERUN_LABEL_SIZE - 1);
	if (!text_is_clean(value))
		return refuse(why, value,
		    "is not UTF-8 without control characters");
	set_text(key, value, conf);
	return 0;
}

static int
parse_once(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	char encoded[LEASERUN_KEY_SIZE];
	const char *wrong = name_encode(value, encoded, sizeof(encoded));

	if (wrong != NULL)
		return refuse(why, value, "%s", wrong);
	set_text(key, value, conf);
	return 0;
}

static int (*const parsers[])(const struct key *, const char *, struct conf *,
    char *) = {
	[KEY_TEXT] = parse_text,
	[KEY_DURATION] = parse_duration,
	[KEY_LIMIT] = parse_limit,
	[KEY_WAIT] = parse_wait,
	[KEY_INT] = parse_int,
	[KEY_NUMBER] = parse_number,
	[KEY_TOKEN] = parse_token,
	[KEY_FLAG] = parse_flag,
	[KEY_VERBOSE] = parse_verbose,
	[KEY_QUIET] = parse_quiet,
	[KEY_BACKEND] = parse_backend,
	[KEY_OPTION] = parse_option,
	[KEY_LEFTOVERS] = parse_leftovers,
	[KEY_NOTIFY] = parse_notify,
	[KEY_LOG] = parse_log,
	[KEY_VARIABLE] = parse_variable,
	[KEY_OWNER] = parse_owner,
	[KEY_ONCE] = parse_once,
};

int
key_set(const struct key *key, const char *value, struct conf *conf,
    char why[KEY_WHY_SIZE])
{
	return parsers[key->kind](key, value, conf, why);
}

int
key_check(const struct key *key, const char *value, char why[KEY_WHY_SIZE])
{
	struct conf scratch = { 0 };
	int rc = key_set(key, value, &scratch, why);

	conf_free(&scratch);
	return rc;
}

/* Of a URL, or of what looks like one, such as that of a proxy. */
static bool
shows_password(const char *url)
{
	char *shown = url_redact(url);
	bool has = shown == NULL || strcmp(shown, url) != 0;

	free(shown);
	return has;
}

/* With a slash too few or too many a user is still no password. */
static bool
url_has_password(const char *value)
{
	size_t n = strcspn(value, ":/");
	const char *rest = value + n + strspn(value + n, ":");
	char *url;
	bool has;

	if (strncmp(value, "file:", 5) == 0)
		return false;
	url = xasprintf("%.*s://%s", (int)n, value,
	    rest + strspn(rest, "/"));
	has = shows_password(url);
	free(url);
	return has;
}

/* "password-file" names a place, not a password. */
static bool
option_has_password(const char *option)
{
	size_t n = strcspn(option, "=");
	char *name = xasprintf("%.*s", (int)n, option);
	const char *value = option + n + (option[n] == '=');
	bool has = false;

	if (n < 4 || strcmp(name + n - 4, "file") != 0)
		has = strcasestr(name, "password") != NULL ||
		    strcasestr(name, "secret") != NULL ||
		    (*value != '/' && shows_password(value));
	free(name);
	return has;
}

bool
key_has_password(const struct key *key, const char *value)
{
	if (key->kind == KEY_BACKEND)
		return url_has_password(value);
	return key->kind == KEY_OPTION && option_has_password(value);
}
