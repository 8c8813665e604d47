/* Goal: a data folder has one kind of clock for ever, and a virtual one goes on where it stood.
 * Method: folders in each state, and each setting on them; texts of settings and of the file that
 * are right or wrong. */
#include "node/clock_mark.h"

#include "store/folder.h"
#include "store/storage_testing.h"
#include "sys/files.h"

#include <limits.h>

#define START UINT64_C(1798761600000) /* 2027-01-01T00:00:00Z */
#define NOW   ((struct wall){START + 1234})

static const struct clock_choice real = {.is_virtual = false};
static const struct clock_choice any_virtual = {.is_virtual = true};

static void clock_mark_put(const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(files_write(path, bytes_of(text), NULL), ERROR_NONE);
}

static void reads_the_setting(void **state)
{
    static const struct {
        const char *text;
        struct clock_choice choice;
    } rights[] = {
        {"real", {false, {0}}},
        {"virtual", {true, {0}}},
        {"virtual=2027-01-01T00:00Z", {true, {START}}},
        {"virtual=2027-01-01T00:00:00Z", {true, {START}}},
        {"virtual=2027-01-01T01:00+01:00", {true, {START}}},
        {"virtual=2027-01-01T00:00:01.5Z", {true, {START + 1500}}},
        {"virtual=9999-12-31T23:59:59.999Z", {true, {WALL_MS_MAX}}},
    };
    static const char *const wrongs[] = {
        "",
        "Real",
        "virtually",
        "virtual=",
        "virtual=2027",
        "virtual=2027-01-01",
        "virtual=2027-01-01T00:00",
        "virtual=2027-02-29T00:00Z",
        "virtual=1970-01-01T00:00Z",
        "virtual=1969-12-31T00:00Z",
        "virtual=2027-01-01T00:00ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rights) / sizeof(*rights); i++) {
        struct clock_choice choice;

        assert_int_equal(clock_choice_parse(rights[i].text, &choice, NULL), ERROR_NONE);
        assert_int_equal(choice.is_virtual, rights[i].choice.is_virtual);
        assert_int_equal(choice.at.ms, rights[i].choice.at.ms);
    }
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(*wrongs); i++) {
        struct clock_choice choice;
        struct error error;

        assert_int_equal(clock_choice_parse(wrongs[i], &choice, &error), ERROR_INVALID);
        assert_memory_equal(error.text, "clock: ", 7);
    }
}

static void a_new_folder_gets_the_clock_of_its_first_start(void **state)
{
    struct testing_folder folder;
    struct wall at;
    char inside[PATH_MAX];

    (void)state;
    testing_folder_make(&folder);
    snprintf(inside, sizeof(inside), "%s/new/data", folder.path);
    assert_int_equal(clock_mark_begin(inside, &real, NOW, &at, NULL), ERROR_NONE);
    assert_int_equal(at.ms, 0);
    assert_int_equal(files_look_for(inside), FILES_ABSENT); /* the storage makes it */
    assert_int_equal(clock_mark_begin(inside, &any_virtual, NOW, &at, NULL), ERROR_NONE);
    assert_int_equal(at.ms, START + 1000); /* whole seconds */
    assert_int_equal(clock_mark_write(inside, (struct wall){START + 5}, NULL), ERROR_NONE);
    /* the time of the setting is only for a new folder */
    const struct clock_choice later = {true, {START + 999999}};
    assert_int_equal(clock_mark_begin(inside, &later, NOW, &at, NULL), ERROR_NONE);
    assert_int_equal(at.ms, START + 5);
    testing_folder_remove(&folder);
}

static void a_folder_keeps_its_kind(void **state)
{
    struct testing_folder folder;
    struct error error;
    struct wall at;

    (void)state;
    testing_folder_make(&folder);
    clock_mark_put(folder.path, FOLDER_IDENTITY_NAME, "of a real clock");
    assert_int_equal(clock_mark_begin(folder.path, &any_virtual, NOW, &at, &error), ERROR_INVALID);
    assert_non_null(strstr(error.text, "of a real clock"));
    clock_mark_put(folder.path, FOLDER_CLOCK_NAME, "virtual 2027-01-01T00:00:00.000Z\n");
    assert_int_equal(clock_mark_begin(folder.path, &any_virtual, NOW, &at, NULL), ERROR_NONE);
    assert_int_equal(at.ms, START);
    assert_int_equal(clock_mark_begin(folder.path, &real, NOW, &at, &error), ERROR_INVALID);
    assert_non_null(strstr(error.text, "of a virtual clock"));
    testing_folder_remove(&folder);
}

static void a_damaged_time_is_refused(void **state)
{
    static const char *const wrongs[] = {
        "",
        "\n",
        "virtual \n",
        "virtual 2027-01-01T00:00:00.000Z",
        "virtual 1970-01-01T00:00:00.000Z\n",
        "actual  2027-01-01T00:00:00.000Z\n",
        "virtual 2027-01-01T00:00:00.000Z 2027-01-01T00:00:00.000Z 2027-01-01\n",
    };
    struct testing_folder folder;
    struct wall at = {7};

    (void)state;
    testing_folder_make(&folder);
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(*wrongs); i++) {
        clock_mark_put(folder.path, FOLDER_CLOCK_NAME, wrongs[i]);
        assert_int_not_equal(clock_mark_begin(folder.path, &any_virtual, NOW, &at, NULL),
                             ERROR_NONE);
    }
    testing_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_setting),
        cmocka_unit_test(a_new_folder_gets_the_clock_of_its_first_start),
        cmocka_unit_test(a_folder_keeps_its_kind),
        cmocka_unit_test(a_damaged_time_is_refused),
    };

    return cmocka_run_group_tests_name("clock_mark", tests, NULL, NULL);
}
