/* Goes through the rows that are due in the time to come, and counts them. */
#include "engine/commands.h"

#include "engine/engine_core.h"
#include "engine/position.h"
#include "engine/tenant.h"
#include "engine/watermark.h"
#include "timer/fanout.h"
#include "timer/schedule.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE_ROWS = 1024, /* maximum of rows of one read, so that reads of others run in between */
    PAGE_BYTES = 1 << 20,
};

static void forecast_next_page(struct engine *engine, struct command *command)
{
    const struct forecast *forecast = command->forecast;
    uint64_t rows_left = forecast->rows_max - forecast->rows;

    assert(storage_position_before(command->scan.from, command->scan.to));
    assert(forecast->rows < forecast->rows_max);
    command->scan.rows_max = rows_left < PAGE_ROWS ? (size_t)rows_left : PAGE_ROWS;
    command->scan.looks_max = rows_left < SCAN_LOOKS ? (size_t)rows_left : SCAN_LOOKS;
    if (!commands_scan(engine, command))
        commands_reply(engine, command, ERROR_NO_MEMORY, NULL);
}

void forecast_start(struct engine *engine, struct command *command)
{
    struct forecast *forecast = command->forecast;

    assert(forecast->count > 0);
    assert(command->kind == COMMAND_FORECAST);
    assert(forecast->unit_ms > 0);
    memset(forecast->due, 0, forecast->count * sizeof(*forecast->due));
    forecast->overdue = forecast->rows = forecast->rows_own = forecast->firings = 0;
    forecast->until = forecast_end(forecast);
    command->scan = (struct storage_scan){
        .partition = engine->options.partition,
        .kind = STORAGE_SCAN_LIVE,
        .from = {watermark_at(engine), 0},
        .to = {forecast->until, 0},
        .bytes_max = PAGE_BYTES,
    };
    if (!storage_position_before(command->scan.from, command->scan.to))
        commands_reply(engine, command, ERROR_NONE, NULL);
    else
        forecast_next_page(engine, command);
}

static void forecast_count_at(struct forecast *forecast, struct wall at)
{
    assert(forecast->unit_ms > 0);
    assert(at.ms < WALL_NEVER.ms);
    if (at.ms < forecast->from.ms)
        forecast->overdue++;
    else if (at.ms < forecast_end(forecast).ms)
        forecast->due[(at.ms - forecast->from.ms) / forecast->unit_ms]++;
}

/* Counts the firings that follow the one of the row. At the limit of firings, sets `until` to the
 * time of the next one, where the forecast ends. */
static void forecast_count_firings(const struct engine *engine, struct forecast *forecast,
                                   const struct timer *timer)
{
    const struct wall end = forecast_end(forecast);
    struct wall at = timer->due;

    assert(forecast->firings <= forecast_firings_max(forecast));
    struct schedule schedule;
    if (!timer->texts.schedule.size ||
        schedule_of(timer, &engine->options.zones, &schedule, NULL) || !schedule.recurs)
        return;
    for (;;) {
        schedule_take(&schedule, at);
        at = schedule_next(&schedule, at, wall_max(at, forecast->from));
        if (at.ms >= end.ms)
            return;
        if (forecast->firings == forecast_firings_max(forecast)) {
            forecast->until = wall_min(forecast->until, wall_max(at, forecast->from));
            return;
        }
        forecast->firings++;
        forecast_count_at(forecast, at);
    }
}

/* True if the timer's flow, queue or target is paused. */
static bool forecast_is_held(const struct engine *engine, const struct timer *timer)
{
    return engine->pauses &&
           target_pause_is_in_force(target_pauses_of_both(engine->pauses, timer->texts.tenant,
                                                          timer->texts.flow, timer->texts.target,
                                                          &timer->target),
                                    engine->now);
}

/* Returns when the timer's next attempt is due. A spilled timer is overdue, whatever the position
 * of its row; the row of a timer that was touched is before its due time. */
static struct wall forecast_due(const struct engine *engine, const struct timer *timer)
{
    return position_is_spilled(engine, timer) ? timer->due : wall_max(timer->at, timer->due);
}

/* Counts a row. That of a timer which waits for an answer or for its parts is at the end of the
 * wait, which is no firing. */
static void forecast_count_row(const struct engine *engine, const struct command *command,
                               const struct timer *timer)
{
    struct forecast *forecast = command->forecast;

    assert(!timer_is_final(timer->state) && tenant_owns(command, timer));
    forecast->rows_own++;
    if (timer->state == TIMER_PAUSED || forecast_is_held(engine, timer))
        return;
    if (!timer_awaits(timer) && !fanout_is_waiting(timer))
        forecast_count_at(forecast, forecast_due(engine, timer));
    forecast_count_firings(engine, forecast, timer);
}

void forecast_read(struct engine *engine, struct engine_read *read)
{
    struct command *command = read->command_;
    struct forecast *forecast = command->forecast;

    assert(read->command_ == command && read->kind == ENGINE_READ_SCAN);
    assert(command->kind == COMMAND_FORECAST);
    if (read->result) {
        commands_reply(engine, command, read->result, NULL);
        return;
    }
    forecast->rows += read->page.looked;
    assert(forecast->rows <= forecast->rows_max);
    for (size_t i = 0; i < read->page.count; i++)
        forecast_count_row(engine, command, read->page.timers[i]);
    command->scan.from = read->page.next;
    if (storage_position_before(command->scan.from, command->scan.to) &&
        forecast->rows < forecast->rows_max) {
        forecast_next_page(engine, command);
        return;
    }
    if (storage_position_before(command->scan.from, command->scan.to))
        forecast->until =
            wall_min(forecast->until, wall_max(command->scan.from.at, forecast->from));
    commands_reply(engine, command, ERROR_NONE, NULL);
}
