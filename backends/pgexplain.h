/* What an error of the server means for us, and what mends it. */
#ifndef PGEXPLAIN_H
#define PGEXPLAIN_H

#include "postgres.h"

/* Sets the error text for the error that the connection keeps. */
void	pgexplain(struct postgres *);

/* The same for one column that is not of the type that it should be. */
void	pgexplain_column(struct postgres *, const char *column);

#endif
