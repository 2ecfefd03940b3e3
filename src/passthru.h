/*
 * Runs one command in our place: it gets our signals, and we stop, exit and die
 * as it does.  Once a process.
 */
#ifndef PASSTHRU_H
#define PASSTHRU_H

/*
 * From now on a signal that tells us to stop ends the process with 128 + N,
 * whatever it is doing, until passthru_run() starts the command.
 */
void	passthru_init(void);

/*
 * Starts the command, which inherits fd on a high number, and waits for it to
 * end.  Returns a wait status for leave().  SIGKILL to us kills the command.
 */
int	passthru_run(char *const argv[], int fd);

#endif
