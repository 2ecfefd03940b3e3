/*
 * Handles of libcurl with everything set that is the same for all requests.
 */
#ifndef ETCDCURL_H
#define ETCDCURL_H

#include <curl/curl.h>

#include "etcdhttp.h"

/* NULL: no memory. */
CURLM	*etcdcurl_multi(void);
CURL	*etcdcurl_easy(const struct etcdhttp_setup *);

#endif
