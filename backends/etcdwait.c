/*
 * The watch of a waiter.  Must never rely on it alone: it may be silent.
 *
 * When a name becomes free its first waiter tries at once, the one behind it a
 * moment later unless it sees that somebody has it, and so on.  Whoever stands
 * far back is woken only when he comes near.  So a release costs the store two
 * transactions and wakes a few, however many wait, and a waiter that died in
 * the queue costs those behind it a moment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcdjson.h"
#include "etcdlease.h"
#include "etcdlook.h"
#include "etcdqueue.h"

#define LAST_CHANCE_NS	(200 * ETCD_NS_PER_MS)
#define STEP_NS		(50 * ETCD_NS_PER_MS)	/* between two places */
#define FAR_NS		ETCD_NS_PER_S
#define POLL_NS		(10 * ETCD_NS_PER_S)	/* and up to as much again */
#define PAUSE_NS	(100 * ETCD_NS_PER_MS)	/* after a watch that broke */
#define PAUSE_MAX	(5 * ETCD_NS_PER_S)

int64_t
etcdwait_limit(const struct etcd *e, const struct etcdwait *w)
{
	int64_t now = e->host->now(), end = now + w->request->answer_ns;
	int64_t last = now + LAST_CHANCE_NS;

	/* What is granted at the deadline should not be thrown away. */
	if (last < w->deadline)
		last = w->deadline;
	return end < last ? end : last;
}

bool
etcdwait_is_blocked(const struct etcdwait *w)
{
	const struct etcdview *view = w->view;

	return view->held.there || (view->hold.there &&
	    strcmp(etcdkv_text(&view->hold, "owner"), w->request->owner) != 0);
}

enum leaserun_result
etcdwait_tell(struct etcd *e, struct etcdwait *w, bool ask, int64_t deadline)
{
	enum leaserun_result result;
	struct leaserun_entry entry;

	etcdlook_entry(e, w->view, &entry);
	if (w->told && w->told_state == entry.state &&
	    strcmp(w->told_owner, entry.owner) == 0)
		return LEASERUN_OK;
	if (ask) {
		result = etcdlook_full(e, w->view, deadline, &entry);
		if (result != LEASERUN_OK)
			return result;
	}
	w->told = true;
	w->told_state = entry.state;
	memcpy(w->told_owner, entry.owner, sizeof(w->told_owner));
	return e->host->holder(e->host, &entry) ? LEASERUN_OK : LEASERUN_HELD;
}

/*
 * held and hold, and nothing else of the name; or who stands in front.  A watch
 * that is to start in the past, be it by one revision, is served by etcd only
 * every 100 ms: that of the name starts where it is made, and what was before
 * is looked at.
 */
static enum leaserun_result
open_watch(struct etcd *e, struct etcdwait *w)
{
	char key[ETCDKEYS_SIZE], end[ETCDKEYS_SIZE];
	enum leaserun_result result;
	json_t *request;
	int64_t from = 0;

	etcdkeys_lease(e, key, w->view->name, "held");
	etcdkeys_lease(e, end, w->view->name, "hole");
	if (w->ahead[0] != '\0') {
		snprintf(key, sizeof(key), "%s", w->ahead);
		snprintf(end, sizeof(end), "%.*s\x01", (int)sizeof(end) - 2,
		    w->ahead);
		from = w->view->revision + 1;
	}
	w->is_near = w->ahead[0] == '\0';
	request = json_pack("{s:{s:o, s:o, s:o}}", "create_request", "key",
	    etcdjson_bytes(key), "range_end", etcdjson_bytes(end),
	    "start_revision", etcdjson_number(from));
	result = etcdcall_stream(e, "/v3/watch", request,
	    etcdwait_limit(e, w));
	json_decref(request);
	return result;
}

/* A key that is gone. */
static bool
remove_key(const struct etcd *e, struct etcdview *view, const json_t *kv)
{
	char *key = etcdjson_text(kv, "key"), held[ETCDKEYS_SIZE];
	struct etcdkv *gone;

	if (key == NULL)
		return false;
	etcdkeys_lease(e, held, view->name, "held");
	gone = strcmp(key, held) == 0 ? &view->held : &view->hold;
	free(key);
	json_decref(gone->value);
	memset(gone, 0, sizeof(*gone));
	return true;
}

/* One change.  False: it cannot be understood. */
static bool
take_event(struct etcd *e, struct etcdwait *w, const json_t *event)
{
	const char *type = json_string_value(json_object_get(event, "type"));
	const json_t *kv = json_object_get(event, "kv");
	bool is_gone = type != NULL && strcmp(type, "DELETE") == 0;
	int64_t revision;

	/* It was put before we looked: what comes is its end. */
	if (!w->is_near) {
		w->is_stale = true;
		return true;
	}
	if (!etcdjson_int(kv, "mod_revision", &revision) ||
	    (!is_gone && !etcdqueue_note(e, w, kv)))
		return false;
	/* A look may have been later. */
	if (revision <= w->view->revision)
		return true;
	return is_gone ? remove_key(e, w->view, kv) :
	    etcdview_add(e, w->view, kv);
}

/* The watch is there, from this revision on. */
static bool
take_beginning(struct etcdwait *w, const json_t *result)
{
	int64_t revision;

	if (!json_is_true(json_object_get(result, "created")))
		return true;
	if (!etcdjson_int(json_object_get(result, "header"), "revision",
	    &revision))
		return false;
	/* Who has just come near is to count those in front of him. */
	if (w->is_near && (revision > w->view->revision ||
	    w->place >= ETCDWAIT_NEAR))
		w->is_stale = true;
	return true;
}

/* False: the watch is over, or says what cannot be understood. */
static bool
take_line(struct etcd *e, struct etcdwait *w, const char *line)
{
	json_t *json = etcdjson_parse(line, strlen(line));
	const json_t *result = json_object_get(json, "result");
	const json_t *event;
	bool ok;
	size_t i;

	ok = json_is_object(result) &&
	    !json_is_true(json_object_get(result, "canceled")) &&
	    take_beginning(w, result);
	json_array_foreach(json_object_get(result, "events"), i, event)
		ok = ok && take_event(e, w, event);
	if (ok && json_object_get(result, "events") != NULL)
		w->broken = 0;
	if (!ok)
		e->host->debug(e->host, "the watch ended: %.300s", line);
	json_decref(json);
	return ok;
}

/* False: the watch is over. */
static bool
take_lines(struct etcd *e, struct etcdwait *w)
{
	const char *line;

	while ((line = etcdhttp_line(e->http)) != NULL) {
		if (line[0] != '\0' && !take_line(e, w, line))
			return false;
	}
	return etcdhttp_is_open(e->http);
}

/* Before it is opened again, somewhere else. */
static enum leaserun_result
pause_broken(struct etcd *e, struct etcdwait *w)
{
	const struct leaserun_host *host = e->host;
	int64_t pause = PAUSE_NS, until;
	unsigned int i;

	for (i = 0; i < w->broken && pause < PAUSE_MAX; i++)
		pause *= 2;
	w->broken++;
	etcdhttp_close(e->http);
	etcdcall_rotate(e);
	until = host->now() + pause / 2 +
	    (int64_t)host->random((uint64_t)pause);
	return host->wait(host, NULL, 0,
	    until < w->deadline ? until : w->deadline);
}

/* When to try, now that the name is free. */
static int64_t
turn_at(const struct etcd *e, const struct etcdwait *w, int64_t now)
{
	int64_t jitter = STEP_NS;

	if (w->place == 0 && !w->is_denied)
		return now;
	/* A look found it free, and nobody in front takes it. */
	if (w->place >= ETCDWAIT_NEAR)
		jitter = FAR_NS;
	return now + w->place * STEP_NS +
	    (int64_t)e->host->random((uint64_t)jitter);
}

static int64_t
earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* What the watch may not have told. */
static enum leaserun_result
poll_name(struct etcd *e, struct etcdwait *w, int64_t deadline)
{
	enum leaserun_result result;
	struct etcdview view;

	result = etcdview_look(e, &view, w->request->name, deadline);
	if (result != LEASERUN_OK)
		return result;
	/* The watch is behind this by a moment, and will catch up. */
	etcdview_clear(w->view);
	*w->view = view;
	return LEASERUN_OK;
}

static int64_t
poll_at(const struct etcd *e)
{
	return e->host->now() + POLL_NS +
	    (int64_t)e->host->random((uint64_t)POLL_NS);
}

/* What is due by itself.  *again: try, whatever it is. */
static enum leaserun_result
do_chores(struct etcd *e, struct etcdwait *w, int64_t *poll, bool *again)
{
	const struct etcdgrip *g = &e->grip;
	int64_t now = e->host->now(), limit = etcdwait_limit(e, w);
	enum leaserun_result result = LEASERUN_OK;

	/* Our place is bound to it. */
	if (now >= g->sent_ns + g->ttl_ns / 4) {
		result = etcdgrip_keep(e, limit);
		*again = result == LEASERUN_OK && !g->is_granted;
	}
	if (result == LEASERUN_OK && now >= *poll) {
		*poll = poll_at(e);
		result = poll_name(e, w, limit);
	}
	/* Whoever tries finds out what is wrong. */
	if (result != LEASERUN_OK && result != LEASERUN_INTERRUPTED) {
		*again = true;
		result = LEASERUN_OK;
	}
	return result;
}

/* What the watch says.  *again: a look or a try is due. */
static enum leaserun_result
listen(struct etcd *e, struct etcdwait *w, int64_t until, bool *again)
{
	bool was_held = w->view->held.there;
	enum leaserun_result result;

	if ((result = etcdhttp_wait(e->http, until)) != LEASERUN_OK)
		return result;
	if (!take_lines(e, w)) {
		w->is_stale = *again = true;
		return pause_broken(e, w);
	}
	if (w->is_stale && !w->is_near) {
		/* It is to be there before we look. */
		w->ahead[0] = '\0';
		w->is_stale = false;
		return open_watch(e, w);
	}
	/* It may be done now: who is next finds out by his try. */
	if (w->request->once_key != NULL && was_held && !w->view->held.there &&
	    (w->place > 0 || etcdwait_is_blocked(w)))
		w->is_stale = true;
	*again = w->is_stale;
	return LEASERUN_OK;
}

static enum leaserun_result
wait_watching(struct etcd *e, struct etcdwait *w)
{
	int64_t poll = poll_at(e), try_at = INT64_MAX, now;
	const struct etcdgrip *g = &e->grip;
	enum leaserun_result result;
	bool again = false;

	for (;;) {
		/* A grant of ours whose answer was lost is seen here, too. */
		if (etcdview_is_held_by(w->view, w->request->owner))
			return LEASERUN_OK;
		now = e->host->now();
		result = LEASERUN_OK;
		if (etcdwait_is_blocked(w)) {
			try_at = INT64_MAX;
			result = etcdwait_tell(e, w, false, now);
		} else if (try_at == INT64_MAX)
			try_at = turn_at(e, w, now);
		if (result != LEASERUN_OK || now >= try_at)
			return result;
		if (now >= w->deadline)
			return LEASERUN_HELD;
		result = do_chores(e, w, &poll, &again);
		if (result == LEASERUN_OK && !again)
			result = listen(e, w, earlier(earlier(try_at,
			    w->deadline), earlier(poll, g->sent_ns +
			    g->ttl_ns / 4)), &again);
		if (result != LEASERUN_OK || again)
			return result;
	}
}

enum leaserun_result
etcdwait_turn(struct etcd *e, struct etcdwait *w)
{
	bool is_near = w->ahead[0] == '\0';
	enum leaserun_result result = LEASERUN_OK;

	/* We have a place, but do not know which. */
	w->is_stale = w->placed == 0 && e->grip.queued != 0;
	if (w->is_stale)
		return LEASERUN_OK;
	if (!is_near || !w->is_near || !etcdhttp_is_open(e->http))
		result = open_watch(e, w);
	if (result == LEASERUN_OK)
		result = wait_watching(e, w);
	w->is_denied = false;
	return result;
}
