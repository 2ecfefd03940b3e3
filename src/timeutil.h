/*
 * One clock, one unit, saturating arithmetic, and the times of a lease.
 * Every time is CLOCK_BOOTTIME (it counts suspend) in nanoseconds; a name
 * without a unit that ends in _at is such a time.
 */
#ifndef TIMEUTIL_H
#define TIMEUTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NS_PER_MS	INT64_C(1000000)
#define NS_PER_S	INT64_C(1000000000)
#define TIME_NEVER	INT64_MAX

/* The longest duration that is taken: 100 years. */
#define DURATION_MAX	(INT64_C(36525) * 86400 * NS_PER_S)

/* What decides when a job has to be gone; all in nanoseconds. */
struct schedule {
	int64_t	ttl;
	int64_t	renew_every;
	int64_t	grace;
};

/* Async-signal-safe. */
int64_t	 now_ns(void);

/* Saturate at TIME_NEVER; TIME_NEVER plus anything is TIME_NEVER. */
int64_t	 time_add(int64_t at, int64_t ns);

/* A duration so many times, or milliseconds as nanoseconds; saturates. */
int64_t	 time_times(int64_t n, int64_t times);

int64_t	 time_earlier(int64_t a, int64_t b);
int64_t	 time_later(int64_t a, int64_t b);

/*
 * Reads "90", "500ms", "90s", "5m", "1h30m", "2d".  Units go from large to
 * small, each at most once; a number without a unit is seconds and stands
 * alone.  0, or -1 with errno EINVAL (not a duration) or ERANGE (too long).
 */
int	 duration_parse(const char *text, int64_t *ns);

/* The same form, exact down to milliseconds; at most 32 bytes with the NUL. */
void	 duration_format(int64_t ns, char *buf, size_t size);

/*
 * Seconds, with three digits after a point only where they are not zero; at
 * most 24 bytes with the NUL.  Async-signal-safe.
 */
void	 seconds_format(int64_t ns, char *buf);

/* What is kept back of a lease for clock rates, scheduling and reaping. */
int64_t	 schedule_margin(int64_t ttl);

/* The shortest ttl that leaves room for two renewals, grace and margin. */
bool	 schedule_fits(const struct schedule *);

/* SIGKILL and SIGTERM to the tree; TIME_NEVER when the deadline is. */
int64_t	 schedule_kill_at(int64_t deadline, int64_t ttl);
int64_t	 schedule_term_at(int64_t deadline, int64_t ttl, int64_t grace);

/* A close-on-exec timerfd; arming with TIME_NEVER disarms.  -1 and errno. */
int	 timer_open(void);
void	 timer_arm(int fd, int64_t at);
void	 timer_clear(int fd);		/* reads what has expired */

#endif
