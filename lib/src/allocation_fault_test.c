/* Goal: whichever allocation of the library fails, the call that needed it says so, what was there
 * before stays and works, and nothing leaks. Method: every call that may allocate, with the N-th
 * allocation refused alone, and with all that follow it, for N = 1, 2, ... (scarce.h). What a
 * caller's own allocator refuses is looked at in the tests of each wheel. */
#include <tickwheel/tickwheel.h>

#include <pthread.h>
#include <scarce.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { OLD = 40, NEW = 5000, BATCH = 64 };

/* Timers that were there before, and those of which a call said that they are there. */
struct tally {
    bool is_held[OLD + NEW];
    size_t count;
};

static void hold(struct tally *tally, uint64_t data)
{
    assert_false(tally->is_held[data]);
    tally->is_held[data] = true;
    tally->count++;
}

static void meet(struct tally *tally, uint64_t data)
{
    assert_true(data < OLD + NEW && tally->is_held[data]);
    tally->is_held[data] = false;
    tally->count--;
}

/* Deadlines of all magnitudes. */
static uint64_t deadline_of(uint64_t i)
{
    return i % 3 == 0 ? i + 1 : i % 3 == 1 ? i * i * 7 + 1 : UINT64_C(1) << (i % 62);
}

/* ---- wheel ---- */

static void wheel_drain(struct tw_wheel *wheel, struct tally *tally)
{
    struct tw_expired due[BATCH];

    do
        for (size_t i = tw_wheel_expire(wheel, TW_NEVER - 1, due, BATCH); i-- > 0;)
            meet(tally, due[i].data);
    while (tw_wheel_is_behind(wheel) || tw_wheel_count(wheel));
    assert_int_equal(tally->count, 0);
}

static void wheel(void **state)
{
    (void)state;
    for (struct scarce scarce = scarce_sweep("wheel"); scarce_next(&scarce);) {
        struct tally tally = {.count = 0};
        struct tw_wheel *wheel = tw_wheel_create(NULL);
        tw_handle old[OLD], opened;
        size_t refused = 0;

        for (uint64_t i = 0; i < OLD; i++) {
            old[i] = tw_wheel_schedule(wheel, deadline_of(i), i);
            hold(&tally, i);
        }
        scarce_begin(&scarce);
        opened = tw_wheel_open(wheel, OLD);
        for (uint64_t i = 1; i < NEW; i++) {
            if (tw_wheel_schedule(wheel, deadline_of(i), OLD + i) != TW_NONE)
                hold(&tally, OLD + i);
            else
                refused++;
        }
        for (uint64_t i = 0; i < OLD; i++) /* moving needs no memory */
            assert_true(tw_wheel_reschedule(wheel, old[i], deadline_of(i + 1)));
        if (opened != TW_NONE)
            assert_true(tw_wheel_arm(wheel, opened, 77) && tw_wheel_close(wheel, opened));
        else
            refused++;
        if (!tw_wheel_reserve(wheel, NEW + OLD + 20000))
            refused++;
        assert_int_equal(refused > 0, scarce_end(&scarce));
        tw_wheel_check(wheel);
        assert_int_equal(tw_wheel_count(wheel), tally.count);
        wheel_drain(wheel, &tally);
        assert_true(tw_wheel_schedule(wheel, TW_NEVER - 1, 1) != TW_NONE);
        tw_wheel_check(wheel);
        tw_wheel_destroy(wheel);
    }
}

/* ---- hashed ---- */

static void hashed(void **state)
{
    (void)state;
    for (struct scarce scarce = scarce_sweep("hashed"); scarce_next(&scarce);) {
        struct tally tally = {.count = 0};
        struct tw_hashed *wheel = tw_hashed_create(NULL);
        struct tw_expired due[BATCH];
        size_t refused = 0;

        for (uint64_t i = 0; i < OLD; i++) {
            assert_true(tw_hashed_schedule(wheel, i * 3, i) != TW_NONE);
            hold(&tally, i);
        }
        scarce_begin(&scarce);
        for (uint64_t i = 0; i < NEW; i++) {
            if (tw_hashed_schedule(wheel, i, OLD + i) != TW_NONE)
                hold(&tally, OLD + i);
            else
                refused++;
        }
        refused += !tw_hashed_reserve(wheel, 4 * NEW);
        assert_int_equal(refused > 0, scarce_end(&scarce));
        tw_hashed_check(wheel);
        while (tw_hashed_count(wheel))
            for (size_t i = tw_hashed_expire(wheel, NEW, due, BATCH); i-- > 0;)
                meet(&tally, due[i].data);
        assert_int_equal(tally.count, 0);
        tw_hashed_destroy(wheel);
    }
}

/* ---- hierarchy ---- */

/* Scheduling cannot fail: without an overflow wheel a task waits in the last one there is. */
static void hierarchy(void **state)
{
    enum { TASKS = 200 };
    static struct tw_task tasks[TASKS];

    (void)state;
    for (struct scarce scarce = scarce_sweep("hierarchy"); scarce_next(&scarce);) {
        struct tw_hierarchy *wheel = tw_hierarchy_create(NULL);
        uint64_t now = 0;
        size_t fired = 0;

        memset(tasks, 0, sizeof(tasks));
        scarce_begin(&scarce);
        (void)tw_hierarchy_reserve(wheel, 1000000);
        for (uint64_t i = 0; i < TASKS; i++)
            tw_hierarchy_schedule(wheel, &tasks[i], i * i * i);
        scarce_end(&scarce);
        tw_hierarchy_check(wheel);
        assert_int_equal(tw_hierarchy_count(wheel), TASKS);
        while (fired < TASKS) {
            struct tw_task *due[BATCH];
            uint64_t wake_at = tw_hierarchy_wake_at(wheel);

            if (!tw_hierarchy_is_behind(wheel) && wake_at > now)
                now = wake_at;
            for (size_t i = tw_hierarchy_expire(wheel, now, due, BATCH); i-- > 0; fired++)
                assert_true(tw_task_deadline(due[i]) <= now);
        }
        tw_hierarchy_check(wheel);
        tw_hierarchy_destroy(wheel);
    }
}

/* ---- ring ---- */

static void ring(void **state)
{
    static uint64_t data[NEW];
    static tw_handle items[NEW];

    (void)state;
    for (uint64_t i = 0; i < NEW; i++)
        data[i] = OLD + i;
    for (struct scarce scarce = scarce_sweep("ring"); scarce_next(&scarce);) {
        struct tw_ring_options options = {.size = 50};
        struct tw_ring *ring = tw_ring_create(&options), *dealt;
        struct tally tally = {.count = 0};
        struct tw_ring_item taken[BATCH];
        size_t refused = 0;

        for (uint64_t i = 0; i < OLD; i++) {
            assert_true(tw_ring_add(ring, (int64_t)i, i) != TW_NONE);
            hold(&tally, i);
        }
        scarce_begin(&scarce);
        dealt = tw_ring_create_dealt(&options, data, NEW, items);
        refused += !dealt;
        if (tw_ring_add_many(ring, 3, data, NEW - 1, items))
            for (uint64_t i = 0; i < NEW - 1; i++)
                hold(&tally, OLD + i);
        else
            refused++;
        if (tw_ring_add_moving(ring, 3, 7, OLD + NEW - 1) != TW_NONE)
            hold(&tally, OLD + NEW - 1);
        else
            refused++;
        refused += !tw_ring_reserve(ring, 3 * NEW);
        assert_int_equal(refused > 0, scarce_end(&scarce));
        tw_ring_check(ring);
        if (dealt)
            tw_ring_check(dealt);
        assert_int_equal(tw_ring_count(ring), tally.count);
        for (unsigned tick = 0; tick < 50; tick++) { /* one rotation: each is met, one moves on */
            tw_ring_advance(ring, 1);
            for (size_t i = tw_ring_take(ring, taken, BATCH); i > 0;
                 i = tw_ring_take(ring, taken, BATCH))
                while (i-- > 0)
                    if (tally.is_held[taken[i].data])
                        meet(&tally, taken[i].data);
        }
        assert_int_equal(tally.count, 0);
        tw_ring_destroy(dealt);
        tw_ring_destroy(ring);
    }
}

/* ---- threads ---- */

struct handled {
    struct tally tally;
    pthread_mutex_t lock;
};

static void handle(void *context, const struct tw_expired *due, size_t count)
{
    struct handled *handled = context;

    pthread_mutex_lock(&handled->lock);
    for (size_t i = 0; i < count; i++)
        meet(&handled->tally, due[i].data);
    pthread_mutex_unlock(&handled->lock);
}

/* Two wheels; what one of them could not take does not concern the other. Time stands still until
 * all is scheduled, so all that was taken is handled after it. */
static void runner(void **state)
{
    (void)state;
    for (struct scarce scarce = scarce_sweep("runner"); scarce_next(&scarce);) {
        static struct handled handled;
        struct tw_virtual clock;
        struct tw_runner_wheel_options options = {.handler = handle, .context = &handled};
        struct tw_runner *runner;
        struct tw_runner_wheel *first, *second = NULL;
        size_t refused = 0, left;

        memset(&handled.tally, 0, sizeof(handled.tally));
        pthread_mutex_init(&handled.lock, NULL);
        assert_true(tw_virtual_init(&clock, (struct tw_instant){0}));
        scarce_begin(&scarce);
        runner = tw_runner_create(&(struct tw_runner_options){.clock = &clock.clock});
        first = runner ? tw_runner_add(runner, &options) : NULL;
        second = runner ? tw_runner_add(runner, &options) : NULL;
        refused += !runner || !first || !second;
        for (uint64_t i = 0; i < OLD + NEW; i++) {
            struct tw_runner_wheel *wheel = i % 2 ? first : second;
            tw_handle timer;

            if (!wheel)
                continue;
            timer = i % 10 ? tw_runner_schedule(wheel, (struct tw_instant){i * 1000}, i)
                           : tw_runner_open(wheel, i);
            if (timer == TW_NONE) {
                refused++;
                continue;
            }
            hold(&handled.tally, i);
            if (i % 10 == 0)
                assert_int_equal(tw_runner_arm(wheel, timer, (struct tw_instant){i * 1000}),
                                 TW_RUNNER_OK);
        }
        if (runner)
            refused += tw_runner_fd(runner) < 0;
        tw_virtual_advance(&clock, UINT64_C(1) << 40);
        while (runner && tw_runner_dispatch(runner, BATCH) > 0)
            ;
        left = handled.tally.count;
        assert_true(scarce_end(&scarce) || refused == 0); /* it can do without some */
        if (runner) {
            tw_runner_check(runner);
            while (tw_runner_dispatch(runner, BATCH) > 0)
                ;
        }
        assert_int_equal(left, 0); /* also while there was no memory */
        tw_runner_destroy(runner);
        tw_virtual_deinit(&clock);
        pthread_mutex_destroy(&handled.lock);
    }
}

static void count_one(void *argument)
{
    atomic_fetch_add((_Atomic size_t *)argument, 1);
}

static void executor(void **state)
{
    (void)state;
    for (struct scarce scarce = scarce_sweep("executor"); scarce_next(&scarce);) {
        struct tw_executor_options options = {
            .thread_count = 3, .queue_count_max = 100, .budget_ns = 1000000000};
        static _Atomic size_t ran;
        struct tw_executor *executor;
        size_t taken = 0;

        atomic_store(&ran, 0);
        scarce_begin(&scarce);
        executor = tw_executor_create(&options);
        for (unsigned i = 0; executor && i < 1000; i++)
            taken += tw_executor_submit(executor, &(struct tw_job){count_one, &ran}, 1);
        assert_int_equal(!executor, scarce_end(&scarce));
        if (executor) {
            tw_executor_check(executor);
            tw_executor_drain(executor);
        }
        tw_executor_destroy(executor);
        assert_int_equal(atomic_load(&ran), taken);
    }
}

struct operations {
    bool is_mine[OLD + NEW]; /* the purgatory's */
    size_t completed;
    char places[OLD + NEW]; /* the address of one is an operation */
};

static bool never(void *context, void *operation)
{
    (void)context;
    (void)operation;
    return false;
}

static void complete(void *context, void *operation, enum tw_completion why)
{
    struct operations *operations = context;
    ptrdiff_t i = (char *)operation - operations->places;

    (void)why;
    assert_true(operations->is_mine[i]);
    operations->is_mine[i] = false;
    operations->completed++;
}

static void purgatory(void **state)
{
    static struct operations operations;

    (void)state;
    for (struct scarce scarce = scarce_sweep("purgatory"); scarce_next(&scarce);) {
        struct tw_purgatory *purgatory = tw_purgatory_create(&(struct tw_purgatory_options){
            .try_complete = never, .complete = complete, .context = &operations, .shard_count = 2});
        size_t taken = 0, refused = 0;

        memset(&operations, 0, sizeof(operations));
        for (uint64_t i = 0; i < OLD + NEW; i++) {
            const uint64_t keys[] = {i, i + 1, i / 100};

            if (i == OLD)
                scarce_begin(&scarce);
            operations.is_mine[i] = true;
            if (tw_purgatory_submit(purgatory, &operations.places[i], keys, 3, i + 1)) {
                taken++;
            } else {
                operations.is_mine[i] = false;
                refused++;
            }
        }
        tw_purgatory_complete_key(purgatory, 7);
        assert_true(scarce_end(&scarce) || refused == 0); /* it can do without some */
        assert_int_equal(taken + refused, OLD + NEW);
        tw_purgatory_check(purgatory);
        while (tw_purgatory_expire(purgatory, OLD + NEW, 100) > 0)
            ;
        assert_int_equal(operations.completed, taken);
        tw_purgatory_destroy(purgatory);
    }
}

/* ---- creation ---- */

static void creation(void **state)
{
    (void)state;
    for (struct scarce scarce = scarce_sweep("creation"); scarce_next(&scarce);) {
        struct tw_wheel *wheel;
        struct tw_hashed *hashed;
        struct tw_hierarchy *hierarchy;
        struct tw_ring *ring;
        struct tw_purgatory *purgatory;

        scarce_begin(&scarce);
        wheel = tw_wheel_create(NULL);
        hashed = tw_hashed_create(NULL);
        hierarchy = tw_hierarchy_create(NULL);
        ring = tw_ring_create(NULL);
        purgatory = tw_purgatory_create(
            &(struct tw_purgatory_options){.try_complete = never, .complete = complete});
        assert_int_equal(!wheel || !hashed || !hierarchy || !ring || !purgatory,
                         scarce_end(&scarce));
        tw_wheel_destroy(wheel);
        tw_hashed_destroy(hashed);
        tw_hierarchy_destroy(hierarchy);
        tw_ring_destroy(ring);
        tw_purgatory_destroy(purgatory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creation),  cmocka_unit_test(wheel),     cmocka_unit_test(hashed),
        cmocka_unit_test(hierarchy), cmocka_unit_test(ring),      cmocka_unit_test(runner),
        cmocka_unit_test(executor),  cmocka_unit_test(purgatory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
