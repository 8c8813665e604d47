/* runs.c - writes and reads the last firings of a timer. */
#include "timer/runs.h"

#include "base/json_write.h"
#include "calendar/rfc3339.h"

#include <assert.h>
#include <string.h>

enum { TIME_SIZE = 6 };

#define RUNS_TIME_MAX ((UINT64_C(1) << 8 * TIME_SIZE) - 1)

const char *run_outcome_text(enum run_outcome outcome)
{
    static const char *const texts[] = {
#define X(name, text) text,
        RUN_OUTCOME_LIST(X)
#undef X
    };

    assert(outcome < RUN_OUTCOME_COUNT);
    return texts[outcome];
}

/* Returns the size to which the error is cut: before the first byte of a UTF-8 character, so that
 * the rest is valid UTF-8. */
static size_t runs_error_size(struct bytes error)
{
    size_t size = error.size;

    if (size <= RUNS_ERROR_MAX)
        return size;
    for (size = RUNS_ERROR_MAX; size > 0 && ((uint8_t)error.data[size] & 0xc0) == 0x80; size--)
        continue;
    return size;
}

static size_t runs_write_row(const struct run *run, char *to)
{
    const bool is_skipped = run->outcome == RUN_SKIPPED;
    const struct wall second = is_skipped ? run->until : run->started;
    const size_t error_size = runs_error_size(run->error);

    assert(run->outcome < RUN_OUTCOME_COUNT);
    put_le(to, run->planned.ms < RUNS_TIME_MAX ? run->planned.ms : RUNS_TIME_MAX, TIME_SIZE);
    put_le(to + 6, second.ms < RUNS_TIME_MAX ? second.ms : RUNS_TIME_MAX, TIME_SIZE);
    put_le(to + 12, is_skipped ? run->count : run->duration_ms, 4);
    put_le(to + 16, run->status, 2);
    put_le(to + 18, run->attempts, 1);
    put_le(to + 19, run->outcome, 1);
    put_le(to + 20, error_size, 1);
    if (error_size)
        memcpy(to + RUNS_ROW_SIZE, run->error.data, error_size);
    return RUNS_ROW_SIZE + error_size;
}

struct bytes runs_add(struct bytes runs, const struct run *run, char room[RUNS_BYTES_MAX])
{
    struct bytes rest = runs;
    struct run kept, joined = *run;

    if (run->outcome == RUN_SKIPPED && runs_next(&rest, &kept) && kept.outcome == RUN_SKIPPED) {
        joined.planned = kept.planned;
        joined.count = kept.count < UINT32_MAX - run->count ? kept.count + run->count : UINT32_MAX;
        runs = rest;
    }
    rest = runs;
    size_t size = runs_write_row(&joined, room);
    for (size_t i = 1; i < RUNS_MAX && runs_next(&rest, &kept); i++)
        continue;
    const size_t kept_size = runs.size - rest.size;
    assert(size + kept_size <= RUNS_BYTES_MAX);
    if (kept_size)
        memcpy(room + size, runs.data, kept_size);
    return (struct bytes){room, size + kept_size};
}

/* Reads the first row without checking its bytes. Returns false if the text ends within it. */
static bool runs_read_row(struct bytes *runs, struct run *ret_run)
{
    const char *at = runs->data;

    if (runs->size < RUNS_ROW_SIZE)
        return false;
    const size_t error_size = (uint8_t)at[20];
    if (runs->size - RUNS_ROW_SIZE < error_size)
        return false;
    *ret_run = (struct run){
        .planned = {get_le(at, TIME_SIZE)},
        .started = {get_le(at + 6, TIME_SIZE)},
        .duration_ms = (uint32_t)get_le(at + 12, 4),
        .status = (uint16_t)get_le(at + 16, 2),
        .attempts = (uint8_t)at[18],
        .outcome = (enum run_outcome)(uint8_t)at[19],
        .error = {at + RUNS_ROW_SIZE, error_size},
    };
    if (ret_run->outcome == RUN_SKIPPED) {
        ret_run->until = ret_run->started;
        ret_run->count = ret_run->duration_ms;
        ret_run->started = (struct wall){0};
        ret_run->duration_ms = 0;
    }
    *runs =
        (struct bytes){at + RUNS_ROW_SIZE + error_size, runs->size - RUNS_ROW_SIZE - error_size};
    return true;
}

bool runs_next(struct bytes *runs, struct run *ret_run)
{
    if (!runs->size)
        return false;
    const bool is_read = runs_read_row(runs, ret_run);
    assert(is_read && ret_run->outcome < RUN_OUTCOME_COUNT);
    return is_read;
}

void run_put(const struct run *run, struct buffer *out)
{
    rfc3339_put(out, "planned", run->planned);
    if (run->started.ms) {
        rfc3339_put(out, "started", run->started);
        json_put_number(out, "duration_ms", run->duration_ms);
    }
    if (run->outcome == RUN_SKIPPED) {
        rfc3339_put(out, "until", run->until);
        json_put_number(out, "count", run->count);
    }
    json_put_number(out, "attempts", run->attempts);
    json_put_text(out, "outcome", run_outcome_text(run->outcome));
    if (run->status)
        json_put_number(out, "status", run->status);
    json_put_some(out, run->outcome == RUN_BEGUN ? "timer" : "error", run->error);
}

/* Returns how a run ended. A firing that was dropped after an attempt has failed, because the
 * target was called and did not accept. */
static enum runs_last runs_last_of(const struct run *run)
{
    const bool is_skipped =
        run->outcome == RUN_SKIPPED || (run->outcome == RUN_DROPPED && run->attempts == 0);

    return run->outcome == RUN_DONE ? RUNS_LAST_OK
           : is_skipped             ? RUNS_LAST_SKIPPED
                                    : RUNS_LAST_FAILED;
}

const char *runs_last_text(enum runs_last last)
{
    static const char *const texts[] = {
#define X(name, text) text,
        RUNS_LAST_LIST(X)
#undef X
    };

    assert(last < RUNS_LAST_COUNT);
    return texts[last];
}

struct runs_summary runs_summarize(struct bytes runs)
{
    struct runs_summary summary = {.last = RUNS_LAST_NEVER};
    bool is_attempted = false;
    struct run run;

    while (runs_next(&runs, &run)) {
        const enum runs_last last = runs_last_of(&run);

        if (run.outcome == RUN_BEGUN)
            continue;
        if (summary.last == RUNS_LAST_NEVER && last != RUNS_LAST_SKIPPED)
            summary.last = last;
        if (last == RUNS_LAST_OK)
            break;
        is_attempted = is_attempted || last == RUNS_LAST_FAILED;
        summary.failures += last == RUNS_LAST_FAILED;
        if (!is_attempted)
            summary.skipped += run.outcome == RUN_SKIPPED ? run.count : 1;
    }
    if (summary.last == RUNS_LAST_NEVER && summary.skipped)
        summary.last = RUNS_LAST_SKIPPED;
    return summary;
}

bool runs_is_valid(struct bytes runs)
{
    struct run run;
    bool is_skipped = false;
    size_t count = 0;

    for (; runs.size && count < RUNS_MAX; count++) {
        if (!runs_read_row(&runs, &run) || run.outcome >= RUN_OUTCOME_COUNT ||
            run.error.size > RUNS_ERROR_MAX || (is_skipped && run.outcome == RUN_SKIPPED))
            return false;
        is_skipped = run.outcome == RUN_SKIPPED;
    }
    return !runs.size;
}
