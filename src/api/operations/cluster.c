/* cluster.c - GET /v1/cluster: the nodes of the cluster and its partitions, as this node sees them.
 * Both lists are bounded: by ROSTER_MAX and by the setting `partitions`. */
#include "api/core/call.h"

#include "base/json_write.h"
#include "calendar/rfc3339.h"

#include <inttypes.h>

static void cluster_append_node(void *context, const struct node_member_view *member)
{
    struct buffer *out = context;

    json_open(out, NULL, '{');
    json_put_number(out, "node", member->node);
    json_put_flag(out, "alive", member->is_alive);
    json_put_flag(out, "stopping", member->is_stopping);
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
