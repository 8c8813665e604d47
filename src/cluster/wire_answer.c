/* wire_answer.c - answers of the engine as bytes; see wire.h. */
#include "cluster/wire_private.h"

#include <assert.h>
#include <stdlib.h>

/* The order is the format. New ones are appended. */
_Static_assert(PLACE_FINAL == 0 && PLACE_INFLIGHT == 4, "places are sent as numbers");
_Static_assert(WAIT_ROOM == 0 && WAIT_LEASES == 9 && WAIT_REASONS == 11,
               "reasons to wait are sent as numbers");
_Static_assert(LATENESS_COMMIT == 16 && LATENESS_STAGES == 17, "stages are sent in order");

enum { WIRE_EXISTED = 1, WIRE_REPEATED = 2, WIRE_SUM_ROOM = 4, WIRE_STATES = 3 /* of a breaker */ };

/* ---- errors: by their names, because their numbers differ between versions ---- */

static void wire_put_error(struct buffer *to, enum error_code error)
{
    const struct bytes slug = error ? bytes_of(error_slug(error)) : (struct bytes){0};

    wire_put(to, slug.size, 1);
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

/* ---- parts of answers ---- */

static void wire_put_completed(struct buffer *to, const struct command_completed *completed)
{
    wire_put(to, completed->changed, 8);
    wire_put(to, completed->firing, 8);
}

static struct command_completed wire_take_completed(struct wire_reader *reader)
{
    struct command_completed completed = {.changed = wire_take(reader, 8)};

    completed.firing = wire_take(reader, 8);
    return completed;
}

static void wire_put_results(struct buffer *to, const struct command *command)
{
    wire_put(to, command->timer_count, 4);
    for (size_t i = 0; i < command->timer_count; i++) {
        const struct command_created *result = &command->results[i];

        wire_put_error(to, result->error);
        wire_put(to,
                 (result->existed ? WIRE_EXISTED : 0u) | (result->is_repeated ? WIRE_REPEATED : 0u),
                 1);
        wire_put_id(to, &result->id);
    }
}

static void wire_take_results(struct wire_reader *reader, struct command *command)
{
    if (wire_take(reader, 4) != command->timer_count)
        reader->failed_ = true;
    for (size_t i = 0; !reader->failed_ && i < command->timer_count; i++) {
        struct command_created *result = &command->results[i];

        result->error = wire_take_error(reader);
        const uint64_t flags = wire_take_below(reader, 1, 2 * WIRE_REPEATED);
        result->existed = flags & WIRE_EXISTED;
        result->is_repeated = flags & WIRE_REPEATED;
        result->id = wire_take_id(reader);
    }
}

static void wire_put_explained(struct buffer *to, const struct explained *explained)
{
    wire_put(to, explained->place, 1);
    wire_put(to, explained->now.ms, 8);
    wire_put(to, explained->wheel_level, 4);
    wire_put(to, explained->wheel_bucket, 4);
    wire_put(to, explained->is_spilled, 1);
    wire_put(to, explained->read_at.ms, 8);
    wire_put(to, explained->reason, 1);
    wire_put(to, explained->until.ms, 8);
    wire_put(to, explained->inflight, 4);
    wire_put(to, explained->inflight_max, 4);
    wire_put(to, explained->since.ms, 8);
    wire_put(to, explained->lateness.attempt, 4);
    for (size_t i = 0; i < LATENESS_STAGES; i++)
        wire_put(to, explained->lateness.ms[i], 4);
    wire_put(to, explained->lease.since.ms, 8);
    wire_put(to, explained->lease.until.ms, 8);
    wire_put_text(to, (struct bytes){explained->lease.worker, explained->lease.worker_size});
}

static void wire_take_explained(struct wire_reader *reader, struct explained *explained)
{
    explained->place = (enum explain_place)wire_take_below(reader, 1, PLACE_INFLIGHT + 1);
    explained->now.ms = wire_take(reader, 8);
    explained->wheel_level = (unsigned)wire_take(reader, 4);
    explained->wheel_bucket = (unsigned)wire_take(reader, 4);
    explained->is_spilled = wire_take_below(reader, 1, 2);
    explained->read_at.ms = wire_take(reader, 8);
    explained->reason = (enum wait_reason)wire_take_below(reader, 1, WAIT_REASONS);
    explained->until.ms = wire_take(reader, 8);
    explained->inflight = (uint32_t)wire_take(reader, 4);
    explained->inflight_max = (uint32_t)wire_take(reader, 4);
    explained->since.ms = wire_take(reader, 8);
    explained->lateness.attempt = (uint32_t)wire_take(reader, 4);
    for (size_t i = 0; i < LATENESS_STAGES; i++)
        explained->lateness.ms[i] = (uint32_t)wire_take(reader, 4);
    explained->lease.since.ms = wire_take(reader, 8);
    explained->lease.until.ms = wire_take(reader, 8);
    const struct bytes worker = wire_take_text(reader, sizeof(explained->lease.worker));
    if (worker.size > 0)
        memcpy(explained->lease.worker, worker.data, worker.size);
    explained->lease.worker_size = (uint8_t)worker.size;
}

static void wire_put_forecast(struct buffer *to, const struct forecast *forecast)
{
    wire_put(to, forecast->count, 4);
    for (size_t i = 0; i < forecast->count; i++)
        wire_put(to, forecast->due[i], 8);
    wire_put(to, forecast->overdue, 8);
    wire_put(to, forecast->rows, 8);
    wire_put(to, forecast->rows_own, 8);
    wire_put(to, forecast->firings, 8);
    wire_put(to, forecast->until.ms, 8);
}

static void wire_take_forecast(struct wire_reader *reader, struct forecast *forecast)
{
    if (wire_take(reader, 4) != forecast->count)
        reader->failed_ = true;
    for (size_t i = 0; !reader->failed_ && i < forecast->count; i++)
        forecast->due[i] = wire_take(reader, 8);
    forecast->overdue = wire_take(reader, 8);
    forecast->rows = wire_take(reader, 8);
    forecast->rows_own = wire_take(reader, 8);
    forecast->firings = wire_take(reader, 8);
    forecast->until.ms = wire_take(reader, 8);
}

static void wire_put_failures(struct buffer *to, const struct survey *survey)
{
    wire_put(to, survey->failure_count, 4);
    for (size_t i = 0; i < survey->failure_count; i++) {
        const struct survey_failure *failure = &survey->failures[i];

        wire_put_text(to, survey_origin(survey, failure));
        wire_put_text(to, survey_path(survey, failure));
        wire_put_text(to, survey_error(survey, failure));
        wire_put(to, failure->state, 1);
        wire_put(to, failure->failures, 4);
        wire_put(to, failure->wait_ms, 8);
    }
}

static void wire_put_numbers(struct buffer *to, const struct survey *survey)
{
    wire_put(to, survey->number_count, 4);
    for (size_t i = 0; i < survey->number_count; i++)
        wire_put(to, survey->numbers[i], 8);
}

static void wire_put_survey(struct buffer *to, const struct survey *survey)
{
    wire_put(to, survey->row_count, 4);
    for (size_t i = 0; i < survey->row_count; i++) {
        const struct survey_row *row = &survey->rows[i];

        wire_put_text(to, survey_name(survey, row));
        wire_put(to, row->ready, 8);
        wire_put(to, row->taken, 8);
        wire_put(to, row->oldest.ms, 8);
        wire_put(to, row->is_spilled, 1);
    }
    wire_put(to, survey->is_cut, 1);
    wire_put(to, survey->item_count, 4);
    for (size_t i = 0; i < survey->item_count; i++)
        wire_put_timer(to, survey->items[i]);
    if (survey->kind == SURVEY_FAILURES)
        wire_put_failures(to, survey);
    if (survey->kind == SURVEY_STATS)
        wire_put_numbers(to, survey);
}

static void wire_take_failures(struct wire_reader *reader, struct survey *survey)
{
    const size_t count = (size_t)wire_take(reader, 4);

    for (size_t i = 0; !reader->failed_ && i < count; i++) {
        const struct bytes origin = wire_take_text(reader, WIRE_TEXT_SIZE_MAX);
        const struct bytes path = wire_take_text(reader, WIRE_TEXT_SIZE_MAX);
        const struct bytes error = wire_take_text(reader, WIRE_TEXT_SIZE_MAX);
        struct survey_failure failure = {.state = (uint8_t)wire_take_below(reader, 1, WIRE_STATES)};

        failure.failures = (uint32_t)wire_take(reader, 4);
        failure.wait_ms = wire_take(reader, 8);
        if (!reader->failed_)
            survey_add_failure(survey, &failure, origin, path, error);
        reader->failed_ |= buffer_failed(&survey->names);
    }
}

static void wire_take_numbers(struct wire_reader *reader, struct survey *survey)
{
    const size_t count = wire_take_below(reader, 4, WIRE_COUNT_MAX + 1);

    survey->numbers = wire_take_room(reader, count, sizeof(*survey->numbers));
    while (!reader->failed_ && survey->number_count < count)
        survey->numbers[survey->number_count++] = wire_take(reader, 8);
}

static void wire_take_survey(struct wire_reader *reader, struct survey *survey,
                             struct wire_held *held)
{
    const size_t count = wire_take_below(reader, 4, survey_rows_max(survey->kind) + 1);

    for (size_t i = 0; !reader->failed_ && i < count; i++) {
        struct survey_row *row = survey_add(survey, wire_take_text(reader, WIRE_TEXT_SIZE_MAX));

        reader->failed_ |= buffer_failed(&survey->names);
        if (!row)
            break;
        row->ready = wire_take(reader, 8);
        row->taken = wire_take(reader, 8);
        row->oldest.ms = wire_take(reader, 8);
        row->is_spilled = wire_take_below(reader, 1, 2);
    }
    survey->is_cut = wire_take_below(reader, 1, 2);
    const size_t items = wire_take_below(reader, 4, survey->items_max + 1);
    while (!reader->failed_ && survey->item_count < items) {
        const struct timer *timer = wire_hold_timer(reader, held);

        if (timer)
            survey->items[survey->item_count++] = timer;
    }
    if (survey->kind == SURVEY_FAILURES)
        wire_take_failures(reader, survey);
    if (survey->kind == SURVEY_STATS)
        wire_take_numbers(reader, survey);
}

static void wire_put_page(struct buffer *to, const struct storage_page *page)
{
    wire_put(to, page->next.at.ms, 8);
    wire_put(to, page->next.serial, 8);
    wire_put(to, page->count, 4);
    for (size_t i = 0; i < page->count; i++)
        wire_put_timer(to, page->timers[i]);
}

static void wire_take_page(struct wire_reader *reader, struct storage_page *page,
                           struct wire_held *held)
{
    page->next.at.ms = wire_take(reader, 8);
    page->next.serial = wire_take(reader, 8);
    const size_t count = wire_take_below(reader, 4, WIRE_COUNT_MAX + 1);
    page->timers = held->page_ = wire_take_room(reader, count, sizeof(struct timer *));
    while (!reader->failed_ && page->count < count) {
        struct timer *timer = wire_hold_timer(reader, held);

        if (timer)
            page->timers[page->count++] = timer;
    }
}

/* ---- answers ---- */

/* True if the answer is about one timer, which may be shown. */
static bool wire_is_of_one(enum command_kind kind)
{
    return wire_parts(kind) & (WIRE_PART_ID | WIRE_PART_TIMERS);
}

static void wire_put_parts(struct buffer *to, const struct command *command)
{
    wire_put(to, command->kind, 1);
    wire_put_error(to, command->error);
    if (wire_is_of_one(command->kind)) {
        wire_put(to, command->timer != NULL, 1);
        if (command->timer)
            wire_put_timer(to, command->timer);
    }
    if (wire_parts(command->kind) & WIRE_PART_TIMERS)
        wire_put_results(to, command);
    if (command->kind == COMMAND_EXPLAIN)
        wire_put_explained(to, &command->explained);
    if (command->kind == COMMAND_COMPLETE) {
        wire_put_completed(to, &command->completed);
        wire_put(to, command->event_count, 4);
        for (size_t i = 0; i < command->event_count; i++) {
            wire_put_error(to, command->events[i].error);
            wire_put_completed(to, &command->events[i].completed);
        }
    }
    if (command->kind == COMMAND_LIST)
        wire_put_page(to, &command->page);
    if (command->kind == COMMAND_FORECAST)
        wire_put_forecast(to, command->forecast);
    if (command->kind == COMMAND_SURVEY)
        wire_put_survey(to, command->survey);
    if (command_is_work(command->kind))
        wire_put_work_answer(to, command->kind, command->work);
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
        wire_put(to, fate, 1);
        wire_put_parts(to, command);
        if (!buffer_failed(to) && to->size - begin + WIRE_SUM_ROOM <= WIRE_MESSAGE_SIZE_MAX)
            return;
        to->size = size;
        to->failed = false;
        fate = WIRE_FAILED;
        error = wire_lost_answer(command);
    }
    wire_put(to, fate, 1);
    if (fate == WIRE_FAILED)
        wire_put_error(to, error);
    else
        wire_put(to, answer->node, 4);
}

static void wire_take_events(struct wire_reader *reader, struct command *command)
{
    command->completed = wire_take_completed(reader);
    if (wire_take(reader, 4) != command->event_count)
        reader->failed_ = true;
    for (size_t i = 0; !reader->failed_ && i < command->event_count; i++) {
        command->events[i].error = wire_take_error(reader);
        command->events[i].completed = wire_take_completed(reader);
    }
}

static void wire_take_parts(struct wire_reader *reader, struct command *command,
                            struct wire_held *held)
{
    if (wire_take(reader, 1) != command->kind) {
        reader->failed_ = true;
        return;
    }
    command->error = wire_take_error(reader);
    if (wire_is_of_one(command->kind) && wire_take_below(reader, 1, 2))
        command->timer = wire_hold_timer(reader, held);
    if (wire_parts(command->kind) & WIRE_PART_TIMERS)
        wire_take_results(reader, command);
    if (command->kind == COMMAND_EXPLAIN)
        wire_take_explained(reader, &command->explained);
    if (command->kind == COMMAND_COMPLETE)
        wire_take_events(reader, command);
    if (command->kind == COMMAND_LIST)
        wire_take_page(reader, &command->page, held);
    if (command->kind == COMMAND_FORECAST)
        wire_take_forecast(reader, command->forecast);
    if (command->kind == COMMAND_SURVEY)
        wire_take_survey(reader, command->survey, held);
    if (command_is_work(command->kind))
        wire_take_work_answer(reader, command->kind, command->work, held);
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
