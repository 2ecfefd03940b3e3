/*
 * revoke and init of the etcd backend.  Must never lower a floor, nor mark or
 * free what has changed since it was looked at.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcdadmin.h"
#include "etcdjson.h"
#include "etcdkeys.h"
#include "etcdlook.h"

/* How often somebody else may change what we want to. */
#define TRIES		5
/* Older floors than this belong to no lease any more. */
#define EARLIER_MAX	50

void
etcdsay(const struct etcdreport *report, enum leaserun_verdict verdict,
    const char *what, const char *fmt, ...)
{
	char text[LEASERUN_ERROR_SIZE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	report->fn(report->arg, verdict, what, text);
}

/* *done: the conditions held. */
static enum leaserun_result
commit(struct etcd *e, json_t *request, int64_t deadline, bool *done,
    enum etcdanswer *what)
{
	enum leaserun_result result;
	json_t *answer = NULL;

	result = etcdcall(e, "/v3/kv/txn", request, deadline, &answer, what);
	*done = json_is_true(json_object_get(answer, "succeeded"));
	json_decref(answer);
	json_decref(request);
	return result;
}

static enum leaserun_result
changed(const struct etcd *e, const char *what)
{
	e->host->error(e->host, "'%s' changes again and again; try once more",
	    what);
	return LEASERUN_UNAVAILABLE;
}

/* --- revoke --- */

static json_t *
make_mark(const struct etcdview *view, bool force)
{
	return json_pack("{s:i, s:s, s:o, s:b}", "layout", 1, "owner",
	    etcdkv_text(&view->held, "owner"), "token",
	    etcdjson_number((int64_t)etcdview_token(view, &view->held)),
	    "force", force);
}

static json_t *
make_revoke(const struct etcd *e, const struct etcdview *view, bool force,
    bool with_mark)
{
	json_t *all = json_array(), *ops = json_array(), *mark;
	char key[ETCDKEYS_SIZE];

	etcdkeys_lease(e, key, view->name, "held");
	json_array_append_new(all, etcdjson_modified(key,
	    view->held.modified));
	if (force)
		json_array_append_new(ops, etcdjson_delete(key));
	etcdkeys_lease(e, key, view->name, "hold");
	if (force) {
		json_array_append_new(all, etcdjson_modified(key,
		    view->hold.modified));
		json_array_append_new(ops, etcdjson_delete(key));
	}
	etcdkeys_lease(e, key, view->name, "mark");
	if (with_mark && view->held.there) {
		mark = make_mark(view, force);
		json_array_append_new(ops, etcdjson_put(key, mark, 0));
		json_decref(mark);
	}
	return etcdjson_txn(all, ops, NULL);
}

/* DONE: it has to be looked at again. */
static enum leaserun_result
revoke_view(struct etcd *e, const struct etcdview *view,
    const struct leaserun_revoke *revoke, int64_t deadline,
    struct leaserun_entry *entry)
{
	enum leaserun_result result;
	enum etcdanswer what;
	bool done;

	result = etcdlook_full(e, view, deadline, entry);
	if (result != LEASERUN_OK)
		return result;
	if ((view->held.there || view->hold.there) && revoke->token != 0 &&
	    revoke->token != entry->token)
		return LEASERUN_HELD;
	if (entry->state == LEASERUN_FREE ||
	    (!view->held.there && !revoke->force))
		return LEASERUN_OK;
	result = commit(e, make_revoke(e, view, revoke->force, true),
	    deadline, &done, &what);
	/* Freeing needs no space, saying why does. */
	if (what == ETCD_NO_SPACE && revoke->force)
		result = commit(e, make_revoke(e, view, true, false),
		    deadline, &done, &what);
	if (result != LEASERUN_OK)
		return result;
	if (!revoke->force)
		entry->state = LEASERUN_REVOKING;
	return done ? LEASERUN_OK : LEASERUN_DONE;
}

enum leaserun_result
etcdadmin_revoke(void *self, const struct leaserun_revoke *revoke,
    int64_t deadline, struct leaserun_entry *entry)
{
	enum leaserun_result result;
	struct leaserun_entry out;
	struct etcd *e = self;
	struct etcdview view;
	int i;

	for (i = 0; i < TRIES; i++) {
		result = etcdview_look(e, &view, revoke->name, deadline);
		if (result != LEASERUN_OK)
			return result;
		/* Force also frees what is no record of ours. */
		result = revoke->force ? LEASERUN_OK :
		    etcdview_check(e, &view);
		if (result == LEASERUN_OK)
			result = revoke_view(e, &view, revoke, deadline, &out);
		etcdview_clear(&view);
		if (result == LEASERUN_OK || result == LEASERUN_HELD)
			*entry = out;
		if (result != LEASERUN_DONE)
			return result;
	}
	return changed(e, revoke->name);
}

/* --- init --- */

/* The floors until now, each with the revision that it counts from. */
static json_t *
make_earlier(const struct etcdview *view)
{
	json_t *earlier, *old;

	old = json_object_get(view->floor.value, "earlier");
	earlier = json_is_array(old) ? json_copy(old) : json_array();
	if (view->floor.there)
		json_array_append_new(earlier, json_pack("{s:o, s:o}", "from",
		    etcdjson_number(view->floor.modified), "floor",
		    etcdjson_number(etcdview_floor(view, view->revision))));
	while (json_array_size(earlier) > EARLIER_MAX)
		json_array_remove(earlier, 0);
	return earlier;
}

static enum leaserun_result
raise_floor(struct etcd *e, const struct etcdview *view, int64_t floor,
    int64_t deadline, bool *done)
{
	char key[ETCDKEYS_SIZE];
	json_t *record, *request;

	record = json_pack("{s:i, s:o, s:o}", "layout", 1, "floor",
	    etcdjson_number(floor), "earlier", make_earlier(view));
	etcdkeys_floor(e, key);
	request = etcdjson_txn(json_pack("[o]", etcdjson_modified(key,
	    view->floor.modified)), json_pack("[o]", etcdjson_put(key, record,
	    0)), NULL);
	json_decref(record);
	return commit(e, request, deadline, done, NULL);
}

/*
 * A revision that is still to come is greater than the one of now, so a floor
 * of N less that one is enough.  DONE: look again.
 */
static enum leaserun_result
init_view(struct etcd *e, const struct etcdview *view,
    const struct leaserun_init *init, int64_t deadline,
    const struct etcdreport *report)
{
	int64_t floor = etcdview_floor(view, view->revision), raised;
	uint64_t last = (uint64_t)view->revision + (uint64_t)floor;
	enum leaserun_result result;
	bool done = true;

	if (init->raise_token == 0 || init->raise_token <= last) {
		etcdsay(report, LEASERUN_GOOD, "tokens", "the next one is "
		    "above %" PRIu64 " (floor %" PRId64 ")", last, floor);
		return LEASERUN_OK;
	}
	raised = (int64_t)init->raise_token - view->revision;
	if (!init->print) {
		result = raise_floor(e, view, raised, deadline, &done);
		if (result != LEASERUN_OK)
			return result;
	}
	if (!done)
		return LEASERUN_DONE;
	etcdsay(report, LEASERUN_GOOD, "tokens", "%s the floor from %" PRId64
	    " to %" PRId64 ": the next token is above %" PRIu64, init->print ?
	    "would raise" : "raised", floor, raised, init->raise_token);
	return LEASERUN_OK;
}

enum leaserun_result
etcdadmin_init(void *self, const struct leaserun_init *init, int64_t deadline,
    leaserun_line_fn *fn, void *arg)
{
	struct etcdreport report = { .fn = fn, .arg = arg };
	enum leaserun_result result;
	struct etcd *e = self;
	struct etcdview view;
	int i;

	if (init->raise_token >= (uint64_t)LEASERUN_TOKEN_MAX) {
		e->host->error(e->host, "above %" PRIu64 " there is no token; "
		    "give a lower number", init->raise_token);
		return LEASERUN_MISCONFIGURED;
	}
	for (i = 0; i < TRIES; i++) {
		/* The floor is read with any name. */
		result = etcdview_look(e, &view, "-", deadline);
		if (result != LEASERUN_OK)
			return result;
		if (i == 0)
			etcdsay(&report, LEASERUN_GOOD, "prefix", "'%s' needs "
			    "no preparation", e->url.prefix);
		result = view.floor.there ? etcdview_check(e, &view) :
		    LEASERUN_OK;
		if (result == LEASERUN_OK)
			result = init_view(e, &view, init, deadline, &report);
		etcdview_clear(&view);
		if (result != LEASERUN_DONE)
			return result;
	}
	return changed(e, "floor");
}
