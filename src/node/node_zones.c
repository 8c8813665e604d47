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

static void node_lack_calendar(void *context, struct bytes name)
{
    struct node *node = context;

    node_calendars_lack(&node->calendars, name);
    mailbox_wake(&node->report.news); /* so that the missing calendar is logged */
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
    return (struct zone_source){.find = node_use_zone,
                                .context = node,
                                .generation = zones_generation(node->zones),
                                .lacks_calendar = node_lack_calendar};
}

struct calendars *node_calendars(struct node *node)
{
    return calendars_board_take(&node->calendars.board);
}

void node_refresh_zones(struct node *node)
{
    zones_refresh(node->zones);
    node_calendars_age(&node->calendars);
}

enum error_code node_reload_calendars(struct node *node, struct error *ret_error)
{
    return node_calendars_load(&node->calendars, node->config->calendars, ret_error);
}

void node_missing_calendars(struct node *node, struct absent_names *ret_missing)
{
    node_calendars_missing(&node->calendars, ret_missing);
}

void node_missing_zones(struct node *node, struct absent_names *ret_missing)
{
    zones_missing(node->zones, ret_missing);
}
