/*
 * acquire: one transaction on the exact key, by an owner whose requests may
 * all arrive twice.  Must never answer OK for a lease whose key one
 * linearizable answer has not confirmed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcdgive.h"
#include "etcdjson.h"
#include "etcdkeys.h"
#include "etcdlease.h"
#include "etcdlook.h"
#include "etcdonce.h"
#include "etcdqueue.h"
#include "etcdtake.h"

#define CANCEL_NS	(500 * ETCD_NS_PER_MS)
#define BACKOFF_NS	(200 * ETCD_NS_PER_MS)

/* So many answers of a denial, or of a look, are not about --once. */
#define DENIAL		2
#define DENIAL_WAIT	5
#define LOOK_WAIT	4

/* --- The transaction --- */

static json_t *
make_record(const struct etcd *e, const struct etcdwait *w)
{
	const struct leaserun_request *q = w->request;

	return json_pack("{s:i, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:o}",
	    "layout", 1, "owner", etcdjson_outside(q->owner), "label",
	    etcdjson_outside(q->label), "host", etcdjson_outside(q->host),
	    "pid", (json_int_t)q->pid, "acquired_ms",
	    (json_int_t)etcdcall_clock_ms(e), "ttl_ms",
	    (json_int_t)(e->grip.ttl_ns / ETCD_NS_PER_MS), "hold_ms",
	    (json_int_t)(e->grip.hold_ttl_s * 1000), "queued",
	    etcdjson_number(etcdqueue_turn(e, w)));
}

/* A hold of our own is what an earlier grant of this acquisition left. */
static bool
has_own_hold(const struct etcdwait *w)
{
	return w->view->hold.there &&
	    strcmp(etcdkv_text(&w->view->hold, "owner"), w->request->owner) ==
	    0;
}

static json_t *
make_conditions(const struct etcd *e, const struct etcdwait *w)
{
	char key[ETCDKEYS_SIZE];
	json_t *all = json_array();

	etcdkeys_lease(e, key, w->request->name, "held");
	json_array_append_new(all, etcdjson_created(key, 0));
	etcdkeys_lease(e, key, w->request->name, "hold");
	json_array_append_new(all, has_own_hold(w) ?
	    etcdjson_modified(key, w->view->hold.modified) :
	    etcdjson_created(key, 0));
	etcdonce_add_conditions(e, all, w->request);
	return all;
}

/* What is read comes first, so that it is as it was before. */
static json_t *
make_grant(const struct etcd *e, const struct etcdwait *w)
{
	const char *name = w->request->name, *owner = w->request->owner;
	json_t *ops = json_array(), *record = make_record(e, w);
	char key[ETCDKEYS_SIZE];

	etcdkeys_add_look(e, ops, name);
	etcdkeys_lease(e, key, name, "held");
	json_array_append_new(ops, etcdjson_put(key, record,
	    etcdlease_id(owner)));
	etcdkeys_lease(e, key, name, "last");
	json_array_append_new(ops, etcdjson_put(key, record, 0));
	etcdkeys_lease(e, key, name, "mark");
	json_array_append_new(ops, etcdjson_delete(key));
	etcdkeys_wait(e, key, name, owner);
	json_array_append_new(ops, etcdjson_delete(key));
	etcdqueue_add_passed(w, ops);
	etcdkeys_lease(e, key, name, "hold");
	if (e->grip.hold_ttl_s > 0)
		json_array_append_new(ops, etcdjson_put(key, record,
		    etcdlease_hold_id(owner)));
	else if (has_own_hold(w))
		json_array_append_new(ops, etcdjson_delete(key));
	json_decref(record);
	return ops;
}

/*
 * Whether a try asks for a place in the queue, and for what is in front of it.
 * Who has a place counts on by the watch.
 */
static bool
asks_place(const struct etcd *e, const struct etcdwait *w)
{
	return w->request->wait && (e->grip.queued == 0 || w->placed == 0);
}

static json_t *
make_denial(const struct etcd *e, const struct etcdwait *w)
{
	const char *name = w->request->name;
	json_t *ops = json_array();

	etcdkeys_add_look(e, ops, name);
	if (asks_place(e, w)) {
		json_array_append_new(ops, etcdqueue_join(e, name,
		    w->request->owner));
		etcdqueue_add_look(e, ops, w);
	}
	etcdonce_add_look(e, ops, w->request);
	return ops;
}

/* --- Its answers --- */

static void
fill_grant(const struct etcdgrip *g, struct leaserun_grant *grant)
{
	memset(grant, 0, sizeof(*grant));
	grant->token = g->token;
	grant->sent_ns = g->sent_ns;
	grant->ttl_ns = g->ttl_ns;
	grant->hold_fd = -1;
}

/* The transaction was ours; the view is of before it. */
static enum leaserun_result
note_grant(struct etcd *e, const struct etcdwait *w,
    struct leaserun_grant *grant)
{
	const struct etcdview *view = w->view;
	struct etcdgrip *g = &e->grip;
	int64_t floor = etcdview_floor(view, view->revision);

	if (floor < 0 || floor > INT64_MAX - view->revision) {
		e->host->error(e->host, "the tokens of '%s' are used up; "
		    "choose another prefix", e->url.prefix);
		return LEASERUN_MISCONFIGURED;
	}
	g->revision = view->revision;
	g->token = (uint64_t)(view->revision + floor);
	g->queued = 0;
	fill_grant(g, grant);
	/* What an earlier try of our own left is no takeover. */
	grant->took_over = etcdlook_is_unclean(view) &&
	    strcmp(etcdkv_text(&view->last, "owner"), g->owner) != 0;
	if (grant->took_over)
		etcdlook_previous(view, &grant->previous);
	return LEASERUN_OK;
}

/*
 * Whom our grant took over, if its own answer did not tell: whoever was seen
 * last before it, if nobody was granted the name in between.
 */
static void
fill_takeover(const struct etcdgrip *g, const struct etcdview *view,
    struct leaserun_grant *grant)
{
	grant->took_over = g->grants > 0 &&
	    view->last.version == g->grants + 1 &&
	    strcmp(etcdkv_text(&view->done, "owner"), g->previous.owner) != 0;
	if (grant->took_over)
		grant->previous = g->previous;
}

/* The name is ours by an answer that was lost: is it still? */
static enum leaserun_result
find_own(struct etcd *e, struct etcdwait *w, int64_t deadline,
    struct leaserun_grant *grant)
{
	struct etcdgrip *g = &e->grip;
	enum leaserun_result result;
	int64_t sent, ttl_s;

	etcdview_clear(w->view);
	result = etcdlease_confirm(e, g->name, g->owner, deadline, &sent,
	    &ttl_s, w->view);
	if (result != LEASERUN_OK)
		return result;
	if (ttl_s == 0 || !etcdlease_has(w->view, g->owner)) {
		g->is_granted = false;
		e->host->error(e->host, "what was granted has just run out");
		return LEASERUN_UNAVAILABLE;
	}
	if (!g->is_granted)
		g->granted_ns = sent;
	g->is_granted = true;
	g->sent_ns = sent;
	g->term = e->term;
	g->ttl_ns = ttl_s * ETCD_NS_PER_S;
	g->revision = w->view->held.created;
	g->token = etcdview_token(w->view, &w->view->held);
	g->hold_until = sent + w->request->min_hold_ns;
	fill_grant(g, grant);
	fill_takeover(g, w->view, grant);
	return LEASERUN_OK;
}

/* Our own grant writes over it, and its answer may be lost. */
static void
note_previous(struct etcd *e, const struct etcdview *view)
{
	struct etcdgrip *g = &e->grip;

	if (!view->last.there ||
	    strcmp(etcdkv_text(&view->last, "owner"), g->owner) == 0)
		return;
	g->grants = view->last.version;
	etcdlook_previous(view, &g->previous);
}

static enum leaserun_result
read_answer(struct etcd *e, struct etcdwait *w, const json_t *answer,
    int64_t deadline, struct leaserun_grant *grant)
{
	enum leaserun_result result;

	etcdview_clear(w->view);
	result = etcdview_read(e, w->view, w->request->name, answer, 0);
	if (result == LEASERUN_OK)
		result = etcdview_check(e, w->view);
	if (result != LEASERUN_OK)
		return result;
	if (json_is_true(json_object_get(answer, "succeeded"))) {
		note_previous(e, w->view);
		result = note_grant(e, w, grant);
		/* Until when it lasts another one has said. */
		return result != LEASERUN_OK || e->grip.term == e->term ?
		    result : find_own(e, w, deadline, grant);
	}
	if (w->request->once_key != NULL && etcdonce_is_done(answer,
	    asks_place(e, w) ? DENIAL_WAIT : DENIAL))
		return LEASERUN_DONE;
	if (etcdview_is_held_by(w->view, w->request->owner))
		return find_own(e, w, deadline, grant);
	if (asks_place(e, w))
		etcdqueue_read(e, w, answer, 3);
	w->is_denied = !etcdwait_is_blocked(w);
	return LEASERUN_HELD;
}

/* One try.  OK, HELD, or it cannot be told. */
static enum leaserun_result
try_once(struct etcd *e, struct etcdwait *w, int64_t deadline,
    struct leaserun_grant *grant)
{
	enum leaserun_result result;
	json_t *request, *answer = NULL;
	enum etcdanswer what;

	result = etcdgrip_grant(e, w->request->ttl_ns,
	    w->request->min_hold_ns, deadline);
	if (result != LEASERUN_OK)
		return result;
	note_previous(e, w->view);
	request = etcdjson_txn(make_conditions(e, w), make_grant(e, w),
	    make_denial(e, w));
	result = etcdcall(e, "/v3/kv/txn", request, deadline, &answer, &what);
	json_decref(request);
	if (what == ETCD_NO_LEASE)
		e->grip.is_granted = false;
	if (result != LEASERUN_OK)
		return result;
	result = read_answer(e, w, answer, deadline, grant);
	json_decref(answer);
	return result;
}

/* --- The whole --- */

/*
 * One look without a trace: a name that is held costs the store no write.
 * OK: worth a try.
 */
static enum leaserun_result
look_first(struct etcd *e, struct etcdwait *w)
{
	int64_t deadline = etcdwait_limit(e, w);
	enum leaserun_result result;

	result = etcdview_look(e, w->view, w->request->name, deadline);
	if (result == LEASERUN_OK)
		result = etcdview_check(e, w->view);
	if (result != LEASERUN_OK || !etcdwait_is_blocked(w) ||
	    etcdview_is_held_by(w->view, w->request->owner))
		return result;
	result = etcdwait_tell(e, w, true, deadline);
	if (result == LEASERUN_OK && (!w->request->wait ||
	    e->host->now() >= w->deadline))
		result = LEASERUN_HELD;
	return result;
}

/*
 * Something may have changed that the watch did not tell, most often who stands
 * in front of us: a look costs the store less than a try.  HELD: wait on.
 */
static enum leaserun_result
look_again(struct etcd *e, struct etcdwait *w)
{
	const char *name = w->request->name, *owner = w->request->owner;
	json_t *ops = json_array(), *request, *answer = NULL;
	enum leaserun_result result;

	etcdkeys_add_look(e, ops, name);
	etcdqueue_add_look(e, ops, w);
	etcdonce_add_look(e, ops, w->request);
	request = etcdjson_txn(json_array(), ops, NULL);
	result = etcdcall(e, "/v3/kv/txn", request, etcdwait_limit(e, w),
	    &answer, NULL);
	json_decref(request);
	if (result != LEASERUN_OK)
		return result;
	etcdview_clear(w->view);
	result = etcdview_read(e, w->view, name, answer, 0);
	if (result == LEASERUN_OK && w->request->once_key != NULL &&
	    etcdonce_is_done(answer, LOOK_WAIT))
		result = LEASERUN_DONE;
	/* Without a place it is a try that makes one. */
	if (result == LEASERUN_OK && etcdqueue_read(e, w, answer, 2) &&
	    !etcdview_is_held_by(w->view, owner))
		result = LEASERUN_HELD;
	json_decref(answer);
	return result;
}

/* A short outage is no reason to give up a place. */
static enum leaserun_result
ride_out(struct etcd *e, const struct etcdwait *w, int64_t *since)
{
	const struct leaserun_host *host = e->host;
	int64_t now = host->now(), until;

	if (*since == INT64_MAX)
		*since = now;
	if (!w->told || now >= w->deadline ||
	    now - *since >= 3 * w->request->answer_ns)
		return LEASERUN_UNAVAILABLE;
	until = now + BACKOFF_NS / 2 +
	    (int64_t)host->random((uint64_t)BACKOFF_NS);
	return host->wait(host, NULL, 0,
	    until < w->deadline ? until : w->deadline);
}

static enum leaserun_result
take(struct etcd *e, struct etcdwait *w, struct leaserun_grant *grant)
{
	enum leaserun_result result = LEASERUN_OK;
	int64_t since = INT64_MAX;

	/* That it is done is final, whoever holds the name. */
	if (w->request->once_key != NULL)
		result = etcdonce_look(e, w->request, etcdwait_limit(e, w));
	if (result == LEASERUN_OK)
		result = look_first(e, w);
	if (result != LEASERUN_OK)
		return result;
	for (;;) {
		if (w->is_stale)
			result = look_again(e, w);
		if (result == LEASERUN_OK)
			result = try_once(e, w, etcdwait_limit(e, w), grant);
		if (result == LEASERUN_UNAVAILABLE) {
			result = ride_out(e, w, &since);
			if (result != LEASERUN_OK)
				return result;
			continue;
		}
		if (result != LEASERUN_HELD)
			return result;
		since = INT64_MAX;
		/* How long it lasts is worth a request only once. */
		result = !etcdwait_is_blocked(w) ? LEASERUN_OK :
		    etcdwait_tell(e, w, !w->told, etcdwait_limit(e, w));
		if (result == LEASERUN_OK && (!w->request->wait ||
		    e->host->now() >= w->deadline))
			result = LEASERUN_HELD;
		if (result == LEASERUN_OK)
			result = etcdwait_turn(e, w);
		if (result != LEASERUN_OK)
			return result;
	}
}

/* What was made ready for a grant that did not come. */
static enum leaserun_result
leave(struct etcd *e)
{
	int64_t deadline = e->host->now() + CANCEL_NS;
	struct etcdgrip *g = &e->grip;
	enum leaserun_result result;

	if (!g->is_granted)
		return LEASERUN_OK;
	result = etcdlease_revoke(e, etcdlease_id(g->owner), deadline);
	if (result == LEASERUN_OK && g->hold_ttl_s > 0)
		result = etcdlease_revoke(e, etcdlease_hold_id(g->owner),
		    deadline);
	if (result == LEASERUN_OK)
		memset(g, 0, sizeof(*g));
	return result;
}

enum leaserun_result
etcdtake_acquire(void *self, const struct leaserun_request *request,
    int64_t deadline, struct leaserun_grant *grant)
{
	struct etcd *e = self;
	enum leaserun_result result;
	struct leaserun_grant out;
	struct etcdview view;
	struct etcdwait w = { .request = request, .deadline = deadline,
	    .view = &view };

	memset(&view, 0, sizeof(view));
	etcdgrip_use(e, request->name, request->owner);
	result = take(e, &w, &out);
	if (e->http != NULL)
		etcdhttp_close(e->http);
	if (result != LEASERUN_OK && result != LEASERUN_INTERRUPTED &&
	    result != LEASERUN_UNAVAILABLE && leave(e) != LEASERUN_OK)
		e->host->debug(e->host, "a place in the queue runs out by "
		    "itself");
	/*
	 * The last try of a wait that ran out got no answer: what it may have
	 * been granted is given back, and then it can be granted nothing.
	 */
	if (result == LEASERUN_UNAVAILABLE && w.told && request->wait &&
	    e->host->now() >= deadline && etcdgive_abandon(e, request->name,
	    request->owner, e->host->now() + CANCEL_NS) == LEASERUN_OK)
		result = LEASERUN_HELD;
	if (result == LEASERUN_OK)
		*grant = out;
	etcdview_clear(&view);
	return result;
}
