/*
 * release and abandon: one transaction that is conditional on our lease, which
 * then goes, too.  Must never delete what is somebody else's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcdgive.h"
#include "etcdjson.h"
#include "etcdkeys.h"
#include "etcdlease.h"
#include "etcdonce.h"

/* For what may as well run out by itself. */
#define TIDY_NS		(500 * ETCD_NS_PER_MS)
/* And for whom it makes way. */
#define PAUSE_NS	(5 * ETCD_NS_PER_MS)

struct giving {
	const char	*name;
	const char	*owner;
	int64_t		revision;	/* of held; 0: any of the owner's */
	const struct leaserun_end *end;	/* NULL: it never ran */
	bool		keep_hold;
	const struct etcdonce *once;	/* NULL: nothing is done */
	bool		has_waiters;	/* when it was given */
};

static json_t *
make_count(const struct etcd *e, const char *name)
{
	char key[ETCDKEYS_SIZE], end[ETCDKEYS_SIZE];
	json_t *op;

	etcdkeys_wait(e, key, name, NULL);
	etcdkeys_end(end, key);
	op = etcdjson_range(key, end);
	json_object_set_new(json_object_get(op, "request_range"),
	    "count_only", json_true());
	return op;
}

static bool
are_waiting(const json_t *answer)
{
	int64_t count;

	return etcdjson_int(etcdjson_response(answer, 0, "response_range"),
	    "count", &count) && count > 0;
}

static json_t *
make_conditions(const struct etcd *e, const struct giving *g)
{
	char key[ETCDKEYS_SIZE];
	json_t *all = json_array();

	etcdkeys_lease(e, key, g->name, "held");
	json_array_append_new(all, etcdjson_lease_is(key, true,
	    etcdlease_id(g->owner)));
	if (g->revision != 0)
		json_array_append_new(all, etcdjson_created(key,
		    g->revision));
	return all;
}

static void
add_records(const struct etcd *e, const struct giving *g, json_t *ops)
{
	char key[ETCDKEYS_SIZE];
	json_t *record;

	record = json_pack("{s:i, s:s}", "layout", 1, "owner", g->owner);
	etcdkeys_lease(e, key, g->name, "done");
	json_array_append_new(ops, etcdjson_put(key, record, 0));
	json_decref(record);
	if (g->once != NULL)
		etcdonce_add_record(e, ops, g->once);
	if (g->end == NULL || !g->end->ran)
		return;
	record = json_pack("{s:i, s:i, s:I, s:I}", "layout", 1, "status",
	    g->end->status, "end_ms", (json_int_t)etcdcall_clock_ms(e),
	    "ran_ms", (json_int_t)(g->end->ran_ns / ETCD_NS_PER_MS));
	etcdkeys_lease(e, key, g->name, "end");
	json_array_append_new(ops, etcdjson_put(key, record, 0));
	json_decref(record);
}

/* What cannot be written must not be told as it was the time before, either. */
static void
forget_records(const struct etcd *e, const struct giving *g, json_t *ops)
{
	static const char *const all[] = { "last", "done", "end" };
	char key[ETCDKEYS_SIZE];
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		etcdkeys_lease(e, key, g->name, all[i]);
		json_array_append_new(ops, etcdjson_delete(key));
	}
}

/*
 * Without records it works when etcd has no space for anything new; but then
 * nothing would be known to be done.
 */
static json_t *
make_request(const struct etcd *e, const struct giving *g, bool with_records)
{
	json_t *success = json_array(), *failure = json_array();
	char key[ETCDKEYS_SIZE];

	json_array_append_new(success, make_count(e, g->name));
	etcdkeys_lease(e, key, g->name, "held");
	json_array_append_new(success, etcdjson_delete(key));
	etcdkeys_lease(e, key, g->name, "mark");
	json_array_append_new(success, etcdjson_delete(key));
	if (!g->keep_hold) {
		etcdkeys_lease(e, key, g->name, "hold");
		json_array_append_new(success, etcdjson_delete(key));
	}
	if (with_records)
		add_records(e, g, success);
	else
		forget_records(e, g, success);
	etcdkeys_add_look(e, failure, g->name);
	return etcdjson_txn(make_conditions(e, g), success, failure);
}

/* Ours or not; then the view, to be cleared, says what is there instead. */
static enum leaserun_result
give(struct etcd *e, struct giving *g, int64_t deadline,
    struct etcdview *view)
{
	bool with_records = true;
	enum leaserun_result result;
	json_t *request, *answer;
	enum etcdanswer what;

	memset(view, 0, sizeof(*view));
	for (;;) {
		answer = NULL;
		request = make_request(e, g, with_records);
		result = etcdcall(e, "/v3/kv/txn", request, deadline, &answer,
		    &what);
		json_decref(request);
		if (what != ETCD_NO_SPACE || !with_records || g->once != NULL)
			break;
		with_records = false;
	}
	if (result != LEASERUN_OK)
		return result;
	if (!json_is_true(json_object_get(answer, "succeeded"))) {
		result = etcdview_read(e, view, g->name, answer, 0);
		if (result == LEASERUN_OK)
			result = LEASERUN_LOST;
	} else
		g->has_waiters = are_waiting(answer);
	json_decref(answer);
	return result;
}

static bool
was_given(const struct etcdview *view, const char *owner)
{
	return strcmp(etcdkv_text(&view->done, "owner"), owner) == 0;
}

/* The leases themselves, which nothing is bound to any more. */
static void
tidy(struct etcd *e, const struct giving *g, bool has_hold, int64_t deadline)
{
	enum leaserun_result result;
	int64_t limit;

	/* Whoever is next asks for the name now: that goes first. */
	if (g->has_waiters)
		e->host->wait(e->host, NULL, 0, e->host->now() + PAUSE_NS);
	limit = e->host->now() + TIDY_NS;
	if (limit > deadline)
		limit = deadline;
	result = etcdlease_revoke(e, etcdlease_id(g->owner), limit);
	if (result == LEASERUN_OK && has_hold && !g->keep_hold)
		result = etcdlease_revoke(e, etcdlease_hold_id(g->owner),
		    limit);
	if (result != LEASERUN_OK)
		e->host->debug(e->host, "a lease without a key runs out by "
		    "itself");
}

/*
 * The revision that goes with a token, if the name is held with that.  For
 * --once also who it is.  DONE: it was given back before.
 */
static enum leaserun_result
find_revision(struct etcd *e, const struct leaserun_lease *lease,
    int64_t deadline, int64_t *revision, struct etcdonce *once)
{
	struct etcdgrip *grip = etcdgrip_find(e, lease->name, lease->owner);
	enum leaserun_result result;
	struct etcdview view;

	if (once == NULL && grip != NULL && grip->token == lease->token &&
	    grip->token != 0) {
		*revision = grip->revision;
		return LEASERUN_OK;
	}
	result = etcdview_look(e, &view, lease->name, deadline);
	if (result != LEASERUN_OK)
		return result;
	*revision = view.held.created;
	if (!etcdview_is_held_by(&view, lease->owner) ||
	    etcdview_token(&view, &view.held) != lease->token)
		result = !view.held.there && was_given(&view, lease->owner) ?
		    LEASERUN_DONE : LEASERUN_LOST;
	if (once != NULL) {
		snprintf(once->label, sizeof(once->label), "%s",
		    etcdkv_text(&view.held, "label"));
		snprintf(once->host, sizeof(once->host), "%s",
		    etcdkv_text(&view.held, "host"));
	}
	etcdview_clear(&view);
	return result;
}

/* OK, LOST; our own release, without an answer, is none. */
static enum leaserun_result
give_held(struct etcd *e, struct giving *g, const struct leaserun_lease *lease,
    int64_t deadline)
{
	enum leaserun_result result;
	struct etcdview view;

	result = give(e, g, deadline, &view);
	if (result == LEASERUN_LOST && !view.held.there &&
	    was_given(&view, lease->owner))
		result = LEASERUN_OK;
	etcdview_clear(&view);
	return result;
}

/*
 * The same with a record.  An answer that was lost is found by it, whoever has
 * the name now.
 */
static enum leaserun_result
give_once(struct etcd *e, struct giving *g, struct etcdonce *once,
    int64_t deadline)
{
	const struct leaserun_lease *lease = once->lease;
	enum leaserun_result result;
	int64_t limit = deadline;

	result = find_revision(e, lease, deadline, &g->revision, once);
	if (result == LEASERUN_OK) {
		result = etcdonce_prepare(e, once, &limit);
		if (result == LEASERUN_OK) {
			g->once = once;
			result = give_held(e, g, lease, limit);
		}
	}
	if (result != LEASERUN_LOST)
		return result;
	result = etcdonce_find(e, lease, once->end->once_key, deadline);
	if (result != LEASERUN_OK)
		return result;
	/* Without the name no request that is on its way can make it now. */
	etcdonce_drop(e, lease->owner, deadline);
	return LEASERUN_LOST;
}

enum leaserun_result
etcdgive_release(void *self, const struct leaserun_lease *lease,
    const struct leaserun_end *end, int64_t deadline)
{
	struct etcd *e = self;
	struct etcdgrip *grip = etcdgrip_find(e, lease->name, lease->owner);
	struct giving g = { .name = lease->name, .owner = lease->owner,
	    .end = end };
	struct etcdonce once = { .lease = lease, .end = end };
	bool has_hold = grip == NULL || grip->hold_ttl_s > 0;
	enum leaserun_result result;

	g.keep_hold = end->ran && has_hold && (grip == NULL ||
	    e->host->now() < grip->hold_until);
	if (end->once_key != NULL)
		result = give_once(e, &g, &once, deadline);
	else {
		result = find_revision(e, lease, deadline, &g.revision, NULL);
		if (result == LEASERUN_OK)
			result = give_held(e, &g, lease, deadline);
	}
	if (result != LEASERUN_OK && result != LEASERUN_DONE)
		return result;
	tidy(e, &g, has_hold, deadline);
	if (grip != NULL)
		memset(grip, 0, sizeof(*grip));
	return LEASERUN_OK;
}

enum leaserun_result
etcdgive_abandon(void *self, const char *name, const char *owner,
    int64_t deadline)
{
	struct etcd *e = self;
	struct etcdgrip *grip = etcdgrip_find(e, name, owner);
	struct giving g = { .name = name, .owner = owner };
	enum leaserun_result result;
	struct etcdview view;

	result = give(e, &g, deadline, &view);
	etcdview_clear(&view);
	if (result != LEASERUN_OK && result != LEASERUN_LOST)
		return result;
	/*
	 * Also when there was no key: a request that is still on its way then
	 * finds no lease, and a place in the queue goes.
	 */
	result = etcdlease_revoke(e, etcdlease_id(owner), deadline);
	if (result == LEASERUN_OK && (grip == NULL || grip->hold_ttl_s > 0))
		result = etcdlease_revoke(e, etcdlease_hold_id(owner),
		    deadline);
	if (result == LEASERUN_OK && grip != NULL)
		memset(grip, 0, sizeof(*grip));
	return result;
}
