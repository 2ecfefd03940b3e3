/*
 * The keys of a lease, and what stands in them.
 *
 *	PREFIX/lease/NAME/held	whoever holds it; bound to the holder's lease
 *	PREFIX/lease/NAME/hold	the same, for --min-hold; bound to another one
 *	PREFIX/lease/NAME/last	whoever was granted it last
 *	PREFIX/lease/NAME/done	the owner that released it last
 *	PREFIX/lease/NAME/end	how the last finished run ended
 *	PREFIX/lease/NAME/mark	a revocation: of this owner and token
 *	PREFIX/wait/NAME/OWNER	a waiter's place; bound to the waiter's lease
 *	PREFIX/floor		what is added to a revision to make a token
 *	PREFIX/once, period	see etcdonce.h
 *
 * NAME has no slash: it is encoded.  A token is the create_revision of held,
 * which the transaction that grants it makes, plus the floor of that moment.
 */
#ifndef ETCDKEYS_H
#define ETCDKEYS_H

#include "etcdcall.h"

#define ETCDKEYS_SIZE	(ETCDURL_PREFIX_SIZE + LEASERUN_NAME_SIZE + \
			    LEASERUN_KEY_SIZE + 48)

struct etcdkv {
	bool		there;
	int64_t		created;	/* revisions */
	int64_t		modified;
	int64_t		version;	/* so many puts */
	int64_t		lease;
	json_t		*value;		/* an object, owned */
};

/* All that is known of a name at one revision. */
struct etcdview {
	char		name[LEASERUN_NAME_SIZE];
	int64_t		revision;	/* of the store */
	struct etcdkv	held, hold, last, done, end, mark;
	struct etcdkv	floor;
	bool		bad;		/* some value is no record of ours */
	bool		foreign;	/* or one of a newer version */
};

/* "held", "hold"... of a name; with NULL what is before these. */
void	etcdkeys_lease(const struct etcd *, char key[ETCDKEYS_SIZE],
	    const char *name, const char *what);
/* A waiter's place; with NULL what is before it. */
void	etcdkeys_wait(const struct etcd *, char key[ETCDKEYS_SIZE],
	    const char *name, const char *owner);
void	etcdkeys_floor(const struct etcd *, char key[ETCDKEYS_SIZE]);
/* The first key behind all that begin like this one, which ends with '/'. */
void	etcdkeys_end(char end[ETCDKEYS_SIZE], const char *key);

/* The operations that read a name: two of a transaction. */
void	etcdkeys_add_look(const struct etcd *, json_t *ops, const char *name);

/*
 * Reads what those two answered, from the i-th of the transaction on.  The
 * view is to be cleared whatever comes.  UNAVAILABLE: nonsense.
 */
enum leaserun_result etcdview_read(const struct etcd *, struct etcdview *,
	    const char *name, const json_t *txn, size_t i);
/* One key of a range or an event; false: nonsense, or no memory. */
bool	etcdview_add(const struct etcd *, struct etcdview *,
	    const json_t *kv);
void	etcdview_clear(struct etcdview *);

/* Both of them, linearizable. */
enum leaserun_result etcdview_look(struct etcd *, struct etcdview *,
	    const char *name, int64_t deadline);

/* MISCONFIGURED with what to do, if the records are not ours. */
enum leaserun_result etcdview_check(const struct etcd *,
	    const struct etcdview *);

/* Text of a record; "" when it is not there. */
const char *etcdkv_text(const struct etcdkv *, const char *key);
int64_t	etcdkv_int(const struct etcdkv *, const char *key);

/* The floor that counts for a revision. */
int64_t	etcdview_floor(const struct etcdview *, int64_t revision);
/* The token of the last grant; 0: never one, or too large for one. */
uint64_t etcdview_token(const struct etcdview *, const struct etcdkv *);

/* held is there and of that owner. */
bool	etcdview_is_held_by(const struct etcdview *, const char *owner);

#endif
