/*
 * Looks the name of a host up without ever blocking the caller for longer than
 * it wants.
 */
#ifndef RESOLVE_H
#define RESOLVE_H

#include "leaserun-backend.h"

#define RESOLVE_MAX	8		/* addresses of one name */
#define RESOLVE_WHY_SIZE 400
#define RESOLVE_SIZE	64		/* an address as text, with its zone */

struct resolve {
	char		addresses[RESOLVE_MAX][RESOLVE_SIZE];
	unsigned int	n;
};

/* A path, an abstract socket or an address: nothing to look up. */
bool	resolve_is_literal(const char *name);

/* OK with at least one address, INTERRUPTED, UNAVAILABLE with why. */
enum leaserun_result resolve(const struct leaserun_host *, const char *name,
	    int64_t deadline, struct resolve *, char why[RESOLVE_WHY_SIZE]);

#endif
