/*
 * The process that writes the files of --events and --metrics.
 */
#ifndef WRITER_H
#define WRITER_H

#include <sys/types.h>

#include "report.h"

enum writer_word {
	WRITER_SILENT,		/* never sent */
	WRITER_GONE,		/* never sent */
	WRITER_READY,
	WRITER_REFUSES,		/* before READY; text is why */
	WRITER_WARNS
};

struct writer_reply {
	enum writer_word word;
	char		 text[768];
};

/*
 * Looks at the files, says READY or REFUSES, and writes one report_event after
 * the other until the other end is closed.
 */
void	writer_run(int socket, const struct report_run *, pid_t keeper)
	    __attribute__((noreturn));

#endif
