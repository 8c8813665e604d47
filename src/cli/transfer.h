/*
 * transfer.h - timers as lines of NDJSON, for import and export.
 *
 * Errors     As stated.
 * Threads    Any.
 */
#ifndef TICKWHEEL_CLI_TRANSFER_H
#define TICKWHEEL_CLI_TRANSFER_H

#include "cli/cli.h"

/* What lines do not say of their timers: how many they are. */
struct transfer_losses {
    uint64_t paused;
    uint64_t spread; /* no window gives the part that the timer has */
};

/* Appends the request that creates a timer like this one, which is as the API shows it: its next
 * time, or its schedule, and the fields that a client sets. Payloads keep their bytes. Adds what
 * the request cannot say to `losses`. False, with nothing appended, when it is no live timer. */
bool transfer_append_create(struct bytes timer, struct buffer *out, struct transfer_losses *losses);

/* Creates a timer for each line of NDJSON, and prints the counts; empty lines only count. */
enum cli_exit transfer_create(struct cli *cli, struct bytes lines);

#endif
