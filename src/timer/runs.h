/*
 * runs.h - the last firings of a timer that repeats, as a text that its record carries.
 *
 *     char room[RUNS_BYTES_MAX];
 *     texts.runs = runs_add(timer->texts.runs, &run, room);
 *     for (struct bytes rest = texts.runs; runs_next(&rest, &run);) ...
 *
 * The newest comes first, and at most RUNS_MAX are kept. A run is written when its firing is over:
 * with success, without another attempt, or dropped.
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
#define RUNS_ERROR_MAX 100 /* bytes of an error; a longer one is cut */

/* X(name, text): the order is a part of the format. */
#define RUN_OUTCOME_LIST(X)                                 \
    X(DONE, "done")       /* the target took it */          \
    X(FAILED, "failed")   /* out of attempts */             \
    X(ENDED, "ended")     /* the target refused for good */ \
    X(DROPPED, "dropped") /* later than late.drop_after */

enum run_outcome {
#define X(name, text) RUN_##name,
    RUN_OUTCOME_LIST(X)
#undef X
        RUN_OUTCOME_COUNT
};

const char *run_outcome_text(enum run_outcome outcome);

struct run {
    struct wall planned;  /* the due time of the firing */
    struct wall started;  /* of the last attempt; 0: none was made, or its start is unknown */
    uint32_t duration_ms; /* of the last attempt, from its start to its outcome */
    uint16_t status;      /* of HTTP, of the last attempt; 0: none */
    uint8_t attempts;     /* that were spent */
    enum run_outcome outcome;
    struct bytes error; /* why, unless DONE */
};

/* planned 6, started 6, duration 4, status 2, attempts 1, outcome 1, size of the error 1 */
#define RUNS_ROW_SIZE  21
#define RUNS_BYTES_MAX (RUNS_MAX * (RUNS_ROW_SIZE + RUNS_ERROR_MAX))

/* The text with `run` before all others; the last of RUNS_MAX is dropped. It lies in `room`. */
struct bytes runs_add(struct bytes runs, const struct run *run, char room[RUNS_BYTES_MAX]);

/* Cuts the first run off. False when there is none left. */
bool runs_next(struct bytes *runs, struct run *ret_run);

/* Appends the run as members of the open JSON object. */
void run_put(const struct run *run, struct buffer *out);

/* Whether runs_add can have written the text. */
bool runs_is_valid(struct bytes runs);

#endif
