/*
 * head.h - the head of an HTTP/1.1 request: finds its end, and parses it (RFC 9112, 2 to 6).
 *
 * Strict: a head that two programs may read differently is bad, not guessed at. Lines end in CR LF
 * only, a name is a token directly before its colon, no line is continued, no byte is a control
 * character, and the fields that frame the body are unambiguous.
 *
 *     size_t seen = 0, size;
 *     while (head_find_end(input, HEAD_MAX, &seen, &size) == HEAD_MORE) read more into input;
 *     if (head_parse((struct bytes){input.data, size}, &head) == HEAD_WHOLE) ...
 *
 * Ownership  Parts are offsets into the head, so that it can be copied.
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_HTTP_HEAD_H
#define TICKWHEEL_HTTP_HEAD_H

#include "base/bytes.h"

/* Maximum of header lines of a head. */
#define HEAD_FIELDS_MAX 128u

enum head_result {
    HEAD_WHOLE,
    HEAD_MORE,      /* the end of the head has not arrived */
    HEAD_BAD,       /* the text is not a valid head */
    HEAD_TOO_LARGE, /* the head has too many bytes or fields */
};

struct head_part {
    uint32_t at, size;
};

struct head_field {
    struct head_part name, value; /* the value has no blanks at its ends */
};

struct head {
    struct head_part method, target;
    bool is_http_1_0;
    bool is_chunked;
    bool expects_continue;   /* the client waits for 100 Continue before it sends the body */
    bool keeps_alive;        /* the connection may serve another request after this one */
    uint64_t content_length; /* 0 if there is no body, or if is_chunked */
    size_t field_count;
    struct head_field fields[HEAD_FIELDS_MAX];
};

/* Looks for the empty line that ends the head at the start of `text`. `seen` stores how many bytes
 * earlier calls have searched; 0 at first. WHOLE sets `ret_size`, which includes the empty line.
 * TOO_LARGE means that the first `max` bytes do not contain the end. BAD means that they have a
 * line feed without a carriage return, or cannot be the beginning of a head. */
enum head_result head_find_end(struct bytes text, size_t max, size_t *seen, size_t *ret_size);

/* Parses a head that head_find_end found. Returns WHOLE, BAD, or TOO_LARGE if it has too many
 * fields. */
enum head_result head_parse(struct bytes text, struct head *ret_head);

/* True if a token such as a method or a field name may contain the byte (RFC 9110, 5.6.2). */
bool head_is_token_byte(char byte);

/* True if the value of a field may contain the byte. It may contain no control character except the
 * tab. */
bool head_is_value_byte(char byte);

static inline struct bytes head_part(const char *text, struct head_part part)
{
    return (struct bytes){text + part.at, part.size};
}

#endif
