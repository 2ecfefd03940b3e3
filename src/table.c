/*
 * Prints rows of text in columns.  Must never depend on a locale.
 */
#include <sys/ioctl.h>

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "table.h"

#define GAP	2
#define INDENT	4

struct layout {
	const struct table *table;
	int	widths[TABLE_COLUMNS];
	bool	used[TABLE_COLUMNS];	/* a cell has something */
	int	limit;			/* columns of the terminal */
};

/* The next character of clean UTF-8; *text goes on behind it. */
static uint32_t
next_char(const char **text)
{
	const unsigned char *p = (const unsigned char *)*text;
	uint32_t c = *p++;

	if (c >= 0xc0)
		c &= c >= 0xf0 ? 0x07 : c >= 0xe0 ? 0x0f : 0x1f;
	while ((*p & 0xc0) == 0x80)
		c = c << 6 | (*p++ & 0x3f);
	*text = (const char *)p;
	return c;
}

/* What takes two columns: East Asian scripts and pictures, roughly. */
static bool
is_wide(uint32_t c)
{
	return (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) ||
	    (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xf900 && c <= 0xfaff) ||
	    (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
	    (c >= 0xffe0 && c <= 0xffe6) || (c >= 0x1f300 && c <= 0x1f64f) ||
	    (c >= 0x1f680 && c <= 0x1f6ff) || (c >= 0x1f900 && c <= 0x1f9ff) ||
	    (c >= 0x20000 && c <= 0x3fffd);
}

/* Combining marks stand over the character before. */
static bool
is_mark(uint32_t c)
{
	return (c >= 0x300 && c <= 0x36f) || (c >= 0xfe00 && c <= 0xfe0f);
}

static int
width(const char *text)
{
	uint32_t c;
	int n = 0;

	while (*text != '\0') {
		c = next_char(&text);
		n += is_mark(c) ? 0 : is_wide(c) ? 2 : 1;
	}
	return n;
}

static void
measure(struct layout *l)
{
	char cells[TABLE_COLUMNS][TABLE_CELL_SIZE];
	const struct table *t = l->table;
	struct winsize size;
	size_t row;
	int i, n;

	l->limit = INT_MAX;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		l->limit = size.ws_col;
	for (i = 0; i < t->columns; i++) {
		l->widths[i] = width(t->heads[i]);
		l->used[i] = false;
	}
	for (row = 0; row < t->rows; row++) {
		t->fill(t->arg, row, cells);
		for (i = 0; i < t->columns; i++) {
			if ((n = width(cells[i])) > l->widths[i])
				l->widths[i] = n;
			l->used[i] = l->used[i] || strcmp(cells[i], "-") != 0;
		}
	}
}

/* Whether the columns, or those that are used, fit. */
static bool
fits(const struct layout *l, bool all)
{
	int i, total = -GAP;

	for (i = 0; i < l->table->columns; i++)
		total += all || l->used[i] ? l->widths[i] + GAP : 0;
	return total <= l->limit;
}

static void
print_row(const struct layout *l, const char *const *cells, bool all)
{
	int i, gap = 0;

	for (i = 0; i < l->table->columns; i++) {
		if (!all && !l->used[i])
			continue;
		printf("%*s%s", gap, "", cells[i]);
		gap = l->widths[i] - width(cells[i]) + GAP;
	}
	putchar('\n');
}

/* "pid 17", and where the line is full it begins another one. */
static void
print_piece(const struct layout *l, const char *head, const char *cell,
    int *column)
{
	int n = width(head) + 1 + width(cell);

	if (*column > INDENT) {
		putchar(',');
		*column += 1;
	}
	if (*column > INDENT && *column + 1 + n + 1 > l->limit) {
		printf("\n%*s", INDENT, "");
		*column = INDENT;
	} else if (*column > INDENT) {
		putchar(' ');
		*column += 1;
	}
	for (; *head != '\0'; head++)
		putchar(tolower((unsigned char)*head));
	printf(" %s", cell);
	*column += n;
}

static void
print_paragraph(const struct layout *l, const char *const *cells)
{
	int i, column = 0;

	printf("%s  %s\n", cells[0], cells[1]);
	for (i = 2; i < l->table->columns; i++) {
		if (strcmp(cells[i], "-") == 0)
			continue;
		if (column == 0)
			column = printf("%*s", INDENT, "");
		print_piece(l, l->table->heads[i], cells[i], &column);
	}
	if (column > 0)
		putchar('\n');
}

void
table_print(const struct table *table)
{
	char cells[TABLE_COLUMNS][TABLE_CELL_SIZE];
	const char *row_cells[TABLE_COLUMNS];
	struct layout l = { .table = table };
	bool all, paragraphs;
	size_t row;
	int i;

	measure(&l);
	all = table->rows == 0 || fits(&l, true);
	paragraphs = !all && !fits(&l, false);
	if (!paragraphs)
		print_row(&l, table->heads, all);
	for (i = 0; i < TABLE_COLUMNS; i++)
		row_cells[i] = cells[i];
	for (row = 0; row < table->rows; row++) {
		table->fill(table->arg, row, cells);
		if (paragraphs)
			print_paragraph(&l, row_cells);
		else
			print_row(&l, row_cells, all);
	}
}
