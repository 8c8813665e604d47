/* rocksdb_follow.c - changes are made of batches, and taken when the log of their partition has
 * them.
 *
 * They go through the queue into the tables, each in one write with the place of the partition.
 * RocksDB keeps no log of them. All tables are written to files together, so the files have the
 * rows of some place and that place: a crash, or a failure after which the database is opened
 * again, leaves them, and the rest of the log is applied again. */
#include "store/rocksdb_store.h"
#include "store/rowop.h"

#include <assert.h>

enum { TIER_PERSISTED = 2 }; /* kPersistedTier: without the memtables */

static inline struct bytes rocksdb_follow_bytes(const struct store_key *key)
{
    return (struct bytes){key->data, key->size};
}

/* ---- places ---- */

enum error_code store_load_kept(struct storage *storage, uint16_t partition, uint64_t *ret_next,
                                struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);
    struct storage_place place = {0};
    enum error_code code = ERROR_IO;

    assert(partition < store->partition_count);
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_read_tier(options, TIER_PERSISTED);
    pthread_rwlock_rdlock(&store->open_lock);
    if (store->db)
        code = store_read_place(store, partition, options, &place, ret_error);
    pthread_rwlock_unlock(&store->open_lock);
    rocksdb_readoptions_destroy(options);
    *ret_next = place.next;
    return code;
}

/* Nothing is rewound between the two steps, because that needs commit_lock. A reader may use
 * links to the folder's files, and has its places from the open on. */
enum error_code store_load_place(struct storage *storage, uint16_t partition,
                                 struct storage_place *ret_place, struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);
    enum error_code code;

    assert(partition < store->partition_count);
    pthread_mutex_lock(&store->commit_lock);
    code = store->is_reader ? store_enter(store, ret_error) : store_begin_write(store, ret_error);
    if (!code) {
        pthread_mutex_lock(&store->write_lock);
        *ret_place = store->follows[partition].place;
        pthread_mutex_unlock(&store->write_lock);
        atomic_store(&store->follows[partition].is_rewound, false);
        store_leave(store);
    }
    pthread_mutex_unlock(&store->commit_lock);
    return code;
}

/* ---- changes ---- */

static enum error_code rocksdb_follow_prepare(struct rocksdb_store *store, uint16_t partition,
                                              struct storage_batch *const *batches, size_t count,
                                              struct buffer *to, struct error *ret_error)
{
    struct prepare_counts *counts = &store->counts[partition];
    enum error_code code = ERROR_NONE;

    pthread_mutex_lock(&store->write_lock);
    if (!prepare_body(&store->rows, counts, batches, count, to))
        code = error_set(ret_error, ERROR_NO_MEMORY, "prepare");
    pthread_mutex_unlock(&store->write_lock);
    return code;
}

static enum error_code rocksdb_follow_refuse_rewound(const struct rocksdb_store *store,
                                                     uint16_t partition, struct error *ret_error)
{
    if (!atomic_load(&store->follows[partition].is_rewound))
        return ERROR_NONE;
    return error_set(ret_error, ERROR_IO, "%s has lost what the log has: load its place",
                     store->folder);
}

/* Fails if the tables would not take the changes, so that no log gets them in vain. */
enum error_code store_prepare(struct storage *storage, struct storage_batch *const *batches,
                              size_t count, struct buffer *to, struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);
    const uint16_t partition = batches[0]->partition;

    assert(partition < store->partition_count);
    pthread_mutex_lock(&store->commit_lock);
    enum error_code code = store_begin_write(store, ret_error);
    if (!code) {
        if (rocksdb_follow_refuse_rewound(store, partition, ret_error))
            code = ERROR_UNREADABLE;
        else
            code = rocksdb_follow_prepare(store, partition, batches, count, to, ret_error);
        store_leave(store);
    }
    pthread_mutex_unlock(&store->commit_lock);
    return code;
}

/* Returns false if out of memory. */
static bool rocksdb_follow_count(struct prepare_counts *counts, uint16_t partition,
                                 const struct rowop *op)
{
    struct tenant_counts *tenants = &counts->tenant_counts;
    struct storage_meta meta;
    struct bytes tenant;
    uint64_t count = 0;

    if (store_tenant_key_parse(op->key, &partition, &tenant)) {
        if (op->kind == ROWOP_PUT)
            record_number_decode(op->key, op->value, &count, NULL);
        return tenant_counts_add(tenants, tenant,
                                 (int64_t)(count - tenant_counts_count(tenants, tenant)));
    }
    if (!record_meta_decode(partition, op->value, &meta, NULL)) {
        counts->trim = meta.trim;
        counts->pending = meta.pending;
    }
    return true;
}

/* Notes and counts the changes that are queued. The caller holds write_lock. */
static bool rocksdb_follow_note(struct rocksdb_store *store, uint16_t partition, struct bytes ops,
                                const struct storage_place *place)
{
    struct prepare_counts *counts = &store->counts[partition];
    bool is_counted = true;
    struct rowop op;

    while (rowop_next(&ops, &op))
        if (op.table == ROWOP_META)
            is_counted = rocksdb_follow_count(counts, partition, &op) && is_counted;
    while (tenant_counts_take_changed(&counts->tenant_counts))
        continue;
    store->follows[partition].place = *place;
    return is_counted;
}

/* Queues the changes with the place. The caller holds write_lock. */
static enum error_code rocksdb_follow_push(struct rocksdb_store *store, uint16_t partition,
                                           struct bytes ops, const struct storage_place *place,
                                           struct error *ret_error)
{
    static const char head[STORE_QUEUE_HEAD];
    const struct store_key key = store_place_key(partition);
    struct buffer *change = &store->scratch;

    buffer_clear(change);
    buffer_append(change, head, sizeof(head));
    buffer_append_bytes(change, ops);
    const size_t value = rowop_put(change, ROWOP_PUT, ROWOP_META, rocksdb_follow_bytes(&key));
    record_place_encode(change, rocksdb_follow_bytes(&key), place);
    rowop_put_end(change, value);
    if (buffer_failed(change)) {
        buffer_clear(change);
        return error_set(ret_error, ERROR_NO_MEMORY, "apply");
    }
    put_le(change->data, change->size - sizeof(head), sizeof(head));
    store_queue_push(store);
    return ERROR_NONE;
}

/* Applies a body. Call between store_begin_write and store_leave. */
static enum error_code rocksdb_follow_apply(struct rocksdb_store *store, uint16_t partition,
                                            struct bytes body, enum storage_body kind,
                                            const struct storage_place *place,
                                            struct error *ret_error)
{
    struct store_follow *follow = &store->follows[partition];

    const enum error_code code = rocksdb_follow_refuse_rewound(store, partition, ret_error);
    if (code)
        return code;
    if (place->next <= follow->place.next && follow->place.copy_end != STORAGE_COPYING)
        return ERROR_NONE;
    if (body.size && !prepare_open(&body, kind, partition))
        return error_set(ret_error, ERROR_CORRUPT, "the changes of partition %u are damaged",
                         partition);
    pthread_mutex_lock(&store->write_lock);
    const enum error_code pushed = rocksdb_follow_push(store, partition, body, place, ret_error);
    if (!pushed && !rocksdb_follow_note(store, partition, body, place))
        /* it is counted when the database is opened again */
        store->faults |= STORE_REFUSING | STORE_BEHIND;
    pthread_mutex_unlock(&store->write_lock);
    return pushed;
}

enum error_code store_apply(struct storage *storage, uint16_t partition, struct bytes body,
                            enum storage_body kind, const struct storage_place *place,
                            struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);

    assert(partition < store->partition_count);
    pthread_mutex_lock(&store->commit_lock);
    enum error_code code = store_begin_apply(store, ret_error);
    if (!code) {
        code = rocksdb_follow_apply(store, partition, body, kind, place, ret_error);
        store_leave(store);
        if (store->faults)
            store_recover(store);
    }
    pthread_mutex_unlock(&store->commit_lock);
    return code;
}
