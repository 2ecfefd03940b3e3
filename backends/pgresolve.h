/*
 * Looks the name of a host up without ever blocking the caller for longer than
 * it wants.
 */
#ifndef PGRESOLVE_H
#define PGRESOLVE_H

#include "leaserun-backend.h"

#define PGRESOLVE_MAX	8		/* addresses of one name */
#define PGRESOLVE_SIZE	64		/* an address as text, with its zone */

struct pgresolve {
	char		addresses[PGRESOLVE_MAX][PGRESOLVE_SIZE];
	unsigned int	n;
};

/* A path, an abstract socket or an address: nothing to look up. */
bool	pgresolve_is_literal(const char *name);

/* OK with at least one address, INTERRUPTED, UNAVAILABLE with its text. */
enum leaserun_result pgresolve(const struct leaserun_host *, const char *name,
	    int64_t deadline, struct pgresolve *);

#endif
