/*
 * One configuration file: opened, checked, and turned into a list of settings.
 */
#ifndef CONFFILE_H
#define CONFFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "confkeys.h"

/* KEY = VALUE as it stands somewhere; the strings are owned. */
struct setting {
	const struct key *key;
	char		*value;		/* "KEY=VALUE" for an option, NULL for
					 * a flag of the command line */
	char		*job;		/* title of its job block, or NULL */
	int		 line;
};

struct settings {
	struct setting	*list;
	size_t		 n;
};

/* Copies the strings. */
void	 settings_add(struct settings *, const struct key *, const char *value,
	    const char *job, int line);

void	 settings_clear(struct settings *);

/*
 * Adds what is in the file, in its order, every value checked.  0, or -1 with
 * *err: the file is refused as a whole.  A file that is not there is empty,
 * unless it must exist.
 */
int	 conffile_read(const char *path, bool must_exist, struct settings *,
	    struct conf_error *err);

/* Fills in *err.  Always -1. */
int	 conf_fail(struct conf_error *err, int status, const char *fmt, ...)
	    __attribute__((format(printf, 3, 4)));

#endif
