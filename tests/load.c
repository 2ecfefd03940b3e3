/*
 * How many renewals a second a store carries: holds many leases from a few
 * processes, through the backend's own module, and renews them in turn.
 *
 *	load MODULE.so URL LEASES PROCESSES SECONDS
 *
 * Prints renewals a second and how long one takes (median, 99 of 100, longest).
 */
#include <sys/mman.h>
#include <sys/wait.h>

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../backends/leaserun-backend.h"

#define NS_PER_MS	INT64_C(1000000)
#define NS_PER_S	INT64_C(1000000000)
#define PATIENCE	(30 * NS_PER_S)
#define TTL		(60 * NS_PER_S)
#define SAMPLES		200000

/* Shared by the processes. */
struct arena {
	atomic_int	ready, failures;
	atomic_bool	go;
	atomic_uint	n;
	int64_t		took_ns[SAMPLES];
	atomic_uint	renewals;
};

struct held {
	char		name[LEASERUN_NAME_SIZE];
	char		owner[LEASERUN_OWNER_SIZE];
	struct leaserun_lease lease;
};

static const struct leaserun_backend *ops;
static struct arena *arena;

static int64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
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

static bool
host_holder(const struct leaserun_host *host, const struct leaserun_entry *e)
{
	(void)host;
	(void)e;
	return false;
}

static void __attribute__((format(printf, 2, 3)))
host_debug(const struct leaserun_host *host, const char *fmt, ...)
{
	(void)host;
	(void)fmt;
}

static void __attribute__((format(printf, 2, 3)))
host_error(const struct leaserun_host *host, const char *fmt, ...)
{
	va_list ap;

	(void)host;
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
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

static bool
take(void *self, struct held *h, int process, int i)
{
	struct leaserun_request request = { .name = h->name,
	    .owner = h->owner, .label = "load", .host = "localhost",
	    .pid = getpid(), .ttl_ns = TTL, .answer_ns = PATIENCE };
	struct leaserun_grant grant;

	snprintf(h->name, sizeof(h->name), "load-%d-%d", process, i);
	/* Each half is one of its own, for stores that use one. */
	snprintf(h->owner, sizeof(h->owner), "load:%08x%08x%08x%08x",
	    process + 1, i, process + 1, i);
	if (ops->acquire(self, &request, now_ns() + PATIENCE, &grant) !=
	    LEASERUN_OK)
		return false;
	h->lease = (struct leaserun_lease){ .name = h->name, .owner = h->owner,
	    .token = grant.token, .ttl_ns = TTL };
	return true;
}

static void
renew(void *self, const struct held *h)
{
	struct leaserun_renewal renewal;
	int64_t start = now_ns();
	unsigned int n;

	memset(&renewal, 0, sizeof(renewal));
	if (ops->renew(self, &h->lease, start + PATIENCE, &renewal) !=
	    LEASERUN_OK)
		arena->failures++;
	arena->renewals++;
	n = arena->n++;
	if (n < SAMPLES)
		arena->took_ns[n] = now_ns() - start;
}

static void __attribute__((noreturn))
work(const char *url, int process, int n, int64_t seconds)
{
	struct leaserun_option keep = { "connection", "keep" };
	struct leaserun_target target = { .url = url, .options = &keep };
	struct leaserun_end end = { .ran = true };
	struct held *held = calloc((size_t)n, sizeof(*held));
	unsigned int endpoints;
	int64_t until;
	void *self;
	int i;

	target.noptions = strcmp(ops->name, "postgres") == 0;
	if (held == NULL ||
	    ops->open(&host, &target, &self, &endpoints) != LEASERUN_OK)
		_exit(1);
	for (i = 0; i < n; i++) {
		if (!take(self, &held[i], process, i))
			_exit(1);
	}
	arena->ready++;
	while (!arena->go)
		usleep(1000);
	until = now_ns() + seconds * NS_PER_S;
	for (i = 0; now_ns() < until; i = (i + 1) % n)
		renew(self, &held[i]);
	for (i = 0; i < n; i++)
		ops->release(self, &held[i].lease, &end, now_ns() + PATIENCE);
	ops->close(self);
	_exit(0);
}

static int
compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void
report(int leases, int64_t seconds)
{
	unsigned int n = arena->n < SAMPLES ? arena->n : SAMPLES;

	if (n == 0)
		return;
	qsort(arena->took_ns, n, sizeof(arena->took_ns[0]), compare);
	printf("  %6d leases: %" PRId64 " renewals a second, each %.2f ms "
	    "(99 of 100 below %.2f, longest %.2f), %d failed\n", leases,
	    (int64_t)arena->renewals / seconds,
	    (double)arena->took_ns[n / 2] / NS_PER_MS,
	    (double)arena->took_ns[(uint64_t)n * 99 / 100] / NS_PER_MS,
	    (double)arena->took_ns[n - 1] / NS_PER_MS, arena->failures);
}

int
main(int argc, char *argv[])
{
	int i, status, leases, processes, failed = 0;
	void *module;

	if (argc != 6) {
		fprintf(stderr, "usage: load MODULE.so URL LEASES PROCESSES "
		    "SECONDS\n");
		return 2;
	}
	module = dlopen(argv[1], RTLD_NOW);
	ops = module == NULL ? NULL : dlsym(module, "leaserun_backend");
	arena = mmap(NULL, sizeof(*arena), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ops == NULL || arena == MAP_FAILED) {
		fprintf(stderr, "load: %s\n", module == NULL ? dlerror() :
		    strerror(errno));
		return 1;
	}
	leases = atoi(argv[3]);
	processes = atoi(argv[4]);
	for (i = 0; i < processes; i++) {
		if (fork() == 0)
			work(argv[2], i, leases / processes, atoi(argv[5]));
	}
	while (arena->ready < processes &&
	    waitpid(-1, &status, WNOHANG) == 0)
		usleep(1000);
	arena->go = true;
	while (wait(&status) > 0)
		failed += status != 0;
	report(leases, atoi(argv[5]));
	return failed == 0 ? 0 : 1;
}
