/*
 * driver.c - a driver: an opened timer of a runner, a ticker, a lock, and the wheel's kind.
 *
 * The timer is armed for the tick of the wheel's next item. Each change of the wheel, the period or
 * the state arms it again with the lock held, so the last change counts. `tick` is the tick to
 * which the ring was moved; the ticker may be ahead of it while items are to be handled.
 *
 * Locks: the driver's lock is taken before that of a lane of the runner. None is held while the
 * handler runs.
 */
#include <tickwheel/driver.h>

#include "memory.h"
#include "thread.h"

#include <assert.h>
#include <pthread.h>

enum {
    TICK_NS = 1000,
    ITEMS_AT_ONCE = 256 /* items handled before the other wheels of the runner have a turn */
};

/* The functions in which the kinds of wheels differ. */
struct driver_kind {
    /* Moves the wheel to the ticker's tick, or up to the first item that is due. */
    void (*move)(struct tw_driver *driver);

    /* Takes up to `limit` items that are due. Returns their number. */
    size_t (*take)(struct tw_driver *driver, struct tw_driver_item *ret_items, size_t limit);

    /* Returns the tick of the next item: at most the ticker's tick if an item is due, TW_NEVER if
     * there is no item. */
    uint64_t (*wake_at)(const struct tw_driver *driver);
};

struct tw_driver {
    const struct driver_kind *kind;
    union {
        struct tw_ring *ring;
        struct tw_hashed *hashed;
        struct tw_hierarchy *hierarchy;
    };
    struct tw_runner *runner;
    struct tw_runner_wheel *alarms; /* wheel of the runner in which the driver has one timer */
    tw_handle alarm;
    void (*handler)(void *context, const struct tw_driver_item *items, size_t count);
    void *context;
    size_t batch_count_max;
    struct memory_source memory;
    pthread_mutex_t lock; /* guards the wheel and all below */
    struct tw_ticker ticker;
    uint64_t tick; /* for a ring: at most the tick of the ticker */
};

static void driver_ring_move(struct tw_driver *driver)
{
    uint64_t target = tw_ticker_tick(&driver->ticker);

    for (uint64_t moved = 1; driver->tick < target && moved > 0; driver->tick += moved)
        moved = tw_ring_advance(driver->ring, target - driver->tick);
}

static size_t driver_ring_take(struct tw_driver *driver, struct tw_driver_item *ret_items,
                               size_t limit)
{
    struct tw_ring_item items[TW_DRIVER_BATCH_MAX];

    driver_ring_move(driver);
    size_t count = tw_ring_take(driver->ring, items, limit);
    for (size_t i = 0; i < count; i++)
        ret_items[i] = (struct tw_driver_item){items[i].data, driver->tick, items[i].item, NULL};
    return count;
}

static uint64_t driver_ring_wake_at(const struct tw_driver *driver)
{
    uint64_t wake_in = tw_ring_wake_in(driver->ring);

    return wake_in < TW_NEVER - driver->tick ? driver->tick + wake_in : TW_NEVER;
}

static void driver_move_nothing(struct tw_driver *driver)
{
    (void)driver; /* the driver is not needed, because deadlines are absolute */
}

static size_t driver_hashed_take(struct tw_driver *driver, struct tw_driver_item *ret_items,
                                 size_t limit)
{
    struct tw_expired due[TW_DRIVER_BATCH_MAX];
    uint64_t now = tw_ticker_tick(&driver->ticker);
    size_t count;

    do
        count = tw_hashed_expire(driver->hashed, now, due, limit);
    while (count == 0 && tw_hashed_is_behind(driver->hashed));
    for (size_t i = 0; i < count; i++)
        ret_items[i] = (struct tw_driver_item){due[i].data, due[i].deadline, due[i].timer, NULL};
    return count;
}

static uint64_t driver_hashed_wake_at(const struct tw_driver *driver)
{
    return tw_hashed_wake_at(driver->hashed);
}

static size_t driver_hierarchy_take(struct tw_driver *driver, struct tw_driver_item *ret_items,
                                    size_t limit)
{
    struct tw_task *due[TW_DRIVER_BATCH_MAX];
    uint64_t now = tw_ticker_tick(&driver->ticker);
    size_t count;

    do
        count = tw_hierarchy_expire(driver->hierarchy, now, due, limit);
    while (count == 0 && tw_hierarchy_is_behind(driver->hierarchy));
    for (size_t i = 0; i < count; i++)
        ret_items[i] = (struct tw_driver_item){0, tw_task_deadline(due[i]), TW_NONE, due[i]};
    return count;
}

static uint64_t driver_hierarchy_wake_at(const struct tw_driver *driver)
{
    return tw_hierarchy_wake_at(driver->hierarchy);
}

static const struct driver_kind driver_ring = {driver_ring_move, driver_ring_take,
                                               driver_ring_wake_at};
static const struct driver_kind driver_hashed = {driver_move_nothing, driver_hashed_take,
                                                 driver_hashed_wake_at};
static const struct driver_kind driver_hierarchy = {driver_move_nothing, driver_hierarchy_take,
                                                    driver_hierarchy_wake_at};

/* Counts the ticks that have begun since the last call. */
static void driver_catch_up(struct tw_driver *driver)
{
    (void)tw_ticker_take(&driver->ticker, tw_runner_now(driver->runner));
    driver->kind->move(driver);
}

/* Returns the instant at which a tick begins; 0 if it has begun. driver_catch_up must have been
 * called. */
static struct tw_instant driver_instant_of(const struct tw_driver *driver, uint64_t tick)
{
    uint64_t current = tw_ticker_tick(&driver->ticker), distance_ns;
    struct tw_instant never = {TW_INSTANT_NEVER_NS};

    if (!tw_ticker_is_running(&driver->ticker) || tick == TW_NEVER)
        return never;
    if (tick <= current)
        return (struct tw_instant){0};
    if (__builtin_mul_overflow(tick - current - 1, tw_ticker_period(&driver->ticker), &distance_ns))
        return never;
    return tw_instant_add(tw_ticker_next_at(&driver->ticker), distance_ns);
}

static void driver_arm(struct tw_driver *driver)
{
    struct tw_instant at = driver_instant_of(driver, driver->kind->wake_at(driver));

    (void)tw_runner_arm(driver->alarms, driver->alarm, at);
}

/* Called by the runner when the driver's timer fires. */
static void driver_ring_bell(void *context, const struct tw_expired *due, size_t due_count)
{
    struct tw_driver *driver = context;
    struct tw_driver_item items[TW_DRIVER_BATCH_MAX];
    size_t handled = 0;

    (void)due, (void)due_count; /* the only timer is the alarm */
    pthread_mutex_lock(&driver->lock);
    driver_catch_up(driver);
    while (handled < ITEMS_AT_ONCE && tw_ticker_is_running(&driver->ticker)) {
        size_t count = driver->kind->take(driver, items, driver->batch_count_max);
        if (count == 0)
            break;
        pthread_mutex_unlock(&driver->lock);
        driver->handler(driver->context, items, count);
        pthread_mutex_lock(&driver->lock);
        handled += count;
    }
    driver_catch_up(driver);
    driver_arm(driver);
    pthread_mutex_unlock(&driver->lock);
}

/* Makes a driver whose ticker is at `tick`, without a wheel. */
static struct tw_driver *driver_create(struct tw_runner *runner,
                                       const struct tw_driver_options *options, uint64_t tick)
{
    struct memory_source source =
        tw__memory_source(options->allocate, options->release, options->memory_context);

    assert(options->handler && options->batch_count_max <= TW_DRIVER_BATCH_MAX);
    struct tw_driver *driver =
        memory_source_take(&source, _Alignof(struct tw_driver), sizeof *driver);
    if (!driver)
        return NULL;
    *driver = (struct tw_driver){
        .runner = runner,
        .handler = options->handler,
        .context = options->context,
        .batch_count_max = options->batch_count_max ? options->batch_count_max : 1,
        .memory = source,
    };
    tw_ticker_init(&driver->ticker, options->period_ns, TW_TICKER_COALESCE);
    tw_ticker_set_tick(&driver->ticker, tick);
    driver->alarms =
        tw_runner_add(runner, &(struct tw_runner_wheel_options){.handler = driver_ring_bell,
                                                                .context = driver,
                                                                .tick_ns = TICK_NS,
                                                                .timer_count_max = 1,
                                                                .batch_count_max = 1});
    if (driver->alarms)
        driver->alarm = tw_runner_open(driver->alarms, 0);
    if (driver->alarm != TW_NONE && thread_mutex_init(&driver->lock))
        return driver;
    if (driver->alarm != TW_NONE)
        (void)tw_runner_close(driver->alarms, driver->alarm);
    memory_source_give(&source, driver, sizeof *driver);
    return NULL;
}

struct tw_driver *tw_driver_create_ring(struct tw_runner *runner, struct tw_ring *ring,
                                        const struct tw_driver_options *options)
{
    struct tw_driver *driver = driver_create(runner, options, 0);

    if (driver) {
        driver->kind = &driver_ring;
        driver->ring = ring;
    }
    return driver;
}

struct tw_driver *tw_driver_create_hashed(struct tw_runner *runner, struct tw_hashed *wheel,
                                          const struct tw_driver_options *options)
{
    struct tw_driver *driver = driver_create(runner, options, tw_hashed_now(wheel));

    if (driver) {
        driver->kind = &driver_hashed;
        driver->hashed = wheel;
    }
    return driver;
}

struct tw_driver *tw_driver_create_hierarchy(struct tw_runner *runner, struct tw_hierarchy *wheel,
                                             const struct tw_driver_options *options)
{
    struct tw_driver *driver = driver_create(runner, options, tw_hierarchy_now(wheel));

    if (driver) {
        driver->kind = &driver_hierarchy;
        driver->hierarchy = wheel;
    }
    return driver;
}

void tw_driver_destroy(struct tw_driver *driver)
{
    if (!driver)
        return;
    enum tw_runner_answer answer = tw_runner_close(driver->alarms, driver->alarm);
    assert(answer != TW_RUNNER_RUNNING);
    (void)answer;
    pthread_mutex_destroy(&driver->lock);
    struct memory_source source = driver->memory;
    memory_source_give(&source, driver, sizeof *driver);
}

void tw_driver_enter(struct tw_driver *driver)
{
    pthread_mutex_lock(&driver->lock);
    driver_catch_up(driver);
}

void tw_driver_leave(struct tw_driver *driver)
{
    driver_arm(driver);
    pthread_mutex_unlock(&driver->lock);
}

void tw_driver_start(struct tw_driver *driver)
{
    tw_driver_enter(driver);
    tw_ticker_start(&driver->ticker, tw_runner_now(driver->runner));
    tw_driver_leave(driver);
}

void tw_driver_stop(struct tw_driver *driver)
{
    tw_driver_enter(driver);
    tw_ticker_stop(&driver->ticker);
    tw_driver_leave(driver);
}

bool tw_driver_is_running(struct tw_driver *driver)
{
    pthread_mutex_lock(&driver->lock);
    bool is_running = tw_ticker_is_running(&driver->ticker);
    pthread_mutex_unlock(&driver->lock);
    return is_running;
}

uint64_t tw_driver_tick(struct tw_driver *driver)
{
    tw_driver_enter(driver);
    uint64_t tick = tw_ticker_tick(&driver->ticker);
    pthread_mutex_unlock(&driver->lock);
    return tick;
}

uint64_t tw_driver_period(struct tw_driver *driver)
{
    pthread_mutex_lock(&driver->lock);
    uint64_t period_ns = tw_ticker_period(&driver->ticker);
    pthread_mutex_unlock(&driver->lock);
    return period_ns;
}

void tw_driver_set_period(struct tw_driver *driver, uint64_t period_ns)
{
    tw_driver_enter(driver);
    tw_ticker_set_period(&driver->ticker, period_ns, tw_runner_now(driver->runner));
    tw_driver_leave(driver);
}
