/*
 * doctor of the file backend.
 */
#ifndef FILEDOCTOR_H
#define FILEDOCTOR_H

#include "filedir.h"

/* As in struct leaserun_backend; self begins with a struct filedir. */
enum leaserun_result filedoctor(void *self, int64_t deadline,
	    leaserun_line_fn *, void *arg);

#endif
