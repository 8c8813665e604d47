/*
 * transfer.h - timers as lines of NDJSON, for import and export.
 *
 * Errors     As stated.
 * Threads    Any.
 */
#ifndef TICKWHEEL_CLI_TRANSFER_H
#define TICKWHEEL_CLI_TRANSFER_H

#include "cli/cli.h"

/* Appends the request that creates a timer like this one, which is as the API shows it: its next
 * time, or its schedule, and the fields that a client sets. Payloads keep their bytes. False, with
 * nothing appended, when it is no live timer. */
bool transfer_append_create(struct bytes timer, struct buffer *out);

/* Creates a timer for each line of NDJSON, and prints the counts; empty lines only count. */
enum cli_exit transfer_create(struct cli *cli, struct bytes lines);

#endif
