/*
 * purgatory_life.c - creating, destroying, statistics and checks of a purgatory.
 */
#include "purgatory_private.h"

#include <assert.h>

enum { SHARDS_DEFAULT = 16, DEAD_PERCENT_DEFAULT = 50 };

#define COUNT_MAX ((size_t)INT32_MAX)

static size_t purgatory_count_or_most(size_t count)
{
    return count == 0 || count > COUNT_MAX ? COUNT_MAX : count;
}

static bool purgatory_shard_init(struct purgatory_shard *shard, struct memory_source source,
                                 const struct tw_purgatory_options *options)
{
    size_t watch_size = options->unlink == TW_UNLINK_AT_ONCE
                            ? sizeof(struct purgatory_watch)
                            : offsetof(struct purgatory_watch, sibling);

    *shard = (struct purgatory_shard){.memory = memory_from(source), .wake_told = options->start};
    shard->wheel =
        tw_hierarchy_create(&(struct tw_hierarchy_options){.start = options->start,
                                                           .tick = options->tick,
                                                           .wheel_size = options->wheel_size,
                                                           .allocate = source.allocate,
                                                           .release = source.release,
                                                           .context = source.context});
    if (!shard->wheel)
        return false;
    pthread_mutex_init(&shard->lock, NULL);
    tw__slab_init(&shard->operations, sizeof(struct purgatory_operation), 0, &shard->memory);
    tw__slab_init(&shard->watches, watch_size, 0, &shard->memory);
    tw__slab_init(&shard->lists, sizeof(struct purgatory_watch_list), 0, &shard->memory);
    bucket_init(&shard->ring, 0, BUCKET_NONE);
    return true;
}

static void purgatory_shard_deinit(struct purgatory_shard *shard)
{
    tw__key_table_deinit(shard);
    tw__slab_deinit(&shard->lists);
    tw__slab_deinit(&shard->watches);
    tw__slab_deinit(&shard->operations);
    pthread_mutex_destroy(&shard->lock);
    tw_hierarchy_destroy(shard->wheel);
}

static void purgatory_free(struct tw_purgatory *purgatory, unsigned shard_count)
{
    for (unsigned i = 0; i < shard_count; i++)
        purgatory_shard_deinit(&purgatory->shards[i]);
    pthread_mutex_destroy(&purgatory->purge_lock);
    pthread_mutex_destroy(&purgatory->wake_lock);
    struct memory memory = purgatory->memory;
    memory_give(&memory, purgatory->shards, purgatory->shard_count, sizeof *purgatory->shards);
    memory_give(&memory, purgatory, 1, sizeof *purgatory);
}

struct tw_purgatory *tw_purgatory_create(const struct tw_purgatory_options *options)
{
    unsigned shard_count = options->shard_count ? options->shard_count : SHARDS_DEFAULT;
    unsigned percent = options->dead_percent_max ? options->dead_percent_max : DEAD_PERCENT_DEFAULT;
    struct memory memory = memory_from(
        tw__memory_source(options->allocate, options->release, options->memory_context));

    assert(options->try_complete && options->complete);
    assert(shard_count <= TW_PURGATORY_SHARDS_MAX && (shard_count & (shard_count - 1)) == 0);
    assert(percent >= 10 && percent <= 90);
    assert(options->wheel_size != 1);

    struct tw_purgatory *purgatory = memory_take(&memory, 1, sizeof *purgatory);
    if (!purgatory)
        return NULL;
    *purgatory = (struct tw_purgatory){
        .try_complete = options->try_complete,
        .complete = options->complete,
        .on_sooner = options->on_sooner,
        .context = options->context,
        .operation_count_max = purgatory_count_or_most(options->operation_count_max),
        .watch_count_max = purgatory_count_or_most(options->watch_count_max),
        .dead_percent_max = percent,
        .shard_count = shard_count,
        .tick = options->tick ? options->tick : 1,
        .unlink = options->unlink,
        .wake_told = options->start, /* no thread has asked for wake_at yet, so none sleeps */
    };
    pthread_mutex_init(&purgatory->wake_lock, NULL);
    pthread_mutex_init(&purgatory->purge_lock, NULL);
    purgatory->shards = memory_take(&memory, shard_count, sizeof *purgatory->shards);
    purgatory->memory = memory;
    for (unsigned i = 0; i < shard_count; i++)
        if (!purgatory->shards ||
            !purgatory_shard_init(&purgatory->shards[i], memory.source, options)) {
            purgatory_free(purgatory, i);
            return NULL;
        }
    return purgatory;
}

/* Completes all operations that have a watch in this shard. Each operation has its first watch in
 * one of the shards. */
static void purgatory_shard_empty(struct tw_purgatory *purgatory, struct purgatory_shard *shard)
{
    while (!bucket_is_empty(&shard->ring)) {
        struct purgatory_watch_list *list = (struct purgatory_watch_list *)shard->ring.root.next_;
        while (!bucket_is_empty(&list->watches)) {
            struct purgatory_watch *watch = watch_of(list->watches.root.next_);
            struct purgatory_operation *operation = watch->operation;
            uint32_t generation = watch->generation;
            bool is_dead = watch_is_dead(watch);
            tw__watch_drop(purgatory, shard, watch);
            if (is_dead)
                continue;
            atomic_store(&operation->state, (generation + 1) << 4);
            purgatory->complete(purgatory->context, operation->operation, TW_COMPLETED_BY_DESTROY);
        }
        tw__watch_list_settle(shard, list);
    }
}

void tw_purgatory_destroy(struct tw_purgatory *purgatory)
{
    if (!purgatory)
        return;
    purgatory->is_closing = true;
    if (purgatory->purge.list)
        tw__cursor_close(purgatory->purge.list, &purgatory->purge.cursor);
    for (unsigned i = 0; i < purgatory->shard_count; i++)
        purgatory_shard_empty(purgatory, &purgatory->shards[i]);
    purgatory_free(purgatory, purgatory->shard_count);
}

void tw_purgatory_get_stats(struct tw_purgatory *purgatory, struct tw_purgatory_stats *ret_stats)
{
    struct tw_purgatory_stats stats = {.memory = purgatory->memory.bytes};

    for (unsigned i = 0; i < purgatory->shard_count; i++) {
        struct purgatory_shard *shard = &purgatory->shards[i];
        pthread_mutex_lock(&shard->lock);
        stats.keys += shard->lists.used_count;
        stats.memory += shard->memory.bytes + tw_hierarchy_memory(shard->wheel);
        stats.by_event_count += shard->by_event_count;
        stats.by_timeout_count += shard->by_timeout_count;
        stats.purged_count += shard->purged_count;
        pthread_mutex_unlock(&shard->lock);
    }
    pthread_mutex_lock(&purgatory->purge_lock);
    stats.look_count = purgatory->purge.look_count;
    pthread_mutex_unlock(&purgatory->purge_lock);
    stats.delayed = atomic_load(&purgatory->operation_count);
    stats.watched = atomic_load(&purgatory->watch_count);
    size_t alive = atomic_load(&purgatory->alive_count);
    stats.dead = stats.watched > alive ? stats.watched - alive : 0;
    *ret_stats = stats;
}

struct purgatory_check_counts {
    size_t watches;
    size_t alive;
    size_t lists;
};

static void purgatory_check_list(const struct tw_purgatory *purgatory,
                                 const struct purgatory_shard *shard,
                                 const struct purgatory_watch_list *list,
                                 struct purgatory_check_counts *tally)
{
    const struct purgatory_purge *purge = &purgatory->purge;
    size_t count = bucket_check(&list->watches);

    REQUIRE(shard_of(purgatory, list->key) == shard);
    REQUIRE(tw__watch_list_find(shard, list->key) == list);
    REQUIRE(count == list->count);
    REQUIRE(list->cursors == (purge->list == list ? &purge->cursor : NULL));
    REQUIRE(count > 0 || list->cursors);
    for (struct tw_link *link = list->watches.root.next_; link != &list->watches.root;
         link = link->next_) {
        const struct purgatory_watch *watch = watch_of(link);
        REQUIRE(watch->list == list);
        REQUIRE(watch->generation < OPERATION_GENERATION_LAST);
        if (watch_is_dead(watch))
            continue;
        REQUIRE((atomic_load(&watch->operation->state) & STATE_FLAGS) == 0);
        REQUIRE(watch->operation->slot.generation & 1); /* the slot of the operation is in use */
        const struct purgatory_watch *first = watch->operation->first;
        REQUIRE(first->operation == watch->operation && first->generation == watch->generation);
        tally->alive++;
    }
    tally->watches += count;
    tally->lists++;
}

static void purgatory_check_table(const struct purgatory_shard *shard)
{
    size_t count = 0;

    for (uint32_t i = 0; i < shard->table.bucket_count; i++)
        for (const struct purgatory_watch_list *list = *table_bucket(&shard->table, i); list;
             list = list->next, count++)
            REQUIRE(table_index(shard->table.bucket_count, key_mix(list->key)) == i);
    REQUIRE(count == shard->lists.used_count);
}

void tw_purgatory_check(struct tw_purgatory *purgatory)
{
    struct purgatory_check_counts all = {0};
    size_t operation_count = 0;

    for (unsigned i = 0; i < purgatory->shard_count; i++) {
        struct purgatory_shard *shard = &purgatory->shards[i];
        struct purgatory_check_counts tally = {0};
        pthread_mutex_lock(&shard->lock);
        bucket_check(&shard->ring);
        for (struct tw_link *link = shard->ring.root.next_; link != &shard->ring.root;
             link = link->next_)
            purgatory_check_list(purgatory, shard, (struct purgatory_watch_list *)link, &tally);
        purgatory_check_table(shard);
        tw_hierarchy_check(shard->wheel);
        operation_count += tw__slab_check(&shard->operations) - shard->retired_count;
        REQUIRE(tw__slab_check(&shard->watches) == tally.watches);
        REQUIRE(tw__slab_check(&shard->lists) == tally.lists);
        REQUIRE(tw_hierarchy_count(shard->wheel) <=
                shard->operations.used_count - shard->retired_count);
        pthread_mutex_unlock(&shard->lock);
        all.watches += tally.watches;
        all.alive += tally.alive;
    }
    REQUIRE(all.watches == atomic_load(&purgatory->watch_count));
    REQUIRE(all.alive == atomic_load(&purgatory->alive_count));
    REQUIRE(operation_count == atomic_load(&purgatory->operation_count));
}
