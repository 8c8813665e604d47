/* rocksdb_log.c - the log, and the tables that follow it.
 *
 * A commit is durable as soon as the log has it. RocksDB has no log of its own: each write into its
 * tables brings the mark, which says how far of the log they hold, and all tables are written to
 * files together. So the files that a crash leaves hold the log up to their mark, and a start
 * applies the records behind it. */
#include "log/files/log_files.h"
#include "base/checksum.h"
#include "store/rowop.h"
#include "store/rocksdb_store.h"
#include "sys/disk.h"
#include "sys/files.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    APPLY_BYTES = 1 << 20, /* size of the log's records in one write of a start */
    SEGMENTS_KEPT = 8,     /* about as many as a flush of the tables frees */
    TIER_PERSISTED = 2,    /* kPersistedTier: without the memtables */
    REACHED_SIZE = 36,
};

#define REACHED_MARK BYTES("tickreac")

/* ---- the mark ---- */

/* All zero if there is none. */
static enum error_code rocksdb_log_load_mark(struct rocksdb_store *store,
                                             const rocksdb_readoptions_t *options,
                                             struct record_mark *ret_mark, struct error *ret_error)
{
    struct buffer value;

    buffer_init(&value);
    enum error_code code =
        store_get(store, STORE_META, options, STORE_KEY_APPLIED, &value, ret_error);
    if (!code)
        code = record_mark_decode(buffer_bytes(&value), ret_mark, ret_error);
    else if (code == ERROR_NOT_FOUND) {
        *ret_mark = (struct record_mark){0};
        code = ERROR_NONE;
    }
    buffer_deinit(&value);
    return code;
}

/* Reads the mark in the files of the tables. */
static enum error_code rocksdb_log_load_persisted(struct rocksdb_store *store,
                                                  struct record_mark *ret_mark,
                                                  struct error *ret_error)
{
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();

    rocksdb_readoptions_set_read_tier(options, TIER_PERSISTED);
    const enum error_code code = rocksdb_log_load_mark(store, options, ret_mark, ret_error);
    rocksdb_readoptions_destroy(options);
    return code;
}

/* ---- what the log may drop ---- */

void store_log_trim(struct rocksdb_store *store)
{
    struct record_mark mark = {0};

    pthread_rwlock_rdlock(&store->open_lock);
    if (store->db)
        rocksdb_log_load_persisted(store, &mark, NULL);
    pthread_rwlock_unlock(&store->open_lock);
    /* Keeps the record of the mark, which shows a start that this log belongs to the tables. The
     * call also makes a spare file, with which a failed append on a full disk can be ended. */
    log_files_trim(store->log, mark.offset, NULL);
}

/* ---- how far the log had come ---- */

/* Encodes REACHED, which is written in place and not synced after each append. So it never says
 * more than the log has, and after the end of a process exactly that. It is outside of the log's
 * folder, so an older copy of the log does not include it. A damaged file says nothing. */

static void rocksdb_log_encode_reached(const struct rocksdb_store *store, uint64_t end,
                                       char to[REACHED_SIZE])
{
    memcpy(to, REACHED_MARK.data, 8);
    memcpy(to + 8, store->identity.log_id, LOG_ID_SIZE);
    put_le(to + 24, end, 8);
    put_le(to + 32, checksum_crc32c(0, to, 32), 4);
}

static enum error_code rocksdb_log_reached_path(const struct rocksdb_store *store,
                                                char ret_path[PATH_MAX], struct error *ret_error)
{
    if ((size_t)snprintf(ret_path, PATH_MAX, "%s/" FOLDER_REACHED_NAME, store->home) >= PATH_MAX)
        return error_set(ret_error, ERROR_IO, "a path of %zu bytes", strlen(store->home));
    return ERROR_NONE;
}

/* Reads the offset that this folder's log had reached; 0 if unknown. */
static uint64_t rocksdb_log_read_reached(const struct rocksdb_store *store)
{
    char path[PATH_MAX];
    struct buffer text;
    uint64_t end = 0;

    if (!store->identity.has_log || rocksdb_log_reached_path(store, path, NULL))
        return 0;
    buffer_init(&text);
    if (!files_read(path, REACHED_SIZE, &text, NULL) && text.size == REACHED_SIZE &&
        bytes_has_prefix(buffer_bytes(&text), REACHED_MARK) &&
        get_le(text.data + 32, 4) == checksum_crc32c(0, text.data, 32) &&
        memcmp(text.data + 8, store->identity.log_id, LOG_ID_SIZE) == 0)
        end = get_le(text.data + 24, 8);
    buffer_deinit(&text);
    return end;
}

static void rocksdb_log_write_reached(struct rocksdb_store *store, uint64_t end)
{
    char text[REACHED_SIZE];

    if (store->reached < 0)
        return;
    rocksdb_log_encode_reached(store, end, text);
    disk_system()->write(disk_system(), store->reached, 0, (struct bytes){text, sizeof(text)});
}

/* Opens REACHED, in place if it exists, because a full disk has no room for another one. Without
 * it the next start knows less. */
static void rocksdb_log_open_reached(struct rocksdb_store *store, uint64_t end)
{
    const struct disk_calls *disk = disk_system();
    char path[PATH_MAX], text[REACHED_SIZE];
    uint64_t size = 0;

    if (store->reached >= 0)
        disk->close(disk, store->reached);
    store->reached = -1;
    if (rocksdb_log_reached_path(store, path, NULL))
        return;
    rocksdb_log_encode_reached(store, end, text);
    for (int tries = 0; tries < 2 && store->reached < 0; tries++) {
        if (tries > 0 && files_write(path, (struct bytes){text, sizeof(text)}, NULL))
            return;
        if (disk->open(disk, path, DISK_WRITE, &store->reached))
            store->reached = -1;
        else if (disk->size(disk, store->reached, &size) || size != REACHED_SIZE) {
            disk->close(disk, store->reached);
            store->reached = -1;
        }
    }
    rocksdb_log_write_reached(store, end);
}

/* Makes the open log the log of this folder. A folder of an older version continues without
 * FOLDER if that cannot be written. */
static enum error_code rocksdb_log_adopt(struct rocksdb_store *store, struct error *ret_error)
{
    const struct folder_identity before = store->identity;
    struct log_files_stats stats;

    log_files_get_stats(store->log, &stats);
    store->identity.is_known = store->identity.has_log = true;
    memcpy(store->identity.log_id, stats.id, sizeof(stats.id));
    /* A log without records does not know its own begin. */
    rocksdb_log_open_reached(store, stats.end > stats.first ? stats.end : 0);
    if (before.has_log && memcmp(before.log_id, stats.id, sizeof(stats.id)) == 0)
        return ERROR_NONE;
    const enum error_code code = folder_write_identity(store->home, &store->identity, ret_error);
    return before.has_log ? code : ERROR_NONE;
}

/* ---- a start ---- */

struct log_replay {
    struct rocksdb_store *store;
    struct record_mark found; /* mark of the tables */
    struct record_mark added; /* mark of the write being gathered */
    size_t bytes;             /* in it */
};

static enum error_code rocksdb_log_replay_one(void *context, const struct log_record *record,
                                              struct error *ret_error)
{
    struct log_replay *replay = context;
    struct rocksdb_store *store = replay->store;
    const struct record_mark mark = store_apply_mark_of(record);

    if (mark.offset <= replay->found.offset)
        return mark.offset < replay->found.offset || mark.sum == replay->found.sum
                   ? ERROR_NONE
                   : error_set(ret_error, ERROR_CORRUPT,
                               "%s/" FOLDER_LOG_NAME " is not the log of these tables; restore a "
                               "backup",
                               store->home);
    if (store->is_reader && !store->has_shadow) {
        store->faults |= STORE_BEHIND;
        return ERROR_NONE;
    }
    enum error_code code = store_apply_add(store, record, ret_error);
    replay->added = mark;
    replay->bytes += record->body.size;
    if (!code && replay->bytes >= APPLY_BYTES) {
        code = store_apply_write(store, mark, ret_error);
        replay->bytes = 0;
    }
    return code;
}

/* Applies the log's records after the mark. A log that was begun after the tables, as for a
 * backup, lacks the record of their mark. */
static enum error_code rocksdb_log_replay(struct rocksdb_store *store, struct record_mark mark,
                                          struct error *ret_error)
{
    struct log_replay replay = {.store = store, .found = mark};
    const uint64_t from = log_files_first(store->log) > mark.offset ? mark.offset + 1 : mark.offset;

    rocksdb_writebatch_clear(store->batch);
    enum error_code code =
        log_files_read(store->log, from ? from : 1, rocksdb_log_replay_one, &replay, ret_error);
    if (!code && replay.bytes)
        code = store_apply_write(store, replay.added, ret_error);
    rocksdb_writebatch_clear(store->batch);
    return code;
}

static enum error_code rocksdb_log_path(const struct rocksdb_store *store, char ret_path[PATH_MAX],
                                        struct error *ret_error)
{
    if ((size_t)snprintf(ret_path, PATH_MAX, "%s/" FOLDER_LOG_NAME, store->home) >= PATH_MAX)
        return error_set(ret_error, ERROR_IO, "a path of %zu bytes", strlen(store->home));
    return ERROR_NONE;
}

/* `ret_error` may be `cause`. */
static enum error_code rocksdb_log_refuse(const struct error *cause, struct error *ret_error)
{
    const struct error copy = *cause;

    return error_set(ret_error, ERROR_CORRUPT,
                     "%.150s; restore a backup, or set storage_damage = skip to start without what "
                     "it cost",
                     copy.text);
}

static enum error_code rocksdb_log_open(struct rocksdb_store *store, enum log_files_mode mode,
                                        uint64_t begin, struct error *ret_error)
{
    char path[PATH_MAX];
    enum error_code code = rocksdb_log_path(store, path, ret_error);
    struct log_files_options options = {
        .folder = path,
        .segment_bytes = store->options.segment_bytes,
        .segments_kept = SEGMENTS_KEPT,
        .begin = begin,
        .id = mode != LOG_FILES_MAKE && store->identity.has_log ? store->identity.log_id : NULL,
        .reached = mode != LOG_FILES_MAKE ? rocksdb_log_read_reached(store) : 0,
        .mode = mode,
        .sync = store->options.sync == ROCKSDB_SYNC_ALWAYS ? LOG_FILES_SYNC_ALWAYS
                                                           : LOG_FILES_SYNC_NEVER,
    };
    if (code)
        return code;
    struct folder_state *state = &store->folder_state;
    struct error cause = {.text = ""};
    if (state->has_loss && store->options.damage == ROCKSDB_DAMAGE_SKIP)
        options.damage = LOG_FILES_DAMAGE_SKIP;
    code = log_files_open(&options, &store->log, &cause);
    if (code == ERROR_CORRUPT && store->options.damage == ROCKSDB_DAMAGE_SKIP) {
        options.damage = LOG_FILES_DAMAGE_SKIP;
        state->has_loss = true;
        state->loss = cause;
        code = log_files_open(&options, &store->log, &cause);
    } else if (code == ERROR_CORRUPT) {
        return rocksdb_log_refuse(&cause, ret_error);
    }
    if (code) {
        if (ret_error)
            *ret_error = cause;
        return code;
    }
    struct log_files_stats stats;
    log_files_get_stats(store->log, &stats);
    state->torn_count += stats.torn;
    return ERROR_NONE;
}

enum error_code store_log_make(struct rocksdb_store *store, uint64_t begin, struct error *ret_error)
{
    char path[PATH_MAX];
    enum error_code code = rocksdb_log_path(store, path, ret_error);

    if (code)
        return code;
    files_remove_folder(path); /* left by a start that was killed before the tables knew it */
    const enum error_code made = rocksdb_log_open(store, LOG_FILES_MAKE, begin, ret_error);
    return made ? made : rocksdb_log_adopt(store, ret_error);
}

/* True if a log has records. One that cannot be opened counts as unfinished. */
static bool rocksdb_log_is_used(const char *path)
{
    const struct log_files_options options = {.folder = path, .mode = LOG_FILES_READ};
    struct log_files *log;

    if (!files_exists(path) || log_files_open(&options, &log, NULL))
        return false;
    const bool is_used = log_files_end(log) > log_files_first(log);
    log_files_close(log);
    return is_used;
}

/* Refuses tables without a log, as of a backup, beside a log of others. */
static enum error_code rocksdb_log_check_unused(const struct rocksdb_store *store,
                                                struct error *ret_error)
{
    char path[PATH_MAX];
    const enum error_code code = rocksdb_log_path(store, path, ret_error);

    if (code || !rocksdb_log_is_used(path))
        return code;
    return error_set(ret_error, ERROR_CORRUPT,
                     "%.150s holds writes of tables that are not here; restore a backup", path);
}

enum error_code store_log_begin(struct rocksdb_store *store, uint64_t begin,
                                struct error *ret_error)
{
    const enum error_code code = rocksdb_log_check_unused(store, ret_error);

    return code ? code : store_log_make(store, begin, ret_error);
}

/* Begins a log in place of a lost one, and counts the records that only the old log had. */
static enum error_code rocksdb_log_replace(struct rocksdb_store *store, uint64_t begin,
                                           struct error *ret_error)
{
    const uint64_t reached = rocksdb_log_read_reached(store);

    if (reached > begin)
        store->folder_state.lost += reached - begin;
    return store_log_make(store, begin, ret_error);
}

/* Opens the old log, which may be missing, or be that of another folder: then none of its
 * records are used. */
static enum error_code rocksdb_log_open_old(struct rocksdb_store *store, uint64_t begin,
                                            struct error *ret_error)
{
    struct folder_state *state = &store->folder_state;
    struct error cause = {.text = ""};
    char path[PATH_MAX];
    enum error_code code = rocksdb_log_path(store, path, ret_error);

    if (code)
        return code;
    if (files_exists(path)) {
        code = rocksdb_log_open(store, store->is_reader ? LOG_FILES_READ : LOG_FILES_OPEN, begin,
                                &cause);
        if (!code || code != ERROR_CORRUPT || store->options.damage != ROCKSDB_DAMAGE_SKIP) {
            if (code && ret_error)
                *ret_error = cause;
            return code;
        }
    } else {
        error_set(&cause, ERROR_CORRUPT, "%.150s is missing: it held writes that were acknowledged",
                  path);
    }
    state->has_loss = true;
    state->loss = cause;
    return store->options.damage == ROCKSDB_DAMAGE_SKIP
               ? rocksdb_log_replace(store, begin, ret_error)
               : rocksdb_log_refuse(&state->loss, ret_error);
}

/* Applies what is left after skipped damage. A log of other tables has no row of these. */
static enum error_code rocksdb_log_replay_rest(struct rocksdb_store *store, struct record_mark mark,
                                               const struct error *cause, struct error *ret_error)
{
    if (store->options.damage != ROCKSDB_DAMAGE_SKIP)
        return rocksdb_log_refuse(cause, ret_error);
    store->folder_state.has_loss = true;
    store->folder_state.loss = *cause;
    log_files_close(store->log);
    store->log = NULL;
    enum error_code code = rocksdb_log_open(store, LOG_FILES_OPEN, mark.offset + 1, ret_error);
    if (!code)
        code = rocksdb_log_replay(store, mark, ret_error);
    if (code != ERROR_CORRUPT)
        return code;
    log_files_close(store->log);
    store->log = NULL;
    return store_log_make(store, mark.offset + 1, ret_error);
}

enum error_code store_log_follow(struct rocksdb_store *store, struct error *ret_error)
{
    const bool was_open = store->log != NULL;
    struct record_mark mark;
    struct error cause = {.text = ""};
    enum error_code code = rocksdb_log_load_mark(store, NULL, &mark, ret_error);

    if (code)
        return code;
    store->applied = mark.offset;
    if (store->is_looking)
        return ERROR_NONE;
    if (store->is_reader && store->folder_state.has_no_log)
        return rocksdb_log_check_unused(store, ret_error);
    if (!was_open && (code = rocksdb_log_open_old(store, mark.offset + 1, ret_error)))
        return code;
    code = rocksdb_log_replay(store, mark, &cause);
    if (code == ERROR_CORRUPT && !was_open)
        code = rocksdb_log_replay_rest(store, mark, &cause, &cause);
    if (code) {
        if (ret_error)
            *ret_error = cause;
        return code;
    }
    struct log_files_stats stats;
    log_files_get_stats(store->log, &stats);
    if (!was_open)
        store->folder_state.lost += stats.lost;
    return was_open || store->is_reader ? ERROR_NONE : rocksdb_log_adopt(store, ret_error);
}

enum error_code store_log_renew(struct rocksdb_store *store, struct error *ret_error)
{
    struct record_mark mark;

    if (rocksdb_log_load_persisted(store, &mark, NULL) || mark.offset < store->applied)
        return ERROR_NONE;
    log_files_close(store->log);
    store->log = NULL;
    return store_log_make(store, mark.offset + 1, ret_error);
}

/* ---- commits ---- */

static bool rocksdb_log_reserve(struct rocksdb_store *store, size_t count)
{
    if (count <= store->record_capacity)
        return true;
    struct log_record *records = realloc(store->records, count * sizeof(*records));
    if (!records)
        return false;
    store->records = records;
    store->record_capacity = count;
    return true;
}

static void rocksdb_log_take_back(struct rocksdb_store *store, struct storage_batch *const *batches,
                                  size_t count)
{
    while (count-- > 0)
        prepare_take_back(&store->counts[batches[count]->partition], batches[count]);
}

/* Encodes the bodies one after another, each after room for the queue's head. The buffer may
 * move while it grows. */
static bool rocksdb_log_encode(struct rocksdb_store *store, struct storage_batch *const *batches,
                               size_t count)
{
    struct buffer *bodies = &store->scratch;
    size_t done = 0;

    if (!rocksdb_log_reserve(store, count))
        return false;
    buffer_clear(bodies);
    for (; done < count; done++) {
        static const char head[STORE_QUEUE_HEAD];

        buffer_append(bodies, head, sizeof(head));
        const size_t begin = bodies->size;
        assert(batches[done]->partition < store->partition_count);
        if (!prepare_encode(&store->rows, &store->counts[batches[done]->partition], &batches[done],
                            1, bodies))
            break;
        store->records[done] = (struct log_record){.partition = batches[done]->partition,
                                                   .epoch = batches[done]->meta.epoch,
                                                   .body.size = bodies->size - begin};
    }
    const char *body = bodies->data;
    for (size_t i = 0; i < done; i++) {
        store->records[i].body.data = body + STORE_QUEUE_HEAD;
        body += STORE_QUEUE_HEAD + store->records[i].body.size;
    }
    if (done < count)
        rocksdb_log_take_back(store, batches, done);
    return done == count;
}

enum error_code store_log_append(struct rocksdb_store *store, struct storage_batch *const *batches,
                                 size_t count, struct error *ret_error)
{
    if (!rocksdb_log_encode(store, batches, count))
        return error_set(ret_error, ERROR_NO_MEMORY, "commit");
    enum error_code code = log_files_append(store->log, store->records, count, ret_error);
    if (code)
        rocksdb_log_take_back(store, batches, count);
    else
        rocksdb_log_write_reached(store, store->records[count - 1].offset + 1);
    char *head = store->scratch.data;
    for (size_t i = 0; i < count; i++) {
        const struct log_record *record = &store->records[i];

        store_queue_set_head(head, record->offset, record->body.size);
        head += STORE_QUEUE_HEAD + record->body.size;
    }
    return code;
}
