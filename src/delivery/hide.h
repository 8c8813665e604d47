/*
 * hide.h - replaces a secret in a text that came from outside: a receiver may send back in its
 * answer what was in the request.
 *
 *     hide_secret(token, answer, &size);      "Bearer abc" in it becomes "Bearer ***"
 *
 * A secret is found as it is, or with backslashes before its characters, as in JSON, and if the
 * text was cut within it. Not found are other spellings, and secrets of fewer than HIDE_SIZE_MIN
 * bytes.
 *
 * Threads    None; a pure function.
 */
#ifndef TICKWHEEL_DELIVERY_HIDE_H
#define TICKWHEEL_DELIVERY_HIDE_H

#include "base/bytes.h"

#define HIDE_SIZE_MIN 4

/* Replaces the secret in the text, which gets no longer. */
void hide_secret(struct bytes secret, char *text, uint32_t *size);

#endif
