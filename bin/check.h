/*
 * check.h - `tickwheeld --check FOLDER`: what rocksdb_check finds, for people and scripts.
 */
#ifndef TICKWHEEL_BIN_CHECK_H
#define TICKWHEEL_BIN_CHECK_H

/* Prints the report and returns the exit code: 0 fine, 1 damage, 2 it cannot be opened. */
int check_data(const char *folder);

#endif
