/*
 * `leaserun run': from the command line to keeper and guard.
 */
#ifndef RUN_H
#define RUN_H

/* argv[0] is "run".  Returns the exit status, or dies of the job's signal. */
int	cmd_run(int argc, char *argv[]);

#endif
