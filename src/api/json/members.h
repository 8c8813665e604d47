/*
 * members.h - the body of a call that has a few fields: one object, each field once and none other.
 *
 *     static const char *const names[] = {"watch", "fire"};
 *     struct bytes values[2];
 *     code = members_read(body, names, 2, values, &problem);
 *
 * Errors     ERROR_NOT_JSON: the text is no JSON, wherever it goes wrong. ERROR_INVALID: the
 *            text is no object, or has an unknown or repeated field; the problem points to it.
 * Ownership  The values are parts of the text.
 */
#ifndef TICKWHEEL_API_JSON_MEMBERS_H
#define TICKWHEEL_API_JSON_MEMBERS_H

#include "api/json/problem.h"

/* Returns each value as it is in the text, complete and valid; data is NULL if it is missing. */
enum error_code members_read(struct bytes json, const char *const *names, size_t count,
                             struct bytes *ret_values, struct problem *ret_problem);

/* Returns the number of strings of such a value, which must be an array of `min` to `max` of
 * them. */
enum error_code members_count_strings(struct bytes value, const char *pointer, size_t min,
                                      size_t max, size_t *ret_count, struct problem *ret_problem);

#endif
