/* Goal: nothing but planned backups of this data folder is deleted, the newest never, and a partial
 * backup never has the name of a whole one. Method: folders made by hand; what the notes say is
 * compared with what is on disk after each step, also where a step is the last one. */
#include "node/backup_record.h"

#include "store/folder.h"
#include "store/storage_testing.h"
#include "sys/files.h"

#include <sys/stat.h>

#define DAY_1 1795219199000 /* 2026-11-20T23:59:59Z */
#define DAY   86400000

struct record_fixture {
    struct testing_folder folder;
    char data[300], backups[300];
    struct backup_place place;
};

static int record_set_up(void **state)
{
    struct record_fixture *fixture = calloc(1, sizeof(*fixture));

    testing_folder_make(&fixture->folder);
    snprintf(fixture->data, sizeof(fixture->data), "%s/data", fixture->folder.path);
    snprintf(fixture->backups, sizeof(fixture->backups), "%s/backups", fixture->folder.path);
    assert_int_equal(files_make_folder(fixture->data, NULL), ERROR_NONE);
    fixture->place = (struct backup_place){fixture->data, fixture->backups};
    *state = fixture;
    return 0;
}

static int record_tear_down(void **state)
{
    struct record_fixture *fixture = *state;

    testing_folder_remove(&fixture->folder);
    free(fixture);
    return 0;
}

static const char *record_name(unsigned day)
{
    static char names[8][BACKUP_NAME_SIZE];
    static unsigned next;
    char *name = names[next++ % 8];

    backup_name((struct wall){DAY_1 + (uint64_t)day * DAY}, name);
    return name;
}

static bool record_has(const char *folder, const char *first, const char *second)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s%s", folder, first, second);
    return files_look_for(path) == FILES_THERE;
}

/* Makes a folder with the file that makes a backup whole. */
static void record_make_folder(const char *path)
{
    char file[PATH_MAX];

    assert_int_equal(files_make_folder(path, NULL), ERROR_NONE);
    snprintf(file, sizeof(file), "%s/" FOLDER_CLOSED_NAME, path);
    assert_int_equal(files_write(file, BYTES("x"), NULL), ERROR_NONE);
}

static void record_make(struct record_fixture *fixture, unsigned day, enum backup_kind kind)
{
    char partial[PATH_MAX];
    struct error error;

    if (backup_record_begin(&fixture->place, record_name(day), partial, &error))
        fail_msg("%s", error.text);
    record_make_folder(partial);
    if (backup_record_finish(&fixture->place, record_name(day), kind, &error))
        fail_msg("%s", error.text);
    assert_true(record_has(fixture->backups, record_name(day), ""));
    assert_false(record_has(fixture->backups, record_name(day), ".tmp"));
    assert_false(record_has(fixture->data, FOLDER_PARTIAL_NAME, record_name(day)));
}

static uint32_t record_prune(struct record_fixture *fixture, unsigned newest, uint32_t keep)
{
    uint32_t removed;
    struct error error;

    if (backup_record_prune(&fixture->place, record_name(newest), keep, &removed, &error))
        fail_msg("%s", error.text);
    return removed;
}

static void test_record_name(void **state)
{
    (void)state;
    assert_string_equal(record_name(0), "20261120T235959Z");
}

static void test_record_keeps_the_newest(void **state)
{
    struct record_fixture *fixture = *state;

    assert_true(backup_record_latest(&fixture->place).ms == WALL_NEVER.ms);
    for (unsigned day = 0; day < 6; day++)
        record_make(fixture, day, day == 1 ? BACKUP_ASKED : BACKUP_PLANNED);
    assert_true(backup_record_latest(&fixture->place).ms == DAY_1 + 5ull * DAY);
    assert_int_equal(record_prune(fixture, 5, 5), 0);
    assert_int_equal(record_prune(fixture, 5, 2), 3);
    for (unsigned day = 0; day < 6; day++) {
        assert_int_equal(record_has(fixture->backups, record_name(day), ""), day == 1 || day > 3);
        assert_int_equal(record_has(fixture->data, FOLDER_BACKUP_NAME, record_name(day)), day > 3);
        assert_false(record_has(fixture->backups, record_name(day), ".tmp"));
    }
    /* The clock was set back: the newest one has an earlier name. */
    record_make(fixture, 0, BACKUP_PLANNED);
    assert_int_equal(record_prune(fixture, 0, 1), 2);
    assert_true(record_has(fixture->backups, record_name(0), ""));
}

/* Folders that were not made here stay, whatever they look like; so does one that was moved away
 * and replaced by a link, with what the link leads to. */
static void test_record_leaves_what_is_not_its_own(void **state)
{
    struct record_fixture *fixture = *state;
    char path[PATH_MAX], aside[PATH_MAX];
    struct error error;
    uint32_t removed;

    record_make(fixture, 3, BACKUP_PLANNED);
    record_make(fixture, 4, BACKUP_PLANNED);
    snprintf(path, sizeof(path), "%s/%s", fixture->backups, record_name(0));
    record_make_folder(path);
    snprintf(path, sizeof(path), "%s/%s.tmp", fixture->backups, record_name(1));
    record_make_folder(path);
    snprintf(path, sizeof(path), "%s/" FOLDER_BACKUP_NAME "%s", fixture->data, record_name(2));
    assert_int_equal(files_write(path, BYTES("/elsewhere"), NULL), ERROR_NONE);
    backup_record_clean(fixture->data);
    assert_int_equal(record_prune(fixture, 4, 2), 0);
    assert_true(record_has(fixture->backups, record_name(0), "/" FOLDER_CLOSED_NAME));
    assert_true(record_has(fixture->backups, record_name(1), ".tmp/" FOLDER_CLOSED_NAME));
    assert_true(record_has(fixture->data, FOLDER_BACKUP_NAME, record_name(2)));

    snprintf(path, sizeof(path), "%s/%s", fixture->backups, record_name(3));
    snprintf(aside, sizeof(aside), "%s/aside", fixture->folder.path);
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(symlink(aside, path), 0);
    assert_int_equal(backup_record_prune(&fixture->place, record_name(4), 1, &removed, &error),
                     ERROR_IO);
    assert_non_null(strstr(error.text, "is no folder"));
    assert_int_equal(removed, 0);
    assert_true(record_has(aside, FOLDER_CLOSED_NAME, ""));

    assert_int_equal(unlink(path), 0); /* deleted by the operator: its note is dropped */
    assert_int_equal(record_prune(fixture, 4, 1), 0);
    assert_false(record_has(fixture->data, FOLDER_BACKUP_NAME, record_name(3)));
    assert_true(backup_record_latest(&fixture->place).ms == DAY_1 + 4ull * DAY);
}

/* A backup of which the disk is not there is no deleted one. */
static void test_record_of_a_disk_that_is_away(void **state)
{
    struct record_fixture *fixture = *state;
    char away[PATH_MAX];

    record_make(fixture, 0, BACKUP_PLANNED);
    snprintf(away, sizeof(away), "%s/away", fixture->folder.path);
    assert_int_equal(rename(fixture->backups, away), 0);
    assert_true(backup_record_latest(&fixture->place).ms == WALL_NEVER.ms);
    assert_int_equal(rename(away, fixture->backups), 0);
    assert_true(backup_record_latest(&fixture->place).ms == DAY_1);
}

/* Backups that were under way, and one whose deletion began. */
static void test_record_removes_partial_ones(void **state)
{
    struct record_fixture *fixture = *state;
    char partial[PATH_MAX], half[PATH_MAX];
    struct error error;

    snprintf(half, sizeof(half), "%s/" FOLDER_BACKUP_NAME "%s.new", fixture->data, record_name(0));
    assert_int_equal(files_write(half, BYTES("/back"), NULL), ERROR_NONE);
    for (unsigned day = 0; day < 2; day++) {
        assert_int_equal(backup_record_begin(&fixture->place, record_name(day), partial, &error),
                         ERROR_NONE);
        record_make_folder(partial);
    }
    assert_int_equal(backup_record_begin(&fixture->place, record_name(0), partial, &error),
                     ERROR_BACKUP_EXISTS);
    backup_record_clean(fixture->data);
    assert_int_equal(access(half, F_OK), -1);
    for (unsigned day = 0; day < 2; day++) {
        assert_false(record_has(fixture->backups, record_name(day), ".tmp"));
        assert_false(record_has(fixture->data, FOLDER_PARTIAL_NAME, record_name(day)));
    }
    record_make(fixture, 0, BACKUP_PLANNED);
    assert_int_equal(backup_record_begin(&fixture->place, record_name(0), partial, &error),
                     ERROR_BACKUP_EXISTS);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, record_set_up, record_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_record_name),
        TEST(test_record_keeps_the_newest),
        TEST(test_record_leaves_what_is_not_its_own),
        TEST(test_record_of_a_disk_that_is_away),
        TEST(test_record_removes_partial_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
