/*
 * webhook_answer.h - reads an HTTP/1.1 answer in the pieces that come: its status, its Retry-After,
 * where it ends, and whether its connection can be used again.
 *
 *     webhook_answer_begin(&answer, body_bytes_max);
 *     while (webhook_answer_read(&answer, piece) == WEBHOOK_ANSWER_MORE) get the next piece;
 *     ... answer.has_status, answer.status, answer.keeps ...
 *
 * Strict where a status is read, for a status counts as soon as its headers are complete. What
 * comes after that changes nothing but the connection's fate: with any doubt about where the answer
 * ends the connection is not used again.
 *
 * Errors     What is no HTTP, and headers beyond WEBHOOK_ANSWER_HEAD_MAX, are told apart.
 * Ownership  The answer owns what it keeps of a header, until begin or deinit.
 * Threads    None: one owner. Does no I/O.
 */
#ifndef TICKWHEEL_DELIVERY_WEBHOOK_ANSWER_H
#define TICKWHEEL_DELIVERY_WEBHOOK_ANSWER_H

#include "base/bytes.h"

/* maximum size of the headers of all answers to one request */
#define WEBHOOK_ANSWER_HEAD_MAX (64 * 1024)

enum webhook_answer_state {
    WEBHOOK_ANSWER_MORE,      /* the answer continues */
    WEBHOOK_ANSWER_OVER,      /* complete, or as much of it as is read */
    WEBHOOK_ANSWER_NOT_HTTP,  /* ended within the headers */
    WEBHOOK_ANSWER_TOO_LONG,  /* headers exceed WEBHOOK_ANSWER_HEAD_MAX */
    WEBHOOK_ANSWER_NO_MEMORY, /* out of memory for a header */
};

/* How the end of the body is found. */
enum webhook_answer_framing {
    WEBHOOK_ANSWER_TO_CLOSE,
    WEBHOOK_ANSWER_LENGTH,
    WEBHOOK_ANSWER_CHUNKS,
};

struct webhook_answer {
    bool has_bytes;  /* any came */
    bool has_status; /* the headers of a final answer are complete, with `status` */
    bool keeps;      /* OVER: whether its connection can be used again */
    uint16_t status; /* status of the last status line */
    /* Called with the body of the final answer, piece by piece; NULL for never. Set it after
     * webhook_answer_begin. */
    void (*take_body)(void *context, struct bytes piece);
    void *context;
    /* Private. */
    uint8_t framing_, part_; /* enum webhook_answer_framing; part that is being read */
    bool is_http10_, is_odd_, wants_close_, has_length_, has_retry_after_, folds_retry_after_;
    uint64_t head_bytes_, body_bytes_, body_bytes_max_;
    uint64_t left_;             /* rest of the body, or of a chunk */
    struct buffer line_;        /* begin of an incomplete line */
    struct buffer retry_after_; /* includes a NUL */
};

static inline void webhook_answer_init(struct webhook_answer *answer)
{
    *answer = (struct webhook_answer){0};
}

void webhook_answer_deinit(struct webhook_answer *answer);

/* Begins a new answer. */
void webhook_answer_begin(struct webhook_answer *answer, uint64_t body_bytes_max);

/* Reads a piece, which is not empty. Must not be called again after any result but MORE. */
enum webhook_answer_state webhook_answer_read(struct webhook_answer *answer, struct bytes piece);

/* Returns the value of the first Retry-After of the final answer; NULL if there is none. */
const char *webhook_answer_retry_after(const struct webhook_answer *answer);

#endif
