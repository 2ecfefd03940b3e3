/*
 * Names of leases: any UTF-8 without control characters outside, portable
 * ASCII inside.  The encoding is injective, so two names never collide.
 */
#ifndef NAME_H
#define NAME_H

#include <stdbool.h>
#include <stddef.h>

/* True for valid UTF-8 (shortest form, no surrogates) without controls. */
bool	 text_is_clean(const char *text);

/*
 * Percent-encodes everything but letters, digits, '.', '_' and '-', and a dot
 * in front.  size bytes of room with the NUL.  NULL, or what is wrong with the
 * name as a phrase for an error message ("is empty").
 */
const char *name_encode(const char *name, char *encoded, size_t size);

/* The reverse, for people: 0, or -1 when it is not an encoded name. */
int	 name_decode(const char *encoded, char *name, size_t size);

#endif
