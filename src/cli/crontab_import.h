/*
 * crontab_import.h - the entries of a crontab as timers to import.
 *
 * Errors     An exit code, complained about.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_CRONTAB_IMPORT_H
#define TICKWHEEL_CLI_CRONTAB_IMPORT_H

#include "cli/cli.h"

/* Reads the crontab that the second argument of the verb names. Shows its timers, and appends each
 * as a line of NDJSON. A line of the crontab that makes no timer becomes an empty line. */
enum cli_exit crontab_import(struct cli *cli, struct buffer *lines);

#endif
