/*
 * Finds the backend of a URL, loads its module, and lends it the services of
 * the program.  Must never call a function that a module does not have.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../backends/file.h"
#include "log.h"
#include "plugin.h"
#include "timeutil.h"
#include "util.h"

#ifndef PKGLIBDIR
#define PKGLIBDIR "/usr/local/lib/leaserun"
#endif

#define SCHEME_SIZE	32

static void __attribute__((format(printf, 2, 3)))
host_debug(const struct leaserun_host *host, const char *fmt, ...)
{
	char text[LEASERUN_ERROR_SIZE];
	va_list ap;

	(void)host;
	if (log_level() < LOG_LEVEL_DEBUG)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_debug("%s", text);
}

static void __attribute__((format(printf, 2, 3)))
host_error(const struct leaserun_host *host, const char *fmt, ...)
{
	/* The host is the last member of the plugin that it belongs to. */
	struct plugin *p = (struct plugin *)(void *)
	    ((char *)(uintptr_t)host - offsetof(struct plugin, host));
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->error, sizeof(p->error), fmt, ap);
	va_end(ap);
}

/* Letters and digits up to the colon, so that nothing else is a file name. */
static int
get_scheme(const char *url, char *scheme, size_t size)
{
	size_t len = strspn(url, "abcdefghijklmnopqrstuvwxyz0123456789");

	if (len == 0 || len >= size || url[len] != ':')
		return -1;
	memcpy(scheme, url, len);
	scheme[len] = '\0';
	return 0;
}

static bool
has_all_calls(const struct leaserun_backend *ops)
{
	return ops->name != NULL && ops->open != NULL && ops->close != NULL &&
	    ops->acquire != NULL && ops->abandon != NULL &&
	    ops->renew != NULL && ops->release != NULL && ops->list != NULL &&
	    ops->revoke != NULL && ops->init != NULL && ops->doctor != NULL;
}

int
plugin_adopt(struct leaserun_backend *ops, const struct leaserun_backend *of,
    char error[LEASERUN_ERROR_SIZE])
{
	size_t size = of->size < sizeof(*ops) ? of->size : sizeof(*ops);

	if (of->version != LEASERUN_BACKEND_VERSION) {
		snprintf(error, LEASERUN_ERROR_SIZE, "is made for version %u "
		    "of the contract, this leaserun has %d; install a module "
		    "that is built for this release", of->version,
		    LEASERUN_BACKEND_VERSION);
		return -1;
	}
	memset(ops, 0, sizeof(*ops));
	memcpy(ops, of, size);
	ops->size = sizeof(*ops);
	/* Half a pointer may be in the copy of a size that makes no sense. */
	if (size % sizeof(void *) != 0 || !has_all_calls(ops)) {
		snprintf(error, LEASERUN_ERROR_SIZE, "lacks a function that "
		    "every backend has (its size is %u); report this to who "
		    "made it", of->size);
		return -1;
	}
	return 0;
}

static int
is_module(const struct dirent *entry)
{
	char scheme[SCHEME_SIZE];
	const char *end = strchr(entry->d_name, '.');
	char url[sizeof(entry->d_name) + 1];

	if (end == NULL || strcmp(end, ".so") != 0)
		return 0;
	snprintf(url, sizeof(url), "%.*s:", (int)(end - entry->d_name),
	    entry->d_name);
	return get_scheme(url, scheme, sizeof(scheme)) == 0;
}

/* "file:, etcd: or etcds:", as far as there is room. */
static void
list_schemes(const char *dir, char *text, size_t size)
{
	struct dirent **found = NULL;
	int i, n = scandir(dir, &found, is_module, alphasort);
	size_t used = (size_t)snprintf(text, size, "file:");

	for (i = 0; i < n; i++) {
		if (used < size)
			used += (size_t)snprintf(text + used, size - used,
			    "%s%.*s:", i + 1 < n ? ", " : " or ",
			    (int)strcspn(found[i]->d_name, "."),
			    found[i]->d_name);
		free(found[i]);
	}
	free(found);
}

static void
no_module(struct plugin *p, const char *scheme, const char *dir,
    const char *path)
{
	int error = errno;
	char schemes[160];

	list_schemes(dir, schemes, sizeof(schemes));
	snprintf(p->error, sizeof(p->error), "no backend for '%s:' "
	    "('%.200s': %s); a URL begins with %s here; for another one "
	    "install its package, or set module-dir", scheme, path,
	    strerror(error), schemes);
}

static const struct leaserun_backend *
load_module(struct plugin *p, const char *scheme, const char *dir)
{
	const struct leaserun_backend *module;
	char path[4096], why[LEASERUN_ERROR_SIZE];
	void *handle;

	if (dir == NULL)
		dir = PKGLIBDIR;
	snprintf(path, sizeof(path), "%s/%s.so", dir, scheme);
	if (access(path, F_OK) == -1) {
		no_module(p, scheme, dir, path);
		return NULL;
	}
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (handle == NULL) {
		snprintf(p->error, sizeof(p->error),
		    "cannot load the backend for '%s:': %.300s", scheme,
		    dlerror());
		return NULL;
	}
	module = dlsym(handle, "leaserun_backend");
	if (module == NULL)
		snprintf(p->error, sizeof(p->error),
		    "'%.300s' is not a backend of leaserun", path);
	else if (plugin_adopt(&p->adopted, module, why) == -1)
		snprintf(p->error, sizeof(p->error), "'%.200s' %.300s", path,
		    why);
	else
		return &p->adopted;	/* loaded until the process ends */
	dlclose(handle);
	return NULL;
}

bool
plugin_is_built_in(const char *url)
{
	return strncmp(url, "file:", 5) == 0;
}

enum leaserun_result
plugin_open(struct plugin *p, const struct leaserun_target *target,
    const char *module_dir)
{
	char scheme[SCHEME_SIZE];
	enum leaserun_result result;

	p->self = NULL;
	p->endpoints = 1;
	p->error[0] = '\0';
	p->host.size = sizeof(p->host);
	p->host.version = LEASERUN_BACKEND_VERSION;
	p->host.now = now_ns;
	p->host.debug = host_debug;
	p->host.error = host_error;
	p->host.random = random_below;
	if (get_scheme(target->url, scheme, sizeof(scheme)) == -1) {
		snprintf(p->error, sizeof(p->error),
		    "the backend URL begins with no scheme, or with one that "
		    "is too long; write one such as file:");
		return LEASERUN_MISCONFIGURED;
	}
	if (plugin_is_built_in(target->url))
		p->ops = &file_backend;
	else
		p->ops = load_module(p, scheme, module_dir);
	/* Without a descriptor no library is opened: that is no fault of it. */
	if (p->ops == NULL)
		return fds_left(1) ? LEASERUN_MISCONFIGURED :
		    LEASERUN_UNAVAILABLE;
	result = p->ops->open(&p->host, target, &p->self, &p->endpoints);
	if (result == LEASERUN_OK && p->endpoints == 0)
		p->endpoints = 1;
	if (result != LEASERUN_OK)
		p->self = NULL;
	return result;
}

void
plugin_close(struct plugin *p)
{
	if (p->self != NULL)
		p->ops->close(p->self);
	p->self = NULL;
}

enum leaserun_result
plugin_refuses(const struct plugin *p, const struct leaserun_request *request)
{
	return file_refuses(p->self, request);
}

int
plugin_exit_status(enum leaserun_result result)
{
	switch (result) {
	case LEASERUN_OK:
	case LEASERUN_DONE:
		return EXIT_OK;
	case LEASERUN_HELD:
		return EXIT_HELD;
	case LEASERUN_LOST:
		return EXIT_LOST;
	case LEASERUN_DENIED:
		return EXIT_DENIED;
	case LEASERUN_MISCONFIGURED:
		return EXIT_CONFIG;
	case LEASERUN_INTERRUPTED:
	case LEASERUN_UNAVAILABLE:
		break;
	}
	return EXIT_UNAVAILABLE;
}
