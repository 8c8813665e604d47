/*
 * clock_mark.h - the file CLOCK, which marks a data folder as one of a virtual clock and keeps its
 * time: `virtual 2027-01-01T00:00:00.000Z`.
 *
 * Timers of a real clock must not fire because a test moves time, and those of a test must not fire
 * when a real clock reaches them. So a folder has one kind of clock for ever.
 *
 * Errors     ERROR_INVALID with the setting to change; ERROR_CORRUPT if the file is damaged;
 *            ERROR_IO.
 * Threads    One at a time.
 */
#ifndef TICKWHEEL_NODE_CLOCK_MARK_H
#define TICKWHEEL_NODE_CLOCK_MARK_H

#include "base/error.h"
#include "base/time.h"

#include <stdbool.h>

/* What the setting `clock` says. */
struct clock_choice {
    bool is_virtual;
    struct wall at; /* time of a new folder; 0 if the setting has none */
};

/* Reads `real`, `virtual` or `virtual=TIME`. */
enum error_code clock_choice_parse(const char *text, struct clock_choice *ret_choice,
                                   struct error *ret_error);

/* Decides which time a daemon starts with on this folder. A virtual clock continues where it stood;
 * in a new folder, which is made, it starts at the time of the setting, by default `now`. Returns 0
 * for a real clock. Refuses the folder of another kind of clock. */
enum error_code clock_mark_begin(const char *folder, const struct clock_choice *choice,
                                 struct wall now, struct wall *ret_at, struct error *ret_error);

/* Stores the virtual time, durable. */
enum error_code clock_mark_write(const char *folder, struct wall at, struct error *ret_error);

#endif
