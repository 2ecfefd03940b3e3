/*
 * Exit statuses and small helpers.
 */
#ifndef UTIL_H
#define UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The exit statuses of leaserun itself, from sysexits(3) where that has one.
 * leaserun(1) has the same table; a test compares them.
 */
enum exit_status {
	EXIT_OK = 0,
	EXIT_USAGE = 64,
	EXIT_UNAVAILABLE = 69,
	EXIT_INTERNAL = 70,
	EXIT_UNRECORDED = 74,
	EXIT_HELD = 75,
	EXIT_DENIED = 77,
	EXIT_CONFIG = 78,
	EXIT_LOST = 79,
	EXIT_MAX_RUN = 124,
	EXIT_CANNOT_EXEC = 126,
	EXIT_NOT_FOUND = 127,
	EXIT_SIGNAL = 128		/* plus the number */
};

/* Opens /dev/null on whichever of 0, 1 and 2 is missing; -1 and errno. */
int	 fds_open_standard(void);

/*
 * A signalfd for SIGCHLD, which is to be blocked: children have ended, stopped,
 * or were continued.  -1 and errno.
 */
int	 children_open(void);

/* Whether n more can be opened by this process. */
bool	 fds_left(int n);

/*
 * What to do about an error number: "" or "; ..." with the limit, or limits,
 * behind it, in memory that the next call uses again.
 */
const char *limit_hint(int error);

/*
 * The exit status for a command whose exec failed with `error', and what to add
 * to the message: "" or a text.
 */
int	 exec_failure(const char *command, int error, const char **hint);

/* Lower-case hex of n random bytes, 2 * n + 1 bytes of text; -1 and errno. */
int	 random_hex(char *text, size_t n);

/* A number below limit, good enough for jitter; 0 when limit is 0. */
uint64_t random_below(uint64_t limit);

/* Decimal, no sign, at most max: 0, or -1 with errno EINVAL or ERANGE. */
int	 number_parse(const char *text, uint64_t max, uint64_t *value);

/*
 * What wait(2) says of a process that exits with this status.
 * Async-signal-safe.
 */
int	 exited_with(int exit_status);

/* Decimal, at most 21 bytes with the NUL.  Async-signal-safe. */
void	 number_format(uint64_t number, char *buf);

/*
 * A copy without the password of a URL; the caller frees.  NULL: memory.  Of
 * one that is not correct nothing is left but the scheme.
 */
char	*url_redact(const char *url);

/*
 * What somebody typed, for a message: without a password, and cut.  Room of
 * WORD_SIZE; returns buf.
 */
#define WORD_SIZE	304
char	*word_shown(const char *word, char buf[WORD_SIZE]);

/* The same with an empty password, which is none; the caller frees. */
char	*url_without_password(const char *url);

/* Copies as much as fits and never cuts a UTF-8 character. */
void	 text_copy(char *dst, size_t size, const char *src);

/* What came from a store or a name must not move the reader's cursor. */
void	 text_escape(char *text);

/* malloc'd memory or the end of the program: before the command runs only. */
void	*xcalloc(size_t n, size_t size);
char	*xstrdup(const char *);
char	*xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
