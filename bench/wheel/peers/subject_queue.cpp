/*
 * subject_queue.cpp - std::priority_queue as it is commonly used: it cannot remove or move entries,
 * so each entry carries its timer's generation, and an outdated entry is dropped when it is
 * reached.
 */
#include "bench.h"

#include <functional>
#include <new>
#include <queue>
#include <vector>

struct entry {
    uint64_t due;
    uint32_t id;
    uint32_t generation;
    bool operator>(const entry &other) const
    {
        return due > other.due;
    }
};

struct roomy_queue : std::priority_queue<entry, std::vector<entry>, std::greater<entry>> {
    void reserve(size_t count)
    {
        c.reserve(count);
    }
};

struct self {
    uint32_t *generations; /* odd while armed */
    roomy_queue queue;
};

typedef self self_t;
typedef uint32_t what_t;

static self *create(uint32_t count, uint64_t start)
{
    (void)start;
    self *made = new (bench_allocate(sizeof(self))) self;
    made->generations = static_cast<uint32_t *>(bench_allocate(count * sizeof(uint32_t)));
    made->queue.reserve(count);
    return made;
}

static void destroy(self *self)
{
    self->~self();
}

static inline void place(self *self, uint32_t i, uint64_t deadline)
{
    self->queue.push(entry{deadline, i, ++self->generations[i]});
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
    ++self->generations[what];
}

static inline void ask(self *self, what_t what)
{
    __builtin_prefetch(&self->generations[what], 1);
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
    if (self->generations[what] & 1)
        cancel(self, what);
    place(self, what, deadline);
}

static inline size_t expire(self *self, uint64_t now, uint32_t *ids)
{
    size_t n = 0;
    while (n < BATCH && !self->queue.empty() && self->queue.top().due <= now) {
        entry top = self->queue.top();
        self->queue.pop();
        if (self->generations[top.id] != top.generation)
            continue;
        ids[n++] = top.id;
        ++self->generations[top.id];
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
    "std::priority_queue, lazy cancel",
    "peer",
    "cancel only marks; the entry stays until it comes up, also when moved",
    version,
    run,
};
