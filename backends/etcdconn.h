/*
 * A connection to a server of HTTP without TLS, and what has come over it.
 */
#ifndef ETCDCONN_H
#define ETCDCONN_H

#include "etcdreply.h"
#include "leaserun-backend.h"
#include "resolve.h"

#define ETCDCONN_SERVERS	16	/* whose addresses are remembered */
#define ETCDCONN_SCHEME		"http://"

/* The addresses of a name, looked up again only when all have failed. */
struct etcdnames {
	const char	*server;
	bool		 is_stale;
	struct resolve	 found;
};

/* What connections have in common; to be zeroed but for the first two. */
struct etcdnet {
	const struct leaserun_host *host;
	const char	*proxy;		/* NULL: none */
	struct etcdnames names[ETCDCONN_SERVERS];
	char		 text[RESOLVE_WHY_SIZE];	/* what failed last */
};

struct etcdconn {
	struct etcdnet	*net;
	int		 fd;		/* -1: none */
	const char	*server;	/* whom it is for, by a proxy or not */
	int64_t		 used_at;
	struct etcdreply reply;
};

/*
 * All answer OK, INTERRUPTED, or UNAVAILABLE with net->text, and wait only in
 * host->wait().  A server is "http://host:port"; the string has to stay.
 */
enum leaserun_result etcdconn_dial(struct etcdconn *, const char *server,
	    int64_t deadline);
enum leaserun_result etcdconn_send(struct etcdconn *, const char *data,
	    int64_t deadline);
/* Takes what is there into the reply, without waiting. */
enum leaserun_result etcdconn_receive(struct etcdconn *);
/* Until then at the latest something can be sent or received. */
enum leaserun_result etcdconn_wait(struct etcdconn *, short events,
	    int64_t deadline);

/* Whether a request to this server may be sent on it, without a new one. */
bool	etcdconn_is_good(const struct etcdconn *, const char *server);
void	etcdconn_close(struct etcdconn *);

#endif
