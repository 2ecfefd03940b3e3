/*
 * What waiters cost a store: many processes wait for a few names, through the
 * backend's own module, and one name goes from hand to hand.
 *
 *	crowd [-p] [-s PID,...] MODULE.so URL NAMES WAITERS HAND-OVERS SECONDS
 *
 *	-p	without a connection that is kept, where the module can do that
 *	-s PID	what these processes and their children use is the store's cost
 *
 * As many waiters as there are hand-overs wait for the first name, the others
 * for the rest of them.  SECONDS long nothing happens, then the first name goes
 * from hand to hand.  Prints what the store uses for a
 * waiter, the time from a release to the next grant (median, longest), and what
 * a hand-over costs the store.
 */
#include <sys/wait.h>

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>

#include "loadcost.h"
#include "loadhost.h"

#define TTL		(60 * NS_PER_S)
#define RENEW_MS	15000
#define HANDOVERS	1000
#define SETTLE_S	2.0

/* Shared by the processes. */
struct arena {
	atomic_int	waiting;	/* have seen a holder */
	atomic_int	turns;		/* hand-overs of the first name */
	int64_t		took_ns[HANDOVERS];
	atomic_llong	released_ns;
};

struct plan {
	const char	*url, *connection;
	struct store	store;
	int		names, waiters, turns;
	double		seconds;
};

static struct arena *arena;
static bool has_waited;

static bool
host_holder(const struct leaserun_host *unused, const struct leaserun_entry *e)
{
	(void)unused;
	(void)e;
	if (!has_waited)
		arena->waiting++;
	has_waited = true;
	return true;
}

static void __attribute__((noreturn))
fail(void)
{
	complain();
	_exit(1);
}

struct held {
	char		name[LEASERUN_NAME_SIZE];
	char		owner[LEASERUN_OWNER_SIZE];
	struct leaserun_lease lease;
};

static bool
take(void *self, struct held *h, int name, int who)
{
	struct leaserun_request request = { .name = h->name,
	    .owner = h->owner, .label = "crowd", .host = "localhost",
	    .pid = getpid(), .ttl_ns = TTL, .answer_ns = PATIENCE,
	    .wait = who > 0 };
	struct leaserun_grant grant;

	snprintf(h->name, sizeof(h->name), "crowd-%d-%d", getppid(), name);
	snprintf(h->owner, sizeof(h->owner), "crowd:%08x%08x%08x%08x",
	    (unsigned int)getpid(), name, (unsigned int)getpid(), name);
	if (ops->acquire(self, &request, now_ns() + 10 * PATIENCE, &grant) !=
	    LEASERUN_OK)
		return false;
	h->lease = (struct leaserun_lease){ .name = h->name, .owner = h->owner,
	    .token = grant.token, .ttl_ns = TTL };
	return true;
}

static void
give(void *self, const struct held *h)
{
	struct leaserun_end end = { .ran = true };

	arena->released_ns = now_ns();
	if (ops->release(self, &h->lease, &end, now_ns() + PATIENCE) !=
	    LEASERUN_OK)
		fail();
}

static int
name_of(const struct plan *plan, int waiter)
{
	return plan->names == 1 || waiter < plan->turns ? 0 :
	    1 + waiter % (plan->names - 1);
}

/* Ended by a signal when all is over. */
static void __attribute__((noreturn))
stay(void)
{
	for (;;)
		pause();
}

/* Holds all names, and gives the first one back when told to by a byte. */
static void __attribute__((noreturn))
hold(const struct plan *plan, int go, int ready)
{
	struct held *held = calloc((size_t)plan->names, sizeof(*held));
	struct pollfd pfd = { .fd = go, .events = POLLIN };
	void *self = ops_open(plan->url, "keep");
	struct leaserun_renewal renewal;
	char byte = 0;
	int i;

	signal(SIGTERM, SIG_DFL);
	for (i = 0; i < plan->names; i++) {
		if (held == NULL || self == NULL || !take(self, &held[i], i, 0))
			fail();
	}
	if (write(ready, &byte, 1) != 1)
		_exit(1);
	while (poll(&pfd, 1, RENEW_MS) == 0) {
		for (i = 0; i < plan->names; i++)
			ops->renew(self, &held[i].lease, now_ns() + PATIENCE,
			    &renewal);
	}
	give(self, &held[0]);
	stay();
}

static void __attribute__((noreturn))
wait_for(const struct plan *plan, int who)
{
	void *self = ops_open(plan->url, plan->connection);
	struct held held;
	int turn;

	signal(SIGTERM, SIG_DFL);
	srandom((unsigned int)getpid());
	if (self == NULL || !take(self, &held, name_of(plan, who), who + 1))
		fail();
	turn = arena->turns;
	arena->took_ns[turn] = now_ns() - arena->released_ns;
	arena->turns = turn + 1;
	if (turn + 1 < plan->turns)
		give(self, &held);
	stay();
}

/* Until it is so, or nobody waits for it any longer. */
static bool
reached(const atomic_int *count, int n)
{
	int64_t until = now_ns() + 5 * PATIENCE;

	while (*count < n && now_ns() < until &&
	    waitpid(-1, NULL, WNOHANG) == 0)
		usleep(2000);
	return *count >= n;
}

static void
report(const struct plan *plan, const struct cost costs[5], double took_s)
{
	/* What it does without any waiter, and while nothing happens. */
	double alone = (costs[1].cpu_s - costs[0].cpu_s) / plan->seconds;
	double idle = (costs[3].cpu_s - costs[2].cpu_s) / plan->seconds;
	double turns_s = costs[4].cpu_s - costs[3].cpu_s - idle * took_s;

	if (turns_s < 0)		/* lost among the rest */
		turns_s = 0;
	qsort(arena->took_ns, (size_t)plan->turns, sizeof(arena->took_ns[0]),
	    compare_ns);
	printf("  %5d waiters for %5d names: hand-over %.1f ms (longest %.1f)",
	    plan->waiters, plan->names,
	    percentile(arena->took_ns, (size_t)plan->turns, 50),
	    (double)arena->took_ns[plan->turns - 1] / NS_PER_MS);
	if (plan->store.n > 0)
		printf("; the store: %.1f ms of a processor for each "
		    "hand-over, %.1f for each waiter a minute, %.0f kB and "
		    "%.2f processes",
		    turns_s * 1000 / plan->turns,
		    (idle - alone) * 60000 / plan->waiters,
		    (costs[3].memory_kb - costs[1].memory_kb) / plan->waiters,
		    (double)(costs[3].processes - costs[1].processes) /
		    plan->waiters);
	putchar('\n');
}

static void
let_pass(double seconds)
{
	sleep_until(now_ns() + (int64_t)(seconds * (double)NS_PER_S));
}

static bool
measure(const struct plan *plan, int go, int ready)
{
	double settle = plan->seconds < SETTLE_S ? plan->seconds : SETTLE_S;
	struct cost costs[5];
	int64_t begun;
	char byte;
	int i;

	if (read(ready, &byte, 1) != 1)
		return false;
	costs[0] = store_cost(&plan->store, 0);
	let_pass(plan->seconds);
	costs[1] = store_cost(&plan->store, 1);
	for (i = 0; i < plan->waiters; i++) {
		if (fork() == 0)
			wait_for(plan, i);
	}
	if (!reached(&arena->waiting, plan->waiters))
		return false;
	let_pass(settle);
	costs[2] = store_cost(&plan->store, 0);
	let_pass(plan->seconds);
	costs[3] = store_cost(&plan->store, 1);
	begun = now_ns();
	if (write(go, "", 1) != 1 || !reached(&arena->turns, plan->turns))
		return false;
	/* Those who came for nothing cost, too. */
	let_pass(settle);
	costs[4] = store_cost(&plan->store, 0);
	report(plan, costs, (double)(now_ns() - begun) / NS_PER_S);
	return true;
}

int
main(int argc, char *argv[])
{
	struct plan plan = { .connection = NULL };
	int c, go[2], ready[2];
	bool ok;

	while ((c = getopt(argc, argv, "ps:")) != -1) {
		if (c == 'p')
			plan.connection = "reopen";
		else if (c == 's')
			store_parse(&plan.store, optarg);
		else
			return 2;
	}
	argv += optind;
	if (argc - optind != 6 || atoi(argv[2]) < 1 ||
	    atoi(argv[4]) > HANDOVERS || atoi(argv[4]) > atoi(argv[3])) {
		fprintf(stderr, "usage: crowd [-p] [-s PID,...] MODULE.so URL "
		    "NAMES WAITERS HAND-OVERS SECONDS\n");
		return 2;
	}
	ops_load(argv[0]);
	arena = shared(sizeof(*arena));
	plan.url = argv[1];
	plan.names = atoi(argv[2]);
	plan.waiters = atoi(argv[3]);
	plan.turns = atoi(argv[4]);
	plan.seconds = atof(argv[5]);
	/* All of them end with this group. */
	if (setpgid(0, 0) == -1 || pipe(go) == -1 || pipe(ready) == -1)
		return 1;
	signal(SIGTERM, SIG_IGN);
	if (fork() == 0)
		hold(&plan, go[0], ready[1]);
	close(ready[1]);
	ok = measure(&plan, go[1], ready[0]);
	kill(0, SIGTERM);
	while (wait(NULL) > 0)
		;
	return ok ? 0 : 1;
}
