/* log_segment.c - see log_segment.h; the layout is there. */
#include "log/files/log_segment.h"

#include "base/checksum.h"

static const char segment_magic[8] = "tickwlog", segment_chain_magic[8] = "tickwcha";

enum { SEGMENT_VERSION = 2, SEGMENT_FLAG_UNSYNCED = 1, SEGMENT_FLAG_CLOSED = 1 };

static uint64_t segment_align(uint64_t size)
{
    return (size + 7) & ~UINT64_C(7);
}

/* ---- the header ---- */

static uint32_t segment_header_sum(const char *header)
{
    return checksum_crc32c(0, header, SEGMENT_HEADER_SIZE - 4);
}

void segment_header_encode(const struct segment_header *header, char *to)
{
    memcpy(to, segment_magic, sizeof(segment_magic));
    put_le(to + 8, SEGMENT_VERSION, 4);
    put_le(to + 12, 0, 4);
    memcpy(to + 16, header->id, SEGMENT_ID_SIZE);
    put_le(to + 32, header->number, 8);
    put_le(to + 40, header->bytes, 8);
    put_le(to + 48, header->first, 8);
    put_le(to + 56, header->previous_end, 8);
    put_le(to + 64, header->previous_sum, 4);
    put_le(to + 68, header->is_unsynced ? SEGMENT_FLAG_UNSYNCED : 0, 4);
    put_le(to + 72, 0, 4);
    put_le(to + 76, segment_header_sum(to), 4);
}

bool segment_header_decode(struct bytes bytes, struct segment_header *ret_header)
{
    if (bytes.size < SEGMENT_HEADER_SIZE ||
        memcmp(bytes.data, segment_magic, sizeof(segment_magic)) != 0)
        return false;
    struct segment_header header = {
        .number = get_le(bytes.data + 32, 8),
        .bytes = get_le(bytes.data + 40, 8),
        .first = get_le(bytes.data + 48, 8),
        .previous_end = get_le(bytes.data + 56, 8),
        .previous_sum = (uint32_t)get_le(bytes.data + 64, 4),
        .is_unsynced = get_le(bytes.data + 68, 4) & SEGMENT_FLAG_UNSYNCED,
    };
    memcpy(header.id, bytes.data + 16, SEGMENT_ID_SIZE);
    if (get_le(bytes.data + 76, 4) != segment_header_sum(bytes.data) ||
        get_le(bytes.data + 8, 4) != SEGMENT_VERSION || get_le(bytes.data + 12, 4) != 0 ||
        header.first == 0)
        return false;
    *ret_header = header;
    return true;
}

/* ---- frames ---- */

uint32_t segment_seed(const uint8_t *id, uint64_t number)
{
    char text[SEGMENT_ID_SIZE + 8];

    memcpy(text, id, SEGMENT_ID_SIZE);
    put_le(text + SEGMENT_ID_SIZE, number, 8);
    return checksum_crc32c(0, text, sizeof(text));
}

uint64_t segment_frame_size(const struct log_record *records, size_t count)
{
    const uint64_t most = UINT64_C(1) << 30;
    uint64_t size = 0;

    for (size_t i = 0; i < count; i++) {
        if (records[i].body.size > most)
            return 0;
        size += SEGMENT_RECORD_HEADER_SIZE + records[i].body.size;
        if (size > most)
            return 0;
    }
    return SEGMENT_FRAME_HEADER_SIZE + segment_align(size);
}

/* Computes the checksum of a frame's header, except the field of the checksum. */
static uint32_t segment_frame_sum(uint32_t seed, uint64_t position, const char *header)
{
    char place[8];

    put_le(place, position, 8);
    return checksum_crc32c(checksum_crc32c(seed, place, sizeof(place)), header + 4,
                           SEGMENT_FRAME_HEADER_SIZE - 4);
}

uint32_t segment_frame_encode(uint32_t seed, uint64_t position, uint64_t first,
                              const struct log_record *records, size_t count, char *to)
{
    char *at = to + SEGMENT_FRAME_HEADER_SIZE;

    for (size_t i = 0; i < count; i++) {
        put_le(at, records[i].partition, 2);
        put_le(at + 2, records[i].body.size, 4);
        at += SEGMENT_RECORD_HEADER_SIZE;
        if (records[i].body.size)
            memcpy(at, records[i].body.data, records[i].body.size);
        at += records[i].body.size;
    }
    uint64_t size = (uint64_t)(at - to) - SEGMENT_FRAME_HEADER_SIZE, padded = segment_align(size);
    memset(at, 0, padded - size);
    put_le(to + 4, checksum_crc32c(seed, to + SEGMENT_FRAME_HEADER_SIZE, padded), 4);
    put_le(to + 8, size, 4);
    put_le(to + 12, count, 4);
    put_le(to + 16, first, 8);
    uint32_t sum = segment_frame_sum(seed, position, to);
    put_le(to, sum, 4);
    return sum;
}

bool segment_record_next(struct bytes *body, struct log_record *ret_record)
{
    if (body->size < SEGMENT_RECORD_HEADER_SIZE)
        return false;
    uint64_t size = get_le(body->data + 2, 4);
    if (size == 0 || size > body->size - SEGMENT_RECORD_HEADER_SIZE)
        return false;
    *ret_record = (struct log_record){
        .partition = (uint16_t)get_le(body->data, 2),
        .body = {body->data + SEGMENT_RECORD_HEADER_SIZE, size},
    };
    body->data += SEGMENT_RECORD_HEADER_SIZE + size;
    body->size -= SEGMENT_RECORD_HEADER_SIZE + size;
    return true;
}

/* True if the body consists of exactly `count` records. */
static bool segment_body_holds(struct bytes body, uint32_t count)
{
    struct log_record record;
    uint32_t found = 0;

    while (segment_record_next(&body, &record))
        found++;
    return body.size == 0 && found == count && count > 0;
}

bool segment_frame_decode(uint32_t seed, struct bytes segment, uint64_t position,
                          struct segment_frame *ret_frame)
{
    if (position > segment.size || segment.size - position < SEGMENT_FRAME_HEADER_SIZE)
        return false;
    const char *header = segment.data + position;
    uint64_t size = get_le(header + 8, 4), padded = segment_align(size);
    uint32_t sum = (uint32_t)get_le(header, 4);
    if (padded > segment.size - position - SEGMENT_FRAME_HEADER_SIZE ||
        sum != segment_frame_sum(seed, position, header) ||
        get_le(header + 4, 4) != checksum_crc32c(seed, header + SEGMENT_FRAME_HEADER_SIZE, padded))
        return false;
    struct segment_frame frame = {
        .first = get_le(header + 16, 8),
        .count = (uint32_t)get_le(header + 12, 4),
        .sum = sum,
        .bytes = SEGMENT_FRAME_HEADER_SIZE + padded,
        .body = {header + SEGMENT_FRAME_HEADER_SIZE, size},
    };
    if (!segment_body_holds(frame.body, frame.count) || frame.first == 0)
        return false;
    *ret_frame = frame;
    return true;
}

bool segment_frame_find(uint32_t seed, struct bytes segment, uint64_t *position,
                        struct segment_frame *ret_frame)
{
    for (uint64_t at = *position; at + SEGMENT_FRAME_HEADER_SIZE < segment.size; at += 8) {
        /* Skips zeros quickly, because most bytes are zero. */
        if (get_le(segment.data + at + 8, 8) == 0 ||
            !segment_frame_decode(seed, segment, at, ret_frame))
            continue;
        *position = at;
        return true;
    }
    return false;
}

bool segment_is_end(struct bytes segment, uint64_t position)
{
    static const char zeros[SEGMENT_FRAME_HEADER_SIZE];

    return position + sizeof(zeros) > segment.size ||
           memcmp(segment.data + position, zeros, sizeof(zeros)) == 0;
}

/* ---- the chain ---- */

void segment_chain_encode(const struct segment_chain *chain, char *to)
{
    memcpy(to, segment_chain_magic, sizeof(segment_chain_magic));
    put_le(to + 8, SEGMENT_VERSION, 4);
    put_le(to + 12, chain->is_closed ? SEGMENT_FLAG_CLOSED : 0, 4);
    memcpy(to + 16, chain->id, SEGMENT_ID_SIZE);
    put_le(to + 32, chain->generation, 8);
    put_le(to + 40, chain->first, 8);
    put_le(to + 48, chain->last, 8);
    put_le(to + 56, chain->end, 8);
    put_le(to + 64, chain->next, 8);
    put_le(to + 72, chain->sum, 4);
    put_le(to + 76, checksum_crc32c(0, to, 76), 4);
}

static bool segment_chain_decode_slot(const char *slot, struct segment_chain *ret_chain)
{
    if (memcmp(slot, segment_chain_magic, sizeof(segment_chain_magic)) != 0 ||
        get_le(slot + 76, 4) != checksum_crc32c(0, slot, 76) ||
        get_le(slot + 8, 4) != SEGMENT_VERSION)
        return false;
    struct segment_chain chain = {
        .generation = get_le(slot + 32, 8),
        .first = get_le(slot + 40, 8),
        .last = get_le(slot + 48, 8),
        .is_closed = get_le(slot + 12, 4) & SEGMENT_FLAG_CLOSED,
        .end = get_le(slot + 56, 8),
        .next = get_le(slot + 64, 8),
        .sum = (uint32_t)get_le(slot + 72, 4),
    };
    memcpy(chain.id, slot + 16, SEGMENT_ID_SIZE);
    if (chain.first == 0 || chain.last < chain.first - 1)
        return false;
    *ret_chain = chain;
    return true;
}

bool segment_chain_decode(struct bytes file, struct segment_chain *ret_chain)
{
    bool is_found = false;

    for (size_t at = 0; at + SEGMENT_CHAIN_SIZE <= file.size; at += SEGMENT_CHAIN_SLOT) {
        struct segment_chain chain;

        if (!segment_chain_decode_slot(file.data + at, &chain) ||
            (is_found && chain.generation < ret_chain->generation))
            continue;
        *ret_chain = chain;
        is_found = true;
    }
    return is_found;
}
