/*
 * The records of --once in etcd, which prune themselves.  Must never end the
 * lease of a record that was made.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcdjson.h"
#include "etcdlease.h"
#include "etcdonce.h"

/* A record is made so long after its lease, at most. */
#define SLACK_S		5
#define PAGE		1000
/* For what may as well run out by itself. */
#define TIDY_NS		(500 * ETCD_NS_PER_MS)

/* --- Keys --- */

static void
record_key(const struct etcd *e, char key[ETCDKEYS_SIZE], const char *name,
    const char *once)
{
	snprintf(key, ETCDKEYS_SIZE, "%s/once/%s/%s", e->url.prefix, name,
	    once);
}

/* Its key, and the first one behind all of the same period and length. */
static void
period_key(const struct etcd *e, char key[ETCDKEYS_SIZE],
    char end[ETCDKEYS_SIZE], const char *name, const char *once,
    int64_t period_ns)
{
	int64_t period_ms = period_ns / ETCD_NS_PER_MS;

	snprintf(end, ETCDKEYS_SIZE, "%s/period/%s/%" PRId64 ".%zu/",
	    e->url.prefix, name, period_ms, strlen(once));
	snprintf(key, ETCDKEYS_SIZE, "%s/period/%s/%" PRId64 ".%zu.%s",
	    e->url.prefix, name, period_ms, strlen(once), once);
}

/* --- Whether it is done --- */

void
etcdonce_add_conditions(const struct etcd *e, json_t *all,
    const struct leaserun_request *q)
{
	char key[ETCDKEYS_SIZE], end[ETCDKEYS_SIZE];
	json_t *later;

	if (q->once_key == NULL)
		return;
	record_key(e, key, q->name, q->once_key);
	json_array_append_new(all, etcdjson_created(key, 0));
	if (q->once_period_ns == 0)
		return;
	period_key(e, key, end, q->name, q->once_key, q->once_period_ns);
	/* It holds for all of a range: there is none. */
	later = etcdjson_created(key, 0);
	json_object_set_new(later, "range_end", etcdjson_bytes(end));
	json_array_append_new(all, later);
}

static void
add_range(json_t *ops, const char *key, const char *end)
{
	json_t *op = etcdjson_range(key, end);
	json_t *range = json_object_get(op, "request_range");

	json_object_set_new(range, "keys_only", json_true());
	json_object_set_new(range, "limit", json_integer(1));
	json_array_append_new(ops, op);
}

void
etcdonce_add_look(const struct etcd *e, json_t *ops,
    const struct leaserun_request *q)
{
	char key[ETCDKEYS_SIZE], end[ETCDKEYS_SIZE];

	if (q->once_key == NULL)
		return;
	record_key(e, key, q->name, q->once_key);
	add_range(ops, key, NULL);
	if (q->once_period_ns == 0)
		return;
	period_key(e, key, end, q->name, q->once_key, q->once_period_ns);
	add_range(ops, key, end);
}

bool
etcdonce_is_done(const json_t *txn, size_t i)
{
	const json_t *range;

	for (; (range = etcdjson_response(txn, i, "response_range")) != NULL;
	    i++) {
		if (json_array_size(json_object_get(range, "kvs")) > 0)
			return true;
	}
	return false;
}

/* A host whose clock is elsewhere would name another period. */
static enum leaserun_result
check_clock(const struct etcd *e, int64_t period_ns)
{
	int64_t ahead = etcdcall_ahead_ms(e);

	if (period_ns == 0 || llabs(ahead) <= period_ns / ETCD_NS_PER_MS / 10)
		return LEASERUN_OK;
	e->host->error(e->host, "the clock of this host is %lld.%03d s %s the "
	    "server's, more than a tenth of the period of --once-per; set it "
	    "right", llabs(ahead) / 1000, (int)(llabs(ahead) % 1000),
	    ahead < 0 ? "behind" : "ahead of");
	return LEASERUN_MISCONFIGURED;
}

enum leaserun_result
etcdonce_look(struct etcd *e, const struct leaserun_request *q,
    int64_t deadline)
{
	json_t *ops = json_array(), *request, *answer = NULL;
	enum leaserun_result result;

	etcdonce_add_look(e, ops, q);
	request = etcdjson_txn(json_array(), ops, NULL);
	result = etcdcall(e, "/v3/kv/txn", request, deadline, &answer, NULL);
	json_decref(request);
	if (result != LEASERUN_OK)
		return result;
	if (etcdjson_response(answer, 0, "response_range") == NULL)
		result = etcdcall_nonsense(e, "no range");
	else
		result = check_clock(e, q->once_period_ns);
	if (result == LEASERUN_OK && etcdonce_is_done(answer, 0))
		result = LEASERUN_DONE;
	json_decref(answer);
	return result;
}

/* --- Recording --- */

enum leaserun_result
etcdonce_prepare(struct etcd *e, const struct etcdonce *o, int64_t *deadline)
{
	int64_t ask_s = etcdlease_seconds(o->end->once_keep_ns), sent, ttl_s;
	enum leaserun_result result;

	ask_s = ask_s < ETCDLEASE_MAX_S - SLACK_S ? ask_s + SLACK_S :
	    ETCDLEASE_MAX_S;
	result = etcdlease_get(e, etcdlease_once_id(o->lease->owner), ask_s,
	    *deadline, &sent, &ttl_s);
	if (result == LEASERUN_OK && *deadline > sent + SLACK_S *
	    ETCD_NS_PER_S)
		*deadline = sent + SLACK_S * ETCD_NS_PER_S;
	return result;
}

void
etcdonce_add_record(const struct etcd *e, json_t *ops,
    const struct etcdonce *o)
{
	int64_t id = etcdlease_once_id(o->lease->owner);
	char key[ETCDKEYS_SIZE], end[ETCDKEYS_SIZE];
	json_t *record;

	record = json_pack("{s:i, s:o, s:o, s:o, s:o, s:I, s:I, s:I}",
	    "layout", 1, "owner", etcdjson_outside(o->lease->owner), "label",
	    etcdjson_outside(o->label), "host", etcdjson_outside(o->host),
	    "token", etcdjson_number((int64_t)o->lease->token), "done_ms",
	    (json_int_t)etcdcall_clock_ms(e), "ran_ms",
	    (json_int_t)(o->end->ran_ns / ETCD_NS_PER_MS), "period_ms",
	    (json_int_t)(o->end->once_period_ns / ETCD_NS_PER_MS));
	record_key(e, key, o->lease->name, o->end->once_key);
	json_array_append_new(ops, etcdjson_put(key, record, id));
	if (o->end->once_period_ns != 0) {
		period_key(e, key, end, o->lease->name, o->end->once_key,
		    o->end->once_period_ns);
		json_array_append_new(ops, etcdjson_put(key, record, id));
	}
	json_decref(record);
}

/* The record in a key; false: there is none that can be read. */
static bool
read_record(const json_t *kv, struct etcdkv *record)
{
	char *value;

	memset(record, 0, sizeof(*record));
	if (kv == NULL || (value = etcdjson_text(kv, "value")) == NULL)
		return false;
	record->value = etcdjson_parse(value, strlen(value));
	free(value);
	return record->value != NULL;
}

static bool
is_of(const struct etcdkv *record, const struct leaserun_lease *lease)
{
	return strcmp(etcdkv_text(record, "owner"), lease->owner) == 0 &&
	    (uint64_t)etcdkv_int(record, "token") == lease->token;
}

enum leaserun_result
etcdonce_find(struct etcd *e, const struct leaserun_lease *lease,
    const char *once, int64_t deadline)
{
	json_t *request, *answer = NULL;
	enum leaserun_result result;
	char key[ETCDKEYS_SIZE];
	struct etcdkv record;

	record_key(e, key, lease->name, once);
	request = json_pack("{s:o}", "key", etcdjson_bytes(key));
	result = etcdcall(e, "/v3/kv/range", request, deadline, &answer, NULL);
	json_decref(request);
	if (result != LEASERUN_OK)
		return result;
	if (read_record(json_array_get(json_object_get(answer, "kvs"), 0),
	    &record) && is_of(&record, lease))
		result = LEASERUN_DONE;
	else if (etcdjson_failed())
		result = etcdcall_nonsense(e, "out of memory");
	json_decref(record.value);
	json_decref(answer);
	return result;
}

void
etcdonce_drop(struct etcd *e, const char *owner, int64_t deadline)
{
	int64_t limit = e->host->now() + TIDY_NS;

	if (etcdlease_revoke(e, etcdlease_once_id(owner),
	    limit < deadline ? limit : deadline) != LEASERUN_OK)
		e->host->debug(e->host, "a lease without a record runs out by "
		    "itself");
}

/* --- list_once --- */

static void
show(const json_t *kv, const char *key, leaserun_entry_fn *fn, void *arg)
{
	struct leaserun_entry entry;
	struct etcdkv r;

	read_record(kv, &r);
	memset(&entry, 0, sizeof(entry));
	entry.held_for_ms = entry.expires_in_ms = entry.waiting = -1;
	entry.has_end = true;
	snprintf(entry.name, sizeof(entry.name), "%s", key);
	snprintf(entry.owner, sizeof(entry.owner), "%s",
	    etcdkv_text(&r, "owner"));
	snprintf(entry.label, sizeof(entry.label), "%s",
	    etcdkv_text(&r, "label"));
	snprintf(entry.host, sizeof(entry.host), "%s",
	    etcdkv_text(&r, "host"));
	entry.token = (uint64_t)etcdkv_int(&r, "token");
	entry.end_ms = etcdkv_int(&r, "done_ms");
	entry.ran_ms = etcdkv_int(&r, "ran_ms");
	fn(arg, &entry);
	json_decref(r.value);
}

/*
 * Every record has a revision of its own, so a page begins with the one before
 * the last one of the page before.
 */
static json_t *
make_page(const char *key, const char *end, int64_t before)
{
	json_t *request;

	request = json_pack("{s:o, s:o, s:i, s:s, s:s}", "key",
	    etcdjson_bytes(key), "range_end", etcdjson_bytes(end), "limit",
	    PAGE, "sort_order", "DESCEND", "sort_target", "MOD");
	if (before != 0)
		json_object_set_new(request, "max_mod_revision",
		    etcdjson_number(before - 1));
	return request;
}

/* *before: 0 behind the last page. */
static enum leaserun_result
show_page(struct etcd *e, const json_t *answer, size_t skip, int64_t *before,
    leaserun_entry_fn *fn, void *arg)
{
	const json_t *kv;
	char *key;
	size_t i;

	json_array_foreach(json_object_get(answer, "kvs"), i, kv) {
		key = etcdjson_text(kv, "key");
		if (key == NULL || strlen(key) < skip ||
		    !etcdjson_int(kv, "mod_revision", before)) {
			free(key);
			return etcdcall_nonsense(e, "a key");
		}
		/* What is below another prefix is none of ours. */
		if (strchr(key + skip, '/') == NULL)
			show(kv, key + skip, fn, arg);
		free(key);
	}
	/* Of revision 1 there is no key. */
	if (i < PAGE || *before <= 1)
		*before = 0;
	return LEASERUN_OK;
}

enum leaserun_result
etcdonce_list(void *self, const char *name, int64_t deadline,
    leaserun_entry_fn *fn, void *arg)
{
	char key[ETCDKEYS_SIZE], end[ETCDKEYS_SIZE];
	json_t *request, *answer;
	struct etcd *e = self;
	enum leaserun_result result;
	int64_t before = 0;

	record_key(e, key, name, "");
	etcdkeys_end(end, key);
	do {
		answer = NULL;
		request = make_page(key, end, before);
		result = etcdcall(e, "/v3/kv/range", request, deadline,
		    &answer, NULL);
		json_decref(request);
		if (result != LEASERUN_OK)
			return result;
		result = show_page(e, answer, strlen(key), &before, fn, arg);
		json_decref(answer);
	} while (result == LEASERUN_OK && before != 0);
	return result;
}
