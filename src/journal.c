/*
 * Speaks to the systemd journal without its library.  Must never block.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "journal.h"

#define JOURNAL_PATH	"/run/systemd/journal/socket"

int
journal_open(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd;

	strcpy(sun.sun_path, JOURNAL_PATH);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd != -1 && connect(fd, (struct sockaddr *)&sun,
	    sizeof(sun)) == -1) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* "KEY=value\n", or nothing when there is no room for all of it. */
static size_t
put(char *buf, size_t size, size_t used, const char *key, const char *value)
{
	size_t k = strlen(key), v;
	const char *p;

	if (value == NULL)
		return used;
	v = strlen(value);
	if (size - used < k + v + 2)
		return used;
	memcpy(buf + used, key, k);
	used += k;
	buf[used++] = '=';
	/* A line break would begin another field. */
	for (p = value; *p != '\0'; p++)
		buf[used++] = *p == '\n' ? ' ' : *p;
	buf[used++] = '\n';
	return used;
}

size_t
journal_format(char *buf, size_t size, int priority, const char *message,
    const struct journal_fields *fields)
{
	char number[32];
	size_t used = 0;

	used = put(buf, size, used, "MESSAGE", message);
	snprintf(number, sizeof(number), "%d", priority);
	used = put(buf, size, used, "PRIORITY", number);
	snprintf(number, sizeof(number), "%d", LOG_DAEMON >> 3);
	used = put(buf, size, used, "SYSLOG_FACILITY", number);
	used = put(buf, size, used, "SYSLOG_IDENTIFIER", "leaserun");
	snprintf(number, sizeof(number), "%ld", (long)getpid());
	used = put(buf, size, used, "SYSLOG_PID", number);
	used = put(buf, size, used, "LEASERUN_NAME", fields->name);
	used = put(buf, size, used, "LEASERUN_OWNER", fields->owner);
	used = put(buf, size, used, "LEASERUN_RUN_ID", fields->run_id);
	used = put(buf, size, used, "LEASERUN_EVENT", fields->event);
	snprintf(number, sizeof(number), "%" PRIu64, fields->token);
	return put(buf, size, used, "LEASERUN_TOKEN", fields->token == 0 ?
	    NULL : number);
}
