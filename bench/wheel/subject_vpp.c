/*
 * subject_vpp.c - the algorithm of VPP's tw_timer (src/vppinfra/tw_timer_template.c) with three
 * wheels of 256 slots, written anew: timers are elements of a pool, linked by their numbers, and
 * keep their places in the faster wheels instead of a deadline.
 */
#include "bench.h"

enum { VPP_SLOTS = 256, VPP_BITS = 8, VPP_WHEELS = 3 };

struct subject_vpp_node {
    uint32_t next;
    uint32_t previous;
    uint16_t fast_slot; /* taken when the timer comes out of a slower wheel */
    uint16_t slow_slot;
    uint32_t user;
};

struct vpp_self {
    struct subject_vpp_node *nodes; /* the heads of the slots first */
    uint32_t *free_nodes;
    uint32_t *handles; /* what the caller keeps: UINT32_MAX when not armed */
    uint32_t free_count, used_count;
    uint64_t now;
    uint32_t at[VPP_WHEELS]; /* the slot of each wheel */
    uint32_t fired;          /* the head of those to be handed out */
};

typedef struct vpp_self self_t;
typedef uint32_t what_t;

static inline uint32_t head_of(unsigned wheel, unsigned slot)
{
    return wheel * VPP_SLOTS + slot;
}

static inline void node_init(self_t *self, uint32_t head)
{
    self->nodes[head].next = self->nodes[head].previous = head;
}

static inline void node_append(self_t *self, uint32_t head, uint32_t index)
{
    uint32_t last = self->nodes[head].previous;
    self->nodes[index].next = head;
    self->nodes[index].previous = last;
    self->nodes[last].next = index;
    self->nodes[head].previous = index;
}

static inline void node_remove(self_t *self, uint32_t index)
{
    struct subject_vpp_node *node = &self->nodes[index];
    self->nodes[node->next].previous = node->previous;
    self->nodes[node->previous].next = node->next;
}

static self_t *create(uint32_t count, uint64_t start)
{
    self_t *self = bench_allocate(sizeof(*self));
    uint32_t heads = VPP_WHEELS * VPP_SLOTS + 1;
    self->nodes = bench_allocate((heads + count) * sizeof(*self->nodes));
    self->free_nodes = bench_allocate(count * sizeof(*self->free_nodes));
    self->handles = bench_allocate(count * sizeof(*self->handles));
    self->fired = heads - 1;
    self->used_count = heads;
    self->now = start;
    for (uint32_t i = 0; i < heads; i++)
        node_init(self, i);
    for (uint32_t i = 0; i < count; i++)
        self->handles[i] = UINT32_MAX;
    return self;
}

static void destroy(self_t *self)
{
    (void)self;
}

/* Puts a timer that is `ticks` away, at least 1, into the slowest wheel whose slot is another. */
static inline void link_timer(self_t *self, uint32_t index, uint64_t ticks)
{
    struct subject_vpp_node *node = &self->nodes[index];
    uint32_t fast = (uint32_t)(ticks & (VPP_SLOTS - 1)) + self->at[0];
    uint32_t slow = (uint32_t)(ticks >> VPP_BITS & (VPP_SLOTS - 1)) + (fast >> VPP_BITS);
    slow += self->at[1];
    uint32_t glacier = (uint32_t)(ticks >> (2 * VPP_BITS)) + (slow >> VPP_BITS) + self->at[2];
    node->fast_slot = fast & (VPP_SLOTS - 1);
    node->slow_slot = slow & (VPP_SLOTS - 1);
    glacier &= VPP_SLOTS - 1;
    if (glacier != self->at[2])
        node_append(self, head_of(2, glacier), index);
    else if (node->slow_slot != self->at[1])
        node_append(self, head_of(1, node->slow_slot), index);
    else
        node_append(self, head_of(0, node->fast_slot), index);
}

static inline void place(self_t *self, uint32_t i, uint64_t deadline)
{
    uint32_t index =
        self->free_count > 0 ? self->free_nodes[--self->free_count] : self->used_count++;
    self->handles[i] = index;
    self->nodes[index].user = i;
    link_timer(self, index, deadline > self->now ? deadline - self->now : 1);
}

static inline void again(self_t *self, size_t k, uint32_t i, uint64_t deadline)
{
    (void)k;
    place(self, i, deadline);
}

static inline what_t lookup(self_t *self, uint32_t i)
{
    return self->handles[i];
}

static inline void cancel(self_t *self, what_t what)
{
    node_remove(self, what);
    self->free_nodes[self->free_count++] = what;
}

static inline what_t pick(self_t *self, uint32_t i)
{
    (void)self;
    return i;
}

static inline void ask(self_t *self, what_t what)
{
    __builtin_prefetch(&self->nodes[what], 1);
}

static inline void ask_to_move(self_t *self, what_t what)
{
    if (self->handles[what] != UINT32_MAX)
        __builtin_prefetch(&self->nodes[self->handles[what]], 1);
}

static inline void look_ahead(self_t *self, uint32_t i)
{
    __builtin_prefetch(&self->handles[i], 1);
}

static inline void move(self_t *self, what_t what, uint64_t deadline)
{
    uint32_t index = self->handles[what];
    if (index == UINT32_MAX) {
        place(self, what, deadline);
        return;
    }
    node_remove(self, index);
    link_timer(self, index, deadline > self->now ? deadline - self->now : 1);
}

/* Moves the timers of a slot to the next faster wheel. */
static void deal(self_t *self, unsigned wheel)
{
    uint32_t head = head_of(wheel, self->at[wheel]);
    uint32_t index = self->nodes[head].next;
    node_init(self, head);
    while (index != head) {
        struct subject_vpp_node *node = &self->nodes[index];
        uint32_t next = node->next;
        if (wheel == 2 && node->slow_slot != self->at[1])
            node_append(self, head_of(1, node->slow_slot), index);
        else
            node_append(self, head_of(0, node->fast_slot), index);
        index = next;
    }
}

static void tick(self_t *self)
{
    self->now++;
    for (unsigned wheel = 0; wheel < VPP_WHEELS; wheel++) {
        self->at[wheel] = (self->at[wheel] + 1) & (VPP_SLOTS - 1);
        if (self->at[wheel] != 0)
            break;
    }
    if (self->at[0] == 0) {
        if (self->at[1] == 0)
            deal(self, 2);
        deal(self, 1);
    }
    uint32_t head = head_of(0, self->at[0]);
    uint32_t first = self->nodes[head].next, last = self->nodes[head].previous;
    if (first == head)
        return;
    self->nodes[self->fired].next = first;
    self->nodes[self->fired].previous = last;
    self->nodes[first].previous = self->nodes[last].next = self->fired;
    node_init(self, head);
}

static inline size_t expire(self_t *self, uint64_t now, uint32_t *ids)
{
    while (self->nodes[self->fired].next == self->fired && self->now < now)
        tick(self);
    size_t n = 0;
    for (uint32_t index; n < BATCH && (index = self->nodes[self->fired].next) != self->fired;) {
        ids[n] = self->nodes[index].user;
        self->handles[ids[n++]] = UINT32_MAX;
        cancel(self, index);
    }
    return n;
}

static inline int is_behind(self_t *self)
{
    (void)self;
    return 0;
}

/* A call of expire ends with the first tick that fires. */
#define LACKS (1u << FIGURE_COARSE)
#include "workloads.h"

const struct wheel_subject bench_subject = {
    .name = "VPP tw_timer, 3 x 256, algorithm",
    .kind = "peer",
    .version = bench_version_here,
    .run = run,
};
