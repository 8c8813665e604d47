/*
 * flow.h - the flow of a timer: a key that its client chose, and how many timers with this key may
 * run at a time or begin in a period.
 *
 *     flow_encode(&(struct flow){.key = BYTES("customer-42"), .concurrency = 2}, &out);
 *     flow_decode(timer->texts.flow, &flow);
 *
 * A timer keeps its flow as a text: the key, a line feed, and three decimal numbers.
 *
 * Ownership  The key points into the decoded text.
 * Threads    Any.
 */
#ifndef TICKWHEEL_TIMER_FLOW_H
#define TICKWHEEL_TIMER_FLOW_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

#define FLOW_KEY_SIZE_MAX    128
#define FLOW_CONCURRENCY_MAX 100000
#define FLOW_RATE_MAX        1000000
#define FLOW_PERIOD_MS_MIN   UINT64_C(1000)
#define FLOW_RATE_TEXT_SIZE  16 /* text of a rate such as "10/s", with its NUL */
#define FLOW_PERIOD_MS_MAX   (UINT64_C(366) * 24 * 3600 * 1000)

struct flow {
    struct bytes key;     /* 1 to FLOW_KEY_SIZE_MAX bytes, without control characters */
    uint32_t concurrency; /* maximum of running timers; 0 means no limit */
    uint32_t rate;        /* maximum of starts in a period; 0 means no limit */
    uint64_t period_ms;   /* FLOW_PERIOD_MS_MIN .. FLOW_PERIOD_MS_MAX; 0 if there is no rate */
};

/* Appends the text of a flow. */
void flow_encode(const struct flow *flow, struct buffer *out);

/* Returns false if the text is not one that flow_encode writes. */
bool flow_decode(struct bytes text, struct flow *ret_flow);

/* True if it has 1 to FLOW_KEY_SIZE_MAX bytes, none of them a control character. */
bool flow_key_is_valid(struct bytes key);

/* Reads a rate such as "10/s", by second, minute, hour or day. Returns false if it is none. */
bool flow_rate_parse(struct bytes text, uint32_t *ret_rate, uint64_t *ret_period_ms);

/* Writes a rate so. Returns false if the period has no letter, or the rate has too many digits. */
bool flow_rate_text(uint32_t rate, uint64_t period_ms, char ret_text[FLOW_RATE_TEXT_SIZE]);

/* Returns the key of an encoded flow. */
struct bytes flow_key(struct bytes text);

#endif
