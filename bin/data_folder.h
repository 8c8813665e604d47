/*
 * data_folder.h - looks at the place of the data folder before a daemon starts on it, and restores
 * a backup into it.
 */
#ifndef TICKWHEEL_BIN_DATA_FOLDER_H
#define TICKWHEEL_BIN_DATA_FOLDER_H

#include "base/error.h"

/* Refuses a folder whose restore did not end. Refuses also to begin a new database when another
 * one is in the folder above, in a folder within, or beside under a name that begins with the
 * folder's own: the timers are probably there. */
enum error_code data_folder_check(const char *folder, struct error *ret_error);

/* Runs `tickwheeld --restore BACKUP`: copies the backup into `folder`, which must be empty or
 * missing, and checks the copy. Until all of it is on disk and valid, no daemon starts on the
 * folder; another restore begins anew. Prints what it does, and returns the exit code: 0 restored,
 * 2 it cannot be read or the folder cannot be written, otherwise that of --check for the copy. */
int data_folder_restore(const char *backup, const char *folder);

#endif
