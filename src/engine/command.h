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
    /* makes the timer due now; PAUSED if it is paused. If an event does so (COMPLETE), a paused
     * timer is made due too, and fires when it is resumed */
    COMMAND_FIRE,
    /* pauses the timer until `at` of the patch (STORAGE_PAUSED_AT: until it is resumed), with the
     * patch's note. If it is paused already, both are replaced */
    COMMAND_PAUSE,
    COMMAND_RESUME, /* no effect if the timer is not paused */
    /* makes a dead letter live again, due `not_before`, with the target of the patch if there is
     * one. NOT_FOUND if the timer is no dead letter, KEY_IN_USE if another timer has taken its
     * key */
    COMMAND_REDRIVE,
    /* deletes a dead letter; NOT_FOUND if the timer is none. After an error it may be deleted
     * later */
    COMMAND_FORGET,
    /* applies `each` to every timer that watches `name` or one of `events`, or has `labels` */
    COMMAND_COMPLETE,
    COMMAND_LIST,
    COMMAND_FORECAST, /* fills in `forecast` */
    COMMAND_SURVEY,   /* fills in `survey` */
    /* leases items of a queue or reports on leases, see `work`. The node answers both; no engine
     * gets them */
    COMMAND_LEASE,
    COMMAND_REPORT,
    /* ends the lease of an item, whoever has it; NOT_LEASED if none has. The engine finds the item,
     * and the node ends the lease (`has_acted`) */
    COMMAND_RELEASE,
    /* the later answer of a receiver (timer/awaits.h), by the token in `answer`, whoever asks. GONE
     * unless the timer waits for it; ALREADY_FIRING if the attempt is still being sent */
    COMMAND_ANSWER,
    /* begins the epoch of a reader of a source, and tells the rows of the last batch (ledger.h) */
    COMMAND_LEDGER,
    COMMAND_KIND_COUNT,
};

static inline bool command_is_work(enum command_kind kind)
{
    return kind == COMMAND_LEASE || kind == COMMAND_REPORT;
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
    struct timer_id id; /* id of the timer; valid if there is no error */
};

enum command_answer_verb { ANSWER_ACK, ANSWER_NACK, ANSWER_EXTEND };

/* What an ANSWER says. */
struct command_answer {
    enum command_answer_verb verb;
    struct bytes token;  /* AWAITS_TOKEN_SIZE bytes; borrowed until the answer, like `reason` */
    struct bytes reason; /* NACK: becomes the last error */
    uint64_t by_ms;      /* EXTEND: the wait ends so long from now */
};

/* Numbers of timers that a COMPLETE concerned. */
struct command_completed {
    uint64_t changed; /* cancelled, patched, made due, paused or resumed */
    uint64_t firing;  /* not changed because they are being delivered */
};

/* One of many completed events, and its result. */
struct command_event {
    struct bytes name;
    /* NONE, NO_MEMORY, or an error of the storage, after which some timers may have been changed */
    enum error_code error;
    struct command_completed completed;
};

/* Result of a step of a look-up. */
enum lookup_step {
    LOOKUP_WAITS,     /* the look-up waits for a read or a lock */
    LOOKUP_CANDIDATE, /* command->id is a timer that may have the name */
    LOOKUP_NONE,      /* no timer has any of its names; the look-up has ended */
    LOOKUP_NO_MEMORY,
};

/* The engine's search for the timers with the names of a command (lookup.h). */
struct command_names {
    bool is_searching;
    bool is_locked;       /* it holds `lock` or waits for it */
    uint64_t lock;        /* hash of the name that no other create may take meanwhile */
    unsigned step;        /* index of the name that is looked up now */
    struct timer_id *ids; /* timers that may have that name; owned */
    size_t count, next;
};

/* How the engine handles a command about the parts of a timer (timer/fanout.h). */
struct command_fanout {
    bool is_own; /* the engine's own command about a part, or about the timer of one */
    /* CANCEL, REDRIVE of a client: the parts were asked, `pending_` at once */
    bool is_begun;
    size_t changed;        /* number of parts that were changed */
    enum error_code error; /* first error of the others */
};

/* The row of a source that a command was made of (ledger.h). */
struct command_origin {
    uint64_t source; /* id of the source, unlike those of all others; 0 if there is none */
    uint64_t epoch;  /* of the reader */
    uint64_t batch;  /* number of the batch; it rises, also from reader to reader */
    /* number of the row, unlike those of all others of the source; 0 if the command does a part of
     * what a row asks: a later reader fences it, and the ledger does not note it */
    uint64_t row;
    bool is_noted_; /* private to the engine */
};

struct command_ledger_row {
    uint64_t row;
    enum error_code error; /* why the row was refused; NONE if it was not */
};

struct command_ledger {
    uint64_t source, epoch;
    /* the answer: the last batch, and the rows of it that are taken; freed by the caller with
     * free() */
    uint64_t batch;
    struct command_ledger_row *rows;
    size_t count;
};

struct command {
    struct list link; /* list of whoever holds the command */
    enum command_kind kind;
    uint16_t partition; /* partition whose engine is asked */

    /* The timer of GET, EXPLAIN, PATCH, TOUCH, CANCEL, FIRE, PAUSE, RESUME and RELEASE, by id or,
     * if `name` is set, by key. ANSWER: the timer, by id. REDRIVE, FORGET: the dead letter, by id.
     * COMPLETE: the event in `name`; without it, all timers with `labels` whose rows do not move
     * meanwhile. Texts are borrowed until the answer. */
    struct timer_id id;
    struct bytes name, labels;
    /* the client's tenant, borrowed; the timers of CREATE and PUT belong to it. Timers of other
     * tenants do not exist for the command */
    struct bytes tenant;
    /* REDRIVE: earliest delivery, by a pause that leaves `due` unchanged; 0 for now */
    struct wall not_before;
    /* for commands that change one timer, except CREATE: VERSION_MISMATCH at another version; 0
     * accepts any */
    uint32_t if_version;
    bool must_exist; /* PUT: VERSION_MISMATCH if no live timer has the key */
    /* RELEASE, ANSWER: the attempt has ended, so the answer waits until that is durable. While it
     * is false, an answer without an error to a RELEASE says that the timer is leased */
    bool has_acted;
    struct command_answer answer; /* ANSWER */

    /* CREATE, PUT: due, retry, texts and possibly `created` are set; the engine sets the rest.
     * results[i] is the result of timers[i]. */
    struct timer **timers;
    struct command_created *results;
    size_t timer_count;

    /* CREATE, PUT, REDRIVE: limit of the tenant's live timers in all partitions; beyond it
     * TOO_MANY. 0 disables it */
    uint64_t tenant_pending_max;

    /* for PATCH, TOUCH, PAUSE, COMPLETE with a patch, and optionally REDRIVE */
    /* bits of enum timer_patch_field; TOUCH: PATCH_DUE; REDRIVE: PATCH_TARGET */
    uint32_t patch_fields;
    struct timer *patch; /* values of these fields; owned by the engine once submitted */

    /* COMPLETE: what is done to each timer, one of CANCEL, PATCH, FIRE, PAUSE and RESUME. With
     * many events, which are borrowed until the answer, only CANCEL or FIRE, and neither name
     * nor labels */
    enum command_kind each;
    struct command_event *events;
    size_t event_count;

    /* for CREATE of one timer, PUT, TOUCH, CANCEL and COMPLETE */
    struct command_origin origin;
    struct command_ledger *ledger; /* LEDGER */

    struct forecast *forecast; /* FORECAST */
    struct survey *survey;     /* SURVEY */
    struct command_work *work; /* LEASE, REPORT */

    /* LIST: rows in [from, to) in due order, at most `rows_max`; with SCAN_ALL also those that have
     * ended */
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
    struct turn_link sweep_; /* COMPLETE by labels: its place in the order of such commands */
    /* COMPLETE by labels: whether one of its pages is being read or handled */
    bool is_sweeping_;
    struct command_names names_;
    /* result of the look-up's last step, while the command is on the list of those to continue */
    enum lookup_step reached_;
    struct command *parent_; /* command of which this one is a part; NULL if there is none */
    struct list part_link_;  /* on the engine's list of parts */
    struct command_fanout fanout_;
};

/* True if the command is for the node named by `survey`, whatever partitions that node has. No
 * engine gets it. */
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

/* Returns how many things the command asks for at once; limits count them. */
static inline size_t command_weight(const struct command *command)
{
    if (command->kind == COMMAND_CREATE)
        return command->timer_count;
    return command->event_count ? command->event_count : 1;
}

#endif
