/* number.h - whole numbers read out of text: digits only, without a sign and without blanks. */
#ifndef TICKWHEEL_BASE_NUMBER_H
#define TICKWHEEL_BASE_NUMBER_H

#include "base/bytes.h"

/* Reads the whole text to the base of 2 to 16; letters are lower-case digits. False, and nothing is
 * stored, when the text is empty, has another character, or does not fit into 64 bits. */
bool number_parse(struct bytes text, unsigned base, uint64_t *ret_value);

/* Reads a decimal number that K, M, G or T may follow: powers of 1024. False as above. */
bool number_parse_scaled(struct bytes text, uint64_t *ret_value);

#endif
