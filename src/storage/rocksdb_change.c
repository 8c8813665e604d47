/* rocksdb_change.c - makes of a batch the changes that it is: rows, pointers, names, counts and the
 * metadata of its partition. */
#include "storage/rowop.h"
#include "storage/rocksdb_store.h"

#include <assert.h>
#include <stdlib.h>

#define TOUCHES_MAX 64 /* of one row, one after the other */

#define SAME_TABLE(id) _Static_assert((int)STORE_##id == (int)ROWOP_##id, #id)
SAME_TABLE(META);
SAME_TABLE(TIMERS);
SAME_TABLE(MOVED);
SAME_TABLE(NAMES);

static inline struct bytes rocksdb_change_key(const struct store_key *key)
{
    return (struct bytes){key->data, key->size};
}

/* One row to put, or to delete when there is no timer. */
struct store_row {
    struct record_key key;
    const struct timer *timer;
    size_t order; /* of two changes to one key the later holds */
    bool is_touch;
};

static int rocksdb_change_compare_rows(const void *left, const void *right)
{
    const struct store_row *a = left, *b = right;

    if (!record_key_equal(a->key, b->key))
        return record_key_before(a->key, b->key) ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* A reader of a row applies every touch since the row was written. The number of touches is
 * bounded: the write after the last of them writes the whole row. */
static bool rocksdb_change_is_short(const struct storage_write *write)
{
    return write->is_touch && write->timer->version % TOUCHES_MAX != 0;
}

/* The rows of a batch in the order of their keys: then each is put into the memtable right after
 * the one before. Often they come so, and then this is one look at each. */
static size_t rocksdb_change_collect_rows(struct rocksdb_store *store,
                                          const struct storage_batch *batch)
{
    struct store_row *rows = store->rows;
    size_t count = 0;

    for (size_t i = 0; i < batch->write_count; i++) {
        const struct storage_write *write = &batch->writes[i];
        const struct record_change change = record_change_of(write);
        const uint64_t serial = write->timer->id.serial;

        assert(write->timer->id.partition == batch->partition);
        if (change.cut.ms) {
            rows[count] = (struct store_row){
                record_row_key(batch->partition, (struct storage_position){change.cut, serial}),
                NULL, count, false};
            count++;
        }
        if (!change.put.ms)
            continue;
        rows[count] = (struct store_row){
            record_row_key(batch->partition, (struct storage_position){change.put, serial}),
            write->timer, count, rocksdb_change_is_short(write)};
        count++;
    }
    bool is_sorted = true;
    for (size_t i = 1; i < count && is_sorted; i++)
        is_sorted = rocksdb_change_compare_rows(&rows[i - 1], &rows[i]) < 0;
    if (!is_sorted)
        qsort(rows, count, sizeof(*rows), rocksdb_change_compare_rows);
    return count;
}

static bool rocksdb_change_reserve_rows(struct rocksdb_store *store, size_t count)
{
    if (count <= store->row_capacity)
        return true;
    struct store_row *rows = realloc(store->rows, count * sizeof(*rows));
    if (!rows)
        return false;
    store->rows = rows;
    store->row_capacity = count;
    return true;
}

static void rocksdb_change_put_rows(struct rocksdb_store *store, const struct storage_batch *batch,
                                    struct buffer *to)
{
    const size_t count = rocksdb_change_collect_rows(store, batch);

    for (size_t i = 0; i < count; i++) {
        const struct store_row *row = &store->rows[i];
        const struct store_key key = store_row_key(row->key);

        if (!row->timer) {
            rowop_delete(to, ROWOP_TIMERS, rocksdb_change_key(&key));
            continue;
        }
        const size_t value = rowop_put(to, row->is_touch ? ROWOP_TOUCH : ROWOP_PUT, ROWOP_TIMERS,
                                       rocksdb_change_key(&key));
        if (row->is_touch)
            record_touch_encode(to, row->key, row->timer);
        else
            record_row_encode(to, row->key, row->timer);
        rowop_put_end(to, value);
    }
}

static void rocksdb_change_put_pointers(const struct storage_batch *batch, struct buffer *to)
{
    for (size_t i = 0; i < batch->write_count; i++) {
        const struct timer *timer = batch->writes[i].timer;
        const struct record_change change = record_change_of(&batch->writes[i]);
        const struct record_key at = record_pointer_key(batch->partition, timer->id.serial);
        const struct store_key key = store_pointer_key(at);

        if (change.pointer == RECORD_POINTER_DELETE)
            rowop_delete(to, ROWOP_MOVED, rocksdb_change_key(&key));
        if (change.pointer != RECORD_POINTER_PUT)
            continue;
        const size_t value = rowop_put(to, ROWOP_PUT, ROWOP_MOVED, rocksdb_change_key(&key));
        record_pointer_encode(to, at, (struct record_pointer){change.put, record_ended(timer)});
        rowop_put_end(to, value);
    }
}

static void rocksdb_change_put_names(const struct storage_batch *batch, struct buffer *to)
{
    for (size_t i = 0; i < batch->write_count; i++) {
        struct record_name_walk walk = {.write = &batch->writes[i]};
        enum record_name_change change;
        struct record_key at;
        struct record_name name;

        while (record_name_next(&walk, &change, &at, &name)) {
            const struct store_key key = store_row_key(at);

            if (change == RECORD_NAME_DELETE) {
                rowop_delete(to, ROWOP_NAMES, rocksdb_change_key(&key));
                continue;
            }
            const size_t value = rowop_put(to, ROWOP_PUT, ROWOP_NAMES, rocksdb_change_key(&key));
            record_name_encode(to, at, &name);
            rowop_put_end(to, value);
        }
    }
}

/* The range ends within the partition: the end of the last possible one, at RECORD_AT_MAX, too. */
static void rocksdb_change_put_trim(uint16_t partition, struct wall from, struct wall to_at,
                                    struct buffer *to)
{
    const struct store_key begin =
        store_row_key(record_row_key(partition, (struct storage_position){from, 0}));
    const struct store_key end =
        store_row_key(record_row_key(partition, (struct storage_position){to_at, 0}));

    if (from.ms < to_at.ms)
        rowop_delete_range(to, ROWOP_TIMERS, rocksdb_change_key(&begin), rocksdb_change_key(&end));
}

/* Counts the timers of tenants that begin to live, or cease to; with `sign` -1 takes that back.
 * False when out of memory: nothing changed. */
static bool rocksdb_change_count_tenants(struct rocksdb_store *store,
                                         const struct storage_batch *batch, int sign)
{
    struct tenant_counts *tenant_counts = &store->tenant_counts_of[batch->partition];

    for (size_t i = 0; i < batch->write_count; i++) {
        const struct storage_write *write = &batch->writes[i];

        if (tenant_counts_add(tenant_counts, write->timer->texts.tenant,
                              sign * record_live_change(write)))
            continue;
        while (i-- > 0)
            tenant_counts_add(tenant_counts, batch->writes[i].timer->texts.tenant,
                              -sign * record_live_change(&batch->writes[i]));
        return false;
    }
    return true;
}

/* The counts that the batch changed; a tenant without timers needs no record. */
static void rocksdb_change_put_tenants(struct rocksdb_store *store,
                                       const struct storage_batch *batch, struct buffer *to)
{
    const struct tenant_counts_tenant *tenant;

    while ((tenant = tenant_counts_take_changed(&store->tenant_counts_of[batch->partition]))) {
        const struct bytes name = {tenant->name, tenant->name_size};
        const struct store_tenant_key key = store_tenant_key(batch->partition, name);
        const struct bytes at = {key.data, key.size};

        if (!tenant->count) {
            rowop_delete(to, ROWOP_META, at);
            continue;
        }
        const size_t value = rowop_put(to, ROWOP_PUT, ROWOP_META, at);
        record_number_encode(to, at, tenant->count);
        rowop_put_end(to, value);
    }
}

/* Writes of a batch stand before its trim, and the next batch after it, so that a trim takes effect
 * on earlier rows and on no later row. */
bool store_change_encode(struct rocksdb_store *store, const struct storage_batch *batch,
                         struct buffer *to)
{
    const struct store_key key = store_meta_key(batch->partition);
    struct storage_meta meta = batch->meta;

    assert(batch->partition < store->partition_count);
    if (!rocksdb_change_reserve_rows(store, 2 * batch->write_count) ||
        !rocksdb_change_count_tenants(store, batch, 1))
        return false;
    meta.pending = store->pendings[batch->partition] + (uint64_t)record_pending_change(batch);
    const size_t begin = rowop_begin(to);
    rocksdb_change_put_rows(store, batch, to);
    rocksdb_change_put_pointers(batch, to);
    rocksdb_change_put_names(batch, to);
    rocksdb_change_put_trim(batch->partition, store->trims[batch->partition], meta.trim, to);
    const size_t value = rowop_put(to, ROWOP_PUT, ROWOP_META, rocksdb_change_key(&key));
    record_meta_encode(to, batch->partition, &meta);
    rowop_put_end(to, value);
    rocksdb_change_put_tenants(store, batch, to);
    rowop_end(to, begin);
    store->trims[batch->partition] = meta.trim;
    store->pendings[batch->partition] = meta.pending;
    if (!buffer_failed(to))
        return true;
    store_change_take_back(store, batch);
    return false;
}

/* Beginning a trim at zero is always right, only slower: before the trim there are no rows. */
void store_change_take_back(struct rocksdb_store *store, const struct storage_batch *batch)
{
    store->trims[batch->partition] = (struct wall){0};
    store->pendings[batch->partition] -= (uint64_t)record_pending_change(batch);
    rocksdb_change_count_tenants(store, batch, -1);
}
