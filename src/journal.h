/*
 * The native protocol of the systemd journal: one datagram of fields.
 */
#ifndef JOURNAL_H
#define JOURNAL_H

#include <stddef.h>
#include <stdint.h>

/* What a message is about; NULL and 0: not known. */
struct journal_fields {
	const char	*name;
	const char	*owner;
	const char	*run_id;
	const char	*event;
	uint64_t	 token;
};

/* A connected socket that never blocks, or -1: nobody reads there. */
int	journal_open(void);

/* The datagram for a message of one line; its length. */
size_t	journal_format(char *buf, size_t size, int priority,
	    const char *message, const struct journal_fields *);

#endif
