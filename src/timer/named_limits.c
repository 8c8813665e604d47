/* named_limits.c - see named_limits.h. */
#include "timer/named_limits.h"

#include "base/json_write.h"
#include "timer/flow.h"

static enum named_limits_result named_limits_read_rate(struct json_reader *reader,
                                                       struct named_limits *limits,
                                                       const char **ret_reason)
{
    char room[FLOW_RATE_TEXT_SIZE];
    struct json_string string;
    size_t size;

    if (json_peek(reader) == JSON_STRING && json_read_string(reader, &string) &&
        json_string_decode(&string, room, sizeof(room), &size) &&
        flow_rate_parse((struct bytes){room, size}, &limits->rate, &limits->period_ms))
        return NAMED_LIMITS_READ;
    *ret_reason = "It must be a number and s, m, h or d, such as 10/s";
    return NAMED_LIMITS_WRONG;
}

enum named_limits_result named_limits_read(struct json_reader *reader, struct bytes name,
                                           struct named_limits *limits, const char **ret_reason)
{
    const bool is_concurrency = bytes_equal(name, BYTES("concurrency"));
    struct bytes text;
    uint64_t number = 0;

    if (!is_concurrency && !bytes_equal(name, BYTES("rate")))
        return NAMED_LIMITS_UNKNOWN;
    if (is_concurrency ? limits->concurrency : limits->rate) {
        *ret_reason = "It is given twice";
        return NAMED_LIMITS_WRONG;
    }
    if (!is_concurrency)
        return named_limits_read_rate(reader, limits, ret_reason);
    if (json_peek(reader) != JSON_NUMBER || !json_read_number(reader, &text) ||
        json_number_u64(text, &number) != JSON_U64_OK || number == 0 ||
        number > FLOW_CONCURRENCY_MAX) {
        *ret_reason = "It must be a whole number from 1 to 100000";
        return NAMED_LIMITS_WRONG;
    }
    limits->concurrency = (uint32_t)number;
    return NAMED_LIMITS_READ;
}

void named_limits_put(const struct named_limits *limits, struct buffer *out)
{
    char rate[FLOW_RATE_TEXT_SIZE];

    if (!limits->concurrency && !limits->rate)
        return;
    json_open(out, NAMED_LIMITS, '{');
    if (limits->concurrency)
        json_put_number(out, "concurrency", limits->concurrency);
    if (limits->rate && flow_rate_text(limits->rate, limits->period_ms, rate))
        json_put_text(out, "rate", rate);
    json_close(out, '}');
}

struct named_limits named_limits_of(struct bytes definition)
{
    struct named_limits limits = {0};
    struct json_reader reader;
    struct json_string name;
    const char *reason;

    json_reader_init(&reader, definition);
    if (json_peek(&reader) != JSON_OBJECT || !json_enter_object(&reader))
        return limits;
    while (json_next_member(&reader, &name)) {
        if (!bytes_equal(name.raw, BYTES(NAMED_LIMITS))) {
            json_skip(&reader, NULL);
            continue;
        }
        if (json_peek(&reader) != JSON_OBJECT || !json_enter_object(&reader))
            return limits;
        while (json_next_member(&reader, &name))
            if (named_limits_read(&reader, name.raw, &limits, &reason) != NAMED_LIMITS_READ)
                return (struct named_limits){0};
        return json_error(&reader) ? (struct named_limits){0} : limits;
    }
    return limits;
}
