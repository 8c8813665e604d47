/* Goal: no bytes make the reader of frames leave its bounds, and an accepted frame is the only
 * encoding of its contents. Method: the first byte chooses whether the checksum is made to fit; a
 * frame that is accepted is written again and gives equal bytes; one that is refused although its
 * checksum, version and cluster fit breaks a rule of frame.h, by a second
 * reading. */
#include "base/checksum.h"
#include "cluster/frame.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The rules as a table by kind: the lowest and highest seq and size of the body, the flags. */
static bool oracle_accepts(const uint8_t *bytes, size_t size)
{
    static const struct {
        uint64_t seq_min, seq_max;
        size_t body_min, body_max;
        uint8_t flags_max, epoch_min;
    } rules[] = {
        {1, 0, 0, 0, 0, 0},          {0, 0, 0, 900000, 0, 1},     {1, UINT64_MAX, 1, 900000, 3, 1},
        {1, UINT64_MAX, 0, 0, 0, 1}, {1, UINT64_MAX, 4, 4, 0, 1}, {0, UINT64_MAX, 0, 900000, 0, 0},
    };
    const uint8_t kind = bytes[12] < 6 ? bytes[12] : 0;
    uint64_t epoch = get_le(bytes + 28, 8), seq = get_le(bytes + 36, 8);

    return seq >= rules[kind].seq_min && seq <= rules[kind].seq_max &&
           size - 56 >= rules[kind].body_min && size - 56 <= rules[kind].body_max &&
           bytes[13] <= rules[kind].flags_max && epoch >= rules[kind].epoch_min;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    bool fits = data[0] & 1;
    char *copy = malloc(size);
    assert(copy);
    memcpy(copy, data + 1, --size);
    fits = fits && size >= FRAME_SIZE_OVERHEAD && memcmp(copy, "TWL\1", 4) == 0;
    if (fits)
        put_le(copy + size - 4, checksum_crc32c(0, copy, size - 4), 4);
    const uint64_t cluster = fits ? get_le(copy + 4, 8) : 1;
    struct frame frame;
    bool is_accepted =
        frame_decode((struct bytes){copy, size}, cluster, &frame, NULL) == ERROR_NONE;
    assert(!fits || is_accepted == oracle_accepts((const uint8_t *)copy, size));
    if (is_accepted) {
        struct buffer buffer;

        buffer_init(&buffer);
        frame_encode(&frame, cluster, &buffer);
        assert(bytes_equal(buffer_bytes(&buffer), (struct bytes){copy, size}));
        buffer_deinit(&buffer);
    }
    free(copy);
    return 0;
}
