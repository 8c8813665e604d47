/*
 * timer_json_restore.c - reads a timer as the API shows it, to make it again as it was: due what is
 * due, in the phase of its schedule, with its attempts, its pause, its version and its runs.
 *
 * A timer that is retried, and does not say when, is tried at once.
 */
#include "api/json/timer_json_parse.h"

#include "api/json/names.h"
#include "api/json/strict.h"
#include "timer/fanout.h"
#include "timer/runs.h"

#include <stdio.h>

#define EVERY_MS_MIN 10
#define REQUEST_SIZE (NAME_FINGERPRINT_SIZE + 8 + TIMER_ID_TEXT_SIZE)

struct restore_reading {
    struct timer_parse parse;
    uint64_t seen; /* bits of enum timer_field: those that only the server sets */
    struct wall due, created, since, until;
    struct wall next_attempt; /* {0} for now */
    uint64_t version, attempts;
    enum timer_state state;
    struct timer_restored_targets
        targets; /* how its targets stand; all zero if there is one target */
    char request[REQUEST_SIZE];
    char runs[2][RUNS_BYTES_MAX];
};

#define SEEN(reading, field) ((reading)->seen & TIMER_FIELD_BIT(field))

static enum error_code restore_read_id(struct restore_reading *reading, struct bytes *ret_text)
{
    struct timer_id id;
    enum error_code code = timer_parse_string(&reading->parse, "#/id", ret_text);

    if (!code && timer_id_parse(*ret_text, &id))
        code = timer_parse_invalid(&reading->parse, "#/id", "It is not the id of a timer");
    return code;
}

/* Makes a name of the id of a timer without a key, so that it is not created twice. */
static enum error_code restore_take_id(struct restore_reading *reading)
{
    struct bytes id;
    enum error_code code = restore_read_id(reading, &id);

    if (code)
        return code;
    const int size = snprintf(reading->request, sizeof(reading->request), "%016llximport-%.*s",
                              (unsigned long long)bytes_hash(0, id), (int)id.size, id.data);
    reading->parse.texts.request = (struct bytes){reading->request, (size_t)size};
    return ERROR_NONE;
}

/* A delivery that has begun at the other daemon is begun again. */
static enum error_code restore_read_state(struct restore_reading *reading)
{
    struct bytes text;
    enum error_code code = timer_parse_string(&reading->parse, "#/state", &text);

    for (enum timer_state state = TIMER_SCHEDULED; !code && state <= TIMER_PAUSED; state++)
        if (!timer_is_final(state) && bytes_equal(text, bytes_of(timer_state_text(state)))) {
            reading->state = state;
            return ERROR_NONE;
        }
    return code ? code
                : timer_parse_invalid(&reading->parse, "#/state",
                                      "It must be the state of a timer that lives");
}

/* Reads a text with the size limit of a note. */
static enum error_code restore_read_note(struct timer_parse *parse, const char *pointer,
                                         struct bytes *ret_text)
{
    enum error_code code = timer_parse_string(parse, pointer, ret_text);

    if (!code && ret_text->size > TIMER_NOTE_SIZE_MAX)
        code = timer_parse_invalid(parse, pointer, "It may have at most %d bytes",
                                   TIMER_NOTE_SIZE_MAX);
    return code;
}

static enum error_code restore_read_schedule(struct restore_reading *reading)
{
    struct timer_parse *parse = &reading->parse;
    struct bytes text;

    if (json_peek(&parse->reader) == JSON_NONE || !json_skip(&parse->reader, &text))
        return timer_parse_not_json(parse);
    if (schedule_read(text, &parse->schedule, NULL) ||
        (parse->schedule.every_ms && parse->schedule.every_ms < EVERY_MS_MIN))
        return timer_parse_invalid(parse, "#/schedule", "It is not the schedule of a timer");
    return ERROR_NONE;
}

static enum error_code restore_read_debounce(struct restore_reading *reading)
{
    struct timer_parse *parse = &reading->parse;
    struct bytes text;

    if (json_peek(&parse->reader) == JSON_NONE || !json_skip(&parse->reader, &text))
        return timer_parse_not_json(parse);
    if (debounce_read(text, &parse->debounce))
        return timer_parse_invalid(parse, "#/debounce", "It is not the debounce of a timer");
    parse->texts.debounce = debounce_write(&parse->debounce, parse->debounced);
    return ERROR_NONE;
}

/* ---- members of objects ---- */

static enum error_code restore_read_pause(struct restore_reading *reading, struct bytes name)
{
    struct timer_parse *parse = &reading->parse;

    if (bytes_equal(name, BYTES("since")))
        return timer_parse_wall(parse, "#/paused/since", &reading->since);
    if (bytes_equal(name, BYTES("until")))
        return timer_parse_wall(parse, "#/paused/until", &reading->until);
    if (!bytes_equal(name, BYTES("note")))
        return timer_parse_invalid(parse, "#/paused", "It has `since`, `until` and `note`");
    return restore_read_note(parse, "#/paused/note", &parse->texts.note);
}

static enum error_code restore_read_paused(struct restore_reading *reading)
{
    struct timer_parse *parse = &reading->parse;
    enum error_code code = timer_parse_enter_object(parse, "#/paused");
    struct json_string name;

    while (!code && json_next_member(&parse->reader, &name)) {
        char local[32];
        code = restore_read_pause(reading, timer_member_name(&name, local, sizeof(local)));
    }
    return code ? code : json_error(&parse->reader) ? timer_parse_not_json(parse) : ERROR_NONE;
}

static enum error_code restore_read_outcome(struct timer_parse *parse,
                                            enum run_outcome *ret_outcome)
{
    struct bytes text;
    enum error_code code = timer_parse_string(parse, "#/runs", &text);

    for (enum run_outcome outcome = 0; !code && outcome < RUN_OUTCOME_COUNT; outcome++)
        if (bytes_equal(text, bytes_of(run_outcome_text(outcome)))) {
            *ret_outcome = outcome;
            return ERROR_NONE;
        }
    return code ? code : timer_parse_invalid(parse, "#/runs", "A run has another `outcome`");
}

static enum error_code restore_read_run_field(struct timer_parse *parse, struct bytes name,
                                              struct run *run)
{
    uint64_t number = 0;
    enum error_code code;

    if (bytes_equal(name, BYTES("planned")))
        return timer_parse_wall(parse, "#/runs", &run->planned);
    if (bytes_equal(name, BYTES("started")))
        return timer_parse_wall(parse, "#/runs", &run->started);
    if (bytes_equal(name, BYTES("until")))
        return timer_parse_wall(parse, "#/runs", &run->until);
    if (bytes_equal(name, BYTES("outcome")))
        return restore_read_outcome(parse, &run->outcome);
    if (bytes_equal(name, BYTES("error")) || bytes_equal(name, BYTES("timer")))
        return timer_parse_string(parse, "#/runs", &run->error);
    if (bytes_equal(name, BYTES("duration_ms"))) {
        code = strict_integer(parse, "#/runs", 0, UINT32_MAX, &number);
        run->duration_ms = (uint32_t)number;
    } else if (bytes_equal(name, BYTES("count"))) {
        code = strict_integer(parse, "#/runs", 1, UINT32_MAX, &number);
        run->count = (uint32_t)number;
    } else if (bytes_equal(name, BYTES("attempts"))) {
        code = strict_integer(parse, "#/runs", 0, UINT8_MAX, &number);
        run->attempts = (uint8_t)number;
    } else if (bytes_equal(name, BYTES("status"))) {
        code = strict_integer(parse, "#/runs", 0, UINT16_MAX, &number);
        run->status = (uint16_t)number;
    } else {
        code = timer_parse_invalid(parse, "#/runs", "A run has another field");
    }
    return code;
}

static enum error_code restore_read_run(struct timer_parse *parse, struct run *run)
{
    enum error_code code = timer_parse_enter_object(parse, "#/runs");
    struct json_string name;
    bool has_planned = false, has_until = false;

    *run = (struct run){.outcome = RUN_DONE};
    while (!code && json_next_member(&parse->reader, &name)) {
        char local[32];
        const struct bytes text = timer_member_name(&name, local, sizeof(local));

        has_planned = has_planned || bytes_equal(text, BYTES("planned"));
        has_until = has_until || bytes_equal(text, BYTES("until"));
        code = restore_read_run_field(parse, text, run);
    }
    if (code || json_error(&parse->reader))
        return code ? code : timer_parse_not_json(parse);
    if (!has_planned)
        return timer_parse_invalid(parse, "#/runs", "A run lacks `planned`");
    if (!run->started.ms)
        run->duration_ms = 0; /* a run that did not begin took no time, and none is shown */
    if (run->outcome == RUN_SKIPPED && (!has_until || !run->count))
        return timer_parse_invalid(parse, "#/runs", "A skipped run lacks `count` or `until`");
    return ERROR_NONE;
}

/* Reads the array, which begins with the newest run, in reverse, because runs are added oldest
 * first. */
static enum error_code restore_read_runs(struct restore_reading *reading)
{
    struct timer_parse *parse = &reading->parse;
    struct run runs[RUNS_MAX];
    size_t count = 0;
    enum error_code code = ERROR_NONE;

    if (json_peek(&parse->reader) != JSON_ARRAY || !json_enter_array(&parse->reader))
        return timer_parse_invalid(parse, "#/runs", "It must be an array");
    for (; !code && json_next_element(&parse->reader); count++)
        code = count < RUNS_MAX
                   ? restore_read_run(parse, &runs[count])
                   : timer_parse_invalid(parse, "#/runs", "There may be at most %d", RUNS_MAX);
    if (code || json_error(&parse->reader))
        return code ? code : timer_parse_not_json(parse);
    for (size_t i = count; i-- > 0;)
        parse->texts.runs = runs_add(parse->texts.runs, &runs[i], reading->runs[i % 2]);
    return ERROR_NONE;
}

/* ---- all of it ---- */

static enum error_code restore_take(struct restore_reading *reading, enum timer_field field)
{
    struct timer_parse *parse = &reading->parse;

    switch (field) {
    case FIELD_id:
        return restore_take_id(reading);
    case FIELD_due:
        return timer_parse_wall(parse, "#/due", &reading->due);
    case FIELD_state:
        return restore_read_state(reading);
    case FIELD_version:
        return strict_integer(parse, "#/version", 1, UINT32_MAX / 2, &reading->version);
    case FIELD_attempts:
        return strict_integer(parse, "#/attempts", 0, UINT8_MAX, &reading->attempts);
    case FIELD_created:
        return timer_parse_wall(parse, "#/created", &reading->created);
    case FIELD_next_attempt:
        return timer_parse_wall(parse, "#/next_attempt", &reading->next_attempt);
    case FIELD_last_error:
        return restore_read_note(&reading->parse, "#/last_error", &reading->parse.texts.last_error);
    case FIELD_debounce:
        return restore_read_debounce(reading);
    case FIELD_schedule:
        return restore_read_schedule(reading);
    case FIELD_part_of:
        return timer_parse_invalid(parse, "#/part_of",
                                   "The timer that it belongs to makes it again");
    case FIELD_report_of:
        return restore_read_id(reading, &parse->texts.report_of);
    case FIELD_firing_of:
        return restore_read_id(reading, &parse->texts.firing_of);
    case FIELD_paused:
        return restore_read_paused(reading);
    default:
        return restore_read_runs(reading);
    }
}

static enum error_code restore_read_field(void *context, struct bytes name)
{
    struct restore_reading *reading = context;
    const enum timer_field field = timer_field_find(name);

    if (field == FIELD_COUNT || field == FIELD_ended ||
        (timer_fields[field].parse && field != FIELD_debounce))
        return timer_parse_read_field(&reading->parse, name);
    if (reading->seen & UINT64_C(1) << field)
        return strict_twice(&reading->parse, "#", name);
    reading->seen |= UINT64_C(1) << field;
    return restore_take(reading, field);
}

/* Marks the due time, if the schedule plans it, so that it follows later changes of rules. */
static void restore_mark(struct restore_reading *reading, const struct schedule *schedule)
{
    struct timer_parse *parse = &reading->parse;

    if (schedule->recurs && reading->due.ms && reading->due.ms <= WALL_MS_MAX &&
        schedule_plans(schedule, reading->due))
        parse->texts.zoned = schedule_mark(schedule, reading->due, parse->zoned);
}

/* Checks required fields and their combinations. */
static enum error_code restore_check(struct restore_reading *reading)
{
    struct timer_parse *parse = &reading->parse;
    const uint64_t needed = TIMER_FIELD_BIT(due) | TIMER_FIELD_BIT(state) |
                            TIMER_FIELD_BIT(version) | TIMER_FIELD_BIT(attempts) |
                            TIMER_FIELD_BIT(created);
    const uint64_t times = TIMER_FIELD_BIT(after) | TIMER_FIELD_BIT(at) | TIMER_FIELDS_SCHEDULE;
    struct schedule schedule;
    struct error error;

    if ((reading->seen & needed) != needed ||
        !(parse->seen & (TIMER_FIELD_BIT(target) | TIMER_FIELD_BIT(targets))))
        return timer_parse_invalid(parse, "#",
                                   "`target` or `targets`, `due`, `state`, `version`, `attempts` "
                                   "and `created` are needed");
    if (parse->seen & times)
        return timer_parse_invalid(parse, "#",
                                   "`due` and `schedule` take the place of other times");
    if (!parse->texts.key.size && !SEEN(reading, id))
        return timer_parse_invalid(parse, "#", "A `key` or an `id` is needed");
    if ((reading->state == TIMER_PAUSED) != !!SEEN(reading, paused))
        return timer_parse_invalid(parse, "#/paused", "It goes with the state `paused`");
    if (SEEN(reading, next_attempt) && reading->state != TIMER_RETRYING)
        return timer_parse_invalid(parse, "#/next_attempt", "It goes with the state `retrying`");
    switch (schedule_make(&parse->schedule, reading->created, parse->limits->tenant,
                          &parse->limits->zones, &schedule, &error)) {
    case ERROR_NONE:
        restore_mark(reading, &schedule);
        return ERROR_NONE;
    case ERROR_NOT_FOUND: /* it waits until the machine has its zone and calendars */
        return ERROR_NONE;
    case ERROR_INVALID:
        return timer_parse_invalid_error(parse, "#/schedule", &error);
    default:
        return problem_set(parse->problem, error.code, "", "%s", error.text);
    }
}

/* True if parts of the timer were made at the other daemon, and one of them was not over. */
static bool restore_has_begun(const struct fanout *parts)
{
    return parts->due.ms > 0 &&
           fanout_count(parts, FANOUT_OPEN) + fanout_count(parts, FANOUT_UNMADE) > 0;
}

/* Writes how the targets stand. Parts that were not over are to be made again. */
static struct bytes restore_parts(struct fanout *parts, char room[FANOUT_TEXT_SIZE_MAX])
{
    for (size_t i = 0; i < parts->count; i++)
        if (parts->parts[i].state == FANOUT_OPEN)
            parts->parts[i].state = FANOUT_UNMADE;
    return fanout_write(parts, room);
}

static enum error_code restore_make(struct restore_reading *reading, struct timer **ret_timer)
{
    struct timer *timer;

    char parts[FANOUT_TEXT_SIZE_MAX];

    if (reading->parse.texts.key.size)
        reading->parse.texts.request = (struct bytes){0};
    const bool has_begun = restore_has_begun(&reading->targets.fanout);
    if (has_begun) {
        reading->due = reading->targets.fanout.due;
        reading->parse.texts.parts = restore_parts(&reading->targets.fanout, parts);
    }
    enum error_code code = timer_parse_make(&reading->parse, &timer);
    if (code)
        return code;
    const bool was_tried = has_begun || reading->state == TIMER_RETRYING || reading->attempts > 0;
    timer->due = reading->due;
    timer->created = reading->created;
    timer->version = (uint32_t)reading->version;
    timer->attempts = (uint32_t)reading->attempts;
    timer->state = was_tried ? TIMER_RETRYING : TIMER_SCHEDULED;
    timer->at = reading->next_attempt;
    if (reading->state == TIMER_PAUSED) {
        timer->state = TIMER_PAUSED;
        timer->paused = reading->since;
        timer->at = reading->until;
    }
    *ret_timer = timer;
    return ERROR_NONE;
}

enum error_code timer_json_parse_restore(struct bytes json, const struct timer_json_limits *limits,
                                         struct wall now, struct timer **ret_timer,
                                         struct problem *ret_problem)
{
    struct restore_reading reading = {.until = STORAGE_PAUSED_AT, .since = now};
    char local[TIMER_JSON_SCRATCH_SIZE];

    timer_parse_init(&reading.parse, json, limits, now, ret_problem, local);
    reading.parse.restored = &reading.targets;
    enum error_code code = timer_parse_body(&reading.parse, restore_read_field, &reading);
    if (!code)
        code = timer_parse_check_together(&reading.parse);
    if (!code)
        code = restore_check(&reading);
    if (!code)
        code = timer_parse_check_method(&reading.parse, reading.parse.texts.method,
                                        &reading.parse.texts);
    if (!code)
        code = timer_parse_check_order(&reading.parse, &reading.parse.texts);
    if (!code)
        code = restore_make(&reading, ret_timer);
    return timer_parse_end(&reading.parse, code);
}
