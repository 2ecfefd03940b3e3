/*
 * Reads /proc: states, parents, children.  Must never allocate, and never
 * believe the numbers of another pid namespace.
 */
#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proc.h"
#include "util.h"

#define PATH_ROOM	64

static int proc_fd = -1;
static bool has_terminal;

/* Appends text or a number to a path; both keep it terminated. */
static void
put_text(char *path, const char *text)
{
	size_t len = strnlen(path, PATH_ROOM - 1);

	while (*text != '\0' && len < PATH_ROOM - 1)
		path[len++] = *text++;
	path[len] = '\0';
}

static void
put_number(char *path, pid_t number)
{
	char digits[21];

	number_format((uint64_t)number, digits);
	put_text(path, digits);
}

/* "NUMBER/file", below /proc. */
static int
open_file(pid_t pid, const char *file, int flags)
{
	char path[PATH_ROOM] = "";

	put_number(path, pid);
	put_text(path, file);
	return openat(proc_fd, path, O_RDONLY | O_CLOEXEC | flags);
}

/* The text of a small file: its length, or -1. */
static ssize_t
read_file(pid_t pid, const char *file, char *buf, size_t size)
{
	ssize_t n;
	int fd;

	if ((fd = open_file(pid, file, 0)) == -1)
		return -1;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n >= 0)
		buf[n] = '\0';
	return n;
}

/*
 * Field 3 (state) and 4 (parent) of stat.  The name in field 2 may hold
 * anything, so they are counted from the last bracket.
 */
bool
proc_stat(pid_t pid, char *state, pid_t *parent)
{
	char buf[512], *p;

	if (read_file(pid, "/stat", buf, sizeof(buf)) <= 0 ||
	    (p = strrchr(buf, ')')) == NULL || strlen(p) < 5)
		return false;
	*state = p[2];
	*parent = (pid_t)strtol(p + 4, NULL, 10);
	return true;
}

char
proc_state(pid_t pid)
{
	char state;
	pid_t parent;

	return proc_stat(pid, &state, &parent) ? state : 0;
}

bool
proc_is_at_work(pid_t pid)
{
	char state = proc_state(pid);

	return state != 'T' && state != 't' && state != 'Z' && state != 0;
}

bool
proc_name(pid_t pid, char *name, size_t size)
{
	ssize_t n = read_file(pid, "/comm", name, size);

	if (n > 0 && name[n - 1] == '\n')
		name[n - 1] = '\0';
	return n > 0;
}

uid_t
proc_owner(pid_t pid)
{
	char path[PATH_ROOM] = "";
	struct stat st;

	put_number(path, pid);
	return fstatat(proc_fd, path, &st, 0) == 0 ? st.st_uid : (uid_t)-1;
}

/* A numeric field of the text of stat, counted as proc(5) does; false: none. */
static bool
get_field(const char *text, int field, long long *value)
{
	const char *p = strrchr(text, ')');
	int at;

	for (at = 2; at < field && p != NULL; at++)
		p = strchr(p + 1, ' ');
	if (p == NULL)
		return false;
	*value = strtoll(p, NULL, 10);
	return true;
}

bool
proc_has_terminal(void)
{
	return has_terminal;
}

int64_t
proc_born(pid_t pid)
{
	char buf[512];
	long long ticks;

	if (read_file(pid, "/stat", buf, sizeof(buf)) <= 0 ||
	    !get_field(buf, 22, &ticks))
		return -1;
	/* What user space sees of a tick is a hundredth of a second. */
	return ticks * PROC_TICK;
}

/* Numbers separated by spaces, read in pieces. */
static void
each_in_list(int fd, void (*fn)(pid_t))
{
	char buf[4096];
	pid_t pid = 0;
	ssize_t n, i;

	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		for (i = 0; i < n; i++) {
			if (buf[i] >= '0' && buf[i] <= '9') {
				pid = pid * 10 + (buf[i] - '0');
				continue;
			}
			if (pid > 0)
				fn(pid);
			pid = 0;
		}
	}
	if (pid > 0)
		fn(pid);
}

/* Looks at every numeric entry of a directory of /proc; closes dir. */
static void
each_entry(int dir, void (*look)(pid_t, pid_t, void (*)(pid_t)), pid_t arg,
    void (*fn)(pid_t))
{
	union {
		struct dirent64	align;
		char		room[4096];
	} buf;
	const struct dirent64 *d;
	ssize_t n, at;

	while ((n = getdents64(dir, &buf.align, sizeof(buf))) > 0) {
		for (at = 0; at < n; at += d->d_reclen) {
			d = (const void *)(buf.room + at);
			if (d->d_name[0] >= '1' && d->d_name[0] <= '9')
				look((pid_t)strtol(d->d_name, NULL, 10), arg,
				    fn);
		}
	}
	close(dir);
}

/* The children that one thread of a process made. */
static void
each_of_thread(pid_t thread, pid_t pid, void (*fn)(pid_t))
{
	char path[PATH_ROOM] = "/task/";
	int fd;

	put_number(path, thread);
	put_text(path, "/children");
	if ((fd = open_file(pid, path, 0)) == -1)
		return;
	each_in_list(fd, fn);
	close(fd);
}

static void
each_thread(pid_t thread, pid_t pid, void (*fn)(pid_t))
{
	(void)pid;
	fn(thread);
}

void
proc_threads(pid_t pid, void (*fn)(pid_t))
{
	int dir = open_file(pid, "/task", O_DIRECTORY);

	if (dir != -1)
		each_entry(dir, each_thread, pid, fn);
}

static void
if_child(pid_t pid, pid_t wanted, void (*fn)(pid_t))
{
	pid_t parent;
	char state;

	if (proc_stat(pid, &state, &parent) && parent == wanted)
		fn(pid);
}

/* A kernel without CONFIG_PROC_CHILDREN: everyone is looked at. */
static bool
has_lists(void)
{
	static int known = -1;

	if (known == -1)
		known = faccessat(proc_fd, "thread-self/children", F_OK,
		    0) == 0;
	return known == 1;
}

void
proc_children(pid_t pid, void (*fn)(pid_t))
{
	int dir;

	if (!has_lists()) {
		dir = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir != -1)
			each_entry(dir, if_child, pid, fn);
	} else if (pid == getpid())
		each_of_thread(pid, pid, fn);	/* we have one thread */
	else if ((dir = open_file(pid, "/task", O_DIRECTORY)) != -1)
		each_entry(dir, each_of_thread, pid, fn);
}

/*
 * What the kernel says of us: the terminal, and by which number /proc knows us,
 * which is not ours in another pid namespace.  0, or the number of an error.
 */
static int
read_self(void)
{
	char buf[512];
	long long tty = 0;
	ssize_t n;
	int fd;

	if ((fd = openat(proc_fd, "self/stat", O_RDONLY | O_CLOEXEC)) == -1)
		return errno == EMFILE ? EMFILE : ENOENT;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	buf[n > 0 ? n : 0] = '\0';
	if (strtol(buf, NULL, 10) != getpid())
		return n > 0 ? ESRCH : ENOENT;
	has_terminal = get_field(buf, 7, &tty) && tty != 0;
	return 0;
}

/*
 * Whether what we fork is in another namespace than we are, as after unshare(2)
 * without a fork: what one says of numbers and times would be wrong for the
 * other.  One that nobody is in yet has no text; a kernel that does not tell
 * (pid before 4.12, time before 5.6) has no such link.
 */
static bool
is_divided(const char *own, const char *children)
{
	char mine[32], theirs[32];
	ssize_t n, len;
	struct stat st;

	len = readlinkat(proc_fd, children, theirs, sizeof(theirs));
	if (len == -1)
		return errno == ENOENT && fstatat(proc_fd, children, &st,
		    AT_SYMLINK_NOFOLLOW) == 0;
	n = readlinkat(proc_fd, own, mine, sizeof(mine));
	return n > 0 && (n != len || memcmp(mine, theirs, (size_t)n) != 0);
}

int
proc_init(void)
{
	int error;

	if (proc_fd != -1)
		return 0;
	proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc_fd == -1)
		return -1;
	if ((error = read_self()) == 0 &&
	    (is_divided("self/ns/pid", "self/ns/pid_for_children") ||
	    is_divided("self/ns/time", "self/ns/time_for_children")))
		error = EXDEV;
	if (error == 0)
		return 0;
	close(proc_fd);
	proc_fd = -1;
	errno = error;
	return -1;
}
