/*
 * Drives one engine by hand over storage in memory: each test sets up a small history and looks at
 * what the engine hands out. What happens in disorder is the simulation's concern (tests/world).
 */
#include "engine/engine_testing.h"
#include "timer/timer.h"

/* Goal: one life from create to fired. Method: a due time inside the window, and the clock just
 * before it, at it, and after the answer. */
/* proves: never-early */
static void test_fires_at_its_due_time_and_not_before(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    assert_int_equal(fixture_create(&fixture, "http://a.example/x", 5000, &id), ERROR_NONE);
    fixture_advance_to(&fixture, 4999);
    assert_int_equal(fixture.delivered_count, 0);
    fixture_advance_to(&fixture, 5000);
    assert_int_equal(fixture.delivered_count, 1);
    enum timer_state shown;
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, &shown), ERROR_NONE);
    assert_int_equal(shown, TIMER_DELIVERING);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, &shown), ERROR_GONE);
    assert_int_equal(shown, TIMER_FIRED);
    fixture_advance_to(&fixture, 10000);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_deinit(&fixture);
}

/* Goal: a timer beyond the window is in the storage alone and still fires on time. Method: the
 * statistics after the create, then the clock moved in steps of a second. */
static void test_far_timer_is_read_ahead(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL);
    struct engine_stats stats;
    engine_stats(fixture.engine, &stats);
    assert_int_equal(stats.in_memory, 0);
    assert_int_equal(stats.pending, 1);
    for (uint64_t ms = 0; ms < HOUR_MS; ms += 1000)
        fixture_advance_to(&fixture, ms);
    engine_stats(fixture.engine, &stats);
    assert_int_equal(stats.in_memory, 1);
    fixture_advance_to(&fixture, HOUR_MS - 1);
    assert_int_equal(fixture.delivered_count, 0);
    fixture_advance_to(&fixture, HOUR_MS);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_deinit(&fixture);
}

/* Advances from wake-up to wake-up until one more timer is delivered; returns the wake-ups. */
static unsigned sleep_until_delivered(struct engine_fixture *fixture)
{
    size_t before = fixture->delivered_count;
    unsigned wake_ups = 0;

    for (; fixture->delivered_count == before && wake_ups < 10000; wake_ups++)
        fixture_advance_to(fixture, engine_wake_at(fixture->engine).ms - START.ms);
    fixture_answer_all(fixture, DELIVERY_DONE);
    return wake_ups;
}

/* Goal: an engine whose timers are all far away sleeps, and overlooks none of them, nor one that is
 * created meanwhile. Method: the wake-ups before each are counted; an hour has 720 half windows. */
static void test_sleeps_until_the_next_row(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL);
    fixture_advance_to(&fixture, 20000);
    fixture_advance_to(&fixture, 40000);
    fixture_create(&fixture, "http://a.example/", HOUR_MS / 2, NULL);
    assert_in_range(sleep_until_delivered(&fixture), 1, 20);
    assert_int_equal(fixture.now.ms, START.ms + HOUR_MS / 2);
    assert_in_range(sleep_until_delivered(&fixture), 1, 20);
    assert_int_equal(fixture.now.ms, START.ms + HOUR_MS);
    fixture_deinit(&fixture);
}

/* Goal: a step forward fires what became due, at once. Method: from the start straight past
 * everything. */
/* proves: clock-step */
static void test_clock_step_forward_fires_what_became_due(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    fixture_create(&fixture, "http://a.example/", 1000, NULL);
    fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL);
    fixture_create(&fixture, "http://a.example/", 9000 * HOUR_MS, NULL);
    fixture_create(&fixture, "http://a.example/", 9001 * HOUR_MS, NULL);
    fixture_advance_to(&fixture, 9000 * HOUR_MS);
    assert_int_equal(fixture.delivered_count, 3);
    fixture_deinit(&fixture);
}

/* Goal: a step back fires nothing twice and nothing early, also what is created behind the
 * watermark. Method: fire one, step back an hour, create one due before the old time, go over it
 * all again. */
/* proves: clock-step */
static void test_clock_step_back_fires_nothing_twice_or_early(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL);
    fixture_create(&fixture, "http://a.example/", HOUR_MS + 2000, NULL);
    fixture_advance_to(&fixture, HOUR_MS + 1000);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_advance_to(&fixture, HOUR_MS + 1999);
    fixture_advance_to(&fixture, 1000); /* the watermark is an hour ahead now */
    fixture_create(&fixture, "http://a.example/", 2000, NULL);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_close(&fixture); /* and recovery must find it all the same */
    fixture_open(&fixture);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_advance_to(&fixture, 2000);
    assert_int_equal(fixture.delivered_count, 2);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_advance_to(&fixture, HOUR_MS + 1999);
    assert_int_equal(fixture.delivered_count, 2);
    fixture_advance_to(&fixture, HOUR_MS + 2000);
    assert_int_equal(fixture.delivered_count, 3);
    fixture_deinit(&fixture);
}

/* Goal: a due timer that waits for room goes back to waiting for its time when the clock does.
 * Method: one place at the target, two timers, a step back. */
/* proves: clock-step */
static void test_clock_step_back_while_waiting_for_room(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_prepare(&fixture);
    fixture.options.target_inflight_max = 1;
    fixture_open(&fixture);
    fixture_create(&fixture, "http://a.example/1", 1000, NULL);
    fixture_create(&fixture, "http://a.example/2", 1000, NULL);
    fixture_advance_to(&fixture, 1000);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_advance_to(&fixture, 0);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_advance_to(&fixture, 1000);
    assert_int_equal(fixture.delivered_count, 2);
    fixture_deinit(&fixture);
}

/* Goal: nothing is delivered after a cancel that was answered, near or far, before or after a
 * restart. */
/* proves: if-match, cancel */
static void test_cancel(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id near;
    fixture_create(&fixture, "http://a.example/", 2000, &near);
    struct timer_id far;
    fixture_create(&fixture, "http://a.example/", HOUR_MS, &far);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &near, 2, NULL), ERROR_VERSION_MISMATCH);
    enum timer_state shown;
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &near, 1, &shown), ERROR_NONE);
    assert_int_equal(shown, TIMER_CANCELLED);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &near, 0, NULL), ERROR_GONE);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &far, 0, &shown), ERROR_NONE);
    fixture_close(&fixture);
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 2 * HOUR_MS);
    assert_int_equal(fixture.delivered_count, 0);
    fixture_deinit(&fixture);
}

/* Goal: what is out can be neither cancelled nor changed. */
/* proves: already-firing */
static void test_firing_refuses_changes(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/", 0, &id);
    assert_int_equal(fixture.delivered_count, 1);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &id, 0, NULL), ERROR_ALREADY_FIRING);
    assert_int_equal(fixture_ask(&fixture, COMMAND_PATCH, &id, 0, NULL), ERROR_ALREADY_FIRING);
    fixture_deinit(&fixture);
}

/* Goal: a page that was read before its timer was changed and delivered does not show the old state
 * of the timer as being delivered. */
static void test_a_page_is_of_one_version(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/", 1000, &id);
    struct command list = {
        .kind = COMMAND_LIST,
        .scan = {
            .kind = STORAGE_SCAN_ALL, .to = {WALL_NEVER, 0}, .rows_max = 1, .bytes_max = SIZE_MAX}};
    turn_submit(fixture.engine, fixture.now, &list);
    struct engine_read *read = engine_take_read(fixture.engine);
    engine_read_perform(read, fixture.storage);

    struct command patch = {.kind = COMMAND_PATCH,
                            .id = id,
                            .patch = fixture_timer("http://a.example/", 0),
                            .patch_fields = PATCH_DUE};
    fixture_command(&fixture, &patch);
    fixture_carry_out(&fixture);
    assert_int_equal(fixture.delivered_count, 1);
    turn_read_done(fixture.engine, fixture.now, read);
    assert_ptr_equal(engine_take_reply(fixture.engine), &list);
    assert_int_equal(list.page.timers[0]->version, 1);
    assert_int_equal(list.page.timers[0]->state, TIMER_SCHEDULED);
    fixture_deinit(&fixture);
}

/* Goal: a patch moves the appointment, keeps the id, and outlives a restart. */
/* proves: patch-time, if-match */
static void test_patch_moves_the_appointment(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/", 1000, &id);
    assert_int_equal(fixture_ask(&fixture, COMMAND_PATCH, &id, 7, NULL), ERROR_VERSION_MISMATCH);
    assert_int_equal(fixture_ask(&fixture, COMMAND_PATCH, &id, 1, NULL), ERROR_NONE);
    fixture_advance_to(&fixture, HOUR_MS);
    assert_int_equal(fixture.delivered_count, 0);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &id, 1, NULL), ERROR_VERSION_MISMATCH);
    fixture_close(&fixture);
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 2 * HOUR_MS);
    assert_int_equal(fixture.delivered_count, 1);
    assert_true(bytes_equal(fixture_first_out(&fixture)->timer->texts.target,
                            BYTES("http://patched.example/")));
    assert_true(timer_id_equal(&fixture_first_out(&fixture)->timer->id, &id));
    fixture_deinit(&fixture);
}

/* Goal: failures are tried again up to attempts_max, then it is dead, with the reason. */
/* proves: retry-attempts, outcome-gone, outcome-retry */
static void test_retries_are_bounded(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/", 0, &id);
    uint32_t attempts = 0;
    for (uint64_t ms = 0; ms < 100 * HOUR_MS; ms += 60000) {
        fixture_advance_to(&fixture, ms);
        while (fixture_first_out(&fixture)) {
            struct delivery_outcome outcome = {.result = DELIVERY_FAILED, .error = "HTTP 500"};

            assert_int_equal(fixture_first_out(&fixture)->attempt, ++attempts);
            fixture_answer(&fixture, fixture_first_out(&fixture), outcome);
        }
    }
    assert_int_equal(attempts, RETRY_POLICY_DEFAULT.attempts_max);
    fixture_advance_to(&fixture, 100 * HOUR_MS);
    enum timer_state shown;
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, &shown), ERROR_GONE);
    fixture_advance_to(&fixture, 100 * HOUR_MS + fixture.options.dead_retain_ms);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, &shown),
                     ERROR_NOT_FOUND); /* long forgotten */
    fixture_create(&fixture, "http://a.example/", 0, &id);
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_ENDED, .error = "HTTP 410"});
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, &shown), ERROR_GONE);
    assert_int_equal(shown, TIMER_DEAD);
    fixture_deinit(&fixture);
}

/* Goal: Retry-After is honoured. */
/* proves: outcome-retry-after */
static void test_retry_after_is_kept(void **state)
{
    struct delivery_outcome outcome = {.result = DELIVERY_FAILED, .retry_after_ms = 120000};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    fixture_create(&fixture, "http://a.example/", 0, NULL);
    fixture_answer(&fixture, fixture_first_out(&fixture), outcome);
    fixture_advance_to(&fixture, 119999);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_advance_to(&fixture, 121000);
    assert_int_equal(fixture.delivered_count, 2);
    fixture_deinit(&fixture);
}

/* Goal: brokers have limits of their own: deliveries that a broker holds take no room of webhooks,
 * and the other way round. */
static void test_brokers_take_no_room_of_webhooks(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    fixture_close(&fixture);
    fixture.options.inflight_max = 4;
    fixture.options.target_inflight_max = 3;
    fixture.options.broker_inflight_max = 10;
    fixture_open(&fixture);
    for (int i = 0; i < 20; i++) {
        fixture_create(&fixture, "redis://a/s", 0, NULL);
        fixture_create(&fixture, "nats://b/s", 0, NULL);
    }
    for (int i = 0; i < 20; i++)
        fixture_create(&fixture, i % 2 ? "http://a.example/" : "HTTPS://b.example/", 0, NULL);
    size_t webhooks = 0;
    LIST_FOR_EACH (&fixture.out, link) {
        const struct delivery *delivery = list_item(link, struct delivery, link);

        webhooks += (delivery->timer->texts.target.data[0] | 0x20) == 'h';
    }
    struct engine_stats stats;
    engine_stats(fixture.engine, &stats);
    size_t messages = stats.inflight - webhooks;
    assert_int_equal(webhooks, 4);
    assert_int_equal(messages, 20);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_int_equal(fixture.delivered_count, 60);
    fixture_deinit(&fixture);
}

/* Goal: what was never begun spends no attempt, however often; it comes back after the pause, can
 * be cancelled meanwhile, and shows why it waits. */
/* proves: timer-attempts, broker-down */
static void test_postponed(void **state)
{
    struct delivery_outcome outcome = {
        .result = DELIVERY_POSTPONED, .retry_after_ms = 1000, .error = "no connection"};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "redis://c/s", 0, &id);
    uint64_t now_ms = 0;
    for (uint32_t i = 0; i < 3 * RETRY_POLICY_DEFAULT.attempts_max; i++) {
        assert_int_equal(fixture_first_out(&fixture)->attempt, 1);
        fixture_answer(&fixture, fixture_first_out(&fixture), outcome);
        assert_null(fixture_first_out(&fixture)); /* it is not taken for one that was spilled */
        fixture_advance_to(&fixture, now_ms + 1000);
        assert_null(fixture_first_out(&fixture));
        now_ms += 2001;
        fixture_advance_to(&fixture, now_ms);
        assert_non_null(fixture_first_out(&fixture));
    }
    struct engine_stats stats;
    engine_stats(fixture.engine, &stats);
    assert_int_equal(stats.attempts, 0);
    assert_int_equal(stats.attempts_failed, 0);
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_FAILED});
    fixture_advance_to(&fixture, now_ms + RETRY_POLICY_DEFAULT.base_ms);
    assert_int_equal(fixture_first_out(&fixture)->attempt, 2);
    fixture_answer(&fixture, fixture_first_out(&fixture), outcome);
    enum timer_state shown;
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, &shown), ERROR_NONE);
    assert_int_equal(shown, TIMER_RETRYING);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &id, 0, &shown), ERROR_NONE);
    fixture_deinit(&fixture);
}

/* Goal: a create is acknowledged only when durable; of one that failed nothing is left. */
/* proves: create-durable */
static void test_failed_commit_takes_the_create_back(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    memory_storage_fail_commit(fixture.storage, 1, ERROR_IO);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", 1000, NULL), ERROR_IO);
    struct engine_stats stats;
    engine_stats(fixture.engine, &stats);
    assert_int_equal(stats.pending, 0);
    assert_int_equal(stats.in_memory, 0);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", 1000, NULL), ERROR_NONE);
    fixture_advance_to(&fixture, 1000);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_deinit(&fixture);
}

/* Goal: after a change that failed the timer is as it was: one fires at its time, and the cancel of
 * the other is asked again and holds over a restart. */
static void test_a_failed_change_changes_nothing(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id ids[2];
    for (int i = 0; i < 2; i++) {
        fixture_create(&fixture, "http://a.example/", 1000, &ids[i]);
        memory_storage_fail_commit(fixture.storage, 1, ERROR_IO);
        assert_int_equal(
            fixture_ask(&fixture, i ? COMMAND_CANCEL : COMMAND_PATCH, &ids[i], 0, NULL), ERROR_IO);
    }
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &ids[1], 0, NULL), ERROR_NONE);
    fixture_close(&fixture);
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 1000);
    assert_int_equal(fixture.delivered_count, 1);
    assert_true(timer_id_equal(&fixture_first_out(&fixture)->timer->id, &ids[0]));
    fixture_deinit(&fixture);
}

/* Goal: a row that was read before a change is not taken for the timer, although a later change
 * failed. Method: a read ahead that comes back late. */
static void test_a_change_fails_while_the_old_row_is_read(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    fixture.now.ms += 6000; /* more than half of the window is read */
    turn_advance(fixture.engine, fixture.now);
    struct engine_read *read = engine_take_read(fixture.engine);
    assert_non_null(read);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/", 15000, &id);
    engine_read_perform(read, fixture.storage);
    assert_int_equal(read->page.count, 1);
    assert_int_equal(fixture_ask(&fixture, COMMAND_PATCH, &id, 0, NULL), ERROR_NONE);
    memory_storage_fail_commit(fixture.storage, 1, ERROR_IO);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &id, 0, NULL), ERROR_IO);
    turn_read_done(fixture.engine, fixture.now, read);
    fixture_advance_to(&fixture, 20000);
    assert_int_equal(fixture.delivered_count, 0);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &id, 0, NULL), ERROR_NONE);
    assert_true(engine_is_ready(fixture.engine));
    fixture_deinit(&fixture);
}

/* Goal: an outcome whose commit failed is written again and never delivered again. */
/* proves: at-least-once */
static void test_failed_commit_of_an_outcome_is_repeated(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/", 0, &id);
    memory_storage_fail_commit(fixture.storage, 1, ERROR_IO);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_advance_to(&fixture, 10000);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_close(&fixture);
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 20000);
    assert_int_equal(fixture.delivered_count, 1);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, NULL), ERROR_GONE);
    fixture_deinit(&fixture);
}

/* Goal: a target that never answers keeps only its own timers waiting. */
/* proves: target-isolation, target_deliveries_max (beyond) */
static void test_a_slow_target_delays_no_other(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    for (int i = 0; i < 1000; i++)
        fixture_create(&fixture, "http://slow.example/", 1000, NULL);
    for (int i = 0; i < 100; i++)
        fixture_create(&fixture, "http://fast.example/", 1001, NULL);
    fixture_advance_to(&fixture, 1001);
    size_t slow = 0, fast = 0;
    LIST_FOR_EACH (&fixture.out, link) {
        const struct timer *timer = list_item(link, struct delivery, link)->timer;

        slow += bytes_equal(timer->texts.target, BYTES("http://slow.example/"));
        fast += bytes_equal(timer->texts.target, BYTES("http://fast.example/"));
    }
    assert_int_equal(slow, fixture.options.target_inflight_max);
    assert_int_equal(fast, 100);
    fixture_deinit(&fixture);
}

/* Goal: memory is bounded by its setting when far more is due at once, and all is delivered.
 * Method: room for about 60 timers, 2,000 due at the same millisecond. */
/* proves: overload, near_bytes_max (beyond) */
static void test_memory_is_bounded(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_prepare(&fixture);
    fixture.options.near_bytes_max = 32 << 10;
    fixture_open(&fixture);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL), ERROR_NONE);
    for (uint64_t ms = HOUR_MS; fixture.delivered_count < 2000 && ms < 3 * HOUR_MS; ms += 1000) {
        fixture_advance_to(&fixture, ms);
        struct engine_stats stats;
        engine_stats(fixture.engine, &stats);
        assert_in_range(stats.near_bytes, 0, fixture.options.near_bytes_max + 1024);
        fixture_answer_all(&fixture, DELIVERY_DONE);
    }
    assert_int_equal(fixture.delivered_count, 2000);
    fixture_deinit(&fixture);
}

/* Goal: limits refuse, with their own error. */
/* proves: pending_max (beyond), pending_max */
static void test_limits_refuse(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_prepare(&fixture);
    fixture.options.pending_max = 2;
    fixture_open(&fixture);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL), ERROR_NONE);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL), ERROR_NONE);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL), ERROR_TOO_MANY);
    fixture_deinit(&fixture);
}

/* Goal: near timers may take all of their memory and not a byte more; what is far is taken all the
 * same, and what ends makes room. Method: exactly the memory of two, and one byte less. */
/* proves: near_bytes_max */
static void test_memory_to_the_byte(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", 1000, NULL), ERROR_NONE);
    struct engine_stats stats;
    engine_stats(fixture.engine, &stats);
    fixture_deinit(&fixture);
    struct timer_id id;
    for (size_t less = 0; less < 2; less++) {
        fixture_init(&fixture);
        fixture_close(&fixture);
        fixture.options.near_bytes_max = 2 * stats.near_bytes - less;
        fixture_open(&fixture);
        assert_int_equal(fixture_create(&fixture, "http://a.example/", 1000, &id), ERROR_NONE);
        assert_int_equal(fixture_create(&fixture, "http://a.example/", 1000, NULL),
                         less ? ERROR_OVERLOADED : ERROR_NONE);
        assert_int_equal(fixture_create(&fixture, "http://a.example/", 1000, NULL),
                         ERROR_OVERLOADED);
        assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL), ERROR_NONE);
        assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &id, 0, NULL), ERROR_NONE);
        assert_int_equal(fixture_create(&fixture, "http://a.example/", 1000, NULL), ERROR_NONE);
        fixture_deinit(&fixture);
    }
}

/* Goal: the limit is that of all engines that share a count. Method: two of them, and creates in
 * one while the other has what counts. */
/* proves: pending_max (at) */
static void test_pending_is_counted_over_engines(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct engine_fixture other;
    fixture_init(&other);
    fixture_close(&fixture);
    fixture_close(&other);
    fixture.options.pending_max = 3;
    _Atomic uint64_t pending_all = 0;
    fixture.options.pending_all = other.options.pending_all = &pending_all;
    fixture_open(&fixture);
    fixture_open(&other);
    assert_int_equal(fixture_create(&other, "http://a.example/", HOUR_MS, NULL), ERROR_NONE);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL), ERROR_NONE);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL), ERROR_NONE);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL), ERROR_TOO_MANY);
    assert_int_equal(pending_all, 3);
    pending_all--; /* as if another engine had one less */
    assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL), ERROR_NONE);
    assert_int_equal(fixture_create(&fixture, "http://a.example/", HOUR_MS, NULL), ERROR_TOO_MANY);
    fixture_deinit(&fixture);
    fixture_deinit(&other);
}

/* Goal: what is over is known for as long as was said, and not a millisecond longer. */
/* proves: retain */
static void test_retained_to_the_millisecond(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id;
    fixture_create(&fixture, "http://a.example/", 0, &id);
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_DONE});
    fixture_advance_to(&fixture, fixture.options.retain_ms);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &id, 0, NULL), ERROR_GONE);
    fixture_advance_to(&fixture, fixture.options.retain_ms + 1);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &id, 0, NULL), ERROR_NOT_FOUND);
    fixture_deinit(&fixture);
}

/* Goal: whatever a target or a broker asks for, nothing is put off for longer than a day, or two
 * with the jitter of what was postponed; and for a day when it asks for that. */
/* proves: retry-after, postpone */
static void test_a_day_at_most(void **state)
{
    static const uint64_t asked_ms[] = {24 * HOUR_MS, 24 * HOUR_MS + 1, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < 3; i++)
        for (int postponed = 0; postponed < 2; postponed++) {
            struct delivery_outcome outcome = {.result =
                                                   postponed ? DELIVERY_POSTPONED : DELIVERY_FAILED,
                                               .retry_after_ms = asked_ms[i]};
            struct engine_fixture fixture;

            fixture_init(&fixture);
            fixture_create(&fixture, "http://a.example/", 0, NULL);
            fixture_answer(&fixture, fixture_first_out(&fixture), outcome);
            fixture_advance_to(&fixture, 24 * HOUR_MS - 1);
            assert_int_equal(fixture.delivered_count, 1);
            fixture_advance_to(&fixture, (postponed ? 48 : 24) * HOUR_MS + postponed);
            assert_int_equal(fixture.delivered_count, 2);
            fixture_deinit(&fixture);
        }
}

/* Goal: the back-off is within its bounds and reaches both ends of them. */
/* proves: retry-backoff, outcome-retry-after, retry-after */
static void test_backoff_is_full_jitter(void **state)
{
    struct retry_policy policy = {10, 1000, 60000, 1000, 0, false};
    struct random random = random_seeded(1);

    (void)state;
    uint64_t least = UINT64_MAX, most = 0;
    for (int i = 0; i < 100000; i++) {
        uint64_t ms = retry_delay_ms(&policy, 3, 0, &random);

        least = ms < least ? ms : least;
        most = ms > most ? ms : most;
        assert_in_range(retry_delay_ms(&policy, 1, 0, &random), 1, 1000);
        assert_in_range(retry_delay_ms(&policy, 64, 0, &random), 1, 60000);
        assert_in_range(retry_delay_ms(&policy, 1, 5000, &random), 5000, 5000);
    }
    assert_in_range(least, 1, 50);
    assert_in_range(most, 3950, 4000);
    assert_int_equal(retry_delay_ms(&policy, 1, UINT64_MAX, &random), 24 * HOUR_MS);
    assert_int_equal(retry_delay_ms(&policy, 1, 24 * HOUR_MS + 1, &random), 24 * HOUR_MS);
    assert_int_equal(retry_delay_ms(&policy, 1, 24 * HOUR_MS - 1, &random), 24 * HOUR_MS - 1);
}

/* Goal: a partition that cannot be read creates nothing that it might never fire, and goes on when
 * it can be read again. */
/* proves: unreadable */
static void test_unreadable_refuses_creates(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_prepare(&fixture);
    memory_storage_fail_read(fixture.storage, 1, ERROR_IO);
    fixture_create_engine(&fixture);
    fixture_carry_out(&fixture);
    assert_false(engine_is_ready(fixture.engine));
    assert_int_equal(fixture_create(&fixture, "http://a.example/", 1000, NULL), ERROR_UNREADABLE);
    struct engine_stats stats;
    engine_stats(fixture.engine, &stats);
    assert_int_equal(stats.unreadable, 1);
    assert_int_equal(stats.pending, 0);
    fixture_advance_to(&fixture, fixture.options.storage_retry_ms);
    assert_true(engine_is_ready(fixture.engine));
    assert_int_equal(fixture_create(&fixture, "http://a.example/", 1000, NULL), ERROR_NONE);
    fixture_advance_to(&fixture, fixture.options.storage_retry_ms + 1000);
    assert_int_equal(fixture.delivered_count, 1);
    engine_stats(fixture.engine, &stats);
    assert_int_equal(stats.unreadable, 0);
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fires_at_its_due_time_and_not_before),
        cmocka_unit_test(test_far_timer_is_read_ahead),
        cmocka_unit_test(test_sleeps_until_the_next_row),
        cmocka_unit_test(test_unreadable_refuses_creates),
        cmocka_unit_test(test_clock_step_forward_fires_what_became_due),
        cmocka_unit_test(test_clock_step_back_fires_nothing_twice_or_early),
        cmocka_unit_test(test_clock_step_back_while_waiting_for_room),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_firing_refuses_changes),
        cmocka_unit_test(test_a_page_is_of_one_version),
        cmocka_unit_test(test_patch_moves_the_appointment),
        cmocka_unit_test(test_retries_are_bounded),
        cmocka_unit_test(test_retry_after_is_kept),
        cmocka_unit_test(test_postponed),
        cmocka_unit_test(test_brokers_take_no_room_of_webhooks),
        cmocka_unit_test(test_failed_commit_takes_the_create_back),
        cmocka_unit_test(test_a_failed_change_changes_nothing),
        cmocka_unit_test(test_a_change_fails_while_the_old_row_is_read),
        cmocka_unit_test(test_failed_commit_of_an_outcome_is_repeated),
        cmocka_unit_test(test_a_slow_target_delays_no_other),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_limits_refuse),
        cmocka_unit_test(test_memory_to_the_byte),
        cmocka_unit_test(test_pending_is_counted_over_engines),
        cmocka_unit_test(test_retained_to_the_millisecond),
        cmocka_unit_test(test_a_day_at_most),
        cmocka_unit_test(test_backoff_is_full_jitter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
