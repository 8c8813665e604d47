/*
 * prepare.h - makes of batches the row operations that they are (rowop.h): rows, pointers, names,
 * counts and the metadata of their partition. No I/O.
 *
 * Errors     Out of memory: nothing is counted.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_STORE_PREPARE_H
#define TICKWHEEL_STORE_PREPARE_H

#include "store/record.h"

/* Counts after the batches of a partition, from which the next batch continues. */
struct prepare_counts {
    struct wall trim;
    uint64_t pending;
    struct tenant_counts tenant_counts;
};

/* Memory for the rows of a batch, kept for the next one. All zero at first. */
struct prepare_rows {
    struct prepare_row *rows;
    size_t capacity;
};

/* Appends one body with all batches of a partition, in order, and counts them. */
bool prepare_encode(struct prepare_rows *rows, struct prepare_counts *counts,
                    struct storage_batch *const *batches, size_t count, struct buffer *to);

/* Like prepare_encode, but the counts stay as they are until the body is applied. */
bool prepare_body(struct prepare_rows *rows, struct prepare_counts *counts,
                  struct storage_batch *const *batches, size_t count, struct buffer *to);

/* Uncounts a batch that had no effect; the last one first. */
void prepare_take_back(struct prepare_counts *counts, const struct storage_batch *batch);

void prepare_rows_deinit(struct prepare_rows *rows);

/* Opens a body (rowop_open) of this partition. Returns false if it is to be checked and is damaged,
 * of another partition, or has a key, meta or count that no batch makes. */
bool prepare_open(struct bytes *body, enum storage_body kind, uint16_t partition);

#endif
