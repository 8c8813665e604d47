/* diskwheel_block.c - encodes and reads blocks; see diskwheel_block.h. */
#include "store/wheel/diskwheel_block.h"

#include "base/checksum.h"
#include "store/varint.h"

#include <assert.h>
#include <lz4.h>

enum { BLOCK_SUM_AT = 12 };

void diskwheel_block_add(struct diskwheel_block_builder *builder, struct record_key key,
                         struct bytes value)
{
    const bool is_first = !builder->count;
    const uint64_t high = is_first ? key.high : key.high - builder->last.high;

    assert(is_first || record_key_before(builder->last, key));
    varint_append(&builder->raw, high);
    varint_append(&builder->raw, is_first || high ? key.low : key.low - builder->last.low);
    varint_append(&builder->raw, value.size);
    buffer_append_bytes(&builder->raw, value);
    if (is_first)
        builder->first = key;
    builder->last = key;
    builder->count++;
}

static uint32_t diskwheel_block_sum(struct diskwheel_block_place place, const char *head,
                                    struct bytes stored)
{
    char where[16];

    put_le(where, place.run_id, 8);
    put_le(where + 8, place.offset, 8);
    uint32_t sum = checksum_crc32c(0, where, sizeof(where));
    sum = checksum_crc32c(sum, head, BLOCK_SUM_AT);
    return checksum_crc32c(sum, stored.data, stored.size);
}

size_t diskwheel_block_end(struct diskwheel_block_builder *builder, enum diskwheel_table table,
                           struct diskwheel_block_place place, struct buffer *to)
{
    const struct buffer *raw = &builder->raw;
    const size_t begin = to->size;

    assert(builder->count > 0);
    if (buffer_failed(raw) || raw->size > DISKWHEEL_BLOCK_MAX)
        return 0;
    char *head = buffer_reserve(to, DISKWHEEL_BLOCK_HEAD + raw->size);
    if (!head)
        return 0;
    /* an eighth saved is the least that pays */
    const int room = (int)(raw->size - raw->size / 8);
    int size = LZ4_compress_default(raw->data, head + DISKWHEEL_BLOCK_HEAD, (int)raw->size, room);
    const bool is_packed = size > 0;
    if (!is_packed) {
        memcpy(head + DISKWHEEL_BLOCK_HEAD, raw->data, raw->size);
        size = (int)raw->size;
    }
    put_le(head, raw->size, 4);
    put_le(head + 4, (uint64_t)size, 4);
    put_le(head + 8, builder->count, 2);
    head[10] = (char)table;
    head[11] = (char)is_packed;
    put_le(
        head + BLOCK_SUM_AT,
        diskwheel_block_sum(place, head, (struct bytes){head + DISKWHEEL_BLOCK_HEAD, (size_t)size}),
        4);
    to->size += DISKWHEEL_BLOCK_HEAD + (size_t)size;
    buffer_clear(&builder->raw);
    builder->count = 0;
    return to->size - begin;
}

static enum error_code diskwheel_block_read(struct bytes stored, enum diskwheel_table table,
                                            struct diskwheel_block_place place, struct buffer *raw,
                                            struct diskwheel_block *ret_block)
{
    if (stored.size < DISKWHEEL_BLOCK_HEAD)
        return ERROR_CORRUPT;
    const struct bytes body = {stored.data + DISKWHEEL_BLOCK_HEAD,
                               stored.size - DISKWHEEL_BLOCK_HEAD};
    const size_t size = get_le(stored.data, 4);
    const unsigned count = (unsigned)get_le(stored.data + 8, 2);

    if (get_le(stored.data + 4, 4) != body.size || (uint8_t)stored.data[10] != table ||
        (uint8_t)stored.data[11] > 1 || !count || !size || size > DISKWHEEL_BLOCK_MAX ||
        get_le(stored.data + BLOCK_SUM_AT, 4) != diskwheel_block_sum(place, stored.data, body))
        return ERROR_CORRUPT;
    buffer_clear(raw);
    char *to = buffer_reserve(raw, size);
    if (!to)
        return ERROR_NO_MEMORY;
    if (stored.data[11]) {
        if (LZ4_decompress_safe(body.data, to, (int)body.size, (int)size) != (int)size)
            return ERROR_CORRUPT;
    } else {
        if (body.size != size)
            return ERROR_CORRUPT;
        memcpy(to, body.data, size);
    }
    raw->size = size;
    *ret_block = (struct diskwheel_block){.rest = buffer_bytes(raw), .left = count};
    return ERROR_NONE;
}

bool diskwheel_block_is_record(enum diskwheel_table table, struct record_key key,
                               struct bytes value)
{
    struct record_pointer pointer;
    struct record_name name;
    struct timer view;

    switch (table) {
    case DISKWHEEL_TIMERS:
        return record_row_decode(key, value, &view, NULL) == ERROR_NONE;
    case DISKWHEEL_MOVED:
        return record_pointer_decode(key, value, &pointer, NULL) == ERROR_NONE;
    default:
        return record_name_decode(key, value, &name, NULL) == ERROR_NONE;
    }
}

enum error_code diskwheel_block_next(struct diskwheel_block *block, struct record_key *ret_key,
                                     struct bytes *ret_value)
{
    uint64_t high, low, size;

    if (!block->left)
        return block->rest.size ? ERROR_CORRUPT : ERROR_NOT_FOUND;
    if (!varint_next(&block->rest, &high) || !varint_next(&block->rest, &low) ||
        !varint_next(&block->rest, &size) || size > block->rest.size)
        return ERROR_CORRUPT;
    struct record_key key = {high, low};
    if (block->is_begun) {
        key.high += block->key.high;
        if (!high)
            key.low += block->key.low;
        if (!record_key_before(block->key, key))
            return ERROR_CORRUPT;
    }
    *ret_value = (struct bytes){block->rest.data, size};
    block->rest = (struct bytes){block->rest.data + size, block->rest.size - size};
    block->key = *ret_key = key;
    block->is_begun = true;
    block->left--;
    return ERROR_NONE;
}

/* ---- flipped bits ---- */

/* Turns the bit back whose flip explains the checksum. Returns false if there is none. */
static bool diskwheel_block_turn_back(char *stored, size_t size, struct diskwheel_block_place place)
{
    const struct bytes body = {stored + DISKWHEEL_BLOCK_HEAD, size - DISKWHEEL_BLOCK_HEAD};
    const size_t summed = BLOCK_SUM_AT + body.size;
    const uint32_t difference =
        (uint32_t)get_le(stored + BLOCK_SUM_AT, 4) ^ diskwheel_block_sum(place, stored, body);
    const size_t bit = difference ? checksum_find_flip(difference, summed) : SIZE_MAX;
    size_t at = bit / 8;

    if (bit == SIZE_MAX)
        return false;
    if (at >= summed) /* the sum is stored between the head and the body */
        at -= body.size;
    else if (at >= BLOCK_SUM_AT)
        at += DISKWHEEL_BLOCK_HEAD - BLOCK_SUM_AT;
    stored[at] ^= (char)(1 << bit % 8);
    return true;
}

/* An error of many bits can look like a flip of one other bit, for one block of 100,000. Then the
 * records' own checksums do not fit. */
static bool diskwheel_block_is_whole(struct diskwheel_block block, enum diskwheel_table table)
{
    struct record_key key;
    struct bytes value;
    enum error_code code;

    while (!(code = diskwheel_block_next(&block, &key, &value)))
        if (!diskwheel_block_is_record(table, key, value))
            return false;
    return code == ERROR_NOT_FOUND;
}

enum error_code diskwheel_block_open(char *stored, size_t size, enum diskwheel_table table,
                                     struct diskwheel_block_place place, struct buffer *raw,
                                     struct diskwheel_block *ret_block)
{
    const struct bytes bytes = {stored, size};
    struct diskwheel_block block;
    enum error_code code = diskwheel_block_read(bytes, table, place, raw, &block);
    const bool is_turned = code == ERROR_CORRUPT && size >= DISKWHEEL_BLOCK_HEAD &&
                           diskwheel_block_turn_back(stored, size, place);

    if (is_turned) {
        code = diskwheel_block_read(bytes, table, place, raw, &block);
        if (!code && !diskwheel_block_is_whole(block, table))
            code = ERROR_CORRUPT;
    }
    if (code)
        return code;
    block.is_turned = is_turned;
    *ret_block = block;
    return ERROR_NONE;
}
