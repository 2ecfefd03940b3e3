/*
 * Prints rows of text in columns for people: on a terminal that is too narrow
 * without those columns where there is nothing, or else as a paragraph for
 * each row; nothing is cut.
 */
#ifndef TABLE_H
#define TABLE_H

#include <stddef.h>

#define TABLE_CELL_SIZE	256
#define TABLE_COLUMNS	8

/* "-" is a cell where there is nothing. */
struct table {
	const char	*heads[TABLE_COLUMNS];	/* upper case */
	int		 columns;
	size_t		 rows;
	/* Fills in the cells of one row, clean UTF-8, by arg. */
	void		(*fill)(const void *arg, size_t row,
			    char cells[TABLE_COLUMNS][TABLE_CELL_SIZE]);
	const void	*arg;
};

void	table_print(const struct table *);

#endif
