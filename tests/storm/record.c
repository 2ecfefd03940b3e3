/*
 * Writes the history of a storm: one line for each thing that happened, with
 * one clock for everybody, CLOCK_MONOTONIC, each in a single write to a file
 * that is open for appending.  $STORM_HISTORY is the file.  Must never buffer:
 * whoever is killed has written all that it did.
 *
 * record note WORD...		by the storm itself: a fault, its end
 * record run WHO NAME FLAGS PIDFILE COMMAND...
 *				runs a command, tells of its begin and its end;
 *				its pid is in PIDFILE meanwhile
 * record as NAME COMMAND...	becomes the command with a token, for locks that
 *				have none
 * record pulse			tells when it was not run for long, for ever
 *
 * Of a job, which has LEASERUN_NAME, LEASERUN_FENCE_TOKEN and STORM_RUN in its
 * environment:
 * record start KIND		first, by the command; also tells of everybody
 *				of another token who is still there
 * record tick KIND MS		is a process of it, for so long
 * record end STATUS		last, by the command
 * record get FILE		prints what the register holds
 * record put FILE OLD		writes a new value that was made from OLD
 *
 *	NS begin WHO RUN NAME FLAGS	NS exit WHO RUN code|signal NUMBER PID
 *	NS start NAME TOKEN PID RUN WHO KIND
 *	NS member NAME TOKEN PID KIND	NS tick NAME TOKEN PID
 *	NS gone NAME TOKEN PID		NS end NAME TOKEN PID RUN STATUS
 *	NS alive NAME TOKEN PID RUN WHO	of the one that is still there
 *	NS did NAME TOKEN PID FILE OLD NEW
 *	NS gap MS
 */
#include <sys/types.h>
#include <sys/wait.h>

#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS	INT64_C(1000000)
#define TICK		(10 * NS_PER_MS)
#define GAP		(60 * NS_PER_MS)
#define PULSE		(20 * NS_PER_MS)

static int out = -1;
static const char *name, *token;

static int64_t
clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static void
nap(int64_t ns)
{
	struct timespec ts = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&ts, NULL);
}

/* The time is taken last, so that it is never earlier than what is told. */
static void __attribute__((format(printf, 1, 2)))
say(const char *fmt, ...)
{
	char text[400], line[440];
	va_list ap;
	int n;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	n = snprintf(line, sizeof(line), "%" PRId64 " %s\n", clock_ns(), text);
	if (write(out, line, (size_t)n) != n)
		err(99, "history");
}

static const char *
need(const char *variable)
{
	const char *value = getenv(variable);

	if (value == NULL || *value == '\0')
		errx(99, "no %s", variable);
	return value;
}

static void
note(char *argv[])
{
	char text[400] = "";
	size_t n;

	for (; *argv != NULL; argv++) {
		n = strlen(text);
		snprintf(text + n, sizeof(text) - n, "%s%s", n > 0 ? " " : "",
		    *argv);
	}
	say("%s", text);
}

/* By rename, since the storm reads it at any time. */
static void
put_pid(const char *path, pid_t pid)
{
	char draft[512];
	FILE *f;

	snprintf(draft, sizeof(draft), "%s.new", path);
	if ((f = fopen(draft, "we")) == NULL || fprintf(f, "%ld\n",
	    (long)pid) < 0 || fclose(f) != 0 || rename(draft, path) == -1)
		err(99, "%s", path);
}

static int
run(char *argv[])
{
	char number[32];
	int status;
	pid_t pid;

	snprintf(number, sizeof(number), "%" PRId64, clock_ns());
	setenv("STORM_RUN", number, 1);
	setenv("STORM_WHO", argv[0], 1);
	say("begin %s %s %s %s", argv[0], number, argv[1], argv[2]);
	if ((pid = fork()) == -1)
		err(99, "fork");
	if (pid == 0) {
		execvp(argv[4], argv + 4);
		err(127, "%s", argv[4]);
	}
	put_pid(argv[3], pid);
	while (waitpid(pid, &status, 0) == -1)
		;
	unlink(argv[3]);
	if (WIFSIGNALED(status))
		say("exit %s %s signal %d %ld", argv[0], number,
		    WTERMSIG(status), (long)pid);
	else
		say("exit %s %s code %d %ld", argv[0], number,
		    WEXITSTATUS(status), (long)pid);
	return 0;
}

static void
become(char *argv[])
{
	char number[32];

	snprintf(number, sizeof(number), "%" PRId64, clock_ns());
	setenv("LEASERUN_NAME", argv[0], 1);
	setenv("LEASERUN_FENCE_TOKEN", number, 1);
	execvp(argv[1], argv + 1);
	err(127, "%s", argv[1]);
}

static void
pulse(void)
{
	int64_t last = clock_ns(), now;

	for (;;) {
		nap(PULSE);
		now = clock_ns();
		if (now - last > GAP)
			say("gap %" PRId64, (now - last) / NS_PER_MS);
		last = now;
	}
}

/* --- A job --- */

/* The value of a variable in what /proc/PID/environ has, or NULL. */
static const char *
find(const char *text, size_t len, const char *variable)
{
	size_t n = strlen(variable);
	const char *p = text;

	while (p < text + len) {
		if (strncmp(p, variable, n) == 0 && p[n] == '=')
			return p + n + 1;
		p += strlen(p) + 1;
	}
	return NULL;
}

/* A zombie has none: what is read is of those who live, or are stopped. */
static void
look(const char *pid)
{
	static char text[65536];
	const char *its_name, *its_token, *its_run, *its_who;
	char path[300];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/environ", pid);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return;
	text[n] = '\0';
	its_name = find(text, (size_t)n, "LEASERUN_NAME");
	its_token = find(text, (size_t)n, "LEASERUN_FENCE_TOKEN");
	its_run = find(text, (size_t)n, "STORM_RUN");
	its_who = find(text, (size_t)n, "STORM_WHO");
	if (its_name != NULL && its_token != NULL && its_run != NULL &&
	    its_who != NULL && strcmp(its_name, name) == 0 &&
	    strcmp(its_token, token) != 0)
		say("alive %s %s %s %s %s", name, its_token, pid, its_run,
		    its_who);
}

static void
look_for_others(void)
{
	struct dirent *d;
	DIR *dir;

	if ((dir = opendir("/proc")) == NULL)
		err(99, "/proc");
	while ((d = readdir(dir)) != NULL) {
		if (strspn(d->d_name, "0123456789") == strlen(d->d_name))
			look(d->d_name);
	}
	closedir(dir);
}

static void
tick(const char *kind, int64_t ms)
{
	int64_t until = clock_ns() + ms * NS_PER_MS;

	say("member %s %s %ld %s", name, token, (long)getpid(), kind);
	while (clock_ns() < until) {
		say("tick %s %s %ld", name, token, (long)getpid());
		nap(TICK);
	}
	say("gone %s %s %ld", name, token, (long)getpid());
}

/* --- A register: a file that is replaced by rename --- */

static void
get(const char *path)
{
	char value[128] = "0";
	FILE *f;

	if ((f = fopen(path, "re")) != NULL) {
		if (fscanf(f, "%127s", value) != 1)
			errx(99, "'%s' is empty", path);
		fclose(f);
	}
	printf("%s\n", value);
}

static void
put(const char *path, const char *old)
{
	char draft[512], value[128];
	const char *base = strrchr(path, '/');
	FILE *f;

	snprintf(value, sizeof(value), "%s.%ld.%" PRId64, token,
	    (long)getpid(), clock_ns());
	snprintf(draft, sizeof(draft), "%s.%s", path, value);
	if ((f = fopen(draft, "we")) == NULL || fprintf(f, "%s\n", value) < 0 ||
	    fclose(f) != 0 || rename(draft, path) == -1)
		err(99, "%s", path);
	say("did %s %s %ld %s %s %s", name, token, (long)getpid(),
	    base == NULL ? path : base + 1, old, value);
}

static int
job(const char *word, char *argv[], int argc)
{
	name = need("LEASERUN_NAME");
	token = need("LEASERUN_FENCE_TOKEN");
	if (strcmp(word, "start") == 0 && argc == 1) {
		/* The parent is the command. */
		say("start %s %s %ld %s %s %s", name, token, (long)getppid(),
		    need("STORM_RUN"), need("STORM_WHO"), argv[0]);
		look_for_others();
	} else if (strcmp(word, "end") == 0 && argc == 1)
		say("end %s %s %ld %s %s", name, token, (long)getppid(),
		    need("STORM_RUN"), argv[0]);
	else if (strcmp(word, "tick") == 0 && argc == 2)
		tick(argv[0], strtoll(argv[1], NULL, 10));
	else if (strcmp(word, "get") == 0 && argc == 1)
		get(argv[0]);
	else if (strcmp(word, "put") == 0 && argc == 2)
		put(argv[0], argv[1]);
	else
		return 99;
	return 0;
}

int
main(int argc, char *argv[])
{
	const char *path = need("STORM_HISTORY");

	if (argc < 2)
		return 99;
	out = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (out == -1)
		err(99, "%s", path);
	if (strcmp(argv[1], "note") == 0 && argc > 2)
		note(argv + 2);
	else if (strcmp(argv[1], "run") == 0 && argc > 6)
		return run(argv + 2);
	else if (strcmp(argv[1], "as") == 0 && argc > 3)
		become(argv + 2);
	else if (strcmp(argv[1], "pulse") == 0)
		pulse();
	else
		return job(argv[1], argv + 2, argc - 2);
	return 0;
}
