/* clock.c - shows and moves the virtual clock; without one its paths do not exist. */
#include "api/core/call.h"

#include "api/json/members.h"
#include "base/json.h"
#include "base/json_write.h"
#include "calendar/duration.h"
#include "calendar/rfc3339.h"
#include "node/node_advance.h"
#include "sys/clock.h"

#include <stdlib.h>
#include <string.h>

#define CLOCK_TEXT_MAX 64 /* maximum of the bytes of a duration or time */

struct clock_move {
    struct node_advance_request node;
    struct call *call;
};

/* Answers 404 if the clock is real. Returns true if answered. */
static bool clock_is_missing(struct call *call)
{
    if (node_advance(call->api->options.node))
        return false;
    call_answer_error(call, ERROR_NOT_FOUND,
                      "The clock is real; `tickwheeld --clock virtual` has one that moves");
    return true;
}

void clock_get(struct call *call)
{
    struct buffer body;

    if (clock_is_missing(call))
        return;
    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_put_text(&body, "clock", "virtual");
    rfc3339_put(&body, "now", wall_now());
    json_put_flag(&body, "moving", node_advance_is_running(node_advance(call->api->options.node)));
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

/* ---- moving ---- */

static void clock_answer_move(struct call *call)
{
    const struct clock_move *move = call->state;
    const struct engine_progress *counts = &move->node.counts;
    struct buffer body;

    if (move->node.result) {
        call_answer_error(call, move->node.result, "");
        return;
    }
    buffer_init(&body);
    json_open(&body, NULL, '{');
    rfc3339_put(&body, "now", move->node.now);
    if (move->node.to.ms == UINT64_MAX)
        json_put_text(&body, "to", "next");
    else
        rfc3339_put(&body, "to", move->node.to);
    json_put_flag(&body, "done", move->node.is_done);
    json_put_number(&body, "fired", counts->fired);
    json_put_number(&body, "delivered", counts->delivered);
    json_put_number(&body, "failed", counts->failed);
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

static void clock_moved(struct node_advance_request *request)
{
    call_resume(list_item(request, struct clock_move, node)->call, clock_answer_move);
}

/* Decodes a string of the body. */
static enum error_code clock_read_text(struct bytes value, const char *pointer,
                                       char ret_text[CLOCK_TEXT_MAX + 1],
                                       struct problem *ret_problem)
{
    struct json_reader reader;
    struct json_string string;
    size_t size;

    json_reader_init(&reader, value);
    if (json_peek(&reader) != JSON_STRING || !json_read_string(&reader, &string))
        return problem_set(ret_problem, ERROR_INVALID, pointer, "It must be a string");
    if (string.raw.size > CLOCK_TEXT_MAX ||
        !json_string_decode(&string, ret_text, CLOCK_TEXT_MAX, &size))
        return problem_set(ret_problem, ERROR_INVALID, pointer, "It may have at most %d bytes",
                           CLOCK_TEXT_MAX);
    ret_text[size] = '\0';
    return ERROR_NONE;
}

static enum error_code clock_read_move(struct bytes body, struct wall *ret_to,
                                       struct problem *ret_problem)
{
    static const char *const names[] = {"by", "to"};
    struct bytes values[2];
    char text[CLOCK_TEXT_MAX + 1];
    enum error_code code = members_read(body, names, 2, values, ret_problem);

    if (!code && !values[0].data == !values[1].data)
        code = problem_set(ret_problem, ERROR_INVALID, "#", "Give one of `by` and `to`");
    const bool is_by = !code && values[0].data;
    const char *pointer = is_by ? "#/by" : "#/to";
    if (!code)
        code = clock_read_text(values[!is_by], pointer, text, ret_problem);
    if (code)
        return code;
    if (!is_by && strcmp(text, "next") == 0) {
        *ret_to = WALL_NEVER;
        return ERROR_NONE;
    }
    struct error cause;
    struct wall to;
    uint64_t ms;
    code = is_by ? duration_parse(bytes_of(text), &ms, &cause)
                 : rfc3339_parse(bytes_of(text), &to, &cause);
    if (code)
        return problem_set(ret_problem, ERROR_INVALID, pointer, "%s", cause.text);
    if (is_by) /* WALL_NEVER means the next firing */
        to = wall_min(wall_add(wall_now(), ms), (struct wall){UINT64_MAX - 1});
    *ret_to = to;
    return ERROR_NONE;
}

void clock_advance(struct call *call)
{
    struct clock_move *move;
    struct problem problem;
    struct error cause = {.text = ""};
    struct wall to = {0};

    if (clock_read_move(buffer_bytes(&call->body), &to, &problem)) {
        call_answer_problem(call, &problem);
        return;
    }
    if (clock_is_missing(call))
        return;
    if (!(move = calloc(1, sizeof(*move)))) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    *move = (struct clock_move){.call = call, .node = {.to = to, .done = clock_moved}};
    call->state = move;
    const enum error_code code =
        node_advance_ask(node_advance(call->api->options.node), &move->node, &cause);
    if (!code)
        return;
    problem_set(&problem, code, code == ERROR_INVALID ? "#" : "", "%s", cause.text);
    call_answer_problem(call, &problem);
}
