/*
 * batch_chunk.h - some consecutive lines of a batch: their creates, their failures, their answers.
 *
 * Ownership  A chunk owns the timers that were added to it until their part is submitted.
 * Threads    The batch's; between node_submit and `done` only the node touches a part's `node`, and
 *            its share of `timers` and `results`.
 */
#ifndef TICKWHEEL_API_TIMERS_BATCH_CHUNK_H
#define TICKWHEEL_API_TIMERS_BATCH_CHUNK_H

#include "api/timers/timers.h"

/* What became of one line: a timer of the command, or a problem found while reading it. */
struct batch_line {
    uint64_t number;         /* 1-based, in the body */
    uint32_t problem_offset; /* where its text ends in `problems`; is_timer: not valid */
    bool is_timer;
};

/* The timers of a chunk that go to one partition, in order. */
struct batch_part {
    struct node_request node;
    struct batch_chunk *chunk;
    enum error_code refused; /* by the node: the answer for all its timers */
};

struct batch_chunk {
    struct list link;
    struct batch *batch;
    struct batch_part *parts; /* once prepared */
    size_t part_count, part_capacity;
    size_t parts_sent; /* submitted, or refused */
    size_t missing;    /* of these, without an answer; guarded by the batch's lock */
    size_t line_count, timer_count, footprint;
    bool is_prepared;
    struct buffer problems; /* the texts of the lines that failed at once, in order */
    struct batch_line lines[BATCH_CHUNK_LINES_MAX];
    struct timer *timers[BATCH_CHUNK_LINES_MAX]; /* in order of lines; once prepared, of parts */
    uint16_t partitions[BATCH_CHUNK_LINES_MAX];  /* of the timers, in order of lines */
    uint16_t places[BATCH_CHUNK_LINES_MAX];      /* where the timer of a line is now */
    struct command_created results[BATCH_CHUNK_LINES_MAX]; /* beside the timers */
};

/* How results are written. */
enum batch_style {
    BATCH_FULL,    /* a line for each line */
    BATCH_MINIMAL, /* only the failed ones */
};

struct batch_totals {
    uint64_t created, existed, failed;
};

/* NULL when out of memory. */
struct batch_chunk *batch_chunk_create(struct batch *batch);

/* Empties it for use again; the timers are not its own any more. */
void batch_chunk_clear(struct batch_chunk *chunk);

/* Frees the timers too that it still owns. */
void batch_chunk_destroy(struct batch_chunk *chunk);

/* Time to send it. There is still room for one line, which may be the last of the body. */
static inline bool batch_chunk_is_full(const struct batch_chunk *chunk)
{
    return chunk->line_count >= BATCH_CHUNK_LINES_MAX - 1 ||
           chunk->footprint >= BATCH_CHUNK_BYTES_MAX;
}

/* Whether every part has its answer. Under the batch's lock. */
static inline bool batch_chunk_is_answered(const struct batch_chunk *chunk)
{
    return chunk->is_prepared && chunk->parts_sent == chunk->part_count && chunk->missing == 0;
}

/* Adds the next line; there must be room. Takes the timer. */
void batch_chunk_add_timer(struct batch_chunk *chunk, uint64_t number, struct timer *timer);
void batch_chunk_add_problem(struct batch_chunk *chunk, uint64_t number,
                             const struct problem *problem);

/* Divides the timers into parts, at least one for each partition that some of them belong to, none
 * with more than `part_max` timers; those without a name go together to the next partition. Fails
 * them all when out of memory. */
void batch_chunk_prepare(struct batch_chunk *chunk, struct node *node, unsigned shard,
                         size_t part_max);

/* The next part that is to be submitted; NULL when all were. */
struct batch_part *batch_chunk_next_part(struct batch_chunk *chunk);

/* It was submitted. Under the batch's lock. */
void batch_chunk_sent(struct batch_chunk *chunk);

/* It was not: frees its timers, which all fail by `error`. */
void batch_chunk_refused(struct batch_chunk *chunk, enum error_code error);

/* Writes what became of the lines, in order; `full` is the problem of a line with TOO_MANY. */
void batch_chunk_format(const struct batch_chunk *chunk, const struct problem *full,
                        enum batch_style style, struct buffer *out, struct batch_totals *totals);

/* Writes the problem as a line of its own, with the member "line". */
void batch_problem_format(const struct problem *problem, uint64_t number, struct buffer *out);

#endif
