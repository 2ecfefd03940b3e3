/*
 * Leases of etcd.  Must never take an answer without a TTL for a live lease,
 * nor let a lease count from later than the request for it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcdjson.h"
#include "etcdlease.h"

#define HEX_DIGITS	16
#define TRIES		3
/* Between two keepalives when the first one is not believed. */
#define DOUBT_NS	(50 * ETCD_NS_PER_MS)

/* From half of the 128 random bits that every owner ends in. */
static int64_t
id_of(const char *owner, size_t from_end)
{
	size_t i, len = strlen(owner);
	uint64_t id = 0;

	for (i = len < from_end ? 0 : len - from_end;
	    i < len && i < len - from_end + HEX_DIGITS; i++)
		id = id * 16 + (uint64_t)(owner[i] <= '9' ? owner[i] - '0' :
		    (owner[i] | 0x20) - 'a' + 10);
	id &= INT64_MAX;
	return id == 0 ? 1 : (int64_t)id;
}

int64_t
etcdlease_id(const char *owner)
{
	return id_of(owner, HEX_DIGITS);
}

int64_t
etcdlease_hold_id(const char *owner)
{
	return id_of(owner, 2 * HEX_DIGITS);
}

int64_t
etcdlease_once_id(const char *owner)
{
	return id_of(owner, HEX_DIGITS + HEX_DIGITS / 2);
}

int64_t
etcdlease_seconds(int64_t ns)
{
	return ns / ETCD_NS_PER_S + (ns % ETCD_NS_PER_S != 0);
}

/* {"ID": ..., "TTL": ...} without the latter if it is 0. */
static json_t *
request_make(int64_t id, int64_t ttl_s)
{
	json_t *request = json_pack("{s:o}", "ID", etcdjson_number(id));

	if (ttl_s != 0)
		json_object_set_new(request, "TTL", etcdjson_number(ttl_s));
	return request;
}

static enum leaserun_result
call(struct etcd *e, const char *path, int64_t id, int64_t ttl_s,
    int64_t deadline, json_t **answer, enum etcdanswer *what)
{
	json_t *request = request_make(id, ttl_s);
	enum leaserun_result result;

	result = etcdcall(e, path, request, deadline, answer, what);
	json_decref(request);
	return result;
}

enum leaserun_result
etcdlease_grant(struct etcd *e, int64_t id, int64_t ask_s, int64_t deadline,
    int64_t *ttl_s)
{
	enum leaserun_result result;
	enum etcdanswer what;
	json_t *answer = NULL;
	int64_t got;

	result = call(e, "/v3/lease/grant", id, ask_s, deadline, &answer,
	    &what);
	if (what == ETCD_LEASE_EXISTS) {
		*ttl_s = 0;
		return LEASERUN_OK;
	}
	if (result != LEASERUN_OK)
		return result;
	if (!etcdjson_int(answer, "ID", &got) || got != id ||
	    !etcdjson_int(answer, "TTL", &got) || got <= 0 ||
	    got > ETCDLEASE_MAX_S)
		result = etcdcall_nonsense(e, "lease grant");
	else
		*ttl_s = got;
	json_decref(answer);
	return result;
}

enum leaserun_result
etcdlease_renew(struct etcd *e, int64_t id, int64_t deadline, int64_t *ttl_s)
{
	enum leaserun_result result;
	json_t *answer = NULL;
	int64_t got, ttl;

	result = call(e, "/v3/lease/keepalive", id, 0, deadline, &answer,
	    NULL);
	if (result != LEASERUN_OK)
		return result;
	/* An answer to something else would have no ID either. */
	if (!etcdjson_int(answer, "ID", &got) || got != id ||
	    !etcdjson_int(answer, "TTL", &ttl) || ttl > ETCDLEASE_MAX_S)
		result = etcdcall_nonsense(e, "keepalive");
	else
		*ttl_s = ttl > 0 ? ttl : 0;
	json_decref(answer);
	return result;
}

enum leaserun_result
etcdlease_left(struct etcd *e, int64_t id, int64_t deadline, int64_t *left_ms,
    int64_t *granted_s)
{
	enum leaserun_result result;
	int64_t got, left, granted;
	json_t *answer = NULL;

	result = call(e, "/v3/lease/timetolive", id, 0, deadline, &answer,
	    NULL);
	if (result != LEASERUN_OK)
		return result;
	if (!etcdjson_int(answer, "ID", &got) || got != id ||
	    !etcdjson_int(answer, "TTL", &left) ||
	    !etcdjson_int(answer, "grantedTTL", &granted) ||
	    left > ETCDLEASE_MAX_S || granted > ETCDLEASE_MAX_S)
		result = etcdcall_nonsense(e, "timetolive");
	else if (left < 0 || granted <= 0) {
		*left_ms = -1;
		*granted_s = 0;
	} else {
		/* It is cut off: absent in the last second. */
		*left_ms = left < granted ? (left + 1) * 1000 : granted * 1000;
		*granted_s = granted;
	}
	json_decref(answer);
	return result;
}

enum leaserun_result
etcdlease_revoke(struct etcd *e, int64_t id, int64_t deadline)
{
	enum leaserun_result result;
	enum etcdanswer what;
	json_t *answer = NULL;

	result = call(e, "/v3/lease/revoke", id, 0, deadline, &answer, &what);
	json_decref(answer);
	return what == ETCD_NO_LEASE ? LEASERUN_OK : result;
}

enum leaserun_result
etcdlease_get(struct etcd *e, int64_t id, int64_t ask_s, int64_t deadline,
    int64_t *sent_ns, int64_t *ttl_s)
{
	enum leaserun_result result;
	int i;

	*ttl_s = 0;
	for (i = 0; i < TRIES; i++) {
		*sent_ns = e->host->now();
		result = etcdlease_grant(e, id, ask_s, deadline, ttl_s);
		if (result != LEASERUN_OK || *ttl_s > 0)
			return result;
		*sent_ns = e->host->now();
		result = etcdlease_renew(e, id, deadline, ttl_s);
		if (result != LEASERUN_OK || *ttl_s > 0)
			return result;
	}
	return etcdcall_nonsense(e, "a lease exists and does not");
}

/* --- The proof --- */

bool
etcdlease_has(const struct etcdview *view, const char *owner)
{
	return etcdview_is_held_by(view, owner) &&
	    view->held.lease == etcdlease_id(owner);
}

/*
 * The keepalive first, then the proof that the key is still ours: an old
 * leader that nobody follows any more answers the one, but not the other,
 * unless it has just found the new one.  A member tells the term that it had
 * before it kept the lease alive, and after it has read: *one if these are the
 * same.  *ttl_s 0: no lease there.
 */
static enum leaserun_result
confirm_once(struct etcd *e, const char *name, const char *owner,
    int64_t deadline, int64_t *ttl_s, struct etcdview *view, bool *one)
{
	enum leaserun_result result;
	int64_t term;

	result = etcdlease_renew(e, etcdlease_id(owner), deadline, ttl_s);
	if (result != LEASERUN_OK)
		return result;
	term = e->term;
	result = etcdview_look(e, view, name, deadline);
	*one = term == e->term;
	return result;
}

enum leaserun_result
etcdlease_confirm(struct etcd *e, const char *name, const char *owner,
    int64_t deadline, int64_t *sent_ns, int64_t *ttl_s, struct etcdview *view)
{
	bool asked = false, one = false;
	enum leaserun_result result;

	memset(view, 0, sizeof(*view));
	for (;;) {
		*sent_ns = e->host->now();
		result = confirm_once(e, name, owner, deadline, ttl_s, view,
		    &one);
		if (result != LEASERUN_OK || !etcdlease_has(view, owner) ||
		    (*ttl_s > 0 && one))
			return result;
		if (asked)
			return one ? LEASERUN_OK : etcdcall_nonsense(e,
			    "not all of it is of one leader");
		/* The lease, or who answers for it, is in doubt: once more. */
		asked = true;
		etcdview_clear(view);
		result = e->host->wait(e->host, NULL, 0, *sent_ns + DOUBT_NS);
		if (result != LEASERUN_OK)
			return result;
	}
}

/* --- The one that we have --- */

struct etcdgrip *
etcdgrip_find(struct etcd *e, const char *name, const char *owner)
{
	struct etcdgrip *g = &e->grip;

	return strcmp(g->name, name) == 0 && strcmp(g->owner, owner) == 0 ?
	    g : NULL;
}

struct etcdgrip *
etcdgrip_use(struct etcd *e, const char *name, const char *owner)
{
	struct etcdgrip *g = &e->grip;

	if (etcdgrip_find(e, name, owner) == NULL) {
		memset(g, 0, sizeof(*g));
		snprintf(g->name, sizeof(g->name), "%s", name);
		snprintf(g->owner, sizeof(g->owner), "%s", owner);
	}
	return g;
}

enum leaserun_result
etcdgrip_keep(struct etcd *e, int64_t deadline)
{
	struct etcdgrip *g = &e->grip;
	int64_t sent = e->host->now(), ttl_s;
	enum leaserun_result result;

	result = etcdlease_renew(e, etcdlease_id(g->owner), deadline, &ttl_s);
	if (result != LEASERUN_OK)
		return result;
	g->is_granted = ttl_s > 0;
	g->sent_ns = sent;
	g->term = e->term;
	g->ttl_ns = ttl_s * ETCD_NS_PER_S;
	return LEASERUN_OK;
}

enum leaserun_result
etcdgrip_grant(struct etcd *e, int64_t ttl_ns, int64_t min_hold_ns,
    int64_t deadline)
{
	struct etcdgrip *g = &e->grip;
	enum leaserun_result result = LEASERUN_OK;
	int64_t sent, ttl_s;

	if (g->is_granted && e->host->now() - g->sent_ns >= g->ttl_ns / 3)
		result = etcdgrip_keep(e, deadline);
	if (result == LEASERUN_OK && !g->is_granted) {
		result = etcdlease_get(e, etcdlease_id(g->owner),
		    etcdlease_seconds(ttl_ns), deadline, &sent, &ttl_s);
		if (result != LEASERUN_OK)
			return result;
		g->is_granted = true;
		g->granted_ns = g->sent_ns = sent;
		g->term = e->term;
		g->ttl_ns = ttl_s * ETCD_NS_PER_S;
		g->queued = 0;
	}
	if (result != LEASERUN_OK || min_hold_ns == 0)
		return result;
	result = etcdlease_get(e, etcdlease_hold_id(g->owner),
	    etcdlease_seconds(min_hold_ns), deadline, &sent, &ttl_s);
	/* One of an earlier try may have its key: it stays known. */
	if (result == LEASERUN_OK) {
		g->hold_ttl_s = ttl_s;
		g->hold_until = sent + min_hold_ns;
	}
	return result;
}
