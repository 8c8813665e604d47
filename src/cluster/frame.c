/* frame.c - see frame.h, which has the layout. */
#include "cluster/frame.h"

#include "base/checksum.h"

#include <assert.h>

static const char frame_magic[4] = {'T', 'W', 'L', 1}; /* the last byte is the version */

enum {
    FRAME_FLAG_MORE = 1,
    FRAME_FLAG_SWEEP = 2,
    FRAME_FLAGS = 3,
    FRAME_HEADER_SIZE = 52,
    FRAME_RELEASE_SIZE = 4
};

/* True if the fields are consistent with each other. */
static bool frame_is_sound(const struct frame *frame)
{
    if (frame->body.size > FRAME_BODY_SIZE_MAX ||
        ((frame->has_more || frame->is_sweep) && frame->kind != FRAME_COMMIT))
        return false;
    if (frame->epoch == 0 && frame->kind != FRAME_NOTE)
        return false;
    switch (frame->kind) {
    case FRAME_CLAIM:
        return frame->seq == 0;
    case FRAME_COMMIT:
        return frame->seq > 0 && frame->body.size > 0;
    case FRAME_KEEP:
        return frame->seq > 0 && frame->body.size == 0;
    case FRAME_RELEASE:
        return frame->seq > 0 && frame->body.size == FRAME_RELEASE_SIZE;
    case FRAME_NOTE:
        return true;
    }
    return false;
}

void frame_encode(const struct frame *frame, uint64_t cluster, struct buffer *to)
{
    char release[FRAME_RELEASE_SIZE], header[FRAME_HEADER_SIZE], sum[4];
    struct frame whole = *frame;

    if (frame->kind == FRAME_RELEASE) {
        put_le(release, frame->to, sizeof(release));
        whole.body = (struct bytes){release, sizeof(release)};
    }
    assert(frame_is_sound(&whole));
    memcpy(header, frame_magic, sizeof(frame_magic));
    put_le(header + 4, cluster, 8);
    put_le(header + 12, frame->kind, 1);
    put_le(header + 13,
           (frame->has_more ? FRAME_FLAG_MORE : 0) | (frame->is_sweep ? FRAME_FLAG_SWEEP : 0), 1);
    put_le(header + 14, frame->partition, 2);
    put_le(header + 16, frame->node, 4);
    put_le(header + 20, frame->incarnation, 8);
    put_le(header + 28, frame->epoch, 8);
    put_le(header + 36, frame->seq, 8);
    put_le(header + 44, frame->sent.ms, 8);
    put_le(sum,
           checksum_crc32c(checksum_crc32c(0, header, sizeof(header)), whole.body.data,
                           whole.body.size),
           sizeof(sum));
    buffer_append(to, header, sizeof(header));
    buffer_append_bytes(to, whole.body);
    buffer_append(to, sum, sizeof(sum));
}

struct bytes frame_body(struct bytes bytes)
{
    return (struct bytes){bytes.data + FRAME_HEADER_SIZE, bytes.size - FRAME_SIZE_OVERHEAD};
}

enum error_code frame_decode(struct bytes bytes, uint64_t cluster, struct frame *ret_frame,
                             struct error *ret_error)
{
    if (bytes.size < FRAME_SIZE_OVERHEAD ||
        get_le(bytes.data + bytes.size - 4, 4) != checksum_crc32c(0, bytes.data, bytes.size - 4))
        return error_set(ret_error, ERROR_CORRUPT, "a record of the cluster's log is damaged");
    if (memcmp(bytes.data, frame_magic, sizeof(frame_magic)) != 0)
        return error_set(ret_error, ERROR_CORRUPT,
                         "a record of the cluster's log has a form that this version cannot read");
    if (get_le(bytes.data + 4, 8) != cluster)
        return error_set(ret_error, ERROR_CORRUPT, "the log belongs to another cluster");
    struct frame frame = {
        .kind = (enum frame_kind)get_le(bytes.data + 12, 1),
        .has_more = get_le(bytes.data + 13, 1) & FRAME_FLAG_MORE,
        .is_sweep = get_le(bytes.data + 13, 1) & FRAME_FLAG_SWEEP,
        .partition = (uint16_t)get_le(bytes.data + 14, 2),
        .node = (uint32_t)get_le(bytes.data + 16, 4),
        .incarnation = get_le(bytes.data + 20, 8),
        .epoch = get_le(bytes.data + 28, 8),
        .seq = get_le(bytes.data + 36, 8),
        .sent = {get_le(bytes.data + 44, 8)},
        .body = frame_body(bytes),
    };
    if (get_le(bytes.data + 13, 1) > FRAME_FLAGS || !frame_is_sound(&frame))
        return error_set(ret_error, ERROR_CORRUPT,
                         "a record of the cluster's log contradicts itself");
    if (frame.kind == FRAME_RELEASE) {
        frame.to = (uint32_t)get_le(frame.body.data, FRAME_RELEASE_SIZE);
        frame.body = (struct bytes){0};
    }
    *ret_frame = frame;
    return ERROR_NONE;
}

uint64_t frame_cluster(struct bytes bytes)
{
    return bytes.size < FRAME_SIZE_OVERHEAD ? 0 : get_le(bytes.data + 4, 8);
}
