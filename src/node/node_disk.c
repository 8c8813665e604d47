/* node_disk.c - starts and ends the storage of a node and its threads; see node_disk.h. */
#include "node/node_disk.h"

#include "node/storage_loops.h"
#include "store/wheel/diskwheel.h"
#include "sys/process.h"

/* Bytes on disk for a byte of a timer: in the log, in a run, and in its copy. */
#define DISK_AMPLIFIES 4

bool node_disk_init(struct node_disk *disk, const struct config *config, struct metrics *metrics,
                    struct partition *partitions, const struct node_log *log, struct mailbox *news)
{
    if (mailbox_init(&disk->to_read) != ERROR_NONE)
        return false;
    disk->config = config;
    disk->metrics = metrics;
    disk->partitions = partitions;
    disk->log = log;
    disk->news = news;
    disk->stats.disk_free_bytes = UINT64_MAX;
    pthread_mutex_init(&disk->lock, NULL);
    tenant_pot_init(&disk->room, config->disk_reserve_bytes / DISK_AMPLIFIES,
                    *config->tokens_file ? TENANT_POT_DIVIDED : TENANT_POT_WHOLE);
    return true;
}

void node_disk_deinit(struct node_disk *disk)
{
    storage_close(disk->storage);
    mailbox_deinit(&disk->to_read);
    pthread_mutex_destroy(&disk->lock);
    tenant_pot_deinit(&disk->room);
}

enum error_code node_disk_open(struct node_disk *disk, uint64_t cluster, struct error *ret_error)
{
    const struct config *config = disk->config;
    struct diskwheel_options options = {
        .folder = config->data_folder,
        .partition_count = (uint16_t)config->partitions,
        .cluster = cluster,
        .retain_ms = config->retain_ms,
        .memory_bytes = config->storage_memory_bytes,
    };
    enum error_code code = diskwheel_storage_open(&options, &disk->storage, ret_error);

    if (!code) {
        storage_tend(disk->storage);
        storage_stats(disk->storage, &disk->stats);
    }
    return code;
}

enum error_code node_disk_start(struct node_disk *disk, struct error *ret_error)
{
    if (thread_start(&disk->read_thread, read_loop, disk, "read") == 0)
        return ERROR_NONE;
    return error_set(ret_error, ERROR_IO, "no thread for reads");
}

void node_disk_stop(struct node_disk *disk)
{
    atomic_store(&disk->ends, true);
    mailbox_wake(&disk->to_read);
    pthread_join(disk->read_thread, NULL);
}
