/*
 * command.h - what a client asks of the engine, and the answer.
 *
 * Ownership  The caller allocates a command and lends it to engine_submit until engine_take_reply
 *            hands it back. Timers of a create and a patch are taken by the engine in any case. The
 *            `timer` and `page` of an answer stay the engine's: valid until the next call into the
 *            engine. A `name` is borrowed until the answer.
 */
#ifndef TICKWHEEL_ENGINE_COMMAND_H
#define TICKWHEEL_ENGINE_COMMAND_H

#include "base/turns.h"
#include "engine/explain.h"
#include "engine/forecast.h"
#include "engine/survey.h"
#include "engine/work.h"
#include "timer/name.h"
#include "store/storage.h"

enum command_kind {
    COMMAND_CREATE,
    COMMAND_PUT, /* creates a timer with a key, or replaces the live timer that has it */
    COMMAND_GET,
    COMMAND_EXPLAIN, /* a GET that also says where the timer is and why it is or was late */
    COMMAND_PATCH,
    COMMAND_TOUCH, /* extends its time to the due time of the patch, never shortens it */
    COMMAND_CANCEL,
    /* makes it due now; PAUSED if it is paused. By an event also a paused timer, which fires
     * when resumed */
    COMMAND_FIRE,
    /* pauses until `at` of the patch (STORAGE_PAUSED_AT: until resumed), with its note; a paused
     * timer takes both over */
    COMMAND_PAUSE,
    COMMAND_RESUME, /* no effect if it is not paused */
    /* makes a dead letter live again, due `not_before`, with the target of the patch if there is
     * one; NOT_FOUND if it is none, KEY_IN_USE if another timer has taken its key */
    COMMAND_REDRIVE,
    /* deletes a dead letter; NOT_FOUND if it is none. After an error it may be deleted later */
    COMMAND_FORGET,
    /* applies `each` to every timer that watches `name` or one of `events`, or has `labels` */
    COMMAND_COMPLETE,
    COMMAND_LIST,
    COMMAND_FORECAST, /* fills in `forecast` */
    COMMAND_SURVEY,   /* fills in `survey` */
    /* leases items of a queue, and reports on leases: `work`. For the node; no engine gets them */
    COMMAND_LEASE,
    COMMAND_REPORT,
};

static inline bool command_is_work(enum command_kind kind)
{
    return kind >= COMMAND_LEASE;
}

/* True if the command changes nothing. */
static inline bool command_is_read(enum command_kind kind)
{
    return kind == COMMAND_GET || kind == COMMAND_EXPLAIN || kind == COMMAND_LIST ||
           kind == COMMAND_FORECAST || kind == COMMAND_SURVEY;
}

/* Result for one timer of a create. If a timer has the key or Idempotency-Key already: no error
 * and `existed` if its create asked for an equal timer; otherwise KEY_IN_USE or REQUEST_DIFFERS. */
struct command_created {
    enum error_code error; /* NONE, TOO_MANY, OVERLOADED, NO_MEMORY, or an error of the storage */
    bool existed;          /* no timer was made: `id` is that of the existing one */
    /* the existing timer was made by the same request, by its Idempotency-Key */
    bool is_repeated;
    struct timer_id id; /* valid if there is no error */
};

/* Counts of the timers that a COMPLETE was about. */
struct command_completed {
    uint64_t changed; /* cancelled, patched, made due, paused or resumed */
    uint64_t firing;  /* not changed because they are being delivered */
};

/* One of many completed events, and its result. */
struct command_event {
    struct bytes name;
    /* NONE, NO_MEMORY, or an error of the storage: then some timers may be done */
    enum error_code error;
    struct command_completed completed;
};

/* Result of a step of a look-up. */
enum lookup_step {
    LOOKUP_WAITS,     /* it waits for a read or a lock */
    LOOKUP_CANDIDATE, /* command->id is a timer that may be meant */
    LOOKUP_NONE,      /* no timer has any of its names; the look-up has ended */
    LOOKUP_NO_MEMORY,
};

/* The engine's search for the timers with the names of a command (lookup.h). */
struct command_names {
    bool is_searching;
    bool is_locked;       /* it holds `lock` or waits for it */
    uint64_t lock;        /* name that no other create may take meanwhile */
    unsigned step;        /* index of the name in question */
    struct timer_id *ids; /* candidates that may have it; owned */
    size_t count, next;
};

struct command {
    struct list link; /* the holder's */
    enum command_kind kind;
    uint16_t partition; /* partition whose engine is asked */

    /* GET, EXPLAIN, PATCH, TOUCH, CANCEL, FIRE, PAUSE, RESUME: the timer, by id or, if there is
     * a name, by key. REDRIVE, FORGET: by id. COMPLETE: the event; without a name, each timer
     * with `labels` that does not move meanwhile. Texts are borrowed until the answer. */
    struct timer_id id;
    struct bytes name, labels;
    /* the client's tenant, borrowed; timers of others do not exist for it. CREATE and PUT: the
     * timers have it */
    struct bytes tenant;
    /* REDRIVE: earliest delivery, a pause that leaves `due` unchanged; 0 for now */
    struct wall not_before;
    /* changes of one timer but CREATE: VERSION_MISMATCH at another version; 0 for any */
    uint32_t if_version;
    bool must_exist; /* PUT: VERSION_MISMATCH if no live timer has the key */

    /* CREATE, PUT: due, retry, texts and perhaps `created` are set; the engine sets the rest.
     * results[i] answers timers[i]. */
    struct timer **timers;
    struct command_created *results;
    size_t timer_count;

    /* CREATE, PUT, REDRIVE: limit of the tenant's live timers in all partitions; beyond it
     * TOO_MANY. 0 for none */
    uint64_t tenant_pending_max;

    /* PATCH, TOUCH, PAUSE, COMPLETE with a patch, and optionally REDRIVE */
    /* bits of enum timer_patch_field; TOUCH: PATCH_DUE; REDRIVE: PATCH_TARGET */
    uint32_t patch_fields;
    struct timer *patch; /* values of these fields; the engine takes it */

    /* COMPLETE: CANCEL, PATCH, FIRE, PAUSE or RESUME. With many events, which are borrowed until
     * the answer, CANCEL or FIRE, without name and labels */
    enum command_kind each;
    struct command_event *events;
    size_t event_count;

    struct forecast *forecast; /* FORECAST */
    struct survey *survey;     /* SURVEY */
    struct command_work *work; /* LEASE, REPORT */

    /* LIST: [from, to) in due order, at most `rows_max` rows; ended ones too with SCAN_ALL */
    struct storage_scan scan; /* private to the engine for COMPLETE and FORECAST */

    /* The answer. */
    enum error_code error; /* CREATE of several timers: see results */
    /* for commands about one timer; with GONE its final state, with KEY_IN_USE the timer that
     * has the key */
    const struct timer *timer;
    struct storage_page page;           /* LIST */
    struct command_completed completed; /* COMPLETE without `events` */
    struct explained explained;         /* EXPLAIN, also with GONE */

    /* Private to the engine. */
    size_t pending_;         /* CREATE: timers without an answer; COMPLETE: parts without one */
    size_t event_next_;      /* COMPLETE: number of events begun */
    struct turn_link sweep_; /* COMPLETE by labels: its place in the order of commands */
    bool is_sweeping_;       /* whether one of its pages is read or worked on */
    struct command_names names_;
    enum lookup_step reached_; /* on the list of those that go on: what its look-up has reached */
    struct command *parent_;   /* command of which it is a part */
    struct list part_link_;    /* on the engine's list of parts */
};

/* True if it asks the node named by `survey`, whatever partitions that has; no engine gets it. */
static inline bool command_is_of_node(const struct command *command)
{
    return command->kind == COMMAND_SURVEY && survey_is_of_node(command->survey->kind);
}

/* Frees the timers and the patch that a command gives to the engine. */
static inline void command_drop_timers(struct command *command)
{
    for (size_t i = 0; command->timers && i < command->timer_count; i++) {
        timer_free(command->timers[i]);
        command->timers[i] = NULL;
    }
    timer_free(command->patch);
    command->patch = NULL;
}

/* Sets the error of the command, and of each of its timers and events. */
static inline void command_fail(struct command *command, enum error_code error)
{
    command->error = error;
    command->timer = NULL;
    for (size_t i = 0; i < command->timer_count; i++)
        command->results[i] = (struct command_created){.error = error};
    for (size_t i = 0; i < command->event_count; i++)
        command->events[i].error = error;
}

/* Returns the number of things that it asks for at once, for limits. */
static inline size_t command_weight(const struct command *command)
{
    if (command->kind == COMMAND_CREATE)
        return command->timer_count;
    return command->event_count ? command->event_count : 1;
}

#endif
