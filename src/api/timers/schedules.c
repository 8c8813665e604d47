/*
 * schedules.c - GET /v1/schedules: the timers that repeat, with their last firings.
 *
 * Reads lists of all partitions (list.h), one after the other, and keeps the first `limit` + 1
 * schedules of the order asked for. A page by time continues at its cursor, and ends when it is
 * full. The other orders read all timers for each page, at most FORECAST_ROWS_MAX.
 */
#include "api/timers/timers.h"

#include "api/json/timer_fields.h"
#include "api/timers/next.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"
#include "timer/runs.h"

#include <stdlib.h>

/* Fields of a timer that a schedule shows. */
#define SCHEDULES_FIELDS                                                            \
    (TIMER_FIELD_BIT(id) | TIMER_FIELD_BIT(state) | TIMER_FIELD_BIT(key) |          \
     TIMER_FIELD_BIT(target) | TIMER_FIELD_BIT(targets) | TIMER_FIELD_BIT(labels) | \
     TIMER_FIELD_BIT(schedule) | TIMER_FIELD_BIT(due) | TIMER_FIELD_BIT(paused) |   \
     TIMER_FIELD_BIT(attempts))

struct schedules_row {
    struct cursor place; /* place in the order asked for; `at` is the value that is compared */
    struct timer *timer; /* copy without payload */
};

struct schedules {
    struct list_query query; /* as asked */
    struct list_query walk;  /* query of the next list */
    struct list_job *job;
    uint64_t rows_read; /* each timer once, though a list may read it again */
    bool is_cut;        /* timers are left that were not read */
    enum error_code error;
    size_t count;
    struct schedules_row rows[]; /* `limit` + 1, sorted by place */
};

void schedules_closed(struct call *call)
{
    struct schedules *schedules = call->state;

    if (!schedules)
        return;
    for (size_t i = 0; i < schedules->count; i++)
        timer_free(schedules->rows[i].timer);
    list_job_free(schedules->job);
    free(schedules);
}

/* ---- sorting ---- */

static struct cursor schedules_place(const struct timer *timer, enum list_sort sort)
{
    struct cursor place = {timer->at, timer->id.partition, timer->id.serial};
    struct bytes runs = timer->texts.runs;
    struct run run;

    if (sort == LIST_SORT_LAST)
        place.at.ms = WALL_MS_MAX - (runs_next(&runs, &run) ? run.planned.ms : 0);
    else if (sort == LIST_SORT_FAILURES)
        place.at.ms = RUNS_MAX - runs_summarize(runs).failures;
    return place;
}

static struct timer *schedules_copy(const struct timer *timer)
{
    struct timer_texts texts = timer->texts;

    texts.payload = texts.content_type = texts.headers = texts.watch = (struct bytes){0};
    return timer_copy(timer, &texts);
}

/* Keeps a copy of the timer if it is among the first `limit` + 1 from the cursor on. */
static void schedules_keep(struct schedules *schedules, const struct timer *timer)
{
    const struct list_query *query = &schedules->query;
    const struct cursor place = schedules_place(timer, query->sort);
    size_t at = schedules->count;

    if (query->has_cursor && cursor_before(&place, &query->cursor))
        return;
    while (at > 0 && cursor_before(&place, &schedules->rows[at - 1].place))
        at--;
    if (at > query->limit)
        return;
    struct timer *copy = schedules_copy(timer);
    if (!copy) {
        schedules->error = ERROR_NO_MEMORY;
        return;
    }
    if (schedules->count > query->limit)
        timer_free(schedules->rows[--schedules->count].timer);
    memmove(&schedules->rows[at + 1], &schedules->rows[at],
            (schedules->count - at) * sizeof(schedules->rows[0]));
    schedules->rows[at] = (struct schedules_row){place, copy};
    schedules->count++;
}

/* ---- the answer ---- */

/* What holds schedules back, at the time of the answer. */
struct schedules_holds {
    struct target_pauses *pauses;
    bool is_maintained;
    struct wall now;
};

/* Appends the earliest time of the next attempt, and what holds it back. The time is absent while
 * maintenance or a pause without an end does. */
static void schedules_put_next(struct call *call, const struct schedules_holds *holds,
                               const struct timer *timer, struct buffer *out)
{
    struct target_status status;
    const bool has_status = node_target_status(call->api->options.node, timer, &status);
    const struct next_view view = {
        .timer = timer,
        .now = holds->now,
        .target = has_status ? &status : NULL,
        .pause = target_pauses_of_both(holds->pauses, timer->texts.tenant, timer->texts.flow,
                                       timer->texts.target, &timer->target),
        .is_maintained = holds->is_maintained};
    struct next next;

    if (next_attempt(&view, &next))
        rfc3339_put(out, "next", next.at);
    if (next.held_by)
        json_put_text(out, "held_by", next.held_by);
}

static void schedules_put(struct call *call, const struct schedules_holds *holds,
                          const struct timer *timer, struct buffer *out)
{
    const struct runs_summary summary = runs_summarize(timer->texts.runs);

    json_open(out, NULL, '{');
    timer_json_put_fields(timer, SCHEDULES_FIELDS, out);
    schedules_put_next(call, holds, timer, out);
    json_put_text(out, "last", runs_last_text(summary.last));
    json_put_number(out, "failures", summary.failures);
    json_put_number(out, "skipped", summary.skipped);
    timer_json_put_runs(timer, out);
    json_close(out, '}');
}

/* Finds where the next page begins; false after the last one. */
static bool schedules_find_next(const struct schedules *schedules, struct cursor *ret_next)
{
    if (schedules->count > schedules->query.limit)
        *ret_next = schedules->rows[schedules->query.limit].place;
    else if (schedules->is_cut && schedules->query.sort == LIST_SORT_NEXT)
        *ret_next = schedules->walk.cursor;
    else
        return false;
    return true;
}

static void schedules_answer(struct call *call, const struct schedules *schedules)
{
    struct node *node = call->api->options.node;
    char note[NODE_NOTE_SIZE_MAX];
    size_t note_size;
    const struct schedules_holds holds = {node_pauses(node),
                                          node_maintenance(node, note, &note_size), wall_now()};
    struct cursor next;
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_open(&body, "schedules", '[');
    for (size_t i = 0; i < schedules->count && i < schedules->query.limit; i++)
        schedules_put(call, &holds, schedules->rows[i].timer, &body);
    json_close(&body, ']');
    target_pauses_leave(holds.pauses);
    if (schedules_find_next(schedules, &next)) {
        char text[CURSOR_TEXT_SIZE];

        cursor_format_order(&next, schedules->query.sort, text);
        json_put_text(&body, "next", text);
    } else {
        json_put_raw(&body, "next", BYTES("null"));
    }
    json_put_flag(&body, "complete", !schedules->is_cut || schedules->query.sort == LIST_SORT_NEXT);
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

/* ---- the call ---- */

static void schedules_found(struct call *call);

static void schedules_read_on(struct call *call, struct schedules *schedules)
{
    schedules->job = list_find(call, &schedules->walk, LIST_WANTS_TIMERS, schedules_found);
    if (!schedules->job)
        call_answer_error(call, ERROR_NO_MEMORY, "");
}

static void schedules_found(struct call *call)
{
    struct schedules *schedules = call->state;
    struct list_found found;

    list_take_found(schedules->job, &found);
    for (size_t i = 0; i < found.count && !schedules->error; i++)
        schedules_keep(schedules, found.timers[i]);
    if (found.error)
        schedules->error = found.error;
    schedules->rows_read += found.passed_count ? found.passed_count : 1; /* 1: so that it ends */
    schedules->walk.has_cursor = schedules->is_cut = found.has_next;
    schedules->walk.cursor = found.next;
    list_job_free(schedules->job);
    schedules->job = NULL;
    const bool is_full =
        schedules->query.sort == LIST_SORT_NEXT && schedules->count > schedules->query.limit;
    if (schedules->error)
        call_answer_error(call, schedules->error, "");
    else if (schedules->is_cut && !is_full && schedules->rows_read < FORECAST_ROWS_MAX)
        schedules_read_on(call, schedules);
    else if (!call_refuses_large_answer(call))
        schedules_answer(call, schedules);
}

void schedules_list(struct call *call)
{
    struct list_query query;
    struct problem problem;

    if (list_query_parse(call->query, LIST_SCHEDULES, call->query_room, &query, &problem)) {
        call_answer_problem(call, &problem);
        return;
    }
    struct schedules *schedules =
        calloc(1, sizeof(*schedules) + (query.limit + 1) * sizeof(schedules->rows[0]));
    call->state = schedules;
    if (!schedules) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    schedules->query = schedules->walk = query;
    schedules->walk.limit = LIST_LIMIT_MAX;
    schedules->walk.has_cursor = query.has_cursor && query.sort == LIST_SORT_NEXT;
    schedules_read_on(call, schedules);
}
