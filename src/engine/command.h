/*
 * command.h - what a client asks of the engine, and the answer.
 *
 * Ownership  The caller allocates a command and lends it to engine_submit until engine_take_reply
 *            hands it back. Timers of a create and a patch are taken by the engine in any case. The
 *            `timer` and `page` of an answer stay the engine's: valid until the next call into the
 *            engine.
 */
#ifndef TICKWHEEL_ENGINE_COMMAND_H
#define TICKWHEEL_ENGINE_COMMAND_H

#include "storage/storage.h"

enum command_kind {
    COMMAND_CREATE,
    COMMAND_GET,
    COMMAND_PATCH,
    COMMAND_CANCEL,
    COMMAND_LIST,
};

/* What became of one timer of a create. */
struct command_created {
    enum error_code error; /* NONE, TOO_MANY, OVERLOADED, NO_MEMORY or what the storage said */
    struct timer_id id;    /* valid without error */
};

/* Which fields of `values` a patch sets. */
enum timer_patch_field {
    PATCH_DUE = 1 << 0,
    PATCH_TARGET = 1 << 1,
    PATCH_PAYLOAD = 1 << 2, /* with content_type */
    PATCH_HEADERS = 1 << 3,
    PATCH_LABELS = 1 << 4,
    PATCH_RETRY = 1 << 5,
};

struct command {
    struct list link; /* the holder's */
    enum command_kind kind;
    uint16_t partition; /* who is asked */

    /* GET, PATCH, CANCEL */
    struct timer_id id;
    uint32_t
        if_version; /* PATCH, CANCEL: refuse with VERSION_MISMATCH at another version; 0: any */

    /* CREATE: due, retry, texts are set; the engine sets all the rest. results[i] answers
     * timers[i]. */
    struct timer **timers;
    struct command_created *results;
    size_t timer_count;

    /* PATCH */
    uint32_t patch_fields; /* of enum timer_patch_field */
    struct timer *patch;   /* their values; the engine takes it */

    /* LIST: [from, to) in due order, at most `rows_max` rows; over ones too with SCAN_ALL */
    struct storage_scan scan;

    /* The answer. */
    enum error_code error;     /* CREATE with several timers: see results */
    const struct timer *timer; /* CREATE of one, GET, PATCH, CANCEL; with GONE its final state */
    struct storage_page page;  /* LIST */

    /* The engine's own. */
    size_t pending_; /* writes not yet durable */
};

#endif
