/*
 * `leaserun fence': the resource remembers the highest token.
 */
#ifndef FENCE_H
#define FENCE_H

int	cmd_fence(int argc, char *argv[]);

#endif
