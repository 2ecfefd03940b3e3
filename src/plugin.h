/*
 * From a URL to an open backend.  Loads modules: then it is only ever called in
 * the keeper after the guard was forked, and by the query commands.
 */
#ifndef PLUGIN_H
#define PLUGIN_H

#include <stdbool.h>

#include "../backends/leaserun-backend.h"

struct plugin {
	const struct leaserun_backend *ops;
	struct leaserun_backend adopted;	/* where ops is of a module */
	void		*self;
	unsigned int	 endpoints;
	char		 error[LEASERUN_ERROR_SIZE];	/* of the last call */
	struct leaserun_host host;
};

/*
 * host services wait and holder, and host->keeper, are set by the caller before
 * this; the others are filled in.  Anything but OK: plugin->error says why and
 * nothing is left open.  *module_dir NULL: the built-in one.
 */
enum leaserun_result plugin_open(struct plugin *,
	    const struct leaserun_target *, const char *module_dir);
void	 plugin_close(struct plugin *);

/* Whether the backend needs no module, nor any library. */
bool	 plugin_is_built_in(const char *url);

/* file_refuses(), of a backend that is built in and open. */
enum leaserun_result plugin_refuses(const struct plugin *,
	    const struct leaserun_request *);

/*
 * Copies what a module has of the functions that we know; the others are NULL.
 * -1: it cannot be used, and error goes on after its name.
 */
int	 plugin_adopt(struct leaserun_backend *,
	    const struct leaserun_backend *of, char error[LEASERUN_ERROR_SIZE]);

/* The exit status for a result that ends a command. */
int	 plugin_exit_status(enum leaserun_result);

#endif
