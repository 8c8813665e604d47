/*
 * purgatory_watch.c - watch lists, and the hash table that finds them by key.
 *
 * A list exists while its key has a watch or a cursor is in it.
 */
#include "purgatory_private.h"

static uint32_t purgatory_segment_size(unsigned segment)
{
    return segment == 0 ? SEGMENT_FIRST : (uint32_t)SEGMENT_FIRST << (segment - 1);
}

/* Adds a bucket, and moves lists to it from the bucket that it splits. If memory is out, chains
 * only become longer. */
static void purgatory_table_grow(struct purgatory_shard *shard)
{
    struct purgatory_key_table *table = &shard->table;
    uint32_t count = table->bucket_count;
    unsigned segment = 0;

    while (segment < SEGMENTS_MAX && table->segments[segment])
        segment++;
    uint32_t capacity =
        /* as many buckets as all earlier segments have together */
        segment ? purgatory_segment_size(segment) : 0;
    if (count == capacity) {
        if (segment == SEGMENTS_MAX)
            return;
        table->segments[segment] = memory_take(&shard->memory, purgatory_segment_size(segment),
                                               sizeof *table->segments[segment]);
        if (!table->segments[segment])
            return;
    }
    table->bucket_count++;
    *table_bucket(table, count) = NULL;
    if (count == 0)
        return;

    uint32_t halved = count & (UINT32_MAX >> __builtin_clz(count)) >> 1;
    struct purgatory_watch_list **from = table_bucket(table, halved),
                                **to = table_bucket(table, count);
    while (*from) {
        struct purgatory_watch_list *list = *from;
        if (table_index(table->bucket_count, key_mix(list->key)) == halved) {
            from = &list->next;
            continue;
        }
        *from = list->next;
        list->next = *to;
        *to = list;
    }
}

void tw__key_table_deinit(struct purgatory_shard *shard)
{
    for (unsigned i = 0; i < SEGMENTS_MAX; i++)
        memory_give(&shard->memory, shard->table.segments[i], purgatory_segment_size(i),
                    sizeof *shard->table.segments[i]);
}

static struct purgatory_watch_list **purgatory_table_chain(const struct purgatory_shard *shard,
                                                           uint64_t key)
{
    return table_bucket(&shard->table, table_index(shard->table.bucket_count, key_mix(key)));
}

struct purgatory_watch_list *tw__watch_list_find(const struct purgatory_shard *shard, uint64_t key)
{
    if (shard->table.bucket_count == 0)
        return NULL;
    struct purgatory_watch_list *list = *purgatory_table_chain(shard, key);
    while (list && list->key != key)
        list = list->next;
    return list;
}

static struct purgatory_watch_list *purgatory_list_make(struct purgatory_shard *shard, uint64_t key)
{
    if (shard->lists.used_count >= shard->table.bucket_count)
        purgatory_table_grow(shard);
    if (shard->table.bucket_count == 0)
        return NULL;
    struct purgatory_watch_list *list = (struct purgatory_watch_list *)tw__slab_take(&shard->lists);
    if (!list)
        return NULL;
    struct purgatory_watch_list **chain = purgatory_table_chain(shard, key);
    list->next = *chain;
    *chain = list;
    list->key = key;
    list->cursors = NULL;
    list->count = 0;
    bucket_init(&list->watches, 0, BUCKET_NONE);
    bucket_push(&shard->ring, &list->slot.link);
    return list;
}

void tw__watch_list_settle(struct purgatory_shard *shard, struct purgatory_watch_list *list)
{
    if (list->count > 0 || list->cursors)
        return;
    struct purgatory_watch_list **at = purgatory_table_chain(shard, list->key);
    while (*at != list)
        at = &(*at)->next;
    *at = list->next;
    bucket_remove(&list->slot.link);
    tw__slab_give(&shard->lists, &list->slot);
}

struct purgatory_watch *tw__watch_add(struct tw_purgatory *purgatory, struct purgatory_shard *shard,
                                      uint64_t key, struct purgatory_operation *operation,
                                      uint32_t generation)
{
    struct purgatory_watch *watch = (struct purgatory_watch *)tw__slab_take(&shard->watches);
    if (!watch)
        return NULL;
    struct purgatory_watch_list *list = tw__watch_list_find(shard, key);
    if (!list)
        list = purgatory_list_make(shard, key);
    if (!list) {
        tw__slab_give(&shard->watches, &watch->slot);
        return NULL;
    }
    watch->operation = operation;
    watch->list = list;
    watch->generation = generation;
    bucket_push(&list->watches, &watch->slot.link);
    list->count++;
    atomic_fetch_add(&purgatory->watch_count, 1);
    return watch;
}

void tw__watch_drop(struct tw_purgatory *purgatory, struct purgatory_shard *shard,
                    struct purgatory_watch *watch)
{
    struct tw_link *link = &watch->slot.link;
    struct purgatory_watch_list *list = watch->list;

    for (struct purgatory_cursor *cursor = list->cursors; cursor; cursor = cursor->next)
        if (cursor->at == link)
            cursor->at = link->next_;
    bucket_remove(link);
    list->count--;
    tw__slab_give(&shard->watches, &watch->slot);
    atomic_fetch_sub(&purgatory->watch_count, 1);
}

void tw__cursor_open(struct purgatory_watch_list *list, struct purgatory_cursor *cursor)
{
    cursor->at = list->watches.root.next_;
    cursor->next = list->cursors;
    list->cursors = cursor;
}

void tw__cursor_close(struct purgatory_watch_list *list, struct purgatory_cursor *cursor)
{
    struct purgatory_cursor **at = &list->cursors;

    while (*at != cursor)
        at = &(*at)->next;
    *at = cursor->next;
}
