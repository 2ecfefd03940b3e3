/*
 * What a signal means to the keeper.  Handlers use it: no library calls.
 */
#include <unistd.h>

#include "sigkind.h"

bool
sigkind_is_terminating(int signo)
{
	return signo != SIGCONT && signo != SIGURG && signo != SIGWINCH &&
	    signo != SIGTSTP && signo != SIGTTIN && signo != SIGTTOU &&
	    signo != SIGCHLD;
}

/* A hangup reaches the leader of the session alone, if we are that. */
bool
sigkind_is_from_terminal(int signo, const siginfo_t *si)
{
	if (si->si_code != SI_KERNEL)
		return false;
	if (signo == SIGHUP)
		return getsid(0) != getpid();
	return signo == SIGINT || signo == SIGQUIT || signo == SIGTSTP ||
	    signo == SIGTTIN || signo == SIGWINCH;
}

bool
sigkind_is_stop(int signo)
{
	return signo == SIGHUP || signo == SIGINT || signo == SIGQUIT ||
	    signo == SIGTERM;
}

bool
sigkind_is_relayed(int signo)
{
	switch (signo) {
	case SIGKILL:
	case SIGSTOP:
	case SIGCHLD:
	case SIGTTOU:
	case SIGSEGV:
	case SIGBUS:
	case SIGFPE:
	case SIGILL:
	case SIGTRAP:
	case SIGSYS:
		return false;
	default:
		/* The C library keeps the first real-time ones. */
		return signo <= SIGSYS || signo >= SIGRTMIN;
	}
}
