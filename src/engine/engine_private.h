/*
 * engine_private.h - the inside of an engine, shared by its files.
 *
 *   engine.c     life, effects, clock steps, statistics, the check
 *   planner.c    commands: create, get, patch, cancel, list
 *   writer.c     batches: what is being made durable, and what follows when it is
 *   scheduler.c  the wheel over the window, reading ahead, the watermark
 *   lanes.c      due timers, queued by target, and their deliveries
 *   outcome.c    what an answer of a target means for the timer
 *   retry.c      the back-off
 *
 * A timer in memory is in the map and in exactly one phase:
 *
 *     FINDING ──read──► settle
 *     settle: RESTING when it lives and lies before the frontier, else LINGERING
 *     RESTING ──due──► WAITING ──room──► OUT ──outcome──► WRITING ──durable──► settle
 *     RESTING, WAITING, LINGERING ──command──► WRITING
 *     LINGERING ──no read ahead is out──► forgotten (the storage has it)
 *
 * A timer lingers while a read ahead is out because that read may return its row as it was before:
 * the map entry is what tells the stale row apart.
 */
#ifndef TICKWHEEL_ENGINE_ENGINE_PRIVATE_H
#define TICKWHEEL_ENGINE_ENGINE_PRIVATE_H

#include "base/map.h"
#include "base/random.h"
#include "engine/engine.h"
#include "engine/retry.h"
#include "tickwheel/wheel.h"

enum phase {
    PHASE_NONE,      /* not in the map */
    PHASE_FINDING,   /* a stand-in: its row is being read; on `busy` */
    PHASE_WRITING,   /* a batch carries it, nobody changes it; on `busy` */
    PHASE_RESTING,   /* in the wheel; on no list */
    PHASE_WAITING,   /* due; on its lane's list */
    PHASE_OUT,       /* being delivered, lent; on `busy` */
    PHASE_LINGERING, /* durable and not needed; on `lingering` */
};

enum timer_flag {
    FLAG_COUNTED = 1 << 0, /* its footprint is in near_bytes */
};

/* Why a write was made: what to do when it is durable, and when it failed. */
enum write_purpose {
    WRITE_CREATE,
    WRITE_PATCH,
    WRITE_CANCEL,
    WRITE_OWN, /* the engine's own change: written again until it is durable */
};

struct write_note {
    enum write_purpose purpose;
    struct command *command; /* NULL with OWN */
    struct timer *old;       /* PATCH, CANCEL: the timer that the new one replaces */
};

/* What engine_take_batch lends out, with the engine's notes behind it. */
struct engine_batch {
    struct storage_batch batch;
    struct write_note *notes;
};

/* Due timers of one origin, and how many of its deliveries are out. */
struct lane {
    struct list waiting; /* timers, first due first */
    struct list link;    /* on `ready` while it has timers waiting and room */
    uint64_t origin;     /* its key */
    uint32_t inflight;
    size_t waiting_bytes;
};

struct engine {
    struct engine_options options;
    struct wall now;
    struct random random;
    uint64_t epoch, counter;
    uint64_t tickets; /* reads of one timer so far */

    struct map timers; /* serial -> timer: all that is in memory */
    struct list busy;  /* finding, writing, out */
    struct list lingering;
    struct list gone;       /* timers to free at the next call: a reply may still show them */
    struct list gone_reads; /* the same for pages */

    /* scheduler.c */
    struct tw_wheel *wheel;
    struct storage_position frontier;    /* all live rows before it are in memory */
    struct storage_position reading_to;  /* the same once the read ahead that is out is back */
    struct storage_position pulled_back; /* the frontier must go back here when it is */
    bool is_reading;
    bool is_ready;
    struct wall read_not_before; /* after a failed read */
    struct wall watermark, trim;
    struct wall watermark_at; /* when to write it next, if it is stale */
    bool watermark_is_stale;  /* rows changed since it was written */
    struct wall sample;       /* what the watermark was ... */
    struct wall sampled_at;   /* ... then: when that is retain_ms ago, it becomes the trim */
    struct wall over_max; /* the last position of a final record: beyond it is nothing to trim */

    /* lanes.c */
    struct map lanes; /* origin -> lane */
    struct list ready;
    size_t waiting_bytes; /* of all lanes */
    uint32_t inflight;
    bool is_draining;

    /* writer.c */
    struct storage_write *writes; /* of the next batch; notes[i] belongs to writes[i] */
    struct write_note *notes;
    size_t write_count, write_capacity;
    struct list rewrites; /* timers whose own write failed */
    struct wall rewrite_at;
    size_t batches_out;
    bool meta_wanted;               /* a batch is due even without writes */
    struct storage_meta meta_taken; /* as the last batch had it; all zero after a failure */

    /* effects to be taken */
    struct list reads, deliveries, replies;
    size_t reads_out;

    struct engine_stats stats;
};

/* ---- engine.c ---- */

/* Begins a call: frees what the last call left, and takes in the time with its steps. */
void engine_begin(struct engine *engine, struct wall now);

/* Ends a call: forgets what lingers, delivers, reads ahead, writes the watermark. */
void engine_end(struct engine *engine);

/* Puts a timer that is at rest and durable where it belongs, then lets its waiting commands go on.
 */
void engine_settle(struct engine *engine, struct timer *timer);

/* Takes a timer out of the map; it is freed at the next call. */
void engine_forget(struct engine *engine, struct timer *timer);

void engine_count(struct engine *engine, struct timer *timer);   /* into near_bytes */
void engine_uncount(struct engine *engine, struct timer *timer); /* out of it */

/* ---- planner.c ---- */

void planner_start(struct engine *engine, struct command *command);
void planner_reply(struct engine *engine, struct command *command, enum error_code error,
                   const struct timer *timer);

/* Starts again, in order, the commands that waited for this timer. */
void planner_resume(struct engine *engine, struct timer *timer);

/* Answers them all with an error instead. */
void planner_fail_waiters(struct engine *engine, struct timer *timer, enum error_code error);

/* The timer for which the stand-in kept the place takes it, with the commands that wait; the
 * stand-in goes. The timer has taken its place in the map already. */
void planner_stands_in(struct engine *engine, struct timer *stand_in, struct timer *timer);

/* The read that a command waited for. */
void planner_found(struct engine *engine, struct engine_read *read);
void planner_listed(struct engine *engine, struct engine_read *read);

/* ---- writer.c ---- */

/* Adds the timer's present state to the next batch; it is in phase WRITING until that is settled.
 * False when out of memory: nothing changed. */
bool writer_add(struct engine *engine, struct timer *timer, struct write_note note);

/* The same for a change of the engine's own, which is tried until it succeeds. */
void writer_add_own(struct engine *engine, struct timer *timer);

void writer_retry(struct engine *engine);

/* ---- scheduler.c ---- */

bool scheduler_is_near(const struct engine *engine, const struct timer *timer);
void scheduler_rest(struct engine *engine, struct timer *timer);   /* into the wheel */
void scheduler_unrest(struct engine *engine, struct timer *timer); /* out of wheel or lane */
void scheduler_expire(struct engine *engine);
void scheduler_read_ahead(struct engine *engine);
void scheduler_loaded(struct engine *engine, struct engine_read *read);
void scheduler_watermark(struct engine *engine);
void scheduler_clock_went_back(struct engine *engine);
struct wall scheduler_wake_at(const struct engine *engine);

/* A row at `at` was written: keeps watermark and trim at or before it. */
void scheduler_wrote(struct engine *engine, const struct timer *timer);

/* ---- lanes.c ---- */

void lanes_add(struct engine *engine, struct timer *timer);    /* it is due */
void lanes_remove(struct engine *engine, struct timer *timer); /* it is WAITING */
void lanes_dispatch(struct engine *engine);
void lanes_returned(struct engine *engine, struct timer *timer);
void lanes_clock_went_back(struct engine *engine);
void lanes_deinit(struct engine *engine);

/* The earliest position of all timers that wait; WALL_NEVER when none does. */
struct wall lanes_oldest(const struct engine *engine);

/* ---- outcome.c ---- */

void outcome_apply(struct engine *engine, struct timer *timer, uint32_t attempt,
                   const struct delivery_outcome *outcome);

/* A timer is due that has no attempt left: a patch took them away. */
void outcome_exhausted(struct engine *engine, struct timer *timer);

static inline struct timer *timer_of(struct list *link)
{
    return list_item(link, struct timer, private_.link);
}

static inline struct storage_position position_of(const struct timer *timer)
{
    return (struct storage_position){timer->at, timer->id.serial};
}

#endif
