/*
 * engine_private.h - the inside of an engine, shared by its files.
 *
 *   engine.c     life, effects, clock steps, statistics, the check
 *   planner.c    commands: create, get, patch, cancel, list
 *   handover.c   from a partition's engine to its next one
 *   names.c      commands that name their timers: keys, Idempotency-Keys, watched events
 *   tenant.c     whose timers a command may see, and how many one tenant may have
 *   entries.c    the timers in memory, and their phases
 *   writer.c     batches: what is being made durable, and what follows when it is
 *   scheduler.c  the wheel over the window, reading ahead, the watermark
 *   lanes.c      due timers, queued by target, and their deliveries
 *   pull.c       lanes of the built-in queue, which send only what is asked for
 *   refill.c     spilled timers, called in as soon as their lane has room
 *   explain.c    where a timer is and what makes it late, for whoever asks
 *   forecast.c   how many are due in the time to come
 *   history.c    what made the last deliveries late
 *   pace.c       at most so many a second
 *   outcome.c    what an answer of a target means for the timer
 *   retry.c      the back-off
 *
 * The phases of a timer in memory stand in entries.h.
 */
#ifndef TICKWHEEL_ENGINE_ENGINE_PRIVATE_H
#define TICKWHEEL_ENGINE_ENGINE_PRIVATE_H

#include "base/map.h"
#include "base/random.h"
#include "engine/engine.h"
#include "engine/entries.h"
#include "engine/history.h"
#include "engine/pace.h"
#include "timer/queue_target.h"
#include "timer/retry.h"
#include "tickwheel/wheel.h"

/* Why a write was made: what to do when it is durable, and when it failed. */
enum write_purpose {
    WRITE_CREATE,
    WRITE_PATCH,
    WRITE_TOUCH, /* a patch of due and version alone */
    WRITE_CANCEL,
    WRITE_REDRIVE,
    WRITE_OWN, /* the engine's own change: written again until it is durable */
};

struct write_note {
    enum write_purpose purpose;
    struct command *command; /* NULL with OWN */
    struct entry *entry;
};

/* A name that a create is about to take: it looks whether it is free and then writes, and nobody
 * else may do that in between. */
struct name_lock {
    uint64_t hash;
    struct list waiters; /* creates that come next */
};

/* What engine_take_batch lends out, with the engine's notes behind it. */
struct engine_batch {
    struct storage_batch batch;
    struct write_note *notes;
};

/* What a lane is of. */
enum lane_kind {
    LANE_WEBHOOK, /* an origin of webhooks: sends whenever it has room */
    LANE_BROKER,  /* a connection of a broker: the same, with a limit of its own */
    LANE_PULLED,  /* one priority of a queue: sends when asked */
    LANE_OVERDUE, /* holds back what is overdue, which goes over to other lanes by its rate */
    LANE_KIND_COUNT,
};

/* Due timers of one origin, broker, or queue and priority, and how many of its deliveries are out.
 */
struct lane {
    struct list waiting; /* timers, first due first */
    struct list link;    /* of webhooks and brokers: on `ready`, or `broker_ready`, while it has
                            timers waiting and room; PULLED: on `woken` while nobody was told that
                            it has timers waiting */
    struct list hungry;  /* on the engine's list of that name: it has room, and perhaps spilled
                            timers */
    uint64_t origin;     /* its key */
    enum lane_kind kind;
    uint32_t inflight;
    size_t waiting_bytes;
    uint64_t spilled_pass;   /* 0: none of its timers is spilled; see refill.c */
    struct wall held_until;  /* it sends nothing before: its target is to be left alone */
    struct pace pace;        /* if it has a rate */
    tw_handle alarm;         /* in the wheel: when it may send again, or go; or TW_NONE */
    bool wants_alarm;        /* there was no memory for one */
    enum wait_reason reason; /* why it does not send, or it does */
    struct wall reason_since;
    uint32_t waited_ms[WAIT_SUMMED]; /* how long that was so, by reason; modulo 2^32 */
    uint8_t queue_size;
    char queue[QUEUE_FULL_NAME_SIZE_MAX]; /* PULLED: its full name */
};

static inline uint32_t lane_inflight_max(const struct engine_options *options,
                                         const struct lane *lane)
{
    switch (lane->kind) {
    case LANE_WEBHOOK:
        return options->target_inflight_max;
    case LANE_BROKER:
        return options->broker_inflight_max;
    default:
        return UINT32_MAX; /* bounded for all queues together: pull.c */
    }
}

/* In thousandths of a delivery a second; 0: no limit. */
static inline uint64_t lane_rate(const struct engine_options *options, const struct lane *lane)
{
    return lane->kind == LANE_WEBHOOK   ? options->target_rate
           : lane->kind == LANE_OVERDUE ? options->catch_up_rate
                                        : 0;
}

struct engine {
    struct engine_options options;
    struct wall now;
    bool is_in_turn;
    struct random random;
    uint64_t epoch, counter;
    uint64_t tickets; /* reads of one timer so far */

    struct entries *entries;
    struct list gone_reads; /* to be freed at the next turn: a reply may still show their pages */

    /* names.c */
    struct map name_locks; /* hash -> name_lock: names of creates under way */
    struct list parts;     /* commands of its own, each a part of a client's */
    struct list sweeps;    /* commands by labels: the first goes through all, the others wait */

    /* scheduler.c */
    struct tw_wheel *wheel;
    struct storage_position frontier;   /* all live rows before it are in memory */
    struct storage_position reading_to; /* the same once the read ahead that is out is back */
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
    struct map lanes;                /* origin -> lane */
    struct list ready, broker_ready; /* lanes of each kind that may send */
    struct lane *overdue;            /* the lane of that kind, or NULL */
    size_t alarms;                   /* of lanes, in the wheel */
    bool alarms_wanted;              /* some lane wants one and has none */
    struct list woken;
    size_t waiting_bytes; /* of all lanes */
    size_t spilling;      /* timers that were spilled and are not written yet */

    /* pull.c */
    uint32_t pulled; /* deliveries out, in `inflight` too */
    size_t pulled_bytes;
    bool pull_refused; /* since there was room last */

    /* refill.c */
    struct list hungry;
    uint64_t pass;            /* its number, from 1 */
    uint64_t unexplored_pass; /* in which timers of no lane were spilled last; 0: none are */
    bool is_passing;
    bool is_refilling;    /* the read that is out is the pass's, not the frontier's */
    bool pass_is_cramped; /* it met a timer for which there was no room */
    struct wall pass_not_before;
    struct storage_position pass_at;
    struct wall pass_to;
    struct wall spilled_to; /* no spilled timer lies behind it */
    bool pass_is_whole;     /* the clock did not step back in it, so it met all */
    bool pass_is_search;    /* it goes as far as anything misplaced can lie */
    struct wall placed;     /* as in the meta: not earlier it was when a row was put away from its
                               due time */
    /* The same, of part of the rows; and `spilled_to`: */
    struct wall spilled_seen, placed_seen; /* left by this pass, or written since it began */
    struct wall placed_unsettled;          /* written since nothing was being written last */
    uint32_t inflight;
    uint32_t webhooks_inflight; /* of them, what inflight_max bounds */
    bool is_draining;

    /* writer.c */
    struct storage_write *writes; /* of the next batch; notes[i] belongs to writes[i] */
    struct write_note *notes;
    size_t write_count, write_capacity;
    struct engine_batch *filling; /* what will take them; or NULL, when there are none */
    struct list rewrites;         /* timers whose own write failed */
    struct list doubts;           /* in doubt, until a commit succeeds; then they are looked for */
    struct wall rewrite_at;
    size_t batches_out, writes_out; /* in the hands of the storage */
    bool meta_wanted;               /* a batch is due even without writes */
    struct storage_meta meta_taken; /* as the last batch had it; all zero after a failure */

    /* effects to be taken */
    struct list reads, deliveries, replies, recorded;
    size_t reads_out;

    struct history history;
    struct wall started; /* when it was created */
    struct engine_stats stats;
};

_Static_assert(sizeof(((struct entry *)0)->waited_ms) == sizeof(((struct lane *)0)->waited_ms),
               "an entry notes what its lane sums up");

/* ---- engine.c ---- */

/* Puts a timer that is durable, or was just read, where it belongs, then lets its waiting commands
 * go on. */
void engine_settle(struct engine *engine, struct entry *entry);

/* Takes a timer that was read into memory: a new entry, or the place of a placeholder. NULL, and it
 * is still the caller's: no memory. */
struct entry *engine_take_in(struct engine *engine, struct timer *timer);

/* ---- planner.c ---- */

void planner_start(struct engine *engine, struct command *command);

/* Reads the next rows of the command's own scan, for it. */
void planner_scan(struct engine *engine, struct command *command);
void planner_reply(struct engine *engine, struct command *command, enum error_code error,
                   const struct timer *timer);

/* The command meets its timer, `command->id`: now or when it is found and at rest. */
void planner_on_timer(struct engine *engine, struct command *command);

/* Makes the one timer of a create whose names are free. */
void planner_create_named(struct engine *engine, struct command *command);

/* Answers a create of one timer that will not be made. */
void planner_refuse(struct engine *engine, struct command *command, enum error_code error,
                    const struct timer *timer);

/* Whether a create of `timer` must look at names first. */
static inline bool planner_is_named(const struct timer *timer)
{
    return timer->texts.key.size || timer->texts.request.size;
}

/* Starts again, in order, the commands that waited for this timer. */
void planner_resume(struct engine *engine, struct entry *entry);

/* Answers them all with an error instead. */
void planner_fail_waiters(struct engine *engine, struct entry *entry, enum error_code error);

/* Asks for the row of a timer that is LOADING, or in doubt. False: no memory. */
bool planner_find(struct engine *engine, struct entry *entry);

/* The read found nothing, or failed. */
void planner_not_found(struct engine *engine, struct entry *placeholder, enum error_code error);

/* The read that a command waited for. */
void planner_found(struct engine *engine, struct engine_read *read);
void planner_listed(struct engine *engine, struct engine_read *read);

/* ---- tenant.c ---- */

/* Whether the timer is the asking tenant's; else it is not there. */
bool tenant_owns(const struct command *command, const struct timer *timer);

/* A timer of the tenant is about to live: NONE, TOO_MANY or NO_MEMORY. Counts it. */
enum error_code tenant_admit(struct engine *engine, const struct command *command,
                             const struct timer *timer);

/* It does not live any more, durably, or did not come to. */
void tenant_dismiss(struct engine *engine, const struct timer *timer);

/* A timer of any tenant is about to live: counts it in `pending`. False: there are as many as may
 * be. */
bool tenant_admit_pending(struct engine *engine);

/* It was admitted and will not live, or lives no more. */
void tenant_dismiss_pending(struct engine *engine);

/* It was dismissed, and lives after all: its cancel was not written. Not limited. */
void tenant_restore_pending(struct engine *engine);

/* ---- names.c ---- */

/* Begins a command that has names: a create of one timer, a command by key, or a COMPLETE. */
void names_start(struct engine *engine, struct command *command);

/* The timer at hand is not meant, or not there: looks at the next one. */
void names_next(struct engine *engine, struct command *command);

/* Whether the timer has the name that the command is looking for. */
bool names_fit(const struct command *command, const struct timer *timer);

/* A create meets the timer that has one of its names. */
void names_taken(struct engine *engine, const struct timer *timer, struct command *command);

/* The reads that a command waited for. */
void names_looked_up(struct engine *engine, struct engine_read *read);
void names_swept(struct engine *engine, struct engine_read *read);

/* A redrive meets its dead letter, which has a key: takes the lock and looks whether another timer
 * has had the key since. */
void names_redrive(struct engine *engine, const struct timer *timer, struct command *command);

/* The command is about to be answered: the next one may have its name. */
void names_release(struct engine *engine, struct command *command);

/* One part of a command was answered. */
void names_part_done(struct engine *engine, struct command *part);

/* Makes a part of `command`. NULL when out of memory. */
struct command *names_part(struct engine *engine, struct command *command, enum command_kind kind);

void names_deinit(struct engine *engine);

/* ---- writer.c ---- */

/* Makes room for one more write. False when out of memory: nothing changed. */
bool writer_reserve(struct engine *engine);

/* Adds the successor of a timer, or else its present state, to the next batch, in which there is
 * room; it is in phase WRITING until that is settled. */
void writer_add(struct engine *engine, struct write_note note);

/* The same for a change of the engine's own, which is tried until it succeeds. */
void writer_add_own(struct engine *engine, struct entry *entry);

void writer_retry(struct engine *engine);

/* What the storage has of a timer in doubt; it may be another one than the read was for. */
void writer_found(struct engine *engine, struct entry *entry, struct engine_read *read);

/* ---- scheduler.c ---- */

bool scheduler_is_near(const struct engine *engine, const struct timer *timer);
void scheduler_rest(struct engine *engine, struct entry *entry);       /* into the wheel */
void scheduler_rest_or_go(struct engine *engine, struct entry *entry); /* if it is not near */
void scheduler_unrest(struct engine *engine, struct entry *entry);     /* out of wheel or lane */
void scheduler_expire(struct engine *engine);
void scheduler_take_up(struct engine *engine, struct entry *entry); /* it may act now */
size_t scheduler_room_bytes(const struct engine *engine);           /* for more timers in memory */
bool scheduler_has_room(const struct engine *engine);               /* enough for a read */
void scheduler_read_ahead(struct engine *engine);

/* Reads what lives in the range, for the frontier or a pass; one at a time. False: no memory. */
bool scheduler_read(struct engine *engine, struct storage_position from, struct storage_position to,
                    size_t bytes_max);
void scheduler_loaded(struct engine *engine, struct engine_read *read);
void scheduler_watermark(struct engine *engine);
void scheduler_clock_went_back(struct engine *engine);
struct wall scheduler_wake_at(const struct engine *engine);

/* A timer whose row is at `row_at` is written: keeps watermark and trim at or before it. */
void scheduler_wrote(struct engine *engine, const struct timer *timer, struct wall row_at);

/* ---- lanes.c ---- */

/* The lane that a timer would wait in; NULL when there is none now. */
struct lane *lanes_find(const struct engine *engine, const struct timer *timer);
struct lane *lanes_find_queue(const struct engine *engine, struct bytes queue, unsigned priority);

/* To be called whenever a lane has changed: brings it onto or off its lists, frees it when it is of
 * no use. */
void lanes_update(struct engine *engine, struct lane *lane);

/* Hands out the lane's first timer, or drops it when it is too late. False when out of memory. The
 * lane may be freed. */
bool lanes_lend(struct engine *engine, struct lane *lane, struct list *deliveries);

/* The timer is in flight already: an earlier engine of the partition lent it. Takes its entry.
 * False when out of memory. */
bool lanes_adopt(struct engine *engine, struct entry *entry);

/* How many more timers may be spilled before some of those that were are written. */
size_t lanes_spillable(const struct engine *engine);

/* The longest lane gives up its later half, as far as it may. */
void lanes_halve_longest(struct engine *engine);

/* What its timers take, but the first. */
size_t lanes_longest_tail_bytes(const struct engine *engine);

void lanes_add(struct engine *engine, struct entry *entry);    /* it is due */
void lanes_remove(struct engine *engine, struct entry *entry); /* it is WAITING */
void lanes_dispatch(struct engine *engine);
void lanes_returned(struct engine *engine, struct entry *entry,
                    const struct delivery_outcome *outcome);
void lanes_add_again(struct engine *engine, struct entry *entry); /* the same, to the front */
void lanes_clock_went_back(struct engine *engine);

/* The wheel is gone, and with it all alarms. */
void lanes_lose_alarms(struct engine *engine);

/* What tells a lane's alarm from a timer in the wheel: timers lie at even addresses. */
#define LANES_ALARM UINT64_C(1)
void lanes_alarm(struct engine *engine, struct lane *lane);

/* Why a timer waits in its lane, and when that may change; WALL_NEVER: with the next outcome. */
enum wait_reason lanes_reason(struct engine *engine, struct lane *lane, struct wall *ret_until);

void lanes_deinit(struct engine *engine);

/* The earliest position of all timers that wait; WALL_NEVER when none does. */
struct wall lanes_oldest(const struct engine *engine);

/* ---- pull.c ---- */

bool pull_has_room(const struct engine *engine, const struct entry *entry);
void pull_lent(struct engine *engine, const struct entry *entry);
void pull_returned(struct engine *engine, const struct entry *entry);

/* ---- refill.c ---- */

void refill_init(struct engine *engine);

/* Whether only want of room keeps this timer from acting: it was spilled. */
bool refill_is_spilled(const struct engine *engine, const struct timer *timer);

/* Whether it was put behind its time and the clock stepped back since: one that was spilled, to
 * before that time; one that is tried again, so far that no back-off can have put it there. Nobody
 * would look for it there until it is late. */
bool refill_is_early(const struct engine *engine, const struct timer *timer);

/* Moves it to where it is due again, or after another back-off. It is in no phase but being written
 * afterwards. */
void refill_come_home(struct engine *engine, struct entry *entry);

/* Such timers may lie anywhere: a pass looks for them. */
void refill_clock_went_back(struct engine *engine);

/* A row is about to be written; and all that were are durable. */
void refill_wrote(struct engine *engine, const struct timer *timer);
void refill_nothing_out(struct engine *engine);

/* Where to put a timer of this lane (NULL: of none) that is spilled now. */
struct wall refill_spill_to(struct engine *engine, struct lane *lane);

/* The timer is durable and not needed in memory: if it is spilled, a pass may find it from now on.
 */
void refill_settled(struct engine *engine, const struct timer *timer);

/* Begins the next read of the pass, if one is wanted. */
void refill_read(struct engine *engine);
void refill_loaded(struct engine *engine, struct engine_read *read);
struct wall refill_wake_at(const struct engine *engine);

/* Whether the lane has less than it can send in a short while, and perhaps spilled timers. */
bool refill_is_hungry(const struct engine *engine, const struct lane *lane);

/* ---- explain.c ---- */

void explain_timer(struct engine *engine, const struct entry *entry,
                   struct explained *ret_explained);

/* A delivery begins, is back, and its outcome is durable: what made it late is kept. */
void explain_lent(struct engine *engine, const struct lane *lane, const struct entry *entry);
void explain_returned(struct engine *engine, const struct delivery *delivery);
void explain_committed(struct engine *engine, const struct timer *timer);

/* ---- forecast.c ---- */

void forecast_start(struct engine *engine, struct command *command);
void forecast_read(struct engine *engine, struct engine_read *read); /* a page for it */

/* ---- outcome.c ---- */

/* May free the delivery, unless it wants to be recorded. */
void outcome_apply(struct engine *engine, struct entry *entry, struct delivery *delivery);

/* For how long a POSTPONED one is put off, at least. */
uint64_t outcome_postpone_ms(const struct delivery_outcome *outcome);

/* The longest pause after an outcome, of any timer: 30 days, and the millisecond of
 * wall_coming(). */
#define ENGINE_PAUSE_MS_MAX (UINT64_C(30) * 24 * 3600 * 1000 + 1)

/* How far ahead an outcome puts this timer, at most. */
uint64_t outcome_pause_ms_max(const struct timer *timer);

/* Where to put a timer that waits for its next attempt, when nobody knows since when. */
struct wall outcome_paused_again(struct engine *engine, const struct timer *timer);

/* A timer is due that has no attempt left: a patch took them away. */
void outcome_exhausted(struct engine *engine, struct entry *entry);

/* Whether a firing is later than its timer allows; then it is dropped. */
bool outcome_is_too_late(const struct engine *engine, const struct timer *timer);
void outcome_dropped(struct engine *engine, struct entry *entry);

/* When a dead letter that is redriven is due: as it was, unless that is too late; then with its
 * next firing, or now when there is none. */
struct wall outcome_redriven_due(const struct engine *engine, const struct timer *timer);

#endif
