/*
 * driver_test.c - drivers of each kind of wheel: named scenes in virtual time, random verbs beside
 * a model, which is a table of items, and threads that race with a runner's thread.
 */
#include "seed.h"

#include <tickwheel/driver.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MS = 1000000, SEEN_MAX = 64 };

/* A runner on virtual time, and what its driver handed out. */
struct driver_rig {
    struct tw_virtual clock;
    struct tw_runner *runner;
    struct tw_driver *driver;
    struct tw_ring *ring;
    struct tw_hashed *hashed;
    struct tw_driver_item seen[SEEN_MAX];
    uint64_t seen_at[SEEN_MAX]; /* tick of the driver */
    size_t seen_count;
    void (*act)(struct driver_rig *rig, const struct tw_driver_item *item);
    tw_handle other;
};

static void rig_note(void *context, const struct tw_driver_item *items, size_t count)
{
    struct driver_rig *rig = context;
    for (size_t i = 0; i < count; i++) {
        assert_true(rig->seen_count < SEEN_MAX);
        rig->seen_at[rig->seen_count] = tw_driver_tick(rig->driver);
        rig->seen[rig->seen_count++] = items[i];
        if (rig->act)
            rig->act(rig, &items[i]);
    }
}

static struct tw_driver_options rig_init(struct driver_rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    assert_true(tw_virtual_init(&rig->clock, (struct tw_instant){5 * MS}));
    rig->runner = tw_runner_create(&(struct tw_runner_options){.clock = &rig->clock.clock});
    assert_non_null(rig->runner);
    return (struct tw_driver_options){.handler = rig_note, .context = rig, .period_ns = 10 * MS};
}

static void rig_deinit(struct driver_rig *rig)
{
    tw_driver_destroy(rig->driver);
    tw_runner_destroy(rig->runner);
    tw_ring_destroy(rig->ring);
    tw_hashed_destroy(rig->hashed);
    tw_virtual_deinit(&rig->clock);
}

/* Lets `ms` pass and dispatches. Returns how many items came. */
static size_t rig_pass(struct driver_rig *rig, uint64_t ms)
{
    size_t before = rig->seen_count;
    tw_virtual_advance(&rig->clock, ms * MS);
    do
        (void)tw_runner_dispatch(rig->runner, SIZE_MAX);
    while (tw_runner_wake_at(rig->runner).ns == 0);
    return rig->seen_count - before;
}

static void a_ring_turns_by_itself(void **state)
{
    (void)state;
    struct driver_rig rig;
    struct tw_driver_options options = rig_init(&rig);
    rig.ring = tw_ring_create(&(struct tw_ring_options){.size = 60});
    rig.driver = tw_driver_create_ring(rig.runner, rig.ring, &options);
    tw_driver_enter(rig.driver);
    assert_true(tw_ring_add_moving(rig.ring, 1, 15, 7) != TW_NONE);
    tw_driver_leave(rig.driver);
    assert_int_equal(rig_pass(&rig, 1000), 0); /* not started */
    assert_false(tw_driver_is_running(rig.driver));
    tw_driver_start(rig.driver);
    assert_true(tw_driver_is_running(rig.driver));
    assert_int_equal(rig_pass(&rig, 9), 0);
    assert_int_equal(rig_pass(&rig, 1), 1);
    assert_true(rig.seen[0].data == 7 && rig.seen[0].deadline == 1);
    uint64_t wake_ns = tw_runner_wake_at(rig.runner).ns; /* 15 ticks ahead, none between */
    assert_int_equal(wake_ns, tw_clock_now(&rig.clock.clock).ns + 150 * MS);
    assert_int_equal(rig_pass(&rig, 449), 2); /* late: at 16 and at 31, in their order */
    assert_true(rig.seen[1].deadline == 16 && rig.seen[2].deadline == 31);
    assert_int_equal(tw_driver_tick(rig.driver), 45);
    tw_driver_stop(rig.driver);
    assert_int_equal(rig_pass(&rig, 1000), 0);
    rig_deinit(&rig);
}

static void a_hashed_wheel_and_a_hierarchy_fire_by_themselves(void **state)
{
    (void)state;
    struct driver_rig rig;
    struct tw_driver_options options = rig_init(&rig);
    rig.hashed = tw_hashed_create(&(struct tw_hashed_options){.start = 100, .wheel_size = 8});
    struct tw_hierarchy *hierarchy = tw_hierarchy_create(NULL);
    struct tw_task task = {.deadline_ = 0};
    rig.driver = tw_driver_create_hashed(rig.runner, rig.hashed, &options);
    tw_driver_start(rig.driver);
    tw_driver_enter(rig.driver);
    assert_true(tw_hashed_schedule(rig.hashed, 130, 1) != TW_NONE);
    tw_handle gone = tw_hashed_schedule(rig.hashed, 110, 2);
    assert_true(tw_hashed_cancel(rig.hashed, gone));
    tw_driver_leave(rig.driver);
    assert_int_equal(rig_pass(&rig, 299), 0);
    assert_int_equal(rig_pass(&rig, 1), 1);
    assert_true(rig.seen[0].data == 1 && rig.seen_at[0] == 130 && rig.seen[0].deadline == 130);
    struct tw_driver *ring_driver = rig.driver; /* a second driver on the same runner */
    rig.driver = tw_driver_create_hierarchy(rig.runner, hierarchy, &options);
    tw_driver_start(rig.driver);
    tw_driver_enter(rig.driver);
    tw_hierarchy_schedule(hierarchy, &task, 1000);
    tw_driver_leave(rig.driver);
    assert_int_equal(rig_pass(&rig, 9999), 0);
    assert_int_equal(rig_pass(&rig, 1), 1);
    assert_ptr_equal(rig.seen[1].task, &task);
    assert_int_equal(rig.seen[1].deadline, 1000);
    tw_driver_destroy(ring_driver);
    rig_deinit(&rig);
    tw_hierarchy_destroy(hierarchy);
}

static void act_in_callback(struct driver_rig *rig, const struct tw_driver_item *item)
{
    if (item->data != 1)
        return;
    tw_driver_enter(rig->driver);
    assert_true(tw_ring_remove(rig->ring, rig->other)); /* due at the same tick */
    assert_true(tw_ring_add(rig->ring, 2, 3) != TW_NONE);
    assert_true(tw_ring_set_interval(rig->ring, item->handle, 5));
    tw_driver_leave(rig->driver);
    tw_driver_set_period(rig->driver, 100 * (uint64_t)MS);
    assert_int_equal(tw_driver_period(rig->driver), 100 * MS);
}

/* Goal: a handler adds, removes and changes items and the period. */
static void a_callback_changes_everything(void **state)
{
    (void)state;
    struct driver_rig rig;
    struct tw_driver_options options = rig_init(&rig);
    rig.ring = tw_ring_create(&(struct tw_ring_options){.size = 8});
    rig.driver = tw_driver_create_ring(rig.runner, rig.ring, &options);
    rig.act = act_in_callback;
    tw_driver_start(rig.driver);
    tw_driver_enter(rig.driver);
    assert_true(tw_ring_add_moving(rig.ring, 1, 7, 1) != TW_NONE);
    rig.other = tw_ring_add(rig.ring, 1, 2);
    tw_driver_leave(rig.driver);
    assert_int_equal(rig_pass(&rig, 10), 1); /* the other was removed */
    assert_int_equal(rig_pass(&rig, 199), 0);
    rig.act = NULL;
    assert_int_equal(rig_pass(&rig, 1), 1); /* two of the longer ticks, from the tick before */
    assert_true(rig.seen[1].data == 3 && rig.seen_at[1] == 3);
    assert_int_equal(rig_pass(&rig, 500), 1); /* it had moved by 7 before, so it is due at 8 */
    assert_true(rig.seen[2].data == 1 && rig.seen_at[2] == 8);
    assert_int_equal(rig_pass(&rig, 500), 2); /* by 5 from now on: 13; and the plain one, at 11 */
    assert_true(rig.seen[3].data == 3 && rig.seen[4].data == 1 && rig.seen[4].deadline == 13);
    rig_deinit(&rig);
}

/* The model: hashed timers in a table. Each is handed out at the first dispatch at or after its
 * tick, whatever happens to the period. */
static uint64_t draw(uint64_t *random, uint64_t bound)
{
    uint64_t mixed = *random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return (mixed ^ mixed >> 31) % bound;
}

enum { TIMERS = 40 };

struct driver_model {
    struct tw_driver *driver;
    tw_handle handles[TIMERS]; /* TW_NONE: free */
    uint64_t deadlines[TIMERS];
};

static void model_note(void *context, const struct tw_driver_item *items, size_t count)
{
    struct driver_model *model = context;
    for (size_t i = 0; i < count; i++) {
        assert_true(model->handles[items[i].data] == items[i].handle);
        assert_int_equal(model->deadlines[items[i].data], items[i].deadline);
        assert_true(items[i].deadline <= tw_driver_tick(model->driver));
        model->handles[items[i].data] = TW_NONE;
    }
}

static void random_verbs_agree_with_the_model(void **state)
{
    (void)state;
    uint64_t random = testing_seed();
    struct driver_rig rig;
    struct driver_model model = {.driver = NULL};
    struct tw_driver_options options = rig_init(&rig);
    options.handler = model_note;
    options.context = &model;
    options.batch_count_max = 1 + draw(&random, 5);
    rig.hashed = tw_hashed_create(&(struct tw_hashed_options){.wheel_size = 16});
    rig.driver = model.driver = tw_driver_create_hashed(rig.runner, rig.hashed, &options);
    tw_driver_start(rig.driver);
    for (int step = 0; step < 20000; step++) {
        uint64_t slot = draw(&random, TIMERS), tick = tw_driver_tick(rig.driver);
        uint64_t deadline = tick + draw(&random, 100);
        tw_driver_enter(rig.driver);
        if (model.handles[slot] == TW_NONE) {
            model.handles[slot] = tw_hashed_schedule(rig.hashed, deadline, slot);
            model.deadlines[slot] = deadline;
        } else if (draw(&random, 3) == 0) {
            assert_true(tw_hashed_cancel(rig.hashed, model.handles[slot]));
            model.handles[slot] = TW_NONE;
        } else {
            assert_true(tw_hashed_reschedule(rig.hashed, model.handles[slot], deadline));
            model.deadlines[slot] = deadline;
        }
        tw_driver_leave(rig.driver);
        if (draw(&random, 10) == 0)
            tw_driver_set_period(rig.driver, (1 + draw(&random, 30)) * MS);
        if (draw(&random, 4))
            continue;
        (void)rig_pass(&rig, draw(&random, 200));
        tick = tw_driver_tick(rig.driver);
        for (size_t i = 0; i < TIMERS; i++)
            assert_true(model.handles[i] == TW_NONE || model.deadlines[i] > tick);
    }
    rig_deinit(&rig);
}

enum { RACERS = 3, RACES = 3000 };

struct driver_race {
    struct tw_driver *driver;
    struct tw_hashed *wheel;
    atomic_uint handled;
    atomic_uint cancelled;
};

static void race_note(void *context, const struct tw_driver_item *items, size_t count)
{
    struct driver_race *race = context;
    (void)items;
    atomic_fetch_add(&race->handled, (unsigned)count);
}

static void *race_run(void *argument)
{
    struct driver_race *race = argument;
    for (unsigned i = 0; i < RACES; i++) {
        uint64_t tick = tw_driver_tick(race->driver);
        tw_driver_enter(race->driver);
        tw_handle timer = tw_hashed_schedule(race->wheel, tick + i % 5, i);
        tw_driver_leave(race->driver);
        if (i % 64 == 0)
            tw_driver_set_period(race->driver, 50000 + i);
        tw_driver_enter(race->driver);
        atomic_fetch_add(&race->cancelled, i % 3 == 0 && tw_hashed_cancel(race->wheel, timer));
        tw_driver_leave(race->driver);
    }
    return NULL;
}

/* Goal: each timer is handled once or cancelled once. Method: threads beside the runner's. */
static void threads_share_a_driver(void **state)
{
    (void)state;
    struct driver_race race = {.driver = NULL};
    pthread_t threads[RACERS];
    struct tw_waiter waiter;
    struct tw_runner *runner = tw_runner_create(NULL);
    race.wheel = tw_hashed_create(NULL);
    race.driver = tw_driver_create_hashed(
        runner, race.wheel,
        &(struct tw_driver_options){.handler = race_note, .context = &race, .period_ns = 50000});
    assert_true(tw_waiter_init(&waiter) && tw_runner_start(runner));
    tw_driver_start(race.driver);
    for (size_t i = 0; i < RACERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race_run, &race), 0);
    for (size_t i = 0; i < RACERS; i++)
        pthread_join(threads[i], NULL);
    while (atomic_load(&race.handled) + atomic_load(&race.cancelled) < RACERS * RACES)
        (void)tw_clock_wait(tw_clock_monotonic(), &waiter,
                            tw_instant_after(tw_clock_monotonic(), MS));
    tw_runner_stop(runner);
    assert_int_equal(atomic_load(&race.handled) + atomic_load(&race.cancelled), RACERS * RACES);
    assert_int_equal(tw_hashed_count(race.wheel), 0);
    tw_driver_destroy(race.driver);
    tw_runner_destroy(runner);
    tw_hashed_destroy(race.wheel);
    tw_waiter_deinit(&waiter);
}

/* Goal: without memory nothing is created and nothing leaks. */
static void *refuse_memory(void *context, size_t alignment, size_t size)
{
    (void)context, (void)alignment, (void)size;
    return NULL;
}

static void refuse_release(void *context, void *memory, size_t size)
{
    (void)context, (void)memory, (void)size;
    fail();
}

static void without_memory_there_is_no_driver(void **state)
{
    (void)state;
    struct driver_rig rig;
    struct tw_driver_options options = rig_init(&rig);
    options.allocate = refuse_memory;
    options.release = refuse_release;
    rig.ring = tw_ring_create(NULL);
    assert_null(tw_driver_create_ring(rig.runner, rig.ring, &options));
    rig_deinit(&rig);
}

static atomic_uint probes;

static void probe(void *context, uint64_t data)
{
    (void)context;
    assert_int_equal(data, 7);
    atomic_fetch_add(&probes, 1);
}

static void on_item(void *context, const struct tw_driver_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        probe(context, items[i].data);
}

static void the_example_of_the_header(void **state)
{
    (void)state;
    struct tw_ring *ring = tw_ring_create(NULL);
    struct tw_runner *runner = tw_runner_create(NULL);
    struct tw_driver *driver = tw_driver_create_ring(
        runner, ring, &(struct tw_driver_options){.handler = on_item, .period_ns = 1000000000});
    tw_runner_start(runner);
    tw_driver_start(driver);

    tw_driver_enter(driver); // any thread, and the handler
    tw_ring_add_moving(ring, 1, 15, 7);
    tw_driver_leave(driver);
    tw_driver_set_period(driver, 500000000);

    tw_driver_set_period(driver, 1000); /* the test is in a hurry */
    while (atomic_load(&probes) < 3)
        (void)tw_driver_tick(driver);
    tw_runner_stop(runner);
    tw_driver_destroy(driver);
    tw_runner_destroy(runner);
    tw_ring_destroy(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_header),
        cmocka_unit_test(a_ring_turns_by_itself),
        cmocka_unit_test(a_hashed_wheel_and_a_hierarchy_fire_by_themselves),
        cmocka_unit_test(a_callback_changes_everything),
        cmocka_unit_test(random_verbs_agree_with_the_model),
        cmocka_unit_test(threads_share_a_driver),
        cmocka_unit_test(without_memory_there_is_no_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
