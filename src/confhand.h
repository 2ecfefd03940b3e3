/*
 * What a run and a leaserun inside its job say to each other: LEASERUN_CONFIG,
 * LEASERUN_OPTIONS, and LEASERUN_BACKEND, which has no password.
 */
#ifndef CONFHAND_H
#define CONFHAND_H

#include "conffile.h"

/*
 * Takes what LEASERUN_OPTIONS says, KEY=VALUE each line, over what is there.
 * 0, or -1 with *err.
 */
int	 conf_take_options(struct conf *, struct conf_error *err);

/*
 * Whether the two are the same URL but for the password, which only the first
 * one may have.
 */
bool	 conf_is_same_store(const char *url, const char *handed);

#endif
