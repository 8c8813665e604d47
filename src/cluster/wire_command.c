/* wire_command.c - the head of a message, and commands; see wire.h. */
#include "cluster/wire_private.h"

#include "base/checksum.h"
#include "timer/awaits.h"

#include <assert.h>
#include <stdlib.h>

static const char wire_magic[4] = {'T', 'W', 'M', 1}; /* the last byte is the version */

enum {
    WIRE_HEAD_SIZE = 21, /* magic, cluster, kind, node, count */
    WIRE_COUNT_AT = 17,
    WIRE_SUM_SIZE = 4,
    WIRE_PATCH_FIELDS = 2 * PATCH_ACK_TIMEOUT - 1,
};

/* The order of the kinds is the format. New kinds are appended. */
_Static_assert(COMMAND_CREATE == 0 && COMMAND_PUT == 1 && COMMAND_GET == 2 &&
                   COMMAND_EXPLAIN == 3 && COMMAND_PATCH == 4 && COMMAND_TOUCH == 5 &&
                   COMMAND_CANCEL == 6 && COMMAND_FIRE == 7 && COMMAND_PAUSE == 8 &&
                   COMMAND_RESUME == 9 && COMMAND_REDRIVE == 10 && COMMAND_FORGET == 11 &&
                   COMMAND_COMPLETE == 12 && COMMAND_LIST == 13 && COMMAND_FORECAST == 14 &&
                   COMMAND_SURVEY == 15 && COMMAND_LEASE == 16 && COMMAND_REPORT == 17 &&
                   COMMAND_RELEASE == 18 && COMMAND_ANSWER == 19 && COMMAND_LEDGER == 20,
               "kinds are sent as numbers");
_Static_assert(SURVEY_QUEUES == 0 && SURVEY_TARGETS == 1 && SURVEY_ITEMS == 2 &&
                   SURVEY_WORKERS == 3 && SURVEY_TENANTS == 4 && SURVEY_FAILURES == 5 &&
                   SURVEY_STATS == 6 && SURVEY_LIVE == 7 && SURVEY_DELIVERIES == 8 &&
                   SURVEY_HELD == 9 && SURVEY_FLOWS == 10,
               "kinds of a survey are sent as numbers");
_Static_assert(PATCH_ACK_TIMEOUT == 1 << 13, "fields of a patch are sent as bits");

/* ---- messages ---- */

size_t wire_begin(struct buffer *to, const struct wire_head *head)
{
    const size_t begin = to->size;

    buffer_append(to, wire_magic, sizeof(wire_magic));
    buffer_append_le(to, head->cluster, 8);
    buffer_append_le(to, head->kind, 1);
    buffer_append_le(to, head->node, 4);
    buffer_append_le(to, head->count, 4);
    return begin;
}

void wire_set_count(struct buffer *to, size_t begin, uint32_t count)
{
    if (!buffer_failed(to))
        put_le(to->data + begin + WIRE_COUNT_AT, count, 4);
}

void wire_end(struct buffer *to, size_t begin)
{
    if (!buffer_failed(to))
        buffer_append_le(to, checksum_crc32c(0, to->data + begin, to->size - begin), WIRE_SUM_SIZE);
}

enum error_code wire_open(struct bytes message, struct wire_reader *ret_reader,
                          struct error *ret_error)
{
    const size_t size = message.size;

    if (size < WIRE_HEAD_SIZE + WIRE_SUM_SIZE || size > WIRE_MESSAGE_SIZE_MAX ||
        get_le(message.data + size - WIRE_SUM_SIZE, WIRE_SUM_SIZE) !=
            checksum_crc32c(0, message.data, size - WIRE_SUM_SIZE))
        return error_set(ret_error, ERROR_CORRUPT, "a message of another node is damaged");
    if (memcmp(message.data, wire_magic, sizeof(wire_magic)) != 0)
        return error_set(ret_error, ERROR_CORRUPT,
                         "a message has a form that this version cannot read");
    struct wire_reader reader = {.at_ = message.data + sizeof(wire_magic),
                                 .end_ = message.data + size - WIRE_SUM_SIZE,
                                 .room_ = WIRE_ROOM_MAX};
    reader.head.cluster = wire_take(&reader, 8);
    reader.head.kind = (enum wire_kind)wire_take(&reader, 1);
    reader.head.node = (uint32_t)wire_take(&reader, 4);
    reader.head.count = (uint32_t)wire_take(&reader, 4);
    if (reader.head.kind < WIRE_COMMANDS || reader.head.kind > WIRE_GREETING ||
        reader.head.count > WIRE_COUNT_MAX)
        return error_set(ret_error, ERROR_CORRUPT, "a message of another node contradicts itself");
    *ret_reader = reader;
    return ERROR_NONE;
}

bool wire_is_over(const struct wire_reader *reader)
{
    return !reader->failed_ && reader->at_ == reader->end_;
}

/* ---- commands ---- */

unsigned wire_parts(enum command_kind kind)
{
    const unsigned one = WIRE_PART_ID | WIRE_PART_NAME;

    switch (kind) {
    case COMMAND_CREATE:
        return WIRE_PART_TIMERS | WIRE_PART_PENDING;
    case COMMAND_PUT:
        return WIRE_PART_TIMERS | WIRE_PART_PENDING | WIRE_PART_VERSION;
    case COMMAND_GET:
        return one;
    case COMMAND_EXPLAIN:
        return one;
    case COMMAND_PATCH:
    case COMMAND_TOUCH:
    case COMMAND_PAUSE:
        return one | WIRE_PART_VERSION | WIRE_PART_PATCH;
    case COMMAND_CANCEL:
    case COMMAND_FIRE:
    case COMMAND_RESUME:
    case COMMAND_RELEASE:
        return one | WIRE_PART_VERSION;
    case COMMAND_REDRIVE:
        return one | WIRE_PART_VERSION | WIRE_PART_PENDING | WIRE_PART_NOT_BEFORE | WIRE_PART_PATCH;
    case COMMAND_FORGET:
        return one | WIRE_PART_VERSION;
    case COMMAND_COMPLETE:
        return WIRE_PART_NAME | WIRE_PART_EACH | WIRE_PART_PATCH;
    case COMMAND_LIST:
        return WIRE_PART_SCAN;
    case COMMAND_FORECAST:
        return WIRE_PART_FORECAST;
    case COMMAND_SURVEY:
        return WIRE_PART_SURVEY;
    case COMMAND_LEASE:
    case COMMAND_REPORT:
        return WIRE_PART_WORK;
    case COMMAND_ANSWER:
        return WIRE_PART_ID | WIRE_PART_ANSWER;
    case COMMAND_LEDGER:
        return WIRE_PART_LEDGER;
    case COMMAND_KIND_COUNT:
        break;
    }
    return 0;
}

static void wire_put_patch(struct buffer *to, const struct command *command)
{
    buffer_append_le(to, command->patch != NULL, 1);
    if (!command->patch)
        return;
    buffer_append_le(to, command->patch_fields, 4);
    wire_put_text(to, command->patch->texts.note); /* a row has a note only while it is paused */
    wire_put_timer(to, command->patch);
}

static bool wire_filter_fits(const struct timer_filter *filter)
{
    bool fits = filter->flow.size <= WIRE_TEXT_SIZE_MAX;

#define X(name) fits = fits && filter->name.size <= WIRE_TEXT_SIZE_MAX;
    TIMER_FILTER_TEXT_LIST(X)
#undef X
    for (size_t i = 0; i < filter->label_count; i++)
        fits = fits && filter->labels[i].key.size <= WIRE_TEXT_SIZE_MAX &&
               filter->labels[i].value.size <= WIRE_TEXT_SIZE_MAX;
    return fits;
}

static bool wire_texts_fit(const struct command *command)
{
    bool fits = command->name.size <= WIRE_TEXT_SIZE_MAX &&
                command->labels.size <= WIRE_TEXT_SIZE_MAX &&
                command->tenant.size <= WIRE_TEXT_SIZE_MAX &&
                command->answer.reason.size <= WIRE_TEXT_SIZE_MAX &&
                command->timer_count <= WIRE_COUNT_MAX && command->event_count <= WIRE_COUNT_MAX;

    for (size_t i = 0; fits && i < command->event_count; i++)
        fits = command->events[i].name.size <= WIRE_TEXT_SIZE_MAX;
    if (command->kind == COMMAND_SURVEY)
        fits = fits && command->survey->queue.size <= WIRE_TEXT_SIZE_MAX;
    if (command->kind == COMMAND_FORECAST)
        fits = fits && command->forecast->count <= WIRE_COUNT_MAX;
    if (command->kind == COMMAND_LIST && command->scan.filter)
        fits = fits && wire_filter_fits(command->scan.filter);
    if (command_is_work(command->kind))
        fits = fits && wire_work_fits(command->work);
    return fits;
}

static void wire_walk_each(struct wire_walk *walk, struct command *command)
{
    WIRE(walk, command->each, 1);
    wire_walk_text(walk, &command->labels, WIRE_TEXT_SIZE_MAX);
    WIRE_BELOW(walk, command->event_count, 4, WIRE_COUNT_MAX + 1);
    if (walk->from)
        command->events =
            wire_take_room(walk->from, command->event_count, sizeof(*command->events));
    for (size_t i = 0; command->events && i < command->event_count; i++)
        wire_walk_text(walk, &command->events[i].name, WIRE_TEXT_SIZE_MAX);
}

/* True if the engine can do what a COMPLETE asks for. */
static bool wire_each_fits(const struct command *command)
{
    switch (command->each) {
    case COMMAND_CANCEL:
    case COMMAND_FIRE:
        return !command->event_count || (!command->name.size && !command->labels.size);
    case COMMAND_PATCH:
    case COMMAND_PAUSE:
    case COMMAND_RESUME:
        return !command->event_count;
    default:
        return false;
    }
}

/* True if the command has a patch exactly when the engine needs one. */
static bool wire_patch_fits(const struct command *command)
{
    const bool is_complete = command->kind == COMMAND_COMPLETE;
    const struct timer *patch = command->patch;

    switch (is_complete ? command->each : command->kind) {
    case COMMAND_PATCH:
        return patch && command->patch_fields && command->patch_fields <= WIRE_PATCH_FIELDS;
    case COMMAND_TOUCH:
        return patch && command->patch_fields == PATCH_DUE;
    case COMMAND_PAUSE:
        return patch && !command->patch_fields && patch->at.ms > 0 &&
               patch->at.ms <= STORAGE_PAUSED_AT.ms;
    case COMMAND_REDRIVE:
        return !patch || command->patch_fields == PATCH_TARGET;
    default:
        return !patch;
    }
}

static void wire_take_patch(struct wire_reader *reader, struct command *command)
{
    if (wire_take_below(reader, 1, 2)) {
        command->patch_fields = (uint32_t)wire_take(reader, 4);
        const struct bytes note = wire_take_text(reader, TIMER_NOTE_SIZE_MAX);
        struct timer *patch = wire_take_timer(reader);
        if (patch && patch->state != TIMER_SCHEDULED)
            reader->failed_ = true;
        if (patch && note.size) {
            struct timer_texts texts = patch->texts;

            texts.note = note;
            command->patch = timer_copy(patch, &texts);
            timer_free(patch);
            reader->failed_ |= !command->patch;
        } else {
            command->patch = patch;
        }
    }
    if (!wire_patch_fits(command))
        reader->failed_ = true;
}

static void wire_take_timers(struct wire_reader *reader, struct command *command)
{
    command->must_exist = wire_take_below(reader, 1, 2);
    const size_t count = wire_take_below(reader, 4, WIRE_COUNT_MAX + 1);
    if (count == 0 || (command->kind == COMMAND_PUT && count > 1) ||
        (command->kind == COMMAND_CREATE && command->must_exist))
        reader->failed_ = true;
    command->timers = wire_take_room(reader, count, sizeof(struct timer *));
    command->results = wire_take_room(reader, count, sizeof(*command->results));
    while (!reader->failed_ && command->timer_count < count) {
        struct timer *timer = wire_take_timer(reader);

        if (!timer)
            break;
        command->timers[command->timer_count++] = timer;
        if (timer->state != TIMER_SCHEDULED &&
            (command->kind == COMMAND_PUT ||
             (timer->state != TIMER_RETRYING && timer->state != TIMER_PAUSED)))
            reader->failed_ = true;
    }
}

/* A text of a filter may be absent, which differs from an empty one. */
static void wire_walk_filter_text(struct wire_walk *walk, struct bytes *text)
{
    bool is_there = text->data != NULL;

    WIRE_BELOW(walk, is_there, 1, 2);
    if (is_there)
        wire_walk_text(walk, text, WIRE_TEXT_SIZE_MAX);
}

static void wire_walk_filter(struct wire_walk *walk, struct timer_filter *filter)
{
    WIRE(walk, filter->states, 4);
    WIRE_BELOW(walk, filter->repeats, 1, 2);
#define X(name) wire_walk_filter_text(walk, &filter->name);
    TIMER_FILTER_TEXT_LIST(X)
#undef X
    WIRE_BELOW(walk, filter->label_count, 1, TIMER_FILTER_LABELS_MAX + 1);
    for (size_t i = 0; i < filter->label_count; i++) {
        wire_walk_text(walk, &filter->labels[i].key, WIRE_TEXT_SIZE_MAX);
        wire_walk_text(walk, &filter->labels[i].value, WIRE_TEXT_SIZE_MAX);
    }
}

/* Added to the kind of a scan that has a filter, once more if that has a flow. A node of an older
 * version refuses what it does not know. */
enum { WIRE_SCAN_FILTERED = STORAGE_SCAN_ALL + 1 };

static unsigned wire_scan_kind(const struct storage_scan *scan)
{
    if (!scan->filter)
        return scan->kind;
    return scan->kind + (scan->filter->flow.data ? 2u : 1u) * WIRE_SCAN_FILTERED;
}

static void wire_walk_scan(struct wire_walk *walk, struct command *command)
{
    struct storage_scan *scan = &command->scan;
    unsigned kind = wire_scan_kind(scan);

    WIRE_BELOW(walk, kind, 1, 3 * WIRE_SCAN_FILTERED);
    scan->kind = (enum storage_scan_kind)(kind % WIRE_SCAN_FILTERED);
    WIRE(walk, scan->from.at.ms, 8);
    WIRE(walk, scan->from.serial, 8);
    WIRE(walk, scan->to.at.ms, 8);
    WIRE(walk, scan->to.serial, 8);
    WIRE(walk, scan->rows_max, 8);
    WIRE(walk, scan->bytes_max, 8);
    WIRE(walk, scan->row_bytes, 8);
    struct timer_filter *filter = (struct timer_filter *)(uintptr_t)scan->filter;
    if (walk->from && kind >= WIRE_SCAN_FILTERED)
        scan->filter = filter = wire_take_room(walk->from, 1, sizeof(*filter));
    if (filter)
        wire_walk_filter(walk, filter);
    if (filter && kind >= 2 * WIRE_SCAN_FILTERED)
        wire_walk_text(walk, &filter->flow, WIRE_TEXT_SIZE_MAX);
    if (!walk->from)
        return;
    scan->partition = command->partition;
    walk->from->failed_ |= scan->rows_max == 0;
}

static void wire_walk_forecast_asked(struct wire_walk *walk, struct command *command)
{
    if (walk->from)
        command->forecast = wire_take_room(walk->from, 1, sizeof(*command->forecast));
    struct forecast *forecast = command->forecast;
    if (!forecast)
        return;
    WIRE(walk, forecast->from.ms, 8);
    WIRE(walk, forecast->unit_ms, 8);
    WIRE_BELOW(walk, forecast->count, 4, WIRE_COUNT_MAX + 1);
    WIRE(walk, forecast->rows_max, 8);
    if (!walk->from)
        return;
    walk->from->failed_ |= !forecast->count || !forecast->unit_ms;
    forecast->due = wire_take_room(walk->from, forecast->count, sizeof(*forecast->due));
}

static void wire_walk_survey_asked(struct wire_walk *walk, struct command *command)
{
    if (walk->from)
        command->survey = wire_take_room(walk->from, 1, sizeof(*command->survey));
    struct survey *survey = command->survey;
    if (!survey)
        return;
    WIRE_BELOW(walk, survey->kind, 1, SURVEY_FLOWS + 1);
    wire_walk_text(walk, &survey->queue, WIRE_TEXT_SIZE_MAX);
    WIRE_BELOW(walk, survey->items_max, 4, WIRE_COUNT_MAX + 1);
    if (walk->from)
        survey->items = wire_take_room(walk->from, survey->items_max, sizeof(*survey->items));
}

static void wire_put_timers(struct buffer *to, const struct command *command)
{
    buffer_append_le(to, command->must_exist, 1);
    buffer_append_le(to, command->timer_count, 4);
    for (size_t i = 0; i < command->timer_count; i++)
        wire_put_timer(to, command->timers[i]);
}

static void wire_walk_asked_answer(struct wire_walk *walk, struct command_answer *answer)
{
    WIRE_BELOW(walk, answer->verb, 1, ANSWER_EXTEND + 1);
    wire_walk_text(walk, &answer->token, AWAITS_TOKEN_SIZE);
    wire_walk_text(walk, &answer->reason, WIRE_TEXT_SIZE_MAX);
    WIRE_BELOW(walk, answer->by_ms, 8, ACK_TIMEOUT_MS_MAX + 1);
    if (walk->from && !awaits_is_token(answer->token))
        walk->from->failed_ = true;
}

/* Added to the kind of a command that has an origin. A node of an older version refuses it. */
enum { WIRE_OF_SOURCE = 128 };

static void wire_walk_origin(struct wire_walk *walk, struct command_origin *origin)
{
    WIRE(walk, origin->source, 8);
    WIRE(walk, origin->epoch, 8);
    WIRE(walk, origin->batch, 8);
    WIRE(walk, origin->row, 8);
    if (walk->from)
        walk->from->failed_ |= !origin->source;
}

/* True if a command of a source may be of this kind. */
static bool wire_origin_fits(const struct command *command)
{
    switch (command->kind) {
    case COMMAND_CREATE:
        return command->timer_count == 1;
    case COMMAND_PUT:
    case COMMAND_TOUCH:
    case COMMAND_CANCEL:
        return true;
    case COMMAND_COMPLETE:
        return !command->event_count;
    default:
        return false;
    }
}

static void wire_walk_ledger_asked(struct wire_walk *walk, struct command *command)
{
    if (walk->from)
        command->ledger = wire_take_room(walk->from, 1, sizeof(*command->ledger));
    struct command_ledger *ledger = command->ledger;
    if (!ledger)
        return;
    WIRE(walk, ledger->source, 8);
    WIRE(walk, ledger->epoch, 8);
    if (walk->from)
        walk->from->failed_ |= !ledger->source;
}

static void wire_walk_command(struct wire_walk *walk, struct command *command)
{
    unsigned kind = command->kind | (command->origin.source ? WIRE_OF_SOURCE : 0u);

    WIRE(walk, kind, 1);
    if (walk->from) {
        walk->from->failed_ |= kind % WIRE_OF_SOURCE >= COMMAND_KIND_COUNT;
        command->kind =
            walk->from->failed_ ? COMMAND_CREATE : (enum command_kind)(kind % WIRE_OF_SOURCE);
    }
    const unsigned parts = wire_parts(command->kind);
    WIRE(walk, command->partition, 2);
    wire_walk_text(walk, &command->tenant, WIRE_TEXT_SIZE_MAX);
    if (kind & WIRE_OF_SOURCE)
        wire_walk_origin(walk, &command->origin);
    if (parts & WIRE_PART_ID)
        wire_walk_id(walk, &command->id);
    if (parts & WIRE_PART_NAME)
        wire_walk_text(walk, &command->name, WIRE_TEXT_SIZE_MAX);
    if (parts & WIRE_PART_NOT_BEFORE)
        WIRE(walk, command->not_before.ms, 8);
    if (parts & WIRE_PART_VERSION)
        WIRE(walk, command->if_version, 4);
    if (parts & WIRE_PART_PENDING)
        WIRE(walk, command->tenant_pending_max, 8);
    if (parts & WIRE_PART_EACH)
        wire_walk_each(walk, command);
    if (parts & WIRE_PART_PATCH)
        walk->to ? wire_put_patch(walk->to, command) : wire_take_patch(walk->from, command);
    if (parts & WIRE_PART_SCAN)
        wire_walk_scan(walk, command);
    if (parts & WIRE_PART_FORECAST)
        wire_walk_forecast_asked(walk, command);
    if (parts & WIRE_PART_SURVEY)
        wire_walk_survey_asked(walk, command);
    if (parts & WIRE_PART_ANSWER)
        wire_walk_asked_answer(walk, &command->answer);
    if (parts & WIRE_PART_WORK)
        wire_walk_work(walk, command->kind, &command->work);
    if (parts & WIRE_PART_LEDGER)
        wire_walk_ledger_asked(walk, command);
    if (parts & WIRE_PART_TIMERS)
        walk->to ? wire_put_timers(walk->to, command) : wire_take_timers(walk->from, command);
}

enum error_code wire_put_command(struct buffer *to, size_t begin, const struct command *command)
{
    const size_t size = to->size;

    if (!wire_texts_fit(command))
        return ERROR_TOO_LARGE;
    wire_walk_command(&(struct wire_walk){.to = to}, (struct command *)(uintptr_t)command);
    if (!buffer_failed(to) && to->size - begin + WIRE_SUM_SIZE <= WIRE_MESSAGE_SIZE_MAX)
        return ERROR_NONE;
    const enum error_code error = buffer_failed(to) ? ERROR_NO_MEMORY : ERROR_TOO_LARGE;
    to->size = size;
    to->failed = false;
    return error;
}

bool wire_take_command(struct wire_reader *reader, struct command *ret_command)
{
    struct command command = {.kind = COMMAND_CREATE};

    wire_walk_command(&(struct wire_walk){.from = reader}, &command);
    if ((command.kind == COMMAND_COMPLETE && !wire_each_fits(&command)) ||
        (command.origin.source && !wire_origin_fits(&command)))
        reader->failed_ = true;
    if (reader->failed_) {
        wire_command_deinit(&command);
        return false;
    }
    *ret_command = command;
    return true;
}

void wire_command_given(struct command *command)
{
    for (size_t i = 0; command->timers && i < command->timer_count; i++)
        command->timers[i] = NULL;
    command->patch = NULL;
}

void wire_command_deinit(struct command *command)
{
    command_drop_timers(command);
    if (command->survey) {
        survey_deinit(command->survey);
        free((void *)command->survey->items);
    }
    if (command->forecast)
        free(command->forecast->due);
    free(command->survey);
    if (command->ledger)
        free(command->ledger->rows);
    free(command->ledger);
    wire_work_free(command->work);
    free(command->forecast);
    free(command->timers);
    free(command->results);
    free(command->events);
    free((void *)(uintptr_t)command->scan.filter);
    *command = (struct command){0};
}
