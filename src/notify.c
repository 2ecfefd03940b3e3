/*
 * Tells the service manager.  Must never block: the path is looked up once,
 * before there is a lease, and what there is no room for is sent again later.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "notify.h"
#include "timeutil.h"
#include "util.h"

#define REPEAT_EVERY	(100 * NS_PER_MS)

/* A path, or with '@' in front a name that is in no file system. */
static socklen_t
make_address(struct sockaddr_un *sun, const char *address)
{
	size_t len = strlen(address);

	if ((address[0] != '/' && address[0] != '@') || len < 2 ||
	    len >= sizeof(sun->sun_path))
		return 0;
	memset(sun, 0, sizeof(*sun));
	sun->sun_family = AF_UNIX;
	memcpy(sun->sun_path, address, len);
	if (address[0] == '@')
		sun->sun_path[0] = '\0';	/* the length tells its end */
	else
		len++;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

static void
give_up(struct notify *n, const char *why)
{
	log_warning("--notify: the service manager is not told: %s", why);
	notify_close(n);
}

void
notify_open(struct notify *n, const char *address, bool says_ready)
{
	struct sockaddr_un sun;
	socklen_t len;

	memset(n, 0, sizeof(*n));
	n->socket = -1;
	n->says_ready = says_ready;
	if (address == NULL)
		return;
	if ((len = make_address(&sun, address)) == 0) {
		give_up(n, "NOTIFY_SOCKET is neither a path nor '@' and a "
		    "name");
		return;
	}
	n->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    0);
	if (n->socket == -1 ||
	    connect(n->socket, (struct sockaddr *)&sun, len) == -1)
		give_up(n, strerror(errno));
}

static void
send_all(struct notify *n)
{
	char text[NOTIFY_TEXT_SIZE + 64];
	int len;

	if (n->socket == -1)
		return;
	len = snprintf(text, sizeof(text), "%s%sSTATUS=%s",
	    n->owes_ready ? "READY=1\n" : "",
	    n->owes_stopping ? "STOPPING=1\n" : "", n->status);
	if (send(n->socket, text, (size_t)len,
	    MSG_DONTWAIT | MSG_NOSIGNAL) != -1)
		n->owes_ready = n->owes_stopping = n->owes_status = false;
	else if (errno != EAGAIN && errno != ENOBUFS)
		give_up(n, strerror(errno));
}

void
notify_repeat(struct notify *n)
{
	if (n->owes_ready || n->owes_stopping || n->owes_status)
		send_all(n);
}

int64_t
notify_next(const struct notify *n, int64_t now)
{
	return n->socket != -1 && (n->owes_ready || n->owes_stopping ||
	    n->owes_status) ? time_add(now, REPEAT_EVERY) : TIME_NEVER;
}

/* A line break would begin another assignment. */
static void __attribute__((format(printf, 2, 0)))
set_status(struct notify *n, const char *fmt, va_list ap)
{
	char text[2 * NOTIFY_TEXT_SIZE], cut[NOTIFY_TEXT_SIZE], *p;

	vsnprintf(text, sizeof(text), fmt, ap);
	for (p = text; *p != '\0'; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
	}
	text_copy(cut, sizeof(cut), text);
	if (strcmp(n->status, cut) != 0)
		n->owes_status = true;
	memcpy(n->status, cut, sizeof(cut));
	notify_repeat(n);
}

void
notify_status(struct notify *n, const char *fmt, ...)
{
	va_list ap;

	if (n->is_stopping)
		return;
	va_start(ap, fmt);
	set_status(n, fmt, ap);
	va_end(ap);
}

void
notify_ready(struct notify *n, const char *fmt, ...)
{
	va_list ap;

	n->owes_ready = n->says_ready;
	va_start(ap, fmt);
	set_status(n, fmt, ap);
	va_end(ap);
}

void
notify_stopping(struct notify *n, const char *fmt, ...)
{
	va_list ap;

	n->owes_stopping = !n->is_stopping;
	n->is_stopping = true;
	va_start(ap, fmt);
	set_status(n, fmt, ap);
	va_end(ap);
}

void
notify_close(struct notify *n)
{
	if (n->socket != -1)
		close(n->socket);
	n->socket = -1;
}
