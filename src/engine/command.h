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
    COMMAND_PUT, /* creates one timer with a key, or replaces the live timer that has it */
    COMMAND_GET,
    COMMAND_EXPLAIN, /* a GET that says where it is and why it is or was late too */
    COMMAND_PATCH,
    COMMAND_TOUCH, /* extends its time to the due time of the patch; never shortens it */
    COMMAND_CANCEL,
    COMMAND_FIRE,     /* makes it due now; PAUSED when it is paused. An event makes a paused timer
                         due too, which fires when it is resumed */
    COMMAND_PAUSE,    /* until `at` of the patch (STORAGE_PAUSED_AT: until it is resumed), with its
                         note; one that is paused takes these over */
    COMMAND_RESUME,   /* changes nothing when it is not paused */
    COMMAND_REDRIVE,  /* a dead letter lives again, due `not_before`, with the target of a patch if
                         it has one; NOT_FOUND when it is none, KEY_IN_USE when another timer has
                         had its key since */
    COMMAND_FORGET,   /* a dead letter is gone; NOT_FOUND when it is none. After an error it may be
                         gone, or go a little later */
    COMMAND_COMPLETE, /* does `each` to every timer that watches `name`, or one of `events`, or has
                         `labels` */
    COMMAND_LIST,
    COMMAND_FORECAST, /* fills in `forecast` */
    COMMAND_SURVEY,   /* fills in `survey` */
    COMMAND_LEASE,    /* of items of a queue, and reports on leases: `work`. These are of the node,
                         and no engine gets them */
    COMMAND_REPORT,
};

static inline bool command_is_work(enum command_kind kind)
{
    return kind >= COMMAND_LEASE;
}

/* It changes nothing. */
static inline bool command_is_read(enum command_kind kind)
{
    return kind == COMMAND_GET || kind == COMMAND_EXPLAIN || kind == COMMAND_LIST ||
           kind == COMMAND_FORECAST || kind == COMMAND_SURVEY;
}

/* What became of one timer of a create.
 *
 * A key or an Idempotency-Key that a timer has already: without error, and with `existed`, when
 * that create asked for an equal timer; otherwise KEY_IN_USE or REQUEST_DIFFERS. */
struct command_created {
    enum error_code error; /* NONE, TOO_MANY, OVERLOADED, NO_MEMORY or what the storage said too */
    bool existed;          /* no timer was made: `id` is of the timer that was there */
    bool is_repeated;      /* and this very request had made it: an Idempotency-Key says so */
    struct timer_id id;    /* valid without error */
};

/* What became of the timers that a COMPLETE was about. */
struct command_completed {
    uint64_t changed; /* cancelled, patched, made due, paused or resumed */
    uint64_t firing;  /* too late: being delivered */
};

/* One of many events that are complete, and the answer to it. */
struct command_event {
    struct bytes name;
    enum error_code error; /* NONE, NO_MEMORY or what the storage said: then some may be done */
    struct command_completed completed;
};

/* The engine's own: the search for the timers that have the names of a command (lookup.h). */
struct command_names {
    bool is_searching;
    bool is_locked;       /* it holds `lock`, or waits for it */
    uint64_t lock;        /* the name that no other create may have meanwhile */
    unsigned step;        /* which of its names */
    struct timer_id *ids; /* candidates that may have it; its own */
    size_t count, next;
};

struct command {
    struct list link; /* the holder's */
    enum command_kind kind;
    uint16_t partition; /* whose engine is asked */

    /* GET, EXPLAIN, PATCH, TOUCH, CANCEL, FIRE, PAUSE, RESUME: which timer, by its id or, when
     * there is a name, by its key. REDRIVE, FORGET: by its id. COMPLETE: the event that is
     * complete; without a name, each timer that has `labels` and does not move meanwhile. The texts
     * are borrowed until the answer. */
    struct timer_id id;
    struct bytes name, labels;
    struct bytes tenant; /* the client's, borrowed too: timers of others are not there. CREATE and
                            PUT: the timers say it */
    struct wall not_before; /* REDRIVE: it is not delivered earlier; a pause of its own, which
                               leaves `due` as it was. 0: due at once */
    uint32_t if_version;    /* of all that change one timer but CREATE: refuse with
                            VERSION_MISMATCH at another version; 0: any */
    bool must_exist;        /* PUT: refuse likewise when no live timer has the key */

    /* CREATE, PUT: due, retry, texts and perhaps `created` are set; the engine sets all the rest.
     * results[i] answers timers[i]. */
    struct timer **timers;
    struct command_created *results;
    size_t timer_count;

    /* CREATE, PUT, REDRIVE: live timers that the tenant may have, in all partitions; beyond it
     * TOO_MANY. 0: no limit */
    uint64_t tenant_pending_max;

    /* PATCH, TOUCH, PAUSE, and COMPLETE with a patch; REDRIVE, which may have one */
    uint32_t patch_fields; /* of enum timer_patch_field; TOUCH: PATCH_DUE; REDRIVE: PATCH_TARGET */
    struct timer *patch;   /* their values; the engine takes it */

    /* COMPLETE: CANCEL, PATCH, FIRE, PAUSE or RESUME; CANCEL and FIRE of many events, which are
     * borrowed until the answer, and then with neither name nor labels */
    enum command_kind each;
    struct command_event *events;
    size_t event_count;

    struct forecast *forecast; /* FORECAST */
    struct survey *survey;     /* SURVEY */
    struct command_work *work; /* LEASE, REPORT */

    /* LIST: [from, to) in due order, at most `rows_max` rows; over ones too with SCAN_ALL */
    struct storage_scan scan; /* with COMPLETE, FORECAST the engine's own */

    /* The answer. */
    enum error_code error;     /* CREATE with several timers: see results */
    const struct timer *timer; /* of commands about one timer; with GONE its final state, with
                                  KEY_IN_USE of a create the timer that has it */
    struct storage_page page;  /* LIST */
    struct command_completed completed; /* COMPLETE, without `events` */
    struct explained explained;         /* EXPLAIN, with GONE too */

    /* The engine's own. */
    size_t pending_;         /* CREATE: timers without an answer; COMPLETE: parts without one */
    size_t event_next_;      /* COMPLETE: those before it have been begun */
    struct turn_link sweep_; /* COMPLETE by labels: its place among the others */
    bool is_sweeping_;       /* and a page of it is read, or worked at */
    struct command_names names_;
    struct command *parent_; /* it is a part of this one */
    struct list part_link_;  /* on the engine's list of parts */
};

/* It asks the node that `survey` names, whichever partitions that has; no engine gets it. */
static inline bool command_is_of_node(const struct command *command)
{
    return command->kind == COMMAND_SURVEY && survey_is_of_node(command->survey->kind);
}

/* How many things it asks at once, where those are limited. */
static inline size_t command_weight(const struct command *command)
{
    if (command->kind == COMMAND_CREATE)
        return command->timer_count;
    return command->event_count ? command->event_count : 1;
}

#endif
