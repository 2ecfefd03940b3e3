/*
 * One command that asks a store: status, check, revoke, init, doctor.
 */
#ifndef ASK_H
#define ASK_H

#include "conf.h"
#include "plugin.h"

struct ask {
	struct conf	conf;
	struct plugin	plugin;
	int		timer;
	enum conf_scope	scope;
	char		**argv;		/* the command and its options */
	char		**names;	/* operands, behind these */
	int		nnames;
};

/*
 * Everything that they share: reads the options, opens the store (unless there
 * are several names, which may have several), calls fn, returns the exit
 * status.  The name of the one operand, if most is 1, is encoded into `name'.
 */
int	ask(enum conf_scope, int argc, char *argv[], int least, int most,
	    int (*fn)(struct ask *, const char *name));

/* The store of q->conf; 0 or the exit status. */
int	ask_open(struct ask *);

/* One name from the command line, encoded; 0 or the exit status. */
int	ask_encode(const char *command, const char *shown, char *name);

/* Which store it is, for people; owned by the caller. */
char	*ask_store(const struct ask *);

/* Says what a call answered; the exit status. */
int	ask_failed(struct ask *, enum leaserun_result);

/* How long one call may take, from now on. */
int64_t	ask_deadline(const struct ask *);

/*
 * Whether to ask once more, after a moment: there was no answer, which one
 * restart of a proxy or a server does, and the deadline is not here yet.
 */
bool	ask_again(struct ask *, enum leaserun_result, int64_t deadline);

/* list() or list_once() of the store, again if nothing has come. */
enum leaserun_result ask_list(struct ask *, const char *name, bool once,
	    leaserun_entry_fn *, void *arg);

/* host->wait(): nothing interrupts it but the user, who ends the process. */
enum leaserun_result ask_wait(const struct leaserun_host *, struct pollfd *,
	    unsigned int n, int64_t deadline);

#endif
