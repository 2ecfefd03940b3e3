/*
 * Words for why a job is being ended; a lost lease has more of them (loss.h).
 */
#ifndef ENDING_H
#define ENDING_H

#include "link.h"

/* For programs: part of the schema of --events, as those of loss.h are. */
const char *ending_name(enum end_reason);

/* What follows "SIGTERM to all: ". */
const char *ending_text(enum end_reason);

#endif
