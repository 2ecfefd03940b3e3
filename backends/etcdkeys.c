/*
 * The keys of a name and the records in them.  Must never take a record of an
 * unknown form for none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcdjson.h"
#include "etcdkeys.h"

#define LAYOUT	1

/* --- Keys --- */

void
etcdkeys_lease(const struct etcd *e, char key[ETCDKEYS_SIZE], const char *name,
    const char *what)
{
	snprintf(key, ETCDKEYS_SIZE, "%s/lease/%s/%s", e->url.prefix, name,
	    what == NULL ? "" : what);
}

void
etcdkeys_wait(const struct etcd *e, char key[ETCDKEYS_SIZE], const char *name,
    const char *owner)
{
	snprintf(key, ETCDKEYS_SIZE, "%s/wait/%s/%s", e->url.prefix, name,
	    owner == NULL ? "" : owner);
}

void
etcdkeys_floor(const struct etcd *e, char key[ETCDKEYS_SIZE])
{
	snprintf(key, ETCDKEYS_SIZE, "%s/floor", e->url.prefix);
}

void
etcdkeys_end(char end[ETCDKEYS_SIZE], const char *key)
{
	snprintf(end, ETCDKEYS_SIZE, "%s", key);
	end[strlen(end) - 1]++;
}

void
etcdkeys_add_look(const struct etcd *e, json_t *ops, const char *name)
{
	char key[ETCDKEYS_SIZE], end[ETCDKEYS_SIZE];

	etcdkeys_lease(e, key, name, NULL);
	etcdkeys_end(end, key);
	json_array_append_new(ops, etcdjson_range(key, end));
	etcdkeys_floor(e, key);
	json_array_append_new(ops, etcdjson_range(key, NULL));
}

/* --- Records --- */

static void
kv_clear(struct etcdkv *kv)
{
	json_decref(kv->value);
	memset(kv, 0, sizeof(*kv));
}

void
etcdview_clear(struct etcdview *view)
{
	kv_clear(&view->held);
	kv_clear(&view->hold);
	kv_clear(&view->last);
	kv_clear(&view->done);
	kv_clear(&view->end);
	kv_clear(&view->mark);
	kv_clear(&view->floor);
}

/* Which record a key is of; NULL: none that we know. */
static struct etcdkv *
find_kv(const struct etcd *e, struct etcdview *view, const char *key)
{
	struct {
		const char	*what;
		struct etcdkv	*kv;
	} all[] = {
		{ "held", &view->held }, { "hold", &view->hold },
		{ "last", &view->last }, { "done", &view->done },
		{ "end", &view->end }, { "mark", &view->mark }
	};
	char want[ETCDKEYS_SIZE];
	size_t i;

	etcdkeys_floor(e, want);
	if (strcmp(key, want) == 0)
		return &view->floor;
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		etcdkeys_lease(e, want, view->name, all[i].what);
		if (strcmp(key, want) == 0)
			return all[i].kv;
	}
	return NULL;
}

static bool
read_kv(struct etcdview *view, struct etcdkv *kv, const json_t *json)
{
	int64_t layout;
	char *text;

	if (!etcdjson_int(json, "create_revision", &kv->created) ||
	    !etcdjson_int(json, "mod_revision", &kv->modified) ||
	    !etcdjson_int(json, "version", &kv->version) ||
	    !etcdjson_int(json, "lease", &kv->lease) ||
	    (text = etcdjson_text(json, "value")) == NULL)
		return false;
	kv->there = true;
	kv->value = etcdjson_parse(text, strlen(text));
	free(text);
	if (!etcdjson_int(kv->value, "layout", &layout) || layout < 1)
		view->bad = true;
	else if (layout > LAYOUT)
		view->foreign = true;
	return true;
}

bool
etcdview_add(const struct etcd *e, struct etcdview *view, const json_t *json)
{
	char *key = etcdjson_text(json, "key");
	struct etcdkv *kv;
	bool ok;

	if (key == NULL)
		return false;
	kv = find_kv(e, view, key);
	free(key);
	if (kv == NULL)
		return true;
	kv_clear(kv);
	ok = read_kv(view, kv, json);
	if (!ok)
		kv_clear(kv);
	return ok;
}

enum leaserun_result
etcdview_read(const struct etcd *e, struct etcdview *view, const char *name,
    const json_t *txn, size_t first)
{
	const json_t *range, *kv;
	size_t i, j;

	memset(view, 0, sizeof(*view));
	snprintf(view->name, sizeof(view->name), "%s", name);
	if (!etcdjson_int(json_object_get(txn, "header"), "revision",
	    &view->revision) || view->revision <= 0)
		return etcdcall_nonsense(e, "no revision");
	for (i = first; i < first + 2; i++) {
		range = etcdjson_response(txn, i, "response_range");
		if (!json_is_object(range))
			return etcdcall_nonsense(e, "no range");
		json_array_foreach(json_object_get(range, "kvs"), j, kv) {
			if (!etcdview_add(e, view, kv))
				return etcdcall_nonsense(e, "a key");
		}
	}
	/* Half of a record is not what stands there. */
	return etcdjson_failed() ? etcdcall_nonsense(e, "out of memory") :
	    LEASERUN_OK;
}

enum leaserun_result
etcdview_look(struct etcd *e, struct etcdview *view, const char *name,
    int64_t deadline)
{
	json_t *ops = json_array(), *request, *answer = NULL;
	enum leaserun_result result;

	memset(view, 0, sizeof(*view));
	etcdkeys_add_look(e, ops, name);
	request = etcdjson_txn(json_array(), ops, NULL);
	result = etcdcall(e, "/v3/kv/txn", request, deadline, &answer, NULL);
	json_decref(request);
	if (result != LEASERUN_OK)
		return result;
	result = etcdview_read(e, view, name, answer, 0);
	json_decref(answer);
	if (result != LEASERUN_OK)
		etcdview_clear(view);
	return result;
}

enum leaserun_result
etcdview_check(const struct etcd *e, const struct etcdview *view)
{
	if (!view->bad && !view->foreign)
		return LEASERUN_OK;
	if (view->foreign)
		e->host->error(e->host, "the keys below '%s' were written by a "
		    "newer version of leaserun; use that version",
		    e->url.prefix);
	else
		e->host->error(e->host, "a key of '%s' or '%s/floor' is not a "
		    "record of leaserun; look at 'etcdctl get --prefix "
		    "%s/lease/%s/' and delete what is wrong", view->name,
		    e->url.prefix, e->url.prefix, view->name);
	return LEASERUN_MISCONFIGURED;
}

const char *
etcdkv_text(const struct etcdkv *kv, const char *key)
{
	const char *text = json_string_value(json_object_get(kv->value, key));

	return text == NULL ? "" : text;
}

int64_t
etcdkv_int(const struct etcdkv *kv, const char *key)
{
	int64_t value;

	return etcdjson_int(kv->value, key, &value) ? value : 0;
}

/*
 * The record has the floor of today, which counts from the revision of the
 * record on, and the earlier ones with the revision from which each counted.
 */
int64_t
etcdview_floor(const struct etcdview *view, int64_t revision)
{
	const json_t *earlier, *one;
	int64_t from, floor = 0;
	size_t i;

	if (!view->floor.there)
		return 0;
	if (revision >= view->floor.modified)
		return etcdkv_int(&view->floor, "floor");
	earlier = json_object_get(view->floor.value, "earlier");
	json_array_foreach(earlier, i, one) {
		if (etcdjson_int(one, "from", &from) && from <= revision)
			etcdjson_int(one, "floor", &floor);
	}
	return floor;
}

uint64_t
etcdview_token(const struct etcdview *view, const struct etcdkv *kv)
{
	int64_t revision, floor;

	if (!kv->there)
		return 0;
	/* The record of the last grant is written over, held is not. */
	revision = kv == &view->last ? kv->modified : kv->created;
	floor = etcdview_floor(view, revision);
	if (revision <= 0 || floor < 0 || floor > INT64_MAX - revision)
		return 0;
	return (uint64_t)(revision + floor);
}

bool
etcdview_is_held_by(const struct etcdview *view, const char *owner)
{
	return view->held.there &&
	    strcmp(etcdkv_text(&view->held, "owner"), owner) == 0;
}
