/*
 * Opening what others may have prepared for us.  Knows nothing about leases;
 * must never follow a link, trust a name twice, or remove anything.
 */
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "filedir.h"

/* How often a file may vanish or be replaced between two system calls. */
#define TRIES	10

/* Where another host may hold the "same" lock, or where none is kept. */
static const struct {
	uint32_t	 magic;
	const char	*name;
} network[] = {
	{ 0x00006969, "nfs" },
	{ 0x0000517b, "smb" },
	{ 0xff534d42, "cifs" },
	{ 0xfe534d42, "smb2" },
	{ 0x65735546, "fuse" },
	{ 0x00c36400, "ceph" },
	{ 0x5346414f, "afs" },
	{ 0x6b414653, "afs" },
	{ 0x73757245, "coda" },
	{ 0x7461636f, "ocfs2" },
	{ 0x01021997, "9p" },
	{ 0x0000564c, "ncp" },
	{ 0x01161970, "gfs2" },
	{ 0x0bd00bd0, "lustre" },
	{ 0x47504653, "gpfs" },
};

const char *
filedir_network(int fd)
{
	struct statfs fs;
	size_t i;

	if (fstatfs(fd, &fs) == -1)
		return NULL;
	for (i = 0; i < sizeof(network) / sizeof(network[0]); i++) {
		/* f_type is signed, and its upper half means nothing. */
		if (network[i].magic == (uint32_t)fs.f_type)
			return network[i].name;
	}
	return NULL;
}

const char *
filedir_name(char buf[FILEDIR_FILE_SIZE], const char *name, const char *suffix)
{
	snprintf(buf, FILEDIR_FILE_SIZE, "%s%s", name, suffix);
	return buf;
}

bool
filedir_is_trusted(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

static enum leaserun_result
result_of(int error)
{
	switch (error) {
	case EACCES:
	case EPERM:
		return LEASERUN_DENIED;
	case EROFS:
	case ENOENT:
	case ENOTDIR:
	case EISDIR:
	case ELOOP:
	case ENXIO:
	case ENAMETOOLONG:
	case EBADF:
	case EINVAL:
	case EOPNOTSUPP:
	case ENOLCK:
	case EFBIG:
		return LEASERUN_MISCONFIGURED;
	default:
		return LEASERUN_UNAVAILABLE;
	}
}

/* What to do about it, with a semicolon in front; "" when nothing is known. */
static const char *
advice(int error)
{
	switch (error) {
	case EROFS:
		return "; choose a directory that can be written";
	case ENOSPC:
	case EDQUOT:
		return "; free some space there";
	case EFBIG:
		return "; raise the limit of the file size";
	case EIO:
		return "; look for disk errors in the kernel's log";
	case ENOLCK:
	case EBADF:
	case EINVAL:
	case EOPNOTSUPP:
		return "; choose a local file system that keeps locks";
	case ENFILE:
		return "; raise fs.file-max";
	default:
		return "";
	}
}

enum leaserun_result
filedir_fail(const struct filedir *dir, const char *what, const char *file,
    int error)
{
	dir->host->error(dir->host, "cannot %s '%s%s%s': %s%s", what,
	    dir->path, file == NULL ? "" : "/", file == NULL ? "" : file,
	    strerror(error), advice(error));
	return result_of(error);
}

/* One more component; what was made has to outlast a power cut. */
static int
make_one(const char *path)
{
	char parent[PATH_MAX];
	const char *slash = strrchr(path, '/');
	mode_t mask;
	int fd, n;

	mask = umask(0);
	n = mkdir(path, 0700);
	umask(mask);
	if (n == -1)
		return errno == EEXIST ? 0 : -1;
	n = snprintf(parent, sizeof(parent), "%.*s",
	    slash == path ? 1 : (int)(slash - path), path);
	if (n < 0 || (size_t)n >= sizeof(parent)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	/* A parent that we may search but not read cannot be synced. */
	if ((fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		return errno == EACCES ? 0 : -1;
	n = fsync(fd);
	close(fd);
	return n;
}

int
filedir_make(const char *path, bool parents)
{
	char part[PATH_MAX];
	size_t i;

	for (i = 1; parents && path[i] != '\0'; i++) {
		if (path[i] != '/')
			continue;
		if (i >= sizeof(part)) {
			errno = ENAMETOOLONG;
			return -1;
		}
		memcpy(part, path, i);
		part[i] = '\0';
		if (make_one(part) == -1)
			return -1;
	}
	return make_one(path);
}

/* Why the directory cannot be opened, and what would help. */
static enum leaserun_result
dir_fail(const struct filedir *dir, int error)
{
	const struct leaserun_host *host = dir->host;
	struct stat st;

	/* Nothing that init could make. */
	if (error == ENOENT && lstat(dir->path, &st) == 0) {
		host->error(host, "'%s' is a link that points nowhere; make "
		    "the directory that it points to, or remove it", dir->path);
		return LEASERUN_MISCONFIGURED;
	}
	if (error == ENOENT && !dir->is_default) {
		host->error(host, "cannot open directory '%s': %s; run "
		    "'leaserun init --backend file:%s'", dir->path,
		    strerror(error), dir->path);
		return LEASERUN_MISCONFIGURED;
	}
	if (error == EACCES && stat(dir->path, &st) == 0) {
		host->error(host, "cannot open directory '%s', owned by uid "
		    "%u with mode %04o: %s; run as that user or share it with "
		    "a group: chgrp GROUP '%s' && chmod 2770 '%s'", dir->path,
		    st.st_uid, st.st_mode & 07777, strerror(error), dir->path,
		    dir->path);
		return LEASERUN_DENIED;
	}
	return filedir_fail(dir, "open directory", NULL, error);
}

/* Who could replace our files, or plant theirs? */
static enum leaserun_result
dir_check(const struct filedir *dir, int fd, const struct stat *link,
    const struct stat *st)
{
	const struct leaserun_host *host = dir->host;
	const char *fs;

	/* A link of root's stays; one of others may point elsewhere by now. */
	if (S_ISLNK(link->st_mode) ? !filedir_is_trusted(link->st_uid) :
	    link->st_dev != st->st_dev || link->st_ino != st->st_ino) {
		host->error(host, "'%s' is a link made by uid %u; name the "
		    "directory that it points to", dir->path, link->st_uid);
		return LEASERUN_MISCONFIGURED;
	}
	if (!filedir_is_trusted(st->st_uid)) {
		host->error(host, "directory '%s' belongs to uid %u, who could "
		    "replace the locks; run as that user or choose another "
		    "directory", dir->path, st->st_uid);
		return LEASERUN_MISCONFIGURED;
	}
	if ((st->st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH) {
		host->error(host, "directory '%s' has mode %04o: anyone could "
		    "replace the locks; run chmod o-w '%s'", dir->path,
		    st->st_mode & 07777, dir->path);
		return LEASERUN_MISCONFIGURED;
	}
	if (!dir->allow_network && (fs = filedir_network(fd)) != NULL) {
		host->error(host, "directory '%s' is on %s, where locks may "
		    "not hold for other hosts, or at all; choose a local one, "
		    "or give -o allow-network-fs=yes", dir->path, fs);
		return LEASERUN_MISCONFIGURED;
	}
	return LEASERUN_OK;
}

/* Nobody has chosen it, and a user of a service has no home. */
static enum leaserun_result
no_default(const struct filedir *dir, int error)
{
	enum leaserun_result result;

	result = filedir_fail(dir, "make directory", NULL, error);
	if (*advice(error) == '\0')
		dir->host->error(dir->host, "cannot make directory '%s': %s; "
		    "name another one with --backend file:DIRECTORY", dir->path,
		    strerror(error));
	return result;
}

enum leaserun_result
filedir_open(const struct filedir *dir, enum filedir_use use, int *out)
{
	enum leaserun_result result = LEASERUN_OK;
	struct stat link, st;
	bool found;
	int fd;

	*out = -1;
	found = lstat(dir->path, &link) == 0;
	if (!found && errno == ENOENT && dir->is_default) {
		if (use != FILEDIR_MAKE)
			return LEASERUN_OK;
		if (filedir_make(dir->path, true) == -1)
			return no_default(dir, errno);
		found = lstat(dir->path, &link) == 0;
	}
	if (!found ||
	    (fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		return dir_fail(dir, errno);
	if (fstat(fd, &st) == -1)
		result = filedir_fail(dir, "look at directory", NULL, errno);
	else if (use != FILEDIR_LOOK)
		result = dir_check(dir, fd, &link, &st);
	if (result != LEASERUN_OK) {
		close(fd);
		return result;
	}
	*out = fd;
	return LEASERUN_OK;
}

bool
filedir_is_shared(const struct stat *dir)
{
	return (dir->st_mode & (S_ISGID | S_IWGRP)) == (S_ISGID | S_IWGRP);
}

/*
 * Without O_CREAT first: where protected_regular is on, the kernel refuses it
 * for an existing file of another user, even to root.
 */
int
filedir_open_file(int dirfd, const char *file, bool make, bool shared)
{
	const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
	mode_t mask;
	int fd, tries;

	for (tries = 0; tries < TRIES; tries++) {
		fd = openat(dirfd, file, flags);
		if (fd != -1 || errno != ENOENT || !make)
			return fd;
		/* Not a chmod afterwards: the group may be quicker. */
		mask = umask(0);
		fd = openat(dirfd, file, flags | O_CREAT | O_EXCL,
		    shared ? 0660 : 0600);
		umask(mask);
		if (fd != -1 || errno != EEXIST)
			return fd;
	}
	errno = EBUSY;
	return -1;
}

static enum leaserun_result
not_regular(const struct filedir *dir, const char *file)
{
	dir->host->error(dir->host, "'%s/%s' is not a regular file; move it "
	    "away", dir->path, file);
	return LEASERUN_MISCONFIGURED;
}

/* Why a file cannot be opened: mostly whose it is. */
static enum leaserun_result
file_fail(const struct filedir *dir, int dirfd, const char *file, int error)
{
	struct stat st;

	if (fstatat(dirfd, file, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return filedir_fail(dir, "open", file, error);
	if (!S_ISREG(st.st_mode))
		return not_regular(dir, file);
	if (error != EACCES && error != EPERM)
		return filedir_fail(dir, "open", file, error);
	dir->host->error(dir->host, "cannot open '%s/%s', owned by uid %u with "
	    "mode %04o: %s; run as that user or share it with a group: chmod "
	    "2770 '%s', chgrp GROUP and chmod 660 the files in it", dir->path,
	    file, st.st_uid, st.st_mode & 07777, strerror(error), dir->path);
	return LEASERUN_DENIED;
}

/* Whose is it, and who else can reach it? */
static enum leaserun_result
file_check(const struct filedir *dir, const char *file,
    const struct stat *dirst, const struct stat *st)
{
	const struct leaserun_host *host = dir->host;

	if (!S_ISREG(st->st_mode))
		return not_regular(dir, file);
	if (!filedir_is_trusted(st->st_uid) &&
	    !(filedir_is_shared(dirst) && st->st_gid == dirst->st_gid)) {
		host->error(host, "'%s/%s' belongs to uid %u, mode %04o; run "
		    "as that user, or use a directory where only you and root "
		    "can make files", dir->path, file, st->st_uid,
		    st->st_mode & 07777);
		return LEASERUN_MISCONFIGURED;
	}
	/* Whoever can open a lock file for reading can block it. */
	if ((st->st_mode & (S_IROTH | S_IWOTH)) != 0) {
		host->error(host, "'%s/%s' has mode %04o: anyone could block "
		    "it; run chmod o-rw '%s/%s'", dir->path, file,
		    st->st_mode & 07777, dir->path, file);
		return LEASERUN_MISCONFIGURED;
	}
	if (st->st_nlink > 1) {
		host->error(host, "'%s/%s' has a second name; move it away",
		    dir->path, file);
		return LEASERUN_MISCONFIGURED;
	}
	return LEASERUN_OK;
}

enum leaserun_result
filedir_file(const struct filedir *dir, int dirfd, const char *file, bool make,
    int *out)
{
	enum leaserun_result result;
	struct stat dirst, st;
	int fd;

	*out = -1;
	if (fstat(dirfd, &dirst) == -1)
		return filedir_fail(dir, "look at directory", NULL, errno);
	fd = filedir_open_file(dirfd, file, make, filedir_is_shared(&dirst));
	if (fd == -1)
		return errno == ENOENT && !make ? LEASERUN_OK :
		    file_fail(dir, dirfd, file, errno);
	if (fstat(fd, &st) == -1)
		result = filedir_fail(dir, "look at", file, errno);
	else
		result = file_check(dir, file, &dirst, &st);
	if (result != LEASERUN_OK) {
		close(fd);
		return result;
	}
	*out = fd;
	return LEASERUN_OK;
}

enum leaserun_result
filedir_peek(const struct filedir *dir, int dirfd, const char *file, int *out)
{
	enum leaserun_result result = LEASERUN_OK;
	struct stat st;
	int fd;

	*out = -1;
	if (dirfd == -1)
		return LEASERUN_OK;
	fd = openat(dirfd, file,
	    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd == -1)
		return errno == ENOENT ? LEASERUN_OK :
		    file_fail(dir, dirfd, file, errno);
	if (fstat(fd, &st) == -1)
		result = filedir_fail(dir, "look at", file, errno);
	else if (!S_ISREG(st.st_mode))
		result = not_regular(dir, file);
	if (result != LEASERUN_OK) {
		close(fd);
		return result;
	}
	*out = fd;
	return LEASERUN_OK;
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds a copy of the name; -1 and errno. */
static int
add_name(char ***names, int n, const char *name)
{
	char **more = reallocarray(*names, (size_t)n + 1, sizeof(*more));

	if (more == NULL)
		return -1;
	*names = more;
	return (more[n] = strdup(name)) == NULL ? -1 : 0;
}

/* scandirat(3), which not every C library has. */
int
filedir_names(int dirfd, bool (*wanted)(const char *), char ***out)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd == -1 ? NULL : fdopendir(fd);
	char **names = NULL;
	struct dirent *d;
	int error, n = 0;

	if (dir == NULL) {
		error = errno;
		goto out;
	}
	while (errno = 0, (d = readdir(dir)) != NULL) {
		if (!wanted(d->d_name))
			continue;
		if (add_name(&names, n, d->d_name) == -1)
			break;
		n++;
	}
	error = errno;
out:
	if (dir != NULL)
		closedir(dir);
	else if (fd != -1)
		close(fd);
	if (error != 0) {
		while (n > 0)
			free(names[--n]);
		free(names);
		errno = error;
		return -1;
	}
	if (n > 0)
		qsort(names, (size_t)n, sizeof(*names), compare_names);
	*out = names;
	return n;
}
