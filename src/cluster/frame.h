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
    FRAME_SIZE_OVERHEAD = 56,     /* of a frame without its body */
    FRAME_BODY_SIZE_MAX = 900000, /* below the 1 MB that brokers accept; a larger commit is parts */
};

enum frame_kind { /* docs/cluster-design.md */
                  FRAME_CLAIM = 1,
                  FRAME_COMMIT,
                  FRAME_KEEP,
                  FRAME_RELEASE,
                  FRAME_NOTE,
};

struct frame {
    enum frame_kind kind;
    bool has_more; /* of a commit: the next frame goes on with it */
    bool is_sweep; /* of a commit: a part of a sweep (sweep.h), as all its frames say */
    uint16_t partition;
    uint32_t node;        /* that appended it */
    uint64_t incarnation; /* of the node: random, drawn at each start */
    uint64_t epoch;       /* of the claim that it belongs to: at least 1, but in a note */
    uint64_t seq;         /* a claim has 0; the owner's frames behind it rise by one */
    struct wall sent;     /* for people: nothing is decided by it */
    uint32_t to;          /* of a release: the node that is to claim next */
    struct bytes body;    /* of a commit: not empty; of keeps and releases: empty */
};

/* Appends the frame to the buffer. The caller keeps the rules of the fields. */
void frame_encode(const struct frame *frame, uint64_t cluster, struct buffer *to);

/* Reads a frame that takes all of the bytes. A frame has one encoding: others are damage. */
enum error_code frame_decode(struct bytes bytes, uint64_t cluster, struct frame *ret_frame,
                             struct error *ret_error);

/* The cluster that bytes claim to be of, before anything in them is checked; 0 when they are too
 * short. For the one record that tells a reader which cluster it is of. */
uint64_t frame_cluster(struct bytes bytes);

#endif
