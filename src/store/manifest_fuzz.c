/* Goal: no bytes make the look through a manifest read out of bounds, and what it says holds
 * together. Method: the input is a manifest, handed over in blocks; half of the time its first
 * parts get a sum that fits, so that what lies behind is reached. */
#include "base/checksum.h"
#include "store/manifest.h"

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
    struct manifest manifest;
    manifest_begin(&manifest);
    for (size_t at = 0; at < size - 1; at += MANIFEST_BLOCK)
        manifest_add(&manifest,
                     (struct bytes){copy + at, size - 1 - at < MANIFEST_BLOCK ? size - 1 - at
                                                                              : MANIFEST_BLOCK});
    manifest_end(&manifest);
    assert(!manifest.has_loss || manifest.is_broken);
    assert(!manifest.is_broken || manifest.broken_at < size);
    free(copy);
    return 0;
}
