/*
 * checksum.h - CRC-32C (Castagnoli), the checksum of everything that is stored.
 *
 * Finds every error of up to 3 bits, and every burst of up to 32, in a record of any size we store:
 * up to 2^31 - 1 bits, two records with their sums differ in 4 bits at least (Castagnoli, Brauer,
 * Herrmann 1993; Koopman 2002). So a single flipped bit differs from every error of 2 bits, and can
 * be turned back. An error of 3 bits or more may look like one: another check has to find it.
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

/* Finds the flipped bit of `size` bytes and their sum, stored after them in little-endian order.
 * `difference`: stored sum ^ computed sum; the `size` bytes are the last ones that were summed, and
 * have fewer than 2^31 - 32 bits. Returns the bit's number: bit n % 8 of byte n / 8. Returns
 * SIZE_MAX if no single flip explains the difference. Takes a step for each bit, as if it were read
 * bit by bit. */
size_t checksum_find_flip(uint32_t difference, size_t size);

/* For tests: computes the checksum without that instruction. */
uint32_t checksum_crc32c_portable(uint32_t sum, const void *data, size_t size);

#endif
