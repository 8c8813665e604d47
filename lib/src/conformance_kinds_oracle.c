/*
 * An adapter for each wheel: ids to embedded tasks, to handles, to ring items.
 */
#include "conformance_oracle.h"

#include <tickwheel/hashed.h>
#include <tickwheel/hierarchy.h>
#include <tickwheel/ring.h>
#include <tickwheel/wheel.h>

#include <string.h>

enum { BATCH = 64 };

static uint64_t deadline_min(const struct conformance_wheel *wheel)
{
    (void)wheel;
    return 0;
}

static uint64_t deadline_max(const struct conformance_wheel *wheel)
{
    (void)wheel;
    return TW_NEVER;
}

/* The queries that need no adapting, for an adapter `struct x` whose wheel is `wheel`. */
#define QUERY(type, name, query)                                         \
    static type name##_##query(const struct conformance_wheel *wheel)    \
    {                                                                    \
        return tw_##name##_##query(((const struct name *)wheel)->wheel); \
    }

#define QUERIES(name)              \
    QUERY(bool, name, is_behind)   \
    QUERY(uint64_t, name, wake_at) \
    QUERY(uint64_t, name, now)     \
    QUERY(size_t, name, count)     \
    QUERY(size_t, name, memory)    \
    QUERY(void, name, check)

/* hierarchy.h */

struct hierarchy {
    struct conformance_wheel base;
    struct tw_hierarchy *wheel;
    struct tw_task *tasks[CONFORMANCE_IDS]; /* each an allocation while scheduled, freed at once */
};

/* What a caller would embed the task in. */
struct conformance_kinds_item {
    uint32_t id;
    struct tw_task task;
};

static struct conformance_wheel *hierarchy_create(const struct conformance_kind *kind,
                                                  uint64_t start)
{
    struct hierarchy *it = calloc(1, sizeof *it);
    struct tw_hierarchy_options options = {
        .start = start, .tick = kind->tick, .wheel_size = kind->size};

    REQUIRE(it);
    it->base.kind = kind;
    it->wheel = tw_hierarchy_create(&options);
    REQUIRE(it->wheel);
    return &it->base;
}

static void item_free(struct hierarchy *it, uint32_t id)
{
    free(tw_task_item(it->tasks[id], struct conformance_kinds_item, task));
    it->tasks[id] = NULL;
}

static void hierarchy_destroy(struct conformance_wheel *wheel)
{
    struct hierarchy *it = (struct hierarchy *)wheel;
    struct tw_task *task;

    while ((task = tw_hierarchy_pop(it->wheel)) != NULL) {
        REQUIRE(!tw_task_is_scheduled(task));
        item_free(it, tw_task_item(task, struct conformance_kinds_item, task)->id);
    }
    for (size_t i = 0; i < CONFORMANCE_IDS; i++)
        REQUIRE(!it->tasks[i]);
    tw_hierarchy_destroy(it->wheel);
    free(it);
}

static void hierarchy_schedule(struct conformance_wheel *wheel, uint32_t id, uint64_t deadline)
{
    struct hierarchy *it = (struct hierarchy *)wheel;
    struct conformance_kinds_item *item = calloc(1, sizeof *item);

    REQUIRE(item && !it->tasks[id]);
    item->id = id;
    it->tasks[id] = &item->task;
    tw_hierarchy_schedule(it->wheel, &item->task, deadline);
    REQUIRE(tw_task_is_scheduled(&item->task) && tw_task_deadline(&item->task) == deadline);
}

static bool hierarchy_reschedule(struct conformance_wheel *wheel, uint32_t id, uint64_t deadline)
{
    struct hierarchy *it = (struct hierarchy *)wheel;
    struct tw_task idle = {0};

    return tw_hierarchy_reschedule(it->wheel, it->tasks[id] ? it->tasks[id] : &idle, deadline);
}

static bool hierarchy_cancel(struct conformance_wheel *wheel, uint32_t id)
{
    struct hierarchy *it = (struct hierarchy *)wheel;
    struct tw_task idle = {0};

    if (!it->tasks[id])
        return tw_hierarchy_cancel(it->wheel, &idle);
    bool is_cancelled = tw_hierarchy_cancel(it->wheel, it->tasks[id]);
    REQUIRE(!tw_hierarchy_cancel(it->wheel, it->tasks[id]));
    item_free(it, id);
    return is_cancelled;
}

static size_t hierarchy_expire(struct conformance_wheel *wheel, uint64_t now,
                               struct conformance_expired *ret_due, size_t limit)
{
    struct hierarchy *it = (struct hierarchy *)wheel;
    struct tw_task *due[BATCH];
    size_t count = tw_hierarchy_expire(it->wheel, now, due, limit < BATCH ? limit : BATCH);

    for (size_t i = 0; i < count; i++) {
        struct conformance_kinds_item *item =
            tw_task_item(due[i], struct conformance_kinds_item, task);
        REQUIRE(!tw_task_is_scheduled(due[i]));
        ret_due[i] = (struct conformance_expired){item->id, tw_task_deadline(due[i])};
        item_free(it, item->id);
    }
    return count;
}

QUERIES(hierarchy)

/* hashed.h */

struct hashed {
    struct conformance_wheel base;
    struct tw_hashed *wheel;
    tw_handle timers[CONFORMANCE_IDS]; /* stale ones stay, to be tried again */
};

static struct conformance_wheel *hashed_create(const struct conformance_kind *kind, uint64_t start)
{
    struct hashed *it = calloc(1, sizeof *it);
    struct tw_hashed_options options = {
        .start = start, .tick = kind->tick, .wheel_size = kind->size};

    REQUIRE(it);
    it->base.kind = kind;
    it->wheel = tw_hashed_create(&options);
    REQUIRE(it->wheel);
    return &it->base;
}

static void hashed_destroy(struct conformance_wheel *wheel)
{
    tw_hashed_destroy(((struct hashed *)wheel)->wheel);
    free(wheel);
}

static void hashed_schedule(struct conformance_wheel *wheel, uint32_t id, uint64_t deadline)
{
    struct hashed *it = (struct hashed *)wheel;

    it->timers[id] = tw_hashed_schedule(it->wheel, deadline, id);
    REQUIRE(it->timers[id] != TW_NONE);
}

static bool hashed_reschedule(struct conformance_wheel *wheel, uint32_t id, uint64_t deadline)
{
    struct hashed *it = (struct hashed *)wheel;
    return tw_hashed_reschedule(it->wheel, it->timers[id], deadline);
}

static bool hashed_cancel(struct conformance_wheel *wheel, uint32_t id)
{
    struct hashed *it = (struct hashed *)wheel;
    return tw_hashed_cancel(it->wheel, it->timers[id]);
}

static size_t hashed_expire(struct conformance_wheel *wheel, uint64_t now,
                            struct conformance_expired *ret_due, size_t limit)
{
    struct hashed *it = (struct hashed *)wheel;
    struct tw_expired due[BATCH];
    size_t count = tw_hashed_expire(it->wheel, now, due, limit < BATCH ? limit : BATCH);

    for (size_t i = 0; i < count; i++) {
        REQUIRE(due[i].timer == it->timers[due[i].data]);
        ret_due[i] = (struct conformance_expired){(uint32_t)due[i].data, due[i].deadline};
    }
    return count;
}

QUERIES(hashed)

/* wheel.h, each timer scheduled once */

struct wheel {
    struct conformance_wheel base;
    struct tw_wheel *wheel;
    tw_handle timers[CONFORMANCE_IDS];
    bool is_armed[CONFORMANCE_IDS]; /* opened ones only */
};

static struct conformance_wheel *wheel_create(const struct conformance_kind *kind, uint64_t start)
{
    struct wheel *it = calloc(1, sizeof *it);

    REQUIRE(it && kind->tick == 1);
    it->base.kind = kind;
    it->wheel = tw_wheel_create(&(struct tw_wheel_options){.start = start});
    REQUIRE(it->wheel);
    return &it->base;
}

static void wheel_destroy(struct conformance_wheel *wheel)
{
    tw_wheel_destroy(((struct wheel *)wheel)->wheel);
    free(wheel);
}

static void wheel_schedule(struct conformance_wheel *wheel, uint32_t id, uint64_t deadline)
{
    struct wheel *it = (struct wheel *)wheel;

    it->timers[id] = tw_wheel_schedule(it->wheel, deadline, id);
    REQUIRE(it->timers[id] != TW_NONE);
}

static bool wheel_reschedule(struct conformance_wheel *wheel, uint32_t id, uint64_t deadline)
{
    struct wheel *it = (struct wheel *)wheel;
    return tw_wheel_reschedule(it->wheel, it->timers[id], deadline);
}

static bool wheel_cancel(struct conformance_wheel *wheel, uint32_t id)
{
    struct wheel *it = (struct wheel *)wheel;
    return tw_wheel_cancel(it->wheel, it->timers[id]);
}

static size_t wheel_expire(struct conformance_wheel *wheel, uint64_t now,
                           struct conformance_expired *ret_due, size_t limit)
{
    struct wheel *it = (struct wheel *)wheel;
    struct tw_expired due[BATCH];
    size_t count = tw_wheel_expire(it->wheel, now, due, limit < BATCH ? limit : BATCH);

    for (size_t i = 0; i < count; i++) {
        REQUIRE(due[i].timer == it->timers[due[i].data]);
        ret_due[i] = (struct conformance_expired){(uint32_t)due[i].data, due[i].deadline};
        it->is_armed[due[i].data] = false;
    }
    return count;
}

QUERIES(wheel)

/* wheel.h, each timer opened once and armed many times; one armed for TW_NEVER counts as scheduled
 * here, although the wheel knows no difference from an unarmed one. */

static struct conformance_wheel *opened_create(const struct conformance_kind *kind, uint64_t start)
{
    struct wheel *it = (struct wheel *)wheel_create(kind, start);

    for (uint32_t id = 0; id < CONFORMANCE_IDS; id++) {
        it->timers[id] = tw_wheel_open(it->wheel, id);
        REQUIRE(it->timers[id] != TW_NONE);
    }
    return &it->base;
}

static void opened_schedule(struct conformance_wheel *wheel, uint32_t id, uint64_t deadline)
{
    struct wheel *it = (struct wheel *)wheel;

    REQUIRE(tw_wheel_arm(it->wheel, it->timers[id], deadline));
    it->is_armed[id] = true;
}

static bool opened_reschedule(struct conformance_wheel *wheel, uint32_t id, uint64_t deadline)
{
    struct wheel *it = (struct wheel *)wheel;

    if (!it->is_armed[id])
        return false;
    return tw_wheel_arm(it->wheel, it->timers[id], deadline);
}

static bool opened_cancel(struct conformance_wheel *wheel, uint32_t id)
{
    struct wheel *it = (struct wheel *)wheel;
    bool was_armed = it->is_armed[id];

    if (tw_wheel_disarm(it->wheel, it->timers[id]))
        REQUIRE(was_armed);
    it->is_armed[id] = false;
    return was_armed;
}

/* ring.h: an item that is removed when it comes up is a timer of at most one rotation. */

struct ring {
    struct conformance_wheel base;
    struct tw_ring *ring;
    uint64_t now;
    uint64_t position; /* the time up to which the ring has advanced */
    tw_handle items[CONFORMANCE_IDS];
    uint64_t deadlines[CONFORMANCE_IDS];
};

static struct conformance_wheel *ring_create(const struct conformance_kind *kind, uint64_t start)
{
    struct ring *it = calloc(1, sizeof *it);

    REQUIRE(it && kind->tick == 1);
    it->base.kind = kind;
    it->now = it->position = start;
    it->ring = tw_ring_create(&(struct tw_ring_options){.size = kind->size});
    REQUIRE(it->ring && tw_ring_set_tick(it->ring, start % kind->size));
    return &it->base;
}

static void ring_destroy(struct conformance_wheel *wheel)
{
    tw_ring_destroy(((struct ring *)wheel)->ring);
    free(wheel);
}

/* The next sector is the soonest, the current one the farthest. */
static uint64_t ring_deadline_min(const struct conformance_wheel *wheel)
{
    return ((const struct ring *)wheel)->position + 1;
}

static uint64_t ring_deadline_max(const struct conformance_wheel *wheel)
{
    const struct ring *it = (const struct ring *)wheel;
    uint64_t left = CONFORMANCE_TIME_LAST - it->position;
    return it->position + (left < it->base.kind->size ? left : it->base.kind->size);
}

static int32_t ring_interval(const struct ring *it, uint32_t id)
{
    return (int32_t)(id % 3 % (it->base.kind->size + 1));
}

static void ring_schedule(struct conformance_wheel *wheel, uint32_t id, uint64_t deadline)
{
    struct ring *it = (struct ring *)wheel;

    it->items[id] =
        tw_ring_add_moving(it->ring, (int64_t)(deadline - it->position), ring_interval(it, id), id);
    REQUIRE(it->items[id] != TW_NONE);
    it->deadlines[id] = deadline;
}

static bool ring_reschedule(struct conformance_wheel *wheel, uint32_t id, uint64_t deadline)
{
    struct ring *it = (struct ring *)wheel;

    it->deadlines[id] = deadline;
    return tw_ring_reschedule(it->ring, it->items[id], (int64_t)(deadline - it->position));
}

static bool ring_cancel(struct conformance_wheel *wheel, uint32_t id)
{
    struct ring *it = (struct ring *)wheel;
    return tw_ring_remove(it->ring, it->items[id]);
}

static size_t ring_expire(struct conformance_wheel *wheel, uint64_t now,
                          struct conformance_expired *ret_due, size_t limit)
{
    struct ring *it = (struct ring *)wheel;
    struct tw_ring_item due[BATCH];
    size_t due_count = 0;

    if (limit > BATCH)
        limit = BATCH;
    if (now > CONFORMANCE_TIME_LAST)
        now = CONFORMANCE_TIME_LAST;
    it->now = now > it->now ? now : it->now;
    for (;;) {
        size_t count = tw_ring_take(it->ring, due, limit - due_count);
        for (size_t i = 0; i < count; i++) {
            uint32_t id = (uint32_t)due[i].data;
            REQUIRE(due[i].item == it->items[id] && due[i].interval == ring_interval(it, id));
            REQUIRE(due[i].tick == it->position % it->base.kind->size);
            REQUIRE(tw_ring_remove(it->ring, due[i].item));
            ret_due[due_count++] = (struct conformance_expired){id, it->deadlines[id]};
        }
        uint64_t moved = 0;
        if (due_count < limit)
            moved = tw_ring_advance(it->ring, it->now - it->position);
        if (moved == 0)
            return due_count;
        it->position += moved;
    }
}

static uint64_t ring_wake_at(const struct conformance_wheel *wheel)
{
    const struct ring *it = (const struct ring *)wheel;
    uint64_t wake_in = tw_ring_wake_in(it->ring);

    return wake_in == TW_NEVER ? TW_NEVER : it->position + wake_in;
}

static bool ring_is_behind(const struct conformance_wheel *wheel)
{
    return ring_wake_at(wheel) <= ((const struct ring *)wheel)->now;
}

static uint64_t ring_now(const struct conformance_wheel *wheel)
{
    return ((const struct ring *)wheel)->now;
}

static size_t ring_count(const struct conformance_wheel *wheel)
{
    return tw_ring_count(((const struct ring *)wheel)->ring);
}

static size_t ring_memory(const struct conformance_wheel *wheel)
{
    return tw_ring_memory(((const struct ring *)wheel)->ring);
}

static void ring_check(const struct conformance_wheel *wheel)
{
    tw_ring_check(((const struct ring *)wheel)->ring);
}

#define HIERARCHY(kind_tick, kind_size)                                                         \
    {                                                                                           \
        .name = "hierarchy-" #kind_tick "x" #kind_size, .tick = kind_tick, .size = kind_size,   \
        .create = hierarchy_create, .destroy = hierarchy_destroy, .deadline_min = deadline_min, \
        .deadline_max = deadline_max, .schedule = hierarchy_schedule,                           \
        .reschedule = hierarchy_reschedule, .cancel = hierarchy_cancel,                         \
        .expire = hierarchy_expire, .is_behind = hierarchy_is_behind,                           \
        .wake_at = hierarchy_wake_at, .now = hierarchy_now, .count = hierarchy_count,           \
        .memory = hierarchy_memory, .check = hierarchy_check,                                   \
    }

#define HASHED(kind_tick, kind_size)                                                       \
    {                                                                                      \
        .name = "hashed-" #kind_tick "x" #kind_size, .tick = kind_tick, .size = kind_size, \
        .create = hashed_create, .destroy = hashed_destroy, .deadline_min = deadline_min,  \
        .deadline_max = deadline_max, .schedule = hashed_schedule,                         \
        .reschedule = hashed_reschedule, .cancel = hashed_cancel, .expire = hashed_expire, \
        .is_behind = hashed_is_behind, .wake_at = hashed_wake_at, .now = hashed_now,       \
        .count = hashed_count, .memory = hashed_memory, .check = hashed_check,             \
    }

#define WHEEL(kind_name, how)                                                                 \
    {                                                                                         \
        .name = kind_name, .tick = 1, .size = 256, .create = how##_create,                    \
        .destroy = wheel_destroy, .deadline_min = deadline_min, .deadline_max = deadline_max, \
        .schedule = how##_schedule, .reschedule = how##_reschedule, .cancel = how##_cancel,   \
        .expire = wheel_expire, .is_behind = wheel_is_behind, .wake_at = wheel_wake_at,       \
        .now = wheel_now, .count = wheel_count, .memory = wheel_memory, .check = wheel_check, \
    }

#define RING(kind_size)                                                                  \
    {                                                                                    \
        .name = "ring-" #kind_size, .tick = 1, .size = kind_size, .create = ring_create, \
        .destroy = ring_destroy, .deadline_min = ring_deadline_min,                      \
        .deadline_max = ring_deadline_max, .schedule = ring_schedule,                    \
        .reschedule = ring_reschedule, .cancel = ring_cancel, .expire = ring_expire,     \
        .is_behind = ring_is_behind, .wake_at = ring_wake_at, .now = ring_now,           \
        .count = ring_count, .memory = ring_memory, .check = ring_check,                 \
    }

const struct conformance_kind conformance_kinds[] = {
    HIERARCHY(1, 2),
    HIERARCHY(1, 10),
    HIERARCHY(7, 20),
    HIERARCHY(1, 256),
    HIERARCHY(10, 64),
    HIERARCHY(1000, 3),
    HIERARCHY(65536, 4),
    HASHED(1, 1),
    HASHED(1, 8),
    HASHED(7, 64),
    HASHED(100, 512),
    HASHED(65536, 16),
    RING(1),
    RING(5),
    RING(64),
    RING(1000),
    WHEEL("wheel", wheel),
    WHEEL("wheel-opened", opened),
};

const size_t conformance_kind_count = sizeof conformance_kinds / sizeof conformance_kinds[0];
