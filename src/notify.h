/*
 * What happens in a run, told to the service manager that has started it, by
 * the protocol of sd_notify(3) without its library.  Never blocks and never
 * fails a run.
 */
#ifndef NOTIFY_H
#define NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

#define NOTIFY_TEXT_SIZE	512

/* To be used by the keeper alone: a manager looks at who sends. */
struct notify {
	int		 socket;	/* -1: nobody is to be told */
	bool		 says_ready;	/* not left to the command */
	bool		 is_stopping;
	bool		 owes_ready, owes_stopping, owes_status;
	char		 status[NOTIFY_TEXT_SIZE];
};

/*
 * address: what NOTIFY_SOCKET says, or NULL: nobody.  Warns of one that cannot
 * be reached.
 */
void	notify_open(struct notify *, const char *address, bool says_ready);

/*
 * How things are, one line; control characters come out as blanks.  Not heard
 * any more once the run is about to end.
 */
void	notify_status(struct notify *, const char *fmt, ...)
	    __attribute__((format(printf, 2, 3)));

/* The same, and from now on the command runs, or the run is about to end. */
void	notify_ready(struct notify *, const char *fmt, ...)
	    __attribute__((format(printf, 2, 3)));
void	notify_stopping(struct notify *, const char *fmt, ...)
	    __attribute__((format(printf, 2, 3)));

/* What there was no room for: when to try again, and the next try. */
int64_t	notify_next(const struct notify *, int64_t now);
void	notify_repeat(struct notify *);

void	notify_close(struct notify *);

#endif
