/*
 * Stops and dies as the command did.  System calls only: a handler uses it.
 */
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "leave.h"
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
