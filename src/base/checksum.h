/*
 * checksum.h - CRC-32C (Castagnoli), the checksum of everything that is stored.
 *
 * Finds every error of up to 3 bits, and every burst of up to 32, in a record of any size we store.
 *
 *     uint32_t sum = checksum_crc32c(0, head, head_size);
 *     sum = checksum_crc32c(sum, body, body_size);      the same as of both in one piece
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_BASE_CHECKSUM_H
#define TICKWHEEL_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Continues the checksum `sum`, which is 0 at first. Uses the processor's CRC instruction if there
 * is one. */
uint32_t checksum_crc32c(uint32_t sum, const void *data, size_t size);

/* For tests: computes the checksum without that instruction. */
uint32_t checksum_crc32c_portable(uint32_t sum, const void *data, size_t size);

#endif
