/*
 * json.h - reads JSON (RFC 8259) strictly, in place, by pulling.
 *
 * The reader walks the text once. It allocates nothing and copies nothing: names, strings and
 * numbers are slices of the text, checked whole (grammar, UTF-8, escapes), and json_skip() gives
 * any value as one validated slice. An error is remembered and every later call fails, so one
 * question at the end is enough:
 *
 *     json_reader_init(&reader, text);
 *     if (json_peek(&reader) == JSON_OBJECT && json_enter_object(&reader))
 *         while (json_next_member(&reader, &name))
 *             json_skip(&reader, &value);
 *     if (!json_finish(&reader))
 *         complain(json_error(&reader), json_error_offset(&reader));
 *
 * Refused although RFC 8259 leaves it open: a byte order mark, more than JSON_DEPTH_MAX levels, an
 * escaped surrogate without its other half. Duplicate names are the caller's to refuse. Numbers are
 * text of any length and size.
 *
 * Time       O(text), each byte once.
 * Errors     Only the text's; asking for another type than json_peek() told is a bug in the caller.
 * Ownership  Slices are borrowed from the text.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_BASE_JSON_H
#define TICKWHEEL_BASE_JSON_H

#include "base/bytes.h"

#define JSON_DEPTH_MAX 64

enum json_type {
    JSON_NONE, /* no value begins here: the text is wrong */
    JSON_OBJECT,
    JSON_ARRAY,
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL,
};

struct json_reader {
    const char *begin_, *at_, *end_;
    const char *error_;    /* the error; NULL: none so far */
    const char *error_at_; /* where the error is */
    unsigned depth_;       /* open objects and arrays */
    bool fresh_;           /* just entered one: no comma yet */
};

/* A string as it stands between its quotes. */
struct json_string {
    struct bytes raw;
    bool escaped; /* with escapes json_string_decode() gives the value; without, `raw` is it */
};

void json_reader_init(struct json_reader *reader, struct bytes text);

/* The type of the value that begins here. */
enum json_type json_peek(struct json_reader *reader);

/* Goes into the object, the array. False when that is too deep. */
bool json_enter_object(struct json_reader *reader);
bool json_enter_array(struct json_reader *reader);

/* Goes to the next member, whose value must be read (or skipped) before the next call. False when
 * there is none: the object is left, or the text is wrong. */
bool json_next_member(struct json_reader *reader, struct json_string *ret_name);

/* Moves to the next element of an array; false at its end. */
bool json_next_element(struct json_reader *reader);

bool json_read_string(struct json_reader *reader, struct json_string *ret_string);

/* The number's text, as json_number_u64() takes it. */
bool json_read_number(struct json_reader *reader, struct bytes *ret_number);

/* Passes over a value of any type; `ret_raw` (may be NULL) is its text without space around it. */
bool json_skip(struct json_reader *reader, struct bytes *ret_raw);

/* Whether the text is right, to its end, and nothing follows the value. */
bool json_finish(struct json_reader *reader);

/* The error in words ("a comma or } is expected"); NULL when there is none. */
static inline const char *json_error(const struct json_reader *reader)
{
    return reader->error_;
}

/* The byte at which the text goes wrong, from 0. Its size when it ends too early. */
static inline size_t json_error_offset(const struct json_reader *reader)
{
    return (size_t)((reader->error_ ? reader->error_at_ : reader->at_) - reader->begin_);
}

/* Writes the value of a string that was read to `to`, which need not be larger than `raw`. False
 * when it does not fit into `capacity`. */
bool json_string_decode(const struct json_string *string, char *to, size_t capacity,
                        size_t *ret_size);

enum json_u64 {
    JSON_U64_OK,
    JSON_U64_FRACTION,  /* 1.5, 1e-3; of any size */
    JSON_U64_NEGATIVE,  /* below 0, with a fraction or without */
    JSON_U64_TOO_LARGE, /* above 2^64 - 1 */
};

/* The exact value of a number that was read; 12, 12.0 and 1.2e1 are equal. `ret_value` is
 * untouched unless it is an integer that fits. */
enum json_u64 json_number_u64(struct bytes number, uint64_t *ret_value);

/* For json.c, which checks strings, and json_text.c, which decodes them: reads the escape that
 * begins at the backslash `at`; a pair of surrogates is one. Returns what follows it; NULL with
 * `ret_error` when it is none. */
const char *json_escape_read(const char *at, const char *end, uint32_t *ret_char,
                             const char **ret_error);

#endif
