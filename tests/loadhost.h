/*
 * For programs that speak through a backend's module without the keeper: its
 * host services, how it is opened, and memory that processes share.  Must never
 * be part of what is installed.
 */
#ifndef LOADHOST_H
#define LOADHOST_H

#include <sys/mman.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../backends/leaserun-backend.h"

#define NS_PER_MS	INT64_C(1000000)
#define NS_PER_S	INT64_C(1000000000)
#define PATIENCE	(60 * NS_PER_S)

static const struct leaserun_backend *ops;

static int64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static void
sleep_until(int64_t until)
{
	int64_t left;
	struct timespec ts;

	while ((left = until - now_ns()) > 0) {
		ts = (struct timespec){ left / NS_PER_S, left % NS_PER_S };
		nanosleep(&ts, NULL);
	}
}

static enum leaserun_result
host_wait(const struct leaserun_host *host, struct pollfd *fds,
    unsigned int n, int64_t deadline)
{
	int64_t left = deadline - now_ns();
	struct timespec ts = { 0, 0 };

	(void)host;
	if (left > 0)
		ts = (struct timespec){ left / NS_PER_S, left % NS_PER_S };
	return ppoll(fds, n, &ts, NULL) == -1 && errno != EINTR ?
	    LEASERUN_UNAVAILABLE : LEASERUN_OK;
}

/* The program's own: whether to wait for this holder. */
static bool host_holder(const struct leaserun_host *,
    const struct leaserun_entry *);

static void __attribute__((format(printf, 2, 3)))
host_debug(const struct leaserun_host *host, const char *fmt, ...)
{
	(void)host;
	(void)fmt;
}

static char host_text[LEASERUN_ERROR_SIZE];

static void __attribute__((format(printf, 2, 3)))
host_error(const struct leaserun_host *host, const char *fmt, ...)
{
	va_list ap;

	(void)host;
	va_start(ap, fmt);
	vsnprintf(host_text, sizeof(host_text), fmt, ap);
	va_end(ap);
}

/* Why a call failed; once, since all could say the same. */
static void
complain(void)
{
	static bool has_said;

	if (!has_said)
		fprintf(stderr, "%s\n", host_text);
	has_said = true;
}

static uint64_t
host_random(uint64_t limit)
{
	return limit == 0 ? 0 : (uint64_t)random() % limit;
}

static const struct leaserun_host host = {
	.size = sizeof(host), .version = LEASERUN_BACKEND_VERSION,
	.now = now_ns, .wait = host_wait, .holder = host_holder,
	.debug = host_debug, .error = host_error, .random = host_random,
};

static void
ops_load(const char *path)
{
	void *module = dlopen(path, RTLD_NOW);

	ops = module == NULL ? NULL : dlsym(module, "leaserun_backend");
	if (ops == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
}

/* connection: for postgres; NULL leaves it to the module.  NULL: failed. */
static void *
ops_open(const char *url, const char *connection)
{
	struct leaserun_option option = { "connection", connection };
	struct leaserun_target target = { .url = url, .options = &option };
	unsigned int endpoints;
	void *self;

	target.noptions = connection != NULL &&
	    strcmp(ops->name, "postgres") == 0;
	return ops->open(&host, &target, &self, &endpoints) == LEASERUN_OK ?
	    self : NULL;
}

static void *
shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

static int
compare_ns(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Of what is sorted, in milliseconds. */
static double
percentile(const int64_t *ns, size_t n, unsigned int percent)
{
	return n == 0 ? 0 : (double)ns[n * percent / 100] / NS_PER_MS;
}

#endif
