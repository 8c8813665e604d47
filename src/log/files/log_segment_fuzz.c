/* Goal: no bytes make a reader of the log leave its bounds, and a header or frame that it accepts
 * gives equal bytes when it is written again. Method: the input is a segment; its first byte
 * chooses which checksums are made to fit: of the header or the chain (1, 2), of the first
 * frame (8). */
#include "base/checksum.h"
#include "log/files/log_segment.h"

#include <assert.h>

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RECORDS = 64 };

static void check_header(struct bytes bytes)
{
    struct segment_header header;

    if (!segment_header_decode(bytes, &header))
        return;
    char again[SEGMENT_HEADER_SIZE];
    segment_header_encode(&header, again);
    struct segment_header twice;
    assert(segment_header_decode((struct bytes){again, sizeof(again)}, &twice));
    assert(twice.number == header.number && twice.first == header.first);
    assert(twice.bytes == header.bytes && twice.previous_end == header.previous_end);
}

static void check_frame(struct bytes segment, uint32_t seed, uint64_t position)
{
    struct segment_frame frame;
    struct log_record records[RECORDS];
    uint32_t count = 0;

    if (!segment_frame_find(seed, segment, &position, &frame))
        return;
    assert(frame.count > 0 && frame.first > 0 && frame.bytes <= segment.size - position);
    struct bytes body = frame.body;
    while (count < RECORDS && segment_record_next(&body, &records[count]))
        count++;
    if (count == RECORDS)
        return;
    assert(count == frame.count && segment_frame_size(records, count) == frame.bytes);
    char *again = malloc(frame.bytes);
    assert(again);
    segment_frame_encode(seed, position, frame.first, records, count, again);
    assert(memcmp(again + SEGMENT_FRAME_HEADER_SIZE, frame.body.data, frame.body.size) == 0);
    free(again);
}

/* As segment_frame_encode does for a frame that ends with the input. */
static void make_frame_fit(char *segment, size_t size, uint32_t seed, size_t position)
{
    char place[8], *frame = segment + position;
    size_t padded = (size - position - SEGMENT_FRAME_HEADER_SIZE) & ~(size_t)7;
    size_t body = get_le(frame + 8, 4);

    if (body > padded || (body + 7) / 8 * 8 != padded)
        put_le(frame + 8, padded, 4);
    put_le(frame + 4, checksum_crc32c(seed, frame + SEGMENT_FRAME_HEADER_SIZE, padded), 4);
    put_le(place, position, 8);
    uint32_t sum =
        checksum_crc32c(checksum_crc32c(seed, place, 8), frame + 4, SEGMENT_FRAME_HEADER_SIZE - 4);
    put_le(frame, sum, 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint32_t seed = 7;
    struct segment_chain chain;

    if (size < 1)
        return 0;
    char *copy = malloc(size);
    assert(copy);
    memcpy(copy, data + 1, --size);
    static_assert(SEGMENT_HEADER_SIZE == SEGMENT_CHAIN_SIZE, "their sums have the same place");
    if ((data[0] & 3) && size >= SEGMENT_HEADER_SIZE)
        put_le(copy + 76, checksum_crc32c(0, copy, 76), 4);
    size_t position = data[0] & 4 ? 8 : 0;
    if ((data[0] & 8) && size >= position + SEGMENT_FRAME_HEADER_SIZE)
        make_frame_fit(copy, size, seed, position);
    struct bytes bytes = {copy, size};
    check_header(bytes);
    check_frame(bytes, seed, 0);
    if (segment_chain_decode(bytes, &chain))
        assert(chain.first > 0 && chain.last >= chain.first - 1);
    free(copy);
    return 0;
}
