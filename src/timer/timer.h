/*
 * timer.h - a timer as the service knows it: its id, what the client asked, and where it stands.
 *
 * One allocation holds the struct and every text it points to. The id is the address: it carries
 * the partition and the position at which the timer was first put, so that a timer which never
 * moved is found without an index.
 *
 * Ownership  The holder of the pointer from timer_alloc/timer_copy owns it, until a function
 *            that says "takes".
 * Threads    None of its own: the owner is the only one to write. A timer in a storage batch, a
 *            delivery or a reply is not written until it has come back.
 */
#ifndef TICKWHEEL_TIMER_TIMER_H
#define TICKWHEEL_TIMER_TIMER_H

#include "base/bytes.h"
#include "base/error.h"
#include "base/list.h"
#include "base/random.h"
#include "base/time.h"
#include "timer/target.h"

/* ---- the id ---- */

struct timer_id {
    struct wall first;  /* position at creation, in milliseconds; 48 bits */
    uint16_t partition; /* partition that has the timer */
    uint64_t serial;    /* unique within the partition: 24 bits of epoch, 40 bits of counter */
};

#define TIMER_ID_TEXT_SIZE           27 /* 26 of 0-9 a-v (base32hex, lower case) and the NUL */
#define TIMER_SERIAL(epoch, counter) ((uint64_t)(epoch) << 40 | (counter))
#define TIMER_EPOCH_MAX              UINT64_C(0xffffff)
#define TIMER_COUNTER_MAX            UINT64_C(0xffffffffff)

/* Writes the 26 characters; texts sort as (first, partition, serial). */
void timer_id_format(const struct timer_id *id, char ret_text[TIMER_ID_TEXT_SIZE]);

/* Appends the id as a JSON string; `name` as in base/json_write.h. */
void timer_id_put(struct buffer *out, const char *name, const struct timer_id *id);

/* Parses exactly what timer_id_format writes; anything else is ERROR_NOT_FOUND. */
enum error_code timer_id_parse(struct bytes text, struct timer_id *ret_id);

static inline bool timer_id_equal(const struct timer_id *a, const struct timer_id *b)
{
    return a->serial == b->serial && a->partition == b->partition && a->first.ms == b->first.ms;
}

/* ---- the timer ---- */

/* X(name, text): the texts are those of the API and of the metrics. */
#define TIMER_STATE_LIST(X)     \
    X(SCHEDULED, "scheduled")   \
    X(DELIVERING, "delivering") \
    X(RETRYING, "retrying")     \
    X(FIRED, "fired")           \
    X(CANCELLED, "cancelled")   \
    X(DEAD, "dead")             \
    X(PAUSED, "paused")

enum timer_state {
#define X(name, text) TIMER_##name,
    TIMER_STATE_LIST(X)
#undef X
};

const char *timer_state_text(enum timer_state state);

/* True if the timer was fired or cancelled, or is dead. */
static inline bool timer_is_final(enum timer_state state)
{
    return state >= TIMER_FIRED && state <= TIMER_DEAD;
}

/* True if the row of a timer in this state has payload, headers, content type, watch, schedule,
 * trace, on_dead, on_success and flow. That is so while it lives, and in a dead letter, which may
 * be redriven. */
static inline bool timer_keeps_content(enum timer_state state)
{
    return !timer_is_final(state) || state == TIMER_DEAD;
}

struct retry_policy {
    uint32_t attempts_max; /* maximum of attempts, 1 .. 100 */
    uint64_t base_ms;      /* first back-off, before the random part */
    uint64_t cap_ms;       /* maximum back-off */
    uint64_t timeout_ms;   /* time limit of one attempt */
    /* time for which a target may fail until the firing is given up; 0 means no limit */
    uint64_t give_up_ms;
    bool until_next; /* of a timer that repeats: retries end when the next firing is due */
};

#define RETRY_POLICY_DEFAULT \
    ((struct retry_policy){10, 1000, 3600 * 1000, 15 * 1000, UINT64_C(3) * 24 * 3600 * 1000, false})

/* X(tag, name, kept, patch): the texts of a timer, each of which may be empty.
 *
 *   tag    number of the text on disk; rises from row to row (record.h)
 *   kept   when a row on disk has the text: ALWAYS, while timer_keeps_content, while PAUSED, or
 *          AWAITED: while DELIVERING
 *   patch  PATCH_patch replaces the text; NOTHING: no patch does
 */
#define TIMER_TEXT_LIST(X)                                                                         \
    X(1, target, ALWAYS, TARGET)         /* URL */                                                 \
    X(2, payload, CONTENT, PAYLOAD)      /* body: raw JSON, or bytes if there is a content_type */ \
    X(3, content_type, CONTENT, PAYLOAD) /* empty: the payload is JSON */                          \
    X(4, headers, CONTENT, HEADERS)      /* more request headers: "Name: value\n" each */          \
    X(5, labels, ALWAYS, LABELS)         /* raw JSON object of strings */                          \
    X(6, last_error, ALWAYS, NOTHING)    /* how the last attempt failed */                         \
    X(7, key, ALWAYS, NOTHING)           /* the client's own name for the timer */                 \
    X(8, watch, CONTENT, WATCH)          /* names of events that end it: "order:42\n" each */      \
    X(9, request, ALWAYS, NOTHING)       /* Idempotency-Key of its creation: timer/name.h */       \
    X(10, schedule, CONTENT, SCHEDULE)   /* recurrence, permitted lateness: timer/schedule.h */    \
    X(11, tenant, ALWAYS, NOTHING)       /* its owner: timer/tenant.h */                           \
    X(12, trace, CONTENT, NOTHING)       /* traceparent of its creation, or TRACE_UNSAMPLED */     \
    X(13, runs, ALWAYS, NOTHING)         /* its last firings if it repeats: timer/runs.h */        \
    X(14, on_dead, CONTENT, ON_DEAD)     /* target for the report of a firing given up */          \
    X(15, on_success, CONTENT, ON_SUCCESS) /* target for the report of a firing with success */    \
    X(16, report_of, ALWAYS, NOTHING)      /* of a report (timer/report.h): id of its timer */     \
    X(17, note, PAUSED, NOTHING)           /* reason of the pause, in the client's words */        \
    X(18, zoned, CONTENT, NOTHING)         /* its zone's offset at its due time: schedule_mark */  \
    X(19, method, CONTENT, METHOD)         /* PUT, PATCH, GET or DELETE; empty: POST */            \
    X(20, flow, CONTENT, FLOW)             /* its flow: timer/flow.h */                            \
    X(21, targets, ALWAYS, TARGET)         /* its targets, if there are several: "URL\n" each */   \
    X(22, parts, ALWAYS, NOTHING) /* how they stand, or the timer of a part: timer/fanout.h */     \
    X(23, ack_timeout, CONTENT, ACK_TIMEOUT) /* time for a later answer: timer/awaits.h */         \
    X(24, awaits, AWAITED, NOTHING)          /* attempt that is answered later: timer/awaits.h */  \
    X(25, debounce, CONTENT, NOTHING)        /* what puts do to its time: timer/debounce.h */      \
    X(26, firing_of, ALWAYS, NOTHING)        /* of a firing (timer/firing.h): id of its timer */   \
    X(27, counted, CONTENT, NOTHING)         /* its firings so far: schedule_counted */            \
    X(28, order, CONTENT, ORDER)             /* "strict", or empty: order of a queue's items */

#define TIMER_NOTE_SIZE_MAX 256

struct timer_texts {
#define X(tag, name, ...) struct bytes name;
    TIMER_TEXT_LIST(X)
#undef X
};

struct timer {
    struct timer_id id;
    struct wall due; /* due time, as the client sees it */
    /* time of the next action, which is the position of the row: `due`, or the next attempt.
     * PAUSED: end of the pause (storage.h). While it waits for a later answer
     * (timer/awaits.h): end of that wait */
    struct wall at;
    struct wall created; /* time at which the service accepted the timer */
    struct wall ended;   /* time at which the timer became final; 0 while it lives */
    struct wall paused;  /* PAUSED: begin of the pause; otherwise 0 */
    /* time since when the target has failed for this firing; 0 if it does not fail */
    struct wall failing;
    uint32_t version;  /* 1 at creation, incremented with each change */
    uint32_t attempts; /* number of deliveries that were begun and have an outcome */
    enum timer_state state;
    struct retry_policy retry;
    struct timer_texts texts;
    struct target target; /* texts.target, parsed */
    size_t footprint;     /* memory of this timer in bytes, including the struct */
    struct timer *next;   /* for the owner: next timer in a chain */
};

/* Makes a timer with copies of `texts`, the default retry policy and version 1; everything else
 * is zero. Its target is parsed; TARGET_UNKNOWN if the text is invalid. NULL if out of memory. */
struct timer *timer_alloc(const struct timer_texts *texts);

/* Like timer_alloc, with a target that the caller has parsed from texts->target. */
struct timer *timer_alloc_parsed(const struct timer_texts *texts, const struct target *target);

/* Copies `timer` with `texts` instead of its own. The copy is in no chain. The target is parsed
 * again only if its text differs, or if `timer` is a view of a record without one. NULL if out of
 * memory. */
struct timer *timer_copy(const struct timer *timer, const struct timer_texts *texts);

/* Copies a PAUSED timer as its next version, which is no longer paused: due as before, and at once
 * if that time has passed. NULL if out of memory. */
struct timer *timer_resumed(const struct timer *timer, struct wall now);

void timer_free(struct timer *timer);

/* Fields that a patch of a timer can set. */
enum timer_patch_field {
    PATCH_NOTHING = 0,
    PATCH_DUE = 1 << 0,
    PATCH_TARGET = 1 << 1,  /* also targets */
    PATCH_PAYLOAD = 1 << 2, /* also content_type */
    PATCH_HEADERS = 1 << 3,
    PATCH_LABELS = 1 << 4,
    PATCH_RETRY = 1 << 5,
    PATCH_WATCH = 1 << 6,
    PATCH_SCHEDULE = 1 << 7, /* if the patch moves the next firing, it also has PATCH_DUE */
    PATCH_ON_DEAD = 1 << 8,
    PATCH_ON_SUCCESS = 1 << 9,
    PATCH_METHOD = 1 << 10,
    PATCH_FLOW = 1 << 11,
    PATCH_ORDER = 1 << 12,       /* only for comparing: no patch has it */
    PATCH_ACK_TIMEOUT = 1 << 13, /* highest bit in use */
};

/* Replaces the texts of `fields` in `texts` by those of `values`, which are borrowed. If the new
 * target is no webhook, the method is removed. */
void timer_texts_patch(struct timer_texts *texts, uint32_t fields,
                       const struct timer_texts *values);

/* True if a patch with these values would change no text. With all fields: true if two creates ask
 * for equal texts. */
bool timer_texts_have(const struct timer_texts *texts, uint32_t fields,
                      const struct timer_texts *values);

/* True if the target, or one of several targets, is a webhook. */
bool timer_texts_have_webhook(const struct timer_texts *texts);

/* Removes the next name from a `watch`. Returns false if there is none. */
bool timer_watch_next(struct bytes *watch, struct bytes *ret_name);

static inline struct bytes timer_target_origin(const struct timer *timer)
{
    return target_origin(timer->texts.target, &timer->target);
}

/* Returns the host, broker connection or queue of the target. */
static inline struct bytes timer_target_name(const struct timer *timer)
{
    return target_slice(timer->texts.target, timer->target.name);
}

/* True if workers lease its deliveries, instead of a sender sending them. */
static inline bool timer_is_pulled(const struct timer *timer)
{
    return target_sharing(&timer->target) == TARGET_SHARES_WORKERS;
}

/* Order in which workers get the items of a queue. */
enum timer_order {
    TIMER_ORDER_DUE,    /* by due time */
    TIMER_ORDER_STRICT, /* by due time, then in order of creation */
};

static inline enum timer_order timer_order(const struct timer *timer)
{
    return timer->texts.order.size ? TIMER_ORDER_STRICT : TIMER_ORDER_DUE;
}

/* Beginning of the last_error of a webhook that a breaker postponed. */
#define TIMER_NOT_TRIED "not tried: "

/* Beginning of the last_error of a timer whose schedule cannot be computed. */
#define TIMER_WAITS "waits: "

/* True if the timer is a webhook that waits because a breaker refused its last delivery. */
static inline bool timer_is_postponed(const struct timer *timer)
{
    return timer->state == TIMER_RETRYING &&
           target_sharing(&timer->target) == TARGET_SHARES_ORIGIN &&
           bytes_has_prefix(timer->texts.last_error, BYTES(TIMER_NOT_TRIED));
}

/* Returns the origin as the API shows it. For a queue that is the target without its priority. */
static inline struct bytes timer_shown_origin(const struct timer *timer)
{
    const struct target *target = &timer->target;

    if (!timer_is_pulled(timer))
        return timer_target_origin(timer);
    return (struct bytes){timer->texts.target.data, (size_t)target->name.at + target->name.size};
}

bool retry_policy_equal(const struct retry_policy *a, const struct retry_policy *b);

/* Returns the pause after `attempts` failed attempts (from 1), in milliseconds: exponential
 * back-off with full jitter (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
 * 2015). It is uniform between 0 and min(cap, base * 2^(attempts - 1)), so that many timers that
 * failed together do not return together. The minimum is `retry_after_ms`, for which the receiver
 * asked, up to a day; and at least 1, so that a retry is never at once. */
uint64_t retry_delay_ms(const struct retry_policy *policy, uint32_t attempts,
                        uint64_t retry_after_ms, struct random *random);

#endif
