/* flows.c - tells which flows have timers that run or wait, and sets limits for all of a flow. */
#include "api/core/call.h"

#include "api/core/tally.h"
#include "api/json/timer_json.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"
#include "timer/flow.h"

#include <stdlib.h>

/* ---- the list ---- */

/* Figures of one flow, whose rows differ by the limits of its timers. */
struct flows_sum {
    struct bytes key, text; /* `text`: that of the timer which is due first; empty if unknown */
    uint64_t running, waiting;
    struct wall oldest;
    bool is_spilled;
};

/* Adds the flows of the tenant that are paused or have limits, of which no timer may wait. */
static void flows_add_named(struct node_tally *tally, const struct target_pauses *pauses,
                            const struct definitions *definitions)
{
    const struct bytes tenant = caller_tenant(&tally->call->caller);

    for (size_t i = 0; i < pauses->count; i++) {
        const struct target_pause *pause = &pauses->rows[i];
        const struct bytes key = target_pause_flow(pause->name);

        if (key.size && bytes_equal(pause->tenant, tenant) &&
            target_pause_is_in_force(pause, wall_now()))
            survey_append(&tally->sum, key);
    }
    size_t count;
    const struct definition *rows = definitions_of(definitions, tenant, DEFINITION_FLOW, &count);
    for (size_t i = 0; i < count; i++)
        survey_append(&tally->sum, definition_name(&rows[i]));
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
                         const struct definitions *definitions, const struct flows_sum *sum,
                         struct buffer *out)
{
    const struct definition *limits = definitions_find(
        definitions, caller_tenant(&tally->call->caller), DEFINITION_FLOW, sum->key);
    struct flow flow;

    json_open(out, NULL, '{');
    if (flow_decode(limits ? limits->value : sum->text, &flow))
        timer_json_put_flow(&flow, out);
    else
        json_put_string(out, "key", sum->key);
    json_put_flag(out, "defined", limits);
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
    struct definitions *definitions = node_definitions(call->api->options.node);
    struct buffer body;

    flows_add_named(tally, pauses, definitions);
    survey_merge(&tally->sum);
    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_open(&body, "flows", '[');
    for (size_t i = 0; i < tally->sum.row_count && !buffer_failed(&tally->sum.names);) {
        struct flows_sum sum;

        i = flows_sum_up(&tally->sum, i, &sum);
        flows_append(tally, pauses, definitions, &sum, &body);
    }
    json_close(&body, ']');
    json_put_flag(&body, "complete", !tally->sum.is_cut);
    json_close(&body, '}');
    body.failed |= buffer_failed(&tally->sum.names);
    definitions_leave(definitions);
    target_pauses_leave(pauses);
    call_answer_json(call, 200, &body);
}

void flows_list(struct call *call)
{
    tally_ask(call, SURVEY_FLOWS, (struct bytes){0}, 0, NULL, flows_finish);
}

/* ---- limits for all ---- */

struct flows_call {
    struct node_hold node;
    struct call *call;
    char key[DEFINITION_KEY_SIZE_MAX];
    struct buffer value;
};

void flows_closed(struct call *call)
{
    struct flows_call *flows = call->state;

    if (flows)
        buffer_deinit(&flows->value);
    free(flows);
}

static void flows_changed(struct call *call)
{
    const struct flows_call *flows = call->state;
    struct buffer body;
    struct flow flow;

    if (flows->node.result) {
        call_answer_error(call, flows->node.result, flows->node.error.text);
        return;
    }
    buffer_init(&body);
    json_open(&body, NULL, '{');
    if (flow_decode(buffer_bytes(&flows->value), &flow))
        timer_json_put_flow(&flow, &body);
    else
        json_put_string(&body, "key", call->parameter);
    if (flows->node.kind == NODE_HOLD_DEFINE)
        json_put_number(&body, "version", flows->node.version);
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

static void flows_set_done(struct node_hold *hold)
{
    call_resume(list_item(hold, struct flows_call, node)->call, flows_changed);
}

/* Prepares a change of the limits of the flow in the path. NULL if answered. */
static struct flows_call *flows_prepare(struct call *call)
{
    if (!definition_name_is_valid(call->parameter)) {
        call_answer_error(call, ERROR_INVALID,
                          "Only a flow whose key is up to 64 of A-Z a-z 0-9 . _ - has limits for "
                          "all of its timers");
        return NULL;
    }
    struct flows_call *flows = calloc(1, sizeof(*flows));
    if (!flows) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return NULL;
    }
    buffer_init(&flows->value);
    flows->call = call;
    flows->node = (struct node_hold){
        .at = wall_now(),
        .definition = {.tenant = caller_tenant(&call->caller),
                       .key = definition_key(DEFINITION_FLOW, call->parameter, flows->key),
                       .version = NODE_ANY_VERSION},
        .done = flows_set_done};
    call->state = flows;
    return flows;
}

void flows_set_begin(struct call *call)
{
    if (flows_prepare(call))
        call_begin_json(call);
}

void flows_set(struct call *call)
{
    struct flows_call *flows = call->state;
    struct problem problem;

    if (timer_json_flow_limits(buffer_bytes(&call->body), call->parameter, &flows->value,
                               &problem)) {
        call_answer_problem(call, &problem);
        return;
    }
    if (buffer_failed(&flows->value)) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    flows->node.kind = NODE_HOLD_DEFINE;
    flows->node.definition.value = buffer_bytes(&flows->value);
    node_hold(call->api->options.node, &flows->node);
}

void flows_remove(struct call *call)
{
    struct flows_call *flows = flows_prepare(call);

    if (!flows)
        return;
    flows->node.kind = NODE_HOLD_UNDEFINE;
    node_hold(call->api->options.node, &flows->node);
}
