/* node_zones.c - the time zones of the node, and the missing ones that its timers need. */
#include "node/node_zones.h"

#include "node/node_state.h"

static enum error_code node_find_zone(void *context, struct bytes name,
                                      const struct zone **ret_zone)
{
    struct node *node = context;

    return zones_get(node->zones, name, ret_zone, NULL);
}

static bool node_suggest_zone(void *context, struct bytes name,
                              char ret_name[ZONES_SUGGESTION_SIZE])
{
    const struct node *node = context;

    return zones_suggest(node->zones, name, ret_name);
}

static enum error_code node_use_zone(void *context, struct bytes name, const struct zone **ret_zone)
{
    struct node *node = context;

    const enum error_code code = zones_get_used(node->zones, name, ret_zone, NULL);

    if (code == ERROR_INVALID)
        mailbox_wake(&node->report.news); /* so that the missing time zone is logged */
    return code;
}

struct zone_source node_zones(struct node *node)
{
    return (struct zone_source){.find = node_find_zone,
                                .context = node,
                                .generation = zones_generation(node->zones),
                                .suggest = node_suggest_zone};
}

struct zone_source node_zones_used(struct node *node)
{
    return (struct zone_source){
        .find = node_use_zone, .context = node, .generation = zones_generation(node->zones)};
}

void node_refresh_zones(struct node *node)
{
    zones_refresh(node->zones);
}

void node_missing_zones(struct node *node, struct zones_missing *ret_missing)
{
    zones_missing(node->zones, ret_missing);
}
