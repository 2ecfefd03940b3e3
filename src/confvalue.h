/*
 * From the text of a value to a field of struct conf.
 */
#ifndef CONFVALUE_H
#define CONFVALUE_H

#include <stdbool.h>

#include "confkeys.h"

/* Why a value was refused: room for a value, redacted and cut, and a reason. */
#define KEY_WHY_SIZE	384

/*
 * Sets the field; value is NULL for a flag of the command line.  0, or -1 with
 * why ("'x' is not ...") and nothing set.
 */
int	 key_set(const struct key *, const char *value, struct conf *,
	    char why[KEY_WHY_SIZE]);

/* Whether key_set() would take the value. */
int	 key_check(const struct key *, const char *value,
	    char why[KEY_WHY_SIZE]);

/* True when the value is or has a password. */
bool	 key_has_password(const struct key *, const char *value);

/* Of KEY=VALUE: the one option that all backends have, and we read. */
bool	 is_keep(const char *value);

#endif
