/*
 * Tries system calls out in children.  They are needed late, when a job has to
 * be ended: nobody may be killed for one then.  Must never change the caller.
 */
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <linux/seccomp.h>

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <unistd.h>

#include "filter.h"

static bool kills_priorities, kills_pidfds;

static void
try_priorities(void)
{
	struct sched_param param;

	sched_getscheduler(0);
	sched_getparam(0, &param);
	param.sched_priority = 0;
	sched_setscheduler(0, SCHED_OTHER, &param);
	setpriority(PRIO_PROCESS, 0, 0);
}

static void
try_pidfds(void)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0);
}

static void
try_all(void)
{
	try_priorities();
	try_pidfds();
}

/* Without a child nothing is known, and nothing is risked. */
static bool
kills(void (*try)(void))
{
	pid_t pid, got;
	int status;

	if ((pid = _Fork()) == 0) {
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);	/* no core */
		try();
		_exit(0);
	}
	if (pid == -1)
		return true;
	do {
		got = waitpid(pid, &status, 0);
	} while (got == -1 && errno == EINTR);
	return got != pid || WIFSIGNALED(status);
}

void
filter_init(void)
{
	/* Containers have a filter as well, mostly one that kills nobody. */
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != SECCOMP_MODE_FILTER ||
	    !kills(try_all))
		return;
	kills_priorities = kills(try_priorities);
	kills_pidfds = kills(try_pidfds);
}

bool
filter_kills_priorities(void)
{
	return kills_priorities;
}

bool
filter_kills_pidfds(void)
{
	return kills_pidfds;
}
