/* number.h - whole numbers read out of text: digits only, without a sign and without blanks. */
#ifndef TICKWHEEL_BASE_NUMBER_H
#define TICKWHEEL_BASE_NUMBER_H

#include "base/bytes.h"

/* Reads the whole text as a number in a base of 2 to 16; letters are lower-case digits. Returns
 * false without storing anything if the text is empty, has another character, or exceeds 64
 * bits. */
bool number_parse(struct bytes text, unsigned base, uint64_t *ret_value);

/* Reads a decimal number with an optional K, M, G or T, which multiply it by powers of 1024.
 * Returns false like number_parse. */
bool number_parse_scaled(struct bytes text, uint64_t *ret_value);

#endif
