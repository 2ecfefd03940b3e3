/*
 * Writes messages to standard error or to the system log, and to the former
 * while the latter is not there.  Must never block, and never change the flags
 * of a description that the job shares.
 */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "journal.h"
#include "log.h"
#include "util.h"

/* Within what a pipe takes in one piece. */
#define LINE_SIZE	2048

static enum log_level level = LOG_LEVEL_WARNING;
static int terminal = -1;		/* standard error */
static int system_log = -1;		/* the journal, or /dev/log */
static bool wants_syslog, to_socket, to_journal, must_poll;
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

	terminal = STDERR_FILENO;
	if (fstat(STDERR_FILENO, &st) == -1)
		return;
	to_socket = S_ISSOCK(st.st_mode);
	if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
		return;
	terminal = open("/proc/self/fd/2",
	    O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (terminal == -1) {
		terminal = STDERR_FILENO;
		must_poll = true;
	}
}

static void
open_syslog(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	system_log = journal_open();
	to_journal = system_log != -1;
	if (to_journal)
		return;
	strcpy(sun.sun_path, "/dev/log");
	system_log = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    0);
	if (system_log != -1 && connect(system_log, (struct sockaddr *)&sun,
	    sizeof(sun)) == -1) {
		close(system_log);
		system_log = -1;
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
	struct pollfd p = { .fd = terminal, .events = POLLOUT };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) != 0;
}

/* A system log that was not there may be by now. */
static void
open_sink(void)
{
	if (wants_syslog && system_log == -1)
		open_syslog();
	if (system_log == -1 && terminal == -1)
		open_stderr();
}

static bool
send_line(const char *line, size_t len)
{
	ssize_t n = send(system_log, line, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n == -1 && errno != EAGAIN) {
		/* The daemon was restarted, or is gone. */
		close(system_log);
		system_log = -1;
	}
	return n == (ssize_t)len;
}

/*
 * Into a pipe that nobody reads any more, or beyond the limit of a file: what
 * is to be said is lost, but not the exit status, nor the command that is yet
 * to run.  There is no flag for it.
 */
static ssize_t
write_quietly(const char *line, size_t len)
{
	static const struct timespec at_once;
	sigset_t both, one, saved, before;
	ssize_t n;
	int signo;

	sigemptyset(&both);
	sigaddset(&both, SIGPIPE);
	sigaddset(&both, SIGXFSZ);
	sigprocmask(SIG_BLOCK, &both, &saved);
	sigpending(&before);
	n = write(terminal, line, len);
	signo = n != -1 ? 0 : errno == EPIPE ? SIGPIPE :
	    errno == EFBIG ? SIGXFSZ : 0;
	if (signo != 0 && !sigismember(&before, signo)) {
		sigemptyset(&one);
		sigaddset(&one, signo);
		sigtimedwait(&one, NULL, &at_once);
	}
	sigprocmask(SIG_SETMASK, &saved, NULL);
	return n;
}

static bool
write_line(const char *line, size_t len)
{
	ssize_t n;

	if (to_socket)
		n = send(terminal, line, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	else if (must_poll && !has_room())
		n = -1;
	else
		n = write_quietly(line, len);
	return n == (ssize_t)len;
}

/* Behind a prefix, of so many bytes in line; returns how many there are. */
static size_t
put_behind(char *line, int prefix, const char *text)
{
	size_t len = prefix < 0 ? 0 : (size_t)prefix;

	text_copy(line + len, LINE_SIZE - 1 - len, text);
	return strlen(line);
}

/* The text as the sink wants it: a line, or the journal's fields. */
static bool
put_once(int priority, const char *text)
{
	char line[LINE_SIZE + 1024];
	size_t len;

	open_sink();
	if (system_log == -1) {
		len = put_behind(line, snprintf(line, LINE_SIZE, "leaserun: "),
		    text);
		line[len++] = '\n';
		return write_line(line, len);
	}
	if (to_journal)
		len = journal_format(line, sizeof(line), priority, text,
		    &about);
	else
		len = put_behind(line, snprintf(line, LINE_SIZE,
		    "<%d>leaserun[%ld]: ", LOG_DAEMON | priority,
		    (long)getpid()), text);
	return send_line(line, len);
}

/* Once more when the system log has just turned out to be gone. */
static bool
put_text(int priority, const char *text)
{
	return put_once(priority, text) || (wants_syslog &&
	    system_log == -1 && put_once(priority, text));
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
		text_escape(text);
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
