/* percent.h - texts in which bytes are written as % and two hexadecimal digits (RFC 3986). */
#ifndef TICKWHEEL_BASE_PERCENT_H
#define TICKWHEEL_BASE_PERCENT_H

#include "base/bytes.h"

/* Returns the byte that the '%' at `at` and the next two digits encode; -1 if two digits do not
 * follow. */
int percent_byte(struct bytes text, size_t at);

/* Returns the size of the decoded text. SIZE_MAX if a '%' is not followed by two digits, a control
 * character or a blank is not encoded, or a NUL is encoded. */
size_t percent_decoded_size(struct bytes text);

/* Writes the decoded text and returns its end. Call percent_decoded_size first. */
char *percent_decode(struct bytes text, char *to);

#endif
