/*
 * transfer.h - timers as lines of NDJSON, for import and export.
 *
 * Errors     As stated.
 * Threads    Any.
 */
#ifndef TICKWHEEL_CLI_TRANSFER_H
#define TICKWHEEL_CLI_TRANSFER_H

#include "cli/cli.h"

/* Creates a timer for each line of NDJSON, and prints the counts; empty lines only count. */
enum cli_exit transfer_create(struct cli *cli, struct bytes lines);

#endif
