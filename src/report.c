/*
 * The keeper's side of the reports: fills in events and hands them to the
 * writer.  Must never block while a lease is held, and never fail a job.
 */
#include <sys/socket.h>
#include <sys/wait.h>

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "report.h"
#include "timeutil.h"
#include "util.h"
#include "writer.h"

/* How long a file system may take at the start, and at the end. */
#define OPEN_PATIENCE	NS_PER_S
#define CLOSE_PATIENCE	(NS_PER_S / 2)

static const char *const event_names[EVENT_TYPES] = {
	"busy", "acquired", "took_over", "renew_failed", "renewed", "revoked",
	"lost", "term", "kill", "released", "release_failed", "done",
	"not_run", "end", "beat"
};

static const char *const refusal_names[REFUSALS] = {
	"held", "blocked", "outer_run", "unavailable", "denied",
	"misconfigured", "interrupted", "internal", "done", "died"
};

static const char *const outcome_names[OUTCOMES] = {
	"success", "failure", "lost", "revoked", "max_run", "not_started",
	"internal", "died"
};

const char *
report_event_name(enum report_type type)
{
	return event_names[type];
}

const char *
report_refusal_name(enum report_refusal refusal)
{
	return refusal_names[refusal];
}

const char *
report_outcome_name(enum report_outcome outcome)
{
	return outcome_names[outcome];
}

/*
 * The writer is the child of a child that is gone, so that it is none of ours:
 * no child of the keeper but the guard and the job's is to be waited for.
 */
static int
start_writer(struct report *report, const struct report_run *run)
{
	int fds[2], error;
	pid_t pid, keeper = getpid();

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == -1)
		return -1;
	if ((pid = fork()) == 0) {
		close(fds[0]);
		pid = fork();
		if (pid == 0)
			writer_run(fds[1], run, keeper);
		_exit(pid == -1 ? errno : 0);
	}
	error = errno;
	close(fds[1]);
	if (pid != -1) {
		while (waitpid(pid, &error, 0) == -1 && errno == EINTR)
			;
		error = WEXITSTATUS(error);
	}
	if (pid == -1 || error != 0) {
		close(fds[0]);
		errno = error;
		return -1;
	}
	report->socket = fds[0];
	return 0;
}

/* What the writer says, until it is ready or gone.  Its last word. */
static enum writer_word
hear(const struct report *report, int64_t patience)
{
	struct pollfd p = { .fd = report->socket, .events = POLLIN };
	int64_t until = time_add(now_ns(), patience), left;
	struct writer_reply reply;
	ssize_t n;

	for (;;) {
		left = (time_later(0, until - now_ns()) + NS_PER_MS - 1) /
		    NS_PER_MS;
		if (poll(&p, 1, (int)left) == -1 && errno == EINTR)
			continue;
		n = recv(report->socket, &reply, sizeof(reply), MSG_DONTWAIT);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN)
			return WRITER_SILENT;
		if (n != (ssize_t)sizeof(reply))
			return WRITER_GONE;
		if (reply.word == WRITER_READY)
			return WRITER_READY;
		reply.text[sizeof(reply.text) - 1] = '\0';
		if (reply.word == WRITER_REFUSES) {
			log_error("%s", reply.text);
			return WRITER_REFUSES;
		}
		log_warning("%s", reply.text);
	}
}

int
report_open(struct report *report, const struct report_run *run)
{
	memset(report, 0, sizeof(*report));
	report->socket = -1;
	if (run->events == NULL && run->metrics == NULL)
		return 0;
	if (start_writer(report, run) == -1) {
		log_warning("no events and no metrics: cannot start a process "
		    "to write them: %s%s", strerror(errno), limit_hint(errno));
		return 0;
	}
	report->beats = run->metrics != NULL;
	switch (hear(report, OPEN_PATIENCE)) {
	case WRITER_REFUSES:
		report_leave(report);
		return EXIT_CONFIG;
	case WRITER_SILENT:
		log_warning("the file of --events or --metrics does not answer "
		    "yet; the run does not wait for it");
		break;
	case WRITER_GONE:
		log_warning("no events and no metrics: their process has "
		    "ended");
		report_leave(report);
		break;
	default:
		break;
	}
	return 0;
}

void
report_leave(struct report *report)
{
	if (report->socket != -1)
		close(report->socket);
	report->socket = -1;
}

void
report_close(struct report *report)
{
	if (report->socket == -1)
		return;
	shutdown(report->socket, SHUT_WR);
	if (hear(report, CLOSE_PATIENCE) == WRITER_SILENT)
		log_warning("events or metrics are still being written");
	report_leave(report);
}

struct report_event
report_event(const struct report *report, enum report_type type)
{
	struct report_event event;

	memset(&event, 0, sizeof(event));
	event.type = type;
	event.status = -1;
	event.left_ns = event.ran_ns = -1;
	if (report == NULL)
		return event;
	event.token = report->token;
	event.ttl_ns = report->ttl_ns;
	event.waited_ns = report->waited_ns;
	event.gap_ns = report->gap_ns;
	event.renewals = report->renewals;
	event.failures = report->failures;
	return event;
}

void
report_send(struct report *report, struct report_event *event)
{
	struct timespec ts;
	bool sent;

	if (report->socket == -1 ||
	    (event->type == EVENT_BEAT && !report->beats))
		goto out;
	clock_gettime(CLOCK_REALTIME, &ts);
	event->unix_ms = (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / NS_PER_MS;
	event->dropped = report->dropped;
	sent = send(report->socket, event, sizeof(*event),
	    MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*event);
	/* A beat is no line that could say how many are missing. */
	if (event->type != EVENT_BEAT)
		report->dropped = sent ? 0 : report->dropped + 1;
	if (hear(report, 0) == WRITER_GONE) {
		log_warning("events and metrics end here: their process has "
		    "ended");
		report_leave(report);
	}
out:
	if (event->type != EVENT_BEAT)
		log_event(event_names[event->type], event->token);
}

void
report_plain(struct report *report, enum report_type type, const char *error)
{
	struct report_event event = report_event(report, type);

	if (error != NULL)
		text_copy(event.error, sizeof(event.error), error);
	report_send(report, &event);
}

void
report_other(struct report *report, enum report_type type,
    const struct leaserun_entry *other)
{
	struct report_event event = report_event(report, type);

	event.has_other = true;
	event.other = *other;
	report_send(report, &event);
}

void
report_refusal(struct report *report, enum report_refusal refusal, int status,
    const struct leaserun_entry *holder, const char *error)
{
	struct report_event event = report_event(report,
	    refusal == REFUSED_DONE ? EVENT_DONE : EVENT_NOT_RUN);

	event.refusal = refusal;
	event.status = status;
	if (refusal == REFUSED_HELD || refusal == REFUSED_BLOCKED ||
	    refusal == REFUSED_OUTER) {
		event.has_other = holder != NULL;
		if (holder != NULL)
			event.other = *holder;
	} else if (refusal != REFUSED_DONE && refusal != REFUSED_INTERRUPTED)
		text_copy(event.error, sizeof(event.error), error);
	report_send(report, &event);
}

void
report_refused(struct report *report, int status)
{
	report_refusal(report, status == EXIT_CONFIG ? REFUSED_MISCONFIGURED :
	    REFUSED_INTERNAL, status, NULL, "");
}
