/*
 * Writes messages to standard error or to the system log.  Must never block,
 * and never change the flags of a description that the job shares.
 */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "journal.h"
#include "log.h"
#include "util.h"

/* Within what a pipe takes in one piece. */
#define LINE_SIZE	2048

static enum log_level level = LOG_LEVEL_WARNING;
static int sink = -1;
static bool to_socket, to_syslog, to_journal, must_poll;
static bool wants_syslog;	/* standard error is for want of it */
static unsigned long dropped;
static struct journal_fields about;	/* the event: of the next message */

enum log_level
log_level(void)
{
	return level;
}

/*
 * A description of our own for a pipe or a terminal, so that it can be
 * nonblocking.  A file is written through the shared one, which has the right
 * offset and does not block; where a new one is refused we ask for room first.
 */
static void
open_stderr(void)
{
	struct stat st;

	sink = STDERR_FILENO;
	if (fstat(STDERR_FILENO, &st) == -1)
		return;
	to_socket = S_ISSOCK(st.st_mode);
	if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
		return;
	sink = open("/proc/self/fd/2",
	    O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (sink == -1) {
		sink = STDERR_FILENO;
		must_poll = true;
	}
}

static void
open_syslog(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	sink = journal_open();
	to_journal = sink != -1;
	if (to_journal)
		return;
	strcpy(sun.sun_path, "/dev/log");
	sink = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sink != -1 && connect(sink, (struct sockaddr *)&sun,
	    sizeof(sun)) == -1) {
		close(sink);
		sink = -1;
	}
}

void
log_about(const char *name, const char *owner, const char *run_id)
{
	about.name = name;
	about.owner = owner;
	about.run_id = run_id;
}

void
log_event(const char *event, uint64_t token)
{
	about.event = event;
	if (token != 0)
		about.token = token;
}

int
log_open(const char *target, enum log_level wanted)
{
	level = wanted;
	if (strcmp(target, "stderr") == 0)
		return 0;
	if (strcmp(target, "syslog") != 0)
		return -1;
	wants_syslog = true;
	return 0;
}

static bool
has_room(void)
{
	struct pollfd p = { .fd = sink, .events = POLLOUT };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) != 0;
}

static void
close_sink(void)
{
	if (sink != STDERR_FILENO && sink != -1)
		close(sink);
	sink = -1;
	to_syslog = to_journal = to_socket = must_poll = false;
}

/* Without a log daemon, as in most containers, somebody should see it still. */
static void
open_sink(void)
{
	if (wants_syslog && !to_syslog) {
		close_sink();
		open_syslog();
		to_syslog = sink != -1;
	}
	if (sink == -1)
		open_stderr();
}

static bool
put_line(const char *line, size_t len)
{
	ssize_t n;

	if (sink == -1)
		return false;
	if (to_socket || to_syslog)
		n = send(sink, line, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	else if (must_poll && !has_room())
		n = -1;
	else
		n = write(sink, line, len);
	/* The daemon was restarted, or is gone. */
	if (n == -1 && to_syslog && errno != EAGAIN)
		close_sink();
	return n == (ssize_t)len;
}

/* What came from a store or a name must not move the reader's cursor. */
static void
escape(char *text)
{
	unsigned char *p = (unsigned char *)text;

	for (; *p != '\0'; p++) {
		if (*p < ' ' || *p == 0x7f)
			*p = '?';
		else if (*p == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f)
			p[0] = p[1] = '?';	/* C1 controls in UTF-8 */
	}
}

static size_t
prefix(char *line, size_t size, int priority)
{
	int n;

	if (to_syslog)
		n = snprintf(line, size, "<%d>leaserun[%ld]: ",
		    LOG_DAEMON | priority, (long)getpid());
	else
		n = snprintf(line, size, "leaserun: ");
	return n < 0 ? 0 : (size_t)n;
}

/* The text as the sink wants it: a line, or the journal's fields. */
static bool
put_text(int priority, const char *text)
{
	char line[LINE_SIZE + 1024];
	bool again;
	size_t len;

	do {
		again = to_syslog;
		open_sink();
		if (to_journal)
			len = journal_format(line, sizeof(line), priority,
			    text, &about);
		else {
			len = prefix(line, LINE_SIZE, priority);
			text_copy(line + len, LINE_SIZE - 1 - len, text);
			len = strlen(line);
			if (!to_syslog)
				line[len++] = '\n';
		}
		if (put_line(line, len))
			return true;
		/* Only what was open for long may be worth another try. */
	} while (again && sink == -1);
	return false;
}

static void __attribute__((format(printf, 3, 0)))
emit(enum log_level wanted, int priority, const char *fmt, va_list ap)
{
	char text[LINE_SIZE], note[64];

	if (level >= wanted &&
	    vsnprintf(text, sizeof(text), fmt, ap) >= 0) {
		if (dropped > 0) {
			snprintf(note, sizeof(note),
			    "%lu messages could not be written", dropped);
			if (put_text(LOG_WARNING, note))
				dropped = 0;
		}
		escape(text);
		if (!put_text(priority, text))
			dropped++;
	}
	about.event = NULL;
}

void
log_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit(LOG_LEVEL_ERROR, LOG_ERR, fmt, ap);
	va_end(ap);
}

void
log_warning(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit(LOG_LEVEL_WARNING, LOG_WARNING, fmt, ap);
	va_end(ap);
}

void
log_notice(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit(LOG_LEVEL_WARNING, LOG_NOTICE, fmt, ap);
	va_end(ap);
}

void
log_info(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit(LOG_LEVEL_INFO, LOG_INFO, fmt, ap);
	va_end(ap);
}

void
log_debug(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit(LOG_LEVEL_DEBUG, LOG_DEBUG, fmt, ap);
	va_end(ap);
}
