/*
 * json_write.h - writes JSON into a buffer, value by value.
 *
 *     json_open(&out, NULL, '{');
 *     json_put_text(&out, "state", "ready");
 *     json_open(&out, "due", '[');
 *     json_put_number(&out, NULL, 8);
 *     json_close(&out, ']');
 *     json_close(&out, '}'); // {"state":"ready","due":[8]}
 *
 * A `name` makes the value a member of the open object; NULL makes it an element of the open array,
 * or a text of its own. A name is written as it is: one that may need an escape goes into
 * json_put_pair. The writer holds no state: the end of the buffer says whether a comma is
 * needed, so a function can add members to an object that its caller opened.
 *
 * Time       O(bytes written).
 * Errors     The buffer remembers that it could not grow.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_BASE_JSON_WRITE_H
#define TICKWHEEL_BASE_JSON_WRITE_H

#include "base/bytes.h"

/* Begins an object or an array. `bracket` is { or [. */
void json_open(struct buffer *out, const char *name, char bracket);

/* Ends the innermost object or array. `bracket` is } or ]. */
void json_close(struct buffer *out, char bracket);

/* Appends a comma, if one is needed, and the name of a member. The caller appends its value. */
void json_put_name(struct buffer *out, const char *name);

void json_put_string(struct buffer *out, const char *name, struct bytes text);
void json_put_text(struct buffer *out, const char *name, const char *text);
void json_put_number(struct buffer *out, const char *name, uint64_t number);
void json_put_flag(struct buffer *out, const char *name, bool is_so);

/* Appends a value that is JSON already. */
void json_put_raw(struct buffer *out, const char *name, struct bytes json);

/* Appends a member with a text as value. Its name may be any text, because it is escaped. */
void json_put_pair(struct buffer *out, struct bytes name, struct bytes text);

/* Appends the string unless it is empty. */
static inline void json_put_some(struct buffer *out, const char *name, struct bytes text)
{
    if (text.size)
        json_put_string(out, name, text);
}

/* Appends a value that is JSON already, unless `json` is empty. */
static inline void json_put_some_raw(struct buffer *out, const char *name, struct bytes json)
{
    if (json.size)
        json_put_raw(out, name, json);
}

/* Appends `text` as a JSON string with quotes. Only what must be escaped is, so equal texts give
 * equal bytes. Bytes that are not UTF-8 are written as U+FFFD, so that the output is always valid
 * JSON. */
void json_append_string(struct buffer *out, struct bytes text);

/* Appends valid JSON with its characters outside ASCII, which are in strings, as \u escapes. */
void json_append_ascii(struct buffer *out, struct bytes json);

#endif
