/*
 * Paused timers, queues and targets: they keep nothing waiting, survive restarts, and go on as
 * after an outage. Each
 * test sets up a small history; tests/world pauses and resumes at random.
 */
#include "engine/engine_testing.h"

#include "timer/queue_target.h"

static enum error_code pause_until(struct engine_fixture *fixture, const struct timer_id *id,
                                   struct wall until, const char *note)
{
    struct command command = {.kind = COMMAND_PAUSE,
                              .id = *id,
                              .patch = timer_alloc(&(struct timer_texts){.note = bytes_of(note)})};

    command.patch->at = until;
    fixture_command(fixture, &command);
    if (!command.error) {
        assert_int_equal(command.timer->state, TIMER_PAUSED);
        assert_true(bytes_equal(command.timer->texts.note, bytes_of(note)));
    }
    fixture_carry_out(fixture);
    return command.error;
}

static struct engine_stats pause_stats(const struct engine_fixture *fixture)
{
    struct engine_stats stats;

    engine_stats(fixture->engine, &stats);
    return stats;
}

static enum timer_state pause_state(struct engine_fixture *fixture, const struct timer_id *id)
{
    enum timer_state state = TIMER_DEAD;

    fixture_ask(fixture, COMMAND_GET, id, 0, &state);
    return state;
}

/* Goal: what is paused is not delivered, over restarts and however long; resumed, it is delivered
 * at once, as it was due. Method: a day beyond the due time, with a restart. */
/* proves: pause, resume */
static void a_paused_timer_waits_for_its_resumption(void **state)
{
    struct engine_fixture fixture;
    struct timer_id id;

    (void)state;
    fixture_init(&fixture);
    fixture_create(&fixture, "http://a.example/", 5000, &id);
    assert_int_equal(pause_until(&fixture, &id, STORAGE_PAUSED_AT, "deploy"), ERROR_NONE);
    fixture_advance_to(&fixture, 24 * HOUR_MS);
    fixture_close(&fixture);
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 48 * HOUR_MS);
    assert_int_equal(fixture.delivered_count, 0);
    assert_int_equal(pause_state(&fixture, &id), TIMER_PAUSED);
    assert_int_equal(fixture_ask(&fixture, COMMAND_RESUME, &id, 3, NULL), ERROR_VERSION_MISMATCH);
    assert_int_equal(fixture_ask(&fixture, COMMAND_RESUME, &id, 2, NULL), ERROR_NONE);
    assert_int_equal(fixture.delivered_count, 1);
    assert_true(fixture_first_out(&fixture)->timer->due.ms == START.ms + 5000);
    assert_int_equal(fixture_first_out(&fixture)->timer->texts.note.size, 0);
    assert_int_equal(pause_stats(&fixture).resumed, 1);
    fixture_deinit(&fixture);
}

/* Goal: thousands of overdue paused timers keep neither watermark nor memory. Method: they are
 * paused before they are due, and the watermark passes them. */
/* proves: pause */
static void paused_timers_hold_nothing_up(void **state)
{
    enum { PAUSED = 2000 };
    struct engine_fixture fixture;
    struct timer_id ids[PAUSED];

    (void)state;
    fixture_init(&fixture);
    for (size_t i = 0; i < PAUSED; i++)
        fixture_create(&fixture, "http://a.example/", 1000, &ids[i]);
    for (size_t i = 0; i < PAUSED; i++)
        assert_int_equal(pause_until(&fixture, &ids[i], STORAGE_PAUSED_AT, ""), ERROR_NONE);
    fixture_advance_to(&fixture, HOUR_MS);
    assert_int_equal(pause_stats(&fixture).in_memory, 0);
    assert_int_equal(pause_stats(&fixture).near_bytes, 0);
    assert_int_equal(pause_stats(&fixture).pending, PAUSED);
    assert_true(pause_stats(&fixture).watermark.ms > START.ms + 1000);
    fixture_deinit(&fixture);
}

/* Goal: a pause ends at its time by itself, to the millisecond. Method: within the window and
 * beyond it, before and after the due time. */
/* proves: pause-until */
static void a_pause_ends_at_its_time(void **state)
{
    static const uint64_t untils_ms[] = {2000, 9000, HOUR_MS, 3 * HOUR_MS};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const uint64_t due_ms = 2 * HOUR_MS, until_ms = untils_ms[i];
        const uint64_t fires_ms = until_ms > due_ms ? until_ms : due_ms;
        struct engine_fixture fixture;
        struct timer_id id;

        fixture_init(&fixture);
        fixture_create(&fixture, "http://a.example/", due_ms, &id);
        pause_until(&fixture, &id, (struct wall){START.ms + until_ms}, "");
        fixture_advance_to(&fixture, until_ms - 1);
        assert_int_equal(pause_state(&fixture, &id), TIMER_PAUSED);
        fixture_advance_to(&fixture, until_ms);
        assert_true(pause_state(&fixture, &id) != TIMER_PAUSED);
        if (fires_ms > until_ms) {
            fixture_advance_to(&fixture, fires_ms - 1);
            assert_int_equal(fixture.delivered_count, 0);
        }
        fixture_advance_to(&fixture, fires_ms);
        assert_int_equal(fixture.delivered_count, 1);
        fixture_deinit(&fixture);
    }
}

/* Goal: a change of a paused timer changes it and leaves it paused; a cancel ends it, and its final
 * state is told and trimmed like any other. Method: one change after the other, and then time. */
/* proves: pause-changes */
static void changes_leave_it_paused(void **state)
{
    struct engine_fixture fixture;
    struct timer_id id;

    (void)state;
    fixture_prepare(&fixture);
    fixture.options.retain_ms = HOUR_MS;
    fixture_open(&fixture);
    fixture_create(&fixture, "http://a.example/", 5000, &id);
    pause_until(&fixture, &id, STORAGE_PAUSED_AT, "");
    assert_int_equal(fixture_ask(&fixture, COMMAND_PATCH, &id, 2, NULL), ERROR_NONE);
    assert_int_equal(fixture_ask(&fixture, COMMAND_FIRE, &id, 0, NULL), ERROR_PAUSED);
    struct command touch = {.kind = COMMAND_TOUCH,
                            .id = id,
                            .patch_fields = PATCH_DUE,
                            .patch = fixture_timer("http://unused.example/", 9 * HOUR_MS)};
    fixture_command(&fixture, &touch);
    assert_int_equal(touch.timer->state, TIMER_PAUSED);
    assert_true(touch.timer->due.ms == START.ms + 9 * HOUR_MS);
    fixture_carry_out(&fixture);
    fixture_advance_to(&fixture, 10 * HOUR_MS);
    assert_int_equal(fixture.delivered_count, 0);
    assert_int_equal(fixture_ask(&fixture, COMMAND_CANCEL, &id, 4, NULL), ERROR_NONE);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, NULL), ERROR_GONE);
    fixture_advance_to(&fixture, 11 * HOUR_MS - 1000);
    assert_int_equal(fixture_ask(&fixture, COMMAND_GET, &id, 0, NULL), ERROR_GONE);
    fixture_advance_to(&fixture, 13 * HOUR_MS);
    fixture_advance_to(&fixture, 15 * HOUR_MS);
    const struct storage_scan scan = {
        .kind = STORAGE_SCAN_ALL, .to = {WALL_NEVER, 0}, .rows_max = 9, .bytes_max = SIZE_MAX};
    struct storage_page page;
    assert_int_equal(storage_scan(fixture.storage, &scan, &page, NULL), ERROR_NONE);
    assert_int_equal(page.count, 0);
    storage_page_free(&page);
    fixture_deinit(&fixture);
}

/* Goal: an attempt that was made counts after a pause too, and a delivery that has begun cannot be
 * paused. */
/* proves: pause, pause-refused */
static void attempts_are_kept(void **state)
{
    struct engine_fixture fixture;
    struct timer_id id;

    (void)state;
    fixture_init(&fixture);
    fixture_create(&fixture, "http://a.example/", 0, &id);
    fixture_advance_to(&fixture, 1);
    assert_int_equal(pause_until(&fixture, &id, STORAGE_PAUSED_AT, ""), ERROR_ALREADY_FIRING);
    fixture_answer_all(&fixture, DELIVERY_FAILED);
    assert_int_equal(pause_until(&fixture, &id, STORAGE_PAUSED_AT, ""), ERROR_NONE);
    fixture_advance_to(&fixture, HOUR_MS);
    assert_int_equal(fixture.delivered_count, 1);
    assert_int_equal(fixture_ask(&fixture, COMMAND_RESUME, &id, 0, NULL), ERROR_NONE);
    assert_int_equal(fixture_first_out(&fixture)->attempt, 2);
    fixture_deinit(&fixture);
}

/* Goal: while the flag is set nothing is handed out, neither sent nor pulled; then everything is.
 * Method: a webhook and an item, due before and during. */
/* proves: maintenance */
static void maintenance_holds_everything_back(void **state)
{
    struct engine_fixture fixture;
    atomic_bool is_held;

    (void)state;
    atomic_init(&is_held, true);
    fixture_prepare(&fixture);
    fixture.options.is_held = &is_held;
    fixture_open(&fixture);
    fixture_create(&fixture, "http://a.example/", 0, NULL);
    fixture_create(&fixture, "queue:q", 1000, NULL);
    fixture_advance_to(&fixture, 5000);
    struct bytes woken;
    assert_true(engine_take_woken(fixture.engine, &woken));
    assert_null(turn_pull(fixture.engine, fixture.now, woken, QUEUE_PRIORITY_DEFAULT));
    assert_int_equal(fixture.delivered_count, 0);
    assert_true(engine_wake_at(fixture.engine).ms > fixture.now.ms);
    atomic_store(&is_held, false);
    assert_true(engine_wake_at(fixture.engine).ms <= fixture.now.ms);
    fixture_advance_to(&fixture, 5000);
    assert_int_equal(fixture.delivered_count, 1);
    assert_true(engine_take_woken(fixture.engine, &woken));
    struct delivery *pulled = turn_pull(fixture.engine, fixture.now, woken, QUEUE_PRIORITY_DEFAULT);
    assert_non_null(pulled);
    list_push(&fixture.out, &pulled->link);
    fixture_deinit(&fixture);
}

/* ---- queues and targets ---- */

/* A fixture whose engine reads a board of pauses. */
static void board_open(struct engine_fixture *fixture, struct target_pause_board *board)
{
    target_pause_board_init(board);
    target_pause_board_show(board, target_pauses_create());
    fixture_prepare(fixture);
    fixture->options.pauses = board;
    fixture->options.broker_inflight_max = 2;
    fixture_open(fixture);
}

static void board_close(struct engine_fixture *fixture, struct target_pause_board *board)
{
    fixture_deinit(fixture);
    target_pause_board_deinit(board);
}

/* Until `until_ms` after the start; 0: until it is resumed. */
static void board_pause(struct target_pause_board *board, const char *tenant, const char *name,
                        uint64_t until_ms)
{
    const struct target_pause pause = {.tenant = bytes_of(tenant),
                                       .name = bytes_of(name),
                                       .since = START,
                                       .until = until_ms ? (struct wall){START.ms + until_ms}
                                                         : WALL_NEVER};
    uint64_t version;
    struct target_pauses *next, *last = target_pause_board_take(board, &version);

    assert_int_equal(target_pauses_put(last, START, &pause, &next), ERROR_NONE);
    target_pause_board_show(board, next);
    target_pauses_leave(last);
}

static void board_resume(struct target_pause_board *board, const char *tenant, const char *name)
{
    uint64_t version;
    struct target_pauses *next, *last = target_pause_board_take(board, &version);

    assert_int_equal(target_pauses_remove(last, START, bytes_of(tenant), bytes_of(name), &next),
                     ERROR_NONE);
    target_pause_board_show(board, next);
    target_pauses_leave(last);
}

static void board_create(struct engine_fixture *fixture, const char *tenant, const char *target,
                         uint64_t due_ms, struct timer_id *ret_id)
{
    struct timer_texts texts = {
        .target = bytes_of(target), .tenant = bytes_of(tenant), .payload = BYTES("{}")};
    struct timer *timer = timer_alloc(&texts);
    struct command_created created;
    struct command command = {.kind = COMMAND_CREATE,
                              .tenant = bytes_of(tenant),
                              .timers = &timer,
                              .results = &created,
                              .timer_count = 1};

    timer->due = (struct wall){START.ms + due_ms};
    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    if (ret_id)
        *ret_id = created.id;
    fixture_carry_out(fixture);
}

static size_t board_out_of(const struct engine_fixture *fixture, const char *tenant)
{
    size_t count = 0;

    LIST_FOR_EACH (&fixture->out, link)
        count += bytes_equal(list_item(link, struct delivery, link)->timer->texts.tenant,
                             bytes_of(tenant));
    return count;
}

/* Goal: nothing goes to a target that is paused, over a restart of the engine too, and what is
 * under way ends; other targets and other tenants go on; resumed, it gets all. Method: one target
 * of two tenants. */
/* proves: target-pause, tenant-isolation */
static void a_paused_target_gets_nothing(void **state)
{
    struct engine_fixture fixture;
    struct target_pause_board board;

    (void)state;
    board_open(&fixture, &board);
    board_create(&fixture, "shop", "https://a.example/1", 0, NULL);
    fixture_advance_to(&fixture, 1);
    assert_int_equal(board_out_of(&fixture, "shop"), 1);
    board_pause(&board, "shop", "https://a.example", 0);
    assert_true(engine_wake_at(fixture.engine).ms <= fixture.now.ms);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    board_create(&fixture, "shop", "HTTPS://A.example:443/2", 1000, NULL);
    board_create(&fixture, "shop", "https://b.example/", 1000, NULL);
    board_create(&fixture, "bank", "https://a.example/", 1000, NULL);
    fixture_advance_to(&fixture, HOUR_MS);
    assert_int_equal(board_out_of(&fixture, "shop"), 1);
    assert_int_equal(board_out_of(&fixture, "bank"), 1);
    assert_true(engine_wake_at(fixture.engine).ms > fixture.now.ms);
    struct engine_stats stats = pause_stats(&fixture);
    assert_int_equal(stats.ready[OVERDUE_WEBHOOK], 1);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    stats = pause_stats(&fixture);
    assert_true(stats.oldest_overdue[OVERDUE_WEBHOOK].ms == 0); /* it waits on purpose */
    fixture_close(&fixture);
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 2 * HOUR_MS);
    assert_null(fixture_first_out(&fixture));
    board_resume(&board, "shop", "https://a.example");
    assert_true(engine_wake_at(fixture.engine).ms <= fixture.now.ms);
    fixture_advance_to(&fixture, 2 * HOUR_MS);
    assert_int_equal(board_out_of(&fixture, "shop"), 1);
    board_close(&fixture, &board);
}

static bool board_is_woken(struct engine_fixture *fixture)
{
    struct bytes woken;
    bool is_any = false;

    while (engine_take_woken(fixture->engine, &woken))
        is_any = true;
    return is_any;
}

/* Goal: workers get nothing of a queue that is paused, of any priority, and are told when it goes
 * on; a queue of that name of another tenant goes on. */
/* proves: queue-pause, tenant-isolation */
static void a_paused_queue_gives_nothing(void **state)
{
    struct engine_fixture fixture;
    struct target_pause_board board;
    struct wall due;

    (void)state;
    board_open(&fixture, &board);
    board_create(&fixture, "shop", "queue:q", 0, NULL);
    board_create(&fixture, "shop", "queue:q?priority=9", 0, NULL);
    board_create(&fixture, "bank", "queue:q", 0, NULL);
    fixture_advance_to(&fixture, 1);
    assert_true(board_is_woken(&fixture));
    board_pause(&board, "shop", "queue:q", 0);
    fixture_advance_to(&fixture, 2);
    for (unsigned priority = 0; priority < QUEUE_PRIORITY_COUNT; priority++) {
        assert_false(engine_peek(fixture.engine, BYTES("shop/q"), priority, &due));
        assert_null(turn_pull(fixture.engine, fixture.now, BYTES("shop/q"), priority));
    }
    struct delivery *pulled =
        turn_pull(fixture.engine, fixture.now, BYTES("bank/q"), QUEUE_PRIORITY_DEFAULT);
    assert_non_null(pulled);
    list_push(&fixture.out, &pulled->link);
    board_create(&fixture, "shop", "queue:q", 3, NULL);
    fixture_advance_to(&fixture, HOUR_MS);
    assert_false(board_is_woken(&fixture));
    board_resume(&board, "shop", "queue:q");
    fixture_advance_to(&fixture, HOUR_MS);
    assert_true(board_is_woken(&fixture));
    for (size_t i = 0; i < 3; i++) {
        pulled =
            turn_pull(fixture.engine, fixture.now, BYTES("shop/q"), i ? QUEUE_PRIORITY_DEFAULT : 9);
        assert_non_null(pulled);
        list_push(&fixture.out, &pulled->link);
    }
    board_close(&fixture, &board);
}

/* Goal: a pause ends at its time by itself, of webhooks and of a queue, to the millisecond; a clock
 * that steps back before it begins it again. */
/* proves: target-pause-until */
static void a_pause_of_a_target_ends_at_its_time(void **state)
{
    struct engine_fixture fixture;
    struct target_pause_board board;
    struct timer_id id;

    (void)state;
    board_open(&fixture, &board);
    board_pause(&board, "", "https://a.example", HOUR_MS);
    board_pause(&board, "", "queue:q", HOUR_MS);
    board_create(&fixture, "", "https://a.example/", 0, &id);
    board_create(&fixture, "", "queue:q", 0, NULL);
    fixture_advance_to(&fixture, HOUR_MS - 1);
    assert_null(fixture_first_out(&fixture));
    assert_false(board_is_woken(&fixture));
    struct command command = {.kind = COMMAND_EXPLAIN, .id = id};
    fixture_command(&fixture, &command);
    assert_int_equal(command.explained.reason, WAIT_PAUSED);
    assert_true(command.explained.until.ms == START.ms + HOUR_MS);
    assert_int_equal(command.explained.lateness.ms[LATENESS_PAUSED], HOUR_MS - 1);
    fixture_carry_out(&fixture);
    assert_true(engine_wake_at(fixture.engine).ms == START.ms + HOUR_MS);
    fixture_advance_to(&fixture, HOUR_MS);
    assert_int_equal(fixture.delivered_count, 1);
    assert_true(board_is_woken(&fixture));
    fixture_answer_all(&fixture, DELIVERY_DONE);
    fixture_advance_to(&fixture, HOUR_MS - 500);
    board_create(&fixture, "", "https://a.example/", 0, NULL);
    assert_null(turn_pull(fixture.engine, fixture.now, BYTES("q"), QUEUE_PRIORITY_DEFAULT));
    fixture_advance_to(&fixture, HOUR_MS - 1);
    assert_null(fixture_first_out(&fixture));
    fixture_advance_to(&fixture, HOUR_MS);
    assert_int_equal(fixture.delivered_count, 2);
    assert_true(board_is_woken(&fixture));
    board_close(&fixture, &board);
}

static struct explained board_explain(struct engine_fixture *fixture, const struct timer_id *id)
{
    struct command command = {.kind = COMMAND_EXPLAIN, .id = *id};

    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(fixture);
    assert_int_equal(command.explained.place, PLACE_QUEUED);
    return command.explained;
}

/* Goal: an explanation names the end of what holds a timer back longest, and none where none is
 * known. Method: a target that is paused until a time, and a flow, maintenance and a stop beside
 * it. */
/* proves: explain-waiting, target-pause-until */
static void an_explanation_names_the_last_end(void **state)
{
    struct engine_fixture fixture;
    struct target_pause_board board;
    struct timer_id id;
    atomic_bool is_held;

    (void)state;
    atomic_init(&is_held, false);
    target_pause_board_init(&board);
    target_pause_board_show(&board, target_pauses_create());
    fixture_prepare(&fixture);
    fixture.options.pauses = &board;
    fixture.options.is_held = &is_held;
    fixture_open(&fixture);
    board_pause(&board, "", "https://a.example", HOUR_MS);
    struct timer *timer = timer_alloc(
        &(struct timer_texts){.target = BYTES("https://a.example/"), .flow = BYTES("f\n9 0 0")});
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};
    timer->due = START;
    fixture_command(&fixture, &command);
    fixture_carry_out(&fixture);
    id = created.id;
    fixture_advance_to(&fixture, 1000);
    assert_true(board_explain(&fixture, &id).until.ms == START.ms + HOUR_MS);
    board_pause(&board, "", "flow:f", 1000 + HOUR_MS / 2);
    fixture_advance_to(&fixture, 2000);
    assert_true(board_explain(&fixture, &id).until.ms == START.ms + HOUR_MS);
    board_pause(&board, "", "flow:f", 2 * HOUR_MS);
    fixture_advance_to(&fixture, 3000);
    assert_true(board_explain(&fixture, &id).until.ms == START.ms + 2 * HOUR_MS);
    board_pause(&board, "", "flow:f", 0);
    fixture_advance_to(&fixture, 4000);
    assert_int_equal(board_explain(&fixture, &id).reason, WAIT_PAUSED);
    assert_true(board_explain(&fixture, &id).until.ms == WALL_NEVER.ms);
    board_resume(&board, "", "flow:f");
    atomic_store(&is_held, true);
    fixture_advance_to(&fixture, 5000);
    assert_int_equal(board_explain(&fixture, &id).reason, WAIT_MAINTENANCE);
    assert_true(board_explain(&fixture, &id).until.ms == WALL_NEVER.ms);
    atomic_store(&is_held, false);
    fixture_advance_to(&fixture, 6000);
    engine_drain(fixture.engine);
    assert_int_equal(board_explain(&fixture, &id).reason, WAIT_STOPPING);
    assert_true(board_explain(&fixture, &id).until.ms == WALL_NEVER.ms);
    board_close(&fixture, &board);
}

/* Goal: a pause at a broker is of one tenant, and tenants take turns within the limit of the
 * connection, however much one of them has waiting. */
/* proves: target-pause, tenant-isolation */
static void tenants_take_turns_at_a_broker(void **state)
{
    struct engine_fixture fixture;
    struct target_pause_board board;

    (void)state;
    board_open(&fixture, &board);
    board_pause(&board, "bank", "redis://main", 0);
    for (size_t i = 0; i < 10; i++)
        board_create(&fixture, "shop", "redis://main/s", 0, NULL);
    for (size_t i = 0; i < 10; i++)
        board_create(&fixture, "bank", "redis://main/s", 0, NULL);
    fixture_advance_to(&fixture, 1);
    assert_int_equal(board_out_of(&fixture, "shop"), 2);
    assert_int_equal(board_out_of(&fixture, "bank"), 0);
    board_resume(&board, "bank", "redis://main");
    fixture_advance_to(&fixture, 2);
    assert_int_equal(board_out_of(&fixture, "bank"), 0); /* the connection has no room */
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_DONE});
    fixture_answer(&fixture, fixture_first_out(&fixture),
                   (struct delivery_outcome){.result = DELIVERY_DONE});
    fixture_advance_to(&fixture, 3);
    assert_int_equal(board_out_of(&fixture, "bank"), 1);
    assert_int_equal(board_out_of(&fixture, "shop"), 1);
    board_close(&fixture, &board);
}

/* Goal: a target that was left alone is tried at once when it is reset; one of another tenant is
 * not, and what is postponed after the reset holds. */
/* proves: target-reset, tenant-isolation */
static void a_reset_ends_what_was_postponed(void **state)
{
    static const char *const tenants[] = {"shop", "bank"};
    const struct delivery_outcome postponed = {
        .result = DELIVERY_POSTPONED, .holds = DELIVERY_HOLDS_QUEUE, .retry_after_ms = HOUR_MS};
    struct engine_fixture fixture;
    struct target_pause_board board;

    (void)state;
    board_open(&fixture, &board);
    for (size_t i = 0; i < 2; i++) {
        board_create(&fixture, tenants[i], "https://a.example/", 0, NULL);
        fixture_advance_to(&fixture, 1);
        fixture_answer(&fixture, fixture_first_out(&fixture), postponed);
    }
    for (size_t i = 0; i < 2; i++)
        board_create(&fixture, tenants[i], "https://a.example/", 0, NULL);
    fixture_advance_to(&fixture, 2);
    assert_null(fixture_first_out(&fixture));
    struct target_pauses *resets, *none = target_pauses_create();
    const struct target_pause reset = {.tenant = BYTES("shop"),
                                       .name = BYTES("https://a.example"),
                                       .since = fixture.now,
                                       .until = wall_add(fixture.now, HOUR_MS)};
    assert_int_equal(target_pauses_put(none, fixture.now, &reset, &resets), ERROR_NONE);
    target_pauses_leave(none);
    target_pause_board_show_resets(&board, resets);
    fixture_advance_to(&fixture, 3);
    assert_int_equal(board_out_of(&fixture, "shop"), 1);
    assert_int_equal(board_out_of(&fixture, "bank"), 0);
    fixture_answer(&fixture, fixture_first_out(&fixture), postponed);
    board_create(&fixture, "shop", "https://a.example/", 0, NULL);
    board_pause(&board, "shop", "queue:unrelated", 0); /* it looks again */
    fixture_advance_to(&fixture, 4);
    assert_null(fixture_first_out(&fixture));
    board_close(&fixture, &board);
}

/* Goal: a survey shows that the engine knows of a pause, also within a turn that began before it;
 * a forecast leaves out what is paused. */
/* proves: target-pause, forecast */
static void a_survey_has_seen_the_pause(void **state)
{
    struct engine_fixture fixture;
    struct target_pause_board board;
    uint64_t due[2];
    struct forecast forecast = {
        .count = 2, .unit_ms = 60000, .from = START, .due = due, .rows_max = 100};

    (void)state;
    board_open(&fixture, &board);
    board_create(&fixture, "", "https://a.example/", 1000, NULL);
    board_create(&fixture, "", "https://b.example/", 1000, NULL);
    fixture.now = (struct wall){START.ms + 1000};
    struct survey survey = {.kind = SURVEY_ITEMS, .queue = BYTES("-")};
    struct command command = {.kind = COMMAND_SURVEY, .survey = &survey};
    engine_begin(fixture.engine, fixture.now);
    board_pause(&board, "", "https://a.example", 0);
    engine_submit(fixture.engine, &command);
    engine_end(fixture.engine);
    assert_ptr_equal(engine_take_reply(fixture.engine), &command);
    survey_deinit(&survey);
    fixture_carry_out(&fixture);
    assert_int_equal(fixture.delivered_count, 1);
    fixture_answer_all(&fixture, DELIVERY_DONE);
    struct command ask = {.kind = COMMAND_FORECAST, .forecast = &forecast};
    fixture_command(&fixture, &ask);
    assert_int_equal(ask.error, ERROR_NONE);
    assert_int_equal(forecast.overdue + due[0] + due[1], 0);
    fixture_carry_out(&fixture);
    board_close(&fixture, &board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_paused_timer_waits_for_its_resumption),
        cmocka_unit_test(paused_timers_hold_nothing_up),
        cmocka_unit_test(a_pause_ends_at_its_time),
        cmocka_unit_test(changes_leave_it_paused),
        cmocka_unit_test(attempts_are_kept),
        cmocka_unit_test(maintenance_holds_everything_back),
        cmocka_unit_test(a_paused_target_gets_nothing),
        cmocka_unit_test(a_paused_queue_gives_nothing),
        cmocka_unit_test(a_pause_of_a_target_ends_at_its_time),
        cmocka_unit_test(an_explanation_names_the_last_end),
        cmocka_unit_test(tenants_take_turns_at_a_broker),
        cmocka_unit_test(a_reset_ends_what_was_postponed),
        cmocka_unit_test(a_survey_has_seen_the_pause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
