/*
 * doctor of the file backend, as in struct leaserun_backend.
 */
#ifndef FILEDOCTOR_H
#define FILEDOCTOR_H

#include "filedir.h"

enum leaserun_result filedoctor(const struct filedir *, leaserun_line_fn *,
	    void *arg);

#endif
