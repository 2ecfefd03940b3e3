/*
 * Makes the text of a configuration file fit for libconfuse.
 */
#ifndef CONFSCAN_H
#define CONFSCAN_H

#define CONFSCAN_WHY_SIZE	80

/*
 * Blanks the comments in text.  0, or the number of the first line that
 * libconfuse would take for something else than it says, and why.
 */
int	confscan(char *text, char why[CONFSCAN_WHY_SIZE]);

#endif
