/* node_log.c - the log of a node without a cluster; see node_log.h. */
#include "node/node_log.h"

#include "cluster/replay.h"
#include "store/ballast.h"
#include "sys/clock.h"
#include "sys/files.h"

#include <stdio.h>
#include <string.h>

/* Maximum size of a write that a shard makes on its own thread, if recent writes took less than
 * HERE_NS. */
#define HERE_BYTES UINT64_C(65536)
#define HERE_NS    UINT64_C(1000000)
#define HERE_FADES 16

#define SEGMENT_BYTES (UINT64_C(16) << 20) /* size of a file of the log, on a large disk */

/* Writes do not linger below this number of unanswered timers, so a client that sends one at a time
 * waits for one sync. TIMER_BYTES is the approximate size of a timer. */
#define LINGER_INFLIGHT_MIN 128
#define TIMER_BYTES         256

static bool node_log_relieve(void *context)
{
    return storage_relieve(((struct node_log *)context)->storage);
}

static void node_log_told(void *context, uint16_t partition)
{
    const struct node_log *log = context;

    log->told(log->context, partition);
}

static void node_log_note_time(struct node_log *log, uint64_t ns)
{
    const uint64_t before_ns = atomic_load(&log->write_ns);
    const uint64_t faded_ns = before_ns - before_ns / HERE_FADES;

    atomic_store(&log->write_ns, ns > faded_ns ? ns : faded_ns);
}

/* Returns how long a write waits for more appends: 0 unless many unanswered requests have brought
 * few bytes. */
static uint64_t node_log_linger_ns(void *context, uint64_t bytes)
{
    const struct node_log *log = context;
    const uint64_t inflight = atomic_load(&log->inflight->held);

    return inflight >= LINGER_INFLIGHT_MIN && bytes / TIMER_BYTES < inflight / 2
               ? log->config->commit_linger_ms * 1000000
               : 0;
}

static void node_log_written(void *context, uint64_t bytes, uint64_t ns)
{
    struct node_log *log = context;

    node_log_note_time(log, ns);
    log->written(log->context, bytes, ns);
}

/* ---- opening ---- */

/* Moves the places of partitions without later records to the begin of a new log. */
static enum error_code node_log_move_places(const struct node_log *log, uint64_t begin,
                                            struct error *ret_error)
{
    enum error_code code = ERROR_NONE;

    for (uint16_t i = 0; !code && i < log->config->partitions; i++) {
        struct storage_place place;

        code = storage_load_place(log->storage, i, &place, ret_error);
        if (code || place.next >= begin)
            continue;
        place.next = begin;
        code = storage_apply(log->storage, i, (struct bytes){0}, &place, ret_error);
    }
    return code;
}

static enum error_code node_log_adopt(struct node_log *log, struct error *ret_error)
{
    struct log_local_stats stats;
    uint8_t id[LOG_ID_SIZE];

    log_local_get_stats(log->local, &stats);
    log->cluster = replay_cluster(stats.id);
    if (storage_get_log(log->storage, id) && memcmp(id, stats.id, sizeof(id)) == 0)
        return ERROR_NONE;
    return storage_set_log(log->storage, stats.id, ret_error);
}

/* Returns the size of the log's files that fits the disk. */
static uint64_t node_log_segment_bytes(const struct node_log *log)
{
    const struct ballast_sizes wanted = {.segment_bytes = SEGMENT_BYTES};
    uint64_t disk_bytes = UINT64_MAX;

    files_disk_bytes(log->config->data_folder, &disk_bytes, NULL);
    return ballast_fit(wanted, disk_bytes).segment_bytes;
}

static struct log_local_options node_log_options(struct node_log *log)
{
    const struct config *config = log->config;
    struct log_local_options options = {
        .home = config->data_folder,
        .partition_count = (uint16_t)config->partitions,
        .segment_bytes = node_log_segment_bytes(log),
        .sync = config->storage_sync == CONFIG_STORAGE_SYNC_ALWAYS ? LOG_FILES_SYNC_ALWAYS
                                                                   : LOG_FILES_SYNC_NEVER,
        .skips_damage = config->storage_damage == CONFIG_STORAGE_DAMAGE_SKIP,
        .mode = LOG_FILES_OPEN,
        .relieve = node_log_relieve,
        .told = node_log_told,
        .linger_ns = node_log_linger_ns,
        .written = node_log_written,
        .context = log,
    };

    options.has_id = storage_get_log(log->storage, options.id);
    return options;
}

/* Creates a log that begins after all records that the tables contain. The last step stores its id,
 * which makes it the folder's log: a start that was killed earlier repeats all steps. */
static enum error_code node_log_make(struct node_log *log, uint64_t begin, bool replaces,
                                     struct error *ret_error)
{
    struct log_local_options options = node_log_options(log);

    options.mode = LOG_FILES_MAKE;
    options.replaces = replaces;
    options.has_id = false;
    options.begin = begin;
    enum error_code code = log_local_open(&options, &log->local, ret_error);
    if (!code)
        code = node_log_move_places(log, begin, ret_error);
    if (!code)
        code = storage_flush(log->storage, ret_error);
    return code ? code : node_log_adopt(log, ret_error);
}

/* Applies the intact records of a damaged log. If some are missing, replaces the log by a new one,
 * so that the next start finds no damage. Damage is found only by reading the whole log. */
static enum error_code node_log_skip_damage(struct node_log *log, struct error *ret_error)
{
    struct log_local_stats stats;
    uint64_t begin = 0, reached = 0;
    enum error_code code =
        replay(log->local, log->storage, (uint16_t)log->config->partitions, ret_error);

    log_local_get_stats(log->local, &stats);
    if (code || !stats.has_loss)
        return code ? code : node_log_adopt(log, ret_error);
    /* what the storage has from the log is in its files before the log goes */
    if ((code = storage_flush(log->storage, ret_error)))
        return code;
    log->loss = stats.loss;
    log->lost = stats.lost;
    log_local_close(log->local);
    log->local = NULL;
    if ((code = replay_bounds(log->storage, (uint16_t)log->config->partitions, &begin, &reached,
                              ret_error)))
        return code;
    return node_log_make(log, reached > stats.end ? reached : stats.end, true, ret_error);
}

enum error_code node_log_open(struct node_log *log, struct error *ret_error)
{
    struct log_local_options options = node_log_options(log);
    struct log_local_stats stats;
    enum error_code code = replay_bounds(log->storage, options.partition_count, &options.begin,
                                         &options.reached, ret_error);

    /* assumed until writes have shown that the disk is quicker */
    atomic_store(&log->write_ns, UINT64_C(1000000000));
    if (code)
        return code;
    if (!options.has_id)
        return node_log_make(log, options.reached, false, ret_error);
    code = log_local_open(&options, &log->local, ret_error);
    if (code)
        return code;
    log_local_get_stats(log->local, &stats);
    log->torn = stats.torn;
    return options.skips_damage ? node_log_skip_damage(log, ret_error)
                                : node_log_adopt(log, ret_error);
}

enum error_code node_log_start(struct node_log *log, struct error *ret_error)
{
    return log->local ? log_local_start(log->local, ret_error) : ERROR_NONE;
}

void node_log_stop(struct node_log *log)
{
    if (log->local)
        log_local_stop(log->local);
}

void node_log_close(struct node_log *log)
{
    log_local_close(log->local);
    log->local = NULL;
}

/* ---- use ---- */

void node_log_add_stats(const struct node_log *log, struct storage_stats *stats)
{
    struct log_local_stats files;

    if (!log->local)
        return;
    log_local_get_stats(log->local, &files);
    stats->disk_bytes += files.reserved;
    stats->torn_logs = log->torn;
    stats->lost_writes = log->lost;
    if (*stats->found)
        return;
    if (*log->loss.text && log->lost)
        snprintf(stats->found, sizeof(stats->found), "%.180s; at least %llu changes are lost",
                 log->loss.text, (unsigned long long)log->lost);
    else if (*log->loss.text)
        snprintf(stats->found, sizeof(stats->found), "%s", log->loss.text);
    else if (log->torn)
        snprintf(stats->found, sizeof(stats->found),
                 "the log ended within a write that was not acknowledged");
}

void node_log_send(struct node_log *log, bool is_quiet)
{
    uint64_t count, bytes;

    log_local_pending(log->local, &count, &bytes);
    if (!count)
        return;
    if (!is_quiet || bytes > HERE_BYTES || atomic_load(&log->write_ns) > HERE_NS)
        log_local_kick(log->local);
    else
        log_local_flush(log->local);
}
