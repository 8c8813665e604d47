/* delivery_entry.c - encodes and decodes the entries of the delivery log. */
#include "delivery_log/delivery_entry.h"

#include "base/checksum.h"

#include <assert.h>

/* Offsets of the fixed part. */
enum {
    ENTRY_SIZE = 4,
    ENTRY_STAMP = 8,
    ENTRY_ENDED = 16,
    ENTRY_LINKS = 24,
    ENTRY_ATTEMPT = ENTRY_LINKS + 4 * DELIVERY_INDEXES,
    ENTRY_STATUS = ENTRY_ATTEMPT + 4,
    ENTRY_OUTCOME = ENTRY_ATTEMPT + 6,
    ENTRY_STAGES = ENTRY_ATTEMPT + 7,
    ENTRY_TEXTS = ENTRY_ATTEMPT + 8,
    ENTRY_STAGE_SIZE = 5,
};

static const size_t delivery_text_max[] = {
#define X(name, max) [DELIVERY_TEXT_##name] = (max),
    DELIVERY_TEXT_LIST(X)
#undef X
};

static_assert(ENTRY_TEXTS + 2 * DELIVERY_TEXTS == DELIVERY_ENTRY_FIXED_SIZE, "offsets");

struct bytes delivery_text_cut(enum delivery_text text, struct bytes value)
{
    return (struct bytes){
        value.data, value.size < delivery_text_max[text] ? value.size : delivery_text_max[text]};
}

void delivery_entry_encode(const struct delivery_entry *entry, struct buffer *to)
{
    char fixed[DELIVERY_ENTRY_FIXED_SIZE] = {0}, stages[DELIVERY_STAGES_MAX * ENTRY_STAGE_SIZE];
    size_t count = 0, size = sizeof(fixed);

    assert(entry->outcome <= RUN_ENDED);
    for (size_t i = 0; i < DELIVERY_STAGES_MAX; i++)
        if (entry->stage_ms[i]) {
            stages[count * ENTRY_STAGE_SIZE] = (char)i;
            put_le(stages + count++ * ENTRY_STAGE_SIZE + 1, entry->stage_ms[i], 4);
        }
    size += count * ENTRY_STAGE_SIZE;
    put_le(fixed + ENTRY_ENDED, entry->ended_us, 8);
    put_le(fixed + ENTRY_ATTEMPT, entry->attempt, 4);
    put_le(fixed + ENTRY_STATUS, entry->status, 2);
    put_le(fixed + ENTRY_OUTCOME, entry->outcome, 1);
    put_le(fixed + ENTRY_STAGES, count, 1);
    for (enum delivery_text i = 0; i < DELIVERY_TEXTS; i++) {
        const size_t text = delivery_text_cut(i, entry->texts[i]).size;

        put_le(fixed + ENTRY_TEXTS + 2 * i, text, 2);
        size += text;
    }
    put_le(fixed + ENTRY_SIZE, size, 4);
    buffer_append(to, fixed, sizeof(fixed));
    buffer_append(to, stages, count * ENTRY_STAGE_SIZE);
    for (enum delivery_text i = 0; i < DELIVERY_TEXTS; i++)
        buffer_append_bytes(to, delivery_text_cut(i, entry->texts[i]));
}

void delivery_entry_place(char *encoded, uint64_t stamp, const uint32_t links[DELIVERY_INDEXES])
{
    const size_t size = get_le(encoded + ENTRY_SIZE, 4);

    put_le(encoded + ENTRY_STAMP, stamp, 8);
    for (size_t i = 0; i < DELIVERY_INDEXES; i++)
        put_le(encoded + ENTRY_LINKS + 4 * i, links[i], 4);
    put_le(encoded, checksum_crc32c(0, encoded + 4, size - 4), 4);
}

size_t delivery_entry_size(struct bytes bytes)
{
    const size_t size = bytes.size < ENTRY_STAMP ? 0 : get_le(bytes.data + ENTRY_SIZE, 4);

    return size < DELIVERY_ENTRY_FIXED_SIZE || size > DELIVERY_ENTRY_SIZE_MAX ? 0 : size;
}

uint64_t delivery_entry_ended_us(struct bytes encoded)
{
    assert(encoded.size >= DELIVERY_ENTRY_FIXED_SIZE);
    return get_le(encoded.data + ENTRY_ENDED, 8);
}

static bool delivery_entry_take_stages(struct delivery_entry *entry, struct bytes *rest,
                                       size_t count)
{
    if (rest->size < count * ENTRY_STAGE_SIZE)
        return false;
    for (size_t i = 0; i < count; i++) {
        const uint8_t stage = (uint8_t)rest->data[i * ENTRY_STAGE_SIZE];

        if (stage >= DELIVERY_STAGES_MAX)
            return false;
        entry->stage_ms[stage] = (uint32_t)get_le(rest->data + i * ENTRY_STAGE_SIZE + 1, 4);
    }
    rest->data += count * ENTRY_STAGE_SIZE;
    rest->size -= count * ENTRY_STAGE_SIZE;
    return true;
}

bool delivery_entry_decode(struct bytes bytes, struct delivery_entry *ret_entry)
{
    const size_t size = delivery_entry_size(bytes);

    return size && size <= bytes.size &&
           get_le(bytes.data, 4) == checksum_crc32c(0, bytes.data + 4, size - 4) &&
           delivery_entry_parse(bytes, ret_entry);
}

bool delivery_entry_parse(struct bytes bytes, struct delivery_entry *ret_entry)
{
    const size_t size = delivery_entry_size(bytes);
    const char *data = bytes.data;

    if (!size || size > bytes.size)
        return false;
    struct delivery_entry entry = {.stamp = get_le(data + ENTRY_STAMP, 8),
                                   .ended_us = get_le(data + ENTRY_ENDED, 8),
                                   .attempt = (uint32_t)get_le(data + ENTRY_ATTEMPT, 4),
                                   .status = (uint16_t)get_le(data + ENTRY_STATUS, 2),
                                   .outcome = (enum run_outcome)get_le(data + ENTRY_OUTCOME, 1)};
    struct bytes rest = {data + DELIVERY_ENTRY_FIXED_SIZE, size - DELIVERY_ENTRY_FIXED_SIZE};
    for (size_t i = 0; i < DELIVERY_INDEXES; i++)
        entry.links[i] = (uint32_t)get_le(data + ENTRY_LINKS + 4 * i, 4);
    if (entry.outcome > RUN_ENDED ||
        !delivery_entry_take_stages(&entry, &rest, (uint8_t)data[ENTRY_STAGES]))
        return false;
    for (enum delivery_text i = 0; i < DELIVERY_TEXTS; i++) {
        const size_t text = get_le(data + ENTRY_TEXTS + 2 * i, 2);

        if (text > rest.size || text > delivery_text_max[i])
            return false;
        entry.texts[i] = (struct bytes){rest.data, text};
        rest = (struct bytes){rest.data + text, rest.size - text};
    }
    if (rest.size)
        return false;
    *ret_entry = entry;
    return true;
}

/* ---- indexes ---- */

/* Text that each index covers; DELIVERY_TEXTS if it covers a number, or every entry. */
static const enum delivery_text delivery_index_texts[DELIVERY_INDEXES] = {
    [DELIVERY_INDEX_ALL] = DELIVERY_TEXTS,          [DELIVERY_INDEX_TIMER] = DELIVERY_TEXT_timer,
    [DELIVERY_INDEX_KEY] = DELIVERY_TEXT_key,       [DELIVERY_INDEX_TARGET] = DELIVERY_TEXT_target,
    [DELIVERY_INDEX_ORIGIN] = DELIVERY_TEXT_origin, [DELIVERY_INDEX_STATUS] = DELIVERY_TEXTS,
    [DELIVERY_INDEX_OUTCOME] = DELIVERY_TEXTS,
};

uint32_t delivery_index_hash(enum delivery_index index, struct bytes text, unsigned number)
{
    const uint64_t seed = (uint64_t)index << 32 | number;
    const bool has_text = delivery_index_texts[index] < DELIVERY_TEXTS;
    const uint64_t hash = bytes_hash(
        seed, has_text ? delivery_text_cut(delivery_index_texts[index], text) : (struct bytes){0});

    return (uint32_t)(hash >> 32) ? (uint32_t)(hash >> 32) : 1;
}

uint32_t delivery_entry_hash(const struct delivery_entry *entry, enum delivery_index index)
{
    const enum delivery_text text = delivery_index_texts[index];

    if (text < DELIVERY_TEXTS)
        return entry->texts[text].size ? delivery_index_hash(index, entry->texts[text], 0) : 0;
    return delivery_index_hash(index, (struct bytes){0},
                               index == DELIVERY_INDEX_STATUS    ? entry->status
                               : index == DELIVERY_INDEX_OUTCOME ? entry->outcome
                                                                 : 0);
}
