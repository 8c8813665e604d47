/*
 * broker_list.h - the message brokers that a setting of the daemon names; the verb doctor connects
 * to each.
 *
 *     struct bytes list = bytes_of(config.broker_connections);
 *     for (struct listed_broker broker; broker_list_next(&list, &broker);)
 *         connect to broker.hosts, separated by commas
 *
 * Ownership  Slices live as long as the list.
 * Threads    Any.
 */
#ifndef TICKWHEEL_CLI_BROKER_LIST_H
#define TICKWHEEL_CLI_BROKER_LIST_H

#include "base/bytes.h"

/* A message broker, from NAME=SCHEME://[USER:PASSWORD@]HOST[:PORT][,...][/...] */
struct listed_broker {
    struct bytes name, hosts;
    uint16_t port; /* Default port of the hosts; 0 if the scheme is unknown. */
};

/* Removes the next broker from a list. The list is separated by white space, and may have lines of
 * comment. Skips words that name no broker. Returns false at the end of the list. */
bool broker_list_next(struct bytes *list, struct listed_broker *ret_broker);

#endif
