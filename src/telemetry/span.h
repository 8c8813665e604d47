/*
 * span.h - one span of a trace as OpenTelemetry means it, and its bytes on the way to the thread
 * that exports it.
 *
 *     struct span span = {.context = ..., .kind = SPAN_CLIENT, .start_us = ..., .end_us = ...};
 *     span_set_text(&span, SPAN_TEXT_method, BYTES("POST"));
 *     span_encode(&span, &buffer);                 on the thread that saw the outcome
 *     span_decode(&bytes, &span);                  on the thread that exports
 *     span_append_json(&span, &out);
 *
 * The names of attributes are those of OpenTelemetry's semantic conventions; those that begin with
 * "tickwheel." are ours.
 *
 * Errors     The buffers remember that they could not grow.
 * Ownership  Texts are borrowed; those of a decoded span lie within its bytes.
 * Threads    None: pure functions.
 */
#ifndef TICKWHEEL_TELEMETRY_SPAN_H
#define TICKWHEEL_TELEMETRY_SPAN_H

#include "base/bytes.h"
#include "base/trace.h"

/* X(name, maximum size, attribute). A longer text is cut. A text without an attribute is a field of
 * the span. */
#define SPAN_TEXT_LIST(X)                                        \
    X(name, 256, NULL)  /* name of the span */                   \
    X(error, 256, NULL) /* why it failed; empty if it did not */ \
    X(error_type, 64, "error.type")                              \
    X(method, 16, "http.request.method")                         \
    X(route, 128, "http.route")                                  \
    X(url, 2048, "url.full")                                     \
    X(address, 255, "server.address")                            \
    X(system, 32, "messaging.system")                            \
    X(operation, 32, "messaging.operation.name")                 \
    X(operation_type, 32, "messaging.operation.type")            \
    X(destination, 255, "messaging.destination.name")            \
    X(message, 64, "messaging.message.id")                       \
    X(timer, 64, "tickwheel.timer.id")                           \
    X(key, 256, "tickwheel.timer.key")                           \
    X(tenant, 128, "tickwheel.tenant")                           \
    X(outcome, 16, "tickwheel.outcome")

enum span_text {
#define X(name, max, attribute) SPAN_TEXT_##name,
    SPAN_TEXT_LIST(X)
#undef X
        SPAN_TEXTS
};

/* X(name, attribute): attributes that are numbers. */
#define SPAN_NUMBER_LIST(X)                                                          \
    X(status, "http.response.status_code")                                           \
    X(port, "server.port")                                                           \
    X(resends, "http.request.resend_count")                                          \
    X(messages, "messaging.batch.message_count") /* timers that a batch made */      \
    X(attempt, "tickwheel.attempt")              /* number of the attempt, from 1 */ \
    X(lateness, "tickwheel.lateness_ms")         /* time from due to the request, in milliseconds */

enum span_number {
#define X(name, attribute) SPAN_NUMBER_##name,
    SPAN_NUMBER_LIST(X)
#undef X
        SPAN_NUMBERS
};

/* Numbers of OTLP. */
enum span_kind {
    SPAN_INTERNAL = 1,
    SPAN_SERVER = 2,
    SPAN_CLIENT = 3,
    SPAN_PRODUCER = 4,
};

struct span {
    struct trace_parent context; /* ids of its trace and of itself */
    uint64_t parent;             /* id of its parent in the same trace; 0: it is the root */
    struct trace_parent link;    /* span that it is linked to; its `span` is 0 if there is none */
    uint64_t start_us, end_us;   /* microseconds since 1970 */
    enum span_kind kind;
    bool has_failed;      /* its status is an error */
    uint32_t numbers_set; /* bit for each number that it has */
    int64_t numbers[SPAN_NUMBERS];
    struct bytes texts[SPAN_TEXTS];
};

#define SPAN_SIZE_MAX (8 << 10) /* more than the largest encoded span */

static inline void span_set_text(struct span *span, enum span_text text, struct bytes value)
{
    span->texts[text] = value;
}

static inline void span_set_number(struct span *span, enum span_number number, int64_t value)
{
    span->numbers[number] = value;
    span->numbers_set |= UINT32_C(1) << number;
}

/* Appends the span. The bytes are for this process only: numbers have the machine's order. */
void span_encode(const struct span *span, struct buffer *to);

/* Takes the first span off `bytes`, which span_encode wrote. False if there is none. */
bool span_decode(struct bytes *bytes, struct span *ret_span);

/* Appends the span as an element of the array `spans` of OTLP's JSON. Bytes of texts that are not
 * UTF-8 become U+FFFD. */
void span_append_json(const struct span *span, struct buffer *out);

/* Appends an attribute to the open array of attributes. */
void span_append_attribute(struct buffer *out, struct bytes name, struct bytes value);

/* Appends a URL without what may be secret: "user:password@" and the values of its query become
 * REDACTED, and its fragment is dropped. */
void span_append_url(struct buffer *out, struct bytes url);

#endif
