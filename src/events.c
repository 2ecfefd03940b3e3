/*
 * Makes a line of JSON of an event and appends it.  The file is opened for each
 * line, so that logrotate(8) needs to tell nobody; must never wait for a reader
 * and never leave half a line.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "events.h"
#include "holder.h"
#include "name.h"
#include "timeutil.h"
#include "util.h"

struct events {
	const struct report_run *run;
	char		 host[LEASERUN_HOST_SIZE];
	pid_t		 pid;
	uint64_t	 dropped;	/* since the last line */
	uint64_t	 total;
};

struct events *
events_open(const struct report_run *run, pid_t keeper)
{
	struct events *e = xcalloc(1, sizeof(*e));

	e->run = run;
	e->pid = keeper;
	gethostname(e->host, sizeof(e->host) - 1);
	return e;
}

uint64_t
events_dropped(const struct events *e)
{
	return e->total;
}

/* --- The line --- */

/* What is not UTF-8 without controls loses what is not plain ASCII. */
static void
put_text(json_t *o, const char *key, const char *text)
{
	char clean[1024];
	char *p;

	text_copy(clean, sizeof(clean), text);
	if (!text_is_clean(clean)) {
		for (p = clean; *p != '\0'; p++) {
			if (*p < ' ' || *p > '~')
				*p = '?';
		}
	}
	json_object_set_new(o, key, *clean == '\0' ? json_null() :
	    json_string(clean));
}

static void
put_number(json_t *o, const char *key, int64_t number, bool is_known)
{
	json_object_set_new(o, key, is_known ? json_integer(number) :
	    json_null());
}

static void
put_ms(json_t *o, const char *key, int64_t ns)
{
	put_number(o, key, ns / NS_PER_MS, ns >= 0);
}

/* RFC 3339 in UTC. */
static void
put_time(json_t *o, int64_t ms)
{
	time_t seconds = (time_t)(ms / 1000);
	char text[64], whole[80];
	struct tm tm;

	if (gmtime_r(&seconds, &tm) == NULL)
		memset(&tm, 0, sizeof(tm));
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(whole, sizeof(whole), "%s.%03dZ", text, (int)(ms % 1000));
	put_text(o, "time", whole);
}

static void
put_other(json_t *o, const char *key, const struct report_event *event)
{
	const struct leaserun_entry *other = &event->other;
	json_t *h;

	if (!event->has_other)
		return;
	h = json_object();
	put_text(h, "label", other->label);
	put_text(h, "host", other->host);
	put_number(h, "pid", other->pid, other->pid > 0);
	/* Of one that is not recorded yet it is the last one's. */
	put_number(h, "token", (int64_t)other->token, other->token > 0 &&
	    holder_is_known(other));
	if (event->type != EVENT_TOOK_OVER) {
		put_number(h, "held_for_ms", other->held_for_ms,
		    other->held_for_ms >= 0);
		put_number(h, "expires_in_ms", other->expires_in_ms,
		    other->expires_in_ms >= 0);
	}
	json_object_set_new(o, key, h);
}

static void
put_counts(json_t *o, const struct report_event *event)
{
	put_number(o, "renewals", (int64_t)event->renewals, true);
	put_number(o, "failures", (int64_t)event->failures, true);
	put_ms(o, "longest_gap_ms", event->gap_ns);
}

static void
put_loss(json_t *o, const struct report_event *event)
{
	put_text(o, "reason", loss_name(event->loss));
	put_text(o, "detail", loss_text(event->loss));
	if (event->loss == LOSS_OWN_PAUSE)
		put_ms(o, "paused_ms", event->paused_ns);
	if (event->error[0] != '\0')
		put_text(o, "error", event->error);
	put_counts(o, event);
}

static void
put_refusal(json_t *o, const struct report_event *event)
{
	put_text(o, "reason", report_refusal_name(event->refusal));
	put_number(o, "status", event->status, event->status >= 0);
	put_ms(o, "waited_ms", event->waited_ns);
	if (event->error[0] != '\0')
		put_text(o, "error", event->error);
	put_other(o, "holder", event);
}

static void
put_end(json_t *o, const struct report_event *event)
{
	put_text(o, "outcome", report_outcome_name(event->outcome));
	put_number(o, "status", event->status, event->status >= 0);
	put_ms(o, "ran_ms", event->ran_ns);
	put_ms(o, "waited_ms", event->waited_ns);
	put_counts(o, event);
}

static void
put_details(json_t *o, const struct report_event *event)
{
	switch (event->type) {
	case EVENT_ACQUIRED:
		put_ms(o, "waited_ms", event->waited_ns);
		break;
	case EVENT_BUSY:
		put_other(o, "holder", event);
		break;
	case EVENT_TOOK_OVER:
		put_other(o, "previous", event);
		break;
	case EVENT_RENEW_FAILED:
		put_text(o, "error", event->error);
		put_ms(o, "left_ms", event->left_ns);
		break;
	case EVENT_RENEWED:
		put_counts(o, event);
		break;
	case EVENT_LOST:
		put_loss(o, event);
		break;
	case EVENT_TERM:
	case EVENT_KILL:
		put_text(o, "reason", event->reason);
		break;
	case EVENT_RELEASE_FAILED:
		put_text(o, "error", event->error);
		break;
	case EVENT_DONE:
	case EVENT_NOT_RUN:
		put_refusal(o, event);
		break;
	case EVENT_END:
		put_end(o, event);
		break;
	default:
		break;
	}
}

char *
events_line(const struct events *e, const struct report_event *event)
{
	uint64_t dropped = e->dropped + event->dropped;
	json_t *o = json_object();
	char *line;

	put_time(o, event->unix_ms);
	put_text(o, "event", report_event_name(event->type));
	put_text(o, "name", e->run->name);
	put_text(o, "label", e->run->label);
	put_text(o, "host", e->host);
	put_number(o, "pid", e->pid, true);
	put_text(o, "run_id", e->run->run_id);
	put_text(o, "backend", e->run->backend);
	put_number(o, "token", (int64_t)event->token, event->token > 0);
	put_ms(o, "ttl_ms", event->ttl_ns > 0 ? event->ttl_ns : -1);
	put_details(o, event);
	if (dropped > 0)
		put_number(o, "dropped", (int64_t)dropped, true);
	line = json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER);
	json_decref(o);
	return line;
}

/* --- The file --- */

/* What may pass by itself does not keep a job from running. */
static bool
may_pass(int error)
{
	return error == ENOSPC || error == EDQUOT || error == EIO ||
	    error == ENXIO || error == EROFS || error == ESTALE ||
	    error == ETIMEDOUT || error == EMFILE || error == ENFILE ||
	    error == ENOMEM || error == EAGAIN || error == EHOSTDOWN ||
	    error == EINTR;
}

static const char *
hint(int error)
{
	switch (error) {
	case ENOENT:
	case ENOTDIR:
		return "; make the directory first";
	case EACCES:
	case EPERM:
		return "; give the user that runs the job the right to write "
		    "there, or name another file";
	case ELOOP:
		return "; it is a symbolic link, name the file itself";
	case ENXIO:
		return "; nobody reads it yet, and events are dropped till "
		    "then";
	case EISDIR:
		return "; name a file";
	default:
		return "";
	}
}

/* Never through a link, never a device that something else listens on. */
static int
open_file(const struct events *e)
{
	struct stat st;
	int fd;

	fd = open(e->run->events, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK |
	    O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0640);
	if (fd == -1)
		return -1;
	if (fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) ||
	    S_ISFIFO(st.st_mode)))
		return fd;
	close(fd);
	errno = EMEDIUMTYPE;
	return -1;
}

static int
complain(const struct events *e, int error, char *text, size_t size)
{
	if (error == EMEDIUMTYPE)
		snprintf(text, size, "cannot write events to '%.300s': neither "
		    "a file nor a FIFO", e->run->events);
	else
		snprintf(text, size, "cannot write events to '%.300s': %s%s",
		    e->run->events, strerror(error), hint(error));
	return -1;
}

int
events_check(struct events *e, char *error, size_t size)
{
	int fd = open_file(e), saved = errno;

	if (fd != -1) {
		close(fd);
		return 0;
	}
	complain(e, saved, error, size);
	return may_pass(saved) ? 1 : -1;
}

/* All of it or nothing: half a line would spoil the next one as well. */
static int
append(int fd, const char *line, size_t len)
{
	ssize_t n;
	struct stat st;
	off_t end;

	n = write(fd, line, len);
	if (n == (ssize_t)len)
		return 0;
	if (n == -1)
		return -1;
	end = lseek(fd, 0, SEEK_CUR);
	if (end == -1 || fstat(fd, &st) == -1 || st.st_size != end ||
	    ftruncate(fd, end - n) == -1) {
		errno = EIO;
		return -1;
	}
	errno = ENOSPC;
	return -1;
}

int
events_write(struct events *e, const struct report_event *event, char *error,
    size_t size)
{
	char *line = events_line(e, event);
	int fd = -1, rc = -1, saved = ENOMEM;
	size_t len;

	e->total += event->dropped;
	if (line == NULL)
		goto out;
	/* The NUL becomes the end of the line. */
	len = strlen(line);
	line[len] = '\n';
	if ((fd = open_file(e)) != -1)
		rc = append(fd, line, len + 1);
	saved = errno;
out:
	if (rc == 0)
		e->dropped = 0;
	else {
		e->dropped += event->dropped + 1;
		e->total++;
		complain(e, saved, error, size);
	}
	if (fd != -1)
		close(fd);
	free(line);
	return rc;
}
