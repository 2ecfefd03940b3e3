/*
 * What NAME.token says about a lease: the last grant (in the slots of the
 * record), how it ended (note 0), and who asked it to end (note 1).
 */
#ifndef FILEINFO_H
#define FILEINFO_H

#include "../src/record.h"
#include "leaserun-backend.h"

#define FILEINFO_BOOT_SIZE	37

/*
 * Anyone who may write the file may have written anything: what does not parse
 * is unknown (empty or 0), and nothing here is ever acted on but by comparing.
 */
struct fileinfo {
	struct record record;	/* record.number is the token */
	char		owner[LEASERUN_OWNER_SIZE];
	char		label[LEASERUN_LABEL_SIZE];
	char		host[LEASERUN_HOST_SIZE];
	char		boot[FILEINFO_BOOT_SIZE];	/* of acquired_ns */
	int64_t		pid;
	int64_t		acquired_ms;	/* unix */
	int64_t		acquired_ns;
	int64_t		hold_ns;	/* --min-hold, from the grant on */

	uint64_t	released;	/* token of the last release */
	bool		has_end;	/* of the last run that had started */
	int		end_status;
	int64_t		end_ms;		/* unix */
	int64_t		ran_ms;

	bool		revoked;	/* the mark is meant for this grant */
	bool		unheld;		/* its --min-hold is over */
};

/* This host's wall clock. */
int64_t	 fileinfo_unix_ms(void);

/* 0, or -1 with errno.  A descriptor of -1 reads like an empty file. */
int	 fileinfo_read(int fd, struct fileinfo *);

/* Records a grant and syncs it; of *info the record alone is kept up to it. */
int	 fileinfo_grant(int fd, struct fileinfo *info, uint64_t token,
	    const struct leaserun_request *, int64_t now);

/* Notes the release of that token; keeps of info what stays true. */
int	 fileinfo_end(int fd, const struct fileinfo *info, uint64_t token,
	    const struct leaserun_end *);

/* Asks the holder of info's grant to end, or with unhold ends its hold. */
int	 fileinfo_mark(int fd, const struct fileinfo *info, bool unhold);

/* The last grant was given back: its holder did not just vanish. */
bool	 fileinfo_is_released(const struct fileinfo *);

/* Whether it is this grant that the record is about. */
bool	 fileinfo_is_owner(const struct fileinfo *, const char *owner);

/* How much longer --min-hold keeps the name, in nanoseconds. */
int64_t	 fileinfo_hold_left(const struct fileinfo *, int64_t now);

/*
 * For people.  Fills in all but renewed_ms and waiting; a name that is free
 * shows nobody.  busy: the lock is taken.
 */
void	 fileinfo_entry(const struct fileinfo *, const char *name, bool busy,
	    int64_t now, struct leaserun_entry *);

/* The same, about the last holder whatever became of it. */
void	 fileinfo_previous(const struct fileinfo *, const char *name,
	    int64_t now, struct leaserun_entry *);

#endif
