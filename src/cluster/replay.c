/* replay.c - applies a private log to a storage; see replay.h. */
#include "cluster/replay.h"

#include "cluster/frame.h"
#include "log/files/log_home.h"
#include "store/wheel/diskwheel.h"

#include <stdlib.h>

struct replay_partition {
    struct storage_place place;
    struct buffer part; /* frames of a commit whose last frame has not been read */
    uint64_t seq;       /* of the last frame */
    bool has_ended;
};

struct replay {
    struct log_local *local;
    struct storage *storage;
    uint64_t cluster;
    uint16_t partition_count;
    struct replay_partition *partitions;
};

uint64_t replay_cluster(const uint8_t id[LOG_ID_SIZE])
{
    return get_le((const char *)id, 8) | 1; /* 0 is no cluster */
}

enum error_code replay_bounds(struct storage *storage, uint16_t partition_count,
                              uint64_t *ret_begin, uint64_t *ret_reached, struct error *ret_error)
{
    enum error_code code = ERROR_NONE;
    uint64_t begin = UINT64_MAX, reached = 1;

    for (uint16_t i = 0; !code && i < partition_count; i++) {
        struct storage_place place = {0};

        code = storage_load_place(storage, i, &place, ret_error);
        begin = place.next < begin ? place.next : begin;
        reached = place.next > reached ? place.next : reached;
    }
    *ret_begin = begin ? begin : 1;
    *ret_reached = reached;
    return code;
}

static bool replay_has_loss(const struct replay *replay)
{
    struct log_local_stats stats;

    log_local_get_stats(replay->local, &stats);
    return stats.has_loss;
}

static enum error_code replay_frame(struct replay *replay, uint16_t index, uint64_t offset,
                                    const struct frame *frame, struct error *ret_error)
{
    struct replay_partition *partition = &replay->partitions[index];

    /* nothing continues what is before a claim, or before a frame that was lost */
    if (frame->kind == FRAME_CLAIM || frame->seq != partition->seq + 1)
        buffer_clear(&partition->part);
    partition->seq = frame->seq;
    if (frame->kind == FRAME_COMMIT)
        buffer_append_bytes(&partition->part, frame->body);
    else if (frame->kind != FRAME_CLAIM)
        return ERROR_NONE;
    if (buffer_failed(&partition->part))
        return error_set(ret_error, ERROR_NO_MEMORY, "a commit of %zu bytes", frame->body.size);
    if (frame->has_more)
        return ERROR_NONE;
    partition->place.next = offset + 1;
    partition->place.epoch = frame->epoch;
    partition->place.seq = frame->seq;
    partition->place.incarnation = frame->incarnation;
    partition->place.node = frame->node;
    enum error_code code = storage_apply(replay->storage, index, buffer_bytes(&partition->part),
                                         &partition->place, ret_error);
    if (code == ERROR_CORRUPT && replay_has_loss(replay)) /* a frame of the commit is lost */
        code =
            storage_apply(replay->storage, index, (struct bytes){0}, &partition->place, ret_error);
    buffer_clear(&partition->part);
    return code;
}

static enum error_code replay_record(struct replay *replay, uint16_t index,
                                     const struct log_event *event, struct error *ret_error)
{
    struct frame frame;
    enum error_code code = frame_decode(event->bytes, replay->cluster, &frame, ret_error);

    if (!code && frame.partition != index)
        code = error_set(ret_error, ERROR_CORRUPT, "the log has a record of partition %u in %u",
                         frame.partition, index);
    return code ? code : replay_frame(replay, index, event->offset, &frame, ret_error);
}

/* Applies the events of a partition that have come. */
static enum error_code replay_take(struct replay *replay, uint16_t index, struct error *ret_error)
{
    struct replay_partition *partition = &replay->partitions[index];
    struct log *log = log_local_partition(replay->local, index);
    struct log_event event;
    enum error_code code = ERROR_NONE;

    while (!code && !partition->has_ended && log_wait(log, 0, &event) != LOG_NOTHING) {
        if (event.kind == LOG_RECORD)
            code = replay_record(replay, index, &event, ret_error);
        else if (event.kind == LOG_LOST)
            code = error_set(ret_error, ERROR_CORRUPT, "%s", event.reason);
        else
            partition->has_ended = event.kind == LOG_END;
    }
    return code;
}

/* Applies events of each partition in turn, because they share one pass over the files. */
static enum error_code replay_run(struct replay *replay, struct error *ret_error)
{
    enum error_code code = ERROR_NONE;
    bool has_ended = false;

    for (uint16_t i = 0; !code && i < replay->partition_count; i++) {
        struct storage_place *place = &replay->partitions[i].place;

        code = storage_load_place(replay->storage, i, place, ret_error);
        if (!code)
            code = log_follow(log_local_partition(replay->local, i), place->next ? place->next : 1,
                              ret_error);
    }
    while (!code && !has_ended) {
        has_ended = true;
        for (uint16_t i = 0; !code && i < replay->partition_count; i++) {
            code = replay_take(replay, i, ret_error);
            has_ended = has_ended && replay->partitions[i].has_ended;
        }
    }
    for (uint16_t i = 0; i < replay->partition_count; i++)
        log_close(log_local_partition(replay->local, i));
    return code;
}

enum error_code replay(struct log_local *local, struct storage *storage, uint16_t partition_count,
                       struct error *ret_error)
{
    struct log_local_stats stats;
    struct replay replay = {.local = local, .storage = storage, .partition_count = partition_count};

    log_local_get_stats(local, &stats);
    replay.cluster = replay_cluster(stats.id);
    replay.partitions = calloc(partition_count, sizeof(*replay.partitions));
    if (!replay.partitions)
        return error_set(ret_error, ERROR_NO_MEMORY, "replay");
    for (uint16_t i = 0; i < partition_count; i++)
        buffer_init(&replay.partitions[i].part);
    const enum error_code code = replay_run(&replay, ret_error);
    for (uint16_t i = 0; i < partition_count; i++)
        buffer_deinit(&replay.partitions[i].part);
    free(replay.partitions);
    return code;
}

/* ---- a folder at rest ---- */

/* Refuses a log beside tables that name none, such as those of a backup: the log would be
 * ignored. */
static enum error_code replay_refuse_log(const char *name, struct error *ret_error)
{
    struct log_home home;

    log_home_init(&home, name);
    return log_home_check_unused(&home, ret_error);
}

static enum error_code replay_open_log(const char *name, struct replay_folder *folder,
                                       struct error *ret_error)
{
    struct log_local_options options = {
        .home = name, .partition_count = folder->partition_count, .mode = LOG_FILES_READ};
    struct log_local *local;
    struct log_local_stats stats;

    if (folder->cluster)
        return ERROR_NONE;
    options.has_id = storage_get_log(folder->storage, options.id);
    if (!options.has_id)
        return replay_refuse_log(name, ret_error);
    enum error_code code = replay_bounds(folder->storage, folder->partition_count, &options.begin,
                                         &options.reached, ret_error);
    if (!code)
        code = log_local_open(&options, &local, ret_error);
    if (code)
        return code;
    log_local_get_stats(local, &stats);
    folder->torn_logs = stats.torn;
    if (options.begin < stats.end)
        code = replay(local, folder->storage, folder->partition_count, ret_error);
    log_local_close(local);
    return code;
}

enum error_code replay_open_folder(const char *folder, struct replay_folder *ret_folder,
                                   struct error *ret_error)
{
    *ret_folder = (struct replay_folder){.storage = NULL};
    enum error_code code =
        diskwheel_storage_open_to_export(folder, &ret_folder->storage, &ret_folder->partition_count,
                                         &ret_folder->cluster, ret_error);
    if (code)
        return code;
    code = replay_open_log(folder, ret_folder, ret_error);
    if (code) {
        storage_close(ret_folder->storage);
        ret_folder->storage = NULL;
    }
    return code;
}
