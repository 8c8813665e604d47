/*
 * answers.c - later answers of receivers, by the URL that a webhook carried. The token in it is all
 * that is needed, so strangers may ask: they share the rights of one tenant, which has no timers.
 */
#include "api/timers/timers.h"

#include "api/json/strict.h"
#include "timer/awaits.h"

/* "06gv...0-0123...": the id, a dash and the token. */
#define ANSWERS_NAME_SIZE (TIMER_ID_TEXT_SIZE + AWAITS_TOKEN_SIZE)

#define ANSWERS_BODY_MAX   4096
#define ANSWERS_REASON_MAX 159 /* as last_error has room */

/* Name of the tenant of strangers, which no token can name. */
#define ANSWERS_TENANT "\x01"

/* ---- the body ---- */

struct answers_reading {
    struct timer_parse parse; /* for its strings and problems */
    const char *field;        /* the only one that the body may have; NULL if it has none */
    struct command_answer *answer;
    bool has_field;
};

static enum error_code answers_read_reason(struct answers_reading *reading)
{
    struct timer_parse *parse = &reading->parse;
    struct bytes *reason = &reading->answer->reason;
    enum error_code code = timer_parse_string(parse, "#/reason", reason);

    if (!code && (reason->size > ANSWERS_REASON_MAX || memchr(reason->data, '\0', reason->size)))
        return timer_parse_invalid(parse, "#/reason",
                                   "It may have at most %d bytes, and none that is zero",
                                   ANSWERS_REASON_MAX);
    return code;
}

static enum error_code answers_read_field(void *context, struct bytes name)
{
    struct answers_reading *reading = context;

    if (!reading->field || !bytes_equal(name, bytes_of(reading->field)))
        return timer_parse_unknown(&reading->parse, "#", name, &reading->field,
                                   reading->field != NULL);
    if (timer_parse_is_absent(&reading->parse))
        return timer_parse_skip(&reading->parse);
    if (reading->has_field)
        return strict_twice(&reading->parse, "#", name);
    reading->has_field = true;
    if (reading->answer->verb == ANSWER_NACK)
        return answers_read_reason(reading);
    return timer_parse_duration_in(&reading->parse, "#/by", ACK_TIMEOUT_MS_MIN, ACK_TIMEOUT_MS_MAX,
                                   &reading->answer->by_ms);
}

/* Reads the body, whose decoded reason replaces it in `body`. */
static enum error_code answers_parse(struct buffer *body, struct command_answer *answer,
                                     struct problem *ret_problem)
{
    static const char *const fields[] = {
        [ANSWER_ACK] = NULL, [ANSWER_NACK] = "reason", [ANSWER_EXTEND] = "by"};
    char local[TIMER_JSON_SCRATCH_SIZE], room[ANSWERS_REASON_MAX];
    struct answers_reading reading = {
        .field = fields[answer->verb],
        .answer = answer,
        .parse = {.problem = ret_problem, .json = buffer_bytes(body), .local = local}};

    json_reader_init(&reading.parse.reader, reading.parse.json);
    enum error_code code = timer_parse_body(&reading.parse, answers_read_field, &reading);
    if (!code && answer->verb == ANSWER_EXTEND && !reading.has_field)
        code = timer_parse_invalid(&reading.parse, "#/by", "It is needed");
    if (!code && answer->reason.size)
        memcpy(room, answer->reason.data, answer->reason.size);
    code = timer_parse_end(&reading.parse, code);
    if (code || !answer->reason.size)
        return code;
    buffer_clear(body); /* a decoded text is never longer than its JSON */
    buffer_append(body, room, answer->reason.size);
    answer->reason = buffer_bytes(body);
    return ERROR_NONE;
}

/* ---- the calls ---- */

void answers_begin(struct call *call)
{
    call->body_bytes_max = ANSWERS_BODY_MAX;
    if (http_request_content_length(call->http) != 0 &&
        !call_refuses_type(call, "application/json", NULL))
        call_refuses_body(call);
}

/* Shows nothing of the timer to whoever has the URL. */
static void answers_done(struct node_request *request)
{
    struct call *call = call_of(request);
    const enum error_code error = request->command.error;
    struct http_response response = {.status = 204};

    if (error == ERROR_GONE || error == ERROR_NOT_FOUND || error == ERROR_CORRUPT)
        call_answer_error(call, ERROR_NOT_AWAITED, "");
    else if (error)
        call_answer_error(call, error, "");
    else
        call_answer(call, &response);
}

/* Reads the name of the wait. Returns false for a name that no wait can have. */
static bool answers_read_name(struct call *call, struct command *command)
{
    const struct bytes name = call->parameter;
    const size_t id_size = TIMER_ID_TEXT_SIZE - 1;

    if (name.size != ANSWERS_NAME_SIZE || name.data[id_size] != '-' ||
        timer_id_parse((struct bytes){name.data, id_size}, &command->id))
        return false;
    command->answer.token = (struct bytes){name.data + id_size + 1, AWAITS_TOKEN_SIZE};
    command->partition = command->id.partition;
    return awaits_is_token(command->answer.token);
}

static void answers_submit(struct call *call, enum command_answer_verb verb)
{
    struct command *command = &call->node.command;
    struct problem problem;

    command->kind = COMMAND_ANSWER;
    command->answer.verb = verb;
    if (call->body.size == 0)
        buffer_append_text(&call->body, "{}");
    if (answers_parse(&call->body, &command->answer, &problem)) {
        call_answer_problem(call, &problem);
        return;
    }
    if (!answers_read_name(call, command)) {
        call_answer_error(call, ERROR_NOT_FOUND, "");
        return;
    }
    if (command->partition >= node_partition_count(call->api->options.node)) {
        call_answer_error(call, ERROR_NOT_AWAITED, "");
        return;
    }
    if (verb == ANSWER_NACK && !command->answer.reason.size)
        command->answer.reason = BYTES("the receiver gave up");
    call->caller.tenant_size = sizeof(ANSWERS_TENANT) - 1;
    memcpy(call->caller.tenant, ANSWERS_TENANT, call->caller.tenant_size);
    call_submit(call, answers_done);
}

void answers_ack(struct call *call)
{
    answers_submit(call, ANSWER_ACK);
}

void answers_nack(struct call *call)
{
    answers_submit(call, ANSWER_NACK);
}

void answers_extend(struct call *call)
{
    answers_submit(call, ANSWER_EXTEND);
}
