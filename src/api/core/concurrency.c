#include "api/core/concurrency.h"

/* Under the lock. Who comes while another thread, or a caller of ours, is giving leaves it to them:
 * so no thread ever stands in a `begin` within a `begin`, however many wait. */
static void give(struct concurrency *turns)
{
    if (turns->is_giving_)
        return;
    turns->is_giving_ = true;
    while (turns->free_ > 0 && !list_is_empty(&turns->waiting_)) {
        struct turn *turn = list_item(list_pop(&turns->waiting_), struct turn, link_);

        turns->free_--;
        pthread_mutex_unlock(&turns->lock_);
        turn->begin(turn);
        pthread_mutex_lock(&turns->lock_);
    }
    turns->is_giving_ = false;
    pthread_cond_signal(&turns->given_);
}

void concurrency_init(struct concurrency *turns, size_t at_a_time)
{
    pthread_mutex_init(&turns->lock_, NULL);
    list_init(&turns->waiting_);
    turns->free_ = at_a_time;
    turns->is_giving_ = false;
    pthread_cond_init(&turns->given_, NULL);
}

void concurrency_deinit(struct concurrency *turns)
{
    pthread_mutex_lock(&turns->lock_);
    while (turns->is_giving_)
        pthread_cond_wait(&turns->given_, &turns->lock_);
    pthread_mutex_unlock(&turns->lock_);
    pthread_cond_destroy(&turns->given_);
    pthread_mutex_destroy(&turns->lock_);
}

void concurrency_enter(struct concurrency *turns, struct turn *turn)
{
    pthread_mutex_lock(&turns->lock_);
    list_init(&turn->link_);
    list_push(&turns->waiting_, &turn->link_);
    give(turns);
    pthread_mutex_unlock(&turns->lock_);
}

void concurrency_leave(struct concurrency *turns)
{
    pthread_mutex_lock(&turns->lock_);
    turns->free_++;
    give(turns);
    pthread_mutex_unlock(&turns->lock_);
}
