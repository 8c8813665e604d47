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

/* Goes on from `sum` (0 to begin). With the processor's own instruction where it has one. */
uint32_t checksum_crc32c(uint32_t sum, const void *data, size_t size);

/* For tests: the checksum computed without the instruction. */
uint32_t checksum_crc32c_portable(uint32_t sum, const void *data, size_t size);

#endif
