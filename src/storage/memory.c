/* memory.c - the storage in memory, with faults on demand. */
#include "storage/memory.h"

#include "storage/page.h"
#include "storage/tree.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

/* Every change of a tree is logged with the node that stood there before. A commit is undone by
 * putting the old nodes back, which allocates nothing and so cannot fail. */

struct undo {
    struct tree *tree;
    struct record_key key;
    struct tree_node *old; /* NULL: there was none */
};

struct memory_commit {
    struct list link;
    struct undo *undos;
    size_t count, capacity;
};

/* An injected fault: the `in`-th call from now fails; 0: none. */
struct fault {
    size_t in;
    enum error_code code;
};

struct memory_storage {
    struct storage storage; /* first: the caller's view of it */
    uint16_t partition_count;
    pthread_mutex_t lock;   /* guards all below */
    struct tree rows;       /* the encoded timers, by position */
    struct tree pointers;   /* the encoded positions of timers away from id.first */
    struct tree names;      /* the encoded entries of names */
    struct tree metas;      /* by (0, partition) */
    struct tree quarantine; /* damaged rows */
    uint64_t corrupt_count; /* rows that were ever set aside */
    struct list commits;    /* held, oldest first */
    size_t commit_count;    /* how many are held */
    bool is_holding;
    struct fault commit_fault, read_fault;
};

static struct memory_storage *memory_of(const struct storage *storage)
{
    return (struct memory_storage *)(uintptr_t)storage; /* its first member */
}

static struct record_key memory_meta_key(uint16_t partition)
{
    return (struct record_key){0, partition};
}

static enum error_code memory_fault_hits(struct fault *fault)
{
    return fault->in && !--fault->in ? fault->code : ERROR_NONE;
}

/* ---- commits and taking them back ---- */

static void memory_commit_undo(struct memory_commit *commit)
{
    while (commit->count) {
        struct undo *undo = &commit->undos[--commit->count];

        free(undo->old ? tree_insert(undo->tree, undo->old) : tree_remove(undo->tree, undo->key));
    }
}

static void memory_commit_free(struct memory_commit *commit)
{
    for (size_t i = 0; i < commit->count; i++)
        free(commit->undos[i].old);
    free(commit->undos);
    free(commit);
}

static void memory_forget_undos(struct memory_storage *memory)
{
    while (!list_is_empty(&memory->commits))
        memory_commit_free(list_item(list_pop(&memory->commits), struct memory_commit, link));
    memory->commit_count = 0;
}

/* Puts `node` at `key`, or nothing when it is NULL. False when out of memory: nothing changed. */
static bool memory_set(struct memory_commit *commit, struct tree *tree, struct record_key key,
                       struct tree_node *node)
{
    if (commit->count == commit->capacity) {
        size_t capacity = commit->capacity ? 2 * commit->capacity : 16;
        struct undo *undos = realloc(commit->undos, capacity * sizeof(*undos));

        if (!undos)
            return false;
        commit->undos = undos;
        commit->capacity = capacity;
    }
    commit->undos[commit->count++] =
        (struct undo){tree, key, node ? tree_insert(tree, node) : tree_remove(tree, key)};
    return true;
}

/* Puts the bytes of `value` at the key; the buffer is emptied. */
static bool memory_put(struct memory_commit *commit, struct tree *tree, struct record_key key,
                       struct buffer *value)
{
    struct tree_node *node =
        buffer_failed(value) ? NULL : tree_node_create(key, buffer_bytes(value));

    buffer_clear(value);
    if (!node)
        return false;
    if (!memory_set(commit, tree, key, node)) {
        free(node);
        return false;
    }
    return true;
}

static bool memory_apply_names(struct memory_storage *memory, struct memory_commit *commit,
                               const struct storage_write *write, struct buffer *scratch)
{
    struct record_name_walk walk = {.write = write};
    enum record_name_change change;
    struct record_key key;
    struct record_name name;

    while (record_name_next(&walk, &change, &key, &name)) {
        if (change == RECORD_NAME_DELETE) {
            if (!memory_set(commit, &memory->names, key, NULL))
                return false;
            continue;
        }
        record_name_encode(scratch, key, &name);
        if (!memory_put(commit, &memory->names, key, scratch))
            return false;
    }
    return true;
}

/* A touch goes the way that it goes on disk. */
static void memory_encode_row(struct memory_storage *memory, struct buffer *to,
                              struct record_key key, const struct storage_write *write)
{
    struct tree_node *node = write->is_touch ? tree_find(&memory->rows, key) : NULL;

    if (!node) {
        record_row_encode(to, key, write->timer);
        return;
    }
    struct buffer touch;
    buffer_init(&touch);
    record_touch_encode(&touch, key, write->timer);
    if (buffer_failed(&touch))
        to->failed = true;
    else
        record_touch_apply(to, key, tree_node_value(node), buffer_bytes(&touch));
    buffer_deinit(&touch);
}

static bool memory_apply_write(struct memory_storage *memory, struct memory_commit *commit,
                               const struct storage_write *write, struct buffer *scratch)
{
    const struct timer *timer = write->timer;
    const uint16_t partition = timer->id.partition;
    const uint64_t serial = timer->id.serial;
    const struct record_change change = record_change_of(write);
    const struct record_key pointer = record_pointer_key(partition, serial);
    const struct record_key row =
        record_row_key(partition, (struct storage_position){change.put, serial});
    const struct record_key cut =
        record_row_key(partition, (struct storage_position){change.cut, serial});

    if (change.cut.ms && !memory_set(commit, &memory->rows, cut, NULL))
        return false;
    if (change.put.ms) {
        memory_encode_row(memory, scratch, row, write);
        if (!memory_put(commit, &memory->rows, row, scratch))
            return false;
    }
    if (!memory_apply_names(memory, commit, write, scratch))
        return false;
    if (change.pointer == RECORD_POINTER_DELETE)
        return memory_set(commit, &memory->pointers, pointer, NULL);
    if (change.pointer == RECORD_POINTER_KEEP)
        return true;
    record_pointer_encode(scratch, pointer,
                          (struct record_pointer){change.put, record_ended(timer)});
    return memory_put(commit, &memory->pointers, pointer, scratch);
}

/* Drops the names of the row in `node`. */
static bool memory_trim_names(struct memory_storage *memory, struct memory_commit *commit,
                              const struct tree_node *node)
{
    struct timer view;

    if (record_row_decode(node->key, tree_node_value(node), &view, NULL))
        return true;
    struct name_walk walk = {0};
    walk.timer = &view;
    struct name name;
    while (name_next(&walk, &name))
        if (!memory_set(commit, &memory->names, record_name_key(name.hash, view.id.serial), NULL))
            return false;
    return true;
}

/* Drops the rows of [from, to), with the pointers that lead to them and their names. */
static bool memory_apply_trim(struct memory_storage *memory, struct memory_commit *commit,
                              uint16_t partition, struct wall from, struct wall to)
{
    struct record_key at = record_row_key(partition, (struct storage_position){from, 0});
    const struct record_key end = record_row_key(partition, (struct storage_position){to, 0});
    struct tree_node *node;

    while ((node = tree_find_from(&memory->rows, at)) && record_key_before(node->key, end)) {
        const struct storage_position position = record_row_position(node->key);
        const struct record_key key = record_pointer_key(partition, position.serial);
        struct tree_node *pointer = tree_find(&memory->pointers, key);

        at = node->key;
        struct record_pointer leads;
        if (pointer && !record_pointer_decode(key, tree_node_value(pointer), &leads, NULL) &&
            leads.at.ms == position.at.ms && !memory_set(commit, &memory->pointers, key, NULL))
            return false;
        if (!memory_trim_names(memory, commit, node) ||
            !memory_set(commit, &memory->rows, at, NULL))
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

static bool memory_apply_batch(struct memory_storage *memory, struct memory_commit *commit,
                               const struct storage_batch *batch, struct buffer *scratch)
{
    for (size_t i = 0; i < batch->write_count; i++) {
        assert(batch->writes[i].timer->id.partition == batch->partition);
        if (!memory_apply_write(memory, commit, &batch->writes[i], scratch))
            return false;
    }
    struct storage_meta old;
    if (memory_read_meta(memory, batch->partition, &old, NULL) ||
        !memory_apply_trim(memory, commit, batch->partition, old.trim, batch->meta.trim))
        return false;
    struct storage_meta meta = batch->meta;
    meta.pending = old.pending + (uint64_t)record_pending_change(batch);
    record_meta_encode(scratch, batch->partition, &meta);
    return memory_put(commit, &memory->metas, memory_meta_key(batch->partition), scratch);
}

static enum error_code memory_commit(struct storage *storage, struct storage_batch *const *batches,
                                     size_t count, struct error *ret_error)
{
    struct memory_storage *memory = memory_of(storage);
    struct memory_commit *commit = calloc(1, sizeof(*commit));
    struct buffer scratch;
    bool is_applied = commit != NULL;

    buffer_init(&scratch);
    pthread_mutex_lock(&memory->lock);
    enum error_code code = memory_fault_hits(&memory->commit_fault);
    for (size_t i = 0; i < count && is_applied && !code; i++) {
        assert(batches[i]->partition < memory->partition_count);
        is_applied = memory_apply_batch(memory, commit, batches[i], &scratch);
    }
    if (is_applied && !code) {
        list_push(&memory->commits, &commit->link);
        memory->commit_count++;
        if (!memory->is_holding)
            memory_forget_undos(memory);
    } else if (commit) {
        memory_commit_undo(commit);
        memory_commit_free(commit);
    }
    pthread_mutex_unlock(&memory->lock);
    buffer_deinit(&scratch);
    if (code)
        return error_set(ret_error, code, "commit: an injected fault");
    return is_applied ? ERROR_NONE : error_set(ret_error, ERROR_NO_MEMORY, "commit");
}

/* ---- reading ---- */

/* Takes a damaged row out of the way. */
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

/* The key of the timer's row, if there were one. */
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

/* The ids of the entries from `key` on that have the name of the lookup. */
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

/* Counts the rows, as nothing here is large. */
static enum error_code memory_load_tenant_counts(struct storage *storage, uint16_t partition,
                                                 struct tenant_counts *tenant_counts,
                                                 struct error *ret_error)
{
    struct memory_storage *memory = memory_of(storage);
    struct record_key at = record_row_key(partition, (struct storage_position){{0}, 0});
    const struct record_key end =
        record_row_key(partition, (struct storage_position){WALL_NEVER, 0});

    pthread_mutex_lock(&memory->lock);
    struct tree_node *node;
    bool is_counted = true;
    while (is_counted && (node = tree_find_from(&memory->rows, at)) &&
           record_key_before(node->key, end)) {
        struct timer view;
        if (!record_row_decode(node->key, tree_node_value(node), &view, NULL) &&
            !timer_is_final(view.state))
            is_counted = tenant_counts_add(tenant_counts, view.texts.tenant, 1);
        at = record_key_after(node->key);
    }
    pthread_mutex_unlock(&memory->lock);
    return is_counted ? ERROR_NONE : error_set(ret_error, ERROR_NO_MEMORY, "tenant_counts");
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
                        tree_bytes(&memory->quarantine),
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
    tree_deinit(&memory->quarantine);
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

/* ---- making one, and the hooks of tests ---- */

struct storage *memory_storage_create(uint16_t partition_count)
{
    static const struct storage_ops ops = {
        .commit = memory_commit,
        .scan = memory_scan,
        .find = memory_find,
        .lookup = memory_lookup,
        .load_meta = memory_load_meta,
        .load_tenant_counts = memory_load_tenant_counts,
        .stats = memory_stats,
        .close = memory_close,
    };
    struct memory_storage *memory = calloc(1, sizeof(*memory));

    if (!memory)
        return NULL;
    memory->storage.ops = &ops;
    memory->partition_count = partition_count;
    pthread_mutex_init(&memory->lock, NULL);
    list_init(&memory->commits);
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
    for (; memory->commit_count > kept; memory->commit_count--) {
        struct memory_commit *last = list_item(memory->commits.prev, struct memory_commit, link);

        list_remove(&last->link);
        memory_commit_undo(last);
        memory_commit_free(last);
    }
    memory_forget_undos(memory);
    pthread_mutex_unlock(&memory->lock);
}

size_t memory_storage_held(const struct storage *storage)
{
    struct memory_storage *memory = memory_of(storage);

    pthread_mutex_lock(&memory->lock);
    size_t count = memory->commit_count;
    pthread_mutex_unlock(&memory->lock);
    return count;
}

void memory_storage_fail_commit(struct storage *storage, size_t n, enum error_code code)
{
    struct memory_storage *memory = memory_of(storage);

    pthread_mutex_lock(&memory->lock);
    memory->commit_fault = (struct fault){n, code};
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

/* Checks that the timer is found by its names, and a live timer by its watched keys; returns how
 * many names it has. */
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
    tree_check(&memory->quarantine);
    size_t name_count = 0;
    struct record_key at = {0};
    /* Every timer away from its first position is found by a pointer, and by one alone. */
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
    /* No entry is left behind, but those of rows that were set aside. */
    assert(tree_count(&memory->quarantine) > 0 || name_count == tree_count(&memory->names));
    /* A pointer that leads nowhere is one whose row was set aside. */
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
