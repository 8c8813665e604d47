/*
 * field.h - values of header fields: media types, what a client accepts, entity tags, preferences.
 *
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_HTTP_FIELD_H
#define TICKWHEEL_HTTP_FIELD_H

#include "base/bytes.h"

/* True if a Content-Type names `type` ("application/json"), in any letter case and with any
 * parameters. If it names a charset, that must be UTF-8. */
bool http_media_type_is(struct bytes field, const char *type);

enum http_tag_kind {
    HTTP_TAG_STRONG,
    HTTP_TAG_WEAK,
    HTTP_TAG_ANY,  /* an asterisk, which matches any version */
    HTTP_TAG_BAD,  /* the field is not an entity tag */
    HTTP_TAG_LIST, /* the field has several entity tags */
};

/* Reads an If-Match with one entity tag; `ret_opaque` is the text between its quotes. */
enum http_tag_kind http_tag_parse(struct bytes field, struct bytes *ret_opaque);

/* Returns the weight in thousandths that an Accept gives to `type` in this version, as in
 * "text/plain;version=0.0.4;q=0.5". A range without a version matches any. 0 means that the type is
 * not named; ranges with an asterisk do not name it. */
unsigned http_accept_weight(struct bytes field, const char *type, const char *version);

/* True if a Prefer (RFC 7240) asks for name=value, as in "return=minimal". If a preference is given
 * twice, the first one counts. */
bool http_prefers(struct bytes field, const char *name, const char *value);

#endif
