/*
 * content.h - what a client may set of a timer, as numbers from which the texts follow.
 *
 * Each text carries a token that is used once, so a delivery shows which request it comes from.
 */
#ifndef TICKWHEEL_WORLD_CONTENT_H
#define TICKWHEEL_WORLD_CONTENT_H

#include "engine/command.h"
#include "rhythm.h"

enum { EVENTS_MAX = 5 };

struct content {
    struct wall due, created;
    struct retry_policy retry;
    uint32_t target, payload, headers, labels; /* tokens; 0: the text is empty (target: never) */
    uint8_t origin;        /* of the target; with QUEUE_ORIGIN `target` is the priority and 1 */
    uint32_t payload_size; /* bytes at least */
    uint32_t number;       /* of the create or put that asked for it; a part of the labels */
    uint8_t group;         /* a label that several have; 0: none */
    uint8_t key;           /* 0: it has none */
    uint8_t request;       /* its Idempotency-Key; 0: none */
    uint8_t variant;       /* and which of several requests with that one */
    uint8_t watch;         /* a bit for each event */
    uint8_t tenant;        /* whose it is */
    uint8_t on_dead, on_success; /* 1 + the origin of the target; 0: none */
    struct timer_id report_of;   /* of a report; otherwise all zero */
    uint64_t body_sum;           /* of a report's own payload; 0: it was patched */
    struct rhythm rhythm;
};

enum { CONTENT_NAME_SIZE = 40 };

/* The texts that stand for a key, an event and a group; numbers from 1. */
struct bytes content_key_text(uint8_t key, char ret_text[CONTENT_NAME_SIZE]);
struct bytes content_event_text(uint8_t event, char ret_text[CONTENT_NAME_SIZE]);
struct bytes content_group_text(uint8_t group, char ret_text[CONTENT_NAME_SIZE]);

enum { CONTENT_LABELS_SIZE = 80 };

struct bytes content_labels_text(const struct content *content, char ret_text[CONTENT_LABELS_SIZE]);

static inline bool content_is_report(const struct content *content)
{
    return content->report_of.serial != 0;
}

/* What a report must look like that goes to such a target; its times are the caller's. */
struct content content_of_report(const struct content *about, const struct timer_id *id,
                                 uint8_t target, struct bytes body);

/* The timer that asks for `content`, to be given to the engine. */
struct timer *content_timer(const struct content *content);

/* Whether the timer shows exactly `content`; a timer that is over may lack payload and headers. */
bool content_matches(const struct content *content, const struct timer *timer);

/* Whether a create of `asked` equals the existing timer. */
bool content_is_same(const struct content *there, const struct content *asked);

/* Sets those of `fields` (enum timer_patch_field). */
void content_patch(struct content *content, uint32_t fields, const struct content *values);

/* Whether both set those fields alike. */
bool content_equal(const struct content *a, const struct content *b, uint32_t fields);

/* The number of the request that asked for it, from its labels; 0 when they are not of this
 * simulation. */
uint32_t content_number(const struct timer *timer);

#endif
