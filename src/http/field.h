/*
 * field.h - values of header fields: media types, what a client accepts, entity tags, preferences.
 *
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_HTTP_FIELD_H
#define TICKWHEEL_HTTP_FIELD_H

#include "base/bytes.h"

/* Whether a Content-Type names `type` ("application/json"), in any case and with any parameters, as
 * long as the charset, if named, is UTF-8. */
bool http_media_type_is(struct bytes field, const char *type);

enum http_tag_kind {
    HTTP_TAG_STRONG,
    HTTP_TAG_WEAK,
    HTTP_TAG_ANY,  /* the asterisk */
    HTTP_TAG_BAD,  /* the field is no entity tag */
    HTTP_TAG_LIST, /* the field has several entity tags */
};

/* Reads the one entity tag of an If-Match; `ret_opaque` is what stands between the quotes. */
enum http_tag_kind http_tag_parse(struct bytes field, struct bytes *ret_opaque);

/* The weight in thousandths that an Accept gives to `type` in this version, as in
 * "text/plain;version=0.0.4;q=0.5"; a range without a version means any. 0: it does not name the
 * type; ranges with an asterisk do not. */
unsigned http_accept_weight(struct bytes field, const char *type, const char *version);

/* Whether a Prefer (RFC 7240) asks for name=value, as in "return=minimal". The first naming of a
 * preference counts. */
bool http_prefers(struct bytes field, const char *name, const char *value);

#endif
