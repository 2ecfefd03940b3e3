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

/* Sorted by name. */
void	 show_table(struct show *);
void	 show_json(struct show *);

#endif
