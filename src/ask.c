/*
 * What the commands that ask a store have in common: options, operands, a store
 * that is open, and its errors.  Must never take a lease.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ask.h"
#include "log.h"
#include "name.h"
#include "timeutil.h"
#include "util.h"

/* Each call to a store; a command makes a few of them. */
#define POLL_FDS	14
/* With less than these a backend may fail for want of them. */
#define FDS_LEAST	6
#define PAUSE		(200 * NS_PER_MS)

/* Counts what goes on to fn. */
struct hearer {
	leaserun_entry_fn *fn;
	void		*arg;
	unsigned int	 n;
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
enum leaserun_result
ask_wait(const struct leaserun_host *host, struct pollfd *fds,
    unsigned int n, int64_t deadline)
{
	struct ask *q = host->keeper;
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
ask_holder(const struct leaserun_host *host,
    const struct leaserun_entry *entry)
{
	(void)host;
	(void)entry;
	return false;
}

int64_t
ask_deadline(const struct ask *q)
{
	return time_add(now_ns(), q->conf.connect_timeout);
}

bool
ask_again(struct ask *q, enum leaserun_result result, int64_t deadline)
{
	int64_t at = time_add(now_ns(), PAUSE);

	if (result != LEASERUN_UNAVAILABLE || at >= deadline ||
	    !fds_left(FDS_LEAST))
		return false;
	log_debug("asking again: %s", q->plugin.error);
	ask_wait(&q->plugin.host, NULL, 0, at);
	return true;
}

static void
hear(void *arg, const struct leaserun_entry *entry)
{
	struct hearer *h = arg;

	h->n++;
	h->fn(h->arg, entry);
}

char *
ask_store(const struct ask *q)
{
	char *url = url_redact(q->conf.backend), *text;

	text = xasprintf("'%s'%s", url == NULL ? "" : url,
	    strcmp(q->conf.backend, "file:") == 0 ?
	    ", the store of this user" : "");
	free(url);
	return text;
}

enum leaserun_result
ask_list(struct ask *q, const char *name, bool once, leaserun_entry_fn *fn,
    void *arg)
{
	const struct leaserun_backend *ops = q->plugin.ops;
	struct hearer h = { fn, arg, 0 };
	int64_t deadline = ask_deadline(q);
	enum leaserun_result result;

	result = (once ? ops->list_once : ops->list)(q->plugin.self, name,
	    deadline, hear, &h);
	if (h.n == 0 && ask_again(q, result, deadline))
		result = (once ? ops->list_once : ops->list)(q->plugin.self,
		    name, deadline, hear, &h);
	return result;
}

int
ask_failed(struct ask *q, enum leaserun_result result)
{
	/* It may speak of what stands above. */
	fflush(stdout);
	log_error("%s%s", q->plugin.error[0] != '\0' ? q->plugin.error :
	    "the store did not answer", result != LEASERUN_UNAVAILABLE ||
	    fds_left(FDS_LEAST) ? "" : limit_hint(EMFILE));
	return plugin_exit_status(result);
}

int
ask_open(struct ask *q)
{
	struct leaserun_target target = {
		.url = q->conf.backend, .options = q->conf.options,
		.noptions = q->conf.noptions,
	};
	enum leaserun_result result;

	if (q->timer == -1 && (q->timer = timer_open()) == -1) {
		log_error("cannot make a timer: %s%s", strerror(errno),
		    limit_hint(errno));
		return EXIT_INTERNAL;
	}
	q->plugin.host.keeper = q;
	q->plugin.host.wait = ask_wait;
	q->plugin.host.holder = ask_holder;
	result = plugin_open(&q->plugin, &target, q->conf.module_dir);
	return result == LEASERUN_OK ? 0 : ask_failed(q, result);
}

int
ask_encode(const char *command, const char *shown, char *name)
{
	char word[WORD_SIZE];
	const char *wrong;

	wrong = name_encode(shown, name, LEASERUN_NAME_SIZE);
	if (wrong == NULL)
		return 0;
	log_error("%s: the name '%.200s' %s; see 'leaserun %s --help'",
	    command, word_shown(shown, word), wrong, command);
	return EXIT_USAGE;
}

/* An option behind a name would be taken for another name; or NULL. */
static const char *
find_late_option(const struct ask *q)
{
	int i;

	for (i = 1; i < q->nnames && strcmp(q->names[-1], "--") != 0; i++) {
		if (q->names[i][0] == '-')
			return q->names[i];
	}
	return NULL;
}

/* How many operands a command takes; 0 or the exit status. */
static int
check_operands(const struct ask *q, const char *command, int least, int most)
{
	const char *late = find_late_option(q);
	char word[WORD_SIZE];

	if (q->nnames < least)
		log_error("%s: the name of the lease is missing; see "
		    "'leaserun %s --help'", command, command);
	else if (late != NULL)
		log_error("%s: options come before the name, or write -- NAME: "
		    "'%s'; see 'leaserun %s --help'", command,
		    word_shown(late, word), command);
	else if (q->nnames > most)
		log_error("%s: '%s' is one word too many; see "
		    "'leaserun %s --help'", command,
		    word_shown(q->names[most], word), command);
	else
		return 0;
	return EXIT_USAGE;
}

int
ask(enum conf_scope scope, int argc, char *argv[], int least, int most,
    int (*fn)(struct ask *, const char *name))
{
	struct ask q = { .scope = scope, .argv = argv, .timer = -1 };
	char name[LEASERUN_NAME_SIZE] = "";
	struct conf_error err;
	int first, status;

	/* A limit of the file size is to be an error, not our end. */
	signal(SIGXFSZ, SIG_IGN);
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
		status = ask_encode(argv[0], q.names[0], name);
	/* Several names may have several stores. */
	if (status == 0 && (q.nnames > 1 || (status = ask_open(&q)) == 0))
		status = fn(&q, name);
	plugin_close(&q.plugin);
	if (q.timer != -1)
		close(q.timer);
	conf_free(&q.conf);
	return status;
}
