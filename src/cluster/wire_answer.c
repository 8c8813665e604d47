/* wire_answer.c - answers of the engine as bytes; see wire.h. */
#include "cluster/wire_private.h"

#include <assert.h>
#include <stdlib.h>

/* The order is the format. New ones are appended. */
_Static_assert(PLACE_FINAL == 0 && PLACE_INFLIGHT == 4, "places are sent as numbers");
_Static_assert(WAIT_ROOM == 0 && WAIT_LEASES == 9 && WAIT_FLOW == 11 && WAIT_REASONS == 12,
               "reasons to wait are sent as numbers");
_Static_assert(LATENESS_COMMIT == 16 && LATENESS_FLOW == 17 && LATENESS_STAGES == 18,
               "stages are sent in order");

enum { WIRE_EXISTED = 1, WIRE_REPEATED = 2, WIRE_SUM_ROOM = 4, WIRE_STATES = 3 /* of a breaker */ };

/* ---- errors: by their names, because their numbers differ between versions ---- */

static void wire_put_error(struct buffer *to, enum error_code error)
{
    const struct bytes slug = error ? bytes_of(error_slug(error)) : (struct bytes){0};

    buffer_append_le(to, slug.size, 1);
    buffer_append_bytes(to, slug);
}

static enum error_code wire_take_error(struct wire_reader *reader)
{
    const size_t size = (size_t)wire_take(reader, 1);

    if (reader->failed_ || size > (size_t)(reader->end_ - reader->at_)) {
        reader->failed_ = true;
        return ERROR_NONE;
    }
    const struct bytes slug = {reader->at_, size};
    reader->at_ += size;
    if (!size)
        return ERROR_NONE;
    for (enum error_code error = ERROR_NONE + 1; error < ERROR_COUNT; error++)
        if (bytes_equal(slug, bytes_of(error_slug(error))))
            return error;
    reader->failed_ = true;
    return ERROR_NONE;
}

static void wire_walk_error(struct wire_walk *walk, enum error_code *error)
{
    if (walk->to)
        wire_put_error(walk->to, *error);
    else
        *error = wire_take_error(walk->from);
}

/* ---- parts of answers ---- */

static void wire_walk_completed(struct wire_walk *walk, struct command_completed *completed)
{
    WIRE(walk, completed->changed, 8);
    WIRE(walk, completed->firing, 8);
}

static void wire_walk_results(struct wire_walk *walk, const struct command *command)
{
    const size_t count = wire_walk_same(walk, command->timer_count, 4);

    for (size_t i = 0; i < count; i++) {
        struct command_created *result = &command->results[i];
        unsigned flags =
            (result->existed ? WIRE_EXISTED : 0u) | (result->is_repeated ? WIRE_REPEATED : 0u);

        wire_walk_error(walk, &result->error);
        WIRE_BELOW(walk, flags, 1, 2 * WIRE_REPEATED);
        if (walk->from) {
            result->existed = flags & WIRE_EXISTED;
            result->is_repeated = flags & WIRE_REPEATED;
        }
        wire_walk_id(walk, &result->id);
    }
}

static void wire_walk_explained(struct wire_walk *walk, struct explained *explained)
{
    struct bytes worker = {explained->lease.worker, explained->lease.worker_size};

    WIRE_BELOW(walk, explained->place, 1, PLACE_INFLIGHT + 1);
    WIRE(walk, explained->now.ms, 8);
    WIRE(walk, explained->wheel_level, 4);
    WIRE(walk, explained->wheel_bucket, 4);
    WIRE_BELOW(walk, explained->is_spilled, 1, 2);
    WIRE(walk, explained->read_at.ms, 8);
    WIRE_BELOW(walk, explained->reason, 1, WAIT_REASONS);
    WIRE(walk, explained->until.ms, 8);
    WIRE(walk, explained->inflight, 4);
    WIRE(walk, explained->inflight_max, 4);
    WIRE(walk, explained->since.ms, 8);
    WIRE(walk, explained->lateness.attempt, 4);
    for (size_t i = 0; i < LATENESS_STAGES; i++)
        WIRE(walk, explained->lateness.ms[i], 4);
    WIRE(walk, explained->lease.since.ms, 8);
    WIRE(walk, explained->lease.until.ms, 8);
    wire_walk_text(walk, &worker, sizeof(explained->lease.worker));
    WIRE(walk, explained->flow_running, 4);
    if (!walk->from)
        return;
    if (worker.size > 0)
        memcpy(explained->lease.worker, worker.data, worker.size);
    explained->lease.worker_size = (uint8_t)worker.size;
}

static void wire_walk_forecast(struct wire_walk *walk, struct forecast *forecast)
{
    const size_t count = wire_walk_same(walk, forecast->count, 4);

    for (size_t i = 0; i < count; i++)
        WIRE(walk, forecast->due[i], 8);
    WIRE(walk, forecast->overdue, 8);
    WIRE(walk, forecast->rows, 8);
    WIRE(walk, forecast->rows_own, 8);
    WIRE(walk, forecast->firings, 8);
    WIRE(walk, forecast->until.ms, 8);
}

static void wire_walk_rows(struct wire_walk *walk, struct survey *survey)
{
    size_t count = survey->row_count;

    WIRE_BELOW(walk, count, 4, survey_rows_max(survey->kind) + 1);
    for (size_t i = 0; i < count && !wire_has_failed(walk); i++) {
        struct bytes name = walk->to ? survey_name(survey, &survey->rows[i]) : (struct bytes){0};

        wire_walk_text(walk, &name, WIRE_TEXT_SIZE_MAX);
        struct survey_row *row = walk->to ? &survey->rows[i] : survey_add(survey, name);
        if (!row)
            break;
        WIRE(walk, row->ready, 8);
        WIRE(walk, row->taken, 8);
        WIRE(walk, row->oldest.ms, 8);
        WIRE_BELOW(walk, row->is_spilled, 1, 2);
    }
}

static void wire_walk_failures(struct wire_walk *walk, struct survey *survey)
{
    size_t count = survey->failure_count;

    WIRE(walk, count, 4);
    for (size_t i = 0; i < count && !wire_has_failed(walk); i++) {
        struct survey_failure failure =
            walk->to ? survey->failures[i] : (struct survey_failure){.state = 0};
        struct bytes origin = survey_origin(survey, &failure), path = survey_path(survey, &failure),
                     error = survey_error(survey, &failure);

        wire_walk_text(walk, &origin, WIRE_TEXT_SIZE_MAX);
        wire_walk_text(walk, &path, WIRE_TEXT_SIZE_MAX);
        wire_walk_text(walk, &error, WIRE_TEXT_SIZE_MAX);
        WIRE_BELOW(walk, failure.state, 1, WIRE_STATES);
        WIRE(walk, failure.failures, 4);
        WIRE(walk, failure.wait_ms, 8);
        if (walk->from && !wire_has_failed(walk))
            survey_add_failure(survey, &failure, origin, path, error);
    }
}

static void wire_walk_numbers(struct wire_walk *walk, struct survey *survey)
{
    size_t count = survey->number_count;

    WIRE_BELOW(walk, count, 4, WIRE_COUNT_MAX + 1);
    if (walk->from) {
        survey->numbers = wire_take_room(walk->from, count, sizeof(*survey->numbers));
        survey->number_count = survey->numbers ? count : 0;
    }
    for (size_t i = 0; i < survey->number_count; i++)
        WIRE(walk, survey->numbers[i], 8);
}

static void wire_walk_survey(struct wire_walk *walk, struct survey *survey)
{
    wire_walk_rows(walk, survey);
    WIRE_BELOW(walk, survey->is_cut, 1, 2);
    size_t count = survey->item_count;
    WIRE_BELOW(walk, count, 4, survey->items_max + 1);
    for (size_t i = 0; i < count && !wire_has_failed(walk); i++) {
        const struct timer *timer = wire_walk_timer(walk, survey->items[i]);

        if (walk->from && timer)
            survey->items[survey->item_count++] = timer;
    }
    if (survey->kind == SURVEY_FAILURES)
        wire_walk_failures(walk, survey);
    if (survey->kind == SURVEY_STATS)
        wire_walk_numbers(walk, survey);
    if (walk->from)
        walk->from->failed_ |= buffer_failed(&survey->names);
}

static void wire_walk_ledger(struct wire_walk *walk, struct command_ledger *ledger)
{
    size_t count = ledger->count;

    WIRE(walk, ledger->batch, 8);
    WIRE_BELOW(walk, count, 4, WIRE_COUNT_MAX + 1);
    if (walk->from) {
        ledger->rows = wire_take_room(walk->from, count, sizeof(*ledger->rows));
        ledger->count = ledger->rows ? count : 0;
    }
    for (size_t i = 0; i < ledger->count; i++) {
        WIRE(walk, ledger->rows[i].row, 8);
        wire_walk_error(walk, &ledger->rows[i].error);
    }
}

static void wire_walk_page(struct wire_walk *walk, struct command *command)
{
    struct storage_page *page = &command->page;
    size_t count = page->count;

    WIRE(walk, page->next.at.ms, 8);
    WIRE(walk, page->next.serial, 8);
    if (command->scan.filter)
        WIRE(walk, page->own, 8);
    WIRE_BELOW(walk, count, 4, WIRE_COUNT_MAX + 1);
    if (walk->from)
        page->timers = walk->held->page_ =
            wire_take_room(walk->from, count, sizeof(struct timer *));
    for (size_t i = 0; i < count && !wire_has_failed(walk); i++) {
        const struct timer *timer = wire_walk_timer(walk, page->timers[i]);

        if (walk->from && timer)
            page->timers[page->count++] = walk->held->timers_; /* it is the first of them */
    }
}

/* ---- answers ---- */

/* True if the answer is about one timer, which may be shown. */
static bool wire_is_of_one(enum command_kind kind)
{
    return wire_parts(kind) & (WIRE_PART_ID | WIRE_PART_TIMERS);
}

static void wire_walk_events(struct wire_walk *walk, struct command *command)
{
    wire_walk_completed(walk, &command->completed);
    const size_t count = wire_walk_same(walk, command->event_count, 4);
    for (size_t i = 0; i < count; i++) {
        wire_walk_error(walk, &command->events[i].error);
        wire_walk_completed(walk, &command->events[i].completed);
    }
}

static void wire_walk_answer(struct wire_walk *walk, struct command *command)
{
    wire_walk_same(walk, command->kind, 1);
    if (wire_has_failed(walk))
        return;
    wire_walk_error(walk, &command->error);
    if (wire_is_of_one(command->kind)) {
        bool has_timer = command->timer != NULL;

        WIRE_BELOW(walk, has_timer, 1, 2);
        const struct timer *timer = has_timer ? wire_walk_timer(walk, command->timer) : NULL;
        if (walk->from)
            command->timer = timer;
    }
    if (wire_parts(command->kind) & WIRE_PART_TIMERS)
        wire_walk_results(walk, command);
    if (command->kind == COMMAND_EXPLAIN)
        wire_walk_explained(walk, &command->explained);
    if (command->kind == COMMAND_COMPLETE)
        wire_walk_events(walk, command);
    if (command->kind == COMMAND_LIST)
        wire_walk_page(walk, command);
    if (command->kind == COMMAND_FORECAST)
        wire_walk_forecast(walk, command->forecast);
    if (command->kind == COMMAND_SURVEY)
        wire_walk_survey(walk, command->survey);
    if (command_is_work(command->kind))
        wire_walk_work_answer(walk, command->kind, command->work);
    if (command->kind == COMMAND_LEDGER)
        wire_walk_ledger(walk, command->ledger);
}

enum error_code wire_lost_answer(const struct command *command)
{
    return command_is_read(command->kind) ? ERROR_OVERLOADED : ERROR_IN_DOUBT;
}

void wire_put_answer(struct buffer *to, size_t begin, const struct wire_answer *answer,
                     const struct command *command)
{
    const size_t size = to->size;
    enum error_code error = answer->error;
    enum wire_fate fate = answer->fate;

    if (fate == WIRE_ANSWERED) {
        buffer_append_le(to, fate, 1);
        wire_walk_answer(&(struct wire_walk){.to = to}, (struct command *)(uintptr_t)command);
        if (!buffer_failed(to) && to->size - begin + WIRE_SUM_ROOM <= WIRE_MESSAGE_SIZE_MAX)
            return;
        to->size = size;
        to->failed = false;
        fate = WIRE_FAILED;
        error = wire_lost_answer(command);
    }
    buffer_append_le(to, fate, 1);
    if (fate == WIRE_FAILED)
        wire_put_error(to, error);
    else
        buffer_append_le(to, answer->node, 4);
}

static void wire_take_parts(struct wire_reader *reader, struct command *command,
                            struct wire_held *held)
{
    wire_walk_answer(&(struct wire_walk){.from = reader, .held = held}, command);
    /* A command that answers with a timer on success needs no further check to show it. */
    if ((wire_parts(command->kind) & WIRE_PART_ID) && command->kind != COMMAND_FORGET &&
        (command->error == ERROR_NONE || command->error == ERROR_GONE) && !command->timer)
        reader->failed_ = true;
}

static void wire_clear(struct command *command)
{
    command->error = ERROR_NONE;
    command->timer = NULL;
    command->page = (struct storage_page){0};
    command->completed = (struct command_completed){0};
    if (command->kind == COMMAND_SURVEY) {
        survey_deinit(command->survey);
        command->survey->is_cut = false;
        command->survey->item_count = 0;
    }
    if (command_is_work(command->kind))
        wire_clear_work(command->work);
    if (command->kind == COMMAND_LEDGER) {
        free(command->ledger->rows);
        *command->ledger = (struct command_ledger){.source = command->ledger->source,
                                                   .epoch = command->ledger->epoch};
    }
}

bool wire_take_answer(struct wire_reader *reader, struct command *command,
                      struct wire_answer *ret_answer, struct wire_held *ret_held)
{
    struct wire_answer answer = {
        .fate = (enum wire_fate)wire_take_below(reader, 1, WIRE_ELSEWHERE + 1)};
    struct wire_held held = {0};

    wire_clear(command);
    if (answer.fate == WIRE_ANSWERED)
        wire_take_parts(reader, command, &held);
    else if (answer.fate == WIRE_FAILED)
        answer.error = wire_take_error(reader);
    else
        answer.node = (uint32_t)wire_take(reader, 4);
    if (answer.fate == WIRE_FAILED && !answer.error)
        reader->failed_ = true;
    if (reader->failed_) {
        wire_held_deinit(&held);
        wire_clear(command);
        return false;
    }
    *ret_answer = answer;
    *ret_held = held;
    return true;
}

void wire_held_deinit(struct wire_held *held)
{
    for (struct timer *timer; (timer = held->timers_);) {
        held->timers_ = timer->next;
        timer_free(timer);
    }
    free(held->page_);
    *held = (struct wire_held){0};
}

void wire_fail(struct command *command, enum error_code error)
{
    wire_clear(command);
    command_fail(command, error);
}
