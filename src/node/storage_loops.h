/*
 * storage_loops.h - the read thread, which all shards share; and what commits tell the part of the
 * node that looks after the disk.
 *
 * Threads    Any, unless a function names its thread.
 */
#ifndef TICKWHEEL_NODE_STORAGE_LOOPS_H
#define TICKWHEEL_NODE_STORAGE_LOOPS_H

#include "store/storage.h"

struct node_disk;

void *read_loop(void *disk);

/* Notes a write into the log of the node. */
void storage_written(struct node_disk *disk, uint64_t bytes, uint64_t ns);

/* Notes the result of a commit, in a node without a cluster. */
void storage_committed(struct node_disk *disk, enum error_code result, size_t write_count);

/* Asks the read thread to check the disk, at most once a second. */
void storage_look(struct node_disk *disk);

/* Updates what the node knows of the free disk. From the read thread, or before it starts. */
void storage_look_at_room(struct node_disk *disk);

#endif
