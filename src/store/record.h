/*
 * record.h - the format of stored records, byte for byte: rows, pointers and metadata, each with
 * version and checksum.
 *
 * Numbers are little-endian in values and big-endian in keys, so that keys sort as bytes. A
 * checksum covers key and value: a record that turns up at another key is as damaged as one with a
 * flipped bit. The formats are specified in docs/storage.md; test vectors hold them in place.
 *
 * Errors     Decoding trusts nothing: whatever is not exactly what encoding writes is
 *            ERROR_CORRUPT, with the reason as text, and the result is untouched.
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_STORE_RECORD_H
#define TICKWHEEL_STORE_RECORD_H

#include "timer/name.h"
#include "store/storage.h"

/* Version of all records; metas with all fields have the second one. */
#define RECORD_VERSION      1
#define RECORD_META_VERSION 2

/* Version of a folder, which rises with each of the versions above. */
#define RECORD_FORMAT 9

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

/* ---- the holds of a node, whose bytes mean nothing here ---- */

/* Appends the record of the holds. `key` is its key, which its checksum includes. */
void record_holds_encode(struct buffer *to, struct bytes key, struct bytes holds);

/* Reads the record of the holds. The result borrows from `value`. */
enum error_code record_holds_decode(struct bytes key, struct bytes value, struct bytes *ret_holds,
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
