/*
 * subject_lists.c - a yardstick: the classic hierarchical wheel, 4 levels of 256 buckets, each a
 * doubly linked list through the timers themselves; a level's bucket is distributed when its time
 * begins.
 */
#include "bench.h"

struct subject_lists_node {
    struct subject_lists_node *next;
    struct subject_lists_node *previous;
    uint64_t due;
};

typedef struct subject_lists_node node_t;

struct lists_self {
    node_t *nodes;
    uint64_t now;
    node_t roots[4][256];
    node_t fired;
};

typedef struct lists_self self_t;

#include "intrusive.h"

static self_t *create(uint32_t count, uint64_t start)
{
    self_t *self = intrusive_create(count);
    self->now = start;
    for (int level = 0; level < 4; level++)
        for (int slot = 0; slot < 256; slot++)
            list_init(&self->roots[level][slot]);
    return self;
}

static inline void link_node(self_t *self, node_t *node)
{
    uint64_t apart = node->due ^ self->now;
    unsigned level = apart < 1 << 8 ? 0 : apart < 1 << 16 ? 1 : apart < 1 << 24 ? 2 : 3;
    list_append(&self->roots[level][node->due >> (level * 8) & 255], node);
}

static inline void unlink_node(self_t *self, node_t *node)
{
    (void)self;
    list_remove(node);
}

static inline size_t expire(self_t *self, uint64_t now, uint32_t *ids)
{
    while (list_is_empty(&self->fired) && self->now < now) {
        self->now++;
        if ((self->now & 255) == 0) {
            if ((self->now & 65535) == 0) {
                if ((self->now & 16777215) == 0)
                    list_deal(self, &self->roots[3][self->now >> 24 & 255]);
                list_deal(self, &self->roots[2][self->now >> 16 & 255]);
            }
            list_deal(self, &self->roots[1][self->now >> 8 & 255]);
        }
        list_splice(&self->fired, &self->roots[0][self->now & 255]);
    }
    return take_fired(self, ids);
}

/* A call of expire ends with the first tick that fires. */
#define LACKS (1u << FIGURE_COARSE)
#include "workloads.h"

const struct wheel_subject bench_subject = {
    .name = "linked lists, 4 x 256",
    .kind = "yardstick",
    .version = bench_version_here,
    .run = run,
};
