/*
 * fifo_oracle.h - for tests: a FIFO beside an array of deadlines, driven together by bytes.
 */
#ifndef TICKWHEEL_FIFO_ORACLE_H
#define TICKWHEEL_FIFO_ORACLE_H

#include <stddef.h>
#include <stdint.h>

/* Does the verbs that `bytes` stand for to both, and aborts with a message where they differ. */
void fifo_oracle_run(const uint8_t *bytes, size_t size);

#endif
