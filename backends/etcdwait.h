/*
 * Waiting for a name: a watch tells of every change, a place in the queue says
 * who goes first.
 */
#ifndef ETCDWAIT_H
#define ETCDWAIT_H

#include "etcdkeys.h"

/*
 * So many places are counted.  Whoever stands further back does not watch the
 * name, but the one who is so many places in front of him.
 */
#define ETCDWAIT_NEAR	4

struct etcdplace {
	int64_t		created;	/* the revision; older ones go first */
	char		key[ETCDKEYS_SIZE];
};

struct etcdwait {
	const struct leaserun_request *request;
	int64_t		deadline;
	struct etcdview	*view;		/* as seen last, kept up to date */
	int64_t		place;		/* waiters in front of us, or NEAR */
	struct etcdplace front[ETCDWAIT_NEAR];	/* they, the nearest first */
	int64_t		placed;		/* the revision when these were read */
	char		ahead[ETCDKEYS_SIZE];	/* whom to watch; "": name */
	bool		is_near;	/* what is watched is the name */
	bool		is_stale;	/* look, then wait on */
	bool		is_denied;	/* a try failed, yet it is free */
	bool		told;		/* told host->holder() about */
	enum leaserun_state told_state;	/* this state */
	char		told_owner[LEASERUN_OWNER_SIZE];	/* of this */
	unsigned int	broken;		/* watches in a row that ended early */
};

/* When a request of the one who waits is given up. */
int64_t	etcdwait_limit(const struct etcd *, const struct etcdwait *);

/* Somebody else has the name, or keeps it. */
bool	etcdwait_is_blocked(const struct etcdwait *);

/*
 * Says who has it, if that is new.  False: do not wait.  With ask: how long it
 * lasts is asked for.
 */
enum leaserun_result etcdwait_tell(struct etcd *, struct etcdwait *, bool ask,
	    int64_t deadline);

/*
 * Waits.  OK: it is our turn to try or, with is_stale, to look and to wait on.
 * HELD: the deadline came, or we are not to wait for this holder.  INTERRUPTED,
 * UNAVAILABLE.  The watch stays open: it is used again, and its end does not
 * hold up what is done next.  It is for the caller to close, in the end.
 */
enum leaserun_result etcdwait_turn(struct etcd *, struct etcdwait *);

#endif
