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
    JSON_NONE, /* no value begins here: the text is invalid */
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
    const char *error_;    /* NULL if there is no error */
    const char *error_at_; /* position of the error */
    unsigned depth_;       /* number of objects and arrays that are open */
    bool fresh_;           /* an object or array was just entered, so no comma is expected */
};

/* The text of a string between its quotes, not decoded. */
struct json_string {
    struct bytes raw;
    /* true if the value must be decoded by json_string_decode(); otherwise it is `raw` */
    bool escaped;
};

void json_reader_init(struct json_reader *reader, struct bytes text);

/* Returns the type of the value that begins here. */
enum json_type json_peek(struct json_reader *reader);

/* Enters the object or array. Returns false if it is nested too deeply. */
bool json_enter_object(struct json_reader *reader);
bool json_enter_array(struct json_reader *reader);

/* Moves to the next member, whose value must be read (or skipped) before the next call. Returns
 * false if there is none: the object was left, or the text is invalid. */
bool json_next_member(struct json_reader *reader, struct json_string *ret_name);

/* Moves to the next element of an array. Returns false at its end. */
bool json_next_element(struct json_reader *reader);

bool json_read_string(struct json_reader *reader, struct json_string *ret_string);

/* Reads a number and returns its text, which json_number_u64() converts. */
bool json_read_number(struct json_reader *reader, struct bytes *ret_number);

/* Skips a value of any type. `ret_raw`, which may be NULL, gets its text without white space around
 * it. */
bool json_skip(struct json_reader *reader, struct bytes *ret_raw);

/* True if the whole text is valid, and nothing follows the value. */
bool json_finish(struct json_reader *reader);

/* Returns the error in words ("a comma or } is expected"); NULL if there is none. */
static inline const char *json_error(const struct json_reader *reader)
{
    return reader->error_;
}

/* Returns the offset of the first invalid byte, or the size of the text if it ends too early. */
static inline size_t json_error_offset(const struct json_reader *reader)
{
    return (size_t)((reader->error_ ? reader->error_at_ : reader->at_) - reader->begin_);
}

/* Decodes a string that was read into `to`, which need not be larger than `raw`. Returns false
 * if it exceeds `capacity`. */
bool json_string_decode(const struct json_string *string, char *to, size_t capacity,
                        size_t *ret_size);

enum json_u64 {
    JSON_U64_OK,
    JSON_U64_FRACTION,  /* not an integer, such as 1.5 or 1e-3; of any size */
    JSON_U64_NEGATIVE,  /* below 0, integer or not */
    JSON_U64_TOO_LARGE, /* above 2^64 - 1 */
};

/* Converts the text of a number exactly; 12, 12.0 and 1.2e1 are equal. `ret_value` is set only for
 * an integer that fits. */
enum json_u64 json_number_u64(struct bytes number, uint64_t *ret_value);

/* Reads the escape that begins with the backslash at `at`; a pair of surrogates is one escape. Used
 * by json.c, which checks strings, and json_text.c, which decodes them. Returns the position after
 * it; NULL, with `ret_error`, if it is invalid. */
const char *json_escape_read(const char *at, const char *end, uint32_t *ret_char,
                             const char **ret_error);

#endif
