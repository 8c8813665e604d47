/*
 * subject_wahern.c - the algorithm of wahern/timeout (timeout.c), written anew: four wheels of 64
 * slots with a word of bits for each, so that an update visits only slots in use.
 */
#include "bench.h"

enum { WAHERN_BITS = 6, WAHERN_SLOTS = 64, WAHERN_WHEELS = 4 };

struct subject_wahern_node {
    struct subject_wahern_node *next;
    struct subject_wahern_node *previous;
    uint64_t due;
    uint32_t wheel;
    uint32_t slot;
};

typedef struct subject_wahern_node node_t;

struct wahern_self {
    node_t *nodes;
    uint64_t now;
    uint64_t used[WAHERN_WHEELS]; /* a bit per non-empty slot */
    node_t slots[WAHERN_WHEELS][WAHERN_SLOTS];
    node_t fired;
};

typedef struct wahern_self self_t;

#include "intrusive.h"

static self_t *create(uint32_t count, uint64_t start)
{
    self_t *self = intrusive_create(count);
    self->now = start;
    for (int wheel = 0; wheel < WAHERN_WHEELS; wheel++)
        for (int slot = 0; slot < WAHERN_SLOTS; slot++)
            list_init(&self->slots[wheel][slot]);
    return self;
}

static inline void link_node(self_t *self, node_t *node)
{
    if (node->due <= self->now) {
        node->wheel = WAHERN_WHEELS;
        list_append(&self->fired, node);
        return;
    }
    uint64_t left = node->due - self->now;
    uint64_t most = (UINT64_C(1) << (WAHERN_BITS * WAHERN_WHEELS)) - 1;
    left = left < most ? left : most;
    node->wheel = (63u - (unsigned)__builtin_clzll(left)) / WAHERN_BITS;
    uint64_t turns = node->due >> (node->wheel * WAHERN_BITS);
    node->slot = (turns - (node->wheel > 0)) & (WAHERN_SLOTS - 1);
    list_append(&self->slots[node->wheel][node->slot], node);
    self->used[node->wheel] |= UINT64_C(1) << node->slot;
}

static inline void unlink_node(self_t *self, node_t *node)
{
    list_remove(node);
    if (node->wheel < WAHERN_WHEELS && list_is_empty(&self->slots[node->wheel][node->slot]))
        self->used[node->wheel] &= ~(UINT64_C(1) << node->slot);
}

static inline uint64_t rotate(uint64_t bits, unsigned by)
{
    by &= 63;
    return by == 0 ? bits : bits << by | bits >> (64 - by);
}

/* The slots of a wheel that a step of `elapsed` ticks passes or reaches. */
static inline uint64_t slots_passed(const self_t *self, unsigned wheel, uint64_t now,
                                    uint64_t elapsed)
{
    unsigned shift = wheel * WAHERN_BITS;
    if (elapsed >> shift >= WAHERN_SLOTS)
        return UINT64_MAX;
    unsigned count = elapsed >> shift & (WAHERN_SLOTS - 1);
    unsigned from = self->now >> shift & (WAHERN_SLOTS - 1);
    unsigned to = now >> shift & (WAHERN_SLOTS - 1);
    uint64_t run = (UINT64_C(1) << count) - 1;
    return rotate(run, from) | rotate(rotate(run, to), 64 - count) | UINT64_C(1) << to;
}

static void update(self_t *self, uint64_t now)
{
    uint64_t elapsed = now - self->now;
    node_t reached;
    list_init(&reached);
    for (unsigned wheel = 0; wheel < WAHERN_WHEELS; wheel++) {
        uint64_t passed = slots_passed(self, wheel, now, elapsed);
        for (uint64_t bits = passed & self->used[wheel]; bits; bits &= bits - 1)
            list_splice(&reached, &self->slots[wheel][__builtin_ctzll(bits)]);
        self->used[wheel] &= ~passed;
        if (!(passed & 1)) /* the wheel has not turned round, so the next one has not moved */
            break;
        uint64_t turn = UINT64_C(1) << ((wheel + 1) * WAHERN_BITS);
        elapsed = elapsed > turn ? elapsed : turn;
    }
    self->now = now;
    list_deal(self, &reached);
}

static inline size_t expire(self_t *self, uint64_t now, uint32_t *ids)
{
    if (list_is_empty(&self->fired) && self->now < now)
        update(self, now);
    return take_fired(self, ids);
}

#include "workloads.h"

const struct wheel_subject bench_subject = {
    .name = "wahern/timeout, algorithm",
    .kind = "peer",
    .version = bench_version_here,
    .run = run,
};
