/*
 * What the user asked for.  One table of keys serves the command line of every
 * command, the configuration files, --help and the manual's test.
 *
 * Order: built-in, files in order, environment, command line.
 */
#ifndef CONF_H
#define CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../backends/leaserun-backend.h"
#include "log.h"

/* Commands, as a set: where a key is an option. */
enum conf_scope {
	CONF_RUN = 1 << 0,
	CONF_STATUS = 1 << 1,
	CONF_CHECK = 1 << 2,
	CONF_REVOKE = 1 << 3,
	CONF_INIT = 1 << 4,
	CONF_DOCTOR = 1 << 5,
	CONF_FENCE = 1 << 6
};

enum conf_leftovers {
	LEFTOVERS_WAIT,
	LEFTOVERS_KILL,
	LEFTOVERS_LEAVE
};

/* What the service manager is told, and by whom. */
enum conf_notify {
	NOTIFY_NO,
	NOTIFY_READY,		/* all of it by us */
	NOTIFY_STATUS		/* READY by the command */
};

/* Strings are owned by the struct and NULL when not given. */
struct conf {
	char		*backend;
	struct leaserun_option *options;
	size_t		noptions;
	int64_t		ttl;
	int64_t		renew_every;	/* resolved: ttl / 3 */
	int64_t		grace;		/* resolved: min(10s, ttl / 6) */
	int64_t		wait;		/* TIME_NEVER: inf; see wait_given */
	int64_t		connect_timeout;
	int		conflict_exit_code;
	int		lost_exit_code;
	char		*once;
	int64_t		once_per;	/* 0: not given */
	int64_t		once_keep;	/* -o keep */
	int64_t		min_hold;
	int64_t		max_run;	/* TIME_NEVER: none */
	enum conf_leftovers leftovers;
	char		*token_env;
	char		*owner;		/* resolved: the host name */
	int64_t		complain_after;	/* TIME_NEVER: never */
	char		*events;
	char		*metrics;
	enum conf_notify notify;
	char		*log;		/* "stderr", "syslog" */
	enum log_level	log_level;	/* WARNING, moved by -v and -q */
	char		*config;
	char		*module_dir;

	/* Of single commands. */
	bool		json;
	bool		print;
	bool		force;
	bool		list_once;
	bool		help;
	bool		wait_given;
	bool		token_given;
	uint64_t	token;
	uint64_t	raise_token;	/* 0: not given */

	bool		password_in_argv;	/* a URL or -o showed one */
};

/* What went wrong, for the caller to print; status is what to exit with. */
struct conf_error {
	int	status;		/* 64 or 78 */
	char	text[640];
};

/*
 * Reads the options of the command `scope' out of argv (argv[0] is the
 * command's own name), then files, environment and command line in their
 * order.  The first operand selects the job blocks: of run, check and revoke,
 * and of status, which loads the configuration anew for each name when there
 * are several; with more than one operand it gets no block.  *operands: index
 * of the first operand, `--' in front of it skipped.  0, or -1 with *err and
 * *conf empty.
 * Everything is checked, also the combinations (schedule_fits for CONF_RUN).
 * With conf->help set nothing else was looked at.
 */
int	 conf_load(struct conf *, enum conf_scope scope, int argc, char *argv[],
	    int *operands, struct conf_error *err);

/*
 * True of `-- COMMAND', where the operand in front of the `--' was forgotten;
 * of one that may begin with a dash there is `-- NAME -- COMMAND'.  first: the
 * first operand, which is there.
 */
bool	 operand_is_forgotten(int argc, char *argv[], int first);

void	 conf_free(struct conf *);

/*
 * For the job, so that a leaserun in there finds the same store; the caller
 * frees.  The file of --config, and the options of the backend as KEY=VALUE,
 * one a line, without those that hold a secret; both with absolute paths.
 * NULL: there is none.
 */
char	*conf_hand_config(const struct conf *);
char	*conf_hand_options(const struct conf *);

/* The option lines of --help for one command, on stdout. */
void	 conf_print_options(enum conf_scope scope);

#endif
