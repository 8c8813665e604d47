/*
 * The read thread finds and scans for all shards, and looks after the disk: at most once a second,
 * and seldom while nothing is written and nothing asks for the node's health. It also takes the
 * samples of the node's figures.
 */
#include "node/storage_loops.h"

#include "node/node_disk.h"
#include "node/partition.h"
#include "node/storage_health.h"
#include "sys/clock.h"

#include <string.h>

#define READS_POSTED_MAX 64 /* maximum of finds whose results are posted together */

#define SECOND_NS    UINT64_C(1000000000)
#define IDLE_LOOK_NS (5 * SECOND_NS)
#define LOOK_BYTES   (UINT64_C(4) << 20)

void storage_look(struct node_disk *disk)
{
    struct instant looked = {atomic_load(&disk->looked_ns)};

    if (instant_since_ns(looked, instant_now()) >= SECOND_NS &&
        !atomic_exchange(&disk->wants_look, true))
        mailbox_wake(&disk->to_read);
}

/* Checks the disk after each LOOK_BYTES, because a disk can fill within a second. */
static void storage_look_after(struct node_disk *disk, size_t bytes)
{
    const uint64_t before = atomic_fetch_add(&disk->unlooked_bytes, bytes);

    if (before < LOOK_BYTES && before + bytes >= LOOK_BYTES)
        mailbox_wake(&disk->to_read);
    storage_look(disk);
}

void storage_written(struct node_disk *disk, uint64_t bytes, uint64_t ns)
{
    metrics_observe_us(disk->metrics, HISTOGRAM_COMMIT, ns / 1000);
    storage_look_after(disk, bytes);
}

void storage_committed(struct node_disk *disk, enum error_code result, size_t write_count)
{
    atomic_store(&disk->is_failing, result != ERROR_NONE);
    if (!result) {
        metrics_add(disk->metrics, METRIC_COMMIT_WRITES, write_count);
        return;
    }
    if (result == ERROR_DISK_FULL)
        storage_look_after(disk, LOOK_BYTES);
}

static uint16_t storage_loops_read_partition(struct list *message)
{
    return engine_read_partition(list_item(message, struct engine_read, link));
}

static void storage_loops_post_reads(struct node_disk *disk, struct list *reads)
{
    partition_post_all(disk->partitions, PARTITION_READS, reads, storage_loops_read_partition);
}

/* The time for which tenants used the read thread is kept in slots, by the tenants' keys, and
 * halved in this interval. */
#define READ_SLOTS    256
#define READ_FADES_NS SECOND_NS

/* Reads that wait for the read thread. Tenants take turns at finds. Of the scans, that of the
 * tenant that used the thread least in the last seconds is first. So a tenant that rarely scans
 * does not wait for one that always does. */
struct read_queue {
    struct turns finds;    /* finds and look-ups */
    struct list own_scans; /* scans of the engines, not of a tenant */
    struct turns scans;    /* scans for tenants */
    uint64_t used_ns[READ_SLOTS];
    struct instant faded_at;
};

static void read_queue_init(struct read_queue *queue)
{
    *queue = (struct read_queue){.faded_at = instant_now()};
    turns_init(&queue->finds);
    list_init(&queue->own_scans);
    turns_init(&queue->scans);
}

static void read_queue_add(struct read_queue *queue, struct engine_read *read)
{
    if (read->kind != ENGINE_READ_SCAN)
        turns_push(&queue->finds, &read->turn, read->tenant);
    else if (read->tenant)
        turns_push(&queue->scans, &read->turn, read->tenant);
    else
        list_push(&queue->own_scans, &read->link);
}

static bool read_queue_is_empty(const struct read_queue *queue)
{
    return turns_is_empty(&queue->finds) && list_is_empty(&queue->own_scans) &&
           turns_is_empty(&queue->scans);
}

static struct engine_read *storage_loops_read_of(struct turn_link *turn)
{
    return turn ? list_item(turn, struct engine_read, turn) : NULL;
}

/* Returns the scan of the tenant that is next; NULL if there is none. */
static struct engine_read *read_queue_take_scan(struct read_queue *queue)
{
    struct turn_link *next = NULL;

    LIST_FOR_EACH (&queue->scans.firsts, link) {
        struct turn_link *turn = list_item(link, struct turn_link, link);

        if (!next ||
            queue->used_ns[turn->key % READ_SLOTS] < queue->used_ns[next->key % READ_SLOTS])
            next = turn;
    }
    if (next)
        turns_remove(&queue->scans, next);
    return storage_loops_read_of(next);
}

/* Adds the duration of a scan to the tenant's time. */
static void read_queue_count(struct read_queue *queue, uint64_t tenant, struct instant began)
{
    const struct instant now = instant_now();

    queue->used_ns[tenant % READ_SLOTS] += instant_since_ns(began, now);
    if (instant_since_ns(queue->faded_at, now) < READ_FADES_NS)
        return;
    queue->faded_at = now;
    for (size_t i = 0; i < READ_SLOTS; i++)
        queue->used_ns[i] /= 2;
}

/* Performs a read, unless a write is in doubt. One that must be repeated goes back to the queue,
 * so that others may precede it. */
static void storage_loops_read_perform(struct node_disk *disk, struct read_queue *queue,
                                       struct engine_read *read, struct list *done)
{
    if (disk->log->local && log_local_is_in_doubt(disk->log->local)) {
        /* after a crash its timers may be there, so nobody is told that they are not */
        read->result =
            error_set(&read->error, ERROR_IO, "%s has a write that may be on the disk or not",
                      disk->config->data_folder);
    } else {
        engine_read_perform(read, disk->storage);
    }
    if (engine_read_is_repeated(read)) {
        read_queue_add(queue, read);
        return;
    }
    if (read->result == ERROR_IO) {
        storage_health_note(disk, &read->error);
        storage_health_read_failed(disk);
    }
    list_init(&read->link);
    list_push(done, &read->link);
}

/* Performs finds together, because each takes microseconds, less than a wake-up of the shard.
 * Scans take longer: after some finds it performs at most one scan of the engines and one of a
 * tenant. */
static void storage_loops_read_some(struct node_disk *disk, struct read_queue *queue)
{
    struct list done, *link;

    list_init(&done);
    for (int i = 0; i < READS_POSTED_MAX && !turns_is_empty(&queue->finds); i++)
        storage_loops_read_perform(disk, queue, storage_loops_read_of(turns_pop(&queue->finds)),
                                   &done);
    storage_loops_post_reads(disk, &done);
    if ((link = list_pop(&queue->own_scans)))
        storage_loops_read_perform(disk, queue, list_item(link, struct engine_read, link), &done);
    const struct instant began = instant_now();
    struct engine_read *scan = read_queue_take_scan(queue);
    if (scan) {
        const uint64_t tenant = scan->tenant;

        storage_loops_read_perform(disk, queue, scan, &done);
        read_queue_count(queue, tenant, began);
    }
    storage_loops_post_reads(disk, &done);
}

void storage_look_at_room(struct node_disk *disk)
{
    struct storage_stats stats;

    atomic_store(&disk->unlooked_bytes, 0);
    storage_tend(disk->storage);
    storage_stats(disk->storage, &stats);
    node_log_add_stats(disk->log, &stats);
    if (stats.disk_floor_bytes < disk->config->disk_reserve_bytes)
        stats.disk_floor_bytes = disk->config->disk_reserve_bytes;
    const bool is_full = stats.disk_free_bytes < stats.disk_floor_bytes;
    const bool is_scarce =
        stats.disk_free_bytes < stats.disk_floor_bytes + disk->config->disk_reserve_bytes;
    bool is_news = atomic_exchange(&disk->is_full, is_full) != is_full;
    if (atomic_exchange(&disk->is_scarce, is_scarce) && !is_scarce)
        tenant_pot_empty(&disk->room);
    atomic_store(&disk->is_lost, stats.is_lost);
    if (stats.is_lost) {
        struct error error;

        error_set(&error, ERROR_IO, "%s was removed or replaced", disk->config->data_folder);
        storage_health_note(disk, &error);
    }
    pthread_mutex_lock(&disk->lock);
    is_news = is_news || stats.is_lost != disk->stats.is_lost ||
              strcmp(stats.found, disk->stats.found) != 0;
    disk->stats = stats;
    pthread_mutex_unlock(&disk->lock);
    if (is_news)
        mailbox_wake(disk->news);
}

static void storage_loops_look_after_disk(struct node_disk *disk)
{
    storage_look_at_room(disk);
    storage_health_look(disk);
}

/* Returns the interval of checks of the disk. While writes are refused only these checks find
 * that the disk works again. In a cluster they never stop, because other nodes wait for a node
 * whose disk is dead. */
static uint64_t storage_loops_look_interval_ns(struct node_disk *disk)
{
    bool is_in_trouble = atomic_load(&disk->is_lost) || atomic_load(&disk->is_full) ||
                         atomic_load(&disk->is_failing) || atomic_load(&disk->health.since_ns);

    return is_in_trouble || config_is_cluster(disk->config) ? SECOND_NS : IDLE_LOOK_NS;
}

/* Checks the disk if it is time. Returns how long it is until the next check. */
static uint64_t storage_loops_look_when_due(struct node_disk *disk)
{
    struct instant now = instant_now(), looked = {atomic_load(&disk->looked_ns)};
    uint64_t since_ns = instant_since_ns(looked, now);

    if (atomic_exchange(&disk->wants_look, false) ||
        since_ns >= storage_loops_look_interval_ns(disk)) {
        storage_loops_look_after_disk(disk);
        atomic_store(&disk->looked_ns, now.ns);
        since_ns = 0;
    } else if (atomic_load(&disk->unlooked_bytes) >= LOOK_BYTES) {
        storage_look_at_room(disk);
    }
    uint64_t interval_ns = storage_loops_look_interval_ns(disk);
    return since_ns < interval_ns ? interval_ns - since_ns : 0;
}

void *read_loop(void *argument)
{
    struct node_disk *disk = argument;
    struct read_queue queue;

    read_queue_init(&queue);
    atomic_store(&disk->wants_look, true);
    for (;;) {
        uint64_t wait_ns = storage_loops_look_when_due(disk);
        const uint64_t sample_ns = disk->sample ? disk->sample(disk->sample_context) : UINT64_MAX;
        wait_ns = sample_ns < wait_ns ? sample_ns : wait_ns;
        struct list come, *link;
        list_init(&come);
        mailbox_take(&disk->to_read, &come);
        while ((link = list_pop(&come)))
            read_queue_add(&queue, list_item(link, struct engine_read, link));
        if (read_queue_is_empty(&queue)) {
            if (atomic_load(&disk->ends))
                return NULL;
            mailbox_wait(&disk->to_read, wait_ns);
        }
        storage_loops_read_some(disk, &queue);
    }
}
