/*
 * check.h - `tickwheeld --check FOLDER`: verifies a data folder and prints the findings.
 */
#ifndef TICKWHEEL_BIN_CHECK_H
#define TICKWHEEL_BIN_CHECK_H

/* Prints the report and returns the exit code: 0 valid, 1 damaged, 2 not readable. */
int check_data(const char *folder);

#endif
