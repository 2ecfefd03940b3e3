/*
 * Entries of a store, collected and printed on standard output for people or
 * for programs.
 */
#ifndef SHOW_H
#define SHOW_H

#include "../backends/leaserun-backend.h"

struct show;

struct show *show_new(void);
void	 show_free(struct show *);

/* A leaserun_entry_fn; arg is the struct show.  Copies the entry. */
void	 show_add(void *arg, const struct leaserun_entry *);

#define SHOW_TIME_SIZE	80

/* RFC 3339 with milliseconds; false: unknown. */
bool	 show_time(int64_t unix_ms, char text[SHOW_TIME_SIZE]);

/* Sorted by name. */
void	 show_table(struct show *);
void	 show_json(struct show *);

#endif
