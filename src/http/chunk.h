/*
 * chunk.h - decodes a chunked body (RFC 9112, 7.1), in pieces of any size.
 *
 * Strict: lines end only with CR LF; a size consists of hexadecimal digits, followed directly by
 * the end of the line or a semicolon; extensions and trailers have no control characters. Their
 * size is limited, and they are checked and dropped.
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

/* Maximum size of the extensions and trailers of one body together, in bytes. */
#define CHUNK_EXTRA_BYTES_MAX 16384u

enum chunk_result {
    CHUNK_DATA, /* `ret_data` is a part of the body */
    CHUNK_MORE, /* the whole input was read, and the body continues */
    CHUNK_END,  /* the body has ended */
    CHUNK_BAD,  /* it is not clear where the body ends */
};

struct chunk_decoder {
    /* bytes of this chunk that have not arrived; while its size is being read, the size so far */
    uint64_t left_;
    uint32_t extra_bytes_;
    uint8_t state_, digits_;
};

/* Removes the next piece of data from the front of `input`, or all of the input if it has none.
 * After END or BAD the decoder must not be used again. */
enum chunk_result chunk_next(struct chunk_decoder *decoder, struct bytes *input,
                             struct bytes *ret_data);

/* Says that the last `size` bytes of the data returned last were not used. The next input must
 * begin with these bytes again. */
void chunk_give_back(struct chunk_decoder *decoder, size_t size);

#endif
