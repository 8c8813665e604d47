/*
 * engine.h - the heart of the service, one partition of it: no I/O, no clock, no thread.
 *
 * The caller hands in the time and what happened, and then takes out what is to be done, so a run
 * can be replayed from its inputs alone:
 *
 *     engine_submit(engine, now, command);
 *     while ((batch = engine_take_batch(engine)))       commit it, then engine_committed(...)
 *     while ((read = engine_take_read(engine)))         read it, then engine_read_done(...)
 *     while ((delivery = engine_take_delivery(engine))) deliver it, then engine_delivered(...)
 *     while ((command = engine_take_reply(engine)))     answer the client
 *     ... and call engine_advance at engine_wake_at(engine)
 *
 * Only timers due within the window are in memory: a timing wheel over them, filled from the
 * storage ahead of need. Everything else lies in the storage alone.
 *
 * Promises   A timer is delivered only at or after its due time by the `now` that is passed in; is
 *            acknowledged only when its batch is durable; is not delivered after a cancel that was
 *            answered with success; is delivered again until an outcome ends it, at most
 *            retry.attempts_max times. `now` may step: back fires nothing twice, forward fires what
 *            became due.
 * Errors     Commands are answered with an error; nothing else can fail. A failed batch takes back
 *            what its commands asked, and is written again where the change is the engine's own.
 * Ownership  What is taken out is lent, and comes back by the call named above; see command.h and
 *            delivery.h. Take all replies before the next call.
 * Threads    One engine, one thread. Batches and reads come back in the order they were taken,
 *            batches among batches and reads among reads.
 */
#ifndef TICKWHEEL_ENGINE_ENGINE_H
#define TICKWHEEL_ENGINE_ENGINE_H

#include "engine/command.h"
#include "engine/delivery.h"
#include "storage/storage.h"

struct engine_options {
    uint16_t partition;
    uint64_t window_ms;      /* how far ahead timers are in memory */
    uint64_t near_bytes_max; /* footprint of timers in memory; loading pauses there, and a create
                                or patch that needs more is refused with OVERLOADED */
    uint64_t pending_max;    /* live timers in all; beyond it TOO_MANY. 0: no limit */
    uint32_t inflight_max;   /* deliveries at a time */
    uint32_t target_inflight_max;   /* deliveries at a time to one origin (scheme, host, port) */
    uint32_t scan_rows_max;         /* rows of one read ahead */
    uint64_t retain_ms;             /* how long a final state is answered with GONE */
    uint64_t watermark_interval_ms; /* how often the watermark is written when it moved */
    uint64_t storage_retry_ms;      /* pause after a failed batch or read */
    uint64_t seed;                  /* of the jitter */
};

#define ENGINE_OPTIONS_DEFAULT                              \
    ((struct engine_options){.window_ms = 10 * 1000,        \
                             .near_bytes_max = 256 << 20,   \
                             .inflight_max = 4096,          \
                             .target_inflight_max = 128,    \
                             .scan_rows_max = 4096,         \
                             .retain_ms = 3600 * 1000,      \
                             .watermark_interval_ms = 1000, \
                             .storage_retry_ms = 100})

/* What a read fetches. */
enum engine_read_kind {
    ENGINE_READ_FIND, /* storage_find(id)   -> timer */
    ENGINE_READ_SCAN, /* storage_scan(scan) -> page  */
};

struct engine_read {
    struct list link; /* the holder's */
    enum engine_read_kind kind;
    struct timer_id id;
    struct storage_scan scan;
    /* Filled in by who reads; the engine takes the timers. */
    enum error_code result;
    struct timer *timer;
    struct storage_page page;
    struct command *command_; /* the engine's: whom it serves, or NULL */
    uint64_t ticket_;         /* the engine's: of the stand-in that waits for it */
};

/* Counts since creation, and what is now. */
struct engine_stats {
    uint64_t created, fired, cancelled, dead, attempts_failed, attempts;
    uint64_t pending;          /* live timers, on disk and in memory */
    uint64_t in_memory;        /* timers in memory now */
    uint64_t near_bytes;       /* their footprint */
    uint64_t inflight;         /* deliveries out */
    uint64_t waiting;          /* due, waiting for room at their target */
    uint64_t spilled;          /* due, put back to the storage because their target had no room */
    uint64_t storage_failures; /* batches and reads that failed */
    struct wall
        oldest_overdue; /* the due time of the timer that is late by most; 0: none is late */
    struct wall watermark;
    struct wall frontier; /* all due before it are in memory */
};

/* `meta` is what the storage holds, with its epoch already raised and durable. Recovery begins at
 * once: it asks for the first read. NULL when out of memory. */
struct engine *engine_create(const struct engine_options *options, const struct storage_meta *meta,
                             struct wall now);

/* Frees it with every timer in memory. Whatever it lent must be back or be never used again. */
void engine_destroy(struct engine *engine);

/* ---- what happened ---- */

void engine_submit(struct engine *engine, struct wall now, struct command *command);

/* Time passed. Call at engine_wake_at, when the clock has stepped back, and whenever it suits. */
void engine_advance(struct engine *engine, struct wall now);

/* `batch->result` says how it went; the engine takes it back. */
void engine_committed(struct engine *engine, struct wall now, struct storage_batch *batch);

void engine_read_done(struct engine *engine, struct wall now, struct engine_read *read);

void engine_delivered(struct engine *engine, struct wall now, struct delivery *delivery);

/* Begin no new delivery; those that are out may come back. For a clean stop. */
void engine_drain(struct engine *engine);

/* ---- what to do ---- */

/* All writes since the last call as one batch; NULL when there are none. */
struct storage_batch *engine_take_batch(struct engine *engine);
struct engine_read *engine_take_read(struct engine *engine);
struct delivery *engine_take_delivery(struct engine *engine);
struct command *engine_take_reply(struct engine *engine);

/* When to call engine_advance next; WALL_NEVER when only an event can change something. */
struct wall engine_wake_at(const struct engine *engine);

/* ---- questions ---- */

/* Recovery has read its first page: the storage answers, and what is overdue is being delivered. */
bool engine_is_ready(const struct engine *engine);

/* Nothing is out: no batch, read or delivery is awaited. */
bool engine_is_idle(const struct engine *engine);

void engine_stats(const struct engine *engine, struct engine_stats *ret_stats);

/* For tests: aborts unless every invariant holds. O(timers in memory). */
void engine_check(const struct engine *engine);

#endif
