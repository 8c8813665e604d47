/* concurrency.c - a counting semaphore whose waiters are callbacks, by tenant in turn. */
#include "api/core/concurrency.h"

/* Begins waiting requests while there is room. Under the lock. Does nothing while another call of
 * this function, of this thread or another, is at work: that one begins the rest. So a `begin`
 * never runs within a `begin`, and the stack does not grow with the number of waiting requests. */
static void concurrency_begin_waiting(struct concurrency *limit)
{
    if (limit->is_starting_)
        return;
    limit->is_starting_ = true;
    while (limit->free_ > 0 && !turns_is_empty(&limit->waiting_)) {
        struct concurrency_start *start =
            list_item(turns_pop(&limit->waiting_), struct concurrency_start, turn_);

        limit->free_--;
        pthread_mutex_unlock(&limit->lock_);
        start->begin(start);
        pthread_mutex_lock(&limit->lock_);
    }
    limit->is_starting_ = false;
    pthread_cond_signal(&limit->started_);
}

void concurrency_init(struct concurrency *limit, size_t at_once)
{
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

void concurrency_leave(struct concurrency *limit)
{
    pthread_mutex_lock(&limit->lock_);
    limit->free_++;
    concurrency_begin_waiting(limit);
    pthread_mutex_unlock(&limit->lock_);
}
