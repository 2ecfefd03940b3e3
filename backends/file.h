/*
 * The backend that is part of the program.
 */
#ifndef FILE_H
#define FILE_H

#include "leaserun-backend.h"

extern const struct leaserun_backend file_backend;

#endif
