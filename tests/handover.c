/*
 * handover ROUNDS WAITERS [-k] LOCK-A COMMAND-A... --- LOCK-B COMMAND-B...
 *
 * How long a lease takes from one to the next.  A command is what runs its last
 * words under the lease that LOCK, a file, stands for: with `cat' in their
 * place it is held until that reads the end of a file, or, with -k, until all
 * of it is killed; with `true' WAITERS more wait for it.  The time from the end
 * until the last of them has had it, by the number of waiters, is printed as
 * bench does.
 */
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WAITERS_MAX	1000
#define ARGS_MAX	64
#define PATIENCE	60.0

static double
seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void
fail(const char *text)
{
	fprintf(stderr, "handover: %s\n", text);
	exit(1);
}

/* Adds the command's last word; stdin is fd, or /dev/null. */
static pid_t
start(char **command, char *last, int fd)
{
	char *argv[ARGS_MAX];
	int n = 0;
	pid_t pid;

	while (command[n] != NULL && n < ARGS_MAX - 2) {
		argv[n] = command[n];
		n++;
	}
	argv[n] = last;
	argv[n + 1] = NULL;
	if ((pid = fork()) == -1)
		fail("cannot fork");
	if (pid > 0)
		return pid;
	if (fd == -1)
		fd = open("/dev/null", O_RDONLY);
	dup2(fd, STDIN_FILENO);
	execvp(argv[0], argv);
	_exit(127);
}

/* How many have the file locked, or wait for that; of /proc/locks. */
static int
count_locks(const char *path, bool waiting)
{
	char line[256], inode[32];
	struct stat st;
	int n = 0;
	FILE *fp;

	if (stat(path, &st) == -1)
		return 0;
	snprintf(inode, sizeof(inode), ":%lu ", (unsigned long)st.st_ino);
	if ((fp = fopen("/proc/locks", "re")) == NULL)
		fail("no /proc/locks");
	while (fgets(line, sizeof(line), fp) != NULL) {
		if (strstr(line, inode) != NULL)
			n += (strstr(line, " -> ") != NULL) == waiting;
	}
	fclose(fp);
	return n;
}

static void
until_locks(const char *path, bool waiting, int n)
{
	const struct timespec moment = { .tv_nsec = 2000000 };
	double limit = seconds() + PATIENCE;

	while (count_locks(path, waiting) < n) {
		if (seconds() > limit)
			fail("the lock is not taken, or not waited for");
		nanosleep(&moment, NULL);
	}
}

/* All below a process, and it; they are waited for by us. */
static void
kill_tree(pid_t pid)
{
	char path[64];
	long child;
	FILE *fp;

	snprintf(path, sizeof(path), "/proc/%ld/task/%ld/children", (long)pid,
	    (long)pid);
	kill(pid, SIGSTOP);
	if ((fp = fopen(path, "re")) != NULL) {
		while (fscanf(fp, "%ld", &child) == 1)
			kill_tree((pid_t)child);
		fclose(fp);
	}
	kill(pid, SIGKILL);
}

/* Milliseconds a hand-over. */
static double
measure(char **command, int waiters, bool by_kill)
{
	static char until_end[] = "cat", at_once[] = "true";
	static pid_t pids[WAITERS_MAX];
	const char *lock = command[0];
	double begun;
	pid_t holder;
	int fds[2], i;

	if (pipe2(fds, O_CLOEXEC) == -1)
		fail("no pipe");
	holder = start(command + 1, until_end, fds[0]);
	close(fds[0]);
	until_locks(lock, false, 1);
	for (i = 0; i < waiters; i++)
		pids[i] = start(command + 1, at_once, -1);
	until_locks(lock, true, waiters);
	begun = seconds();
	if (by_kill)
		kill_tree(holder);
	else
		close(fds[1]);
	for (i = 0; i < waiters; i++)
		waitpid(pids[i], NULL, 0);
	begun = seconds() - begun;
	if (by_kill)
		close(fds[1]);
	while (waitpid(-1, NULL, 0) > 0)
		;
	return begun * 1e3 / waiters;
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double
quantile(double *values, int n, double q)
{
	qsort(values, (size_t)n, sizeof(*values), compare);
	return values[(int)(q * (n - 1))];
}

int
main(int argc, char *argv[])
{
	double *times[2], *ratio;
	bool by_kill;
	char **command[2] = { NULL, NULL };
	int i, rounds, waiters, which;

	rounds = argc > 1 ? atoi(argv[1]) : 0;
	waiters = argc > 2 ? atoi(argv[2]) : 0;
	by_kill = argc > 3 && strcmp(argv[3], "-k") == 0;
	command[0] = argv + 3 + by_kill;
	for (i = 3; i < argc && command[1] == NULL; i++) {
		if (strcmp(argv[i], "---") == 0) {
			argv[i] = NULL;
			command[1] = argv + i + 1;
		}
	}
	if (rounds <= 0 || waiters <= 0 || waiters > WAITERS_MAX ||
	    command[1] == NULL) {
		fprintf(stderr, "usage: handover ROUNDS WAITERS [-k] LOCK A... "
		    "--- LOCK B...\n");
		return 2;
	}
	/* What is orphaned by a kill is ours to wait for. */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	for (i = 0; i < 2; i++)
		times[i] = calloc((size_t)rounds, sizeof(double));
	ratio = calloc((size_t)rounds, sizeof(double));
	if (times[0] == NULL || times[1] == NULL || ratio == NULL)
		return 1;
	for (i = 0; i < rounds; i++) {
		which = i % 2;
		times[which][i] = measure(command[which], waiters, by_kill);
		which = !which;
		times[which][i] = measure(command[which], waiters, by_kill);
		ratio[i] = times[0][i] / times[1][i];
	}
	printf("  %-10s %8.3f ms | %8.3f ms | ratio %.2f (%.2f to %.2f)\n",
	    "wall", quantile(times[0], rounds, 0.5),
	    quantile(times[1], rounds, 0.5), quantile(ratio, rounds, 0.5),
	    quantile(ratio, rounds, 0.25), quantile(ratio, rounds, 0.75));
	return 0;
}
