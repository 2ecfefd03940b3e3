/*
 * Stands between a command and whoever started it.  Must never deliver a signal
 * twice, nor swallow one.
 */
#include <sys/wait.h>

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "leave.h"
#include "log.h"
#include "passthru.h"
#include "proc.h"
#include "sigkind.h"
#include "tree.h"
#include "util.h"

#define GUARD_NAME	"leaserun-guard"

/* Those that tell a process to stop. */
static const int cancelling[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };

#define NCANCELLING	(sizeof(cancelling) / sizeof(cancelling[0]))

static struct passthru {
	sigset_t	mask;		/* what we were started with */
	bool		ignore_chld;
	bool		is_cancelling[NCANCELLING];
	bool		was_stopped;	/* and not continued yet */
} own;

static void
on_cancel(int signo)
{
	_exit(EXIT_SIGNAL + signo);
}

void
passthru_init(void)
{
	struct sigaction old, dfl = { .sa_handler = SIG_DFL };
	struct sigaction cancel = { .sa_handler = on_cancel };
	sigset_t some;
	size_t i;

	/* An ignored SIGCHLD would take the command's status from us. */
	sigaction(SIGCHLD, &dfl, &old);
	own.ignore_chld = old.sa_handler == SIG_IGN;
	sigemptyset(&some);
	for (i = 0; i < NCANCELLING; i++) {
		sigaction(cancelling[i], NULL, &old);
		own.is_cancelling[i] = old.sa_handler != SIG_IGN;
		if (!own.is_cancelling[i])
			continue;
		sigaction(cancelling[i], &cancel, NULL);
		sigaddset(&some, cancelling[i]);
	}
	sigprocmask(SIG_UNBLOCK, &some, &own.mask);
	/* A limit of the file size is to be an error, not our end. */
	sigemptyset(&some);
	sigaddset(&some, SIGXFSZ);
	sigprocmask(SIG_BLOCK, &some, NULL);
}

/*
 * From here on signals wait in the queue: one that was there before the command
 * means that it never starts.  Those of a fault cannot wait.
 */
static void
hold_signals(sigset_t *held)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
	    SIGSYS };
	sigset_t pending;
	size_t i;

	sigfillset(held);
	for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(held, faults[i]);
	sigprocmask(SIG_BLOCK, held, NULL);
	sigpending(&pending);
	for (i = 0; i < NCANCELLING; i++) {
		if (own.is_cancelling[i] &&
		    sigismember(&pending, cancelling[i]))
			_exit(EXIT_SIGNAL + cancelling[i]);
	}
}

/* The guard of `leaserun run' sends these to each process itself. */
static bool
is_for_all(int signo, pid_t from)
{
	char name[32];

	return (signo == SIGINT || signo == SIGQUIT || signo == SIGTERM) &&
	    proc_name(from, name, sizeof(name)) &&
	    strcmp(name, GUARD_NAME) == 0;
}

/* Whoever continues us after a stop has mostly continued the command, too. */
static bool
is_had(int signo, pid_t command)
{
	if (signo != SIGCONT || !own.was_stopped)
		return false;
	own.was_stopped = false;
	return proc_state(command) != 'T';
}

/* From the kernel: to our whole group, or to us, as from a timer of before. */
static bool
is_for_group(const siginfo_t *si, pid_t command)
{
	if (si->si_signo == SIGCONT)
		return proc_state(command) != 'T';
	return si->si_signo == SIGTTOU ||
	    sigkind_is_from_terminal(si->si_signo, si);
}

/*
 * A signal that was addressed to us.  What the terminal sends has reached the
 * command as well, unless it has left our process group; so has what it sends
 * to that group itself.
 */
static void
pass_on(const siginfo_t *si, pid_t command)
{
	if (si->si_code > 0) {
		if (si->si_code != SI_KERNEL ||
		    (getpgid(command) == getpgrp() &&
		    is_for_group(si, command)))
			return;
	} else if (si->si_pid == getpid() || si->si_pid == command ||
	    is_for_all(si->si_signo, si->si_pid) ||
	    is_had(si->si_signo, command))
		return;
	kill(command, si->si_signo);	/* not reaped, so its number is safe */
}

/* Reaps; true when the command has ended.  As PID 1 there are others. */
static bool
look_after(pid_t command, int *status)
{
	bool ended = false;
	pid_t pid;
	int s;

	while ((pid = waitpid(-1, &s, WNOHANG | WUNTRACED)) > 0) {
		if (pid != command)
			continue;
		if (WIFSTOPPED(s)) {
			/* It asked to be traced, and nobody ever will. */
			if (proc_state(command) == 't')
				continue;
			own.was_stopped = true;
			leave_stopped(WSTOPSIG(s));
			continue;
		}
		*status = s;
		ended = true;
		break;
	}
	return ended;
}

static int
exec_failed(const char *command, int error)
{
	char word[WORD_SIZE];
	const char *hint;
	int status = exec_failure(command, error, &hint);

	log_error("cannot run '%s': %s%s", word_shown(command, word),
	    strerror(error), hint);
	return exited_with(status);
}

int
passthru_run(char *const argv[], int fd)
{
	struct tree_command command = { .argv = argv, .envp = environ,
	    .mask = &own.mask, .ignore_chld = own.ignore_chld, .hold_fd = fd };
	sigset_t held;
	siginfo_t si;
	int status, report, error;
	pid_t pid;

	/* Without /proc no guard is recognized, but that is all. */
	if (proc_init() == -1 && errno == EXDEV) {
		log_error("'%s' would be in another pid or time namespace than "
		    "leaserun; start leaserun in that one (unshare --fork)",
		    argv[0]);
		return exited_with(EXIT_CONFIG);
	}
	hold_signals(&held);
	if ((pid = tree_spawn(&command, &report)) == -1) {
		log_error("cannot start a process for '%s': %s%s", argv[0],
		    strerror(errno), limit_hint(errno));
		return exited_with(EXIT_INTERNAL);
	}
	while (!look_after(pid, &status)) {
		if (sigwaitinfo(&held, &si) > 0 && si.si_signo != SIGCHLD)
			pass_on(&si, pid);
	}
	error = tree_exec_result(report);
	close(report);
	return error > 0 ? exec_failed(argv[0], error) : status;
}
