/*
 * What the processes of a store cost: those that are named, their children,
 * and the children that have ended.
 */
#ifndef LOADCOST_H
#define LOADCOST_H

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STORE_PIDS	8

struct store {
	int		pids[STORE_PIDS];
	int		n;
};

struct cost {
	double		cpu_s;
	double		memory_kb;	/* its share of what it shares */
	int		processes;
};

/* "12,34,56" */
static void
store_parse(struct store *s, const char *text)
{
	char *end;

	for (s->n = 0; s->n < STORE_PIDS && *text != '\0'; text = end) {
		s->pids[s->n++] = (int)strtol(text, &end, 10);
		end += *end == ',';
	}
}

static int
store_has(const struct store *s, int pid)
{
	int i = 0;

	while (i < s->n && s->pids[i] != pid)
		i++;
	return i < s->n;
}

static double
memory_of(int pid)
{
	char path[64], line[256];
	long kb = 0;
	FILE *fp;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	if ((fp = fopen(path, "r")) == NULL)
		return 0;
	while (fgets(line, sizeof(line), fp) != NULL) {
		if (strncmp(line, "Pss:", 4) == 0)
			kb = strtol(line + 4, NULL, 10);
	}
	fclose(fp);
	return (double)kb;
}

/* Those that ended count at their parent only. */
static void
add_process(const struct store *s, int pid, int with_memory, struct cost *cost)
{
	unsigned long user, system, dead_user, dead_system;
	char path[64], text[1024], *p;
	int parent, is_named;
	size_t len;
	FILE *fp;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if ((fp = fopen(path, "r")) == NULL)
		return;
	len = fread(text, 1, sizeof(text) - 1, fp);
	fclose(fp);
	text[len] = '\0';
	if ((p = strrchr(text, ')')) == NULL || sscanf(p + 1,
	    " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu",
	    &parent, &user, &system, &dead_user, &dead_system) != 5)
		return;
	is_named = store_has(s, pid);
	if (!is_named && !store_has(s, parent))
		return;
	if (is_named)
		user += dead_user + dead_system;
	cost->cpu_s += (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
	cost->memory_kb += with_memory ? memory_of(pid) : 0;
	cost->processes++;
}

static struct cost
store_cost(const struct store *s, int with_memory)
{
	struct cost cost = { 0, 0, 0 };
	struct dirent *entry;
	DIR *dir;

	if (s->n == 0 || (dir = opendir("/proc")) == NULL)
		return cost;
	while ((entry = readdir(dir)) != NULL) {
		if (isdigit((unsigned char)entry->d_name[0]))
			add_process(s, atoi(entry->d_name), with_memory,
			    &cost);
	}
	closedir(dir);
	return cost;
}

#endif
