/* percent.h - texts in which bytes are written as % and two hexadecimal digits (RFC 3986). */
#ifndef TICKWHEEL_BASE_PERCENT_H
#define TICKWHEEL_BASE_PERCENT_H

#include "base/bytes.h"

/* The byte that a '%' at `at` and the two digits behind it stand for; -1 without two digits. */
int percent_byte(struct bytes text, size_t at);

/* The size of the text when decoded; SIZE_MAX when a '%' is not followed by two digits, when a
 * control character or a blank is written as it is, or when a NUL is encoded. */
size_t percent_decoded_size(struct bytes text);

/* Writes the decoded text and returns its end. The text must have a percent_decoded_size. */
char *percent_decode(struct bytes text, char *to);

#endif
