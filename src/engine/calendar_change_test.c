/*
 * Goal: a change of a calendar moves the firings that it concerns, and loses and adds none; `count`
 * counts what was planned, whatever was missed.
 * Method: an engine with the second scan, calendars that change between two of its turns, and the
 * firings that follow, against a list from a calendar on paper.
 */
#include "engine_testing.h"

#include "calendar/rfc3339.h"

#include <stdio.h>

#define MINUTE_MS UINT64_C(60000)
#define DAY_HOURS 24

/* START is 8:00 of Friday, 15 January 2027. */

struct change_of_days {
    uint64_t hour;    /* hours after START */
    const char *days; /* JSON; NULL: there is no such calendar */
};

struct calendar_change_row {
    const char *schedule;
    struct change_of_days changes[3]; /* the first is before the timer is made */
    const char *fired[9];             /* planned instants */
    uint64_t down_from, down_to;      /* hours without the engine; 0 and 0 for none */
    bool is_over;                     /* the timer has ended */
};

static const struct calendar_change_row rows[] = {
    /* a holiday that is declared is left out; one that is taken back fires */
    {.schedule = "{\"cron\":\"0 9 * * "
                 "*\",\"timezone\":\"UTC\",\"dst\":\"shift\",\"except\":[\"calendar:de\"]}",
     .changes = {{0, "[]"}, {30, "[\"2027-01-17\",\"2027-01-18\"]"}, {52, "[\"2027-01-17\"]"}},
     .fired = {"2027-01-15T09:00:00Z", "2027-01-16T09:00:00Z", "2027-01-18T09:00:00Z",
               "2027-01-19T09:00:00Z", "2027-01-20T09:00:00Z"}},
    /* days that have passed as holidays stay left out */
    {.schedule = "{\"cron\":\"0 9 * * "
                 "*\",\"timezone\":\"UTC\",\"dst\":\"shift\",\"except\":[\"calendar:de\"]}",
     .changes = {{0, "[\"2027-01-16/2027-01-19\"]"}, {50, "[\"2027-01-19\"]"}},
     .fired = {"2027-01-15T09:00:00Z", "2027-01-18T09:00:00Z", "2027-01-20T09:00:00Z"}},
    /* moved: later with a new holiday, and never twice */
    {.schedule = "{\"cron\":\"0 9 * * "
                 "SAT\",\"timezone\":\"UTC\",\"dst\":\"shift\",\"except\":[\"calendar:de\"],"
                 "\"on_holiday\":\"next_workday\"}",
     .changes = {{0, "[\"2027-01-16\"]"},
                 {26, "[\"2027-01-16/2027-01-17\"]"},
                 {76, "[\"2027-01-16/2027-01-19\"]"}},
     .fired = {"2027-01-18T09:00:00Z"}},
    /* moved, and no longer: it fires at once, and is not lost */
    {.schedule = "{\"cron\":\"0 9 * * "
                 "SAT\",\"timezone\":\"UTC\",\"dst\":\"shift\",\"except\":[\"calendar:de\"],"
                 "\"on_holiday\":\"next_workday\"}",
     .changes = {{0, "[\"2027-01-16/2027-01-17\"]"}, {30, "[]"}},
     .fired = {"2027-01-16T09:00:00Z"}},
    /* the day before: when that has passed, it fires at once */
    {.schedule = "{\"cron\":\"0 9 * * "
                 "MON\",\"timezone\":\"UTC\",\"dst\":\"shift\",\"except\":[\"calendar:de\"],"
                 "\"on_holiday\":\"previous_workday\"}",
     .changes = {{0, "[]"}, {60, "[\"2027-01-18\"]"}},
     .fired = {"2027-01-17T09:00:00Z"}},
    /* without the calendar it waits, and loses nothing */
    {.schedule = "{\"cron\":\"0 9 * * "
                 "*\",\"timezone\":\"UTC\",\"dst\":\"shift\",\"except\":[\"calendar:de\"],"
                 "\"late\":{\"missed\":\"each\"}}",
     .changes = {{0, "[]"}, {30, NULL}, {80, "[\"2027-01-17\"]"}},
     .fired = {"2027-01-15T09:00:00Z", "2027-01-16T09:00:00Z", "2027-01-18T09:00:00Z",
               "2027-01-19T09:00:00Z", "2027-01-20T09:00:00Z"}},
    /* no date is left: the timer ends, and does not fire */
    {.schedule =
         "{\"cron\":\"0 9 * * "
         "*\",\"timezone\":\"UTC\",\"dst\":\"shift\",\"until\":\"2027-01-17T12:00:00.000Z\","
         "\"except\":[\"calendar:de\"]}",
     .changes = {{0, "[]"}, {30, "[\"2027-01-17\"]"}},
     .fired = {"2027-01-15T09:00:00Z", "2027-01-16T09:00:00Z"},
     .is_over = true},
    /* every, with a zone: 23:30 in UTC is the next day in Berlin */
    {.schedule =
         "{\"every\":\"12h\",\"from\":\"2027-01-15T11:30:00.000Z\",\"timezone\":\"Europe/Berlin\","
         "\"except\":[\"calendar:de\"]}",
     .changes = {{0, "[]"}, {13, "[\"2027-01-16\"]"}},
     .fired = {"2027-01-15T11:30:00Z", "2027-01-16T23:30:00Z", "2027-01-17T11:30:00Z",
               "2027-01-17T23:30:00Z", "2027-01-18T11:30:00Z", "2027-01-18T23:30:00Z",
               "2027-01-19T11:30:00Z", "2027-01-19T23:30:00Z"}},
    /* count: a holiday is no firing, and the timer ends after three */
    {.schedule = "{\"count\":3,\"cron\":\"0 9 * * *\",\"timezone\":\"UTC\",\"dst\":\"shift\","
                 "\"except\":[\"calendar:de\"]}",
     .changes = {{0, "[]"}, {30, "[\"2027-01-17\"]"}},
     .fired = {"2027-01-15T09:00:00Z", "2027-01-16T09:00:00Z", "2027-01-18T09:00:00Z"},
     .is_over = true},
    /* missed firings count, too, and the last one that counts is the one that fires */
    {.schedule = "{\"count\":3,\"cron\":\"0 9 * * *\",\"timezone\":\"UTC\",\"dst\":\"shift\"}",
     .changes = {{0, "[]"}},
     .fired = {"2027-01-15T09:00:00Z", "2027-01-17T09:00:00Z"},
     .down_from = 20,
     .down_to = 90,
     .is_over = true},
    {.schedule = "{\"count\":4,\"cron\":\"0 9 * * *\",\"timezone\":\"UTC\",\"dst\":\"shift\"}",
     .changes = {{0, "[]"}},
     .fired = {"2027-01-15T09:00:00Z", "2027-01-17T09:00:00Z", "2027-01-18T09:00:00Z"},
     .down_from = 20,
     .down_to = 50,
     .is_over = true},
    {.schedule = "{\"every\":\"1d\",\"from\":\"2027-01-15T09:00:00.000Z\",\"count\":2,\"only\":["
                 "\"SUN-MON\"]}",
     .changes = {{0, "[]"}},
     .fired = {"2027-01-17T09:00:00Z", "2027-01-18T09:00:00Z"},
     .is_over = true},
};

static void show_days(struct calendars_board *board, const char *days)
{
    struct calendars_row row = {.is_shared = true, .name = BYTES("de")};
    struct calendars *calendars;
    struct error error;

    if (days && holidays_parse(bytes_of(days), &row.days, &error))
        fail_msg("%s", error.text);
    assert_int_equal(calendars_create(&row, days ? 1 : 0, &calendars), ERROR_NONE);
    holidays_leave(row.days);
    calendars_board_show(board, calendars);
}

static enum error_code find_zone(void *context, struct bytes name, const struct zone **ret_zone)
{
    return zones_get(context, name, ret_zone, NULL);
}

static void take(struct engine_fixture *fixture, const struct calendar_change_row *row,
                 size_t *count)
{
    for (struct delivery *out; (out = fixture_first_out(fixture)); ++*count) {
        const char *expected = *count < 9 ? row->fired[*count] : NULL;
        struct wall planned = WALL_NEVER;

        if (expected)
            assert_int_equal(rfc3339_parse(bytes_of(expected), &planned, NULL), ERROR_NONE);
        if (out->timer->due.ms != planned.ms)
            fail_msg("row %d: firing %d: %llu, not %s", (int)(row - rows), (int)*count,
                     (unsigned long long)out->timer->due.ms, expected ? expected : "none");
        fixture_answer(fixture, out, (struct delivery_outcome){.result = DELIVERY_DONE});
    }
}

static struct timer *scheduled_timer(const struct zone_source *zones, const char *text)
{
    struct schedule schedule;
    struct schedule_spec spec;
    struct error error;
    char room[SCHEDULE_MARK_SIZE];

    assert_int_equal(schedule_read(bytes_of(text), &spec, NULL), ERROR_NONE);
    if (schedule_make(&spec, START, (struct bytes){0}, zones, &schedule, &error))
        fail_msg("%s", error.text);
    const struct wall due = schedule_first(&schedule, START);
    struct timer_texts texts = {.target = BYTES("http://a.example/"),
                                .schedule = bytes_of(text),
                                .zoned = schedule_mark(&schedule, due, room)};
    struct timer *timer = timer_alloc(&texts);
    timer->created = START;
    timer->due = due;
    return timer;
}

static void make_timer(struct engine_fixture *fixture, const struct zone_source *zones,
                       const char *text, struct timer_id *ret_id)
{
    struct timer *timer = scheduled_timer(zones, text);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};
    fixture_command(fixture, &command);
    assert_int_equal(command.error, ERROR_NONE);
    fixture_carry_out(fixture);
    *ret_id = created.id;
}

static void run(const struct calendar_change_row *row, struct zones *zones, bool restarts)
{
    struct calendars_board board;
    struct engine_fixture fixture;
    struct timer_id id;
    size_t change = 1, count = 0;

    calendars_board_init(&board);
    show_days(&board, row->changes[0].days);
    fixture_prepare(&fixture);
    fixture.options.zones = (struct zone_source){.find = find_zone, .context = zones};
    fixture.options.calendars = &board;
    fixture.options.second_scan_ms = MINUTE_MS;
    fixture.options.window_ms = 30 * MINUTE_MS;
    fixture_open(&fixture);
    struct calendars *calendars = calendars_board_take(&board);
    struct zone_source source = fixture.options.zones;
    source.calendars = calendars;
    make_timer(&fixture, &source, row->schedule, &id);
    calendars_leave(calendars);
    for (uint64_t ms = 1000; ms <= (5 * DAY_HOURS + 2) * HOUR_MS; ms += 5 * MINUTE_MS) {
        if (ms >= row->down_from * HOUR_MS && ms < row->down_to * HOUR_MS)
            continue;
        if (change < 3 && row->changes[change].hour && ms >= row->changes[change].hour * HOUR_MS) {
            if (restarts) {
                fixture_close(&fixture);
                show_days(&board, row->changes[change++].days);
                fixture_open(&fixture);
            } else {
                show_days(&board, row->changes[change++].days);
            }
        }
        fixture_advance_to(&fixture, ms);
        take(&fixture, row, &count);
    }
    if (count < 9 && row->fired[count])
        fail_msg("row %d: %s did not fire", (int)(row - rows), row->fired[count]);
    struct command get = {.kind = COMMAND_GET, .id = id};
    fixture_command(&fixture, &get);
    const bool is_over = get.error != ERROR_NONE || timer_is_final(get.timer->state);
    if (is_over != row->is_over)
        fail_msg("row %d: %s", (int)(row - rows), error_slug(get.error));
    fixture_carry_out(&fixture);
    fixture_deinit(&fixture);
    calendars_board_deinit(&board);
}

/* proves: calendar-change, cron-count */
static void test_calendars_change(void **state)
{
    struct zones *zones;

    (void)state;
    assert_int_equal(zones_create(ZONES_FOLDER, &zones, NULL), ERROR_NONE);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        run(&rows[i], zones, false);
        run(&rows[i], zones, true);
    }
    zones_destroy(zones);
}

/* A fixture with a calendar that has no days yet, and a second scan each minute. */
static void prepare_without_days(struct engine_fixture *fixture, struct calendars_board *board)
{
    calendars_board_init(board);
    show_days(board, "[]");
    fixture_prepare(fixture);
    fixture->options.calendars = board;
    fixture->options.second_scan_ms = MINUTE_MS;
}

/* What happens to the timer after the second scan has asked for its page, and before it has it. */
enum meanwhile {
    NOTHING_HAPPENS,
    IT_IS_READ,    /* it is in memory when the page comes */
    IT_IS_LOADING, /* its row is being read when the page comes */
    IT_IS_WRITTEN, /* a patch of its target is durable after the page has come */
    MEANWHILE_COUNT,
};

static bool is_of_second_scan(const struct engine_read *read)
{
    return read->kind == ENGINE_READ_SCAN && read->scan.to.at.ms == STORAGE_DEAD_FROM.ms;
}

static void finish_read(struct engine_fixture *fixture, struct engine_read *read)
{
    engine_read_perform(read, fixture->storage);
    turn_read_done(fixture->engine, fixture->now, read);
}

/* Lets the engine read until the second scan has asked for a page, and returns that read. */
static struct engine_read *await_second_scan(struct engine_fixture *fixture)
{
    for (int turns = 0; turns < 100; turns++) {
        struct engine_read *read = engine_take_read(fixture->engine);

        if (!read) {
            fixture->now = wall_add(fixture->now, 1000);
            turn_advance(fixture->engine, fixture->now);
            continue;
        }
        if (is_of_second_scan(read))
            return read;
        finish_read(fixture, read);
    }
    fail_msg("there was no second scan");
    return NULL;
}

static void take_replies(struct engine_fixture *fixture)
{
    while (engine_take_reply(fixture->engine))
        ;
}

/* Does what happens meanwhile, and then gives the engine the page. */
static void answer_second_scan(struct engine_fixture *fixture, struct engine_read *scan,
                               enum meanwhile meanwhile, const struct timer_id *id)
{
    struct command get = {.kind = COMMAND_GET, .id = *id};
    struct command change = {.kind = COMMAND_PATCH, .id = *id, .patch_fields = PATCH_TARGET};
    struct storage_batch *batch = NULL;
    struct engine_read *read = NULL;

    engine_read_perform(scan, fixture->storage);
    if (meanwhile == IT_IS_READ) {
        fixture_command(fixture, &get);
    } else if (meanwhile == IT_IS_LOADING) {
        turn_submit(fixture->engine, fixture->now, &get);
        read = engine_take_read(fixture->engine);
    } else if (meanwhile == IT_IS_WRITTEN) {
        change.patch = fixture_timer("http://patched.example/", 0); /* the engine frees it */
        turn_submit(fixture->engine, fixture->now, &change);
        while (!(batch = engine_take_batch(fixture->engine)))
            finish_read(fixture, engine_take_read(fixture->engine));
    }
    take_replies(fixture);
    turn_read_done(fixture->engine, fixture->now, scan);
    if (read)
        finish_read(fixture, read);
    if (batch)
        fixture_commit(fixture, batch);
    fixture_carry_out(fixture);
}

/* A firing is moved although its timer is in memory, as it is near or is used just then; also to
 * an earlier day. */
/* proves: calendar-change */
static void test_what_is_in_memory_moves(void **state)
{
    static const char *const moves[] = {"next_workday", "previous_workday"};
    struct zones *zones;

    (void)state;
    assert_int_equal(zones_create(ZONES_FOLDER, &zones, NULL), ERROR_NONE);
    for (int i = 0; i < 2 * 2 * MEANWHILE_COUNT; i++) {
        const bool is_near = i & 1, is_back = i & 2;
        struct calendars_board board;
        struct engine_fixture fixture;
        struct timer_id id;
        char schedule[200];

        snprintf(schedule, sizeof(schedule),
                 "{\"cron\":\"0 9 * * SUN\",\"timezone\":\"UTC\",\"dst\":\"shift\","
                 "\"except\":[\"calendar:de\"],\"on_holiday\":\"%s\"}",
                 moves[is_back]);
        prepare_without_days(&fixture, &board);
        fixture.options.zones = (struct zone_source){.find = find_zone, .context = zones};
        fixture.options.window_ms = is_near ? 3 * DAY_HOURS * HOUR_MS : MINUTE_MS;
        fixture_open(&fixture);
        struct calendars *calendars = calendars_board_take(&board);
        struct zone_source source = fixture.options.zones;
        source.calendars = calendars;
        make_timer(&fixture, &source, schedule, &id);
        calendars_leave(calendars);
        fixture_advance_to(&fixture, 1000);
        show_days(&board, "[\"2027-01-17\"]");
        answer_second_scan(&fixture, await_second_scan(&fixture), (enum meanwhile)(i / 4), &id);
        fixture_advance_to(&fixture, fixture.now.ms - START.ms + 1000);
        struct command get = {.kind = COMMAND_GET, .id = id};
        fixture_command(&fixture, &get);
        const uint64_t due_h = (get.timer->due.ms - START.ms) / HOUR_MS;
        fixture_carry_out(&fixture);
        /* 9:00 of Saturday or Monday, counted from 8:00 of Friday */
        if (due_h != (is_back ? DAY_HOURS : 3 * DAY_HOURS) + 1)
            fail_msg("case %d: due after %d hours", i, (int)due_h);
        fixture_deinit(&fixture);
        calendars_board_deinit(&board);
    }
    zones_destroy(zones);
}

/* With a virtual clock the second scan comes once, at the start, because it would stop the clock. A
 * changed calendar lets it come again at once, so that a firing moves to an earlier day, too. */
/* proves: calendar-change, clock-stands */
static void test_a_virtual_clock_moves_firings(void **state)
{
    struct calendars_board board;
    struct engine_fixture fixture;
    struct timer_id id;

    (void)state;
    prepare_without_days(&fixture, &board);
    fixture.options.second_scan_ms = UINT64_C(365000) * DAY_HOURS * HOUR_MS;
    fixture.options.window_ms = MINUTE_MS;
    fixture_open(&fixture);
    struct calendars *calendars = calendars_board_take(&board);
    make_timer(&fixture, &(struct zone_source){.calendars = calendars},
               "{\"cron\":\"0 9 * * SUN\",\"timezone\":\"UTC\",\"dst\":\"shift\","
               "\"except\":[\"calendar:de\"],\"on_holiday\":\"previous_workday\"}",
               &id);
    calendars_leave(calendars);
    fixture_advance_to(&fixture, 1000);
    for (int day = 2; day > 0; day--) { /* Sunday; then it is a holiday */
        struct command get = {.kind = COMMAND_GET, .id = id};

        fixture_advance_to(&fixture, 2000);
        fixture_command(&fixture, &get);
        assert_int_equal(get.timer->due.ms, START.ms + ((uint64_t)day * DAY_HOURS + 1) * HOUR_MS);
        fixture_carry_out(&fixture);
        show_days(&board, "[\"2027-01-17\"]");
    }
    fixture_deinit(&fixture);
    calendars_board_deinit(&board);
}

/* Calendars that change all the time cost one walk over all rows a second. */
static void test_walks_for_changes_have_a_pace(void **state)
{
    struct calendars_board board;
    struct engine_fixture fixture;
    int pages = 0;

    (void)state;
    prepare_without_days(&fixture, &board);
    fixture.options.second_scan_ms = HOUR_MS;
    fixture_open(&fixture);
    fixture_advance_to(&fixture, 1000);
    for (int change = 0; change < 400; change++) { /* in four seconds */
        show_days(&board, change & 1 ? "[\"2027-01-17\"]" : "[]");
        fixture.now = wall_add(fixture.now, 10);
        turn_advance(fixture.engine, fixture.now);
        for (struct engine_read *read; (read = engine_take_read(fixture.engine));) {
            pages += is_of_second_scan(read);
            finish_read(&fixture, read);
        }
    }
    assert_in_range(pages, 3, 5);
    fixture_deinit(&fixture);
    calendars_board_deinit(&board);
}

/* What is being written while the calendar changes and the second scan passes. */
enum written {
    NEXT_FIRING,   /* the next firing of a timer, while the disk is full */
    NEW_TIMER,     /* a timer whose due time the client's call has computed */
    RESUMED_TIMER, /* a paused timer, whose row moves to where the scan has been already */
    WRITTEN_COUNT,
};

static const char *const written_schedules[] = {
    [NEXT_FIRING] = "{\"cron\":\"0 9 * * FRI,SUN\",\"timezone\":\"UTC\",\"dst\":\"shift\","
                    "\"except\":[\"calendar:de\"],\"on_holiday\":\"previous_workday\"}",
    [NEW_TIMER] = "{\"cron\":\"0 9 * * SUN\",\"timezone\":\"UTC\",\"dst\":\"shift\","
                  "\"except\":[\"calendar:de\"],\"on_holiday\":\"previous_workday\"}",
    [RESUMED_TIMER] = "{\"cron\":\"0 9 * * SUN\",\"timezone\":\"UTC\",\"dst\":\"shift\","
                      "\"except\":[\"calendar:de\"],\"on_holiday\":\"previous_workday\"}",
};

static void fail_batches(struct engine_fixture *fixture)
{
    for (struct storage_batch *batch; (batch = engine_take_batch(fixture->engine));) {
        batch->result = ERROR_IO;
        turn_committed(fixture->engine, fixture->now, batch);
    }
}

/* Lets time pass with a disk that is full. Returns how many pages the second scan read of a walk
 * over all rows. */
static int pass_without_disk(struct engine_fixture *fixture, uint64_t ms)
{
    int pages = 0;

    for (uint64_t passed_ms = 0; passed_ms < ms; passed_ms += 1000) {
        fixture->now = wall_add(fixture->now, 1000);
        turn_advance(fixture->engine, fixture->now);
        fail_batches(fixture);
        for (struct engine_read *read; (read = engine_take_read(fixture->engine));) {
            pages += is_of_second_scan(read);
            finish_read(fixture, read);
            fail_batches(fixture);
        }
    }
    return pages;
}

static void write_next_firing(struct engine_fixture *fixture, struct calendars_board *board,
                              const struct zone_source *source, struct timer_id *ret_id)
{
    make_timer(fixture, source, written_schedules[NEXT_FIRING], ret_id);
    fixture_advance_to(fixture, HOUR_MS);
    struct delivery *delivery = fixture_first_out(fixture);
    assert_non_null(delivery);
    list_remove(&delivery->link);
    delivery->outcome = (struct delivery_outcome){.result = DELIVERY_DONE};
    turn_delivered(fixture->engine, fixture->now, delivery);
    show_days(board, "[\"2027-01-17\"]");
    /* the disk is full for longer than the scan pauses between walks */
    assert_true(pass_without_disk(fixture, 5 * MINUTE_MS) > 0);
}

static void write_new_timer(struct engine_fixture *fixture, struct calendars_board *board,
                            const struct zone_source *source, struct timer_id *ret_id)
{
    struct timer *timer = scheduled_timer(source, written_schedules[NEW_TIMER]);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    turn_submit(fixture->engine, fixture->now, &command);
    struct storage_batch *batch = engine_take_batch(fixture->engine);
    assert_non_null(batch);
    show_days(board, "[\"2027-01-17\"]");
    finish_read(fixture, await_second_scan(fixture));
    fixture_commit(fixture, batch);
    take_replies(fixture);
    assert_int_equal(created.error, ERROR_NONE);
    *ret_id = created.id;
}

static void write_resumed_timer(struct engine_fixture *fixture, struct calendars_board *board,
                                const struct zone_source *source, struct timer_id *ret_id)
{
    /* the engine frees `patch` */
    struct command pause = {.kind = COMMAND_PAUSE, .patch = fixture_timer("http://a.example/", 0)};

    make_timer(fixture, source, written_schedules[RESUMED_TIMER], ret_id);
    fixture_create(fixture, "http://b.example/", 300 * DAY_HOURS * HOUR_MS, NULL);
    pause.id = *ret_id;
    pause.patch->at = STORAGE_PAUSED_AT;
    fixture_command(fixture, &pause);
    fixture_carry_out(fixture);
    assert_int_equal(pause.error, ERROR_NONE);
    show_days(board, "[\"2027-01-17\"]");
    finish_read(fixture, await_second_scan(fixture)); /* the page of the other timer */
    fixture_ask(fixture, COMMAND_RESUME, ret_id, 0, NULL);
}

/* A due time that was computed by earlier rules moves, although its row is not on disk when the
 * scan passes it. */
/* proves: calendar-change */
static void test_what_is_being_written_moves(void **state)
{
    static void (*const writes[])(struct engine_fixture *, struct calendars_board *,
                                  const struct zone_source *, struct timer_id *) = {
        [NEXT_FIRING] = write_next_firing,
        [NEW_TIMER] = write_new_timer,
        [RESUMED_TIMER] = write_resumed_timer,
    };
    struct zones *zones;

    (void)state;
    assert_int_equal(zones_create(ZONES_FOLDER, &zones, NULL), ERROR_NONE);
    for (int i = 0; i < WRITTEN_COUNT; i++) {
        struct calendars_board board;
        struct engine_fixture fixture;
        struct timer_id id;

        prepare_without_days(&fixture, &board);
        fixture.options.zones = (struct zone_source){.find = find_zone, .context = zones};
        fixture.options.window_ms = MINUTE_MS;
        fixture.options.scan_rows_max = 1; /* a page has one row */
        fixture_open(&fixture);
        struct calendars *calendars = calendars_board_take(&board);
        struct zone_source source = fixture.options.zones;
        source.calendars = calendars;
        writes[i](&fixture, &board, &source, &id);
        fixture_advance_to(&fixture, fixture.now.ms - START.ms + 10000);
        struct command get = {.kind = COMMAND_GET, .id = id};
        fixture_command(&fixture, &get);
        const uint64_t due_h = (get.timer->due.ms - START.ms) / HOUR_MS;
        /* 9:00 of Saturday, counted from 8:00 of Friday */
        if (due_h != DAY_HOURS + 1)
            fail_msg("case %d: due after %d hours", i, (int)due_h);
        fixture_carry_out(&fixture);
        calendars_leave(calendars);
        fixture_deinit(&fixture);
        calendars_board_deinit(&board);
    }
    zones_destroy(zones);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calendars_change),
        cmocka_unit_test(test_what_is_in_memory_moves),
        cmocka_unit_test(test_a_virtual_clock_moves_firings),
        cmocka_unit_test(test_walks_for_changes_have_a_pace),
        cmocka_unit_test(test_what_is_being_written_moves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
