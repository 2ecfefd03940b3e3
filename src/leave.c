/*
 * Stops and dies as the command did.  System calls only: a handler uses it.
 */
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "guard.h"
#include "leave.h"
#include "link.h"
#include "util.h"

void
leave_stopped(int signo)
{
	struct sigaction old, dfl = { .sa_handler = SIG_DFL };
	sigset_t one, saved;

	if (signo == SIGSTOP) {
		kill(getpid(), SIGSTOP);
		return;
	}
	sigfillset(&one);
	sigprocmask(SIG_BLOCK, &one, &saved);
	sigaction(signo, &dfl, &old);
	kill(getpid(), signo);
	sigemptyset(&one);
	sigaddset(&one, signo);
	sigprocmask(SIG_UNBLOCK, &one, NULL);	/* here it stops */
	sigaction(signo, &old, NULL);
	sigprocmask(SIG_SETMASK, &saved, NULL);
}

/* The status that a command which was not started is worth. */
static int
failure_status(enum link_failure failure, int error)
{
	switch (failure) {
	case FAILED_EXEC:
		return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXEC;
	case FAILED_LATE:
		return EXIT_UNAVAILABLE;
	default:
		return EXIT_INTERNAL;
	}
}

int
leave_owed(struct deadline_page *page, bool is_started, int lost_exit_code)
{
	int reason = atomic_load(&page->reason);
	int failed = atomic_load(&page->failed);

	if (!is_started)
		return exited_with(EXIT_UNAVAILABLE);
	if (failed != 0)
		return exited_with(failure_status((enum link_failure)(failed -
		    1), atomic_load(&page->error)));
	if (!atomic_load(&page->done) || reason == END_DEADLINE ||
	    reason == END_LOST || reason == END_REVOKED)
		return exited_with(lost_exit_code);
	if (reason == END_MAX_RUN)
		return exited_with(EXIT_MAX_RUN);
	return atomic_load(&page->status);
}

void
leave(int wait_status)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	struct rlimit none = { 0, 0 };
	sigset_t one;
	int signo;

	if (WIFSIGNALED(wait_status) && getpid() != 1) {
		signo = WTERMSIG(wait_status);
		setrlimit(RLIMIT_CORE, &none);
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
		sigaction(signo, &dfl, NULL);
		sigemptyset(&one);
		sigaddset(&one, signo);
		kill(getpid(), signo);
		sigprocmask(SIG_UNBLOCK, &one, NULL);
	}
	_exit(WIFSIGNALED(wait_status) ? EXIT_SIGNAL + WTERMSIG(wait_status) :
	    WEXITSTATUS(wait_status));
}
