/*
 * Adds up what happens in a run, and puts it into the file beside what other
 * runs have put there: under a lock, by rename.  Must never replace a file that
 * is not its own.
 */
#include <sys/file.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "metrics.h"
#include "name.h"
#include "promfile.h"
#include "timeutil.h"
#include "util.h"

#define SIZE_MAX_READ	(8 << 20)
/* Others have the lock for a moment only; one that was stopped, for ever. */
#define LOCK_PATIENCE	(5 * NS_PER_S)
#define LOCK_POLL_MS	10
/* Heartbeats do not write more often. */
#define BEAT_EVERY	(15 * NS_PER_S)

struct metrics {
	const struct report_run *run;
	char		 backend[PROM_BACKEND_SIZE];
	double		 pending[PROM_VALUES];
	bool		 is_set[PROM_COUNTERS];	/* of the gauges */
	uint64_t	 renewals, failures;	/* counted so far */
	int64_t		 written_at;
};

struct metrics *
metrics_open(const struct report_run *run)
{
	struct metrics *m = xcalloc(1, sizeof(*m));

	m->run = run;
	text_copy(m->backend, sizeof(m->backend),
	    text_is_clean(run->backend) ? run->backend : "?");
	return m;
}

/* --- The file --- */

static int
complain(const struct metrics *m, const char *what, int error, char *text,
    size_t size)
{
	snprintf(text, size, "cannot write metrics: %s '%.300s': %s%s", what,
	    m->run->metrics, strerror(error),
	    error == ENOENT || error == ENOTDIR ? "; make the directory first" :
	    error == EACCES || error == EPERM ? "; give the user that runs the "
	    "job the right to write in its directory and to read it, or name "
	    "another file" :
	    "");
	errno = error;
	return -1;
}

static void
full(const struct metrics *m, char *text, size_t size)
{
	snprintf(text, size, "cannot write metrics: no more jobs fit into "
	    "'%.300s'; name another file for some of them", m->run->metrics);
	errno = EOVERFLOW;
}

static int
path_beside(const struct metrics *m, const char *suffix, char path[PATH_MAX])
{
	int n = snprintf(path, PATH_MAX, "%s%s", m->run->metrics, suffix);

	if (n >= 0 && n < PATH_MAX)
		return 0;
	errno = ENAMETOOLONG;
	return -1;
}

/* A lock needs no right to write, so that users can share the file. */
static int
open_lock(const struct metrics *m)
{
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (path_beside(m, ".lock", path) == -1)
		return -1;
	fd = open(path, O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK |
	    O_CLOEXEC, 0644);
	/* Whatever the umask of the first one was. */
	if (fd != -1 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_uid == geteuid() && (st.st_mode & 0444) != 0444)
		fchmod(fd, 0644);
	return fd;
}

static int
lock(const struct metrics *m)
{
	int64_t until = time_add(now_ns(), LOCK_PATIENCE);
	int fd, error;

	if ((fd = open_lock(m)) == -1)
		return -1;
	while (flock(fd, LOCK_EX | LOCK_NB) == -1) {
		error = errno;
		if (error == EINTR)
			continue;
		if (error != EWOULDBLOCK || now_ns() >= until) {
			close(fd);
			errno = error;
			return -1;
		}
		poll(NULL, 0, LOCK_POLL_MS);
	}
	return fd;
}

/* The whole of it, malloc'd; "" when there is none yet. */
static char *
read_text(int fd, size_t size)
{
	char *text = malloc(size + 1);
	size_t used = 0;
	ssize_t n = 1;

	while (text != NULL && used < size && n > 0) {
		n = read(fd, text + used, size - used);
		if (n > 0)
			used += (size_t)n;
	}
	if (text == NULL || n == -1) {
		free(text);
		return NULL;
	}
	text[used] = '\0';
	return text;
}

static int
load(const struct metrics *m, struct prom_set *set, char *error, size_t size)
{
	struct stat st = { .st_mode = 0 };
	char *text;
	size_t line;
	int fd;

	fd = open(m->run->metrics, O_RDONLY | O_NOFOLLOW | O_NONBLOCK |
	    O_CLOEXEC);
	if (fd == -1 && errno == ENOENT)
		return 0;
	if (fd == -1)
		return complain(m, "cannot read", errno, error, size);
	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode) ||
	    st.st_size > SIZE_MAX_READ) {
		close(fd);
		snprintf(error, size, "cannot write metrics: '%.300s' is %s, "
		    "and is left alone; move it away", m->run->metrics,
		    S_ISREG(st.st_mode) ? "too large for a file of metrics" :
		    "not a regular file");
		errno = EFBIG;
		return -1;
	}
	text = read_text(fd, (size_t)st.st_size);
	close(fd);
	if (text == NULL)
		return complain(m, "cannot read", EIO, error, size);
	line = strlen(text) == (size_t)st.st_size ? prom_read(set, text) : 1;
	free(text);
	if (line == 0)
		return 0;
	snprintf(error, size, "cannot write metrics: '%.300s' is damaged or "
	    "not a file of leaserun (line %zu), and is left alone; move it "
	    "away", m->run->metrics, line);
	errno = EEXIST;
	return -1;
}

static int
store(const struct metrics *m, const struct prom_set *set)
{
	char path[PATH_MAX];
	FILE *f = NULL;
	int fd, error;

	/* Under the lock, what is there is of one who died. */
	if (path_beside(m, ".tmp", path) == -1 ||
	    (unlink(path) == -1 && errno != ENOENT))
		return -1;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	    0644);
	if (fd == -1)
		return -1;
	if (fchmod(fd, 0644) == 0 && (f = fdopen(fd, "w")) != NULL &&
	    prom_write(set, f)) {
		/* One that could not be read again would be the last. */
		if (ftell(f) > SIZE_MAX_READ)
			errno = EOVERFLOW;
		else if (rename(path, m->run->metrics) == 0) {
			fclose(f);
			return 0;
		}
	}
	error = errno;
	if (f != NULL)
		fclose(f);
	else
		close(fd);
	unlink(path);
	errno = error;
	return -1;
}

static void
merge(struct metrics *m, struct prom_job *job)
{
	size_t i;

	for (i = 0; i < PROM_COUNTERS; i++) {
		if (m->is_set[i])
			job->values[i] = m->pending[i];
	}
	for (; i < PROM_VALUES; i++)
		job->values[i] += m->pending[i];
}

static int
flush(struct metrics *m, char *error, size_t size)
{
	struct prom_set set = { NULL, 0, 0 };
	struct prom_job *job;
	int fd, rc = -1;

	if ((fd = lock(m)) == -1)
		return complain(m, errno == EWOULDBLOCK ?
		    "another run keeps the lock of" : "cannot lock", errno,
		    error, size);
	if (load(m, &set, error, size) == -1)
		goto out;
	job = prom_job(&set, m->run->name, m->backend);
	if (job == NULL) {
		full(m, error, size);
		goto out;
	}
	merge(m, job);
	if (store(m, &set) == -1) {
		if (errno == EOVERFLOW)
			full(m, error, size);
		else
			complain(m, "cannot replace", errno, error, size);
		goto out;
	}
	memset(m->pending, 0, sizeof(m->pending));
	memset(m->is_set, 0, sizeof(m->is_set));
	m->written_at = now_ns();
	rc = 0;
out:
	prom_free(&set);
	close(fd);
	return rc;
}

static bool
is_wrong_path(int error)
{
	return error == ENOENT || error == ENOTDIR || error == EACCES ||
	    error == EPERM || error == ELOOP || error == ENAMETOOLONG ||
	    error == EISDIR;
}

int
metrics_check(struct metrics *m, char *error, size_t size)
{
	char path[PATH_MAX], *slash;
	struct stat st;
	int fd, saved;

	if (lstat(m->run->metrics, &st) == 0 && !S_ISREG(st.st_mode)) {
		snprintf(error, size, "cannot write metrics: '%.300s' is not a "
		    "regular file; name another one", m->run->metrics);
		return -1;
	}
	if ((fd = open_lock(m)) == -1)
		goto bad;
	close(fd);
	/* The lock may be there already; the rest needs the directory. */
	path_beside(m, "", path);
	if ((slash = strrchr(path, '/')) == NULL)
		strcpy(path, ".");
	else
		slash[slash == path] = '\0';
	if (faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) == 0)
		return 0;
bad:
	saved = errno;
	complain(m, "cannot make a file beside", saved, error, size);
	return is_wrong_path(saved) ? -1 : 1;
}

/* --- The numbers --- */

static void
set_gauge(struct metrics *m, enum prom_value at, double number)
{
	m->pending[at] = number;
	m->is_set[at] = true;
}

static double
seconds(int64_t ns)
{
	return (double)(ns / NS_PER_MS) / 1000;
}

/* Events carry what was counted in the whole run. */
static void
note_counts(struct metrics *m, const struct report_event *event)
{
	if (event->renewals > m->renewals)
		m->pending[PROM_RENEWALS] +=
		    (double)(event->renewals - m->renewals);
	if (event->failures > m->failures)
		m->pending[PROM_FAILURES] +=
		    (double)(event->failures - m->failures);
	m->renewals = event->renewals;
	m->failures = event->failures;
	set_gauge(m, PROM_GAP, seconds(event->gap_ns));
}

static void
note_expiry(struct metrics *m, const struct report_event *event)
{
	set_gauge(m, PROM_EXPIRY, event->left_ns < 0 ? NAN :
	    (double)(event->unix_ms + event->left_ns / NS_PER_MS) / 1000);
}

static void
note_start(struct metrics *m, const struct report_event *event)
{
	set_gauge(m, PROM_HELD, 1);
	set_gauge(m, PROM_START, (double)event->unix_ms / 1000);
	set_gauge(m, PROM_WAIT, seconds(event->waited_ns));
	set_gauge(m, PROM_TTL, event->ttl_ns == 0 ? NAN :
	    seconds(event->ttl_ns));
	set_gauge(m, PROM_GAP, 0);
	note_expiry(m, event);
}

static void
note_end(struct metrics *m, const struct report_event *event)
{
	double now = (double)event->unix_ms / 1000;

	note_counts(m, event);
	set_gauge(m, PROM_HELD, 0);
	set_gauge(m, PROM_EXPIRY, NAN);
	set_gauge(m, PROM_END, now);
	set_gauge(m, PROM_DURATION, event->ran_ns < 0 ? NAN :
	    seconds(event->ran_ns));
	set_gauge(m, PROM_STATUS, event->status < 0 ? NAN :
	    (double)event->status);
	if (event->outcome == OUTCOME_SUCCESS)
		set_gauge(m, PROM_SUCCESS, now);
	m->pending[PROM_RUNS + (int)event->outcome]++;
}

static void
note_skip(struct metrics *m, const struct report_event *event)
{
	bool is_known = event->has_other && event->other.held_for_ms >= 0;

	set_gauge(m, PROM_SKIP, (double)event->unix_ms / 1000);
	set_gauge(m, PROM_SKIP_HELD, is_known ?
	    (double)event->other.held_for_ms / 1000 : NAN);
	m->pending[PROM_SKIPS + (int)event->refusal]++;
}

int
metrics_note(struct metrics *m, const struct report_event *event, char *error,
    size_t size)
{
	switch (event->type) {
	case EVENT_ACQUIRED:
		note_start(m, event);
		break;
	case EVENT_TOOK_OVER:
		m->pending[PROM_TAKEOVERS]++;
		break;
	case EVENT_REVOKED:
		m->pending[PROM_LOSSES + LOSS_REVOKED]++;
		break;
	case EVENT_LOST:
		note_counts(m, event);
		set_gauge(m, PROM_HELD, 0);
		m->pending[PROM_LOSSES + (int)event->loss]++;
		break;
	case EVENT_END:
		note_end(m, event);
		break;
	case EVENT_DONE:
	case EVENT_NOT_RUN:
		note_skip(m, event);
		break;
	case EVENT_RENEWED:
	case EVENT_BEAT:
		note_expiry(m, event);
		/* FALLTHROUGH */
	case EVENT_RENEW_FAILED:
		note_counts(m, event);
		if (now_ns() - m->written_at < BEAT_EVERY)
			return 0;
		break;
	default:
		return 0;
	}
	return flush(m, error, size);
}
