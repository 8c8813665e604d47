/*
 * log_segment.h - the bytes of the log's files: header and frames of a segment, and the chain.
 *
 * A segment is a header and frames, one behind the other; each frame is what one append made
 * durable. The checksums of frames begin with the log's id, the segment's number and the frame's
 * position, so bytes from an earlier life of a recycled segment never count. The chain is a small
 * file that names the segments that must be there.
 *
 * Sizes are in bytes, numbers little-endian, checksums CRC-32C.
 *
 * Header 80  `tickwlog` 8; version 4 (it is 2); zero 4; id of the log 16, random; number of the
 *            segment 8; size of the file 8; offset of the first record 8; position in the previous
 *            segment at which it ended 8, and checksum of its last frame 4 (0: there was none);
 *            flags 4 (1: appends are not synced); zero 4; checksum of the other bytes 4
 * Frame      at a multiple of 8: checksum of the position (8) and the next 20 bytes 4; checksum of
 *            records and padding 4; size and number of the records 4, 4; offset of the first one 8;
 *            records; zeros up to a multiple of 8. After the last frame are 24 zeros
 * Record     partition 2, size 4, body, which is not empty
 * Chain      two slots of 80, at 0 and 4096, written in turns; the whole one with the higher
 *            generation counts: `tickwcha` 8; version 4 (it is 2); flags 4 (1: closed by a clean
 *            stop); id 16; generation 8; numbers of the first and last segment 8, 8; if closed
 *            position, next offset and checksum of the last frame 8, 8, 4; checksum 4
 *
 * Threads    Any: pure functions over bytes.
 */
#ifndef TICKWHEEL_LOG_FILES_LOG_SEGMENT_H
#define TICKWHEEL_LOG_FILES_LOG_SEGMENT_H

#include "log/files/log_files.h"

enum {
    SEGMENT_ID_SIZE = LOG_ID_SIZE,
    SEGMENT_HEADER_SIZE = 80, /* a multiple of 8, as every size and position in a segment */
    SEGMENT_FRAME_HEADER_SIZE = 24,
    SEGMENT_RECORD_HEADER_SIZE = 6,
    SEGMENT_CHAIN_SIZE = 80,
    /* size of each of the two slots of the chain, which are written alternately */
    SEGMENT_CHAIN_SLOT = 4096,
};

/* ---- the header ---- */

struct segment_header {
    uint8_t id[SEGMENT_ID_SIZE]; /* id of the log */
    uint64_t number;             /* number of the segment; the previous one has the number before */
    uint64_t bytes;              /* size of the file */
    uint64_t first;              /* offset of its first record */
    uint64_t previous_end;       /* end of the last frame of the previous segment */
    uint32_t previous_sum;       /* checksum of that frame; 0 if the segment has none */
    /* appends to the segment are not synced, so any frame may be incomplete */
    bool is_unsynced;
};

/* Writes SEGMENT_HEADER_SIZE bytes. */
void segment_header_encode(const struct segment_header *header, char *to);

/* True if the bytes begin with a valid header. */
bool segment_header_decode(struct bytes bytes, struct segment_header *ret_header);

/* ---- frames ---- */

struct segment_frame {
    uint64_t first; /* offset of its first record */
    uint32_t count; /* number of records */
    uint32_t sum;   /* checksum, by which the chain and the next header identify the frame */
    uint64_t bytes; /* size of the whole frame */
    struct bytes body;
};

/* Returns the bytes with which the checksums of a segment's frames begin. */
uint32_t segment_seed(const uint8_t *id, uint64_t number);

/* Returns the size of a frame with these records; 0 if it would exceed a gigabyte. */
uint64_t segment_frame_size(const struct log_record *records, size_t count);

/* Writes the frame that is to be at `position`. Returns its checksum. After the last frame of a
 * segment there is a header of zeros, which distinguishes an end from an incomplete frame. */
uint32_t segment_frame_encode(uint32_t seed, uint64_t position, uint64_t first,
                              const struct log_record *records, size_t count, char *to);

/* True if there is a complete frame at `position` of the segment. */
bool segment_frame_decode(uint32_t seed, struct bytes segment, uint64_t position,
                          struct segment_frame *ret_frame);

/* Finds the next complete frame at or after `*position`, and sets *position to it. Returns false if
 * there is none. */
bool segment_frame_find(uint32_t seed, struct bytes segment, uint64_t *position,
                        struct segment_frame *ret_frame);

/* True if no frame was begun at `position`, so that the log ends there. */
bool segment_is_end(struct bytes segment, uint64_t position);

/* Removes the next record from the body of a frame. Returns false at the end, or if the rest is no
 * record with a body. Does not set its offset. */
bool segment_record_next(struct bytes *body, struct log_record *ret_record);

/* ---- the chain ---- */

struct segment_chain {
    uint64_t generation; /* incremented by each write; the lowest bit tells the slot */
    uint8_t id[SEGMENT_ID_SIZE];
    /* numbers of the segments that must exist; last = first - 1 if there are none */
    uint64_t first, last;
    bool is_closed; /* a clean stop has closed the log; the next three fields tell where it ends */
    uint64_t end;   /* position in the last segment */
    uint64_t next;  /* offset of the next record */
    uint32_t sum;   /* checksum of the last frame */
};

/* Writes one slot, which has SEGMENT_CHAIN_SIZE bytes. */
void segment_chain_encode(const struct segment_chain *chain, char *to);

/* Reads the newest valid slot of the file. Returns false if there is none. */
bool segment_chain_decode(struct bytes file, struct segment_chain *ret_chain);

#endif
