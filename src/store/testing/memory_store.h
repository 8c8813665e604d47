/*
 * memory_store.h - the inside of the storage in memory, shared by its files.
 */
#ifndef TICKWHEEL_STORE_TESTING_MEMORY_STORE_H
#define TICKWHEEL_STORE_TESTING_MEMORY_STORE_H

#include "store/testing/memory.h"
#include "store/prepare.h"
#include "store/testing/tree.h"

#include <pthread.h>

/* Log of changes of a tree, with the old nodes. Undoing a change puts the old nodes back, which
 * allocates nothing and cannot fail. */

struct undo {
    struct tree *tree;
    struct record_key key;
    struct tree_node *old; /* NULL if there was none */
};

struct memory_change {
    struct list link;
    struct undo *undos;
    size_t count, capacity;
    struct storage_place *place, old_place; /* NULL if it has none */
};

/* An injected fault: the `in`-th call from now fails; 0 for none. */
struct fault {
    size_t in;
    enum error_code code;
};

struct memory_storage {
    struct storage storage; /* first field: the caller's view */
    uint16_t partition_count;
    pthread_mutex_t lock;         /* guards all fields below */
    struct tree rows;             /* encoded timers, by position */
    struct tree pointers;         /* encoded positions of timers that are not at id.first */
    struct tree names;            /* encoded entries of names */
    struct tree metas;            /* by (0, partition); notes by (1 + storage_note, partition) */
    struct tree tenants;          /* numbers of live timers, by (partition, hash): memory_count */
    struct tree quarantine;       /* damaged rows */
    struct storage_place *places; /* [partition_count] */
    struct prepare_rows scratch;
    uint64_t corrupt_count; /* number of rows ever set aside */
    struct list changes;    /* held changes, oldest first */
    size_t change_count;    /* number of held changes */
    bool is_holding;
    struct fault change_fault, read_fault;
};

static inline struct memory_storage *memory_of(const struct storage *storage)
{
    return (struct memory_storage *)(uintptr_t)storage; /* its first field */
}

/* ---- memory_change.c ---- */

/* Puts `node` at `key`; NULL removes the node. Returns false if out of memory, without effect. */
bool memory_set(struct memory_change *change, struct tree *tree, struct record_key key,
                struct tree_node *node);

/* Keeps the change, or undoes it. */
void memory_end_change(struct memory_storage *memory, struct memory_change *change,
                       enum error_code code);

/* Undoes the last change that is held. */
void memory_undo_last(struct memory_storage *memory);

/* Keeps all held changes for good. */
void memory_forget_undos(struct memory_storage *memory);

enum error_code memory_fault_hits(struct fault *fault);

enum { MEMORY_NUMBER_SIZE = 13 }; /* record.h; the tenant's name follows in `tenants` */

/* ---- memory_export.c ---- */

enum error_code memory_export(struct storage *storage, struct storage_export *export,
                              struct buffer *to, struct error *ret_error);
enum error_code memory_clear(struct storage *storage, uint16_t partition,
                             const struct storage_place *place, struct error *ret_error);

static inline struct record_key memory_meta_key(uint16_t partition)
{
    return (struct record_key){0, partition};
}

static inline struct record_key memory_note_key(enum storage_note note, uint16_t partition)
{
    return (struct record_key){1 + (uint64_t)note, partition};
}

#endif
