/*
 * webhook_answer.h - reads an HTTP/1.1 answer piece by piece: its status, its Retry-After, where it
 * ends, and whether its connection can be used again.
 *
 *     webhook_answer_begin(&answer, body_bytes_max);
 *     while (webhook_answer_read(&answer, piece) == WEBHOOK_ANSWER_MORE) get the next piece;
 *     ... answer.has_status, answer.status, answer.keeps ...
 *
 * Reading is strict until the headers are complete, because then the status counts. The rest only
 * decides about the connection: if it is not certain where the answer ends, the connection is not
 * used again.
 *
 * Errors     Bytes that are not HTTP, headers beyond WEBHOOK_ANSWER_HEAD_MAX, and lack of memory
 *            have results of their own.
 * Ownership  The answer owns its copies of headers, until begin or deinit.
 * Threads    None: one owner. Does no I/O.
 */
#ifndef TICKWHEEL_DELIVERY_WEBHOOK_ANSWER_H
#define TICKWHEEL_DELIVERY_WEBHOOK_ANSWER_H

#include "base/bytes.h"

/* maximum size of the headers of all answers to one request */
#define WEBHOOK_ANSWER_HEAD_MAX (64 * 1024)

enum webhook_answer_state {
    WEBHOOK_ANSWER_MORE,      /* the answer continues */
    WEBHOOK_ANSWER_OVER,      /* the answer is complete, or was read up to the limit */
    WEBHOOK_ANSWER_NOT_HTTP,  /* the bytes so far are not HTTP */
    WEBHOOK_ANSWER_TOO_LONG,  /* headers exceed WEBHOOK_ANSWER_HEAD_MAX */
    WEBHOOK_ANSWER_NO_MEMORY, /* memory for a header could not be allocated */
};

#define WEBHOOK_ACK_HEADER "tickwheel-ack"

/* True if the value of that header says that the receiver answers later. */
bool webhook_answer_is_later(struct bytes value);

/* True if the value of Transfer-Encoding has "chunked". */
bool webhook_answer_is_chunked(struct bytes value);

/* How to find the end of the body. */
enum webhook_answer_framing {
    WEBHOOK_ANSWER_TO_CLOSE,
    WEBHOOK_ANSWER_LENGTH,
    WEBHOOK_ANSWER_CHUNKS,
};

struct webhook_answer {
    bool has_bytes;  /* at least one byte was received */
    bool has_status; /* the headers of the final answer are complete; `status` is its status */
    bool keeps;      /* with OVER: true if the connection can be used again */
    uint16_t status; /* status of the last status line */
    /* the first header WEBHOOK_ACK_HEADER of the last head says that the receiver answers later */
    bool answers_later;
    /* Called with each piece of the final answer's body; NULL ignores the body. Set it after
     * webhook_answer_begin. */
    void (*take_body)(void *context, struct bytes piece);
    void *context;
    /* Private. */
    /* enum webhook_answer_framing; enum webhook_answer_part that is being read */
    uint8_t framing_, part_;
    bool has_ack_, is_http10_, is_odd_, wants_close_, has_length_, has_retry_after_,
        folds_retry_after_;
    uint64_t head_bytes_, body_bytes_, body_bytes_max_;
    uint64_t left_;             /* bytes of the body, or of a chunk, that have not been received */
    struct buffer line_;        /* beginning of a line whose end has not been received */
    struct buffer retry_after_; /* value of Retry-After, with a NUL */
};

static inline void webhook_answer_init(struct webhook_answer *answer)
{
    *answer = (struct webhook_answer){0};
}

void webhook_answer_deinit(struct webhook_answer *answer);

/* Prepares for a new answer. */
void webhook_answer_begin(struct webhook_answer *answer, uint64_t body_bytes_max);

/* Prepares for the body alone of an answer in chunks. */
void webhook_answer_begin_chunks(struct webhook_answer *answer, uint64_t body_bytes_max);

/* Reads a piece, which is not empty. After any result except MORE it must not be called again. */
enum webhook_answer_state webhook_answer_read(struct webhook_answer *answer, struct bytes piece);

/* Returns the value of the first Retry-After of the final answer; NULL if there is none. */
const char *webhook_answer_retry_after(const struct webhook_answer *answer);

#endif
