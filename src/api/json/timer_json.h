/*
 * timer_json.h - the timer's JSON of API.md, in and out; strict: no guess, no wrap, no unknown
 * field.
 *
 * Threads    None of its own.
 */
#ifndef TICKWHEEL_API_JSON_TIMER_JSON_H
#define TICKWHEEL_API_JSON_TIMER_JSON_H

#include "api/json/problem.h"
#include "engine/command.h"
#include "timer/schedule.h"

/* What is accepted; from the configuration. */
struct timer_json_limits {
    size_t payload_bytes_max;
    size_t target_bytes_max;  /* 2048 */
    size_t labels_max;        /* number of labels; each key and value at most 256 bytes */
    size_t headers_bytes_max; /* all extra headers together */
    struct bytes tenant;      /* whose timers are made */
    /* Whether a timer may go to this target, of which the syntax is right: NONE, or INVALID with
     * the reason; NULL: any. */
    enum error_code (*target_check)(void *context, struct bytes tenant, struct bytes text,
                                    const struct target *target, struct error *ret_error);
    void *target_context;
    struct zone_source zones;
    struct bytes trace; /* the traceparent of the request; kept with what it creates */
};

/* Reads a create: due is absolute afterwards (`now` + after, or at), where `now` is the millisecond
 * to come (wall_coming); an `after` of 0 is the one that has begun. Only due, retry and texts of
 * the timer are set. On error NULL is not touched and `ret_problem` says what and where. */
enum error_code timer_json_parse_create(struct bytes json, const struct timer_json_limits *limits,
                                        struct wall now, struct timer **ret_timer,
                                        struct problem *ret_problem);

/* Reads a patch: `ret_fields` gets enum timer_patch_field bits, `ret_timer` their values. An empty
 * object is INVALID. */
enum error_code timer_json_parse_patch(struct bytes json, const struct timer_json_limits *limits,
                                       struct wall now, uint32_t *ret_fields,
                                       struct timer **ret_timer, struct problem *ret_problem);

/* Appends what the timer carries, as members after a comma: payload, headers, labels. */
void timer_json_format_content(const struct timer *timer, struct buffer *out);

/* Appends the timer as API.md shows it. A final state has no payload. */
void timer_json_format(const struct timer *timer, struct buffer *out);

#endif
