#include "api/timers.h"

#include "http/field.h"
#include "sys/clock.h"

/* ---- create ---- */

void timers_create_begin(struct call *call)
{
    if (!call_refuses_type(call, "application/json", NULL))
        call_refuses_length(call, call->api->options.config->body_bytes_max);
}

static void create_done(struct node_request *request)
{
    struct call *call = call_of(request);

    call_answer_timer(call, 201, request->command.error, request->command.timer);
}

void timers_create(struct call *call)
{
    struct problem problem;

    if (timer_json_parse_create(buffer_bytes(&call->body), &call->api->limits, wall_now(),
                                &call->timer, &problem)) {
        call_answer_problem(call, &problem);
        return;
    }
    call->node.command = (struct command){
        .kind = COMMAND_CREATE,
        .partition = node_partition_next(call->api->options.node),
        .timers = &call->timer,
        .results = &call->created,
        .timer_count = 1,
    };
    struct timer *timer = call->timer;
    if (call_submit(call, create_done))
        timer_free(timer);
}

/* ---- by id ---- */

/* Puts the id of the path into the command. False: answered, there is no such timer. */
static bool address(struct call *call, enum command_kind kind)
{
    struct timer_id id;

    if (timer_id_parse(call->parameter, &id) ||
        id.partition >= node_partition_count(call->api->options.node)) {
        call_answer_error(call, ERROR_NOT_FOUND, "");
        return false;
    }
    call->node.command.kind = kind;
    call->node.command.id = id;
    call->node.command.partition = id.partition;
    return true;
}

static void timer_done(struct node_request *request)
{
    struct call *call = call_of(request);

    call_answer_timer(call, 200, request->command.error, request->command.timer);
}

static void get_done(struct node_request *request)
{
    struct call *call = call_of(request);
    enum error_code error = request->command.error;

    /* A backend may hand out a final state without the word for it. */
    if (!error && timer_is_over(request->command.timer->state))
        error = ERROR_GONE;
    call_answer_timer(call, 200, error, request->command.timer);
}

void timers_get(struct call *call)
{
    if (address(call, COMMAND_GET))
        call_submit(call, get_done);
}

/* ---- changes ---- */

enum error_code timers_if_match(struct bytes field, uint32_t *ret_version)
{
    struct bytes opaque = {0};
    uint64_t version = 0;

    *ret_version = 0;
    if (!field.data)
        return ERROR_NONE;
    switch (http_tag_parse(field, &opaque)) {
    case HTTP_TAG_ANY:
        return ERROR_NONE;
    case HTTP_TAG_STRONG:
        break;
    case HTTP_TAG_WEAK: /* If-Match compares strongly: a weak tag matches nothing */
        *ret_version = TIMERS_VERSION_NEVER;
        return ERROR_NONE;
    default:
        return ERROR_BAD_REQUEST;
    }
    for (size_t i = 0; i < opaque.size && version < UINT32_MAX; i++) {
        if (opaque.data[i] < '0' || opaque.data[i] > '9')
            version = UINT32_MAX;
        else
            version = version * 10 + (uint64_t)(opaque.data[i] - '0');
    }
    /* Only what an ETag of ours can say: no leading zero, no zero. */
    if (version == 0 || version > UINT32_MAX || opaque.data[0] == '0')
        version = TIMERS_VERSION_NEVER;
    *ret_version = (uint32_t)version;
    return ERROR_NONE;
}

/* Headers are looked at when the request begins, and only then can be. False: answered. */
static bool read_if_match(struct call *call)
{
    static const char wrong[] = "If-Match takes one entity tag, such as \"3\", or *";

    if (http_request_header_count(call->http, "If-Match") <= 1 &&
        !timers_if_match(http_request_header(call->http, "If-Match"),
                         &call->node.command.if_version))
        return true;
    call_answer_error(call, ERROR_BAD_REQUEST, wrong);
    return false;
}

void timers_patch_begin(struct call *call)
{
    if (!call_refuses_type(call, "application/json", "application/merge-patch+json") &&
        !call_refuses_length(call, call->api->options.config->body_bytes_max))
        read_if_match(call);
}

void timers_patch(struct call *call)
{
    struct command *command = &call->node.command;
    struct problem problem;
    struct timer *patch;

    if (timer_json_parse_patch(buffer_bytes(&call->body), &call->api->limits, wall_now(),
                               &command->patch_fields, &patch, &problem)) {
        call_answer_problem(call, &problem);
        return;
    }
    command->patch = patch;
    if (!address(call, COMMAND_PATCH) || call_submit(call, timer_done))
        timer_free(patch);
}

void timers_delete_begin(struct call *call)
{
    read_if_match(call);
}

void timers_delete(struct call *call)
{
    if (address(call, COMMAND_CANCEL))
        call_submit(call, timer_done);
}
