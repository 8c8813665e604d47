/*
 * node_spans.h - the spans of a node for OpenTelemetry: of the wait of a timer, and of each attempt
 * to deliver it. The span of its creation is the API's (api/core/call.c). Does nothing without an
 * otlp_endpoint.
 *
 * Threads    start: the one that starts the node. The rest: that of the shard.
 */
#ifndef TICKWHEEL_NODE_NODE_SPANS_H
#define TICKWHEEL_NODE_NODE_SPANS_H

#include "node/node_state.h"

/* Starts to export, if otlp_endpoint is set. The shards exist. */
enum error_code node_spans_start(struct node *node, struct error *ret_error);

/* Gives the context of its span to a delivery that is handed out. node_spans_begin does it without
 * a test. */
void node_spans_begin(struct node *node, unsigned shard, struct delivery *delivery);

static inline void node_spans_handed(struct node *node, unsigned shard, struct delivery *delivery)
{
    if (node->spans)
        node_spans_begin(node, shard, delivery);
}

/* Exports the span of an attempt that has an outcome; with the first one of a firing that does not
 * repeat, the wait before it as well. node_spans_export does it without a test. */
void node_spans_export(struct node *node, unsigned shard, const struct delivery *delivery);

static inline void node_spans_ended(struct node *node, unsigned shard,
                                    const struct delivery *delivery)
{
    if (node->spans)
        node_spans_export(node, shard, delivery);
}

#endif
