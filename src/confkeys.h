/*
 * The table of keys: what options and keys there are, where each is taken, and
 * what its values may be.
 */
#ifndef CONFKEYS_H
#define CONFKEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"

#define KEYS_MAX	48

enum key_kind {
	KEY_TEXT,
	KEY_DURATION,
	KEY_LIMIT,
	KEY_WAIT,
	KEY_INT,
	KEY_NUMBER,
	KEY_TOKEN,
	KEY_FLAG,
	KEY_VERBOSE,
	KEY_QUIET,
	KEY_BACKEND,
	KEY_OPTION,
	KEY_LEFTOVERS,
	KEY_NOTIFY,
	KEY_LOG,
	KEY_VARIABLE,
	KEY_OWNER,
	KEY_ONCE
};

struct key {
	const char	*name;
	char		 letter;	/* 0: none */
	const char	*arg;		/* placeholder; NULL: a flag */
	unsigned int	 scope;		/* commands that take it */
	bool		 in_file;	/* a key of the files too: of one name
					 * at most one is */
	enum key_kind	 kind;
	size_t		 offset;	/* of the field in struct conf */
	int64_t		 min, max;
	const char	*help;
};

/* Ends with a name of NULL. */
extern const struct key conf_keys[];

/* NULL when there is none; the name of a command's key is not terminated. */
const struct key *key_of_command(enum conf_scope, const char *name, size_t);
const struct key *key_of_file(const char *name);

#endif
