/*
 * log_segment.h - the bytes of the log's files: header and frames of a segment, and the chain.
 *
 * A segment is a header and frames, one behind the other; each frame is what one append made
 * durable. The checksums of frames begin with the log's id, the segment's number and the frame's
 * position, so bytes from an earlier life of a recycled segment never count. The chain is a small
 * file that names the segments that must be there.
 *
 * Threads    Any: pure functions over bytes.
 */
#ifndef TICKWHEEL_LOG_FILES_LOG_SEGMENT_H
#define TICKWHEEL_LOG_FILES_LOG_SEGMENT_H

#include "log/files/log_files.h"

enum {
    SEGMENT_ID_SIZE = LOG_ID_SIZE,
    SEGMENT_HEADER_SIZE = 80, /* a multiple of 8, like every size and position in a segment */
    SEGMENT_FRAME_HEADER_SIZE = 24,
    SEGMENT_RECORD_HEADER_SIZE = 14,
    SEGMENT_CHAIN_SIZE = 80,
    SEGMENT_CHAIN_SLOT = 4096, /* the chain has two, for it is written in place */
};

/* ---- the header ---- */

struct segment_header {
    uint8_t id[SEGMENT_ID_SIZE]; /* of the log */
    uint64_t number;             /* of the segment; they rise by one */
    uint64_t bytes;              /* of the file */
    uint64_t first;              /* the offset of its first record */
    uint64_t previous_end;       /* where the segment before ended: behind its last frame */
    uint32_t previous_sum;       /* and the sum of that frame; 0: it had none */
    bool is_unsynced;            /* its appends are not synced: any frame may be torn */
};

/* Writes SEGMENT_HEADER_SIZE bytes. */
void segment_header_encode(const struct segment_header *header, char *to);

/* Whether the bytes begin with a header that is whole. */
bool segment_header_decode(struct bytes bytes, struct segment_header *ret_header);

/* ---- frames ---- */

struct segment_frame {
    uint64_t first; /* the offset of its first record */
    uint32_t count; /* of records */
    uint32_t sum;   /* names the frame in the chain */
    uint64_t bytes; /* of the whole frame */
    struct bytes body;
};

/* What checksums of a segment's frames begin with. */
uint32_t segment_seed(const uint8_t *id, uint64_t number);

/* What a frame with these records takes; 0 when it would be larger than a gigabyte. */
uint64_t segment_frame_size(const struct log_record *records, size_t count);

/* Writes the frame that lies at `position`, and returns its sum. Behind the last frame of a segment
 * is a header of zeros, so an end and a torn frame differ. */
uint32_t segment_frame_encode(uint32_t seed, uint64_t position, uint64_t first,
                              const struct log_record *records, size_t count, char *to);

/* Whether a whole frame lies at `position` of the segment. */
bool segment_frame_decode(uint32_t seed, struct bytes segment, uint64_t position,
                          struct segment_frame *ret_frame);

/* The next whole frame at or behind `*position`, which becomes its position; false: none. */
bool segment_frame_find(uint32_t seed, struct bytes segment, uint64_t *position,
                        struct segment_frame *ret_frame);

/* Whether no frame was begun at `position`. */
bool segment_is_end(struct bytes segment, uint64_t position);

/* Cuts the next record off the body of a frame. Returns false at the end, and when the rest is no
 * record with a body. Does not set the offset. */
bool segment_record_next(struct bytes *body, struct log_record *ret_record);

/* ---- the chain ---- */

struct segment_chain {
    uint64_t generation; /* rises with each write; its lowest bit chooses the slot */
    uint8_t id[SEGMENT_ID_SIZE];
    uint64_t first, last; /* numbers of the segments that must be there; last = first - 1: none */
    bool is_closed;       /* by a clean stop, at the end that the next three name */
    uint64_t end;         /* the position in the last segment */
    uint64_t next;        /* the offset */
    uint32_t sum;         /* of the last frame */
};

/* Writes one slot: SEGMENT_CHAIN_SIZE bytes. */
void segment_chain_encode(const struct segment_chain *chain, char *to);

/* The newest whole slot of the file; false: it has none. */
bool segment_chain_decode(struct bytes file, struct segment_chain *ret_chain);

#endif
