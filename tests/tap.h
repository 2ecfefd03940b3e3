/*
 * The Test Anything Protocol for tests in C: plan() first, one ok() for each
 * check, `return done();' last.  There is no way to skip.
 */
#ifndef TAP_H
#define TAP_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int tap_planned, tap_run, tap_failed;

static inline void
plan(int n)
{
	tap_planned = n;
	printf("1..%d\n", n);
	fflush(stdout);
}

static inline void __attribute__((format(printf, 2, 0)))
tap_result(int cond, const char *fmt, va_list ap)
{
	tap_run++;
	if (!cond)
		tap_failed++;
	printf("%s %d - ", cond ? "ok" : "not ok", tap_run);
	vprintf(fmt, ap);
	printf("\n");
	fflush(stdout);
}

static inline void __attribute__((format(printf, 2, 3)))
ok(int cond, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tap_result(cond, fmt, ap);
	va_end(ap);
}

static inline void __attribute__((format(printf, 3, 4)))
is_int(intmax_t got, intmax_t want, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tap_result(got == want, fmt, ap);
	va_end(ap);
	if (got != want)
		printf("# got %" PRIdMAX ", want %" PRIdMAX "\n", got, want);
}

/* NULL equals NULL only. */
static inline void __attribute__((format(printf, 3, 4)))
is_str(const char *got, const char *want, const char *fmt, ...)
{
	int same = got == NULL || want == NULL ? got == want :
	    strcmp(got, want) == 0;
	va_list ap;

	va_start(ap, fmt);
	tap_result(same, fmt, ap);
	va_end(ap);
	if (!same)
		printf("# got '%s', want '%s'\n", got == NULL ? "NULL" : got,
		    want == NULL ? "NULL" : want);
}

/* The exit status. */
static inline int
done(void)
{
	if (tap_run != tap_planned)
		printf("# ran %d of %d\n", tap_run, tap_planned);
	return tap_failed > 0 || tap_run != tap_planned;
}

#endif
