/*
 * calendars.c - calendars of holidays: those of the tenant, and those of the settings, which all
 * tenants read.
 *
 * A calendar of a tenant is a definition, whose value is the text that was put. It is answered when
 * it is durable, and every schedule that is read after the answer uses it.
 */
#include "api/timers/timers.h"

#include "base/json.h"
#include "base/json_write.h"
#include "calendar/calendar.h"
#include "calendar/dates.h"
#include "calendar/rfc3339.h"
#include "http/field.h"
#include "timer/definitions.h"

#include <stdlib.h>

#define CALENDAR_DAYS_SHOWN_MAX 366

/* ---- showing ---- */

/* `version` is that of a change that was just made; 0 shows that of the definition. */
static void calendars_put_head(const struct calendars_row *row, const struct definition *definition,
                               uint64_t version, struct buffer *body)
{
    json_put_string(body, "name", row->name);
    json_put_text(body, "scope", row->is_shared ? "all" : "tenant");
    if (definition && !row->is_shared) {
        json_put_number(body, "version", version ? version : definition->version);
        rfc3339_put(body, "since", definition->since);
    }
}

/* Lists the spans that end today or later, as "2026-12-24" or "2026-12-24/2027-01-01". */
static void calendars_put_days(const struct holidays *holidays, struct wall now,
                               struct buffer *body)
{
    const int64_t today = (int64_t)(now.ms / 1000) / SECONDS_PER_DAY;
    size_t count, shown = 0;
    const struct holiday *spans = holidays_all(holidays, &count);

    json_open(body, "days", '[');
    for (size_t i = 0; i < count && shown < CALENDAR_DAYS_SHOWN_MAX; i++) {
        char text[2 * HOLIDAYS_DAY_SIZE];

        if (spans[i].last < today)
            continue;
        shown++;
        holidays_format_day(spans[i].first, text);
        if (spans[i].last > spans[i].first) {
            const size_t size = strlen(text);

            text[size] = '/';
            holidays_format_day(spans[i].last, text + size + 1);
        }
        json_open(body, NULL, '{');
        json_put_text(body, "date", text);
        json_put_some(body, "name", spans[i].name);
        json_close(body, '}');
    }
    json_close(body, ']');
}

static const struct definition *calendars_definition(const struct definitions *definitions,
                                                     const struct call *call, struct bytes name)
{
    return definitions_find(definitions, caller_tenant(&call->caller), DEFINITION_CALENDAR, name);
}

/* Answers with the calendar of this name that the tenant's schedules use. */
static void calendars_answer(struct call *call, uint64_t version)
{
    struct calendars *calendars = node_calendars(call->api->options.node);
    struct definitions *definitions = node_definitions(call->api->options.node);
    const struct calendars_row *row =
        calendars_find(calendars, caller_tenant(&call->caller), call->parameter);

    if (!row) {
        call_answer_error(call, ERROR_NOT_FOUND, "There is no calendar of this name");
    } else {
        struct buffer body;

        buffer_init(&body);
        json_open(&body, NULL, '{');
        calendars_put_head(row, calendars_definition(definitions, call, call->parameter), version,
                           &body);
        calendars_put_days(row->days, call_wall_coming(call), &body);
        json_close(&body, '}');
        call_answer_json(call, 200, &body);
    }
    calendars_leave(calendars);
    definitions_leave(definitions);
}

void calendars_get(struct call *call)
{
    calendars_answer(call, 0);
}

void calendars_list(struct call *call)
{
    struct calendars *calendars = node_calendars(call->api->options.node);
    struct definitions *definitions = node_definitions(call->api->options.node);
    const struct bytes tenant = caller_tenant(&call->caller);
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_open(&body, "calendars", '[');
    for (size_t i = 0; calendars && i < calendars->count; i++) {
        const struct calendars_row *row = &calendars->rows[i];

        /* the tenant's own calendar hides one of all tenants */
        if (calendars_find(calendars, tenant, row->name) != row)
            continue;
        json_open(&body, NULL, '{');
        calendars_put_head(row, calendars_definition(definitions, call, row->name), 0, &body);
        json_close(&body, '}');
    }
    json_close(&body, ']');
    json_close(&body, '}');
    calendars_leave(calendars);
    definitions_leave(definitions);
    call_answer_json(call, 200, &body);
}

/* ---- changing ---- */

struct calendars_change {
    struct node_hold node;
    struct call *call;
    bool is_json; /* the client calls the body JSON */
    char key[DEFINITION_KEY_SIZE_MAX];
};

static void calendars_answer_deleted(struct call *call)
{
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_put_string(&body, "name", call->parameter);
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

static void calendars_changed(struct call *call)
{
    const struct calendars_change *change = call->state;
    const enum error_code code = change->node.result;

    if (code == ERROR_NOT_FOUND)
        call_answer_error(call, code, "There is no calendar of this name");
    else if (code)
        call_answer_error(call, code, change->node.error.text);
    else if (change->node.kind == NODE_HOLD_DEFINE)
        calendars_answer(call, change->node.version);
    else
        calendars_answer_deleted(call);
}

static void calendars_done(struct node_hold *hold)
{
    call_resume(list_item(hold, struct calendars_change, node)->call, calendars_changed);
}

/* Returns false if answered. */
static bool calendars_prepare(struct call *call)
{
    struct calendars_change *change = calloc(1, sizeof(*change));

    if (!change) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return false;
    }
    call->state = change;
    change->call = call;
    return true;
}

static void calendars_submit(struct call *call, enum node_hold_kind kind, struct bytes value)
{
    struct calendars_change *change = call->state;
    const struct wall now = call_wall_coming(call);
    change->node = (struct node_hold){
        .kind = kind,
        .at = now,
        .definition = {.tenant = caller_tenant(&call->caller),
                       .key = definition_key(DEFINITION_CALENDAR, call->parameter, change->key),
                       .value = value,
                       .since = now,
                       .version = NODE_ANY_VERSION},
        .done = calendars_done};
    node_hold(call->api->options.node, &change->node);
}

void calendars_put_begin(struct call *call)
{
    if (!dates_is_name(call->parameter))
        call_answer_error(
            call, ERROR_INVALID,
            "A calendar has a name of 1 to 63 letters, digits, \".\", \"_\" and \"-\"");
    else if (!call_refuses_type(call, "text/calendar", "application/json") &&
             !call_refuses_body(call) && calendars_prepare(call))
        ((struct calendars_change *)call->state)->is_json =
            http_media_type_is(http_request_header(call->http, "Content-Type"), "application/json");
}

/* Describes what is wrong with a body. One that is called JSON and is none is refused as
 * everywhere; the language of others is found by how they begin. */
static void calendars_refuse(struct call *call, struct bytes text, const char *reason)
{
    const struct calendars_change *change = call->state;
    struct json_reader reader;
    struct problem problem;

    json_reader_init(&reader, text);
    if (!change->is_json || bytes_has_prefix(text, BYTES("BEGIN:")) ||
        (json_skip(&reader, NULL) && json_finish(&reader)))
        problem_set(&problem, ERROR_INVALID, "", "The calendar: %s", reason);
    else
        problem_set(&problem, ERROR_NOT_JSON, "", "Byte %zu: %s", json_error_offset(&reader),
                    json_error(&reader));
    call_answer_problem(call, &problem);
}

void calendars_put(struct call *call)
{
    struct holidays *holidays;
    struct error error;
    const struct bytes text = buffer_bytes(&call->body);
    const enum error_code code = holidays_parse(text, &holidays, &error);

    if (code == ERROR_NO_MEMORY) {
        call_answer_error(call, code, "");
    } else if (code) {
        calendars_refuse(call, text, error.text);
    } else {
        holidays_leave(holidays);
        calendars_submit(call, NODE_HOLD_DEFINE, text);
    }
}

void calendars_delete(struct call *call)
{
    if (!dates_is_name(call->parameter))
        call_answer_error(call, ERROR_NOT_FOUND, "There is no calendar of this name");
    else if (calendars_prepare(call))
        calendars_submit(call, NODE_HOLD_UNDEFINE, (struct bytes){0});
}
