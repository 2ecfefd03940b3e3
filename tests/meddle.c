/*
 * Does to a run what a shell cannot.  For tests.
 *
 * meddle seize PID FILE	traces a process as a debugger does, makes FILE,
 *				and stays; one that ends is not let go
 * meddle halt PID FILE		the same, and the process is stopped
 * meddle fill PID WHOSE	sends messages that do nothing from the end of
 *				this `guard' or `keeper' until no more fits
 * meddle steal PID FILE	as a command: a child that root cannot kill
 *				without CAP_KILL waits until the number PID is
 *				free and gives it to a process of root's beside
 *				it; FILE has the child's number, and `stolen'
 *				after that
 */
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include <linux/sched.h>

#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../src/link.h"

#define NOBODY		65534
#define LIFE		120
#define FD_MAX		64

static void
put(const char *path, const char *text)
{
	FILE *f;

	if ((f = fopen(path, "ae")) == NULL || fprintf(f, "%s\n", text) < 0 ||
	    fclose(f) != 0)
		err(99, "%s", path);
}

/* Until someone ends it. */
static void
stay(void)
{
	int i;

	for (i = 0; i < LIFE; i++)
		sleep(1);
	exit(0);
}

static void
trace(pid_t pid, const char *path, int halt)
{
	if (ptrace(PTRACE_SEIZE, pid, 0, 0) == -1 ||
	    (halt && ptrace(PTRACE_INTERRUPT, pid, 0, 0) == -1))
		err(99, "ptrace");
	put(path, "traced");
	stay();
}

static void
fill(pid_t pid, int is_guard)
{
	struct link_msg msg = {
		.type = is_guard ? LINK_COMMAND : LINK_SIGNAL,
		.number = is_guard ? 0 : SIGWINCH,
	};
	int pidfd, fd, i, type, n = 0;
	socklen_t len;

	if ((pidfd = (int)syscall(SYS_pidfd_open, pid, 0)) == -1)
		err(99, "pidfd_open");
	for (i = 3; i < FD_MAX; i++) {
		fd = (int)syscall(SYS_pidfd_getfd, pidfd, i, 0);
		if (fd == -1)
			continue;
		len = sizeof(type);
		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
		    type == SOCK_SEQPACKET) {
			while (link_send(fd, &msg, -1) == 0)
				n++;
		}
		close(fd);
	}
	if (n == 0)
		errx(99, "no socket");
}

static void
thief(pid_t pid, const char *path)
{
	struct clone_args args = {
		.flags = CLONE_PARENT, .set_tid = (uintptr_t)&pid,
		.set_tid_size = 1,
	};
	struct timespec moment = { 0, 1000000 };
	char text[32];
	long rc;

	/* The effective one is not looked at. */
	if (setresuid(NOBODY, 0, NOBODY) == -1)
		err(99, "setresuid");
	snprintf(text, sizeof(text), "%ld", (long)getpid());
	put(path, text);
	while ((rc = syscall(SYS_clone3, &args, sizeof(args))) == -1) {
		if (errno != EEXIST)
			err(99, "clone3");
		nanosleep(&moment, NULL);
	}
	if (rc == 0 && setresuid(0, 0, 0) == -1)
		err(99, "setresuid");
	if (rc == 0)
		put(path, "stolen");
	stay();
}

int
main(int argc, char *argv[])
{
	pid_t pid;

	if (argc < 4)
		return 99;
	pid = (pid_t)atoi(argv[2]);
	if (strcmp(argv[1], "fill") == 0)
		fill(pid, strcmp(argv[3], "guard") == 0);
	else if (strcmp(argv[1], "seize") == 0)
		trace(pid, argv[3], 0);
	else if (strcmp(argv[1], "halt") == 0)
		trace(pid, argv[3], 1);
	else if (strcmp(argv[1], "steal") != 0)
		return 99;
	else if (fork() == 0)
		thief(pid, argv[3]);
	else
		stay();
	return 0;
}
