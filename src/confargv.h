/*
 * The options of one command out of argv.
 */
#ifndef CONFARGV_H
#define CONFARGV_H

#include "conffile.h"

/*
 * Adds the options in their order, every value checked.  Of *conf only help and
 * is_dashed are set; help: it was asked for, and nothing after it was looked
 * at, no value checked.  *operands: index of the first operand.  0, or -1 with
 * *err.
 */
int	 argv_read(enum conf_scope, int argc, char *argv[], struct settings *,
	    struct conf *, int *operands, struct conf_error *err);

/* Fills in *err, with EXIT_USAGE and where to read more.  Always -1. */
int	 conf_usage(struct conf_error *err, const char *command,
	    const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
