/*
 * What an operator does to a store: revoke and init.
 */
#ifndef ETCDADMIN_H
#define ETCDADMIN_H

#include "etcdcall.h"

/* Where the lines of init and doctor go. */
struct etcdreport {
	leaserun_line_fn *fn;
	void	*arg;
};

void	etcdsay(const struct etcdreport *, enum leaserun_verdict,
	    const char *what, const char *fmt, ...)
	    __attribute__((format(printf, 4, 5)));

/* As in struct leaserun_backend. */
enum leaserun_result etcdadmin_revoke(void *self,
	    const struct leaserun_revoke *, int64_t deadline,
	    struct leaserun_entry *);
enum leaserun_result etcdadmin_init(void *self, const struct leaserun_init *,
	    int64_t deadline, leaserun_line_fn *, void *arg);

#endif
