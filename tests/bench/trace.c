/*
 * Counts what processes ask of the kernel, as their tracer.
 */
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <linux/ptrace.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "family.h"
#include "trace.h"

#define TASKS_MAX	8192
#define OPTIONS		(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | \
    PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | \
    PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL)

/* A thread in a call that moves data; those that are gone leave their slot. */
struct task {
	pid_t	tid;
	int	fd;		/* -1: in another call */
};

static struct task tasks[TASKS_MAX];
static int ntasks;

/* Until it executes something, it is no more than a fork of ours. */
static pid_t starting;

static struct task *
task_of(pid_t tid)
{
	int i, unused = ntasks;

	for (i = 0; i < ntasks; i++) {
		if (tasks[i].tid == tid)
			return &tasks[i];
		if (tasks[i].tid == 0)
			unused = i;
	}
	if (unused == TASKS_MAX)
		return NULL;
	if (unused == ntasks)
		ntasks++;
	tasks[unused] = (struct task){ .tid = tid, .fd = -1 };
	return &tasks[unused];
}

static void
forget(pid_t tid)
{
	int i;

	for (i = 0; i < ntasks; i++) {
		if (tasks[i].tid == tid)
			tasks[i].tid = 0;
	}
}

/* The descriptor that a call moves data through, or -1. */
static int
data_fd(const struct ptrace_syscall_info *info)
{
	switch (info->entry.nr) {
	case SYS_recvfrom:
		if (info->entry.args[3] & MSG_PEEK)
			return -1;
		break;
	case SYS_read:
	case SYS_readv:
	case SYS_recvmsg:
	case SYS_sendmsg:
	case SYS_sendto:
	case SYS_write:
	case SYS_writev:
		break;
	default:
		return -1;
	}
	return (int)info->entry.args[0];
}

static pid_t
process_of(pid_t tid)
{
	char path[64], line[128];
	int pid = tid;
	FILE *fp;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	if ((fp = fopen(path, "re")) == NULL)
		return tid;
	while (fgets(line, sizeof(line), fp) != NULL) {
		if (sscanf(line, "Tgid: %d", &pid) == 1)
			break;
	}
	fclose(fp);
	return pid;
}

static bool
is_tcp(pid_t tid, int fd)
{
	int pidfd = (int)syscall(SYS_pidfd_open, process_of(tid), 0);
	int ours = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	int domain = AF_UNSPEC, type = 0;
	socklen_t size = sizeof(domain);

	if (ours != -1) {
		getsockopt(ours, SOL_SOCKET, SO_DOMAIN, &domain, &size);
		size = sizeof(type);
		getsockopt(ours, SOL_SOCKET, SO_TYPE, &type, &size);
		close(ours);
	}
	if (pidfd != -1)
		close(pidfd);
	return type == SOCK_STREAM &&
	    (domain == AF_INET || domain == AF_INET6);
}

static void
look_for_peak(struct trace *trace)
{
	struct family f;

	if (trace->of == 0)
		return;
	family_look(trace->of, FAMILY_MEMORY, &f);
	if (f.pss_kb > trace->peak_kb)
		trace->peak_kb = f.pss_kb;
}

static void
see_call(pid_t tid, struct trace *trace)
{
	struct ptrace_syscall_info info;
	struct task *task = task_of(tid);

	if (task == NULL ||
	    ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) <= 0)
		return;
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		trace->calls++;
		task->fd = data_fd(&info);
		/* Memory is given back by this, and at the end. */
		if (info.entry.nr == SYS_execve)
			look_for_peak(trace);
	} else if (info.op == PTRACE_SYSCALL_INFO_EXIT && task->fd != -1) {
		if (info.exit.rval > 0 && is_tcp(tid, task->fd))
			trace->wire += info.exit.rval;
		task->fd = -1;
	}
}

static void
see(pid_t tid, int status, struct trace *trace)
{
	int sig = WSTOPSIG(status), event = status >> 16;

	if (sig == (SIGTRAP | 0x80))
		see_call(tid, trace);
	else if (event == PTRACE_EVENT_EXIT)
		look_for_peak(trace);
	else if (event == PTRACE_EVENT_EXEC && tid == starting) {
		starting = 0;
		trace->calls = 1;
	}
	if (event == PTRACE_EVENT_STOP && sig != SIGTRAP) {
		ptrace(PTRACE_LISTEN, tid, 0, 0);
		return;
	}
	if (event != 0 || (sig & 0x80) != 0)
		sig = 0;
	ptrace(PTRACE_SYSCALL, tid, 0, sig);
}

int
trace_start(pid_t pid)
{
	int status;

	if (ptrace(PTRACE_SEIZE, pid, 0, OPTIONS) == -1 ||
	    ptrace(PTRACE_INTERRUPT, pid, 0, 0) == -1 ||
	    waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
		return -1;
	starting = pid;
	return ptrace(PTRACE_SYSCALL, pid, 0, 0) == -1 ? -1 : 0;
}

void
trace_go_on(pid_t until, struct trace *trace)
{
	int status, options = __WALL | (until == 0 ? WNOHANG : 0);
	pid_t tid;

	while ((until <= 0 || kill(until, 0) == 0) &&
	    (tid = waitpid(-1, &status, options)) > 0) {
		if (WIFSTOPPED(status))
			see(tid, status, trace);
		else
			forget(tid);
	}
}
