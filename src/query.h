/*
 * The commands that ask a store or change it without running anything:
 * status, check, revoke, init, doctor.  argv[0] is the command's name; the
 * exit status is returned.
 */
#ifndef QUERY_H
#define QUERY_H

int	cmd_status(int argc, char *argv[]);
int	cmd_check(int argc, char *argv[]);
int	cmd_revoke(int argc, char *argv[]);
int	cmd_init(int argc, char *argv[]);
int	cmd_doctor(int argc, char *argv[]);

#endif
