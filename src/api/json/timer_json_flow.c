/* timer_json_flow.c - reads and writes the flow of a timer's JSON. */
#include "api/json/timer_json_parse.h"

#include "api/json/names.h"
#include "api/json/strict.h"
#include "base/json_write.h"
#include "calendar/duration.h"

enum flow_field { FLOW_FIELD_key, FLOW_FIELD_concurrency, FLOW_FIELD_rate, FLOW_FIELD_period };

static const char *const flow_fields[] = {"key", "concurrency", "rate", "period"};

enum { FLOW_FIELDS = sizeof(flow_fields) / sizeof(flow_fields[0]), FLOW_POINTER_SIZE = 24 };

static enum error_code flow_read_key(struct timer_parse *parse, const char *pointer)
{
    struct error error;
    enum error_code code = timer_parse_string(parse, pointer, &parse->flow.key);

    if (code)
        return code;
    if (parse->flow.key.size > FLOW_KEY_SIZE_MAX)
        return timer_parse_invalid(parse, pointer, "It must have 1 to %d bytes", FLOW_KEY_SIZE_MAX);
    if (name_check_new(parse->flow.key, &error))
        return timer_parse_invalid_error(parse, pointer, &error);
    return ERROR_NONE;
}

static enum error_code flow_read_rate_text(struct timer_parse *parse, const char *pointer)
{
    char room[TIMER_JSON_NAME_ROOM];
    struct bytes text;
    enum error_code code = timer_parse_string_into(parse, pointer, room, &text);

    if (code || flow_rate_parse(text, &parse->flow.rate, &parse->flow.period_ms))
        return code;
    return timer_parse_invalid(parse, pointer,
                               "It must be a number of starts and s, m, h or d, such as 10/s");
}

static enum error_code flow_read_field_at(struct timer_parse *parse, enum flow_field field,
                                          const char *pointer)
{
    uint64_t number = 0;
    enum error_code code = ERROR_NONE;

    if (field == FLOW_FIELD_key)
        return flow_read_key(parse, pointer);
    if (field == FLOW_FIELD_rate && json_peek(&parse->reader) == JSON_STRING)
        return flow_read_rate_text(parse, pointer);
    if (field == FLOW_FIELD_concurrency) {
        code = strict_integer(parse, pointer, 1, FLOW_CONCURRENCY_MAX, &number);
        parse->flow.concurrency = (uint32_t)number;
    } else if (field == FLOW_FIELD_rate) {
        code = strict_integer(parse, pointer, 1, FLOW_RATE_MAX, &number);
        parse->flow.rate = (uint32_t)number;
    } else {
        code = timer_parse_duration_in(parse, pointer, FLOW_PERIOD_MS_MIN, FLOW_PERIOD_MS_MAX,
                                       &parse->flow_period_ms);
    }
    return code;
}

static enum error_code flow_read_field(struct timer_parse *parse, size_t field)
{
    char pointer[FLOW_POINTER_SIZE];

    timer_pointer("#/flow", bytes_of(flow_fields[field]), pointer, sizeof(pointer));
    return flow_read_field_at(parse, (enum flow_field)field, pointer);
}

/* Checks the fields together. `at` points to the object. */
static enum error_code flow_check(struct timer_parse *parse, const char *at)
{
    struct flow *flow = &parse->flow;
    char pointer[FLOW_POINTER_SIZE];

    timer_pointer(at, BYTES("period"), pointer, sizeof(pointer));
    if (!flow->key.size)
        return timer_parse_invalid(parse, at, "A `key` is needed");
    if (!flow->concurrency && !flow->rate)
        return timer_parse_invalid(parse, at, "A `concurrency` or a `rate` is needed");
    if (parse->flow_period_ms && (!flow->rate || flow->period_ms))
        return timer_parse_invalid(parse, pointer, "It goes with a `rate` that is a number");
    if (flow->rate && !flow->period_ms)
        flow->period_ms = parse->flow_period_ms ? parse->flow_period_ms : 1000;
    return ERROR_NONE;
}

/* Stores the flow as the text of the timer, from `start` of the scratch on. It takes the place of
 * the key that was decoded there, because the scratch has no room for both. */
static enum error_code flow_keep(struct timer_parse *parse, size_t start)
{
    struct buffer text;

    buffer_init(&text);
    flow_encode(&parse->flow, &text);
    parse->scratch.size = start;
    enum error_code code = buffer_failed(&text) ? timer_parse_no_memory(parse)
                                                : timer_parse_keep(parse, buffer_bytes(&text), 0);
    buffer_deinit(&text);
    if (code)
        return code;
    parse->texts.flow = timer_parse_kept(parse, start);
    parse->texts.flow.size--; /* the byte that ends it */
    return ERROR_NONE;
}

enum error_code timer_parse_flow(struct timer_parse *parse)
{
    const size_t start = parse->scratch.size;

    parse->flow = (struct flow){0};
    parse->flow_period_ms = 0;
    enum error_code code =
        timer_parse_members(parse, "#/flow", flow_fields, FLOW_FIELDS, flow_read_field);
    if (!code)
        code = flow_check(parse, "#/flow");
    return code ? code : flow_keep(parse, start);
}

struct flow_reading {
    struct timer_parse parse;
    unsigned seen; /* bits of enum flow_field */
};

/* Reads a field of the limits of a flow whose key is in the path. */
static enum error_code flow_read_limit(void *context, struct bytes name)
{
    struct flow_reading *reading = context;
    char pointer[TIMER_NAME_TEXT_SIZE];

    timer_pointer("#", name, pointer, sizeof(pointer));
    for (size_t i = FLOW_FIELD_concurrency; i < FLOW_FIELDS; i++) {
        if (!bytes_equal(name, bytes_of(flow_fields[i])))
            continue;
        if (reading->seen & 1u << i)
            return timer_parse_invalid(&reading->parse, pointer, "It is given twice");
        reading->seen |= 1u << i;
        return flow_read_field_at(&reading->parse, (enum flow_field)i, pointer);
    }
    return timer_parse_unknown(&reading->parse, "#", name, flow_fields + 1, FLOW_FIELDS - 1);
}

enum error_code timer_json_flow_limits(struct bytes json, struct bytes key, struct buffer *ret_text,
                                       struct problem *ret_problem)
{
    char local[TIMER_JSON_SCRATCH_SIZE];
    struct flow_reading reading = {
        .parse = {.problem = ret_problem, .json = json, .local = local, .flow = {.key = key}}};

    json_reader_init(&reading.parse.reader, json);
    enum error_code code = timer_parse_body(&reading.parse, flow_read_limit, &reading);
    if (!code)
        code = flow_check(&reading.parse, "#");
    if (!code)
        flow_encode(&reading.parse.flow, ret_text);
    return timer_parse_end(&reading.parse, code);
}

void timer_json_put_flow(const struct flow *flow, struct buffer *out)
{
    json_put_string(out, "key", flow->key);
    if (flow->concurrency)
        json_put_number(out, "concurrency", flow->concurrency);

    char rate[FLOW_RATE_TEXT_SIZE];
    if (flow->rate && flow_rate_text(flow->rate, flow->period_ms, rate)) {
        json_put_text(out, "rate", rate);
    } else if (flow->rate) {
        json_put_number(out, "rate", flow->rate);
        duration_put(out, "period", flow->period_ms);
    }
}

void timer_show_flow(const struct timer *timer, struct buffer *out)
{
    struct flow flow;

    if (!timer->texts.flow.size || !flow_decode(timer->texts.flow, &flow))
        return;
    json_open(out, "flow", '{');
    timer_json_put_flow(&flow, out);
    json_close(out, '}');
}
