/* awaits.c - the texts `awaits` and `ack_timeout` of a timer. */
#include "timer/awaits.h"

#include "base/hex.h"
#include "base/number.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

bool awaits_is_token(struct bytes text)
{
    uint64_t half;

    return text.size == AWAITS_TOKEN_SIZE && hex_read(text.data, 16, &half) &&
           hex_read(text.data + 16, 16, &half);
}

void awaits_format(struct bytes token, uint64_t started_us, char ret_text[AWAITS_TEXT_SIZE])
{
    assert(awaits_is_token(token));
    memcpy(ret_text, token.data, AWAITS_TOKEN_SIZE);
    hex_write(ret_text + AWAITS_TOKEN_SIZE, 16, started_us);
}

bool awaits_read(struct bytes text, struct awaits *ret_awaits)
{
    uint64_t started_us;

    if (text.size != AWAITS_TEXT_SIZE ||
        !awaits_is_token((struct bytes){text.data, AWAITS_TOKEN_SIZE}) ||
        !hex_read(text.data + AWAITS_TOKEN_SIZE, 16, &started_us))
        return false;
    *ret_awaits = (struct awaits){{text.data, AWAITS_TOKEN_SIZE}, started_us};
    return true;
}

void ack_timeout_format(uint64_t ms, char ret_text[ACK_TIMEOUT_TEXT_SIZE])
{
    assert(ms >= ACK_TIMEOUT_MS_MIN && ms <= ACK_TIMEOUT_MS_MAX);
    snprintf(ret_text, ACK_TIMEOUT_TEXT_SIZE, "%" PRIu32, (uint32_t)ms % 100000000);
}

uint64_t ack_timeout_ms(const struct timer *timer, uint64_t usual_ms)
{
    uint64_t ms;

    return number_parse(timer->texts.ack_timeout, 10, &ms) && ms >= ACK_TIMEOUT_MS_MIN &&
                   ms <= ACK_TIMEOUT_MS_MAX
               ? ms
               : usual_ms;
}
