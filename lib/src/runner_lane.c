/*
 * runner_lane.c - the lanes of a runner's wheel: which one a thread uses, locks, the limit, memory,
 * and the check of them all.
 *
 * The limit of timers is divided among the lanes 64 places at a time, and the places of a lane
 * without timers are found when the others are used up, so the limit is exact. Memory stays with
 * its lane. A lane that needs more gets it while all lanes together have less than twice what the
 * most timers ever held at once need; otherwise the thread moves to a lane with memory left.
 */
#include "clock_private.h"
#include "runner_private.h"
#include "wheel_runner.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPINS = 64,       /* tries before the thread yields to others */
    YIELDS = 16,      /* times to yield before the thread sleeps */
    SLEEP_NS = 50000, /* time between two tries after that */
    /* timers for which a lane must have memory before other threads move to it */
    SPARE_MIN = STEP_MAX
};

_Static_assert(PIECE_SLOTS == (int)WHEEL_RUN, "the records of a piece follow each other");

/* Maximum of timers of a lane. The index of a slot must fit into LANE_SHIFT bits, even when some
 * slots were retired. */
#define LANE_TIMERS_MAX ((UINT32_C(1) << LANE_SHIFT) - STEP_MAX)

/* Memory. */

static void *runner_allocate(void *context, size_t alignment, size_t size)
{
    struct tw_runner_wheel *wheel = context;
    pthread_mutex_lock(&wheel->memory_lock);
    void *taken = memory_source_take(&wheel->runner->memory, alignment, size);
    pthread_mutex_unlock(&wheel->memory_lock);
    if (taken)
        atomic_fetch_add_explicit(&wheel->memory, size, memory_order_relaxed);
    return taken;
}

static void runner_release(void *context, void *memory, size_t size)
{
    struct tw_runner_wheel *wheel = context;
    if (!memory)
        return;
    if (!wheel->is_ending)
        pthread_mutex_lock(&wheel->memory_lock);
    memory_source_give(&wheel->runner->memory, memory, size);
    if (!wheel->is_ending)
        pthread_mutex_unlock(&wheel->memory_lock);
    atomic_fetch_sub_explicit(&wheel->memory, size, memory_order_relaxed);
}

/* Locks. */

/* The lock is held only for a short time, unless its holder was preempted. A thread that yields
 * gives its processor only to threads of its own priority or a higher one. So under a realtime
 * policy the holder may run only while this thread sleeps. */
void tw__runner_lane_wait(struct runner_lane *lane)
{
    if (lane->mutex) {
        pthread_mutex_lock(lane->mutex);
        return;
    }
    for (unsigned tries = 1; atomic_load_explicit(&lane->lock, memory_order_relaxed) != 0 ||
                             !tw__runner_lane_try_lock(lane);
         tries++) {
        TW_RUNNER_HOOK("spin");
        if (tries > SPINS * YIELDS)
            tw__clock_pause(SLEEP_NS);
        else if (tries % SPINS == 0)
            (void)sched_yield();
    }
}

/* Gives a home its first lane. Homes get lanes in turn, so threads share a lane only if there are
 * more threads than lanes. */
static unsigned runner_settle(struct tw_runner_wheel *wheel, _Atomic uint8_t *home)
{
    unsigned number = atomic_fetch_add_explicit(&wheel->home_next, 1, memory_order_relaxed) % LANES;
    atomic_store_explicit(home, (uint8_t)(number + 1), memory_order_relaxed);
    return number;
}

/* Returns the lane of the calling thread's home, locked. If it is locked already, returns another
 * lane that is in use and not locked. */
static struct runner_lane *runner_lane_lock_home(struct tw_runner_wheel *wheel,
                                                 _Atomic uint8_t *home)
{
    unsigned settled = atomic_load_explicit(home, memory_order_relaxed);
    unsigned number = settled ? settled - 1 : runner_settle(wheel, home);
    struct runner_lane *lane = &wheel->lanes[number];
    if (tw__runner_lane_try_lock(lane))
        return lane;
    uint32_t bits = atomic_load_explicit(&wheel->lanes_used, memory_order_relaxed);
    while (bits) {
        struct runner_lane *other = tw__runner_lane_next(wheel, &bits);
        if (atomic_load_explicit(&other->lock, memory_order_relaxed) == 0 &&
            tw__runner_lane_try_lock(other))
            return other;
    }
    tw__runner_lane_wait(lane);
    return lane;
}

/* The limit of timers. All functions are called with the lane locked. */

/* Takes up to `count` places from what is left of the limit. Returns how many. */
static uint32_t runner_take_grant(struct tw_runner_wheel *wheel, uint32_t count)
{
    uint32_t left = atomic_load_explicit(&wheel->ungranted, memory_order_relaxed), taken;
    do
        taken = left < count ? left : count;
    while (!atomic_compare_exchange_weak_explicit(&wheel->ungranted, &left, left - taken,
                                                  memory_order_relaxed, memory_order_relaxed));
    uint32_t granted = wheel->timer_count_max - (left - taken);
    uint32_t most = atomic_load_explicit(&wheel->granted_max, memory_order_relaxed);
    while (most < granted &&
           !atomic_compare_exchange_weak_explicit(&wheel->granted_max, &most, granted,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    return taken;
}

void tw__runner_lane_return(struct tw_runner_wheel *wheel, struct runner_lane *lane)
{
    lane->granted -= GRANT;
    atomic_fetch_add_explicit(&wheel->ungranted, GRANT, memory_order_relaxed);
}

/* True if the lane has a place under the limit, and memory, for a timer. */
static bool runner_lane_has_room(struct tw_runner_wheel *wheel, struct runner_lane *lane)
{
    if (lane->held < lane->granted)
        return true;
    uint32_t left = lane->reserved - lane->held;
    lane->granted += runner_take_grant(wheel, left < GRANT ? left : GRANT);
    return lane->held < lane->granted;
}

/* Memory of a lane. All functions are called with the lane locked. */

static size_t runner_directory_size(uint32_t capacity)
{
    return sizeof(struct runner_directory) + capacity * sizeof(struct runner_place);
}

/* Doubles the directory, which has `count` pieces. Returns NULL if out of memory. */
static struct runner_directory *runner_grow_directory(struct tw_runner_wheel *wheel,
                                                      struct runner_lane *lane, uint32_t count)
{
    struct runner_directory *old = atomic_load_explicit(&lane->directory, memory_order_relaxed);
    uint32_t capacity = old ? 2 * old->capacity : 8;
    struct runner_directory *directory =
        runner_allocate(wheel, _Alignof(struct runner_directory), runner_directory_size(capacity));
    if (!directory)
        return NULL;
    directory->older = old;
    directory->capacity = capacity;
    if (old)
        memcpy(directory->places, old->places, count * sizeof(old->places[0]));
    atomic_store_explicit(&lane->directory, directory, memory_order_release);
    return directory;
}

static bool runner_lane_add_piece(struct tw_runner_wheel *wheel, struct runner_lane *lane)
{
    uint32_t slots = atomic_load_explicit(&lane->slot_count, memory_order_relaxed);
    uint32_t count = slots / PIECE_SLOTS;
    struct runner_directory *directory =
        atomic_load_explicit(&lane->directory, memory_order_relaxed);
    if (!directory || directory->capacity == count)
        directory = runner_grow_directory(wheel, lane, count);
    if (!directory)
        return false;
    struct runner_cell *cells =
        runner_allocate(wheel, LINE, PIECE_SLOTS * sizeof(struct runner_cell));
    if (!cells)
        return false;
    directory->places[count] =
        (struct runner_place){cells, tw__wheel_record_memory(lane->wheel, slots),
                              tw__wheel_extra_memory(lane->wheel, slots)};
    /* A thread that reads this count can also read the slot's cell. */
    atomic_store_explicit(&lane->slot_count, slots + PIECE_SLOTS, memory_order_release);
    return true;
}

static void runner_lane_free_pieces(struct tw_runner_wheel *wheel, struct runner_lane *lane)
{
    struct runner_directory *directory = atomic_load(&lane->directory), *older;
    for (uint32_t i = 0; i < atomic_load(&lane->slot_count) / PIECE_SLOTS; i++)
        runner_release(wheel, directory->places[i].cells, PIECE_SLOTS * sizeof(struct runner_cell));
    for (; directory; directory = older) {
        older = directory->older;
        runner_release(wheel, directory, runner_directory_size(directory->capacity));
    }
}

bool tw__runner_lane_cover(struct tw_runner_wheel *wheel, struct runner_lane *lane, uint32_t index)
{
    while (index >= atomic_load_explicit(&lane->slot_count, memory_order_relaxed))
        if (index >= UINT32_C(1) << LANE_SHIFT || !runner_lane_add_piece(wheel, lane))
            return false;
    return true;
}

/* Returns the wheel of the lane, and makes it at the first use. NULL if out of memory. */
static bool runner_lane_begin(struct tw_runner_wheel *wheel, struct runner_lane *lane)
{
    uint64_t now_ns = tw__runner_now_ns(wheel->runner);
    struct tw_wheel_options options = {.start = tw__runner_tick_begun(wheel, now_ns),
                                       .allocate = runner_allocate,
                                       .release = runner_release,
                                       .context = wheel};
    lane->wheel = tw_wheel_create(&options);
    if (!lane->wheel)
        return false;
    TW_RUNNER_HOOK("begun");
    atomic_fetch_or(&wheel->lanes_used, UINT32_C(1) << (lane - wheel->lanes));
    return true;
}

/* Allocates memory for more timers: twice as many at first, later a thousand more. */
static bool runner_lane_reserve(struct tw_runner_wheel *wheel, struct runner_lane *lane)
{
    uint32_t step = lane->reserved < STEP_MIN   ? STEP_MIN
                    : lane->reserved < STEP_MAX ? lane->reserved
                                                : STEP_MAX;
    if (lane->reserved + step > LANE_TIMERS_MAX ||
        (!lane->wheel && !runner_lane_begin(wheel, lane)) ||
        !tw__wheel_reserve_untouched(lane->wheel, lane->reserved + step) ||
        !tw__runner_lane_cover(wheel, lane, lane->reserved + step - 1))
        return false;
    lane->reserved += step;
    atomic_fetch_add_explicit(&wheel->reserved, step, memory_order_relaxed);
    return true;
}

/* True if the lanes together may allocate more memory. */
static bool runner_may_reserve(struct tw_runner_wheel *wheel)
{
    uint64_t most = atomic_load_explicit(&wheel->granted_max, memory_order_relaxed);
    uint64_t reserved = atomic_load_explicit(&wheel->reserved, memory_order_relaxed);
    return reserved <= 2 * most + LANES * STEP_MAX;
}

/* Returns another lane that has memory to spare, locked, and makes it the home of the thread. NULL
 * if none has. */
static struct runner_lane *runner_move_home(struct tw_runner_wheel *wheel, _Atomic uint8_t *home)
{
    unsigned first = atomic_fetch_add_explicit(&wheel->home_next, 1, memory_order_relaxed);
    for (unsigned i = 0; i < LANES; i++) {
        unsigned number = (first + i) % LANES;
        struct runner_lane *lane = &wheel->lanes[number];
        tw__runner_lane_lock(lane);
        if (lane->reserved - lane->held >= SPARE_MIN && runner_lane_has_room(wheel, lane)) {
            atomic_store_explicit(home, (uint8_t)(number + 1), memory_order_relaxed);
            return lane;
        }
        tw__runner_lane_unlock(lane);
    }
    return NULL;
}

/* Returns a lane with room, locked. Called when `lane`, which is locked, has none. */
static struct runner_lane *runner_make_room(struct tw_runner_wheel *wheel, _Atomic uint8_t *home,
                                            struct runner_lane *lane)
{
    if (runner_lane_has_room(wheel, lane))
        return lane;
    if (lane->held == lane->reserved && !runner_may_reserve(wheel)) {
        tw__runner_lane_unlock(lane);
        struct runner_lane *other = runner_move_home(wheel, home);
        if (other)
            return other;
        tw__runner_lane_lock(lane);
    }
    if (runner_lane_has_room(wheel, lane) ||
        (lane->held == lane->reserved && runner_lane_reserve(wheel, lane) &&
         runner_lane_has_room(wheel, lane)))
        return lane;
    tw__runner_lane_unlock(lane);
    /* At the limit, or out of memory, unless another lane has room. */
    for (unsigned i = 0; i < LANES; i++) {
        tw__runner_lane_lock(&wheel->lanes[i]);
        if (runner_lane_has_room(wheel, &wheel->lanes[i]))
            return &wheel->lanes[i];
        tw__runner_lane_unlock(&wheel->lanes[i]);
    }
    return NULL;
}

struct runner_lane *tw__runner_lane_find_room(struct tw_runner_wheel *wheel, _Atomic uint8_t *home,
                                              struct runner_lane *lane)
{
    if (!lane)
        lane = runner_lane_lock_home(wheel, home);
    return lane->held < lane->granted ? lane : runner_make_room(wheel, home, lane);
}

static void runner_lanes_deinit_mutexes(struct tw_runner_wheel *wheel)
{
    for (unsigned i = 0; i < LANES && wheel->lanes[i].mutex; i++)
        pthread_mutex_destroy(wheel->lanes[i].mutex);
    pthread_mutex_destroy(&wheel->memory_lock);
}

static bool runner_lanes_init_mutexes(struct tw_runner_wheel *wheel)
{
    if (!thread_mutex_init(&wheel->memory_lock))
        return false;
    if (wheel->runner->wait != TW_RUNNER_INHERIT)
        return true;
    for (unsigned i = 0; i < LANES; i++) {
        if (!thread_mutex_init(&wheel->mutexes[i].mutex)) {
            runner_lanes_deinit_mutexes(wheel);
            return false;
        }
        wheel->lanes[i].mutex = &wheel->mutexes[i].mutex;
    }
    return true;
}

bool tw__runner_lanes_init(struct tw_runner_wheel *wheel)
{
    size_t batch_size = wheel->batch_count_max * sizeof(struct tw_expired);
    if (batch_size / sizeof(struct tw_expired) != wheel->batch_count_max)
        return false;
    if (!runner_lanes_init_mutexes(wheel))
        return false;
    for (unsigned i = 0; i < LANES; i++)
        atomic_init(&wheel->lanes[i].wake_ns, NEVER_NS);
    atomic_init(&wheel->ungranted, wheel->timer_count_max);
    atomic_init(&wheel->memory, sizeof(*wheel));
    wheel->batch = runner_allocate(wheel, _Alignof(struct tw_expired), batch_size);
    if (wheel->batch)
        return true;
    runner_lanes_deinit_mutexes(wheel);
    return false;
}

void tw__runner_lanes_deinit(struct tw_runner_wheel *wheel)
{
    wheel->is_ending = true;
    for (unsigned i = 0; i < LANES; i++) {
        struct runner_lane *lane = &wheel->lanes[i];
        tw_wheel_destroy(lane->wheel);
        runner_lane_free_pieces(wheel, lane);
    }
    runner_release(wheel, wheel->batch, wheel->batch_count_max * sizeof(struct tw_expired));
    runner_lanes_deinit_mutexes(wheel);
}

/* The check, for tests. */

#define REQUIRE(condition)                                                          \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

static void runner_check_lane(const struct tw_runner_wheel *wheel, const struct runner_lane *lane)
{
    bool is_used = atomic_load(&wheel->lanes_used) >> (lane - wheel->lanes) & 1;
    REQUIRE(atomic_load(&lane->lock) == 0);
    REQUIRE(is_used == (lane->wheel != NULL));
    REQUIRE(lane->held <= lane->granted && lane->granted <= lane->reserved);
    REQUIRE(lane->granted - lane->held <= 2 * GRANT);
    uint32_t slot_count = atomic_load(&lane->slot_count);
    REQUIRE(lane->reserved <= slot_count && lane->closed_running == 0);
    for (uint32_t i = 0; is_used && tw__wheel_mark(lane->wheel, i); i++)
        REQUIRE(*tw__wheel_mark(lane->wheel, i) == 0);
    for (uint32_t i = 0; i < slot_count; i += PIECE_SLOTS)
        REQUIRE(tw__runner_place(lane, i)->records == tw__wheel_record_memory(lane->wheel, i));
    if (!is_used) {
        REQUIRE(lane->held == 0 && atomic_load(&lane->wake_ns) == NEVER_NS);
        return;
    }
    /* The central invariant: the runner looks at the lane no later than its earliest timer. */
    uint64_t earliest = tw__wheel_earliest(lane->wheel);
    REQUIRE(atomic_load(&lane->wake_ns) <= tw__runner_tick_ns(wheel, earliest));
    REQUIRE(tw_wheel_count(lane->wheel) <= lane->held);
    tw_wheel_check(lane->wheel);
}

void tw_runner_check(const struct tw_runner *runner)
{
    const struct tw_runner_wheel *wheel =
        atomic_load((struct tw_runner_wheel * _Atomic *)(uintptr_t)&runner->wheels);
    for (; wheel; wheel = wheel->next) {
        uint64_t granted = 0, reserved = 0;
        for (unsigned i = 0; i < LANES; i++) {
            runner_check_lane(wheel, &wheel->lanes[i]);
            granted += wheel->lanes[i].granted;
            reserved += wheel->lanes[i].reserved;
        }
        REQUIRE(granted + atomic_load(&wheel->ungranted) == wheel->timer_count_max);
        REQUIRE(granted <= atomic_load(&wheel->granted_max));
        REQUIRE(reserved == atomic_load(&wheel->reserved));
    }
}
