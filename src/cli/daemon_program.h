/*
 * daemon_program.h - the program of the daemon, for the verbs that run it on this machine.
 *
 *     char path[PATH_MAX];
 *     daemon_program_find(path, sizeof(path));
 *
 * Errors     None here: a program that is not there fails to start.
 * Threads    Any.
 */
#ifndef TICKWHEEL_CLI_DAEMON_PROGRAM_H
#define TICKWHEEL_CLI_DAEMON_PROGRAM_H

#include <stddef.h>

/* Finds the daemon in the folder of this program; otherwise in PATH. */
void daemon_program_find(char *path, size_t size);

#endif
