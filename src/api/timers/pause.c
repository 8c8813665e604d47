/* pause.c - pauses one timer, by id or by key; reads what a pause says. */
#include "api/timers/timers.h"

#include "api/json/strict.h"
#include "sys/clock.h"

#include <stdlib.h>

/* ---- the body of a pause ---- */

struct pause_reading {
    struct timer_parse parse; /* for its strings and problems */
    struct timer_texts texts;
    struct wall until;
    bool has_note, has_until;
};

static enum error_code pause_read_note(struct pause_reading *reading)
{
    struct timer_parse *parse = &reading->parse;
    enum error_code code = timer_parse_string(parse, "#/note", &reading->texts.note);

    if (!code && reading->texts.note.size > TIMER_NOTE_SIZE_MAX)
        return timer_parse_invalid(parse, "#/note", "It may have at most %d bytes",
                                   TIMER_NOTE_SIZE_MAX);
    return code;
}

static enum error_code pause_read_until(struct pause_reading *reading)
{
    struct timer_parse *parse = &reading->parse;
    enum error_code code = timer_parse_wall(parse, "#/until", &reading->until);

    if (!code && reading->until.ms <= parse->now.ms)
        return timer_parse_invalid(parse, "#/until", "It must lie in the future");
    return code;
}

static enum error_code pause_read_field(void *context, struct bytes name)
{
    static const char *const known[] = {"note", "until"};
    struct pause_reading *reading = context;
    const bool is_note = bytes_equal(name, BYTES("note"));
    bool *has = is_note ? &reading->has_note : &reading->has_until;

    if (!is_note && !bytes_equal(name, BYTES("until")))
        return timer_parse_unknown(&reading->parse, "#", name, known, 2);
    if (timer_parse_is_absent(&reading->parse))
        return timer_parse_skip(&reading->parse);
    if (*has)
        return strict_twice(&reading->parse, "#", name);
    *has = true;
    return is_note ? pause_read_note(reading) : pause_read_until(reading);
}

enum error_code pause_parse(struct bytes json, struct wall now, struct timer **ret_patch,
                            struct problem *ret_problem)
{
    char local[TIMER_JSON_SCRATCH_SIZE];
    struct pause_reading reading = {
        .parse = {.now = now, .problem = ret_problem, .json = json, .local = local},
        .until = STORAGE_PAUSED_AT,
    };

    json_reader_init(&reading.parse.reader, json);
    enum error_code code = timer_parse_body(&reading.parse, pause_read_field, &reading);
    struct timer *patch = code ? NULL : timer_alloc(&reading.texts);
    if (!code && !patch)
        code = problem_set(ret_problem, ERROR_NO_MEMORY, "", "%s", "");
    code = timer_parse_end(&reading.parse, code);
    if (code) {
        timer_free(patch);
        return code;
    }
    patch->at = reading.until;
    *ret_patch = patch;
    return ERROR_NONE;
}

/* ---- the calls ---- */

void pause_begin(struct call *call)
{
    if (http_request_content_length(call->http) != 0 &&
        (call_refuses_type(call, "application/json", NULL) || call_refuses_body(call)))
        return;
    timers_read_if_match(call);
}

/* Submits a pause of the timer that `address` finds. The body is optional. */
static void pause_submit(struct call *call, bool (*address)(struct call *, enum command_kind))
{
    const struct bytes body = call->body.size ? buffer_bytes(&call->body) : BYTES("{}");
    struct timer *patch;
    struct problem problem;

    if (pause_parse(body, call_wall_coming(call), &patch, &problem)) {
        call_answer_problem(call, &problem);
        return;
    }
    call->node.command.patch = patch;
    if (!address(call, COMMAND_PAUSE) || call_submit(call, timers_done))
        timer_free(patch);
}

void pause_by_id(struct call *call)
{
    pause_submit(call, timers_address);
}

void pause_by_key(struct call *call)
{
    pause_submit(call, keys_address);
}
