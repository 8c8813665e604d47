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

/* Result of a line: a timer of the command, or a problem found while reading it. */
struct batch_line {
    uint64_t number;         /* from 1, in the body */
    uint32_t problem_offset; /* end of its text in `problems`; invalid if is_timer */
    bool is_timer;
};

/* Timers of a chunk for one partition, in order. */
struct batch_part {
    struct node_request node;
    struct batch_chunk *chunk;
    enum error_code refused; /* error of the node for all its timers */
};

struct batch_chunk {
    struct list link;
    struct batch *batch;
    struct batch_part *parts; /* once prepared */
    size_t part_count, part_capacity;
    size_t parts_sent; /* submitted or refused parts */
    size_t missing;    /* unanswered parts among them; guarded by the batch's lock */
    size_t line_count, timer_count, footprint;
    bool is_prepared;
    struct buffer problems; /* texts of the lines that failed at once, in order */
    struct batch_line lines[BATCH_CHUNK_LINES_MAX];
    struct timer *timers[BATCH_CHUNK_LINES_MAX]; /* in order of lines; once prepared, by parts */
    uint16_t partitions[BATCH_CHUNK_LINES_MAX];  /* of the timers, in order of lines */
    uint16_t places[BATCH_CHUNK_LINES_MAX];      /* present index of the timer of a line */
    struct command_created results[BATCH_CHUNK_LINES_MAX]; /* one for each timer */
};

/* How results are written. */
enum batch_style {
    BATCH_FULL,    /* a line for each line */
    BATCH_MINIMAL, /* only failed lines */
};

struct batch_totals {
    uint64_t created, existed, failed;
};

/* Returns NULL if out of memory. */
struct batch_chunk *batch_chunk_create(struct batch *batch);

/* Empties the chunk for reuse; it no longer owns the timers. */
void batch_chunk_clear(struct batch_chunk *chunk);

/* Frees the chunk with the timers that it owns. */
void batch_chunk_destroy(struct batch_chunk *chunk);

/* True if it should be sent. There is still room for one line, which may be the last of the
 * body. */
static inline bool batch_chunk_is_full(const struct batch_chunk *chunk)
{
    return chunk->line_count >= BATCH_CHUNK_LINES_MAX - 1 ||
           chunk->footprint >= BATCH_CHUNK_BYTES_MAX;
}

/* True if every part is answered. The caller holds the batch's lock. */
static inline bool batch_chunk_is_answered(const struct batch_chunk *chunk)
{
    return chunk->is_prepared && chunk->parts_sent == chunk->part_count && chunk->missing == 0;
}

/* Adds the next line, for which there is room. Takes the timer. */
void batch_chunk_add_timer(struct batch_chunk *chunk, uint64_t number, struct timer *timer);
void batch_chunk_add_problem(struct batch_chunk *chunk, uint64_t number,
                             const struct problem *problem);

/* Divides the timers into parts for each partition, of at most `part_max` timers; those without
 * a name go together to the next partition. Fails them all if out of memory. */
void batch_chunk_prepare(struct batch_chunk *chunk, struct node *node, unsigned shard,
                         size_t part_max);

/* Returns the next part to submit; NULL if there is none. */
struct batch_part *batch_chunk_next_part(struct batch_chunk *chunk);

/* Notes that it was submitted. The caller holds the batch's lock. */
void batch_chunk_sent(struct batch_chunk *chunk);

/* Notes that it was refused: frees its timers, which all fail with `error`. */
void batch_chunk_refused(struct batch_chunk *chunk, enum error_code error);

/* Writes the results of the lines, in order; `full` is the problem of a line with TOO_MANY. */
void batch_chunk_format(const struct batch_chunk *chunk, const struct problem *full,
                        enum batch_style style, struct buffer *out, struct batch_totals *totals);

/* Writes the problem as a line, with the member "line". */
void batch_problem_format(const struct problem *problem, uint64_t number, struct buffer *out);

#endif
