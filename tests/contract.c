/*
 * Checks the promises of backends/leaserun-backend.h against any store, from
 * the keeper's side of it.  TAP on standard output; exits 1 if a check failed.
 *
 *	contract MODULE.so|builtin:file URL [-o KEY=VALUE]...
 *
 * The store is prepared with init and may be one that others use: the names
 * are new in every run, but for a few odd ones, and its tokens are raised.
 * What does not apply to a store is a comment and never counts as a pass.
 */
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../backends/file.h"
#include "../backends/leaserun-backend.h"
#include "../src/plugin.h"

#define NS_PER_MS	INT64_C(1000000)
#define NS_PER_S	INT64_C(1000000000)
#define NEVER		INT64_MAX

#define PATIENCE	(10 * NS_PER_S)		/* of a call, of us */
#define TTL		(30 * NS_PER_S)
#define TTL_SHORT	(2 * NS_PER_S)
#define SLACK		(2 * NS_PER_S)		/* on a busy machine */
#define EARLY		(50 * NS_PER_MS)
#define HOST_NAME	"a-host.example"
#define MAX_FDS		1024
#define ROUNDS		200
#define NPROCS		8
#define NPROC_ROUNDS	100
#define HOUR		(3600 * NS_PER_S)
#define ONCE_PROCS	4
#define ONCE_ROUNDS	1000
#define ONCE_TIME	(20 * NS_PER_S)		/* or fewer, if it takes long */
#define OLD_KEYS	250
#define OLD_KEEP	(15 * NS_PER_S)
#define YOUNG_KEYS	400

/* One keeper: its host services, its connection, its lease. */
struct party {
	struct leaserun_host host;
	void		*self;
	unsigned int	 endpoints;
	char		 label[LEASERUN_LABEL_SIZE];
	char		 owner[LEASERUN_OWNER_SIZE];
	struct leaserun_grant grant;	/* of the last acquire */

	/* What the host services do and saw. */
	int64_t		 interrupt_at;
	bool		 impatient;	/* holder() says: do not wait */
	int		 tell_fd;	/* gets a byte from holder(); -1 */
	int		 told;		/* times holder() was called */
	struct leaserun_entry holder;
	char		 error[LEASERUN_ERROR_SIZE];
};

/* A process that takes a lease and then does what it is told. */
struct task {
	char		 name[LEASERUN_NAME_SIZE];
	int64_t		 ttl_ns;
	int64_t		 min_hold_ns;
	const char	*once_key;	/* wanted, and recorded unless... */
	bool		 fails;
	int		 gate[2];	/* a grandchild stays until closed */
};

struct child {
	pid_t		pid;
	int		to;		/* 'r': release; 'x': just exit */
	int		from;		/* struct report */
};

struct report {
	enum leaserun_result result;
	uint64_t	token;
	int64_t		at;		/* when the call had returned */
	int64_t		sent_ns;
	int64_t		ttl_ns;
	char		owner[LEASERUN_OWNER_SIZE];
};

/* Shared by the contending processes. */
struct arena {
	char		name[LEASERUN_NAME_SIZE];
	atomic_int	ready;
	atomic_int	inside;
	atomic_int	overlaps;
	atomic_int	failures;
	atomic_uint	grants;
	uint64_t	tokens[NPROCS * NPROC_ROUNDS];
};

/* Shared by those that contend for a key of --once, a new one each round. */
struct once_arena {
	char		name[LEASERUN_NAME_SIZE];
	atomic_int	arrived[ONCE_ROUNDS];
	atomic_int	rounds;
	int64_t		until_ns;
	atomic_int	inside;
	atomic_int	overlaps;
	atomic_int	failures;
	atomic_int	given_up[ONCE_ROUNDS];	/* granted, not recorded */
	atomic_int	recorded[ONCE_ROUNDS];
};

/* Which descriptors are open. */
struct fds {
	bool		open[MAX_FDS];
	int		count;
};

static const struct leaserun_backend *ops;
static struct leaserun_target target;
static char run_prefix[16];
static unsigned int checks, failed;
static bool bad_wait, bad_text, bad_reserved;
static char bad_text_seen[LEASERUN_ERROR_SIZE];

/* --- TAP --- */

static bool __attribute__((format(printf, 2, 3)))
check(bool ok, const char *fmt, ...)
{
	va_list ap;

	checks++;
	if (!ok)
		failed++;
	printf("%s %u - ", ok ? "ok" : "not ok", checks);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	return ok;
}

static void __attribute__((format(printf, 1, 2)))
note(const char *fmt, ...)
{
	va_list ap;

	printf("# ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

static void __attribute__((format(printf, 1, 2), noreturn))
bail_out(const char *fmt, ...)
{
	va_list ap;

	printf("Bail out! ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	exit(1);
}

static const char *
result_name(enum leaserun_result result)
{
	static const char *const names[] = {
		"ok", "held", "lost", "done", "interrupted", "unavailable",
		"denied", "misconfigured"
	};

	if ((unsigned int)result >= sizeof(names) / sizeof(names[0]))
		return "no result at all";
	return names[result];
}

/* The line of a check that expects one answer. */
static bool
check_result(enum leaserun_result got, enum leaserun_result wanted,
    const struct party *p, const char *what)
{
	if (check(got == wanted, "%s: %s", what, result_name(wanted)))
		return true;
	note("got %s, last error: %s", result_name(got), p->error);
	return false;
}

/* --- Time, names, descriptors --- */

static int64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static void
sleep_ns(int64_t ns)
{
	struct timespec ts;

	ts.tv_sec = ns / NS_PER_S;
	ts.tv_nsec = ns % NS_PER_S;
	while (nanosleep(&ts, &ts) == -1 && errno == EINTR)
		continue;
}

static uint64_t
random_64(void)
{
	uint64_t n;

	if (getrandom(&n, sizeof(n), 0) != (ssize_t)sizeof(n))
		bail_out("getrandom: %s", strerror(errno));
	return n;
}

/* A name that only this run uses. */
static void
name_make(char name[LEASERUN_NAME_SIZE], const char *stem)
{
	snprintf(name, LEASERUN_NAME_SIZE, "%s%s", run_prefix, stem);
}

static void
fds_look(struct fds *fds)
{
	struct dirent *entry;
	DIR *dir;
	int fd;

	memset(fds, 0, sizeof(*fds));
	dir = opendir("/proc/self/fd");
	if (dir == NULL)
		bail_out("/proc/self/fd: %s", strerror(errno));
	while ((entry = readdir(dir)) != NULL) {
		fd = atoi(entry->d_name);
		if (entry->d_name[0] == '.' || fd == dirfd(dir) ||
		    fd >= MAX_FDS)
			continue;
		fds->open[fd] = true;
		fds->count++;
	}
	closedir(dir);
}

/* Descriptors that would leak into the command. */
static int
fds_inheritable(const struct fds *before, int except)
{
	struct fds now;
	int fd, n = 0;

	fds_look(&now);
	for (fd = 0; fd < MAX_FDS; fd++) {
		if (!now.open[fd] || before->open[fd] || fd == except)
			continue;
		if ((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0)
			n++;
	}
	return n;
}

static bool
no_children(void)
{
	return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD;
}

/* What a later contract reads as something. */
static void
reserved_look(const uint64_t *reserved, size_t n)
{
	while (n-- > 0) {
		if (reserved[n] != 0)
			bad_reserved = true;
	}
}

#define RESERVED_LOOK(x)						\
	reserved_look((x)->reserved, sizeof((x)->reserved) /		\
	    sizeof((x)->reserved[0]))

/* --- Host services --- */

static enum leaserun_result
host_wait(const struct leaserun_host *host, struct pollfd *fds,
    unsigned int n, int64_t deadline_ns)
{
	const struct party *p = host->keeper;
	struct timespec ts;
	int64_t now, until;
	unsigned int i;
	int ready;

	if (n > 14)
		bad_wait = true;
	until = MIN(deadline_ns, p->interrupt_at);
	for (;;) {
		now = now_ns();
		if (now >= p->interrupt_at)
			return LEASERUN_INTERRUPTED;
		ts.tv_sec = now < until ? (until - now) / NS_PER_S : 0;
		ts.tv_nsec = now < until ? (until - now) % NS_PER_S : 0;
		ready = ppoll(fds, n, &ts, NULL);
		if (ready > 0)
			return LEASERUN_OK;
		if (ready == -1 && errno != EINTR)
			bail_out("wait() was given nonsense: %s",
			    strerror(errno));
		if (now >= deadline_ns)
			break;
	}
	for (i = 0; i < n; i++)
		fds[i].revents = 0;
	return LEASERUN_OK;
}

static bool
host_holder(const struct leaserun_host *host,
    const struct leaserun_entry *entry)
{
	struct party *p = host->keeper;

	p->told++;
	p->holder = *entry;
	RESERVED_LOOK(entry);
	if (p->tell_fd != -1 && write(p->tell_fd, "r", 1) != 1)
		bail_out("cannot tell the holder: %s", strerror(errno));
	p->tell_fd = -1;
	return !p->impatient;
}

static void __attribute__((format(printf, 2, 3)))
host_debug(const struct leaserun_host *host, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	(void)host;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
}

static void __attribute__((format(printf, 2, 3)))
host_error(const struct leaserun_host *host, const char *fmt, ...)
{
	struct party *p = host->keeper;
	va_list ap;
	size_t len;

	va_start(ap, fmt);
	vsnprintf(p->error, sizeof(p->error), fmt, ap);
	va_end(ap);
	len = strlen(p->error);
	if (len > 0 && strchr(p->error, '\n') == NULL &&
	    p->error[len - 1] != '.')
		return;
	bad_text = true;
	snprintf(bad_text_seen, sizeof(bad_text_seen), "%s", p->error);
}

static uint64_t
host_random(uint64_t limit)
{
	return limit == 0 ? 0 : random_64() % limit;
}

/* --- A party and what it does --- */

static void
party_init(struct party *p, const char *label)
{
	memset(p, 0, sizeof(*p));
	p->host.size = sizeof(p->host);
	p->host.version = LEASERUN_BACKEND_VERSION;
	p->host.keeper = p;
	p->host.now = now_ns;
	p->host.wait = host_wait;
	p->host.holder = host_holder;
	p->host.debug = host_debug;
	p->host.error = host_error;
	p->host.random = host_random;
	p->interrupt_at = NEVER;
	p->tell_fd = -1;
	snprintf(p->label, sizeof(p->label), "%s \303\274 \"q'", label);
}

static void
party_open(struct party *p, const char *label)
{
	enum leaserun_result result;

	party_init(p, label);
	result = ops->open(&p->host, &target, &p->self, &p->endpoints);
	if (result != LEASERUN_OK)
		bail_out("open: %s: %s", result_name(result), p->error);
}

static void
party_close(struct party *p)
{
	ops->close(p->self);
	p->self = NULL;
}

/* The label as the program encodes it, and 32 hex digits. */
static void
party_new_owner(struct party *p)
{
	snprintf(p->owner, sizeof(p->owner), "%.*s%%20%%C3%%BC%%20%%22q%%27:"
	    "%016" PRIx64 "%016" PRIx64, (int)strcspn(p->label, " "),
	    p->label, random_64(), random_64());
}

static struct leaserun_request
request_make(const struct party *p, const char *name)
{
	struct leaserun_request request = {
		.name = name,
		.owner = p->owner,
		.label = p->label,
		.host = HOST_NAME,
		.pid = getpid(),
		.ttl_ns = TTL,
		.answer_ns = PATIENCE
	};

	return request;
}

static struct leaserun_lease
lease_make(const struct party *p, const char *name)
{
	struct leaserun_lease lease = {
		.name = name,
		.owner = p->owner,
		.token = p->grant.token,
		.ttl_ns = TTL
	};

	return lease;
}

/* A new acquisition that does not wait. */
static enum leaserun_result
take(struct party *p, const char *name)
{
	struct leaserun_request request;
	enum leaserun_result result;

	party_new_owner(p);
	request = request_make(p, name);
	result = ops->acquire(p->self, &request, now_ns() + PATIENCE,
	    &p->grant);
	if (result == LEASERUN_OK) {
		RESERVED_LOOK(&p->grant);
		RESERVED_LOOK(&p->grant.previous);
	}
	return result;
}

static enum leaserun_result
take_wait(struct party *p, const char *name, int64_t wait_ns)
{
	struct leaserun_request request;

	party_new_owner(p);
	request = request_make(p, name);
	request.wait = true;
	return ops->acquire(p->self, &request, now_ns() + wait_ns,
	    &p->grant);
}

static enum leaserun_result
renew_as(struct party *p, const struct leaserun_lease *lease,
    struct leaserun_renewal *renewal)
{
	enum leaserun_result result;

	memset(renewal, 0, sizeof(*renewal));
	result = ops->renew(p->self, lease, now_ns() + PATIENCE, renewal);
	RESERVED_LOOK(renewal);
	return result;
}

static enum leaserun_result
renew(struct party *p, const char *name, struct leaserun_renewal *renewal)
{
	struct leaserun_lease lease = lease_make(p, name);

	return renew_as(p, &lease, renewal);
}

static enum leaserun_result
give_as(struct party *p, const struct leaserun_lease *lease)
{
	struct leaserun_end end = { .ran = true };

	return ops->release(p->self, lease, &end, now_ns() + PATIENCE);
}

static enum leaserun_result
give(struct party *p, const char *name)
{
	struct leaserun_lease lease = lease_make(p, name);

	return give_as(p, &lease);
}

/* With a key of --once, that is looked up. */
static enum leaserun_result
take_once(struct party *p, const char *name, const char *key,
    int64_t period_ns, int64_t wait_ns)
{
	struct leaserun_request request;

	party_new_owner(p);
	request = request_make(p, name);
	request.once_key = key;
	request.once_period_ns = period_ns;
	request.wait = wait_ns > 0;
	return ops->acquire(p->self, &request, now_ns() + (wait_ns > 0 ?
	    wait_ns : PATIENCE), &p->grant);
}

/* With a key of --once, that is recorded; NULL: the command failed. */
static enum leaserun_result
give_once_as(struct party *p, const struct leaserun_lease *lease,
    const char *key, int64_t period_ns, int64_t keep_ns)
{
	struct leaserun_end end = { .ran = true, .ran_ns = 1234 * NS_PER_MS,
	    .status = key == NULL ? 3 : 0, .once_key = key,
	    .once_period_ns = period_ns, .once_keep_ns = keep_ns };

	return ops->release(p->self, lease, &end, now_ns() + PATIENCE);
}

static enum leaserun_result
give_once(struct party *p, const char *name, const char *key,
    int64_t period_ns)
{
	struct leaserun_lease lease = lease_make(p, name);

	return give_once_as(p, &lease, key, period_ns, HOUR);
}

static enum leaserun_result
abandon(struct party *p, const char *name, const char *owner)
{
	return ops->abandon(p->self, name, owner, now_ns() + PATIENCE);
}

/* What list() says of one name, or of all those that somebody looks for. */
struct listing {
	const char	*name;
	int		 count;		/* of that name */
	int		 others;
	struct leaserun_entry entry;
};

static void
listing_add(void *arg, const struct leaserun_entry *entry)
{
	struct listing *listing = arg;

	RESERVED_LOOK(entry);
	if (strcmp(entry->name, listing->name) != 0) {
		listing->others++;
		return;
	}
	listing->count++;
	listing->entry = *entry;
}

/* Bails out: a list that fails would make everything else unclear. */
static struct leaserun_entry
look(struct party *p, const char *name)
{
	struct listing listing = { .name = name };
	enum leaserun_result result;

	result = ops->list(p->self, name, now_ns() + PATIENCE, listing_add,
	    &listing);
	if (result != LEASERUN_OK || listing.count != 1 ||
	    listing.others != 0)
		bail_out("list of '%s': %s, %d entries: %s", name,
		    result_name(result), listing.count + listing.others,
		    p->error);
	return listing.entry;
}

/* In the list of all names. */
static int
times_listed(struct party *p, const char *name)
{
	struct listing listing = { .name = name };
	enum leaserun_result result;

	result = ops->list(p->self, NULL, now_ns() + PATIENCE, listing_add,
	    &listing);
	if (result != LEASERUN_OK)
		bail_out("list: %s: %s", result_name(result), p->error);
	return listing.count;
}

static bool
is_held_by(struct party *looker, const char *name, const struct party *p)
{
	struct leaserun_entry entry = look(looker, name);

	return entry.state == LEASERUN_BUSY &&
	    entry.token == p->grant.token &&
	    strcmp(entry.owner, p->owner) == 0;
}

/*
 * Takes the name as soon as it can be had.  The time is taken after the
 * answer, so it is never before the grant.
 */
static enum leaserun_result
take_when_free(struct party *p, const char *name, int64_t until, int64_t *at)
{
	enum leaserun_result result;

	do {
		result = take(p, name);
		*at = now_ns();
		if (result != LEASERUN_HELD)
			return result;
		sleep_ns(20 * NS_PER_MS);
	} while (*at < until);
	return result;
}

/* --- Other processes --- */

static void
task_make(struct task *task, const char *stem)
{
	memset(task, 0, sizeof(*task));
	name_make(task->name, stem);
	task->ttl_ns = TTL;
	task->gate[0] = task->gate[1] = -1;
}

static void
report_write(int fd, const struct party *p, enum leaserun_result result)
{
	struct report report;

	memset(&report, 0, sizeof(report));
	report.result = result;
	report.at = now_ns();
	report.token = p->grant.token;
	report.sent_ns = p->grant.sent_ns;
	report.ttl_ns = p->grant.ttl_ns;
	memcpy(report.owner, p->owner, sizeof(report.owner));
	if (write(fd, &report, sizeof(report)) != (ssize_t)sizeof(report))
		_exit(1);
}

/* A process that has the descriptor of the lease and nothing to say. */
static void
grandchild_start(const struct task *task)
{
	char byte;

	if (task->gate[0] == -1 || fork() != 0)
		return;
	close(task->gate[1]);
	if (read(task->gate[0], &byte, 1) == -1)
		_exit(1);
	_exit(0);
}

static void
child_run(const struct task *task, int in, int out)
{
	struct leaserun_request request;
	struct party p;
	char command;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	party_open(&p, "child");
	party_new_owner(&p);
	request = request_make(&p, task->name);
	request.ttl_ns = task->ttl_ns;
	request.min_hold_ns = task->min_hold_ns;
	request.once_key = task->once_key;
	report_write(out, &p, ops->acquire(p.self, &request,
	    now_ns() + PATIENCE, &p.grant));
	grandchild_start(task);
	if (read(in, &command, 1) != 1 || command != 'r')
		_exit(0);
	sleep_ns(200 * NS_PER_MS);	/* let the other really wait */
	report_write(out, &p, give_once(&p, task->name,
	    task->fails ? NULL : task->once_key, 0));
	_exit(0);
}

static bool
child_report(const struct child *child, struct report *report)
{
	struct pollfd fd = { .fd = child->from, .events = POLLIN };

	memset(report, 0, sizeof(*report));
	return poll(&fd, 1, 30000) == 1 && read(child->from, report,
	    sizeof(*report)) == (ssize_t)sizeof(*report);
}

/* Bails out when the child does not get the lease. */
static void
child_start(struct child *child, const struct task *task,
    struct report *report)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) == -1 || pipe2(out, O_CLOEXEC) == -1)
		bail_out("pipe: %s", strerror(errno));
	fflush(stdout);
	child->pid = fork();
	if (child->pid == -1)
		bail_out("fork: %s", strerror(errno));
	if (child->pid == 0) {
		close(in[1]);
		close(out[0]);
		child_run(task, in[0], out[1]);
	}
	close(in[0]);
	close(out[1]);
	child->to = in[1];
	child->from = out[0];
	if (!child_report(child, report) || report->result != LEASERUN_OK)
		bail_out("a child does not get '%s': %s", task->name,
		    result_name(report->result));
}

/* Closing its pipe ends it, without a release. */
static void
child_end(struct child *child)
{
	close(child->to);
	close(child->from);
	waitpid(child->pid, NULL, 0);
}

/* --- The checks --- */

static void
test_struct(void)
{
	check(ops->version == LEASERUN_BACKEND_VERSION,
	    "the version is ours");
	check(ops->name != NULL && ops->name[0] != '\0', "it has a name");
	if (!check(ops->open != NULL && ops->close != NULL &&
	    ops->acquire != NULL && ops->abandon != NULL &&
	    ops->renew != NULL && ops->release != NULL &&
	    ops->list != NULL && ops->revoke != NULL && ops->init != NULL &&
	    ops->doctor != NULL, "the required functions are there"))
		bail_out("functions are missing");
}

static void
test_open(void)
{
	struct leaserun_option option = { "no-such-option", "1" };
	struct leaserun_target bad = { .url = target.url,
	    .options = &option, .noptions = 1 };
	enum leaserun_result result;
	struct fds before, after;
	struct party p;

	party_init(&p, "open");
	p.self = &p;
	fds_look(&before);
	result = ops->open(&p.host, &bad, &p.self, &p.endpoints);
	fds_look(&after);
	check_result(result, LEASERUN_MISCONFIGURED, &p,
	    "open with an unknown option");
	check(p.error[0] != '\0', "that comes with a text");
	check(p.self == &p && p.endpoints == 0,
	    "a failed open leaves its outputs alone");
	check(before.count == after.count,
	    "a failed open leaves no descriptor");
	party_open(&p, "open");
	check(p.endpoints >= 1, "there is at least one endpoint");
	party_close(&p);
	fds_look(&after);
	check(before.count == after.count, "close leaves no descriptor");
}

struct lines {
	int	count;
	bool	bad;		/* no text, or not a verdict */
};

static void
line_count(void *arg, enum leaserun_verdict verdict, const char *what,
    const char *text)
{
	struct lines *lines = arg;

	lines->count++;
	if ((int)verdict < LEASERUN_GOOD || verdict > LEASERUN_BAD ||
	    (what != NULL && what[0] == '\0') || text == NULL)
		lines->bad = true;
}

static enum leaserun_result
init(struct party *p, bool print, uint64_t raise_token, struct lines *lines)
{
	struct leaserun_init init = { .print = print,
	    .raise_token = raise_token };

	memset(lines, 0, sizeof(*lines));
	return ops->init(p->self, &init, now_ns() + PATIENCE, line_count,
	    lines);
}

static void
test_init(void)
{
	struct lines lines;
	struct party p;

	party_open(&p, "init");
	check_result(init(&p, true, 0, &lines), LEASERUN_OK, &p,
	    "init that only prints");
	check(lines.count > 0 && !lines.bad, "it says what it would do");
	if (!check_result(init(&p, false, 0, &lines), LEASERUN_OK, &p, "init"))
		bail_out("the store cannot be prepared");
	check(lines.count > 0 && !lines.bad, "it says what it did");
	check_result(init(&p, false, 0, &lines), LEASERUN_OK, &p,
	    "init once more");
	memset(&lines, 0, sizeof(lines));
	check_result(ops->doctor(p.self, now_ns() + PATIENCE, line_count,
	    &lines), LEASERUN_OK, &p, "doctor");
	check(lines.count > 0 && !lines.bad, "doctor prints lines");
	party_close(&p);
}

static void
test_grant(void)
{
	char name[LEASERUN_NAME_SIZE];
	struct leaserun_entry entry;
	struct fds before;
	int64_t from, to;
	struct party p;

	name_make(name, "grant");
	fds_look(&before);
	party_open(&p, "first");
	entry = look(&p, name);
	check(entry.state == LEASERUN_FREE && entry.token == 0 &&
	    !entry.has_end, "a name never heard of is free, token 0");
	check(times_listed(&p, name) == 0, "asking does not make it known");
	from = now_ns();
	check_result(take(&p, name), LEASERUN_OK, &p, "acquire");
	to = now_ns();
	check(p.grant.token > 0 && p.grant.token <= LEASERUN_TOKEN_MAX,
	    "the token is above 0 and fits 63 bits");
	check(p.grant.sent_ns >= from && p.grant.sent_ns <= to,
	    "sent_ns was taken during the call");
	check(p.grant.ttl_ns >= 0, "ttl_ns is not negative");
	check(!p.grant.took_over, "nothing was taken over");
	check(p.told == 0, "nobody was named as the holder");
	check(p.grant.hold_fd == -1 || fcntl(p.grant.hold_fd, F_GETFD) != -1,
	    "hold_fd is -1 or open");
	check(fds_inheritable(&before, p.grant.hold_fd) == 0,
	    "no other descriptor would leak into the command");
	check_result(give(&p, name), LEASERUN_OK, &p, "release");
	check(look(&p, name).token == p.grant.token,
	    "the free name still has the token of its last grant");
	check(times_listed(&p, name) == 1, "from now on it is listed");
	party_close(&p);
}

static void
test_entry(const struct leaserun_entry *entry, const struct party *p,
    const char *who)
{
	check(strcmp(entry->owner, p->owner) == 0, "%s has the owner", who);
	check(strcmp(entry->label, p->label) == 0, "%s has the label", who);
	check(strcmp(entry->host, HOST_NAME) == 0 && entry->pid == getpid(),
	    "%s has host and pid", who);
	check(entry->token == p->grant.token, "%s has the token", who);
	check(entry->state == LEASERUN_BUSY, "%s is busy", who);
	check(p->grant.ttl_ns > 0 ? entry->expires_in_ms > 0 &&
	    entry->expires_in_ms <= p->grant.ttl_ns / NS_PER_MS :
	    entry->expires_in_ms == -1, "%s expires when the grant does",
	    who);
}

static void
test_held(void)
{
	char name[LEASERUN_NAME_SIZE];
	struct leaserun_grant untouched;
	struct leaserun_entry entry;
	struct party p, q;

	name_make(name, "held");
	party_open(&p, "holder");
	party_open(&q, "contender");
	take(&p, name);
	memset(&q.grant, 0xa5, sizeof(q.grant));
	untouched = q.grant;
	check_result(take(&q, name), LEASERUN_HELD, &q, "a second contender");
	check(memcmp(&untouched, &q.grant, sizeof(untouched)) == 0,
	    "its grant was not written");
	memset(&q.grant, 0, sizeof(q.grant));
	if (check(q.told == 1, "it was told once who holds the name"))
		test_entry(&q.holder, &p, "the holder");
	entry = look(&q, name);
	test_entry(&entry, &p, "the listed entry");
	check(abandon(&q, name, q.owner) == LEASERUN_OK &&
	    is_held_by(&q, name, &p),
	    "the contender abandons and changes nothing");
	give(&p, name);
	check_result(take(&q, name), LEASERUN_OK, &q,
	    "the contender after the release");
	check(q.grant.token > p.grant.token, "with a higher token");
	check(!q.grant.took_over, "and took nothing over");
	give(&q, name);
	party_close(&p);
	party_close(&q);
}

static void
test_again(void)
{
	struct leaserun_request request;
	char name[LEASERUN_NAME_SIZE];
	struct party p, q;
	uint64_t token;

	name_make(name, "again");
	party_open(&p, "again");
	party_open(&q, "reconnected");
	take(&p, name);
	token = p.grant.token;
	request = request_make(&p, name);
	check_result(ops->acquire(p.self, &request, now_ns() + PATIENCE,
	    &p.grant), LEASERUN_OK, &p, "the same owner acquires again");
	check(p.grant.token == token, "and gets the same token");
	check(!p.grant.took_over, "and took nothing over");
	request.wait = true;
	check_result(ops->acquire(p.self, &request, now_ns() + PATIENCE,
	    &p.grant), LEASERUN_OK, &p, "and once more, ready to wait");
	check(p.grant.token == token, "and gets the same token");
	if (p.grant.hold_fd == -1) {
		check(ops->acquire(q.self, &request, now_ns() + PATIENCE,
		    &q.grant) == LEASERUN_OK && q.grant.token == token,
		    "and through another connection");
	} else
		note("a lease kept by a descriptor has one connection");
	check_result(give(&p, name), LEASERUN_OK, &p, "one release");
	check(look(&p, name).state == LEASERUN_FREE, "is enough");
	party_close(&p);
	party_close(&q);
}

static void
test_renew(void)
{
	char name[LEASERUN_NAME_SIZE];
	struct leaserun_renewal r;
	struct leaserun_lease lease;
	struct party p, q;
	int64_t from;

	name_make(name, "renew");
	party_open(&p, "renew");
	party_open(&q, "stranger");
	take(&p, name);
	from = now_ns();
	check_result(renew(&p, name, &r), LEASERUN_OK, &p, "renew");
	check(r.sent_ns >= from && r.sent_ns <= now_ns(),
	    "sent_ns was taken during the call");
	check((r.ttl_ns > 0) == (p.grant.ttl_ns > 0),
	    "a renewal expires if the grant does");
	check(!r.revoke && r.loss == LEASERUN_LOSS_NONE,
	    "nothing is wrong with it");
	check(is_held_by(&q, name, &p), "the token is what it was");
	lease = lease_make(&p, name);
	lease.token++;
	check_result(renew_as(&p, &lease, &r), LEASERUN_LOST, &p,
	    "renew with a wrong token");
	check(r.loss != LEASERUN_LOSS_NONE, "it says why");
	party_new_owner(&q);
	lease = lease_make(&p, name);
	lease.owner = q.owner;
	check_result(renew_as(&p, &lease, &r), LEASERUN_LOST, &p,
	    "renew with a wrong owner");
	check_result(renew_as(&q, &lease, &r), LEASERUN_LOST, &q,
	    "the same from another connection");
	check(is_held_by(&q, name, &p), "none of them changed the lease");
	check_result(renew(&p, name, &r), LEASERUN_OK, &p, "renew again");
	give(&p, name);
	check_result(renew(&p, name, &r), LEASERUN_LOST, &p,
	    "renew after the release");
	check(look(&q, name).state == LEASERUN_FREE,
	    "that did not take the lease");
	party_close(&p);
	party_close(&q);
}

static void
test_release(void)
{
	char name[LEASERUN_NAME_SIZE];
	struct leaserun_lease lease;
	enum leaserun_result result;
	struct party p, q;

	name_make(name, "release");
	party_open(&p, "release");
	party_open(&q, "stranger");
	party_new_owner(&q);
	take(&p, name);
	lease = lease_make(&p, name);
	lease.owner = q.owner;
	check_result(give_as(&p, &lease), LEASERUN_LOST, &p,
	    "release with a wrong owner");
	check_result(give_as(&q, &lease), LEASERUN_LOST, &q,
	    "the same from another connection");
	lease = lease_make(&p, name);
	lease.token++;
	check_result(give_as(&p, &lease), LEASERUN_LOST, &p,
	    "release with a wrong token");
	check(is_held_by(&q, name, &p), "none of them changed the lease");
	check_result(give(&p, name), LEASERUN_OK, &p, "release");
	result = give(&p, name);
	check(result == LEASERUN_OK,
	    "repeated after a lost answer: %s", result_name(result));
	take(&q, name);
	result = give(&p, name);
	check(result == LEASERUN_OK || result == LEASERUN_LOST,
	    "repeated when another has it: %s", result_name(result));
	check(is_held_by(&p, name, &q), "the other still has it");
	give(&q, name);
	party_close(&p);
	party_close(&q);
}

static void
test_abandon(void)
{
	char name[LEASERUN_NAME_SIZE], unknown[LEASERUN_NAME_SIZE];
	struct party p, q;
	uint64_t token;

	name_make(name, "abandon");
	name_make(unknown, "abandon-unknown");
	party_open(&p, "abandon");
	party_open(&q, "stranger");
	party_new_owner(&p);
	party_new_owner(&q);
	check_result(abandon(&p, unknown, p.owner), LEASERUN_OK, &p,
	    "abandon what was never granted");
	check(look(&p, unknown).token == 0, "that grants nothing");
	take(&p, name);
	token = p.grant.token;
	check_result(abandon(&p, name, q.owner), LEASERUN_OK, &p,
	    "abandon for an owner that has nothing");
	check(is_held_by(&q, name, &p), "that changes nothing");
	check_result(abandon(&p, name, p.owner), LEASERUN_OK, &p, "abandon");
	check(look(&q, name).state == LEASERUN_FREE, "the name is free");
	check_result(abandon(&p, name, p.owner), LEASERUN_OK, &p,
	    "abandon again");
	check_result(take(&q, name), LEASERUN_OK, &q, "another gets it");
	check(q.grant.token > token, "with a higher token");
	check(!q.grant.took_over, "and took nothing over");
	check(abandon(&p, name, p.owner) == LEASERUN_OK &&
	    is_held_by(&p, name, &q), "a late abandon does not hurt it");
	give(&q, name);
	party_close(&p);
	party_close(&q);
}

static void
test_close(void)
{
	char name[LEASERUN_NAME_SIZE];
	struct party p, q;

	name_make(name, "close");
	party_open(&p, "closed");
	party_open(&q, "looker");
	take(&p, name);
	party_close(&p);
	if (p.grant.hold_fd == -1) {
		check(is_held_by(&q, name, &p), "close releases nothing");
		check_result(abandon(&q, name, p.owner), LEASERUN_OK, &q,
		    "abandon through another connection");
		check(look(&q, name).state == LEASERUN_FREE,
		    "the name is free");
	} else
		note("the descriptor of the lease went with close");
	party_close(&q);
}

static void
test_end(void)
{
	struct leaserun_end end = { .status = 3, .ran = true,
	    .ran_ns = 1234 * NS_PER_MS };
	char name[LEASERUN_NAME_SIZE];
	struct leaserun_lease lease;
	struct leaserun_entry entry;
	struct party p, q;

	name_make(name, "end");
	party_open(&p, "ended");
	party_open(&q, "looker");
	take(&p, name);
	check(!look(&q, name).has_end, "a first run has not ended yet");
	lease = lease_make(&p, name);
	check_result(ops->release(p.self, &lease, &end, now_ns() + PATIENCE),
	    LEASERUN_OK, &p, "release with status 3");
	entry = look(&q, name);
	check(entry.state == LEASERUN_FREE && entry.has_end &&
	    entry.end_status == 3, "the status is listed");
	check(entry.ran_ms == 1234, "and how long it ran");
	check(entry.end_ms > 0, "and when it ended");
	take(&p, name);
	entry = look(&q, name);
	check(entry.state == LEASERUN_BUSY && entry.has_end &&
	    entry.end_status == 3, "also while the next run is on");
	lease = lease_make(&p, name);
	end.status = 127;
	end.ran = false;
	ops->release(p.self, &lease, &end, now_ns() + PATIENCE);
	entry = look(&q, name);
	check(entry.has_end && entry.end_status == 3,
	    "a command that never started leaves no end");
	take(&p, name);
	lease = lease_make(&p, name);
	end.status = 128 + SIGKILL;
	end.ran = true;
	ops->release(p.self, &lease, &end, now_ns() + PATIENCE);
	check(look(&q, name).end_status == 137, "a signal is 128 + N");
	party_close(&p);
	party_close(&q);
}

static enum leaserun_result
ask(struct party *p, const char *name, uint64_t token, bool force,
    struct leaserun_entry *entry)
{
	struct leaserun_revoke revoke = { .name = name, .token = token,
	    .force = force };
	enum leaserun_result result;

	memset(entry, 0, sizeof(*entry));
	result = ops->revoke(p->self, &revoke, now_ns() + PATIENCE, entry);
	RESERVED_LOOK(entry);
	return result;
}

static void
test_revoke(void)
{
	char name[LEASERUN_NAME_SIZE];
	struct leaserun_renewal r;
	struct leaserun_entry entry;
	struct party p, q;

	name_make(name, "revoke");
	party_open(&p, "revoked");
	party_open(&q, "operator");
	take(&p, name);
	check_result(ask(&q, name, p.grant.token + 1, false, &entry),
	    LEASERUN_HELD, &q, "revoke of another token");
	check(entry.token == p.grant.token &&
	    strcmp(entry.owner, p.owner) == 0, "it says who has it");
	check(renew(&p, name, &r) == LEASERUN_OK && !r.revoke,
	    "the holder is not asked");
	check_result(give(&p, name), LEASERUN_OK, &p, "release");
	check(ask(&q, name, 0, false, &entry) == LEASERUN_OK &&
	    entry.state == LEASERUN_FREE, "revoke of a free name: free");
	party_close(&p);
	party_close(&q);
}

static void
test_revoke_asks(void)
{
	char name[LEASERUN_NAME_SIZE];
	struct leaserun_renewal r;
	struct leaserun_entry entry;
	struct party p, q;

	name_make(name, "revoke-asks");
	party_open(&p, "revoked");
	party_open(&q, "operator");
	check(ask(&q, name, 0, false, &entry) == LEASERUN_OK &&
	    entry.state == LEASERUN_FREE, "revoke of an unknown name: free");
	check(look(&q, name).token == 0, "that grants nothing");
	take(&p, name);
	check_result(ask(&q, name, p.grant.token, false, &entry),
	    LEASERUN_OK, &q, "revoke of the right token");
	check(entry.state != LEASERUN_FREE &&
	    strcmp(entry.owner, p.owner) == 0, "it says who was asked");
	check(look(&q, name).state == LEASERUN_REVOKING, "so does list");
	check(take(&q, name) == LEASERUN_HELD, "the lease is still held");
	check(renew(&p, name, &r) == LEASERUN_OK && r.revoke,
	    "the holder's renewal says so");
	check(renew(&p, name, &r) == LEASERUN_OK && r.revoke,
	    "and goes on saying so");
	check_result(ask(&q, name, 0, false, &entry), LEASERUN_OK, &q,
	    "revoke once more, without a token");
	check_result(give(&p, name), LEASERUN_OK, &p,
	    "the holder releases");
	party_close(&p);
	party_close(&q);
}

/* A mark that its holder never saw is not for the next one. */
static void
test_revoke_mark(void)
{
	char name[LEASERUN_NAME_SIZE];
	struct leaserun_renewal r;
	struct leaserun_entry entry;
	struct party p, q;

	name_make(name, "revoke-mark");
	party_open(&p, "earlier");
	party_open(&q, "later");
	take(&p, name);
	ask(&q, name, 0, false, &entry);
	give(&p, name);
	check_result(take(&q, name), LEASERUN_OK, &q,
	    "a later owner acquires");
	check(look(&p, name).state == LEASERUN_BUSY,
	    "a mark for the earlier one is not listed for it");
	check(renew(&q, name, &r) == LEASERUN_OK && !r.revoke,
	    "and not found by its renewal");
	check(ask(&p, name, p.grant.token, false, &entry) ==
	    LEASERUN_HELD, "the earlier token cannot be revoked any more");
	give(&q, name);
	party_close(&p);
	party_close(&q);
}

static void
test_revoke_force(void)
{
	char name[LEASERUN_NAME_SIZE];
	enum leaserun_result result;
	struct leaserun_renewal r;
	struct leaserun_entry entry;
	struct party p, q;

	name_make(name, "revoke-force");
	party_open(&p, "forced");
	party_open(&q, "operator");
	take(&p, name);
	check_result(ask(&q, name, p.grant.token + 1, true, &entry),
	    LEASERUN_HELD, &q, "force of another token");
	q.error[0] = '\0';
	result = ask(&q, name, 0, true, &entry);
	if (result != LEASERUN_OK) {
		check(result != LEASERUN_HELD && result != LEASERUN_LOST,
		    "force is refused: %s", result_name(result));
		check(q.error[0] != '\0', "it says why");
		check(is_held_by(&q, name, &p), "and changes nothing");
		check_result(give(&p, name), LEASERUN_OK, &p, "release");
		party_close(&p);
		party_close(&q);
		return;
	}
	check(strcmp(entry.owner, p.owner) == 0,
	    "force says whom it took it from");
	entry = look(&q, name);
	check(entry.state == LEASERUN_FREE, "the name is free");
	check(entry.unclean, "but its holder did not release it");
	check_result(renew(&p, name, &r), LEASERUN_LOST, &p,
	    "the holder's renewal");
	check(r.loss == LEASERUN_LOSS_FORCED, "freed by force is the reason");
	check_result(take(&q, name), LEASERUN_OK, &q, "another gets it");
	check(q.grant.took_over && strcmp(q.grant.previous.owner, p.owner) == 0,
	    "and is told from whom");
	check(q.grant.token > p.grant.token, "with a higher token");
	check_result(renew(&p, name, &r), LEASERUN_LOST, &p,
	    "the renewal after that");
	check_result(give(&p, name), LEASERUN_LOST, &p, "the release");
	check(is_held_by(&p, name, &q), "the other still has it");
	give(&q, name);
	party_close(&p);
	party_close(&q);
}

/* --- Names --- */

static const char *const raw_names[] = {
	"%2E", "%2E%2E", "-", "-x", "--", "0", "_", "J", "log", "NULL",
	"%25", "%2F", "%27%3B%20DROP%20TABLE%20lease"
};

static const char *const stems[] = {
	"jo", "job", "job2", "Job", "JOB", "job%2F1", "job%2F", "job%2F10",
	"job%2f1", "job1", "job.", "job.lock", "job.token", "job.once",
	"job.state", "job-", "job_", "job%25", "job%2525", "job%20",
	"job%E2%82%AC", "job%F0%9F%94%92", "job.lock.lock"
};

#define NRAW	(sizeof(raw_names) / sizeof(raw_names[0]))
#define NSTEMS	(sizeof(stems) / sizeof(stems[0]))
#define NLONG	3
#define NNAMES	(NRAW + NSTEMS + NLONG)

struct roll {
	char		names[NNAMES][LEASERUN_NAME_SIZE];
	struct party	parties[NNAMES];
	int		seen[NNAMES];
	int		busy[NNAMES];
};

static void
roll_names(struct roll *roll)
{
	size_t i, n = 0, len;

	for (i = 0; i < NRAW; i++)
		snprintf(roll->names[n++], LEASERUN_NAME_SIZE, "%s",
		    raw_names[i]);
	for (i = 0; i < NSTEMS; i++)
		name_make(roll->names[n++], stems[i]);
	for (i = 0; i < NLONG; i++, n++) {
		/* 240 bytes, the last one different, and 239. */
		name_make(roll->names[n], "");
		len = strlen(roll->names[n]);
		memset(roll->names[n] + len, 'n',
		    LEASERUN_NAME_SIZE - 1 - len);
		if (i > 0)
			roll->names[n][LEASERUN_NAME_SIZE - 2] =
			    i == 1 ? 'm' : '\0';
	}
}

static void
roll_mark(void *arg, const struct leaserun_entry *entry)
{
	struct roll *roll = arg;
	size_t i;

	RESERVED_LOOK(entry);
	for (i = 0; i < NNAMES; i++) {
		if (strcmp(entry->name, roll->names[i]) != 0)
			continue;
		roll->seen[i]++;
		if (entry->state == LEASERUN_BUSY && entry->token ==
		    roll->parties[i].grant.token)
			roll->busy[i]++;
	}
}

/* How many names are listed once; *busy: and with their own token. */
static int
roll_list(struct roll *roll, struct party *p, int *busy)
{
	enum leaserun_result result;
	int once = 0;
	size_t i;

	memset(roll->seen, 0, sizeof(roll->seen));
	memset(roll->busy, 0, sizeof(roll->busy));
	*busy = 0;
	result = ops->list(p->self, NULL, now_ns() + PATIENCE, roll_mark,
	    roll);
	check_result(result, LEASERUN_OK, p, "list of all names");
	for (i = 0; i < NNAMES; i++) {
		once += roll->seen[i] == 1;
		*busy += roll->busy[i] == 1;
	}
	return once;
}

static int
roll_each(struct roll *roll, struct party *other,
    enum leaserun_result (*fn)(struct party *, const char *))
{
	int ok = 0;
	size_t i;

	for (i = 0; i < NNAMES; i++) {
		if (fn(other != NULL ? other : &roll->parties[i],
		    roll->names[i]) == LEASERUN_OK)
			ok++;
		else if (other == NULL)
			note("not '%s': %s", roll->names[i],
			    roll->parties[i].error);
	}
	return ok;
}

static void
test_names(void)
{
	static struct roll roll;
	int busy, n = NNAMES;
	struct party other;
	size_t i;

	roll_names(&roll);
	party_open(&other, "other");
	for (i = 0; i < NNAMES; i++)
		party_open(&roll.parties[i], "one");
	check(roll_each(&roll, NULL, take) == n,
	    "%d odd names are independent of each other", n);
	check(roll_list(&roll, &other, &busy) == n,
	    "each is listed once");
	check(busy == n, "each is held with its own token");
	check(roll_each(&roll, &other, take) == 0, "none can be had twice");
	check(roll_each(&roll, NULL, give) == n, "each can be released");
	check(roll_list(&roll, &other, &busy) == n,
	    "each is still listed once");
	check(busy == 0, "and none is held");
	for (i = 0; i < NNAMES; i++)
		party_close(&roll.parties[i]);
	party_close(&other);
}

/* --- Waiting --- */

static void
test_wait_limit(void)
{
	char name[LEASERUN_NAME_SIZE];
	int64_t from, wait_ns = 700 * NS_PER_MS;
	struct party p, q;

	name_make(name, "wait-limit");
	party_open(&p, "holder");
	party_open(&q, "waiter");
	take(&p, name);
	from = now_ns();
	check_result(take_wait(&q, name, wait_ns), LEASERUN_HELD, &q,
	    "a wait that runs out");
	check(now_ns() - from >= wait_ns - EARLY, "not before its deadline");
	check(now_ns() - from <= wait_ns + SLACK, "nor long after it");
	check(q.told >= 1, "the waiter was told who holds the name");
	check(is_held_by(&q, name, &p), "the holder still does");
	from = now_ns();
	q.impatient = true;
	check_result(take_wait(&q, name, PATIENCE), LEASERUN_HELD, &q,
	    "a waiter that would not wait for this holder");
	check(now_ns() - from <= SLACK, "returns at once");
	q.impatient = false;
	from = now_ns();
	take_wait(&q, name, -NS_PER_S);
	check(now_ns() - from <= SLACK, "a deadline in the past is short");
	abandon(&q, name, q.owner);
	give(&p, name);
	check_result(take_wait(&q, name, PATIENCE), LEASERUN_OK, &q,
	    "a waiter gets a free name");
	give(&q, name);
	party_close(&p);
	party_close(&q);
}

static void
test_wait_release(void)
{
	struct report granted, released;
	struct child child;
	struct task task;
	struct party p;
	int64_t from;

	task_make(&task, "wait-release");
	child_start(&child, &task, &granted);
	party_open(&p, "waiter");
	p.tell_fd = child.to;
	from = now_ns();
	check_result(take_wait(&p, task.name, PATIENCE), LEASERUN_OK, &p,
	    "the holder releases while another waits");
	check(child_report(&child, &released) &&
	    released.result == LEASERUN_OK, "the holder's release is OK");
	check(p.grant.token > granted.token, "the token is higher");
	check(!p.grant.took_over, "and nothing was taken over");
	check(strcmp(p.holder.owner, granted.owner) == 0 &&
	    p.holder.token == granted.token, "the right holder was named");
	check(p.grant.sent_ns >= from, "sent_ns was taken during the call");
	note("handed over after %" PRId64 " ms",
	    (now_ns() - released.at) / NS_PER_MS);
	give(&p, task.name);
	party_close(&p);
	child_end(&child);
}

static void
test_interrupt(void)
{
	char name[LEASERUN_NAME_SIZE];
	struct party p, q;
	int64_t at;

	name_make(name, "interrupt");
	party_open(&p, "holder");
	party_open(&q, "waiter");
	take(&p, name);
	at = now_ns() + 300 * NS_PER_MS;
	q.interrupt_at = at;
	check_result(take_wait(&q, name, PATIENCE), LEASERUN_INTERRUPTED, &q,
	    "a wait that is interrupted");
	check(now_ns() >= at && now_ns() <= at + SLACK, "at that moment");
	check(no_children(), "no process is left behind");
	q.interrupt_at = NEVER;
	check_result(abandon(&q, name, q.owner), LEASERUN_OK, &q,
	    "the waiter abandons");
	check(is_held_by(&q, name, &p), "the holder has the lease");
	give(&p, name);
	check(look(&p, name).state == LEASERUN_FREE,
	    "after its release nobody has");
	check_result(take(&p, name), LEASERUN_OK, &p,
	    "and it can be had again");
	give(&p, name);
	party_close(&p);
	party_close(&q);
}

/* Takes and gives until it is killed. */
static void
neighbour_run(const char *name)
{
	struct party p;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	party_open(&p, "neighbour");
	for (;;) {
		if (take_wait(&p, name, PATIENCE) != LEASERUN_OK)
			_exit(1);
		sleep_ns((int64_t)(random_64() % (5 * NS_PER_MS)));
		if (give(&p, name) != LEASERUN_OK)
			_exit(1);
		sleep_ns((int64_t)(random_64() % (5 * NS_PER_MS)));
	}
}

/* Interrupted at any moment, also at that of the grant. */
static void
test_interrupt_often(void)
{
	char name[LEASERUN_NAME_SIZE];
	int i, left = 0, other = 0, got = 0;
	enum leaserun_result result;
	struct fds before, after;
	struct party p, q;
	pid_t neighbour;

	name_make(name, "interrupt-often");
	fflush(stdout);
	neighbour = fork();
	if (neighbour == 0)
		neighbour_run(name);
	party_open(&p, "looker");
	party_open(&q, "waiter");
	take_wait(&q, name, PATIENCE);
	give(&q, name);
	look(&p, name);		/* both have their connection now */
	fds_look(&before);
	for (i = 0; i < 100; i++) {
		sleep_ns((int64_t)(random_64() % (5 * NS_PER_MS)));
		q.interrupt_at = now_ns() +
		    (int64_t)(random_64() % (15 * NS_PER_MS));
		result = take_wait(&q, name, PATIENCE);
		got += result == LEASERUN_OK;
		other += result != LEASERUN_OK &&
		    result != LEASERUN_INTERRUPTED;
		q.interrupt_at = NEVER;
		left += abandon(&q, name, q.owner) != LEASERUN_OK ||
		    strcmp(look(&p, name).owner, q.owner) == 0;
	}
	fds_look(&after);
	check(waitpid(neighbour, NULL, WNOHANG) == 0,
	    "another process takes and gives all the time");
	kill(neighbour, SIGKILL);
	waitpid(neighbour, NULL, 0);
	note("%d of 100 were granted", got);
	check(other == 0, "100 interrupted acquires: ok or interrupted");
	check(left == 0, "nothing is held after abandon");
	check(before.count == after.count, "no descriptor leaks");
	check(no_children(), "no process is left behind");
	party_close(&p);
	party_close(&q);
}

/* --- Tokens, leaks, manners --- */

static void
test_rounds(void)
{
	char name[LEASERUN_NAME_SIZE];
	int i, grown = 0, leaked = 0;
	struct fds before, after;
	struct party p;
	uint64_t last;

	name_make(name, "rounds");
	party_open(&p, "rounds");
	take(&p, name);
	give(&p, name);
	last = p.grant.token;
	fds_look(&before);
	for (i = 1; i <= ROUNDS; i++) {
		if (i % 20 == 0) {
			party_close(&p);
			party_open(&p, "rounds");
		}
		if (take(&p, name) != LEASERUN_OK ||
		    give(&p, name) != LEASERUN_OK)
			break;
		fds_look(&after);
		leaked += after.count != before.count;
		grown += p.grant.token > last;
		last = p.grant.token;
	}
	check(i > ROUNDS, "%d times acquired and released", ROUNDS);
	check(grown == ROUNDS, "the token grew every time");
	check(leaked == 0, "no descriptor leaks");
	check(look(&p, name).token == last, "the last token is listed");
	party_close(&p);
}

struct manners {
	sigset_t	mask;
	void		(*handlers[65])(int);
};

/* What we were started with. */
static struct manners at_start;

static void
manners_look(struct manners *m)
{
	struct sigaction action;
	int i;

	memset(m, 0, sizeof(*m));
	sigprocmask(SIG_SETMASK, NULL, &m->mask);
	for (i = 1; i <= 64; i++) {
		if (sigaction(i, NULL, &action) == 0)
			m->handlers[i] = action.sa_handler;
	}
}

static void
test_manners(void)
{
	static struct manners after;
	char name[LEASERUN_NAME_SIZE];
	struct leaserun_renewal r;
	struct fds fds;
	struct party p, q;

	name_make(name, "manners");
	fds_look(&fds);
	party_open(&p, "manners");
	party_open(&q, "waiter");
	take(&p, name);
	renew(&p, name, &r);
	take_wait(&q, name, 100 * NS_PER_MS);
	check(fds_inheritable(&fds, p.grant.hold_fd) == 0,
	    "all descriptors are close-on-exec");
	give(&p, name);
	manners_look(&after);
	check(memcmp(&at_start.mask, &after.mask, sizeof(after.mask)) == 0,
	    "the signal mask is as it was");
	check(memcmp(at_start.handlers, after.handlers,
	    sizeof(after.handlers)) == 0, "so are the signal handlers");
	check(no_children(), "no process is left behind");
	party_close(&p);
	party_close(&q);
}

/* --- Minimum hold, death, expiry --- */

static void
test_min_hold(void)
{
	int64_t at = 0, hold_ns = 2 * NS_PER_S;
	struct leaserun_request request;
	char name[LEASERUN_NAME_SIZE];
	struct leaserun_renewal r;
	struct leaserun_entry entry;
	struct party p, q;

	name_make(name, "min-hold");
	party_open(&p, "holding");
	party_open(&q, "contender");
	party_new_owner(&p);
	request = request_make(&p, name);
	request.min_hold_ns = hold_ns;
	check_result(ops->acquire(p.self, &request, now_ns() + PATIENCE,
	    &p.grant), LEASERUN_OK, &p, "acquire with a minimum hold");
	check(look(&q, name).state == LEASERUN_BUSY, "it is busy meanwhile");
	check_result(give(&p, name), LEASERUN_OK, &p, "released early");
	entry = look(&q, name);
	check(entry.state == LEASERUN_HOLDING && entry.has_end &&
	    entry.token == p.grant.token, "it is listed as holding");
	check_result(take(&q, name), LEASERUN_HELD, &q, "another asks");
	check(q.told == 1 && q.holder.state == LEASERUN_HOLDING,
	    "and is told that it is only held back");
	check_result(ask(&q, name, p.grant.token + 1, false, &entry),
	    LEASERUN_HELD, &q, "revoke of another token");
	check_result(ask(&q, name, p.grant.token + 1, true, &entry),
	    LEASERUN_HELD, &q, "force of another token");
	check(look(&q, name).state == LEASERUN_HOLDING, "changes nothing");
	check(renew(&p, name, &r) == LEASERUN_LOST,
	    "the old holder cannot renew");
	check(take(&p, name) == LEASERUN_HELD,
	    "nor has it again before the hold is over");
	check_result(take_wait(&q, name, PATIENCE), LEASERUN_OK, &q,
	    "a waiter gets it");
	at = now_ns();
	check(at >= p.grant.sent_ns + hold_ns, "not before the hold is over");
	check(at <= p.grant.sent_ns + hold_ns + SLACK, "and soon after it");
	check(q.grant.token > p.grant.token, "with a higher token");
	check(!q.grant.took_over, "and took nothing over");
	give(&q, name);
	check_result(take(&p, name), LEASERUN_OK, &p,
	    "without a hold it is free at once");
	give(&p, name);
	party_close(&p);
	party_close(&q);
}

static void
test_min_hold_over(void)
{
	struct leaserun_request request;
	char name[LEASERUN_NAME_SIZE];
	struct party p, q;

	name_make(name, "min-hold-over");
	party_open(&p, "holding");
	party_open(&q, "contender");
	party_new_owner(&p);
	request = request_make(&p, name);
	request.min_hold_ns = 50 * NS_PER_MS;
	ops->acquire(p.self, &request, now_ns() + PATIENCE, &p.grant);
	sleep_ns(100 * NS_PER_MS);
	check(look(&q, name).state == LEASERUN_BUSY,
	    "a hold shorter than the run does not end it");
	check_result(give(&p, name), LEASERUN_OK, &p, "released after it");
	check_result(take(&q, name), LEASERUN_OK, &q, "the name is free");
	give(&q, name);
	party_close(&p);
	party_close(&q);
}

/* Killed during a hold: a hold needs no living process. */
static void
test_min_hold_killed(void)
{
	int64_t at = 0, hold_ns = 2 * TTL_SHORT;
	struct report granted;
	struct child child;
	struct task task;
	struct party p;

	task_make(&task, "min-hold-killed");
	task.ttl_ns = TTL_SHORT;
	task.min_hold_ns = hold_ns;
	child_start(&child, &task, &granted);
	child_end(&child);
	party_open(&p, "contender");
	check_result(take(&p, task.name), LEASERUN_HELD, &p,
	    "the holder dies during its hold");
	check_result(take_when_free(&p, task.name, now_ns() + hold_ns +
	    PATIENCE, &at), LEASERUN_OK, &p, "another gets it later");
	check(at >= granted.sent_ns + hold_ns, "not before the hold is over");
	check(at <= granted.sent_ns + hold_ns + SLACK, "and soon after it");
	check(p.grant.token > granted.token, "with a higher token");
	check(p.grant.took_over, "and took it over");
	give(&p, task.name);
	party_close(&p);
}

/* The last holder died: whoever comes next is told so. */
static void
test_died(void)
{
	struct leaserun_lease lease;
	struct leaserun_renewal r;
	struct report granted;
	struct child child;
	struct task task;
	struct party p, q;
	int64_t at = 0;

	task_make(&task, "died");
	task.ttl_ns = TTL_SHORT;
	child_start(&child, &task, &granted);
	child_end(&child);
	party_open(&p, "next");
	party_open(&q, "looker");
	check_result(take_when_free(&p, task.name, granted.sent_ns +
	    granted.ttl_ns + PATIENCE, &at), LEASERUN_OK, &p,
	    "another gets what a dead holder had");
	check(at >= granted.sent_ns + granted.ttl_ns,
	    "not before the lease ran out");
	note("after %" PRId64 " ms", (at - granted.sent_ns) / NS_PER_MS);
	check(p.grant.token > granted.token, "with a higher token");
	if (check(p.grant.took_over, "the grant says that it took over"))
		check(strcmp(p.grant.previous.owner, granted.owner) == 0 &&
		    p.grant.previous.token == granted.token &&
		    strcmp(p.grant.previous.host, HOST_NAME) == 0,
		    "and from whom");
	lease = lease_make(&p, task.name);
	lease.owner = granted.owner;
	lease.token = granted.token;
	check_result(renew_as(&q, &lease, &r), LEASERUN_LOST, &q,
	    "the old holder's renewal");
	check(r.loss != LEASERUN_LOSS_NONE, "it says why");
	check_result(give_as(&q, &lease), LEASERUN_LOST, &q,
	    "the old holder's release");
	check(renew(&p, task.name, &r) == LEASERUN_OK,
	    "the new holder still has it");
	give(&p, task.name);
	check(take(&p, task.name) == LEASERUN_OK && !p.grant.took_over,
	    "the one after that took nothing over");
	give(&p, task.name);
	party_close(&p);
	party_close(&q);
}

/* Held for longer than its ttl by renewing, then not renewed any more. */
static void
test_expiry(void)
{
	struct leaserun_request request;
	char name[LEASERUN_NAME_SIZE];
	struct leaserun_renewal r;
	struct leaserun_lease lease;
	int64_t at = 0, deadline;
	struct party p, q;
	int i, kept = 0;

	name_make(name, "expiry");
	party_open(&p, "holder");
	party_open(&q, "contender");
	party_new_owner(&p);
	request = request_make(&p, name);
	request.ttl_ns = TTL_SHORT;
	ops->acquire(p.self, &request, now_ns() + PATIENCE, &p.grant);
	deadline = p.grant.sent_ns + p.grant.ttl_ns;
	lease = lease_make(&p, name);
	lease.ttl_ns = TTL_SHORT;
	for (i = 0; i < 8; i++) {
		sleep_ns(500 * NS_PER_MS);
		if (renew_as(&p, &lease, &r) != LEASERUN_OK)
			break;
		deadline = r.sent_ns + r.ttl_ns;
		kept += take(&q, name) == LEASERUN_HELD;
	}
	check(kept == 8, "a lease of 2 s is kept for 4 s by renewing it");
	check_result(take_when_free(&q, name, deadline + PATIENCE, &at),
	    LEASERUN_OK, &q, "another gets it when that ends");
	check(at >= deadline, "not before the last renewal ran out");
	note("%" PRId64 " ms after that", (at - deadline) / NS_PER_MS);
	check(renew_as(&p, &lease, &r) == LEASERUN_LOST &&
	    r.loss == LEASERUN_LOSS_TAKEN, "the old holder has lost it");
	give(&q, name);
	party_close(&p);
	party_close(&q);
}

static void
test_expired_free(void)
{
	struct leaserun_renewal r;
	struct leaserun_lease lease;
	struct report granted;
	enum leaserun_result result;
	struct child child;
	struct task task;
	struct party p;
	int64_t until;

	task_make(&task, "expired");
	task.ttl_ns = TTL_SHORT;
	child_start(&child, &task, &granted);
	child_end(&child);
	party_open(&p, "late");
	until = granted.sent_ns + granted.ttl_ns + PATIENCE;
	while (look(&p, task.name).state != LEASERUN_FREE && now_ns() < until)
		sleep_ns(50 * NS_PER_MS);
	check(look(&p, task.name).state == LEASERUN_FREE,
	    "a lease that ran out is listed as free");
	lease = lease_make(&p, task.name);
	lease.owner = granted.owner;
	lease.token = granted.token;
	check_result(renew_as(&p, &lease, &r), LEASERUN_LOST, &p,
	    "its renewal");
	check(r.loss == LEASERUN_LOSS_EXPIRED, "expired is the reason");
	check(look(&p, task.name).state == LEASERUN_FREE,
	    "the renewal did not take it");
	result = give_as(&p, &lease);
	check(result == LEASERUN_OK || result == LEASERUN_LOST,
	    "its release: %s", result_name(result));
	party_close(&p);
}

/* --- A lease that a descriptor keeps --- */

static void
test_hold_fd_inherited(void)
{
	struct report granted;
	struct child child;
	struct task task;
	struct party p;
	int64_t at = 0;

	task_make(&task, "hold-fd");
	if (pipe2(task.gate, O_CLOEXEC) == -1)
		bail_out("pipe: %s", strerror(errno));
	child_start(&child, &task, &granted);
	close(task.gate[0]);
	child_end(&child);
	party_open(&p, "contender");
	check_result(take(&p, task.name), LEASERUN_HELD, &p,
	    "the keeper dies, a process of its job has the descriptor");
	close(task.gate[1]);
	check_result(take_when_free(&p, task.name, now_ns() + PATIENCE, &at),
	    LEASERUN_OK, &p, "that process ends");
	check(p.grant.token > granted.token, "with a higher token");
	give(&p, task.name);
	party_close(&p);
}

static void
test_hold_fd_copied(void)
{
	char name[LEASERUN_NAME_SIZE];
	struct party p, q;
	int fd;

	name_make(name, "hold-fd-copied");
	party_open(&p, "holder");
	party_open(&q, "contender");
	take(&p, name);
	fd = fcntl(p.grant.hold_fd, F_DUPFD_CLOEXEC, 100);
	check_result(give(&p, name), LEASERUN_OK, &p,
	    "release while a copy of the descriptor is open");
	check_result(take(&q, name), LEASERUN_OK, &q, "the name is free");
	close(fd);
	check_result(take(&p, name), LEASERUN_HELD, &p,
	    "closing the copy does not free the next lease");
	give(&q, name);
	party_close(&p);
	party_close(&q);
}

/* Which of the two kinds of store this is. */
static void
test_kind(void)
{
	char name[LEASERUN_NAME_SIZE];
	struct leaserun_grant grant;
	struct party p;

	name_make(name, "kind");
	party_open(&p, "kind");
	take(&p, name);
	grant = p.grant;
	give(&p, name);
	party_close(&p);
	if (grant.ttl_ns > 0) {
		test_expiry();
		test_expired_free();
	} else
		note("not applicable: leases that expire");
	if (grant.hold_fd != -1) {
		test_hold_fd_inherited();
		test_hold_fd_copied();
	} else
		note("not applicable: leases that a descriptor keeps");
}

/* --- Many at once --- */

static void
contend(struct arena *arena)
{
	unsigned int n;
	struct party p;
	int i;

	party_open(&p, "contender");
	atomic_fetch_add(&arena->ready, 1);
	while (atomic_load(&arena->ready) < NPROCS)
		sleep_ns(NS_PER_MS);
	for (i = 0; i < NPROC_ROUNDS; i++) {
		if (take_wait(&p, arena->name, 12 * PATIENCE) !=
		    LEASERUN_OK) {
			atomic_fetch_add(&arena->failures, 1);
			break;
		}
		if (atomic_fetch_add(&arena->inside, 1) != 0)
			atomic_fetch_add(&arena->overlaps, 1);
		n = atomic_fetch_add(&arena->grants, 1);
		arena->tokens[n] = p.grant.token;
		sleep_ns((int64_t)(random_64() % NS_PER_MS));
		atomic_fetch_sub(&arena->inside, 1);
		if (give(&p, arena->name) != LEASERUN_OK)
			atomic_fetch_add(&arena->failures, 1);
		sleep_ns((int64_t)(random_64() % NS_PER_MS));
	}
	party_close(&p);
	_exit(0);
}

static void
test_contention(void)
{
	unsigned int i, n, grown = 0, wanted = NPROCS * NPROC_ROUNDS;
	struct arena *arena;
	int64_t from = now_ns();

	arena = mmap(NULL, sizeof(*arena), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (arena == MAP_FAILED)
		bail_out("mmap: %s", strerror(errno));
	name_make(arena->name, "contention");
	fflush(stdout);
	for (i = 0; i < NPROCS; i++) {
		if (fork() == 0)
			contend(arena);
	}
	while (waitpid(-1, NULL, 0) != -1)
		continue;
	n = atomic_load(&arena->grants);
	for (i = 1; i < n; i++)
		grown += arena->tokens[i] > arena->tokens[i - 1];
	check(n == wanted, "%d processes get the lease %d times each", NPROCS,
	    NPROC_ROUNDS);
	check(atomic_load(&arena->failures) == 0, "without a failure");
	check(atomic_load(&arena->overlaps) == 0, "never two at a time");
	check(n > 0 && grown == n - 1, "the token grows with every grant");
	note("%u grants in %" PRId64 " ms", n, (now_ns() - from) / NS_PER_MS);
	munmap(arena, sizeof(*arena));
}

/* --- Keys of --once --- */

/* What list_once() says of a name. */
struct records {
	int		 count;
	int		 wanted;	/* with the key that is looked for */
	const char	*key;
	bool		 disorder;
	int64_t		 last_ms;
	struct leaserun_entry first[4];
};

static void
records_add(void *arg, const struct leaserun_entry *entry)
{
	struct records *r = arg;

	if (r->count > 0 && entry->end_ms > r->last_ms)
		r->disorder = true;
	if (r->count < 4)
		r->first[r->count] = *entry;
	r->last_ms = entry->end_ms;
	r->count++;
	r->wanted += r->key != NULL && strncmp(entry->name, r->key,
	    strlen(r->key)) == 0;
}

/* Those whose key begins like this one are wanted. */
static struct records
records_of(struct party *p, const char *name, const char *key)
{
	struct records r = { .key = key };
	enum leaserun_result result;

	result = ops->list_once(p->self, name, now_ns() + PATIENCE,
	    records_add, &r);
	if (result != LEASERUN_OK)
		bail_out("list_once of '%s': %s: %s", name,
		    result_name(result), p->error);
	return r;
}

static int
count_of(struct party *p, const char *name)
{
	return records_of(p, name, NULL).count;
}

static void
test_once_done(void)
{
	char name[LEASERUN_NAME_SIZE], other[LEASERUN_NAME_SIZE];
	struct leaserun_grant untouched;
	enum leaserun_result result;
	struct leaserun_entry entry;
	struct party p, q;

	name_make(name, "once");
	name_make(other, "once-other");
	party_open(&p, "once");
	party_open(&q, "later");
	check(count_of(&p, name) == 0, "of an unknown name nothing is done");
	check_result(take_once(&p, name, "key", 0, 0), LEASERUN_OK, &p,
	    "acquire with a key that is not done");
	check_result(take_once(&q, name, "key", 0, 0), LEASERUN_HELD, &q,
	    "another, while it is held");
	check_result(give_once(&p, name, "key", 0), LEASERUN_OK, &p,
	    "release with the key");
	memset(&q.grant, 0xa5, sizeof(q.grant));
	untouched = q.grant;
	check_result(take_once(&q, name, "key", 0, 0), LEASERUN_DONE, &q,
	    "whoever comes later");
	check(memcmp(&untouched, &q.grant, sizeof(untouched)) == 0,
	    "its grant was not written");
	check_result(take_once(&q, name, "key", 0, PATIENCE), LEASERUN_DONE,
	    &q, "also one that would wait");
	check_result(take_once(&p, name, "key", 0, 0), LEASERUN_DONE, &p,
	    "also whoever recorded it");
	entry = look(&q, name);
	check(entry.state == LEASERUN_FREE && !entry.unclean &&
	    entry.has_end && entry.end_status == 0 && entry.ran_ms == 1234,
	    "that holds nothing, and leaves the last end as it was");
	check_result(take(&q, name), LEASERUN_OK, &q, "without a key");
	check(!q.grant.took_over, "nothing is taken over");
	result = take_once(&p, name, "key", 0, 0);
	check(result == LEASERUN_DONE || result == LEASERUN_HELD,
	    "asked while it is held: %s", result_name(result));
	give(&q, name);
	check_result(take_once(&q, name, "key2", 0, 0), LEASERUN_OK, &q,
	    "another key");
	give_once(&q, name, NULL, 0);
	check_result(take_once(&q, other, "key", 0, 0), LEASERUN_OK, &q,
	    "the key of another name");
	give_once(&q, other, NULL, 0);
	check(count_of(&p, name) == 1 && count_of(&p, other) == 0,
	    "one record, of that name");
	party_close(&p);
	party_close(&q);
}

static void
test_once_not_done(void)
{
	char name[LEASERUN_NAME_SIZE];
	struct leaserun_lease lease;
	struct party p;

	name_make(name, "once-not");
	party_open(&p, "failing");
	take_once(&p, name, "key", 0, 0);
	give_once(&p, name, NULL, 0);
	check_result(take_once(&p, name, "key", 0, 0), LEASERUN_OK, &p,
	    "after an end that failed");
	give(&p, name);
	check_result(take_once(&p, name, "key", 0, 0), LEASERUN_OK, &p,
	    "after an end without the key");
	abandon(&p, name, p.owner);
	check_result(take_once(&p, name, "key", 0, 0), LEASERUN_OK, &p,
	    "after an abandon");
	check(count_of(&p, name) == 0, "nothing is recorded");
	give_once(&p, name, "key", 0);
	lease = lease_make(&p, name);
	check_result(give_once_as(&p, &lease, "key", 0, HOUR), LEASERUN_OK, &p,
	    "a release with the key, repeated");
	check(count_of(&p, name) == 1, "is recorded once");
	party_close(&p);
}

/* A holder that has lost the lease has not run the job for this key. */
static void
test_once_lost(void)
{
	char name[LEASERUN_NAME_SIZE];
	struct leaserun_entry entry;
	struct leaserun_lease lease;
	struct party p, q;

	name_make(name, "once-lost");
	party_open(&p, "lost");
	party_open(&q, "other");
	party_new_owner(&q);
	take_once(&p, name, "key", 0, 0);
	lease = lease_make(&p, name);
	lease.token++;
	check_result(give_once_as(&p, &lease, "key", 0, HOUR), LEASERUN_LOST,
	    &p, "release with the key and a wrong token");
	lease = lease_make(&p, name);
	lease.owner = q.owner;
	check_result(give_once_as(&p, &lease, "key", 0, HOUR), LEASERUN_LOST,
	    &p, "with a wrong owner");
	check_result(give_once_as(&q, &lease, "key", 0, HOUR), LEASERUN_LOST,
	    &q, "from elsewhere");
	check(count_of(&p, name) == 0 && is_held_by(&q, name, &p),
	    "nothing is recorded, the lease stays");
	if (ask(&q, name, 0, true, &entry) == LEASERUN_OK) {
		check_result(give_once(&p, name, "key", 0), LEASERUN_LOST, &p,
		    "release with the key after a force");
		check(take_once(&q, name, "key", 0, 0) == LEASERUN_OK &&
		    give_once(&p, name, "key", 0) == LEASERUN_LOST,
		    "and when another has it");
		check(count_of(&p, name) == 0 && is_held_by(&p, name, &q),
		    "nothing is recorded, the other still has it");
		give(&q, name);
	} else {
		note("not applicable: force");
		give(&p, name);
	}
	party_close(&p);
	party_close(&q);
}

static void
test_once_list(void)
{
	static const char *const keys[] = { "zz", "a%20a", "mm" };
	char name[LEASERUN_NAME_SIZE], owner[LEASERUN_OWNER_SIZE] = "";
	struct records r;
	struct party p;
	uint64_t token = 0;
	int i;

	name_make(name, "once-list");
	party_open(&p, "recorded");
	for (i = 0; i < 3; i++) {
		take_once(&p, name, keys[i], i == 1 ? HOUR : 0, 0);
		if (i == 1) {
			memcpy(owner, p.owner, sizeof(owner));
			token = p.grant.token;
		}
		give_once(&p, name, keys[i], i == 1 ? HOUR : 0);
		sleep_ns(5 * NS_PER_MS);
	}
	r = records_of(&p, name, NULL);
	check(r.count == 3 && !r.disorder && strcmp(r.first[0].name,
	    "mm") == 0 && strcmp(r.first[1].name, "a%20a") == 0 &&
	    strcmp(r.first[2].name, "zz") == 0, "listed newest first");
	check(strcmp(r.first[1].owner, owner) == 0 &&
	    r.first[1].token == token, "with owner and token");
	check(strcmp(r.first[1].label, p.label) == 0 &&
	    strcmp(r.first[1].host, HOST_NAME) == 0, "with label and host");
	check(r.first[1].end_ms > INT64_C(1700000000000) &&
	    r.first[1].ran_ms == 1234, "with when and how long");
	check(times_listed(&p, name) == 1, "the name is listed once");
	party_close(&p);
}

static const char *const odd_keys[] = {
	"k", "K", "k2", "-", "--", ".", "%2E%2E", "%20", "a%20b", "a%20", "a",
	"%25", "%2520", "NULL", "0", "%27%3B%20DROP%20TABLE%20lease", "_",
	"key", "key%21", "%E2%82%AC", "1d%402026-11-29T00%3A00%3A00Z"
};

#define NODD	(sizeof(odd_keys) / sizeof(odd_keys[0]))
#define NKEYS	(NODD + 3)

static void
test_once_keys(void)
{
	char name[LEASERUN_NAME_SIZE], next[LEASERUN_NAME_SIZE];
	static char keys[NKEYS][LEASERUN_KEY_SIZE];
	int ok = 0, done = 0, other = 0, n = NKEYS;
	struct party p;
	size_t i;

	name_make(name, "once-keys");
	name_make(next, "once-keys-");
	party_open(&p, "keys");
	for (i = 0; i < NKEYS; i++) {
		if (i < NODD)
			snprintf(keys[i], sizeof(keys[i]), "%s", odd_keys[i]);
		else
			memset(keys[i], 'k', LEASERUN_KEY_SIZE - 1);
	}
	keys[NKEYS - 1][LEASERUN_KEY_SIZE - 2] = 'j';
	keys[NKEYS - 2][LEASERUN_KEY_SIZE - 2] = '\0';
	for (i = 0; i < NKEYS; i++)
		ok += take_once(&p, name, keys[i], 0, 0) == LEASERUN_OK &&
		    give_once(&p, name, keys[i], 0) == LEASERUN_OK;
	for (i = 0; i < NKEYS; i++) {
		done += take_once(&p, name, keys[i], 0, 0) == LEASERUN_DONE;
		other += take_once(&p, next, keys[i], 0, 0) == LEASERUN_OK;
		give(&p, next);
	}
	check(ok == n, "%d odd keys are independent of each other", n);
	check(done == n, "each is done");
	check(other == n, "none of them for a name that begins like it");
	check(count_of(&p, name) == n && count_of(&p, next) == 0,
	    "each is listed once");
	check(times_listed(&p, name) == 1, "they are no names");
	party_close(&p);
}

/* Not done; whatever was granted is given back. */
static bool
is_undone(struct party *p, const char *name, const char *key,
    int64_t period_ns)
{
	enum leaserun_result result;

	result = take_once(p, name, key, period_ns, 0);
	if (result == LEASERUN_OK)
		give(p, name);
	return result == LEASERUN_OK;
}

static void
test_once_periods(void)
{
	char name[LEASERUN_NAME_SIZE];
	struct party p;

	name_make(name, "once-periods");
	party_open(&p, "periods");
	check(take_once(&p, name, "h%40105", HOUR, 0) == LEASERUN_OK &&
	    give_once(&p, name, "h%40105", HOUR) == LEASERUN_OK,
	    "a period is done");
	check_result(take_once(&p, name, "h%40105", HOUR, 0), LEASERUN_DONE,
	    &p, "the same period");
	check_result(take_once(&p, name, "h%40104", HOUR, 0), LEASERUN_DONE,
	    &p, "an earlier one");
	check(is_undone(&p, name, "h%40106", HOUR), "not a later one");
	check(is_undone(&p, name, "h%40104", 2 * HOUR),
	    "not one of another length");
	check(is_undone(&p, name, "h%40104", 0), "not a plain key");
	check(is_undone(&p, name, "a", HOUR), "not one of another form");
	check(take_once(&p, name, "h%40109", 0, 0) == LEASERUN_OK &&
	    give_once(&p, name, "h%40109", 0) == LEASERUN_OK &&
	    is_undone(&p, name, "h%40106", HOUR),
	    "a plain key that sorts later covers no period");
	party_close(&p);
}

static void
test_once_wait(void)
{
	struct report granted, released;
	struct child child;
	struct task task;
	struct party p;
	int i;

	party_open(&p, "waiter");
	for (i = 0; i < 2; i++) {
		task_make(&task, i == 0 ? "once-wait" : "once-wait-fails");
		task.once_key = "key";
		task.fails = i == 1;
		child_start(&child, &task, &granted);
		p.tell_fd = child.to;
		check_result(take_once(&p, task.name, "key", 0, PATIENCE),
		    i == 0 ? LEASERUN_DONE : LEASERUN_OK, &p, i == 0 ?
		    "a waiter when the holder records" :
		    "a waiter when the holder fails");
		check(child_report(&child, &released) &&
		    released.result == LEASERUN_OK, "whose release is OK");
		check(count_of(&p, task.name) == 1 - i, "the record: %d",
		    1 - i);
		if (i == 1)
			give(&p, task.name);
		check(look(&p, task.name).state == LEASERUN_FREE,
		    "the name is free");
		child_end(&child);
	}
	party_close(&p);
}

/* One that dies is replaced by whoever waits. */
static void
test_once_died(void)
{
	struct report granted;
	struct child child;
	struct task task;
	struct party p;

	task_make(&task, "once-died");
	task.ttl_ns = TTL_SHORT;
	task.once_key = "key";
	child_start(&child, &task, &granted);
	child_end(&child);
	party_open(&p, "next");
	check_result(take_once(&p, task.name, "key", 0, PATIENCE),
	    LEASERUN_OK, &p, "a waiter when the holder dies");
	check(p.grant.took_over, "it took over");
	check(give_once(&p, task.name, "key", 0) == LEASERUN_OK &&
	    count_of(&p, task.name) == 1, "and records the key");
	party_close(&p);
}

static bool
record_one(struct party *p, const char *name, const char *stem, int i,
    int64_t keep_ns)
{
	char key[LEASERUN_KEY_SIZE];
	struct leaserun_lease lease;

	snprintf(key, sizeof(key), "%s-%0100d", stem, i);
	if (take_once(p, name, key, 0, 0) != LEASERUN_OK)
		return false;
	lease = lease_make(p, name);
	return give_once_as(p, &lease, key, 0, keep_ns) == LEASERUN_OK;
}

/* Records of the first kind are too old for the second one, all the time. */
static void
test_once_keep(void)
{
	char name[LEASERUN_NAME_SIZE];
	int64_t from, keep_ns, until[YOUNG_KEYS];
	struct records r;
	struct party p;
	int due, i, n = 0;

	name_make(name, "once-keep");
	party_open(&p, "keep");
	for (i = 0; i < OLD_KEYS; i++)
		n += record_one(&p, name, "old", i, OLD_KEEP);
	check(n == OLD_KEYS && count_of(&p, name) == n,
	    "%d keys are recorded and kept", OLD_KEYS);
	sleep_ns(NS_PER_S);
	from = now_ns();
	for (i = 0, n = 0; i < YOUNG_KEYS; i++) {
		keep_ns = now_ns() - from + NS_PER_S / 2;
		until[i] = now_ns() + keep_ns;
		n += record_one(&p, name, "young", i, keep_ns);
	}
	r = records_of(&p, name, "young-");
	for (i = due = 0; i < YOUNG_KEYS; i++)
		due += until[i] > now_ns();
	check(n == YOUNG_KEYS && r.wanted >= due,
	    "of %d more that are kept for a while none is missing", YOUNG_KEYS);
	note("%d recorded, %d of them still due, %d there", n, due, r.wanted);
	check(!r.disorder, "still newest first");
	/* At the latest when what they were recorded with is over. */
	while (r.count - r.wanted > OLD_KEYS / 2 && now_ns() - from <
	    OLD_KEEP + PATIENCE) {
		sleep_ns(NS_PER_S / 4);
		r = records_of(&p, name, "young-");
	}
	check(r.count - r.wanted <= OLD_KEYS / 2, "older ones go: %d left",
	    r.count - r.wanted);
	party_close(&p);
}

/* False: this round is not held any more. */
static bool
assemble(struct once_arena *arena, int round)
{
	atomic_fetch_add(&arena->arrived[round], 1);
	while (atomic_load(&arena->arrived[round]) < ONCE_PROCS) {
		if (round >= atomic_load(&arena->rounds))
			return false;
		sched_yield();
	}
	return true;
}

/* Until the key of this round is done. */
static void
contend_once(struct once_arena *arena, struct party *p, int round)
{
	enum leaserun_result result;
	char key[LEASERUN_KEY_SIZE];
	bool fails;

	snprintf(key, sizeof(key), "round-%d", round);
	while ((result = take_once(p, arena->name, key, 0, 12 * PATIENCE)) ==
	    LEASERUN_OK) {
		if (atomic_fetch_add(&arena->inside, 1) != 0)
			atomic_fetch_add(&arena->overlaps, 1);
		fails = random_64() % 4 == 0;
		atomic_fetch_add(fails ? &arena->given_up[round] :
		    &arena->recorded[round], 1);
		atomic_fetch_sub(&arena->inside, 1);
		if (give_once(p, arena->name, fails ? NULL : key, 0) !=
		    LEASERUN_OK)
			atomic_fetch_add(&arena->failures, 1);
	}
	if (result != LEASERUN_DONE)
		atomic_fetch_add(&arena->failures, 1);
}

static void
once_contender(struct once_arena *arena)
{
	struct party p;
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	party_open(&p, "contender");
	/* Nobody is further than waiting for all in the next round. */
	for (i = 0; i < atomic_load(&arena->rounds) && assemble(arena, i);
	    i++) {
		contend_once(arena, &p, i);
		if (now_ns() >= arena->until_ns)
			atomic_store(&arena->rounds, i + 1);
	}
	party_close(&p);
	_exit(0);
}

static void
test_once_contention(void)
{
	int64_t from = now_ns();
	struct once_arena *arena;
	int i, once = 0, failures = 0, rounds;
	struct party p;

	arena = mmap(NULL, sizeof(*arena), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (arena == MAP_FAILED)
		bail_out("mmap: %s", strerror(errno));
	name_make(arena->name, "once-contention");
	atomic_store(&arena->rounds, ONCE_ROUNDS);
	arena->until_ns = from + ONCE_TIME;
	fflush(stdout);
	for (i = 0; i < ONCE_PROCS; i++) {
		if (fork() == 0)
			once_contender(arena);
	}
	while (waitpid(-1, NULL, 0) != -1)
		continue;
	rounds = atomic_load(&arena->rounds);
	for (i = 0; i < rounds; i++) {
		once += atomic_load(&arena->recorded[i]) == 1;
		failures += atomic_load(&arena->given_up[i]);
	}
	check(once == rounds, "%d processes start together, %d keys: each "
	    "is done by one of them", ONCE_PROCS, rounds);
	check(atomic_load(&arena->failures) == 0, "without an error");
	check(atomic_load(&arena->overlaps) == 0, "never two at a time");
	party_open(&p, "looker");
	check(count_of(&p, arena->name) == rounds,
	    "each is recorded once");
	party_close(&p);
	note("%d failed and were replaced, %" PRId64 " ms", failures,
	    (now_ns() - from) / NS_PER_MS);
	munmap(arena, sizeof(*arena));
}

static void
test_once(void)
{
	if (ops->list_once == NULL) {
		note("not applicable: keys of --once");
		return;
	}
	test_once_done();
	test_once_not_done();
	test_once_lost();
	test_once_list();
	test_once_keys();
	test_once_periods();
	test_once_wait();
	test_once_died();
	test_once_keep();
	test_once_contention();
}

/* --- The floor of the tokens; last, since it stays --- */

static void
test_raise_token(void)
{
	char name[LEASERUN_NAME_SIZE], unknown[LEASERUN_NAME_SIZE];
	struct leaserun_renewal r;
	struct lines lines;
	struct party p, q;
	uint64_t raised;

	name_make(name, "raise");
	name_make(unknown, "raise-unknown");
	party_open(&p, "holder");
	party_open(&q, "operator");
	take(&p, name);
	raised = p.grant.token + 1000000;
	check_result(init(&q, true, raised, &lines), LEASERUN_OK, &q,
	    "raise the token, only printed");
	give(&p, name);
	take(&p, name);
	check(p.grant.token < raised, "nothing was changed");
	check_result(init(&q, false, LEASERUN_TOKEN_MAX, &lines),
	    LEASERUN_MISCONFIGURED, &q, "raise it so that none is left");
	check_result(init(&q, false, raised, &lines), LEASERUN_OK, &q,
	    "raise the token");
	check_result(renew(&p, name, &r), LEASERUN_OK, &p,
	    "who holds a lease keeps it");
	give(&p, name);
	check(take(&p, name) == LEASERUN_OK && p.grant.token > raised,
	    "the next token is above it");
	check(take(&q, unknown) == LEASERUN_OK && q.grant.token > raised,
	    "so is the first one of another name");
	give(&p, name);
	give(&q, unknown);
	check_result(init(&q, false, 1, &lines), LEASERUN_OK, &q,
	    "a lower one");
	name_make(unknown, "raise-again");
	check(take(&q, unknown) == LEASERUN_OK && q.grant.token > raised,
	    "lowers nothing");
	give(&q, unknown);
	party_close(&p);
	party_close(&q);
}

static void
test_host_use(void)
{
	check(!bad_wait, "at most 14 descriptors were waited for");
	if (!check(!bad_text, "error texts are one line, no full stop"))
		note("%s", bad_text_seen);
	check(!bad_reserved, "what is reserved was 0 in every output");
}

static void (*const tests[])(void) = {
	test_struct, test_open, test_init, test_grant, test_held, test_again,
	test_renew, test_release, test_abandon, test_close, test_end,
	test_revoke, test_revoke_asks, test_revoke_mark, test_revoke_force,
	test_names, test_wait_limit, test_wait_release, test_interrupt,
	test_interrupt_often, test_rounds, test_manners, test_min_hold,
	test_min_hold_over, test_min_hold_killed, test_died, test_kind,
	test_contention, test_once, test_raise_token, test_host_use
};

static void
backend_load(const char *module)
{
	static struct leaserun_backend adopted;
	const struct leaserun_backend *found;
	char error[LEASERUN_ERROR_SIZE];
	void *library;

	if (strcmp(module, "builtin:file") == 0) {
		ops = &file_backend;
		return;
	}
	library = dlopen(module, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		bail_out("%s", dlerror());
	found = dlsym(library, "leaserun_backend");
	if (found == NULL)
		bail_out("%s", dlerror());
	if (plugin_adopt(&adopted, found, error) == -1)
		bail_out("%s %s", module, error);
	ops = &adopted;
}

static void
usage(void)
{
	fprintf(stderr, "usage: contract MODULE.so|builtin:file URL "
	    "[-o KEY=VALUE]...\n");
	exit(64);
}

static void
target_read(int argc, char *argv[])
{
	struct leaserun_option *options;
	char *value;
	int i;

	if (argc < 3)
		usage();
	options = calloc((size_t)argc, sizeof(*options));
	if (options == NULL)
		bail_out("no memory");
	target.url = argv[2];
	target.options = options;
	for (i = 3; i < argc; i += 2) {
		if (strcmp(argv[i], "-o") != 0 || i + 1 == argc ||
		    (value = strchr(argv[i + 1], '=')) == NULL)
			usage();
		*value = '\0';
		options[target.noptions].key = argv[i + 1];
		options[target.noptions++].value = value + 1;
	}
}

int
main(int argc, char *argv[])
{
	size_t i;

	manners_look(&at_start);
	setvbuf(stdout, NULL, _IOLBF, 0);
	target_read(argc, argv);
	backend_load(argv[1]);
	snprintf(run_prefix, sizeof(run_prefix), "c%08x.",
	    (unsigned int)random_64());
	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tests[i]();
	printf("1..%u\n", checks);
	note("%s: %u passed, %u failed", ops->name, checks - failed, failed);
	return failed == 0 ? 0 : 1;
}
