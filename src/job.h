/*
 * The job as the keeper sees it: what the guard reports, and the keeper's own
 * hand on it when the guard is gone, frozen or talks nonsense.
 */
#ifndef JOB_H
#define JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "keeper.h"
#include "link.h"
#include "tree.h"

struct job {
	const struct keeper_setup *s;
	bool		 is_started;	/* LINK_START was sent */
	bool		 is_ended;	/* nothing of it is left */
	bool		 is_taken_over;	/* the keeper kills, no guard */
	bool		 is_killing;	/* the guard says that it kills */
	bool		 told_stopped;	/* that the guard is */
	pid_t		 command;
	int		 status;	/* wait status */
	enum end_reason	 reason;
	enum end_reason	 ending;	/* why the guard said that it does */
	int		 failure;	/* exit status instead, or 0 */
	pid_t		 survivor;	/* may not be killed; 0: none */
	int		 empty_listings;	/* in a row */
	int64_t		 started_at;
	int64_t		 kill_at;	/* what the guard is to keep to */
	int64_t		 check_guard_at;
	bool		 was_patient;	/* with one that is not stopped */
	bool		 was_late;	/* for that, once */
	int64_t		 leftovers_at;
	struct link_msg	 unsent;	/* "end now", to be repeated; type 0 */
};

void	job_init(struct job *, const struct keeper_setup *);

/* As signals_start(). */
bool	job_start(struct job *, struct link_msg *, int hold_fd);

/* The lease was confirmed: the guard will have to kill only then. */
void	job_expect(struct job *, int64_t kill_at);

/* Asks the guard: SIGTERM with grace, or SIGKILL at once. */
void	job_end(struct job *, int signo, enum end_reason);

/* When there is something to look at; now is passed, not read. */
int64_t	job_next(const struct job *, int64_t now);

/*
 * Looks at everything: the guard at the time to kill, its messages, orphans.
 * is_due: the children from before are looked after as well.
 */
void	job_look(struct job *, int64_t now, bool is_due);

/* Lets the guard go, once the lease is released; leaves nothing behind. */
void	job_dismiss_guard(struct job *);

#endif
