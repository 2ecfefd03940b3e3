/*
 * The services of the program that a keeper's backend has: struct leaserun_host
 * on top of struct store.
 */
#ifndef STOREHOST_H
#define STOREHOST_H

#include <stdint.h>

#include "store.h"

/* How long a library may take beyond what it was given. */
#define STORE_CANCEL_BOUND	(2 * NS_PER_S)

/* Clears all of it, and makes it ready for plugin_open(). */
void	storehost_setup(struct store *, const struct keeper_setup *);

/*
 * The process ends if the library does not come back within the connect
 * timeout, counted from `from'; until signals_bound() says something else.
 */
void	storehost_bound(const struct store *, int64_t from);

/* The holder as it was told, and how long ago that is. */
struct leaserun_entry storehost_holder(const struct store *);

/* Waits until `at', or until there are events. */
void	storehost_pause(struct store *, int64_t at);

#endif
