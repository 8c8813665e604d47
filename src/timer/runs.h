/*
 * runs.h - the last firings of a timer that repeats, as a text that its record carries.
 *
 *     char room[RUNS_BYTES_MAX];
 *     texts.runs = runs_add(timer->texts.runs, &run, room);
 *     for (struct bytes rest = texts.runs; runs_next(&rest, &run);) ...
 *
 * The newest comes first, and at most RUNS_MAX are kept. A run is written when its firing is over:
 * with success, without another attempt, or dropped. Firings that were planned and never attempted,
 * because a later one took their place, are one run with their number.
 *
 * Errors     Texts from the disk are checked by runs_is_valid; all other functions want valid ones.
 * Ownership  The error of a run that was read lies within the text.
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_TIMER_RUNS_H
#define TICKWHEEL_TIMER_RUNS_H

#include "base/bytes.h"
#include "base/time.h"

#define RUNS_MAX       20
#define RUNS_ERROR_MAX 100 /* maximum size of an error in bytes; a longer one is cut */

/* X(name, text): the order is part of the format. */
#define RUN_OUTCOME_LIST(X)                                                             \
    X(DONE, "done")       /* the target accepted it */                                  \
    X(FAILED, "failed")   /* out of attempts */                                         \
    X(ENDED, "ended")     /* the target refused for good */                             \
    X(DROPPED, "dropped") /* later than `drop_after` */                                 \
    X(SKIPPED, "skipped") /* never attempted: a later firing was, or the timer ended */ \
    X(BEGUN, "begun")     /* handed to a timer of its own (timer/firing.h) */

enum run_outcome {
#define X(name, text) RUN_##name,
    RUN_OUTCOME_LIST(X)
#undef X
        RUN_OUTCOME_COUNT
};

const char *run_outcome_text(enum run_outcome outcome);

struct run {
    struct wall planned;  /* due time of the firing */
    struct wall started;  /* start of the last attempt; 0 if none was made, or it is unknown */
    uint32_t duration_ms; /* duration of the last attempt until its outcome */
    uint16_t status;      /* HTTP status of the last attempt; 0 if it has none */
    uint8_t attempts;     /* number of attempts spent */
    enum run_outcome outcome;
    struct bytes error; /* cause of the failure; empty with DONE. BEGUN: id of the timer */
    /* SKIPPED: due time of the last skipped firing; `planned` is that of the first */
    struct wall until;
    uint32_t count; /* SKIPPED: number of skipped firings */
};

/* Size of a row: planned 6, started 6, duration 4, status 2, attempts 1, outcome 1, size of the
 * error 1. SKIPPED has `until` instead of `started`, and `count` instead of the duration. */
#define RUNS_ROW_SIZE  21
#define RUNS_BYTES_MAX (RUNS_MAX * (RUNS_ROW_SIZE + RUNS_ERROR_MAX))

/* Returns the runs with `run` in front; at RUNS_MAX the oldest is dropped. A skipped run is merged
 * with a skipped one that is in front. The result is written to `room`. */
struct bytes runs_add(struct bytes runs, const struct run *run, char room[RUNS_BYTES_MAX]);

/* Removes and returns the first run. False if there is none. */
bool runs_next(struct bytes *runs, struct run *ret_run);

/* Appends the run as members of the open JSON object. */
void run_put(const struct run *run, struct buffer *out);

/* X(name, text): how the last firing ended, as shown to people. Skipped firings count only if there
 * is no other, and BEGUN ones do not count. */
#define RUNS_LAST_LIST(X)                                                    \
    X(NEVER, "never") /* none has ended yet */                               \
    X(OK, "ok")                                                              \
    X(FAILED, "failed")   /* FAILED or ENDED, or DROPPED after an attempt */ \
    X(SKIPPED, "skipped") /* SKIPPED, or DROPPED without an attempt */

enum runs_last {
#define X(name, text) RUNS_LAST_##name,
    RUNS_LAST_LIST(X)
#undef X
        RUNS_LAST_COUNT
};

const char *runs_last_text(enum runs_last last);

struct runs_summary {
    enum runs_last last;
    unsigned failures; /* failed firings since the last success, among those kept */
    unsigned skipped;  /* skipped firings since the last attempt, among those kept */
};

struct runs_summary runs_summarize(struct bytes runs);

/* True if the text could have been written by runs_add. */
bool runs_is_valid(struct bytes runs);

#endif
