/*
 * The etcd backend: leases in a cluster that agrees on them, over its JSON
 * gateway (etcd 3.4 and later).  Must never trust a keepalive alone.
 *
 * Beside it are
 *	etcdurl.c	from a URL and options to endpoints and credentials
 *	etcdplain.c	HTTP for etcd://
 *	etcdconn.c	its connections
 *	etcdreply.c	what it is answered
 *	etcdhttp.c	HTTP for etcds://, by libcurl behind host->wait()
 *	etcdcurl.c	how libcurl is set up
 *	etcdcall.c	requests: endpoints, authentication, errors
 *	etcdjson.c	the gateway's JSON
 *	etcdkeys.c	which keys there are, and what is in them
 *	etcdlease.c	etcd's own leases
 *	etcdtake.c	acquire
 *	etcdwait.c	waiting for a name
 *	etcdqueue.c	who waits in front of us
 *	etcdgive.c	release and abandon
 *	etcdonce.c	the records of --once
 *	etcdlook.c	list
 *	etcdadmin.c	revoke and init
 *	etcddoctor.c	doctor
 * A lease of leaserun is a key that is bound to a lease of etcd: it goes when
 * nobody keeps that alive.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcdadmin.h"
#include "etcddoctor.h"
#include "etcdgive.h"
#include "etcdjson.h"
#include "etcdkeys.h"
#include "etcdlease.h"
#include "etcdlook.h"
#include "etcdonce.h"
#include "etcdtake.h"

static void
etcd_close(void *self)
{
	struct etcd *e = self;

	etcdhttp_free(e->http);
	etcdurl_clear(&e->url);
	explicit_bzero(e, sizeof(*e));
	free(e);
}

static enum leaserun_result
etcd_open(const struct leaserun_host *host,
    const struct leaserun_target *target, void **self,
    unsigned int *endpoints)
{
	enum leaserun_result result;
	const char *lacks;
	struct etcd *e;

	if ((e = calloc(1, sizeof(*e))) == NULL) {
		host->error(host, "out of memory");
		return LEASERUN_UNAVAILABLE;
	}
	e->host = host;
	etcdjson_init();
	if ((result = etcdurl_parse(host, target, &e->url)) == LEASERUN_OK &&
	    (lacks = etcdhttp_lacks(e->url.tls, e->url.proxy)) != NULL) {
		host->error(host, "%s", lacks);
		result = LEASERUN_MISCONFIGURED;
	}
	if (result != LEASERUN_OK) {
		etcd_close(e);
		return result;
	}
	/* A fleet should not ask the first one only. */
	e->endpoint = (unsigned int)host->random(e->url.nendpoints);
	*self = e;
	*endpoints = e->url.nendpoints;
	return LEASERUN_OK;
}

/* --- renew --- */

static bool
is_ours(const struct etcdview *view, const struct leaserun_lease *lease)
{
	return etcdlease_has(view, lease->owner) &&
	    etcdview_token(view, &view->held) == lease->token;
}

/* The key is not ours any more; is_alive: our lease at etcd is there. */
static enum leaserun_loss
loss_of(struct etcd *e, const struct etcdview *view,
    const struct leaserun_lease *lease, bool is_alive)
{
	const struct etcdgrip *g = etcdgrip_find(e, lease->name, lease->owner);
	const struct etcdkv *mark = &view->mark;

	if (view->held.there)
		return etcdkv_text(&view->held, "owner")[0] == '\0' ?
		    LEASERUN_LOSS_DELETED : LEASERUN_LOSS_TAKEN;
	if (mark->there && (uint64_t)etcdkv_int(mark, "token") ==
	    lease->token && strcmp(etcdkv_text(mark, "owner"),
	    lease->owner) == 0 &&
	    json_is_true(json_object_get(mark->value, "force")))
		return LEASERUN_LOSS_FORCED;
	/* Before its time a lease goes only by hand, or by an old leader. */
	if (is_alive || (g != NULL && g->token == lease->token &&
	    e->host->now() < g->sent_ns + g->ttl_ns))
		return LEASERUN_LOSS_DELETED;
	return LEASERUN_LOSS_EXPIRED;
}

static void
note_renewal(struct etcd *e, const struct etcdview *view,
    const struct leaserun_lease *lease, int64_t sent, int64_t ttl_s,
    struct leaserun_renewal *renewal)
{
	struct etcdgrip *g = etcdgrip_find(e, lease->name, lease->owner);
	const struct etcdkv *mark = &view->mark;

	memset(renewal, 0, sizeof(*renewal));
	renewal->sent_ns = sent;
	renewal->ttl_ns = ttl_s * ETCD_NS_PER_S;
	renewal->revoke = mark->there &&
	    (uint64_t)etcdkv_int(mark, "token") == lease->token &&
	    strcmp(etcdkv_text(mark, "owner"), lease->owner) == 0;
	if (g != NULL && g->token == lease->token) {
		g->sent_ns = sent;
		g->ttl_ns = renewal->ttl_ns;
	}
}

static enum leaserun_result
etcd_renew(void *self, const struct leaserun_lease *lease, int64_t deadline,
    struct leaserun_renewal *renewal)
{
	struct etcd *e = self;
	enum leaserun_result result;
	int64_t sent, ttl_s = 0;
	struct etcdview view;

	result = etcdlease_confirm(e, lease->name, lease->owner, deadline,
	    &sent, &ttl_s, &view);
	if (result == LEASERUN_OK && ttl_s > 0 && is_ours(&view, lease))
		note_renewal(e, &view, lease, sent, ttl_s, renewal);
	else if (result == LEASERUN_OK) {
		renewal->loss = is_ours(&view, lease) ?
		    LEASERUN_LOSS_EXPIRED :
		    loss_of(e, &view, lease, ttl_s > 0);
		result = LEASERUN_LOST;
	}
	etcdview_clear(&view);
	return result;
}

const struct leaserun_backend leaserun_backend = {
	.size = sizeof(struct leaserun_backend),
	.version = LEASERUN_BACKEND_VERSION,
	.name = "etcd",
	.open = etcd_open,
	.close = etcd_close,
	.acquire = etcdtake_acquire,
	.abandon = etcdgive_abandon,
	.renew = etcd_renew,
	.release = etcdgive_release,
	.list = etcdlook_list,
	.revoke = etcdadmin_revoke,
	.init = etcdadmin_init,
	.doctor = etcddoctor,
	.list_once = etcdonce_list,
};
