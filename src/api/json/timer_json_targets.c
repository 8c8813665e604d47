/*
 * timer_json_targets.c - reads and writes `targets`: those of a timer that has several.
 *
 * A request has them as strings. An answer has an object for each, with how it stands; a timer that
 * is restored is read in that form. A part that was not over is then made again.
 */
#include "api/json/timer_json_parse.h"

#include "api/json/strict.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "timer/fanout.h"

#include <stdio.h>

/* ---- reading ---- */

/* Reads a target, and adds it to the scratch. */
static enum error_code targets_read_one(struct timer_parse *parse, const char *pointer)
{
    struct bytes text;
    struct target target;
    const size_t before = parse->scratch.size;
    enum error_code code = timer_parse_target_at(parse, pointer, &text, &target);

    if (code)
        return code;
    if (parse->scratch.size > before)
        parse->scratch.size = before; /* an escaped text, which moves by no byte */
    return timer_parse_keep(parse, text, '\n');
}

/* Reads an error into its room: the scratch has nothing but the targets. */
static enum error_code targets_read_error(struct timer_parse *parse, size_t i)
{
    char room[TIMER_JSON_NAME_ROOM];
    struct bytes text;
    enum error_code code = timer_parse_string_into(parse, "#/targets", room, &text);

    if (!code && text.size > FANOUT_ERROR_SIZE_MAX)
        code = timer_parse_invalid(parse, "#/targets", "An error may have at most %d bytes",
                                   FANOUT_ERROR_SIZE_MAX);
    if (code || !text.size)
        return code;
    char *kept = parse->restored->errors[i];
    memcpy(kept, text.data, text.size);
    parse->restored->fanout.parts[i].last_error = (struct bytes){kept, text.size};
    return ERROR_NONE;
}

/* Reads a member of a target as an answer shows it. */
static enum error_code targets_read_member(struct timer_parse *parse, struct bytes name, size_t i,
                                           bool *has_target)
{
    struct fanout_part *part = &parse->restored->fanout.parts[i];
    char room[TIMER_JSON_NAME_ROOM];
    struct bytes text;
    enum error_code code;
    uint64_t number;

    if (bytes_equal(name, BYTES("target")) && !*has_target) {
        *has_target = true;
        return targets_read_one(parse, "#/targets");
    }
    if (bytes_equal(name, BYTES("due")))
        return timer_parse_wall(parse, "#/targets", &parse->restored->fanout.due);
    if (bytes_equal(name, BYTES("attempts"))) {
        code = strict_integer(parse, "#/targets", 0, UINT8_MAX, &number);
        part->attempts = code ? 0 : (uint32_t)number;
        return code;
    }
    if (bytes_equal(name, BYTES("id")))
        return timer_parse_string_into(parse, "#/targets", room, &text);
    if (bytes_equal(name, BYTES("last_error")))
        return targets_read_error(parse, i);
    if (!bytes_equal(name, BYTES("state")))
        return timer_parse_invalid(parse, "#/targets", "A target has another field");
    code = timer_parse_string_into(parse, "#/targets", room, &text);
    if (!code && !fanout_state_find(text, &part->state))
        code = timer_parse_invalid(parse, "#/targets", "A target has another `state`");
    return code;
}

/* Reads a target as an answer shows it. */
static enum error_code targets_read_shown(struct timer_parse *parse, size_t i)
{
    enum error_code code = timer_parse_enter_object(parse, "#/targets");
    struct json_string name;
    bool has_target = false;

    while (!code && json_next_member(&parse->reader, &name)) {
        char local[32];
        code = targets_read_member(parse, timer_member_name(&name, local, sizeof(local)), i,
                                   &has_target);
    }
    if (code || json_error(&parse->reader))
        return code ? code : timer_parse_not_json(parse);
    struct fanout_part *part = &parse->restored->fanout.parts[i];
    if (part->state == FANOUT_UNMADE || part->state == FANOUT_OPEN)
        part->attempts = 0; /* its part is made again, and begins anew */
    return has_target ? ERROR_NONE
                      : timer_parse_invalid(parse, "#/targets", "A target lacks `target`");
}

static enum error_code targets_read_element(struct timer_parse *parse, size_t i)
{
    char pointer[32];

    snprintf(pointer, sizeof(pointer), "#/targets/%zu", i);
    if (i == FANOUT_PARTS_MAX)
        return timer_parse_invalid(parse, "#/targets", "There may be at most %d", FANOUT_PARTS_MAX);
    if (!parse->restored || json_peek(&parse->reader) != JSON_OBJECT)
        return targets_read_one(parse, pointer);
    parse->restored->fanout.count = i + 1;
    return targets_read_shown(parse, i);
}

enum error_code timer_parse_targets(struct timer_parse *parse)
{
    struct json_reader *reader = &parse->reader;
    enum json_type type = json_peek(reader);
    const size_t start = parse->scratch.size;
    size_t count = 0;

    if (type != JSON_ARRAY && type != JSON_NONE)
        return timer_parse_invalid(parse, "#/targets", "It must be an array of strings");
    if (type == JSON_NONE || !json_enter_array(reader))
        return timer_parse_not_json(parse);
    for (; json_next_element(reader); count++) {
        enum error_code code = targets_read_element(parse, count);

        if (code)
            return code;
    }
    if (json_error(reader))
        return timer_parse_not_json(parse);
    if (count == 0)
        return timer_parse_invalid(parse, "#/targets", "A timer needs a target");
    struct bytes targets = timer_parse_kept(parse, start);
    parse->texts.targets = targets;
    fanout_next_target(&targets, &parse->texts.target);
    return target_parse(parse->texts.target, &parse->target, NULL);
}

/* ---- writing ---- */

void timer_show_targets(const struct timer *timer, struct buffer *out)
{
    struct fanout fanout;

    if (!fanout_read(timer, &fanout))
        return;
    json_open(out, "targets", '[');
    for (size_t i = 0; i < fanout.count; i++) {
        const struct fanout_part *part = &fanout.parts[i];

        json_open(out, NULL, '{');
        json_put_string(out, "target", part->target);
        const bool is_cancelled = part->state == FANOUT_UNMADE && timer->state == TIMER_CANCELLED;
        json_put_text(out, "state",
                      fanout_state_text(is_cancelled ? FANOUT_CANCELLED : part->state));
        if (fanout.due.ms)
            rfc3339_put(out, "due", fanout.due);
        if (part->has_id)
            timer_id_put(out, "id", &part->id);
        if (part->state != FANOUT_UNMADE && part->state != FANOUT_OPEN)
            json_put_number(out, "attempts", part->attempts);
        json_put_some(out, "last_error", part->last_error);
        json_close(out, '}');
    }
    json_close(out, ']');
}

void timer_show_part_of(const struct timer *timer, struct buffer *out)
{
    struct timer_id parent;

    if (fanout_is_part(timer, &parent))
        timer_id_put(out, "part_of", &parent);
}
