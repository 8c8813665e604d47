/* overview.c - tells how full the queues are, and shows their next items. */
#include "api/core/call.h"

#include "api/core/query.h"
#include "api/core/tally.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"
#include "timer/queue_target.h"

#include <stdio.h>

enum {
    PEEK_DEFAULT = 20,
    PEEK_BYTES = 4 << 20, /* size from which an answer takes no further item */
    PEEK_PARAMETERS_MAX = 8,
};

/* ---- how full they are ---- */

/* Adds the paused queues of the tenant, which may have no items. */
static void overview_add_paused(struct node_tally *tally)
{
    const struct bytes tenant = caller_tenant(&tally->call->caller);
    struct target_pauses *pauses = node_pauses(tally->call->api->options.node);
    const size_t scheme = sizeof("queue:") - 1;

    for (size_t i = 0; i < pauses->count; i++) {
        const struct target_pause *pause = &pauses->rows[i];
        char room[QUEUE_FULL_NAME_SIZE_MAX];

        if (!bytes_equal(pause->tenant, tenant) ||
            !bytes_has_prefix(pause->name, BYTES("queue:")) ||
            !target_pause_is_in_force(pause, wall_now()))
            continue;
        const struct bytes name = {pause->name.data + scheme, pause->name.size - scheme};
        if (!tally->call->parameter.size || bytes_equal(name, tally->call->parameter))
            survey_append(&tally->sum, queue_full_name(tenant, name, room));
    }
    target_pauses_leave(pauses);
}

static void overview_append_paused(struct node_tally *tally, struct bytes name, struct buffer *out)
{
    struct target_pauses *pauses = node_pauses(tally->call->api->options.node);
    char room[QUEUE_FULL_NAME_SIZE_MAX];
    const int size = snprintf(room, sizeof(room), "queue:%.*s", (int)name.size, name.data);

    timer_json_put_pause(target_pauses_find(pauses, caller_tenant(&tally->call->caller),
                                            (struct bytes){room, (size_t)size}),
                         wall_now(), out);
    target_pauses_leave(pauses);
}

static void overview_append(struct node_tally *tally, struct bytes name,
                            const struct survey_row *row, struct buffer *out)
{
    json_open(out, NULL, '{');
    json_put_string(out, "name", name);
    json_put_number(out, "ready", row->ready);
    json_put_number(out, "leased", row->taken);
    json_put_number(out, "workers", row->workers);
    json_put_flag(out, "more_on_disk", row->is_spilled);
    if (row->oldest.ms != WALL_NEVER.ms)
        rfc3339_put(out, "oldest", row->oldest);
    overview_append_paused(tally, name, out);
    json_close(out, '}');
}

/* Adds paused queues to the sum. Returns false if answered. */
static bool overview_sum(struct node_tally *tally)
{
    overview_add_paused(tally);
    survey_merge(&tally->sum);
    if (!buffer_failed(&tally->sum.names))
        return true;
    call_answer_error(tally->call, ERROR_NO_MEMORY, "");
    return false;
}

static void overview_finish(struct node_tally *tally)
{
    if (!overview_sum(tally))
        return;
    struct buffer body;
    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_open(&body, "queues", '[');
    for (size_t i = 0; i < tally->sum.row_count; i++) {
        const struct bytes full = survey_name(&tally->sum, &tally->sum.rows[i]);

        overview_append(tally, queue_own_name(caller_tenant(&tally->call->caller), full),
                        &tally->sum.rows[i], &body);
    }
    json_close(&body, ']');
    json_put_flag(&body, "complete", !tally->sum.is_cut);
    json_close(&body, '}');
    call_answer_json(tally->call, 200, &body);
}

void queues_list(struct call *call)
{
    tally_ask(call, SURVEY_QUEUES, (struct bytes){0}, 0, NULL, overview_finish);
}

static void overview_finish_one(struct node_tally *tally)
{
    static const struct survey_row empty = {.oldest = {UINT64_MAX}};

    if (!overview_sum(tally))
        return;
    struct buffer body;
    buffer_init(&body);
    overview_append(tally, tally->call->parameter,
                    tally->sum.row_count ? &tally->sum.rows[0] : &empty, &body);
    call_answer_json(tally->call, 200, &body);
}

void queues_get(struct call *call)
{
    tally_ask(call, SURVEY_QUEUES, call->parameter, 0, NULL, overview_finish_one);
}

/* ---- the next items ---- */

static void overview_peek_finish(struct node_tally *tally)
{
    const struct timer_json_view view = call_view(tally->call);
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_open(&body, "timers", '[');
    size_t count = 0;
    const size_t limit = tally->parts[0].survey.items_max - 1;
    const struct timer *timer = tally_next_item(tally);
    for (; timer && count < limit && (count == 0 || body.size < PEEK_BYTES); count++) {
        timer_json_format(timer, &view, &body);
        timer = tally_next_item(tally);
    }
    for (size_t i = 0; i < tally->part_count; i++)
        tally->sum.is_cut = tally->sum.is_cut || tally->parts[i].survey.is_cut;
    json_close(&body, ']');
    json_put_flag(&body, "more", timer || tally->sum.is_cut);
    json_close(&body, '}');
    call_answer_json(tally->call, 200, &body);
}

static const char *const peek_parameters[] = {"limit"};

static void overview_peek_take(void *context, size_t index, struct bytes value,
                               struct problem *problem)
{
    query_number(peek_parameters[index], value, 1, QUEUE_PEEK_MAX, context, problem);
}

void queues_peek(struct call *call)
{
    static const struct query_form form = {
        peek_parameters, 1, .parameters_max = PEEK_PARAMETERS_MAX, .take = overview_peek_take};
    uint64_t limit = PEEK_DEFAULT;

    if (call_read_query(call, &form, &limit))
        tally_ask(call, SURVEY_ITEMS, call->parameter, limit + 1, NULL, overview_peek_finish);
}
