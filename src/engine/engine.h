/*
 * engine.h - the heart of the service, one partition of it: no I/O, no clock, no thread.
 *
 * The caller hands in the time and what happened, turn by turn, and then takes out the work to
 * be done, so a run can be replayed from its inputs alone:
 *
 *     engine_begin(engine, now);
 *     engine_submit(engine, command);                   and whatever else happened
 *     engine_end(engine);
 *     while ((batch = engine_take_batch(engine)))       commit it, then engine_committed(...)
 *     while ((read = engine_take_read(engine)))         read it, then engine_read_done(...)
 *     while ((delivery = engine_take_delivery(engine))) deliver it, then engine_delivered(...)
 *     while ((command = engine_take_reply(engine)))     answer the client
 *     while ((delivery = engine_take_recorded(engine))) tell the sender, if it asked for it
 *     while ((given_up = engine_take_given_up(engine))) log it
 *     lost = engine_take_events(engine, &events)        post them to the feed
 *     ... and begin the next turn at engine_wake_at(engine), or when something happens
 *
 * Only timers due within the window are in memory: a timing wheel over them, filled from the
 * storage ahead of need. Everything else lies in the storage alone.
 *
 * Timers of a built-in queue (queue_target.h) are not handed out by engine_take_delivery: they
 * wait, and can be cancelled and changed, until somebody calls engine_pull for them.
 *
 * Promises   A timer is delivered only at or after its due time by the `now` that is passed in; is
 *            acknowledged only when its batch is durable; is not delivered after a cancel that was
 *            answered with success; is delivered again until an outcome ends it, at most
 *            retry.attempts_max times. `now` may step: back fires nothing twice, forward fires what
 *            became due.
 * Errors     Commands are answered with an error; nothing else can fail. What the commands of a
 *            failed batch asked may hold nevertheless: their timers wait until a later batch has
 *            succeeded, and are then what the storage has. The engine's own changes are written
 *            again.
 * Ownership  All that it hands out is lent, and comes back by the call named above; see command.h
 *            and delivery.h. Take all replies before engine_delivered and before the next turn: a
 *            timer that one shows is changed or freed there.
 * Threads    One engine, one thread. Batches and reads come back in the order they were taken,
 *            batches among batches and reads among reads.
 */
#ifndef TICKWHEEL_ENGINE_ENGINE_H
#define TICKWHEEL_ENGINE_ENGINE_H

#include "base/turns.h"
#include "engine/command.h"
#include "engine/delivery.h"
#include "engine/engine_stats.h"
#include "engine/feed_event.h"
#include "engine/given_up.h"
#include "timer/schedule.h"
#include "timer/target_pauses.h"
#include "store/storage.h"

#include <stdatomic.h>

struct budget;

struct engine_options {
    uint16_t partition;
    uint64_t window_ms;      /* how far ahead timers are in memory */
    uint64_t near_bytes_max; /* footprint of timers in memory; loading pauses there, and a create
                                or patch that needs more is refused with OVERLOADED. Half as much
                                more for those due later that were created or named with a key
                                lately */
    uint64_t pending_max;    /* live timers in all; beyond it TOO_MANY. 0: no limit */
    _Atomic uint64_t *pending_all; /* live timers of all engines that share the limit, on any
                                      thread, borrowed. The caller has added meta.pending of each.
                                      NULL: the limit is for this engine alone */
    struct budget *budget; /* of the node, borrowed: the places in flight, which all engines share,
                              in place of the limits of this engine: inflight_max, those of a
                              target and a broker, pulled_max. NULL: it has its own */
    void (*wake)(void *context); /* the budget has given this engine a place: a turn is to begin,
                                    as engine_wake_at says. On any thread, under the lock of the
                                    budget, also while the engine is made or ends. NULL: never */
    void *wake_context;
    uint32_t inflight_max;        /* webhooks at a time */
    uint32_t target_inflight_max; /* webhooks at a time to one origin (scheme, host, port) */
    uint32_t broker_inflight_max; /* deliveries at a time to one connection of a broker; they are
                                       not counted above, for the operator names the connections */
    uint64_t target_rate;         /* webhooks to one origin in a thousand seconds; 0: no limit */
    uint64_t catch_up_rate;       /* deliveries that are overdue (ENGINE_OVERDUE_MS), in a thousand
                                       seconds, but for those of queues; 0: no limit */
    uint32_t pulled_max;          /* deliveries pulled at a time, not counted above either; they
                                       take at most a quarter of near_bytes_max */
    uint32_t scan_rows_max;       /* rows of one read ahead */
    uint64_t retain_ms;           /* how long a final state is answered with GONE */
    uint64_t dead_retain_ms;      /* likewise of a dead letter, which can be redriven as long */
    bool is_divided;              /* tenants share near_bytes_max and pending_max (base/share.h) */
    uint64_t dead_bytes_max;      /* footprint of dead letters; beyond it the oldest go */
    uint64_t watermark_interval_ms; /* how often the watermark is written when it moved */
    uint64_t storage_retry_ms;      /* pause after a failed batch or read */
    uint64_t second_scan_ms;        /* between two walks of second_scan.h; 0: there are none */
    uint64_t ends_pace_ms;          /* ends of timers gather behind a batch, unless something waits
                                       for them; 0: they do not */
    size_t history_max;             /* deliveries of which is known what made them late */
    uint64_t seed;                  /* of the jitter */
    struct zone_source zones;       /* for what recurs */
    const atomic_bool *is_watched; /* whether events (feed_event.h) are wanted; borrowed, set on any
                                            thread. NULL: no */
    const atomic_bool *is_held; /* while it is set no delivery begins, from the next turn on: set on
                                   any thread, borrowed. NULL: never */
    struct target_pause_board *pauses;   /* queues and targets to which no delivery begins, and
                                            targets that are left alone no more, from the next turn
                                            on, and after the answer to a survey: shown on any
                                            thread, borrowed. NULL: none */
    struct tenant_counts *tenant_counts; /* of all engines, borrowed: live timers by tenant, with
                                            those that the storage has. NULL: not counted */
    /* Those of this engine alone, borrowed and for no other thread while there is the engine. NULL:
     * not counted by itself. */
    struct tenant_counts *tenant_counts_own;
    /* Live timers of other nodes, for which pending_max is too; borrowed, set on any thread. NULL:
     * there are none. */
    const _Atomic uint64_t *pending_others;
};

/* A timer that is found due so late is overdue: after an outage, not because of a busy moment. */
#define ENGINE_OVERDUE_MS 1000

#define ENGINE_OPTIONS_DEFAULT                                                  \
    ((struct engine_options){.window_ms = 10 * 1000,                            \
                             .near_bytes_max = 256 << 20,                       \
                             .inflight_max = 4096,                              \
                             .pulled_max = 25000,                               \
                             .target_inflight_max = 128,                        \
                             .broker_inflight_max = 1024,                       \
                             .scan_rows_max = 4096,                             \
                             .retain_ms = 3600 * 1000,                          \
                             .dead_retain_ms = UINT64_C(30) * 24 * 3600 * 1000, \
                             .dead_bytes_max = 256 << 20,                       \
                             .watermark_interval_ms = 1000,                     \
                             .history_max = 4096,                               \
                             .storage_retry_ms = 100})

/* What a read fetches. */
enum engine_read_kind {
    ENGINE_READ_FIND,   /* storage_find(id)       -> timer */
    ENGINE_READ_SCAN,   /* storage_scan(scan)     -> page  */
    ENGINE_READ_LOOKUP, /* storage_lookup(lookup) -> names */
};

struct engine_read {
    struct list link;      /* the holder's */
    struct turn_link turn; /* the reader's */
    uint64_t tenant; /* whose reads it takes turns with: a tenant_key; 0 for the engine's own */
    enum engine_read_kind kind;
    struct timer_id id;
    struct storage_scan scan;
    bool goes_on; /* an empty page serves nobody: the reader may go on to the next one */
    struct storage_lookup lookup;
    /* Filled in by the reader; the engine takes them. */
    enum error_code result;
    struct error error; /* why, for the log */
    struct timer *timer;
    struct storage_page page;
    struct storage_names names;
    struct command *command_; /* the engine's: the command that it serves, or NULL */
    uint64_t ticket_;         /* the engine's: of the stand-in that waits for it */
};

/* Does what a read asks for. */
void engine_read_perform(struct engine_read *read, struct storage *storage);

/* Returns true if the read returned an empty page that is not the last, and is worth performing
 * again, from where the page ended, before it goes back to the engine. */
bool engine_read_is_repeated(struct engine_read *read);

uint16_t engine_read_partition(const struct engine_read *read);

/* `meta` is what the storage holds, with its epoch already raised and durable. Recovery begins at
 * once: it asks for the first read. NULL when out of memory. */
struct engine *engine_create(const struct engine_options *options, const struct storage_meta *meta,
                             struct wall now);

/* Frees it with every timer in memory. Whatever it lent must be back or be never used again. */
void engine_destroy(struct engine *engine);

/* ---- what happened ---- */

/* Begins a turn: the time is `now` until its end. One without any call lets time pass: at
 * engine_wake_at, when the clock has stepped back, and whenever it suits. */
void engine_begin(struct engine *engine, struct wall now);

/* Ends a turn: due timers are delivered, reads are asked for, and timers that are not needed any
 * more leave memory. */
void engine_end(struct engine *engine);

/* Between engine_begin and engine_end, as are the other calls that tell what happened. */
void engine_submit(struct engine *engine, struct command *command);

/* `batch->result` says how it went; the engine takes it back. */
void engine_committed(struct engine *engine, struct storage_batch *batch);

void engine_read_done(struct engine *engine, struct engine_read *read);

void engine_delivered(struct engine *engine, struct delivery *delivery);

/* Begin no new delivery; those that are out may come back. For a clean stop. */
void engine_drain(struct engine *engine);

/* ---- what to do ---- */

/* All writes since the last call as one batch; NULL when there are none. */
struct storage_batch *engine_take_batch(struct engine *engine);
struct engine_read *engine_take_read(struct engine *engine);
struct delivery *engine_take_delivery(struct engine *engine);
struct command *engine_take_reply(struct engine *engine);
struct delivery *engine_take_recorded(struct engine *engine);

/* The next firing that was given up, which is the caller's to free(); NULL when there is none. */
struct given_up *engine_take_given_up(struct engine *engine);

/* Moves what happened since the last call to the end of `ret_events`, of struct feed_event, oldest
 * first, for the caller to destroy. Returns how many more happened that it could not keep. */
uint64_t engine_take_events(struct engine *engine, struct list *ret_events);

/* ---- queues ---- */

/* When the timer was due that engine_pull would hand out first; false when none waits in this queue
 * with this priority, or the queue is paused. Queues go by their full names here
 * (queue_target.h). */
bool engine_peek(const struct engine *engine, struct bytes queue, unsigned priority,
                 struct wall *ret_due);

/* Walks them in the order in which engine_pull would hand them out: start with *cursor = NULL, no
 * other call meanwhile. False at the end. `ret_bytes` is what the timer takes in memory. */
bool engine_peek_next(const struct engine *engine, struct bytes queue, unsigned priority,
                      const void **cursor, struct wall *ret_due, size_t *ret_bytes);

/* Hands out the first timer of this queue and priority, in a turn; NULL when none waits, the queue
 * is paused, or as many are out as may be. */
struct delivery *engine_pull(struct engine *engine, struct bytes queue, unsigned priority);

/* After pulls for what engine_take_woken has named: if the engine got a place for one of them, and
 * it was not used, it goes to other engines. */
void engine_end_pulls(struct engine *engine);

/* Names, one at a time, the queues that have something to pull since they were last named, or had
 * when a pull was refused for want of room and there may be room now. The text is valid until the
 * next call into the engine. */
bool engine_take_woken(struct engine *engine, struct bytes *ret_queue);

/* When to begin the next turn; WALL_NEVER when only an event can change something. */
struct wall engine_wake_at(const struct engine *engine);

/* ---- questions ---- */

/* Between engine_begin and engine_end. */
bool engine_is_in_turn(const struct engine *engine);

/* Recovery has read its first page: the storage answers, and overdue timers are being delivered. */
bool engine_is_ready(const struct engine *engine);

/* Nothing is out: no batch, read or delivery is awaited. */
bool engine_is_idle(const struct engine *engine);

void engine_stats(const struct engine *engine, struct engine_stats *ret_stats);

/* Timers in memory that wait: a tenant's webhooks to one origin, or items of one queue and
 * priority. */
struct engine_waiting {
    struct bytes tenant;
    struct bytes queue; /* its full name; empty: webhooks */
    size_t count;       /* over 0 */
    struct wall oldest; /* the due time of the first */
};

/* Tells of each queue with waiting timers; `waiting` is valid during the call. O(queues). */
void engine_tell_waiting(const struct engine *engine,
                         void (*tell)(void *context, const struct engine_waiting *waiting),
                         void *context);

/* The bytes that a timer takes while it is in the memory of an engine. */
size_t engine_footprint(const struct timer *timer);

/* For tests: aborts unless every invariant holds. O(timers in memory). */
void engine_check(const struct engine *engine);

#endif
