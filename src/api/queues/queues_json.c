/* queues_json.c - reads the bodies of lease, ack, nack and extend. */
#include "api/queues/queues_json.h"

#include "api/json/strict.h"

#include <stdio.h>
#include <stdlib.h>

/* X(name, kinds): every field, and the requests that have it. */
#define LEASES  1
#define ACKS    2
#define NACKS   4
#define EXTENDS 8

#define ASK_FIELD_LIST(X)               \
    X(max, LEASES)                      \
    X(wait, LEASES)                     \
    X(lease, LEASES | EXTENDS)          \
    X(receipts, ACKS | NACKS | EXTENDS) \
    X(delay, NACKS)                     \
    X(error, NACKS)                     \
    X(dead, NACKS)

enum ask_field {
#define X(name, kinds) ASK_##name,
    ASK_FIELD_LIST(X)
#undef X
        ASK_FIELD_COUNT,
};

static const struct {
    const char *name;
    unsigned kinds;
} fields[] = {
#define X(name, kinds) {#name, kinds},
    ASK_FIELD_LIST(X)
#undef X
};

struct queues_reading {
    struct timer_parse parse; /* for its strings and problems */
    struct queues_ask *ask;
    unsigned kinds; /* bit of this request */
    unsigned seen;
    uint64_t wait_ms_max;
};

static enum error_code queues_json_read_max(struct queues_reading *reading)
{
    uint64_t value;
    enum error_code code = strict_integer(&reading->parse, "#/max", 1, QUEUES_ITEMS_MAX, &value);

    if (!code)
        reading->ask->items_max = (uint32_t)value;
    return code;
}

static void queues_json_take_receipt(void *context, struct bytes text)
{
    struct queues_reading *reading = context;
    struct queue_receipt receipt = {0}; /* no lease has the number 0 */

    queue_receipt_parse(text, &receipt);
    reading->ask->receipts[reading->ask->receipt_count++] = receipt;
}

static enum error_code queues_json_read_receipts(struct queues_reading *reading)
{
    reading->ask->receipts = calloc(QUEUES_RECEIPTS_MAX, sizeof(*reading->ask->receipts));
    if (!reading->ask->receipts)
        return timer_parse_no_memory(&reading->parse);
    return strict_strings(&reading->parse, "#/receipts", QUEUES_RECEIPTS_MAX,
                          queues_json_take_receipt, reading);
}

static enum error_code queues_json_read_error(struct queues_reading *reading)
{
    char *to = reading->ask->outcome.error;
    struct bytes text;
    enum error_code code = timer_parse_string(&reading->parse, "#/error", &text);

    if (code)
        return code;
    if (text.size >= sizeof(reading->ask->outcome.error) ||
        (text.size && memchr(text.data, '\0', text.size)))
        return timer_parse_invalid(&reading->parse, "#/error",
                                   "It may have at most %zu bytes, and none that is zero",
                                   sizeof(reading->ask->outcome.error) - 1);
    memcpy(to, text.data, text.size);
    to[text.size] = '\0';
    return ERROR_NONE;
}

static enum error_code queues_json_read_dead(struct queues_reading *reading)
{
    struct timer_parse *parse = &reading->parse;
    enum json_type type = json_peek(&parse->reader);

    if (type == JSON_NONE)
        return timer_parse_not_json(parse);
    if (type != JSON_TRUE && type != JSON_FALSE)
        return timer_parse_invalid(parse, "#/dead", "It must be true or false");
    if (!json_skip(&parse->reader, NULL))
        return timer_parse_not_json(parse);
    if (type == JSON_TRUE)
        reading->ask->outcome.result = DELIVERY_ENDED;
    return ERROR_NONE;
}

static enum error_code queues_json_unknown_field(struct queues_reading *reading, struct bytes name)
{
    const char *known[ASK_FIELD_COUNT];
    size_t count = 0;

    for (size_t i = 0; i < ASK_FIELD_COUNT; i++)
        if (fields[i].kinds & reading->kinds)
            known[count++] = fields[i].name;
    return timer_parse_unknown(&reading->parse, "#", name, known, count);
}

static enum error_code queues_json_read_field(void *context, struct bytes name)
{
    struct queues_reading *reading = context;
    struct queues_ask *ask = reading->ask;
    enum ask_field field;

    for (field = 0; field < ASK_FIELD_COUNT; field++)
        if (bytes_equal(name, bytes_of(fields[field].name)) && fields[field].kinds & reading->kinds)
            break;
    if (field == ASK_FIELD_COUNT)
        return queues_json_unknown_field(reading, name);
    if (timer_parse_is_absent(&reading->parse))
        return timer_parse_skip(&reading->parse);
    if (reading->seen & 1u << field)
        return strict_twice(&reading->parse, "#", name);
    reading->seen |= 1u << field;
    switch (field) {
    case ASK_max:
        return queues_json_read_max(reading);
    case ASK_wait:
        return timer_parse_duration_in(&reading->parse, "#/wait", 0, reading->wait_ms_max,
                                       &ask->wait_ms);
    case ASK_lease:
        return timer_parse_duration_in(&reading->parse, "#/lease", QUEUES_LEASE_MS_MIN,
                                       QUEUES_LEASE_MS_MAX, &ask->lease_ms);
    case ASK_receipts:
        return queues_json_read_receipts(reading);
    case ASK_delay:
        ask->outcome.pause = DELIVERY_PAUSE_EXACT;
        return timer_parse_duration_in(&reading->parse, "#/delay", 0, QUEUES_DELAY_MS_MAX,
                                       &ask->outcome.retry_after_ms);
    case ASK_error:
        return queues_json_read_error(reading);
    default:
        return queues_json_read_dead(reading);
    }
}

static enum error_code queues_json_check_together(struct queues_reading *reading)
{
    struct timer_parse *parse = &reading->parse;

    if (!(reading->kinds & LEASES) && !(reading->seen & 1u << ASK_receipts))
        return timer_parse_invalid(parse, "#", "`receipts` are needed");
    if (reading->ask->outcome.result == DELIVERY_ENDED && reading->seen & 1u << ASK_delay)
        return timer_parse_invalid(parse, "#/delay", "What is `dead` is not tried again");
    return ERROR_NONE;
}

static enum error_code queues_json_read_fields(struct queues_reading *reading)
{
    enum error_code code = timer_parse_body(&reading->parse, queues_json_read_field, reading);

    return code ? code : queues_json_check_together(reading);
}

enum error_code queues_json_parse(struct bytes json, enum queue_kind kind, uint64_t wait_ms_max,
                                  struct queues_ask *ret_ask, struct problem *ret_problem)
{
    char local[TIMER_JSON_SCRATCH_SIZE];
    struct queues_ask ask = {
        .items_max = 1,
        .lease_ms = QUEUES_LEASE_MS_DEFAULT,
        .outcome = {.result = DELIVERY_FAILED, .error = "given back by its worker"}};
    struct queues_reading reading = {
        .parse = {.problem = ret_problem, .json = json, .local = local},
        .ask = &ask,
        .kinds = 1u << kind,
        .wait_ms_max = wait_ms_max};

    json_reader_init(&reading.parse.reader, json);
    enum error_code code =
        timer_parse_prefer_not_json(&reading.parse, queues_json_read_fields(&reading));
    if (reading.parse.scratch.data != local)
        free(reading.parse.scratch.data);
    if (code)
        free(ask.receipts);
    else
        *ret_ask = ask;
    return code;
}
