/*
 * timer_json.h - the timer's JSON of docs/api.md, in and out; strict: no guess, no wrap, no unknown
 * field.
 *
 * Threads    Any; no state.
 */
#ifndef TICKWHEEL_API_JSON_TIMER_JSON_H
#define TICKWHEEL_API_JSON_TIMER_JSON_H

#include "api/json/problem.h"
#include "engine/command.h"
#include "timer/flow.h"
#include "timer/schedule.h"
#include "timer/target_pauses.h"

/* Handling of an `after` that is a number from 1 to 59,999: milliseconds, which many tools mean
 * as seconds. */
enum timer_json_bare {
    TIMER_JSON_BARE_NOTED,   /* accepted, and the caller is warned */
    TIMER_JSON_BARE_TAKEN,   /* accepted, because the client counts in milliseconds */
    TIMER_JSON_BARE_REFUSED, /* refused: it needs a unit */
};

/* Limits of a request, from the settings and the tenant. */
struct timer_json_limits {
    size_t payload_bytes_max;
    size_t target_bytes_max; /* 2048 */
    /* maximum number of labels; each key and value has at most 256 bytes */
    size_t labels_max;
    size_t headers_bytes_max;       /* maximum size of all extra headers together */
    struct bytes sensitive_headers; /* further ones (timer/sensitive_headers.h) */
    struct bytes tenant;            /* tenant of the timers */
    struct bytes key; /* of a create: its key unless the body has one; empty for none */
    /* Checks whether a timer may have this target, whose syntax is valid: NONE, or INVALID with
     * the reason. NULL allows every target. */
    enum error_code (*target_check)(void *context, struct bytes tenant, struct bytes text,
                                    const struct target *target, struct error *ret_error);
    void *target_context;
    struct zone_source zones;
    enum timer_json_bare bare_after;
    bool *is_after_bare; /* set with BARE_NOTED; NULL if the caller does not need it */
    struct bytes trace;  /* traceparent of the request, stored with what it creates */
};

/* Reads the body of a create. `now` is the coming millisecond (wall_coming). `due` becomes
 * absolute: `now` + after, or at; with an `after` of 0 it is the current millisecond, so the timer
 * is due already. Sets only due, retry and the texts of the timer. On error `ret_timer` is
 * untouched and `ret_problem` has the reason and the field. */
enum error_code timer_json_parse_create(struct bytes json, const struct timer_json_limits *limits,
                                        struct wall now, struct timer **ret_timer,
                                        struct problem *ret_problem);

/* Reads a live timer as timer_json_format shows it, to make it again with its times, its state, its
 * version, its attempts and its runs. Without a key it gets a request name that follows from its
 * id. Otherwise as timer_json_parse_create. */
enum error_code timer_json_parse_restore(struct bytes json, const struct timer_json_limits *limits,
                                         struct wall now, struct timer **ret_timer,
                                         struct problem *ret_problem);

/* Reads fields of a timer, each with its whole value, for calls on many timers and for touch:
 * `ret_fields` gets bits of enum timer_patch_field, `ret_timer` the values. An empty object is
 * INVALID. */
enum error_code timer_json_parse_values(struct bytes json, const struct timer_json_limits *limits,
                                        struct wall now, uint32_t *ret_fields,
                                        struct timer **ret_timer, struct problem *ret_problem);

/* Checks the body of a PATCH, a merge patch (RFC 7396), as far as that needs no timer. Where the
 * result depends on the timer, `ret_timer` is NULL and timer_json_merge_patch must follow;
 * otherwise the results are those of timer_json_parse_values. */
enum error_code timer_json_check_patch(struct bytes json, const struct timer_json_limits *limits,
                                       struct wall now, uint32_t *ret_fields,
                                       struct timer **ret_timer, struct problem *ret_problem);

/* Merges a patch that was checked into `timer`; results as those of timer_json_parse_values. */
enum error_code timer_json_merge_patch(struct bytes json, const struct timer *timer,
                                       const struct timer_json_limits *limits, struct wall now,
                                       uint32_t *ret_fields, struct timer **ret_timer,
                                       struct problem *ret_problem);

/* Appends the fields `fields`, bits of enum timer_field, as members of the open object. */
void timer_json_put_fields(const struct timer *timer, uint64_t fields, struct buffer *out);

/* Appends its last firings as the member `runs`, an array, the newest first. */
void timer_json_put_runs(const struct timer *timer, struct buffer *out);

/* Reads the limits of the flow with this key, and appends its text (timer/flow.h). */
enum error_code timer_json_flow_limits(struct bytes json, struct bytes key, struct buffer *ret_text,
                                       struct problem *ret_problem);

/* Appends the members of a flow to the open object. */
void timer_json_put_flow(const struct flow *flow, struct buffer *out);

/* Appends since when, until when and why its queue or its target is paused as the member `paused`,
 * if there is a pause and it is in force. */
void timer_json_put_pause(const struct target_pause *pause, struct wall now, struct buffer *out);

/* What is shown: the values of sensitive headers, or "***" instead; the payload. */
struct timer_json_view {
    bool hides_headers;
    bool hides_payload;             /* shows "payload_hidden": true instead of one */
    struct bytes sensitive_headers; /* further ones (timer/sensitive_headers.h) */
};

/* Appends the lines "Name: value" of `headers` whose values the view shows. */
void timer_json_append_shown_headers(struct bytes headers, const struct timer_json_view *view,
                                     struct buffer *out);

/* Appends the timer as docs/api.md shows it. A final state has no payload. */
void timer_json_format(const struct timer *timer, const struct timer_json_view *view,
                       struct buffer *out);

#endif
