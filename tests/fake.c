/*
 * A fake store for tests: leases in a directory of this host that processes
 * contend for in earnest, and scripts that make a call fail, hang, lie or
 * crash while the program runs.  Must never be installed.
 *
 * fake:/absolute/directory has
 *	NAME.state	one struct state under flock(2); deleting it while the
 *			name is held is how a test loses a row
 *	NAME.once	one struct done for each key of --once, oldest first;
 *			under the lock of NAME.state
 *	.floor		the highest token that init --raise-token ruled out
 *	script.OP	one line that the next calls of open, acquire, abandon,
 *			renew, release, list, list_once, revoke, init or doctor
 *			obey: WORD [NUMBER] [once] [by LABEL], words[] has them
 *			all; by: only the calls of the owner with that label
 *	log		BOOTTIME_NS OP NAME OWNER RESULT TOKEN for the start of
 *			every call (result `-') and for its end
 */
#include <sys/file.h>
#include <sys/param.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../backends/leaserun-backend.h"

#define NS_PER_MS	INT64_C(1000000)
#define NS_PER_S	INT64_C(1000000000)
#define SCHEME		"fake:"
#define STATE_SUFFIX	".state"
#define ONCE_SUFFIX	".once"
#define POLL_NS		(10 * NS_PER_MS)	/* of a waiter */
#define LOCK_POLL_NS	NS_PER_MS
#define LATE_NS		(300 * NS_PER_MS)	/* of `late' */
#define OPEN_NS		(2 * NS_PER_S)		/* open has no deadline */
#define FLOOD_LINES	10000
#define GARBAGE_SIZE	7
#define GARBAGE_BIG	65536

enum verb {
	NORMAL,
	/* Instead of the call. */
	ANSWER,
	CRASH,
	ABORT,
	EXIT,
	HANG,
	HANG_INTERRUPTIBLE,
	SPIN,
	/* Before it. */
	CLOSE_LINK,
	GARBAGE,
	LOG_FLOOD,
	SLOW,
	WAIT,
	/* With another outcome. */
	REVOKE,
	TTL,
	/* After it. */
	DROP,
	LOSE,
	LATE,
	SLOW_ANSWER
};

static const struct word {
	const char	*text;
	enum verb	 verb;
	int		 value;		/* the answer; the size of garbage */
} words[] = {
	/* The store is not touched; `lost N': leaserun_loss N, not TAKEN. */
	{ "held", ANSWER, LEASERUN_HELD },
	{ "lost", ANSWER, LEASERUN_LOST },
	{ "done", ANSWER, LEASERUN_DONE },
	{ "interrupted", ANSWER, LEASERUN_INTERRUPTED },
	{ "unavailable", ANSWER, LEASERUN_UNAVAILABLE },
	{ "denied", ANSWER, LEASERUN_DENIED },
	{ "misconfigured", ANSWER, LEASERUN_MISCONFIGURED },

	{ "crash", CRASH, 0 },
	{ "abort", ABORT, 0 },
	{ "exit", EXIT, 0 },			/* N */
	{ "hang", HANG, 0 },			/* for ever, like a resolver */
	{ "hang-interruptible", HANG_INTERRUPTIBLE, 0 },
	{ "spin", SPIN, 0 },

	{ "close-link", CLOSE_LINK, 0 },
	{ "garbage", GARBAGE, GARBAGE_SIZE },
	{ "garbage-big", GARBAGE, GARBAGE_BIG },
	{ "log-flood", LOG_FLOOD, 0 },
	{ "slow", SLOW, 0 },			/* MS */
	{ "wait", WAIT, 0 },			/* MS, as a backend should */

	{ "revoke", REVOKE, 0 },
	{ "short-ttl", TTL, 0 },		/* MS */
	{ "long-ttl", TTL, 0 },			/* MS */

	{ "drop", DROP, 0 },			/* done, the answer is lost */
	{ "lose", LOSE, 0 },			/* and that is known at once */
	{ "late", LATE, 0 },			/* done, 300 ms too late */
	{ "slow-answer", SLOW_ANSWER, 0 },	/* MS */
	{ "count", NORMAL, 0 }			/* the log counts anyway */
};

#define NWORDS	(sizeof(words) / sizeof(words[0]))

static const char *const result_names[] = {
	"ok", "held", "lost", "done", "interrupted", "unavailable", "denied",
	"misconfigured"
};

struct fake {
	const struct leaserun_host *host;
	char		*path;		/* owned */
};

/* One call of one function. */
struct call {
	struct fake	*fake;
	const char	*op;
	const char	*name;		/* NULL: none */
	const char	*owner;		/* NULL: none */
	int64_t		 deadline_ns;
	int64_t		 answer_ns;	/* the longest silence; 0: any */
	int64_t		 sent_ns;
	enum verb	 verb;
	int		 value;
	int64_t		 number;	/* -1: the script gave none */
	uint64_t	 token;		/* for the log */
};

/*
 * What the store knows about a name.  A token belongs to one grant, so it is
 * what the marks go by.
 */
struct state {
	struct leaserun_entry entry;	/* of the last holder */
	bool		held;
	int64_t		acquired_at;
	int64_t		expires_at;
	int64_t		hold_until;	/* --min-hold; 0: none */
	uint64_t	asked;		/* revoked: this grant */
	uint64_t	forced;		/* freed by force: this grant */
	uint64_t	ended;		/* released: this grant */
};

/* A key of --once that is done. */
struct done {
	int64_t		period_ns;
	struct leaserun_entry entry;	/* name is the key */
};

static int64_t
unix_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / NS_PER_MS;
}

/* A sleep that no signal shortens. */
static void
sleep_until(int64_t at)
{
	struct timespec ts;

	ts.tv_sec = at / NS_PER_S;
	ts.tv_nsec = at % NS_PER_S;
	while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &ts, NULL) ==
	    EINTR)
		continue;
}

/* --- Files --- */

static int
path_make(const struct fake *fake, char path[PATH_MAX], const char *name,
    const char *suffix)
{
	int n;

	n = snprintf(path, PATH_MAX, "%s/%s%s", fake->path, name, suffix);
	if (n < 0 || n >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return 0;
}

static int
path_open(const struct fake *fake, const char *name, const char *suffix,
    int flags)
{
	char path[PATH_MAX];

	if (path_make(fake, path, name, suffix) == -1)
		return -1;
	return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/*
 * Opens and locks.  The lock is polled for, since a process that was stopped
 * in the middle of a call may keep it for ever.  LOST: no such file.
 */
static enum leaserun_result
file_lock(const struct call *c, const char *name, const char *suffix,
    int flags, int how, int *fdp)
{
	const struct leaserun_host *host = c->fake->host;
	enum leaserun_result result;
	int64_t now;
	int fd;

	fd = path_open(c->fake, name, suffix, flags);
	if (fd == -1 && errno == ENOENT && (flags & O_CREAT) == 0)
		return LEASERUN_LOST;
	if (fd == -1) {
		host->error(host, "cannot open '%s/%s%s': %s; run "
		    "'leaserun init'", c->fake->path, name, suffix,
		    strerror(errno));
		return LEASERUN_MISCONFIGURED;
	}
	result = LEASERUN_OK;
	while (result == LEASERUN_OK && flock(fd, how | LOCK_NB) == -1) {
		now = host->now();
		result = now < c->deadline_ns ? host->wait(host, NULL, 0,
		    MIN(now + LOCK_POLL_NS, c->deadline_ns)) :
		    LEASERUN_UNAVAILABLE;
	}
	if (result != LEASERUN_OK) {
		host->error(host, "'%s%s' stays locked", name, suffix);
		close(fd);
		return result;
	}
	*fdp = fd;
	return LEASERUN_OK;
}

static enum leaserun_result
state_open(const struct call *c, int flags, int *fdp, struct state *s)
{
	const struct leaserun_host *host = c->fake->host;
	enum leaserun_result result;
	ssize_t n;
	int fd;

	result = file_lock(c, c->name, STATE_SUFFIX, O_RDWR | flags, LOCK_EX,
	    &fd);
	if (result != LEASERUN_OK)
		return result;
	n = pread(fd, s, sizeof(*s), 0);
	if (n != 0 && n != (ssize_t)sizeof(*s)) {
		host->error(host, "the state of '%s' is damaged", c->name);
		close(fd);
		return LEASERUN_MISCONFIGURED;
	}
	if (n == 0) {
		memset(s, 0, sizeof(*s));
		snprintf(s->entry.name, sizeof(s->entry.name), "%s", c->name);
	}
	*fdp = fd;
	return LEASERUN_OK;
}

static enum leaserun_result
state_write(const struct call *c, int fd, const struct state *s)
{
	const struct leaserun_host *host = c->fake->host;

	if (pwrite(fd, s, sizeof(*s), 0) == (ssize_t)sizeof(*s))
		return LEASERUN_OK;
	host->error(host, "cannot write the state of '%s': %s", c->name,
	    strerror(errno));
	return LEASERUN_UNAVAILABLE;
}

/* --- What is done under --once; the state is locked meanwhile --- */

static bool
done_read(int fd, off_t i, struct done *d)
{
	return fd != -1 && i >= 0 && pread(fd, d, sizeof(*d),
	    i * (off_t)sizeof(*d)) == (ssize_t)sizeof(*d);
}

/* This key, or a later one of the same period. */
static bool
is_done(const struct call *c, const char *key, int64_t period_ns)
{
	bool found = false;
	struct done d;
	off_t i;
	int fd;

	fd = path_open(c->fake, c->name, ONCE_SUFFIX, O_RDONLY);
	for (i = 0; !found && done_read(fd, i, &d); i++)
		found = strcmp(d.entry.name, key) == 0 || (period_ns > 0 &&
		    d.period_ns == period_ns && strlen(d.entry.name) ==
		    strlen(key) && strcmp(d.entry.name, key) > 0);
	if (fd != -1)
		close(fd);
	return found;
}

static bool
done_write(int fd, off_t i, const struct done *d)
{
	return pwrite(fd, d, sizeof(*d), i * (off_t)sizeof(*d)) ==
	    (ssize_t)sizeof(*d);
}

static enum leaserun_result
done_record(const struct call *c, const struct state *s,
    const struct leaserun_end *end)
{
	const struct leaserun_host *host = c->fake->host;
	struct done d, new = { end->once_period_ns, s->entry };
	off_t i, n = 0;
	bool good;
	int fd;

	fd = path_open(c->fake, c->name, ONCE_SUFFIX, O_RDWR | O_CREAT);
	snprintf(new.entry.name, sizeof(new.entry.name), "%s", end->once_key);
	new.entry.end_ms = unix_ms();
	new.entry.ran_ms = end->ran_ns / NS_PER_MS;
	good = fd != -1;
	for (i = 0; good && done_read(fd, i, &d); i++) {
		if (d.entry.end_ms >= unix_ms() - end->once_keep_ns /
		    NS_PER_MS)
			good = done_write(fd, n++, &d);
	}
	good = good && done_write(fd, n, &new) &&
	    ftruncate(fd, (n + 1) * (off_t)sizeof(new)) == 0;
	if (fd != -1)
		close(fd);
	if (!good)
		host->error(host, "cannot record '%s'", end->once_key);
	return good ? LEASERUN_OK : LEASERUN_UNAVAILABLE;
}

/* --- The log and the script --- */

static void
call_log(const struct call *c, const char *result)
{
	char line[LEASERUN_NAME_SIZE + LEASERUN_OWNER_SIZE + 128];
	ssize_t n;
	int fd;

	n = snprintf(line, sizeof(line), "%" PRId64 " %s %s %s %s %" PRIu64
	    "\n", c->fake->host->now(), c->op,
	    c->name == NULL ? "-" : c->name,
	    c->owner == NULL ? "-" : c->owner, result, c->token);
	fd = path_open(c->fake, "log", "", O_WRONLY | O_APPEND | O_CREAT);
	if (fd == -1)
		return;		/* before init */
	if (write(fd, line, (size_t)n) != n)
		c->fake->host->debug(c->fake->host, "the log is incomplete");
	close(fd);
}

/* It is told for all, or for the owner who calls.  `by' is taken off. */
static int
script_is_for(const struct call *c, char *line)
{
	char *by = strstr(line, " by ");
	size_t n;

	if (by == NULL)
		return 1;
	*by = '\0';
	by += 4;
	n = strlen(by);
	return c->owner != NULL && strncmp(c->owner, by, n) == 0 &&
	    c->owner[n] == ':';
}

/* The script's first line, "" without one; `once' is taken off. */
static void
script_read(const struct call *c, char *line, size_t size)
{
	char path[PATH_MAX], done[PATH_MAX];
	size_t n;
	FILE *f;

	line[0] = '\0';
	if (path_make(c->fake, path, "script.", c->op) == -1)
		return;
	f = fopen(path, "re");
	if (f == NULL)
		return;
	if (fgets(line, (int)size, f) == NULL)
		line[0] = '\0';
	fclose(f);
	line[strcspn(line, "\n")] = '\0';
	if (!script_is_for(c, line)) {
		line[0] = '\0';
		return;
	}
	n = strlen(line);
	if (n < 5 || strcmp(line + n - 5, " once") != 0)
		return;
	/* Of several processes the one that renames it obeys. */
	if (snprintf(done, sizeof(done), "%s.done", path) >= PATH_MAX ||
	    rename(path, done) == -1)
		n = 5;
	line[n - 5] = '\0';
}

static enum leaserun_result
script_load(struct call *c)
{
	const struct leaserun_host *host = c->fake->host;
	char line[128], *number;
	size_t i;

	c->verb = NORMAL;
	c->value = 0;
	c->number = -1;
	script_read(c, line, sizeof(line));
	if (line[0] == '\0')
		return LEASERUN_OK;
	number = strchr(line, ' ');
	if (number != NULL) {
		*number++ = '\0';
		c->number = strtoll(number, NULL, 10);
	}
	for (i = 0; i < NWORDS; i++) {
		if (strcmp(words[i].text, line) != 0)
			continue;
		c->verb = words[i].verb;
		c->value = words[i].value;
		return LEASERUN_OK;
	}
	host->error(host, "unknown word '%s' in script.%s", line, c->op);
	return LEASERUN_MISCONFIGURED;
}

/* The keeper's end of the link to the guard; -1: there is none. */
static int
link_find(void)
{
	int domain, fd, found = -1, type;
	struct dirent *entry;
	socklen_t len;
	DIR *dir;

	dir = opendir("/proc/self/fd");
	if (dir == NULL)
		return -1;
	while (found == -1 && (entry = readdir(dir)) != NULL) {
		fd = atoi(entry->d_name);
		len = sizeof(domain);
		if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == -1)
			continue;
		len = sizeof(type);
		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == -1)
			continue;
		if (domain == AF_UNIX && type == SOCK_SEQPACKET)
			found = fd;
	}
	closedir(dir);
	return found;
}

static enum leaserun_result
link_spoil(const struct call *c)
{
	const struct leaserun_host *host = c->fake->host;
	static char noise[GARBAGE_BIG];
	bool failed;
	int fd;

	fd = link_find();
	if (fd == -1) {
		host->error(host, "no link to spoil in script.%s", c->op);
		return LEASERUN_MISCONFIGURED;
	}
	if (c->verb == CLOSE_LINK) {
		failed = shutdown(fd, SHUT_RDWR) == -1;
	} else {
		failed = getrandom(noise, (size_t)c->value, 0) != c->value ||
		    send(fd, noise, (size_t)c->value,
		    MSG_DONTWAIT | MSG_NOSIGNAL) != c->value;
	}
	if (failed)
		host->debug(host, "link: %s", strerror(errno));
	return LEASERUN_OK;
}

static void
flood(const struct call *c)
{
	int i;

	for (i = 0; i < FLOOD_LINES; i++)
		c->fake->host->debug(c->fake->host, "line %d of %d, which is "
		    "long enough to fill a pipe soon", i + 1, FLOOD_LINES);
}

static void
crash(void)
{
	sigset_t set;

	signal(SIGSEGV, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(SIGSEGV);
}

static enum leaserun_result
answer(const struct call *c)
{
	const struct leaserun_host *host = c->fake->host;

	host->error(host, "the fake store answers '%s': script.%s",
	    result_names[c->value], c->op);
	return (enum leaserun_result)c->value;
}

/* The server says nothing, for as long as the call may take that. */
static enum leaserun_result
silence(const struct call *c)
{
	const struct leaserun_host *host = c->fake->host;
	enum leaserun_result result;
	int64_t until = c->deadline_ns;

	if (c->answer_ns > 0)
		until = MIN(until, host->now() + c->answer_ns);
	result = host->wait(host, NULL, 0, until);
	host->error(host, "no answer: script.%s", c->op);
	return result == LEASERUN_OK ? LEASERUN_UNAVAILABLE : result;
}

/* What the script wants instead of the call or before it; OK: go on. */
static enum leaserun_result
script_before(const struct call *c)
{
	const struct leaserun_host *host = c->fake->host;
	volatile unsigned int burnt;

	switch (c->verb) {
	case ANSWER:
		return answer(c);
	case CRASH:
		crash();
		break;
	case ABORT:
		abort();
	case EXIT:
		exit((int)c->number);
	case HANG:
		for (;;)
			sleep_until(host->now() + 3600 * NS_PER_S);
	case HANG_INTERRUPTIBLE:
		return silence(c);
	case SPIN:
		for (burnt = 0;; burnt++)
			continue;
	case CLOSE_LINK:
	case GARBAGE:
		return link_spoil(c);
	case LOG_FLOOD:
		flood(c);
		break;
	case SLOW:
		sleep_until(host->now() + c->number * NS_PER_MS);
		break;
	case WAIT:
		return host->wait(host, NULL, 0, host->now() +
		    c->number * NS_PER_MS);
	default:
		break;
	}
	return LEASERUN_OK;
}

static enum leaserun_result
script_after(const struct call *c, enum leaserun_result result)
{
	const struct leaserun_host *host = c->fake->host;

	switch (c->verb) {
	case DROP:
		return silence(c);
	case LOSE:
		host->error(host, "the answer is lost: script.%s", c->op);
		return LEASERUN_UNAVAILABLE;
	case LATE:
		if (c->deadline_ns != INT64_MAX)
			sleep_until(c->deadline_ns + LATE_NS);
		break;
	case SLOW_ANSWER:
		sleep_until(host->now() + c->number * NS_PER_MS);
		break;
	default:
		break;
	}
	return result;
}

/* OK: make the call; anything else: that is its result. */
static enum leaserun_result
call_begin(struct call *c)
{
	enum leaserun_result result;

	c->sent_ns = c->fake->host->now();
	call_log(c, "-");
	result = script_load(c);
	return result == LEASERUN_OK ? script_before(c) : result;
}

static enum leaserun_result
call_end(const struct call *c, enum leaserun_result result)
{
	result = script_after(c, result);
	call_log(c, result_names[result]);
	return result;
}

static int64_t
call_ttl(const struct call *c, int64_t asked)
{
	return c->verb == TTL ? c->number * NS_PER_MS : asked;
}

/* --- The rules: what a state means at a time --- */

static bool
live(const struct state *s, int64_t now)
{
	return s->held && now < s->expires_at;
}

static bool
ours(const struct state *s, const struct leaserun_lease *lease, int64_t now)
{
	return live(s, now) && s->entry.token == lease->token &&
	    strcmp(s->entry.owner, lease->owner) == 0;
}

static enum leaserun_state
state_at(const struct state *s, int64_t now)
{
	if (live(s, now))
		return s->asked == s->entry.token ? LEASERUN_REVOKING :
		    LEASERUN_BUSY;
	return now < s->hold_until ? LEASERUN_HOLDING : LEASERUN_FREE;
}

/* Why a lease that is not ours any more is not. */
static enum leaserun_loss
loss_at(const struct state *s, uint64_t token, int64_t now)
{
	if (s->forced == token)
		return LEASERUN_LOSS_FORCED;
	return live(s, now) ? LEASERUN_LOSS_TAKEN : LEASERUN_LOSS_EXPIRED;
}

/* The last holder did not release: its lease ran out or was freed by force. */
static bool
is_unclean(const struct state *s)
{
	return s->held || (s->forced != 0 && s->forced == s->entry.token);
}

static void
entry_at(const struct state *s, int64_t now, struct leaserun_entry *entry)
{
	int64_t until;

	*entry = s->entry;
	entry->state = state_at(s, now);
	entry->held_for_ms = -1;
	entry->expires_in_ms = -1;
	entry->waiting = -1;
	if (entry->state == LEASERUN_FREE) {
		entry->unclean = is_unclean(s);
		entry->owner[0] = entry->label[0] = entry->host[0] = '\0';
		entry->pid = entry->acquired_ms = entry->renewed_ms = 0;
		return;
	}
	until = live(s, now) ? s->expires_at : s->hold_until;
	entry->held_for_ms = (now - s->acquired_at) / NS_PER_MS;
	entry->expires_in_ms = (until - now) / NS_PER_MS;
	entry->expires_ms = unix_ms() + entry->expires_in_ms;
}

/* A name starts at the Unix time, so that a deleted state goes on above. */
static uint64_t
token_next(const struct state *s, uint64_t floor)
{
	if (s->entry.token == 0)
		return MAX((uint64_t)unix_ms(), floor + 1);
	return MAX(s->entry.token, floor) + 1;
}

static void
holder_set(struct state *s, const struct leaserun_request *request,
    uint64_t token, int64_t now)
{
	struct leaserun_entry *entry = &s->entry;

	snprintf(entry->owner, sizeof(entry->owner), "%s", request->owner);
	snprintf(entry->label, sizeof(entry->label), "%s", request->label);
	snprintf(entry->host, sizeof(entry->host), "%s", request->host);
	entry->pid = request->pid;
	entry->token = token;
	entry->acquired_ms = unix_ms();
	s->held = true;
	s->acquired_at = now;
	s->hold_until = request->min_hold_ns > 0 ?
	    now + request->min_hold_ns : 0;
}

/*
 * OK, or HELD.  A repetition by the owner of a live lease finds and extends
 * it; the owner of one that ran out starts again, under a new token.
 */
static enum leaserun_result
state_grant(struct state *s, const struct leaserun_request *request,
    uint64_t floor, int64_t ttl, int64_t now, struct leaserun_grant *grant)
{
	bool again;

	again = s->held && strcmp(s->entry.owner, request->owner) == 0;
	if (!again && state_at(s, now) != LEASERUN_FREE)
		return LEASERUN_HELD;
	grant->took_over = false;
	if (!again || !live(s, now)) {
		if (!again && is_unclean(s)) {
			grant->took_over = true;
			grant->previous = s->entry;
		}
		holder_set(s, request, token_next(s, floor), now);
	}
	s->expires_at = now + ttl;
	s->entry.renewed_ms = unix_ms();
	grant->token = s->entry.token;
	grant->ttl_ns = ttl;
	grant->hold_fd = -1;
	return LEASERUN_OK;
}

static void
end_record(struct state *s, const struct leaserun_end *end)
{
	s->held = false;
	s->ended = s->entry.token;
	if (!end->ran) {
		s->hold_until = 0;	/* there is nothing to run twice */
		return;
	}
	s->entry.has_end = true;
	s->entry.end_status = end->status;
	s->entry.end_ms = unix_ms();
	s->entry.ran_ms = end->ran_ns / NS_PER_MS;
}

/* --- The calls --- */

static enum leaserun_result
option_set(const struct leaserun_host *host,
    const struct leaserun_option *option, unsigned int *endpoints)
{
	if (strcmp(option->key, "endpoints") != 0) {
		host->error(host, "no option '%s'; the fake store knows "
		    "'endpoints'", option->key);
		return LEASERUN_MISCONFIGURED;
	}
	*endpoints = (unsigned int)atoi(option->value);
	return LEASERUN_OK;
}

static void
fake_close(void *self)
{
	struct fake *fake = self;

	if (fake != NULL)
		free(fake->path);
	free(fake);
}

static enum leaserun_result
fake_make(const struct leaserun_host *host, const char *url,
    struct fake **fakep)
{
	size_t len = strlen(SCHEME);
	struct fake *fake;

	if (strncmp(url, SCHEME "/", len + 1) != 0) {
		host->error(host, "'%s' is not fake:/absolute/directory", url);
		return LEASERUN_MISCONFIGURED;
	}
	fake = calloc(1, sizeof(*fake));
	if (fake != NULL) {
		fake->host = host;
		fake->path = strdup(url + len);
	}
	if (fake == NULL || fake->path == NULL) {
		host->error(host, "no memory");
		fake_close(fake);
		return LEASERUN_MISCONFIGURED;
	}
	*fakep = fake;
	return LEASERUN_OK;
}

static enum leaserun_result
fake_open(const struct leaserun_host *host,
    const struct leaserun_target *target, void **self,
    unsigned int *endpoints)
{
	struct call c = { .op = "open",
	    .deadline_ns = host->now() + OPEN_NS };
	enum leaserun_result result;
	unsigned int n = 1;
	size_t i;

	result = LEASERUN_OK;
	for (i = 0; i < target->noptions && result == LEASERUN_OK; i++)
		result = option_set(host, &target->options[i], &n);
	if (result == LEASERUN_OK)
		result = fake_make(host, target->url, &c.fake);
	if (result != LEASERUN_OK)
		return result;
	result = call_end(&c, call_begin(&c));
	if (result != LEASERUN_OK) {
		fake_close(c.fake);
		return result;
	}
	*self = c.fake;
	*endpoints = n;
	return LEASERUN_OK;
}

static enum leaserun_result
floor_read(const struct call *c, int *fdp, uint64_t *floor)
{
	enum leaserun_result result;

	result = file_lock(c, ".floor", "", O_RDWR | O_CREAT, LOCK_SH, fdp);
	if (result != LEASERUN_OK)
		return result;
	if (pread(*fdp, floor, sizeof(*floor), 0) != (ssize_t)sizeof(*floor))
		*floor = 0;
	return LEASERUN_OK;
}

/* The floor stays locked meanwhile: raise_token is exact. */
static enum leaserun_result
acquire_try(const struct call *c, const struct leaserun_request *request,
    struct leaserun_grant *grant, struct leaserun_entry *holder)
{
	const struct leaserun_host *host = c->fake->host;
	int fd = -1, floor_fd = -1;
	enum leaserun_result result;
	int64_t now, sent_ns;
	uint64_t floor;
	struct state s;

	sent_ns = host->now();
	result = floor_read(c, &floor_fd, &floor);
	if (result == LEASERUN_OK)
		result = state_open(c, O_CREAT, &fd, &s);
	if (result != LEASERUN_OK)
		goto out;
	now = host->now();
	result = state_grant(&s, request, floor, call_ttl(c, request->ttl_ns),
	    now, grant);
	if (result == LEASERUN_HELD)
		entry_at(&s, now, holder);
	else if (request->once_key != NULL && is_done(c, request->once_key,
	    request->once_period_ns))
		result = LEASERUN_DONE;
	else {
		grant->sent_ns = sent_ns;
		result = state_write(c, fd, &s);
	}
out:
	if (fd != -1)
		close(fd);
	if (floor_fd != -1)
		close(floor_fd);
	return result;
}

static enum leaserun_result
acquire_wait(const struct call *c, const struct leaserun_request *request,
    struct leaserun_grant *grant)
{
	const struct leaserun_host *host = c->fake->host;
	enum leaserun_result result;
	struct leaserun_entry holder;
	uint64_t told = 0;
	int64_t now;

	for (;;) {
		result = acquire_try(c, request, grant, &holder);
		if (result != LEASERUN_HELD)
			return result;
		if (holder.token != told && !host->holder(host, &holder))
			return LEASERUN_HELD;
		told = holder.token;
		now = host->now();
		if (!request->wait || now >= c->deadline_ns)
			return LEASERUN_HELD;
		result = host->wait(host, NULL, 0,
		    MIN(now + POLL_NS, c->deadline_ns));
		if (result != LEASERUN_OK)
			return result;
	}
}

/* Who has it when only the script says that someone does. */
static void
stranger(const char *name, struct leaserun_entry *entry)
{
	memset(entry, 0, sizeof(*entry));
	snprintf(entry->name, sizeof(entry->name), "%s", name);
	snprintf(entry->owner, sizeof(entry->owner), "stranger:%032d", 0);
	snprintf(entry->label, sizeof(entry->label), "stranger");
	snprintf(entry->host, sizeof(entry->host), "elsewhere");
	entry->state = LEASERUN_BUSY;
	entry->pid = 1;
	entry->token = 1;
	entry->held_for_ms = entry->expires_in_ms = entry->waiting = -1;
}

static enum leaserun_result
fake_acquire(void *self, const struct leaserun_request *request,
    int64_t deadline_ns, struct leaserun_grant *grantp)
{
	struct call c = { .fake = self, .op = "acquire",
	    .name = request->name, .owner = request->owner,
	    .deadline_ns = deadline_ns, .answer_ns = request->answer_ns };
	enum leaserun_result result;
	struct leaserun_grant grant;
	struct leaserun_entry entry;

	memset(&grant, 0, sizeof(grant));
	result = call_begin(&c);
	if (result == LEASERUN_OK) {
		result = acquire_wait(&c, request, &grant);
		c.token = grant.token;
	} else if (result == LEASERUN_HELD) {
		stranger(request->name, &entry);
		c.fake->host->holder(c.fake->host, &entry);
	}
	result = call_end(&c, result);
	if (result == LEASERUN_OK)
		*grantp = grant;
	return result;
}

static enum leaserun_result
abandon_do(const struct call *c)
{
	enum leaserun_result result;
	struct state s;
	int fd;

	result = state_open(c, 0, &fd, &s);
	if (result != LEASERUN_OK)
		return result == LEASERUN_LOST ? LEASERUN_OK : result;
	if (s.held && strcmp(s.entry.owner, c->owner) == 0) {
		s.held = false;
		s.hold_until = 0;
		result = state_write(c, fd, &s);
	}
	close(fd);
	return result;
}

static enum leaserun_result
fake_abandon(void *self, const char *name, const char *owner,
    int64_t deadline_ns)
{
	struct call c = { .fake = self, .op = "abandon", .name = name,
	    .owner = owner, .deadline_ns = deadline_ns };
	enum leaserun_result result;

	result = call_begin(&c);
	return call_end(&c, result == LEASERUN_OK ? abandon_do(&c) : result);
}

static enum leaserun_result
renew_do(const struct call *c, const struct leaserun_lease *lease,
    struct leaserun_renewal *renewal)
{
	enum leaserun_result result;
	struct state s;
	int64_t now;
	int fd;

	renewal->loss = LEASERUN_LOSS_DELETED;
	result = state_open(c, 0, &fd, &s);
	if (result != LEASERUN_OK)
		return result;
	now = c->fake->host->now();
	if (ours(&s, lease, now)) {
		renewal->sent_ns = c->sent_ns;
		renewal->ttl_ns = call_ttl(c, lease->ttl_ns);
		renewal->revoke = c->verb == REVOKE ||
		    s.asked == lease->token;
		renewal->loss = LEASERUN_LOSS_NONE;
		s.expires_at = now + renewal->ttl_ns;
		s.entry.renewed_ms = unix_ms();
		result = state_write(c, fd, &s);
	} else {
		renewal->loss = loss_at(&s, lease->token, now);
		result = LEASERUN_LOST;
	}
	close(fd);
	return result;
}

static enum leaserun_result
fake_renew(void *self, const struct leaserun_lease *lease,
    int64_t deadline_ns, struct leaserun_renewal *renewalp)
{
	struct call c = { .fake = self, .op = "renew", .name = lease->name,
	    .owner = lease->owner, .deadline_ns = deadline_ns,
	    .token = lease->token };
	struct leaserun_renewal renewal;
	enum leaserun_result result;

	memset(&renewal, 0, sizeof(renewal));
	result = call_begin(&c);
	if (result == LEASERUN_OK)
		result = renew_do(&c, lease, &renewal);
	else
		renewal.loss = c.number == -1 ? LEASERUN_LOSS_TAKEN :
		    (enum leaserun_loss)c.number;
	result = call_end(&c, result);
	if (result == LEASERUN_OK)
		*renewalp = renewal;
	else if (result == LEASERUN_LOST)
		renewalp->loss = renewal.loss;
	return result;
}

static enum leaserun_result
release_do(const struct call *c, const struct leaserun_lease *lease,
    const struct leaserun_end *end)
{
	enum leaserun_result result;
	struct state s;
	int fd;

	result = state_open(c, 0, &fd, &s);
	if (result != LEASERUN_OK)
		return result;
	if (ours(&s, lease, c->fake->host->now())) {
		if (end->once_key != NULL)
			result = done_record(c, &s, end);
		end_record(&s, end);
		if (result == LEASERUN_OK)
			result = state_write(c, fd, &s);
	} else if (s.ended != lease->token) {
		result = LEASERUN_LOST;
	}
	close(fd);
	return result;
}

static enum leaserun_result
fake_release(void *self, const struct leaserun_lease *lease,
    const struct leaserun_end *end, int64_t deadline_ns)
{
	struct call c = { .fake = self, .op = "release", .name = lease->name,
	    .owner = lease->owner, .deadline_ns = deadline_ns,
	    .token = lease->token };
	enum leaserun_result result;

	result = call_begin(&c);
	if (result == LEASERUN_OK)
		result = release_do(&c, lease, end);
	return call_end(&c, result);
}

static enum leaserun_result
list_one(const struct call *call, const char *name, leaserun_entry_fn *fn,
    void *arg)
{
	struct leaserun_entry entry;
	enum leaserun_result result;
	struct call c = *call;
	struct state s;
	int fd;

	c.name = name;
	memset(&s, 0, sizeof(s));
	snprintf(s.entry.name, sizeof(s.entry.name), "%s", name);
	result = state_open(&c, 0, &fd, &s);
	if (result == LEASERUN_OK)
		close(fd);
	else if (result != LEASERUN_LOST)
		return result;
	entry_at(&s, c.fake->host->now(), &entry);
	fn(arg, &entry);
	return LEASERUN_OK;
}

static enum leaserun_result
list_all(const struct call *c, leaserun_entry_fn *fn, void *arg)
{
	const struct leaserun_host *host = c->fake->host;
	enum leaserun_result result = LEASERUN_OK;
	struct dirent *d;
	size_t len;
	DIR *dir;

	dir = opendir(c->fake->path);
	if (dir == NULL) {
		host->error(host, "cannot read '%s': %s; run 'leaserun init'",
		    c->fake->path, strerror(errno));
		return LEASERUN_MISCONFIGURED;
	}
	while (result == LEASERUN_OK && (d = readdir(dir)) != NULL) {
		len = strlen(d->d_name);
		if (len <= strlen(STATE_SUFFIX))
			continue;
		len -= strlen(STATE_SUFFIX);
		if (strcmp(d->d_name + len, STATE_SUFFIX) != 0)
			continue;
		d->d_name[len] = '\0';
		result = list_one(c, d->d_name, fn, arg);
	}
	closedir(dir);
	return result;
}

static enum leaserun_result
fake_list(void *self, const char *name, int64_t deadline_ns,
    leaserun_entry_fn *fn, void *arg)
{
	struct call c = { .fake = self, .op = "list", .name = name,
	    .deadline_ns = deadline_ns };
	enum leaserun_result result;

	result = call_begin(&c);
	if (result == LEASERUN_OK)
		result = name == NULL ? list_all(&c, fn, arg) :
		    list_one(&c, name, fn, arg);
	return call_end(&c, result);
}

static enum leaserun_result
list_done(const struct call *c, leaserun_entry_fn *fn, void *arg)
{
	enum leaserun_result result;
	struct state s;
	struct done d;
	int lock, fd;
	off_t i;

	result = state_open(c, 0, &lock, &s);
	if (result == LEASERUN_LOST)
		return LEASERUN_OK;
	if (result != LEASERUN_OK)
		return result;
	fd = path_open(c->fake, c->name, ONCE_SUFFIX, O_RDONLY);
	for (i = 0; done_read(fd, i, &d); i++)
		continue;
	while (done_read(fd, --i, &d))
		fn(arg, &d.entry);
	if (fd != -1)
		close(fd);
	close(lock);
	return LEASERUN_OK;
}

static enum leaserun_result
fake_list_once(void *self, const char *name, int64_t deadline_ns,
    leaserun_entry_fn *fn, void *arg)
{
	struct call c = { .fake = self, .op = "list_once", .name = name,
	    .deadline_ns = deadline_ns };
	enum leaserun_result result;

	result = call_begin(&c);
	if (result == LEASERUN_OK)
		result = list_done(&c, fn, arg);
	return call_end(&c, result);
}

/* *entry: who was asked, or who held it before it was freed by force. */
static enum leaserun_result
state_revoke(struct state *s, const struct leaserun_revoke *revoke,
    int64_t now, struct leaserun_entry *entry)
{
	bool busy = live(s, now);

	entry_at(s, now, entry);
	if (entry->state != LEASERUN_FREE && revoke->token != 0 &&
	    revoke->token != s->entry.token)
		return LEASERUN_HELD;
	if (revoke->force) {
		s->hold_until = 0;
		if (busy) {
			s->forced = s->entry.token;
			s->held = false;
		}
	} else if (busy) {
		s->asked = s->entry.token;
		entry->state = LEASERUN_REVOKING;
	}
	return LEASERUN_OK;
}

static enum leaserun_result
revoke_do(const struct call *c, const struct leaserun_revoke *revoke,
    struct leaserun_entry *entry)
{
	enum leaserun_result result;
	struct state s;
	int fd;

	memset(&s, 0, sizeof(s));
	snprintf(s.entry.name, sizeof(s.entry.name), "%s", c->name);
	result = state_open(c, 0, &fd, &s);
	if (result == LEASERUN_LOST) {
		entry_at(&s, 0, entry);
		return LEASERUN_OK;
	}
	if (result != LEASERUN_OK)
		return result;
	result = state_revoke(&s, revoke, c->fake->host->now(), entry);
	if (result == LEASERUN_OK)
		result = state_write(c, fd, &s);
	close(fd);
	return result;
}

static enum leaserun_result
fake_revoke(void *self, const struct leaserun_revoke *revoke,
    int64_t deadline_ns, struct leaserun_entry *entryp)
{
	struct call c = { .fake = self, .op = "revoke", .name = revoke->name,
	    .deadline_ns = deadline_ns, .token = revoke->token };
	enum leaserun_result result;
	struct leaserun_entry entry;

	result = call_begin(&c);
	if (result == LEASERUN_OK)
		result = revoke_do(&c, revoke, &entry);
	else
		stranger(revoke->name, &entry);
	result = call_end(&c, result);
	if (result == LEASERUN_OK || result == LEASERUN_HELD)
		*entryp = entry;
	return result;
}

static enum leaserun_result
floor_raise(const struct call *c, uint64_t token)
{
	const struct leaserun_host *host = c->fake->host;
	enum leaserun_result result;
	uint64_t floor;
	int fd;

	result = file_lock(c, ".floor", "", O_RDWR | O_CREAT, LOCK_EX, &fd);
	if (result != LEASERUN_OK)
		return result;
	if (pread(fd, &floor, sizeof(floor), 0) != (ssize_t)sizeof(floor))
		floor = 0;
	floor = MAX(floor, token);
	if (pwrite(fd, &floor, sizeof(floor), 0) != (ssize_t)sizeof(floor)) {
		host->error(host, "cannot write the floor: %s",
		    strerror(errno));
		result = LEASERUN_UNAVAILABLE;
	}
	close(fd);
	return result;
}

static enum leaserun_result
init_do(const struct call *c, const struct leaserun_init *init,
    leaserun_line_fn *fn, void *arg)
{
	const struct leaserun_host *host = c->fake->host;
	char text[64];

	if (init->raise_token >= (uint64_t)LEASERUN_TOKEN_MAX) {
		host->error(host, "no token is above that; give a lower "
		    "number");
		return LEASERUN_MISCONFIGURED;
	}
	if (!init->print && mkdir(c->fake->path, 0700) == -1 &&
	    errno != EEXIST) {
		host->error(host, "cannot make '%s': %s", c->fake->path,
		    strerror(errno));
		return LEASERUN_MISCONFIGURED;
	}
	fn(arg, LEASERUN_GOOD, "directory", c->fake->path);
	snprintf(text, sizeof(text), "nothing at or below %" PRIu64,
	    init->raise_token);
	fn(arg, LEASERUN_GOOD, "tokens", text);
	return init->print ? LEASERUN_OK : floor_raise(c, init->raise_token);
}

static enum leaserun_result
fake_init(void *self, const struct leaserun_init *init, int64_t deadline_ns,
    leaserun_line_fn *fn, void *arg)
{
	struct call c = { .fake = self, .op = "init",
	    .deadline_ns = deadline_ns, .token = init->raise_token };
	enum leaserun_result result;

	result = call_begin(&c);
	if (result == LEASERUN_OK)
		result = init_do(&c, init, fn, arg);
	return call_end(&c, result);
}

static enum leaserun_result
fake_doctor(void *self, int64_t deadline_ns, leaserun_line_fn *fn, void *arg)
{
	struct call c = { .fake = self, .op = "doctor",
	    .deadline_ns = deadline_ns };
	enum leaserun_result result;

	result = call_begin(&c);
	if (result == LEASERUN_OK) {
		if (access(c.fake->path, R_OK | W_OK | X_OK) == 0)
			fn(arg, LEASERUN_GOOD, "directory", c.fake->path);
		else
			fn(arg, LEASERUN_BAD, "directory", strerror(errno));
		fn(arg, LEASERUN_NOTE, "reach", "this host only, for tests");
	}
	return call_end(&c, result);
}

const struct leaserun_backend leaserun_backend = {
	.size = sizeof(struct leaserun_backend),
	.version = LEASERUN_BACKEND_VERSION,
	.name = "fake",
	.open = fake_open,
	.close = fake_close,
	.acquire = fake_acquire,
	.abandon = fake_abandon,
	.renew = fake_renew,
	.release = fake_release,
	.list = fake_list,
	.revoke = fake_revoke,
	.init = fake_init,
	.doctor = fake_doctor,
	.list_once = fake_list_once
};
