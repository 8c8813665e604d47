/*
 * backfill.c - fires the instants of a timer's past span: reads the timer, counts the instants, and
 * creates a timer that fires them one after the other (timer/firing.h).
 */
#include "api/timers/timers.h"

#include "api/json/names.h"
#include "api/json/strict.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"
#include "timer/firing.h"

/* ---- the body ---- */

static enum error_code backfill_read_rate(struct timer_parse *parse, struct backfill_ask *ask)
{
    struct bytes text;
    enum error_code code = timer_parse_string(parse, "#/rate", &text);

    if (code)
        return code;
    if (text.size >= sizeof(ask->rate) || !backfill_rate_parse(text, &ask->pace_ms))
        return timer_parse_invalid(parse, "#/rate",
                                   "It must be \"1/s\" to \"%d/s\", or with m or h in place of s",
                                   BACKFILL_RATE_MAX);
    memcpy(ask->rate, text.data, text.size);
    ask->rate[text.size] = '\0';
    return ERROR_NONE;
}

static enum error_code backfill_read_dry_run(struct timer_parse *parse, struct backfill_ask *ask)
{
    const enum json_type type = json_peek(&parse->reader);

    if (type == JSON_NONE)
        return timer_parse_not_json(parse);
    if (type != JSON_TRUE && type != JSON_FALSE)
        return timer_parse_invalid(parse, "#/dry_run", "It must be true or false");
    ask->is_dry = type == JSON_TRUE;
    return timer_parse_skip(parse);
}

struct backfill_reading {
    struct timer_parse parse; /* for its strings and problems */
    struct backfill_ask ask;
    unsigned seen;
};

static enum error_code backfill_read_field(void *context, struct bytes name)
{
    static const char *const known[] = {"from", "to", "rate", "dry_run"};
    struct backfill_reading *reading = context;
    struct timer_parse *parse = &reading->parse;
    size_t field = 0;

    while (field < 4 && !bytes_equal(name, bytes_of(known[field])))
        field++;
    if (field == 4)
        return timer_parse_unknown(parse, "#", name, known, 4);
    if (timer_parse_is_absent(parse))
        return timer_parse_skip(parse);
    if (reading->seen & 1u << field)
        return strict_twice(parse, "#", name);
    reading->seen |= 1u << field;
    switch (field) {
    case 0:
        return timer_parse_wall(parse, "#/from", &reading->ask.from);
    case 1:
        return timer_parse_wall(parse, "#/to", &reading->ask.to);
    case 2:
        return backfill_read_rate(parse, &reading->ask);
    default:
        return backfill_read_dry_run(parse, &reading->ask);
    }
}

static enum error_code backfill_check(struct backfill_reading *reading)
{
    struct timer_parse *parse = &reading->parse;

    if ((reading->seen & 3) != 3)
        return timer_parse_invalid(parse, "#", "`from` and `to` are needed");
    if (reading->ask.from.ms >= reading->ask.to.ms)
        return timer_parse_invalid(parse, "#/to", "It must be later than `from`");
    if (reading->ask.to.ms > parse->now.ms)
        return timer_parse_invalid(parse, "#/to", "It must not lie in the future");
    return ERROR_NONE;
}

enum error_code backfill_parse(struct bytes json, struct wall now, struct backfill_ask *ret_ask,
                               struct problem *ret_problem)
{
    char local[TIMER_JSON_SCRATCH_SIZE];
    struct backfill_reading reading = {
        .parse = {.now = now, .problem = ret_problem, .json = json, .local = local},
        .ask = {.rate = BACKFILL_RATE_DEFAULT},
    };

    backfill_rate_parse(BYTES(BACKFILL_RATE_DEFAULT), &reading.ask.pace_ms);
    json_reader_init(&reading.parse.reader, json);
    enum error_code code = timer_parse_body(&reading.parse, backfill_read_field, &reading);
    if (!code)
        code = backfill_check(&reading);
    code = timer_parse_end(&reading.parse, code);
    if (!code)
        *ret_ask = reading.ask;
    return code;
}

/* ---- the call ---- */

/* The instants of a span. */
struct backfill_span {
    uint64_t count; /* BACKFILL_COUNT_MAX + 1 for any number beyond */
    struct wall first, last;
};

static struct backfill_span backfill_count(const struct schedule *schedule,
                                           const struct backfill_ask *ask)
{
    struct backfill_span span = {.count = 0};
    struct wall at = {ask->from.ms ? ask->from.ms - 1 : 0};

    while (span.count <= BACKFILL_COUNT_MAX &&
           (at = schedule_after(schedule, at)).ms < ask->to.ms) {
        if (!span.count++)
            span.first = at;
        span.last = at;
    }
    return span;
}

static void backfill_answer_count(struct call *call, const struct backfill_span *span)
{
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_put_number(&body, "count", span->count);
    if (span->count) {
        rfc3339_put(&body, "first", span->first);
        rfc3339_put(&body, "last", span->last);
    }
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

static void backfill_refuse(struct call *call, const char *pointer, const char *detail)
{
    struct problem problem;

    problem_set(&problem, ERROR_INVALID, pointer, "%s", detail);
    call_answer_problem(call, &problem);
}

static void backfill_created(struct node_request *request)
{
    call_answer_timer(call_of(request), 201, request->command.error, request->command.timer);
}

/* Creates the backfill, by the name of the request if it has one. */
static void backfill_create(struct call *call, const struct timer *timer,
                            const struct backfill_ask *ask, const struct backfill_span *span)
{
    struct node *node = call->api->options.node;
    char id[TIMER_ID_TEXT_SIZE];

    timer_id_format(&timer->id, id);
    const struct backfill backfill = {.of = bytes_of(id),
                                      .from = ask->from,
                                      .to = ask->to,
                                      .rate = bytes_of(ask->rate),
                                      .pace_ms = ask->pace_ms,
                                      .count = span->count};
    struct timer *made = firing_create_backfill(timer, &backfill, span->first, span->last);
    if (made && call->unclaimed->texts.request.size)
        made = name_timer(made, (struct bytes){0}, call->unclaimed->texts.request);
    if (!made) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    call->timer = made;
    call->created = (struct command_created){0};
    call->node.command = (struct command){
        .kind = COMMAND_CREATE,
        .partition = name_partition_of(node, http_request_thread(call->http), made),
        .timers = &call->timer,
        .results = &call->created,
        .timer_count = 1,
    };
    if (call_submit(call, backfill_created))
        timer_free(made);
}

/* Counts the instants of the timer in call->shown. */
static void backfill_begin_span(struct call *call, const struct timer *timer)
{
    const struct timer_json_limits limits = call_timer_limits(call);
    struct backfill_ask ask;
    struct backfill backfill;
    struct schedule schedule;
    struct problem problem;
    struct error error;

    if (backfill_parse(buffer_bytes(&call->body), wall_now(), &ask, &problem)) {
        call_answer_problem(call, &problem);
        return;
    }
    if (schedule_backfill(timer->texts.schedule, &backfill)) {
        backfill_refuse(call, "", "The timer is a backfill itself");
        return;
    }
    const enum error_code code = schedule_of(timer, &limits.zones, &schedule, &error);
    if (code) {
        call_answer_error(call, code == ERROR_NOT_FOUND ? ERROR_INVALID : code, error.text);
        return;
    }
    if (!schedule.recurs) {
        backfill_refuse(call, "", "The timer does not repeat");
        return;
    }
    const struct backfill_span span = backfill_count(&schedule, &ask);
    if (span.count > BACKFILL_COUNT_MAX)
        backfill_refuse(call, "#/to", "The span has more than 10000 instants");
    else if (ask.is_dry)
        backfill_answer_count(call, &span);
    else if (!span.count)
        backfill_refuse(call, "#/to", "The span has no instant");
    else
        backfill_create(call, timer, &ask, &span);
}

static void backfill_found(struct node_request *request)
{
    struct call *call = call_of(request);
    enum error_code error = request->command.error;
    struct timer *timer = call->shown;

    if (!error && timer_is_final(timer->state))
        error = ERROR_GONE;
    if (error) {
        call_answer_timer(call, 200, error, request->command.timer);
        return;
    }
    call->shown = NULL;
    backfill_begin_span(call, timer);
    timer_free(timer);
}

/* Reads the body, so that its faults are told first, and the name of the request. */
static void backfill_submit(struct call *call, bool (*address)(struct call *, enum command_kind))
{
    char text[TIMERS_REQUEST_TEXT_SIZE];
    struct backfill_ask ask;
    struct problem problem;
    struct bytes request;

    if (backfill_parse(buffer_bytes(&call->body), wall_now(), &ask, &problem)) {
        call_answer_problem(call, &problem);
        return;
    }
    if (!timers_read_request(call, call->parameter, text, &request))
        return;
    call->unclaimed = timer_alloc(&(struct timer_texts){.request = request});
    if (!call->unclaimed) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    if (address(call, COMMAND_GET))
        call_submit(call, backfill_found);
}

void backfill_by_id(struct call *call)
{
    backfill_submit(call, timers_address);
}

void backfill_by_key(struct call *call)
{
    backfill_submit(call, keys_address);
}
