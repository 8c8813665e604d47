/* tableblock.c - reads and writes single blocks of RocksDB's tables. */
#include "store/tableblock.h"

#include "store/varint.h"

#define XXH_INLINE_ALL

#include <lz4.h>
#include <xxhash.h>
#include <zstd.h>

enum {
    PLAIN = 0,
    COMPRESSED_LZ4 = 4,
    COMPRESSED_ZSTD = 7,
    CONTENT_BYTES_MAX = 64 << 20,
};

/* ---- checksums ---- */

/* The last byte is not hashed with the others, so that it can be given later. */
static uint32_t tableblock_sum(uint64_t hash, uint8_t last)
{
    return (uint32_t)hash ^ last * UINT32_C(0x6b9083d9);
}

bool tableblock_is_whole(const char *block, size_t size)
{
    return tableblock_sum(XXH3_64bits(block, size), (uint8_t)block[size]) ==
           get_le(block + size + 1, 4);
}

static bool tableblock_is_kind(uint8_t kind)
{
    return kind == PLAIN || kind == COMPRESSED_LZ4 || kind == COMPRESSED_ZSTD;
}

size_t tableblock_find_end(struct bytes bytes)
{
    XXH3_state_t state;
    size_t hashed = 0;

    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    for (size_t end = 1; end + TABLEBLOCK_TRAILER <= bytes.size; end++) {
        const uint8_t kind = (uint8_t)bytes.data[end];
        const uint64_t sum = get_le(bytes.data + end + 1, 4);

        if (!tableblock_is_kind(kind) || !sum) /* zeros, of which there may be many */
            continue;
        XXH3_64bits_update(&state, bytes.data + hashed, end - hashed);
        hashed = end;
        if (tableblock_sum(XXH3_64bits_digest(&state), kind) == sum)
            return end;
    }
    return 0;
}

bool tableblock_turn_bit(char *block, size_t size)
{
    for (size_t bit = 0; bit < 8 * (size + TABLEBLOCK_TRAILER); bit++) {
        char *byte = &block[bit / 8];
        const char was = *byte;

        *byte = (char)(was ^ 1 << bit % 8);
        if (tableblock_is_kind((uint8_t)block[size]) && tableblock_is_whole(block, size))
            return true;
        *byte = was;
    }
    return false;
}

void tableblock_seal(char *block, size_t size)
{
    block[size] = PLAIN;
    put_le(block + size + 1, tableblock_sum(XXH3_64bits(block, size), PLAIN), 4);
}

void tableblock_append_trailer(struct buffer *block)
{
    if (!buffer_reserve(block, TABLEBLOCK_TRAILER))
        return;
    tableblock_seal(block->data, block->size);
    block->size += TABLEBLOCK_TRAILER;
}

/* ---- compression ---- */

bool tableblock_open(struct bytes block_and_trailer, struct buffer *room, struct bytes *ret_content)
{
    struct bytes block = block_and_trailer;
    uint64_t size;

    if (block.size < TABLEBLOCK_TRAILER)
        return false;
    block.size -= TABLEBLOCK_TRAILER;
    const uint8_t kind = (uint8_t)block.data[block.size];
    *ret_content = block;
    if (kind == PLAIN)
        return true;
    if (!varint_next(&block, &size) || size > CONTENT_BYTES_MAX || block.size > CONTENT_BYTES_MAX)
        return false;
    buffer_clear(room);
    char *content = buffer_reserve(room, (size_t)size);
    if (!content)
        return false;
    *ret_content = (struct bytes){content, (size_t)size};
    if (kind == COMPRESSED_LZ4)
        return LZ4_decompress_safe(block.data, content, (int)block.size, (int)size) == (int)size;
    return kind == COMPRESSED_ZSTD &&
           ZSTD_decompress(content, (size_t)size, block.data, block.size) == size;
}

/* ---- entries ---- */

bool tableblock_begin(struct bytes content, struct tableblock_walk *ret_walk)
{
    if (content.size < 4)
        return false;
    const uint64_t restarts = get_le(content.data + content.size - 4, 4);
    if (restarts > (content.size - 4) / 4)
        return false;
    *ret_walk = (struct tableblock_walk){
        .rest = {content.data, content.size - 4 - 4 * (size_t)restarts}, .content = content.data};
    return true;
}

bool tableblock_next(struct tableblock_walk *walk)
{
    struct bytes rest = walk->rest;
    uint64_t shared, added, value_size;

    if (!rest.size || !varint_next(&rest, &shared) || !varint_next(&rest, &added) ||
        !varint_next(&rest, &value_size) || shared > walk->key_size ||
        added > sizeof(walk->key) - shared || added > rest.size || value_size > rest.size - added)
        return false;
    memcpy(walk->key + shared, rest.data, (size_t)added);
    walk->key_size = (size_t)(shared + added);
    walk->value = (struct bytes){rest.data + added, (size_t)value_size};
    walk->rest = (struct bytes){walk->value.data + value_size, rest.size - added - value_size};
    return true;
}
