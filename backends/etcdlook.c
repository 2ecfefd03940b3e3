/*
 * From keys to entries, and list.  Must never change anything.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcdjson.h"
#include "etcdlease.h"
#include "etcdlook.h"

/*
 * Keys in one answer, which has room for as many of the longest.  For each page
 * etcd counts all that come behind it.
 */
#define PAGE	2000

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
	if (kv == &view->held)
		entry->renewed_ms = entry->acquired_ms;
	if (kv->lease == 0)		/* put there by hand */
		return;
	until = kv == &view->held ? now_ms + etcdkv_int(kv, "ttl_ms") :
	    entry->acquired_ms + etcdkv_int(kv, "hold_ms");
	entry->expires_in_ms = at_least(until - now_ms, 1);
	entry->expires_ms = now_ms + entry->expires_in_ms;
}

enum leaserun_result
etcdlook_full(struct etcd *e, const struct etcdview *view, int64_t deadline,
    struct leaserun_entry *entry)
{
	const struct etcdkv *kv = view->held.there ? &view->held : &view->hold;
	enum leaserun_result result;
	int64_t left_ms, granted_s;

	etcdlook_entry(e, view, entry);
	if (!kv->there || kv->lease == 0)
		return LEASERUN_OK;
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

/* --- One name --- */

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

static enum leaserun_result
list_one(struct etcd *e, const struct etcdview *view, int64_t deadline,
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
	return result;
}

/* --- All of them --- */

/* The keys below one that ends with '/', in order. */
struct pages {
	struct etcd	*e;
	int64_t		deadline;
	bool		keys_only, has_more;
	json_t		*answer;	/* owned */
	size_t		i;		/* the next one in there */
	char		before[ETCDKEYS_SIZE];	/* what all begin with */
	char		from[ETCDKEYS_SIZE];	/* of the next page */
	char		key[ETCDKEYS_SIZE];	/* where we are; "": behind */
	char		name[LEASERUN_NAME_SIZE];	/* in that */
	const json_t	*kv;
};

/* Below PREFIX/lease/ or PREFIX/wait/. */
static void
pages_init(struct pages *p, struct etcd *e, const char *below,
    bool keys_only, int64_t deadline)
{
	memset(p, 0, sizeof(*p));
	p->e = e;
	p->deadline = deadline;
	p->keys_only = keys_only;
	p->has_more = true;
	snprintf(p->before, sizeof(p->before), "%s/%s/", e->url.prefix, below);
	snprintf(p->from, sizeof(p->from), "%s", p->before);
}

static void
pages_clear(struct pages *p)
{
	json_decref(p->answer);
	p->answer = NULL;
}

static enum leaserun_result
pages_turn(struct pages *p)
{
	enum leaserun_result result;
	char end[ETCDKEYS_SIZE];
	json_t *request;

	pages_clear(p);
	p->i = 0;
	etcdkeys_end(end, p->before);
	request = json_pack("{s:o, s:o, s:i, s:b}", "key",
	    etcdjson_bytes(p->from), "range_end", etcdjson_bytes(end),
	    "limit", PAGE, "keys_only", p->keys_only);
	result = etcdcall(p->e, "/v3/kv/range", request, p->deadline,
	    &p->answer, NULL);
	json_decref(request);
	if (result == LEASERUN_OK)
		p->has_more = json_is_true(json_object_get(p->answer,
		    "more"));
	return result;
}

/* "BEFORE NAME/..." to NAME; false: it is none. */
static bool
read_name(struct pages *p)
{
	const char *name = p->key + strlen(p->before);
	size_t len = strcspn(name, "/");

	if (len == 0 || len >= sizeof(p->name) || name[len] != '/')
		return false;
	memcpy(p->name, name, len);
	p->name[len] = '\0';
	return true;
}

/* On to the next one that is of a name. */
static enum leaserun_result
pages_next(struct pages *p)
{
	enum leaserun_result result;
	char *text;

	for (;;) {
		p->kv = json_array_get(json_object_get(p->answer, "kvs"),
		    p->i);
		if (p->kv == NULL && !p->has_more) {
			p->key[0] = '\0';
			return LEASERUN_OK;
		}
		if (p->kv == NULL) {
			if ((result = pages_turn(p)) != LEASERUN_OK)
				return result;
			continue;
		}
		p->i++;
		text = etcdjson_text(p->kv, "key");
		if (text == NULL || strncmp(text, p->before,
		    strlen(p->before)) != 0) {
			free(text);
			return etcdcall_nonsense(p->e, "a key");
		}
		snprintf(p->key, sizeof(p->key), "%s", text);
		/* The next key that could exist, as far as ours go. */
		snprintf(p->from, sizeof(p->from), "%s\x01", text);
		free(text);
		if (read_name(p))
			return LEASERUN_OK;
	}
}

struct listing {
	struct etcd	*e;
	struct etcdview	view;		/* of the name that is being read */
	struct etcdkv	floor;		/* borrowed by the view */
	struct pages	leases, waits;
	int64_t		ask_until, deadline;
	leaserun_entry_fn *fn;
	void		*arg;
};

/* The order of keys: a name ends with a slash there. */
static int
compare_names(const char *a, const char *b)
{
	while (*a == *b && *a != '\0') {
		a++;
		b++;
	}
	return (*a == '\0' ? '/' : *a) - (*b == '\0' ? '/' : *b);
}

/* Both are read in the same order, so once. */
static enum leaserun_result
count_listed(struct listing *l, struct leaserun_entry *entry)
{
	enum leaserun_result result = LEASERUN_OK;
	struct pages *p = &l->waits;
	int order = -1;

	entry->waiting = 0;
	if (p->answer == NULL)
		result = pages_next(p);
	while (result == LEASERUN_OK && p->key[0] != '\0' &&
	    (order = compare_names(p->name, entry->name)) <= 0) {
		entry->waiting += order == 0;
		result = pages_next(p);
	}
	return result;
}

/*
 * How long each lease lasts is a request.  When there are too many for the time
 * that we have, the others last for their ttl at most.
 */
static enum leaserun_result
tell(struct listing *l)
{
	enum leaserun_result result = LEASERUN_OK;
	struct leaserun_entry entry;

	if (l->view.name[0] == '\0')
		return LEASERUN_OK;
	if (l->e->host->now() < l->ask_until)
		result = etcdlook_full(l->e, &l->view, l->deadline, &entry);
	else
		etcdlook_entry(l->e, &l->view, &entry);
	if (result == LEASERUN_OK && entry.state != LEASERUN_FREE)
		result = count_listed(l, &entry);
	if (result == LEASERUN_OK)
		l->fn(l->arg, &entry);
	etcdview_clear(&l->view);
	return result;
}

/* Keys of one name stand together. */
static enum leaserun_result
list_key(struct listing *l)
{
	enum leaserun_result result = LEASERUN_OK;

	if (strcmp(l->leases.name, l->view.name) != 0) {
		result = tell(l);
		memset(&l->view, 0, sizeof(l->view));
		memcpy(l->view.name, l->leases.name, sizeof(l->view.name));
		l->view.floor = l->floor;
		json_incref(l->floor.value);
	}
	if (result == LEASERUN_OK && !etcdview_add(l->e, &l->view,
	    l->leases.kv))
		result = etcdcall_nonsense(l->e, "a key");
	return result;
}

static enum leaserun_result
list_all(struct etcd *e, int64_t deadline, leaserun_entry_fn *fn, void *arg)
{
	int64_t now = e->host->now();
	struct listing l = { .e = e, .ask_until = now + (deadline - now) / 2,
	    .deadline = deadline, .fn = fn, .arg = arg };
	enum leaserun_result result;
	struct etcdview floor;

	/* The floor is read with any name. */
	if ((result = etcdview_look(e, &floor, "-", deadline)) != LEASERUN_OK)
		return result;
	l.floor = floor.floor;
	pages_init(&l.leases, e, "lease", false, deadline);
	pages_init(&l.waits, e, "wait", true, deadline);
	result = pages_next(&l.leases);
	while (result == LEASERUN_OK && l.leases.key[0] != '\0') {
		result = list_key(&l);
		if (result == LEASERUN_OK)
			result = pages_next(&l.leases);
	}
	if (result == LEASERUN_OK)
		result = tell(&l);
	etcdview_clear(&l.view);
	etcdview_clear(&floor);
	pages_clear(&l.leases);
	pages_clear(&l.waits);
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
	if ((result = etcdview_check(e, &view)) == LEASERUN_OK)
		result = list_one(e, &view, deadline, fn, arg);
	etcdview_clear(&view);
	return result;
}
