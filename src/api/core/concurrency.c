/* concurrency.c - a counting semaphore whose waiters are callbacks, by tenant in turn. */
#include "api/core/concurrency.h"

#include <assert.h>

/* Returns the next request whose tenant runs fewer than its limit; NULL if there is none. The
 * caller holds the lock. */
static struct concurrency_start *concurrency_next(struct concurrency *limit)
{
    LIST_FOR_EACH (&limit->waiting_.firsts, link) {
        struct turn_link *turn = list_item(link, struct turn_link, link);
        size_t running = 0;

        for (size_t i = 0; i < limit->running_count_; i++)
            running += limit->running_[i] == turn->key;
        if (running >= limit->each_)
            continue;
        turns_remove(&limit->waiting_, turn);
        return list_item(turn, struct concurrency_start, turn_);
    }
    return NULL;
}

/* Begins waiting requests while there is room. The caller holds the lock. Does nothing if this
 * function runs already, on any thread: that call begins the rest. So a `begin` never runs
 * within a `begin`, and the stack does not grow with the waiting requests. */
static void concurrency_begin_waiting(struct concurrency *limit)
{
    if (limit->is_starting_)
        return;
    limit->is_starting_ = true;
    for (struct concurrency_start *start;
         limit->free_ > 0 && (start = concurrency_next(limit)) != NULL;) {
        limit->running_[limit->running_count_++] = start->turn_.key;
        limit->free_--;
        pthread_mutex_unlock(&limit->lock_);
        start->begin(start);
        pthread_mutex_lock(&limit->lock_);
    }
    limit->is_starting_ = false;
    pthread_cond_signal(&limit->started_);
}

void concurrency_init(struct concurrency *limit, size_t at_once, size_t each)
{
    assert(each > 0 && each <= at_once && at_once <= CONCURRENCY_PLACES);
    limit->each_ = each;
    limit->running_count_ = 0;
    pthread_mutex_init(&limit->lock_, NULL);
    turns_init(&limit->waiting_);
    limit->free_ = at_once;
    limit->is_starting_ = false;
    pthread_cond_init(&limit->started_, NULL);
}

void concurrency_deinit(struct concurrency *limit)
{
    pthread_mutex_lock(&limit->lock_);
    while (limit->is_starting_)
        pthread_cond_wait(&limit->started_, &limit->lock_);
    pthread_mutex_unlock(&limit->lock_);
    pthread_cond_destroy(&limit->started_);
    pthread_mutex_destroy(&limit->lock_);
}

void concurrency_enter(struct concurrency *limit, struct concurrency_start *start, uint64_t tenant)
{
    pthread_mutex_lock(&limit->lock_);
    turns_push(&limit->waiting_, &start->turn_, tenant);
    concurrency_begin_waiting(limit);
    pthread_mutex_unlock(&limit->lock_);
}

void concurrency_leave(struct concurrency *limit, uint64_t tenant)
{
    size_t i = 0;

    pthread_mutex_lock(&limit->lock_);
    while (i < limit->running_count_ && limit->running_[i] != tenant)
        i++;
    assert(i < limit->running_count_);
    limit->running_[i] = limit->running_[--limit->running_count_];
    limit->free_++;
    concurrency_begin_waiting(limit);
    pthread_mutex_unlock(&limit->lock_);
}
