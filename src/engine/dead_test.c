/*
 * Goal: dead letters are kept for their own time and within their own bound, whatever becomes of
 * other final timers, and go when they are forgotten. Method: one engine by hand over storage in
 * memory, whose clock is moved on.
 */
#include "engine/engine_testing.h"

static struct engine_stats dead_fixture_stats(const struct engine_fixture *fixture)
{
    struct engine_stats stats;

    engine_stats(fixture->engine, &stats);
    return stats;
}

/* A timer that is due at once and dies. */
static struct timer_id dead_letter(struct engine_fixture *fixture)
{
    struct timer_id id;

    assert_int_equal(fixture_create(fixture, "http://a.example/", fixture->now.ms - START.ms, &id),
                     ERROR_NONE);
    fixture_advance_to(fixture, fixture->now.ms - START.ms);
    fixture_answer(fixture, fixture_first_out(fixture),
                   (struct delivery_outcome){.result = DELIVERY_ENDED, .error = "HTTP 410"});
    return id;
}

static void dead_sleep(struct engine_fixture *fixture, uint64_t ms)
{
    fixture_advance_to(fixture, fixture->now.ms - START.ms + ms);
}

static size_t dead_stored(struct engine_fixture *fixture)
{
    const struct storage_scan scan = {.kind = STORAGE_SCAN_ALL,
                                      .from = {STORAGE_DEAD_FROM, 0},
                                      .to = {WALL_NEVER, 0},
                                      .rows_max = 1000,
                                      .bytes_max = SIZE_MAX};
    struct storage_page page;

    assert_int_equal(storage_scan(fixture->storage, &scan, &page, NULL), ERROR_NONE);
    const size_t count = page.count;
    storage_page_free(&page);
    return count;
}

/* A trim drops what fired beside it; a restart finds it; and it goes after dead_retain_ms. */
static void test_it_outlives_other_final_timers(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id dead = dead_letter(&fixture);
    struct timer_id fired;
    fixture_create(&fixture, "http://a.example/", 10, &fired);
    dead_sleep(&fixture, 20);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    for (int hours = 0; hours < 10; hours++)
        dead_sleep(&fixture, HOUR_MS);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &fired, 0, NULL), ERROR_NOT_FOUND);
    enum timer_state shown = TIMER_SCHEDULED;
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &dead, 0, &shown), ERROR_GONE);
    assert_int_equal(shown, TIMER_DEAD);
    fixture_close(&fixture);
    fixture_open(&fixture);
    assert_int_equal(dead_fixture_stats(&fixture).dead_letters, 1);
    assert_true(dead_fixture_stats(&fixture).dead_bytes > 0);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &dead, 0, &shown), ERROR_GONE);
    dead_sleep(&fixture, fixture.options.dead_retain_ms);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &dead, 0, NULL), ERROR_NOT_FOUND);
    assert_int_equal(dead_stored(&fixture), 0);
    assert_int_equal(dead_fixture_stats(&fixture).dead_letters, 0);
    assert_int_equal(dead_fixture_stats(&fixture).dead_bytes, 0);
    assert_int_equal(dead_fixture_stats(&fixture).dead_dropped, 0);
    fixture_deinit(&fixture);
}

/* The oldest go first, each is counted, and the newest stay. */
static void test_the_oldest_go_beyond_the_bound(void **state)
{
    enum { COUNT = 40, KEPT = 20 };

    (void)state;
    struct engine_fixture fixture;
    fixture_prepare(&fixture);
    fixture_open(&fixture);
    struct timer_id ids[COUNT];
    ids[0] = dead_letter(&fixture);
    fixture.options.dead_bytes_max = KEPT * dead_fixture_stats(&fixture).dead_bytes;
    fixture_close(&fixture);
    fixture_open(&fixture);
    for (size_t i = 1; i < COUNT; i++) {
        dead_sleep(&fixture, 100);
        ids[i] = dead_letter(&fixture);
    }
    assert_true(dead_fixture_stats(&fixture).dead_bytes <= fixture.options.dead_bytes_max);
    size_t kept = 0;
    for (size_t i = 0; i < COUNT; i++) {
        const enum error_code error = fixture_ask(&fixture, COMMAND_GET, &ids[i], 0, NULL);

        assert_true(error == ERROR_GONE || (error == ERROR_NOT_FOUND && kept == 0));
        kept += error == ERROR_GONE;
    }
    assert_in_range(kept, KEPT - KEPT / 16 - 1, KEPT);
    assert_int_equal(dead_stored(&fixture), kept);
    assert_int_equal(dead_fixture_stats(&fixture).dead_letters, kept);
    assert_int_equal(dead_fixture_stats(&fixture).dead_dropped, COUNT - kept);
    fixture_deinit(&fixture);
}

/* A timer of the tenant with a payload of this size, which dies at once. */
static struct timer_id dead_letter_of(struct engine_fixture *fixture, const char *tenant,
                                      size_t payload_size)
{
    static char payload[1 << 16];
    struct timer_texts texts = {.target = BYTES("http://a.example/"),
                                .payload = {payload, payload_size},
                                .tenant = bytes_of(tenant)};
    struct timer *timer = timer_alloc(&texts);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    timer->due = fixture->now;
    fixture_command(fixture, &command);
    dead_sleep(fixture, 1);
    fixture_answer(fixture, fixture_first_out(fixture),
                   (struct delivery_outcome){.result = DELIVERY_ENDED, .error = "HTTP 410"});
    return created.id;
}

static bool dead_is_there(struct engine_fixture *fixture, const struct timer_id *id,
                          const char *tenant)
{
    struct command command = {.kind = COMMAND_GET, .id = *id, .tenant = bytes_of(tenant)};

    fixture_command(fixture, &command);
    return command.error == ERROR_GONE;
}

/* Goal: tenants that fill the pot many times over, before and after a restart, lose their own
 * letters. Those of a tenant that has less than an equal share stay, though they are the oldest. */
/* proves: tenant-shares */
static void test_a_tenant_loses_no_more_than_it_has_too_much(void **state)
{
    enum { QUIET = 10, GREEDY = 120, LARGE = 1 << 14 };
    static const char *const greedy[] = {"greedy", "greedier"};
    struct timer_id quiet[QUIET], last = {0};
    struct engine_fixture fixture;

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.dead_bytes_max = 40 * LARGE;
    fixture_open(&fixture);
    for (int i = 0; i < QUIET; i++)
        quiet[i] = dead_letter_of(&fixture, "quiet", 100);
    for (int i = 0; i < GREEDY; i++) {
        last = dead_letter_of(&fixture, greedy[i % 2], LARGE);
        if (i == GREEDY / 2) {
            fixture_close(&fixture);
            fixture_open(&fixture);
        }
    }
    dead_sleep(&fixture, HOUR_MS);
    const struct engine_stats stats = dead_fixture_stats(&fixture);
    assert_true(stats.dead_bytes <= fixture.options.dead_bytes_max);
    assert_in_range(stats.dead_letters, QUIET + 30, QUIET + 40);
    assert_true(dead_is_there(&fixture, &last, greedy[(GREEDY - 1) % 2]));
    for (int i = 0; i < QUIET; i++)
        assert_true(dead_is_there(&fixture, &quiet[i], "quiet"));
    fixture_deinit(&fixture);
}

static void test_it_is_forgotten_on_request(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id dead = dead_letter(&fixture);
    struct timer_id live;
    fixture_create(&fixture, "http://a.example/", HOUR_MS, &live);
    assert_int_equal(fixture_ask(&fixture, COMMAND_FORGET, &live, 0, NULL), ERROR_NOT_FOUND);
    assert_int_equal(fixture_ask(&fixture, COMMAND_FORGET, &dead, 1, NULL), ERROR_VERSION_MISMATCH);
    assert_int_equal(fixture_ask(&fixture, COMMAND_REDRIVE, &dead, 1, NULL),
                     ERROR_VERSION_MISMATCH);
    assert_int_equal(dead_stored(&fixture), 1);
    assert_int_equal(fixture_ask(&fixture, COMMAND_FORGET, &dead, 2, NULL), ERROR_NONE);
    assert_int_equal(dead_stored(&fixture), 0);
    assert_int_equal(dead_fixture_stats(&fixture).dead_letters, 0);
    assert_int_equal(fixture_ask(&fixture, COMMAND_FORGET, &dead, 0, NULL), ERROR_NOT_FOUND);
    assert_int_equal(fixture_ask(&fixture, COMMAND_REDRIVE, &dead, 0, NULL), ERROR_NOT_FOUND);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &dead, 0, NULL), ERROR_NOT_FOUND);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &live, 0, NULL), ERROR_NONE);
    assert_int_equal(dead_fixture_stats(&fixture).pending, 1);
    fixture_deinit(&fixture);
}

/* A redriven letter is none any more; and the storage may fail meanwhile. */
static void test_it_lives_again(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id = dead_letter(&fixture);
    memory_storage_fail_commit(fixture.storage, 1, ERROR_IO);
    assert_int_equal(fixture_ask(&fixture, COMMAND_FORGET, &id, 0, NULL), ERROR_IO);
    dead_sleep(&fixture, fixture.options.storage_retry_ms);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, NULL), ERROR_NOT_FOUND);

    id = dead_letter(&fixture);
    dead_sleep(&fixture, 100 * HOUR_MS);
    assert_int_equal(fixture_ask(&fixture, COMMAND_REDRIVE, &id, 0, NULL), ERROR_NONE);
    assert_int_equal(dead_stored(&fixture), 0);
    assert_int_equal(dead_fixture_stats(&fixture).dead_letters, 0);
    fixture_advance_to(&fixture, fixture.now.ms - START.ms);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, NULL), ERROR_GONE);
    fixture_deinit(&fixture);
}

/* Goal: what dead letters take is counted right after a redrive with another target. Method: one of
 * two equal letters lives again with a longer target. */
/* proves: redrive-target */
static void test_redrives_keep_the_count_of_bytes(void **state)
{
    static const char target[] = "http://a-much-longer-name.example/with/a/path/that/is/long";
    struct engine_fixture fixture;

    (void)state;
    fixture_init(&fixture);
    dead_letter(&fixture);
    const uint64_t one = dead_fixture_stats(&fixture).dead_bytes;
    struct timer_id id = dead_letter(&fixture);
    assert_int_equal(dead_fixture_stats(&fixture).dead_bytes, 2 * one);
    struct command command = {.kind = COMMAND_REDRIVE,
                              .id = id,
                              .patch_fields = PATCH_TARGET,
                              .patch =
                                  timer_alloc(&(struct timer_texts){.target = bytes_of(target)})};
    fixture_command(&fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(&fixture);
    assert_int_equal(dead_fixture_stats(&fixture).dead_letters, 1);
    assert_int_equal(dead_fixture_stats(&fixture).dead_bytes, one);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_deinit(&fixture);
}

/* It lives again with another target, also in the next engine. */
/* proves: redrive-target */
static void test_it_lives_again_elsewhere(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id = dead_letter(&fixture);
    struct command command = {.kind = COMMAND_REDRIVE,
                              .id = id,
                              .not_before = wall_add(fixture.now, HOUR_MS),
                              .patch_fields = PATCH_TARGET};
    command.patch = timer_alloc(&(struct timer_texts){.target = BYTES("http://other.example/x")});
    assert_non_null(command.patch);
    fixture_command(&fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(&fixture);
    fixture_close(&fixture);
    fixture_open(&fixture);
    dead_sleep(&fixture, HOUR_MS);
    const struct delivery *delivery = fixture_first_out(&fixture);
    assert_non_null(delivery);
    assert_true(bytes_equal(delivery->timer->texts.target, BYTES("http://other.example/x")));
    assert_true(bytes_equal(timer_target_name(delivery->timer), BYTES("other.example")));
    fixture_deinit(&fixture);
}

/* It lives again, but not before its time: also in the next engine. Its due time stays. */
/* proves: redrive-rate */
static void test_it_lives_again_later(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    struct timer_id id = dead_letter(&fixture);
    const struct wall due = fixture.now, from = wall_add(fixture.now, HOUR_MS);
    struct command command = {.kind = COMMAND_REDRIVE, .id = id, .not_before = from};
    fixture_command(&fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    assert_int_equal(command.timer->state, TIMER_RETRYING);
    assert_int_equal(command.timer->due.ms, due.ms);
    assert_int_equal(command.timer->at.ms, from.ms);
    fixture_carry_out(&fixture);
    dead_sleep(&fixture, HOUR_MS / 2);
    fixture_close(&fixture);
    fixture_open(&fixture);
    dead_sleep(&fixture, HOUR_MS / 2 - 1);
    assert_null(fixture_first_out(&fixture));
    dead_sleep(&fixture, 1);
    assert_int_equal(fixture_first_out(&fixture)->attempt, 1);
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_ENDED, .error = "HTTP 410"});
    command = (struct command){
        .kind = COMMAND_REDRIVE, .id = id, .not_before = {WALL_MS_MAX}}; /* no pause is so long */
    fixture_command(&fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    assert_in_range(command.timer->at.ms, fixture.now.ms + 48 * HOUR_MS,
                    fixture.now.ms + 30 * 24 * HOUR_MS);
    fixture_deinit(&fixture);
}

/* The scan for dead letters that a new engine begins with; the other reads are done. */
static struct engine_read *dead_first_scan(struct engine_fixture *fixture)
{
    for (;;) {
        struct engine_read *read = engine_take_read(fixture->engine);

        assert_non_null(read);
        engine_read_perform(read, fixture->storage);
        if (read->kind == ENGINE_READ_SCAN && read->scan.kind == STORAGE_SCAN_ALL)
            return read;
        turn_read_done(fixture->engine, fixture->now, read);
    }
}

/* A scan brings the row of a letter that was redriven meanwhile, and died again: the old row is too
 * old, the letter is not. */
static void test_an_old_row_forgets_nothing(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_prepare(&fixture);
    fixture.options.dead_retain_ms = 1000;
    fixture_open(&fixture);
    struct timer_id id = dead_letter(&fixture);
    fixture_close(&fixture);
    fixture_create_engine(&fixture);
    struct engine_read *scan = dead_first_scan(&fixture);
    dead_sleep(&fixture, 500);
    assert_int_equal(fixture_ask(&fixture, COMMAND_REDRIVE, &id, 0, NULL), ERROR_NONE);
    dead_sleep(&fixture, 0);
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_ENDED, .error = "HTTP 410"});
    dead_sleep(&fixture, 600);
    turn_read_done(fixture.engine, fixture.now, scan);
    fixture_carry_out(&fixture);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, NULL), ERROR_GONE);
    assert_int_equal(dead_stored(&fixture), 1);
    dead_sleep(&fixture, 500);
    assert_int_equal(dead_stored(&fixture), 0);
    fixture_deinit(&fixture);
}

/* The next firing that was given up, or all zero. */
static struct given_up dead_take_given_up(struct engine_fixture *fixture)
{
    struct given_up *taken = engine_take_given_up(fixture->engine);
    const struct given_up copy = taken ? *taken : (struct given_up){.more = 0};

    free(taken);
    return copy;
}

/* A firing that fails for good is counted and told of, also where its timer fires again. */
static void test_a_firing_given_up_is_counted(void **state)
{
    struct timer *timer;
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};
    const struct timer_texts texts = {.target = BYTES("http://a.example/"),
                                      .payload = BYTES("{}"),
                                      .schedule = BYTES("{\"every\":\"1s\"}")};

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    dead_letter(&fixture);
    assert_int_equal(dead_fixture_stats(&fixture).given_up, 1);
    assert_int_equal(dead_take_given_up(&fixture).next.ms, WALL_NEVER.ms);
    timer = timer_alloc(&texts);
    timer->due = wall_add(fixture.now, 1000);
    timer->retry.attempts_max = 1;
    fixture_command(&fixture, &command);
    assert_int_equal(created.error, ERROR_NONE);
    fixture_carry_out(&fixture);
    for (uint64_t firings = 1; firings <= 11; firings++) {
        dead_sleep(&fixture, 1000);
        fixture_answer(&fixture, fixture_first_out(&fixture),
                       (struct delivery_outcome){.result = DELIVERY_FAILED, .error = "HTTP 500"});
        assert_int_equal(dead_fixture_stats(&fixture).given_up, 1 + firings);

        const struct given_up told = dead_take_given_up(&fixture);
        assert_true(timer_id_equal(&told.id, &created.id));
        assert_int_equal(told.due.ms, fixture.now.ms);
        assert_int_equal(told.next.ms, fixture.now.ms + 1000);
        assert_int_equal(told.attempts, 1);
        assert_string_equal(told.origin, "http://a.example");
        assert_string_equal(told.error, "HTTP 500");
    }
    assert_int_equal(dead_fixture_stats(&fixture).dead, 1);
    assert_int_equal(dead_fixture_stats(&fixture).pending, 1);
    fixture_deinit(&fixture);
}

/* Many at a time: a few are told of, the others are counted, and none is missing. */
static void test_many_given_up_are_told_of_in_part(void **state)
{
    enum { COUNT = 1000 };
    struct engine_fixture fixture;
    uint64_t told = 0, counted = 0;

    (void)state;
    fixture_init(&fixture);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++)
            dead_letter(&fixture);
        for (struct given_up one; (one = dead_take_given_up(&fixture)).attempts > 0;) {
            told++;
            counted += 1 + one.more;
        }
        assert_int_equal(counted, (round + 1) * COUNT);
        assert_true(told > 0 && told < COUNT / 10);
    }
    dead_letter(&fixture); /* it goes with the engine */
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_outlives_other_final_timers),
        cmocka_unit_test(test_the_oldest_go_beyond_the_bound),
        cmocka_unit_test(test_a_tenant_loses_no_more_than_it_has_too_much),
        cmocka_unit_test(test_it_is_forgotten_on_request),
        cmocka_unit_test(test_it_lives_again),
        cmocka_unit_test(test_redrives_keep_the_count_of_bytes),
        cmocka_unit_test(test_it_lives_again_elsewhere),
        cmocka_unit_test(test_it_lives_again_later),
        cmocka_unit_test(test_an_old_row_forgets_nothing),
        cmocka_unit_test(test_a_firing_given_up_is_counted),
        cmocka_unit_test(test_many_given_up_are_told_of_in_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
