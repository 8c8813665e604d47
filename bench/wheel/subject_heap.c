/* subject_heap.c - a yardstick: a 4-ary heap of (due, id) with an index from id to place. */
#include "bench.h"

#include <stdlib.h>

struct subject_heap_item {
    uint64_t due;
    uint32_t id;
};

struct heap_self {
    struct subject_heap_item *items;
    uint32_t *places; /* by id; PLACE_NONE when not armed */
    uint32_t count;
};

typedef struct heap_self self_t;

#define PLACE_NONE UINT32_MAX

typedef uint32_t what_t;

static self_t *create(uint32_t count, uint64_t start)
{
    (void)start;
    self_t *self = bench_allocate(sizeof(*self));
    self->items = bench_allocate(count * sizeof(struct subject_heap_item));
    self->places = bench_allocate(count * sizeof(uint32_t));
    for (uint32_t i = 0; i < count; i++)
        self->places[i] = PLACE_NONE;
    return self;
}

static void destroy(self_t *self)
{
    (void)self;
}

static inline void set(self_t *self, uint32_t place, struct subject_heap_item item)
{
    self->items[place] = item;
    self->places[item.id] = place;
}

static void sift_up(self_t *self, uint32_t place, struct subject_heap_item item)
{
    while (place > 0) {
        uint32_t parent = (place - 1) / 4;
        if (self->items[parent].due <= item.due)
            break;
        set(self, place, self->items[parent]);
        place = parent;
    }
    set(self, place, item);
}

static void sift_down(self_t *self, uint32_t place, struct subject_heap_item item)
{
    for (;;) {
        uint32_t first = place * 4 + 1;
        if (first >= self->count)
            break;
        uint32_t last = first + 4 < self->count ? first + 4 : self->count;
        uint32_t least = first;
        for (uint32_t child = first + 1; child < last; child++)
            if (self->items[child].due < self->items[least].due)
                least = child;
        if (self->items[least].due >= item.due)
            break;
        set(self, place, self->items[least]);
        place = least;
    }
    set(self, place, item);
}

static void put(self_t *self, uint32_t place, struct subject_heap_item item)
{
    if (place > 0 && self->items[(place - 1) / 4].due > item.due)
        sift_up(self, place, item);
    else
        sift_down(self, place, item);
}

static inline void place(self_t *self, uint32_t i, uint64_t deadline)
{
    sift_up(self, self->count++, (struct subject_heap_item){deadline, i});
}

static inline void again(self_t *self, size_t k, uint32_t i, uint64_t deadline)
{
    (void)k;
    place(self, i, deadline);
}

static inline what_t lookup(self_t *self, uint32_t i)
{
    (void)self;
    return i;
}

static inline what_t pick(self_t *self, uint32_t i)
{
    (void)self;
    return i;
}

static inline void cancel(self_t *self, what_t what)
{
    uint32_t hole = self->places[what];
    if (hole == PLACE_NONE)
        return;
    self->places[what] = PLACE_NONE;
    struct subject_heap_item last = self->items[--self->count];
    if (hole < self->count)
        put(self, hole, last);
}

static inline void ask(self_t *self, what_t what)
{
    __builtin_prefetch(&self->places[what]);
}

static inline void ask_to_move(self_t *self, what_t what)
{
    __builtin_prefetch(&self->places[what]);
}

static inline void look_ahead(self_t *self, uint32_t i)
{
    (void)self, (void)i;
}

static inline void move(self_t *self, what_t what, uint64_t deadline)
{
    if (self->places[what] == PLACE_NONE)
        place(self, what, deadline);
    else
        put(self, self->places[what], (struct subject_heap_item){deadline, what});
}

static inline size_t expire(self_t *self, uint64_t now, uint32_t *ids)
{
    size_t n = 0;
    while (n < BATCH && self->count && self->items[0].due <= now) {
        ids[n++] = self->items[0].id;
        cancel(self, self->items[0].id);
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
    .name = "4-ary heap with index",
    .kind = "yardstick",
    .version = bench_version_here,
    .run = run,
};
