/* node_disk.c - starts and ends the storage of a node and its threads; see node_disk.h. */
#include "node/node_disk.h"

#include "node/storage_loops.h"
#include "store/rocksdb.h"
#include "sys/process.h"

/* Bytes on disk for a byte of a timer, until its files are compacted. */
#define DISK_AMPLIFIES 4

bool node_disk_init(struct node_disk *disk, const struct config *config, struct metrics *metrics,
                    struct partition *partitions, const struct tenant_pot *inflight,
                    struct mailbox *news)
{
    if (mailbox_init(&disk->to_commit) != ERROR_NONE)
        return false;
    if (mailbox_init(&disk->to_read) != ERROR_NONE) {
        mailbox_deinit(&disk->to_commit);
        return false;
    }
    disk->config = config;
    disk->metrics = metrics;
    disk->partitions = partitions;
    disk->inflight = inflight;
    disk->news = news;
    atomic_init(&disk->commit_ns, UINT64_C(1000000000)); /* until the disk has shown better */
    disk->stats.disk_free_bytes = UINT64_MAX;
    pthread_mutex_init(&disk->commit_lock, NULL);
    pthread_mutex_init(&disk->lock, NULL);
    tenant_pot_init(&disk->room, config->disk_reserve_bytes / DISK_AMPLIFIES,
                    *config->tokens_file ? TENANT_POT_DIVIDED : TENANT_POT_WHOLE);
    return true;
}

void node_disk_deinit(struct node_disk *disk)
{
    storage_close(disk->storage);
    mailbox_deinit(&disk->to_commit);
    mailbox_deinit(&disk->to_read);
    pthread_mutex_destroy(&disk->commit_lock);
    pthread_mutex_destroy(&disk->lock);
    tenant_pot_deinit(&disk->room);
}

enum error_code node_disk_open(struct node_disk *disk, uint64_t cluster, struct error *ret_error)
{
    const struct config *config = disk->config;
    struct rocksdb_options options = {
        .folder = config->data_folder,
        .partition_count = (uint16_t)config->partitions,
        .cluster = cluster,
        .retain_ms = config->retain_ms,
        .cache_bytes = config->storage_cache_bytes,
        .memtable_bytes = config->storage_memtable_bytes,
        .sync = config->storage_sync == CONFIG_STORAGE_SYNC_ALWAYS ? ROCKSDB_SYNC_ALWAYS
                                                                   : ROCKSDB_SYNC_NEVER,
        .damage = config->storage_damage == CONFIG_STORAGE_DAMAGE_SKIP ? ROCKSDB_DAMAGE_SKIP
                                                                       : ROCKSDB_DAMAGE_REFUSE,
    };
    enum error_code code = rocksdb_storage_open(&options, &disk->storage, ret_error);

    if (!code) {
        storage_tend(disk->storage);
        storage_stats(disk->storage, &disk->stats);
    }
    return code;
}

static void node_disk_end(struct node_disk *disk)
{
    atomic_store(&disk->ends, true);
    mailbox_wake(&disk->to_commit);
    mailbox_wake(&disk->to_read);
    pthread_join(disk->commit_thread, NULL);
}

enum error_code node_disk_start(struct node_disk *disk, struct error *ret_error)
{
    if (thread_start(&disk->commit_thread, commit_loop, disk, "commit") != 0)
        return error_set(ret_error, ERROR_IO, "no thread for commits");
    if (thread_start(&disk->read_thread, read_loop, disk, "read") == 0)
        return ERROR_NONE;
    node_disk_end(disk);
    return error_set(ret_error, ERROR_IO, "no thread for reads");
}

void node_disk_stop(struct node_disk *disk)
{
    node_disk_end(disk);
    pthread_join(disk->read_thread, NULL);
}
