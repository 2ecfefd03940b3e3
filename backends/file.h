/*
 * The backend that is part of the program.
 */
#ifndef FILE_H
#define FILE_H

#include <stdbool.h>

#include "leaserun-backend.h"

extern const struct leaserun_backend file_backend;

/*
 * What no other backend can do as cheaply: whether someone else has the lease,
 * or waits for it, which host->holder() is told.  False as well when that
 * cannot be told: acquire() says why.
 */
bool	 file_is_held(void *self, const char *name);

#endif
