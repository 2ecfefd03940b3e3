/*
 * What the keys of a name mean, for people: list.
 */
#ifndef ETCDLOOK_H
#define ETCDLOOK_H

#include "etcdkeys.h"

/* From the keys alone: how long it still lasts is what was granted. */
void	etcdlook_entry(const struct etcd *, const struct etcdview *,
	    struct leaserun_entry *);
/* The holder before the last grant, from a view of before it. */
void	etcdlook_previous(const struct etcdview *, struct leaserun_entry *);
/* Whether whoever was granted the name last has not released it. */
bool	etcdlook_is_unclean(const struct etcdview *);

/* The same and how long it lasts, for which etcd is asked. */
enum leaserun_result etcdlook_full(struct etcd *, const struct etcdview *,
	    int64_t deadline, struct leaserun_entry *);

/* As in struct leaserun_backend. */
enum leaserun_result etcdlook_list(void *self, const char *name,
	    int64_t deadline, leaserun_entry_fn *, void *arg);

#endif
