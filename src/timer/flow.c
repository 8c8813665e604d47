/* The text of a flow. */
#include "timer/flow.h"

#include <assert.h>
#include <stdio.h>

/* Reads a decimal number up to `max` that ends with `end`, or at the end of the text if `end` is 0,
 * and removes both from the text. */
static bool flow_read_number(struct bytes *text, char end, uint64_t max, uint64_t *ret_number)
{
    uint64_t number = 0;
    size_t digits = 0;

    for (; digits < text->size && text->data[digits] >= '0' && text->data[digits] <= '9';
         digits++) {
        number = number * 10 + (uint64_t)(text->data[digits] - '0');
        if (number > max)
            return false;
    }
    const bool is_last = digits == text->size;
    if (digits == 0 || is_last != (end == 0) || (end && text->data[digits] != end) ||
        (digits > 1 && text->data[0] == '0'))
        return false;
    text->data += digits + !is_last;
    text->size -= digits + !is_last;
    *ret_number = number;
    return true;
}

bool flow_key_is_valid(struct bytes key)
{
    for (size_t i = 0; i < key.size; i++)
        if ((unsigned char)key.data[i] < ' ' || key.data[i] == 0x7f)
            return false;
    return key.size > 0 && key.size <= FLOW_KEY_SIZE_MAX;
}

void flow_encode(const struct flow *flow, struct buffer *out)
{
    assert(flow_key_is_valid(flow->key) && (flow->concurrency || flow->rate));
    assert(!flow->rate == !flow->period_ms);
    buffer_append_bytes(out, flow->key);
    buffer_printf(out, "\n%u %u %llu", flow->concurrency, flow->rate,
                  (unsigned long long)flow->period_ms);
}

/* Periods that a rate may name by a letter, as in "10/s". */
static const struct {
    char letter;
    uint64_t ms;
} flow_periods[] = {{'s', 1000}, {'m', 60 * 1000}, {'h', 3600 * 1000}, {'d', 24 * 3600 * 1000}};

enum { FLOW_PERIODS = sizeof(flow_periods) / sizeof(flow_periods[0]) };

bool flow_rate_parse(struct bytes text, uint32_t *ret_rate, uint64_t *ret_period_ms)
{
    uint64_t rate;

    if (!flow_read_number(&text, '/', FLOW_RATE_MAX - 1, &rate) || rate == 0 || text.size != 1)
        return false;
    for (size_t i = 0; i < FLOW_PERIODS; i++)
        if (text.data[0] == flow_periods[i].letter) {
            *ret_rate = (uint32_t)rate;
            *ret_period_ms = flow_periods[i].ms;
            return true;
        }
    return false;
}

bool flow_rate_text(uint32_t rate, uint64_t period_ms, char ret_text[FLOW_RATE_TEXT_SIZE])
{
    for (size_t i = 0; i < FLOW_PERIODS && rate < FLOW_RATE_MAX; i++)
        if (period_ms == flow_periods[i].ms) {
            snprintf(ret_text, FLOW_RATE_TEXT_SIZE, "%u/%c", rate, flow_periods[i].letter);
            return true;
        }
    return false;
}

struct bytes flow_key(struct bytes text)
{
    return bytes_cut(&text, '\n');
}

bool flow_decode(struct bytes text, struct flow *ret_flow)
{
    uint64_t concurrency, rate, period_ms;
    const struct bytes key = bytes_cut(&text, '\n');

    if (!flow_key_is_valid(key) ||
        !flow_read_number(&text, ' ', FLOW_CONCURRENCY_MAX, &concurrency) ||
        !flow_read_number(&text, ' ', FLOW_RATE_MAX, &rate) ||
        !flow_read_number(&text, 0, FLOW_PERIOD_MS_MAX, &period_ms) || (!concurrency && !rate) ||
        (rate ? period_ms < FLOW_PERIOD_MS_MIN : period_ms != 0))
        return false;
    *ret_flow = (struct flow){key, (uint32_t)concurrency, (uint32_t)rate, period_ms};
    return true;
}
