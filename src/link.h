/*
 * The socket between keeper and guard, for what is rare.  One fixed-size
 * message; whatever does not look like one is the peer's death.  Nothing here
 * blocks or allocates; link_send() may be called from a signal handler.
 */
#ifndef LINK_H
#define LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define LINK_VERSION	1

/* Numbers are part of the wire and never reused. */
enum link_type {
	/* keeper to guard */
	LINK_START = 1,		/* token, ttl_ns; may carry a descriptor */
	LINK_END = 2,		/* number: SIGTERM or SIGKILL; reason */
	LINK_SIGNAL = 3,	/* number; reason: 1 if the terminal sent it */
	LINK_RESUMED = 4,	/* goes on, after a LINK_STOPPED */

	/* guard to keeper */
	LINK_STARTED = 16,	/* pid */
	LINK_FAILED = 17,	/* number: errno; reason: link_failure */
	LINK_COMMAND = 18,	/* number: wait status; others are left */
	LINK_STOPPED = 19,	/* number: the signal that stopped it */
	LINK_ENDING = 20,	/* number: SIGTERM or SIGKILL; reason */
	LINK_SURVIVOR = 21,	/* pid, uid: may not be killed */
	LINK_ENDED = 22		/* number: wait status; reason */
};

/* Why a job is being ended; higher is graver and stays. */
enum end_reason {
	END_ITSELF = 0,		/* the command ended, nobody ended it */
	END_LEFTOVERS = 1,	/* --leftovers=kill */
	END_REVOKED = 2,
	END_MAX_RUN = 3,
	END_KEEPER = 4,		/* the keeper is gone */
	END_DEADLINE = 5,	/* not renewed in time */
	END_LOST = 6,		/* the store says: not yours */
	END_REASONS = 7
};

enum link_failure {
	FAILED_EXEC = 0,	/* the command cannot be executed */
	FAILED_FORK = 1,	/* no process could be made */
	FAILED_LATE = 2,	/* too little of the lease was left to start */
	FAILED_KINDS = 3
};

struct link_msg {
	uint32_t	version;
	uint32_t	type;
	int32_t		number;
	uint32_t	reason;
	int32_t		pid;
	uint32_t	uid;
	uint64_t	token;
	int64_t		ttl_ns;		/* granted; 0: does not expire */
};

enum link_event {
	LINK_GOT,
	LINK_NOTHING,
	LINK_GONE		/* end of file, an error, or nonsense */
};

/* Both ends close-on-exec and nonblocking; -1 and errno. */
int	link_pair(int fds[2]);

/* Fills in the version; fd -1: none.  0, or -1: not sent. */
int	link_send(int fd, struct link_msg *, int pass_fd);

/*
 * Takes one message.  from_guard: which of the two directions is right.
 * *passed: the descriptor that came with LINK_START, close-on-exec, owned by
 * the caller, or -1.
 */
enum link_event link_recv(int fd, bool from_guard, struct link_msg *,
	    int *passed);

#endif
