/* Goal: planned backups are made when backup_cron says so, one that was missed at the next start,
 * none twice; a failure is counted, is in the health of the node, and deletes nothing. Method: a
 * node with the real storage, to which the test hands the time. */
#include "node/node_state.h"
#include "store/storage_testing.h"
#include "sys/clock.h"
#include "sys/files.h"

#include <poll.h>

#define MIDNIGHT 1795219200000 /* 2026-11-21T00:00:00Z */
#define HOUR     3600000ull
#define DAY      (24 * HOUR)

struct plan_fixture {
    struct testing_folder folder;
    char backups[300];
    struct config config;
    struct metrics *metrics;
    struct node *node;
};

static void plan_set(struct plan_fixture *fixture, const char *name, const char *value)
{
    assert_int_equal(config_set(&fixture->config, name, value, NULL), ERROR_NONE);
}

static int plan_set_up(void **state)
{
    struct plan_fixture *fixture = calloc(1, sizeof(*fixture));
    char data[300];

    testing_folder_make(&fixture->folder);
    snprintf(data, sizeof(data), "%s/data", fixture->folder.path);
    snprintf(fixture->backups, sizeof(fixture->backups), "%s/backups", fixture->folder.path);
    config_init(&fixture->config);
    plan_set(fixture, "data_folder", data);
    plan_set(fixture, "disk_reserve_bytes", "0");
    plan_set(fixture, "backup_folder", fixture->backups);
    plan_set(fixture, "backup_cron", "0 3 * * *");
    plan_set(fixture, "backup_keep", "2");
    assert_int_equal(files_make_folder(data, NULL), ERROR_NONE);
    fixture->metrics = metrics_create("test", wall_now());
    *state = fixture;
    return 0;
}

static int plan_tear_down(void **state)
{
    struct plan_fixture *fixture = *state;

    metrics_destroy(fixture->metrics);
    testing_folder_remove(&fixture->folder);
    free(fixture);
    return 0;
}

static void plan_boot(struct plan_fixture *fixture)
{
    struct error error;

    if (node_start(&fixture->config, fixture->metrics, NULL, NULL, &fixture->node, &error))
        fail_msg("%s", error.text);
}

/* Looks at that time. Returns the planned backup that began then, once it has ended; NULL if none
 * began. */
static const struct node_backup *plan_look(struct plan_fixture *fixture, uint64_t at,
                                           uint64_t expected_wait_ms)
{
    const struct node_backup *ended;
    const struct wall now = {at};
    uint64_t wait_ms = node_backup_look(fixture->node, now, &ended);

    while (!ended && fixture->node->backups.plan.is_running) {
        struct pollfd news = {.fd = node_news_fd(fixture->node), .events = POLLIN};

        poll(&news, 1, 60000);
        node_take_news(fixture->node);
        wait_ms = node_backup_look(fixture->node, now, &ended);
    }
    assert_int_equal(wait_ms, expected_wait_ms);
    return ended;
}

static void plan_make(struct plan_fixture *fixture, uint64_t at, uint32_t expected_removed)
{
    const struct node_backup *ended = plan_look(fixture, at, 60000);

    assert_non_null(ended);
    if (ended->result)
        fail_msg("%s", ended->error.text);
    assert_int_equal(ended->removed, expected_removed);
    assert_true(files_exists(ended->folder));
}

static bool plan_count_one(void *context, const struct files_entry *entry)
{
    (void)entry;
    ++*(unsigned *)context;
    return true;
}

static unsigned plan_count(struct plan_fixture *fixture)
{
    unsigned count = 0;

    files_list(fixture->backups, plan_count_one, &count, NULL);
    return count;
}

static void plan_expect_detail(struct plan_fixture *fixture, const char *expected)
{
    struct node_health health;

    node_health(fixture->node, &health);
    if (!*expected)
        assert_string_equal(health.detail, "");
    else if (!strstr(health.detail, expected))
        fail_msg("%s", health.detail);
}

static void test_plan_follows_the_cron(void **state)
{
    struct plan_fixture *fixture = *state;

    plan_boot(fixture);
    assert_null(plan_look(fixture, MIDNIGHT, 60000));
    assert_null(plan_look(fixture, MIDNIGHT + 3 * HOUR - 1500, 1500));
    for (unsigned day = 0; day < 4; day++) {
        plan_make(fixture, MIDNIGHT + 3 * HOUR + day * DAY, day > 1);
        assert_null(plan_look(fixture, MIDNIGHT + 4 * HOUR + day * DAY, 60000));
    }
    assert_int_equal(plan_count(fixture), 2);
    assert_int_equal(metrics_get(fixture->metrics, METRIC_BACKUPS), 4);
    plan_expect_detail(fixture, "");
    node_stop(fixture->node);
}

/* proves: backup-missed */
static void test_plan_makes_up_for_a_missed_one(void **state)
{
    struct plan_fixture *fixture = *state;

    plan_boot(fixture);
    assert_null(plan_look(fixture, MIDNIGHT, 60000));
    plan_make(fixture, MIDNIGHT + 3 * HOUR, 0);
    node_stop(fixture->node);
    plan_boot(fixture); /* the same day: none is missing */
    assert_null(plan_look(fixture, MIDNIGHT + 5 * HOUR, 60000));
    node_stop(fixture->node);
    plan_boot(fixture); /* two days later: one, not two */
    plan_make(fixture, MIDNIGHT + 2 * DAY + 5 * HOUR, 0);
    assert_null(plan_look(fixture, MIDNIGHT + 2 * DAY + 5 * HOUR, 60000));
    assert_null(plan_look(fixture, MIDNIGHT + 3 * DAY + 3 * HOUR - 1, 1));
    node_stop(fixture->node);
}

static void test_plan_in_a_zone(void **state)
{
    struct plan_fixture *fixture = *state;

    plan_set(fixture, "backup_timezone", "Asia/Kolkata"); /* 3:00 is 21:30 UTC the day before */
    plan_boot(fixture);
    assert_null(plan_look(fixture, MIDNIGHT, 60000));
    assert_null(plan_look(fixture, MIDNIGHT + 21 * HOUR + HOUR / 2 - 1, 1));
    plan_make(fixture, MIDNIGHT + 21 * HOUR + HOUR / 2, 0);
    node_stop(fixture->node);
}

/* proves: backup-failed */
static void test_plan_that_fails(void **state)
{
    struct plan_fixture *fixture = *state;
    const struct node_backup *ended;
    char aside[320];

    plan_boot(fixture);
    assert_null(plan_look(fixture, MIDNIGHT, 60000));
    for (unsigned day = 0; day < 2; day++)
        plan_make(fixture, MIDNIGHT + 3 * HOUR + day * DAY, 0);
    snprintf(aside, sizeof(aside), "%s.aside", fixture->backups);
    assert_int_equal(rename(fixture->backups, aside), 0);
    assert_int_equal(files_write(fixture->backups, BYTES("a file"), NULL), ERROR_NONE);
    ended = plan_look(fixture, MIDNIGHT + 3 * HOUR + 2 * DAY, 60000);
    assert_int_equal(ended->result, ERROR_IO);
    plan_expect_detail(fixture, "the last planned backup failed: ");
    plan_expect_detail(fixture, fixture->backups);
    assert_int_equal(unlink(fixture->backups), 0);
    assert_int_equal(rename(aside, fixture->backups), 0);

    atomic_store(&fixture->node->disk.is_full, true);
    ended = plan_look(fixture, MIDNIGHT + 3 * HOUR + 3 * DAY, 60000);
    assert_int_equal(ended->result, ERROR_DISK_FULL);
    assert_int_equal(metrics_get(fixture->metrics, METRIC_BACKUPS_FAILED), 2);
    assert_int_equal(plan_count(fixture), 2);
    plan_expect_detail(fixture, "the last planned backup failed: ");
    atomic_store(&fixture->node->disk.is_full, false);
    plan_make(fixture, MIDNIGHT + 3 * HOUR + 4 * DAY, 1);
    plan_expect_detail(fixture, "");
    assert_int_equal(plan_count(fixture), 2);
    node_stop(fixture->node);
}

/* A zone that is not on the machine is reported once, and the plan goes on when it is there. */
static void test_plan_without_its_zone(void **state)
{
    struct plan_fixture *fixture = *state;
    const struct node_backup *ended;
    char zones[320], from[400];

    snprintf(zones, sizeof(zones), "%s/zones", fixture->folder.path);
    plan_set(fixture, "zoneinfo_folder", zones);
    plan_boot(fixture);
    ended = plan_look(fixture, MIDNIGHT, 60000);
    assert_int_equal(ended->result, ERROR_INVALID);
    plan_expect_detail(fixture, "UTC");
    assert_null(plan_look(fixture, MIDNIGHT + 60000, 60000));
    assert_int_equal(files_make_folder(zones, NULL), ERROR_NONE);
    snprintf(from, sizeof(from), "%s/UTC", zones);
    assert_int_equal(files_copy(ZONES_FOLDER "/UTC", from, NULL), ERROR_NONE);
    node_refresh_zones(fixture->node);
    assert_null(plan_look(fixture, MIDNIGHT + HOUR, 60000));
    plan_make(fixture, MIDNIGHT + 3 * HOUR, 0);
    plan_expect_detail(fixture, "");
    node_stop(fixture->node);
}

static void plan_refuse(struct plan_fixture *fixture, const char *name, const char *value,
                        const char *expected)
{
    struct config config = fixture->config;
    struct error error = {.text = ""};

    assert_int_equal(config_set(&config, name, value, NULL), ERROR_NONE);
    assert_int_equal(node_backup_check_settings(&config, &error), ERROR_INVALID);
    if (!strstr(error.text, expected))
        fail_msg("%s", error.text);
}

/* proves: backup-settings */
static void test_plan_settings(void **state)
{
    struct plan_fixture *fixture = *state;
    struct error error;

    assert_int_equal(node_backup_check_settings(&fixture->config, &error), ERROR_NONE);
    plan_refuse(fixture, "backup_folder", "", "backup_cron: set backup_folder too");
    plan_refuse(fixture, "backup_cron", "at three", "backup_cron: ");
    plan_refuse(fixture, "backup_cron", "0 0 31 2 *", "backup_cron: ");
    plan_refuse(fixture, "backup_cron", "0 3 ? * 2", "backup_cron: ");
    plan_refuse(fixture, "backup_timezone", "Europe/Berln", "backup_timezone: ");
    plan_refuse(fixture, "backup_timezone", "../../etc/passwd", "backup_timezone: ");
    plan_set(fixture, "backup_cron", "");
    plan_boot(fixture);
    assert_null(plan_look(fixture, MIDNIGHT, UINT64_MAX));
    node_stop(fixture->node);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, plan_set_up, plan_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_plan_follows_the_cron), TEST(test_plan_makes_up_for_a_missed_one),
        TEST(test_plan_in_a_zone),        TEST(test_plan_that_fails),
        TEST(test_plan_without_its_zone), TEST(test_plan_settings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
