/*
 * subject_lists.c - a yardstick: the classic hierarchical wheel, 4 levels of 256 buckets, each a
 * doubly linked list through the timers themselves; a level's bucket is distributed when its time
 * begins.
 */
#include "bench.h"

struct subject_lists_node {
    struct subject_lists_node *next;
    struct subject_lists_node *previous; /* NULL when not armed */
    uint64_t due;
};

struct lists_self {
    struct subject_lists_node *nodes;
    uint64_t now;
    struct subject_lists_node *firing; /* root of the rest of the tick's bucket */
    struct subject_lists_node roots[4][256];
    struct subject_lists_node due;
};

typedef struct lists_self self_t;
typedef struct subject_lists_node *what_t;

static inline void list_init(struct subject_lists_node *root)
{
    root->next = root->previous = root;
}

static inline void list_remove(struct subject_lists_node *node)
{
    node->next->previous = node->previous;
    node->previous->next = node->next;
    node->previous = NULL;
}

static inline void list_append(struct subject_lists_node *root, struct subject_lists_node *node)
{
    node->next = root;
    node->previous = root->previous;
    root->previous->next = node;
    root->previous = node;
}

static self_t *create(uint32_t count, uint64_t start)
{
    self_t *self = bench_allocate(sizeof(*self));
    self->nodes = bench_allocate(count * sizeof(struct subject_lists_node));
    self->now = start;
    for (int level = 0; level < 4; level++)
        for (int slot = 0; slot < 256; slot++)
            list_init(&self->roots[level][slot]);
    list_init(&self->due);
    return self;
}

static void destroy(self_t *self)
{
    (void)self;
}

static inline void link_node(self_t *self, struct subject_lists_node *node)
{
    uint64_t apart = node->due ^ self->now;
    unsigned level = apart < 1 << 8 ? 0 : apart < 1 << 16 ? 1 : apart < 1 << 24 ? 2 : 3;
    list_append(&self->roots[level][node->due >> (level * 8) & 255], node);
}

static inline void place(self_t *self, uint32_t i, uint64_t deadline)
{
    self->nodes[i].due = deadline;
    link_node(self, &self->nodes[i]);
}

static inline void again(self_t *self, size_t k, uint32_t i, uint64_t deadline)
{
    (void)k;
    place(self, i, deadline);
}

static inline what_t lookup(self_t *self, uint32_t i)
{
    return &self->nodes[i];
}

static inline what_t pick(self_t *self, uint32_t i)
{
    return &self->nodes[i];
}

static inline void cancel(self_t *self, what_t what)
{
    (void)self;
    list_remove(what);
}

static inline void ask(self_t *self, what_t what)
{
    (void)self;
    __builtin_prefetch(what, 1);
}

static inline void ask_to_move(self_t *self, what_t what)
{
    (void)self;
    __builtin_prefetch(what, 1);
}

static inline void look_ahead(self_t *self, uint32_t i)
{
    (void)self, (void)i;
}

static inline void move(self_t *self, what_t what, uint64_t deadline)
{
    if (what->previous)
        list_remove(what);
    what->due = deadline;
    link_node(self, what);
}

static void deal(self_t *self, struct subject_lists_node *root)
{
    struct subject_lists_node *node = root->next;
    list_init(root);
    while (node != root && node->previous) {
        struct subject_lists_node *next = node->next;
        link_node(self, node);
        node = next;
    }
}

static void splice_due(self_t *self)
{
    struct subject_lists_node *root = &self->roots[0][self->now & 255];
    if (root->next == root)
        return;
    root->next->previous = self->due.previous;
    self->due.previous->next = root->next;
    root->previous->next = &self->due;
    self->due.previous = root->previous;
    list_init(root);
}

static inline size_t expire(self_t *self, uint64_t now, uint32_t *ids)
{
    size_t n = 0;
    while (n < BATCH) {
        if (self->due.next != &self->due) {
            struct subject_lists_node *node = self->due.next;
            list_remove(node);
            ids[n++] = (uint32_t)(node - self->nodes);
        } else if (self->now < now) {
            self->now++;
            if ((self->now & 255) == 0) {
                if ((self->now & 65535) == 0) {
                    if ((self->now & 16777215) == 0)
                        deal(self, &self->roots[3][self->now >> 24 & 255]);
                    deal(self, &self->roots[2][self->now >> 16 & 255]);
                }
                deal(self, &self->roots[1][self->now >> 8 & 255]);
            }
            splice_due(self);
        } else {
            break;
        }
    }
    return n;
}

static inline int is_behind(self_t *self)
{
    (void)self;
    return 0;
}

#include "workloads.h"

const struct wheel_subject bench_subject = {
    .name = "linked lists, 4 x 256",
    .kind = "yardstick",
    .version = bench_version_here,
    .run = run,
};
