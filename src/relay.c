/*
 * Signals of the command, and its stops.  Must never block, and never signal a
 * number that was not verified.
 */
#include <sys/wait.h>

#include <unistd.h>

#include "proc.h"
#include "relay.h"
#include "tree.h"

#define NUDGE_EVERY	(100 * NS_PER_MS)

void
relay_init(struct relay *r, const struct guard_job *job, pid_t keeper)
{
	r->job = job;
	r->keeper = keeper;
	r->stops = 0;
	r->nudge_at = TIME_NEVER;
}

void
relay_signal(const struct relay *r, pid_t command, int signo,
    bool from_terminal)
{
	bool shared = command != 0 && getpgid(command) == r->job->keeper_group;

	/*
	 * A stop that someone sent to the whole group may come here so late
	 * that it would stop again a command that was continued since.
	 */
	if (r->stops > 0 && (signo == SIGTSTP || signo == SIGTTIN))
		return;
	if (from_terminal && shared)
		return;
	if (signo == SIGCONT && shared && proc_state(command) != 'T')
		return;
	if (signo == SIGINT || signo == SIGQUIT || signo == SIGTERM)
		tree_signal(signo, signo == SIGTERM);
	else if (command != 0)
		kill(command, signo);
}

int
relay_stop_of(const struct relay *r, pid_t command)
{
	siginfo_t si = { .si_pid = 0 };

	if (command == 0 || r->job->own_group || r->job->keeper_group == 0 ||
	    waitid(P_PID, (id_t)command, &si, WSTOPPED | WCONTINUED |
	    WNOHANG) == -1 || si.si_pid == 0 || si.si_code == CLD_CONTINUED)
		return 0;
	return si.si_status;
}

void
relay_continue(struct relay *r, pid_t command)
{
	r->nudge_at = TIME_NEVER;
	if (r->stops <= 0 || (command != 0 && proc_state(command) == 'T') ||
	    getppid() != r->keeper)
		return;
	/* It may be just about to stop. */
	kill(r->keeper, SIGCONT);
	r->nudge_at = time_add(now_ns(), NUDGE_EVERY);
}
