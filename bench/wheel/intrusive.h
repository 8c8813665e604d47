/*
 * intrusive.h - what subjects have in common whose timers are in doubly linked lists through the
 * caller's objects.
 *
 * Not a header in the usual sense: a subject defines the types `node_t`, with the fields `next`,
 * `previous` (NULL when not armed) and `due`, and `self_t`, with the array `nodes` and the list
 * `fired` of timers that are to be handed out; then it includes this file, defines link_node,
 * unlink_node, create and expire, and includes workloads.h.
 */
#ifndef BENCH_WHEEL_INTRUSIVE_H
#define BENCH_WHEEL_INTRUSIVE_H

typedef node_t *what_t;

/* Puts a node that is in no list where its deadline says; takes it out of its list. */
static inline void link_node(self_t *self, node_t *node);
static inline void unlink_node(self_t *self, node_t *node);

static inline void list_init(node_t *root)
{
    root->next = root->previous = root;
}

static inline int list_is_empty(const node_t *root)
{
    return root->next == root;
}

static inline void list_remove(node_t *node)
{
    node->next->previous = node->previous;
    node->previous->next = node->next;
    node->previous = NULL;
}

static inline void list_append(node_t *root, node_t *node)
{
    node->next = root;
    node->previous = root->previous;
    root->previous->next = node;
    root->previous = node;
}

/* Moves all nodes of `from` to the end of `to`. */
static inline void list_splice(node_t *to, node_t *from)
{
    if (list_is_empty(from))
        return;
    from->next->previous = to->previous;
    to->previous->next = from->next;
    from->previous->next = to;
    to->previous = from->previous;
    list_init(from);
}

/* Links all nodes of a list anew. */
static inline void list_deal(self_t *self, node_t *root)
{
    node_t all;
    list_init(&all);
    list_splice(&all, root);
    while (!list_is_empty(&all)) {
        node_t *node = all.next;
        list_remove(node);
        link_node(self, node);
    }
}

static inline self_t *intrusive_create(uint32_t count)
{
    self_t *self = (self_t *)bench_allocate(sizeof(*self));
    self->nodes = (node_t *)bench_allocate(count * sizeof(node_t));
    list_init(&self->fired);
    return self;
}

/* Hands out up to BATCH of the timers in `fired`. */
static inline size_t take_fired(self_t *self, uint32_t *ids)
{
    size_t n = 0;
    while (n < BATCH && !list_is_empty(&self->fired)) {
        node_t *node = self->fired.next;
        list_remove(node);
        ids[n++] = (uint32_t)(node - self->nodes);
    }
    return n;
}

static void destroy(self_t *self)
{
    (void)self;
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
    unlink_node(self, what);
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
        unlink_node(self, what);
    what->due = deadline;
    link_node(self, what);
}

static inline int is_behind(self_t *self)
{
    (void)self;
    return 0;
}

#endif
