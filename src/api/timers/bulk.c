/* bulk.c - cancels, fires, pauses, resumes, reschedules and touches many timers. Each id and each
 * key gets one command; an event and labels get one command for each partition, because such timers
 * may be in any. The names are decoded into the room of the scatter. */
#include "api/timers/timers.h"

#include "api/json/members.h"
#include "api/json/names.h"
#include "base/json.h"
#include "base/json_write.h"
#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>

/* Fields of the body as raw JSON; data is NULL for a missing field. */
struct selection {
    struct bytes ids, keys, watch, labels;
    struct bytes after, at;
    struct bytes note, until;
};

struct bulk {
    struct call *call;
    struct scatter *scatter;
    size_t part_count;
    char *room; /* as large as the body: a decoded text is never longer */
    size_t room_used;
    enum command_kind each;
    struct timer *patch; /* of PATCH, TOUCH and PAUSE: each part gets a copy */
};

static bool bulk_refuse(struct call *call, const char *pointer, const char *detail)
{
    struct problem problem;

    problem_set(&problem, ERROR_INVALID, pointer, "%s", detail);
    call_answer_problem(call, &problem);
    return false;
}

/* ---- reading ---- */

/* False: answered. */
static bool bulk_read_selection(struct call *call, struct selection *ret_selection)
{
    static const char *const names[] = {"ids",   "keys", "watch", "labels",
                                        "after", "at",   "note",  "until"};
    struct bytes values[8];
    struct problem problem;

    if (members_read(buffer_bytes(&call->body), names, 8, values, &problem)) {
        call_answer_problem(call, &problem);
        return false;
    }
    *ret_selection = (struct selection){values[0], values[1], values[2], values[3],
                                        values[4], values[5], values[6], values[7]};
    return true;
}

/* A name that no timer can have is answered like one that no timer has. */
static bool bulk_count_strings(struct call *call, const char *pointer, struct bytes array,
                               size_t *ret_count)
{
    *ret_count = 0;
    struct problem problem;
    if (!array.data ||
        !members_count_strings(array, pointer, 0, BULK_NAMES_MAX, ret_count, &problem))
        return true;
    call_answer_problem(call, &problem);
    return false;
}

static struct bytes bulk_keep(struct bulk *bulk, const struct json_string *string)
{
    struct bytes text = {bulk->room + bulk->room_used, 0};

    (void)json_string_decode(string, bulk->room + bulk->room_used, string->raw.size, &text.size);
    bulk->room_used += text.size;
    return text;
}

/* the name or id as the client wrote it, for the answer */

static struct command *bulk_add_part(struct bulk *bulk)
{
    return &bulk->scatter->parts[bulk->part_count++].node.command;
}

/* A name that no timer can have is answered like one that no timer has. */
static void bulk_add_one(struct bulk *bulk, struct bytes text, bool is_id)
{
    const struct node *node = bulk->call->api->options.node;
    struct command *command = bulk_add_part(bulk);

    command->kind = bulk->each;
    struct timer_id id;
    if (is_id && !timer_id_parse(text, &id) && id.partition < node_partition_count(node)) {
        command->id = id;
        command->partition = id.partition;
    } else if (!is_id) {
        command->name = text.size ? text : BYTES("\n");
        command->partition = name_partition(node, text);
    }
    command->labels = text; /* the name or id as the client wrote it, for the answer */
}

static void bulk_add_strings(struct bulk *bulk, struct bytes array, bool are_ids)
{
    if (!array.data)
        return;
    struct json_reader reader;
    json_reader_init(&reader, array);
    (void)json_enter_array(&reader);
    struct json_string string;
    while (json_next_element(&reader) && json_read_string(&reader, &string))
        bulk_add_one(bulk, bulk_keep(bulk, &string), are_ids);
}

static void bulk_add_everywhere(struct bulk *bulk, struct bytes event, struct bytes labels)
{
    const uint16_t count = node_partition_count(bulk->call->api->options.node);

    for (uint16_t i = 0; i < count; i++) {
        struct command *command = bulk_add_part(bulk);

        command->kind = COMMAND_COMPLETE;
        command->partition = i;
        command->name = event;
        command->labels = labels;
        command->each = bulk->each;
    }
}

/* ---- the answer ---- */

static void bulk_format_failure(const struct scatter_part *part, struct buffer *out)
{
    const struct command *command = &part->node.command;

    json_open(out, NULL, '{');
    json_put_string(out, command->name.size ? "key" : "id", command->labels);
    problem_put_error(out, part->error);
    json_close(out, '}');
}

static const char *bulk_done_text(const struct command *command)
{
    switch (command->kind == COMMAND_COMPLETE ? command->each : command->kind) {
    case COMMAND_PATCH:
        return "rescheduled";
    case COMMAND_TOUCH:
        return "touched";
    case COMMAND_FIRE:
        return "fired";
    case COMMAND_PAUSE:
        return "paused";
    case COMMAND_RESUME:
        return "resumed";
    default:
        return "cancelled";
    }
}

static void bulk_finish(struct scatter *scatter)
{
    struct buffer body;

    buffer_init(&body);
    struct buffer failures;
    buffer_init(&failures);
    uint64_t changed = 0, firing = 0;
    for (size_t i = 0; i < scatter->count; i++) {
        const struct scatter_part *part = &scatter->parts[i];
        const struct command *command = &part->node.command;

        if (command->kind == COMMAND_COMPLETE) {
            changed += command->completed.changed;
            firing += command->completed.firing;
            if (!part->error)
                continue;
            buffer_deinit(&failures);
            call_answer_error(scatter->call, part->error, "Some may be done: ask again");
            return;
        }
        changed += !part->error;
        if (part->error)
            bulk_format_failure(part, &failures);
    }
    json_open(&body, NULL, '{');
    json_put_number(&body, bulk_done_text(&scatter->parts[0].node.command), changed);
    json_put_number(&body, "already_firing", firing);
    json_open(&body, "failures", '[');
    buffer_append_bytes(&body, buffer_bytes(&failures));
    json_close(&body, ']');
    json_close(&body, '}');
    body.failed |= failures.failed;
    buffer_deinit(&failures);
    call_answer_json(scatter->call, 200, &body);
}

/* ---- the routes ---- */

/* Reads the value of one field, as in a create. NULL if answered. */
static struct timer *bulk_read_value(struct call *call, const char *name, struct bytes value)
{
    const struct timer_json_limits limits = call_timer_limits(call);
    struct buffer json;

    buffer_init(&json);
    json_open(&json, NULL, '{');
    json_put_raw(&json, name, value);
    json_close(&json, '}');
    struct timer *timer = NULL;
    struct problem problem;
    uint32_t fields;
    if (buffer_failed(&json))
        call_answer_error(call, ERROR_NO_MEMORY, "");
    else if (timer_json_parse_values(buffer_bytes(&json), &limits, call_wall_coming(call), &fields,
                                     &timer, &problem))
        call_answer_problem(call, &problem);
    buffer_deinit(&json);
    return timer;
}

/* Reads labels in their stored form, kept in `room`. Returns false if answered. */
static bool bulk_read_labels(struct bulk *bulk, struct bytes value, struct bytes *ret_labels)
{
    struct timer *timer = bulk_read_value(bulk->call, "labels", value);

    if (!timer)
        return false;
    *ret_labels = (struct bytes){bulk->room + bulk->room_used, timer->texts.labels.size};
    if (timer->texts.labels.size)
        memcpy(bulk->room + bulk->room_used, timer->texts.labels.data, timer->texts.labels.size);
    bulk->room_used += timer->texts.labels.size;
    bool is_empty = timer->texts.labels.size <= 2;
    timer_free(timer);
    return !is_empty || bulk_refuse(bulk->call, "#/labels", "It must name a label");
}

static bool bulk_read_event(struct bulk *bulk, struct bytes value, struct bytes *ret_event)
{
    struct json_reader reader;

    json_reader_init(&reader, value);
    if (json_peek(&reader) != JSON_STRING)
        return bulk_refuse(bulk->call, "#/watch", "It must be a string");
    struct json_string string;
    (void)json_read_string(&reader, &string);
    *ret_event = bulk_keep(bulk, &string);
    struct error error;
    return !name_check(*ret_event, &error) || bulk_refuse(bulk->call, "#/watch", error.text);
}

/* Makes the parts. Returns false if answered. */
static bool bulk_select_timers(struct bulk *bulk, const struct selection *selection)
{
    struct call *call = bulk->call;
    const size_t partitions = node_partition_count(call->api->options.node);
    struct bytes event = {0}, labels = {0};
    size_t ids, keys;

    if (!bulk_count_strings(call, "#/ids", selection->ids, &ids) ||
        !bulk_count_strings(call, "#/keys", selection->keys, &keys) ||
        (selection->watch.data && !bulk_read_event(bulk, selection->watch, &event)) ||
        (selection->labels.data && !bulk_read_labels(bulk, selection->labels, &labels)))
        return false;
    size_t count = ids + keys + (event.size ? partitions : 0) + (labels.size ? partitions : 0);
    if (count == 0)
        return bulk_refuse(call, "#", "Say which: `ids`, `keys`, `watch` or `labels`");
    bulk->scatter = scatter_create(call, count);
    if (!bulk->scatter)
        return false;
    bulk_add_strings(bulk, selection->ids, true);
    bulk_add_strings(bulk, selection->keys, false);
    if (event.size)
        bulk_add_everywhere(bulk, event, (struct bytes){0});
    if (labels.size)
        bulk_add_everywhere(bulk, (struct bytes){0}, labels);
    if (!bulk->patch ||
        scatter_give_patch(bulk->scatter, bulk->patch, bulk->each == COMMAND_PAUSE ? 0 : PATCH_DUE))
        return true;
    call_answer_error(call, ERROR_NO_MEMORY, "");
    return false;
}

static void bulk_carry_out(struct call *call, const struct selection *selection,
                           enum command_kind each, struct timer *patch)
{
    struct bulk bulk = {.call = call, .each = each, .patch = patch};

    /* Stored labels are at most as long as their JSON, so the room has the size of the body once
     * more. */
    bulk.room = malloc(2 * call->body.size + 1);
    if (!bulk.room) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
    } else if (!bulk_select_timers(&bulk, selection)) {
        free(bulk.room);
    } else {
        bulk.scatter->room = bulk.room;
        bulk.scatter->finish = bulk_finish;
        scatter_submit(bulk.scatter);
    }
    timer_free(patch);
}

/* Refuses the fields of other calls. Returns false if answered. */
static bool bulk_refuse_time(struct call *call, const struct selection *selection)
{
    return (!selection->after.data || bulk_refuse(call, "#/after", "It is for reschedule")) &&
           (!selection->at.data || bulk_refuse(call, "#/at", "It is for reschedule"));
}

static bool bulk_refuse_pause(struct call *call, const struct selection *selection)
{
    return (!selection->note.data || bulk_refuse(call, "#/note", "It is for pause")) &&
           (!selection->until.data || bulk_refuse(call, "#/until", "It is for pause"));
}

/* Handles a call that takes only the selection. */
static void bulk_change(struct call *call, enum command_kind each)
{
    struct selection selection;

    if (bulk_read_selection(call, &selection) && bulk_refuse_time(call, &selection) &&
        bulk_refuse_pause(call, &selection))
        bulk_carry_out(call, &selection, each, NULL);
}

void bulk_cancel(struct call *call)
{
    bulk_change(call, COMMAND_CANCEL);
}

void bulk_fire(struct call *call)
{
    bulk_change(call, COMMAND_FIRE);
}

void bulk_resume(struct call *call)
{
    bulk_change(call, COMMAND_RESUME);
}

/* NULL: answered. */
static struct timer *bulk_read_pause(struct call *call, const struct selection *selection)
{
    struct buffer json;

    buffer_init(&json);
    json_open(&json, NULL, '{');
    if (selection->note.data)
        json_put_raw(&json, "note", selection->note);
    if (selection->until.data)
        json_put_raw(&json, "until", selection->until);
    json_close(&json, '}');
    struct timer *patch = NULL;
    struct problem problem;
    if (buffer_failed(&json))
        call_answer_error(call, ERROR_NO_MEMORY, "");
    else if (pause_parse(buffer_bytes(&json), call_wall_coming(call), &patch, &problem))
        call_answer_problem(call, &problem);
    buffer_deinit(&json);
    return patch;
}

void bulk_pause(struct call *call)
{
    struct selection selection;

    if (!bulk_read_selection(call, &selection) || !bulk_refuse_time(call, &selection))
        return;
    struct timer *patch = bulk_read_pause(call, &selection);
    if (patch)
        bulk_carry_out(call, &selection, COMMAND_PAUSE, patch);
}

/* Reads the time in the body, exactly one. NULL if answered. */
static struct timer *bulk_read_due(struct call *call, const struct selection *selection)
{
    if (!selection->after.data != !selection->at.data)
        return bulk_read_value(call, selection->after.data ? "after" : "at",
                               selection->after.data ? selection->after : selection->at);
    bulk_refuse(call, "#", "Exactly one of `after` and `at` is needed");
    return NULL;
}

void bulk_reschedule(struct call *call)
{
    struct selection selection;

    if (!bulk_read_selection(call, &selection) || !bulk_refuse_pause(call, &selection))
        return;
    struct timer *patch = bulk_read_due(call, &selection);
    if (patch)
        bulk_carry_out(call, &selection, COMMAND_PATCH, patch);
}

void bulk_touch(struct call *call)
{
    struct selection selection;

    if (!bulk_read_selection(call, &selection) || !bulk_refuse_pause(call, &selection))
        return;
    if (selection.watch.data || selection.labels.data) {
        bulk_refuse(call, selection.watch.data ? "#/watch" : "#/labels",
                    "Say which by `ids` or `keys`");
        return;
    }
    struct timer *patch = bulk_read_due(call, &selection);
    if (patch)
        bulk_carry_out(call, &selection, COMMAND_TOUCH, patch);
}
