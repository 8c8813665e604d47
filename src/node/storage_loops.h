/*
 * storage_loops.h - the commit thread and the read thread, which all shards share. The commit
 * thread takes the batches of all shards that wait, and syncs once for all of them.
 *
 * Threads    Any, unless a function names its thread.
 */
#ifndef TICKWHEEL_NODE_STORAGE_LOOPS_H
#define TICKWHEEL_NODE_STORAGE_LOOPS_H

#include "store/storage.h"

struct node_disk;

void *commit_loop(void *disk);

/* Commits small batches on the thread of a shard if the disk is quick and no commit runs.
 * Returns false if the commit thread must do it. */
bool commit_here(struct node_disk *disk, struct list *batches);

void *read_loop(void *disk);

#define STORAGE_GROUP_MAX 1024 /* maximum of batches in one commit */
/* number of writes from which a commit takes only small batches */
#define STORAGE_GROUP_WRITES_MAX 1024

/* Batches of one commit. */
struct storage_group {
    struct storage_batch *batches[STORAGE_GROUP_MAX];
    size_t count, write_count;
};

/* Moves waiting batches into the group: the oldest until it has enough writes, then all small
 * ones. So a single request waits for a bounded part of a large batch. Batches of one partition
 * keep their order. */
void storage_gather(struct storage_group *group, struct list *waiting);

/* Asks the read thread to check the disk, at most once a second. */
void storage_look(struct node_disk *disk);

#endif
