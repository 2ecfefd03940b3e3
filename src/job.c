/*
 * Reads what the guard says and takes its place when it cannot go on.  Must
 * never kill anything of the job before the guard is gone: only then are the
 * orphans ours.
 */
#include <sys/wait.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "ending.h"
#include "job.h"
#include "leave.h"
#include "log.h"
#include "notify.h"
#include "proc.h"
#include "report.h"
#include "signals.h"
#include "timeutil.h"
#include "util.h"

#define LEFTOVERS_AFTER	(5 * NS_PER_S)
/* How long the guard has to show that it is at work when it should kill. */
#define GUARD_PATIENCE	(100 * NS_PER_MS)
#define GUARD_LINGER	NS_PER_S
#define KILL_EVERY	(20 * NS_PER_MS)
#define SURVIVOR_EVERY	(250 * NS_PER_MS)
#define REPEAT_EVERY	(100 * NS_PER_MS)

void
job_init(struct job *j, const struct keeper_setup *s)
{
	memset(j, 0, sizeof(*j));
	j->s = s;
	j->kill_at = j->check_guard_at = j->leftovers_at = TIME_NEVER;
}

void
job_expect(struct job *j, int64_t kill_at)
{
	j->kill_at = kill_at;
	if (j->is_killing || j->is_taken_over)
		return;
	j->check_guard_at = kill_at;
	j->was_patient = false;
}

/*
 * Children other than the guard are not the job while the guard lives: it is
 * nearer to the job's orphans than we are.  They are noted, so that they are
 * spared if the guard dies, and reaped when they are over.
 */
static void
look_after_exempt(struct job *j)
{
	sigset_t saved;

	if (j->is_taken_over)
		return;
	signals_block(&saved);
	tree_spare_children(j->s->exempt, j->s->guard, signals_guard_ended);
	signals_restore(&saved);
}

bool
job_start(struct job *j, struct link_msg *msg, int hold_fd)
{
	sigset_t saved;

	/* Whoever is our child by now is none of it; no other may come. */
	signals_block(&saved);
	if (j->s->exempt->may_grow)
		look_after_exempt(j);
	j->started_at = now_ns();
	j->is_started = signals_start(msg, hold_fd);
	signals_restore(&saved);
	return j->is_started;
}

void
job_end(struct job *j, int signo, enum end_reason reason)
{
	struct link_msg msg = {
		.type = LINK_END, .number = signo, .reason = reason,
	};

	if (!j->is_started || j->is_taken_over)
		return;
	j->unsent.type = 0;
	if (link_send(j->s->link, &msg, -1) == -1)
		j->unsent = msg;
	if (signo != SIGKILL)
		return;
	j->check_guard_at = now_ns();
	j->was_patient = false;
}

static void
report_ending(const struct job *j, bool is_kill, const char *reason)
{
	struct report_event event = report_event(j->s->report,
	    is_kill ? EVENT_KILL : EVENT_TERM);

	event.reason = reason;
	report_send(j->s->report, &event);
}

/* From here on the job is ours to kill; the guard is waited for first. */
static void
take_over(struct job *j, const char *why)
{
	if (j->is_taken_over)
		return;
	j->is_taken_over = true;
	if (!j->is_killing)
		j->leftovers_at = time_add(now_ns(), LEFTOVERS_AFTER);
	j->is_killing = true;
	j->check_guard_at = TIME_NEVER;
	tree_hurry(TREE_KEEPER);
	if (!signals_guard_ended())
		signals_kill_guard();
	if (now_ns() >= j->kill_at)
		j->reason = END_DEADLINE;
	if (j->failure == 0)
		j->failure = EXIT_INTERNAL;
	report_ending(j, true, "guard");
	notify_stopping(j->s->notify, "ending '%s': the guard %s", j->s->shown,
	    why);
	log_error("'%s': the guard %s, ending the command", j->s->shown, why);
}

/* By a signal or by a debugger. */
static bool
is_stopped(pid_t pid)
{
	char state = proc_state(pid);

	return state == 'T' || state == 't';
}

/*
 * A guard may be stopped between its first kill and the last.  Where the lease
 * is over, or about to be, it is looked at as often as it kills.
 */
static int64_t
next_check(const struct job *j, int64_t now)
{
	if (j->survivor != 0)
		return time_add(now, GUARD_LINGER);
	if (j->ending == END_LOST || now >= j->kill_at)
		return time_add(now, KILL_EVERY);
	return time_earlier(time_add(now, GUARD_LINGER), j->kill_at);
}

/*
 * At the time to kill the guard must be seen at work.  One that is stopped is
 * put out of the way at once; after a while so is one that is silent, or that a
 * debugger does not let go on.
 */
static void
check_guard(struct job *j, int64_t now)
{
	char state;

	if (j->is_taken_over || now < j->check_guard_at)
		return;
	state = proc_state(j->s->guard);
	if (state == 'T' || (state == 't' && (j->is_killing || j->was_patient)))
		take_over(j, "is stopped");
	else if (j->is_killing)
		j->check_guard_at = next_check(j, now);
	else if (!j->was_patient) {
		j->was_patient = true;
		j->check_guard_at = time_add(now, GUARD_PATIENCE);
	} else if (!j->was_late &&
	    now > time_add(j->check_guard_at, GUARD_PATIENCE)) {
		/* We were stopped until now, so perhaps it was as well. */
		j->was_late = true;
		j->check_guard_at = time_add(now, GUARD_PATIENCE);
	} else
		take_over(j, "does not end the command");
}

static void
note_survivor(struct job *j, pid_t pid, uid_t uid)
{
	if (pid == 0 || pid == j->survivor)
		return;
	j->survivor = pid;
	log_error("'%s': process %ld of user %ld may not be killed; the lease "
	    "is kept while it lives, end it as that user", j->s->shown,
	    (long)pid, (long)uid);
}

static bool
reap(const struct job *j)
{
	sigset_t saved;
	bool empty;

	signals_block(&saved);
	tree_spare_zombie(j->s->exempt, j->s->guard);
	empty = tree_reap(j->s->exempt);
	signals_restore(&saved);
	return empty;
}

/*
 * Kills what was the guard's.  ECHILD ends it; with children that are not the
 * job there is no ECHILD, so two empty listings in a row have to do.
 */
static void
kill_job(struct job *j)
{
	struct tree_exempt *exempt = j->s->exempt;
	struct tree_survivor survivor;
	size_t n;

	if (!signals_guard_ended())
		return;
	/* A walk is long where many are over. */
	if (reap(j)) {
		j->is_ended = true;
		return;
	}
	n = tree_kill(exempt, &survivor);
	j->empty_listings = n == 0 ? j->empty_listings + 1 : 0;
	if (reap(j) || (exempt->n > 0 && j->empty_listings >= 2))
		j->is_ended = true;
	else
		note_survivor(j, survivor.pid, survivor.uid);
}

static void
on_exec_failure(struct job *j, int error)
{
	char word[WORD_SIZE];
	const char *hint;

	j->failure = exec_failure(j->s->command, error, &hint);
	log_error("'%s': cannot run '%s': %s%s", j->s->shown,
	    word_shown(j->s->command, word), strerror(error), hint);
}

static void
on_failed(struct job *j, enum link_failure failure, int error)
{
	j->is_ended = true;
	j->is_started = false;
	if (failure == FAILED_EXEC)
		on_exec_failure(j, error);
	else if (failure == FAILED_FORK) {
		j->failure = EXIT_INTERNAL;
		log_error("'%s': cannot start a process for '%s': %s%s",
		    j->s->shown, j->s->command, strerror(error),
		    limit_hint(error));
	} else {
		j->failure = EXIT_UNAVAILABLE;
		log_error("'%s': too little of the lease was left to start "
		    "the command; give a longer --ttl", j->s->shown);
	}
}

static void
on_ending(struct job *j, const struct link_msg *msg)
{
	bool is_kill = msg->number == SIGKILL;
	const char *text = ending_text((enum end_reason)msg->reason);

	j->ending = (enum end_reason)msg->reason;
	if (is_kill) {
		j->is_killing = true;
		j->leftovers_at = time_add(now_ns(), LEFTOVERS_AFTER);
		j->check_guard_at = next_check(j, now_ns());
	}
	report_ending(j, is_kill, ending_name(j->ending));
	notify_stopping(j->s->notify, "ending '%s': %s", j->s->shown, text);
	if (msg->reason == END_LEFTOVERS)
		log_info("'%s': %s to all: %s", j->s->shown,
		    is_kill ? "SIGKILL" : "SIGTERM", text);
	else
		log_warning("'%s': %s to all: %s", j->s->shown,
		    is_kill ? "SIGKILL" : "SIGTERM", text);
}

static void
on_stopped(struct job *j, int signo)
{
	struct link_msg msg = { .type = LINK_RESUMED };

	/* It may have been continued by the time we read this. */
	if (j->command == 0 || proc_state(j->command) == 'T')
		leave_stopped(signo);
	link_send(j->s->link, &msg, -1);
}

static void
on_ended(struct job *j, enum end_reason reason, int status)
{
	j->is_ended = true;
	j->reason = reason;
	j->status = status;
}

/* What the guard's last message says, or said if it did not fit. */
static void
read_page(struct job *j)
{
	struct deadline_page *page = j->s->page;
	int failed = atomic_load(&page->failed);

	if (failed != 0)
		on_failed(j, (enum link_failure)(failed - 1),
		    atomic_load(&page->error));
	else
		on_ended(j, (enum end_reason)atomic_load(&page->reason),
		    atomic_load(&page->status));
}

static void
on_message(struct job *j, const struct link_msg *msg)
{
	switch (msg->type) {
	case LINK_STARTED:
		j->command = msg->pid;
		notify_ready(j->s->notify, "running '%s' with token %" PRIu64,
		    j->s->shown, j->s->report->token);
		log_info("'%s': started process %d", j->s->shown, msg->pid);
		break;
	case LINK_FAILED:
		on_failed(j, (enum link_failure)msg->reason, msg->number);
		break;
	case LINK_COMMAND:
		j->leftovers_at = time_add(now_ns(), LEFTOVERS_AFTER);
		break;
	case LINK_STOPPED:
		j->command = msg->pid;
		on_stopped(j, msg->number);
		break;
	case LINK_ENDING:
		on_ending(j, msg);
		break;
	case LINK_SURVIVOR:
		note_survivor(j, msg->pid, msg->uid);
		break;
	case LINK_ENDED:
		on_ended(j, (enum end_reason)msg->reason, msg->number);
		break;
	default:
		break;
	}
}

static void
read_link(struct job *j)
{
	enum link_event event;
	struct link_msg msg;
	bool is_done;
	int passed;

	if (j->is_taken_over)
		return;
	is_done = atomic_load(&j->s->page->done);
	while ((event = link_recv(j->s->link, true, &msg, &passed)) ==
	    LINK_GOT && !j->is_ended)
		on_message(j, &msg);
	if (j->is_ended)
		return;
	if (is_done || (event == LINK_GONE && atomic_load(&j->s->page->done)))
		read_page(j);
	else if (event == LINK_GONE)
		take_over(j, "is gone");
}

/* The link was full: the guard is stopped, or was. */
static void
repeat_unsent(struct job *j)
{
	if (j->unsent.type != 0 && !j->is_taken_over &&
	    link_send(j->s->link, &j->unsent, -1) == 0)
		j->unsent.type = 0;
}

static void
tell_leftovers(struct job *j)
{
	char name[32];
	size_t count;
	pid_t pid;
	sigset_t saved;
	bool found;

	j->leftovers_at = TIME_NEVER;
	signals_block(&saved);
	found = tree_example(j->is_taken_over ? getpid() : j->s->guard,
	    j->s->exempt, &pid, name, sizeof(name), &count);
	signals_restore(&saved);
	if (!found || j->survivor != 0)
		return;		/* or it has been told of */
	if (j->is_killing) {
		log_error("'%s': SIGKILL has not ended %zu of its processes "
		    "(%ld '%s', ...): frozen, traced, or waiting for a disk "
		    "or file server", j->s->shown, count, (long)pid, name);
		return;
	}
	notify_status(j->s->notify, "the command of '%s' has ended, waiting "
	    "for %zu of its processes (%ld '%s', ...)", j->s->shown, count,
	    (long)pid, name);
	log_notice("'%s': the command has ended, waiting for %zu of "
	    "its processes (%ld '%s', ...); see --leftovers", j->s->shown,
	    count, (long)pid, name);
}

int64_t
job_next(const struct job *j, int64_t now)
{
	int64_t at = time_earlier(j->check_guard_at, j->leftovers_at);
	bool is_slow;

	if (!j->is_taken_over)
		return j->unsent.type == 0 ? at :
		    time_earlier(at, time_add(now, REPEAT_EVERY));
	/* Who forks is kept up with by the handler of SIGCHLD. */
	is_slow = j->survivor != 0 || j->leftovers_at == TIME_NEVER;
	return time_earlier(at, time_add(now, is_slow ? SURVIVOR_EVERY :
	    KILL_EVERY));
}

void
job_look(struct job *j, int64_t now, bool is_due)
{
	check_guard(j, now);
	read_link(j);
	repeat_unsent(j);
	if (j->is_taken_over)
		kill_job(j);
	else if (is_due || j->s->exempt->may_grow)
		look_after_exempt(j);
	if (is_due && is_stopped(j->s->guard) && !j->told_stopped) {
		j->told_stopped = true;
		log_warning("'%s': the guard (%ld) is stopped: nobody notices "
		    "the end of the command; continue it", j->s->shown,
		    (long)j->s->guard);
	}
	if (now >= j->leftovers_at && !j->is_ended)
		tell_leftovers(j);
}

/* Leaves no process behind, and does not wait for one that is frozen. */
void
job_dismiss_guard(struct job *j)
{
	struct pollfd event = { .fd = signals_fd(), .events = POLLIN };
	int64_t patience = time_add(now_ns(), GUARD_LINGER);

	close(j->s->link);
	if (j->survivor != 0 && !j->is_ended)
		return;		/* it stays with what may not be killed */
	/* It has most likely gone before there is a reason to look closer. */
	while (waitpid(j->s->guard, NULL, WNOHANG) == 0) {
		poll(&event, 1, 20);
		signals_clear();
		if (signals_guard_ended())
			break;
		if (is_stopped(j->s->guard) || now_ns() > patience)
			kill(j->s->guard, SIGKILL);
	}
	waitpid(j->s->guard, NULL, WNOHANG);
}
