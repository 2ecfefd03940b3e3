/*
 * Places in the queue of a name.  Must never decide who has the name: that is
 * for the transaction on its key.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcdjson.h"
#include "etcdlease.h"
#include "etcdqueue.h"

json_t *
etcdqueue_join(const struct etcd *e, const char *name, const char *owner)
{
	json_t *place = json_pack("{s:i}", "layout", 1);
	char key[ETCDKEYS_SIZE], held[ETCDKEYS_SIZE];
	int64_t id = etcdlease_id(owner);
	json_t *txn;

	etcdkeys_wait(e, key, name, owner);
	etcdkeys_lease(e, held, name, "held");
	txn = etcdjson_txn(json_pack("[o, o]", etcdjson_created(key, 0),
	    etcdjson_lease_is(held, false, id)),
	    json_pack("[o]", etcdjson_put(key, place, id)), NULL);
	json_decref(place);
	return etcdjson_op("request_txn", txn);
}

void
etcdqueue_add_look(const struct etcd *e, json_t *ops,
    const struct etcdwait *w)
{
	char key[ETCDKEYS_SIZE], end[ETCDKEYS_SIZE];
	json_t *queue, *order;

	etcdkeys_wait(e, key, w->request->name, NULL);
	etcdkeys_end(end, key);
	queue = etcdjson_range(key, end);
	/* The nearest first. */
	order = json_pack("{s:b, s:i, s:s, s:s, s:o}", "keys_only", 1,
	    "limit", ETCDWAIT_NEAR + 1, "sort_order", "DESCEND",
	    "sort_target", "CREATE", "max_create_revision",
	    etcdjson_number(e->grip.queued));
	json_object_update(json_object_get(queue, "request_range"), order);
	json_decref(order);
	json_array_append_new(ops, queue);
	etcdkeys_wait(e, key, w->request->name, w->request->owner);
	json_array_append_new(ops, etcdjson_range(key, NULL));
}

static bool
read_place(struct etcdplace *place, const json_t *kv)
{
	char *key = etcdjson_text(kv, "key");
	bool ok = key != NULL && strlen(key) < sizeof(place->key) &&
	    etcdjson_int(kv, "create_revision", &place->created);

	if (ok)
		snprintf(place->key, sizeof(place->key), "%s", key);
	free(key);
	return ok;
}

static bool
is_first(const json_t *queue, int64_t created)
{
	int64_t first;

	return etcdjson_int(json_array_get(queue, 0), "create_revision",
	    &first) && first == created;
}

bool
etcdqueue_read(struct etcd *e, struct etcdwait *w, const json_t *answer,
    size_t i)
{
	const json_t *queue, *own;

	queue = json_object_get(etcdjson_response(answer, i,
	    "response_range"), "kvs");
	own = json_array_get(json_object_get(etcdjson_response(answer, i + 1,
	    "response_range"), "kvs"), 0);
	/* Nobody is in front of one who was passed over. */
	w->place = 0;
	w->ahead[0] = '\0';
	if (own == NULL || !etcdjson_int(own, "create_revision",
	    &e->grip.queued))
		return false;
	/*
	 * The first is ourselves, unless the place was made by a request whose
	 * answer was lost: then others may have come, and it is asked again.
	 */
	w->placed = is_first(queue, e->grip.queued) ? w->view->revision : 0;
	if (w->placed == 0)
		return true;
	while (w->place < ETCDWAIT_NEAR && read_place(&w->front[w->place],
	    json_array_get(queue, (size_t)w->place + 1)))
		w->place++;
	if (w->place == ETCDWAIT_NEAR)
		memcpy(w->ahead, w->front[ETCDWAIT_NEAR - 1].key,
		    sizeof(w->ahead));
	return true;
}

void
etcdqueue_add_passed(const struct etcdwait *w, json_t *ops)
{
	int i;

	for (i = 0; w->place < ETCDWAIT_NEAR && i < w->place; i++)
		json_array_append_new(ops, etcdjson_delete(w->front[i].key));
}

int64_t
etcdqueue_turn(const struct etcd *e, const struct etcdwait *w)
{
	return w->place < ETCDWAIT_NEAR ? e->grip.queued : 0;
}

bool
etcdqueue_note(const struct etcd *e, struct etcdwait *w, const json_t *kv)
{
	struct etcdview got;
	int64_t turn;
	bool ok;

	memset(&got, 0, sizeof(got));
	memcpy(got.name, w->view->name, sizeof(got.name));
	ok = etcdview_add(e, &got, kv);
	turn = etcdkv_int(&got.held, "queued");
	/* A record that is written over is no grant. */
	if (ok && got.held.there && got.held.created == got.held.modified &&
	    got.held.modified > w->placed) {
		while (w->place > 0 && w->front[w->place - 1].created <= turn)
			w->place--;
	}
	etcdview_clear(&got);
	return ok;
}
