/* Text about a holder, for messages. */
#ifndef HOLDER_H
#define HOLDER_H

#include "../backends/leaserun-backend.h"

/* Whole seconds, or milliseconds below one; returns buf. */
const char *holder_duration(int64_t ms, char *buf, size_t size);

/* False: it has just taken the name, or goes; the token is the last one's. */
bool	 holder_is_known(const struct leaserun_entry *);

/*
 * "'LABEL' (host 'HOST', pid N, token N)", which stays true for a while; or
 * that the store does not tell.
 */
void	 holder_identify(const struct leaserun_entry *, char *text,
	    size_t size);

/* "'LABEL' (host 'HOST', pid N, token N) for 3m, free in at most 20s" */
void	 holder_describe(const struct leaserun_entry *, char *text,
	    size_t size);

#endif
