/*
 * Goal: calendars of files and of definitions make one table; a setting that is wrong changes
 * nothing. Method: files of a temporary folder and settings at and beyond each limit, and tables of
 * definitions.
 */
#include "node/node_calendars.h"

#include "calendar/calendar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void write_days(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static bool has_day(struct node_calendars *calendars, const char *owner, const char *name)
{
    struct calendars *table = calendars_board_take(&calendars->board);
    const struct calendars_row *row = calendars_find(table, bytes_of(owner), bytes_of(name));
    const bool has = row && holidays_find(row->days, calendar_days(2026, 12, 24));

    calendars_leave(table);
    return has;
}

static void set_names(struct buffer *setting, const char *path, int count)
{
    buffer_clear(setting);
    for (int i = 0; i < count; i++)
        buffer_printf(setting, "c%d=%s ", i, path);
    buffer_append(setting, "", 1);
}

/* proves: calendar-count */
static void test_calendars_of_settings(void **state)
{
    char path[] = "/tmp/tickwheel-calendar-XXXXXX", text[200];
    const int descriptor = mkstemp(path);
    struct node_calendars calendars;
    struct buffer setting;
    struct error error;

    (void)state;
    assert_true(descriptor >= 0);
    close(descriptor);
    write_days(path, "[\"2026-12-24\"]");
    node_calendars_init(&calendars);
    buffer_init(&setting);
    set_names(&setting, path, NODE_CALENDARS_MAX);
    assert_int_equal(node_calendars_load(&calendars, setting.data, &error), ERROR_NONE);
    assert_true(has_day(&calendars, "acme", "c255"));
    set_names(&setting, path, NODE_CALENDARS_MAX + 1);
    assert_int_equal(node_calendars_load(&calendars, setting.data, &error), ERROR_INVALID);
    assert_true(has_day(&calendars, "acme", "c255"));
    snprintf(text, sizeof(text), "de=%s de=%s", path, path);
    assert_int_equal(node_calendars_load(&calendars, text, &error), ERROR_INVALID);
    assert_int_equal(node_calendars_load(&calendars, "de", &error), ERROR_INVALID);
    assert_int_equal(node_calendars_load(&calendars, "de=/nonexistent/x", &error), ERROR_IO);
    write_days(path, "[\"2026-12-32\"]");
    snprintf(text, sizeof(text), "de=%s", path);
    assert_int_equal(node_calendars_load(&calendars, text, &error), ERROR_INVALID);
    assert_true(has_day(&calendars, "acme", "c0"));
    assert_int_equal(node_calendars_load(&calendars, "", &error), ERROR_NONE);
    assert_false(has_day(&calendars, "acme", "c0"));
    buffer_deinit(&setting);
    node_calendars_deinit(&calendars);
    unlink(path);
}

/* Puts a calendar of the tenant acme into a table of definitions. */
static struct definitions *define(struct definitions *last, const char *days, uint64_t version)
{
    char room[DEFINITION_KEY_SIZE_MAX];
    struct definitions *next;
    const struct definition row = {.tenant = BYTES("acme"),
                                   .key = definition_key(DEFINITION_CALENDAR, BYTES("de"), room),
                                   .value = bytes_of(days),
                                   .version = version};

    assert_int_equal(definitions_put(last, &row, &next), ERROR_NONE);
    definitions_leave(last);
    return next;
}

static void test_calendars_of_tenants(void **state)
{
    struct node_calendars calendars;
    struct absent_names missing;

    (void)state;
    node_calendars_init(&calendars);
    struct definitions *definitions = define(definitions_create(), "[\"2026-12-24\"]", 1);
    node_calendars_lack(&calendars, BYTES("de"));
    node_calendars_define(&calendars, definitions);
    node_calendars_missing(&calendars, &missing);
    assert_int_equal(missing.count, 0);
    assert_true(has_day(&calendars, "acme", "de"));
    assert_false(has_day(&calendars, "other", "de"));
    const uint64_t version = calendars.board.version;
    node_calendars_define(&calendars, definitions); /* nothing has changed */
    assert_int_equal(calendars.board.version, version);
    definitions = define(definitions, "[\"2026-12-25\"]", 2);
    node_calendars_define(&calendars, definitions);
    assert_false(has_day(&calendars, "acme", "de"));
    assert_true(calendars.board.version > version);
    definitions_leave(definitions);
    node_calendars_deinit(&calendars);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calendars_of_settings),
        cmocka_unit_test(test_calendars_of_tenants),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
