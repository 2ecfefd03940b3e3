/*
 * The text of a Prometheus textfile: the metrics of leaserun, their names, and
 * reading and writing them.  No files here.
 */
#ifndef PROMFILE_H
#define PROMFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "report.h"

#define PROM_BACKEND_SIZE	512

/* Where the values of a job are; gauges that are not known are NAN. */
enum prom_value {
	PROM_HELD,
	PROM_EXPIRY,
	PROM_TTL,
	PROM_START,
	PROM_END,
	PROM_SUCCESS,
	PROM_DURATION,
	PROM_STATUS,
	PROM_WAIT,
	PROM_GAP,
	PROM_SKIP,
	PROM_SKIP_HELD,
	PROM_COUNTERS,			/* from here on */
	PROM_RENEWALS = PROM_COUNTERS,
	PROM_FAILURES,
	PROM_TAKEOVERS,
	PROM_LOSSES,
	PROM_SKIPS = PROM_LOSSES + LOSS_REASONS,
	PROM_RUNS = PROM_SKIPS + REFUSALS,
	PROM_VALUES = PROM_RUNS + OUTCOMES
};

struct prom_job {
	char	name[LEASERUN_NAME_SIZE];	/* as people gave it */
	char	backend[PROM_BACKEND_SIZE];
	double	values[PROM_VALUES];
};

struct prom_set {
	struct prom_job	*jobs;		/* owned */
	size_t		 n, room;
};

void	 prom_free(struct prom_set *);

/* Found, or added with counters of 0; NULL: too many, or no memory. */
struct prom_job *prom_job(struct prom_set *, const char *name,
	    const char *backend);

/*
 * Reads what prom_write() wrote; the text is changed.  0, or the number of the
 * first line that is something else.  Metrics of other versions are left out.
 */
size_t	 prom_read(struct prom_set *, char *text);

/* False: not written. */
bool	 prom_write(const struct prom_set *, FILE *);

#endif
