/*
 * powerloss.h - the paths and descriptors that powerloss.c follows, for refused.c.
 */
#ifndef TICKWHEEL_CRASH_POWERLOSS_H
#define TICKWHEEL_CRASH_POWERLOSS_H

#include <stdbool.h>

/* Whether it lies in the folder that is looked after. */
bool powerloss_has_path(const char *path);
bool powerloss_has_fd(int fd);

/* Ends the process: it took a way to the disk that is not followed. */
void powerloss_refuse(const char *call, const char *path);

#endif
