/* The headers and the framing of an HTTP/1.1 answer, as a machine that is fed with pieces. */
#include "delivery/webhook_answer.h"

#include "base/hex.h"
#include "base/number.h"

#include <assert.h>
#include <strings.h>

#define LINE_BYTES_KEPT 4096 /* maximum memory that is kept for the next answer */

/* Parts of an answer. */
enum webhook_answer_part {
    PART_STATUS,       /* the status line */
    PART_FIRST_HEADER, /* the line after it, which cannot continue an earlier one */
    PART_HEADER,       /* any other header, or the empty line */
    PART_BODY,         /* body: `left_` more bytes, or all bytes until the connection ends */
    PART_SWITCHED,     /* a 101 that was not requested: no status will follow */
    PART_CHUNK_SIZE,   /* digits of the size of a chunk */
    PART_CHUNK_REST,   /* extension of a chunk, up to the end of the line */
    PART_CHUNK,        /* content of a chunk: `left_` more bytes */
    PART_CHUNK_END,    /* line end after the content of a chunk */
    PART_TRAILER,      /* beginning of a line after the last chunk */
    PART_TRAILER_REST, /* rest of such a line */
    /* \r at the beginning of such a line:
     *  ends the answer, nothing else may follow */
    PART_TRAILER_EMPTY,
    PART_OVER,
};

void webhook_answer_deinit(struct webhook_answer *answer)
{
    buffer_deinit(&answer->line_);
    buffer_deinit(&answer->retry_after_);
}

/* Begins to read a head. Each interim answer has a head of its own. */
static void webhook_answer_begin_head(struct webhook_answer *answer)
{
    answer->part_ = PART_STATUS;
    answer->framing_ = WEBHOOK_ANSWER_TO_CLOSE;
    answer->is_http10_ = answer->is_odd_ = answer->wants_close_ = answer->has_length_ = false;
    answer->has_retry_after_ = answer->folds_retry_after_ = false;
    answer->has_ack_ = answer->answers_later = false;
    answer->left_ = 0;
    buffer_clear(&answer->line_);
}

void webhook_answer_begin(struct webhook_answer *answer, uint64_t body_bytes_max)
{
    if (answer->line_.capacity > LINE_BYTES_KEPT)
        buffer_deinit(&answer->line_);
    webhook_answer_begin_head(answer);
    answer->has_bytes = answer->has_status = answer->keeps = false;
    answer->take_body = NULL;
    answer->status = 0;
    answer->head_bytes_ = answer->body_bytes_ = 0;
    answer->body_bytes_max_ = body_bytes_max;
}

void webhook_answer_begin_chunks(struct webhook_answer *answer, uint64_t body_bytes_max)
{
    webhook_answer_begin(answer, body_bytes_max);
    answer->has_status = true;
    answer->part_ = PART_CHUNK_SIZE;
}

bool webhook_answer_is_later(struct bytes value)
{
    const struct bytes text = bytes_trim(value);

    return text.size == 5 && strncasecmp(text.data, "later", 5) == 0;
}

const char *webhook_answer_retry_after(const struct webhook_answer *answer)
{
    return answer->has_status && answer->has_retry_after_ ? answer->retry_after_.data : NULL;
}

/* ---- lines of the head ---- */

static bool webhook_answer_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Parses "HTTP/1.1 200" with an optional reason. */
static enum webhook_answer_state webhook_answer_take_status(struct webhook_answer *answer,
                                                            struct bytes line)
{
    const char *at = line.data + 8, *end = line.data + line.size;

    if (line.size < 12 || memcmp(line.data, "HTTP/1.", 7) != 0 ||
        (at[-1] != '0' && at[-1] != '1') || *at != ' ')
        return WEBHOOK_ANSWER_NOT_HTTP;
    while (at < end && *at == ' ')
        at++;
    if (end - at < 3 || *at == '0' || (end - at > 3 && webhook_answer_is_digit(at[3])))
        return WEBHOOK_ANSWER_NOT_HTTP;
    unsigned status = 0;
    for (int i = 0; i < 3; i++) {
        if (!webhook_answer_is_digit(at[i]))
            return WEBHOOK_ANSWER_NOT_HTTP;
        status = status * 10 + (unsigned)(at[i] - '0');
    }
    answer->status = (uint16_t)status;
    answer->is_http10_ = line.data[7] == '0';
    answer->part_ = PART_FIRST_HEADER;
    return WEBHOOK_ANSWER_MORE;
}

static bool webhook_answer_has_name(struct bytes name, struct bytes other)
{
    return name.size == other.size && strncasecmp(name.data, other.data, other.size) == 0;
}

/* True if a list such as "keep-alive, close" contains `wanted`. `ret_others` says whether it
 * contains anything else. */
static bool webhook_answer_lists(struct bytes list, struct bytes wanted, bool *ret_others)
{
    bool has = false;

    *ret_others = false;
    while (list.size > 0) {
        const struct bytes element = bytes_trim(bytes_cut(&list, ','));

        if (webhook_answer_has_name(element, wanted))
            has = true;
        else
            *ret_others = true;
    }
    return has;
}

bool webhook_answer_is_chunked(struct bytes value)
{
    bool others;

    return webhook_answer_lists(value, BYTES("chunked"), &others);
}

/* Reads Content-Length as libcurl does: the digits at the beginning. If anything follows them, or
 * another length was given, the connection is not used again. */
static enum webhook_answer_state webhook_answer_take_length(struct webhook_answer *answer,
                                                            struct bytes value)
{
    const bool has_body = answer->status != 204 && answer->status != 304;
    uint64_t length = 0;
    size_t digits = 0;

    while (digits < value.size && webhook_answer_is_digit(value.data[digits]))
        digits++;
    answer->is_odd_ |= answer->has_length_ || digits != value.size || digits == 0;
    if (digits == 0)
        return has_body ? WEBHOOK_ANSWER_NOT_HTTP : WEBHOOK_ANSWER_MORE;
    answer->has_length_ =
        number_parse((struct bytes){value.data, digits}, 10, &length) && length <= INT64_MAX;
    answer->is_odd_ |= !answer->has_length_;
    answer->left_ = length;
    return WEBHOOK_ANSWER_MORE;
}

/* Stores the value of the first Retry-After header; later ones are ignored. */
static void webhook_answer_take_retry_after(struct webhook_answer *answer, struct bytes value)
{
    if (answer->has_retry_after_)
        return;
    answer->has_retry_after_ = answer->folds_retry_after_ = true;
    buffer_clear(&answer->retry_after_);
    buffer_append_bytes(&answer->retry_after_, value);
    buffer_append(&answer->retry_after_, "", 1);
}

/* Handles a line that continues the previous header. */
static void webhook_answer_take_fold(struct webhook_answer *answer, struct bytes line)
{
    answer->is_odd_ = true;
    if (!answer->folds_retry_after_ || buffer_failed(&answer->retry_after_))
        return;
    answer->retry_after_.size--; /* removes the NUL */
    buffer_append(&answer->retry_after_, " ", 1);
    buffer_append_bytes(&answer->retry_after_, bytes_trim(line));
    buffer_append(&answer->retry_after_, "", 1);
}

static enum webhook_answer_state webhook_answer_take_header(struct webhook_answer *answer,
                                                            struct bytes line)
{
    const bool is_first = answer->part_ == PART_FIRST_HEADER;
    /* libcurl ends the header at this byte */
    const char *stray = memchr(line.data, '\r', line.size);

    answer->is_odd_ |= stray != NULL;
    line.size = stray ? (size_t)(stray - line.data) : line.size;
    const char *colon = line.size > 0 ? memchr(line.data, ':', line.size) : NULL;

    answer->part_ = PART_HEADER;
    if (line.size == 0 || (is_first && bytes_is_blank(line.data[0])))
        return WEBHOOK_ANSWER_NOT_HTTP;
    if (bytes_is_blank(line.data[0])) {
        webhook_answer_take_fold(answer, line);
        return WEBHOOK_ANSWER_MORE;
    }
    answer->folds_retry_after_ = false;
    if (!colon || strncasecmp(line.data, "HTTP/", line.size < 5 ? line.size : 5) == 0)
        return WEBHOOK_ANSWER_NOT_HTTP; /* a second status line also ends here */
    const struct bytes name = {line.data, (size_t)(colon - line.data)};
    const struct bytes value = bytes_trim((struct bytes){colon + 1, line.size - name.size - 1});
    bool others;
    if (name.size == 0 || bytes_is_blank(colon[-1])) {
        /* another program might read this as a header that frames the answer */
        answer->is_odd_ = true;
    } else if (webhook_answer_has_name(name, BYTES("content-length"))) {
        return webhook_answer_take_length(answer, value);
    } else if (webhook_answer_has_name(name, BYTES("transfer-encoding"))) {
        answer->is_odd_ |= answer->framing_ == WEBHOOK_ANSWER_CHUNKS;
        if (webhook_answer_lists(value, BYTES("chunked"), &others))
            answer->framing_ = WEBHOOK_ANSWER_CHUNKS;
        answer->is_odd_ |= others;
    } else if (webhook_answer_has_name(name, BYTES("connection"))) {
        answer->wants_close_ |= webhook_answer_lists(value, BYTES("close"), &others);
    } else if (webhook_answer_has_name(name, BYTES("retry-after"))) {
        webhook_answer_take_retry_after(answer, value);
    } else if (webhook_answer_has_name(name, BYTES(WEBHOOK_ACK_HEADER))) {
        answer->answers_later =
            answer->has_ack_ ? answer->answers_later : webhook_answer_is_later(value);
        answer->has_ack_ = true;
    }
    return WEBHOOK_ANSWER_MORE;
}

static enum webhook_answer_state webhook_answer_end(struct webhook_answer *answer)
{
    answer->part_ = PART_OVER;
    answer->keeps = !answer->is_odd_ && !answer->wants_close_ && !answer->is_http10_;
    return WEBHOOK_ANSWER_OVER;
}

/* Handles the empty line at the end of the head. */
static enum webhook_answer_state webhook_answer_take_end(struct webhook_answer *answer)
{
    if (answer->status == 101) {
        answer->part_ = PART_SWITCHED;
        return WEBHOOK_ANSWER_MORE;
    }
    if (answer->status < 200) {
        webhook_answer_begin_head(answer);
        return WEBHOOK_ANSWER_MORE;
    }
    if (answer->has_retry_after_ && buffer_failed(&answer->retry_after_))
        return WEBHOOK_ANSWER_NO_MEMORY;
    answer->has_status = true;
    if (answer->status == 204 || answer->status == 304)
        return webhook_answer_end(answer);
    if (answer->framing_ == WEBHOOK_ANSWER_CHUNKS) {
        answer->is_odd_ |= answer->has_length_;
        answer->left_ = 0;
        answer->part_ = PART_CHUNK_SIZE;
        return WEBHOOK_ANSWER_MORE;
    }
    answer->part_ = PART_BODY;
    if (answer->has_length_) {
        answer->framing_ = WEBHOOK_ANSWER_LENGTH;
        if (answer->left_ == 0)
            return webhook_answer_end(answer);
    }
    return WEBHOOK_ANSWER_MORE;
}

/* Handles a line of the head; `line` includes its newline. */
static enum webhook_answer_state webhook_answer_take_line(struct webhook_answer *answer,
                                                          struct bytes line)
{
    line.size--;
    if (line.size > 0 && line.data[line.size - 1] == '\r')
        line.size--;
    if (line.size > 0 && memchr(line.data, '\0', line.size))
        return WEBHOOK_ANSWER_NOT_HTTP;
    if (answer->part_ == PART_STATUS)
        return webhook_answer_take_status(answer, line);
    return line.size > 0 ? webhook_answer_take_header(answer, line)
                         : webhook_answer_take_end(answer);
}

/* True if the text cannot be the beginning of a status line. */
static bool webhook_answer_is_foreign(struct bytes line)
{
    return memcmp(line.data, "HTTP/", line.size < 5 ? line.size : 5) != 0;
}

/* Reads a line, or as much of it as the piece has. */
static enum webhook_answer_state webhook_answer_read_head(struct webhook_answer *answer,
                                                          struct bytes *piece)
{
    const char *newline = memchr(piece->data, '\n', piece->size);
    struct bytes line = {piece->data, newline ? (size_t)(newline - piece->data) + 1 : piece->size};

    piece->data += line.size;
    piece->size -= line.size;
    answer->head_bytes_ += line.size;
    if (answer->head_bytes_ > WEBHOOK_ANSWER_HEAD_MAX)
        return WEBHOOK_ANSWER_TOO_LONG;
    if (!newline || answer->line_.size > 0) {
        buffer_append_bytes(&answer->line_, line);
        if (buffer_failed(&answer->line_))
            return WEBHOOK_ANSWER_NO_MEMORY;
        line = buffer_bytes(&answer->line_);
    }
    if (answer->part_ == PART_STATUS && webhook_answer_is_foreign(line))
        return WEBHOOK_ANSWER_NOT_HTTP;
    if (!newline)
        return WEBHOOK_ANSWER_MORE;
    const enum webhook_answer_state state = webhook_answer_take_line(answer, line);
    buffer_clear(&answer->line_);
    return state;
}

/* ---- the body ---- */

/* Ends the answer because its framing is invalid. What was read so far counts. */
static enum webhook_answer_state webhook_answer_give_up(struct webhook_answer *answer)
{
    answer->is_odd_ = true;
    return webhook_answer_end(answer);
}

/* Reads one character of the size of a chunk. `has_length_` is set once a digit was read. */
static enum webhook_answer_state webhook_answer_read_size(struct webhook_answer *answer, char c)
{
    const int digit = hex_digit(c);

    if (digit >= 0) {
        if (answer->left_ >> 59)
            return webhook_answer_give_up(answer);
        answer->left_ = answer->left_ * 16 + (uint64_t)digit;
        answer->has_length_ = true;
        return WEBHOOK_ANSWER_MORE;
    }
    if (!answer->has_length_)
        return webhook_answer_give_up(answer);
    answer->has_length_ = false;
    if (c == '\n')
        answer->part_ = answer->left_ > 0 ? PART_CHUNK : PART_TRAILER;
    else
        answer->part_ = PART_CHUNK_REST;
    return WEBHOOK_ANSWER_MORE;
}

/* Reads one character of the framing of chunks. */
static enum webhook_answer_state webhook_answer_read_framing(struct webhook_answer *answer, char c)
{
    switch ((enum webhook_answer_part)answer->part_) {
    case PART_CHUNK_SIZE:
        return webhook_answer_read_size(answer, c);
    case PART_CHUNK_REST:
        if (c == '\n')
            answer->part_ = answer->left_ > 0 ? PART_CHUNK : PART_TRAILER;
        return WEBHOOK_ANSWER_MORE;
    case PART_CHUNK_END:
        if (c == '\n')
            answer->part_ = PART_CHUNK_SIZE;
        else if (c != '\r')
            return webhook_answer_give_up(answer);
        return WEBHOOK_ANSWER_MORE;
    case PART_TRAILER:
        if (c == '\n')
            return webhook_answer_end(answer);
        answer->part_ = c == '\r' ? PART_TRAILER_EMPTY : PART_TRAILER_REST;
        return WEBHOOK_ANSWER_MORE;
    case PART_TRAILER_REST:
        if (c == '\n')
            answer->part_ = PART_TRAILER;
        return WEBHOOK_ANSWER_MORE;
    default:
        assert(answer->part_ == PART_TRAILER_EMPTY);
        return c == '\n' ? webhook_answer_end(answer) : webhook_answer_give_up(answer);
    }
}

/* Skips bytes of the body: of a given length, of a chunk, or to the end of the connection. */
static enum webhook_answer_state webhook_answer_skip(struct webhook_answer *answer,
                                                     struct bytes *piece)
{
    const bool is_endless =
        answer->part_ == PART_SWITCHED ||
        (answer->part_ == PART_BODY && answer->framing_ == WEBHOOK_ANSWER_TO_CLOSE);
    const size_t size =
        is_endless || piece->size < answer->left_ ? piece->size : (size_t)answer->left_;

    if (answer->take_body && answer->part_ != PART_SWITCHED)
        answer->take_body(answer->context, (struct bytes){piece->data, size});
    piece->data += size;
    piece->size -= size;
    answer->body_bytes_ += size;
    if (is_endless || (answer->left_ -= size) > 0)
        return WEBHOOK_ANSWER_MORE;
    if (answer->part_ == PART_BODY)
        return webhook_answer_end(answer);
    answer->part_ = PART_CHUNK_END;
    return WEBHOOK_ANSWER_MORE;
}

static enum webhook_answer_state webhook_answer_read_body(struct webhook_answer *answer,
                                                          struct bytes *piece)
{
    enum webhook_answer_state state;

    if (answer->part_ == PART_BODY || answer->part_ == PART_SWITCHED ||
        answer->part_ == PART_CHUNK) {
        state = webhook_answer_skip(answer, piece);
    } else {
        state = webhook_answer_read_framing(answer, *piece->data);
        piece->data++;
        piece->size--;
        answer->body_bytes_++;
    }
    if (answer->body_bytes_ <= answer->body_bytes_max_)
        return state;
    return answer->has_status ? webhook_answer_give_up(answer) : WEBHOOK_ANSWER_TOO_LONG;
}

enum webhook_answer_state webhook_answer_read(struct webhook_answer *answer, struct bytes piece)
{
    enum webhook_answer_state state = WEBHOOK_ANSWER_MORE;

    assert(answer->part_ != PART_OVER);
    answer->has_bytes = true;
    while (state == WEBHOOK_ANSWER_MORE && piece.size > 0)
        state = answer->part_ <= PART_HEADER ? webhook_answer_read_head(answer, &piece)
                                             : webhook_answer_read_body(answer, &piece);
    if (piece.size > 0)
        answer->keeps = false; /* it is unknown which answer the following bytes belong to */
    return state;
}
