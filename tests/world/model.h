/*
 * model.h - a twin of each timer that is too simple to be wrong: its requests and its durable
 * state.
 *
 * The simulated disk tells the model each row that became durable. The model demands that the row
 * follows from the one before by a request that is in flight or by an outcome that was handed in,
 * and keeps it. So after a crash nothing is in doubt: the rows on disk are the truth.
 */
#ifndef TICKWHEEL_WORLD_MODEL_H
#define TICKWHEEL_WORLD_MODEL_H

#include "base/map.h"
#include "content.h"
#include "engine/engine.h"
#include "firings.h"
#include "timer/awaits.h"
#include "timer/fanout.h"
#include "plan.h"

struct world;
struct op;

/* Change that a request in flight makes to its timers. */
struct change {
    enum command_kind kind; /* PATCH, TOUCH, PUT, CANCEL, FIRE, PAUSE, RESUME, REDRIVE, or none */
    uint32_t fields;        /* fields of a patch */
    struct content content;
    uint32_t if_version;
    struct wall until; /* end of a pause, which also has a note; 0 for none */
    uint32_t note;
};

/* How the parts of a timer with several targets stand. */
struct fan_row {
    bool is_begun;       /* whether they are made */
    struct wall started; /* time at which they were made */
    struct twin *parts[FAN_MAX];
    struct timer_id ids[FAN_MAX];
    enum fanout_state states[FAN_MAX];
};

/* The last row that became durable. */
struct sim_row {
    bool is_stored; /* not trimmed */
    bool is_gone;   /* whether it was a dead letter that was forgotten */
    struct content content;
    struct firings firings;
    struct fan_row fan;
    char awaits[AWAITS_TEXT_SIZE + 1]; /* while it is DELIVERING; otherwise empty */
    struct wall at, ended;
    struct wall paused; /* time at which it was paused, with a note */
    struct wall failing;
    uint32_t note;
    enum timer_state state;
    uint32_t version, attempts;
    uint64_t written_ms;   /* true time */
    uint64_t written_step; /* step of the last change of its place or state */
    uint64_t ended_step;   /* step at which it ended; 0 while it lives */
    uint64_t changed_step; /* step of the last write */
    size_t told_index;     /* number of times that the engine had been told by then */
};

/* Content of the row at one version. */
struct version {
    uint32_t version;
    enum timer_state state;
    struct content content;
    uint64_t firings_sum;
};

enum twin_life {
    TWIN_ASKED,   /* its create is in flight */
    TWIN_DURABLE, /* it has a row, or had one */
    TWIN_NEVER,   /* its create was refused, or lost in a crash */
};

enum { CHANGES_MAX = 4 };

struct twin {
    uint32_t number; /* number of the timer in this run, from 1 */
    uint16_t partition;
    enum twin_life life;
    bool is_acknowledged;
    bool is_forget_asked; /* whether a client asked to forget it, dead or not */
    bool is_damaged; /* its record was damaged on purpose: nothing is promised until it is rewritten
                      */
    bool was_damaged;
    /* whether it was redriven after its names could be forgotten: another timer may have them */
    bool has_lost_names;
    bool is_in_doubt;   /* in a copy of doubts.c: whether a batch of that append writes it */
    struct timer_id id; /* when durable */
    struct content asked;
    struct sim_row row;
    struct version *versions;
    size_t version_count, version_capacity;
    uint32_t event_version; /* newest version of which an event was seen */
    uint32_t told_version;  /* newest version that the engine knows to be durable */
    /* step at which the engine first knew the timer to be durable; 0 if it does not */
    uint64_t told_step;
    uint64_t put_step;     /* step at which it was last replaced */
    uint64_t live_step;    /* step since which it lives: created, or redriven */
    uint32_t change_count; /* number of requests on its id in flight */
    /* Delivery. */
    bool is_out;
    uint64_t out_step;                 /* step of the last delivery */
    struct wall out_at;                /* time by its engine at that step */
    struct wall out_due;               /* due time of that delivery */
    uint8_t out_flow;                  /* its flow then */
    char token[AWAITS_TOKEN_SIZE + 1]; /* token of the last delivery */
    uint64_t out_epoch;                /* epoch of the engine that began it */
    bool was_given_back; /* whether that delivery came back without having been sent */
    bool has_outcome;    /* whether the outcome was handed to the engine, and is not durable yet */
    struct delivery_outcome outcome;
    struct wall outcome_at;
    uint32_t parted_version; /* version at which its parts ended it as cancelled; 0 for none */
    bool is_spilled;         /* whether it was put back for want of room, and not written since */
    uint64_t busy_step;      /* last step at which it was out, or had an outcome */
    uint64_t end_passed_ms;  /* passed_ms when it ended, or a little less */
    struct wall told_due;    /* due time of the last firing that was reported as given up */
    uint64_t calm_ms;        /* true time since which nothing has happened to it */
    uint32_t received;       /* number of times that the receiver accepted the delivery */
};

/* The times that an engine was told, in order. */
struct told {
    struct wall *nows;
    size_t count, capacity;
};

/* A firing that has ended, or has begun as a timer of its own, by the row that was written last:
 * the next row must be its report, or that timer. */
struct awaited {
    struct twin *of; /* twin whose firing it is; NULL if nothing is awaited */
    /* number of timers that the engine made with the row, and that follow: a firing, or parts; then
     * the fields below are not set. 0 for a report */
    size_t made_left;
    struct firing firing;
    const char *error;
    uint8_t target; /* on_dead or on_success */
};

struct sim_model {
    struct twin **twins;
    size_t count, capacity;
    size_t made_count; /* number of twins that the engine made: reports and firings */
    struct awaited awaited;
    const struct timer *next_row; /* next write of the batch that is being written; or NULL */
    struct map by_serial[PARTITIONS_MAX]; /* twins that are durable, or were */
    struct told told[PARTITIONS_MAX];
    uint32_t token;   /* last token that was used */
    bool is_doubtful; /* whether the rows at hand are those of a failed batch */
    struct storage_meta metas[PARTITIONS_MAX]; /* durable */
    /* Times that each partition was told: the latest and the last. And how much time passed by
     * them, not counting steps back. */
    struct wall now_max[PARTITIONS_MAX], now_last[PARTITIONS_MAX];
    uint64_t passed_ms[PARTITIONS_MAX];
};

/* True if parts of it are open, so that it is being delivered. */
static inline bool twin_is_parted(const struct twin *twin)
{
    return twin->row.fan.is_begun && !timer_is_final(twin->row.state);
}

/* True if it was out, or had an outcome that was not durable, at some time since that step. */
static inline bool twin_was_busy(const struct twin *twin, uint64_t step)
{
    return twin->is_out || twin->has_outcome || twin_is_parted(twin) ||
           twin->row.state == TIMER_DELIVERING || twin->busy_step >= step;
}

void model_init(struct sim_model *model);
void model_deinit(struct sim_model *model);

/* Adds a twin for a create of `content`, which is submitted next. */
struct twin *model_ask(struct world *world, uint16_t partition, const struct content *content);

/* Returns the twin of a timer that the engine has given out. An unknown timer, or another id,
 * breaks a promise. */
struct twin *model_twin_of(struct world *world, uint16_t partition, const struct timer *timer);

/* Returns the twin with this id; NULL if there is none. */
struct twin *model_find(const struct world *world, const struct timer_id *id);

/* True if it lived at some time since that step. */
static inline bool twin_lived_since(const struct twin *twin, uint64_t step)
{
    return twin->life == TWIN_DURABLE && (!twin->row.ended_step || twin->row.ended_step >= step);
}

/* Takes a batch that is durable, and checks it. Called once for each, in order. */
void model_durable(struct world *world, const struct storage_batch *batch);

/* Notes that the engine knows that the batch is durable. */
void model_told(struct world *world, const struct storage_batch *batch);

/* The process died: drops requests and deliveries in flight. */
void model_crash(struct world *world);

/* One partition was stopped cleanly: drops its requests and deliveries in flight. */
void model_restart(struct world *world, uint16_t partition);

/* Checks that the storage has what the twins say, row by row. */
void model_compare(struct world *world);

/* Returns the content of the row at that version; NULL if no such version was ever durable. */
const struct version *model_version(const struct twin *twin, uint32_t version);

static inline bool twin_is_live(const struct twin *twin)
{
    return twin->life == TWIN_DURABLE && twin->row.is_stored && !timer_is_final(twin->row.state);
}

/* True if the engine may have counted a report of the timer that is not durable yet. */
static inline bool twin_may_report(const struct twin *twin)
{
    return twin_is_live(twin) && (twin->row.content.on_dead || twin->row.content.on_success);
}

/* True if the engine may have counted a firing of the timer that is not durable yet. */
static inline bool twin_may_begin(const struct twin *twin)
{
    return twin_is_live(twin) && twin->row.content.rhythm.is_apart;
}

/* Returns the most timers that the engine may have counted for the parts of the timer, and for
 * itself when one of them lives again, that are not durable yet. */
static inline size_t twin_may_part(const struct twin *twin)
{
    return twin->life == TWIN_DURABLE && twin->row.is_stored && twin->row.content.fan_count
               ? twin->row.content.fan_count + 1u
               : 0;
}

/* Returns when the timer acts. A spilled timer acts as soon as its dispatch queue has room,
 * whatever its position. A row whose position no back-off explains, because of a wrong clock, acts
 * at once. */
struct wall model_acts_at(const struct world *world, const struct twin *twin);

/* Notes that the partition is told the time. */
void model_tell_time(struct sim_model *model, uint16_t partition, struct wall now);

/* True if the final state of a timer that has ended has been kept for long enough. */
bool model_may_forget(const struct world *world, const struct twin *twin);

/* True if the names of a timer that has ended have been kept for long enough. */
bool model_may_forget_names(const struct world *world, const struct twin *twin);

/* Returns the number of live rows of the partition. `ret_damaged` is the number of its timers that
 * were ever damaged. */
uint64_t model_live_count(const struct sim_model *model, uint16_t partition, uint64_t *ret_damaged);

/* Returns the highest number of live timers that the engine may count: it includes creates in
 * flight, and damaged timers. */
uint64_t model_pending_max(const struct sim_model *model, uint16_t partition);

/* Fails, because the row is wrong for the reason `what`. */
_Noreturn void model_wrong(struct world *world, const struct twin *twin, const struct timer *timer,
                           const char *what);

/* True if the timer is where its next firing begins, after one that started then and ended now. A
 * start of 0 means that there was no attempt. */
bool model_is_placed(const struct rhythm *rhythm, const struct timer *timer, struct wall now,
                     struct wall started);

/* Demands that the next row reports the end of the firing, if the timer asks for reports. */
void model_await_report(struct world *world, struct twin *twin, const struct firing *firing,
                        const char *error);

/* ---- made.c: timers that the engine makes: firings that may overlap, and parts of timers with
 * several targets
 *
 * They are durable in one batch with the row of their timer. A timer with parts is over if and only
 * if they are, and says of each only what is durable. ---- */

/* Checks a row that timers which the engine makes explain: it begins a firing or parts, or a
 * part is over. Returns false if they do not explain it. */
bool made_explains(struct world *world, struct twin *twin, const struct timer *timer);

/* Returns the twin of a timer that the engine has made, from its first row. */
struct twin *made_take(struct world *world, uint16_t partition, const struct timer *timer);

/* True if a call on the timer of this part may have changed it: a cancel, or a redrive. */
bool made_could_be_by_parent(struct world *world, const struct twin *twin,
                             const struct timer *timer, struct content *ret_content);

/* ---- claims.c: which timer holds a key, and which an Idempotency-Key
 *
 * At most one live timer holds a key. A repeated Idempotency-Key is answered with the timer of the
 * first request and creates none while that timer is known, also after a crash. ---- */

/* Checks a row that has become durable: no other live timer has its names. */
void claims_written(struct world *world, const struct twin *twin, bool is_new);

/* Checks that the i-th timer of a create, or a put, found the holder of its name: equal to it, or
 * in conflict with it. */
void claims_judge_met(struct world *world, struct op *op, size_t i, enum error_code error);

/* Decides that the i-th timer of a create is `made`, or NULL if none was made. If an equal request
 * was matched with this timer, the two are exchanged. */
struct twin *claims_settle(struct world *world, struct op *op, size_t i, const struct twin *made);

/* Returns the timer that a call by key found; NULL if it found none. Checks that none had the key
 * then. */
struct twin *claims_judge_named(struct world *world, struct op *op);

/* ---- doubts.c: appends that failed and are in the log nevertheless
 *
 * Nobody sees them but a start after a crash, and the next write removes them. When one fails, the
 * model takes its rows while the requests for them are in flight, keeps a copy of itself, and goes
 * back. After the crash it has the rows of the copy. ---- */

/* A copy of the model at some time. */
struct model_copy {
    struct twin *twins; /* twins in the order of the model's */
    size_t count;
    struct storage_meta metas[PARTITIONS_MAX];
};

struct doubts {
    struct model_copy before;                /* valid if count is not 0 */
    struct model_copy after[PARTITIONS_MAX]; /* model after each append, in the order of the log */
    size_t count;
};

/* Begins a list of failed appends. Their batches follow by doubts_add. doubts_keep ends each
 * append, and doubts_put_back the list. */
void doubts_begin(struct world *world);
void doubts_add(struct world *world, const struct storage_batch *batch);
void doubts_keep(struct world *world);
void doubts_put_back(struct world *world);

/* A write has removed the failed appends from the log: forgets them. */
void doubts_end(struct world *world);

/* The process died: the first `kept` of the failed appends are durable. */
void doubts_crash(struct world *world, size_t kept);

#endif
