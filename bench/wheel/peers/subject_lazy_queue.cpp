/*
 * subject_lazy_queue.cpp - a yardstick: std::priority_queue with the lazy moves of the chunk wheel,
 * one entry per timer: when its entry is reached, a cancelled timer is dropped and a timer moved to
 * a later time is inserted again.
 */
#include "bench.h"

#include <functional>
#include <new>
#include <queue>
#include <vector>

struct entry {
    uint64_t due;
    uint32_t id;
    bool operator>(const entry &other) const
    {
        return due > other.due;
    }
};

struct record {
    uint64_t due;    /* NEVER unless armed */
    uint64_t queued; /* due of the one entry that counts; NEVER without one */
};

static const uint64_t NEVER = UINT64_MAX;

struct roomy_queue : std::priority_queue<entry, std::vector<entry>, std::greater<entry>> {
    void reserve(size_t count)
    {
        c.reserve(count);
    }
};

struct self {
    record *records;
    roomy_queue queue;
};

typedef self self_t;
typedef uint32_t what_t;

static self *create(uint32_t count, uint64_t start)
{
    (void)start;
    self *made = new (bench_allocate(sizeof(self))) self;
    made->records = static_cast<record *>(bench_allocate(count * sizeof(record)));
    made->queue.reserve(count);
    for (uint32_t i = 0; i < count; i++)
        made->records[i] = record{NEVER, NEVER};
    return made;
}

static void destroy(self *self)
{
    self->~self();
}

static inline void place(self *self, uint32_t i, uint64_t deadline)
{
    record &record = self->records[i];
    record.due = deadline;
    if (record.queued <= deadline)
        return;
    record.queued = deadline;
    self->queue.push(entry{deadline, i});
}

static inline void again(self *self, size_t k, uint32_t i, uint64_t deadline)
{
    (void)k;
    place(self, i, deadline);
}

static inline what_t lookup(self *self, uint32_t i)
{
    (void)self;
    return i;
}

static inline what_t pick(self *self, uint32_t i)
{
    (void)self;
    return i;
}

static inline void cancel(self *self, what_t what)
{
    self->records[what].due = NEVER;
}

static inline void ask(self *self, what_t what)
{
    __builtin_prefetch(&self->records[what], 1);
}

static inline void ask_to_move(self *self, what_t what)
{
    ask(self, what);
}

static inline void look_ahead(self *self, uint32_t i)
{
    (void)self, (void)i;
}

static inline void move(self *self, what_t what, uint64_t deadline)
{
    place(self, what, deadline);
}

static inline size_t expire(self *self, uint64_t now, uint32_t *ids)
{
    size_t n = 0;
    while (n < BATCH && !self->queue.empty() && self->queue.top().due <= now) {
        entry top = self->queue.top();
        record &record = self->records[top.id];
        self->queue.pop();
        if (record.queued != top.due)
            continue;
        record.queued = NEVER;
        if (record.due <= now) {
            ids[n++] = top.id;
            record.due = NEVER;
        } else if (record.due != NEVER) {
            place(self, top.id, record.due);
        }
    }
    return n;
}

static inline int is_behind(self *self)
{
    (void)self;
    return 0;
}

#include "workloads.h"

static const char *version()
{
    return "gcc " __VERSION__;
}

const struct wheel_subject bench_subject = {
    "std::priority_queue, moved lazily",
    "yardstick",
    "cancel only marks; the entry stays until it comes up. move to later: a store",
    version,
    run,
};
