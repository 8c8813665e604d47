/*
 * labels.h - what a timer's labels say.
 *
 * Labels are a raw JSON object of strings, as src/api writes it: equal labels are equal bytes.
 *
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_TIMER_LABELS_H
#define TICKWHEEL_TIMER_LABELS_H

#include "base/bytes.h"

/* The longest name of a label, and the longest value, in bytes. */
#define LABEL_SIZE_MAX 256

/* Whether there is a label of this name with this value; both decoded. */
bool labels_have(struct bytes labels, struct bytes name, struct bytes value);

/* Whether `labels` has every label of `wanted`. */
bool labels_have_all(struct bytes labels, struct bytes wanted);

#endif
