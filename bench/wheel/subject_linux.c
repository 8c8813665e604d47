/*
 * subject_linux.c - the algorithm of Linux's kernel/time/timer.c, written anew: nine levels of 64
 * buckets, each eight times as coarse as the one before. Nothing moves between levels, so a timer
 * is late by up to an eighth of its delay.
 */
#include "bench.h"

enum { LINUX_LEVELS = 9, LINUX_BUCKETS = 64, LINUX_SHIFT = 3 };

struct subject_linux_node {
    struct subject_linux_node *next;
    struct subject_linux_node *previous;
    uint64_t due;
    uint32_t level;
    uint32_t bucket;
};

typedef struct subject_linux_node node_t;

struct linux_self {
    node_t *nodes;
    uint64_t clock; /* the next tick to handle */
    uint64_t now;   /* the time last seen */
    uint64_t next;  /* no bucket comes up before */
    uint64_t used[LINUX_LEVELS];
    node_t buckets[LINUX_LEVELS][LINUX_BUCKETS];
    node_t fired;
};

typedef struct linux_self self_t;

#include "intrusive.h"

static self_t *create(uint32_t count, uint64_t start)
{
    self_t *self = intrusive_create(count);
    self->clock = self->now = start;
    self->next = UINT64_MAX;
    for (int level = 0; level < LINUX_LEVELS; level++)
        for (int bucket = 0; bucket < LINUX_BUCKETS; bucket++)
            list_init(&self->buckets[level][bucket]);
    return self;
}

/* The clock of a wheel that slept goes on to the present, but not beyond the next bucket. */
static inline void forward(self_t *self)
{
    if (self->now > self->clock)
        self->clock = self->next > self->now ? self->now : self->next;
}

static inline void link_node(self_t *self, node_t *node)
{
    forward(self);
    uint64_t distance = node->due > self->clock ? node->due - self->clock : 0;
    unsigned level = 0;
    while (level + 1 < LINUX_LEVELS && distance >= UINT64_C(63) << (level * LINUX_SHIFT))
        level++;
    uint64_t turns = (node->due >> (level * LINUX_SHIFT)) + 1; /* up, so that none is early */
    if (node->due < self->clock)
        turns = self->clock;
    node->level = level;
    node->bucket = turns & (LINUX_BUCKETS - 1);
    list_append(&self->buckets[level][node->bucket], node);
    self->used[level] |= UINT64_C(1) << node->bucket;
    if (turns << (level * LINUX_SHIFT) < self->next)
        self->next = turns << (level * LINUX_SHIFT);
}

static inline void unlink_node(self_t *self, node_t *node)
{
    list_remove(node);
    if (list_is_empty(&self->buckets[node->level][node->bucket]))
        self->used[node->level] &= ~(UINT64_C(1) << node->bucket);
}

/* When the next bucket in use comes up. */
static uint64_t next_bucket(const self_t *self)
{
    uint64_t next = UINT64_MAX, clock = self->clock;
    for (unsigned level = 0; level < LINUX_LEVELS; level++) {
        unsigned at = clock & (LINUX_BUCKETS - 1);
        uint64_t bits = self->used[level];
        bits = at ? bits >> at | bits << (LINUX_BUCKETS - at) : bits;
        if (bits) {
            uint64_t tick = (clock + (unsigned)__builtin_ctzll(bits)) << (level * LINUX_SHIFT);
            next = tick < next ? tick : next;
        }
        clock = (clock >> LINUX_SHIFT) + ((clock & ((1 << LINUX_SHIFT) - 1)) != 0);
    }
    return next;
}

static void collect(self_t *self)
{
    uint64_t clock = self->clock = self->next;
    for (unsigned level = 0; level < LINUX_LEVELS; level++) {
        unsigned bucket = clock & (LINUX_BUCKETS - 1);
        list_splice(&self->fired, &self->buckets[level][bucket]);
        self->used[level] &= ~(UINT64_C(1) << bucket);
        if (clock & ((1 << LINUX_SHIFT) - 1))
            break;
        clock >>= LINUX_SHIFT;
    }
    self->clock++;
    self->next = next_bucket(self);
}

static inline size_t expire(self_t *self, uint64_t now, uint32_t *ids)
{
    self->now = now;
    while (list_is_empty(&self->fired) && self->next <= now)
        collect(self);
    return take_fired(self, ids);
}

/* A call of expire ends with the first tick that fires. */
#define LACKS (1u << FIGURE_COARSE)
#include "workloads.h"

const struct wheel_subject bench_subject = {
    .name = "Linux timer.c, algorithm",
    .kind = "peer",
    .note = "late by up to an eighth of the delay, so that nothing moves between levels",
    .version = bench_version_here,
    .run = run,
};
