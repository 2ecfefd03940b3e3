/*
 * compare WHAT N ROUNDS -- OURS... [-- THEIRS...]...
 *
 * Measures commands side by side and prints a line a figure: the median of
 * each command, and what part of theirs ours is, as the median and quartiles of
 * ratios that were taken in one round, so that what else goes on at the machine
 * hits both.  A command may be empty.  In its words JOB stands for a program
 * that it runs under its lease.  WHAT is
 *	run	it, from its start to its end; N is 1
 *	skip	the same, while the command itself holds the lease
 *	pass	from the end of a holder until the command of the last of N that
 *		waited has started, for each
 *	kill	the same, of a holder that is killed with all that it has
 *		started
 *	hold	N seconds of a holder, for each second, without the job
 * Calls, bytes and memory are counted in rounds of their own, which are slower.
 */
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "family.h"
#include "trace.h"

#define COMMANDS_MAX	3
#define N_MAX		1000
#define WORDS_MAX	64
#define WARM_UP		5
#define TRACED		3
#define PATIENCE_MS	60000
/* Whoever has run for no more than that part of so long waits. */
#define QUIET_MS	300
#define QUIET_PART	0.002
#define PASS		"/bin/true"
/* What a waiter runs: it says that it has started. */
#define STARTED		"/bin/echo"

enum figure { WALL, CPU, WAKEUPS, MEMORY, CALLS, WIRE, FIGURES };

static const struct {
	const char	*name;
	int		 digits;
} figures[FIGURES] = {
	[WALL] = { "wall ms", 3 },
	[CPU] = { "cpu ms", 3 },
	[WAKEUPS] = { "wake-ups", 2 },
	[MEMORY] = { "memory kB", 0 },
	[CALLS] = { "calls", 0 },
	[WIRE] = { "wire bytes", 0 },
};

struct command {
	char	**argv;
	/* Of each round; FIGURES columns of as many as there are. */
	double	*samples[FIGURES];
	int	 n[FIGURES];
	/* While it holds. */
	pid_t	 holder;
	char	*script;	/* what it runs, until the FIFO is closed */
	char	*fifo;
	int	 end;		/* our end of that */
};

struct bench {
	int	 n, rounds, ncommands;
	bool	 is_skip;
	void	 (*measure)(struct bench *, struct command *, struct trace *);
	struct command commands[COMMANDS_MAX];
};

static double
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void
nap(void)
{
	const struct timespec moment = { .tv_nsec = 2000000 };

	nanosleep(&moment, NULL);
}

static void
add_sample(struct command *command, enum figure figure, double value)
{
	command->samples[figure][command->n[figure]++] = value;
}

/* --- Processes --- */

/* A word with the job's name in the place of JOB. */
static char *
fill_in(const char *word, const char *job)
{
	const char *at = strstr(word, "JOB");
	char *text;

	if (at == NULL)
		text = strdup(word);
	else if (asprintf(&text, "%.*s%s%s", (int)(at - word), word, job,
	    at + 3) == -1)
		text = NULL;
	if (text == NULL)
		err(1, "cannot start a command");
	return text;
}

/* Nothing is read from standard input: not everybody hands it on. */
static void
execute(const struct command *command, const char *job)
{
	char *argv[WORDS_MAX + 1] = { NULL };
	int i;

	for (i = 0; i < WORDS_MAX && command->argv[i] != NULL; i++)
		argv[i] = fill_in(command->argv[i], job);
	execvp(argv[0], argv);
	err(127, "cannot run '%s'", argv[0]);
}

/*
 * With a trace, it is in it from its first call.  What it prints goes to out,
 * unless that is -1.
 */
static pid_t
start(const struct command *command, const char *job, int out,
    const struct trace *trace)
{
	int gate[2];
	pid_t pid;
	char c;

	if (pipe2(gate, O_CLOEXEC) == -1 || (pid = fork()) == -1)
		err(1, "cannot start a command");
	if (pid == 0) {
		close(gate[1]);
		if (trace != NULL && read(gate[0], &c, 1) == -1)
			err(127, "cannot wait for the tracer");
		if (out != -1 && dup2(out, STDOUT_FILENO) == -1)
			err(127, "cannot hand on a pipe");
		execute(command, job);
	}
	if (trace != NULL && trace_start(pid) == -1)
		err(1, "cannot trace");
	close(gate[0]);
	close(gate[1]);
	return pid;
}

/* A moment later, what those at and below pid are. */
static void
look_again(pid_t pid, double limit_ms, struct trace *trace, struct family *f)
{
	if (now_ms() > limit_ms)
		errx(1, "the lease is not taken, or not waited for");
	nap();
	if (trace != NULL)
		trace_go_on(0, trace);
	family_look(pid, FAMILY_STATE, f);
}

static void
until_held(pid_t pid, struct trace *trace)
{
	double limit = now_ms() + PATIENCE_MS;
	struct family f;

	do
		look_again(pid, limit, trace, &f);
	while (f.jobs == 0);
}

/* Some look around while they wait. */
static void
until_quiet(pid_t pid, struct trace *trace)
{
	double limit = now_ms() + PATIENCE_MS, since = 0, now;
	int64_t ran_ns = 0;
	struct family f;

	do {
		look_again(pid, limit, trace, &f);
		now = now_ms();
		if (since == 0 || (double)(f.ran_ns - ran_ns) / 1e6 >
		    (now - since) * f.processes * QUIET_PART) {
			ran_ns = f.ran_ns;
			since = now;
		}
	} while (now - since < QUIET_MS || f.awake * 10 > f.processes);
}

static void
hold(struct command *command, struct trace *trace)
{
	/* With ourselves as a reader, so that we do not wait for one. */
	command->end = open(command->fifo, O_RDWR | O_CLOEXEC);
	if (command->end == -1)
		err(1, "cannot open '%s'", command->fifo);
	command->holder = start(command, command->script, -1, trace);
	until_held(command->holder, trace);
}

static void
reap(struct trace *trace)
{
	if (trace != NULL)
		trace_go_on(-1, trace);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static double
cpu_ms(const struct rusage *ru)
{
	return (double)(ru->ru_utime.tv_sec + ru->ru_stime.tv_sec) * 1e3 +
	    (double)(ru->ru_utime.tv_usec + ru->ru_stime.tv_usec) / 1e3;
}

/* --- What is measured --- */

static void
add_traced(struct command *command, const struct trace *trace, int n)
{
	add_sample(command, CALLS, (double)trace->calls / n);
	add_sample(command, WIRE, (double)trace->wire / n);
}

static void
measure_run(struct bench *bench, struct command *command, struct trace *trace)
{
	int status;
	double begun = now_ms();
	struct rusage ru;
	pid_t pid;

	(void)bench;
	pid = start(command, PASS, -1, trace);
	if (trace != NULL) {
		trace->of = pid;
		trace_go_on(pid, trace);
		add_traced(command, trace, 1);
		add_sample(command, MEMORY, (double)trace->peak_kb);
		return;
	}
	if (wait4(pid, &status, 0, &ru) == -1 ||
	    (WIFEXITED(status) && WEXITSTATUS(status) == 127))
		errx(1, "a command has failed");
	add_sample(command, WALL, now_ms() - begun);
	add_sample(command, CPU, cpu_ms(&ru));
}

/* Until so many have started, each of which prints a character. */
static void
until_started(int pipe, int n)
{
	char said[N_MAX];
	ssize_t got;

	for (; n > 0; n -= (int)got) {
		if ((got = read(pipe, said, (size_t)n)) <= 0)
			errx(1, "not all who wait have had the lease");
	}
}

/* From the end of the holder; the processor time is that of those who wait. */
static void
pass_on(struct bench *bench, struct command *command, bool by_kill,
    struct trace *trace)
{
	static pid_t pids[N_MAX];
	int i;
	int out[2];
	struct trace ignored = { .calls = 0 };
	double begun, cpu = 0;
	struct family f;
	struct rusage ru;

	if (pipe2(out, O_CLOEXEC) == -1)
		err(1, "cannot make a pipe");
	hold(command, trace == NULL ? NULL : &ignored);
	for (i = 0; i < bench->n; i++)
		pids[i] = start(command, STARTED, out[1], trace);
	close(out[1]);
	until_quiet(getpid(), trace == NULL ? NULL : &ignored);
	if (trace != NULL) {
		family_look(getpid(), FAMILY_MEMORY, &f);
		add_sample(command, MEMORY, (double)f.pss_kb / (bench->n + 1));
	}
	begun = now_ms();
	if (by_kill)
		family_kill(command->holder);
	else
		close(command->end);
	if (trace != NULL) {
		reap(trace);
		add_traced(command, trace, bench->n);
	} else {
		until_started(out[0], bench->n);
		add_sample(command, WALL, (now_ms() - begun) / bench->n);
		for (i = 0; i < bench->n; i++) {
			if (wait4(pids[i], NULL, 0, &ru) != -1)
				cpu += cpu_ms(&ru);
		}
		add_sample(command, CPU, cpu / bench->n);
	}
	if (by_kill)
		close(command->end);
	reap(trace);
	close(out[0]);
}

static void
measure_pass(struct bench *bench, struct command *command, struct trace *trace)
{
	pass_on(bench, command, false, trace);
}

static void
measure_kill(struct bench *bench, struct command *command, struct trace *trace)
{
	pass_on(bench, command, true, trace);
}

static void
measure_hold(struct bench *bench, struct command *command, struct trace *trace)
{
	struct family before, after;
	double limit;

	hold(command, trace);
	until_quiet(command->holder, trace);
	if (trace != NULL)
		*trace = (struct trace){ .calls = 0 };
	family_look(command->holder, FAMILY_STATE, &before);
	limit = now_ms() + bench->n * 1e3;
	while (now_ms() < limit) {
		if (trace != NULL)
			trace_go_on(0, trace);
		nap();
	}
	family_look(command->holder, FAMILY_MEMORY, &after);
	if (trace != NULL) {
		add_traced(command, trace, bench->n);
	} else {
		add_sample(command, CPU, (double)(after.ran_ns -
		    before.ran_ns) / 1e6 / bench->n);
		add_sample(command, WAKEUPS, (double)(after.slept -
		    before.slept) / bench->n);
		add_sample(command, MEMORY, (double)after.unshared_kb);
	}
	close(command->end);
	reap(trace);
}

static const struct {
	const char	*name;
	void		(*measure)(struct bench *, struct command *,
	    struct trace *);
} measures[] = {
	{ "run", measure_run },
	{ "skip", measure_run },
	{ "pass", measure_pass },
	{ "kill", measure_kill },
	{ "hold", measure_hold },
};

#define NMEASURES	(sizeof(measures) / sizeof(measures[0]))

/* Each is first as often as the others. */
static void
round_of(struct bench *bench, int round, bool traced)
{
	struct trace trace;
	struct command *command;
	int i;

	for (i = 0; i < bench->ncommands; i++) {
		command = &bench->commands[(round + i) % bench->ncommands];
		trace = (struct trace){ .calls = 0 };
		if (command->argv[0] != NULL)
			bench->measure(bench, command, traced ? &trace : NULL);
	}
}

/* --- What is printed --- */

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
	double at = q * (n - 1);
	int i = (int)at;

	qsort(values, (size_t)n, sizeof(*values), compare);
	return i + 1 == n ? values[i] :
	    values[i] + (values[i + 1] - values[i]) * (at - i);
}

static double *
columns(int n)
{
	double *column = calloc((size_t)n, sizeof(*column));

	if (column == NULL)
		err(1, "no memory");
	return column;
}

/* Sorts what is theirs. */
static void
report_theirs(const double *ours, struct command *theirs, enum figure figure)
{
	double *their = theirs->samples[figure], *ratios;
	int i, n = 0;

	if (theirs->n[figure] == 0) {
		printf(" | %9s %18s", "-", "");
		return;
	}
	ratios = columns(theirs->n[figure]);
	for (i = 0; i < theirs->n[figure]; i++) {
		if (their[i] > 0)
			ratios[n++] = ours[i] / their[i];
	}
	printf(" | %9.*f ", figures[figure].digits,
	    quantile(their, theirs->n[figure], 0.5));
	if (n == 0)
		printf("%18s", "-");
	else
		printf("%5.2f (%4.2f-%4.2f)", quantile(ratios, n, 0.5),
		    quantile(ratios, n, 0.25), quantile(ratios, n, 0.75));
	free(ratios);
}

static void
report(struct bench *bench, enum figure figure)
{
	struct command *ours = &bench->commands[0];
	double *sorted;
	int i, n = ours->n[figure];

	if (n == 0)
		return;
	sorted = columns(n);
	memcpy(sorted, ours->samples[figure], (size_t)n * sizeof(*sorted));
	printf("  %-10s %9.*f", figures[figure].name, figures[figure].digits,
	    quantile(sorted, n, 0.5));
	free(sorted);
	for (i = 1; i < bench->ncommands; i++)
		report_theirs(ours->samples[figure], &bench->commands[i],
		    figure);
	putchar('\n');
}

/* In the current folder. */
static void
make_job(struct command *command, int i)
{
	char *here = get_current_dir_name();
	FILE *fp;

	if (here == NULL ||
	    asprintf(&command->script, "%s/hold.%d", here, i) == -1 ||
	    asprintf(&command->fifo, "%s.end", command->script) == -1 ||
	    (fp = fopen(command->script, "we")) == NULL)
		err(1, "cannot make a job");
	/* It is open before the job is seen. */
	fprintf(fp, "#!/bin/sh\nexec " FAMILY_JOB " <'%s'\n", command->fifo);
	unlink(command->fifo);
	if (fclose(fp) == EOF || chmod(command->script, 0700) == -1 ||
	    mkfifo(command->fifo, 0600) == -1)
		err(1, "cannot make a job");
	free(here);
}

static void
add_command(struct bench *bench, char *argv[])
{
	struct command *command = &bench->commands[bench->ncommands];
	int i;

	make_job(command, bench->ncommands++);
	command->argv = argv;
	for (i = 0; i < FIGURES; i++)
		command->samples[i] = columns(bench->rounds + WARM_UP);
}

/* What is over is not read. */
static void
parse(struct bench *bench, int argc, char *argv[])
{
	size_t k;
	int i;

	for (k = 0; argc > 4 && k < NMEASURES; k++) {
		if (strcmp(argv[1], measures[k].name) == 0)
			bench->measure = measures[k].measure;
	}
	if (bench->measure == NULL)
		errx(2, "usage: compare run|skip|pass|kill|hold N ROUNDS "
		    "-- OURS... [-- THEIRS...]...");
	bench->is_skip = strcmp(argv[1], "skip") == 0;
	bench->n = atoi(argv[2]);
	bench->rounds = atoi(argv[3]);
	if (bench->n <= 0 || bench->n > N_MAX || bench->rounds <= 0)
		errx(2, "'%s' or '%s' is too small, or too large", argv[2],
		    argv[3]);
	for (i = 4; i < argc; i++) {
		if (strcmp(argv[i], "--") != 0)
			continue;
		argv[i] = NULL;
		if (bench->ncommands < COMMANDS_MAX)
			add_command(bench, argv + i + 1);
	}
}

static bool
has_job(const struct command *command)
{
	int i;

	for (i = 0; command->argv[i] != NULL; i++) {
		if (strstr(command->argv[i], "JOB") != NULL)
			return true;
	}
	return false;
}

/* Each by itself; there may be one that cannot hold. */
static void
hold_all(struct bench *bench)
{
	int i;

	for (i = 0; i < bench->ncommands; i++) {
		bench->commands[i].end = -1;
		if (has_job(&bench->commands[i]))
			hold(&bench->commands[i], NULL);
	}
}

static void
release_all(struct bench *bench)
{
	int i;

	for (i = 0; i < bench->ncommands; i++) {
		if (bench->commands[i].end != -1)
			close(bench->commands[i].end);
	}
	reap(NULL);
}

static void
warm_up(struct bench *bench)
{
	int i;

	for (i = 0; i < WARM_UP; i++)
		round_of(bench, i, false);
	for (i = 0; i < bench->ncommands; i++)
		memset(bench->commands[i].n, 0, sizeof(bench->commands[i].n));
}

int
main(int argc, char *argv[])
{
	static struct bench bench;
	enum figure figure;
	int i;

	parse(&bench, argc, argv);
	/* What is orphaned by a kill is ours to wait for. */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	if (bench.is_skip)
		hold_all(&bench);
	if (bench.measure == measure_run)
		warm_up(&bench);
	for (i = 0; i < bench.rounds; i++)
		round_of(&bench, i, false);
	for (i = 0; i < bench.rounds && i < TRACED; i++)
		round_of(&bench, i, true);
	if (bench.is_skip)
		release_all(&bench);
	for (figure = 0; figure < FIGURES; figure++)
		report(&bench, figure);
	return 0;
}
