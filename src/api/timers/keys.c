/* keys.c - create, get, touch, fire, resume, release and cancel by key. */

#include "api/json/names.h"
#include "api/timers/timers.h"

/* ---- one timer by its key ---- */

bool keys_address(struct call *call, enum command_kind kind)
{
    struct error error;

    if (name_check(call->parameter, &error)) {
        call_answer_error(call, ERROR_NOT_FOUND, "");
        return false;
    }
    call->node.command.kind = kind;
    call->node.command.name = call->parameter;
    call->node.command.partition = name_partition(call->api->options.node, call->parameter);
    return true;
}

void keys_get(struct call *call)
{
    if (keys_address(call, COMMAND_GET))
        call_submit(call, timers_get_done);
}

void keys_delete(struct call *call)
{
    if (keys_address(call, COMMAND_CANCEL))
        call_submit(call, timers_done);
}

void keys_fire(struct call *call)
{
    if (keys_address(call, COMMAND_FIRE))
        call_submit(call, timers_done);
}

void keys_resume(struct call *call)
{
    if (keys_address(call, COMMAND_RESUME))
        call_submit(call, timers_done);
}

void keys_release(struct call *call)
{
    if (keys_address(call, COMMAND_RELEASE))
        call_submit(call, timers_done);
}

void keys_touch(struct call *call)
{
    if (!timers_read_touch(call))
        return;
    struct timer *patch = call->node.command.patch;
    if (!keys_address(call, COMMAND_TOUCH) || call_submit(call, timers_done))
        timer_free(patch);
}

void keys_put_begin(struct call *call)
{
    if (!call_refuses_type(call, "application/json", NULL) && !call_refuses_body(call))
        call->node.command.must_exist =
            timers_read_if_match(call) && http_request_header(call->http, "If-Match").data;
}

void keys_put(struct call *call)
{
    struct error error;

    if (name_check_new(call->parameter, &error)) {
        struct problem problem;
        problem_set(&problem, ERROR_INVALID, "", "The key: %s", error.text);
        call_answer_problem(call, &problem);
        return;
    }
    call->if_version = call->node.command.if_version;
    call->must_exist = call->node.command.must_exist;
    struct timer *timer = timers_read_create(call, call->parameter);
    if (timer)
        timers_submit_create(call, timer);
}
