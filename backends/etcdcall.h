/*
 * Requests to a cluster: every endpoint is tried, tokens are fetched, and what
 * comes back is told apart.
 */
#ifndef ETCDCALL_H
#define ETCDCALL_H

#include <jansson.h>

#include "etcdhttp.h"
#include "etcdurl.h"
#include "leaserun-backend.h"

#define ETCD_NS_PER_MS	INT64_C(1000000)
#define ETCD_NS_PER_S	INT64_C(1000000000)

/* What an answer that is no success meant. */
enum etcdanswer {
	ETCD_DONE = 0,
	ETCD_TRANSIENT,		/* try again, or elsewhere */
	ETCD_NO_LEASE,
	ETCD_LEASE_EXISTS,
	ETCD_NO_SPACE,
	ETCD_NO_AUTH,		/* authentication is not enabled */
	ETCD_NO_TOKEN,		/* or an old one: authenticate */
	ETCD_REFUSED		/* for good */
};

/*
 * The lease that we have or are about to have; one at a time.  Times are of
 * this host's clock.
 */
struct etcdgrip {
	char		name[LEASERUN_NAME_SIZE];
	char		owner[LEASERUN_OWNER_SIZE];
	bool		is_granted;	/* the lease at etcd */
	int64_t		ttl_ns;		/* of it */
	int64_t		granted_ns;	/* first */
	int64_t		sent_ns;	/* granted or kept alive last, */
	int64_t		term;		/* in that of this leader */
	uint64_t	token;		/* 0: not yet */
	int64_t		revision;	/* of the key; it makes the token */
	int64_t		hold_ttl_s;	/* min-hold, 0: none */
	int64_t		hold_until;
	int64_t		queued;		/* revision of our place; 0: none */
	int64_t		grants;		/* of the name before ours; 0: none */
	struct leaserun_entry previous;	/* the last of them */
};

struct etcd {
	const struct leaserun_host *host;
	struct etcdurl	url;
	struct etcdhttp_setup setup;
	struct etcdhttp	*http;		/* NULL until the first request */
	unsigned int	endpoint;	/* the one to ask next */
	int64_t		term;		/* of the leader, at the last answer */
	char		token[ETCDHTTP_AUTH_SIZE];	/* "": none */
	bool		is_open;	/* etcd asks for no authentication */
	char		refused[ETCDURL_WORD_SIZE];	/* this password */
	int64_t		refused_at;
	/* By its last answer: etcd's wall clock less host->now(). */
	bool		has_clock;
	int64_t		clock_min_ms;
	int64_t		clock_max_ms;
	char		said[LEASERUN_ERROR_SIZE];	/* last, for doctor */
	struct etcdgrip	grip;
};

/*
 * Sends a request, at each endpoint until one answers.  OK: *answer is what
 * came, to be freed; of a stream its first message.  Anything else comes with
 * an error text; *why tells the cases of UNAVAILABLE and DENIED apart, and may
 * be NULL.  The request is borrowed; without one (no memory) it fails.
 */
enum leaserun_result etcdcall(struct etcd *, const char *path,
	    const json_t *request, int64_t deadline, json_t **answer,
	    enum etcdanswer *why);

/* The same at one endpoint only, without changing which one is next. */
enum leaserun_result etcdcall_at(struct etcd *, unsigned int endpoint,
	    const char *path, const json_t *request, int64_t deadline,
	    json_t **answer, enum etcdanswer *why);

/* Begins a stream at the next endpoint; its lines come from e->http. */
enum leaserun_result etcdcall_stream(struct etcd *, const char *path,
	    const json_t *request, int64_t deadline);

/* Whether a text of etcd says that the user has no right to what it asked. */
bool	etcdcall_is_forbidden(const char *text);

/* The next endpoint is another one. */
void	etcdcall_rotate(struct etcd *);

/* The HTTP part, made when it is first needed; NULL: no memory. */
struct etcdhttp *etcdcall_http(struct etcd *);

/* etcd's wall clock, as far as it is known. */
int64_t	etcdcall_clock_ms(const struct etcd *);

/* This host's is ahead by at least this (< 0: behind); 0: it may be right. */
int64_t	etcdcall_ahead_ms(const struct etcd *);

/* An answer that cannot be understood: UNAVAILABLE, with a text. */
enum leaserun_result etcdcall_nonsense(const struct etcd *, const char *what);

#endif
