/*
 * Goal: each row of a source is taken exactly once and in the order of its key, whatever fails
 * between. Method: a reader as source/ has one, over an engine that crashes, whose batches fail and
 * whose partition moves to another node by a copy; small histories, and a random one compared with
 * a table of what each row asks.
 */
#include "engine/engine_testing.h"
#include "engine/ledger.h"
#include "seed.h"

#include <stdio.h>

enum { SOURCE = 77, KEYS = 4 };

/* What a reader has of a row. */
struct row_request {
    struct command command;
    struct command_created created;
    struct timer *timer;
    char key[8];
};

static const char *const row_targets[] = {"queue:a", "queue:b"};

/* Sets up the command of a row: a create for an even number, a cancel for an odd one. */
static void row_prepare(struct row_request *request, struct command_origin origin, bool is_cancel,
                        unsigned key)
{
    *request = (struct row_request){.created.error = ERROR_NONE};
    snprintf(request->key, sizeof(request->key), "k%u", key);
    request->command = (struct command){.origin = origin};
    if (is_cancel) {
        request->command.kind = COMMAND_CANCEL;
        request->command.name = bytes_of(request->key);
        return;
    }
    char payload[24];
    snprintf(payload, sizeof(payload), "%llu", (unsigned long long)origin.row);
    const struct timer_texts texts = {.target = bytes_of(row_targets[origin.row % 2]),
                                      .payload = bytes_of(payload),
                                      .key = bytes_of(request->key)};
    request->timer = timer_alloc(&texts);
    request->timer->due = (struct wall){START.ms + HOUR_MS};
    request->command.kind = COMMAND_CREATE;
    request->command.timers = &request->timer;
    request->command.results = &request->created;
    request->command.timer_count = 1;
}

static enum error_code row_ask(struct engine_fixture *fixture, struct command_origin origin,
                               bool is_cancel, unsigned key)
{
    struct row_request request;

    row_prepare(&request, origin, is_cancel, key);
    fixture_command(fixture, &request.command);
    fixture_carry_out(fixture);
    return request.command.error;
}

static enum error_code ledger_ask(struct engine_fixture *fixture, uint64_t epoch,
                                  struct command_ledger *ret_ledger)
{
    struct command command = {.kind = COMMAND_LEDGER, .ledger = ret_ledger};

    *ret_ledger = (struct command_ledger){.source = SOURCE, .epoch = epoch};
    fixture_command(fixture, &command);
    fixture_carry_out(fixture);
    return command.error;
}

static void fixture_crash(struct engine_fixture *fixture)
{
    engine_destroy(fixture->engine);
    fixture_open(fixture);
}

/* Has a node that copied the partition open it. */
static void fixture_move(struct engine_fixture *fixture)
{
    struct storage_export export = {.rows_max = 50, .bytes_max = 4096};
    struct storage *copy = memory_storage_create(1);
    struct storage_place place = {.next = 0};
    struct buffer body;

    buffer_init(&body);
    while (!export.is_done) {
        buffer_clear(&body);
        assert_int_equal(storage_export(fixture->storage, &export, &body, NULL), ERROR_NONE);
        place.next++;
        if (body.size)
            assert_int_equal(storage_apply(copy, 0, buffer_bytes(&body), &place, NULL), ERROR_NONE);
    }
    buffer_deinit(&body);
    engine_destroy(fixture->engine);
    storage_close(fixture->storage);
    fixture->storage = copy;
    fixture_open(fixture);
}

/* Rows of a batch, also those that changed nothing, are known after a crash; the next batch
 * replaces them. */
static void test_rows_are_known_after_a_crash(void **state)
{
    struct engine_fixture fixture;
    struct command_ledger told;

    (void)state;
    fixture_init(&fixture);
    assert_int_equal(ledger_ask(&fixture, 1, &told), ERROR_NONE);
    assert_int_equal(told.count, 0);
    free(told.rows);
    struct command_origin origin = {.source = SOURCE, .epoch = 1, .batch = 1, .row = 4};
    assert_int_equal(row_ask(&fixture, origin, false, 0), ERROR_NONE);
    origin.row = 6;
    assert_int_equal(row_ask(&fixture, origin, false, 0), ERROR_KEY_IN_USE);
    origin.row = 7;
    assert_int_equal(row_ask(&fixture, origin, true, 0), ERROR_NONE);
    fixture_crash(&fixture);
    assert_int_equal(ledger_ask(&fixture, 2, &told), ERROR_NONE);
    assert_int_equal(told.count, 3);
    assert_int_equal(told.batch, 1);
    assert_true(told.rows[0].row == 4 && told.rows[0].error == ERROR_NONE);
    assert_true(told.rows[1].row == 6 && told.rows[1].error == ERROR_KEY_IN_USE);
    assert_true(told.rows[2].row == 7 && told.rows[2].error == ERROR_NONE);
    free(told.rows);
    origin = (struct command_origin){.source = SOURCE, .epoch = 2, .batch = 9, .row = 8};
    assert_int_equal(row_ask(&fixture, origin, false, 0), ERROR_NONE);
    fixture_crash(&fixture);
    assert_int_equal(ledger_ask(&fixture, 3, &told), ERROR_NONE);
    assert_true(told.count == 1 && told.batch == 9 && told.rows[0].row == 8);
    free(told.rows);
    fixture_deinit(&fixture);
}

/* A command of an earlier reader is refused, and one that was admitted ends before the later reader
 * is told what is taken. */
static void test_an_earlier_reader_is_refused(void **state)
{
    struct engine_fixture fixture;
    struct row_request late;
    struct command_ledger told;
    const struct command_origin first = {.source = SOURCE, .epoch = 1, .batch = 1, .row = 2};
    struct command_ledger asked = {.source = SOURCE, .epoch = 2};
    struct command command = {.kind = COMMAND_LEDGER, .ledger = &asked};

    (void)state;
    fixture_init(&fixture);
    assert_int_equal(row_ask(&fixture, first, false, 0), ERROR_VERSION_MISMATCH);
    assert_int_equal(ledger_ask(&fixture, 1, &told), ERROR_NONE);
    free(told.rows);
    row_prepare(&late, first, false, 0);
    turn_submit(fixture.engine, fixture.now, &late.command); /* its look-up waits for a read */
    turn_submit(fixture.engine, fixture.now, &command);
    assert_null(engine_take_batch(fixture.engine));
    assert_int_equal(row_ask(&fixture, first, false, 1), ERROR_VERSION_MISMATCH);
    fixture_carry_out(&fixture);
    assert_int_equal(late.command.error, ERROR_NONE);
    assert_int_equal(command.error, ERROR_NONE);
    assert_true(asked.count == 1 && asked.rows[0].row == 2);
    free(asked.rows);
    assert_int_equal(ledger_ask(&fixture, 1, &told), ERROR_VERSION_MISMATCH);
    fixture_crash(&fixture);
    assert_int_equal(row_ask(&fixture, first, false, 2), ERROR_VERSION_MISMATCH);
    fixture_deinit(&fixture);
}

/* A part of what a row asks is not noted, with or without a write, and a later reader fences it. */
static void test_a_part_of_a_row(void **state)
{
    struct engine_fixture fixture;
    struct command_ledger told;
    const struct command_origin part = {.source = SOURCE, .epoch = 1, .batch = 1, .row = 0};

    (void)state;
    fixture_init(&fixture);
    assert_int_equal(ledger_ask(&fixture, 1, &told), ERROR_NONE);
    free(told.rows);
    assert_int_equal(row_ask(&fixture, part, false, 0), ERROR_NONE);
    assert_int_equal(row_ask(&fixture, part, true, 1), ERROR_NOT_FOUND);
    assert_int_equal(ledger_ask(&fixture, 2, &told), ERROR_NONE);
    assert_int_equal(told.count, 0);
    free(told.rows);
    assert_int_equal(row_ask(&fixture, part, true, 0), ERROR_VERSION_MISMATCH);
    fixture_deinit(&fixture);
}

/* A row whose batch fails is not taken, and no batch after it may say so. */
static void test_a_failed_batch_takes_nothing(void **state)
{
    struct engine_fixture fixture;
    struct row_request rows[2];
    struct command_ledger told;

    (void)state;
    fixture_init(&fixture);
    assert_int_equal(ledger_ask(&fixture, 1, &told), ERROR_NONE);
    free(told.rows);
    struct storage_batch *batch = NULL;
    for (unsigned i = 0; i < 2; i++) {
        struct engine_read *read;

        row_prepare(&rows[i], (struct command_origin){SOURCE, 1, 1, 2 + 2 * i, false}, false, i);
        turn_submit(fixture.engine, fixture.now, &rows[i].command);
        while ((read = engine_take_read(fixture.engine))) {
            engine_read_perform(read, fixture.storage);
            turn_read_done(fixture.engine, fixture.now, read);
        }
        if (i == 0)
            batch = engine_take_batch(fixture.engine);
    }
    assert_non_null(batch);
    assert_null(engine_take_batch(fixture.engine));
    batch->result = ERROR_IO;
    turn_committed(fixture.engine, fixture.now, batch);
    fixture_carry_out(&fixture);
    assert_int_equal(rows[0].command.error, ERROR_IO);
    assert_int_equal(rows[1].command.error, ERROR_NONE);
    fixture_crash(&fixture);
    assert_int_equal(ledger_ask(&fixture, 2, &told), ERROR_NONE);
    assert_true(told.count == 1 && told.rows[0].row == 4);
    free(told.rows);
    fixture_deinit(&fixture);
}

/* A damaged ledger makes no engine; one of a full house has room for a further source. */
static void test_ledger_limits(void **state)
{
    struct engine_fixture fixture;
    struct ledger *ledger = ledger_create(BYTES("\1\1too short"));

    (void)state;
    assert_null(ledger);
    assert_null(ledger_create(BYTES("\2")));
    fixture_init(&fixture);
    for (uint64_t i = 1; i <= LEDGER_SOURCES_MAX + 1; i++) {
        struct command_ledger told = {.source = i, .epoch = 1};
        struct command command = {.kind = COMMAND_LEDGER, .ledger = &told};

        fixture_command(&fixture, &command);
        fixture_carry_out(&fixture);
        assert_int_equal(command.error, ERROR_NONE);
        free(told.rows);
    }
    fixture_crash(&fixture);
    const struct command_origin dropped = {.source = 1, .epoch = 1, .batch = 1, .row = 2};
    const struct command_origin kept = {.source = 2, .epoch = 1, .batch = 1, .row = 2};
    assert_int_equal(row_ask(&fixture, dropped, false, 0), ERROR_VERSION_MISMATCH);
    assert_int_equal(row_ask(&fixture, kept, false, 0), ERROR_NONE);
    fixture_deinit(&fixture);
}

/* ---- a random history ---- */

/* The outbox: rows 1 to `count`, some of which are deleted; and the order in which rows acted. */
struct outbox {
    struct row {
        bool is_cancel, is_deleted;
        unsigned key;
    } rows[400];
    uint64_t count, epoch, batch;
    bool has_reader;
};

static void outbox_forget(struct outbox *outbox, const struct command_ledger *told)
{
    for (size_t i = 0; i < told->count; i++)
        outbox->rows[told->rows[i].row].is_deleted = true;
}

/* Begins the row after `last`, whose batch is written or not; the answer is lost. */
static void outbox_begin_next(struct outbox *outbox, struct engine_fixture *fixture, uint64_t last)
{
    struct row_request request;
    struct engine_read *read;

    while (++last <= outbox->count && outbox->rows[last].is_deleted) {
    }
    if (last > outbox->count)
        return;
    row_prepare(&request,
                (struct command_origin){SOURCE, outbox->epoch, outbox->batch, last, false},
                outbox->rows[last].is_cancel, outbox->rows[last].key);
    turn_submit(fixture->engine, fixture->now, &request.command);
    while ((read = engine_take_read(fixture->engine))) {
        engine_read_perform(read, fixture->storage);
        turn_read_done(fixture->engine, fixture->now, read);
    }
    struct storage_batch *batch = engine_take_batch(fixture->engine);
    assert_non_null(batch);
    if (last % 2)
        assert_int_equal(storage_write(fixture->storage, &batch, 1, NULL), ERROR_NONE);
    batch->result = ERROR_IO; /* lets the batch be freed */
    turn_committed(fixture->engine, fixture->now, batch);
    while (engine_take_reply(fixture->engine)) {
    }
}

/* Takes up to `limit` rows, one after another, and deletes them unless a crash comes before. NULL
 * as `crash` means none. */
static void outbox_turn(struct outbox *outbox, struct engine_fixture *fixture, size_t limit,
                        void (*crash)(struct engine_fixture *))
{
    struct command_ledger told;
    uint64_t taken[8] = {0};
    size_t count = 0;

    if (!outbox->has_reader) {
        assert_int_equal(ledger_ask(fixture, ++outbox->epoch, &told), ERROR_NONE);
        outbox_forget(outbox, &told);
        free(told.rows);
        outbox->has_reader = true;
    }
    outbox->batch++;
    for (uint64_t i = 1; i <= outbox->count && count < limit; i++) {
        const struct row *row = &outbox->rows[i];

        if (row->is_deleted)
            continue;
        const enum error_code error = row_ask(
            fixture, (struct command_origin){SOURCE, outbox->epoch, outbox->batch, i, false},
            row->is_cancel, row->key);
        /* each create finds its key free, because cancels and creates of a key alternate */
        assert_int_equal(error, ERROR_NONE);
        taken[count++] = i;
    }
    for (size_t i = 0; !crash && i < count; i++)
        outbox->rows[taken[i]].is_deleted = true;
    if (crash) {
        outbox_begin_next(outbox, fixture, count ? taken[count - 1] : 0);
        crash(fixture);
        outbox->has_reader = false;
    }
}

static void test_random_crashes(void **state)
{
    const uint64_t seed = testing_seed();
    struct random random = random_seeded(seed);
    struct outbox outbox = {.count = 0};
    struct engine_fixture fixture;
    bool is_live[KEYS] = {false};

    (void)state;
    fixture_init(&fixture);
    while (outbox.count < 300) {
        for (uint64_t n = random_below(&random, 4); n > 0; n--) {
            const unsigned key = (unsigned)random_below(&random, KEYS);

            outbox.rows[++outbox.count] = (struct row){.is_cancel = is_live[key], .key = key};
            is_live[key] = !is_live[key];
        }
        void (*const crashes[])(struct engine_fixture *) = {fixture_crash, fixture_move};
        const uint64_t drawn = random_below(&random, 6);

        outbox_turn(&outbox, &fixture, 1 + random_below(&random, 8),
                    drawn < 2 ? crashes[drawn] : NULL);
    }
    while (!outbox.rows[outbox.count].is_deleted)
        outbox_turn(&outbox, &fixture, 8, NULL);
    for (unsigned key = 0; key < KEYS; key++) {
        char name[8];
        snprintf(name, sizeof(name), "k%u", key);
        struct command command = {.kind = COMMAND_GET, .name = bytes_of(name)};

        fixture_command(&fixture, &command);
        fixture_carry_out(&fixture);
        assert_int_equal(command.error, is_live[key] ? ERROR_NONE : ERROR_GONE);
    }
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_known_after_a_crash),
        cmocka_unit_test(test_an_earlier_reader_is_refused),
        cmocka_unit_test(test_a_part_of_a_row),
        cmocka_unit_test(test_a_failed_batch_takes_nothing),
        cmocka_unit_test(test_ledger_limits),
        cmocka_unit_test(test_random_crashes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
