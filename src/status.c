/*
 * The status command: what stores know about names, and what is done there.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ask.h"
#include "done.h"
#include "log.h"
#include "query.h"
#include "show.h"
#include "util.h"

/* What is collected from the stores. */
struct answer {
	struct show	*show;
	struct done	*done;		/* of --once; NULL without it */
	bool		 is_known;	/* something was granted once */
};

/* The names that a store has, to ask for each of them. */
struct listed {
	char		name[LEASERUN_NAME_SIZE];
};

struct name_list {
	struct listed	*names;		/* owned */
	size_t		 n, room;
};

static void
add_name(void *arg, const struct leaserun_entry *entry)
{
	struct name_list *list = arg;
	struct listed *more;

	if (list->n == list->room) {
		list->room = list->room == 0 ? 16 : 2 * list->room;
		more = xcalloc(list->room, sizeof(*more));
		if (list->n > 0)
			memcpy(more, list->names, list->n * sizeof(*more));
		free(list->names);
		list->names = more;
	}
	memcpy(list->names[list->n++].name, entry->name,
	    sizeof(entry->name));
}

/* What is done of one name. */
static int
collect_done_of(struct ask *q, const char *name, struct done *done)
{
	enum leaserun_result result;

	if (q->plugin.ops->list_once == NULL) {
		log_error("status: the backend '%s' keeps no record of what is "
		    "done", q->plugin.ops->name);
		return EXIT_CONFIG;
	}
	done_name(done, name);
	result = ask_list(q, name, true, done_add, done);
	return result == LEASERUN_OK ? EXIT_OK : ask_failed(q, result);
}

static int
collect_done(struct ask *q, const char *name, struct done *done)
{
	struct name_list list = { NULL, 0, 0 };
	enum leaserun_result result;
	int wrong = 0;
	size_t i;

	if (name != NULL)
		return collect_done_of(q, name, done);
	result = ask_list(q, NULL, false, add_name, &list);
	for (i = 0; result == LEASERUN_OK && wrong == 0 && i < list.n; i++)
		wrong = collect_done_of(q, list.names[i].name, done);
	free(list.names);
	return result == LEASERUN_OK ? wrong : ask_failed(q, result);
}

static void
add_entry(void *arg, const struct leaserun_entry *entry)
{
	struct answer *answer = arg;

	show_add(answer->show, entry);
	if (entry->token != 0 || entry->state != LEASERUN_FREE)
		answer->is_known = true;
}

/* Whoever looks into a wrong store should not take it for a free name. */
static void
tell_unknown(const struct ask *q, const char *shown)
{
	char *store = ask_store(q);

	(isatty(STDERR_FILENO) ? log_notice : log_info)("status: no lease "
	    "%s%s%swas ever granted in %s; is that the store of the job? see "
	    "--backend", shown == NULL ? "" : "'", shown == NULL ? "" : shown,
	    shown == NULL ? "" : "' ", store);
	free(store);
}

/* One name, or all with NULL, of the store that is open. */
static int
collect(struct ask *q, const char *shown, struct answer *answer)
{
	char name[LEASERUN_NAME_SIZE];
	enum leaserun_result result;
	int wrong;

	if (shown != NULL && (wrong = ask_encode("status", shown, name)) != 0)
		return wrong;
	if (answer->done != NULL)
		return collect_done(q, shown == NULL ? NULL : name,
		    answer->done);
	answer->is_known = false;
	result = ask_list(q, shown == NULL ? NULL : name, false, add_entry,
	    answer);
	if (result != LEASERUN_OK)
		return ask_failed(q, result);
	if (!answer->is_known)
		tell_unknown(q, shown);
	return EXIT_OK;
}

/* Opens the store that the configuration has for this name alone. */
static int
open_store_of(struct ask *q, char *shown)
{
	size_t n = (size_t)(q->names - q->argv);
	char **argv = xcalloc(n + 2, sizeof(*argv));
	struct conf_error err;
	int first, rc;

	memcpy(argv, q->argv, n * sizeof(*argv));
	argv[n] = shown;
	plugin_close(&q->plugin);
	conf_free(&q->conf);
	rc = conf_load(&q->conf, q->scope, (int)n + 1, argv, &first, &err);
	free(argv);
	if (rc == -1) {
		log_error("%s", err.text);
		return err.status;
	}
	return ask_open(q);
}

static void
print_answer(const struct ask *q, const struct answer *answer)
{
	if (answer->done != NULL)
		(q->conf.json ? done_json : done_table)(answer->done);
	else
		(q->conf.json ? show_json : show_table)(answer->show);
}

static int
status(struct ask *q, const char *unused)
{
	struct answer answer = { show_new(), NULL, false };
	int i, wrong = 0;

	(void)unused;
	if (q->conf.list_once)
		answer.done = done_new();
	if (q->nnames <= 1)
		wrong = collect(q, q->nnames == 0 ? NULL : q->names[0],
		    &answer);
	for (i = 0; q->nnames > 1 && i < q->nnames && wrong == 0; i++) {
		if ((wrong = open_store_of(q, q->names[i])) == 0)
			wrong = collect(q, q->names[i], &answer);
	}
	if (wrong == 0)
		print_answer(q, &answer);
	show_free(answer.show);
	done_free(answer.done);
	return wrong;
}

int
cmd_status(int argc, char *argv[])
{
	return ask(CONF_STATUS, argc, argv, 0, INT32_MAX,
	    status);
}
