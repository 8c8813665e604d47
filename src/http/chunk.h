/*
 * chunk.h - takes a chunked body apart (RFC 9112, 7.1), in whatever cuts it arrives.
 *
 * Strict: lines end in CR LF only, a size is of hexadecimal digits and directly followed by its
 * line's end or a semicolon, and no byte of an extension or a trailer is a control character.
 * Extensions and trailers are checked, bounded and dropped.
 *
 *     struct chunk_decoder decoder = {0};
 *     while (chunk_next(&decoder, &input, &data) == CHUNK_DATA) use(data);
 *
 * Ownership  Data are parts of the input.
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_HTTP_CHUNK_H
#define TICKWHEEL_HTTP_CHUNK_H

#include "base/bytes.h"

/* Most bytes that the extensions and trailers of one body may have together. */
#define CHUNK_EXTRA_BYTES_MAX 16384u

enum chunk_result {
    CHUNK_DATA, /* the call gave some of the body */
    CHUNK_MORE, /* the whole input is read; the body goes on */
    CHUNK_END,  /* the body has ended */
    CHUNK_BAD,  /* it is not clear where the body ends */
};

struct chunk_decoder {
    /* bytes of this chunk that have not come; while its size is read: the size so far */
    uint64_t left_;
    uint32_t extra_bytes_;
    uint8_t state_, digits_;
};

/* Takes the next piece of data off the front of `input`, or all of it. After END or BAD the
 * decoder is not used again. */
enum chunk_result chunk_next(struct chunk_decoder *decoder, struct bytes *input,
                             struct bytes *ret_data);

/* Tells that the last `size` bytes of the data just taken were not used. The next input begins
 * with these bytes again. */
void chunk_give_back(struct chunk_decoder *decoder, size_t size);

#endif
