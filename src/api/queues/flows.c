/* flows.c - tells which flows have timers that run or wait, and which are paused. */
#include "api/core/call.h"

#include "api/core/tally.h"
#include "api/json/timer_json.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"
#include "timer/flow.h"

/* Figures of one flow, whose rows differ by the limits of its timers. */
struct flows_sum {
    struct bytes key, text; /* `text`: that of the timer which is due first; empty if unknown */
    uint64_t running, waiting;
    struct wall oldest;
    bool is_spilled;
};

/* Adds the paused flows of the tenant, of which no timer may wait. */
static void flows_add_paused(struct node_tally *tally, const struct target_pauses *pauses)
{
    const struct bytes tenant = caller_tenant(&tally->call->caller);

    for (size_t i = 0; i < pauses->count; i++) {
        const struct target_pause *pause = &pauses->rows[i];
        const struct bytes key = target_pause_flow(pause->name);

        if (key.size && bytes_equal(pause->tenant, tenant) &&
            target_pause_is_in_force(pause, wall_now()))
            survey_append(&tally->sum, key);
    }
}

/* Sums up the rows of a flow from row `i` on, which are sorted. Returns the row after them. */
static size_t flows_sum_up(const struct survey *sum, size_t i, struct flows_sum *ret_sum)
{
    *ret_sum =
        (struct flows_sum){.key = flow_key(survey_name(sum, &sum->rows[i])), .oldest = WALL_NEVER};
    for (; i < sum->row_count; i++) {
        const struct survey_row *row = &sum->rows[i];
        const struct bytes text = survey_name(sum, row);

        if (!bytes_equal(flow_key(text), ret_sum->key))
            break;
        ret_sum->running += row->taken;
        ret_sum->waiting += row->ready;
        ret_sum->is_spilled = ret_sum->is_spilled || row->is_spilled;
        if (row->oldest.ms < ret_sum->oldest.ms || text.size > ret_sum->key.size)
            ret_sum->text = row->oldest.ms <= ret_sum->oldest.ms ? text : ret_sum->text;
        ret_sum->oldest = wall_min(ret_sum->oldest, row->oldest);
    }
    return i;
}

static void flows_append(const struct node_tally *tally, const struct target_pauses *pauses,
                         const struct flows_sum *sum, struct buffer *out)
{
    struct flow flow;

    json_open(out, NULL, '{');
    if (flow_decode(sum->text, &flow))
        timer_json_put_flow(&flow, out);
    else
        json_put_string(out, "key", sum->key);
    json_put_number(out, "running", sum->running);
    json_put_number(out, "waiting", sum->waiting);
    json_put_flag(out, "more_on_disk", sum->is_spilled);
    if (sum->oldest.ms != WALL_NEVER.ms)
        rfc3339_put(out, "oldest", sum->oldest);
    timer_json_put_pause(
        target_pauses_of_flow(pauses, caller_tenant(&tally->call->caller), sum->key), wall_now(),
        out);
    json_close(out, '}');
}

static void flows_finish(struct node_tally *tally)
{
    struct call *call = tally->call;
    struct target_pauses *pauses = node_pauses(call->api->options.node);
    struct buffer body;

    flows_add_paused(tally, pauses);
    survey_merge(&tally->sum);
    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_open(&body, "flows", '[');
    for (size_t i = 0; i < tally->sum.row_count && !buffer_failed(&tally->sum.names);) {
        struct flows_sum sum;

        i = flows_sum_up(&tally->sum, i, &sum);
        flows_append(tally, pauses, &sum, &body);
    }
    json_close(&body, ']');
    json_put_flag(&body, "complete", !tally->sum.is_cut);
    json_close(&body, '}');
    body.failed |= buffer_failed(&tally->sum.names);
    target_pauses_leave(pauses);
    call_answer_json(call, 200, &body);
}

void flows_list(struct call *call)
{
    tally_ask(call, SURVEY_FLOWS, (struct bytes){0}, 0, NULL, flows_finish);
}
