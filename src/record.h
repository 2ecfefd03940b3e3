/*
 * A number that never goes back, in one small file that survives kill -9,
 * power loss and a full disk.  Used by the file backend for the fence token
 * and by `leaserun fence' for the highest token seen.
 *
 * Layout, 8192 bytes, native byte order (a record never leaves its host):
 *	   0	slot 0		2048	note 0
 *	4096	slot 1		6144	note 1
 * Slots hold the number and a text that belongs to it; they are written in
 * turn, each write synced before it counts.  Notes hold texts that may be lost
 * without harm; they are checksummed but not synced.
 */
#ifndef RECORD_H
#define RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_TEXT_SIZE	960	/* with the NUL */

enum record_state {
	RECORD_NEW,		/* empty, or its first write was cut off */
	RECORD_GOOD,
	RECORD_HALF,		/* one slot is damaged */
	RECORD_DAMAGED,		/* neither slot can be read */
	RECORD_FOREIGN		/* written by a newer version */
};

struct record {
	enum record_state state;
	uint64_t	number;	/* the highest valid one; 0 when NEW */
	int		slot;	/* where it stands; -1: none */
	char		text[RECORD_TEXT_SIZE];
	bool		is_double;	/* both slots have the number */
};

/* Reads the file from the start: 0, or -1 with errno. */
int	 record_read(int fd, struct record *);

/*
 * Writes number and text into the other slot (into both where state is NEW or
 * HALF) and returns after fdatasync(2).  number must be higher than
 * record->number.  -1 with errno: nothing may be built on it, the record on
 * disk is still readable.  Updates *record.
 */
int	 record_write(int fd, struct record *, uint64_t number,
	    const char *text);

/*
 * Writes what stands in one slot into the other one, too, and syncs both: where
 * numbers have gaps, the loss of the last slot must not bring back the one
 * before it.
 */
int	 record_repeat(int fd, struct record *);

/*
 * The number after this one: + 1; + 2 for HALF, since the damaged slot may have
 * held the next; for NEW the Unix time in milliseconds.  Always above floor.
 * 0 when there is none (DAMAGED, FOREIGN, or the numbers are used up).
 */
uint64_t record_next(const struct record *, uint64_t floor);

/* CRC-32C. */
uint32_t record_sum(const void *data, size_t size);

/*
 * Note 0 or 1.  Reading gives "" for a damaged or missing one; -1 and errno.
 * There is none (ENODATA) in a file that has not begun to be a record.
 */
int	 record_note_read(int fd, int note, char text[RECORD_TEXT_SIZE]);
int	 record_note_write(int fd, int note, const char *text);

#endif
