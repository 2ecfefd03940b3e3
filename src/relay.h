/*
 * What the guard does for the command besides ending it: passes on signals,
 * and sees that keeper and command stop and go on together.
 */
#ifndef RELAY_H
#define RELAY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "guard.h"

struct relay {
	const struct guard_job *job;
	pid_t		 keeper;
	int		 stops;		/* told, and not gone on from yet */
	int64_t		 nudge_at;	/* the keeper, once more */
};

void	relay_init(struct relay *, const struct guard_job *, pid_t keeper);

/*
 * A signal for the job, once.  From the keyboard it has reached the command
 * already while that is in the keeper's group; so has SIGCONT from a shell's
 * fg, which a command that is not stopped has no use for.
 */
void	relay_signal(const struct relay *, pid_t command, int signo,
	    bool from_terminal);

/*
 * The signal that has stopped the command since, in the keeper's group, to be
 * told to the keeper: it stops as well.  0: none.
 */
int	relay_stop_of(const struct relay *, pid_t command);

/*
 * Who continues the command, or ends it, means the keeper as well.  To be
 * called again at nudge_at.
 */
void	relay_continue(struct relay *, pid_t command);

#endif
