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
#include "timer/definitions.h"
#include "timer/target_pauses.h"
#include "store/storage.h"

#include <stdatomic.h>

struct budget;

struct engine_options {
    uint16_t partition;
    uint64_t window_ms; /* how far ahead timers are kept in memory */
    /* how far ahead the next row is looked for while none is near; 0 means 64 windows */
    uint64_t look_ms;
    /* Limit of the memory of timers in bytes. At the limit loading pauses, and a create or patch
     * that needs more is refused with OVERLOADED. Half as much again is allowed for later timers
     * that were recently created or named with a key. */
    uint64_t near_bytes_max;
    uint64_t pending_max; /* limit of live timers; beyond it TOO_MANY. 0 for none */
    /* Number of live timers of all engines that share pending_max; changed on any thread, borrowed.
     * The caller has added meta.pending of each engine. NULL if pending_max applies to this engine
     * alone. */
    _Atomic uint64_t *pending_all;
    /* Places in flight that all engines of the node share, borrowed. It replaces this engine's own
     * limits: inflight_max, target_inflight_max, broker_inflight_max and pulled_max. NULL if the
     * engine keeps to its own. */
    struct budget *budget;
    /* Called when the budget has given this engine a place, so that a turn is due (engine_wake_at).
     * Runs on any thread, under the lock of the budget, possibly while the engine is made or
     * destroyed. NULL disables it. */
    void (*wake)(void *context);
    void *wake_context;
    uint32_t inflight_max; /* limit of webhooks in flight */
    /* limit of webhooks in flight to one origin (scheme, host, port) */
    uint32_t target_inflight_max;
    /* limit of deliveries in flight over one broker connection. inflight_max does not count them,
     * because the operator chooses the connections */
    uint32_t broker_inflight_max;
    /* limit of webhooks to one origin, in thousandths of a delivery per second; 0 disables it */
    uint64_t target_rate;
    /* limit of overdue deliveries (ENGINE_OVERDUE_MS) except those of queues, in thousandths of a
     * delivery per second; 0 disables it */
    uint64_t catch_up_rate;
    /* limit of pulled deliveries, which inflight_max does not count; they use at most a quarter of
     * near_bytes_max */
    uint32_t pulled_max;
    uint32_t scan_rows_max;  /* maximum of rows of one read ahead */
    uint64_t retain_ms;      /* time for which a command for a final timer is answered with GONE */
    uint64_t dead_retain_ms; /* time for which a dead letter is kept and can be redriven */
    /* time that a receiver has for a later answer, if its timer does not say */
    uint64_t ack_timeout_ms;
    /* tenants divide near_bytes_max and pending_max among them (base/share.h) */
    bool is_divided;
    /* limit of the memory of dead letters; beyond it the oldest are dropped */
    uint64_t dead_bytes_max;
    uint64_t watermark_interval_ms; /* interval at which a moved watermark is written */
    uint64_t storage_retry_ms;      /* pause after a failed batch or read */
    uint64_t second_scan_ms; /* interval between the walks of second_scan.h; 0 disables them */
    /* delay that collects final records into one batch. A waiting client cuts it short. 0
     * disables it */
    uint64_t ends_pace_ms;
    size_t history_max;       /* number of recent deliveries whose lateness is explained */
    struct bytes ledger;      /* what storage_load_ledger returned; read by engine_create */
    uint64_t seed;            /* seed of the jitter of retries */
    struct zone_source zones; /* zones of recurring timers; its calendars are those of the board */
    /* Calendars of holidays. Changes apply from the next turn on. Set on any thread, borrowed. NULL
     * means none. */
    struct calendars_board *calendars;
    /* true while events (feed_event.h) are wanted; set on any thread, borrowed. NULL means never */
    const atomic_bool *is_watched;
    /* while true, no delivery begins from the next turn on; set on any thread, borrowed. NULL means
     * never */
    const atomic_bool *is_held;
    /* paused queues and targets, and reset targets. Changes apply from the next turn on, and after
     * the answer to a survey. Set on any thread, borrowed. NULL means none */
    struct target_pause_board *pauses;
    /* what tenants define by name; likewise */
    struct definition_board *definitions;
    /* Live timers of all engines by tenant, including those that the storage has; borrowed. NULL
     * disables the count. */
    struct tenant_counts *tenant_counts;
    /* Live timers of this engine alone by tenant; borrowed, and used by no other thread while the
     * engine exists. NULL disables the count. */
    struct tenant_counts *tenant_counts_own;
    /* number of live timers on other nodes, which pending_max includes; set on any thread,
     * borrowed. NULL means none */
    const _Atomic uint64_t *pending_others;
};

/* Lateness from which a timer is overdue. It is longer than what a busy moment causes, so it shows
 * an outage. */
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
                             .ack_timeout_ms = 3600 * 1000,                     \
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
    struct list link;      /* list of whoever holds the read */
    struct turn_link turn; /* place of the read among those of its tenant; for the reader */
    uint64_t tenant; /* tenant_key by which reads take turns; 0 for reads of the engine's own */
    enum engine_read_kind kind;
    struct timer_id id;
    struct storage_scan scan;
    bool goes_on; /* if a page is empty, the reader may continue with the next one by itself */
    struct storage_lookup lookup;
    /* Results, set by the reader. The engine takes ownership of them. */
    enum error_code result;
    struct error error; /* cause of a failure, for the log */
    struct timer *timer;
    struct storage_page page;
    struct storage_names names;
    /* private to the engine: command that needs the read; NULL if none does */
    struct command *command_;
    uint64_t ticket_; /* private to the engine: ticket of the entry that waits for the read */
};

/* Performs a read of any kind, and sets its results. */
void engine_read_perform(struct engine_read *read, struct storage *storage);

/* True if the read returned an empty page that is not the last one. It then starts after that page,
 * and is to be performed again before it is handed to the engine. */
bool engine_read_is_repeated(struct engine_read *read);

uint16_t engine_read_partition(const struct engine_read *read);

/* Makes an engine. `meta` is what the storage has; its epoch has been raised durably. Recovery
 * begins at once, with a first read. Returns NULL if out of memory or if the ledger is damaged. */
struct engine *engine_create(const struct engine_options *options, const struct storage_meta *meta,
                             struct wall now);

/* Frees the engine with every timer in memory. Work that it handed out must have been returned, or
 * never be used again. */
void engine_destroy(struct engine *engine);

/* ---- what happened ---- */

/* Begins a turn at time `now`. A turn without other calls lets time pass; it is due at
 * engine_wake_at and after a step back of the clock, and allowed at any time. */
void engine_begin(struct engine *engine, struct wall now);

/* Ends a turn: delivers due timers, requests reads, and evicts timers that are not needed in
 * memory. */
void engine_end(struct engine *engine);

/* The functions up to engine_drain are called between engine_begin and engine_end. */
void engine_submit(struct engine *engine, struct command *command);

/* Handles the result of a batch, in `batch->result`, and takes ownership of the batch. */
void engine_committed(struct engine *engine, struct storage_batch *batch);

void engine_read_done(struct engine *engine, struct engine_read *read);

void engine_delivered(struct engine *engine, struct delivery *delivery);

/* Begins no new deliveries; outcomes of those in flight are still accepted. For a clean stop. */
void engine_drain(struct engine *engine);

/* ---- what to do ---- */

/* Returns all writes since the last call as one batch; NULL if there are none. */
struct storage_batch *engine_take_batch(struct engine *engine);
struct engine_read *engine_take_read(struct engine *engine);
struct delivery *engine_take_delivery(struct engine *engine);
struct command *engine_take_reply(struct engine *engine);
struct delivery *engine_take_recorded(struct engine *engine);

/* Returns the end of an attempt that was answered later, for the log of deliveries; NULL if there
 * is none. The caller frees it with engine_free_answered. */
struct delivery *engine_take_answered(struct engine *engine);
void engine_free_answered(struct delivery *delivery);

/* Returns the next given-up firing, which the caller frees with free(); NULL if there is none. */
struct given_up *engine_take_given_up(struct engine *engine);

/* Appends the events since the last call to `ret_events` (struct feed_event), oldest first; the
 * caller destroys them. Returns the number of further events, which were dropped. */
uint64_t engine_take_events(struct engine *engine, struct list *ret_events);

/* ---- queues ---- */

/* Returns the due time of the timer that engine_pull would return. False if none waits in this
 * queue with this priority, or the queue is paused. `queue` is a full name (queue_target.h). */
bool engine_peek(const struct engine *engine, struct bytes queue, unsigned priority,
                 struct wall *ret_due);

/* Hands out the first timer of this queue and priority, during a turn. NULL if none waits, the
 * queue is paused, or a limit of leases is reached. */
struct delivery *engine_pull(struct engine *engine, struct bytes queue, unsigned priority);

/* Ends the pulls that follow engine_take_woken. Unused places go to other engines. */
void engine_end_pulls(struct engine *engine);

/* Returns a queue that has got something to pull since this function last returned it, or whose
 * refused pull could now succeed. False if there is none. The text is valid until the next call of
 * the engine. */
bool engine_take_woken(struct engine *engine, struct bytes *ret_queue);

/* Returns when to begin the next turn; WALL_NEVER if only an event can change something. */
struct wall engine_wake_at(const struct engine *engine);

/* ---- questions ---- */

/* True between engine_begin and engine_end. */
bool engine_is_in_turn(const struct engine *engine);

/* True if recovery has read its first page, so that the storage works and overdue timers are being
 * delivered. */
bool engine_is_ready(const struct engine *engine);

/* True if no batch, read or delivery is awaited. */
bool engine_is_idle(const struct engine *engine);

void engine_stats(const struct engine *engine, struct engine_stats *ret_stats);

/* How far an engine has come, for a clock that waits for it. */
struct engine_progress {
    uint64_t fired;     /* number of firings that were found due */
    uint64_t delivered; /* number of firings delivered with success */
    uint64_t failed;    /* number of attempts that failed */
    uint64_t other;     /* number of firings resumed, dropped or given up */
    uint64_t live;      /* number of live timers at present */
};

/* Returns the counts since the engine was made, in O(1). */
struct engine_progress engine_progress(const struct engine *engine);

/* True if engine_is_ready, and no batch, read or delivery is awaited except items that workers have
 * leased. */
bool engine_is_settled(const struct engine *engine);

/* Number of timers that wait in memory: a tenant's webhooks to one origin, or items of one queue
 * and priority. */
struct engine_waiting {
    struct bytes tenant;
    struct bytes queue; /* full name of the queue; empty for webhooks */
    size_t count;       /* at least 1 */
    struct wall oldest; /* due time of the first of them */
};

/* Calls `tell` for each dispatch queue with waiting timers; `waiting` is valid during the call.
 * O(queues). */
void engine_tell_waiting(const struct engine *engine,
                         void (*tell)(void *context, const struct engine_waiting *waiting),
                         void *context);

/* Returns the memory that an engine uses for a timer, in bytes. */
size_t engine_footprint(const struct timer *timer);

/* For tests: aborts unless every invariant holds. O(timers in memory). */
void engine_check(const struct engine *engine);

#endif
