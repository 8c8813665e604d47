/* memory.c - the storage in memory, with faults on demand. */
#include "store/testing/memory_store.h"
#include "store/page.h"
#include "store/rowop.h"
#include "store/store_key.h"

#include <assert.h>
#include <stdlib.h>

/* ---- changes ---- */

/* Puts a copy of `value` at the key. */
static bool memory_put(struct memory_change *change, struct tree *tree, struct record_key key,
                       struct bytes value)
{
    struct tree_node *node = tree_node_create(key, value);

    if (!node)
        return false;
    if (!memory_set(change, tree, key, node)) {
        free(node);
        return false;
    }
    return true;
}

/* Replaces the row by the touched row, as on disk. */
static bool memory_touch(struct memory_storage *memory, struct memory_change *change,
                         struct record_key key, struct bytes touch)
{
    struct tree_node *node = tree_find(&memory->rows, key);
    struct buffer row;

    buffer_init(&row);
    record_touch_apply(&row, key, node ? tree_node_value(node) : (struct bytes){0}, touch);
    const bool is_put =
        !buffer_failed(&row) && memory_put(change, &memory->rows, key, buffer_bytes(&row));
    buffer_deinit(&row);
    return is_put;
}

/* Drops the names of the row in `node`. */
static bool memory_trim_names(struct memory_storage *memory, struct memory_change *change,
                              const struct tree_node *node)
{
    struct timer view;

    if (record_row_decode(node->key, tree_node_value(node), &view, NULL))
        return true;
    struct name_walk walk = {0};
    walk.timer = &view;
    struct name name;
    while (name_next(&walk, &name))
        if (!memory_set(change, &memory->names, record_name_key(name.hash, view.id.serial), NULL))
            return false;
    return true;
}

/* Drops the rows from `at` up to `end`, with their pointers and names. */
static bool memory_trim(struct memory_storage *memory, struct memory_change *change,
                        struct record_key at, struct record_key end)
{
    struct tree_node *node;

    while ((node = tree_find_from(&memory->rows, at)) && record_key_before(node->key, end)) {
        const struct storage_position position = record_row_position(node->key);
        const struct record_key key =
            record_pointer_key((uint16_t)(node->key.high >> 48), position.serial);
        struct tree_node *pointer = tree_find(&memory->pointers, key);

        at = node->key;
        struct record_pointer leads;
        if (pointer && !record_pointer_decode(key, tree_node_value(pointer), &leads, NULL) &&
            leads.at.ms == position.at.ms && !memory_set(change, &memory->pointers, key, NULL))
            return false;
        if (!memory_trim_names(memory, change, node) ||
            !memory_set(change, &memory->rows, at, NULL))
            return false;
    }
    return true;
}

static enum error_code memory_read_meta(struct memory_storage *memory, uint16_t partition,
                                        struct storage_meta *ret_meta, struct error *ret_error)
{
    struct tree_node *node = tree_find(&memory->metas, memory_meta_key(partition));

    *ret_meta = (struct storage_meta){0};
    return node ? record_meta_decode(partition, tree_node_value(node), ret_meta, ret_error)
                : ERROR_NONE;
}

/* ---- counts of tenants: a number, and the name that the key is a hash of ---- */

static bool memory_set_count(struct memory_storage *memory, struct memory_change *change,
                             const struct rowop *op)
{
    uint16_t partition = 0;
    struct bytes tenant = {0};
    struct buffer value;

    store_tenant_key_parse(op->key, &partition, &tenant);
    const struct record_key key = {partition, bytes_hash(0, tenant)};
    if (op->kind == ROWOP_DELETE)
        return memory_set(change, &memory->tenants, key, NULL);
    buffer_init(&value);
    buffer_append_bytes(&value, op->value);
    buffer_append_bytes(&value, tenant);
    const bool is_put =
        !buffer_failed(&value) && memory_put(change, &memory->tenants, key, buffer_bytes(&value));
    buffer_deinit(&value);
    return is_put;
}

static enum error_code memory_count(const struct tree_node *node,
                                    struct tenant_counts *tenant_counts)
{
    const struct bytes tenant = {node->data + MEMORY_NUMBER_SIZE, node->size - MEMORY_NUMBER_SIZE};
    const struct store_tenant_key key = store_tenant_key((uint16_t)node->key.high, tenant);
    uint64_t count;

    if (record_number_decode((struct bytes){key.data, key.size},
                             (struct bytes){node->data, MEMORY_NUMBER_SIZE}, &count, NULL))
        return ERROR_CORRUPT;
    return tenant_counts_add(tenant_counts, tenant, (int64_t)count) ? ERROR_NONE : ERROR_NO_MEMORY;
}

static enum error_code memory_count_tenants(const struct memory_storage *memory, uint16_t partition,
                                            struct tenant_counts *tenant_counts)
{
    enum error_code code = ERROR_NONE;
    struct tree_node *node;

    for (struct record_key at = {partition, 0};
         !code && (node = tree_find_from(&memory->tenants, at)) && node->key.high == partition;
         at = record_key_after(node->key))
        code = memory_count(node, tenant_counts);
    return code;
}

/* ---- a change: row operations, made and applied ---- */

static enum error_code memory_load_counts(struct memory_storage *memory, uint16_t partition,
                                          struct prepare_counts *counts)
{
    struct storage_meta meta;

    enum error_code code = memory_read_meta(memory, partition, &meta, NULL);
    counts->trim = meta.trim;
    counts->pending = meta.pending;
    if (!code)
        code = memory_count_tenants(memory, partition, &counts->tenant_counts);
    while (tenant_counts_take_changed(&counts->tenant_counts))
        continue; /* the trees have them */
    return code;
}

static enum error_code memory_encode(struct memory_storage *memory,
                                     struct storage_batch *const *batches, size_t count,
                                     struct buffer *to)
{
    struct prepare_counts counts;

    tenant_counts_init(&counts.tenant_counts);
    enum error_code code = memory_load_counts(memory, batches[0]->partition, &counts);
    if (!code && !prepare_encode(&memory->scratch, &counts, batches, count, to))
        code = ERROR_NO_MEMORY;
    tenant_counts_deinit(&counts.tenant_counts);
    return code;
}

static bool memory_apply_row(struct memory_storage *memory, struct memory_change *change,
                             const struct rowop *op)
{
    struct record_key key = {0}, end = {0};

    store_row_key_parse(op->key, &key);
    if (op->kind == ROWOP_PUT)
        return memory_put(change, &memory->rows, key, op->value);
    if (op->kind == ROWOP_TOUCH)
        return memory_touch(memory, change, key, op->value);
    if (op->kind == ROWOP_DELETE)
        return memory_set(change, &memory->rows, key, NULL);
    store_row_key_parse(op->value, &end);
    return memory_trim(memory, change, key, end);
}

static bool memory_apply_op(struct memory_storage *memory, struct memory_change *change,
                            const struct rowop *op)
{
    enum storage_note note;
    struct tree *tree = &memory->metas;
    struct record_key key = {0};
    uint16_t partition = 0;

    if (op->table == ROWOP_TIMERS)
        return memory_apply_row(memory, change, op);
    if (op->table == ROWOP_NAMES) {
        tree = &memory->names;
        store_row_key_parse(op->key, &key);
    } else if (op->table == ROWOP_MOVED) {
        tree = &memory->pointers;
        store_pointer_key_parse(op->key, &key);
    } else if (store_meta_key_parse(op->key, &partition)) {
        key = memory_meta_key(partition);
    } else if (store_note_key_parse(op->key, &note, &partition)) {
        key = memory_note_key(note, partition);
    } else {
        return memory_set_count(memory, change, op);
    }
    return op->kind == ROWOP_DELETE ? memory_set(change, tree, key, NULL)
                                    : memory_put(change, tree, key, op->value);
}

static enum error_code memory_apply_body(struct memory_storage *memory,
                                         struct memory_change *change, uint16_t partition,
                                         struct bytes body, enum storage_body kind)
{
    struct rowop op;

    assert(partition < memory->partition_count);
    if (!prepare_open(&body, kind, partition))
        return ERROR_CORRUPT;
    while (rowop_next(&body, &op))
        if (!memory_apply_op(memory, change, &op))
            return ERROR_NO_MEMORY;
    return ERROR_NONE;
}

static enum error_code memory_prepare(struct storage *storage, struct storage_batch *const *batches,
                                      size_t count, struct buffer *to, struct error *ret_error)
{
    struct memory_storage *memory = memory_of(storage);

    pthread_mutex_lock(&memory->lock);
    const enum error_code code = memory_encode(memory, batches, count, to);
    pthread_mutex_unlock(&memory->lock);
    return code ? error_set(ret_error, code, "prepare: %s", error_title(code)) : ERROR_NONE;
}

static enum error_code memory_apply(struct storage *storage, uint16_t partition, struct bytes body,
                                    enum storage_body kind, const struct storage_place *place,
                                    struct error *ret_error)
{
    struct memory_storage *memory = memory_of(storage);
    struct storage_place *at = &memory->places[partition];
    struct memory_change *change = calloc(1, sizeof(*change));

    if (!change)
        return error_set(ret_error, ERROR_NO_MEMORY, "apply");
    pthread_mutex_lock(&memory->lock);
    enum error_code code = memory_fault_hits(&memory->change_fault);
    if (!code && (place->next > at->next || at->copy_end == STORAGE_COPYING)) {
        change->place = at;
        change->old_place = *at;
        if (body.size)
            code = memory_apply_body(memory, change, partition, body, kind);
        *at = *place;
    }
    memory_end_change(memory, change, code);
    pthread_mutex_unlock(&memory->lock);
    return code ? error_set(ret_error, code, "apply: %s", error_title(code)) : ERROR_NONE;
}

/* ---- reading ---- */

/* Moves a damaged row to the quarantine. */
static void memory_set_aside(struct memory_storage *memory, struct record_key key)
{
    free(tree_insert(&memory->quarantine, tree_remove(&memory->rows, key)));
    memory->corrupt_count++;
}

static enum error_code memory_scan(struct storage *storage, const struct storage_scan *scan,
                                   struct storage_page *ret_page, struct error *ret_error)
{
    struct memory_storage *memory = memory_of(storage);
    struct record_key at = record_row_key(scan->partition, scan->from);
    const struct record_key end = record_row_key(scan->partition, scan->to);

    assert(scan->partition < memory->partition_count && scan->rows_max);
    struct page_builder builder;
    page_builder_init(&builder, scan, (struct wall){0});
    pthread_mutex_lock(&memory->lock);
    enum error_code code = memory_fault_hits(&memory->read_fault);
    struct tree_node *node;
    while (!code && !page_builder_is_full(&builder) && (node = tree_find_from(&memory->rows, at)) &&
           record_key_before(node->key, end)) {
        at = node->key;
        code = page_builder_add(&builder, at, tree_node_value(node));
        if (code == ERROR_CORRUPT) {
            memory_set_aside(memory, at);
            code = ERROR_NONE;
        }
        at = record_key_after(at);
    }
    pthread_mutex_unlock(&memory->lock);
    if (code) {
        page_builder_drop(&builder);
        return error_set(ret_error, code, "scan: %s", error_title(code));
    }
    page_builder_finish(&builder, ret_page);
    return ERROR_NONE;
}

/* Returns the key that the timer's row would have. */
static struct record_key memory_row_key_of(struct memory_storage *memory, const struct timer_id *id)
{
    const struct record_key pointer_key = record_pointer_key(id->partition, id->serial);
    const struct record_key home =
        record_row_key(id->partition, (struct storage_position){id->first, id->serial});
    struct tree_node *pointer = tree_find(&memory->pointers, pointer_key);
    struct record_pointer leads;

    if (tree_find(&memory->rows, home) || !pointer ||
        record_pointer_decode(pointer_key, tree_node_value(pointer), &leads, NULL))
        return home;
    return record_row_key(id->partition, (struct storage_position){leads.at, id->serial});
}

static enum error_code memory_find_locked(struct memory_storage *memory, const struct timer_id *id,
                                          struct timer **ret_timer)
{
    const struct record_key key = memory_row_key_of(memory, id);
    struct tree_node *node = tree_find(&memory->rows, key);

    if (!node)
        return tree_find(&memory->quarantine, key) ? ERROR_CORRUPT : ERROR_NOT_FOUND;
    struct timer view;
    if (record_row_decode(key, tree_node_value(node), &view, NULL)) {
        memory_set_aside(memory, key);
        return ERROR_CORRUPT;
    }
    if (!timer_id_equal(&view.id, id))
        return ERROR_NOT_FOUND;
    struct timer *timer = timer_copy(&view, &view.texts);
    if (!timer)
        return ERROR_NO_MEMORY;
    *ret_timer = timer;
    return ERROR_NONE;
}

static enum error_code memory_find(struct storage *storage, const struct timer_id *id,
                                   struct timer **ret_timer, struct error *ret_error)
{
    struct memory_storage *memory = memory_of(storage);

    if (id->partition >= memory->partition_count)
        return error_set(ret_error, ERROR_NOT_FOUND, "find: no such partition");
    pthread_mutex_lock(&memory->lock);
    enum error_code code = memory_fault_hits(&memory->read_fault);
    if (!code)
        code = memory_find_locked(memory, id, ret_timer);
    pthread_mutex_unlock(&memory->lock);
    return code ? error_set(ret_error, code, "find: %s", error_title(code)) : ERROR_NONE;
}

/* Returns the ids of the entries from `key` on that have the name of the lookup. */
static enum error_code memory_lookup_locked(struct memory_storage *memory,
                                            const struct storage_lookup *lookup,
                                            struct timer_id *ids, size_t *ret_count)
{
    struct record_key key = {lookup->name, UINT64_MAX - lookup->serial_below};

    if (lookup->serial_below != UINT64_MAX)
        key = record_key_after(key);
    *ret_count = 0;
    struct tree_node *node;
    while (*ret_count < lookup->count_max && (node = tree_find_from(&memory->names, key)) &&
           node->key.high == lookup->name) {
        struct record_name name;
        if (record_name_decode(node->key, tree_node_value(node), &name, NULL))
            return ERROR_CORRUPT;
        if (name.id.partition == lookup->partition)
            ids[(*ret_count)++] = name.id;
        key = record_key_after(node->key);
    }
    return ERROR_NONE;
}

static enum error_code memory_lookup(struct storage *storage, const struct storage_lookup *lookup,
                                     struct storage_names *ret_names, struct error *ret_error)
{
    struct memory_storage *memory = memory_of(storage);
    struct timer_id *ids = malloc(lookup->count_max * sizeof(*ids));

    assert(lookup->partition < memory->partition_count && lookup->count_max);
    if (!ids)
        return error_set(ret_error, ERROR_NO_MEMORY, "lookup");
    pthread_mutex_lock(&memory->lock);
    enum error_code code = memory_fault_hits(&memory->read_fault);
    size_t count = 0;
    if (!code)
        code = memory_lookup_locked(memory, lookup, ids, &count);
    pthread_mutex_unlock(&memory->lock);
    if (code) {
        free(ids);
        return error_set(ret_error, code, "lookup: %s", error_title(code));
    }
    *ret_names = (struct storage_names){ids, count};
    return ERROR_NONE;
}

static enum error_code memory_load_meta(struct storage *storage, uint16_t partition,
                                        struct storage_meta *ret_meta, struct error *ret_error)
{
    struct memory_storage *memory = memory_of(storage);

    assert(partition < memory->partition_count);
    pthread_mutex_lock(&memory->lock);
    enum error_code code = memory_read_meta(memory, partition, ret_meta, ret_error);
    pthread_mutex_unlock(&memory->lock);
    return code;
}

static enum error_code memory_load_place(struct storage *storage, uint16_t partition,
                                         struct storage_place *ret_place, struct error *ret_error)
{
    struct memory_storage *memory = memory_of(storage);

    (void)ret_error;
    assert(partition < memory->partition_count);
    pthread_mutex_lock(&memory->lock);
    *ret_place = memory->places[partition];
    pthread_mutex_unlock(&memory->lock);
    return ERROR_NONE;
}

static enum error_code memory_load_tenant_counts(struct storage *storage, uint16_t partition,
                                                 struct tenant_counts *tenant_counts,
                                                 struct error *ret_error)
{
    struct memory_storage *memory = memory_of(storage);

    pthread_mutex_lock(&memory->lock);
    const enum error_code code = memory_count_tenants(memory, partition, tenant_counts);
    pthread_mutex_unlock(&memory->lock);
    return code ? error_set(ret_error, code, "tenant_counts") : ERROR_NONE;
}

static enum error_code memory_load_note(struct storage *storage, enum storage_note note,
                                        uint16_t partition, struct buffer *to,
                                        struct error *ret_error)
{
    struct memory_storage *memory = memory_of(storage);
    const struct store_key key = store_note_key(note, partition);
    struct bytes bytes = {0};
    enum error_code code = ERROR_NONE;

    pthread_mutex_lock(&memory->lock);
    struct tree_node *node = tree_find(&memory->metas, memory_note_key(note, partition));
    if (node)
        code = record_note_decode((struct bytes){key.data, key.size}, tree_node_value(node), &bytes,
                                  ret_error);
    buffer_append_bytes(to, bytes);
    pthread_mutex_unlock(&memory->lock);
    return code || !buffer_failed(to) ? code : error_set(ret_error, ERROR_NO_MEMORY, "note");
}

static void memory_stats(struct storage *storage, struct storage_stats *ret_stats)
{
    struct memory_storage *memory = memory_of(storage);

    pthread_mutex_lock(&memory->lock);
    *ret_stats = (struct storage_stats){
        .corrupt_records = memory->corrupt_count,
        .disk_free_bytes = UINT64_MAX,
        .memory_bytes = tree_bytes(&memory->rows) + tree_bytes(&memory->pointers) +
                        tree_bytes(&memory->names) + tree_bytes(&memory->metas) +
                        tree_bytes(&memory->tenants) + tree_bytes(&memory->quarantine),
    };
    pthread_mutex_unlock(&memory->lock);
}

static void memory_close(struct storage *storage)
{
    struct memory_storage *memory = memory_of(storage);

    memory_forget_undos(memory);
    tree_deinit(&memory->rows);
    tree_deinit(&memory->pointers);
    tree_deinit(&memory->names);
    tree_deinit(&memory->metas);
    tree_deinit(&memory->tenants);
    tree_deinit(&memory->quarantine);
    prepare_rows_deinit(&memory->scratch);
    free(memory->places);
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

/* ---- making one, and the hooks of tests ---- */

struct storage *memory_storage_create(uint16_t partition_count)
{
    static const struct storage_ops ops = {
        .scan = memory_scan,
        .find = memory_find,
        .lookup = memory_lookup,
        .load_meta = memory_load_meta,
        .load_tenant_counts = memory_load_tenant_counts,
        .load_note = memory_load_note,
        .stats = memory_stats,
        .prepare = memory_prepare,
        .apply = memory_apply,
        .load_place = memory_load_place,
        .export = memory_export,
        .clear = memory_clear,
        .close = memory_close,
    };
    struct memory_storage *memory = calloc(1, sizeof(*memory));

    if (!memory)
        return NULL;
    memory->places = calloc((size_t)partition_count + 1, sizeof(*memory->places));
    if (!memory->places) {
        free(memory);
        return NULL;
    }
    memory->storage.ops = &ops;
    memory->partition_count = partition_count;
    pthread_mutex_init(&memory->lock, NULL);
    list_init(&memory->changes);
    return &memory->storage;
}

void memory_storage_hold(struct storage *storage)
{
    struct memory_storage *memory = memory_of(storage);

    pthread_mutex_lock(&memory->lock);
    memory->is_holding = true;
    pthread_mutex_unlock(&memory->lock);
}

void memory_storage_sync(struct storage *storage)
{
    struct memory_storage *memory = memory_of(storage);

    pthread_mutex_lock(&memory->lock);
    memory_forget_undos(memory);
    pthread_mutex_unlock(&memory->lock);
}

void memory_storage_crash(struct storage *storage, size_t kept)
{
    struct memory_storage *memory = memory_of(storage);

    pthread_mutex_lock(&memory->lock);
    while (memory->change_count > kept)
        memory_undo_last(memory);
    memory_forget_undos(memory);
    pthread_mutex_unlock(&memory->lock);
}

size_t memory_storage_held(const struct storage *storage)
{
    struct memory_storage *memory = memory_of(storage);

    pthread_mutex_lock(&memory->lock);
    size_t count = memory->change_count;
    pthread_mutex_unlock(&memory->lock);
    return count;
}

void memory_storage_fail_commit(struct storage *storage, size_t n, enum error_code code)
{
    struct memory_storage *memory = memory_of(storage);

    pthread_mutex_lock(&memory->lock);
    memory->change_fault = (struct fault){n, code};
    pthread_mutex_unlock(&memory->lock);
}

void memory_storage_fail_read(struct storage *storage, size_t n, enum error_code code)
{
    struct memory_storage *memory = memory_of(storage);

    pthread_mutex_lock(&memory->lock);
    memory->read_fault = (struct fault){n, code};
    pthread_mutex_unlock(&memory->lock);
}

bool memory_storage_damage(struct storage *storage, const struct timer_id *id)
{
    struct memory_storage *memory = memory_of(storage);

    pthread_mutex_lock(&memory->lock);
    struct tree_node *node = tree_find(&memory->rows, memory_row_key_of(memory, id));
    if (node)
        node->data[node->size / 2] ^= 1;
    pthread_mutex_unlock(&memory->lock);
    return node != NULL;
}
