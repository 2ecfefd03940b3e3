/*
 * Where etcd is and who we are to it: the URL and the options.
 */
#ifndef ETCDURL_H
#define ETCDURL_H

#include "leaserun-backend.h"

#define ETCDURL_ENDPOINTS	16
#define ETCDURL_PREFIX_SIZE	256
#define ETCDURL_WORD_SIZE	256	/* a password and its NUL */

struct etcdurl {
	bool		 tls;
	char		*endpoints[ETCDURL_ENDPOINTS];	/* "http://host:port" */
	unsigned int	 nendpoints;
	char		 prefix[ETCDURL_PREFIX_SIZE];	/* "/leaserun" */
	char		 user[ETCDURL_WORD_SIZE];	/* "": none */
	char		 password[ETCDURL_WORD_SIZE];	/* of the URL */
	/* Options, NULL when not given; they belong to the program. */
	const char	*password_file;
	const char	*cacert;
	const char	*cert;
	const char	*key;
	const char	*proxy;
};

/* OK, or MISCONFIGURED with a text; to be cleared in both cases. */
enum leaserun_result etcdurl_parse(const struct leaserun_host *,
	    const struct leaserun_target *, struct etcdurl *);
void	etcdurl_clear(struct etcdurl *);

/*
 * The password, from the file whenever there is one, so that a changed one is
 * found.  MISCONFIGURED.
 */
enum leaserun_result etcdurl_password(const struct leaserun_host *,
	    const struct etcdurl *, char *password, size_t size);

#endif
