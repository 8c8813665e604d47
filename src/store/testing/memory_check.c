/* memory_check.c - the invariants of the storage in memory. */
#include "store/testing/memory_store.h"

#include <assert.h>

/* Checks that the timer is found by its names, and a live timer by its watched keys. Returns the
 * number of names. */
static size_t memory_check_names(const struct memory_storage *memory, const struct timer *timer)
{
    struct name_walk walk = {.timer = timer};
    struct name name;
    size_t count = 0;

    while (name_next(&walk, &name)) {
        struct record_key key = record_name_key(name.hash, timer->id.serial);
        struct tree_node *node = tree_find(&memory->names, key);

        if (name.kind == NAME_WATCH && timer_is_final(timer->state))
            continue;
        count++;
        struct record_name entry;
        assert(node && !record_name_decode(key, tree_node_value(node), &entry, NULL));
        assert(timer_id_equal(&entry.id, &timer->id) && entry.ended.ms == timer->ended.ms);
    }
    return count;
}

void memory_storage_check(const struct storage *storage)
{
    struct memory_storage *memory = memory_of(storage);

    pthread_mutex_lock(&memory->lock);
    tree_check(&memory->rows);
    tree_check(&memory->pointers);
    tree_check(&memory->names);
    tree_check(&memory->metas);
    tree_check(&memory->tenants);
    tree_check(&memory->quarantine);
    size_t name_count = 0;
    struct record_key at = {0};
    /* Exactly one pointer leads to each timer that is not at its first position. */
    for (struct tree_node *node; (node = tree_find_from(&memory->rows, at));
         at = record_key_after(node->key)) {
        struct timer view;

        if (record_row_decode(node->key, tree_node_value(node), &view, NULL))
            continue;
        name_count += memory_check_names(memory, &view);
        struct record_key key = record_pointer_key(view.id.partition, view.id.serial);
        struct tree_node *pointer = tree_find(&memory->pointers, key);
        assert((view.at.ms != view.id.first.ms) == (pointer != NULL));
        if (pointer) {
            struct record_pointer leads;
            assert(!record_pointer_decode(key, tree_node_value(pointer), &leads, NULL));
            assert(leads.at.ms == view.at.ms && leads.ended.ms == view.ended.ms);
        }
    }
    /* No entry remains without its row, except those of rows that were set aside. */
    assert(tree_count(&memory->quarantine) > 0 || name_count == tree_count(&memory->names));
    /* A pointer without a row is one whose row was set aside. */
    at = (struct record_key){0};
    for (struct tree_node *node; (node = tree_find_from(&memory->pointers, at));
         at = record_key_after(node->key)) {
        struct record_pointer leads;

        assert(!record_pointer_decode(node->key, tree_node_value(node), &leads, NULL));
        struct record_key row = record_row_key((uint16_t)node->key.high,
                                               (struct storage_position){leads.at, node->key.low});
        assert(tree_find(&memory->rows, row) || tree_find(&memory->quarantine, row));
    }
    pthread_mutex_unlock(&memory->lock);
}
