/*
 * record.h - the format of stored records, byte for byte: rows, pointers and metadata, each with
 * version and checksum.
 *
 * Numbers are little-endian in values and big-endian in keys, so that keys sort as bytes. Test
 * vectors hold the formats in place. Sizes are in bytes, times in milliseconds.
 *
 * Key        row: partition 2, position 6 (since 1970), serial 8
 *            pointer: partition 2, serial 8
 *            name: hash 8, 2^64 - 1 - serial 8
 *            meta: `p`, partition 2; place: `l`, partition 2; holds: `h`, partition 2;
 *            ledger: `o`, partition 2
 *            number: `format`, `partitions` or `corrupt`; for the live timers of a tenant: `t`,
 *            partition 2, its name
 * Value      It begins with a version (1) and ends with CRC-32C (4) over 16 bytes that identify the
 *            place of the record, and the value before it. So a record that turns up at another key
 *            is as damaged as one with a flipped bit.
 * Its place  Two little-endian numbers of 8 bytes:
 *            row, touch: partition * 2^48 + position; serial
 *            pointer: partition; serial
 *            name: hash; 2^64 - 1 - serial
 *            meta: 2^64 - 1; partition
 *            number, place, holds, ledger: 2^64 - 2; CRC-32C of its name
 * Row        version 1, which is 1
 *            state 1: 0 scheduled, 1 delivering, 2 retrying, 3 fired, 4 cancelled, 5 dead, 6 paused
 *            flags 1: 1 has first, 2 has due, 4 has retry, 8 has give_up_after, 16 has failed
 *            created 8, version of the timer 4, attempts 4
 *            states 3 to 6: ended 8; in state 6 since when it is paused
 *            flag 1: position in the id 8; without it the row's position
 *            flag 2: due 8; without it the row's position
 *            flag 4: attempts 4, base 8, cap 8, time-out 8; without it 10, 1 s, 1 h, 15 s
 *            flag 8: give_up_after 8, 0 means unlimited; without it 3 d
 *            flag 16: since when the target of the present firing fails 8
 *            texts that are not empty: tag 1, size 4, bytes. TIMER_TEXT_LIST (timer.h) has the
 *            tags, which rise, each at most once. The request (9) is 16 hex digits of the request,
 *            then the Idempotency-Key
 *            A row in the states 3 to 5 is final: it has no content, but a dead letter keeps it.
 *            There is one encoding of a timer.
 * Touch 17   due 8, version of the timer 4
 * Pointer 21 position 8, ended 8 (0 while the timer lives)
 * Name 23    partition 2, first 8, ended 8. The timer's own text decides if it matches (name.h)
 * Meta 37    epoch 8, watermark 8, trim 8, pending 8; version 2 (53) also placed 8, over_to 8
 * Number 13  the number 8. Equal in every format: an older program can report a newer folder
 * Place 65   of the last applied record of the partition's log: offset after it 8, epoch 8, seq 8,
 *            incarnation 8, node 4; bytes of the log 8, of the last sweep's copies 8, offset of a
 *            sweep without end 8. Version 2 (73): the offset up to which a copy must be read
 * Holds      pauses, maintenance and definitions of a node without a cluster, in partition 0: a
 *            copy of cluster/holds.h
 *
 * Errors     Decoding trusts nothing: whatever is not exactly what encoding writes is
 *            ERROR_CORRUPT, with the reason as text, and the result is untouched.
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_STORE_RECORD_H
#define TICKWHEEL_STORE_RECORD_H

#include "timer/name.h"
#include "store/storage.h"

/* Version of all records; metas with all fields have the second one. With each of them the
 * format of a folder rises (folder.h). */
#define RECORD_VERSION      1
#define RECORD_META_VERSION 2

/* ---- keys ---- */

#define RECORD_AT_MAX       ((UINT64_C(1) << 48) - 1)
#define RECORD_ROW_SIZE     16 /* size of a row's key: partition 2, position 6, serial 8 */
#define RECORD_POINTER_SIZE 10 /* size of a pointer's key: partition 2, serial 8 */

/* A key as numbers that compare like its bytes: row (partition << 48 | position, serial),
 * pointer (partition, serial). */
struct record_key {
    uint64_t high, low;
};

/* Times after RECORD_AT_MAX count as RECORD_AT_MAX, so that a range may end at WALL_NEVER. */
static inline struct record_key record_row_key(uint16_t partition, struct storage_position position)
{
    uint64_t at = position.at.ms < RECORD_AT_MAX ? position.at.ms : RECORD_AT_MAX;

    return (struct record_key){(uint64_t)partition << 48 | at, position.serial};
}

static inline struct storage_position record_row_position(struct record_key key)
{
    return (struct storage_position){{key.high & RECORD_AT_MAX}, key.low};
}

static inline struct record_key record_pointer_key(uint16_t partition, uint64_t serial)
{
    return (struct record_key){partition, serial};
}

static inline bool record_key_before(struct record_key a, struct record_key b)
{
    return a.high < b.high || (a.high == b.high && a.low < b.low);
}

static inline bool record_key_equal(struct record_key a, struct record_key b)
{
    return a.high == b.high && a.low == b.low;
}

/* Returns the next possible key; the largest for the largest. */
static inline struct record_key record_key_after(struct record_key key)
{
    if (key.low < UINT64_MAX)
        return (struct record_key){key.high, key.low + 1};
    return key.high < UINT64_MAX ? (struct record_key){key.high + 1, 0} : key;
}

/* ---- rows ---- */

/* Appends the timer as the row at `key`; in the short final form if it has ended. */
void record_row_encode(struct buffer *to, struct record_key key, const struct timer *timer);

/* Reads the row at `key` without copying: the texts of `ret_view` point into `value`, and
 * timer_copy makes a timer. Its `at` is the position of the row; its private part is zero. */
enum error_code record_row_decode(struct record_key key, struct bytes value, struct timer *ret_view,
                                  struct error *ret_error);

/* True if `value` looks like a final record. A quick check that proves nothing. */
static inline bool record_row_is_over(struct bytes value)
{
    return value.size > 1 && timer_is_final((enum timer_state)(uint8_t)value.data[1]);
}

/* ---- touches: the new due time and version of a row, without the rest of it ---- */

/* Appends the timer's due time and version, for the row at `key`. */
void record_touch_encode(struct buffer *to, struct record_key key, const struct timer *timer);

/* Appends `row` with `touch` applied. If one of them is damaged, or there is no row, it appends
 * both and a byte: no row has that form, so readers find the damage. */
void record_touch_apply(struct buffer *to, struct record_key key, struct bytes row,
                        struct bytes touch);

/* ---- pointers: where the row of a timer is that is not at id.first ---- */

struct record_pointer {
    struct wall at;
    struct wall ended; /* 0 while the timer lives */
};

/* Returns the timer's end for its pointer; 0 while it lives. */
static inline struct wall record_ended(const struct timer *timer)
{
    return timer_is_final(timer->state) ? timer->ended : (struct wall){0};
}

void record_pointer_encode(struct buffer *to, struct record_key key, struct record_pointer pointer);
enum error_code record_pointer_decode(struct record_key key, struct bytes value,
                                      struct record_pointer *ret_pointer, struct error *ret_error);

/* ---- names: one entry for each name of each timer, see name.h ---- */

struct record_name {
    struct timer_id id;
    struct wall ended; /* 0 while the timer lives */
};

/* Returns the key of an entry. Entries of one name are adjacent, those of the newest timers
 * first. */
static inline struct record_key record_name_key(uint64_t hash, uint64_t serial)
{
    return (struct record_key){hash, UINT64_MAX - serial};
}

void record_name_encode(struct buffer *to, struct record_key key, const struct record_name *name);
enum error_code record_name_decode(struct record_key key, struct bytes value,
                                   struct record_name *ret_name, struct error *ret_error);

/* ---- metas ---- */

/* Appends the meta, in the short form of version 1 if `placed` and `over_to` are 0. */
void record_meta_encode(struct buffer *to, uint16_t partition, const struct storage_meta *meta);
enum error_code record_meta_decode(uint16_t partition, struct bytes value,
                                   struct storage_meta *ret_meta, struct error *ret_error);

/* ---- single numbers, by name; every version has this format ---- */

void record_number_encode(struct buffer *to, struct bytes name, uint64_t number);
enum error_code record_number_decode(struct bytes name, struct bytes value, uint64_t *ret_number,
                                     struct error *ret_error);

/* ---- the place: how far a partition follows its log ---- */

/* Appends the place. `key` is the record's key, which its checksum includes. */
void record_place_encode(struct buffer *to, struct bytes key, const struct storage_place *place);
enum error_code record_place_decode(struct bytes key, struct bytes value,
                                    struct storage_place *ret_place, struct error *ret_error);

/* ---- notes (storage.h), whose bytes mean nothing here ---- */

/* Appends the record of a note. `key` is its key, which its checksum includes. */
void record_note_encode(struct buffer *to, struct bytes key, struct bytes bytes);

/* Reads the record of a note. The result borrows from `value`. */
enum error_code record_note_decode(struct bytes key, struct bytes value, struct bytes *ret_bytes,
                                   struct error *ret_error);

/* ---- what a write does ---- */

enum record_pointer_change {
    RECORD_POINTER_KEEP,   /* the pointer, or its absence, is right already */
    RECORD_POINTER_PUT,    /* to `put` */
    RECORD_POINTER_DELETE, /* the timer came back to id.first */
};

/* Rows that one write of a batch changes; see storage.h. */
struct record_change {
    struct wall put; /* position at which the row is written; 0 for none */
    struct wall cut; /* position at which the row is deleted; 0 for none */
    enum record_pointer_change pointer;
};

struct record_change record_change_of(const struct storage_write *write);

/* Change of one name of a timer by a write. */
enum record_name_change {
    RECORD_NAME_PUT,    /* the entry is written */
    RECORD_NAME_DELETE, /* it goes */
};

/* Walks the changes of names by one write. All zero at first, except for the write. */
struct record_name_walk {
    const struct storage_write *write;
    struct name_walk names_;
    unsigned step_;
};

/* Returns false if there is none left. `ret_name` is for a PUT. */
bool record_name_next(struct record_name_walk *walk, enum record_name_change *ret_change,
                      struct record_key *ret_key, struct record_name *ret_name);

/* Returns by how much a write changes the number of live timers; record_pending_change: by how much
 * a batch does. It follows from the writes, so a count that is written with each batch stays right
 * whichever batches fail. */
int64_t record_live_change(const struct storage_write *write);
int64_t record_pending_change(const struct storage_batch *batch);

#endif
