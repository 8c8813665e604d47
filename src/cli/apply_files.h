/*
 * apply_files.h - reads the files of `tickwheel apply` into a plan.
 *
 * Errors     CLI_EXIT_FAILED, complained about with file and line.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_APPLY_FILES_H
#define TICKWHEEL_CLI_APPLY_FILES_H

#include "cli/apply_plan.h"

/* Reads standard input if the path is "-"; otherwise `input` stays empty. */
enum cli_exit apply_files_read_input(const char *path, struct buffer *input);

/* Reads a file, that input for "-", or the files *.yaml, *.yml and *.json of a folder and of those
 * in it. Adds the documents to the plan, and sorts them. Refuses files without a document. */
enum cli_exit apply_files_read(struct apply_plan *plan, const char *path, struct bytes input);

#endif
