/*
 * The keeper's calls into its backend: each with a deadline and a bound that
 * holds even inside a library, repeated while that makes sense.
 */
#ifndef STORE_H
#define STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "keeper.h"
#include "plugin.h"

struct store {
	struct plugin	 plugin;	/* its error: of the last call */
	const struct keeper_setup *s;
	int		 timer;
	bool		 is_acquiring;
	bool		 is_releasing;	/* nothing interrupts it */
	bool		 is_alone;	/* the guard is gone, and its link */
	bool		 is_outer;	/* held by a run that we are part of */
	bool		 is_held;	/* holder is filled in */
	bool		 is_unsure;	/* the last try had no answer */
	struct leaserun_entry holder;
	int64_t		 heard_at;	/* the store last answered */
	int64_t		 wait_since;
	int64_t		 progress_at;
	/* The backend's last wait that came to its end, in this call. */
	int64_t		 due_at, woke_at;	/* TIME_NEVER: there was none */
	int		 leave;		/* exit status of store_events() */
};

/*
 * Comes first, before there is a guard; a backend that is built in is opened
 * here.  True when such a one sees that the lease is held and nobody is to wait
 * for it, or that nothing is left to do.  Then everything is said, and *status
 * is what to exit with.
 */
bool	store_skips(struct store *, const struct keeper_setup *, int *status);

/*
 * Opens the backend, if it is not, and takes the lease, waiting as long as was
 * asked for.  True: granted.  False: everything is said and given back; *status
 * is what to exit with.
 */
bool	store_acquire(struct store *, const struct keeper_setup *,
	    struct leaserun_grant *, int *status);

/* One attempt. */
enum leaserun_result store_renew(struct store *, const struct leaserun_lease *,
	    int64_t deadline, struct leaserun_renewal *);

/* Tries until the deadline. */
enum leaserun_result store_release(struct store *,
	    const struct leaserun_lease *, const struct leaserun_end *,
	    int64_t deadline);

/*
 * Before the command runs: looks at signals and at the guard; stops the
 * process when that was asked for.  True: leave, with store->leave.
 */
bool	store_events(struct store *);

void	store_close(struct store *);

#endif
