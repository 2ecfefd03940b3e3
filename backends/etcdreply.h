/*
 * One answer of an HTTP/1 server, read as it comes, in whatever pieces.
 */
#ifndef ETCDREPLY_H
#define ETCDREPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETCDREPLY_LINE	4096		/* the longest line of a header */
#define ETCDREPLY_BODY	((size_t)8 << 20)	/* kept at a time */

enum etcdreply_part {
	ETCDREPLY_STATUS = 0,
	ETCDREPLY_HEADER,
	ETCDREPLY_CHUNK_SIZE,
	ETCDREPLY_CHUNK_END,
	ETCDREPLY_TRAILER,
	ETCDREPLY_CHUNK,		/* of the body, as the next two */
	ETCDREPLY_LENGTH,
	ETCDREPLY_REST,
	ETCDREPLY_WHOLE,
	ETCDREPLY_WRONG			/* it is no answer; `wrong' says why */
};

/* To be zeroed before it is first used, and cleared at the end. */
struct etcdreply {
	enum etcdreply_part part;	/* what comes next */
	bool		 begun;		/* something has come */
	int		 status;
	bool		 closes;	/* the connection ends with it */
	int64_t		 date_ms;	/* unix; 0: it did not say */
	char		*body;		/* owned, with a NUL behind; NULL: "" */
	size_t		 len;
	const char	*wrong;
	/* Not for others. */
	size_t		 used;		/* lines that were taken */
	bool		 is_old;	/* HTTP/1.0 */
	bool		 is_chunked;
	bool		 has_length;
	uint64_t	 left;		/* of the body or chunk */
	unsigned int	 lines;		/* of the header so far */
	size_t		 line_len;
	char		 line[ETCDREPLY_LINE];
};

/* The next answer is awaited. */
void	etcdreply_reset(struct etcdreply *);
void	etcdreply_clear(struct etcdreply *);

/*
 * Takes what has come, up to the end of the answer; the result is how much
 * that was.
 */
size_t	etcdreply_take(struct etcdreply *, const char *data, size_t len);

/* The connection was closed, which may be the end of the answer. */
void	etcdreply_end(struct etcdreply *);

/*
 * The next whole line of a body, until the next call; NULL: there is none yet.
 * What was taken is no part of the body any more.
 */
const char *etcdreply_line(struct etcdreply *);

#endif
