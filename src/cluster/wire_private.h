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
};

void wire_put(struct buffer *to, uint64_t value, size_t width);
void wire_put_text(struct buffer *to, struct bytes text);
void wire_put_id(struct buffer *to, const struct timer_id *id);
void wire_put_timer(struct buffer *to, const struct timer *timer);

uint64_t wire_take(struct wire_reader *reader, size_t width);
uint64_t wire_take_below(struct wire_reader *reader, size_t width, uint64_t limit);
struct bytes wire_take_text(struct wire_reader *reader, size_t size_max);
struct timer_id wire_take_id(struct wire_reader *reader);
struct timer *wire_take_timer(struct wire_reader *reader);

/* Allocates `count` zeroed elements, within what one message may request. NULL for none. */
void *wire_take_room(struct wire_reader *reader, size_t count, size_t size);

/* Decodes a timer of an answer, and holds it while it is shown. NULL on damage or without
 * memory. */
struct timer *wire_hold_timer(struct wire_reader *reader, struct wire_held *held);

/* ---- wire_command.c ---- */

unsigned wire_parts(enum command_kind kind);

/* ---- wire_work.c ---- */

bool wire_work_fits(const struct command_work *work);
void wire_put_work(struct buffer *to, enum command_kind kind, const struct command_work *work);
struct command_work *wire_take_work(struct wire_reader *reader, enum command_kind kind);
void wire_work_free(struct command_work *work);
void wire_put_work_answer(struct buffer *to, enum command_kind kind,
                          const struct command_work *work);
void wire_take_work_answer(struct wire_reader *reader, enum command_kind kind,
                           struct command_work *work, struct wire_held *held);
void wire_clear_work(struct command_work *work);

#endif
