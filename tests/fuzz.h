/*
 * What the fuzz targets share: the input, taken apart; and a host for backends
 * that has no world around it.
 *
 * A target is tests/fuzz_NAME.c with LLVMFuzzerTestOneInput(), which aborts
 * when something is wrong.  Built for fuzzing, the library of the compiler
 * feeds it; else tests/fuzzmain.c does, with what is in tests/fuzz/NAME.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../backends/leaserun-backend.h"

int	LLVMFuzzerTestOneInput(const uint8_t *, size_t);

/* What is left of the input. */
struct fuzz {
	const uint8_t	*data;
	size_t		 size;
};

/* 0 when nothing is left. */
uint8_t	 fuzz_byte(struct fuzz *);

/*
 * What stands before the next `end', which is dropped, or all; a string to be
 * freed, cut at a NUL.
 */
char	*fuzz_text(struct fuzz *, char end);

/* A file in memory with that in it; its descriptor, at the start. */
int	 fuzz_file(const void *data, size_t size);

/*
 * Time passes with every look at the clock and in every wait, none of which
 * lasts.  After some waits, one is interrupted: nothing goes on for ever.
 */
const struct leaserun_host *fuzz_host(void);

/* The deadline of the call that is made: no request is waited for longer. */
extern int64_t fuzz_deadline;

/* Of an entry and a line that a backend shows: looks at all of it. */
void	 fuzz_entry(void *, const struct leaserun_entry *);
void	 fuzz_line(void *, enum leaserun_verdict, const char *, const char *);

/*
 * Opens a backend and makes some calls.  The first two bytes say which, and
 * with which options; `u': with URL, option and its value of the input, a line
 * each.
 */
void	 fuzz_calls(const struct leaserun_backend *, struct fuzz *,
	    const char *url);

/* Aborts unless. */
void	 fuzz_check(bool);

#endif
