/*
 * Acquires, renews and releases the lease while the guard runs the command.
 * Must never raise the deadline but from what the store confirmed, and never
 * release before the guard, or ECHILD, says that nothing of the job is left.
 */
#include <sys/wait.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "keeper.h"
#include "link.h"
#include "log.h"
#include "plugin.h"
#include "signals.h"
#include "store.h"
#include "timeutil.h"
#include "tree.h"
#include "util.h"

#define ATTEMPT_MAX	(2 * NS_PER_S)
#define ATTEMPT_MIN	(50 * NS_PER_MS)
#define BACKOFF_MIN	(50 * NS_PER_MS)
#define BACKOFF_MAX	NS_PER_S
#define RELEASE_BOUND	(5 * NS_PER_S)
#define LEFTOVERS_AFTER	(5 * NS_PER_S)
/* How long the guard has to show that it is at work when it should kill. */
#define GUARD_PATIENCE	(50 * NS_PER_MS)
#define GUARD_LINGER	NS_PER_S
#define KILL_EVERY	(20 * NS_PER_MS)
#define EXEMPT_MAX	4096

struct keeper {
	const struct keeper_setup *s;
	const struct conf *conf;
	struct store	 store;
	struct leaserun_lease lease;
	struct tree_exempt exempt;	/* pids owned by the setup */
	int		 timer;

	/* The lease. */
	int64_t		 ttl;		/* granted; 0: does not expire */
	int64_t		 deadline;
	int64_t		 next_renew;
	int64_t		 backoff;	/* 0: the last renewal was good */
	bool		 is_lost;	/* the store said so */
	enum leaserun_loss loss;

	/* The job. */
	bool		 is_revoked;
	bool		 is_ended;
	bool		 is_taken_over;	/* we kill, the guard is gone */
	int		 listings;	/* in a row that showed nobody */
	pid_t		 command;
	int		 status;	/* wait status */
	enum end_reason	 reason;
	int		 failure;	/* exit status instead of the command's */
	int64_t		 started_at;
	int64_t		 leftovers_at;
	int64_t		 takeover_at;
	bool		 is_killing;	/* the guard says so */
	pid_t		 survivor;
};

static int64_t
earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t
later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t
kill_at(const struct keeper *k)
{
	return schedule_kill_at(k->deadline, k->ttl);
}

static int64_t
term_at(const struct keeper *k)
{
	return schedule_term_at(k->deadline, k->ttl, k->conf->grace);
}

/* What the store confirmed, measured from before the request was sent. */
static void
confirm(struct keeper *k, int64_t sent, int64_t ttl)
{
	int64_t deadline = ttl == 0 ? TIME_NEVER : time_add(sent, ttl);

	if (ttl != 0 && (k->ttl == 0 || ttl < k->ttl))
		k->ttl = ttl;
	if (deadline > atomic_load(&k->s->page->deadline)) {
		k->deadline = deadline;
		atomic_store(&k->s->page->deadline, deadline);
	}
	k->next_renew = time_add(sent, k->conf->renew_every);
	k->takeover_at = time_add(kill_at(k), GUARD_PATIENCE);
}

/* --- renewing --- */

static int64_t
attempt_deadline(const struct keeper *k)
{
	int64_t now = now_ns(), left, parts;

	if (k->deadline == TIME_NEVER)
		return time_add(now, ATTEMPT_MAX);
	/* After term_at it goes on, for what is left of the lease. */
	left = now < term_at(k) ? term_at(k) - now : k->deadline - now;
	parts = k->store.plugin.endpoints > 3 ? k->store.plugin.endpoints : 3;
	return time_add(now, later(ATTEMPT_MIN,
	    earlier(ATTEMPT_MAX, left / parts)));
}

static void
note_failure(struct keeper *k)
{
	char left[32];

	if (k->backoff == 0) {
		k->backoff = BACKOFF_MIN;
		if (k->deadline == TIME_NEVER)
			log_warning("'%s': cannot renew the lease, trying "
			    "again: %s", k->s->shown, k->store.plugin.error);
		else {
			duration_format((later(0, term_at(k) - now_ns()) /
			    NS_PER_MS) * NS_PER_MS, left, sizeof(left));
			log_warning("'%s': cannot renew the lease, trying "
			    "again for %s: %s", k->s->shown, left,
			    k->store.plugin.error);
		}
	} else
		k->backoff = earlier(k->backoff * 2, BACKOFF_MAX);
	k->next_renew = time_add(now_ns(), k->backoff / 2 +
	    (int64_t)random_below((uint64_t)k->backoff));
}

static const char *
loss_text(enum leaserun_loss loss)
{
	switch (loss) {
	case LEASERUN_LOSS_EXPIRED:
		return "it ran out at the store";
	case LEASERUN_LOSS_TAKEN:
		return "another holder has it";
	case LEASERUN_LOSS_DELETED:
		return "its record was removed or replaced";
	case LEASERUN_LOSS_FORCED:
		return "it was freed by revoke --force";
	case LEASERUN_LOSS_NONE:
		break;
	}
	return "the store says it is not ours";
}

static void
tell_guard(struct keeper *k, int signo, enum end_reason reason)
{
	struct link_msg msg = {
		.type = LINK_END, .number = signo, .reason = reason,
	};

	link_send(k->s->link, &msg, -1);
}

/* "Not yours": the job has to be gone at once. */
static void
note_loss(struct keeper *k, enum leaserun_loss loss)
{
	k->is_lost = true;
	k->loss = loss;
	k->next_renew = TIME_NEVER;
	if (k->started_at != 0) {
		tell_guard(k, SIGKILL, END_LOST);
		k->takeover_at = time_add(now_ns(), GUARD_PATIENCE);
	}
	log_error("'%s': the lease (token %" PRIu64 ") is lost: %s",
	    k->s->shown, k->lease.token, loss_text(loss));
}

static void
note_revoked(struct keeper *k)
{
	if (k->is_revoked)
		return;
	k->is_revoked = true;
	tell_guard(k, SIGTERM, END_REVOKED);
	log_warning("'%s': the lease is being revoked, ending the command",
	    k->s->shown);
}

static enum leaserun_result
renew(struct keeper *k)
{
	struct leaserun_renewal renewal = { 0 };
	enum leaserun_result result;

	result = store_renew(&k->store, &k->lease, attempt_deadline(k),
	    &renewal);
	switch (result) {
	case LEASERUN_OK:
		if (k->backoff != 0)
			log_warning("'%s': the lease is renewed again",
			    k->s->shown);
		k->backoff = 0;
		confirm(k, renewal.sent_ns, renewal.ttl_ns);
		if (renewal.revoke)
			note_revoked(k);
		break;
	case LEASERUN_LOST:
		note_loss(k, renewal.loss);
		break;
	case LEASERUN_INTERRUPTED:
		break;		/* due again as soon as that is looked at */
	default:
		note_failure(k);
		break;
	}
	return result;
}

static bool
may_renew(const struct keeper *k, int64_t now)
{
	return !k->is_lost && now < k->deadline;
}

/* --- the job --- */

/* From here on the job is ours to kill; the guard is waited for first. */
static void
take_over(struct keeper *k, const char *why)
{
	if (k->is_taken_over)
		return;
	k->is_taken_over = true;
	k->takeover_at = TIME_NEVER;
	if (!signals_guard_ended())
		kill(k->s->guard, SIGKILL);
	if (now_ns() >= kill_at(k))
		k->reason = END_DEADLINE;
	if (k->failure == 0)
		k->failure = EXIT_INTERNAL;
	log_error("'%s': the guard %s, ending the command", k->s->shown, why);
}

/*
 * At the time to kill the guard must be seen at work.  One that is stopped, or
 * silent, is put out of the way.
 */
static void
check_guard(struct keeper *k, int64_t now)
{
	if (k->is_taken_over || now < k->takeover_at)
		return;
	if (tree_state(k->s->guard) == 'T')
		take_over(k, "is stopped");
	else if (!k->is_killing)
		take_over(k, "does not end the command");
	else
		k->takeover_at = time_add(now, GUARD_LINGER);
}

static void
forget_exempt(struct keeper *k, pid_t pid)
{
	size_t i;
	sigset_t saved;

	for (i = 0; i < k->exempt.n; i++) {
		if (k->s->exempt[i] != pid)
			continue;
		signals_block(&saved);
		k->s->exempt[i] = k->s->exempt[--k->exempt.n];
		signals_restore(&saved);
		return;
	}
}

/*
 * Children other than the guard are not the job while the guard lives: it is
 * nearer to the job's orphans than we are.  They are noted, so that they are
 * spared if the guard dies, and reaped when they are over.
 */
static void
look_after_exempt(struct keeper *k)
{
	static pid_t found[EXEMPT_MAX];
	sigset_t saved;
	ssize_t n, i;
	size_t kept = 0;

	if (k->is_taken_over || (n = tree_children(found, EXEMPT_MAX)) <= 0)
		return;
	if (signals_guard_ended())
		return;		/* some of them may be the job */
	signals_block(&saved);
	for (i = 0; i < n && kept < EXEMPT_MAX; i++) {
		if (found[i] != k->s->guard &&
		    waitpid(found[i], NULL, WNOHANG) == 0)
			k->s->exempt[kept++] = found[i];
	}
	k->exempt.n = kept;
	signals_restore(&saved);
}

static void
note_survivor(struct keeper *k, pid_t pid, uid_t uid)
{
	if (pid == 0 || pid == k->survivor)
		return;
	k->survivor = pid;
	log_error("'%s': process %ld of user %ld may not be killed; the lease "
	    "is kept while it lives, end it as that user", k->s->shown,
	    (long)pid, (long)uid);
}

/*
 * Kills what was the guard's.  ECHILD ends it; with children that are not the
 * job there is no ECHILD, so two empty listings in a row have to do.
 */
static void
kill_job(struct keeper *k)
{
	struct tree_survivor survivor;
	pid_t pid;
	size_t n;

	if (!signals_guard_ended())
		return;
	n = tree_kill(&k->exempt, &survivor);
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		forget_exempt(k, pid);
	k->listings = n == 0 ? k->listings + 1 : 0;
	if ((pid == -1 && errno == ECHILD) ||
	    (k->exempt.n > 0 && k->listings >= 2))
		k->is_ended = true;
	else
		note_survivor(k, survivor.pid, survivor.uid);
}

static void
on_exec_failure(struct keeper *k, int error)
{
	const char *hint = "";

	k->failure = error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXEC;
	if (error == ENOENT && strchr(k->s->command, '/') != NULL &&
	    access(k->s->command, F_OK) == 0) {
		k->failure = EXIT_CANNOT_EXEC;
		hint = " (its interpreter is missing)";
	} else if (error == E2BIG)
		hint = " (one string over 128 KiB, or all arguments and the "
		    "environment together over the stack limit's quarter)";
	log_error("cannot run '%s': %s%s", k->s->command, strerror(error),
	    hint);
}

static void
on_failed(struct keeper *k, const struct link_msg *msg)
{
	k->is_ended = true;
	k->started_at = 0;
	if (msg->reason == FAILED_EXEC)
		on_exec_failure(k, msg->number);
	else if (msg->reason == FAILED_FORK) {
		k->failure = EXIT_INTERNAL;
		log_error("cannot start a process for '%s': %s",
		    k->s->command, strerror(msg->number));
	} else {
		k->failure = EXIT_UNAVAILABLE;
		log_error("'%s': too little of the lease was left to start "
		    "the command", k->s->shown);
	}
}

static const char *
reason_text(enum end_reason reason)
{
	switch (reason) {
	case END_DEADLINE:
		return "the lease could not be renewed in time";
	case END_LOST:
		return "the lease is lost";
	case END_REVOKED:
		return "the lease is revoked";
	case END_MAX_RUN:
		return "it ran longer than --max-run";
	case END_LEFTOVERS:
		return "the command has ended and left processes behind";
	default:
		return "leaserun is being ended";
	}
}

static void
on_ending(struct keeper *k, const struct link_msg *msg)
{
	bool is_kill = msg->number == SIGKILL;
	const char *text = reason_text((enum end_reason)msg->reason);

	if (is_kill) {
		k->is_killing = true;
		k->takeover_at = time_add(now_ns(), GUARD_LINGER);
	}
	if (msg->reason == END_LEFTOVERS)
		log_info("'%s': %s to all: %s", k->s->shown,
		    is_kill ? "SIGKILL" : "SIGTERM", text);
	else
		log_warning("'%s': %s to all: %s", k->s->shown,
		    is_kill ? "SIGKILL" : "SIGTERM", text);
}

static void
on_stopped(struct keeper *k, int signo)
{
	/* It may have been continued by the time we read this. */
	if (k->command == 0 || tree_state(k->command) == 'T')
		signals_stop_self(signo);
}

static void
on_message(struct keeper *k, const struct link_msg *msg)
{
	switch (msg->type) {
	case LINK_STARTED:
		k->command = msg->pid;
		log_info("'%s': started process %d", k->s->shown, msg->pid);
		break;
	case LINK_FAILED:
		on_failed(k, msg);
		break;
	case LINK_COMMAND:
		k->leftovers_at = time_add(now_ns(), LEFTOVERS_AFTER);
		break;
	case LINK_STOPPED:
		k->command = msg->pid;
		on_stopped(k, msg->number);
		break;
	case LINK_ENDING:
		on_ending(k, msg);
		break;
	case LINK_SURVIVOR:
		note_survivor(k, msg->pid, msg->uid);
		break;
	case LINK_ENDED:
		k->is_ended = true;
		k->status = msg->number;
		k->reason = (enum end_reason)msg->reason;
		break;
	default:
		break;
	}
}

static void
read_link(struct keeper *k)
{
	enum link_event event;
	struct link_msg msg;
	int passed;

	if (k->is_taken_over)
		return;
	while ((event = link_recv(k->s->link, true, &msg, &passed)) ==
	    LINK_GOT && !k->is_ended)
		on_message(k, &msg);
	if (event != LINK_GONE || k->is_ended)
		return;
	/* The last message may not have fitted; the page has it as well. */
	if (atomic_load(&k->s->page->done)) {
		k->is_ended = true;
		k->status = atomic_load(&k->s->page->status);
		k->reason = (enum end_reason)atomic_load(&k->s->page->reason);
		return;
	}
	take_over(k, "is gone");
}

static void
tell_leftovers(struct keeper *k)
{
	char name[32];
	size_t count;
	pid_t pid;

	k->leftovers_at = TIME_NEVER;
	if (tree_example(k->s->guard, &pid, name, sizeof(name), &count))
		log_notice("'%s': the command has ended, waiting for %zu of "
		    "its processes (%ld '%s', ...); see --leftovers",
		    k->s->shown, count, (long)pid, name);
}

static void
wait_for_events(struct keeper *k)
{
	struct pollfd fds[3] = {
		{ .fd = k->is_taken_over ? -1 : k->s->link, .events = POLLIN },
		{ .fd = signals_fd(), .events = POLLIN },
		{ .fd = k->timer, .events = POLLIN },
	};
	int64_t now = now_ns(), at;

	at = earlier(k->takeover_at, k->leftovers_at);
	if (may_renew(k, now))
		at = earlier(at, k->next_renew);
	if (k->is_taken_over)
		at = earlier(at, time_add(now, k->survivor == 0 ?
		    KILL_EVERY : 10 * KILL_EVERY));
	timer_arm(k->timer, at);
	poll(fds, 3, -1);
	timer_clear(k->timer);
	signals_clear();
}

/*
 * An unkillable process keeps the lease; once that is over there is nothing to
 * keep and the guard goes on alone.
 */
static bool
is_hopeless(const struct keeper *k, int64_t now)
{
	return k->survivor != 0 && k->deadline != TIME_NEVER &&
	    (now >= k->deadline || k->is_lost);
}

/*
 * The order inside one wake-up: the deadline, the guard's death, its messages,
 * then the store, which may block.
 */
static void
hold(struct keeper *k)
{
	int64_t now;

	while (!k->is_ended) {
		wait_for_events(k);
		now = now_ns();
		check_guard(k, now);
		read_link(k);
		if (k->is_taken_over)
			kill_job(k);
		else if (now >= k->next_renew || k->exempt.n > 0 ||
		    getpid() == 1)
			look_after_exempt(k);
		if (k->is_ended || is_hopeless(k, now))
			break;
		if (now >= k->leftovers_at)
			tell_leftovers(k);
		if (may_renew(k, now) && now >= k->next_renew)
			renew(k);
	}
}

/* --- beginning and end --- */

/*
 * The lease must be long enough for what was asked, and fresh enough for one
 * whole renewal period before anything would have to be ended.
 */
static int
check_schedule(struct keeper *k, int64_t granted)
{
	struct schedule s = {
		.ttl = earlier(granted, k->conf->ttl),
		.renew_every = k->conf->renew_every,
		.grace = k->conf->grace,
	};
	char ttl[32], every[32], grace[32], margin[32];

	if (granted == 0 || schedule_fits(&s))
		return 0;
	duration_format(s.ttl, ttl, sizeof(ttl));
	duration_format(s.renew_every, every, sizeof(every));
	duration_format(s.grace, grace, sizeof(grace));
	duration_format(schedule_margin(s.ttl), margin, sizeof(margin));
	log_error("'%s': the store grants %s only, too short for 2 x "
	    "renew-every %s + grace %s + margin %s; lower these, or raise "
	    "the store's limit", k->s->shown, ttl, every, grace, margin);
	return EXIT_CONFIG;
}

static int
freshen(struct keeper *k)
{
	while (k->deadline != TIME_NEVER &&
	    time_add(now_ns(), k->conf->renew_every) > term_at(k)) {
		if (now_ns() >= term_at(k)) {
			log_error("'%s': the lease could not be renewed before "
			    "the command was started: %s", k->s->shown,
			    k->store.plugin.error);
			return EXIT_UNAVAILABLE;
		}
		if (now_ns() >= k->next_renew || k->backoff == 0)
			renew(k);
		if (k->is_lost)
			return EXIT_UNAVAILABLE;
		if (store_events(&k->store))
			return k->store.leave;
		if (k->backoff != 0)
			store_pause(&k->store, k->next_renew);
	}
	return 0;
}

static int
start(struct keeper *k, const struct leaserun_grant *grant)
{
	struct link_msg msg = {
		.type = LINK_START, .token = grant->token,
		.ttl_ns = grant->ttl_ns,
	};
	int status;

	if ((status = check_schedule(k, grant->ttl_ns)) != 0 ||
	    (status = freshen(k)) != 0)
		return status;
	msg.ttl_ns = k->ttl;
	k->started_at = now_ns();
	if (signals_start(&msg, grant->hold_fd))
		return 0;
	k->started_at = 0;
	if (signals_cancelled())
		return EXIT_SIGNAL + signals_cancelled();
	if (signals_guard_ended())
		log_error("'%s': the guard is gone", k->s->shown);
	else
		log_error("'%s': cannot start the command: %s", k->s->shown,
		    strerror(errno));
	return EXIT_INTERNAL;
}

/* What to leave with, as a wait status. */
static int
outcome(const struct keeper *k)
{
	if (k->is_lost || k->reason == END_LOST || k->reason == END_DEADLINE ||
	    k->reason == END_REVOKED)
		return W_EXITCODE(k->conf->lost_exit_code, 0);
	if (k->failure != 0)
		return W_EXITCODE(k->failure, 0);
	if (k->reason == END_MAX_RUN)
		return W_EXITCODE(EXIT_MAX_RUN, 0);
	return k->status;
}

static int
exit_number(int status)
{
	return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) :
	    WEXITSTATUS(status);
}

static int
give_back(struct keeper *k, int status)
{
	int64_t now = now_ns();
	struct leaserun_end end = {
		.status = exit_number(status),
		.ran = k->started_at != 0,
		.ran_ns = k->started_at == 0 ? 0 : now - k->started_at,
	};
	int64_t limit = earlier(time_add(now, RELEASE_BOUND), k->deadline);
	enum leaserun_result result;

	if (k->is_lost || now >= k->deadline)
		return status;
	/* What a library does with its own time is cut short from outside. */
	signals_bound(time_add(limit, ATTEMPT_MIN), WIFSIGNALED(status) ?
	    -status : WEXITSTATUS(status), "leaserun: the lease could not be "
	    "released in time, it runs out by itself\n");
	result = store_release(&k->store, &k->lease, &end, limit);
	if (result == LEASERUN_OK)
		log_info("'%s': released", k->s->shown);
	else if (result == LEASERUN_LOST) {
		log_error("'%s': the lease (token %" PRIu64 ") was not ours "
		    "any more when it was released", k->s->shown,
		    k->lease.token);
		status = W_EXITCODE(k->conf->lost_exit_code, 0);
	} else
		log_warning("'%s': the lease could not be released, it runs "
		    "out by itself: %s", k->s->shown, k->store.plugin.error);
	return status;
}

/* Leaves no process behind, and does not wait for one that is frozen. */
static void
dismiss_guard(struct keeper *k)
{
	struct pollfd event = { .fd = signals_fd(), .events = POLLIN };
	int64_t patience = time_add(now_ns(), GUARD_LINGER);

	close(k->s->link);
	if (k->survivor != 0 && !k->is_ended)
		return;		/* it stays with what may not be killed */
	while (!signals_guard_ended()) {
		if (tree_state(k->s->guard) == 'T' || now_ns() > patience) {
			kill(k->s->guard, SIGKILL);
			break;
		}
		poll(&event, 1, 20);
		signals_clear();
	}
	waitpid(k->s->guard, NULL, 0);
}

static int
run_with_lease(struct keeper *k, const struct leaserun_grant *grant)
{
	int status;

	k->lease.token = grant->token;
	confirm(k, grant->sent_ns, grant->ttl_ns);
	log_info("'%s': acquired, token %" PRIu64, k->s->shown, grant->token);
	if (grant->took_over)
		log_warning("'%s': took over from '%s' (host '%s', token %"
		    PRIu64 "), which ended without releasing", k->s->shown,
		    grant->previous.label, grant->previous.host,
		    grant->previous.token);
	if ((status = start(k, grant)) != 0) {
		status = W_EXITCODE(status, 0);
		k->is_ended = true;
		return give_back(k, status);
	}
	hold(k);
	if (is_hopeless(k, now_ns()) && !k->is_ended)
		return W_EXITCODE(k->conf->lost_exit_code, 0);
	return give_back(k, outcome(k));
}

int
keeper_run(const struct keeper_setup *s)
{
	struct keeper k = {
		.s = s, .conf = s->conf,
		.exempt = { s->exempt, s->nexempt },
		.deadline = TIME_NEVER, .next_renew = TIME_NEVER,
		.leftovers_at = TIME_NEVER, .takeover_at = TIME_NEVER,
		.lease = { .name = s->name, .owner = s->owner,
		    .ttl_ns = s->conf->ttl },
	};
	struct leaserun_grant grant = { .hold_fd = -1 };
	int status;

	if (tree_init() == -1 ||
	    signals_init(s->link, s->guard, s->page, &k.exempt) == -1 ||
	    (k.timer = timer_open()) == -1) {
		log_error("cannot prepare the run: %s", strerror(errno));
		return W_EXITCODE(EXIT_INTERNAL, 0);
	}
	if (store_acquire(&k.store, s, &grant, &status))
		status = run_with_lease(&k, &grant);
	else {
		status = W_EXITCODE(status, 0);
		k.is_ended = true;
	}
	store_close(&k.store);
	dismiss_guard(&k);
	return status;
}
