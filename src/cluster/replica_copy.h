/*
 * replica_copy.h - a replica without rows begins with a copy of another node, before it follows the
 * log:
 *
 *     if (replica_wants_copy(replica, next)) ...           `next` is that of another node
 *     while (... a page comes, and ...)
 *         replica_take_page(replica, &page, now);     the last one ends it: replica_take_rewind
 *     replica_end_copy(replica);                           no page comes: the log has all of them
 *
 * Threads    That of the replica.
 */
#ifndef TICKWHEEL_CLUSTER_REPLICA_COPY_H
#define TICKWHEEL_CLUSTER_REPLICA_COPY_H

#include "cluster/copy.h"
#include "cluster/replica.h"

/* True if it has nothing of a log of which another node has read all before `next`, so that a
 * copy is better than following the log. False after replica_end_copy and the last page. */
bool replica_wants_copy(const struct replica *replica, uint64_t next);

/* True from the first page of a copy to its last one. The log is not followed meanwhile. */
bool replica_is_copying(const struct replica *replica);

/* Takes the next page. Returns false and gives up the copy if it does not follow the pages
 * before, or the storage fails. */
bool replica_take_page(struct replica *replica, const struct copy_page *page, struct instant now);

/* Gives up the copy: drops its pages, and follows the log from its beginning
 * (replica_take_rewind). */
void replica_end_copy(struct replica *replica);

#endif
