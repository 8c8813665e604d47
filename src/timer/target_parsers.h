/*
 * target_parsers.h - the syntax of each kind of target, for the table of target.c alone.
 *
 * `at` is the end of the scheme. A parser fills in all of `target` but the kind, whose
 * `origin_size` is the whole text and whose other parts are zero before. ERROR_INVALID with the
 * reason.
 */
#ifndef TICKWHEEL_TIMER_TARGET_PARSERS_H
#define TICKWHEEL_TIMER_TARGET_PARSERS_H

#include "timer/target.h"

typedef enum error_code target_parser(struct bytes text, size_t at, struct target *target,
                                      struct error *ret_error);

target_parser target_parser_url;         /* target_url.c */
target_parser target_parser_name;        /* queue_target.c: empty, or a NAME like that of a queue */
target_parser target_parser_queue;       /* queue_target.c: NAME or NAME?priority=0..9 */
target_parser target_parser_broker;      /* broker_target.c: CONNECTION/PLACE?key=KEY */
target_parser target_parser_broker_pair; /* broker_target.c: CONNECTION/PLACE/PLACE?key=KEY */
target_parser target_parser_broker_path; /* broker_target.c: CONNECTION/PLACE or .../PLACE/PLACE */

target_parser target_parser_named; /* named_url.c: NAME: or NAME:/path?query */

/* Schemes of all kinds, each after a blank, for messages. */
extern const char target_schemes[];

/* Checks that path and query, from `at` on, have only characters that a URL may hold. */
enum error_code target_url_check_path(struct bytes url, const char *at, struct error *ret_error);

/* Returns the slice of the text from `begin` up to `end`. */
static inline struct target_slice target_slice_of(struct bytes text, const char *begin,
                                                  const char *end)
{
    return (struct target_slice){(uint16_t)(begin - text.data), (uint16_t)(end - begin)};
}

#endif
