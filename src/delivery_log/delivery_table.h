/*
 * delivery_table.h - the newest entry of a segment for each hash: open addressing, at most 3/4
 * full. It is in memory while the segment is written, and then at the segment's end.
 *
 * Errors     put fails only for want of memory.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_DELIVERY_LOG_DELIVERY_TABLE_H
#define TICKWHEEL_DELIVERY_LOG_DELIVERY_TABLE_H

#include "base/bytes.h"

#define DELIVERY_SLOT_SIZE 8 /* size of an encoded slot: hash 4, offset 4 */

struct delivery_slot {
    uint32_t hash;   /* 0 if the slot is empty */
    uint32_t offset; /* offset of the newest entry with this hash */
};

struct delivery_table {
    struct delivery_slot *slots;
    uint32_t capacity; /* number of slots: a power of 2, or 0 */
    uint32_t count;    /* number of used slots */
};

void delivery_table_deinit(struct delivery_table *table);

/* Reserves room for `more` new hashes. Returns false if out of memory; nothing changed. */
bool delivery_table_reserve(struct delivery_table *table, uint32_t more);

/* Sets the offset of a hash, which is not 0, and returns its previous offset; 0 if there was none.
 * The caller has reserved room (delivery_table_reserve). */
uint32_t delivery_table_put(struct delivery_table *table, uint32_t hash, uint32_t offset);

/* Returns the offset of the newest entry with the hash; 0 if no entry has it. */
uint32_t delivery_table_get(const struct delivery_table *table, uint32_t hash);

void delivery_table_encode(const struct delivery_table *table, struct buffer *to);

/* Returns the offset of the hash in encoded slots; 0 if the hash is unknown. The slots may be any
 * bytes. */
uint32_t delivery_table_find(struct bytes slots, uint32_t hash);

#endif
