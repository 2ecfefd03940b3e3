/*
 * bench ROUNDS -- COMMAND-A... -- COMMAND-B...
 *
 * Runs two commands in turn and prints the medians of wall time, CPU time and
 * the largest resident set of one of its processes (at least our own, which it
 * starts from) for each, and the median and quartiles of the ratio A / B taken
 * pair by pair, so that what else goes on at the machine hits both.
 */
#include <sys/resource.h>
#include <sys/wait.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP	20

enum figure { WALL, CPU, PEAK, FIGURES };

/* Of one run: milliseconds and kilobytes. */
struct sample {
	double	figure[FIGURES];
};

static double
seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double
of_timeval(struct timeval tv)
{
	return (double)tv.tv_sec + (double)tv.tv_usec / 1e6;
}

static void
run(char **argv, struct sample *sample)
{
	double start = seconds();
	struct rusage ru;
	int status;
	pid_t pid;

	if ((pid = vfork()) == 0) {
		execvp(argv[0], argv);
		_exit(127);
	}
	if (pid == -1 || wait4(pid, &status, 0, &ru) == -1 ||
	    (WIFEXITED(status) && WEXITSTATUS(status) == 127)) {
		fprintf(stderr, "bench: cannot run '%s'\n", argv[0]);
		exit(1);
	}
	sample->figure[WALL] = (seconds() - start) * 1e3;
	sample->figure[CPU] = (of_timeval(ru.ru_utime) +
	    of_timeval(ru.ru_stime)) * 1e3;
	sample->figure[PEAK] = (double)ru.ru_maxrss;
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The value below which a part q of the n values is; sorts them. */
static double
quantile(double *values, int n, double q)
{
	qsort(values, (size_t)n, sizeof(*values), compare);
	return values[(int)(q * (n - 1))];
}

static void
report(enum figure figure, const struct sample *a, const struct sample *b,
    int n)
{
	static const char *const names[FIGURES] = { "wall", "cpu", "peak" };
	static const char *const units[FIGURES] = { "ms", "ms", "kB" };
	double *column[3];
	int i, k, digits = figure == PEAK ? 0 : 3;

	for (k = 0; k < 3; k++) {
		if ((column[k] = calloc((size_t)n, sizeof(double))) == NULL)
			exit(1);
	}
	for (i = 0; i < n; i++) {
		column[0][i] = a[i].figure[figure];
		column[1][i] = b[i].figure[figure];
		column[2][i] = b[i].figure[figure] > 0 ?
		    a[i].figure[figure] / b[i].figure[figure] : 1;
	}
	printf("  %-10s %8.*f %s | %8.*f %s | ratio %.2f (%.2f to %.2f)\n",
	    names[figure], digits, quantile(column[0], n, 0.5), units[figure],
	    digits, quantile(column[1], n, 0.5), units[figure],
	    quantile(column[2], n, 0.5), quantile(column[2], n, 0.25),
	    quantile(column[2], n, 0.75));
	for (k = 0; k < 3; k++)
		free(column[k]);
}

int
main(int argc, char *argv[])
{
	struct sample *samples[2], ignored;
	char **command[2] = { NULL, NULL };
	int i, n, which = 0;

	n = argc > 1 ? atoi(argv[1]) : 0;
	for (i = 2; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0 && which < 2) {
			argv[i] = NULL;
			command[which++] = argv + i + 1;
		}
	}
	if (n <= 0 || which != 2) {
		fprintf(stderr, "usage: bench ROUNDS -- A... -- B...\n");
		return 2;
	}
	for (i = 0; i < 2; i++) {
		samples[i] = calloc((size_t)n, sizeof(*samples[i]));
		if (samples[i] == NULL)
			return 1;
	}
	for (i = 0; i < WARM_UP; i++)
		run(command[i % 2], &ignored);
	for (i = 0; i < n; i++) {
		/* Each is first as often as the other. */
		which = i % 2;
		run(command[which], &samples[which][i]);
		which = !which;
		run(command[which], &samples[which][i]);
	}
	report(WALL, samples[0], samples[1], n);
	report(CPU, samples[0], samples[1], n);
	report(PEAK, samples[0], samples[1], n);
	return 0;
}
