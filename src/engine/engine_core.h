/*
 * engine_core.h - what every module of an engine shares: options, the time of the turn, and the
 * modules themselves, which are opaque to each other.
 *
 *   engine      turns, life, clock steps, statistics, the check
 *   commands    create, get, patch, cancel, list, explain, forecast
 *   lookup      commands that name their timers: keys, Idempotency-Keys, events, labels
 *   reload      spilled timers, read again as soon as their dispatch queue has room
 *   dispatch    due timers by target, their deliveries, leases and rates
 *   spill       where timers are put for which there is no room
 *   fanout      timers with several targets: their parts, and how these stand
 *   outcome     what an answer of a target means for the timer, and the report of it
 *   window      the wheel over the near future and the frontier of reading ahead
 *   dead        dead letters: where they lie, how much they take, and when they go
 *   second_scan overdue rows that no phase knows, and rows whose time zone is missing
 *   watermark   where rows lie: the bounds that each batch carries
 *   commit      batches of changes
 *   entries     the timers in memory and their phases
 *
 * A module owns its state, calls modules below it in this list, and is told nothing by them: what
 * they have to report they return, or keep until it is asked for. tests/tidy holds that order.
 * Below entries: recent (timers that left memory, by their keys), live (counts of live timers).
 * Beside them, and below all: effects (what the caller is to do), tenant (how many may live),
 * history (what made deliveries late), position (what a timer's place says), ledger (rows that were
 * taken from sources), budget (the places in flight, which engines may share).
 */
#ifndef TICKWHEEL_ENGINE_ENGINE_CORE_H
#define TICKWHEEL_ENGINE_ENGINE_CORE_H

#include "base/random.h"
#include "engine/engine.h"

struct engine {
    struct engine_options options;
    struct wall now;     /* time of the current or last turn */
    struct wall started; /* time at which the engine was made */
    bool is_in_turn;
    bool is_draining; /* engine_drain was called: no delivery and no read ahead begins */
    bool is_held;     /* maintenance: no delivery begins in the current or last turn */
    struct wall held_began, held_ended; /* bounds of the last maintenance; 0 if there was none */
    bool was_dead_scan;                 /* whether the last scan was for dead letters */
    uint64_t epoch;                     /* epoch of ids, deliveries and batches */
    uint64_t serials;                   /* number of timers made in this epoch */
    struct random random;
    uint32_t notes_lost; /* number of ends of parts that could not be noted (fanout.h) */
    /* paused queues and targets as of the current or last turn; NULL if there are none */
    struct target_pauses *pauses;
    /* reset targets as of the current or last turn; NULL if there are none */
    struct target_pauses *resets;
    uint64_t pauses_version;
    /* definitions as of the current or last turn; NULL if there are none */
    struct definitions *definitions;
    uint64_t definitions_version; /* that of the board */
    /* calendars of holidays as of the current or last turn; NULL if there are none */
    struct calendars *calendars;
    uint64_t calendars_version;
    struct engine_stats stats; /* counters; the modules fill in the gauges */

    struct commands *commands;
    struct lookup *lookup;
    struct reload *reload;
    struct dispatch *dispatch;
    struct spill *spill;
    struct window *window;
    struct dead *dead;
    struct second_scan *second_scan;
    struct watermark *watermark;
    struct commit *commit;
    struct entries *entries;
    struct effects *effects;
    struct history *history;
    struct ledger *ledger;
};

#endif
