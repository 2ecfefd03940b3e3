/*
 * What is done under --once, collected from a store and printed on standard
 * output for people or for programs.
 */
#ifndef DONE_H
#define DONE_H

#include "../backends/leaserun-backend.h"

struct done;

struct done *done_new(void);
void	 done_free(struct done *);	/* may be NULL */

/* Whose records are added next; encoded. */
void	 done_name(struct done *, const char *name);

/* A leaserun_entry_fn for list_once(); arg is the struct done. */
void	 done_add(void *arg, const struct leaserun_entry *);

void	 done_table(struct done *);
void	 done_json(struct done *);

#endif
