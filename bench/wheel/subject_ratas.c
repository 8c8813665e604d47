/*
 * subject_ratas.c - the algorithm of jsnell/ratas (src/timer-wheel.h), written anew: a hierarchy of
 * wheels of 256 slots, where a timer's level follows from its distance, and each wheel has a time
 * of its own.
 */
#include "bench.h"

enum { RATAS_BITS = 8, RATAS_SLOTS = 1 << RATAS_BITS, RATAS_LEVELS = 8 };

struct subject_ratas_node {
    struct subject_ratas_node *next;
    struct subject_ratas_node *previous;
    uint64_t due;
};

typedef struct subject_ratas_node node_t;

struct ratas_self {
    node_t *nodes;
    uint64_t now[RATAS_LEVELS];
    node_t slots[RATAS_LEVELS][RATAS_SLOTS];
    node_t fired;
};

typedef struct ratas_self self_t;

#include "intrusive.h"

static self_t *create(uint32_t count, uint64_t start)
{
    self_t *self = intrusive_create(count);
    for (int level = 0; level < RATAS_LEVELS; level++) {
        self->now[level] = start >> (level * RATAS_BITS);
        for (int slot = 0; slot < RATAS_SLOTS; slot++)
            list_init(&self->slots[level][slot]);
    }
    return self;
}

static inline void link_node(self_t *self, node_t *node)
{
    uint64_t distance = node->due - self->now[0];
    unsigned level = 0;
    for (; distance >= RATAS_SLOTS; level++)
        distance = (distance + (self->now[level] & (RATAS_SLOTS - 1))) >> RATAS_BITS;
    list_append(&self->slots[level][(self->now[level] + distance) & (RATAS_SLOTS - 1)], node);
}

static inline void unlink_node(self_t *self, node_t *node)
{
    (void)self;
    list_remove(node);
}

/* One step of the wheel of a level, and of those above it when it has turned round. */
static void turn(self_t *self, unsigned level)
{
    uint64_t now = ++self->now[level];
    if ((now & (RATAS_SLOTS - 1)) == 0 && level + 1 < RATAS_LEVELS)
        turn(self, level + 1);
    node_t *slot = &self->slots[level][now & (RATAS_SLOTS - 1)];
    if (level == 0)
        list_splice(&self->fired, slot);
    else
        list_deal(self, slot);
}

static inline size_t expire(self_t *self, uint64_t now, uint32_t *ids)
{
    while (list_is_empty(&self->fired) && self->now[0] < now)
        turn(self, 0);
    return take_fired(self, ids);
}

/* A call of expire ends with the first tick that fires. */
#define LACKS (1u << FIGURE_COARSE)
#include "workloads.h"

const struct wheel_subject bench_subject = {
    .name = "jsnell/ratas, algorithm",
    .kind = "peer",
    .version = bench_version_here,
    .run = run,
};
