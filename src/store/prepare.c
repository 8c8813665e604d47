/* prepare.c - the row operations of batches; see prepare.h. */
#include "store/prepare.h"

#include "store/rowop.h"
#include "store/store_key.h"

#include <assert.h>
#include <stdlib.h>

#define TOUCHES_MAX 64 /* maximum of consecutive touches of one row */

static inline struct bytes prepare_key(const struct store_key *key)
{
    return (struct bytes){key->data, key->size};
}

/* A row to put, or to delete if there is no timer. */
struct prepare_row {
    struct record_key key;
    const struct timer *timer;
    size_t order; /* of two changes of one key the later one counts */
    bool is_touch;
};

static int prepare_compare_rows(const void *left, const void *right)
{
    const struct prepare_row *a = left, *b = right;

    if (!record_key_equal(a->key, b->key))
        return record_key_before(a->key, b->key) ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* True if the write can be a touch. A reader applies every touch since the row was written, so
 * their number is bounded: the next write has the whole row. */
static bool prepare_is_short(const struct storage_write *write)
{
    return write->is_touch && write->timer->version % TOUCHES_MAX != 0;
}

/* Sorts the rows of a batch by key, so that each is put into the store right after the one before.
 * Often they are sorted already, and each is examined once. */
static size_t prepare_collect_rows(struct prepare_row *rows, const struct storage_batch *batch)
{
    size_t count = 0;

    for (size_t i = 0; i < batch->write_count; i++) {
        const struct storage_write *write = &batch->writes[i];
        const struct record_change change = record_change_of(write);
        const uint64_t serial = write->timer->id.serial;

        assert(write->timer->id.partition == batch->partition);
        if (change.cut.ms) {
            rows[count] = (struct prepare_row){
                record_row_key(batch->partition, (struct storage_position){change.cut, serial}),
                NULL, count, false};
            count++;
        }
        if (!change.put.ms)
            continue;
        rows[count] = (struct prepare_row){
            record_row_key(batch->partition, (struct storage_position){change.put, serial}),
            write->timer, count, prepare_is_short(write)};
        count++;
    }
    bool is_sorted = true;
    for (size_t i = 1; i < count && is_sorted; i++)
        is_sorted = prepare_compare_rows(&rows[i - 1], &rows[i]) < 0;
    if (!is_sorted)
        qsort(rows, count, sizeof(*rows), prepare_compare_rows);
    return count;
}

static bool prepare_reserve_rows(struct prepare_rows *rows, size_t count)
{
    if (count <= rows->capacity)
        return true;
    struct prepare_row *more = realloc(rows->rows, count * sizeof(*more));
    if (!more)
        return false;
    rows->rows = more;
    rows->capacity = count;
    return true;
}

void prepare_rows_deinit(struct prepare_rows *rows)
{
    free(rows->rows);
    *rows = (struct prepare_rows){0};
}

static void prepare_put_rows(struct prepare_row *rows, const struct storage_batch *batch,
                             struct buffer *to)
{
    const size_t count = prepare_collect_rows(rows, batch);

    for (size_t i = 0; i < count; i++) {
        const struct prepare_row *row = &rows[i];
        const struct store_key key = store_row_key(row->key);

        if (!row->timer) {
            rowop_delete(to, ROWOP_TIMERS, prepare_key(&key));
            continue;
        }
        const size_t value =
            rowop_put(to, row->is_touch ? ROWOP_TOUCH : ROWOP_PUT, ROWOP_TIMERS, prepare_key(&key));
        if (row->is_touch)
            record_touch_encode(to, row->key, row->timer);
        else
            record_row_encode(to, row->key, row->timer);
        rowop_put_end(to, value);
    }
}

static void prepare_put_pointers(const struct storage_batch *batch, struct buffer *to)
{
    for (size_t i = 0; i < batch->write_count; i++) {
        const struct timer *timer = batch->writes[i].timer;
        const struct record_change change = record_change_of(&batch->writes[i]);
        const struct record_key at = record_pointer_key(batch->partition, timer->id.serial);
        const struct store_key key = store_pointer_key(at);

        if (change.pointer == RECORD_POINTER_DELETE)
            rowop_delete(to, ROWOP_MOVED, prepare_key(&key));
        if (change.pointer != RECORD_POINTER_PUT)
            continue;
        const size_t value = rowop_put(to, ROWOP_PUT, ROWOP_MOVED, prepare_key(&key));
        record_pointer_encode(to, at, (struct record_pointer){change.put, record_ended(timer)});
        rowop_put_end(to, value);
    }
}

static void prepare_put_names(const struct storage_batch *batch, struct buffer *to)
{
    for (size_t i = 0; i < batch->write_count; i++) {
        struct record_name_walk walk = {.write = &batch->writes[i]};
        enum record_name_change change;
        struct record_key at;
        struct record_name name;

        while (record_name_next(&walk, &change, &at, &name)) {
            const struct store_key key = store_row_key(at);

            if (change == RECORD_NAME_DELETE) {
                rowop_delete(to, ROWOP_NAMES, prepare_key(&key));
                continue;
            }
            const size_t value = rowop_put(to, ROWOP_PUT, ROWOP_NAMES, prepare_key(&key));
            record_name_encode(to, at, &name);
            rowop_put_end(to, value);
        }
    }
}

/* Appends the trim. Its range ends within the partition, at RECORD_AT_MAX at most. */
static void prepare_put_trim(uint16_t partition, struct wall from, struct wall to_at,
                             struct buffer *to)
{
    const struct store_key begin =
        store_row_key(record_row_key(partition, (struct storage_position){from, 0}));
    const struct store_key end =
        store_row_key(record_row_key(partition, (struct storage_position){to_at, 0}));

    if (from.ms < to_at.ms)
        rowop_delete_range(to, ROWOP_TIMERS, prepare_key(&begin), prepare_key(&end));
}

/* Counts the timers of tenants that begin or end their life; `sign` -1 undoes that. Returns
 * false if out of memory, without effect. */
static bool prepare_count_tenants(struct tenant_counts *tenant_counts,
                                  const struct storage_batch *batch, int sign)
{
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

/* Appends the counts that the batch changed. A tenant without timers needs no record. */
static void prepare_put_tenants(struct tenant_counts *tenant_counts, uint16_t partition,
                                struct buffer *to)
{
    const struct tenant_counts_tenant *tenant;

    while ((tenant = tenant_counts_take_changed(tenant_counts))) {
        const struct bytes name = {tenant->name, tenant->name_size};
        const struct store_tenant_key key = store_tenant_key(partition, name);
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

static void prepare_put_note(uint16_t partition, enum storage_note note, struct bytes bytes,
                             struct buffer *to)
{
    const struct store_key key = store_note_key(note, partition);
    const size_t value = rowop_put(to, ROWOP_PUT, ROWOP_META, prepare_key(&key));

    record_note_encode(to, prepare_key(&key), bytes);
    rowop_put_end(to, value);
}

/* Appends a batch. Its writes precede its trim, and the next batch follows, so that a trim
 * affects only earlier rows. */
static bool prepare_put_batch(struct prepare_rows *rows, struct prepare_counts *counts,
                              const struct storage_batch *batch, struct buffer *to)
{
    const struct store_key key = store_meta_key(batch->partition);
    struct storage_meta meta = batch->meta;

    if (batch->holds.size) {
        prepare_put_note(batch->partition, STORAGE_HOLDS, batch->holds, to);
        return true;
    }
    if (!prepare_reserve_rows(rows, 2 * batch->write_count) ||
        !prepare_count_tenants(&counts->tenant_counts, batch, 1))
        return false;
    meta.pending = counts->pending + (uint64_t)record_pending_change(batch);
    prepare_put_rows(rows->rows, batch, to);
    prepare_put_pointers(batch, to);
    prepare_put_names(batch, to);
    prepare_put_trim(batch->partition, counts->trim, meta.trim, to);
    const size_t value = rowop_put(to, ROWOP_PUT, ROWOP_META, prepare_key(&key));
    record_meta_encode(to, batch->partition, &meta);
    rowop_put_end(to, value);
    if (batch->ledger.size)
        prepare_put_note(batch->partition, STORAGE_LEDGER, batch->ledger, to);
    prepare_put_tenants(&counts->tenant_counts, batch->partition, to);
    counts->trim = meta.trim;
    counts->pending = meta.pending;
    return true;
}

bool prepare_encode(struct prepare_rows *rows, struct prepare_counts *counts,
                    struct storage_batch *const *batches, size_t count, struct buffer *to)
{
    const size_t begin = rowop_begin(to);
    size_t done = 0;

    while (done < count && prepare_put_batch(rows, counts, batches[done], to))
        done++;
    rowop_end(to, begin);
    if (done == count && !buffer_failed(to))
        return true;
    while (done > 0)
        prepare_take_back(counts, batches[--done]);
    return false;
}

/* A trim that begins at zero is always correct, only slower: there are no rows before it. */
void prepare_take_back(struct prepare_counts *counts, const struct storage_batch *batch)
{
    counts->trim = (struct wall){0};
    counts->pending -= (uint64_t)record_pending_change(batch);
    prepare_count_tenants(&counts->tenant_counts, batch, -1);
}

bool prepare_body(struct prepare_rows *rows, struct prepare_counts *counts,
                  struct storage_batch *const *batches, size_t count, struct buffer *to)
{
    const struct wall trim = counts->trim;
    const bool is_encoded = prepare_encode(rows, counts, batches, count, to);

    for (size_t i = is_encoded ? count : 0; i > 0; i--)
        prepare_take_back(counts, batches[i - 1]);
    while (tenant_counts_take_changed(&counts->tenant_counts))
        continue; /* they are the same again */
    counts->trim = trim;
    return is_encoded;
}

/* ---- reading ---- */

static bool prepare_is_count(const struct rowop *op)
{
    uint64_t count;

    return op->kind == ROWOP_DELETE ||
           (op->kind == ROWOP_PUT && !record_number_decode(op->key, op->value, &count, NULL));
}

/* True if the operation may be applied. Readers check rows, pointers and entries of names. The
 * key of an entry has a hash in place of the partition. */
static bool prepare_may_apply(const struct rowop *op, uint16_t partition)
{
    struct storage_meta meta;
    struct record_key key, end;
    uint16_t of;
    enum storage_note note;
    struct bytes tenant, bytes;

    switch (op->table) {
    case ROWOP_TIMERS:
        if (!store_row_key_parse(op->key, &key) || key.high >> 48 != partition)
            return false;
        return op->kind != ROWOP_DELETE_RANGE ||
               (store_row_key_parse(op->value, &end) && end.high >> 48 == partition);
    case ROWOP_MOVED:
        return op->kind <= ROWOP_DELETE && store_pointer_key_parse(op->key, &key) &&
               key.high == partition;
    case ROWOP_NAMES:
        return op->kind <= ROWOP_DELETE && store_row_key_parse(op->key, &key);
    case ROWOP_META:
        if (store_tenant_key_parse(op->key, &of, &tenant))
            return of == partition && prepare_is_count(op);
        if (store_note_key_parse(op->key, &note, &of))
            return of == partition && op->kind == ROWOP_PUT &&
                   !record_note_decode(op->key, op->value, &bytes, NULL);
        return op->kind == ROWOP_PUT && store_meta_key_parse(op->key, &of) && of == partition &&
               !record_meta_decode(partition, op->value, &meta, NULL);
    case ROWOP_TABLE_COUNT:
        break;
    }
    return false;
}

bool prepare_open(struct bytes *body, enum storage_body kind, uint16_t partition)
{
    struct bytes ops = *body;

    if (kind == STORAGE_BODY_PREPARED) {
        *body = rowop_ops(*body);
        return true;
    }
    if (!rowop_open(&ops))
        return false;
    struct bytes rest = ops;
    struct rowop op;
    while (rowop_next(&rest, &op))
        if (!prepare_may_apply(&op, partition))
            return false;
    *body = ops;
    return true;
}
