/* cluster.c - GET /v1/cluster: the nodes of the cluster and its partitions, as this node sees them;
 * and the calls that drain a node. Both lists are bounded: by ROSTER_MAX and by the setting
 * `partitions`. */
#include "api/core/call.h"

#include "base/json_write.h"
#include "base/number.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdlib.h>

static void cluster_append_node(void *context, const struct node_member_view *member)
{
    struct buffer *out = context;

    json_open(out, NULL, '{');
    json_put_number(out, "node", member->node);
    json_put_flag(out, "alive", member->is_alive);
    json_put_flag(out, "stopping", member->is_stopping);
    json_put_flag(out, "drained", member->is_drained);
    json_put_flag(out, "planner", member->is_planner);
    json_put_some(out, "address", member->address);
    json_put_some(out, "peer_address", member->peer_address);
    json_put_some(out, "zone", member->zone);
    if (member->weight)
        json_put_number(out, "weight", member->weight);
    json_put_name(out, "load");
    buffer_printf(out, "%u.%03u", member->load / 1000, member->load % 1000);
    if (member->seen.ms)
        rfc3339_put(out, "seen", member->seen);
    json_close(out, '}');
}

static void cluster_append_partition(struct buffer *out, uint16_t partition,
                                     const struct node_partition_view *view)
{
    json_open(out, NULL, '{');
    json_put_number(out, "partition", partition);
    json_put_text(out, "state", view->state);
    json_put_number(out, "epoch", view->epoch);
    json_put_number(out, "behind", view->behind);
    if (view->owner)
        json_put_number(out, "owner", view->owner);
    if (view->planned)
        json_put_number(out, "planned", view->planned);
    if (view->next)
        json_put_number(out, "next", view->next);
    json_open(out, "standbys", '[');
    for (size_t i = 0; i < NODE_STANDBYS_MAX && view->standbys[i]; i++)
        json_put_number(out, NULL, view->standbys[i]);
    json_close(out, ']');
    json_close(out, '}');
}

void cluster_get(struct call *call)
{
    struct node *node = call->api->options.node;
    const struct config *config = call->api->options.config;
    const uint64_t id = node_cluster_id(node);
    struct node_partition_view view;
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    if (id) {
        json_put_name(&body, "id");
        buffer_printf(&body, "\"%016" PRIx64 "\"", id);
        json_put_text(&body, "name", config->cluster_name);
        json_put_number(&body, "node", config->cluster_node_id);
    }
    json_open(&body, "nodes", '[');
    node_members(node, cluster_append_node, &body);
    json_close(&body, ']');
    json_open(&body, "partitions", '[');
    for (uint16_t i = 0; i < node_partition_count(node) && node_partition(node, i, &view); i++)
        cluster_append_partition(&body, i, &view);
    json_close(&body, ']');
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

/* ---- drains ---- */

struct cluster_drain {
    struct node_hold node;
    struct call *call;
};

/* Returns the number of partitions that the node owns, as far as this node knows. */
static uint64_t cluster_count_owned(struct node *node, uint32_t member)
{
    struct node_partition_view view;
    uint64_t count = 0;

    for (uint16_t i = 0; i < node_partition_count(node) && node_partition(node, i, &view); i++)
        count += view.owner == member;
    return count;
}

static void cluster_answer_drain(struct call *call)
{
    const struct cluster_drain *drain = call->state;
    struct buffer body;

    if (drain->node.result) {
        call_answer_error(call, drain->node.result, drain->node.error.text);
        return;
    }
    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_put_number(&body, "node", drain->node.node);
    json_put_flag(&body, "drained", drain->node.kind == NODE_HOLD_DRAIN);
    json_put_number(&body, "owns", cluster_count_owned(call->api->options.node, drain->node.node));
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

static void cluster_drained(struct node_hold *hold)
{
    call_resume(list_item(hold, struct cluster_drain, node)->call, cluster_answer_drain);
}

static void cluster_change_drain(struct call *call, enum node_hold_kind kind)
{
    uint64_t number;

    if (!number_parse(call->parameter, 10, &number) || number == 0 || number > UINT32_MAX) {
        call_answer_error(call, ERROR_NOT_FOUND, "The number of a node is 1 or more");
        return;
    }
    struct cluster_drain *drain = calloc(1, sizeof(*drain));
    call->state = drain;
    if (!drain) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    drain->call = call;
    drain->node.kind = kind;
    drain->node.at = wall_now();
    drain->node.node = (uint32_t)number;
    drain->node.done = cluster_drained;
    node_hold(call->api->options.node, &drain->node);
}

void cluster_drain(struct call *call)
{
    cluster_change_drain(call, NODE_HOLD_DRAIN);
}

void cluster_undrain(struct call *call)
{
    cluster_change_drain(call, NODE_HOLD_UNDRAIN);
}
