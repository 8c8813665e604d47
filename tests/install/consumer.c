/*
 * Goal: what is installed can be used, from C and from C++. Method: a timer on each wheel comes out
 * when it is due, a runner handles one, a driver turns a ring, a purgatory completes an operation,
 * an executor runs a job; in what the two languages share, as install_test.py compiles it as both.
 */
#include <tickwheel/executor.h>
#include <tickwheel/purgatory.h>
#include <tickwheel/runner.h>
#include <tickwheel/tickwheel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                   \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

struct consumer_connection {
    int fd;
    struct tw_task idle;
};

static void use_wheel(void)
{
    struct tw_expired due[4];
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    EXPECT(wheel);
    EXPECT(tw_wheel_schedule(wheel, 30000, 42) != TW_NONE);
    EXPECT(tw_wheel_expire(wheel, 29999, due, 4) == 0);
    EXPECT(tw_wheel_expire(wheel, 30000, due, 4) == 1 && due[0].data == 42);
    tw_wheel_destroy(wheel);
}

static void use_hashed(void)
{
    struct tw_expired due[4];
    struct tw_hashed *wheel = tw_hashed_create(NULL);
    EXPECT(wheel);
    EXPECT(tw_hashed_schedule(wheel, 30000, 42) != TW_NONE);
    EXPECT(tw_hashed_expire(wheel, 29999, due, 4) == 0);
    EXPECT(tw_hashed_expire(wheel, 30000, due, 4) == 1 && due[0].data == 42);
    tw_hashed_destroy(wheel);
}

static void use_hierarchy(void)
{
    struct tw_task *due[4];
    struct consumer_connection connection = {3, {{NULL, NULL}, 0}};
    struct tw_hierarchy *wheel = tw_hierarchy_create(NULL);
    EXPECT(wheel);
    tw_hierarchy_schedule(wheel, &connection.idle, 30000);
    EXPECT(tw_task_is_scheduled(&connection.idle));
    EXPECT(tw_hierarchy_expire(wheel, 29999, due, 4) == 0);
    EXPECT(tw_hierarchy_expire(wheel, 30000, due, 4) == 1);
    EXPECT(tw_task_item(due[0], struct consumer_connection, idle)->fd == 3);
    tw_hierarchy_destroy(wheel);
}

static void use_ring(void)
{
    struct tw_ring_item item;
    struct tw_ring *ring = tw_ring_create(NULL);
    EXPECT(ring);
    EXPECT(tw_ring_add_moving(ring, 1, 15, 42) != TW_NONE);
    EXPECT(tw_ring_advance(ring, 1) == 1);
    EXPECT(tw_ring_take(ring, &item, 1) == 1 && item.data == 42);
    EXPECT(tw_ring_wake_in(ring) == 15);
    tw_ring_destroy(ring);
}

static void on_driven(void *context, const struct tw_driver_item *items, size_t count)
{
    EXPECT(count == 1 && items[0].data == 42);
    tw_waiter_wake((struct tw_waiter *)context);
}

static void use_driver(void)
{
    struct tw_waiter waiter;
    struct tw_driver_options options;
    struct tw_runner *runner = tw_runner_create(NULL);
    struct tw_ring *ring = tw_ring_create(NULL);
    struct tw_instant never = {TW_INSTANT_NEVER_NS};
    memset(&options, 0, sizeof(options));
    options.handler = on_driven;
    options.context = &waiter;
    options.period_ns = 1000000;
    struct tw_driver *driver = tw_driver_create_ring(runner, ring, &options);
    EXPECT(driver && tw_waiter_init(&waiter) && tw_runner_start(runner));
    tw_driver_start(driver);
    tw_driver_enter(driver);
    EXPECT(tw_ring_add(ring, 2, 42) != TW_NONE);
    tw_driver_leave(driver);
    EXPECT(!tw_clock_wait(tw_clock_monotonic(), &waiter, never));
    tw_runner_stop(runner);
    tw_driver_destroy(driver);
    tw_runner_destroy(runner);
    tw_ring_destroy(ring);
    tw_waiter_deinit(&waiter);
}

static bool is_complete(void *context, void *operation)
{
    (void)context;
    return *(int *)operation > 0;
}

static void on_complete(void *context, void *operation, enum tw_completion why)
{
    (void)operation;
    *(enum tw_completion *)context = why;
}

static void use_purgatory(void)
{
    enum tw_completion why = TW_COMPLETED_BY_DESTROY;
    int acks = 0;
    uint64_t key = 7;
    struct tw_purgatory_options options;
    memset(&options, 0, sizeof(options));
    options.try_complete = is_complete;
    options.complete = on_complete;
    options.context = &why;
    struct tw_purgatory *purgatory = tw_purgatory_create(&options);
    EXPECT(purgatory);
    EXPECT(tw_purgatory_submit(purgatory, &acks, &key, 1, 30000));
    acks = 1;
    EXPECT(tw_purgatory_try_key(purgatory, key) == 1 && why == TW_COMPLETED_BY_EVENT);
    tw_purgatory_destroy(purgatory);
}

static void on_due(void *context, const struct tw_expired *due, size_t count)
{
    EXPECT(count == 1 && due[0].data == 42);
    tw_waiter_wake((struct tw_waiter *)context);
}

static void use_runner(void)
{
    struct tw_waiter waiter;
    struct tw_runner_wheel_options options;
    struct tw_runner *runner = tw_runner_create(NULL);
    memset(&options, 0, sizeof(options));
    options.handler = on_due;
    options.context = &waiter;
    EXPECT(runner && tw_waiter_init(&waiter));
    struct tw_runner_wheel *wheel = tw_runner_add(runner, &options);
    EXPECT(wheel && tw_runner_start(runner));
    EXPECT(tw_runner_schedule(wheel, tw_instant_add(tw_runner_now(runner), 1000), 42) != TW_NONE);
    struct tw_instant never = {TW_INSTANT_NEVER_NS};
    EXPECT(!tw_clock_wait(tw_clock_monotonic(), &waiter, never));
    tw_runner_destroy(runner);
    tw_waiter_deinit(&waiter);
}

static void wake(void *argument)
{
    tw_waiter_wake((struct tw_waiter *)argument);
}

static void use_executor(void)
{
    struct tw_waiter waiter;
    struct tw_executor *executor = tw_executor_create(NULL);
    struct tw_job job = {wake, &waiter};
    struct tw_instant never = {TW_INSTANT_NEVER_NS};
    EXPECT(executor && tw_waiter_init(&waiter));
    EXPECT(tw_executor_submit(executor, &job, 1) == 1);
    EXPECT(!tw_clock_wait(tw_clock_monotonic(), &waiter, never));
    tw_executor_destroy(executor);
    tw_waiter_deinit(&waiter);
}

int main(void)
{
    use_wheel();
    use_hashed();
    use_hierarchy();
    use_ring();
    use_driver();
    use_purgatory();
    use_runner();
    use_executor();
    EXPECT(strcmp(tw_version(), TW_VERSION) == 0);
    puts("used");
    return 0;
}
