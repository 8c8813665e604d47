/*
 * strict.h - values in strict bodies: a whole number within bounds, an array of strings, a field
 * that is given twice.
 *
 * Errors     ERROR_INVALID with a fault at `pointer`; ERROR_NOT_JSON.
 */
#ifndef TICKWHEEL_API_JSON_STRICT_H
#define TICKWHEEL_API_JSON_STRICT_H

#include "api/json/timer_json_parse.h"

/* Reads a number from `min` to `max`. */
enum error_code strict_integer(struct timer_parse *parse, const char *pointer, uint64_t min,
                               uint64_t max, uint64_t *ret_value);

/* Reads an array of 1 to `count_max` strings, and passes each, decoded, to `take`. */
enum error_code strict_strings(struct timer_parse *parse, const char *pointer, size_t count_max,
                               void (*take)(void *reading, struct bytes text), void *reading);

/* Reports ERROR_INVALID: the object at `parent` has this field already. */
enum error_code strict_twice(struct timer_parse *parse, const char *parent, struct bytes name);

#endif
