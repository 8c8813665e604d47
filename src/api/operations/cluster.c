/* cluster.c - GET /v1/cluster: the nodes of the cluster and its partitions, as this node sees them.
 * Both lists are bounded: by ROSTER_MAX and by the setting `partitions`. */
#include "api/operations/service.h"

#include "base/json.h"
#include "calendar/rfc3339.h"

#include <inttypes.h>

struct cluster_report {
    struct buffer *out;
    const char *separator;
};

static void cluster_append_text(struct buffer *out, const char *name, struct bytes text)
{
    if (text.size == 0)
        return;
    buffer_printf(out, ",\"%s\":", name);
    json_append_string(out, text);
}

static void cluster_append_flag(struct buffer *out, const char *name, bool is_so)
{
    buffer_printf(out, ",\"%s\":%s", name, is_so ? "true" : "false");
}

static void cluster_append_node(void *context, const struct node_member_view *member)
{
    struct cluster_report *report = context;
    struct buffer *out = report->out;

    buffer_printf(out, "%s{\"node\":%" PRIu32, report->separator, member->node);
    report->separator = ",";
    cluster_append_flag(out, "alive", member->is_alive);
    cluster_append_flag(out, "stopping", member->is_stopping);
    cluster_append_flag(out, "planner", member->is_planner);
    cluster_append_text(out, "address", member->address);
    cluster_append_text(out, "peer_address", member->peer_address);
    cluster_append_text(out, "zone", member->zone);
    if (member->weight)
        buffer_printf(out, ",\"weight\":%u", member->weight);
    buffer_printf(out, ",\"load\":%u.%03u", member->load / 1000, member->load % 1000);
    if (member->seen.ms) {
        char text[RFC3339_TEXT_SIZE];

        rfc3339_format(member->seen, text);
        buffer_printf(out, ",\"seen\":\"%s\"", text);
    }
    buffer_append_text(out, "}");
}

static void cluster_append_partition(struct buffer *out, uint16_t partition,
                                     const struct node_partition_view *view)
{
    buffer_printf(out,
                  "%s{\"partition\":%u,\"state\":\"%s\",\"epoch\":%" PRIu64 ",\"behind\":%" PRIu64,
                  partition ? "," : "", partition, view->state, view->epoch, view->behind);
    if (view->owner)
        buffer_printf(out, ",\"owner\":%" PRIu32, view->owner);
    if (view->planned)
        buffer_printf(out, ",\"planned\":%" PRIu32, view->planned);
    if (view->next)
        buffer_printf(out, ",\"next\":%" PRIu32, view->next);
    buffer_append_text(out, ",\"standbys\":[");
    for (size_t i = 0; i < NODE_STANDBYS_MAX && view->standbys[i]; i++)
        buffer_printf(out, "%s%" PRIu32, i ? "," : "", view->standbys[i]);
    buffer_append_text(out, "]");
    buffer_append_text(out, "}");
}

void cluster_get(struct call *call)
{
    struct node *node = call->api->options.node;
    const struct config *config = call->api->options.config;
    const uint64_t id = node_cluster_id(node);
    struct node_partition_view view;
    struct buffer body;
    struct cluster_report report = {&body, ""};

    buffer_init(&body);
    buffer_append_text(&body, "{");
    if (id) {
        buffer_printf(&body, "\"id\":\"%016" PRIx64 "\",\"name\":", id);
        json_append_string(&body, bytes_of(config->cluster_name));
        buffer_printf(&body, ",\"node\":%" PRIu32 ",", config->cluster_node_id);
    }
    buffer_append_text(&body, "\"nodes\":[");
    node_members(node, cluster_append_node, &report);
    buffer_append_text(&body, "],\"partitions\":[");
    for (uint16_t i = 0; i < node_partition_count(node) && node_partition(node, i, &view); i++)
        cluster_append_partition(&body, i, &view);
    buffer_append_text(&body, "]}");
    call_answer_json(call, 200, &body);
}
