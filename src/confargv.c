/*
 * Reads the options of a command.  Must never look at what comes after the
 * first operand, nor take a word for an option that it only resembles.
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "confargv.h"
#include "confvalue.h"
#include "util.h"

#define FIRST_LONG	256	/* what getopt_long returns for long ones */
#define LETTERS_SIZE	(2 + 2 * KEYS_MAX + 1)

int
conf_usage(struct conf_error *err, const char *command, const char *fmt, ...)
{
	char text[sizeof(err->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return conf_fail(err, EXIT_USAGE, "%s: %s; see 'leaserun %s --help'",
	    command, text, command);
}

/* What getopt_long is to know; opts ends with zeros. */
static void
describe_options(enum conf_scope scope, struct option opts[KEYS_MAX],
    char letters[LETTERS_SIZE])
{
	const struct key *key;
	char *p = letters;

	/* Stop at the first operand; ':' when a value is missing. */
	*p++ = '+';
	*p++ = ':';
	for (key = conf_keys; key->name != NULL; key++) {
		if ((key->scope & scope) == 0)
			continue;
		*opts++ = (struct option){ key->name,
		    key->arg == NULL ? no_argument : required_argument, NULL,
		    FIRST_LONG + (int)(key - conf_keys) };
		if (key->letter != 0) {
			*p++ = key->letter;
			if (key->arg != NULL)
				*p++ = ':';
		}
	}
	*opts = (struct option){ NULL, 0, NULL, 0 };
	*p = '\0';
}

static const struct key *
key_of_letter(enum conf_scope scope, int letter)
{
	const struct key *key;

	for (key = conf_keys; key->name != NULL; key++) {
		if ((key->scope & scope) != 0 && key->letter != 0 &&
		    key->letter == letter)
			return key;
	}
	return NULL;
}

/* The key that a long option is, spelled whole. */
static const struct key *
key_of_word(enum conf_scope scope, const char *word)
{
	return key_of_command(scope, word + 2, strcspn(word + 2, "="));
}

/* For hands that are used to flock(1). */
static const char *
habit_hint(enum conf_scope scope, const char *option)
{
	static const char *const hints[][2] = {
		{ "-n", "without --wait a lease that is held is skipped" },
		{ "--nb", "without --wait a lease that is held is skipped" },
		{ "--nonblock", "without --wait a lease that is held is "
		    "skipped" },
		{ "-e", "each lease is exclusive" },
		{ "-x", "each lease is exclusive" },
		{ "--exclusive", "each lease is exclusive" },
		{ "-c", "for a shell write NAME -- sh -c 'COMMAND'" },
		{ "--command", "for a shell write NAME -- sh -c 'COMMAND'" },
	};
	size_t i;

	for (i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		if (scope == CONF_RUN && strcmp(option, hints[i][0]) == 0)
			return hints[i][1];
	}
	return NULL;
}

/* What getopt_long stopped at.  The value after '=' is left out. */
static int
refuse_word(enum conf_scope scope, const char *command, const char *word,
    int result, struct conf_error *err)
{
	const char *what, *hint;
	const struct key *key;
	char *name, *shown;

	if (strncmp(word, "--", 2) == 0) {
		key = key_of_word(scope, word);
		name = xasprintf("%.*s", (int)strcspn(word, "="), word);
	} else {
		key = key_of_letter(scope, optopt);
		name = optopt > ' ' && optopt <= '~' ?
		    xasprintf("-%c", optopt) : xstrdup(word);
	}
	what = key == NULL ? "unknown option" : result == ':' ?
	    "a value is needed after" : "no value is taken by";
	shown = url_redact(name);
	hint = key == NULL ? habit_hint(scope, name) : NULL;
	conf_usage(err, command, "%s '%.100s'%s%s", what,
	    shown == NULL ? "" : shown, hint == NULL ? "" : "; ",
	    hint == NULL ? "" : hint);
	free(shown);
	free(name);
	return -1;
}

static int
check_values(const struct settings *settings, const char *command,
    struct conf_error *err)
{
	char why[KEY_WHY_SIZE];
	size_t i;

	for (i = 0; i < settings->n; i++) {
		const struct setting *s = &settings->list[i];

		if (key_check(s->key, s->value, why) == -1)
			return conf_usage(err, command, "--%s: %s",
			    s->key->name, why);
	}
	return 0;
}

bool
operand_is_forgotten(int argc, char *argv[], int first)
{
	return strcmp(argv[first - 1], "--") == 0 &&
	    (first + 1 >= argc || strcmp(argv[first + 1], "--") != 0);
}

int
argv_read(enum conf_scope scope, int argc, char *argv[],
    struct settings *settings, bool *help, int *operands,
    struct conf_error *err)
{
	char letters[LETTERS_SIZE];
	struct option opts[KEYS_MAX];
	const struct key *key;
	int c, word;

	describe_options(scope, opts, letters);
	opterr = 0;
	optind = 0;		/* glibc and musl: start again */
	while (word = optind == 0 ? 1 : optind,
	    (c = getopt_long(argc, argv, letters, opts, NULL)) != -1) {
		if (c == '?' || c == ':')
			return refuse_word(scope, argv[0], argv[word], c, err);
		key = c < FIRST_LONG ? key_of_letter(scope, c) :
		    &conf_keys[c - FIRST_LONG];
		/* "--tt" would do for --ttl, until one day a --tty comes. */
		if (c >= FIRST_LONG && key_of_word(scope, argv[word]) != key)
			return refuse_word(scope, argv[0], argv[word], c, err);
		if (key->offset == offsetof(struct conf, help)) {
			*help = true;
			*operands = optind;
			return 0;
		}
		settings_add(settings, key, key->arg == NULL ? NULL : optarg,
		    NULL, 0);
	}
	*operands = optind;
	return check_values(settings, argv[0], err);
}
