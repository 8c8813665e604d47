/*
 * replay_testing.h - for tests: a storage on disk with its log in the same folder, as in a node
 * without a cluster, written without a replica.
 */
#ifndef TICKWHEEL_CLUSTER_REPLAY_TESTING_H
#define TICKWHEEL_CLUSTER_REPLAY_TESTING_H

#include "cluster/frame.h"
#include "cluster/replay.h"
#include "store/kill_testing.h"

enum { REPLAYS_PARTITIONS_MAX = 8, REPLAYS_SEGMENT_BYTES = 8 << 10 };

struct replays {
    struct diskwheel_options options;
    enum log_files_sync sync;
    bool skips_damage;
    struct storage *storage;
    struct log_local *local;
    uint64_t cluster;
    uint64_t seqs[REPLAYS_PARTITIONS_MAX];
};

/* Opens the log of the storage, or begins one. */
static inline enum error_code replays_open_log(struct replays *replays, struct error *ret_error)
{
    struct log_local_options options = {.home = replays->options.folder,
                                        .partition_count = replays->options.partition_count,
                                        .segment_bytes = REPLAYS_SEGMENT_BYTES,
                                        .sync = replays->sync,
                                        .skips_damage = replays->skips_damage,
                                        .begin = UINT64_MAX};
    struct log_local_stats stats;
    struct storage_place place;

    for (uint16_t p = 0; p < options.partition_count; p++) {
        assert_int_equal(storage_load_place(replays->storage, p, &place, NULL), ERROR_NONE);
        options.begin = place.next < options.begin ? place.next : options.begin;
        options.reached = place.next > options.reached ? place.next : options.reached;
        replays->seqs[p] = place.seq;
    }
    options.begin = options.begin ? options.begin : 1;
    options.has_id = storage_get_log(replays->storage, options.id);
    options.mode = options.has_id ? LOG_FILES_OPEN : LOG_FILES_MAKE;
    const enum error_code code = log_local_open(&options, &replays->local, ret_error);
    if (code)
        return code;
    log_local_get_stats(replays->local, &stats);
    replays->cluster = replay_cluster(stats.id);
    return storage_set_log(replays->storage, stats.id, ret_error);
}

/* Opens a folder as a node does, and applies its log. On failure nothing is open. */
static inline enum error_code replays_try_open(struct replays *replays, struct error *ret_error)
{
    enum error_code code = diskwheel_storage_open(&replays->options, &replays->storage, ret_error);

    if (code)
        return code;
    code = replays_open_log(replays, ret_error);
    if (!code) {
        code =
            replay(replays->local, replays->storage, replays->options.partition_count, ret_error);
        if (code)
            log_local_close(replays->local);
    }
    if (code)
        storage_close(replays->storage);
    return code;
}

static inline void replays_open(struct replays *replays)
{
    struct error error = {.text = ""};

    if (replays_try_open(replays, &error))
        fail_msg("%s", error.text);
}

static inline void replays_close(struct replays *replays)
{
    log_local_close(replays->local);
    storage_close(replays->storage);
}

/* Appends the frame, which gets what every frame of the folder has; log_local_flush makes it
 * durable. */
static inline void replays_append(struct replays *replays, struct frame frame)
{
    struct buffer bytes;

    frame.node = 1;
    frame.epoch = 1;
    frame.incarnation = 1;
    if (frame.kind == FRAME_CLAIM)
        replays->seqs[frame.partition] = 0;
    else
        frame.seq = ++replays->seqs[frame.partition];
    buffer_init(&bytes);
    frame_encode(&frame, replays->cluster, &bytes);
    assert_int_equal(log_append(log_local_partition(replays->local, frame.partition), 1,
                                buffer_bytes(&bytes), NULL),
                     ERROR_NONE);
    buffer_deinit(&bytes);
}

/* Returns the place after the last append of the partition, which must have landed. */
static inline struct storage_place replays_landed(struct replays *replays, uint16_t partition)
{
    struct log *log = log_local_partition(replays->local, partition);
    struct log_event event;

    assert_int_equal(log_wait(log, 0, &event), LOG_LANDED);
    return (struct storage_place){.next = event.offset + 1,
                                  .epoch = 1,
                                  .seq = replays->seqs[partition],
                                  .incarnation = 1,
                                  .node = 1};
}

#endif
