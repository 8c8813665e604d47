/*
 * driver.h - drives a ring, a hashed wheel or a hierarchy by itself: counts ticks of a period,
 * hands due items to a handler, and lets several threads use the wheel.
 *
 *     static void on_item(void *context, const struct tw_driver_item *items, size_t count)
 *     {
 *         for (size_t i = 0; i < count; i++)
 *             probe(context, items[i].data);
 *     }
 *
 *     struct tw_ring *ring = tw_ring_create(NULL);
 *     struct tw_runner *runner = tw_runner_create(NULL);
 *     struct tw_driver *driver = tw_driver_create_ring(
 *         runner, ring, &(struct tw_driver_options){.handler = on_item, .period_ns = 1000000000});
 *     tw_runner_start(runner);
 *     tw_driver_start(driver);
 *
 *     tw_driver_enter(driver); // any thread, and the handler
 *     tw_ring_add_moving(ring, 1, 15, 7);
 *     tw_driver_leave(driver);
 *     tw_driver_set_period(driver, 500000000);
 *
 *     tw_runner_stop(runner);
 *     tw_driver_destroy(driver);
 *     tw_runner_destroy(runner);
 *     tw_ring_destroy(ring);
 *
 * A driver lives on a runner (runner.h), which is a thread or a descriptor in an event loop, and
 * may serve other drivers and wheels as well. It sleeps until the tick of the next item.
 *
 * Time       The wheel's time is in ticks of the driver. A deadline of a hashed wheel or a
 *            hierarchy is a number of tw_driver_tick; an offset of a ring counts from its current
 *            sector. An item is handed out when its tick has begun, never before.
 * Errors     Only create fails, when memory is short. Misuse is a bug in the caller, which assert()
 *            reports.
 * Ownership  Runner and wheel belong to the caller and outlive the driver, which alone moves the
 *            wheel on: the caller does not call its expire, advance, take and set_tick.
 * Memory     One block, freed by destroy, and a wheel of the runner with one timer, 0.2 MB, freed
 *            with the runner.
 * Threads    Any thread and the handler may call any function, except create and destroy (no other
 *            call at the same time). The wheel's functions are called between enter and leave.
 *            Handlers run without a lock, in the runner's thread or in tw_runner_dispatch, and
 *            never at the same time as another handler of the runner.
 */
#ifndef TICKWHEEL_DRIVER_H
#define TICKWHEEL_DRIVER_H

#include <tickwheel/hashed.h>
#include <tickwheel/hierarchy.h>
#include <tickwheel/ring.h>
#include <tickwheel/runner.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most items in one call of the handler. */
#define TW_DRIVER_BATCH_MAX 64

struct tw_driver;

/* An item that is due. */
struct tw_driver_item {
    uint64_t data;     /* as given to the wheel; 0 in a hierarchy */
    uint64_t deadline; /* as given to the wheel; in a ring, the tick of the driver */
    tw_handle handle;  /* in a ring still good, in a hashed wheel stale; TW_NONE in a hierarchy */
    struct tw_task *task; /* in a hierarchy, not scheduled any more; otherwise NULL */
};

/* Zero means the default in every field but `handler` and `period_ns`. */
struct tw_driver_options {
    /* Handles due items; required. It may enter the driver and change any item, also those that it
     * was given, and the period. */
    void (*handler)(void *context, const struct tw_driver_item *items, size_t count);
    void *context;

    /* The length of a tick, 1 to INT64_MAX. */
    uint64_t period_ns;

    /* The most items in one call of the handler, at most TW_DRIVER_BATCH_MAX. An item that is
     * removed or moved after the driver has taken it for a batch is handed out nevertheless.
     * Default 1, so that each change made by a handler counts. */
    size_t batch_count_max;

    /* The source of memory. `allocate` returns `size` bytes at a multiple of `alignment`, a power
     * of two; NULL means out of memory. `release` gives the bytes back. Set both or neither; both
     * receive `memory_context`. Default: the C library. */
    void *(*allocate)(void *context, size_t alignment, size_t size);
    void (*release)(void *context, void *memory, size_t size);
    void *memory_context;
};

/* A driver of `ring` on `runner`, not started, at tick 0. `options` is copied. NULL when out of
 * memory. */
struct tw_driver *tw_driver_create_ring(struct tw_runner *runner, struct tw_ring *ring,
                                        const struct tw_driver_options *options);

/* A driver of the hashed `wheel` on `runner`, not started; its tick is the wheel's time. `options`
 * is copied. NULL when out of memory. */
struct tw_driver *tw_driver_create_hashed(struct tw_runner *runner, struct tw_hashed *wheel,
                                          const struct tw_driver_options *options);

/* A driver of the hierarchy `wheel` on `runner`, not started; its tick is the wheel's time.
 * `options` is copied. NULL when out of memory. */
struct tw_driver *tw_driver_create_hierarchy(struct tw_runner *runner, struct tw_hierarchy *wheel,
                                             const struct tw_driver_options *options);

/* Frees the driver; NULL is fine. Its handler must not run: the runner is stopped, or is dispatched
 * by this thread, and this is not the handler. */
void tw_driver_destroy(struct tw_driver *driver);

/* Starts the ticks: the next is one period from now. A driver that runs begins its period anew. */
void tw_driver_start(struct tw_driver *driver);

/* Stops the ticks: no handler is called for a tick any more, but one that runs may be ending. The
 * items stay. */
void tw_driver_stop(struct tw_driver *driver);

/* Whether the driver is started, and not stopped since then. */
bool tw_driver_is_running(struct tw_driver *driver);

/* Locks the wheel for the calling thread, which may then call the wheel's functions. Not twice
 * before leave. The ring's current sector is that of the present tick, or that of items which are
 * not handled yet. */
void tw_driver_enter(struct tw_driver *driver);

/* Unlocks the wheel, and wakes the runner if an item is due sooner than it knew. */
void tw_driver_leave(struct tw_driver *driver);

/* The current tick. Not between enter and leave. */
uint64_t tw_driver_tick(struct tw_driver *driver);

/* The period. */
uint64_t tw_driver_period(struct tw_driver *driver);

/* Changes the period to `period_ns`, 1 to INT64_MAX, as tw_ticker_set_period does: no tick is lost
 * or doubled, and the next is one new period after the last. Not between enter and leave. */
void tw_driver_set_period(struct tw_driver *driver, uint64_t period_ns);

#ifdef __cplusplus
}
#endif

#endif
