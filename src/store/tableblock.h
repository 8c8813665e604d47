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
#define TABLEBLOCK_KEY_SIZE 128 /* the longest key that is read */

/* Whether the checksum behind the `size` bytes fits; the trailer must be there. */
bool tableblock_is_whole(const char *block, size_t size);

/* How long the block is that begins with `bytes`; 0: none of them ends where a checksum fits. */
size_t tableblock_find_end(struct bytes bytes);

/* Makes the checksum fit when one bit of the block or its trailer was flipped. */
bool tableblock_turn_bit(char *block, size_t size);

/* Writes the trailer behind a block without compression. */
void tableblock_seal(char *block, size_t size);

/* Likewise, of the block that is all of the buffer. */
void tableblock_append_trailer(struct buffer *block);

/* The content, uncompressed; it is in `room` if it was compressed. */
bool tableblock_open(struct bytes block_and_trailer, struct buffer *room,
                     struct bytes *ret_content);

/* ---- entries ---- */

struct tableblock_walk {
    struct bytes rest;   /* the entries to come */
    const char *content; /* of the block */
    char key[TABLEBLOCK_KEY_SIZE];
    size_t key_size;
    struct bytes value;
};

bool tableblock_begin(struct bytes content, struct tableblock_walk *ret_walk);

/* False at the end, and when an entry is none: then something is left in `rest`. */
bool tableblock_next(struct tableblock_walk *walk);

#endif
