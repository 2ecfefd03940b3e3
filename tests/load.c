/*
 * How much a store carries: holds many leases from a few processes, through the
 * backend's own module, and renews them in turn.
 *
 *	load [-jc] [-r RATE] [-s PID,...] [-x COMMAND]
 *	    MODULE.so URL LEASES PROCESSES SECONDS
 *
 *	-j	heartbeats as jobs send them: each lease on a connection of its
 *		own, which stays open or not as the module thinks best; else
 *		each process has one for all
 *	-c	whole runs instead of renewals: a grant and a release
 *	-r RATE	so many a second, by all together; else as fast as it goes
 *	-s PID	what these processes and their children use is the store's cost
 *	-x COMMAND is run by a shell while all are held, after all else
 *
 * Prints how many a second, and how long one takes (median, 99 of 100,
 * longest).
 */
#include <sys/wait.h>

#include <inttypes.h>
#include <stdatomic.h>

#include "loadcost.h"
#include "loadhost.h"

#define TTL		(600 * NS_PER_S)	/* taking all takes time */
#define SAMPLES		400000

/* Shared by the processes. */
struct arena {
	atomic_int	ready, failures;
	atomic_bool	go, is_over;
	atomic_uint	n;
	atomic_llong	until;
	int64_t		took_ns[SAMPLES];
};

struct held {
	char		name[LEASERUN_NAME_SIZE];
	char		owner[LEASERUN_OWNER_SIZE];
	struct leaserun_lease lease;
	void		*self;		/* NULL: that of the process */
};

struct plan {
	bool		as_jobs, is_runs;
	double		rate;		/* 0: as fast as it goes */
	const char	*command;	/* NULL: none */
	struct store	store;
	const char	*url;
	int		leases, processes;
	double		seconds;
};

static struct arena *arena;

static bool
host_holder(const struct leaserun_host *unused, const struct leaserun_entry *e)
{
	(void)unused;
	(void)e;
	return false;
}

/* --- One lease --- */

static bool
take(void *self, struct held *h)
{
	struct leaserun_request request = { .name = h->name,
	    .owner = h->owner, .label = "load", .host = "localhost",
	    .pid = getpid(), .ttl_ns = TTL, .answer_ns = PATIENCE };
	struct leaserun_grant grant;

	if (ops->acquire(self, &request, now_ns() + PATIENCE, &grant) !=
	    LEASERUN_OK)
		return false;
	h->lease = (struct leaserun_lease){ .name = h->name, .owner = h->owner,
	    .token = grant.token, .ttl_ns = TTL };
	return true;
}

static bool
give(void *self, const struct held *h)
{
	struct leaserun_end end = { .ran = true };

	return ops->release(self, &h->lease, &end, now_ns() + PATIENCE) ==
	    LEASERUN_OK;
}

static bool
renew(void *self, const struct held *h)
{
	struct leaserun_renewal renewal;

	memset(&renewal, 0, sizeof(renewal));
	return ops->renew(self, &h->lease, now_ns() + PATIENCE, &renewal) ==
	    LEASERUN_OK;
}

/* A run has an owner of its own, and ends with its connections. */
static bool
run(const struct plan *plan, void *self, struct held *h, unsigned int round)
{
	void *own = plan->as_jobs ? ops_open(plan->url, NULL) : self;
	bool ok;

	snprintf(h->owner, sizeof(h->owner), "load:%08x%08x%08x%08x",
	    (unsigned int)getpid(), round, (unsigned int)getpid(), round);
	ok = own != NULL && take(own, h) && give(own, h);
	if (own != NULL && own != self)
		ops->close(own);
	return ok;
}

/* --- A process --- */

static void
note(int64_t start, bool ok)
{
	unsigned int n = arena->n++;

	if (n < SAMPLES)
		arena->took_ns[n] = now_ns() - start;
	if (ok)
		return;
	arena->failures++;
	complain();
}

static bool
take_all(const struct plan *plan, void *self, struct held *held, int process,
    int n)
{
	struct held *h;
	int i;

	for (i = 0; i < n; i++) {
		h = &held[i];
		snprintf(h->name, sizeof(h->name), "load-%d-%d", process, i);
		/* Each half is one of its own, for stores that use one. */
		snprintf(h->owner, sizeof(h->owner), "load:%08x%08x%08x%08x",
		    process + 1, i, process + 1, i);
		if (plan->is_runs)
			continue;
		if (!take(self, h))
			return false;
		if (plan->as_jobs &&
		    (h->self = ops_open(plan->url, NULL)) == NULL)
			return false;
		/* Where connections are kept they are there from the start. */
		if (plan->as_jobs && strcmp(ops->name, "postgres") != 0 &&
		    !renew(h->self, h))
			return false;
	}
	return true;
}

/* Evenly, and the processes not at the same moments. */
static void
pace(const struct plan *plan, int process, int64_t start, int64_t n)
{
	double step = plan->rate == 0 ? 0 :
	    plan->processes / plan->rate * (double)NS_PER_S;

	if (plan->rate > 0)
		sleep_until(start + (int64_t)(step *
		    ((double)n + (double)process / plan->processes)));
}

static void __attribute__((noreturn))
work(const struct plan *plan, int process)
{
	int i, n = plan->leases / plan->processes;
	struct held *held = calloc((size_t)n, sizeof(*held)), *h;
	void *self = ops_open(plan->url, "keep");
	int64_t start, begun;
	int64_t round;
	bool ok;

	srandom((unsigned int)getpid());
	if (held == NULL || self == NULL ||
	    !take_all(plan, self, held, process, n)) {
		complain();
		_exit(1);
	}
	arena->ready++;
	while (!arena->go)
		usleep(1000);
	begun = now_ns();
	for (round = 0;; round++) {
		pace(plan, process, begun, round);
		start = now_ns();
		if (start >= arena->until)
			break;
		h = &held[round % n];
		if (plan->is_runs)
			ok = run(plan, self, h, (unsigned int)round);
		else
			ok = renew(h->self == NULL ? self : h->self, h);
		note(start, ok);
	}
	while (!arena->is_over)
		usleep(1000);
	for (i = 0; i < n && !plan->is_runs; i++) {
		give(self, &held[i]);
		if (held[i].self != NULL)
			ops->close(held[i].self);
	}
	ops->close(self);
	_exit(0);
}

/* --- All of them --- */

static void
report(const struct plan *plan, double took_s, double cpu_s)
{
	unsigned int all = arena->n, n = all < SAMPLES ? all : SAMPLES;

	if (n == 0)
		return;
	qsort(arena->took_ns, n, sizeof(arena->took_ns[0]), compare_ns);
	printf("  %6d leases, %3d at once: %5.0f %s a second, each %.2f ms "
	    "(99 of 100 below %.2f, longest %.2f), %d failed", plan->leases,
	    plan->processes, all / took_s, plan->is_runs ? "runs" : "renewals",
	    percentile(arena->took_ns, n, 50),
	    percentile(arena->took_ns, n, 99),
	    (double)arena->took_ns[n - 1] / NS_PER_MS, arena->failures);
	if (plan->store.n > 0)
		printf("; the store: %.2f processors, %.0f us each",
		    cpu_s / took_s, cpu_s / all * 1e6);
	putchar('\n');
}

static int
measure(const struct plan *plan)
{
	int i, status, failed = 0;
	struct cost before, after;
	int64_t start;

	for (i = 0; i < plan->processes; i++) {
		if (fork() == 0)
			work(plan, i);
	}
	while (arena->ready < plan->processes &&
	    waitpid(-1, &status, WNOHANG) == 0)
		usleep(1000);
	before = store_cost(&plan->store, 0);
	start = now_ns();
	arena->until = start + (int64_t)(plan->seconds * (double)NS_PER_S);
	arena->go = true;
	sleep_until(arena->until);
	after = store_cost(&plan->store, 0);
	report(plan, (double)(now_ns() - start) / NS_PER_S,
	    after.cpu_s - before.cpu_s);
	fflush(stdout);
	if (plan->command != NULL && system(plan->command) != 0)
		failed++;
	arena->is_over = true;
	while (wait(&status) > 0)
		failed += status != 0;
	return failed == 0 && arena->failures == 0 ? 0 : 1;
}

int
main(int argc, char *argv[])
{
	struct plan plan = { .as_jobs = false };
	int c;

	while ((c = getopt(argc, argv, "jcr:s:x:")) != -1) {
		if (c == 'j')
			plan.as_jobs = true;
		else if (c == 'c')
			plan.is_runs = true;
		else if (c == 'r')
			plan.rate = atof(optarg);
		else if (c == 's')
			store_parse(&plan.store, optarg);
		else if (c == 'x')
			plan.command = optarg;
		else
			return 2;
	}
	argv += optind;
	if (argc - optind != 5 || atoi(argv[3]) < 1 ||
	    atoi(argv[2]) < atoi(argv[3])) {
		fprintf(stderr, "usage: load [-jc] [-r RATE] [-s PID,...] "
		    "[-x COMMAND] MODULE.so URL LEASES PROCESSES SECONDS\n");
		return 2;
	}
	ops_load(argv[0]);
	arena = shared(sizeof(*arena));
	plan.url = argv[1];
	plan.leases = atoi(argv[2]);
	plan.processes = atoi(argv[3]);
	plan.seconds = atof(argv[4]);
	return measure(&plan);
}
