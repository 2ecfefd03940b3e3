/*
 * status, check, revoke, init and doctor.  Must never take a lease, and never
 * trust what a store says more than to print it.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"
#include "log.h"
#include "name.h"
#include "plugin.h"
#include "query.h"
#include "show.h"
#include "timeutil.h"
#include "util.h"

/* Each call to a store; a command makes a few of them. */
#define POLL_FDS	14
#define REVOKE_POLL	(100 * NS_PER_MS)
#define REVOKE_LOOK	NS_PER_S	/* the last look, at the limit */

struct query {
	struct conf	conf;
	struct plugin	plugin;
	int		timer;
	char		**names;	/* operands */
	int		nnames;
};

static const char *const usage[] = {
	"status [OPTION]... [NAME]...\n\nShows who holds what, since when, "
	"with which token, and how the last run ended.\nWithout NAME: every "
	"name that the store knows.",
	"check [OPTION]... NAME\n\nExits with 0 while the token is the "
	"holder's, 75 when it is not, 69 when the\nstore cannot tell.",
	"revoke [OPTION]... NAME\n\nAsks the holder to end its command "
	"(SIGTERM, grace, SIGKILL) and to release.",
	"init [OPTION]...\n\nPrepares the store.",
	"doctor [OPTION]...\n\nLooks for what is wrong with the store or "
	"with the way to it.",
};

static const char *
usage_of(enum conf_scope scope)
{
	switch (scope) {
	case CONF_STATUS:
		return usage[0];
	case CONF_CHECK:
		return usage[1];
	case CONF_REVOKE:
		return usage[2];
	case CONF_INIT:
		return usage[3];
	default:
		return usage[4];
	}
}

/* Nothing interrupts a query but the user, who ends the process. */
static enum leaserun_result
query_wait(const struct leaserun_host *host, struct pollfd *fds,
    unsigned int n, int64_t deadline)
{
	struct query *q = host->keeper;
	struct pollfd all[POLL_FDS + 1];
	unsigned int i;
	int rc;

	if (n > POLL_FDS)
		return LEASERUN_UNAVAILABLE;
	for (i = 0; i < n; i++)
		all[i] = fds[i];
	all[n] = (struct pollfd){ .fd = q->timer, .events = POLLIN };
	timer_arm(q->timer, deadline);
	do {
		rc = poll(all, n + 1, -1);
	} while (rc == -1 && errno == EINTR);
	timer_clear(q->timer);
	for (i = 0; i < n; i++)
		fds[i].revents = rc > 0 ? all[i].revents : 0;
	return LEASERUN_OK;
}

static bool
query_holder(const struct leaserun_host *host,
    const struct leaserun_entry *entry)
{
	(void)host;
	(void)entry;
	return false;
}

static int64_t
query_deadline(const struct query *q)
{
	return time_add(now_ns(), q->conf.connect_timeout);
}

/* Says what a call answered; the exit status. */
static int
fail(struct query *q, enum leaserun_result result)
{
	log_error("%s", q->plugin.error[0] != '\0' ? q->plugin.error :
	    "the store did not answer");
	return plugin_exit_status(result);
}

static int
open_store(struct query *q)
{
	struct leaserun_target target = {
		.url = q->conf.backend, .options = q->conf.options,
		.noptions = q->conf.noptions,
	};
	enum leaserun_result result;

	if ((q->timer = timer_open()) == -1) {
		log_error("cannot make a timer: %s", strerror(errno));
		return EXIT_INTERNAL;
	}
	q->plugin.host.keeper = q;
	q->plugin.host.wait = query_wait;
	q->plugin.host.holder = query_holder;
	result = plugin_open(&q->plugin, &target, q->conf.module_dir);
	return result == LEASERUN_OK ? 0 : fail(q, result);
}

/* One name from the command line, encoded; 0 or the exit status. */
static int
encode(const char *command, const char *shown, char *name)
{
	const char *wrong;

	wrong = name_encode(shown, name, LEASERUN_NAME_SIZE);
	if (wrong == NULL)
		return 0;
	log_error("%s: the name '%.200s' %s; see 'leaserun %s --help'",
	    command, shown, wrong, command);
	return EXIT_USAGE;
}

/* How many operands a command takes; 0 or the exit status. */
static int
check_operands(const struct query *q, const char *command, int least, int most)
{
	if (q->nnames < least)
		log_error("%s: the name of the lease is missing; see "
		    "'leaserun %s --help'", command, command);
	else if (q->nnames > most)
		log_error("%s: '%s' is one word too many; see "
		    "'leaserun %s --help'", command, q->names[most], command);
	else
		return 0;
	return EXIT_USAGE;
}

/*
 * Everything that the five commands share.  fn is called with an open store;
 * the name of the one operand, if there is one, is encoded into `name'.
 */
static int
run_query(enum conf_scope scope, int argc, char *argv[], int least, int most,
    int (*fn)(struct query *, const char *name))
{
	struct query q = { .timer = -1 };
	char name[LEASERUN_NAME_SIZE] = "";
	struct conf_error err;
	int first, status;

	if (conf_load(&q.conf, scope, argc, argv, &first, &err) == -1) {
		log_error("%s", err.text);
		return err.status;
	}
	if (q.conf.help) {
		printf("usage: leaserun %s\n\n", usage_of(scope));
		conf_print_options(scope);
		conf_free(&q.conf);
		return EXIT_OK;
	}
	log_open(q.conf.log == NULL ? "stderr" : q.conf.log, q.conf.log_level);
	if (q.conf.password_in_argv)
		log_warning("a password on the command line shows in ps; put "
		    "it into a file that only you may read");
	q.names = argv + first;
	q.nnames = argc - first;
	status = check_operands(&q, argv[0], least, most);
	if (status == 0 && most == 1)
		status = encode(argv[0], q.names[0], name);
	if (status == 0 && (status = open_store(&q)) == 0)
		status = fn(&q, name);
	plugin_close(&q.plugin);
	if (q.timer != -1)
		close(q.timer);
	conf_free(&q.conf);
	return status;
}

/* --- status --- */

static int
status(struct query *q, const char *unused)
{
	enum leaserun_result result = LEASERUN_OK;
	char name[LEASERUN_NAME_SIZE];
	struct show *show = show_new();
	int i, wrong = 0;

	(void)unused;
	for (i = 0; i < q->nnames && wrong == 0 && result == LEASERUN_OK; i++) {
		if ((wrong = encode("status", q->names[i], name)) == 0)
			result = q->plugin.ops->list(q->plugin.self, name,
			    query_deadline(q), show_add, show);
	}
	if (q->nnames == 0)
		result = q->plugin.ops->list(q->plugin.self, NULL,
		    query_deadline(q), show_add, show);
	if (wrong == 0 && result == LEASERUN_OK && q->conf.json)
		show_json(show);
	else if (wrong == 0 && result == LEASERUN_OK)
		show_table(show);
	show_free(show);
	if (wrong != 0)
		return wrong;
	return result == LEASERUN_OK ? EXIT_OK : fail(q, result);
}

static int
status_checked(struct query *q, const char *name)
{
	if (q->conf.list_once) {
		log_error("status: not supported by this backend yet: "
		    "'--once'; see 'leaserun status --help'");
		return EXIT_USAGE;
	}
	return status(q, name);
}

int
cmd_status(int argc, char *argv[])
{
	return run_query(CONF_STATUS, argc, argv, 0, INT32_MAX,
	    status_checked);
}

/* --- check --- */

static void
keep_entry(void *arg, const struct leaserun_entry *entry)
{
	*(struct leaserun_entry *)arg = *entry;
}

static int
wanted_token(struct query *q, const char *command, bool required)
{
	const char *text = getenv("LEASERUN_FENCE_TOKEN");

	if (q->conf.token_given || !required)
		return 0;
	if (text == NULL) {
		log_error("%s: no token: give --token, or run it inside a job "
		    "(LEASERUN_FENCE_TOKEN)", command);
		return EXIT_USAGE;
	}
	if (number_parse(text, LEASERUN_TOKEN_MAX, &q->conf.token) == -1) {
		log_error("%s: LEASERUN_FENCE_TOKEN '%s' is not a token",
		    command, text);
		return EXIT_USAGE;
	}
	return 0;
}

/* The token came from a job that holds something else. */
static bool
is_inner(const struct query *q)
{
	const char *name = getenv("LEASERUN_NAME");

	return !q->conf.token_given && name != NULL &&
	    strcmp(name, q->names[0]) != 0;
}

static int
check(struct query *q, const char *name)
{
	struct leaserun_entry entry = { .state = LEASERUN_FREE };
	enum leaserun_result result;
	int wrong;

	if ((wrong = wanted_token(q, "check", true)) != 0)
		return wrong;
	result = q->plugin.ops->list(q->plugin.self, name, query_deadline(q),
	    keep_entry, &entry);
	if (result != LEASERUN_OK)
		return fail(q, result);
	if ((entry.state == LEASERUN_BUSY ||
	    entry.state == LEASERUN_REVOKING) &&
	    entry.token == q->conf.token)
		return EXIT_OK;
	log_warning("'%s': token %" PRIu64 " is not the holder's (%s %" PRIu64
	    ")%s", q->names[0], q->conf.token, entry.token == 0 ?
	    "it was never granted here:" : entry.state == LEASERUN_FREE ?
	    "free, last token" : "held with", entry.token,
	    is_inner(q) ? "; LEASERUN_FENCE_TOKEN is of another lease, give "
	    "--token" : "");
	return EXIT_HELD;
}

int
cmd_check(int argc, char *argv[])
{
	return run_query(CONF_CHECK, argc, argv, 1, 1, check);
}

/* --- revoke --- */

/* Until the holder that was asked is gone, whoever comes after it. */
static int
wait_for_release(struct query *q, const char *name, uint64_t token)
{
	int64_t limit = time_add(now_ns(), q->conf.wait), deadline;
	struct leaserun_entry entry = { .state = LEASERUN_FREE };
	enum leaserun_result result;

	for (;;) {
		deadline = time_earlier(query_deadline(q),
		    time_later(limit, time_add(now_ns(), REVOKE_LOOK)));
		result = q->plugin.ops->list(q->plugin.self, name, deadline,
		    keep_entry, &entry);
		if (result != LEASERUN_OK && (result != LEASERUN_UNAVAILABLE ||
		    now_ns() >= limit))
			return fail(q, result);
		if (result == LEASERUN_OK && (entry.token != token ||
		    entry.state == LEASERUN_FREE ||
		    entry.state == LEASERUN_HOLDING))
			return EXIT_OK;
		if (now_ns() >= limit)
			break;
		query_wait(&q->plugin.host, NULL, 0, time_add(now_ns(),
		    REVOKE_POLL));
	}
	log_error("'%s' is still held with token %" PRIu64 "; its holder ends "
	    "with its next heartbeat, see 'leaserun status'", q->names[0],
	    token);
	return EXIT_HELD;
}

static int
ask_to_end(struct query *q, const char *name)
{
	struct leaserun_revoke request = { .name = name,
	    .token = q->conf.token, .force = q->conf.force };
	struct leaserun_entry entry = { .state = LEASERUN_FREE };
	enum leaserun_result result;
	char *url;

	result = q->plugin.ops->revoke(q->plugin.self, &request,
	    query_deadline(q), &entry);
	if (result == LEASERUN_HELD) {
		log_error("'%s' is held with token %" PRIu64 ", not %" PRIu64
		    "; nothing was done", q->names[0], entry.token,
		    q->conf.token);
		return EXIT_HELD;
	}
	if (result != LEASERUN_OK)
		return fail(q, result);
	if (entry.state == LEASERUN_FREE ||
	    (entry.state == LEASERUN_HOLDING && !q->conf.force)) {
		url = url_redact(q->conf.backend);
		printf("'%s' is not held in '%s'%s\n", q->names[0],
		    url == NULL ? "" : url, entry.state == LEASERUN_FREE ?
		    "" : ", only kept by --min-hold; --force ends that");
		free(url);
		return EXIT_OK;
	}
	if (entry.state == LEASERUN_HOLDING) {
		printf("'%s': the --min-hold of token %" PRIu64 " is ended\n",
		    q->names[0], entry.token);
		return EXIT_OK;
	}
	if (q->conf.force) {
		printf("'%s' is freed; two may run until the holder's next "
		    "heartbeat\n", q->names[0]);
		return EXIT_OK;
	}
	printf("'%s': asked the holder of token %" PRIu64 " to end\n",
	    q->names[0], entry.token);
	if (!q->conf.wait_given)
		return EXIT_OK;
	fflush(stdout);
	return wait_for_release(q, name, entry.token);
}

int
cmd_revoke(int argc, char *argv[])
{
	return run_query(CONF_REVOKE, argc, argv, 1, 1, ask_to_end);
}

/* --- init and doctor --- */

static void
print_line(void *arg, enum leaserun_verdict verdict, const char *what,
    const char *text)
{
	static const char *const words[] = { "ok", "note", "warning", "bad" };
	enum leaserun_verdict *worst = arg;

	printf("%-8s %s: %s\n", words[verdict], what, text);
	if (verdict > *worst)
		*worst = verdict;
}

static int
init(struct query *q, const char *name)
{
	struct leaserun_init request = { .print = q->conf.print,
	    .raise_token = q->conf.raise_token };
	enum leaserun_verdict worst = LEASERUN_GOOD;
	enum leaserun_result result;

	(void)name;
	result = q->plugin.ops->init(q->plugin.self, &request,
	    query_deadline(q), print_line, &worst);
	return result == LEASERUN_OK ? EXIT_OK : fail(q, result);
}

int
cmd_init(int argc, char *argv[])
{
	return run_query(CONF_INIT, argc, argv, 0, 0, init);
}

static int
doctor(struct query *q, const char *name)
{
	enum leaserun_verdict worst = LEASERUN_GOOD;
	enum leaserun_result result;

	(void)name;
	result = q->plugin.ops->doctor(q->plugin.self, query_deadline(q),
	    print_line, &worst);
	if (result != LEASERUN_OK)
		return fail(q, result);
	return worst == LEASERUN_BAD ? EXIT_CONFIG : EXIT_OK;
}

int
cmd_doctor(int argc, char *argv[])
{
	return run_query(CONF_DOCTOR, argc, argv, 0, 0, doctor);
}
