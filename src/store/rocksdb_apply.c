/* rocksdb_apply.c - changes on their way into the tables.
 *
 * A change is taken when a log has it. Then it waits here, in memory, until it is written into the
 * tables: by the apply thread after a moment, together with the next ones; by a read, which must
 * see every change that was taken before it began; or by a writer that finds too much waiting. All
 * write the oldest first, one at a time.
 *
 * Invariant  The tables hold the first `written` of the changes, and the queue holds those behind
 *            them, up to `pushed`, unless the store is STORE_BEHIND. Then the queue is not used any
 *            more: the database is opened again, and the logs are applied from what it has.
 */
#include "store/rowop.h"
#include "store/rocksdb_store.h"
#include "sys/clock.h"
#include "sys/process.h"

enum {
    APPLY_BYTES = 256 << 10, /* maximum size of one write from the queue */
    HURRY_BYTES = 64 << 10,  /* size of the queue from which the apply thread does not linger */
    /* time for which the apply thread waits for more to write together */
    LINGER_US = 1000,
    QUEUE_SHARE = 8,            /* divisor of a memtable's size for the size of a queue */
    QUEUE_BYTES_KEPT = 1 << 20, /* maximum size of an empty buffer that is kept */
};

#define SAME_TABLE(id) _Static_assert((int)STORE_##id == (int)ROWOP_##id, #id)
SAME_TABLE(META);
SAME_TABLE(TIMERS);
SAME_TABLE(MOVED);
SAME_TABLE(NAMES);

/* ---- writing into the tables ---- */

static void rocksdb_apply_add_op(struct rocksdb_store *store, const struct rowop *op)
{
    rocksdb_column_family_handle_t *table = store->tables[op->table];
    const struct bytes key = op->key, value = op->value;

    switch (op->kind) {
    case ROWOP_PUT:
        rocksdb_writebatch_put_cf(store->batch, table, key.data, key.size, value.data, value.size);
        return;
    case ROWOP_DELETE:
        rocksdb_writebatch_delete_cf(store->batch, table, key.data, key.size);
        return;
    case ROWOP_TOUCH:
        rocksdb_writebatch_merge_cf(store->batch, table, key.data, key.size, value.data,
                                    value.size);
        return;
    case ROWOP_DELETE_RANGE:
        rocksdb_writebatch_delete_range_cf(store->batch, table, key.data, key.size, value.data,
                                           value.size);
        return;
    case ROWOP_KIND_COUNT:
        return;
    }
}

/* ---- the queue ---- */

void store_queue_init(struct store_queue *queue)
{
    pthread_mutex_init(&queue->lock, NULL);
    instant_condition_init(&queue->wakes);
    buffer_init(&queue->waiting);
    buffer_init(&queue->taken);
    queue->wake_bytes = SIZE_MAX;
}

void store_queue_deinit(struct store_queue *queue)
{
    buffer_deinit(&queue->taken);
    buffer_deinit(&queue->waiting);
    pthread_cond_destroy(&queue->wakes);
    pthread_mutex_destroy(&queue->lock);
}

static void rocksdb_apply_empty(struct buffer *buffer)
{
    buffer_clear(buffer);
    if (buffer->capacity > QUEUE_BYTES_KEPT)
        buffer_deinit(buffer), buffer_init(buffer);
}

/* Queues the change. If memory is short it is dropped, and read from its log again later. */
static void rocksdb_apply_keep(struct rocksdb_store *store)
{
    struct store_queue *queue = &store->queue;
    const struct buffer empty = queue->waiting;
    const size_t size = store->scratch.size;

    if (!queue->waiting.size) {
        queue->waiting = store->scratch;
        store->scratch = empty;
    } else {
        buffer_append_bytes(&queue->waiting, buffer_bytes(&store->scratch));
    }
    if (buffer_failed(&queue->waiting))
        store->faults |= STORE_BEHIND | STORE_REFUSING;
    else
        queue->bytes += size;
    rocksdb_apply_empty(&store->scratch);
}

void store_queue_push(struct rocksdb_store *store)
{
    struct store_queue *queue = &store->queue;

    pthread_mutex_lock(&queue->lock);
    rocksdb_apply_keep(store);
    queue->pushed++;
    const bool must_wake = queue->waiting.size >= queue->wake_bytes;
    if (must_wake)
        queue->wake_bytes = SIZE_MAX;
    pthread_mutex_unlock(&queue->lock);
    if (must_wake) /* without the lock, on which the woken thread would wait */
        pthread_cond_signal(&queue->wakes);
}

void store_queue_drop(struct rocksdb_store *store)
{
    struct store_queue *queue = &store->queue;

    rocksdb_apply_empty(&queue->taken);
    queue->taken_done = 0;
    pthread_mutex_lock(&queue->lock);
    rocksdb_apply_empty(&queue->waiting);
    queue->bytes = 0;
    queue->written = queue->pushed;
    pthread_mutex_unlock(&queue->lock);
}

/* Makes the waiting changes those that are written next, if none are left of the last ones. Returns
 * false if there are none. */
static bool rocksdb_apply_take(struct store_queue *queue)
{
    if (queue->taken_done < queue->taken.size)
        return true;
    rocksdb_apply_empty(&queue->taken);
    queue->taken_done = 0;
    pthread_mutex_lock(&queue->lock);
    const struct buffer empty = queue->taken;
    queue->taken = queue->waiting;
    queue->waiting = empty;
    pthread_mutex_unlock(&queue->lock);
    return queue->taken.size > 0;
}

/* Adds the operations of a change. Of the places in one write only the last one of each partition
 * is written. */
static void rocksdb_apply_add_change(struct rocksdb_store *store, struct bytes ops)
{
    struct rowop op;
    uint16_t partition;

    while (rowop_next(&ops, &op)) {
        if (op.table != ROWOP_META || !store_place_key_parse(op.key, &partition))
            rocksdb_apply_add_op(store, &op);
        else
            store->follows[partition].gathered = op;
    }
}

static void rocksdb_apply_add_places(struct rocksdb_store *store)
{
    for (uint32_t i = 0; i < store->partition_count; i++) {
        struct store_follow *follow = &store->follows[i];

        if (follow->gathered.key.size)
            rocksdb_apply_add_op(store, &follow->gathered);
        follow->gathered.key.size = 0;
    }
}

/* Gathers some of the oldest changes in store->batch. Returns their number. */
static size_t rocksdb_apply_gather(struct rocksdb_store *store, size_t *ret_size)
{
    const struct store_queue *queue = &store->queue;
    size_t size = 0, count = 0;

    rocksdb_writebatch_clear(store->batch);
    for (; size < APPLY_BYTES && queue->taken_done + size < queue->taken.size; count++) {
        const char *head = queue->taken.data + queue->taken_done + size;
        const struct bytes ops = {head + STORE_QUEUE_HEAD, get_le(head, STORE_QUEUE_HEAD)};

        rocksdb_apply_add_change(store, ops);
        size += STORE_QUEUE_HEAD + ops.size;
    }
    rocksdb_apply_add_places(store);
    *ret_size = size;
    return count;
}

/* Writes some of the oldest changes. The caller holds apply_lock. */
static enum error_code rocksdb_apply_next(struct rocksdb_store *store, struct error *ret_error)
{
    struct store_queue *queue = &store->queue;
    size_t size;

    if (!rocksdb_apply_take(queue))
        return ERROR_NONE;
    const size_t count = rocksdb_apply_gather(store, &size);
    const enum error_code code = store_write(store, store->batch, ret_error);
    rocksdb_writebatch_clear(store->batch);
    if (!code) {
        queue->taken_done += size;
        queue->bytes -= size;
        queue->written += count;
        return ERROR_NONE;
    }
    store->faults |= STORE_BEHIND | STORE_REFUSING | (code == ERROR_DISK_FULL ? STORE_FULL : 0u);
    store_queue_drop(store);
    return code;
}

/* Writes once, unless the tables have this many changes by now. */
static enum error_code rocksdb_apply_turn(struct rocksdb_store *store, uint64_t count,
                                          struct error *ret_error)
{
    enum error_code code = ERROR_NONE;

    pthread_mutex_lock(&store->apply_lock);
    if (store->faults & STORE_BEHIND)
        code = error_set(ret_error, store->faults & STORE_FULL ? ERROR_DISK_FULL : ERROR_IO,
                         "%s has writes that its tables do not take", store->folder);
    else if (store->queue.written < count)
        code = rocksdb_apply_next(store, ret_error);
    pthread_mutex_unlock(&store->apply_lock);
    return code;
}

enum error_code store_apply_to(struct rocksdb_store *store, uint64_t count, struct error *ret_error)
{
    enum error_code code = ERROR_NONE;

    while (!code && store->queue.written < count)
        code = rocksdb_apply_turn(store, count, ret_error);
    return code;
}

enum error_code store_queue_make_room(struct rocksdb_store *store, struct error *ret_error)
{
    const size_t bytes_max = store->options.memtable_bytes / QUEUE_SHARE;
    enum error_code code = ERROR_NONE;

    while (!code && store->queue.bytes > bytes_max)
        code = rocksdb_apply_turn(store, store->queue.pushed, ret_error);
    return code;
}

/* ---- the thread ---- */

/* Writes all changes. Their logs keep what the tables do not take. */
static void rocksdb_apply_all(struct rocksdb_store *store)
{
    pthread_rwlock_rdlock(&store->open_lock);
    const enum error_code code =
        store->db ? store_apply_to(store, store->queue.pushed, NULL) : ERROR_NONE;
    pthread_rwlock_unlock(&store->open_lock);
    if (!code)
        return;
    pthread_mutex_lock(&store->commit_lock);
    store->queue.recover(store);
    pthread_mutex_unlock(&store->commit_lock);
}

static bool rocksdb_apply_has_work(const struct rocksdb_store *store)
{
    return store->queue.bytes && !(store->faults & STORE_BEHIND);
}

/* Waits a moment for more changes, because a wake-up costs more than writing a row; after a write
 * also if there are none, because the next ones usually follow. */
static void *rocksdb_apply_run(void *argument)
{
    struct rocksdb_store *store = argument;
    struct store_queue *queue = &store->queue;
    bool is_busy = false;

    pthread_mutex_lock(&queue->lock);
    while (!queue->is_ending) {
        if (!is_busy && !rocksdb_apply_has_work(store)) {
            queue->wake_bytes = 1;
            pthread_cond_wait(&queue->wakes, &queue->lock);
            continue;
        }
        if (queue->waiting.size < HURRY_BYTES) {
            const struct instant now = instant_now();
            const struct timespec end =
                instant_timespec((struct instant){now.ns + LINGER_US * UINT64_C(1000)});

            queue->wake_bytes = HURRY_BYTES;
            pthread_cond_timedwait(&queue->wakes, &queue->lock, &end);
        }
        queue->wake_bytes = SIZE_MAX;
        is_busy = rocksdb_apply_has_work(store);
        if (!is_busy)
            continue;
        pthread_mutex_unlock(&queue->lock);
        rocksdb_apply_all(store);
        pthread_mutex_lock(&queue->lock);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

void store_queue_stop(struct rocksdb_store *store)
{
    struct store_queue *queue = &store->queue;

    pthread_mutex_lock(&queue->lock);
    queue->is_ending = true;
    pthread_cond_broadcast(&queue->wakes);
    pthread_mutex_unlock(&queue->lock);
    if (queue->has_apply_thread)
        pthread_join(queue->apply_thread, NULL);
    queue->has_apply_thread = false;
}

enum error_code store_queue_start(struct rocksdb_store *store,
                                  void (*recover)(struct rocksdb_store *store),
                                  struct error *ret_error)
{
    struct store_queue *queue = &store->queue;

    queue->recover = recover;
    queue->has_apply_thread =
        !thread_start(&queue->apply_thread, rocksdb_apply_run, store, "apply");
    if (queue->has_apply_thread)
        return ERROR_NONE;
    return error_set(ret_error, ERROR_NO_MEMORY, "no thread for the tables");
}
