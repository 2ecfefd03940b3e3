#ifndef FAMILY_H
#define FAMILY_H

#include <sys/types.h>

#include <stdint.h>

/* What some processes have together. */
struct family {
	int	processes;
	int	jobs;		/* of them: see FAMILY_JOB */
	int	awake;		/* threads that do not sleep */
	int64_t	ran_ns;		/* processor time so far */
	long	slept;		/* how often they gave the processor up */
	long	pss_kb;		/* memory: what is shared counts in parts */
	long	unshared_kb;	/* memory that nobody else has */
};

enum family_what { FAMILY_STATE, FAMILY_MEMORY };

/* What is measured has this for its job while it holds. */
#define FAMILY_JOB	"cat"

/*
 * Adds up a process and its descendants; for our own pid, the descendants
 * alone.  The times and the memory of a job are left out.  Without
 * FAMILY_MEMORY, which takes longer, there are no figures of memory.
 */
void family_look(pid_t pid, enum family_what what, struct family *f);

/* Kills a process and its descendants, stopped first so that none is missed. */
void family_kill(pid_t pid);

#endif
