/*
 * Runs leaserun again and again, and harms it at a random moment of its life.
 * After each round nothing may be left: every orphan comes to this process,
 * since it is a subreaper, and the lock of the file backend has to be free.
 *
 * hammer HARM ROUNDS SECONDS FILE LOCK PROGRAM [ARG]...
 *	HARM	term		SIGTERM to the keeper
 *		kill		SIGKILL to the keeper
 *		kill-guard	SIGKILL to the guard
 *		stop		SIGSTOP to the keeper, SIGCONT a little later
 *		stop-guard	the same for the guard
 *	FILE	the job's, as probe writes it
 *	LOCK	the file that the lock is on
 * Ends after so many rounds or seconds.  Prints what it saw; 1: something was
 * wrong.
 */
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_US	INT64_C(1000)
#define NS_PER_MS	INT64_C(1000000)
#define NS_PER_S	INT64_C(1000000000)
#define ROUND_MAX	(20 * NS_PER_S)

enum harm { TERM, KILL, KILL_GUARD, STOP, STOP_GUARD, HARMS };

static const char *const harm_names[] = {
	"term", "kill", "kill-guard", "stop", "stop-guard"
};

static enum harm harm;
static const char *file, *lock;
static char **program;

/* One round. */
static pid_t keeper, guard;
static off_t file_was;
static int64_t harmed_after;
static int status;
static int starts, ends;

static int64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static void
nap(int64_t ns)
{
	struct timespec ts;

	ts.tv_sec = ns / NS_PER_S;
	ts.tv_nsec = ns % NS_PER_S;
	nanosleep(&ts, NULL);
}

static __attribute__((format(printf, 1, 2), noreturn)) void
fail(const char *fmt, ...)
{
	va_list ap;

	printf("%s after %" PRId64 " us, wait status 0x%04x, %d started, %d "
	    "ended: ", harm_names[harm], harmed_after / NS_PER_US,
	    (unsigned int)status, starts, ends);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	if (system("ps -e -o pid,ppid,stat,wchan:20,args --forest | "
	    "grep -A 9 -w \"[h]ammer\"") != 0)
		printf("no ps\n");
	exit(1);
}

static bool
is_guard(pid_t pid)
{
	char path[64], text[32];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/comm", (long)pid);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return false;
	n = read(fd, text, sizeof(text));
	close(fd);
	return n == 15 && memcmp(text, "leaserun-guard\n", 15) == 0;
}

/* 0: there is none, not yet or no longer. */
static pid_t
find_guard(void)
{
	char path[64], text[256], *p, *end;
	ssize_t n;
	pid_t pid;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/task/%ld/children",
	    (long)keeper, (long)keeper);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	for (p = text;; p = end) {
		pid = (pid_t)strtol(p, &end, 10);
		if (end == p)
			return 0;
		if (is_guard(pid))
			return pid;
	}
}

/*
 * The keeper is not reaped yet, so its number is its own; so is the guard's
 * as long as the keeper did not reap it, which is the best that can be had.
 */
static void
do_harm(void)
{
	switch (harm) {
	case TERM:
		kill(keeper, SIGTERM);
		break;
	case KILL:
		kill(keeper, SIGKILL);
		break;
	case STOP:
		kill(keeper, SIGSTOP);
		nap(random() % (5 * NS_PER_MS));
		kill(keeper, SIGCONT);
		break;
	case KILL_GUARD:
		if ((guard = find_guard()) != 0)
			kill(guard, SIGKILL);
		break;
	case STOP_GUARD:
		if ((guard = find_guard()) == 0)
			break;
		kill(guard, SIGSTOP);
		nap(random() % (5 * NS_PER_MS));
		if (find_guard() == guard)
			kill(guard, SIGCONT);
		break;
	case HARMS:
		break;
	}
}

static void
start(void)
{
	struct stat st;

	file_was = stat(file, &st) == 0 ? st.st_size : 0;
	guard = 0;
	if ((keeper = fork()) == -1)
		err(1, "fork");
	if (keeper == 0) {
		execv(program[0], program);
		_exit(99);
	}
}

/* Other orphans may come first. */
static void
await_keeper(void)
{
	int64_t limit = now_ns() + ROUND_MAX;
	pid_t pid;

	while ((pid = waitpid(keeper, &status, WNOHANG)) != keeper) {
		if (pid == -1 && errno != EINTR)
			err(1, "waitpid");
		if (now_ns() > limit)
			fail("it does not end");
		nap(200 * NS_PER_US);
	}
}

/*
 * A keeper that leaves by itself leaves nobody; after one that was killed the
 * guard needs its time.
 */
static void
await_orphans(bool at_once)
{
	int64_t limit = now_ns() + (at_once ? 0 : ROUND_MAX);
	pid_t pid;

	for (;;) {
		pid = waitpid(-1, NULL, WNOHANG);
		if (pid == -1 && errno == ECHILD)
			return;
		if (pid > 0)
			continue;
		if (now_ns() > limit)
			fail("it left processes behind");
		nap(200 * NS_PER_US);
	}
}

static void
count_runs(void)
{
	char line[256];
	FILE *f;

	starts = ends = 0;
	if ((f = fopen(file, "re")) == NULL)
		return;
	if (fseeko(f, file_was, SEEK_SET) == -1)
		err(1, "%s", file);
	while (fgets(line, sizeof(line), f) != NULL) {
		starts += strncmp(line, "start ", 6) == 0;
		ends += strncmp(line, "end ", 4) == 0;
	}
	fclose(f);
}

static void
check_lock(void)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd;

	fd = open(lock, O_RDWR | O_CLOEXEC);
	if (fd == -1 && errno == ENOENT)
		return;		/* ended before it came to that */
	if (fd == -1 || fcntl(fd, F_OFD_GETLK, &all) == -1)
		err(1, "%s", lock);
	close(fd);
	if (all.l_type != F_UNLCK)
		fail("the lease is not free");
}

static bool
has_exited(int code)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

static bool
has_died(int signo)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == signo;
}

static void
check_status(void)
{
	if (has_exited(0)) {
		if (starts != 1 || ends != 1)
			fail("success without a whole run");
		return;
	}
	switch (harm) {
	case TERM:
		if (has_died(SIGTERM))
			return;
		if (has_exited(128 + SIGTERM)) {
			if (starts != 0)
				fail("started after the TERM");
			return;
		}
		break;
	case KILL:
		if (has_died(SIGKILL))
			return;
		break;
	case KILL_GUARD:
		if (guard != 0 && has_exited(70))
			return;
		break;
	default:
		break;
	}
	fail("this status may not be");
}

int
main(int argc, char *argv[])
{
	int64_t begun = now_ns(), whole, from, limit;
	int harmless = 0, unstarted = 0, ended = 0, rounds, i;

	if (argc < 7)
		return 99;
	for (harm = 0; harm < HARMS; harm++) {
		if (strcmp(argv[1], harm_names[harm]) == 0)
			break;
	}
	rounds = atoi(argv[2]);
	limit = begun + atoi(argv[3]) * NS_PER_S;
	file = argv[4];
	lock = argv[5];
	program = argv + 6;
	srandom((unsigned int)(begun ^ getpid()));
	if (harm == HARMS || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == -1)
		return 99;

	/* How long one lasts, at this load. */
	start();
	await_keeper();
	count_runs();
	whole = now_ns() - begun;
	if (!has_exited(0) || ends != 1)
		fail("the first one was harmless");
	for (i = 0; i < rounds && now_ns() < limit; i++) {
		start();
		from = now_ns();
		nap(random() % (whole + whole / 8));
		harmed_after = now_ns() - from;
		do_harm();
		await_keeper();
		await_orphans(!has_died(SIGKILL) && harm != STOP_GUARD);
		count_runs();
		check_status();
		check_lock();
		harmless += has_exited(0);
		unstarted += starts == 0;
		ended += ends;
		if (has_exited(0) && harm != STOP && harm != STOP_GUARD)
			whole = (7 * whole + now_ns() - from) / 8;
	}
	printf("%d rounds, %d with success, %d not started, %d ran to the "
	    "end\n", i, harmless, unstarted, ended);
	if (i < 10 || (harm != STOP && harm != STOP_GUARD && harmless == i))
		fail("too little was tried");
	return 0;
}
