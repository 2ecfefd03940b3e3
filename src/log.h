/*
 * Messages for people: one sink, four levels.  A message that cannot be
 * written at once is dropped and counted, so that logging never delays a
 * heartbeat or a kill; the flags of a description that the job shares are
 * never touched.  Not for the guard.
 */
#ifndef LOG_H
#define LOG_H

#include <stdint.h>

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG
};

/*
 * target: "stderr" or "syslog", which is standard error while there is no
 * daemon.  0, or -1: not a target.
 */
int	log_open(const char *target, enum log_level);

enum log_level log_level(void);

/*
 * For the journal's fields; none of the text is copied.  An event is that of
 * the next message, a token other than 0 is kept.
 */
void	log_about(const char *name, const char *owner, const char *run_id);
void	log_event(const char *event, uint64_t token);

/* Control characters in the text come out escaped. */
void	log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void	log_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void	log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void	log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * For what was asked for on the command line and is printed at any level but
 * quiet (progress of a wait on a terminal).
 */
void	log_notice(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
