/*
 * Starts a program many times at the same instant, round after round, and
 * counts the lines of a file: each round must add exactly one.
 *
 * rounds ROUNDS SECONDS CONTENDERS FILE PROGRAM [ARG]...
 *	FILE	to which a run of the job appends a line
 *	ARG	`@round' is the number of the round, and `@wait' 60s for every
 *		second contender and 0 for the others
 * Whoever waits has to end with 0, the others with 0 or 75.  Ends after so many
 * rounds or seconds.  Prints what it saw; 1: something was wrong.
 */
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <err.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS	INT64_C(1000000)
#define NS_PER_S	INT64_C(1000000000)
#define CONTENDERS_MAX	64
#define HELD		75

/* Shared with the contenders. */
struct gate {
	atomic_int	ready;
	_Atomic int64_t	opens_ns;	/* 0: not known yet */
	int64_t		started_ns[CONTENDERS_MAX];
};

struct rounds {
	int		 contenders;
	const char	*file;
	char		**argv;
	struct gate	*gate;
	long		 wrong, held, within_ms;
};

static int64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static bool
waits(int i)
{
	return i % 2 == 1;
}

/*
 * With priority over those that have begun, where that is allowed: there are
 * fewer processors than contenders.
 */
static void __attribute__((noreturn))
contend(const struct rounds *r, int i, const char *round)
{
	struct sched_param first = { 1 }, normal = { 0 };
	struct gate *gate = r->gate;
	struct timespec ts;
	char **arg;

	for (arg = r->argv; *arg != NULL; arg++) {
		if (strcmp(*arg, "@round") == 0)
			*arg = strdup(round);
		else if (strcmp(*arg, "@wait") == 0)
			*arg = strdup(waits(i) ? "60s" : "0");
	}
	sched_setscheduler(0, SCHED_FIFO, &first);
	gate->ready++;
	while (gate->opens_ns == 0)
		usleep(100);
	ts.tv_sec = gate->opens_ns / NS_PER_S;
	ts.tv_nsec = gate->opens_ns % NS_PER_S;
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	gate->started_ns[i] = now_ns();
	sched_setscheduler(0, SCHED_OTHER, &normal);
	execv(r->argv[0], r->argv);
	_exit(126);
}

static long
lines(const char *path)
{
	struct stat st;

	/* Of one character each. */
	return stat(path, &st) == -1 ? 0 : (long)st.st_size / 2;
}

static void
note_spread(struct rounds *r)
{
	int64_t first = INT64_MAX, last = 0;
	int i;

	for (i = 0; i < r->contenders; i++) {
		if (r->gate->started_ns[i] < first)
			first = r->gate->started_ns[i];
		if (r->gate->started_ns[i] > last)
			last = r->gate->started_ns[i];
	}
	r->within_ms += last - first < NS_PER_MS;
}

static void
judge(struct rounds *r, const char *round, int i, int status)
{
	int exited = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

	if (exited == HELD && !waits(i))
		r->held++;
	else if (exited != 0) {
		printf("round %s: a contender that %s ended with status %#x\n",
		    round, waits(i) ? "waits" : "does not wait",
		    (unsigned int)status);
		r->wrong++;
	}
}

static void
play(struct rounds *r, int number)
{
	pid_t pids[CONTENDERS_MAX];
	long before = lines(r->file), added;
	char round[16];
	int i, status;

	snprintf(round, sizeof(round), "%d", number);
	memset(r->gate, 0, sizeof(*r->gate));
	fflush(stdout);
	for (i = 0; i < r->contenders; i++) {
		if ((pids[i] = fork()) == -1)
			err(1, "fork");
		if (pids[i] == 0)
			contend(r, i, round);
	}
	while (r->gate->ready < r->contenders)
		usleep(100);
	r->gate->opens_ns = now_ns() + 3 * NS_PER_MS;
	for (i = 0; i < r->contenders; i++) {
		while (waitpid(pids[i], &status, 0) != pids[i])
			;
		judge(r, round, i, status);
	}
	note_spread(r);
	added = lines(r->file) - before;
	if (added == 1)
		return;
	printf("round %s: %ld runs\n", round, added);
	r->wrong++;
}

int
main(int argc, char *argv[])
{
	struct rounds r = { 0 };
	int64_t until;
	int n, max;

	if (argc < 6)
		errx(2, "usage: rounds ROUNDS SECONDS CONTENDERS FILE PROGRAM "
		    "[ARG]...");
	max = atoi(argv[1]);
	until = now_ns() + atoi(argv[2]) * NS_PER_S;
	r.contenders = atoi(argv[3]);
	r.file = argv[4];
	r.argv = argv + 5;
	r.gate = mmap(NULL, sizeof(*r.gate), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r.gate == MAP_FAILED || r.contenders > CONTENDERS_MAX)
		errx(2, "too many contenders");
	for (n = 0; n < max && now_ns() < until; n++)
		play(&r, n);
	printf("%d rounds of %d, %ld of them within a millisecond: %ld skips, "
	    "%ld wrong\n", n, r.contenders, r.within_ms, r.held, r.wrong);
	return n == 0 || r.wrong != 0;
}
