/*
 * bench ROUNDS -- COMMAND-A... -- COMMAND-B...
 *
 * Runs two commands in turn and prints medians of wall time and CPU time of
 * each, and the median and quartiles of the ratio A / B taken pair by pair, so
 * that what else goes on at the machine hits both.
 */
#include <sys/resource.h>
#include <sys/wait.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP	20

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
run(char **argv, double *wall, double *cpu)
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
	*wall = seconds() - start;
	*cpu = of_timeval(ru.ru_utime) + of_timeval(ru.ru_stime);
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
report(const char *what, double *a, double *b, int n)
{
	double *ratio = calloc((size_t)n, sizeof(*ratio));
	int i;

	if (ratio == NULL)
		exit(1);
	for (i = 0; i < n; i++)
		ratio[i] = b[i] > 0 ? a[i] / b[i] : 1;
	printf("  %-10s %8.3f ms | %8.3f ms | ratio %.2f (%.2f to %.2f)\n",
	    what, quantile(a, n, 0.5) * 1e3, quantile(b, n, 0.5) * 1e3,
	    quantile(ratio, n, 0.5), quantile(ratio, n, 0.25),
	    quantile(ratio, n, 0.75));
	free(ratio);
}

int
main(int argc, char *argv[])
{
	double *wall[2], *cpu[2], ignored;
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
		wall[i] = calloc((size_t)n, sizeof(double));
		cpu[i] = calloc((size_t)n, sizeof(double));
		if (wall[i] == NULL || cpu[i] == NULL)
			return 1;
	}
	for (i = 0; i < WARM_UP; i++)
		run(command[i % 2], &ignored, &ignored);
	for (i = 0; i < n; i++) {
		/* Each is first as often as the other. */
		which = i % 2;
		run(command[which], &wall[which][i], &cpu[which][i]);
		which = !which;
		run(command[which], &wall[which][i], &cpu[which][i]);
	}
	report("wall", wall[0], wall[1], n);
	report("cpu", cpu[0], cpu[1], n);
	return 0;
}
