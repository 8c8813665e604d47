/*
 * Goal: to one tenant the timers of another are not there, whatever is asked; and each has exactly
 * as many live timers as it may, after a restart too. Method: two tenants with the same names in
 * one engine, every kind of command; and random lives beside a count of our own, with a storage
 * that fails now and then.
 */
#include "engine/commands.h"
#include "engine/engine_testing.h"

#include "base/random.h"
#include "timer/queue_target.h"
#include "seed.h"

#include <stdio.h>
#include <unistd.h>

static const char *const names[] = {"shop", "rival", ""};

enum { TENANTS = 3, PENDING_MAX = 7 };

/* Opens it with what the storage has counted. */
static void open_counted(struct engine_fixture *fixture, struct tenant_counts *tenant_counts)
{
    fixture->options.tenant_counts = tenant_counts;
    tenant_counts_clear(tenant_counts);
    assert_int_equal(storage_load_tenant_counts(fixture->storage, 0, tenant_counts, NULL),
                     ERROR_NONE);
    fixture_open(fixture);
}

static void bed_init_counted(struct engine_fixture *fixture, struct tenant_counts *tenant_counts)
{
    *fixture = (struct engine_fixture){.options = ENGINE_OPTIONS_DEFAULT, .now = START};
    list_init(&fixture->out);
    tenant_counts_init(tenant_counts);
    fixture->storage = memory_storage_create(1);
    open_counted(fixture, tenant_counts);
}

static void bed_deinit_counted(struct engine_fixture *fixture, struct tenant_counts *tenant_counts)
{
    fixture_deinit(fixture);
    tenant_counts_deinit(tenant_counts);
}

/* A timer with a key, an event and a label; a create has an Idempotency-Key. */
static struct command_created tenant_make(struct engine_fixture *fixture, size_t tenant,
                                          enum command_kind kind, uint64_t due_ms,
                                          uint64_t pending_max, const char *target)
{
    struct timer_texts texts = {
        .target = bytes_of(target),
        .payload = BYTES("{}"),
        .key = BYTES("k"),
        .watch = BYTES("e\n"),
        .request = bytes_of(kind == COMMAND_CREATE ? "0123456789abcdefonce" : ""),
        .labels = BYTES("{\"team\":\"a\"}"),
        .tenant = bytes_of(names[tenant]),
    };
    struct timer *timer = timer_alloc(&texts);
    struct command_created created;
    struct command command = {.kind = kind,
                              .timers = &timer,
                              .results = &created,
                              .timer_count = 1,
                              .tenant_pending_max = pending_max};

    timer->due = (struct wall){START.ms + due_ms};
    fixture_command(fixture, &command);
    fixture_carry_out(fixture);
    return created;
}

static struct command answered(struct engine_fixture *fixture, size_t tenant,
                               struct command command)
{
    command.tenant = bytes_of(names[tenant]);
    if (command.kind == COMMAND_PATCH || command.each == COMMAND_PATCH) {
        command.patch = fixture_timer("http://patched.example/", 3 * HOUR_MS);
        command.patch_fields = PATCH_DUE;
    }
    fixture_command(fixture, &command);
    return command;
}

/* proves: tenant-isolation */
static void test_ids_and_keys(void **state)
{
    static const enum command_kind kinds[] = {COMMAND_GET, COMMAND_PATCH, COMMAND_CANCEL,
                                              COMMAND_FIRE, COMMAND_REDRIVE};

    (void)state;
    struct tenant_counts tenant_counts;
    struct engine_fixture fixture;
    bed_init_counted(&fixture, &tenant_counts);
    struct command_created created[TENANTS];
    for (size_t i = 0; i < TENANTS; i++) {
        created[i] = tenant_make(&fixture, i, COMMAND_CREATE, 2 * HOUR_MS, 0, "http://a.example/");
        assert_true(!created[i].error && !created[i].existed);
        assert_true(
            tenant_make(&fixture, i, COMMAND_CREATE, 2 * HOUR_MS, 0, "http://a.example/").existed);
    }
    for (int round = 0; round < 2; round++) { /* in memory, and on disk alone */
        for (size_t i = 0; i < TENANTS; i++)
            for (size_t j = 0; j < TENANTS; j++)
                for (size_t k = 0; k < 5 && i != j; k++)
                    assert_int_equal(
                        answered(&fixture, i,
                                 (struct command){.kind = kinds[k], .id = created[j].id})
                            .error,
                        ERROR_NOT_FOUND);
        for (size_t i = 0; i < TENANTS; i++) {
            struct command command =
                answered(&fixture, i, (struct command){.kind = COMMAND_GET, .name = BYTES("k")});

            assert_int_equal(command.error, ERROR_NONE);
            assert_true(timer_id_equal(&command.timer->id, &created[i].id));
            assert_int_equal(command.timer->version, 1);
        }
        fixture_close(&fixture);
        open_counted(&fixture, &tenant_counts);
    }
    assert_int_equal(
        answered(&fixture, 0, (struct command){.kind = COMMAND_CANCEL, .name = BYTES("k")}).error,
        ERROR_NONE);
    assert_int_equal(
        answered(&fixture, 0, (struct command){.kind = COMMAND_GET, .id = created[0].id}).error,
        ERROR_GONE);
    assert_int_equal(
        answered(&fixture, 1, (struct command){.kind = COMMAND_GET, .id = created[0].id}).error,
        ERROR_NOT_FOUND);
    assert_int_equal(
        answered(&fixture, 1, (struct command){.kind = COMMAND_GET, .name = BYTES("k")}).error,
        ERROR_NONE);
    fixture_carry_out(&fixture);
    bed_deinit_counted(&fixture, &tenant_counts);
}

/* proves: tenant-isolation */
static void test_many_at_once(void **state)
{
    static const enum command_kind kinds[] = {COMMAND_PATCH, COMMAND_CANCEL, COMMAND_FIRE};

    (void)state;
    for (size_t k = 0; k < 3; k++)
        for (int by_label = 0; by_label < 2; by_label++) {
            struct tenant_counts tenant_counts;
            struct engine_fixture fixture;

            bed_init_counted(&fixture, &tenant_counts);
            struct command_created created[TENANTS];
            for (size_t i = 0; i < TENANTS; i++)
                created[i] = tenant_make(&fixture, i, COMMAND_CREATE, 2 * HOUR_MS, 0, "queue:q");
            struct command command = answered(&fixture, 1,
                                              (struct command){
                                                  .kind = COMMAND_COMPLETE,
                                                  .each = kinds[k],
                                                  .name = by_label ? (struct bytes){0} : BYTES("e"),
                                                  .labels = BYTES("{\"team\":\"a\"}"),
                                              });
            assert_int_equal(command.completed.changed, 1);
            for (size_t i = 0; i < TENANTS; i++) {
                command = answered(&fixture, i,
                                   (struct command){.kind = COMMAND_GET, .id = created[i].id});
                assert_int_equal(command.timer->version, i == 1 ? 2 : 1);
            }
            command = answered(&fixture, 1,
                               (struct command){.kind = COMMAND_LIST,
                                                .scan = {.kind = STORAGE_SCAN_ALL,
                                                         .to = {WALL_NEVER, 0},
                                                         .rows_max = 100,
                                                         .bytes_max = SIZE_MAX}});
            assert_int_equal(command.page.count, 1);
            assert_true(timer_id_equal(&command.page.timers[0]->id, &created[1].id));
            fixture_carry_out(&fixture);
            bed_deinit_counted(&fixture, &tenant_counts);
        }
}

/* Goal: a call by labels does not return to the engine for pages of other tenants' timers. Method:
 * more timers of a rival than one page looks at, and the reads of one call. */
static void test_pages_of_others(void **state)
{
    (void)state;
    struct tenant_counts tenant_counts;
    struct engine_fixture fixture;
    bed_init_counted(&fixture, &tenant_counts);
    const struct timer_texts texts = {.target = BYTES("queue:q"), .tenant = BYTES("rival")};
    for (int i = 0; i <= SCAN_LOOKS; i++) {
        struct timer *timer = timer_alloc(&texts);
        struct command_created created;
        struct command create = {
            .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

        timer->due = (struct wall){START.ms + 2 * HOUR_MS};
        fixture_command(&fixture, &create);
    }
    tenant_make(&fixture, 0, COMMAND_CREATE, 3 * HOUR_MS, 0, "queue:q");
    struct command cancel = {.kind = COMMAND_COMPLETE,
                             .each = COMMAND_CANCEL,
                             .tenant = BYTES("shop"),
                             .labels = BYTES("{\"team\":\"a\"}")};
    turn_submit(fixture.engine, fixture.now, &cancel);
    struct engine_read *read = engine_take_read(fixture.engine);
    assert_non_null(read);
    engine_read_perform(read, fixture.storage);
    assert_int_equal(read->page.looked, SCAN_LOOKS);
    assert_true(engine_read_is_repeated(read));
    engine_read_perform(read, fixture.storage);
    assert_int_equal(read->page.count, 1);
    assert_false(engine_read_is_repeated(read));
    turn_read_done(fixture.engine, fixture.now, read);
    fixture_carry_out(&fixture);
    assert_int_equal(cancel.completed.changed, 1);
    bed_deinit_counted(&fixture, &tenant_counts);
}

/* Goal: pending_max is divided among tenants: one that takes all it gets leaves the next its share,
 * the unnamed tenant among them. Method: each takes in turn until it is refused. */
/* proves: tenant-shares */
static void test_shares_of_all(void **state)
{
    enum { ALL = 64 };
    (void)state;
    for (size_t first = 0; first < TENANTS; first++) {
        struct tenant_counts tenant_counts;
        struct engine_fixture fixture;
        size_t made[TENANTS] = {0};

        bed_init_counted(&fixture, &tenant_counts);
        fixture_close(&fixture);
        fixture.options.pending_max = ALL;
        fixture.options.is_divided = true;
        open_counted(&fixture, &tenant_counts);
        for (size_t i = 0; i < TENANTS; i++) {
            const size_t tenant = (first + i) % TENANTS;
            const struct timer_texts texts = {.target = BYTES("queue:q"),
                                              .tenant = bytes_of(names[tenant])};
            struct command_created created = {.error = ERROR_NONE};

            while (!created.error) {
                struct timer *timer = timer_alloc(&texts);
                struct command create = {.kind = COMMAND_CREATE,
                                         .timers = &timer,
                                         .results = &created,
                                         .timer_count = 1};

                timer->due = (struct wall){START.ms + 2 * HOUR_MS};
                fixture_command(&fixture, &create);
                fixture_carry_out(&fixture);
                made[i] += !created.error;
            }
            assert_int_equal(created.error, ERROR_TOO_MANY);
        }
        assert_int_equal(made[0], ALL - ALL / 8);
        assert_in_range(made[1], 1, ALL / 8);
        assert_in_range(made[2], 1, ALL / 8);
        bed_deinit_counted(&fixture, &tenant_counts);
    }
}

static struct delivery *tenant_pull(struct engine_fixture *fixture, size_t tenant)
{
    char room[QUEUE_FULL_NAME_SIZE_MAX];

    return turn_pull(fixture->engine, fixture->now,
                     queue_full_name(bytes_of(names[tenant]), BYTES("q"), room),
                     QUEUE_PRIORITY_DEFAULT);
}

/* proves: tenant-isolation */
static void test_queues(void **state)
{
    (void)state;
    struct tenant_counts tenant_counts;
    struct engine_fixture fixture;
    bed_init_counted(&fixture, &tenant_counts);
    tenant_make(&fixture, 1, COMMAND_CREATE, 0, 0, "queue:q");
    fixture_advance_to(&fixture, 1);
    assert_null(tenant_pull(&fixture, 0));
    assert_null(tenant_pull(&fixture, 2));
    struct bytes woken;
    assert_true(engine_take_woken(fixture.engine, &woken));
    assert_true(bytes_equal(woken, BYTES("rival/q")));
    tenant_make(&fixture, 0, COMMAND_CREATE, 0, 0, "queue:q");
    tenant_make(&fixture, 2, COMMAND_CREATE, 0, 0, "queue:q");
    fixture_advance_to(&fixture, 2);
    for (size_t i = 0; i < TENANTS; i++) {
        struct delivery *delivery = tenant_pull(&fixture, i);

        assert_non_null(delivery);
        assert_true(bytes_equal(delivery->timer->texts.tenant, bytes_of(names[i])));
        assert_null(tenant_pull(&fixture, i));
        list_push(&fixture.out, &delivery->link);
        fixture_answer(&fixture, delivery, (struct delivery_outcome){.result = DELIVERY_DONE});
    }
    bed_deinit_counted(&fixture, &tenant_counts);
}

/* Goal: what others do under the same name is nothing to a tenant, however much of it. Method: a
 * rival takes the key again and again, more often than names are looked at; then the first one's
 * dead letter, which had it, lives again. */
/* proves: tenant-isolation */
static void test_names_that_others_have(void **state)
{
    (void)state;
    struct tenant_counts tenant_counts;
    struct engine_fixture fixture;
    bed_init_counted(&fixture, &tenant_counts);
    struct command_created created =
        tenant_make(&fixture, 0, COMMAND_CREATE, 1, 0, "http://a.example/");
    for (int i = 0; i < 20; i++) {
        assert_false(
            tenant_make(&fixture, 1, COMMAND_PUT, 2 * HOUR_MS, 0, "http://a.example/").existed);
        if (i < 19)
            assert_int_equal(
                answered(&fixture, 1, (struct command){.kind = COMMAND_CANCEL, .name = BYTES("k")})
                    .error,
                ERROR_NONE);
    }
    assert_int_equal(
        answered(&fixture, 0, (struct command){.kind = COMMAND_GET, .name = BYTES("k")}).error,
        ERROR_NONE);
    fixture_carry_out(&fixture);
    fixture_advance_to(&fixture, 1);
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_ENDED});
    assert_int_equal(
        answered(&fixture, 0, (struct command){.kind = COMMAND_REDRIVE, .id = created.id}).error,
        ERROR_NONE);
    fixture_carry_out(&fixture);
    bed_deinit_counted(&fixture, &tenant_counts);
}

/* ---- how many ---- */

/* One life, or the end of one, at random. */
static void live_on(struct engine_fixture *fixture, struct random *random, uint64_t pending_max)
{
    struct timer_texts texts = {.target = BYTES("http://a.example/"), .payload = BYTES("{}")};
    size_t tenant = random_below(random, TENANTS), count = 1 + random_below(random, 3);
    struct command_created created[3];
    struct timer *timers[3];
    struct command command = {.kind = COMMAND_CREATE,
                              .timers = timers,
                              .results = created,
                              .timer_count = count,
                              .tenant_pending_max = pending_max};

    texts.tenant = bytes_of(names[tenant]);
    if (count == 1 && random_below(random, 2))
        texts.key = BYTES("k");
    for (size_t i = 0; i < count; i++) {
        timers[i] = timer_alloc(&texts);
        timers[i]->due = wall_add(fixture->now, random_below(random, 5000));
        timers[i]->retry.attempts_max = 1;
    }
    if (random_below(random, 8) == 0)
        memory_storage_fail_commit(fixture->storage, 1, ERROR_IO);
    fixture_command(fixture, &command);
    fixture_carry_out(fixture);
    for (size_t i = 0; i < count; i++)
        if (!created[i].error && random_below(random, 4) == 0)
            answered(fixture, tenant,
                     (struct command){.kind = COMMAND_CANCEL, .id = created[i].id});
    fixture_carry_out(fixture);
    if (random_below(random, 4) == 0)
        fixture_advance_to(fixture, fixture->now.ms - START.ms + random_below(random, 2000));
    while (fixture_first_out(fixture)) {
        struct timer_id id = fixture_first_out(fixture)->timer->id;
        bool is_dead = random_below(random, 2);

        fixture_answer(
            fixture, fixture_first_out(fixture),
            (struct delivery_outcome){.result = is_dead ? DELIVERY_FAILED : DELIVERY_DONE});
        fixture_advance_to(fixture,
                           fixture->now.ms - START.ms + 200); /* for what is written again */
        for (size_t i = 0; is_dead && i < TENANTS; i++)
            answered(fixture, i,
                     (struct command){
                         .kind = COMMAND_REDRIVE, .id = id, .tenant_pending_max = pending_max});
        fixture_carry_out(fixture);
    }
}

/* proves: tenant-pending */
static void test_exactly_so_many(void **state)
{
    const uint64_t seed = testing_seed();

    (void)state;
    struct engine_fixture fixture;
    struct random random = random_seeded(seed);
    struct tenant_counts tenant_counts;
    bed_init_counted(&fixture, &tenant_counts);
    struct tenant_counts counted;
    tenant_counts_init(&counted);
    uint64_t most = 0;
    for (int step = 0; step < 1500; step++) {
        live_on(&fixture, &random, PENDING_MAX);
        if (random_below(&random, 50) == 0) { /* it dies, and begins with what the storage says */
            engine_destroy(fixture.engine);
            list_init(&fixture.out);
            memory_storage_fail_commit(fixture.storage, 0,
                                       ERROR_NONE); /* if none came to meet it */
            open_counted(&fixture, &tenant_counts);
        }
        fixture_advance_to(&fixture, fixture.now.ms - START.ms + 200);
        tenant_counts_clear(&counted);
        assert_int_equal(storage_load_tenant_counts(fixture.storage, 0, &counted, NULL),
                         ERROR_NONE);
        for (size_t i = 0; i < TENANTS; i++) {
            uint64_t count = tenant_counts_count(&counted, bytes_of(names[i]));

            assert_int_equal(tenant_counts_count(&tenant_counts, bytes_of(names[i])), count);
            assert_true(count <= PENDING_MAX);
            most = count > most ? count : most;
        }
    }
    assert_int_equal(most, PENDING_MAX); /* the limit was met */
    tenant_counts_deinit(&counted);
    bed_deinit_counted(&fixture, &tenant_counts);
}

/* proves: tenant-pending */
static void test_at_the_limit_and_beyond(void **state)
{
    (void)state;
    struct tenant_counts tenant_counts;
    struct engine_fixture fixture;
    bed_init_counted(&fixture, &tenant_counts);
    for (int i = 0; i < 2; i++) {
        fixture_create(&fixture, "http://a.example/", HOUR_MS,
                       NULL); /* the unnamed one's do not count */
        struct command_created created =
            tenant_make(&fixture, 0, COMMAND_CREATE, HOUR_MS, 1, "http://a.example/");
        assert_true(!created.error && created.existed == i); /* one that is there needs no room */
    }
    assert_int_equal(tenant_make(&fixture, 1, COMMAND_PUT, HOUR_MS, 1, "http://a.example/").error,
                     ERROR_NONE);
    assert_int_equal(tenant_make(&fixture, 1, COMMAND_PUT, HOUR_MS, 1, "http://b.example/").error,
                     ERROR_NONE);
    fixture_close(&fixture);
    open_counted(&fixture, &tenant_counts);
    assert_int_equal(tenant_counts_count(&tenant_counts, BYTES("shop")), 1);
    bed_deinit_counted(&fixture, &tenant_counts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_and_keys),    cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_shares_of_all),   cmocka_unit_test(test_pages_of_others),
        cmocka_unit_test(test_queues),          cmocka_unit_test(test_names_that_others_have),
        cmocka_unit_test(test_exactly_so_many), cmocka_unit_test(test_at_the_limit_and_beyond),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
