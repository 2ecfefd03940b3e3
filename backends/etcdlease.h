/*
 * Leases of etcd: their numbers come from the owner, so that each request may
 * be repeated, and everything can be given up by owner alone.
 */
#ifndef ETCDLEASE_H
#define ETCDLEASE_H

#include "etcdkeys.h"

/* What etcd takes for a lease, in seconds; in nanoseconds it has room. */
#define ETCDLEASE_MAX_S	INT64_C(9000000000)

/* The lease of an owner, of its --min-hold, and of its record of --once. */
int64_t	etcdlease_id(const char *owner);
int64_t	etcdlease_hold_id(const char *owner);
int64_t	etcdlease_once_id(const char *owner);

/* Whole seconds, rounded up. */
int64_t	etcdlease_seconds(int64_t ns);

/* *ttl_s is what was granted; 0: there is such a lease already. */
enum leaserun_result etcdlease_grant(struct etcd *, int64_t id,
	    int64_t ask_s, int64_t deadline, int64_t *ttl_s);

/* Grants, or finds what was granted before and keeps it, from *sent_ns on. */
enum leaserun_result etcdlease_get(struct etcd *, int64_t id, int64_t ask_s,
	    int64_t deadline, int64_t *sent_ns, int64_t *ttl_s);

/* *ttl_s: it lasts so long from now on; 0: there is no such lease. */
enum leaserun_result etcdlease_renew(struct etcd *, int64_t id,
	    int64_t deadline, int64_t *ttl_s);

/*
 * Keeps the lease of an owner alive, from *sent_ns on, and then looks who has
 * the name.  OK: both are of one leader, or the name is not bound to that
 * lease; *ttl_s as above.  The view is to be cleared whatever comes.
 */
enum leaserun_result etcdlease_confirm(struct etcd *, const char *name,
	    const char *owner, int64_t deadline, int64_t *sent_ns,
	    int64_t *ttl_s, struct etcdview *);
/* The name is bound to the lease of that owner. */
bool	etcdlease_has(const struct etcdview *, const char *owner);

/* *left_ms rounded up, *granted_s; -1 and 0: there is no such lease. */
enum leaserun_result etcdlease_left(struct etcd *, int64_t id,
	    int64_t deadline, int64_t *left_ms, int64_t *granted_s);

/* OK also when there was none; what is bound to it goes with it. */
enum leaserun_result etcdlease_revoke(struct etcd *, int64_t id,
	    int64_t deadline);

/*
 * Makes e->grip the one of this name and owner; what is known of it stays
 * known.
 */
struct etcdgrip *etcdgrip_use(struct etcd *, const char *name,
	    const char *owner);
/* That grip, if it is what we have; NULL: it is not. */
struct etcdgrip *etcdgrip_find(struct etcd *, const char *name,
	    const char *owner);

/* Keeps its lease alive; is_granted: it still is there. */
enum leaserun_result etcdgrip_keep(struct etcd *, int64_t deadline);

/*
 * There is a lease for the grip, with two thirds of its time left; one more
 * for --min-hold, with all of it.
 */
enum leaserun_result etcdgrip_grant(struct etcd *, int64_t ttl_ns,
	    int64_t min_hold_ns, int64_t deadline);

#endif
