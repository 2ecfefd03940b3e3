/*
 * The JSON of etcd's gateway: numbers of 64 bits as strings, bytes in base64,
 * absent for zero; and what transactions are made of.
 */
#ifndef ETCDJSON_H
#define ETCDJSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

/*
 * What there is no memory for may be missing from the middle of a request, or
 * of what was read: a condition, or the lease of a key.  So whoever has put one
 * together, or has read one, asks at the end whether anything has failed since
 * that was last asked.
 */
void	 etcdjson_init(void);
bool	 etcdjson_failed(void);

/* NULL: not one JSON object, or one that is nested too deeply. */
json_t	*etcdjson_parse(const char *text, size_t len);

/*
 * The number of a key, quoted or bare; an absent one is 0.  False: something
 * else is there, or object is none.
 */
bool	 etcdjson_int(const json_t *object, const char *key, int64_t *value);

/* A JSON string with the base64 of text; NULL: no memory. */
json_t	*etcdjson_bytes(const char *text);

/*
 * The bytes of a key, malloc'd with a NUL behind them; absent: empty.  NULL:
 * not base64, or no memory.
 */
char	*etcdjson_text(const json_t *object, const char *key);

/* Text from outside, "?" where JSON may not have it. */
json_t	*etcdjson_outside(const char *text);

/* A decimal string, which is how 64 bits are written. */
json_t	*etcdjson_number(int64_t value);

/*
 * Operations and conditions of a transaction, NULL without memory.  `end' is
 * the first key behind a range, NULL for one key.
 */
json_t	*etcdjson_range(const char *key, const char *end);
json_t	*etcdjson_put(const char *key, const json_t *value, int64_t lease);
json_t	*etcdjson_delete(const char *key);
json_t	*etcdjson_created(const char *key, int64_t revision);
json_t	*etcdjson_modified(const char *key, int64_t revision);
json_t	*etcdjson_lease_is(const char *key, bool equal, int64_t lease);

/* Wraps an operation; steals it. */
json_t	*etcdjson_op(const char *name, json_t *op);

/* A transaction; steals all three arrays, the last may be NULL. */
json_t	*etcdjson_txn(json_t *compare, json_t *success, json_t *failure);

/* The i-th answer of a transaction of that kind; NULL: there is none. */
const json_t *etcdjson_response(const json_t *txn, size_t i,
	    const char *kind);

#endif
