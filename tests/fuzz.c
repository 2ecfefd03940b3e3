/* See fuzz.h. */
#include <sys/mman.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

#define NS_PER_MS	INT64_C(1000000)
#define NS_PER_S	INT64_C(1000000000)
#define WAITS_MAX	64

static int64_t now;
static unsigned int waits;

void
fuzz_check(bool is_right)
{
	if (!is_right)
		abort();
}

uint8_t
fuzz_byte(struct fuzz *f)
{
	if (f->size == 0)
		return 0;
	f->size--;
	return *f->data++;
}

char *
fuzz_text(struct fuzz *f, char end)
{
	const uint8_t *found = f->size == 0 ? NULL :
	    memchr(f->data, end, f->size);
	size_t n = found == NULL ? f->size : (size_t)(found - f->data);
	char *text = malloc(n + 1);

	fuzz_check(text != NULL);
	if (n > 0)
		memcpy(text, f->data, n);
	text[n] = '\0';
	f->data += n;
	f->size -= n;
	if (found != NULL)
		fuzz_byte(f);
	return text;
}

int
fuzz_file(const void *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	fuzz_check(fd != -1 && (size == 0 ||
	    pwrite(fd, data, size, 0) == (ssize_t)size));
	return fd;
}

/* --- The host --- */

static int64_t
host_now(void)
{
	return now += NS_PER_MS;
}

static enum leaserun_result
host_wait(const struct leaserun_host *host, struct pollfd *fds, unsigned int n,
    int64_t deadline)
{
	unsigned int i;

	(void)host;
	for (i = 0; i < n; i++)
		fds[i].revents = 0;
	now = deadline < now + NS_PER_S ? deadline : now + NS_PER_S;
	return ++waits % WAITS_MAX == 0 ? LEASERUN_INTERRUPTED : LEASERUN_OK;
}

static bool
host_holder(const struct leaserun_host *host, const struct leaserun_entry *e)
{
	(void)host;
	fuzz_entry(NULL, e);
	return e->token % 4 != 3;
}

static void __attribute__((format(printf, 2, 3)))
host_say(const struct leaserun_host *host, const char *fmt, ...)
{
	char text[LEASERUN_ERROR_SIZE];
	va_list ap;

	(void)host;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
}

static uint64_t
host_random(uint64_t limit)
{
	return limit == 0 ? 0 : (uint64_t)now / 1000 % limit;
}

const struct leaserun_host *
fuzz_host(void)
{
	static const struct leaserun_host host = {
		.size = sizeof(host), .version = LEASERUN_BACKEND_VERSION,
		.now = host_now, .wait = host_wait, .holder = host_holder,
		.debug = host_say, .error = host_say, .random = host_random,
	};

	/* The same for every input. */
	now = 1000 * NS_PER_S;
	waits = 0;
	return &host;
}

/* --- What is shown --- */

static void
check_text(const char *text, size_t size)
{
	fuzz_check(memchr(text, '\0', size) != NULL);
}

void
fuzz_entry(void *arg, const struct leaserun_entry *e)
{
	(void)arg;
	check_text(e->name, sizeof(e->name));
	check_text(e->owner, sizeof(e->owner));
	check_text(e->label, sizeof(e->label));
	check_text(e->host, sizeof(e->host));
	fuzz_check(e->state >= LEASERUN_FREE &&
	    e->state <= LEASERUN_UNREADABLE);
	fuzz_check(e->held_for_ms >= -1 && e->expires_in_ms >= -1 &&
	    e->waiting >= -1);
}

void
fuzz_line(void *arg, enum leaserun_verdict verdict, const char *what,
    const char *text)
{
	(void)arg;
	fuzz_check(verdict >= LEASERUN_GOOD && verdict <= LEASERUN_BAD);
	fuzz_check((what == NULL || strlen(what) < 1000) && text != NULL);
}
