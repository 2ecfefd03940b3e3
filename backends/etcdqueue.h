/*
 * The queue of those who wait for a name: keys, in the order in which they were
 * made.  It says who goes first, and holds nobody up.
 */
#ifndef ETCDQUEUE_H
#define ETCDQUEUE_H

#include "etcdwait.h"

/* An operation that takes a place, unless we have one or hold the name. */
json_t	*etcdqueue_join(const struct etcd *, const char *name,
	    const char *owner);

/* Two operations that read who is in front of us, and ourselves. */
void	etcdqueue_add_look(const struct etcd *, json_t *ops,
	    const struct etcdwait *);

/*
 * What those answered, from the i-th of the transaction on; the view is of the
 * same.  False: we have no place.
 */
bool	etcdqueue_read(struct etcd *, struct etcdwait *, const json_t *answer,
	    size_t i);

/*
 * For the transaction that takes the name: whoever is still in front of us had
 * his chance and may be dead, so that nobody is to watch him any more.  One who
 * lives goes on as the first without a place.
 */
void	etcdqueue_add_passed(const struct etcdwait *, json_t *ops);
/* What its record says: all whose place is older are out; 0: nothing. */
int64_t	etcdqueue_turn(const struct etcd *, const struct etcdwait *);

/* The name was taken, by this key.  False: it cannot be understood. */
bool	etcdqueue_note(const struct etcd *, struct etcdwait *,
	    const json_t *kv);

#endif
