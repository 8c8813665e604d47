/*
 * content.h - what a client may set of a timer, as numbers from which the texts follow.
 *
 * Each text carries a token that is used once, so a delivery shows which request it comes from.
 */
#ifndef TICKWHEEL_WORLD_CONTENT_H
#define TICKWHEEL_WORLD_CONTENT_H

#include "engine/command.h"
#include "plan.h"
#include "rhythm.h"
#include "timer/debounce.h"

enum { EVENTS_MAX = 5, FLOWS_MAX = 3 };

/* One of several targets; `target` as in struct content. */
struct fan_target {
    uint32_t target;
    uint8_t origin;
};

struct content {
    struct wall due, created;
    struct retry_policy retry;
    /* tokens; 0 if the text is empty (the target never is) */
    uint32_t target, payload, headers, labels;
    uint8_t origin; /* origin of the target; if it is QUEUE_ORIGIN, `target` is 1 + the priority */
    uint32_t payload_size; /* minimum size in bytes */
    uint32_t number;       /* number of the create or put that asked for it; part of the labels */
    uint8_t group;         /* number of a label that several timers have; 0 for none */
    uint8_t key;           /* number of the key; 0 for none */
    uint8_t request;       /* number of the Idempotency-Key; 0 for none */
    uint8_t variant;       /* number among the requests with that Idempotency-Key */
    uint8_t watch;         /* a bit for each event */
    uint8_t tenant;        /* tenant that owns the timer */
    uint8_t on_dead, on_success; /* 1 + the origin of the target; 0 for none */
    uint32_t ack_timeout_ms;     /* time for a later answer; 0 for that of the engine */
    uint8_t flow;                /* number of the flow, which is also its limit; 0 for none */
    /* id of the timer that a report is about; all zero if this is no report */
    struct timer_id report_of;
    struct timer_id firing_of; /* id of the timer whose firing this is; all zero if it is none */
    struct timer_id part_of;   /* id of the timer that it is a part of; all zero if it is none */
    uint8_t fan_count;         /* number of its targets; 0 if there is only one */
    struct fan_target fan[FAN_MAX]; /* the first one is also `target` and `origin` */
    uint64_t body_sum;              /* checksum of a report's own payload; 0 if it was patched */
    struct rhythm rhythm;
    struct debounce debounce; /* for_ms is 0 if its time is no debounce */
};

enum { CONTENT_NAME_SIZE = 40 };

/* Return the text of a key, an event and a group. Their numbers begin with 1. */
struct bytes content_key_text(uint8_t key, char ret_text[CONTENT_NAME_SIZE]);
struct bytes content_event_text(uint8_t event, char ret_text[CONTENT_NAME_SIZE]);
struct bytes content_group_text(uint8_t group, char ret_text[CONTENT_NAME_SIZE]);

enum { CONTENT_LABELS_SIZE = 80 };

struct bytes content_labels_text(const struct content *content, char ret_text[CONTENT_LABELS_SIZE]);

static inline bool content_is_report(const struct content *content)
{
    return content->report_of.serial != 0;
}

/* Returns the content that a report to such a target must have. The caller sets its times. */
struct content content_of_report(const struct content *about, const struct timer_id *id,
                                 uint8_t target, struct bytes body);

/* Returns the content of a firing, due at that time, of a timer whose firings may overlap. The
 * caller sets its creation time. */
struct content content_of_firing(const struct content *of, const struct timer_id *id,
                                 struct wall due);

/* Returns the content of the part for the i-th target of a timer. The caller sets its creation
 * time. */
struct content content_of_part(const struct content *of, const struct timer_id *id, size_t i);

/* Writes the URL of a target. */
enum { CONTENT_TARGET_SIZE = 80 };

struct bytes content_target_text(const struct fan_target *target,
                                 char ret_text[CONTENT_TARGET_SIZE]);

/* Sets the time of a debounce after a call at `call`: so long after it, but no later than so long
 * after the first call. */
void content_debounce(struct content *content, struct wall call, struct wall first);

/* Makes the timer that asks for `content`, to be given to the engine. */
struct timer *content_timer(const struct content *content);

/* True if the timer shows exactly `content`. A timer that has ended may lack payload and
 * headers. */
bool content_matches(const struct content *content, const struct timer *timer);

/* True if a create of `asked` equals the existing timer. */
bool content_is_same(const struct content *there, const struct content *asked);

/* Copies these fields (enum timer_patch_field) from `values`. */
void content_patch(struct content *content, uint32_t fields, const struct content *values);

/* True if both have equal values of these fields. */
bool content_equal(const struct content *a, const struct content *b, uint32_t fields);

/* Returns the number of the request that asked for the timer, from its labels; 0 if they are not of
 * this simulation. */
uint32_t content_number(const struct timer *timer);

#endif
