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
#include "plan.h"

struct world;
struct op;

/* What a request in flight does to the timers that it is about. */
struct change {
    enum command_kind kind; /* PATCH, TOUCH, PUT, CANCEL, FIRE, PAUSE, RESUME, REDRIVE, or none */
    uint32_t fields;        /* of a patch */
    struct content content;
    uint32_t if_version;
    struct wall until; /* of a pause, with its note; 0: none */
    uint32_t note;
};

/* The last row that became durable. */
struct sim_row {
    bool is_stored; /* not trimmed */
    bool is_gone;   /* a dead letter that was forgotten */
    struct content content;
    struct firings firings;
    struct wall at, ended;
    struct wall paused; /* with its note */
    struct wall failing;
    uint32_t note;
    enum timer_state state;
    uint32_t version, attempts;
    uint64_t written_ms;   /* true time */
    uint64_t written_step; /* when its place or state changed last */
    uint64_t ended_step;   /* when it was over; 0 while it lives */
    uint64_t changed_step; /* when it was written last */
    size_t told_index;     /* how often the engine had been told the time */
};

/* What the row was at each version. */
struct version {
    uint32_t version;
    enum timer_state state;
    struct content content;
    uint64_t firings_sum;
};

enum twin_life {
    TWIN_ASKED,   /* its create is in flight */
    TWIN_DURABLE, /* it has a row, or had one */
    TWIN_NEVER,   /* its create was refused, or died in a crash */
};

enum { CHANGES_MAX = 4 };

struct twin {
    uint32_t number; /* 1, 2, ... in this run */
    uint16_t partition;
    enum twin_life life;
    bool is_acknowledged;
    bool is_forget_asked; /* a client wanted it forgotten, dead or not */
    bool is_damaged; /* its record was damaged on purpose: nothing is promised until it is rewritten
                      */
    bool was_damaged;
    bool has_lost_names; /* redriven after its names could be forgotten: another may have them */
    bool is_in_doubt;    /* in a copy of doubts.c: a batch of that append writes it */
    struct timer_id id;  /* when durable */
    struct content asked;
    struct sim_row row;
    struct version *versions;
    size_t version_count, version_capacity;
    uint32_t event_version; /* the newest of its events */
    uint32_t told_version;  /* the newest that the engine knows to be durable */
    uint64_t told_step;     /* when the engine first knew it to be durable; 0: not yet */
    uint64_t put_step;      /* when it was replaced last */
    uint64_t live_step;     /* since when it lives: made, or redriven */
    uint32_t change_count;  /* requests on its id in flight */
    /* Delivery. */
    bool is_out;
    uint64_t out_step;   /* the step at which it went out last, */
    struct wall out_at;  /* the time then by its engine, */
    struct wall out_due; /* when it was due as it was delivered, */
    uint64_t out_epoch;  /* and whose life that was */
    bool was_given_back; /* and then it came back unseen */
    bool has_outcome;    /* handed to the engine, not yet durable */
    struct delivery_outcome outcome;
    struct wall outcome_at;
    bool is_spilled;        /* put back for want of room, and not written since */
    uint64_t busy_step;     /* the last step at which it was out, or had an outcome */
    uint64_t end_passed_ms; /* passed_ms when it was over, or a little before */
    struct wall told_due;   /* of its firing that was told to be given up last */
    uint64_t calm_ms;       /* since when nothing happened to it, true time */
    uint32_t received;      /* how often the receiver took it */
};

/* The times that an engine was told, in order. */
struct told {
    struct wall *nows;
    size_t count, capacity;
};

/* The row that was written last says that a firing is over; the next row must report it. */
struct awaited {
    struct twin *of; /* NULL: no report is awaited */
    struct firing firing;
    const char *error;
    uint8_t target; /* on_dead or on_success */
};

struct sim_model {
    struct twin **twins;
    size_t count, capacity;
    size_t report_count; /* of the twins, those of reports */
    struct awaited awaited;
    const struct timer *next_row;         /* while a batch is written: of its next write; or NULL */
    struct map by_serial[PARTITIONS_MAX]; /* those that are durable, or were */
    struct told told[PARTITIONS_MAX];
    uint32_t token;                            /* the last one used */
    bool is_doubtful;                          /* the rows at hand are those of a failed batch */
    struct storage_meta metas[PARTITIONS_MAX]; /* durable */
    /* What each partition was told of the time: the latest, the last, and how much passed, back
     * steps not taken off. */
    struct wall now_max[PARTITIONS_MAX], now_last[PARTITIONS_MAX];
    uint64_t passed_ms[PARTITIONS_MAX];
};

/* Whether it was out, or had an outcome that was not durable, at some time since that step. */
static inline bool twin_was_busy(const struct twin *twin, uint64_t step)
{
    return twin->is_out || twin->has_outcome || twin->busy_step >= step;
}

void model_init(struct sim_model *model);
void model_deinit(struct sim_model *model);

/* A create of `content` is about to be submitted. */
struct twin *model_ask(struct world *world, uint16_t partition, const struct content *content);

/* The twin of a timer that came out of the engine; a stranger or another id breaks a promise. */
struct twin *model_twin_of(struct world *world, uint16_t partition, const struct timer *timer);

/* The twin that has this id; NULL when none has. */
struct twin *model_find(const struct world *world, const struct timer_id *id);

/* Whether it lived at some time since that step. */
static inline bool twin_lived_since(const struct twin *twin, uint64_t step)
{
    return twin->life == TWIN_DURABLE && (!twin->row.ended_step || twin->row.ended_step >= step);
}

/* The batch is durable; called once for each, in order. Nothing may be wrong with it. */
void model_durable(struct world *world, const struct storage_batch *batch);

/* The engine was told so. */
void model_told(struct world *world, const struct storage_batch *batch);

/* The process died: requests and deliveries in flight are gone. */
void model_crash(struct world *world);

/* One partition was stopped cleanly: its requests and deliveries in flight are gone. */
void model_restart(struct world *world, uint16_t partition);

/* The storage holds what the twins say, row by row. */
void model_compare(struct world *world);

/* What the row was at that version; NULL when no such version was ever durable. */
const struct version *model_version(const struct twin *twin, uint32_t version);

static inline bool twin_is_live(const struct twin *twin)
{
    return twin->life == TWIN_DURABLE && twin->row.is_stored && !timer_is_final(twin->row.state);
}

/* A report of it may be made, and counted, that is not durable yet. */
static inline bool twin_may_report(const struct twin *twin)
{
    return twin_is_live(twin) && (twin->row.content.on_dead || twin->row.content.on_success);
}

/* When the timer is to act: a spilled timer as soon as its dispatch queue has room, wherever its
 * row is; a row that a wrong clock placed where no back-off can, at once. */
struct wall model_acts_at(const struct world *world, const struct twin *twin);

/* The partition is told the time. */
void model_tell_time(struct sim_model *model, uint16_t partition, struct wall now);

/* Whether the final state of a timer that is over has been kept for long enough. */
bool model_may_forget(const struct world *world, const struct twin *twin);

/* And for the timer to be told by its names. */
bool model_may_forget_names(const struct world *world, const struct twin *twin);

/* How many live rows the partition has; `ret_damaged` how many of its timers were ever damaged. */
uint64_t model_live_count(const struct sim_model *model, uint16_t partition, uint64_t *ret_damaged);

/* The most that the engine may count: with those whose create is in flight, and the damaged. */
uint64_t model_pending_max(const struct sim_model *model, uint16_t partition);

/* ---- claims.c: which timer holds a key, and which an Idempotency-Key
 *
 * At most one live timer holds a key. A repeated Idempotency-Key is answered with the timer of the
 * first request and creates none while that timer is known, also after a crash. ---- */

/* A row of the twin became durable: no other live timer may hold its names. */
void claims_written(struct world *world, const struct twin *twin, bool is_new);

/* The i-th timer of a create, or a put, met the holder of its name: equal to it, or in conflict
 * with it. */
void claims_judge_met(struct world *world, struct op *op, size_t i, enum error_code error);

/* The i-th timer of a create is `made`, or NULL if none was made. If an equal request was matched
 * with this timer, the two are exchanged. */
struct twin *claims_settle(struct world *world, struct op *op, size_t i, const struct twin *made);

/* The timer that a call by key met; NULL if it met none and none held the key. */
struct twin *claims_judge_named(struct world *world, struct op *op);

/* ---- doubts.c: appends that failed and are in the log nevertheless
 *
 * Nobody sees them but a start after a crash, and the next write removes them. When one fails, the
 * model takes its rows while the requests for them are in flight, keeps a copy of itself, and goes
 * back. After the crash it has the rows of the copy. ---- */

/* What the model knows at some time. */
struct model_copy {
    struct twin *twins; /* in the order of the model's */
    size_t count;
    struct storage_meta metas[PARTITIONS_MAX];
};

struct doubts {
    struct model_copy before;                /* valid if count is not 0 */
    struct model_copy after[PARTITIONS_MAX]; /* each append, in the order of the log */
    size_t count;
};

/* The batches of some appends follow, each with doubts_add. doubts_keep ends each append, and
 * doubts_put_back all of them. */
void doubts_begin(struct world *world);
void doubts_add(struct world *world, const struct storage_batch *batch);
void doubts_keep(struct world *world);
void doubts_put_back(struct world *world);

/* A write has removed them. */
void doubts_end(struct world *world);

/* The process died: the first `kept` of them are durable. */
void doubts_crash(struct world *world, size_t kept);

#endif
