/*
 * Timers that a client names by their key again and again: found without a read once they left
 * memory, and never older than they are. Small histories, with the reads carried out by hand; what
 * happens in disorder is the simulation's concern (tests/world).
 */
#include "engine/engine_testing.h"
#include "engine/recent.h"

#include <stdio.h>

static const struct bytes recent_key = BYTES("order-1");

static struct timer *recent_timer_of(const char *key, uint64_t due_ms)
{
    struct timer_texts texts = {.target = BYTES("http://a.example/"), .key = bytes_of(key)};
    struct timer *timer = timer_alloc(&texts);

    assert_non_null(timer);
    timer->due = (struct wall){START.ms + due_ms};
    return timer;
}

static struct timer_id recent_create_named(struct engine_fixture *fixture)
{
    struct timer *timer = recent_timer_of("order-1", HOUR_MS);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(fixture);
    return created.id;
}

static struct command recent_touch(uint64_t due_ms)
{
    return (struct command){.kind = COMMAND_TOUCH,
                            .name = recent_key,
                            .patch_fields = PATCH_DUE,
                            .patch = recent_timer_of("", due_ms)};
}

/* What the command is answered, and how many reads that took. */
static enum error_code recent_ask(struct engine_fixture *fixture, struct command *command,
                                  size_t *ret_reads)
{
    struct command *reply;

    *ret_reads = 0;
    turn_submit(fixture->engine, fixture->now, command);
    while (!(reply = engine_take_reply(fixture->engine))) {
        struct storage_batch *batch = engine_take_batch(fixture->engine);
        struct engine_read *read = batch ? NULL : engine_take_read(fixture->engine);

        assert_true(batch || read);
        if (batch) {
            fixture_commit(fixture, batch);
        } else {
            ++*ret_reads;
            engine_read_perform(read, fixture->storage);
            turn_read_done(fixture->engine, fixture->now, read);
        }
        engine_check(fixture->engine);
    }
    assert_ptr_equal(reply, command);
    return command->error;
}

/* Goal: a timer is read once, however often it is named. Method: touches and a look at one that
 * lies far ahead, with the reads counted; then its end, and another timer with its key. */
/* proves: bulk-touch */
static void test_a_named_timer_is_read_once(void **state)
{
    enum { TOUCHES = 5 };

    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    const struct timer_id first = recent_create_named(&fixture);
    size_t reads;
    for (uint64_t n = 1; n <= TOUCHES; n++) {
        struct command touch = recent_touch(HOUR_MS + n);

        assert_int_equal(recent_ask(&fixture, &touch, &reads), ERROR_NONE);
        assert_int_equal(reads, 0);
        assert_true(touch.timer->due.ms == START.ms + HOUR_MS + n);
        fixture_carry_out(&fixture);
    }
    struct command look = {.kind = COMMAND_GET, .name = recent_key};
    assert_int_equal(recent_ask(&fixture, &look, &reads), ERROR_NONE);
    assert_int_equal(reads, 0);
    assert_int_equal(look.timer->version, TOUCHES + 1);
    fixture_carry_out(&fixture);
    struct command strange = {.kind = COMMAND_GET, .name = recent_key, .tenant = BYTES("another")};
    assert_int_equal(recent_ask(&fixture, &strange, &reads), ERROR_NOT_FOUND);
    fixture_carry_out(&fixture);
    struct command cancel = {.kind = COMMAND_CANCEL, .name = recent_key};
    assert_int_equal(recent_ask(&fixture, &cancel, &reads), ERROR_NONE);
    assert_int_equal(reads, 0);
    fixture_carry_out(&fixture);
    struct command late = recent_touch(2 * HOUR_MS);
    assert_int_equal(recent_ask(&fixture, &late, &reads), ERROR_GONE);
    fixture_carry_out(&fixture);
    const struct timer_id second = recent_create_named(&fixture);
    assert_false(timer_id_equal(&first, &second));
    struct command touch = recent_touch(2 * HOUR_MS);
    assert_int_equal(recent_ask(&fixture, &touch, &reads), ERROR_NONE);
    assert_true(timer_id_equal(&touch.timer->id, &second));
    fixture_carry_out(&fixture);
    fixture_deinit(&fixture);
}

/* Goal: a timer that is changed by its id is not found by its key as it was. Method: a change of
 * one that was kept, then a look by its key. */
static void test_a_change_by_id_is_seen_by_key(void **state)
{
    (void)state;
    struct engine_fixture fixture;
    fixture_init(&fixture);
    const struct timer_id id = recent_create_named(&fixture);
    for (uint32_t version = 2; version < 5; version++) {
        struct command change = {.kind = COMMAND_TOUCH,
                                 .id = id,
                                 .patch_fields = PATCH_DUE,
                                 .patch = recent_timer_of("", version * HOUR_MS)};
        struct command look = {.kind = COMMAND_GET, .name = recent_key};
        size_t reads;

        assert_int_equal(recent_ask(&fixture, &change, &reads), ERROR_NONE);
        fixture_carry_out(&fixture);
        assert_int_equal(recent_ask(&fixture, &look, &reads), ERROR_NONE);
        assert_int_equal(look.timer->version, version);
        assert_true(look.timer->due.ms == START.ms + version * HOUR_MS);
        fixture_carry_out(&fixture);
    }
    fixture_deinit(&fixture);
}

/* Goal: what is kept is bounded, and the one that was kept longest goes. Method: twice as many as
 * there is room for, then all that are too much are taken. */
/* proves: recent-bytes */
static void test_what_is_kept_is_bounded(void **state)
{
    enum { COUNT = 100 };

    (void)state;
    struct timer *probe = recent_timer_of("key-000", 1);
    const size_t bytes_max = (size_t)COUNT / 2 * probe->footprint;
    timer_free(probe);
    struct recent *recent = recent_create(bytes_max);
    assert_non_null(recent);
    for (unsigned i = 0; i < COUNT; i++) {
        char key[16];

        snprintf(key, sizeof(key), "key-%03u", i);
        struct timer *timer = recent_timer_of(key, i);
        timer->id.serial = i + 1;
        assert_true(recent_keep(recent, timer));
    }
    uint64_t gone = 0;
    for (struct timer *timer; (timer = recent_take_excess(recent));) {
        assert_int_equal(timer->id.serial, ++gone);
        timer_free(timer);
    }
    assert_in_range(gone, COUNT / 2, COUNT - 1);
    assert_int_equal(recent_count(recent), COUNT - gone);
    const struct name_space space = {0, {0}};
    assert_null(recent_find(recent, space, BYTES("key-000")));
    const struct timer *last = recent_find(recent, space, BYTES("key-099"));
    assert_non_null(last);
    assert_int_equal(last->id.serial, COUNT);
    timer_free(recent_take(recent, COUNT));
    assert_null(recent_take(recent, COUNT));
    assert_null(recent_find(recent, space, BYTES("key-099")));
    recent_destroy(recent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_named_timer_is_read_once),
        cmocka_unit_test(test_a_change_by_id_is_seen_by_key),
        cmocka_unit_test(test_what_is_kept_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
