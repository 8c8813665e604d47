/* timers_by_id.c - create, get, touch, fire, resume, release and cancel by id. */
#include "api/timers/timers.h"

#include "api/json/names.h"
#include "base/json_write.h"
#include "http/field.h"
#include "sys/clock.h"

#include <stdio.h>

/* ---- create ---- */

/* True for 1 to 256 visible characters. */
static bool timers_is_request_name(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++)
        if (name.data[i] <= ' ' || name.data[i] > '~')
            return false;
    return name.size > 0 && name.size <= NAME_SIZE_MAX;
}

/* Returns the name in an Idempotency-Key: a string of Structured Fields (RFC 9651), "a1" in
 * quotes, is the name a1. Empty if the string is malformed or too long for `room`. */
static struct bytes timers_request_name(struct bytes field, char room[NAME_SIZE_MAX])
{
    if (field.size == 0 || field.data[0] != '"')
        return field;
    size_t size = 0, at = 1;
    for (; at < field.size && field.data[at] != '"'; at++) {
        if (field.data[at] == '\\' &&
            (++at == field.size || (field.data[at] != '"' && field.data[at] != '\\')))
            return (struct bytes){0};
        if (size == NAME_SIZE_MAX)
            return (struct bytes){0};
        room[size++] = field.data[at];
    }
    return at + 1 == field.size ? (struct bytes){room, size} : (struct bytes){0};
}

bool timers_read_request(struct call *call, struct bytes of,
                         char ret_text[TIMERS_REQUEST_TEXT_SIZE], struct bytes *ret_request)
{
    struct bytes field = http_request_header(call->http, "Idempotency-Key");

    *ret_request = (struct bytes){0};
    if (!field.data)
        return true;
    char room[NAME_SIZE_MAX];
    struct bytes name = timers_request_name(field, room);
    if (http_request_header_count(call->http, "Idempotency-Key") > 1 ||
        !timers_is_request_name(name)) {
        struct problem problem;
        problem_set(&problem, ERROR_BAD_REQUEST, "",
                    "Idempotency-Key takes 1 to %d visible characters of ASCII, bare or in quotes",
                    NAME_SIZE_MAX);
        call_answer_problem(call, &problem);
        return false;
    }
    snprintf(
        ret_text, TIMERS_REQUEST_TEXT_SIZE, "%016llx",
        (unsigned long long)bytes_hash(of.size ? bytes_hash(0, of) : 0, buffer_bytes(&call->body)));
    memcpy(ret_text + NAME_FINGERPRINT_SIZE, name.data, name.size);
    *ret_request = (struct bytes){ret_text, NAME_FINGERPRINT_SIZE + name.size};
    return true;
}

/* Refuses a key in the body that differs from the key in the path. */
static bool timers_contradicts(struct call *call, const struct timer *timer, struct bytes key)
{
    if (!key.size || bytes_equal(timer->texts.key, key))
        return false;
    struct problem problem;
    problem_set(&problem, ERROR_INVALID, "#/key", "%s", "The path has another key");
    call_answer_problem(call, &problem);
    return true;
}

struct timer *timers_read_create(struct call *call, struct bytes key)
{
    struct timer_json_limits limits = call_timer_limits(call);
    char text[TIMERS_REQUEST_TEXT_SIZE];
    struct bytes request;

    if (!timers_read_request(call, (struct bytes){0}, text, &request))
        return NULL;
    char trace[TRACE_PARENT_SIZE + 1];
    limits.trace = call_trace(call, trace);
    limits.key = key;
    struct problem problem;
    struct timer *timer;
    if (timer_json_parse_create(buffer_bytes(&call->body), &limits, call_wall_coming(call), &timer,
                                &problem)) {
        call_answer_problem(call, &problem);
        return NULL;
    }
    if (timers_contradicts(call, timer, key)) {
        timer_free(timer);
        return NULL;
    }
    if (!request.size)
        return timer;
    timer = name_timer(timer, timer->texts.key, request);
    if (!timer)
        call_answer_error(call, ERROR_NO_MEMORY, "");
    return timer;
}

/* Answers a create: a repeated request gets the first answer; a key in use shows its timer. */
static void timers_create_done(struct node_request *request)
{
    struct call *call = call_of(request);
    const struct command *command = &request->command;
    bool is_found = call->created.existed && !call->created.is_repeated;

    call_answer_timer(call, is_found ? 200 : 201, command->error, command->timer);
}

static void timers_create_submit(struct call *call, struct timer *timer, uint16_t partition,
                                 void (*answer)(struct node_request *request))
{
    const bool is_put = call->parameter.data && !name_is_claim(timer);

    call->timer = timer;
    call->created = (struct command_created){0};
    call->node.command = (struct command){
        .kind = is_put ? COMMAND_PUT : COMMAND_CREATE,
        .partition = partition,
        .timers = &call->timer,
        .results = &call->created,
        .timer_count = 1,
        .if_version = is_put ? call->if_version : 0,
        .must_exist = is_put && call->must_exist,
    };
    if (call_submit(call, answer))
        timer_free(timer);
}

static void timers_create_claimed(struct node_request *request)
{
    struct call *call = call_of(request);
    struct timer *timer = call->unclaimed;

    timer_free(call->shown);
    call->shown = NULL;
    if (request->command.error) {
        call_answer_error(call, request->command.error, "");
        return;
    }
    call->unclaimed = NULL;
    timers_create_submit(
        call, timer,
        name_partition_of(call->api->options.node, http_request_thread(call->http), timer),
        timers_create_done);
}

/* True if the timer's partition is not that of its Idempotency-Key. Keys always have a claim. */
static bool timers_need_claim(const struct node *node, const struct timer *timer)
{
    return timer->texts.key.size ||
           (timer->texts.order.size &&
            name_partition_of_queue(node, timer) !=
                name_partition(node, name_of_request(timer->texts.request)));
}

/* Submits a create. The partition of the Idempotency-Key stores a claim before a timer with a
 * key, or in strict order, exists in another one. After a crash in between, the repeated request
 * finds its own claim, and continues. */
void timers_submit_create(struct call *call, struct timer *timer)
{
    struct node *node = call->api->options.node;

    if (!timer->texts.request.size || !timers_need_claim(node, timer)) {
        timers_create_submit(call, timer,
                             name_partition_of(node, http_request_thread(call->http), timer),
                             timers_create_done);
        return;
    }
    struct timer *claim = name_claim(timer);
    call->unclaimed = timer;
    if (claim)
        timers_create_submit(call, claim,
                             name_partition(node, name_of_request(timer->texts.request)),
                             timers_create_claimed);
    else
        call_answer_error(call, ERROR_NO_MEMORY, "");
}

void timers_create(struct call *call)
{
    struct timer *timer = timers_read_create(call, (struct bytes){0});

    if (timer)
        timers_submit_create(call, timer);
}

/* A storage may return a final state without its error. */

bool timers_address(struct call *call, enum command_kind kind)
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

void timers_done(struct node_request *request)
{
    struct call *call = call_of(request);

    call_answer_timer(call, 200, request->command.error, request->command.timer);
}

void timers_get_done(struct node_request *request)
{
    struct call *call = call_of(request);
    enum error_code error = request->command.error;

    /* A storage may return a final state without its error. */
    if (!error && timer_is_final(request->command.timer->state))
        error = ERROR_GONE;
    call_answer_timer(call, 200, error, request->command.timer);
}

void timers_get(struct call *call)
{
    if (timers_address(call, COMMAND_GET))
        call_submit(call, timers_get_done);
}

static void timers_runs_done(struct node_request *request)
{
    struct call *call = call_of(request);
    const enum error_code error = request->command.error;
    const struct timer *timer = request->command.timer;

    if (!timer || (error && error != ERROR_GONE)) {
        call_answer_error(call, error ? error : ERROR_NOT_FOUND, "");
        return;
    }
    struct buffer body;
    buffer_init(&body);
    json_open(&body, NULL, '{');
    timer_id_put(&body, "id", &timer->id);
    timer_json_put_runs(timer, &body);
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

void timers_runs(struct call *call)
{
    if (timers_address(call, COMMAND_GET))
        call_submit(call, timers_runs_done);
}

/* ---- changes ---- */

enum error_code timers_if_match(struct bytes field, uint32_t *ret_version)
{
    *ret_version = 0;
    if (!field.data)
        return ERROR_NONE;
    struct bytes opaque = {0};
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
    uint64_t version = 0;
    for (size_t i = 0; i < opaque.size && version < UINT32_MAX; i++) {
        if (opaque.data[i] < '0' || opaque.data[i] > '9')
            version = UINT32_MAX;
        else
            version = version * 10 + (uint64_t)(opaque.data[i] - '0');
    }
    /* Accepts only our own ETags: a number above 0 without leading zeros. */
    if (version == 0 || version > UINT32_MAX || opaque.data[0] == '0')
        version = TIMERS_VERSION_NEVER;
    *ret_version = (uint32_t)version;
    return ERROR_NONE;
}

/* Reads the headers at the begin of the request, which are freed later. Returns false if
 * answered. */
bool timers_read_if_match(struct call *call)
{
    static const char wrong[] = "If-Match takes one entity tag, such as \"3\", or *";

    if (http_request_header_count(call->http, "If-Match") <= 1 &&
        !timers_if_match(http_request_header(call->http, "If-Match"),
                         &call->node.command.if_version))
        return true;
    call_answer_error(call, ERROR_BAD_REQUEST, wrong);
    return false;
}

void timers_change_begin(struct call *call)
{
    timers_read_if_match(call);
}

void timers_delete(struct call *call)
{
    if (timers_address(call, COMMAND_CANCEL))
        call_submit(call, timers_done);
}

void timers_fire(struct call *call)
{
    if (timers_address(call, COMMAND_FIRE))
        call_submit(call, timers_done);
}

void timers_resume(struct call *call)
{
    if (timers_address(call, COMMAND_RESUME))
        call_submit(call, timers_done);
}

void timers_release(struct call *call)
{
    if (timers_address(call, COMMAND_RELEASE))
        call_submit(call, timers_done);
}

/* ---- extending ---- */

void timers_touch_begin(struct call *call)
{
    if (!call_refuses_type(call, "application/json", NULL) && !call_refuses_body(call))
        timers_read_if_match(call);
}

bool timers_read_touch(struct call *call)
{
    const struct timer_json_limits limits = call_timer_limits(call);
    struct command *command = &call->node.command;

    struct problem problem;
    if (!timer_json_parse_values(buffer_bytes(&call->body), &limits, call_wall_coming(call),
                                 &command->patch_fields, &command->patch, &problem)) {
        if (command->patch_fields == PATCH_DUE)
            return true;
        timer_free(command->patch);
        problem_set(&problem, ERROR_INVALID, "#", "It may have `after` or `at`, and nothing else");
    }
    call_answer_problem(call, &problem);
    return false;
}

void timers_touch(struct call *call)
{
    if (!timers_read_touch(call))
        return;
    struct timer *patch = call->node.command.patch;
    if (!timers_address(call, COMMAND_TOUCH) || call_submit(call, timers_done))
        timer_free(patch);
}
