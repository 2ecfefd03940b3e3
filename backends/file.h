/*
 * The backend that is part of the program.
 */
#ifndef FILE_H
#define FILE_H

#include "leaserun-backend.h"

extern const struct leaserun_backend file_backend;

/*
 * What no other backend can do as cheaply: HELD if someone else has the lease
 * or waits for it, which host->holder() is told, and DONE if the key of --once
 * is, too.  OK as well when that cannot be told: acquire() says why.
 */
enum leaserun_result file_refuses(void *self, const struct leaserun_request *);

#endif
