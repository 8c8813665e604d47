/*
 * target.h - parses the request target of RFC 9112: its path, its query, and percent-encoding.
 *
 * Strict: an invalid escape, an encoded NUL, a control character and a space are errors.
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
    struct bytes path;      /* begins with a slash; still encoded; never empty */
    struct bytes query;     /* text after the question mark; still encoded; may be empty */
    struct bytes authority; /* "host:port" of the absolute form; data is NULL in the usual form */
};

struct http_parameter {
    struct bytes name, value; /* decoded */
};

/* Parses "/path?query" or, as proxies send it, "http://host/path?query". */
enum error_code http_target_parse(struct bytes target, struct http_target *ret_target);

/* Removes the first segment from a path that starts with a slash. The segment has no slash, and
 * the rest begins with the next one. Returns false at the end. "/a//" has the segments "a", ""
 * and "". */
bool http_path_next(struct bytes *path, struct bytes *ret_segment);

/* Decodes the percent-encoding of a text into `room`, which needs text.size bytes. */
enum error_code http_percent_decode(struct bytes text, char *room, struct bytes *ret_text);

/* Splits "a=1&b=2" and decodes the parts into `room`, which needs query.size bytes; '+' is a space.
 * Empty pieces are skipped; a name without '=' has an empty value. More than `max` parameters are
 * an error. */
enum error_code http_query_parse(struct bytes query, char *room,
                                 struct http_parameter *ret_parameters, size_t max,
                                 size_t *ret_count);

#endif
