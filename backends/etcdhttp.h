/*
 * HTTP to one server at a time: a request with a deadline, and beside it a
 * stream of lines.  Knows nothing of etcd.  Every wait goes through
 * host->wait().  Made twice: etcdplain.c for etcd://, etcdhttp.c for etcds://.
 */
#ifndef ETCDHTTP_H
#define ETCDHTTP_H

#include "leaserun-backend.h"

struct etcdhttp;

/* The longest word for `Authorization:', and its NUL. */
#define ETCDHTTP_AUTH_SIZE	4096

/* How to get there; the strings have to stay valid. */
struct etcdhttp_setup {
	const struct leaserun_host *host;
	bool		 tls;
	bool		 resolves;	/* some server has a name */
	const char	*cacert;	/* NULL: as the system has it */
	const char	*cert;		/* NULL: none */
	const char	*key;
	const char	*proxy;		/* NULL: none, whatever is in the
					 * environment */
};

/* Valid until the next request. */
struct etcdhttp_answer {
	long		 status;	/* 0: no answer, text says why */
	bool		 has_met;	/* a server, whatever came of it */
	bool		 refused_tls;	/* by us, or our certificate */
	bool		 bad_files;	/* certificates that cannot be read */
	const char	*body;		/* with a NUL behind it */
	size_t		 len;
	const char	*text;
	int64_t		 date_ms;	/* unix; 0: it did not say */
};

/* What this one cannot do of that, and what to do; NULL: nothing. */
const char *etcdhttp_lacks(bool tls, const char *proxy);

/* NULL: no memory. */
struct etcdhttp *etcdhttp_new(const struct etcdhttp_setup *);
void	etcdhttp_free(struct etcdhttp *);

/*
 * One POST of JSON.  OK: *answer is filled in, also when the server could not
 * be reached or said nothing by the deadline.  INTERRUPTED, UNAVAILABLE.
 * A request that finds its connection dead is sent again on a fresh one: the
 * caller sends only what may arrive twice.
 */
enum leaserun_result etcdhttp_post(struct etcdhttp *, const char *server,
	    const char *path, const char *body, const char *authorization,
	    int64_t deadline, struct etcdhttp_answer *);

/* The same with GET. */
enum leaserun_result etcdhttp_get(struct etcdhttp *, const char *server,
	    const char *path, int64_t deadline, struct etcdhttp_answer *);

/*
 * A POST whose answer does not end, sent by the deadline.  OK: lines come from
 * etcdhttp_line() as long as there are whole ones; etcdhttp_wait() waits for
 * more.  Also when the server could not be reached: then it is not open.
 * INTERRUPTED, UNAVAILABLE with a text: no memory.
 */
enum leaserun_result etcdhttp_open(struct etcdhttp *, const char *server,
	    const char *path, const char *body, const char *authorization,
	    int64_t deadline);
void	etcdhttp_close(struct etcdhttp *);
bool	etcdhttp_is_open(const struct etcdhttp *);
const char *etcdhttp_line(struct etcdhttp *);

/* OK: something happened, or the deadline came. */
enum leaserun_result etcdhttp_wait(struct etcdhttp *, int64_t deadline);

/* When the certificate that the server showed last ends; unix, 0: unknown. */
int64_t	etcdhttp_expiry(struct etcdhttp *);

#endif
