/*
 * The clock, durations, and when a job has to be gone.  Nothing here looks at
 * a wall clock.
 */
#include <sys/timerfd.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "timeutil.h"
#include "util.h"

static const struct unit {
	const char	*name;
	int64_t		 ns;
} units[] = {
	{ "d", 86400 * NS_PER_S },
	{ "h", 3600 * NS_PER_S },
	{ "m", 60 * NS_PER_S },
	{ "s", NS_PER_S },
	{ "ms", NS_PER_MS },
};

#define NUNITS	(sizeof(units) / sizeof(units[0]))

int64_t
now_ns(void)
{
	struct timespec ts;

	/* Cannot fail: the clock is there since Linux 2.6.39. */
	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t
time_add(int64_t at, int64_t ns)
{
	int64_t sum;

	if (at == TIME_NEVER || ns == TIME_NEVER)
		return TIME_NEVER;
	if (__builtin_add_overflow(at, ns, &sum))
		return ns > 0 ? TIME_NEVER : INT64_MIN;
	return sum;
}

int64_t
time_times(int64_t n, int64_t times)
{
	int64_t product;

	if (__builtin_mul_overflow(n, times, &product))
		return (n < 0) == (times < 0) ? TIME_NEVER : INT64_MIN;
	return product;
}

int64_t
time_earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t
time_later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Digits without sign or space; -1 with errno. */
static int
read_number(const char **text, int64_t *value)
{
	const char *p = *text;
	int64_t n = 0;

	if (*p < '0' || *p > '9') {
		errno = EINVAL;
		return -1;
	}
	for (; *p >= '0' && *p <= '9'; p++) {
		if (__builtin_mul_overflow(n, (int64_t)10, &n) ||
		    __builtin_add_overflow(n, (int64_t)(*p - '0'), &n)) {
			errno = ERANGE;
			return -1;
		}
	}
	*text = p;
	*value = n;
	return 0;
}

/* The unit at *text, not before the one at index `first'; NUNITS if none. */
static size_t
read_unit(const char **text, size_t first)
{
	size_t len = strspn(*text, "dhms"), i;

	for (i = first; i < NUNITS; i++) {
		if (strlen(units[i].name) == len &&
		    strncmp(*text, units[i].name, len) == 0) {
			*text += len;
			return i;
		}
	}
	return NUNITS;
}

int
duration_parse(const char *text, int64_t *ns)
{
	int64_t value, part, total = 0;
	size_t unit, next = 0;
	const char *p = text;

	do {
		if (read_number(&p, &value) == -1)
			return -1;
		if (*p == '\0' && next == 0)
			unit = 3;	/* a bare number: seconds */
		else if ((unit = read_unit(&p, next)) == NUNITS) {
			errno = EINVAL;
			return -1;
		}
		next = unit + 1;
		if (__builtin_mul_overflow(value, units[unit].ns, &part) ||
		    __builtin_add_overflow(total, part, &total) ||
		    total > DURATION_MAX) {
			errno = ERANGE;
			return -1;
		}
	} while (*p != '\0');
	*ns = total;
	return 0;
}

void
duration_format(int64_t ns, char *buf, size_t size)
{
	size_t i, used = 0;
	int n;

	if (size == 0)
		return;
	buf[0] = '\0';
	for (i = 0; i < NUNITS; i++) {
		if (ns < units[i].ns)
			continue;
		n = snprintf(buf + used, size - used, "%" PRId64 "%s",
		    ns / units[i].ns, units[i].name);
		ns %= units[i].ns;
		if (n < 0 || (size_t)n >= size - used)
			return;
		used += (size_t)n;
	}
	if (used == 0)
		snprintf(buf, size, "0s");
}

void
seconds_format(int64_t ns, char *buf)
{
	unsigned int ms = (unsigned int)(ns / NS_PER_MS % 1000);

	number_format((uint64_t)(ns / NS_PER_S), buf);
	if (ms == 0)
		return;
	buf += strlen(buf);
	*buf++ = '.';
	*buf++ = (char)('0' + ms / 100);
	*buf++ = (char)('0' + ms / 10 % 10);
	*buf++ = (char)('0' + ms % 10);
	*buf = '\0';
}

int64_t
schedule_margin(int64_t ttl)
{
	return 200 * NS_PER_MS + ttl / 50;
}

bool
schedule_fits(const struct schedule *s)
{
	int64_t need;

	need = time_add(time_add(s->renew_every, s->renew_every), s->grace);
	return time_add(need, schedule_margin(s->ttl)) <= s->ttl;
}

int64_t
schedule_kill_at(int64_t deadline, int64_t ttl)
{
	return deadline == TIME_NEVER ? TIME_NEVER :
	    time_add(deadline, -schedule_margin(ttl));
}

int64_t
schedule_term_at(int64_t deadline, int64_t ttl, int64_t grace)
{
	int64_t kill_at = schedule_kill_at(deadline, ttl);

	return kill_at == TIME_NEVER ? TIME_NEVER : time_add(kill_at, -grace);
}

int
timer_open(void)
{
	return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void
timer_arm(int fd, int64_t at)
{
	struct itimerspec its = { 0 };

	if (at != TIME_NEVER) {
		/* All zero would disarm: a time long past is 1 ns. */
		if (at < 1)
			at = 1;
		its.it_value.tv_sec = at / NS_PER_S;
		its.it_value.tv_nsec = at % NS_PER_S;
	}
	timerfd_settime(fd, TFD_TIMER_ABSTIME, &its, NULL);
}

void
timer_clear(int fd)
{
	uint64_t count;

	while (read(fd, &count, sizeof(count)) == -1 && errno == EINTR)
		;
}
