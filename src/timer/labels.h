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

/* Maximum size of the name and of the value of a label, in bytes. */
#define LABEL_SIZE_MAX 256

/* Finds the label with this name, which is a decoded text. Returns false if there is none. */
bool labels_find(struct bytes labels, struct bytes name, char ret_value[LABEL_SIZE_MAX],
                 size_t *ret_size);

/* True if there is a label with this name and value, which are decoded texts. */
bool labels_have(struct bytes labels, struct bytes name, struct bytes value);

/* True if `labels` has every label of `wanted`. */
bool labels_have_all(struct bytes labels, struct bytes wanted);

#endif
