/* watch.c - completes events. Timers that watch an event may be in any partition: every partition
 * gets one command with all events of the call. */
#include "api/timers/timers.h"

#include "api/core/scatter.h"
#include "api/json/members.h"
#include "api/json/names.h"
#include "base/json.h"
#include "base/json_write.h"

#include <stdio.h>
#include <stdlib.h>

/* Fields of the body. */
struct ask {
    struct bytes watch; /* raw JSON; data is NULL if the field is missing */
    enum command_kind each;
};

/* Memory of a scatter with many events: replies by partition, each in the order of the events,
 * and after them the texts. */
struct many {
    size_t event_count;
    char *texts;
    size_t texts_used;
    struct command_event events[];
};

static bool watch_wrong(struct call *call, enum error_code code, const char *pointer,
                        const char *detail)
{
    struct problem problem;

    problem_set(&problem, code, pointer, "%s", detail);
    call_answer_problem(call, &problem);
    return false;
}

/* ---- the body ---- */

/* Reads {"watch": [...], "fire": true}; the body is optional. Returns false if answered. */
static bool watch_read_ask(struct call *call, struct ask *ret_ask)
{
    static const char *const names[] = {"watch", "fire"};

    *ret_ask = (struct ask){.each = COMMAND_CANCEL};
    if (call->body.size == 0)
        return true;
    struct bytes values[2];
    struct problem problem;
    enum error_code code = members_read(buffer_bytes(&call->body), names, 2, values, &problem);
    bool is_fire = !code && bytes_equal(values[1], BYTES("true"));
    if (!code && values[1].data && !is_fire && !bytes_equal(values[1], BYTES("false")))
        code = problem_set(&problem, ERROR_INVALID, "#/fire", "%s", "It must be true or false");
    if (code) {
        call_answer_problem(call, &problem);
        return false;
    }
    ret_ask->watch = values[0];
    ret_ask->each = is_fire ? COMMAND_FIRE : COMMAND_CANCEL;
    return true;
}

/* ---- one ---- */

void watch_complete_begin(struct call *call)
{
    if (http_request_content_length(call->http) != 0)
        call_begin_json(call);
}

static void watch_append_completed(struct buffer *out, enum command_kind each,
                                   struct command_completed completed)
{
    json_put_number(out, each == COMMAND_FIRE ? "fired" : "cancelled", completed.changed);
    json_put_number(out, "already_firing", completed.firing);
}

static void watch_add(struct command_completed *sum, struct command_completed completed)
{
    sum->changed += completed.changed;
    sum->firing += completed.firing;
}

static void watch_complete_finish(struct scatter *scatter)
{
    struct command_completed sum = {0, 0};
    enum error_code failure = scatter_failure(scatter);

    if (failure) {
        call_answer_error(scatter->call, failure, "Some may be complete: ask again");
        return;
    }
    for (size_t i = 0; i < scatter->count; i++)
        watch_add(&sum, scatter->parts[i].node.command.completed);
    struct buffer body;
    buffer_init(&body);
    buffer_append_text(&body, "{");
    watch_append_completed(&body, scatter->parts[0].node.command.each, sum);
    buffer_append_text(&body, "}");
    call_answer_json(scatter->call, 200, &body);
}

void watch_complete(struct call *call)
{
    const uint16_t count = node_partition_count(call->api->options.node);
    struct ask ask;

    if (!watch_read_ask(call, &ask))
        return;
    if (ask.watch.data) {
        watch_wrong(call, ERROR_INVALID, "#/watch", "The event is in the path");
        return;
    }
    struct error error;
    if (name_check(call->parameter, &error)) {
        watch_wrong(call, ERROR_INVALID, "", error.text);
        return;
    }
    struct scatter *scatter = scatter_create(call, count);
    if (!scatter)
        return;
    scatter->finish = watch_complete_finish;
    for (uint16_t i = 0; i < count; i++)
        scatter->parts[i].node.command = (struct command){
            .kind = COMMAND_COMPLETE, .partition = i, .name = call->parameter, .each = ask.each};
    scatter_submit(scatter);
}

/* ---- many ---- */

/* Returns the result of one event in all partitions. */
static enum error_code watch_sum_up(const struct scatter *scatter, const struct many *many,
                                    size_t index, struct command_completed *ret_sum)
{
    *ret_sum = (struct command_completed){0, 0};
    enum error_code failure = ERROR_NONE;
    for (size_t i = 0; i < scatter->count; i++) {
        const struct command_event *event = &many->events[i * many->event_count + index];

        watch_add(ret_sum, event->completed);
        if (event->error)
            failure = event->error;
    }
    return failure;
}

static void many_finish(struct scatter *scatter)
{
    const struct many *many = scatter->room;
    const enum command_kind each = scatter->parts[0].node.command.each;
    enum error_code failure = scatter_failure(scatter);
    struct command_completed sum = {0, 0};

    if (failure) {
        call_answer_error(scatter->call, failure, "Some may be complete: ask again");
        return;
    }
    struct buffer body;
    buffer_init(&body);
    struct buffer results;
    buffer_init(&results);
    size_t failed = 0;
    for (size_t i = 0; i < many->event_count; i++) {
        struct command_completed one;
        failure = watch_sum_up(scatter, many, i, &one);
        watch_add(&sum, one);
        json_open(&results, NULL, '{');
        if (failure) {
            failed++;
            problem_put_error(&results, failure);
        } else {
            watch_append_completed(&results, each, one);
        }
        json_close(&results, '}');
    }
    json_open(&body, NULL, '{');
    watch_append_completed(&body, each, sum);
    json_put_number(&body, "failed", failed);
    json_open(&body, "results", '[');
    buffer_append_bytes(&body, buffer_bytes(&results));
    json_close(&body, ']');
    json_close(&body, '}');
    body.failed |= results.failed;
    buffer_deinit(&results);
    call_answer_json(scatter->call, 200, &body);
}

/* Counts the events. Returns false if answered. */
static bool watch_count_events(struct call *call, struct bytes watch, size_t *ret_count)
{
    if (!watch.data)
        return watch_wrong(call, ERROR_INVALID, "#", "The field `watch` is missing");
    struct problem problem;
    if (!members_count_strings(watch, "#/watch", 1, WATCH_EVENTS_MAX, ret_count, &problem))
        return true;
    call_answer_problem(call, &problem);
    return false;
}

/* Decodes the events into the first partition's answers. Returns false if answered. */
static bool watch_read_events(struct call *call, struct bytes watch, struct many *many)
{
    struct json_reader reader;

    json_reader_init(&reader, watch);
    (void)json_enter_array(&reader);
    for (size_t i = 0; i < many->event_count; i++) {
        struct bytes *name = &many->events[i].name;

        (void)json_next_element(&reader);
        struct json_string string;
        (void)json_read_string(&reader, &string);
        name->data = many->texts + many->texts_used;
        (void)json_string_decode(&string, many->texts + many->texts_used, string.raw.size,
                                 &name->size);
        many->texts_used += name->size;
        struct error error;
        if (name_check(*name, &error)) {
            char pointer[32];

            snprintf(pointer, sizeof(pointer), "#/watch/%zu", i);
            return watch_wrong(call, ERROR_INVALID, pointer, error.text);
        }
    }
    return true;
}

/* Allocates replies and texts, and gives them to the scatter. NULL if answered. */
static struct many *many_create(struct call *call, struct scatter *scatter, size_t event_count)
{
    const size_t answer_count = event_count * scatter->count;
    struct many *many;

    scatter->room = many = calloc(1, sizeof(*many) + answer_count * sizeof(many->events[0]) +
                                         call->body.size); /* no decoded text is longer */
    if (!many) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return NULL;
    }
    many->event_count = event_count;
    many->texts = (char *)&many->events[answer_count];
    return many;
}

void watch_complete_many(struct call *call)
{
    struct ask ask;
    size_t count;

    if (!watch_read_ask(call, &ask) || !watch_count_events(call, ask.watch, &count))
        return;
    struct scatter *scatter = scatter_create(call, node_partition_count(call->api->options.node));
    if (!scatter)
        return;
    struct many *many = many_create(call, scatter, count);
    if (!many || !watch_read_events(call, ask.watch, many))
        return;
    scatter->finish = many_finish;
    for (size_t i = 0; i < scatter->count; i++) {
        struct command_event *events = &many->events[i * count];

        for (size_t j = 0; j < count; j++)
            events[j].name = many->events[j].name;
        scatter->parts[i].node.command = (struct command){.kind = COMMAND_COMPLETE,
                                                          .partition = (uint16_t)i,
                                                          .events = events,
                                                          .event_count = count,
                                                          .each = ask.each};
    }
    scatter_submit(scatter);
}
