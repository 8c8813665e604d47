/*
 * timers.h - what the calls about timers share, and their limits, by file.
 *
 * Threads    See api/core/call.h.
 */
#ifndef TICKWHEEL_API_TIMERS_TIMERS_H
#define TICKWHEEL_API_TIMERS_TIMERS_H

#include "api/core/call.h"
#include "api/core/scatter.h"
#include "api/timers/list.h"
#include "api/json/names.h"

/* ---- timers_by_id.c: create, get, touch, fire, resume and delete one timer ---- */

/* Answers with the timer of a command, or with its error. */
void timers_done(struct node_request *request);
void timers_get_done(struct node_request *request);

/* Puts the id of the path into the command. Returns false if answered, because there is no such
 * timer. */
bool timers_address(struct call *call, enum command_kind kind);

/* Reads the body of a touch into the command: a time and no other field. Returns false if
 * answered. */
bool timers_read_touch(struct call *call);

/* Reads If-Match into the command. Returns false if answered. */
bool timers_read_if_match(struct call *call);

/* Reads the body as a create, with `key` as its key (empty for the body's own) and the request's
 * Idempotency-Key. NULL if answered. */
struct timer *timers_read_create(struct call *call, struct bytes key);

/* Returns the Idempotency-Key after a hash of the body and of `of`, which names what the path means
 * (empty for none): the value of timer_texts.request. Empty without the header. Returns false if
 * answered. */
#define TIMERS_REQUEST_TEXT_SIZE (NAME_FINGERPRINT_SIZE + NAME_SIZE_MAX + 1)
bool timers_read_request(struct call *call, struct bytes of,
                         char ret_text[TIMERS_REQUEST_TEXT_SIZE], struct bytes *ret_request);

/* Creates the timer, or puts it if the call has its key as parameter. Takes the timer. */
void timers_submit_create(struct call *call, struct timer *timer);

/* Returns the version of an If-Match: 0 for any ("*", or no header: data NULL), and
 * TIMERS_VERSION_NEVER for a tag that no timer has (weak, or no version). BAD_REQUEST if the
 * field is no single entity tag. */
#define TIMERS_VERSION_NEVER UINT32_MAX
enum error_code timers_if_match(struct bytes field, uint32_t *ret_version);

/* ---- patch.c: PATCH by id and by key, a merge patch (RFC 7396) ---- */

#define PATCH_TRIES_MAX 64 /* maximum of merges of a patch while other requests change its timer */

/* ---- keys.c: one timer by the key that its client gave it ---- */

/* Puts the key of the path into the command. Returns false if answered, because no timer can
 * have this key. */
bool keys_address(struct call *call, enum command_kind kind);

/* ---- pause.c: pause one timer ---- */

/* Reads {"note": "...", "until": ...}, both optional, into the patch of a pause, which the
 * caller owns. */
enum error_code pause_parse(struct bytes json, struct wall now, struct timer **ret_patch,
                            struct problem *ret_problem);

/* ---- backfill.c: fire the instants of a span of the past ---- */

struct backfill_ask {
    struct wall from, to;
    char rate[8]; /* text of the rate */
    uint64_t pace_ms;
    bool is_dry; /* only counts the instants */
};

/* Reads {"from": ..., "to": ..., "rate": "10/s", "dry_run": true}; the last two are optional. */
enum error_code backfill_parse(struct bytes json, struct wall now, struct backfill_ask *ret_ask,
                               struct problem *ret_problem);

/* ---- batch.c: POST /v1/timers/batch, a create per line ---- */

enum {
    BATCH_CHUNK_LINES_MAX = 512,     /* maximum of creates in one command */
    BATCH_CHUNK_BYTES_MAX = 1 << 20, /* memory of the creates after which no more is added */
    BATCH_CHUNKS_MAX = 4,            /* maximum of unanswered chunks of a batch */
};

size_t batch_body(struct call *call, struct bytes chunk);

/* ---- bulk.c: cancel, fire, pause, resume, reschedule and touch many timers ---- */

#define BULK_NAMES_MAX 5000 /* maximum of ids, and of keys, in one call */

/* ---- watch.c: complete events: one, or many in a call ---- */

#define WATCH_EVENTS_MAX 5000 /* maximum of events in one call */

/* ---- events.c: what happens to timers, as it happens ---- */

bool events_streamed(struct call *call, bool is_idle, struct buffer *out);

/* ---- count.c, count_labels.c: how many timers live ---- */

#define COUNT_GROUPS_MAX 1000    /* maximum of groups with a label; the rest are counted together */
#define COUNT_ROWS_MAX   1000000 /* maximum of rows that a count by label reads */

/* What is counted apart. */
struct count_by {
    bool state, origin;
    struct bytes label; /* name of a label, in the room of the query; data is NULL for none */
};

/* Counts with a label, and answers. */
void count_labels(struct call *call, const struct count_by *by);
void count_labels_closed(struct call *call);

/* ---- forecast.c: how many timers are due in each second or minute to come ---- */

enum {
    FORECAST_COUNT_DEFAULT = 60,
    FORECAST_COUNT_MAX = 1440,
    FORECAST_ROWS_MAX = 200000, /* maximum read for a forecast, from all partitions together */
    FORECAST_ROWS_MIN = 1000,   /* minimum read from each partition */
};

/* ---- dead.c, dead_json.c: list, redrive and delete dead letters
 *
 * Timers that ran out of attempts or were refused for good, while they are kept (`dead_retain`).
 * ---- */

/* Dead letters to redrive or to delete. */
struct dead_ask {
    struct timer_id *ids; /* ids; NULL for those that the query finds */
    size_t id_count;
    struct list_query query; /* points into `room` */
    char *room;
    struct timer *patch; /* new target, or NULL */
    uint64_t rate;       /* timers a second; 0 for all at once */
    struct wall paced;   /* time at which the pace continues, by the cursor; 0 for now */
};

#define DEAD_IDS_MAX  1000
#define DEAD_RATE_MAX 1000000
/* maximum time by which a redrive begins in the future */
#define DEAD_AHEAD_MS_MAX (UINT64_C(24) * 3600 * 1000)

/* Cursor of a redrive, or of a delete of many. */
struct dead_cursor {
    struct cursor place;
    struct wall began; /* letters that died after this time are not its own; never 0 */
    struct wall paced; /* time at which the pace of a redrive continues; 0 if it has none */
};

#define DEAD_CURSOR_TEXT_SIZE (CURSOR_TEXT_SIZE + 2 * 13)
void dead_cursor_format(const struct dead_cursor *cursor, char ret_text[DEAD_CURSOR_TEXT_SIZE]);

/* Returns ERROR_INVALID for any text that dead_cursor_format did not write, except for its
 * times. */
enum error_code dead_cursor_parse(struct bytes text, struct dead_cursor *ret_cursor);

/* Reads the body of a redrive. An invalid id is read as one of no timer. After success the
 * caller frees with dead_ask_free. */
enum error_code dead_json_parse(struct bytes json, const struct timer_json_limits *limits,
                                struct dead_ask *ret_ask, struct problem *ret_problem);
void dead_ask_free(struct dead_ask *ask);

/* ---- dead_groups.c: how many dead letters each origin has of each error ---- */

#define DEAD_GROUPS_MAX      1000   /* maximum of distinct groups; the rest are counted together */
#define DEAD_GROUPS_ROWS_MAX 100000 /* maximum of rows that a call reads */

#endif
