/*
 * tableblock.h - a block of a table of RocksDB: its checksum, its compression, and its entries.
 *
 * A block is stored with 5 bytes behind it: compression 1, checksum 4 (XXH3). Its entries are each:
 * how many bytes of the key are those of the entry before, how many follow, the size of the value
 * (numbers in groups of seven bits), the rest of the key, and the value. Behind the entries stand
 * the offsets of those with whole keys, and their count.
 *
 * Errors     No bytes make a function read beyond them; false: they are no such block.
 * Threads    No state but the structs: any.
 */
#ifndef TICKWHEEL_STORE_TABLEBLOCK_H
#define TICKWHEEL_STORE_TABLEBLOCK_H

#include "base/bytes.h"

#define TABLEBLOCK_TRAILER  5
#define TABLEBLOCK_KEY_SIZE 128 /* longest key that is read */

/* True if the checksum after the `size` bytes is right; the trailer must be there. */
bool tableblock_is_whole(const char *block, size_t size);

/* Returns the size of the block at the begin of `bytes`; 0 if no size gives a right checksum. */
size_t tableblock_find_end(struct bytes bytes);

/* Corrects one flipped bit of the block or its trailer, so that the checksum is right. */
bool tableblock_turn_bit(char *block, size_t size);

/* Writes the trailer of an uncompressed block. */
void tableblock_seal(char *block, size_t size);

/* The same for a block that fills the buffer. */
void tableblock_append_trailer(struct buffer *block);

/* Returns the uncompressed content; it is in `room` if it was compressed. */
bool tableblock_open(struct bytes block_and_trailer, struct buffer *room,
                     struct bytes *ret_content);

/* ---- entries ---- */

struct tableblock_walk {
    struct bytes rest;   /* entries not read yet */
    const char *content; /* content of the block */
    char key[TABLEBLOCK_KEY_SIZE];
    size_t key_size;
    struct bytes value;
};

bool tableblock_begin(struct bytes content, struct tableblock_walk *ret_walk);

/* Returns false at the end, and for an invalid entry, which stays in `rest`. */
bool tableblock_next(struct tableblock_walk *walk);

#endif
