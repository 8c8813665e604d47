/*
 * subject_seastar.c - the algorithm of Seastar's timer_set (include/seastar/core/timer-set.hh),
 * written anew: a list for each highest bit in which a deadline differs from the time last seen.
 */
#include "bench.h"

enum { SEASTAR_BUCKETS = 64, SEASTAR_DUE = SEASTAR_BUCKETS - 1 };

struct subject_seastar_node {
    struct subject_seastar_node *next;
    struct subject_seastar_node *previous;
    uint64_t due;
};

typedef struct subject_seastar_node node_t;

struct seastar_self {
    node_t *nodes;
    uint64_t last;
    uint64_t next; /* no deadline is earlier */
    uint64_t used; /* a bit per non-empty bucket */
    node_t buckets[SEASTAR_BUCKETS];
    node_t fired;
};

typedef struct seastar_self self_t;

#include "intrusive.h"

static self_t *create(uint32_t count, uint64_t start)
{
    self_t *self = intrusive_create(count);
    self->last = start;
    self->next = UINT64_MAX;
    for (int i = 0; i < SEASTAR_BUCKETS; i++)
        list_init(&self->buckets[i]);
    return self;
}

/* The nearer, the higher. */
static inline unsigned bucket_of(const self_t *self, uint64_t tick)
{
    return tick <= self->last ? SEASTAR_DUE : (unsigned)__builtin_clzll(tick ^ self->last);
}

static inline void link_node(self_t *self, node_t *node)
{
    unsigned bucket = bucket_of(self, node->due);
    list_append(&self->buckets[bucket], node);
    self->used |= UINT64_C(1) << bucket;
    if (node->due < self->next)
        self->next = node->due;
}

static inline void unlink_node(self_t *self, node_t *node)
{
    unsigned bucket = bucket_of(self, node->due);
    list_remove(node);
    if (list_is_empty(&self->buckets[bucket]))
        self->used &= ~(UINT64_C(1) << bucket);
}

/* The earliest deadline, of the nearest bucket. */
static uint64_t earliest(const self_t *self)
{
    uint64_t first = UINT64_MAX;
    if (!self->used)
        return first;
    const node_t *root = &self->buckets[63 - __builtin_clzll(self->used)];
    for (const node_t *node = root->next; node != root; node = node->next)
        first = node->due < first ? node->due : first;
    return first;
}

static void advance(self_t *self, uint64_t now)
{
    node_t reached;
    unsigned bucket = bucket_of(self, now);
    list_init(&reached);
    for (unsigned i = bucket + 1; i < SEASTAR_BUCKETS; i++)
        list_splice(&self->fired, &self->buckets[i]);
    list_splice(&reached, &self->buckets[bucket]);
    self->used &= (UINT64_C(1) << bucket) - 1;
    self->last = now;
    while (!list_is_empty(&reached)) {
        node_t *node = reached.next;
        list_remove(node);
        if (node->due <= now)
            list_append(&self->fired, node);
        else
            link_node(self, node);
    }
    self->next = earliest(self);
}

static inline size_t expire(self_t *self, uint64_t now, uint32_t *ids)
{
    if (list_is_empty(&self->fired) && self->next <= now)
        advance(self, now);
    return take_fired(self, ids);
}

#include "workloads.h"

const struct wheel_subject bench_subject = {
    .name = "Seastar timer_set, algorithm",
    .kind = "peer",
    .version = bench_version_here,
    .run = run,
};
