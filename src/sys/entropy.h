/*
 * entropy.h - random bytes from the kernel: for seeds, keys and secrets.
 *
 * Errors     ERROR_IO when the kernel has none to give; the bytes are then unspecified.
 * Threads    Any. Waits only while the machine has just booted.
 */
#ifndef TICKWHEEL_SYS_ENTROPY_H
#define TICKWHEEL_SYS_ENTROPY_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum error_code entropy_fill(void *to, size_t size);

enum error_code entropy_u64(uint64_t *ret_value);

#endif
