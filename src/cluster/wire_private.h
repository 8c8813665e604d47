/*
 * wire_private.h - what the files of wire share: numbers, texts, timers and leases of a message.
 *
 * Errors     A reader that failed gives zeros, and remembers it.
 */
#ifndef TICKWHEEL_CLUSTER_WIRE_PRIVATE_H
#define TICKWHEEL_CLUSTER_WIRE_PRIVATE_H

#include "cluster/wire.h"

/* Parts of a command besides its kind, partition and tenant, in this order. */
enum wire_part {
    WIRE_PART_ID = 1 << 0,
    WIRE_PART_NAME = 1 << 1,
    WIRE_PART_NOT_BEFORE = 1 << 2,
    WIRE_PART_VERSION = 1 << 3,
    WIRE_PART_PENDING = 1 << 4,
    WIRE_PART_EACH = 1 << 5, /* with labels and events */
    WIRE_PART_PATCH = 1 << 6,
    WIRE_PART_SCAN = 1 << 7,
    WIRE_PART_FORECAST = 1 << 8,
    WIRE_PART_SURVEY = 1 << 9,
    WIRE_PART_TIMERS = 1 << 10,
    WIRE_PART_WORK = 1 << 11,
    WIRE_PART_ANSWER = 1 << 12,
    WIRE_PART_LEDGER = 1 << 13,
};

void wire_put_text(struct buffer *to, struct bytes text);
void wire_put_timer(struct buffer *to, const struct timer *timer);

uint64_t wire_take(struct wire_reader *reader, size_t width);
uint64_t wire_take_below(struct wire_reader *reader, size_t width, uint64_t limit);
struct bytes wire_take_text(struct wire_reader *reader, size_t size_max);
struct timer *wire_take_timer(struct wire_reader *reader);

/* Allocates `count` zeroed elements, within what one message may request. NULL for none. */
void *wire_take_room(struct wire_reader *reader, size_t count, size_t size);

/* ---- layouts, each of which is written once for both directions ---- */

/* A walk over fields in their order: it appends them to `to`, or reads them from `from`; the other
 * one is NULL. A walk that appends changes no field. */
struct wire_walk {
    struct buffer *to;
    struct wire_reader *from;
    struct wire_held *held; /* timers of an answer that is read */
};

/* The next field is this number, of `width` bytes. */
#define WIRE(walk, field, width)                                         \
    do {                                                                 \
        if ((walk)->to)                                                  \
            buffer_append_le((walk)->to, (uint64_t)(field), width);      \
        else                                                             \
            (field) = (__typeof__(field))wire_take((walk)->from, width); \
    } while (0)

/* Likewise; the reader fails if it is not below `limit`. */
#define WIRE_BELOW(walk, field, width, limit)                                         \
    do {                                                                              \
        if ((walk)->to)                                                               \
            buffer_append_le((walk)->to, (uint64_t)(field), width);                   \
        else                                                                          \
            (field) = (__typeof__(field))wire_take_below((walk)->from, width, limit); \
    } while (0)

static inline bool wire_has_failed(const struct wire_walk *walk)
{
    return walk->from && walk->from->failed_;
}

/* The next field is `value`; the reader fails if it is another one. Returns `value`, or 0 if the
 * reader failed. */
uint64_t wire_walk_same(struct wire_walk *walk, uint64_t value, size_t width);

/* The next field is a text. The reader fails if it is longer than `size_max`. */
void wire_walk_text(struct wire_walk *walk, struct bytes *text, size_t size_max);
void wire_walk_id(struct wire_walk *walk, struct timer_id *id);

/* The next field is a timer. Returns it, or the timer that was read, which `held` keeps; NULL on
 * damage or without memory. */
const struct timer *wire_walk_timer(struct wire_walk *walk, const struct timer *timer);

/* ---- wire_command.c ---- */

unsigned wire_parts(enum command_kind kind);

/* ---- wire_work.c ---- */

bool wire_work_fits(const struct command_work *work);

/* A question. The reader allocates `*work`. */
void wire_walk_work(struct wire_walk *walk, enum command_kind kind, struct command_work **work);
void wire_walk_work_answer(struct wire_walk *walk, enum command_kind kind,
                           struct command_work *work);
void wire_work_free(struct command_work *work);
void wire_clear_work(struct command_work *work);

#endif
