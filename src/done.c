/*
 * The table and the JSON of `status --once'.  Must never let text from a store
 * reach the terminal unescaped.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "done.h"
#include "name.h"
#include "show.h"
#include "table.h"
#include "timeutil.h"
#include "util.h"

struct row {
	char		name[LEASERUN_NAME_SIZE];
	struct leaserun_entry entry;
};

struct done {
	char		name[LEASERUN_NAME_SIZE];
	struct row	*rows;		/* owned */
	size_t		 n, room;
};

struct done *
done_new(void)
{
	return xcalloc(1, sizeof(struct done));
}

void
done_free(struct done *done)
{
	if (done != NULL)
		free(done->rows);
	free(done);
}

void
done_name(struct done *done, const char *name)
{
	snprintf(done->name, sizeof(done->name), "%s", name);
}

void
done_add(void *arg, const struct leaserun_entry *entry)
{
	struct done *done = arg;
	struct row *more;

	if (done->n == done->room) {
		done->room = done->room == 0 ? 16 : 2 * done->room;
		more = xcalloc(done->room, sizeof(*more));
		if (done->n > 0)
			memcpy(more, done->rows, done->n * sizeof(*more));
		free(done->rows);
		done->rows = more;
	}
	memcpy(done->rows[done->n].name, done->name, sizeof(done->name));
	done->rows[done->n++].entry = *entry;
}

/* What no encoded name can be stays as it is, if it may be shown. */
static const char *
decoded(const char *name, char *text, size_t size)
{
	if (name_decode(name, text, size) == -1 || !text_is_clean(text))
		text_copy(text, size, text_is_clean(name) ? name : "?");
	return text;
}

static const char *
clean(const char *text)
{
	return text_is_clean(text) ? text : "?";
}

static void
fill_row(const void *arg, size_t row,
    char cells[TABLE_COLUMNS][TABLE_CELL_SIZE])
{
	const struct done *done = arg;
	const struct leaserun_entry *e = &done->rows[row].entry;
	char when[SHOW_TIME_SIZE];

	decoded(done->rows[row].name, cells[0], TABLE_CELL_SIZE);
	decoded(e->name, cells[1], TABLE_CELL_SIZE);
	text_copy(cells[2], TABLE_CELL_SIZE, show_time(e->end_ms, when) ?
	    when : "-");
	snprintf(cells[3], TABLE_CELL_SIZE, "%" PRIu64, e->token);
	text_copy(cells[4], TABLE_CELL_SIZE, clean(e->label));
	text_copy(cells[5], TABLE_CELL_SIZE, clean(e->host));
	duration_format(e->ran_ms < 0 ? 0 : time_times(e->ran_ms, NS_PER_MS),
	    cells[6], TABLE_CELL_SIZE);
}

void
done_table(struct done *done)
{
	const struct table table = {
		.heads = { "NAME", "KEY", "DONE AT", "TOKEN", "BY", "HOST",
		    "RAN" },
		.columns = 7,
		.rows = done->n,
		.fill = fill_row,
		.arg = done,
	};

	table_print(&table);
}

static json_t *
json_row(const struct row *row)
{
	char name[LEASERUN_NAME_SIZE], key[LEASERUN_KEY_SIZE];
	const struct leaserun_entry *e = &row->entry;
	char when[SHOW_TIME_SIZE];

	return json_pack("{s:s, s:s, s:o, s:I, s:s, s:s, s:s, s:I}",
	    "name", decoded(row->name, name, sizeof(name)),
	    "key", decoded(e->name, key, sizeof(key)),
	    "done_at", show_time(e->end_ms, when) ? json_string(when) :
	    json_null(), "token", (json_int_t)e->token,
	    "owner", clean(e->owner), "label", clean(e->label),
	    "host", clean(e->host), "ran_ms", (json_int_t)e->ran_ms);
}

void
done_json(struct done *done)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < done->n; i++)
		json_array_append_new(list, json_row(&done->rows[i]));
	json_dumpf(list, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
	putchar('\n');
	json_decref(list);
}
