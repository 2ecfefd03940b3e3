/*
 * Writes what the keeper reports.  The only process that may block on a file
 * system; must keep nothing open that others wait for, and needs no signal: it
 * ends when the keeper does.
 */
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "events.h"
#include "metrics.h"
#include "writer.h"

#define SOCKET		3

struct writer {
	struct events	*events;	/* NULL: not wanted */
	struct metrics	*metrics;
	bool		 has_lease;
	bool		 is_over;	/* the last event was there */
	bool		 told[2];	/* that events, metrics fail */
};

static void
say(enum writer_word word, const char *text)
{
	struct writer_reply reply;

	memset(&reply, 0, sizeof(reply));
	reply.word = word;
	snprintf(reply.text, sizeof(reply.text), "%s", text);
	send(SOCKET, &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/*
 * A session of its own, so that no terminal ends it; no descriptor but the
 * socket, so that neither a lock nor a reader of our output waits for us.
 */
static void
detach(int socket)
{
	sigset_t all;
	int fd;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	prctl(PR_SET_NAME, "leaserun-report", 0, 0, 0);
	if (socket != SOCKET)
		dup2(socket, SOCKET);
	/* Not every C library has a function for it. */
	syscall(SYS_close_range, SOCKET + 1, ~0U, 0);
	for (fd = 0; fd < SOCKET; fd++)
		close(fd);
	/* The lowest number is taken: 0, 1 and 2. */
	while ((fd = open("/dev/null", O_RDWR)) != -1 && fd < 2)
		;
	if (fd > 2)
		close(fd);
}

/* Once for each file; what follows is counted. */
static void
tell(struct writer *w, int which, const char *error)
{
	if (w->told[which])
		return;
	w->told[which] = true;
	say(WRITER_WARNS, error);
}

static void
put(struct writer *w, const struct report_event *event)
{
	char error[768];

	if (w->events != NULL && event->type != EVENT_BEAT &&
	    events_write(w->events, event, error, sizeof(error)) == -1)
		tell(w, 0, error);
	if (w->metrics != NULL &&
	    metrics_note(w->metrics, event, error, sizeof(error)) == -1)
		tell(w, 1, error);
	if (event->type == EVENT_ACQUIRED)
		w->has_lease = true;
	if (event->type == EVENT_END || event->type == EVENT_DONE ||
	    event->type == EVENT_NOT_RUN)
		w->is_over = true;
}

/* The keeper was killed, or had to leave from inside a library. */
static void
put_death(struct writer *w, const struct report_event *last)
{
	struct report_event event = report_event(NULL, w->has_lease ?
	    EVENT_END : EVENT_NOT_RUN);
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	event.unix_ms = (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
	event.outcome = OUTCOME_DIED;
	event.refusal = REFUSED_DIED;
	event.token = last->token;
	event.ttl_ns = last->ttl_ns;
	event.waited_ns = last->waited_ns;
	event.renewals = last->renewals;
	event.failures = last->failures;
	event.gap_ns = last->gap_ns;
	put(w, &event);
}

static bool
prepare(struct writer *w, const struct report_run *run, pid_t keeper)
{
	char error[768];
	int rc;

	if (run->events != NULL) {
		w->events = events_open(run, keeper);
		rc = events_check(w->events, error, sizeof(error));
		if (rc == 1)
			tell(w, 0, error);
		if (rc == -1)
			goto refuse;
	}
	if (run->metrics != NULL) {
		w->metrics = metrics_open(run);
		rc = metrics_check(w->metrics, error, sizeof(error));
		if (rc == 1)
			tell(w, 1, error);
		if (rc == -1)
			goto refuse;
	}
	return true;
refuse:
	say(WRITER_REFUSES, error);
	return false;
}

void
writer_run(int socket, const struct report_run *run, pid_t keeper)
{
	static struct writer w;
	static struct report_event event, last;
	char text[96];
	ssize_t n;

	detach(socket);
	if (!prepare(&w, run, keeper))
		_exit(1);
	say(WRITER_READY, "");
	for (;;) {
		n = recv(SOCKET, &event, sizeof(event), 0);
		if (n == -1 && errno == EINTR)
			continue;
		if (n != (ssize_t)sizeof(event))
			break;
		put(&w, &event);
		last = event;
	}
	if (!w.is_over)
		put_death(&w, &last);
	if (w.events != NULL && events_dropped(w.events) > 0) {
		snprintf(text, sizeof(text), "%llu events were not written",
		    (unsigned long long)events_dropped(w.events));
		say(WRITER_WARNS, text);
	}
	_exit(0);
}
