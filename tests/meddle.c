/*
 * Does to a run what a shell cannot.  For tests.
 *
 * meddle seize PID FILE	traces a process as a debugger does, makes FILE,
 *				and stays; one that ends is not let go
 * meddle halt PID FILE		the same, and the process is stopped
 * meddle snare PID FILE	traces a guard, makes FILE, and stops it when
 *				it has told the keeper that it kills
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
#include <sys/uio.h>
#include <sys/wait.h>

#include <linux/sched.h>

#include <err.h>
#include <errno.h>
#include <sched.h>
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

/* Reads of the process, or ends: it is stopped meanwhile. */
static void
peek(pid_t pid, uint64_t at, void *to, size_t size)
{
	struct iovec here = { .iov_base = to, .iov_len = size };
	struct iovec there = { .iov_base = (void *)(uintptr_t)at,
	    .iov_len = size };

	if (process_vm_readv(pid, &here, 1, &there, 1, 0) != (ssize_t)size)
		err(99, "process_vm_readv");
}

/* Whether what it has sent just now says that it kills. */
static int
tells_of_kill(pid_t pid)
{
	static struct link_msg msg;
	struct __ptrace_syscall_info info;
	struct msghdr mh;
	struct iovec iov;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) == -1)
		err(99, "ptrace");
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		memset(&msg, 0, sizeof(msg));
		if (info.entry.nr != SYS_sendmsg)
			return 0;
		peek(pid, info.entry.args[1], &mh, sizeof(mh));
		peek(pid, (uintptr_t)mh.msg_iov, &iov, sizeof(iov));
		peek(pid, (uintptr_t)iov.iov_base, &msg, sizeof(msg));
	}
	return info.op == PTRACE_SYSCALL_INFO_EXIT &&
	    msg.type == LINK_ENDING && msg.number == SIGKILL;
}

static void
snare(pid_t pid, const char *path)
{
	struct sched_param first = { .sched_priority = 3 };
	int status, is_told = 0, signo = 0;

	/* A guard that waits for us for long is taken for a frozen one. */
	sched_setscheduler(0, SCHED_FIFO, &first);
	if (ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD) == -1 ||
	    ptrace(PTRACE_INTERRUPT, pid, 0, 0) == -1)
		err(99, "ptrace");
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		if (WSTOPSIG(status) == (SIGTRAP | 0x80) &&
		    tells_of_kill(pid)) {
			kill(pid, SIGSTOP);
			if (ptrace(PTRACE_DETACH, pid, 0, 0) == -1)
				err(99, "ptrace");
			put(path, "caught");
			return;
		}
		signo = status >> 16 != 0 || WSTOPSIG(status) ==
		    (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
		ptrace(PTRACE_SYSCALL, pid, 0, signo);
		if (!is_told)
			put(path, "traced");
		is_told = 1;
	}
	errx(99, "it ended");
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
	/* From then on it may be killed, and is. */
	if (rc == 0) {
		put(path, "stolen");
		if (setresuid(0, 0, 0) == -1)
			err(99, "setresuid");
	}
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
	else if (strcmp(argv[1], "snare") == 0)
		snare(pid, argv[3]);
	else if (strcmp(argv[1], "steal") != 0)
		return 99;
	else if (fork() == 0)
		thief(pid, argv[3]);
	else
		stay();
	return 0;
}
