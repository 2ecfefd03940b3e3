/*
 * What a process and its descendants use, as /proc says.  A family that changes
 * while it is looked at is seen in part; it is no error.
 */
#include <sys/syscall.h>

#include <linux/kcmp.h>

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "family.h"

/* Called for the parent before the children. */
typedef void family_fn(pid_t pid, pid_t parent, void *arg);

static FILE *
open_proc(pid_t pid, pid_t tid, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid,
	    name);
	return fopen(path, "re");
}

/* Calls fn for every thread. */
static void
each_thread(pid_t pid, void (*fn)(pid_t, pid_t, void *), void *arg)
{
	char path[64];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	if ((dir = opendir(path)) == NULL)
		return;
	while ((entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] != '.')
			fn(pid, (pid_t)atol(entry->d_name), arg);
	}
	closedir(dir);
}

struct walk {
	family_fn	*fn;
	void		*arg;
};

static void
walk_children(pid_t pid, pid_t tid, void *arg)
{
	struct walk *walk = arg;
	FILE *fp = open_proc(pid, tid, "children");
	int child;

	while (fp != NULL && fscanf(fp, "%d", &child) == 1) {
		walk->fn((pid_t)child, pid, walk->arg);
		each_thread((pid_t)child, walk_children, walk);
	}
	if (fp != NULL)
		fclose(fp);
}

static void
walk(pid_t pid, family_fn *fn, void *arg)
{
	struct walk w = { fn, arg };

	if (pid != getpid())
		fn(pid, 0, arg);
	each_thread(pid, walk_children, &w);
}

static bool
is_job(pid_t pid)
{
	FILE *fp = open_proc(pid, pid, "comm");
	char name[32] = "";
	bool yes;

	if (fp == NULL)
		return false;
	yes = fgets(name, sizeof(name), fp) != NULL &&
	    strcmp(name, FAMILY_JOB "\n") == 0;
	fclose(fp);
	return yes;
}

static void
add_thread(pid_t pid, pid_t tid, void *arg)
{
	struct family *f = arg;
	char line[128];
	long ran, n;
	char state;
	FILE *fp;

	if ((fp = open_proc(pid, tid, "schedstat")) != NULL) {
		if (fscanf(fp, "%ld", &ran) == 1)
			f->ran_ns += ran;
		fclose(fp);
	}
	if ((fp = open_proc(pid, tid, "status")) == NULL)
		return;
	while (fgets(line, sizeof(line), fp) != NULL) {
		if (sscanf(line, "State: %c", &state) == 1)
			f->awake += state != 'S';
		else if (sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1)
			f->slept += n;
	}
	fclose(fp);
}

static void
add_memory(pid_t pid, struct family *f)
{
	char line[128];
	FILE *fp;
	long kb;

	if ((fp = open_proc(pid, pid, "smaps_rollup")) == NULL)
		return;
	while (fgets(line, sizeof(line), fp) != NULL) {
		if (sscanf(line, "Pss: %ld", &kb) == 1)
			f->pss_kb += kb;
		else if (sscanf(line, "Private_%*[a-zA-Z]: %ld", &kb) == 1)
			f->unshared_kb += kb;
	}
	fclose(fp);
}

static void
add_state(pid_t pid, pid_t parent, void *arg)
{
	struct family *f = arg;

	(void)parent;
	f->processes++;
	if (is_job(pid))
		f->jobs++;
	else
		each_thread(pid, add_thread, f);
}

static void
add_all(pid_t pid, pid_t parent, void *arg)
{
	add_state(pid, parent, arg);
	/* Between vfork(2) and exec two processes have the same memory. */
	if (!is_job(pid) && (parent == 0 ||
	    syscall(SYS_kcmp, pid, parent, KCMP_VM, 0, 0) != 0))
		add_memory(pid, arg);
}

void
family_look(pid_t pid, enum family_what what, struct family *f)
{
	memset(f, 0, sizeof(*f));
	walk(pid, what == FAMILY_MEMORY ? add_all : add_state, f);
}

/* The pids of a tree that is not too large. */
struct tree {
	pid_t	pids[64];
	int	n;
};

static void
stop(pid_t pid, pid_t parent, void *arg)
{
	struct tree *tree = arg;

	(void)parent;
	if (tree->n == (int)(sizeof(tree->pids) / sizeof(tree->pids[0])))
		return;
	tree->pids[tree->n++] = pid;
	kill(pid, SIGSTOP);
}

void
family_kill(pid_t pid)
{
	struct tree tree = { .n = 0 };
	int i;

	walk(pid, stop, &tree);
	for (i = 0; i < tree.n; i++)
		kill(tree.pids[i], SIGKILL);
}
