/* rocksdb_log.c - the log, and the tables that follow it.
 *
 * A commit is durable as soon as the log has it. RocksDB has no log of its own: each write into its
 * tables brings the mark, which says how far of the log they hold, and all tables are written to
 * files together. So the files that a crash leaves hold the log up to their mark, and a start
 * applies the records behind it. */
#include "store/rocksdb_store.h"

#include <assert.h>
#include <stdlib.h>

enum {
    APPLY_BYTES = 1 << 20, /* size of the log's records in one write of a start */
    TIER_PERSISTED = 2,    /* kPersistedTier: without the memtables */
};

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
    log_files_trim(store->log.files, mark.offset, NULL);
}

/* ---- the folder's log ---- */

/* Keeps what the log says of itself. A folder of an older version goes on without FOLDER if that
 * cannot be written. */
static enum error_code rocksdb_log_adopt(struct rocksdb_store *store, struct error *ret_error)
{
    const bool had_log = store->identity.has_log;

    if (!log_home_adopt(&store->log))
        return ERROR_NONE;
    store->identity.is_known = store->identity.has_log = true;
    memcpy(store->identity.log_id, store->log.id, sizeof(store->identity.log_id));
    const enum error_code code = folder_write_identity(store->home, &store->identity, ret_error);
    return had_log ? code : ERROR_NONE;
}

/* Before the log is opened. */
static void rocksdb_log_set_up(struct rocksdb_store *store)
{
    struct log_home *log = &store->log;

    log->segment_bytes = store->options.segment_bytes;
    log->sync =
        store->options.sync == ROCKSDB_SYNC_ALWAYS ? LOG_FILES_SYNC_ALWAYS : LOG_FILES_SYNC_NEVER;
    log->skips_damage = store->options.damage == ROCKSDB_DAMAGE_SKIP;
    log->has_id = store->identity.has_log;
    memcpy(log->id, store->identity.log_id, sizeof(log->id));
    log->has_loss = store->folder_state.has_loss;
    log->loss = store->folder_state.loss;
}

/* After it was opened, or could not be. */
static void rocksdb_log_note(struct rocksdb_store *store)
{
    struct folder_state *state = &store->folder_state;

    state->has_loss = store->log.has_loss;
    state->loss = store->log.loss;
    state->torn_count += store->log.torn;
    state->lost += store->log.lost;
    store->log.torn = store->log.lost = 0;
}

enum error_code store_log_make(struct rocksdb_store *store, uint64_t begin, struct error *ret_error)
{
    rocksdb_log_set_up(store);
    const enum error_code code = log_home_make(&store->log, begin, ret_error);
    rocksdb_log_note(store);
    return code ? code : rocksdb_log_adopt(store, ret_error);
}

enum error_code store_log_begin(struct rocksdb_store *store, uint64_t begin,
                                struct error *ret_error)
{
    const enum error_code code = log_home_check_unused(&store->log, ret_error);

    return code ? code : store_log_make(store, begin, ret_error);
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
    const uint64_t from =
        log_files_first(store->log.files) > mark.offset ? mark.offset + 1 : mark.offset;

    rocksdb_writebatch_clear(store->batch);
    enum error_code code = log_files_read(store->log.files, from ? from : 1, rocksdb_log_replay_one,
                                          &replay, ret_error);
    if (!code && replay.bytes)
        code = store_apply_write(store, replay.added, ret_error);
    rocksdb_writebatch_clear(store->batch);
    return code;
}

/* Applies what is left after skipped damage. A log of other tables has no row of these. */
static enum error_code rocksdb_log_replay_rest(struct rocksdb_store *store, struct record_mark mark,
                                               const struct error *cause, struct error *ret_error)
{
    enum error_code code = log_home_open_rest(&store->log, mark.offset + 1, cause, ret_error);

    rocksdb_log_note(store);
    if (!store->log.skips_damage)
        return code;
    if (!code)
        code = rocksdb_log_replay(store, mark, ret_error);
    return code == ERROR_CORRUPT ? store_log_make(store, mark.offset + 1, ret_error) : code;
}

static enum error_code rocksdb_log_open(struct rocksdb_store *store, uint64_t begin,
                                        struct error *ret_error)
{
    rocksdb_log_set_up(store);
    const enum error_code code = log_home_open(
        &store->log, store->is_reader ? LOG_FILES_READ : LOG_FILES_OPEN, begin, ret_error);
    rocksdb_log_note(store);
    return code;
}

enum error_code store_log_follow(struct rocksdb_store *store, struct error *ret_error)
{
    const bool was_open = store->log.files != NULL;
    struct record_mark mark;
    struct error cause = {.text = ""};
    enum error_code code = rocksdb_log_load_mark(store, NULL, &mark, ret_error);

    if (code)
        return code;
    store->applied = mark.offset;
    if (store->is_looking)
        return ERROR_NONE;
    if (store->is_reader && store->folder_state.has_no_log)
        return log_home_check_unused(&store->log, ret_error);
    if (!was_open && (code = rocksdb_log_open(store, mark.offset + 1, ret_error)))
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
    log_files_get_stats(store->log.files, &stats);
    if (!was_open)
        store->folder_state.lost += stats.lost;
    return was_open || store->is_reader ? ERROR_NONE : rocksdb_log_adopt(store, ret_error);
}

enum error_code store_log_renew(struct rocksdb_store *store, struct error *ret_error)
{
    struct record_mark mark;

    if (rocksdb_log_load_persisted(store, &mark, NULL) || mark.offset < store->applied)
        return ERROR_NONE;
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
    const enum error_code code = log_home_append(&store->log, store->records, count, ret_error);
    if (code)
        rocksdb_log_take_back(store, batches, count);
    char *head = store->scratch.data;
    for (size_t i = 0; i < count; i++) {
        const struct log_record *record = &store->records[i];

        store_queue_set_head(head, record->offset, record->body.size);
        head += STORE_QUEUE_HEAD + record->body.size;
    }
    return code;
}
