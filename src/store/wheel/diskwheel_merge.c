/* diskwheel_merge.c - merges stages and runs by a heap; see diskwheel_merge.h.
 *
 * A source of a run stands in the heap with the least key that its next record can have, and is
 * read when it comes first: a short walk over many runs opens few blocks. */
#include "store/wheel/diskwheel_merge.h"

#include <assert.h>
#include <stdlib.h>

/* ---- stages ---- */

struct diskwheel_stage *diskwheel_stage_create(uint16_t partition_count)
{
    struct diskwheel_stage *stage = calloc(1, sizeof(*stage));

    if (!stage)
        return NULL;
    diskwheel_layer_init(&stage->layer);
    atomic_init(&stage->references, 1);
    stage->cuts = calloc(partition_count, sizeof(*stage->cuts));
    if (!stage->cuts) {
        free(stage);
        return NULL;
    }
    return stage;
}

bool diskwheel_stage_end_row(struct diskwheel_stage *stage, struct record_key key)
{
    return diskwheel_layer_find(&stage->layer, DISKWHEEL_TIMERS, key) ||
           diskwheel_layer_put(&stage->layer, DISKWHEEL_TIMERS, key, DISKWHEEL_GONE, false,
                               (struct bytes){0});
}

void diskwheel_stage_release(struct diskwheel_stage *stage)
{
    if (!stage || atomic_fetch_sub(&stage->references, 1) != 1)
        return;
    diskwheel_layer_deinit(&stage->layer);
    free((void *)(uintptr_t)stage->cuts);
    free(stage);
}

/* The partition of an entry of a name is in its value. */
bool diskwheel_is_cut(enum diskwheel_table table, const _Atomic uint64_t *cuts,
                      struct record_key key, struct bytes value)
{
    struct record_name name;

    switch (table) {
    case DISKWHEEL_TIMERS:
        return (key.high & RECORD_AT_MAX) < cuts[key.high >> 48];
    case DISKWHEEL_MOVED:
        return cuts[key.high] == DISKWHEEL_CUT_ALL;
    default:
        return !record_name_decode(key, value, &name, NULL) &&
               cuts[name.id.partition] == DISKWHEEL_CUT_ALL;
    }
}

/* ---- the heap ---- */

static bool diskwheel_merge_before(const struct diskwheel_source *a,
                                   const struct diskwheel_source *b)
{
    if (!record_key_equal(a->bound, b->bound))
        return record_key_before(a->bound, b->bound);
    return a->age < b->age;
}

static void diskwheel_merge_sink(struct diskwheel_merge *merge, size_t at)
{
    struct diskwheel_source *sunk = merge->heap[at];

    for (size_t child; (child = 2 * at + 1) < merge->heap_count; at = child) {
        if (child + 1 < merge->heap_count &&
            diskwheel_merge_before(merge->heap[child + 1], merge->heap[child]))
            child++;
        if (!diskwheel_merge_before(merge->heap[child], sunk))
            break;
        merge->heap[at] = merge->heap[child];
    }
    merge->heap[at] = sunk;
}

static void diskwheel_merge_remove_first(struct diskwheel_merge *merge)
{
    merge->heap[0] = merge->heap[--merge->heap_count];
    if (merge->heap_count)
        diskwheel_merge_sink(merge, 0);
}

/* ---- sources ---- */

void diskwheel_merge_init(struct diskwheel_merge *merge, enum diskwheel_table table)
{
    *merge = (struct diskwheel_merge){.table = table};
    buffer_init(&merge->touched);
}

static struct diskwheel_source *diskwheel_merge_add(struct diskwheel_merge *merge)
{
    assert(!merge->is_ready);
    if (merge->count == merge->capacity) {
        const size_t capacity = merge->capacity ? 2 * merge->capacity : 8;
        struct diskwheel_source *sources = realloc(merge->sources, capacity * sizeof(*sources));

        if (!sources)
            return NULL;
        merge->sources = sources;
        merge->capacity = capacity;
    }
    struct diskwheel_source *source = &merge->sources[merge->count];
    *source = (struct diskwheel_source){.age = merge->count};
    merge->count++;
    return source;
}

/* Reads the next change of a source in memory. Returns false at its end. */
static bool diskwheel_merge_read_memory(struct diskwheel_source *source)
{
    if (source->seen) {
        if (source->seen_at == source->seen_count)
            return false;
        const struct diskwheel_seen *seen = &source->seen[source->seen_at++];
        source->bound = seen->key;
        source->change = seen->change;
        source->is_new = seen->entry->is_new;
        source->value = diskwheel_entry_value(seen->entry);
    } else {
        struct diskwheel_entry *entry;

        if (!diskwheel_walk_next(&source->walk, &source->bound, &entry))
            return false;
        source->change = (enum diskwheel_change)entry->change;
        source->is_new = entry->is_new;
        source->value = diskwheel_entry_value(entry);
    }
    source->is_read = true;
    return true;
}

bool diskwheel_merge_add_seen(struct diskwheel_merge *merge, const struct diskwheel_seen *seen,
                              size_t count)
{
    struct diskwheel_source *source = count ? diskwheel_merge_add(merge) : NULL;

    if (!source)
        return !count;
    source->seen = seen;
    source->seen_count = count;
    return diskwheel_merge_read_memory(source);
}

bool diskwheel_merge_add_stage(struct diskwheel_merge *merge, struct diskwheel_stage *stage,
                               const _Atomic uint64_t *cuts, struct record_key from)
{
    struct diskwheel_source *source = diskwheel_merge_add(merge);

    if (!source)
        return false;
    source->stage = stage;
    source->cuts = cuts;
    source->walk = diskwheel_layer_from(&stage->layer, merge->table, from);
    if (!diskwheel_merge_read_memory(source))
        merge->count--;
    return true;
}

bool diskwheel_merge_add_run(struct diskwheel_merge *merge, struct diskwheel_run *run,
                             const _Atomic uint64_t *cuts, struct record_key from)
{
    struct diskwheel_source *source = diskwheel_merge_add(merge);

    if (!source)
        return false;
    source->cuts = cuts;
    diskwheel_cursor_seek(&source->cursor, run, merge->table, from);
    if (!diskwheel_cursor_bound(&source->cursor, &source->bound))
        merge->count--;
    return true;
}

/* The sources are complete, and stay where they are. */
static enum error_code diskwheel_merge_start(struct diskwheel_merge *merge)
{
    merge->heap = malloc((merge->count + 1) * sizeof(struct diskwheel_source *));
    if (!merge->heap)
        return ERROR_NO_MEMORY;
    for (size_t i = 0; i < merge->count; i++)
        merge->heap[merge->heap_count++] = &merge->sources[i];
    for (size_t i = merge->heap_count / 2; i-- > 0;)
        diskwheel_merge_sink(merge, i);
    merge->is_ready = true;
    return ERROR_NONE;
}

/* Reads the first source's record at its bound, or behind it. */
static enum error_code diskwheel_merge_read_first(struct diskwheel_merge *merge,
                                                  struct error *ret_error)
{
    struct diskwheel_source *source = merge->heap[0];
    enum error_code code =
        diskwheel_cursor_next(&source->cursor, &source->bound, &source->value, ret_error);

    if (code == ERROR_CORRUPT && !diskwheel_cursor_bound(&source->cursor, &source->bound)) {
        diskwheel_merge_remove_first(merge);
        return code;
    }
    if (code == ERROR_NOT_FOUND) {
        diskwheel_merge_remove_first(merge);
        return ERROR_NONE;
    }
    if (!code) {
        source->is_read = true;
        source->change = DISKWHEEL_PUT;
        source->is_new = false;
    }
    diskwheel_merge_sink(merge, 0);
    return code;
}

/* Goes on behind the first source's record. */
static void diskwheel_merge_pass(struct diskwheel_merge *merge)
{
    struct diskwheel_source *source = merge->heap[0];

    source->is_read = false;
    const bool has_more = source->cursor.run
                              ? diskwheel_cursor_bound(&source->cursor, &source->bound)
                              : diskwheel_merge_read_memory(source);
    if (has_more)
        diskwheel_merge_sink(merge, 0);
    else
        diskwheel_merge_remove_first(merge);
}

/* Reads until the first of the heap has a record. ERROR_NOT_FOUND at the end. */
static enum error_code diskwheel_merge_first(struct diskwheel_merge *merge, struct error *ret_error)
{
    while (merge->heap_count) {
        struct diskwheel_source *source = merge->heap[0];
        enum error_code code;

        if (!source->is_read) {
            if ((code = diskwheel_merge_read_first(merge, ret_error)))
                return code;
            continue;
        }
        if (source->cuts &&
            diskwheel_is_cut(merge->table, source->cuts, source->bound, source->value)) {
            diskwheel_merge_pass(merge);
            continue;
        }
        return ERROR_NONE;
    }
    return ERROR_NOT_FOUND;
}

/* Applies the touch in merge->touched to the older record that follows, if there is one. */
static enum error_code diskwheel_merge_touch(struct diskwheel_merge *merge, struct record_key key,
                                             struct bytes touch, struct bytes *ret_value,
                                             struct error *ret_error)
{
    struct bytes row = {0};
    struct buffer whole;
    enum error_code code;

    while (!(code = diskwheel_merge_first(merge, ret_error))) {
        const struct diskwheel_source *source = merge->heap[0];

        if (!record_key_equal(source->bound, key))
            break;
        if (source->change == DISKWHEEL_TOUCH) { /* an older one, which this one replaces */
            diskwheel_merge_pass(merge);
            continue;
        }
        if (source->change == DISKWHEEL_PUT)
            row = source->value;
        break;
    }
    if (code && code != ERROR_NOT_FOUND)
        return code;
    buffer_init(&whole);
    record_touch_apply(&whole, key, row, touch);
    buffer_deinit(&merge->touched);
    merge->touched = whole;
    *ret_value = buffer_bytes(&merge->touched);
    return buffer_failed(&whole) ? ERROR_NO_MEMORY : ERROR_NONE;
}

enum error_code diskwheel_merge_next(struct diskwheel_merge *merge,
                                     struct diskwheel_record *ret_record, struct error *ret_error)
{
    enum error_code code = merge->is_ready ? ERROR_NONE : diskwheel_merge_start(merge);

    while (!code) {
        if ((code = diskwheel_merge_first(merge, ret_error)))
            return code;
        const struct diskwheel_source *source = merge->heap[0];
        const struct record_key key = source->bound;
        if (merge->is_begun && !record_key_before(merge->last, key)) {
            diskwheel_merge_pass(merge); /* a newer source had the key */
            continue;
        }
        if (source->change == DISKWHEEL_TOUCH) {
            const struct bytes touch = source->value;

            *ret_record = (struct diskwheel_record){.key = key};
            diskwheel_merge_pass(merge);
            if ((code = diskwheel_merge_touch(merge, key, touch, &ret_record->value, ret_error)))
                return code;
            merge->last = key;
            merge->is_begun = true;
            return ERROR_NONE;
        }
        const bool is_record = source->change == DISKWHEEL_PUT;
        *ret_record =
            (struct diskwheel_record){key, source->value, source->is_new, source->cursor.run};
        merge->last = key;
        merge->is_begun = true;
        if (is_record)
            return ERROR_NONE; /* it is passed at the next call, so that its value stays */
        diskwheel_merge_pass(merge);
    }
    return error_set(ret_error, code, "merge");
}

void diskwheel_merge_deinit(struct diskwheel_merge *merge)
{
    for (size_t i = 0; i < merge->count; i++)
        diskwheel_cursor_deinit(&merge->sources[i].cursor);
    free(merge->sources);
    free(merge->heap);
    buffer_deinit(&merge->touched);
}
