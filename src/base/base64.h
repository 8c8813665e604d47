/*
 * base64.h - bytes as text of A-Z a-z 0-9 + / with padding (RFC 4648, section 4).
 *
 * Read strictly: padded, no space or line breaks, the unused bits zero; so each run of bytes has
 * exactly one text.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_BASE_BASE64_H
#define TICKWHEEL_BASE_BASE64_H

#include "base/bytes.h"

/* Returns the memory that base64_decode needs at most. */
static inline size_t base64_decoded_size_max(size_t text_size)
{
    return text_size / 4 * 3;
}

/* Decodes into `to`. Returns false if the text is no base64; `to` may be written even then. */
bool base64_decode(struct bytes text, void *to, size_t *ret_size);

void base64_append(struct buffer *out, struct bytes bytes);

/* Like base64_append, with - and _ for + and /, and without padding (RFC 4648, section 5). */
void base64_append_url(struct buffer *out, struct bytes bytes);

#endif
