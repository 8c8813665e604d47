/*
 * frame.h - the bytes of a record in a log that several nodes append to.
 *
 * A frame names its node and the claim that it belongs to, so that every reader can judge from the
 * frames before it whether it is valid (ownership.h). Nothing else is known about the log: frames
 * may lie in it twice, or late.
 *
 *     struct frame frame = {.kind = FRAME_COMMIT, .node = 2, .epoch = 7, .seq = 31, .body = rows};
 *     frame_encode(&frame, cluster, &buffer);
 *     if (frame_decode(bytes, cluster, &frame, &error) == ERROR_NONE) ...
 *
 * The bytes; numbers are little-endian:
 *
 *     4           `TWL` and the version: 1
 *     8           id of the cluster: random
 *     1           kind: 1 claim, 2 commit, 3 keep, 4 release, 5 note
 *     1           flags: 1 the commit continues in the next frame; 2 it is a part of a sweep
 *     2, 4        partition; node that appended it
 *     8           incarnation
 *     8, 8        epoch of the claim, 0 only in notes; seq
 *     8           time of sending, milliseconds since 1970
 *     0 - 900000  body: changes of rows; of a release the node (4) that is to claim next
 *     4           CRC-32C of the bytes before
 *
 * Errors     ERROR_CORRUPT: the bytes are damaged, of another version, or of another cluster.
 * Ownership  The body of a decoded frame borrows from the bytes.
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_CLUSTER_FRAME_H
#define TICKWHEEL_CLUSTER_FRAME_H

#include "base/bytes.h"
#include "base/error.h"
#include "base/time.h"

enum {
    FRAME_SIZE_OVERHEAD = 56, /* size of a frame without its body */
    /* below the limit of 1 MB of brokers; larger commits have several frames */
    FRAME_BODY_SIZE_MAX = 900000,
};

enum frame_kind {
    FRAME_CLAIM = 1,
    FRAME_COMMIT,
    FRAME_KEEP,
    FRAME_RELEASE,
    FRAME_NOTE,
};

struct frame {
    enum frame_kind kind;
    bool has_more; /* in a commit: it continues in the next frame */
    bool is_sweep; /* in a commit: all its frames are a part of a sweep (sweep.h) */
    uint16_t partition;
    uint32_t node;        /* node that appended it */
    uint64_t incarnation; /* random number of the node's process, drawn at each start */
    uint64_t epoch;       /* epoch of the owner's claim: at least 1; 0 in a note */
    /* sequence number: 0 in a claim, then one more in each frame of the owner */
    uint64_t seq;
    struct wall sent;  /* for people; nothing depends on it */
    uint32_t to;       /* in a release: the node that shall claim next */
    struct bytes body; /* not empty in a commit; empty in keeps and releases */
};

/* Appends the frame to the buffer. The caller ensures that the fields are valid. */
void frame_encode(const struct frame *frame, uint64_t cluster, struct buffer *to);

/* Returns the body within the bytes of an encoded frame. */
struct bytes frame_body(struct bytes bytes);

/* Decodes a frame that takes all of the bytes. Each frame has one encoding; any other is damage. */
enum error_code frame_decode(struct bytes bytes, uint64_t cluster, struct frame *ret_frame,
                             struct error *ret_error);

/* Returns the id of the cluster in the bytes before anything is checked; 0 if they are too
 * short. For the record that tells a reader its cluster. */
uint64_t frame_cluster(struct bytes bytes);

#endif
