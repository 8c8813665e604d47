/* memory_export.c - copies of a partition's records, and an empty partition, in memory. */
#include "store/export.h"
#include "store/testing/memory_store.h"
#include "store/store_key.h"

#include <assert.h>
#include <stdlib.h>

static struct bytes memory_export_bytes(const struct store_key *key)
{
    return (struct bytes){key->data, key->size};
}

/* ---- copies ---- */

/* Exports the records of a tree from the export's key on, up to `end`. */
static enum error_code memory_export_tree(struct export_part *part, const struct tree *tree,
                                          struct record_key at, struct record_key end,
                                          struct error *ret_error)
{
    const bool are_pointers = export_table(part->export) == ROWOP_MOVED;
    const struct bytes last = export_key(part->export);
    enum error_code code = ERROR_NONE;
    struct tree_node *node;

    if (last.size) {
        if (are_pointers)
            store_pointer_key_parse(last, &at);
        else
            store_row_key_parse(last, &at);
        at = record_key_after(at);
    }
    for (; !code && !export_is_full(part) && (node = tree_find_from(tree, at)) &&
           record_key_before(node->key, end);
         at = record_key_after(node->key)) {
        const struct store_key key =
            are_pointers ? store_pointer_key(node->key) : store_row_key(node->key);

        code = export_add(part, memory_export_bytes(&key), tree_node_value(node), ret_error);
    }
    if (!code && !export_is_full(part))
        export_end_table(part->export);
    return code;
}

/* Exports all of them in one part, because there are few. */
static enum error_code memory_export_meta(struct memory_storage *memory, struct export_part *part,
                                          struct error *ret_error)
{
    const uint16_t partition = part->export->partition;
    const struct store_key ledger = store_note_key(STORAGE_LEDGER, partition);
    const struct store_key key = store_meta_key(partition);
    struct tree_node *node = tree_find(&memory->metas, memory_note_key(STORAGE_LEDGER, partition));
    enum error_code code =
        node ? export_add(part, memory_export_bytes(&ledger), tree_node_value(node), ret_error)
             : ERROR_NONE;

    node = tree_find(&memory->metas, memory_meta_key(partition));
    if (!code && node)
        code = export_add(part, memory_export_bytes(&key), tree_node_value(node), ret_error);
    for (struct record_key at = {partition, 0};
         !code && (node = tree_find_from(&memory->tenants, at)) && node->key.high == partition;
         at = record_key_after(node->key)) {
        const struct store_tenant_key tenant =
            store_tenant_key(partition, (struct bytes){node->data + MEMORY_NUMBER_SIZE,
                                                       node->size - MEMORY_NUMBER_SIZE});

        code = export_add(part, (struct bytes){tenant.data, tenant.size},
                          (struct bytes){node->data, MEMORY_NUMBER_SIZE}, ret_error);
    }
    if (!code)
        export_end_table(part->export);
    return code;
}

static enum error_code memory_export_table(struct memory_storage *memory, struct export_part *part,
                                           struct error *ret_error)
{
    const uint64_t partition = part->export->partition;

    switch (export_table(part->export)) {
    case ROWOP_TIMERS:
        return memory_export_tree(part, &memory->rows, (struct record_key){partition << 48, 0},
                                  (struct record_key){(partition + 1) << 48, 0}, ret_error);
    case ROWOP_MOVED:
        return memory_export_tree(part, &memory->pointers, (struct record_key){partition, 0},
                                  (struct record_key){partition + 1, 0}, ret_error);
    default:
        return memory_export_meta(memory, part, ret_error);
    }
}

enum error_code memory_export(struct storage *storage, struct storage_export *export,
                              struct buffer *to, struct error *ret_error)
{
    struct memory_storage *memory = memory_of(storage);
    struct export_part part;

    assert(export->partition < memory->partition_count && export->rows_max);
    export_begin(&part, export, (struct wall){0}, to);
    pthread_mutex_lock(&memory->lock);
    enum error_code code = memory_fault_hits(&memory->read_fault);
    export->place = memory->places[export->partition];
    if (!code && memory->corrupt_count)
        code = error_set(ret_error, ERROR_CORRUPT, "records were set aside");
    while (!code && !export->is_done && !export_is_full(&part))
        code = memory_export_table(memory, &part, ret_error);
    pthread_mutex_unlock(&memory->lock);
    export_end(&part);
    if (!code && buffer_failed(to))
        code = ERROR_NO_MEMORY;
    return code ? error_set(ret_error, code, "export: %s", error_title(code)) : ERROR_NONE;
}

/* ---- an empty partition ---- */

static bool memory_clear_tree(struct memory_change *change, struct tree *tree, struct record_key at,
                              struct record_key end)
{
    struct tree_node *node;

    while ((node = tree_find_from(tree, at)) && record_key_before(node->key, end)) {
        at = node->key;
        if (!memory_set(change, tree, at, NULL))
            return false;
    }
    return true;
}

/* A name that cannot be read has no partition, and stays. */
static bool memory_clear_names(struct memory_storage *memory, struct memory_change *change,
                               uint16_t partition)
{
    struct tree_node *node;
    struct record_name name;

    for (struct record_key at = {0, 0}; (node = tree_find_from(&memory->names, at));) {
        at = record_key_after(node->key);
        if (!record_name_decode(node->key, tree_node_value(node), &name, NULL) &&
            name.id.partition == partition && !memory_set(change, &memory->names, node->key, NULL))
            return false;
    }
    return true;
}

static bool memory_clear_all(struct memory_storage *memory, struct memory_change *change,
                             uint64_t partition)
{
    return memory_clear_tree(change, &memory->rows, (struct record_key){partition << 48, 0},
                             (struct record_key){(partition + 1) << 48, 0}) &&
           memory_clear_tree(change, &memory->pointers, (struct record_key){partition, 0},
                             (struct record_key){partition + 1, 0}) &&
           memory_clear_tree(change, &memory->tenants, (struct record_key){partition, 0},
                             (struct record_key){partition + 1, 0}) &&
           memory_set(change, &memory->metas, memory_meta_key((uint16_t)partition), NULL) &&
           memory_set(change, &memory->metas, memory_note_key(STORAGE_HOLDS, (uint16_t)partition),
                      NULL) &&
           memory_set(change, &memory->metas, memory_note_key(STORAGE_LEDGER, (uint16_t)partition),
                      NULL) &&
           memory_clear_names(memory, change, (uint16_t)partition);
}

enum error_code memory_clear(struct storage *storage, uint16_t partition,
                             const struct storage_place *place, struct error *ret_error)
{
    struct memory_storage *memory = memory_of(storage);
    struct memory_change *change = calloc(1, sizeof(*change));

    assert(partition < memory->partition_count);
    if (!change)
        return error_set(ret_error, ERROR_NO_MEMORY, "clear");
    pthread_mutex_lock(&memory->lock);
    enum error_code code = memory_fault_hits(&memory->change_fault);
    if (!code && !memory_clear_all(memory, change, partition))
        code = ERROR_NO_MEMORY;
    if (!code) {
        change->place = &memory->places[partition];
        change->old_place = memory->places[partition];
        memory->places[partition] = *place;
    }
    memory_end_change(memory, change, code);
    pthread_mutex_unlock(&memory->lock);
    return code ? error_set(ret_error, code, "clear: %s", error_title(code)) : ERROR_NONE;
}
