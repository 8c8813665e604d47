/*
 * watch.h - waits until something has happened to timers, by the events of the daemon.
 *
 * Whatever the stream brings is a change, and so is its end: the caller lists anew, so that nothing
 * that happened meanwhile is missed. Without a stream each wait is over at once, and the caller
 * polls at its interval.
 *
 * Errors     CLI_EXIT_FAILED, complained about.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_WATCH_H
#define TICKWHEEL_CLI_WATCH_H

#include "cli/client.h"

struct watch {
    struct cli *cli;
    struct cli_calls *calls;
    struct cli_call *call;
    struct cli_answer answer;
    bool is_open, has_changed;
};

/* Opens the stream, and waits up to `ms` until it has begun. cli_catch_signals must have been
 * called. */
enum cli_exit watch_open(struct watch *watch, struct cli *cli, uint64_t ms);
void watch_close(struct watch *watch);

/* Waits at least `pause_ms`, and then for a change. Returns false if a signal asks to stop. */
bool watch_wait(struct watch *watch, uint64_t pause_ms);

#endif
