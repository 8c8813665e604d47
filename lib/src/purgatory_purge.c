/*
 * purgatory_purge.c - removing dead watches, a few at a time.
 *
 * The purge removes dead watches from the lists. It starts when the estimate of the dead exceeds
 * their share, walks once through all lists of all shards, and is done in steps by the calls that
 * add watches or make them dead, so that the work of a call is at most a multiple of its own
 * watches.
 *
 * Bound: a purge that starts at W watches, in at most W lists, examines 2 W of them, and each watch
 * that dies meanwhile pays for TW_PURGATORY_LOOKS_MAX of these; so at most W / 8 die until it ends.
 * Watches added meanwhile pay for their own examination.
 */
#include "purgatory_private.h"

/* Watches and lists examined each time a shard is locked. */
enum { LOOKS_LOCKED_MAX = 256 };

static bool purgatory_purge_is_due(struct tw_purgatory *purgatory)
{
    size_t watched = atomic_load(&purgatory->watch_count);
    size_t alive = atomic_load(&purgatory->alive_count);
    size_t dead = watched > alive ? watched - alive : 0;

    return dead > TW_PURGATORY_DEAD_MIN &&
           (uint64_t)dead * 100 > (uint64_t)watched * purgatory->dead_percent_max;
}

/* Begins with the next list of the shard. Returns false after the last one. */
static bool purgatory_list_begin(struct purgatory_purge *purge, struct purgatory_shard *shard)
{
    if (!purge->is_begun) {
        purge->is_begun = true;
        purge->lists_left = shard->lists.used_count;
    }
    if (purge->lists_left == 0 || bucket_is_empty(&shard->ring))
        return false;
    purge->lists_left--;
    struct tw_link *link = shard->ring.root.next_;
    bucket_remove(link);
    bucket_push(&shard->ring, link);
    purge->list = (struct purgatory_watch_list *)link;
    purge->watches_left = purge->list->count;
    tw__cursor_open(purge->list, &purge->cursor);
    return true;
}

static void purgatory_list_end(struct purgatory_purge *purge, struct purgatory_shard *shard)
{
    tw__cursor_close(purge->list, &purge->cursor);
    tw__watch_list_settle(shard, purge->list);
    purge->list = NULL;
}

/* Examines up to `looks` watches and lists. Returns how many of these looks are left; more than 0
 * only if the shard is finished. Called under the lock of the shard. */
static size_t purgatory_purge_shard(struct tw_purgatory *purgatory, struct purgatory_shard *shard,
                                    size_t looks)
{
    struct purgatory_purge *purge = &purgatory->purge;

    for (; looks > 0; looks--) {
        if (!purge->list) {
            if (!purgatory_list_begin(purge, shard))
                return looks;
            continue;
        }
        if (purge->watches_left == 0 || purge->cursor.at == &purge->list->watches.root) {
            purgatory_list_end(purge, shard);
            looks++; /* the end of a list costs no look of its own */
            continue;
        }
        purge->watches_left--;
        struct purgatory_watch *watch = watch_of(purge->cursor.at);
        purge->cursor.at = watch->slot.link.next_;
        if (watch_is_dead(watch)) {
            tw__watch_drop(purgatory, shard, watch);
            shard->purged_count++;
        }
    }
    return 0;
}

void tw__purge_pay(struct tw_purgatory *purgatory, size_t watch_count)
{
    if (!atomic_load(&purgatory->is_purging) && !purgatory_purge_is_due(purgatory))
        return;

    size_t looks = watch_count * TW_PURGATORY_LOOKS_MAX;
    struct purgatory_purge *purge = &purgatory->purge;
    pthread_mutex_lock(&purgatory->purge_lock);
    if (!atomic_load(&purgatory->is_purging) && purgatory_purge_is_due(purgatory))
        atomic_store(&purgatory->is_purging, true);
    while (looks > 0 && atomic_load(&purgatory->is_purging)) {
        struct purgatory_shard *shard = &purgatory->shards[purge->shard];
        size_t turn = looks < LOOKS_LOCKED_MAX ? looks : LOOKS_LOCKED_MAX;
        pthread_mutex_lock(&shard->lock);
        size_t left = purgatory_purge_shard(purgatory, shard, turn);
        pthread_mutex_unlock(&shard->lock);
        looks -= turn - left;
        purge->look_count += turn - left;
        if (left == 0)
            continue;
        purge->is_begun = false;
        if (++purge->shard == purgatory->shard_count) {
            purge->shard = 0;
            atomic_store(&purgatory->is_purging, false);
        }
    }
    pthread_mutex_unlock(&purgatory->purge_lock);
}
