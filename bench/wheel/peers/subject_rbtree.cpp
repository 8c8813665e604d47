/* subject_rbtree.cpp - boost::intrusive::multiset, a red-black tree through the timers. */
#include "bench.h"

#include <boost/intrusive/set.hpp>
#include <boost/version.hpp>
#include <new>

struct node
    : boost::intrusive::set_base_hook<boost::intrusive::link_mode<boost::intrusive::safe_link>> {
    uint64_t due;
};

struct earlier {
    bool operator()(const node &a, const node &b) const
    {
        return a.due < b.due;
    }
};

typedef boost::intrusive::multiset<node, boost::intrusive::compare<earlier>,
                                   boost::intrusive::constant_time_size<false>>
    tree;

struct self {
    node *nodes;
    tree timers;
};

typedef self self_t;
typedef node *what_t;

static self *create(uint32_t count, uint64_t start)
{
    (void)start;
    self *made = new (bench_allocate(sizeof(self))) self;
    made->nodes = static_cast<node *>(bench_allocate(count * sizeof(node)));
    for (uint32_t i = 0; i < count; i++)
        new (&made->nodes[i]) node;
    return made;
}

static void destroy(self *self)
{
    self->timers.clear();
}

static inline void place(self *self, uint32_t i, uint64_t deadline)
{
    self->nodes[i].due = deadline;
    self->timers.insert(self->nodes[i]);
}

static inline void again(self *self, size_t k, uint32_t i, uint64_t deadline)
{
    (void)k;
    place(self, i, deadline);
}

static inline what_t lookup(self *self, uint32_t i)
{
    return &self->nodes[i];
}

static inline what_t pick(self *self, uint32_t i)
{
    return &self->nodes[i];
}

static inline void cancel(self *self, what_t what)
{
    self->timers.erase(self->timers.iterator_to(*what));
}

static inline void ask(self *self, what_t what)
{
    (void)self;
    __builtin_prefetch(what, 1);
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
    if (what->is_linked())
        cancel(self, what);
    what->due = deadline;
    self->timers.insert(*what);
}

static inline size_t expire(self *self, uint64_t now, uint32_t *ids)
{
    size_t n = 0;
    while (n < BATCH && !self->timers.empty() && self->timers.begin()->due <= now) {
        ids[n++] = static_cast<uint32_t>(&*self->timers.begin() - self->nodes);
        self->timers.erase(self->timers.begin());
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
    return BOOST_LIB_VERSION;
}

const struct wheel_subject bench_subject = {
    "Boost intrusive red-black tree", "peer", NULL, version, run,
};
