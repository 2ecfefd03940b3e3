/*
 * --metrics: a file for the textfile collector of node_exporter, shared by all
 * jobs of a host.
 */
#ifndef METRICS_H
#define METRICS_H

#include <stddef.h>

#include "report.h"

struct metrics;

/* The run stays the caller's. */
struct metrics *metrics_open(const struct report_run *);

/*
 * Whether the file can be written.  0; 1: not now, which may pass; -1: never.
 * *error: what, and what to do.
 */
int	metrics_check(struct metrics *, char *error, size_t size);

/*
 * Takes an event, and writes the file when it is due.  -1 and *error: what is
 * not written is kept for the next time.
 */
int	metrics_note(struct metrics *, const struct report_event *, char *error,
	    size_t size);

#endif
