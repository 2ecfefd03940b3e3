/*
 * Prints what a store knows, as a table or JSON.  Must never let text from a
 * store reach the terminal unescaped.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "holder.h"
#include "name.h"
#include "show.h"
#include "table.h"
#include "timeutil.h"
#include "util.h"

#define COLUMNS		TABLE_COLUMNS
#define CELL_SIZE	TABLE_CELL_SIZE

struct show {
	struct leaserun_entry *entries;
	size_t		 n, room;
};

static const char *const state_names[] = {
	[LEASERUN_FREE] = "free",
	[LEASERUN_BUSY] = "held",
	[LEASERUN_HOLDING] = "min-hold",
	[LEASERUN_REVOKING] = "revoking",
	[LEASERUN_UNREADABLE] = "unreadable",
};

/* A module may say what no version of the contract knows. */
static const char *
state_name(enum leaserun_state state)
{
	size_t n = sizeof(state_names) / sizeof(state_names[0]);

	return state_names[(size_t)state < n ? state : LEASERUN_UNREADABLE];
}

struct show *
show_new(void)
{
	return xcalloc(1, sizeof(struct show));
}

void
show_free(struct show *show)
{
	free(show->entries);
	free(show);
}

void
show_add(void *arg, const struct leaserun_entry *entry)
{
	struct show *show = arg;
	struct leaserun_entry *more;

	if (show->n == show->room) {
		show->room = show->room == 0 ? 16 : 2 * show->room;
		more = xcalloc(show->room, sizeof(*more));
		if (show->n > 0)
			memcpy(more, show->entries, show->n * sizeof(*more));
		free(show->entries);
		show->entries = more;
	}
	show->entries[show->n++] = *entry;
}

static int
by_name(const void *a, const void *b)
{
	const struct leaserun_entry *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static void
sort(struct show *show)
{
	if (show->n > 1)
		qsort(show->entries, show->n, sizeof(*show->entries), by_name);
}

/* The name as people gave it; what is not an encoded name stays as it is. */
static void
decoded(const char *name, char *text, size_t size)
{
	if (name_decode(name, text, size) == -1 || !text_is_clean(text))
		text_copy(text, size, text_is_clean(name) ? name : "?");
}

static const char *
clean(const char *text)
{
	return text_is_clean(text) ? text : "?";
}

static void
put_duration(char *cell, int64_t ms)
{
	if (ms < 0)
		text_copy(cell, CELL_SIZE, "-");
	else
		holder_duration(ms, cell, CELL_SIZE);
}

static int64_t
unix_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / NS_PER_MS;
}

/* "exit 0 2h ago, ran 3m" */
static void
put_end(char *cell, const struct leaserun_entry *e)
{
	char ago[CELL_SIZE], ran[CELL_SIZE];
	int64_t since = unix_ms() - e->end_ms;

	if (e->unclean || !e->has_end) {
		text_copy(cell, CELL_SIZE, e->unclean ? "not released" : "-");
		return;
	}
	put_duration(ago, since < 0 ? 0 : since);
	put_duration(ran, e->ran_ms < 0 ? 0 : e->ran_ms);
	snprintf(cell, CELL_SIZE, "exit %d %.40s ago, ran %.40s",
	    e->end_status, ago, ran);
}

static void
fill_row(const void *arg, size_t row, char cells[COLUMNS][CELL_SIZE])
{
	const struct show *show = arg;
	const struct leaserun_entry *e = &show->entries[row];
	bool is_held = e->state != LEASERUN_FREE &&
	    e->state != LEASERUN_UNREADABLE;
	const char *state = e->orphaned ? "orphaned" : state_name(e->state);
	size_t i;

	for (i = 0; i < COLUMNS; i++)
		strcpy(cells[i], "-");
	decoded(e->name, cells[0], CELL_SIZE);
	text_copy(cells[1], CELL_SIZE, state);
	if (e->waiting > 0)
		snprintf(cells[1], CELL_SIZE, "%s, %" PRId64 " waiting", state,
		    e->waiting);
	if (is_held && e->label[0] != '\0')
		text_copy(cells[2], CELL_SIZE, clean(e->label));
	else if (is_held && !holder_is_known(e))
		text_copy(cells[2], CELL_SIZE, "not recorded yet");
	if (is_held && e->pid > 0)
		snprintf(cells[3], CELL_SIZE, "%" PRId64, e->pid);
	if (is_held)
		put_duration(cells[4], e->held_for_ms);
	if (e->token > 0)
		snprintf(cells[5], CELL_SIZE, "%" PRIu64, e->token);
	if (is_held && e->expires_in_ms >= 0)
		put_duration(cells[6], e->expires_in_ms);
	put_end(cells[7], e);
}

void
show_table(struct show *show)
{
	const struct table table = {
		.heads = { "NAME", "STATE", "HOLDER", "PID", "HELD FOR",
		    "TOKEN", "EXPIRES IN", "LAST RUN" },
		.columns = COLUMNS,
		.rows = show->n,
		.fill = fill_row,
		.arg = show,
	};

	sort(show);
	table_print(&table);
}

bool
show_time(int64_t ms, char text[SHOW_TIME_SIZE])
{
	time_t seconds = (time_t)(ms / 1000);
	char whole[64];
	struct tm tm;

	if (ms <= 0 || gmtime_r(&seconds, &tm) == NULL)
		return false;
	strftime(whole, sizeof(whole), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, SHOW_TIME_SIZE, "%s.%03dZ", whole, (int)(ms % 1000));
	return true;
}

static json_t *
json_time(int64_t ms)
{
	char text[SHOW_TIME_SIZE];

	return show_time(ms, text) ? json_string(text) : json_null();
}

static json_t *
json_text(const char *text)
{
	return *text == '\0' ? json_null() : json_string(clean(text));
}

static json_t *
json_number(int64_t number, bool is_known)
{
	return is_known ? json_integer(number) : json_null();
}

static json_t *
json_end(const struct leaserun_entry *e)
{
	if (!e->has_end || e->unclean)
		return json_null();
	return json_pack("{s:i, s:o, s:I}", "status", e->end_status,
	    "ended_at", json_time(e->end_ms), "ran_ms",
	    (json_int_t)e->ran_ms);
}

static json_t *
json_entry(const struct leaserun_entry *e)
{
	char name[LEASERUN_NAME_SIZE];
	bool is_held = e->state != LEASERUN_FREE &&
	    e->state != LEASERUN_UNREADABLE;

	decoded(e->name, name, sizeof(name));
	return json_pack(
	    "{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
	    "s:o, s:b, s:b, s:o}",
	    "name", json_string(name),
	    "state", state_name(e->state),
	    "owner", json_text(is_held ? e->owner : ""),
	    "label", json_text(is_held ? e->label : ""),
	    "host", json_text(is_held ? e->host : ""),
	    "pid", json_number(e->pid, is_held && e->pid > 0),
	    "token", json_number((int64_t)e->token, e->token > 0),
	    "acquired_at", json_time(is_held ? e->acquired_ms : 0),
	    "renewed_at", json_time(is_held ? e->renewed_ms : 0),
	    "expires_at", json_time(is_held ? e->expires_ms : 0),
	    "held_for_ms", json_number(e->held_for_ms,
	    is_held && e->held_for_ms >= 0),
	    "expires_in_ms", json_number(e->expires_in_ms,
	    is_held && e->expires_in_ms >= 0),
	    "waiting", json_number(e->waiting, e->waiting >= 0),
	    "unclean_end", e->unclean,
	    "orphaned", e->orphaned,
	    "last_run", json_end(e));
}

void
show_json(struct show *show)
{
	json_t *list = json_array();
	size_t i;

	sort(show);
	for (i = 0; i < show->n; i++)
		json_array_append_new(list, json_entry(&show->entries[i]));
	json_dumpf(list, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
	putchar('\n');
	json_decref(list);
}
