/* rocksdb_enter.c - how reads and changes begin, and end the failures that can be ended. */
#include "store/rocksdb_store.h"
#include "sys/clock.h"
#include "sys/files.h"

#define RECOVER_PAUSE_NS UINT64_C(100000000)  /* interval of readers' attempts */
#define READ_REPEATS_MAX 8                    /* repeats of one call because of damaged blocks */
#define LOOK_PAUSE_NS    UINT64_C(1000000000) /* interval of checks of the folder by writes */

/* ---- failures ---- */

/* Waits until the disk takes writes again before the database is closed, because its memtables
 * may have what its files lack. A library with assertions also aborts if it cannot write its
 * event log when it opens. */
static enum error_code rocksdb_make_writable(struct rocksdb_store *store, struct error *ret_error)
{
    const uint64_t needed = store->options.memtable_bytes;

    if (!(store->faults & STORE_REFUSING))
        return ERROR_NONE;
    uint64_t free_bytes = 0;
    if (store->faults & STORE_FULL)
        ballast_release(&store->ballast);
    if ((store->faults & STORE_FULL) &&
        (files_free_bytes(store->folder, &free_bytes, NULL) || free_bytes < needed))
        return error_set(ret_error, ERROR_DISK_FULL, "%s: %llu bytes free, %llu needed",
                         store->folder, (unsigned long long)free_bytes, (unsigned long long)needed);
    enum error_code code = files_probe(store->folder, SIZE_MAX, ret_error);
    if (code)
        return code;
    pthread_rwlock_wrlock(&store->open_lock);
    code = store_open_again(store, ret_error);
    pthread_rwlock_unlock(&store->open_lock);
    return code;
}

void store_recover(struct rocksdb_store *store)
{
    if ((store->faults & STORE_REFUSING) && !rocksdb_block_set_aside(store) &&
        (store->faults & STORE_BEHIND))
        rocksdb_make_writable(store, NULL);
}

bool store_mend(struct rocksdb_store *store)
{
    pthread_mutex_lock(&store->commit_lock);
    const bool is_mended = rocksdb_block_set_aside(store);
    pthread_mutex_unlock(&store->commit_lock);
    return is_mended;
}

bool store_can_repeat(struct rocksdb_store *store, enum error_code code, unsigned *repeats)
{
    return code == ERROR_IO && (*repeats)++ < READ_REPEATS_MAX && store_mend(store);
}

/* Lets a reader try to end a failure, like a change does, because an engine that cannot read sends
 * no changes. Does nothing if a change or another reader tries it now, or did so a moment ago. */
static bool rocksdb_recover_now(struct rocksdb_store *store)
{
    if (store->is_reader || pthread_mutex_trylock(&store->commit_lock))
        return false;
    const struct instant now = instant_now();
    const bool is_time = instant_since_ns(store->recovered_at, now) >= RECOVER_PAUSE_NS;
    if (is_time) {
        store_recover(store);
        store->recovered_at = instant_now();
    }
    pthread_mutex_unlock(&store->commit_lock);
    return is_time;
}

/* ---- access ---- */

enum error_code store_try_enter(struct rocksdb_store *store, struct error *ret_error)
{
    pthread_rwlock_rdlock(&store->open_lock);
    if (!(store->faults & STORE_BEHIND))
        return ERROR_NONE;
    pthread_rwlock_unlock(&store->open_lock);
    return error_set(ret_error, ERROR_IO, "%s has writes that its tables do not take",
                     store->folder);
}

static enum error_code rocksdb_try_enter_to_read(struct rocksdb_store *store,
                                                 struct error *ret_error)
{
    enum error_code code = store_try_enter(store, ret_error);

    if (code)
        return code;
    code = store_apply_to(store, store->queue.pushed, ret_error);
    /* another thread may have met a failure, and dropped the changes */
    if (!code && !(store->faults & STORE_BEHIND))
        return ERROR_NONE;
    store_leave(store);
    return error_set(ret_error, ERROR_IO, "%s has writes that its tables do not take",
                     store->folder);
}

enum error_code store_enter(struct rocksdb_store *store, struct error *ret_error)
{
    const enum error_code code = rocksdb_try_enter_to_read(store, ret_error);

    return code && rocksdb_recover_now(store) ? rocksdb_try_enter_to_read(store, ret_error) : code;
}

enum error_code store_enter_partition(struct rocksdb_store *store, uint16_t partition,
                                      struct error *ret_error)
{
    const enum error_code code = store_enter(store, ret_error);

    if (code || !atomic_load(&store->follows[partition].is_rewound))
        return code;
    store_leave(store);
    return error_set(ret_error, ERROR_IO, "%s has lost what the log has: it is applied again",
                     store->folder);
}

void store_leave(struct rocksdb_store *store)
{
    pthread_rwlock_unlock(&store->open_lock);
}

/* ---- changes ---- */

/* Checks whether RocksDB takes writes, as far as it knows. If not, nothing is appended to the
 * log, because readers could not see it. RocksDB counts the errors after which it may take none. */
static enum error_code rocksdb_ask_tables(struct rocksdb_store *store, struct error *ret_error)
{
    uint64_t errors;

    if (rocksdb_property_int(store->db, "rocksdb.background-errors", &errors) ||
        errors == store->errors_seen)
        return ERROR_NONE;
    pthread_mutex_lock(&store->apply_lock);
    rocksdb_writebatch_clear(store->batch);
    const enum error_code code = store_write(store, store->batch, ret_error);
    pthread_mutex_unlock(&store->apply_lock);
    if (code)
        store->faults |= STORE_REFUSING | (code == ERROR_DISK_FULL ? STORE_FULL : 0u);
    else
        store->errors_seen = errors;
    return code;
}

/* True if the data folder is where it was. */
bool store_look(struct rocksdb_store *store)
{
    const bool is_there = folder_is_there(store->folder, FOLDER_OF_ROCKSDB, store->folder_lock);

    atomic_store(&store->seen_ns, is_there ? instant_now().ns : 0);
    return is_there;
}

/* Uses the last check if it is less than a second old, because a check takes longer than a small
 * write. */
static bool rocksdb_is_there(struct rocksdb_store *store)
{
    const struct instant seen = {atomic_load(&store->seen_ns)};

    return instant_since_ns(seen, instant_now()) < LOOK_PAUSE_NS || store_look(store);
}

static enum error_code rocksdb_begin_write(struct rocksdb_store *store, bool asks,
                                           struct error *ret_error)
{
    if (!store->is_reader && !rocksdb_is_there(store))
        return error_set(ret_error, ERROR_IO, "%s was removed or replaced", store->folder);
    enum error_code code = rocksdb_make_writable(store, ret_error);
    if (!code) {
        code = store_try_enter(store, ret_error);
        if (code && store->faults & STORE_FULL) /* since it was writable */
            code = error_set(ret_error, ERROR_DISK_FULL, "%s has no room for its tables",
                             store->folder);
    }
    if (code)
        return code;
    if (asks)
        code = rocksdb_ask_tables(store, ret_error);
    if (!code)
        code = store_queue_make_room(store, ret_error);
    if (code) {
        store_leave(store);
        store_recover(store);
    }
    return code;
}

static enum error_code rocksdb_begin_change(struct rocksdb_store *store, bool asks,
                                            struct error *ret_error)
{
    const enum error_code code = rocksdb_begin_write(store, asks, ret_error);

    if (code != ERROR_DISK_FULL || !ballast_held(&store->ballast))
        return code;
    return rocksdb_begin_write(store, asks, ret_error); /* it releases the ballast */
}

enum error_code store_begin_write(struct rocksdb_store *store, struct error *ret_error)
{
    return rocksdb_begin_change(store, true, ret_error);
}

enum error_code store_begin_apply(struct rocksdb_store *store, struct error *ret_error)
{
    return rocksdb_begin_change(store, false, ret_error);
}
