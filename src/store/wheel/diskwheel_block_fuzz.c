/* Goal: no bytes make a block be read out of bounds; what is read of one, encoded again, is the
 * same records; and a flipped bit makes it the same block or none. Method: half of the inputs get a
 * checksum that fits, and a bit of them is flipped. */
#include "base/checksum.h"
#include "store/wheel/diskwheel_block.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void block_fuzz_make_sum_fit(char *block, size_t size, struct diskwheel_block_place place)
{
    char where[16];

    put_le(where, place.run_id, 8);
    put_le(where + 8, place.offset, 8);
    uint32_t sum = checksum_crc32c(0, where, sizeof(where));
    sum = checksum_crc32c(sum, block, 12);
    sum = checksum_crc32c(sum, block + DISKWHEEL_BLOCK_HEAD, size - DISKWHEEL_BLOCK_HEAD);
    put_le(block + 12, sum, 4);
}

/* A block with one flipped bit is opened as the block that it was, or not at all. */
static void block_fuzz_flip(const char *whole, size_t size, enum diskwheel_table table,
                            struct diskwheel_block_place place, size_t bit)
{
    struct diskwheel_block block;
    struct buffer raw = {0};
    char *copy = malloc(size);

    assert(copy);
    memcpy(copy, whole, size);
    copy[bit / 8] ^= (char)(1 << bit % 8);
    if (!diskwheel_block_open(copy, size, table, place, &raw, &block))
        assert(block.is_turned && memcmp(copy, whole, size) == 0);
    buffer_deinit(&raw);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct diskwheel_block_place place = {1, 2};
    struct diskwheel_block_builder builder = {.count = 0};
    struct diskwheel_block block;
    struct buffer raw = {0};
    struct record_key key;
    struct bytes value;

    if (size < 1 + DISKWHEEL_BLOCK_HEAD)
        return 0;
    char *copy = malloc(size - 1);
    assert(copy);
    memcpy(copy, data + 1, size - 1);
    if (data[0] & 1) {
        put_le(copy, get_le(copy, 4) % (1 << 20), 4);
        block_fuzz_make_sum_fit(copy, size - 1, place);
    }
    const enum diskwheel_table table = (enum diskwheel_table)(data[0] >> 1 & 3);
    if (data[0] & 1 && table < DISKWHEEL_TABLES)
        block_fuzz_flip(copy, size - 1, table, place, (data[0] >> 3) * 53 % (8 * (size - 1)));
    if (table < DISKWHEEL_TABLES &&
        !diskwheel_block_open(copy, size - 1, table, place, &raw, &block)) {
        enum error_code code;

        while (!(code = diskwheel_block_next(&block, &key, &value)))
            diskwheel_block_add(&builder, key, value);
        if (code == ERROR_NOT_FOUND)
            assert(bytes_equal(buffer_bytes(&builder.raw), buffer_bytes(&raw)) ||
                   builder.raw.size < raw.size); /* numbers may have been longer than needed */
    }
    buffer_deinit(&builder.raw);
    buffer_deinit(&raw);
    free(copy);
    return 0;
}
