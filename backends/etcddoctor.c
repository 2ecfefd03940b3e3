/*
 * doctor of the etcd backend: looks for everything that could be wrong, with a
 * key of its own.  Must never touch a lease of leaserun.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "etcdadmin.h"
#include "etcddoctor.h"
#include "etcdjson.h"
#include "etcdkeys.h"
#include "etcdlease.h"

#define ROUNDS		5
#define SKEW_MS		5000		/* of clocks, that is worth a line */
#define SOON_S		(14 * 24 * 3600)	/* a certificate ends */
#define SLOW_NS		(100 * ETCD_NS_PER_MS)
#define ELECTION_S	5		/* a usual one, with what comes after */

struct doctor {
	struct etcd	*e;
	struct etcdreport report;
	int64_t		deadline;
	unsigned int	alive;		/* endpoints that answered */
	int64_t		lease_s;	/* the shortest lease that it grants */
	bool		no_space;	/* it grants none */
	bool		is_corrupt;	/* the same */
};

/* The share of one of n steps that are still to come. */
static int64_t
share(const struct doctor *d, unsigned int n)
{
	int64_t now = d->e->host->now();

	return now + (d->deadline - now) / (int64_t)(n + 1);
}

/* --- Each endpoint --- */

static void
check_clock(struct doctor *d, const char *server, int64_t date_ms)
{
	struct timespec ts;
	int64_t skew;

	clock_gettime(CLOCK_REALTIME, &ts);
	skew = date_ms - (int64_t)ts.tv_sec * 1000;
	if (date_ms == 0)
		return;
	if (skew > SKEW_MS || skew < -SKEW_MS)
		etcdsay(&d->report, LEASERUN_WARN, "clock", "%s is %" PRId64
		    " s %s of this host; leases do not mind, times in 'status' "
		    "do", server, (skew < 0 ? -skew : skew) / 1000,
		    skew < 0 ? "behind the clock" : "ahead");
	else
		etcdsay(&d->report, LEASERUN_GOOD, "clock", "%s differs by "
		    "less than %d s from this host", server, SKEW_MS / 1000);
}

static void
check_certificate(struct doctor *d, const char *server)
{
	int64_t until = etcdhttp_expiry(d->e->http), left;

	if (!d->e->url.tls)
		return;
	if (until == 0) {
		etcdsay(&d->report, LEASERUN_NOTE, "TLS", "%s: cannot tell "
		    "when the certificate ends", server);
		return;
	}
	left = until - (int64_t)time(NULL);
	etcdsay(&d->report, left < SOON_S ? LEASERUN_WARN : LEASERUN_GOOD,
	    "TLS", "%s: the certificate is good for %" PRId64 " days%s",
	    server, left / 86400, left < SOON_S ? "; renew it" : "");
}

/* Version, leader, size; the member is as it sees itself. */
static void
check_status(struct doctor *d, unsigned int i, const json_t *status)
{
	const char *server = d->e->url.endpoints[i], *version, *leader, *self;
	int64_t size = 0;

	version = json_string_value(json_object_get(status, "version"));
	leader = json_string_value(json_object_get(status, "leader"));
	self = json_string_value(json_object_get(json_object_get(status,
	    "header"), "member_id"));
	etcdjson_int(status, "dbSize", &size);
	if (leader == NULL)
		etcdsay(&d->report, LEASERUN_BAD, "member", "%s has no leader; "
		    "look at its log", server);
	else
		etcdsay(&d->report, LEASERUN_GOOD, "member", "%s: etcd %.20s, "
		    "%s, %" PRId64 " kB", server,
		    version == NULL ? "?" : version, self != NULL &&
		    strcmp(self, leader) == 0 ? "leader" : "follower",
		    size / 1024);
}

static void
check_endpoint(struct doctor *d, unsigned int i)
{
	const char *server = d->e->url.endpoints[i];
	json_t *request = json_object(), *status = NULL;
	int64_t limit = share(d, d->e->url.nendpoints - i);
	struct etcdhttp_answer answer;

	if (etcdcall_http(d->e) != NULL && etcdhttp_get(d->e->http, server,
	    "/health", limit, &answer) == LEASERUN_OK && answer.status != 0) {
		check_certificate(d, server);
		check_clock(d, server, answer.date_ms);
	}
	if (etcdcall_at(d->e, i, "/v3/maintenance/status", request, limit,
	    &status, NULL) == LEASERUN_OK) {
		d->alive++;
		check_status(d, i, status);
	} else
		etcdsay(&d->report, LEASERUN_WARN, "member", "%s: %s", server,
		    d->e->said);
	json_decref(status);
	json_decref(request);
}

/* --- The cluster --- */

/* Those that did not answer have failed already. */
static void
tell_majority(struct doctor *d, size_t n)
{
	size_t may = (n - 1) / 2, down = n > d->alive ? n - d->alive : 0;

	if (down == 0)
		etcdsay(&d->report, LEASERUN_GOOD, "cluster", "%zu members, "
		    "any %zu may fail", n, may);
	else if (down < may)
		etcdsay(&d->report, LEASERUN_WARN, "cluster", "%zu members, "
		    "%zu did not answer: %zu more may fail", n, down,
		    may - down);
	else
		etcdsay(&d->report, LEASERUN_WARN, "cluster", "%zu members, "
		    "%zu did not answer: none more may fail", n, down);
}

static void
check_members(struct doctor *d)
{
	json_t *request = json_object(), *answer = NULL;
	const json_t *members;
	size_t n;

	if (etcdcall(d->e, "/v3/cluster/member/list", request, share(d, 5),
	    &answer, NULL) == LEASERUN_OK) {
		members = json_object_get(answer, "members");
		n = json_array_size(members);
		if (n > d->e->url.nendpoints)
			etcdsay(&d->report, LEASERUN_NOTE, "cluster", "%zu "
			    "members, %u in the URL; name all of them, so that "
			    "one may fail", n, d->e->url.nendpoints);
		else if (n < 3)
			etcdsay(&d->report, LEASERUN_NOTE, "cluster", "%zu "
			    "member%s: when one is down no lease is renewed "
			    "and every job ends; 3 survive that", n,
			    n == 1 ? "" : "s");
		else
			tell_majority(d, n);
	}
	json_decref(answer);
	json_decref(request);
}

static void
tell_alarm(struct doctor *d, const char *what)
{
	bool no_space = strcmp(what, "NOSPACE") == 0;

	if (no_space)
		d->no_space = true;
	d->is_corrupt = d->is_corrupt || strcmp(what, "CORRUPT") == 0;
	etcdsay(&d->report, LEASERUN_BAD, "alarm", "%.40s: %s", what, no_space ?
	    "no lease is granted, and no end recorded; compact, defragment, "
	    "then 'etcdctl alarm disarm'" : "the members differ, or worse; "
	    "look at etcd's log, replace the member that is wrong, then "
	    "'etcdctl alarm disarm'");
}

static void
check_alarms(struct doctor *d)
{
	json_t *request = json_pack("{s:s}", "action", "GET"), *answer = NULL;
	const char *what;
	const json_t *one;
	size_t i;

	if (etcdcall(d->e, "/v3/maintenance/alarm", request, share(d, 4),
	    &answer, NULL) == LEASERUN_OK) {
		json_array_foreach(json_object_get(answer, "alarms"), i, one) {
			what = json_string_value(json_object_get(one,
			    "alarm"));
			tell_alarm(d, what == NULL ? "?" : what);
		}
		if (json_array_size(json_object_get(answer, "alarms")) == 0)
			etcdsay(&d->report, LEASERUN_GOOD, "alarm", "none");
	}
	json_decref(answer);
	json_decref(request);
}

/* --- Our prefix --- */

static void
check_user(struct doctor *d)
{
	const struct etcd *e = d->e;

	if (e->url.user[0] == '\0')
		etcdsay(&d->report, LEASERUN_NOTE, "auth", "no user is given "
		    "and etcd asks for none: whoever reaches it may take every "
		    "lease");
	else if (e->is_open)
		etcdsay(&d->report, LEASERUN_WARN, "auth", "user '%s' is "
		    "given, but authentication is off at etcd", e->url.user);
	else
		etcdsay(&d->report, LEASERUN_GOOD, "auth", "user '%s'",
		    e->url.user);
}

/* The linearizable read that every heartbeat makes. */
static enum leaserun_result
check_reading(struct doctor *d)
{
	const struct leaserun_host *host = d->e->host;
	enum leaserun_result result;
	int64_t from, took, worst = 0, sum = 0;
	struct etcdview view;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		from = host->now();
		result = etcdview_look(d->e, &view, "-", share(d, 3));
		if (result != LEASERUN_OK)
			return result;
		took = host->now() - from;
		worst = took > worst ? took : worst;
		sum += took;
		if (i == 0)
			etcdsay(&d->report, LEASERUN_GOOD, "tokens", "the next "
			    "one is above %" PRIu64 ", floor %" PRId64,
			    (uint64_t)view.revision +
			    (uint64_t)etcdview_floor(&view, view.revision),
			    etcdview_floor(&view, view.revision));
		etcdview_clear(&view);
	}
	etcdsay(&d->report, worst > SLOW_NS ? LEASERUN_WARN : LEASERUN_GOOD,
	    "round trip", "%" PRId64 " us, at worst %" PRId64 " us",
	    sum / ROUNDS / 1000, worst / 1000);
	return LEASERUN_OK;
}

static enum leaserun_result
put_key(struct doctor *d, int64_t id)
{
	json_t *value = json_pack("{s:i}", "layout", 1), *request;
	enum leaserun_result result;
	json_t *answer = NULL;
	char key[ETCDKEYS_SIZE];

	snprintf(key, sizeof(key), "%s/doctor/%" PRId64, d->e->url.prefix, id);
	request = etcdjson_txn(json_array(), json_pack("[o]",
	    etcdjson_put(key, value, id)), NULL);
	result = etcdcall(d->e, "/v3/kv/txn", request, share(d, 2), &answer,
	    NULL);
	json_decref(value);
	json_decref(answer);
	json_decref(request);
	return result;
}

/* A lease as short as can be, with a key, and both away again. */
static enum leaserun_result
check_writing(struct doctor *d)
{
	int64_t id = 1 + (int64_t)d->e->host->random(INT64_MAX);
	enum leaserun_result result;

	result = etcdlease_grant(d->e, id, 1, share(d, 2), &d->lease_s);
	if (result == LEASERUN_OK)
		result = put_key(d, id);
	if (result == LEASERUN_OK)
		result = etcdlease_revoke(d->e, id, share(d, 1));
	if (result == LEASERUN_OK)
		etcdsay(&d->report, LEASERUN_GOOD, "rights", "keys below "
		    "'%s/' can be read and written", d->e->url.prefix);
	return result;
}

/* Of the user, which is what doctor was asked to find out. */
static bool
lacks_rights(struct doctor *d, enum leaserun_result result)
{
	if (result != LEASERUN_DENIED || !etcdcall_is_forbidden(d->e->said))
		return false;
	etcdsay(&d->report, LEASERUN_BAD, "rights", "%s", d->e->said);
	return true;
}

static void
advise(const struct doctor *d)
{
	int64_t least = 3 * ELECTION_S;

	if (least < 5 * d->lease_s)
		least = 5 * d->lease_s;
	etcdsay(&d->report, d->lease_s > 3 ? LEASERUN_NOTE : LEASERUN_GOOD,
	    "ttl", "etcd grants at least %" PRId64 " s; choose %" PRId64
	    " s or more, so that an election ends no job", d->lease_s, least);
}

enum leaserun_result
etcddoctor(void *self, int64_t deadline, leaserun_line_fn *fn, void *arg)
{
	struct doctor d = { .e = self, .report = { .fn = fn, .arg = arg },
	    .deadline = deadline };
	enum leaserun_result result;
	unsigned int i;

	etcdsay(&d.report, LEASERUN_GOOD, "prefix", "'%s', %u endpoint%s",
	    d.e->url.prefix, d.e->url.nendpoints,
	    d.e->url.nendpoints == 1 ? "" : "s");
	for (i = 0; i < d.e->url.nendpoints; i++)
		check_endpoint(&d, i);
	if (d.alive > 0) {
		check_members(&d);
		check_alarms(&d);
	}
	/* What stands in the way of this one stands in the way of a run. */
	result = check_reading(&d);
	if (lacks_rights(&d, result)) {
		check_user(&d);
		return LEASERUN_OK;
	}
	if (result == LEASERUN_OK)
		check_user(&d);
	if ((result == LEASERUN_OK && (d.no_space || d.is_corrupt)) ||
	    (result == LEASERUN_UNAVAILABLE && d.is_corrupt)) {
		etcdsay(&d.report, LEASERUN_NOTE, "rights", "not tried, since "
		    "etcd %s", d.is_corrupt ? "is stopped by the alarm" :
		    "has no space");
		return LEASERUN_OK;
	}
	if (result == LEASERUN_OK)
		result = check_writing(&d);
	if (lacks_rights(&d, result))
		return LEASERUN_OK;
	if (result == LEASERUN_OK)
		advise(&d);
	return result;
}
