#ifndef TRACE_H
#define TRACE_H

#include <sys/types.h>

/* What was seen since the caller last set it to zero. */
struct trace {
	long	calls;		/* system calls */
	long	wire;		/* bytes, to and from TCP sockets */
	pid_t	of;		/* whose memory is looked at, or 0 */
	long	peak_kb;	/* the most that its family had at a time */
};

/*
 * From now on a child that is about to read from a descriptor, and all that it
 * starts.  It has not executed anything yet, and reads only when we are done.
 */
int trace_start(pid_t pid);

/*
 * Lets what is traced go on, and waits for those that have ended, which may be
 * children of ours.  Returns when there is nothing to do at the moment or, with
 * a pid, when that child is gone, or, with -1, when all children are.
 */
void trace_go_on(pid_t until, struct trace *trace);

#endif
