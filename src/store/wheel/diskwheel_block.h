/*
 * diskwheel_block.h - the blocks of a run: records of one table in order of their keys.
 *
 * Block      head of 16 bytes: size of the records 4; size of what is stored 4; number of records
 *            2; table 1 (0 TIMERS, 1 MOVED, 2 NAMES); 1 byte that is 1 if the records are one block
 *            of LZ4's block format, and 0 if they are stored as they are; checksum 4 of the run's
 *            id (8), the block's position in the file (8), the 12 bytes before and what is
 *            stored. Then what is stored
 * Record     upper half of its key, as the difference to the record before; its lower half, as the
 *            difference if the upper ones are equal; size of its value; value. The first record of
 *            a block has its key as it is. The numbers are groups of seven bits, the lowest first;
 *            all bytes but the last have the highest bit (varint.h)
 * Key        numbers of 8 bytes. TIMERS: partition * 2^48 + position, serial. MOVED: partition,
 *            serial. NAMES: hash, 2^64 - 1 - serial
 * Value      as record.h has it
 *
 * Sizes are in bytes, numbers little-endian, checksums CRC-32C. A block that turns up at another
 * place, or from another run, is damaged. In one with a single flipped bit, wherever it is, a
 * reader turns the bit back; the file stays as it is until its run is written anew.
 *
 * Errors     ERROR_CORRUPT: the bytes are not what an encoder makes.
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_STORE_WHEEL_DISKWHEEL_BLOCK_H
#define TICKWHEEL_STORE_WHEEL_DISKWHEEL_BLOCK_H

#include "store/wheel/diskwheel_layer.h"

enum {
    DISKWHEEL_BLOCK_HEAD = 16,
    DISKWHEEL_BLOCK_SIZE = 4 * 1024,        /* a block ends with the record that reaches it */
    DISKWHEEL_BLOCK_MAX = 64 * 1024 * 1024, /* of a block with one large record */
    DISKWHEEL_BLOCK_RECORDS_MAX = 4096,
};

/* Where a block is: it is a part of the checksum. */
struct diskwheel_block_place {
    uint64_t run_id, offset;
};

/* Collects the records of a block. All zero at first. */
struct diskwheel_block_builder {
    struct buffer raw;
    struct record_key first, last;
    unsigned count;
};

void diskwheel_block_add(struct diskwheel_block_builder *builder, struct record_key key,
                         struct bytes value);

static inline bool diskwheel_block_is_full(const struct diskwheel_block_builder *builder)
{
    return builder->raw.size >= DISKWHEEL_BLOCK_SIZE ||
           builder->count == DISKWHEEL_BLOCK_RECORDS_MAX;
}

/* Appends the block, and empties the builder. Returns the size of what it appended; 0 if out of
 * memory. */
size_t diskwheel_block_end(struct diskwheel_block_builder *builder, enum diskwheel_table table,
                           struct diskwheel_block_place place, struct buffer *to);

/* Walks the records of a block. */
struct diskwheel_block {
    struct bytes rest;
    struct record_key key; /* of the last record */
    unsigned left;         /* records that follow */
    bool is_begun;
    bool is_turned; /* a flipped bit was turned back */
};

/* Checks a stored block, and puts its records into `raw`, to which the walk refers. If the checksum
 * is wrong, and one flipped bit explains it, the bit is turned back in `stored`; then the records
 * must be right by their own checksums, too. What is on the disk stays as it is. */
enum error_code diskwheel_block_open(char *stored, size_t size, enum diskwheel_table table,
                                     struct diskwheel_block_place place, struct buffer *raw,
                                     struct diskwheel_block *ret_block);

/* True if the value is right by its own checksum and form. */
bool diskwheel_block_is_record(enum diskwheel_table table, struct record_key key,
                               struct bytes value);

/* Returns ERROR_NOT_FOUND at the end. */
enum error_code diskwheel_block_next(struct diskwheel_block *block, struct record_key *ret_key,
                                     struct bytes *ret_value);

#endif
