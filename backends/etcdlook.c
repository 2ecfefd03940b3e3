/*
 * From keys to entries, and list.  Must never change anything.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcdjson.h"
#include "etcdlease.h"
#include "etcdlook.h"

#define PAGE	500		/* keys in one answer */

static void
copy(char *dst, size_t size, const char *src)
{
	size_t n = strnlen(src, size - 1);

	/* Not through the middle of a character. */
	while (src[n] != '\0' && n > 0 &&
	    ((unsigned char)src[n] & 0xc0) == 0x80)
		n--;
	memcpy(dst, src, n);
	dst[n] = '\0';
}

static void
fill_holder(const struct etcdkv *kv, struct leaserun_entry *entry)
{
	copy(entry->owner, sizeof(entry->owner), etcdkv_text(kv, "owner"));
	copy(entry->label, sizeof(entry->label), etcdkv_text(kv, "label"));
	copy(entry->host, sizeof(entry->host), etcdkv_text(kv, "host"));
	entry->pid = etcdkv_int(kv, "pid");
	entry->acquired_ms = etcdkv_int(kv, "acquired_ms");
}

bool
etcdlook_is_unclean(const struct etcdview *view)
{
	return view->last.there && strcmp(etcdkv_text(&view->last, "owner"),
	    etcdkv_text(&view->done, "owner")) != 0;
}

void
etcdlook_previous(const struct etcdview *view, struct leaserun_entry *entry)
{
	memset(entry, 0, sizeof(*entry));
	copy(entry->name, sizeof(entry->name), view->name);
	fill_holder(&view->last, entry);
	entry->token = etcdview_token(view, &view->last);
	entry->held_for_ms = entry->expires_in_ms = entry->waiting = -1;
	entry->unclean = true;
}

static enum leaserun_state
state_of(const struct etcdview *view)
{
	const struct etcdkv *mark = &view->mark;

	if (!view->held.there)
		return view->hold.there ? LEASERUN_HOLDING : LEASERUN_FREE;
	if (mark->there && !json_is_true(json_object_get(mark->value,
	    "force")) && strcmp(etcdkv_text(mark, "owner"),
	    etcdkv_text(&view->held, "owner")) == 0 &&
	    (uint64_t)etcdkv_int(mark, "token") ==
	    etcdview_token(view, &view->held))
		return LEASERUN_REVOKING;
	return LEASERUN_BUSY;
}

static void
fill_end(const struct etcdkv *end, struct leaserun_entry *entry)
{
	if (!end->there)
		return;
	entry->has_end = true;
	entry->end_status = (int)etcdkv_int(end, "status");
	entry->end_ms = etcdkv_int(end, "end_ms");
	entry->ran_ms = etcdkv_int(end, "ran_ms");
}

static int64_t
at_least(int64_t value, int64_t least)
{
	return value < least ? least : value;
}

void
etcdlook_entry(const struct etcd *e, const struct etcdview *view,
    struct leaserun_entry *entry)
{
	const struct etcdkv *kv = view->held.there ? &view->held : &view->hold;
	int64_t now_ms = etcdcall_clock_ms(e), until;

	memset(entry, 0, sizeof(*entry));
	copy(entry->name, sizeof(entry->name), view->name);
	entry->held_for_ms = entry->expires_in_ms = entry->waiting = -1;
	entry->state = view->bad || view->foreign ? LEASERUN_UNREADABLE :
	    state_of(view);
	fill_end(&view->end, entry);
	entry->token = etcdview_token(view, &view->last);
	if (!view->held.there)
		entry->unclean = etcdlook_is_unclean(view);
	if (!kv->there)
		return;
	fill_holder(kv, entry);
	if (entry->state == LEASERUN_HOLDING)
		entry->pid = 0;		/* nobody runs */
	entry->token = etcdview_token(view, kv);
	entry->held_for_ms = at_least(now_ms - entry->acquired_ms, 0);
	until = kv == &view->held ? now_ms + etcdkv_int(kv, "ttl_ms") :
	    entry->acquired_ms + etcdkv_int(kv, "hold_ms");
	entry->expires_in_ms = at_least(until - now_ms, 1);
	entry->expires_ms = now_ms + entry->expires_in_ms;
	if (kv == &view->held)
		entry->renewed_ms = entry->acquired_ms;
}

enum leaserun_result
etcdlook_full(struct etcd *e, const struct etcdview *view, int64_t deadline,
    struct leaserun_entry *entry)
{
	const struct etcdkv *kv = view->held.there ? &view->held : &view->hold;
	enum leaserun_result result;
	int64_t left_ms, granted_s;

	etcdlook_entry(e, view, entry);
	if (!kv->there)
		return LEASERUN_OK;
	if (kv->lease == 0) {		/* put there by hand */
		entry->expires_in_ms = -1;
		entry->expires_ms = 0;
		return LEASERUN_OK;
	}
	result = etcdlease_left(e, kv->lease, deadline, &left_ms, &granted_s);
	if (result != LEASERUN_OK)
		return result;
	/* A lease that has just gone takes the key with it in a moment. */
	entry->expires_in_ms = at_least(left_ms, 1);
	entry->expires_ms = etcdcall_clock_ms(e) + entry->expires_in_ms;
	/* Heartbeats write nothing: this is what is left of them. */
	if (kv == &view->held)
		entry->renewed_ms = at_least(entry->expires_ms -
		    granted_s * 1000, entry->acquired_ms);
	return LEASERUN_OK;
}

/* --- list --- */

/* How many wait for the name. */
static enum leaserun_result
count_waiters(struct etcd *e, int64_t deadline, struct leaserun_entry *entry)
{
	char key[ETCDKEYS_SIZE], end[ETCDKEYS_SIZE];
	json_t *request, *answer = NULL;
	enum leaserun_result result;

	etcdkeys_wait(e, key, entry->name, NULL);
	etcdkeys_end(end, key);
	request = json_pack("{s:o, s:o, s:b}", "key", etcdjson_bytes(key),
	    "range_end", etcdjson_bytes(end), "count_only", 1);
	result = etcdcall(e, "/v3/kv/range", request, deadline, &answer, NULL);
	json_decref(request);
	if (result == LEASERUN_OK &&
	    !etcdjson_int(answer, "count", &entry->waiting))
		result = etcdcall_nonsense(e, "count");
	json_decref(answer);
	return result;
}

/* Of a view that is then cleared. */
static enum leaserun_result
tell(struct etcd *e, struct etcdview *view, int64_t deadline,
    leaserun_entry_fn *fn, void *arg)
{
	struct leaserun_entry entry;
	enum leaserun_result result;

	result = etcdlook_full(e, view, deadline, &entry);
	/* Whoever has a place in the queue of a free name has just come. */
	if (result == LEASERUN_OK && entry.state != LEASERUN_FREE)
		result = count_waiters(e, deadline, &entry);
	if (result == LEASERUN_OK)
		fn(arg, &entry);
	etcdview_clear(view);
	return result;
}

/* "PREFIX/lease/NAME/what" to NAME; false: it is none. */
static bool
name_of(const struct etcd *e, const char *key, char name[LEASERUN_NAME_SIZE])
{
	char before[ETCDKEYS_SIZE];
	size_t len;

	snprintf(before, sizeof(before), "%s/lease/", e->url.prefix);
	if (strncmp(key, before, strlen(before)) != 0)
		return false;
	key += strlen(before);
	len = strcspn(key, "/");
	if (len == 0 || len >= LEASERUN_NAME_SIZE || key[len] != '/')
		return false;
	memcpy(name, key, len);
	name[len] = '\0';
	return true;
}

struct listing {
	struct etcd	*e;
	struct etcdview	view;		/* of the name that is being read */
	struct etcdkv	floor;		/* borrowed by the view */
	int64_t		deadline;
	leaserun_entry_fn *fn;
	void		*arg;
};

/* Keys of one name stand together. */
static enum leaserun_result
list_key(struct listing *l, const char *key, const json_t *kv)
{
	enum leaserun_result result = LEASERUN_OK;
	char name[LEASERUN_NAME_SIZE];

	if (!name_of(l->e, key, name))
		return LEASERUN_OK;
	if (strcmp(name, l->view.name) != 0) {
		if (l->view.name[0] != '\0')
			result = tell(l->e, &l->view, l->deadline, l->fn,
			    l->arg);
		memset(&l->view, 0, sizeof(l->view));
		snprintf(l->view.name, sizeof(l->view.name), "%s", name);
		l->view.floor = l->floor;
		json_incref(l->floor.value);
	}
	if (result == LEASERUN_OK && !etcdview_add(l->e, &l->view, kv))
		result = etcdcall_nonsense(l->e, "a key");
	return result;
}

/* One page; key becomes the one to go on from, "" behind the last. */
static enum leaserun_result
list_page(struct listing *l, const char *end, char key[ETCDKEYS_SIZE])
{
	enum leaserun_result result;
	json_t *request, *answer = NULL;
	const json_t *kv;
	char *text;
	size_t i;

	request = json_pack("{s:o, s:o, s:i}", "key", etcdjson_bytes(key),
	    "range_end", etcdjson_bytes(end), "limit", PAGE);
	result = etcdcall(l->e, "/v3/kv/range", request, l->deadline, &answer,
	    NULL);
	json_decref(request);
	if (result != LEASERUN_OK)
		return result;
	json_array_foreach(json_object_get(answer, "kvs"), i, kv) {
		if ((text = etcdjson_text(kv, "key")) == NULL) {
			result = etcdcall_nonsense(l->e, "a key");
			break;
		}
		/* The next key that could exist, as far as ours go. */
		snprintf(key, ETCDKEYS_SIZE, "%s\x01", text);
		result = list_key(l, text, kv);
		free(text);
		if (result != LEASERUN_OK)
			break;
	}
	if (!json_is_true(json_object_get(answer, "more")))
		key[0] = '\0';
	json_decref(answer);
	return result;
}

static enum leaserun_result
list_all(struct etcd *e, int64_t deadline, leaserun_entry_fn *fn, void *arg)
{
	struct listing l = { .e = e, .deadline = deadline, .fn = fn,
	    .arg = arg };
	char key[ETCDKEYS_SIZE], end[ETCDKEYS_SIZE];
	enum leaserun_result result;
	struct etcdview floor;

	/* The floor is read with any name. */
	if ((result = etcdview_look(e, &floor, "-", deadline)) != LEASERUN_OK)
		return result;
	l.floor = floor.floor;
	snprintf(key, sizeof(key), "%s/lease/", e->url.prefix);
	etcdkeys_end(end, key);
	do {
		result = list_page(&l, end, key);
	} while (result == LEASERUN_OK && key[0] != '\0');
	if (result == LEASERUN_OK && l.view.name[0] != '\0')
		result = tell(e, &l.view, deadline, fn, arg);
	etcdview_clear(&l.view);
	etcdview_clear(&floor);
	return result;
}

enum leaserun_result
etcdlook_list(void *self, const char *name, int64_t deadline,
    leaserun_entry_fn *fn, void *arg)
{
	struct etcd *e = self;
	enum leaserun_result result;
	struct etcdview view;

	if (name == NULL)
		return list_all(e, deadline, fn, arg);
	if ((result = etcdview_look(e, &view, name, deadline)) != LEASERUN_OK)
		return result;
	if ((result = etcdview_check(e, &view)) != LEASERUN_OK) {
		etcdview_clear(&view);
		return result;
	}
	return tell(e, &view, deadline, fn, arg);
}
