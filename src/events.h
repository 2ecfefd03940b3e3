/*
 * --events: one JSON object a line, for programs.  leaserun-events(5) is the
 * schema.
 */
#ifndef EVENTS_H
#define EVENTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "report.h"

struct events;

/* The run stays the caller's. */
struct events *events_open(const struct report_run *, pid_t keeper);

/*
 * Whether the file can be written.  0; 1: not now, which may pass; -1: never.
 * *error: what, and what to do.
 */
int	events_check(struct events *, char *error, size_t size);

/* Appends one line, or counts it as dropped: -1 and *error. */
int	events_write(struct events *, const struct report_event *, char *error,
	    size_t size);

uint64_t events_dropped(const struct events *);

/* The line without its end, malloc'd; NULL: no memory. */
char	*events_line(const struct events *, const struct report_event *);

#endif
