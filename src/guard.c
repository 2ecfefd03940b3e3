/*
 * Starts the command, watches the deadline, ends the job.  Must never talk to
 * a store, allocate, log, or block on anything but its poll; nothing that can
 * wait stands between a deadline and the kill.
 *
 *	state		what can happen			next
 *	WAITING		start				STARTING
 *	STARTING	executed, or cannot be		RUNNING, DONE
 *	RUNNING		term_at, max-run, "end now",	ENDING
 *			keeper gone, leftovers to kill
 *			"not yours"			KILLING
 *	ENDING		kill time, "not yours"		KILLING
 *	KILLING		every 20 ms			KILLING
 *	all but WAITING	no child is left (ECHILD)	DONE
 */
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>

#include "guard.h"
#include "link.h"
#include "relay.h"
#include "tree.h"
#include "util.h"

#define KILL_EVERY	(20 * NS_PER_MS)
#define KILL_SPELL	(5 * NS_PER_MS)
#define SURVIVOR_EVERY	(250 * NS_PER_MS)
/* What has not died by then is frozen, or waits in the kernel. */
#define HASTE		(5 * NS_PER_S)

enum state { WAITING, STARTING, RUNNING, ENDING, KILLING, DONE };

enum { POLL_LINK, POLL_CHILD, POLL_TIMER, POLL_EXEC, POLL_COUNT };

struct guard {
	enum state	 state;
	struct deadline_page *page;
	const struct guard_job *job;
	int		 link;		/* -1: the keeper is gone */
	int		 child_fd;	/* signalfd for SIGCHLD */
	int		 timer;
	int		 exec_fd;	/* -1 once executed */
	int		 hold_fd;	/* -1: none */
	pid_t		 command;	/* 0: not started, or reaped */
	pid_t		 pid;		/* the same, reaped or not */
	int		 status;	/* wait status of the command */
	bool		 is_reaped;
	bool		 expires;
	int64_t		 ttl;		/* granted */
	int64_t		 max_run_at;
	int64_t		 kill_time;	/* of ENDING */
	int64_t		 retry_at;	/* of KILLING */
	int64_t		 died_at;	/* somebody, or KILLING began */
	enum end_reason	 reason;
	pid_t		 survivor;	/* the last one told of */
	struct relay	 relay;
};

static bool
tell(struct guard *g, enum link_type type, int number, uint32_t reason,
    pid_t pid, uid_t uid)
{
	struct link_msg msg = { .type = type, .number = number,
	    .reason = reason, .pid = pid, .uid = uid };

	/* A keeper that does not read loses it; what matters is on the page. */
	return g->link != -1 && link_send(g->link, &msg, -1) == 0;
}

/*
 * The deadline as it may be believed: what is on the page is at most now + ttl
 * whatever wrote it.
 */
static int64_t
read_deadline(const struct guard *g, int64_t now)
{
	if (!g->expires)
		return TIME_NEVER;
	return time_earlier(atomic_load(&g->page->deadline),
	    time_add(now, g->ttl));
}

static int64_t
kill_at(const struct guard *g, int64_t now)
{
	return schedule_kill_at(read_deadline(g, now), g->ttl);
}

static int64_t
term_at(const struct guard *g, int64_t now)
{
	return schedule_term_at(read_deadline(g, now), g->ttl,
	    g->job->schedule.grace);
}

/*
 * Takes every child that is over.  True when there is none left; the command's
 * status is kept when it comes by.
 */
static bool
reap(struct guard *g)
{
	int status;
	pid_t pid;

	while ((pid = tree_wait(-1, &status)) > 0) {
		g->died_at = now_ns();
		if (pid != g->command)
			continue;
		g->status = status;
		g->is_reaped = true;
		g->command = 0;
		atomic_store(&g->page->status, status);
		atomic_store(&g->page->has_status, 1);
	}
	return pid == -1 && errno == ECHILD;
}

static void
check_stop(struct guard *g)
{
	int signo = relay_stop_of(&g->relay, g->command);

	if (g->state == RUNNING)
		relay_continue(&g->relay, g->command);
	if (signo != 0 && tell(g, LINK_STOPPED, signo, 0, g->command, 0))
		g->relay.stops++;
}

/*
 * Kills and reaps in turn for a moment, since a job that forks outruns a single
 * round; the rest is for the next wake-up.
 */
static void
kill_spell(struct guard *g)
{
	struct tree_survivor survivor = { 0 };
	int64_t start = now_ns(), now = start;
	bool empty = reap(g);	/* if we were stopped, many are over */
	bool is_slow = false;

	while (!empty && !is_slow && now - start < KILL_SPELL) {
		tree_kill(NULL, &survivor);
		empty = reap(g);
		now = now_ns();
		is_slow = survivor.pid != 0 || now - g->died_at > HASTE;
	}
	g->retry_at = time_add(now, is_slow ? SURVIVOR_EVERY : KILL_EVERY);
	if (survivor.pid != 0 && survivor.pid != g->survivor)
		tell(g, LINK_SURVIVOR, 0, 0, survivor.pid, survivor.uid);
	g->survivor = survivor.pid;
	atomic_store(&g->page->survivor, survivor.pid);
}

static void
start_killing(struct guard *g, enum end_reason reason)
{
	if (g->state == DONE || g->state == WAITING)
		return;
	if (reason > g->reason)
		g->reason = reason;
	if (g->state == KILLING)
		return;
	g->state = KILLING;
	g->died_at = now_ns();
	tree_hurry(TREE_GUARD);
	/* Does not block; a round through a large job may take long. */
	tell(g, LINK_ENDING, SIGKILL, g->reason, 0, 0);
	kill_spell(g);
}

/* SIGTERM now, SIGKILL after the grace, never later than the lease allows. */
static void
start_ending(struct guard *g, enum end_reason reason)
{
	int64_t now = now_ns(), limit;

	if (g->state != STARTING && g->state != RUNNING && g->state != ENDING)
		return;
	limit = time_earlier(kill_at(g, now),
	    time_add(now, g->job->schedule.grace));
	if (reason > g->reason)
		g->reason = reason;
	if (g->state == ENDING) {
		g->kill_time = time_earlier(g->kill_time, limit);
		return;
	}
	g->state = ENDING;
	g->kill_time = limit;
	tree_hurry(TREE_GUARD);
	reap(g);	/* a walk is long where many are over */
	tree_signal(SIGTERM, true);
	tell(g, LINK_ENDING, SIGTERM, g->reason, 0, 0);
}

/* Nothing of the job is left, or what is left stays on purpose. */
static void
finish(struct guard *g)
{
	g->state = DONE;
	atomic_store(&g->page->reason, (int)g->reason);
	atomic_store(&g->page->done, 1);
	tell(g, LINK_ENDED, g->status, g->reason, 0, 0);
	/* The lease is still good, and to be released. */
	if (g->reason < END_KEEPER)
		relay_continue(&g->relay, 0);
	else
		g->relay.nudge_at = TIME_NEVER;
}

/* The command was not started. */
static void
fail(struct guard *g, int error, enum link_failure failure)
{
	g->state = DONE;
	atomic_store(&g->page->error, error);
	atomic_store(&g->page->failed, (int)failure + 1);
	atomic_store(&g->page->done, 1);
	tell(g, LINK_FAILED, error, failure, 0, 0);
	relay_continue(&g->relay, 0);
}

/* First at every wake-up: a thaw or a flood must not put it off. */
static void
check_deadline(struct guard *g)
{
	int64_t now = now_ns(), limit;

	switch (g->state) {
	case STARTING:
	case RUNNING:
		if (now >= kill_at(g, now))
			start_killing(g, END_DEADLINE);
		else if (now >= term_at(g, now))
			start_ending(g, END_DEADLINE);
		else if (now >= g->max_run_at)
			start_ending(g, END_MAX_RUN);
		break;
	case ENDING:
		limit = kill_at(g, now);
		/* A renewal that comes too late does not move the kill. */
		if (now >= limit)
			start_killing(g, END_DEADLINE);
		else if (now >= g->kill_time)
			start_killing(g, g->reason);
		else if (g->reason < END_DEADLINE && now >= term_at(g, now))
			start_ending(g, END_DEADLINE);
		break;
	case KILLING:
		if (now >= g->retry_at)
			kill_spell(g);
		break;
	case DONE:
		if (now >= g->relay.nudge_at)
			relay_continue(&g->relay, 0);
		break;
	default:	/* nothing is due */
		break;
	}
}

static void
arm_timer(struct guard *g)
{
	int64_t now = now_ns(), at = TIME_NEVER;

	switch (g->state) {
	case STARTING:
	case RUNNING:
		at = time_earlier(term_at(g, now), g->max_run_at);
		at = time_earlier(at, g->relay.nudge_at);
		break;
	case ENDING:
		at = time_earlier(g->kill_time, kill_at(g, now));
		if (g->reason < END_DEADLINE)
			at = time_earlier(at, term_at(g, now));
		break;
	case KILLING:
		at = g->retry_at;
		break;
	case DONE:
		at = g->relay.nudge_at;
		break;
	default:	/* nothing is due */
		break;
	}
	timer_arm(g->timer, at);
}

/* The outcome of the exec; its failure ends the run. */
static void
check_exec(struct guard *g)
{
	int error;

	if (g->exec_fd == -1 || (error = tree_exec_result(g->exec_fd)) == -1)
		return;
	close(g->exec_fd);
	g->exec_fd = -1;
	if (error != 0)
		fail(g, error, FAILED_EXEC);
	else if (g->job->tell_started)	/* or the keeper wakes for nothing */
		tell(g, LINK_STARTED, 0, 0, g->pid, 0);
	if (g->state == STARTING)
		g->state = RUNNING;
}

static void
check_children(struct guard *g)
{
	bool was_reaped = g->is_reaped, empty;

	if (g->state == WAITING || g->state == DONE)
		return;
	empty = reap(g);
	check_stop(g);
	if (g->is_reaped && !was_reaped)
		check_exec(g);		/* before its end is told */
	if (g->state == DONE)
		return;
	if (empty) {
		finish(g);
		return;
	}
	if (!g->is_reaped || was_reaped || g->state != RUNNING)
		return;
	if (g->job->leave_leftovers) {
		finish(g);
		return;
	}
	tell(g, LINK_COMMAND, g->status, 0, 0, 0);
	if (g->job->kill_leftovers)
		start_ending(g, END_LEFTOVERS);
}

static void
on_start(struct guard *g, const struct link_msg *msg, int hold_fd)
{
	struct tree_command command = {
		.argv = g->job->argv, .envp = g->job->envp,
		.mask = &g->job->mask, .ignore_chld = g->job->ignore_chld,
		.own_group = g->job->own_group, .hold_fd = hold_fd,
	};
	int64_t now = now_ns();
	size_t i;

	if (g->state != WAITING) {
		if (hold_fd != -1)
			close(hold_fd);
		return;
	}
	g->hold_fd = hold_fd;
	g->expires = msg->ttl_ns != 0;
	g->ttl = msg->ttl_ns;
	if (now >= term_at(g, now)) {
		/* We, or the keeper, were frozen on the way here. */
		fail(g, 0, FAILED_LATE);
		return;
	}
	for (i = 0; i < 2; i++) {
		if (g->job->token_text[i] != NULL)
			number_format(msg->token, g->job->token_text[i]);
	}
	if (g->expires)
		seconds_format(g->ttl, g->job->ttl_text);
	g->command = tree_spawn(&command, &g->exec_fd);
	if (g->command == -1) {
		g->command = 0;
		fail(g, errno, FAILED_FORK);
		return;
	}
	g->pid = g->command;
	if (g->expires)
		tree_hurry(TREE_GUARD);
	/*
	 * The command has the keeper's group; we leave it, and the session as
	 * well: with a parent in it the kernel would let a key stop a job that
	 * no shell can continue (see "orphaned process group").
	 */
	if (g->job->keeper_group != 0 && !g->job->own_group)
		setsid();
	g->state = STARTING;
	g->max_run_at = time_add(now, g->job->max_run);
}

static void
on_signal(struct guard *g, int signo, bool from_terminal)
{
	if (g->state != WAITING && g->state != DONE)
		relay_signal(&g->relay, g->command, signo, from_terminal);
}

static void
read_link(struct guard *g)
{
	enum link_event event;
	struct link_msg msg;
	int passed;

	if (g->link == -1)
		return;
	event = link_recv(g->link, false, &msg, &passed);
	if (event == LINK_GONE) {
		/* From here on nobody renews. */
		close(g->link);
		g->link = -1;
		start_ending(g, END_KEEPER);
	}
	if (event != LINK_GOT)
		return;
	if (msg.type == LINK_START)
		on_start(g, &msg, passed);
	else if (msg.type == LINK_SIGNAL)
		on_signal(g, msg.number, msg.reason != 0);
	else if (msg.type == LINK_RESUMED)
		g->relay.stops--;
	else if (msg.number == SIGKILL)
		start_killing(g, (enum end_reason)msg.reason);
	else
		start_ending(g, (enum end_reason)msg.reason);
}

static void
wait_for_events(struct guard *g)
{
	struct pollfd fds[POLL_COUNT] = {
		[POLL_LINK] = { .fd = g->link, .events = POLLIN },
		[POLL_CHILD] = { .fd = g->child_fd, .events = POLLIN },
		[POLL_TIMER] = { .fd = g->timer, .events = POLLIN },
		[POLL_EXEC] = { .fd = g->job->tell_started ? g->exec_fd : -1,
		    .events = POLLIN },
	};
	struct signalfd_siginfo si;

	if (poll(fds, POLL_COUNT, -1) == -1)
		return;
	/* They only say that there is something to look at. */
	if (fds[POLL_CHILD].revents != 0)
		while (read(g->child_fd, &si, sizeof(si)) == sizeof(si))
			;
	if (fds[POLL_TIMER].revents != 0)
		timer_clear(g->timer);
}

static bool
is_over(const struct guard *g)
{
	if (g->link == -1)
		return g->state == DONE || g->state == WAITING;
	/* A keeper that is about to stop has to be continued. */
	return g->state == DONE && !g->job->leave_leftovers &&
	    g->relay.nudge_at == TIME_NEVER;
}

int
guard_run(int link, struct deadline_page *page, const struct guard_job *job)
{
	struct guard g = {
		.state = WAITING, .page = page, .job = job, .link = link,
		.exec_fd = -1, .hold_fd = -1, .max_run_at = TIME_NEVER,
		.kill_time = TIME_NEVER, .retry_at = TIME_NEVER,
	};

	relay_init(&g.relay, job, getppid());
	/* With a terminal the command is to inherit the keeper's group. */
	if (job->own_group)
		setpgid(0, 0);
	prctl(PR_SET_NAME, "leaserun-guard", 0, 0, 0);
	g.child_fd = children_open();
	g.timer = timer_open();
	if (tree_init() == -1 || g.child_fd == -1 || g.timer == -1)
		return 1;
	/*
	 * The order inside one wake-up: the deadline, then who has ended, then
	 * one message, so that a flood of them cannot put off the rest.
	 */
	while (!is_over(&g)) {
		arm_timer(&g);
		wait_for_events(&g);
		check_deadline(&g);
		check_exec(&g);
		check_children(&g);
		read_link(&g);
	}
	if (g.link == -1)
		tree_drop_hold(g.hold_fd);
	return 0;
}
