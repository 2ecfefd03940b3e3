/*
 * Preparing the directory of the file backend, and the floor below which no
 * token is granted.
 */
#ifndef FILEADMIN_H
#define FILEADMIN_H

#include "filedir.h"

/* Where the lines of init and doctor go. */
struct filereport {
	const struct filedir *dir;
	leaserun_line_fn *fn;
	void	*arg;
};

void	 filesay(const struct filereport *, enum leaserun_verdict,
	    const char *what, const char *fmt, ...)
	    __attribute__((format(printf, 4, 5)));

/* The number at or below which no token is granted; 0 when there is none. */
enum leaserun_result fileadmin_floor(const struct filedir *, int dirfd,
	    uint64_t *floor);

/* As in struct leaserun_backend; self begins with a struct filedir. */
enum leaserun_result fileadmin_init(void *self, const struct leaserun_init *,
	    int64_t deadline, leaserun_line_fn *, void *arg);

#endif
