/* memory_change.c - changes of the storage in memory, which can be taken back. */
#include "store/testing/memory_store.h"

#include <stdlib.h>

enum error_code memory_fault_hits(struct fault *fault)
{
    return fault->in && !--fault->in ? fault->code : ERROR_NONE;
}

static void memory_change_undo(struct memory_change *change)
{
    if (change->place)
        *change->place = change->old_place;
    while (change->count) {
        struct undo *undo = &change->undos[--change->count];

        free(undo->old ? tree_insert(undo->tree, undo->old) : tree_remove(undo->tree, undo->key));
    }
}

static void memory_change_free(struct memory_change *change)
{
    for (size_t i = 0; i < change->count; i++)
        free(change->undos[i].old);
    free(change->undos);
    free(change);
}

void memory_forget_undos(struct memory_storage *memory)
{
    while (!list_is_empty(&memory->changes))
        memory_change_free(list_item(list_pop(&memory->changes), struct memory_change, link));
    memory->change_count = 0;
}

bool memory_set(struct memory_change *change, struct tree *tree, struct record_key key,
                struct tree_node *node)
{
    if (change->count == change->capacity) {
        size_t capacity = change->capacity ? 2 * change->capacity : 16;
        struct undo *undos = realloc(change->undos, capacity * sizeof(*undos));

        if (!undos)
            return false;
        change->undos = undos;
        change->capacity = capacity;
    }
    change->undos[change->count++] =
        (struct undo){tree, key, node ? tree_insert(tree, node) : tree_remove(tree, key)};
    return true;
}

void memory_end_change(struct memory_storage *memory, struct memory_change *change,
                       enum error_code code)
{
    if (code) {
        memory_change_undo(change);
        memory_change_free(change);
        return;
    }
    list_push(&memory->changes, &change->link);
    memory->change_count++;
    if (!memory->is_holding)
        memory_forget_undos(memory);
}

void memory_undo_last(struct memory_storage *memory)
{
    struct memory_change *last = list_item(memory->changes.prev, struct memory_change, link);

    list_remove(&last->link);
    memory->change_count--;
    memory_change_undo(last);
    memory_change_free(last);
}
