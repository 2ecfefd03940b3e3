/*
 * The directory of the file backend and the files in it, opened so that nobody
 * who may write there can lead us astray: no link is followed, nothing but a
 * regular file of ours is used, nothing is ever unlinked.
 */
#ifndef FILEDIR_H
#define FILEDIR_H

#include <sys/stat.h>

#include "leaserun-backend.h"

/* NAME.once-new */
#define FILEDIR_FILE_SIZE	(LEASERUN_NAME_SIZE + 9)

struct filedir {
	const struct leaserun_host *host;	/* gets the error texts */
	char	*path;		/* absolute, without a slash at the end */
	bool	 is_default;	/* made when it is missing */
	bool	 allow_network;
};

enum filedir_use {
	FILEDIR_LOOK,		/* to read, whoever it belongs to */
	FILEDIR_USE,		/* nobody but root may tamper with it */
	FILEDIR_MAKE		/* the same; made if it is the default */
};

/* The file of a lease, in buf: its name and ".lock" or ".token". */
const char *filedir_name(char buf[FILEDIR_FILE_SIZE], const char *name,
	    const char *suffix);

/*
 * A close-on-exec descriptor of the directory.  A default directory that is not
 * there yet and was not to be made is OK and gives -1: it is empty.
 */
enum leaserun_result filedir_open(const struct filedir *, enum filedir_use,
	    int *fd);

/*
 * Makes the directory durably; all of the way to it with `parents'.  It may be
 * there already.  0, or -1 with errno.
 */
int	 filedir_make(const char *path, bool parents);

/*
 * Opens a file of the directory for reading and writing.  One that is missing
 * is made, or without `make' it is OK and -1.
 */
enum leaserun_result filedir_file(const struct filedir *, int dirfd,
	    const char *file, bool make, int *fd);

/*
 * Opens one to read it, whoever it belongs to.  One that is missing is OK and
 * -1, as is every file of directory -1.
 */
enum leaserun_result filedir_peek(const struct filedir *, int dirfd,
	    const char *file, int *fd);

/*
 * Sets the text "cannot WHAT 'DIRECTORY/FILE': ERROR" with what to do next, and
 * returns the result that goes with the error number.  file may be NULL.
 */
enum leaserun_result filedir_fail(const struct filedir *, const char *what,
	    const char *file, int error);

/*
 * The names in the directory that are `wanted', in order.  They and the array
 * are the caller's to free.  How many, or -1 with errno.
 */
int	 filedir_names(int dirfd, bool (*wanted)(const char *), char ***names);

/* Root, or who we are. */
bool	 filedir_is_trusted(uid_t);

/* A setgid directory that its group may write was made to be shared. */
bool	 filedir_is_shared(const struct stat *dir);

/*
 * Opens a file for reading and writing, whatever it is; one that is missing is
 * made, for the group, too, if it is shared.  -1 with errno.
 */
int	 filedir_open_file(int dirfd, const char *file, bool make,
	    bool shared);

/* "nfs" and the like, or NULL when locks are kept by this host alone. */
const char *filedir_network(int fd);

#endif
