/*
 * Durations, saturating arithmetic, and the times of a lease.
 */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "../src/timeutil.h"
#include "tap.h"

#define S	NS_PER_S
#define MS	NS_PER_MS
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct good {
	const char	*text;
	int64_t		 ns;
	const char	*formatted;
} good[] = {
	{ "0", 0, "0s" },
	{ "90", 90 * S, "1m30s" },
	{ "090", 90 * S, "1m30s" },
	{ "0s", 0, "0s" },
	{ "500ms", 500 * MS, "500ms" },
	{ "1500ms", 1500 * MS, "1s500ms" },
	{ "90s", 90 * S, "1m30s" },
	{ "5m", 300 * S, "5m" },
	{ "1h30m", 5400 * S, "1h30m" },
	{ "90m", 5400 * S, "1h30m" },
	{ "2d", 172800 * S, "2d" },
	{ "1d1h1m1s1ms", 90061 * S + MS, "1d1h1m1s1ms" },
	{ "1d1ms", 86400 * S + MS, "1d1ms" },
	{ "36525d", DURATION_MAX, "36525d" },
	{ "3155760000", DURATION_MAX, "36525d" },
};

static const struct bad {
	const char	*text;
	int		 error;
} bad[] = {
	{ "", EINVAL },
	{ " ", EINVAL },
	{ " 5", EINVAL },
	{ "5 ", EINVAL },
	{ "5 s", EINVAL },
	{ "-1", EINVAL },
	{ "+1", EINVAL },
	{ "0.5", EINVAL },
	{ "1e3", EINVAL },
	{ "0x10", EINVAL },
	{ "10x", EINVAL },
	{ "s", EINVAL },
	{ "5S", EINVAL },
	{ "5sec", EINVAL },
	{ "5us", EINVAL },
	{ "5mm", EINVAL },
	{ "5smh", EINVAL },
	{ "1h30", EINVAL },
	{ "30s5m", EINVAL },
	{ "5m5m", EINVAL },
	{ "1ms1s", EINVAL },
	{ "1h-5m", EINVAL },
	{ "inf", EINVAL },
	{ "36525d1ms", ERANGE },
	{ "3155760001", ERANGE },
	{ "9223372036854775807", ERANGE },
	{ "9223372036854775808", ERANGE },
	{ "18446744073709551616", ERANGE },
	{ "106752d", ERANGE },
	{ "99999999999999999999999999999999ms", ERANGE },
};

static void
test_durations(void)
{
	char text[32], tiny[4];
	int64_t ns;
	size_t i;
	int rc;

	for (i = 0; i < COUNT(good); i++) {
		ns = -1;
		rc = duration_parse(good[i].text, &ns);
		ok(rc == 0 && ns == good[i].ns, "'%s' is read", good[i].text);
		duration_format(ns, text, sizeof(text));
		is_str(text, good[i].formatted, "'%s' is written",
		    good[i].text);
	}
	for (i = 0; i < COUNT(bad); i++) {
		ns = 42;
		errno = 0;
		rc = duration_parse(bad[i].text, &ns);
		ok(rc == -1 && errno == bad[i].error && ns == 42,
		    "'%s' is refused", bad[i].text);
	}
	duration_format(DURATION_MAX - MS, text, sizeof(text));
	is_str(text, "36524d23h59m59s999ms", "the longest text");
	duration_format(999999, text, sizeof(text));
	is_str(text, "0s", "less than a millisecond");
	duration_format(5400 * S, tiny, sizeof(tiny));
	ok(strlen(tiny) < sizeof(tiny), "no more than there is room for");
}

static void
test_arithmetic(void)
{
	is_int(time_add(1, 2), 3, "a sum");
	is_int(time_add(5, -7), -2, "a difference");
	is_int(time_add(TIME_NEVER, -1), TIME_NEVER, "never stays never");
	is_int(time_add(1, TIME_NEVER), TIME_NEVER, "never away is never");
	is_int(time_add(TIME_NEVER - 1, 2), TIME_NEVER, "saturates");
	is_int(time_add(TIME_NEVER - 2, 1), TIME_NEVER - 1, "one below never");
	is_int(time_add(INT64_MIN + 1, -2), INT64_MIN, "saturates downwards");
	is_int(time_times(-3, 7), -21, "a product");
	is_int(time_times(DURATION_MAX, 10), TIME_NEVER, "a long product");
	is_int(time_times(-3, TIME_NEVER), INT64_MIN, "downwards, too");
	is_int(time_times(-3, INT64_MIN), TIME_NEVER, "and both");
}

static void
test_schedule(void)
{
	struct schedule s = { 60 * S, 20 * S, 10 * S };

	is_int(schedule_margin(60 * S), 1400 * MS, "margin: 200 ms + ttl/50");
	is_int(schedule_kill_at(100 * S, 60 * S), 100 * S - 1400 * MS,
	    "kill_at");
	is_int(schedule_term_at(100 * S, 60 * S, 10 * S), 90 * S - 1400 * MS,
	    "term_at");
	is_int(schedule_kill_at(TIME_NEVER, 60 * S), TIME_NEVER,
	    "without a deadline nothing is killed");
	is_int(schedule_term_at(TIME_NEVER, 60 * S, 10 * S), TIME_NEVER,
	    "nor ended");

	ok(schedule_fits(&s), "what is built in fits");
	s.grace = 60 * S - 40 * S - 1400 * MS;
	ok(schedule_fits(&s), "a sum equal to the ttl fits");
	s.grace += 1;
	ok(!schedule_fits(&s), "one nanosecond more does not");
	s = (struct schedule){ 2 * S, 2 * S / 3, 2 * S / 6 };
	ok(schedule_fits(&s), "the defaults of the shortest ttl fit");
	s = (struct schedule){ DURATION_MAX, DURATION_MAX / 3, 10 * S };
	ok(schedule_fits(&s), "and those of the longest");
	s = (struct schedule){ DURATION_MAX, DURATION_MAX, DURATION_MAX };
	ok(!schedule_fits(&s), "large ones do not wrap");
	s = (struct schedule){ 60 * S, INT64_MAX / 2 + 1, 0 };
	ok(!schedule_fits(&s), "nor do sums");
}

static int
is_ready(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, timeout_ms);
}

static void
test_clock(void)
{
	int64_t before = now_ns(), after;
	int fd = timer_open();

	ok(before > 0, "there is a time");
	ok(fd != -1, "a timer opens");
	is_int(is_ready(fd, 0), 0, "it is not armed");
	timer_arm(fd, now_ns() + 30 * MS);
	is_int(is_ready(fd, 5000), 1, "it fires");
	after = now_ns();
	ok(after >= before + 30 * MS, "not too early");
	timer_clear(fd);
	is_int(is_ready(fd, 0), 0, "it is cleared");
	timer_clear(fd);
	ok(1, "clearing it again does not block");
	timer_arm(fd, 0);
	is_int(is_ready(fd, 5000), 1, "a time long past fires");
	timer_arm(fd, TIME_NEVER);
	is_int(is_ready(fd, 20), 0, "never disarms");
	close(fd);
}

int
main(void)
{
	plan(2 * COUNT(good) + COUNT(bad) + 3 + 7 + 12 + 13);
	test_durations();
	test_arithmetic();
	test_schedule();
	test_clock();
	return done();
}
