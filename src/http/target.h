/*
 * target.h - the request target of RFC 9112: its path, its query, and percent-encoding undone.
 *
 * Strict: a bad escape, an encoded NUL, a control character or a space is an error and not guessed
 * at.
 *
 * Errors     ERROR_BAD_REQUEST.
 * Ownership  Results point into the target or into the room that the caller gave.
 * Threads    None.
 */
#ifndef TICKWHEEL_HTTP_TARGET_H
#define TICKWHEEL_HTTP_TARGET_H

#include "base/bytes.h"
#include "base/error.h"

struct http_target {
    struct bytes path;      /* from its first slash on, still encoded; never empty */
    struct bytes query;     /* after the question mark, still encoded; may be empty */
    struct bytes authority; /* "host:port" of the absolute form; data NULL in the usual form */
};

struct http_parameter {
    struct bytes name, value; /* decoded */
};

/* "/path?query" or, as proxies send it, "http://host/path?query". */
enum error_code http_target_parse(struct bytes target, struct http_target *ret_target);

/* The first segment of a path that starts with a slash, without that slash, and the rest from the
 * next slash on. False at the end. "/a//" has the segments "a", "" and "". */
bool http_path_next(struct bytes *path, struct bytes *ret_segment);

/* Undoes percent-encoding into `room` (text.size bytes are enough). */
enum error_code http_percent_decode(struct bytes text, char *room, struct bytes *ret_text);

/* Splits "a=1&b=2" and decodes it ('+' is a space) into `room`, query.size bytes. Empty pieces are
 * passed over; a name without '=' has an empty value. More than `max` are an error. */
enum error_code http_query_parse(struct bytes query, char *room,
                                 struct http_parameter *ret_parameters, size_t max,
                                 size_t *ret_count);

#endif
