/* chunk.c - the strict decoder of chunked bodies. */
#include "http/chunk.h"

#include "http/head.h"

enum {
    /* maximum of hexadecimal digits of a size; its value fits into 64 bits even with one digit
     * more */
    SIZE_DIGITS_MAX = 15,
};

enum chunk_state {
    CHUNK_SIZE, /* first state of a decoder that is all zero */
    CHUNK_EXTENSION,
    CHUNK_SIZE_FEED,
    CHUNK_BYTES,
    CHUNK_BYTES_RETURN,
    CHUNK_BYTES_FEED,
    CHUNK_TRAILER, /* at the beginning of a trailer line */
    CHUNK_TRAILER_NAME,
    CHUNK_TRAILER_VALUE,
    CHUNK_TRAILER_FEED,
    CHUNK_LAST_FEED,
    CHUNK_WHOLE,
    CHUNK_UNCLEAR,
};

static int chunk_digit(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    const int letter = (byte | 0x20) - 'a';
    return letter >= 0 && letter < 6 ? letter + 10 : -1;
}

static enum chunk_state chunk_size_byte(struct chunk_decoder *decoder, char byte)
{
    const int digit = chunk_digit(byte);

    if (digit >= 0 && decoder->digits_ < SIZE_DIGITS_MAX) {
        decoder->digits_++;
        decoder->left_ = decoder->left_ * 16 + (uint64_t)digit;
        return CHUNK_SIZE;
    }
    if (decoder->digits_ == 0)
        return CHUNK_UNCLEAR;
    return byte == ';' ? CHUNK_EXTENSION : byte == '\r' ? CHUNK_SIZE_FEED : CHUNK_UNCLEAR;
}

/* Reads a byte of an extension or a trailer, which end at a carriage return. */
static enum chunk_state chunk_extra_byte(struct chunk_decoder *decoder, char byte,
                                         enum chunk_state feed)
{
    if (byte == '\r')
        return feed;
    if (!head_is_value_byte(byte) || ++decoder->extra_bytes_ > CHUNK_EXTRA_BYTES_MAX)
        return CHUNK_UNCLEAR;
    return decoder->state_;
}

static enum chunk_state chunk_trailer_name_byte(struct chunk_decoder *decoder, char byte)
{
    if (++decoder->extra_bytes_ > CHUNK_EXTRA_BYTES_MAX)
        return CHUNK_UNCLEAR;
    if (byte == ':' && decoder->state_ == CHUNK_TRAILER_NAME)
        return CHUNK_TRAILER_VALUE;
    return head_is_token_byte(byte) ? CHUNK_TRAILER_NAME : CHUNK_UNCLEAR;
}

static enum chunk_state chunk_after_size(struct chunk_decoder *decoder)
{
    decoder->digits_ = 0;
    return decoder->left_ > 0 ? CHUNK_BYTES : CHUNK_TRAILER;
}

/* Returns the state after a byte that does not belong to the data. */
static enum chunk_state chunk_step(struct chunk_decoder *decoder, char byte)
{
    switch ((enum chunk_state)decoder->state_) {
    case CHUNK_SIZE:
        return chunk_size_byte(decoder, byte);
    case CHUNK_EXTENSION:
        return chunk_extra_byte(decoder, byte, CHUNK_SIZE_FEED);
    case CHUNK_SIZE_FEED:
        return byte == '\n' ? chunk_after_size(decoder) : CHUNK_UNCLEAR;
    case CHUNK_BYTES_RETURN:
        return byte == '\r' ? CHUNK_BYTES_FEED : CHUNK_UNCLEAR;
    case CHUNK_BYTES_FEED:
        return byte == '\n' ? CHUNK_SIZE : CHUNK_UNCLEAR;
    case CHUNK_TRAILER:
        return byte == '\r' ? CHUNK_LAST_FEED : chunk_trailer_name_byte(decoder, byte);
    case CHUNK_TRAILER_NAME:
        return chunk_trailer_name_byte(decoder, byte);
    case CHUNK_TRAILER_VALUE:
        return chunk_extra_byte(decoder, byte, CHUNK_TRAILER_FEED);
    case CHUNK_TRAILER_FEED:
        return byte == '\n' ? CHUNK_TRAILER : CHUNK_UNCLEAR;
    case CHUNK_LAST_FEED:
        return byte == '\n' ? CHUNK_WHOLE : CHUNK_UNCLEAR;
    case CHUNK_BYTES:
    case CHUNK_WHOLE:
    case CHUNK_UNCLEAR:
        break;
    }
    return CHUNK_UNCLEAR;
}

static struct bytes chunk_take(struct bytes *input, uint64_t size)
{
    const struct bytes taken = {input->data, size < input->size ? (size_t)size : input->size};

    *input = (struct bytes){input->data + taken.size, input->size - taken.size};
    return taken;
}

enum chunk_result chunk_next(struct chunk_decoder *decoder, struct bytes *input,
                             struct bytes *ret_data)
{
    while (input->size > 0) {
        if (decoder->state_ == CHUNK_BYTES) {
            *ret_data = chunk_take(input, decoder->left_);
            decoder->left_ -= ret_data->size;
            if (decoder->left_ == 0)
                decoder->state_ = CHUNK_BYTES_RETURN;
            return CHUNK_DATA;
        }
        decoder->state_ = chunk_step(decoder, chunk_take(input, 1).data[0]);
        if (decoder->state_ == CHUNK_WHOLE)
            return CHUNK_END;
        if (decoder->state_ == CHUNK_UNCLEAR)
            return CHUNK_BAD;
    }
    return CHUNK_MORE;
}

void chunk_give_back(struct chunk_decoder *decoder, size_t size)
{
    if (size > 0) {
        decoder->left_ += size;
        decoder->state_ = CHUNK_BYTES;
    }
}
