/*
 * The records of --once.
 *
 *	PREFIX/once/NAME/KEY	this key is done: by whom, and when
 *	PREFIX/period/NAME/PERIOD.LENGTH.KEY
 *				the same for --once-per, where later keys of
 *				the same period and length stand behind it
 *
 * Both are bound to a lease of etcd that lasts as long as they are to be kept.
 * That they are there says that the key is done, whatever is in them.
 */
#ifndef ETCDONCE_H
#define ETCDONCE_H

#include "etcdkeys.h"

/* What is recorded when a lease is given back. */
struct etcdonce {
	const struct leaserun_lease *lease;
	const struct leaserun_end *end;
	char		label[LEASERUN_LABEL_SIZE];
	char		host[LEASERUN_HOST_SIZE];
};

/*
 * For the transaction that grants a name: it does so only while the key is not
 * done, and else reads, with one or two operations, whether it is.
 */
void	etcdonce_add_conditions(const struct etcd *, json_t *all,
	    const struct leaserun_request *);
void	etcdonce_add_look(const struct etcd *, json_t *ops,
	    const struct leaserun_request *);
/* What those answered, from the i-th of the transaction on. */
bool	etcdonce_is_done(const json_t *txn, size_t i);

/* DONE, OK: not yet, MISCONFIGURED: the clock of this host is wrong. */
enum leaserun_result etcdonce_look(struct etcd *,
	    const struct leaserun_request *, int64_t deadline);

/*
 * There is a lease for the record, which lasts long enough if the record is
 * made by *deadline, which may become an earlier one.
 */
enum leaserun_result etcdonce_prepare(struct etcd *, const struct etcdonce *,
	    int64_t *deadline);
/* For the transaction that gives the name back. */
void	etcdonce_add_record(const struct etcd *, json_t *ops,
	    const struct etcdonce *);
/* DONE: the record is the one of this lease; OK: it is not. */
enum leaserun_result etcdonce_find(struct etcd *, const struct leaserun_lease *,
	    const char *key, int64_t deadline);
/* No record was made. */
void	etcdonce_drop(struct etcd *, const char *owner, int64_t deadline);

/* As in struct leaserun_backend. */
enum leaserun_result etcdonce_list(void *self, const char *name,
	    int64_t deadline, leaserun_entry_fn *, void *arg);

#endif
