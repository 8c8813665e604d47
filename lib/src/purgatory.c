/* purgatory.c - the life of an operation: submit, try, complete, time out. */
#include "purgatory_private.h"

#include <assert.h>

enum {
    BATCH = 32, /* operations that are claimed or timed out while a shard is locked once */
    LOOKS_LOCKED_MAX = 256 /* watches examined while it is locked once */
};

enum purgatory_claim { CLAIM_MINE, CLAIM_OTHERS, CLAIM_DEAD };

/* Claims the operation if it is alive and not claimed. If it is claimed, sets `flag` for the
 * claimant. */
static enum purgatory_claim purgatory_operation_claim(struct purgatory_operation *operation,
                                                      uint32_t generation, uint32_t flag)
{
    uint_least32_t state = atomic_load(&operation->state);

    for (;;) {
        if (state >> 4 != generation)
            return CLAIM_DEAD;
        uint_least32_t flags = state & STATE_FLAGS ? flag : STATE_TRYING;
        if (atomic_compare_exchange_weak(&operation->state, &state, state | flags))
            return flags == STATE_TRYING ? CLAIM_MINE : CLAIM_OTHERS;
    }
}

/* Tries a claimed operation. Returns true when it can be completed. Returns false, after releasing
 * the claim, when it cannot and no thread has asked for another try. */
static bool purgatory_operation_try(struct tw_purgatory *purgatory,
                                    struct purgatory_operation *operation, uint32_t generation,
                                    enum tw_completion *ret_why)
{
    for (;;) {
        uint_least32_t state = generation << 4 | STATE_TRYING;
        if (purgatory->try_complete(purgatory->context, operation->operation)) {
            *ret_why = TW_COMPLETED_BY_EVENT;
            return true;
        }
        if (atomic_compare_exchange_strong(&operation->state, &state, generation << 4))
            return false;
        if (state & STATE_FORCED) {
            *ret_why = TW_COMPLETED_BY_EVENT;
            return true;
        }
        if (!(state & STATE_AGAIN)) {
            *ret_why = TW_COMPLETED_BY_TIMEOUT;
            return true;
        }
        /* An event came before the time-out or together with it: tries once more. */
        atomic_fetch_and(&operation->state, ~(uint_least32_t)STATE_AGAIN);
    }
}

/* Ends an operation. Called by its claimant under the lock of its home. Removes its first watch;
 * its other watches are dead from then on. Its slot may be used again at once. */
static void purgatory_operation_close(struct tw_purgatory *purgatory,
                                      struct purgatory_operation *operation, uint32_t generation)
{
    struct purgatory_shard *home = operation->home;

    struct purgatory_watch_list *list = operation->first->list;

    tw_hierarchy_cancel(home->wheel, &operation->timer);
    tw__watch_drop(purgatory, home, operation->first);
    tw__watch_list_settle(home, list);
    atomic_store(&operation->state, (generation + 1) << 4);
    atomic_fetch_sub(&purgatory->alive_count, operation->key_count);
    atomic_fetch_sub(&purgatory->operation_count, 1);
    if (generation + 1 < OPERATION_GENERATION_LAST)
        tw__slab_give(&home->operations, &operation->slot);
    else
        home->retired_count++;
}

/* Removes the watches of a claimed operation except the first. In TW_UNLINK_AT_ONCE these are all
 * that the chain after the first contains; otherwise only `found`, which may be NULL or the first.
 * The list of another key is freed when it becomes empty. */
static void purgatory_operation_unwatch(struct tw_purgatory *purgatory,
                                        struct purgatory_operation *operation,
                                        struct purgatory_watch *found)
{
    bool is_all = purgatory->unlink == TW_UNLINK_AT_ONCE;
    struct purgatory_watch *watch = is_all ? operation->first->sibling : found;

    while (watch && watch != operation->first) {
        struct purgatory_watch *next = is_all ? watch->sibling : NULL;
        struct purgatory_watch_list *list = watch->list;
        /* The list of a living watch exists, so its key can be read. */
        struct purgatory_shard *shard = shard_of(purgatory, list->key);
        pthread_mutex_lock(&shard->lock);
        tw__watch_drop(purgatory, shard, watch);
        tw__watch_list_settle(shard, list);
        pthread_mutex_unlock(&shard->lock);
        watch = next;
    }
}

/* Ends and completes a claimed operation. `found` is the watch by which it was found, which is
 * removed at once; NULL if there is none. */
static void purgatory_operation_end(struct tw_purgatory *purgatory,
                                    struct purgatory_operation *operation, uint32_t generation,
                                    enum tw_completion why, struct purgatory_watch *found)
{
    struct purgatory_shard *home = operation->home;
    void *callers = operation->operation;

    purgatory_operation_unwatch(purgatory, operation, found);
    pthread_mutex_lock(&home->lock);
    purgatory_operation_close(purgatory, operation, generation);
    if (why == TW_COMPLETED_BY_EVENT)
        home->by_event_count++;
    else
        home->by_timeout_count++;
    pthread_mutex_unlock(&home->lock);
    purgatory->complete(purgatory->context, callers, why);
}

/* Creates an operation in its home: claimed, with its time-out set, and with its first watch.
 * Returns NULL if out of memory. Called under the lock of the home. */
static struct purgatory_operation *purgatory_operation_open(struct tw_purgatory *purgatory,
                                                            struct purgatory_shard *home,
                                                            void *callers, const uint64_t *keys,
                                                            size_t key_count, uint64_t deadline)
{
    struct purgatory_operation *operation =
        (struct purgatory_operation *)tw__slab_take(&home->operations);

    if (!operation)
        return NULL;
    if (operation->slot.generation == 1) { /* first use of the slot */
        atomic_init(&operation->state, 0);
        operation->home = home;
        operation->timer = (struct tw_task){.deadline_ = 0};
    }

    uint32_t generation = (uint32_t)atomic_load(&operation->state) >> 4;
    operation->first = tw__watch_add(purgatory, home, keys[0], operation, generation);
    if (!operation->first) {
        tw__slab_give(&home->operations, &operation->slot);
        return NULL;
    }
    if (purgatory->unlink == TW_UNLINK_AT_ONCE)
        operation->first->sibling = NULL;
    operation->operation = callers;
    operation->key_count = key_count;
    atomic_store(&operation->state, generation << 4 | STATE_TRYING);
    tw_hierarchy_schedule(home->wheel, &operation->timer, deadline);
    return operation;
}

/* Watches a claimed operation under all keys except the first. Returns false if out of memory. */
static bool purgatory_operation_watch(struct tw_purgatory *purgatory,
                                      struct purgatory_operation *operation, uint32_t generation,
                                      const uint64_t *keys, size_t key_count)
{
    struct purgatory_watch *watch = operation->first;

    for (size_t i = 1; i < key_count && watch; i++) {
        struct purgatory_shard *shard = shard_of(purgatory, keys[i]);
        pthread_mutex_lock(&shard->lock);
        watch = tw__watch_add(purgatory, shard, keys[i], operation, generation);
        pthread_mutex_unlock(&shard->lock);
        if (watch && purgatory->unlink == TW_UNLINK_AT_ONCE) {
            watch->sibling = operation->first->sibling;
            operation->first->sibling = watch;
        }
    }
    return watch != NULL;
}

/* Adds to a counter, unless the sum would exceed its limit; then returns false. */
static bool purgatory_counter_take(atomic_size_t *counter, size_t count, size_t count_max)
{
    size_t old = atomic_load(counter);

    do {
        if (old > count_max || count > count_max - old)
            return false;
    } while (!atomic_compare_exchange_weak(counter, &old, old + count));
    return true;
}

/* Returns when expire completes an operation with this deadline: at the first tick that is not
 * before it, or at once if it is reached already. Called under the lock of its home. */
static uint64_t purgatory_wake_at_of(const struct tw_purgatory *purgatory,
                                     const struct purgatory_shard *home, uint64_t deadline)
{
    uint64_t over = deadline % purgatory->tick;

    if (over == 0 || deadline <= tw_hierarchy_now(home->wheel) || deadline == TW_NEVER)
        return deadline;
    uint64_t begun = deadline - over;
    return begun < TW_NEVER - 1 - purgatory->tick ? begun + purgatory->tick : TW_NEVER - 1;
}

/* True if `wake_at` is earlier than the wake-up time reported last, so that it must be reported.
 * Each shard has an estimate of that time, so the common lock is taken only for times earlier than
 * the estimate. */
static bool purgatory_wake_is_sooner(struct tw_purgatory *purgatory, uint64_t wake_at)
{
    pthread_mutex_lock(&purgatory->wake_lock);
    bool is_sooner = wake_at < purgatory->wake_told;
    if (is_sooner)
        purgatory->wake_told = wake_at;
    pthread_mutex_unlock(&purgatory->wake_lock);
    return is_sooner;
}

bool tw_purgatory_submit(struct tw_purgatory *purgatory, void *operation, const uint64_t *keys,
                         size_t key_count, uint64_t deadline)
{
    assert(key_count > 0);
    if (purgatory->is_closing)
        return false;
    if (purgatory->try_complete(purgatory->context, operation)) {
        purgatory->complete(purgatory->context, operation, TW_COMPLETED_AT_ONCE);
        return true;
    }
    if (!purgatory_counter_take(&purgatory->operation_count, 1, purgatory->operation_count_max))
        return false;
    if (!purgatory_counter_take(&purgatory->alive_count, key_count, purgatory->watch_count_max)) {
        atomic_fetch_sub(&purgatory->operation_count, 1);
        return false;
    }

    struct purgatory_shard *home = shard_of(purgatory, keys[0]);
    pthread_mutex_lock(&home->lock);
    struct purgatory_operation *opened =
        purgatory_operation_open(purgatory, home, operation, keys, key_count, deadline);
    uint32_t generation = opened ? (uint32_t)atomic_load(&opened->state) >> 4 : 0;
    uint64_t wake_at = purgatory_wake_at_of(purgatory, home, deadline);
    bool is_sooner = opened && wake_at < home->wake_told;
    if (is_sooner)
        home->wake_told = wake_at;
    pthread_mutex_unlock(&home->lock);
    if (!opened) {
        atomic_fetch_sub(&purgatory->operation_count, 1);
        atomic_fetch_sub(&purgatory->alive_count, key_count);
        return false;
    }
    /* Reported even if the submit is refused below, because the shard's estimate assumes the
     * report. */
    if (is_sooner && purgatory_wake_is_sooner(purgatory, wake_at) && purgatory->on_sooner)
        purgatory->on_sooner(purgatory->context, wake_at);
    bool is_watched = purgatory_operation_watch(purgatory, opened, generation, keys, key_count);
    if (!is_watched) {
        purgatory_operation_unwatch(purgatory, opened, NULL);
        pthread_mutex_lock(&home->lock);
        purgatory_operation_close(purgatory, opened, generation);
        pthread_mutex_unlock(&home->lock);
    } else {
        enum tw_completion why;
        if (purgatory_operation_try(purgatory, opened, generation, &why))
            purgatory_operation_end(purgatory, opened, generation, why, NULL);
    }
    tw__purge_pay(purgatory, key_count);
    return is_watched;
}

/* Watches of one list whose operations this thread has claimed. They stay alive until this thread
 * ends them, so no other thread removes them from the list. */
struct purgatory_batch {
    struct purgatory_watch *watches[BATCH];
    unsigned count;
};

/* Advances the cursor and claims operations. Called under the shard's lock. */
static void purgatory_batch_fill(struct tw_purgatory *purgatory, struct purgatory_shard *shard,
                                 struct purgatory_watch_list *list, struct purgatory_cursor *cursor,
                                 uint32_t flag, size_t *left, struct purgatory_batch *ret_batch)
{
    ret_batch->count = 0;
    for (unsigned looks = 0; looks < LOOKS_LOCKED_MAX && ret_batch->count < BATCH; looks++) {
        if (*left == 0 || cursor->at == &list->watches.root) {
            *left = 0;
            return;
        }
        struct purgatory_watch *watch = watch_of(cursor->at);
        cursor->at = watch->slot.link.next_;
        --*left;
        enum purgatory_claim claim =
            purgatory_operation_claim(watch->operation, watch->generation, flag);
        if (claim == CLAIM_MINE) {
            ret_batch->watches[ret_batch->count++] = watch;
        } else if (claim == CLAIM_DEAD) {
            tw__watch_drop(purgatory, shard, watch);
            shard->purged_count++;
        }
    }
}

/* Walks once through the present watches of a key. `flag` is STATE_AGAIN to try their operations,
 * STATE_FORCED to complete them without a try. */
static size_t purgatory_key_walk(struct tw_purgatory *purgatory, uint64_t key, uint32_t flag)
{
    struct purgatory_shard *shard = shard_of(purgatory, key);
    struct purgatory_batch batch;
    struct purgatory_cursor cursor;
    size_t completed_count = 0, died_count = 0;

    pthread_mutex_lock(&shard->lock);
    struct purgatory_watch_list *list = tw__watch_list_find(shard, key);
    if (!list) {
        pthread_mutex_unlock(&shard->lock);
        return 0;
    }
    tw__cursor_open(list, &cursor);
    for (size_t left = list->count; left > 0;) {
        purgatory_batch_fill(purgatory, shard, list, &cursor, flag, &left, &batch);
        pthread_mutex_unlock(&shard->lock);
        for (unsigned i = 0; i < batch.count; i++) {
            struct purgatory_watch *watch = batch.watches[i];
            struct purgatory_operation *operation = watch->operation;
            enum tw_completion why = TW_COMPLETED_BY_EVENT;
            if (flag == STATE_AGAIN &&
                !purgatory_operation_try(purgatory, operation, watch->generation, &why))
                continue;
            died_count += operation->key_count - 1;
            completed_count++;
            purgatory_operation_end(purgatory, operation, watch->generation, why, watch);
        }
        pthread_mutex_lock(&shard->lock);
    }
    tw__cursor_close(list, &cursor);
    tw__watch_list_settle(shard, list);
    pthread_mutex_unlock(&shard->lock);
    if (died_count > 0)
        tw__purge_pay(purgatory, died_count);
    return completed_count;
}

size_t tw_purgatory_try_key(struct tw_purgatory *purgatory, uint64_t key)
{
    return purgatory_key_walk(purgatory, key, STATE_AGAIN);
}

size_t tw_purgatory_complete_key(struct tw_purgatory *purgatory, uint64_t key)
{
    return purgatory_key_walk(purgatory, key, STATE_FORCED);
}

/* Operations of one shard that have timed out and that this thread has claimed. */
struct purgatory_ending {
    struct purgatory_operation *operations[BATCH];
    uint32_t generations[BATCH];
    void *callers[BATCH];
    unsigned count;
};

/* Claims an operation that has timed out, unless a thread is trying it. Ends it here if its other
 * watches may stay. Called under the lock of its home. */
static void purgatory_operation_time_out(struct tw_purgatory *purgatory,
                                         struct purgatory_operation *operation,
                                         struct purgatory_ending *ending)
{
    uint32_t generation = (uint32_t)atomic_load(&operation->state) >> 4;

    if (purgatory_operation_claim(operation, generation, STATE_LATE) != CLAIM_MINE)
        return;
    ending->operations[ending->count] = operation;
    ending->generations[ending->count] = generation;
    ending->callers[ending->count++] = operation->operation;
    if (purgatory->unlink == TW_UNLINK_AT_ONCE)
        return; /* its watches must be removed first, which is not allowed with this lock held */
    purgatory_operation_close(purgatory, operation, generation);
    operation->home->by_timeout_count++;
}

/* Completes up to `limit` operations of one shard that have timed out. Returns their number. */
static size_t purgatory_shard_expire(struct tw_purgatory *purgatory, struct purgatory_shard *shard,
                                     uint64_t now, size_t limit)
{
    struct tw_task *due[BATCH];
    size_t count = 0, died_count = 0;
    bool is_behind;

    do {
        size_t asked = limit - count < BATCH ? limit - count : BATCH;
        struct purgatory_ending ending = {.count = 0};
        pthread_mutex_lock(&shard->lock);
        size_t due_count = tw_hierarchy_expire(shard->wheel, now, due, asked);
        for (size_t i = 0; i < due_count; i++) {
            struct purgatory_operation *operation =
                tw_task_item(due[i], struct purgatory_operation, timer);
            size_t key_count = operation->key_count;
            unsigned before = ending.count;
            purgatory_operation_time_out(purgatory, operation, &ending);
            died_count += ending.count > before ? key_count - 1 : 0;
        }
        is_behind = due_count == asked || tw_hierarchy_is_behind(shard->wheel);
        pthread_mutex_unlock(&shard->lock);
        for (unsigned i = 0; i < ending.count; i++)
            if (purgatory->unlink == TW_UNLINK_AT_ONCE)
                purgatory_operation_end(purgatory, ending.operations[i], ending.generations[i],
                                        TW_COMPLETED_BY_TIMEOUT, NULL);
            else
                purgatory->complete(purgatory->context, ending.callers[i], TW_COMPLETED_BY_TIMEOUT);
        count += ending.count;
    } while (is_behind && count < limit);
    if (died_count > 0)
        tw__purge_pay(purgatory, died_count);
    return count;
}

size_t tw_purgatory_expire(struct tw_purgatory *purgatory, uint64_t now, size_t limit)
{
    unsigned first =
        /* another shard is first each time, so that none is always last */
        atomic_fetch_add(&purgatory->expire_turn, 1);
    size_t count = 0;

    for (unsigned i = 0; i < purgatory->shard_count && count < limit; i++) {
        unsigned turn = (first + i) & (purgatory->shard_count - 1);
        count += purgatory_shard_expire(purgatory, &purgatory->shards[turn], now, limit - count);
    }
    return count;
}

uint64_t tw_purgatory_wake_at(struct tw_purgatory *purgatory)
{
    uint64_t wake_at = TW_NEVER;

    /* Until the answer is known, every deadline is reported. The earliest of those is also
     * considered for the answer. */
    pthread_mutex_lock(&purgatory->wake_lock);
    purgatory->wake_told = TW_NEVER;
    pthread_mutex_unlock(&purgatory->wake_lock);
    for (unsigned i = 0; i < purgatory->shard_count; i++) {
        struct purgatory_shard *shard = &purgatory->shards[i];
        pthread_mutex_lock(&shard->lock);
        shard->wake_told = tw_hierarchy_wake_at(shard->wheel);
        if (shard->wake_told < wake_at)
            wake_at = shard->wake_told;
        pthread_mutex_unlock(&shard->lock);
    }
    pthread_mutex_lock(&purgatory->wake_lock);
    if (wake_at < purgatory->wake_told)
        purgatory->wake_told = wake_at;
    wake_at = purgatory->wake_told;
    pthread_mutex_unlock(&purgatory->wake_lock);
    return wake_at;
}
