/*
 * What happens in a run, told to --events, --metrics and the system log.  Files
 * are written by a process of its own, which may hang in a file system as long
 * as it likes: nothing here ever waits for it, but report_open() and
 * report_close() for a moment.
 */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../backends/leaserun-backend.h"
#include "loss.h"

/* In the order of event_names[]. */
enum report_type {
	EVENT_BUSY,		/* held by somebody else */
	EVENT_ACQUIRED,
	EVENT_TOOK_OVER,
	EVENT_RENEW_FAILED,	/* the first of a series */
	EVENT_RENEWED,		/* after failures */
	EVENT_REVOKED,		/* somebody asks us to end */
	EVENT_LOST,
	EVENT_TERM,		/* SIGTERM to the job */
	EVENT_KILL,
	EVENT_RELEASED,
	EVENT_RELEASE_FAILED,
	EVENT_DONE,		/* not run: its key of --once is */
	EVENT_NOT_RUN,		/* refused */
	EVENT_END,
	EVENT_BEAT,		/* a renewal, for the metrics only */
	EVENT_TYPES
};

/* Why there was no lease: a label of the metrics, too. */
enum report_refusal {
	REFUSED_HELD,
	REFUSED_BLOCKED,	/* --complain-after */
	REFUSED_OUTER,		/* by a run that we are part of */
	REFUSED_UNAVAILABLE,
	REFUSED_DENIED,
	REFUSED_MISCONFIGURED,
	REFUSED_INTERRUPTED,	/* a signal, while waiting */
	REFUSED_INTERNAL,
	REFUSED_DONE,
	REFUSED_DIED,		/* leaserun did, or had to leave at once */
	REFUSALS
};

/* How a run with the lease ended: a label of the metrics, too. */
enum report_outcome {
	OUTCOME_SUCCESS,
	OUTCOME_FAILURE,	/* the command's status is not 0 */
	OUTCOME_LOST,
	OUTCOME_REVOKED,
	OUTCOME_MAX_RUN,
	OUTCOME_NOT_STARTED,
	OUTCOME_INTERNAL,	/* the guard died */
	OUTCOME_DIED,		/* leaserun did */
	OUTCOMES
};

/* The keeper fills in what it knows; the rest is 0, -1 or "". */
struct report_event {
	enum report_type type;
	const char	*reason;	/* a literal: both processes have it */
	int		 status;	/* exit status; -1: not yet */
	enum report_refusal refusal;	/* of NOT_RUN and DONE */
	enum report_outcome outcome;	/* of END */
	enum loss_reason loss;		/* of LOST */
	uint64_t	 token;		/* 0: none */
	int64_t		 ttl_ns;	/* 0: does not expire */
	int64_t		 left_ns;	/* -1: does not expire */
	int64_t		 ran_ns;	/* -1: did not run */
	int64_t		 waited_ns;
	int64_t		 paused_ns;	/* LOST by our own pause */
	int64_t		 gap_ns;	/* longest between confirmations */
	uint64_t	 renewals, failures;	/* in this run so far */
	char		 error[LEASERUN_ERROR_SIZE];
	bool		 has_other;	/* the holder, or the previous one */
	struct leaserun_entry other;

	/* Filled in by report_send(). */
	int64_t		 unix_ms;
	uint64_t	 dropped;	/* before this one, on the way */
};

/* Who we are: owned by the caller, valid as long as the report. */
struct report_run {
	const char	*events;	/* FILE, or NULL */
	const char	*metrics;	/* FILE, or NULL */
	const char	*name;		/* as people gave it */
	const char	*label;
	const char	*run_id;
	const char	*backend;	/* without a password */
};

struct report {
	int		 socket;	/* to the writer; -1: none */
	bool		 beats;		/* wanted by the metrics */
	uint64_t	 dropped;

	/* What every event of the run says. */
	uint64_t	 token;		/* 0: none yet */
	int64_t		 ttl_ns;	/* granted; 0: does not expire */
	int64_t		 waited_ns;
	int64_t		 gap_ns;	/* longest between confirmations */
	uint64_t	 renewals, failures;
};

/*
 * Starts the writer when there is a file to write, and has it look at them.
 * 0, or the exit status for a path that cannot be right; that is said.  Must be
 * called before there is anything that the writer should not inherit.
 */
int	report_open(struct report *, const struct report_run *);

/* In a process that is not to report: the guard. */
void	report_leave(struct report *);

/* Gives the writer a moment to finish. */
void	report_close(struct report *);

/* An event of that type, with what the report (or NULL) knows of the run. */
struct report_event report_event(const struct report *, enum report_type);

/*
 * Never blocks; what cannot be sent is counted.  The next message of the log is
 * marked as that of the event.
 */
void	report_send(struct report *, struct report_event *);

/* One that says nothing but an error, or NULL. */
void	report_plain(struct report *, enum report_type, const char *error);

/* One with the holder, or the previous one. */
void	report_other(struct report *, enum report_type,
	    const struct leaserun_entry *);

/* The command is not run.  The holder (or NULL), or the error is told. */
void	report_refusal(struct report *, enum report_refusal, int status,
	    const struct leaserun_entry *holder, const char *error);

/* The same for a reason on our side. */
void	report_refused(struct report *, int status);

const char *report_event_name(enum report_type);
const char *report_refusal_name(enum report_refusal);
const char *report_outcome_name(enum report_outcome);

#endif
