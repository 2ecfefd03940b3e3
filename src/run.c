/*
 * Reads the options of `run', makes everything that keeper and guard share,
 * and forks.  The only file that knows both sides; must fork the guard before
 * any module is loaded.
 */
#include <sys/mman.h>
#include <sys/wait.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "conf.h"
#include "filter.h"
#include "guard.h"
#include "keeper.h"
#include "leave.h"
#include "link.h"
#include "log.h"
#include "name.h"
#include "notify.h"
#include "once.h"
#include "proc.h"
#include "report.h"
#include "run.h"
#include "signals.h"
#include "store.h"
#include "tree.h"
#include "util.h"

#define RUN_ID_BYTES	16
#define EXEMPT_MAX	4096

/* Everything that lives as long as the run. */
struct run {
	struct conf	 conf;
	const char	*shown;
	char		 name[LEASERUN_NAME_SIZE];
	char		 run_id[2 * RUN_ID_BYTES + 1];
	char		 owner[LEASERUN_OWNER_SIZE];
	char		**argv;
	struct guard_job job;
	struct deadline_page *page;
	struct tree_exempt exempt;
	char		*backend;	/* without a password */
	struct report	 report;
	struct notify	 notify;
	struct store	 store;
	pid_t		 children[EXEMPT_MAX];	/* last: mostly untouched */
};

static const char *const own_variables[] = {
	"LEASERUN_NAME", "LEASERUN_FENCE_TOKEN", "LEASERUN_OWNER",
	"LEASERUN_TTL", "LEASERUN_RUN_ID", "LEASERUN_CHAIN",
	"LEASERUN_BACKEND", "LEASERUN_OPTIONS",
};

#define NOWN	(sizeof(own_variables) / sizeof(own_variables[0]))
/* With those that there are not always, and the end. */
#define NADDED	(NOWN + 3)

static void
print_help(void)
{
	printf("usage: leaserun run [OPTION]... NAME [--] COMMAND [ARG]...\n\n"
	    "Runs COMMAND while it holds the lease NAME.\n\n");
	conf_print_options(CONF_RUN);
	printf("\nExit status: the command's; 64 usage, 69 store cannot "
	    "answer, 70 internal,\n74 not recorded, 75 held elsewhere, 77 "
	    "refused by the store, 78 configuration,\n79 lease lost, 124 "
	    "ended by --max-run, 126 cannot be executed, 127 not found.\n"
	    "See leaserun(1).\n");
}

static int
usage_error(const char *what, const char *word)
{
	char shown[WORD_SIZE];

	log_error("run: %s%s%s%s; see 'leaserun run --help'", what,
	    word == NULL ? "" : " '", word == NULL ? "" :
	    word_shown(word, shown), word == NULL ? "" : "'");
	return EXIT_USAGE;
}

/*
 * NAME [--] COMMAND [ARG]...; only NAME may stand before a `--', and where one
 * stands before NAME, so that it may begin with a dash, another one follows.
 */
static int
read_operands(struct run *r, int argc, char *argv[], int first)
{
	char word[WORD_SIZE];
	const char *wrong;
	int i;

	if (first >= argc)
		return usage_error("the name of the lease is missing", NULL);
	if (operand_is_forgotten(argc, argv, first))
		return usage_error("the name is missing in front of '--'; "
		    "write NAME -- COMMAND", NULL);
	r->shown = argv[first];
	wrong = name_encode(r->shown, r->name, sizeof(r->name));
	if (wrong != NULL) {
		log_error("run: the name '%.200s' %s; see 'leaserun run "
		    "--help'", word_shown(r->shown, word), wrong);
		return EXIT_USAGE;
	}
	first++;
	if (first < argc && strcmp(argv[first], "-c") == 0)
		return usage_error("for a shell write NAME -- sh -c 'COMMAND', "
		    "not NAME", argv[first]);
	if (first < argc && argv[first][0] == '-' &&
	    strcmp(argv[first], "--") != 0)
		return usage_error("options come before the name, or write "
		    "NAME -- COMMAND:", argv[first]);
	for (i = first + 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0 &&
		    strcmp(argv[first], "--") != 0) {
			log_error("run: one word is the name, but '%s' stands "
			    "before '--' as well; write NAME -- COMMAND; see "
			    "'leaserun run --help'",
			    word_shown(argv[first], word));
			return EXIT_USAGE;
		}
	}
	if (first < argc && strcmp(argv[first], "--") == 0)
		first++;
	if (first >= argc)
		return usage_error("the command is missing after", r->shown);
	if (argv[first][0] == '\0')
		return usage_error("the command is empty after", r->shown);
	r->argv = argv + first;
	return 0;
}

/* Label and random bits; the label alone is never the identity. */
static int
make_owner(struct run *r)
{
	char label[LEASERUN_OWNER_SIZE - 2 * RUN_ID_BYTES - 1];
	const char *wrong;

	if (random_hex(r->run_id, RUN_ID_BYTES) == -1) {
		log_error("cannot get random bytes: %s", strerror(errno));
		return EXIT_INTERNAL;
	}
	wrong = name_encode(r->conf.owner, label, sizeof(label));
	if (wrong != NULL)
		return usage_error("--owner is not usable:", r->conf.owner);
	snprintf(r->owner, sizeof(r->owner), "%s:%s", label, r->run_id);
	return 0;
}

static bool
is_variable(const char *entry, const char *name)
{
	size_t len = strlen(name);

	return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

static bool
is_own_variable(const struct run *r, const char *entry)
{
	size_t i;

	for (i = 0; i < NOWN; i++) {
		if (is_variable(entry, own_variables[i]))
			return true;
	}
	/* What we say is not to be said by the command once more. */
	if (r->conf.notify == NOTIFY_READY &&
	    is_variable(entry, "NOTIFY_SOCKET"))
		return true;
	if (r->conf.config != NULL && is_variable(entry, "LEASERUN_CONFIG"))
		return true;
	return r->conf.token_env != NULL &&
	    is_variable(entry, r->conf.token_env);
}

/* Before there are children, or a guard. */
static int
open_report(struct run *r)
{
	struct report_run about = {
		.events = r->conf.events, .metrics = r->conf.metrics,
		.name = r->shown, .label = r->conf.owner, .run_id = r->run_id,
	};

	r->backend = url_without_password(r->conf.backend);
	about.backend = r->backend;
	log_about(r->shown, r->conf.owner, r->run_id);
	return report_open(&r->report, &about);
}

/* Digits to be filled in by the guard; the text after `=' is returned. */
static char *
make_room(char **slot, const char *name, const char *text)
{
	*slot = xcalloc(1, strlen(name) + 64);
	sprintf(*slot, "%s=%s", name, text);
	return *slot + strlen(name) + 1;
}

/* For a leaserun in the job; returns how many there are. */
static size_t
describe_store(const struct run *r, char *env[])
{
	char *config = conf_hand_config(&r->conf);
	char *options = conf_hand_options(&r->conf);
	size_t n = 0;

	env[n++] = xasprintf("LEASERUN_BACKEND=%s", r->backend);
	if (config != NULL)
		env[n++] = xasprintf("LEASERUN_CONFIG=%s", config);
	if (options != NULL)
		env[n++] = xasprintf("LEASERUN_OPTIONS=%s", options);
	free(config);
	free(options);
	return n;
}

/* The command's environment: inherited, but for what is ours. */
static void
make_environment(struct run *r, const char *chain)
{
	size_t n = 0, i;
	char **env, ttl[32];

	for (i = 0; environ[i] != NULL; i++)
		;
	env = xcalloc(i + NADDED, sizeof(*env));
	for (i = 0; environ[i] != NULL; i++) {
		if (!is_own_variable(r, environ[i]))
			env[n++] = environ[i];
	}
	env[n++] = xasprintf("LEASERUN_NAME=%s", r->shown);
	env[n++] = xasprintf("LEASERUN_OWNER=%s", r->conf.owner);
	env[n++] = xasprintf("LEASERUN_RUN_ID=%s", r->run_id);
	env[n++] = xasprintf("LEASERUN_CHAIN=%s%s%s", chain,
	    *chain == '\0' ? "" : " ", r->owner);
	n += describe_store(r, env + n);
	seconds_format(r->conf.ttl, ttl);
	r->job.ttl_text = make_room(&env[n++], "LEASERUN_TTL", ttl);
	r->job.token_text[0] = make_room(&env[n++], "LEASERUN_FENCE_TOKEN", "");
	if (r->conf.token_env != NULL)
		r->job.token_text[1] = make_room(&env[n++], r->conf.token_env,
		    "");
	r->job.envp = env;
}

static int
cannot_prepare(void)
{
	log_error("cannot prepare the run: %s%s", strerror(errno),
	    limit_hint(errno));
	return EXIT_INTERNAL;
}

/* A job that could not be found could not be ended. */
static int
cannot_find_job(int error)
{
	if (error == EMFILE)
		return cannot_prepare();
	if (error == EXDEV)
		log_error("the job would be in another pid or time namespace "
		    "than leaserun, where it cannot be ended; start leaserun "
		    "in that one (unshare --fork --pid --mount-proc)");
	else if (error == ENOTSUP)
		log_error("the orphans of the job would not be found: "
		    "prctl(PR_SET_CHILD_SUBREAPER) is refused; allow it, as "
		    "in the seccomp profile of a container");
	else
		log_error("/proc %s: without it the processes of the job "
		    "cannot be found; mount it (in a new pid namespace: "
		    "unshare --mount-proc)", error == ESRCH ? "belongs to "
		    "another pid namespace" : "cannot be used");
	return EXIT_CONFIG;
}

/* What decides how the job is run, and who is not part of it. */
static int
prepare_job(struct run *r)
{
	struct sigaction chld, dfl = { .sa_handler = SIG_DFL };
	ssize_t n;

	if (tree_init() == -1)
		return cannot_find_job(errno);
	n = tree_children(r->children, EXEMPT_MAX);
	r->exempt.pids = r->children;
	r->exempt.n = n < 0 ? 0 : (size_t)n;
	r->exempt.room = EXEMPT_MAX;
	r->exempt.may_grow = n > 0 || getpid() == 1;
	r->job.argv = r->argv;
	r->job.schedule.ttl = r->conf.ttl;
	r->job.schedule.renew_every = r->conf.renew_every;
	r->job.schedule.grace = r->conf.grace;
	r->job.max_run = r->conf.max_run;
	r->job.kill_leftovers = r->conf.leftovers == LEFTOVERS_KILL;
	r->job.leave_leftovers = r->conf.leftovers == LEFTOVERS_LEAVE;
	r->job.keeper_group = getpgrp();
	r->job.tell_started = r->conf.log_level >= LOG_LEVEL_INFO ||
	    r->notify.socket != -1;
	r->job.own_group = r->job.keeper_group != 0 && !proc_has_terminal();
	/* An ignored SIGCHLD would take the children's statuses from us. */
	sigaction(SIGCHLD, &dfl, &chld);
	r->job.ignore_chld = chld.sa_handler == SIG_IGN;
	filter_init();
	return 0;
}

static struct deadline_page *
make_page(void)
{
	void *page;

	page = mmap(NULL, sizeof(struct deadline_page), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return page == MAP_FAILED ? NULL : page;
}

static void __attribute__((noreturn))
finish(struct run *r, int status)
{
	notify_close(&r->notify);
	report_close(&r->report);
	conf_free(&r->conf);
	leave(status);
}

static int
run(struct run *r, const char *chain)
{
	struct keeper_setup s = {
		.conf = &r->conf, .shown = r->shown, .name = r->name,
		.owner = r->owner, .chain = chain, .command = r->argv[0],
		.exempt = &r->exempt, .report = &r->report,
		.notify = &r->notify,
		.store = &r->store,
	};
	char once[LEASERUN_KEY_SIZE], once_shown[ONCE_SHOWN_SIZE];
	struct timespec ts;
	int fds[2], status;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (once_key(&r->conf, (int64_t)ts.tv_sec * 1000 +
	    ts.tv_nsec / NS_PER_MS, once, once_shown)) {
		s.once_key = once;
		s.once_shown = once_shown;
	}
	notify_open(&r->notify, r->conf.notify == NOTIFY_NO ? NULL :
	    getenv("NOTIFY_SOCKET"), r->conf.notify == NOTIFY_READY);
	/* Of a whole fleet all but one end here: it has to be cheap. */
	if (store_skips(&r->store, &s, &status))
		finish(r, exited_with(status));
	if ((status = prepare_job(r)) != 0)
		return status;
	make_environment(r, chain);
	if ((s.page = make_page()) == NULL || link_pair(fds) == -1)
		return cannot_prepare();
	/* Until the handlers are there; the guard keeps them blocked. */
	signals_block(&r->job.mask);
	if ((s.guard = _Fork()) == 0) {
		close(fds[0]);
		report_leave(&r->report);
		notify_close(&r->notify);
		_exit(guard_run(fds[1], s.page, &r->job));
	}
	if (s.guard == -1) {
		log_error("cannot start the guard: %s%s", strerror(errno),
		    limit_hint(errno));
		return EXIT_INTERNAL;
	}
	close(fds[1]);
	s.link = fds[0];
	finish(r, keeper_run(&s));
}

int
cmd_run(int argc, char *argv[])
{
	static struct run r;
	struct conf_error err;
	const char *chain = getenv("LEASERUN_CHAIN");
	int first, status;

	if (conf_load(&r.conf, CONF_RUN, argc, argv, &first, &err) == -1) {
		log_error("%s", err.text);
		return err.status;
	}
	if (r.conf.help) {
		print_help();
		return EXIT_OK;
	}
	log_open(r.conf.log == NULL ? "stderr" : r.conf.log, r.conf.log_level);
	if (r.conf.password_in_argv)
		log_warning("a password on the command line shows in ps; put "
		    "it into a file that only you may read");
	if (chain == NULL || !text_is_clean(chain))
		chain = "";
	if ((status = read_operands(&r, argc, argv, first)) != 0 ||
	    (status = make_owner(&r)) != 0 ||
	    (status = open_report(&r)) != 0)
		return status;
	status = run(&r, chain);
	report_refused(&r.report, status);
	report_close(&r.report);
	return status;
}
