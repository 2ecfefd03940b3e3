/*
 * Signal handlers of the keeper.  They must use system calls only, and must
 * work while a library blocks.
 */
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "leave.h"
#include "proc.h"
#include "sigkind.h"
#include "signals.h"
#include "timeutil.h"
#include "util.h"

/* How long a handler may go on killing when the guard is gone. */
#define HANDLER_SPELL	(2 * NS_PER_S)
/* Those who are dying need the processor as well, once in a while. */
#define KILL_SPELL	(5 * NS_PER_MS)
#define KILL_REST_MS	2
/* What guard and timers may be late by; how long an ended job is released. */
#define GUARD_PATIENCE	(100 * NS_PER_MS)
#define LEAVE_AFTER	(5 * NS_PER_S)
#define GIVE_UP_EVERY	(20 * NS_PER_MS)
/* A wait that is cancelled is over after this, whatever a library does. */
#define CANCEL_BOUND	(2 * NS_PER_S)
/* For who is told to stop when the job is over; and what a library adds. */
#define STOP_PATIENCE	(5 * NS_PER_S)
#define STOP_SLACK	(NS_PER_S / 2)

static struct {
	int		 link;
	pid_t		 guard;
	struct deadline_page *page;
	struct tree_exempt *exempt;
	int		 event;
	timer_t		 bound;
	bool		 has_bound;
	int64_t		 bound_at;
	int64_t		 stop_by;	/* told to stop; TIME_NEVER: not */
	int64_t		 renew_limit;	/* the job has to be gone */
	int64_t		 attempt_until;	/* the library has to be back */
	int64_t		 lease_until;
	int		 lost_exit_code;
} own = { .link = -1, .event = -1, .stop_by = TIME_NEVER };

static volatile sig_atomic_t started, cancelled, stopped, bound_status,
    renewing, guard_gone, giving_up, is_late, finishing, was_told;
static const char *volatile bound_text;

static void
wake(void)
{
	uint64_t one = 1;

	if (write(own.event, &one, sizeof(one)) == -1)
		return;		/* full: it is readable all the same */
}

static void
set_bound(int64_t at)
{
	struct itimerspec its = { 0 };

	if (!own.has_bound)
		return;
	own.bound_at = at;
	if (at != TIME_NEVER) {
		its.it_value.tv_sec = at / NS_PER_S;
		its.it_value.tv_nsec = at % NS_PER_S;
	}
	timer_settime(own.bound, TIMER_ABSTIME, &its, NULL);
}

/* No other signal can come meanwhile. */
static void
limit_finish(void)
{
	if (own.stop_by != TIME_NEVER)
		return;
	own.stop_by = time_add(now_ns(), STOP_PATIENCE);
	if (own.bound_at != TIME_NEVER &&
	    own.bound_at > time_add(own.stop_by, STOP_SLACK))
		set_bound(time_add(own.stop_by, STOP_SLACK));
}

/* While there was a job only a TERM was for us as well. */
static void
note_stop(int signo)
{
	if (signo == SIGTERM)
		was_told = 1;
	if (finishing && sigkind_is_stop(signo))
		limit_finish();
}

static void
on_signal(int signo, siginfo_t *si, void *context)
{
	struct link_msg msg = { .type = LINK_SIGNAL, .number = signo };
	bool is_ours = true;
	int saved = errno;

	(void)context;
	/* A pipe of ours broke, or a library aborts: not for the job. */
	if ((si->si_code == SI_USER || si->si_code == SI_TKILL) &&
	    si->si_pid == getpid())
		return;
	/* The guard continues us with the command, which has had its own. */
	if (signo == SIGCONT && si->si_code == SI_USER &&
	    si->si_pid == own.guard)
		return;
	if (started) {
		msg.reason = sigkind_is_from_terminal(signo, si);
		/* No command stops any more and takes us along. */
		if (signo == SIGTSTP && atomic_load(&own.page->has_status))
			stopped = signo;
		note_stop(signo);
		link_send(own.link, &msg, -1);
		/* However many come, a renewal under way goes on. */
		is_ours = stopped != 0;
	} else if (sigkind_is_terminating(signo)) {
		if (!cancelled) {
			cancelled = signo;
			renewing = 0;
			bound_text = NULL;
			bound_status = EXIT_SIGNAL + signo;
			set_bound(time_add(now_ns(), CANCEL_BOUND));
		}
	} else if (signo == SIGTSTP || signo == SIGTTIN)
		stopped = signo;
	else
		is_ours = false;	/* a resize ends no wait */
	if (is_ours)
		wake();
	errno = saved;
}

bool
signals_guard_ended(void)
{
	siginfo_t si;

	/* Once it is reaped a process of the job may get its number. */
	if (guard_gone)
		return true;
	si.si_pid = 0;
	if (waitid(P_PID, (id_t)own.guard, &si,
	    WEXITED | WNOHANG | WNOWAIT) == -1 || si.si_pid == own.guard)
		guard_gone = 1;
	/* A debugger may keep it from being reaped; its orphans are ours. */
	else if (proc_state(own.guard) == 'Z')
		guard_gone = 1;
	return guard_gone;
}

void
signals_kill_guard(void)
{
	kill(own.guard, SIGKILL);
}

/* Nothing of the job is left; a command that was never there leaves nothing. */
static bool
is_over(void)
{
	return atomic_load(&own.page->done) && !atomic_load(&own.page->failed);
}

/*
 * A guard that ended before the job was over: its orphans are ours by now.
 * The job is killed here because the main loop may be inside a library that
 * blocks; it looks again later and decides when nothing is left.  True: that is
 * so.
 */
static bool
kill_orphans(struct tree_survivor *survivor)
{
	int64_t now = now_ns(), end = time_add(now, HANDLER_SPELL);
	int64_t rest_at = time_add(now, KILL_SPELL);
	int empty = 0;

	tree_hurry(TREE_KEEPER);
	do {
		tree_spare_zombie(own.exempt, own.guard);
		/* A guard that was stopped has left all its dead to us. */
		if (tree_reap(own.exempt))
			return true;
		empty = tree_kill(own.exempt, survivor) == 0 ? empty + 1 : 0;
		if (tree_reap(own.exempt))
			return true;
		/* With children that are not the job there is no ECHILD. */
		if (own.exempt->n > 0 && empty >= 2)
			return true;
		now = now_ns();
		if (now >= rest_at) {
			poll(NULL, 0, KILL_REST_MS);
			rest_at = time_add(now_ns(), KILL_SPELL);
		}
	} while (survivor->pid == 0 && now < end);
	return false;
}

/* When a renewal that does not come back is given up. */
static void
bound_renewal(bool guard_ended)
{
	int64_t now = now_ns(), at = own.renew_limit;

	if (guard_ended)
		at = time_earlier(at, time_add(now, LEAVE_AFTER));
	set_bound(at > now ? at : time_later(own.attempt_until, now + 1));
}

static void
on_child(int signo)
{
	struct tree_survivor survivor;
	int saved = errno;
	bool guard_ended = signals_guard_ended();

	(void)signo;
	if (!tree_busy()) {
		tree_reap_exempt(own.exempt);
		/* A wait may be long; once there is a job they are noted. */
		if (!started && getpid() == 1)
			tree_reap_strangers(own.guard);
		if (started && guard_ended && !is_over())
			kill_orphans(&survivor);
	}
	if (renewing && guard_ended && !giving_up)
		bound_renewal(true);
	/* A backend's own short-lived process is its own affair. */
	if (guard_ended)
		wake();
	errno = saved;
}

/*
 * The guard should have ended the job by now, or is put out of the way.  True:
 * nothing is left to do.
 */
static bool
end_job(void)
{
	struct tree_survivor survivor = {
		.pid = atomic_load(&own.page->survivor),
	};

	if (is_over())
		return true;
	if (signals_guard_ended()) {
		if (kill_orphans(&survivor))
			return true;
	} else if (survivor.pid == 0 || !proc_is_at_work(own.guard)) {
		signals_kill_guard();
		return false;
	}
	/* The lease is kept for who may not be killed, while there is one. */
	return survivor.pid != 0 && now_ns() >= own.lease_until;
}

static void
on_bound(int signo, siginfo_t *si, void *context)
{
	struct pollfd err = { .fd = STDERR_FILENO, .events = POLLOUT };
	const char *text = bound_text;

	if (si->si_code != SI_TIMER) {
		on_signal(signo, si, context);
		return;
	}
	/*
	 * Perhaps it is not the library that is late, but we: then it comes
	 * back as soon as it gets its turn.  Meanwhile the guard does its work.
	 */
	if (!is_late && (renewing ? proc_is_at_work(own.guard) || is_over() :
	    now_ns() - own.bound_at > GUARD_PATIENCE)) {
		is_late = 1;
		set_bound(time_add(now_ns(), renewing ? 2 * GUARD_PATIENCE :
		    GUARD_PATIENCE));
		return;
	}
	if (text != NULL && poll(&err, 1, 0) == 1 &&
	    (err.revents & POLLOUT) != 0 &&
	    write(STDERR_FILENO, text, strlen(text)) == -1)
		text = NULL;
	if (renewing && now_ns() < own.attempt_until &&
	    (atomic_load(&own.page->done) || proc_is_at_work(own.guard))) {
		set_bound(own.attempt_until);	/* it may come back yet */
		return;
	}
	if (renewing) {
		bound_text = NULL;
		giving_up = 1;
		if (end_job())
			leave(leave_owed(own.page, started,
			    own.lost_exit_code));
		set_bound(time_add(now_ns(), GIVE_UP_EVERY));
		return;
	}
	leave(bound_status >= 0 ? exited_with(bound_status) :
	    -bound_status);
}

/* What was ignored stays so, here and in the command. */
static void
install(int signo, const struct sigaction *relay)
{
	struct sigaction old;

	if (sigaction(signo, relay, &old) == 0 && old.sa_handler == SIG_IGN)
		sigaction(signo, &old, NULL);
}

static int
make_bound(int signo)
{
	struct sigevent ev = { 0 };

	ev.sigev_notify = SIGEV_SIGNAL;
	ev.sigev_signo = signo;
	if (timer_create(CLOCK_BOOTTIME, &ev, &own.bound) == -1)
		return -1;
	own.has_bound = true;
	return 0;
}

int
signals_init(int link, pid_t guard, struct deadline_page *page,
    struct tree_exempt *exempt)
{
	struct sigaction relay = { .sa_flags = SA_RESTART | SA_SIGINFO };
	struct sigaction child = { .sa_flags = SA_RESTART | SA_NOCLDSTOP };
	struct sigaction bound = { .sa_flags = SA_SIGINFO };
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t none;
	int signo;

	own.link = link;
	own.guard = guard;
	own.page = page;
	own.exempt = exempt;
	own.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (own.event == -1 || make_bound(SIGRTMAX) == -1)
		return -1;
	relay.sa_sigaction = on_signal;
	child.sa_handler = on_child;
	bound.sa_sigaction = on_bound;
	sigfillset(&relay.sa_mask);
	sigfillset(&child.sa_mask);
	sigfillset(&bound.sa_mask);
	for (signo = 1; signo < SIGRTMAX; signo++) {
		if (sigkind_is_relayed(signo))
			install(signo, &relay);
	}
	sigaction(SIGRTMAX, &bound, NULL);
	sigaction(SIGCHLD, &child, NULL);
	tree_reap_exempt(exempt);	/* those whose SIGCHLD was before */
	/* A background run under `stty tostop' must not stop the heartbeat. */
	sigaction(SIGTTOU, &ignore, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	return 0;
}

int
signals_fd(void)
{
	return own.event;
}

void
signals_clear(void)
{
	uint64_t count;

	while (read(own.event, &count, sizeof(count)) == -1 && errno == EINTR)
		;
}

int
signals_cancelled(void)
{
	return cancelled;
}

int
signals_take_stop(void)
{
	int signo = stopped;

	stopped = 0;
	return signo;
}

bool
signals_start(struct link_msg *msg, int hold_fd)
{
	sigset_t saved;
	bool sent = false;

	signals_block(&saved);
	errno = 0;
	if (!cancelled && link_send(own.link, msg, hold_fd) == 0) {
		sent = true;
		started = 1;
	}
	signals_restore(&saved);
	return sent;
}

void
signals_block(sigset_t *saved)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, saved);
}

void
signals_restore(const sigset_t *saved)
{
	sigprocmask(SIG_SETMASK, saved, NULL);
}

void
signals_bound(int64_t at, int status, const char *text)
{
	sigset_t saved;

	signals_block(&saved);
	/* A cancelled wait has its own, shorter bound. */
	if (!cancelled || started) {
		bound_status = status;
		bound_text = text;
		is_late = 0;
		set_bound(finishing ? time_earlier(at,
		    time_add(own.stop_by, STOP_SLACK)) : at);
	}
	signals_restore(&saved);
}

int64_t
signals_finish(void)
{
	int64_t stop_by;
	sigset_t saved;

	signals_block(&saved);
	finishing = 1;
	if (was_told)
		limit_finish();
	stop_by = own.stop_by;
	signals_restore(&saved);
	return stop_by;
}

void
signals_renewing(int64_t kill_at, int64_t deadline, int64_t attempt,
    int lost_exit_code)
{
	sigset_t saved;

	signals_block(&saved);
	own.lease_until = deadline;
	own.attempt_until = time_add(attempt, GUARD_PATIENCE);
	own.renew_limit = kill_at;
	own.lost_exit_code = lost_exit_code;
	if (!cancelled || started) {
		bound_text =
		    "leaserun: the store's library does not come back\n";
		renewing = 1;
		/* A guard that has just ended has sent its SIGCHLD already. */
		bound_renewal(signals_guard_ended());
	}
	signals_restore(&saved);
}

void
signals_renewed(void)
{
	sigset_t saved;

	signals_block(&saved);
	if (!cancelled || started)
		set_bound(TIME_NEVER);
	renewing = giving_up = is_late = 0;
	signals_restore(&saved);
}
