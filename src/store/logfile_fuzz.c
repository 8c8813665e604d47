/* Goal: no bytes make the look through a log read out of bounds, and what it says holds together.
 * Method: the input is a log, handed over in blocks; half of the time its first parts get a sum
 * that fits, so that what lies behind is reached. */
#include "base/checksum.h"
#include "store/logfile.h"

#include <assert.h>
#include <stdlib.h>

enum { HEADER = 7 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make_sums_fit(char *data, size_t size)
{
    size_t at = 0;

    while (size - at >= HEADER) {
        size_t part = HEADER + get_le(data + at + 4, 2);

        if (part > size - at)
            return;
        uint32_t sum = checksum_crc32c(0, data + at + 6, part - 6);
        put_le(data + at, (uint32_t)((sum >> 15 | sum << 17) + 0xa282ead8u), 4);
        at += part;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    char *copy = malloc(size);
    assert(copy);
    memcpy(copy, data + 1, size - 1);
    if (data[0] & 1)
        make_sums_fit(copy, size - 1);
    struct logfile log;
    logfile_begin(&log, data[0] & 2 ? LOGFILE_CHANGES : LOGFILE_WRITES, data[0] & 4 ? 9 : 0);
    for (size_t at = 0; at < size - 1; at += LOGFILE_BLOCK)
        logfile_add(&log, (struct bytes){copy + at, size - 1 - at < LOGFILE_BLOCK ? size - 1 - at
                                                                                  : LOGFILE_BLOCK});
    logfile_end(&log);
    assert(!log.has_loss || log.is_broken);
    assert(!log.is_broken || log.broken_at < size);
    free(copy);
    return 0;
}
