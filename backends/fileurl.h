/*
 * From a URL and its options to a directory.
 */
#ifndef FILEURL_H
#define FILEURL_H

#include "filedir.h"

/*
 * Fills in all but host, which has to be set.  path is malloc'd, also when the
 * result is not OK; NULL when there is none.
 */
enum leaserun_result fileurl_parse(struct filedir *,
	    const struct leaserun_target *);

#endif
