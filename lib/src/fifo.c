/* fifo.c - timers of one delay: a list that is sorted because time does not run backwards. */
#include "link.h"

#include <tickwheel/fifo.h>

#include <assert.h>

/* Returns the task that contains the link as its first member. */
static struct tw_task *fifo_task(const struct tw_link *link)
{
    return (struct tw_task *)(uintptr_t)link;
}

static void fifo_unlink(struct tw_fifo *fifo, struct tw_task *task)
{
    struct tw_link *next = task->link_.next_, *prev = task->link_.prev_;
    next->prev_ = prev;
    prev->next_ = next;
    task->link_ = (struct tw_link){NULL, NULL};
    fifo->count_--;
}

static void fifo_see(struct tw_fifo *fifo, uint64_t now)
{
    now -= now == TW_NEVER;
    fifo->now_ = now > fifo->now_ ? now : fifo->now_;
}

void tw_fifo_init(struct tw_fifo *fifo, uint64_t delay)
{
    *fifo = (struct tw_fifo){.delay_ = delay};
    fifo->root_.next_ = fifo->root_.prev_ = &fifo->root_;
}

void tw_fifo_arm(struct tw_fifo *fifo, struct tw_task *task, uint64_t now)
{
    if (tw_task_is_scheduled(task))
        fifo_unlink(fifo, task);
    fifo_see(fifo, now);
    bool is_reachable = fifo->delay_ < TW_NEVER - fifo->now_;
    task->deadline_ = is_reachable ? fifo->now_ + fifo->delay_ : TW_NEVER - 1;
    struct tw_link *last = fifo->root_.prev_;
    assert(last == &fifo->root_ || fifo_task(last)->deadline_ <= task->deadline_);
    task->link_ = (struct tw_link){&fifo->root_, last};
    last->next_ = fifo->root_.prev_ = &task->link_;
    fifo->count_++;
}

bool tw_fifo_cancel(struct tw_fifo *fifo, struct tw_task *task)
{
    if (!tw_task_is_scheduled(task))
        return false;
    fifo_unlink(fifo, task);
    return true;
}

size_t tw_fifo_expire(struct tw_fifo *fifo, uint64_t now, struct tw_task **ret_due, size_t limit)
{
    size_t count = 0;
    fifo_see(fifo, now);
    for (; count < limit && tw_fifo_wake_at(fifo) <= fifo->now_; count++) {
        ret_due[count] = fifo_task(fifo->root_.next_);
        fifo_unlink(fifo, ret_due[count]);
    }
    return count;
}

uint64_t tw_fifo_wake_at(const struct tw_fifo *fifo)
{
    return fifo->count_ > 0 ? fifo_task(fifo->root_.next_)->deadline_ : TW_NEVER;
}

size_t tw_fifo_count(const struct tw_fifo *fifo)
{
    return fifo->count_;
}

void tw_fifo_check(const struct tw_fifo *fifo)
{
    size_t count = 0;
    uint64_t before = 0;
    const struct tw_link *link = &fifo->root_;
    for (; link->next_ != &fifo->root_; link = link->next_, count++) {
        REQUIRE(link->next_ && link->next_->prev_ == link);
        REQUIRE(fifo_task(link->next_)->deadline_ >= before);
        before = fifo_task(link->next_)->deadline_;
        REQUIRE(before < TW_NEVER);
    }
    REQUIRE(fifo->root_.prev_ == link);
    REQUIRE(count == fifo->count_);
}
