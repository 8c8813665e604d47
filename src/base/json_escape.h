/*
 * json_escape.h - one escape of a JSON string; shared by json.c, which checks strings, and
 * json_text.c, which decodes them, and by no other file.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_BASE_JSON_ESCAPE_H
#define TICKWHEEL_BASE_JSON_ESCAPE_H

#include <stdint.h>

/* Reads the escape that begins at the backslash `at`; a pair of surrogates is one. Returns what
 * follows it; NULL with `ret_error` when it is none. */
const char *json_escape_read(const char *at, const char *end, uint32_t *ret_char,
                             const char **ret_error);

#endif
