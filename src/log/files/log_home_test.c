/* Goal: the log of a data folder is opened with every record, or refused when it is missing, an
 * older copy or that of another folder; with skips_damage it is opened with what is intact, and the
 * lost records are counted. Method: real folders, whose logs are removed, and exchanged for copies.
 */
#include "log/files/log_home.h"

#include "sys/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct homes {
    char folder[200], home[240], away[240], log_folder[260], reached[260];
    struct log_home log;
};

static int homes_set_up(void **state)
{
    struct homes *homes = calloc(1, sizeof(*homes));
    const char *parent = getenv("TMPDIR");

    assert_non_null(homes);
    snprintf(homes->folder, sizeof(homes->folder), "%.150s/tickwheel-home-XXXXXX",
             parent ? parent : "/tmp");
    assert_non_null(mkdtemp(homes->folder));
    snprintf(homes->home, sizeof(homes->home), "%s/home", homes->folder);
    snprintf(homes->away, sizeof(homes->away), "%s/away", homes->folder);
    snprintf(homes->log_folder, sizeof(homes->log_folder), "%s/" LOG_HOME_FOLDER, homes->home);
    snprintf(homes->reached, sizeof(homes->reached), "%s/" LOG_HOME_REACHED, homes->home);
    assert_int_equal(files_make_folder(homes->home, NULL), ERROR_NONE);
    log_home_init(&homes->log, homes->home);
    assert_int_equal(log_home_make(&homes->log, 1, NULL), ERROR_NONE);
    assert_true(log_home_adopt(&homes->log));
    *state = homes;
    return 0;
}

static int homes_tear_down(void **state)
{
    struct homes *homes = *state;

    log_home_close(&homes->log);
    files_remove_folder(homes->home);
    files_remove_folder(homes->folder);
    free(homes);
    return 0;
}

static void homes_append(struct homes *homes, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct log_record record = {.body = BYTES("body")};

        assert_int_equal(log_home_append(&homes->log, &record, 1, NULL), ERROR_NONE);
    }
}

static enum error_code homes_count(void *context, const struct log_record *record,
                                   struct error *ret_error)
{
    (void)record, (void)ret_error;
    ++*(unsigned *)context;
    return ERROR_NONE;
}

static enum error_code homes_open(struct homes *homes, struct error *ret_error)
{
    struct log_home *log = &homes->log;

    log_home_close(log);
    log->has_loss = false;
    log->lost = 0;
    return log_home_open(log, LOG_FILES_OPEN, 1, ret_error);
}

static void assert_home_opens(struct homes *homes, unsigned count)
{
    struct error error = {.text = ""};
    unsigned found = 0;

    if (homes_open(homes, &error))
        fail_msg("%s", error.text);
    assert_int_equal(log_files_read(homes->log.files, 1, homes_count, &found, NULL), ERROR_NONE);
    assert_int_equal(found, count);
    assert_false(homes->log.has_loss);
    assert_false(log_home_adopt(&homes->log));
}

static void assert_home_refused(struct homes *homes, const char *part)
{
    struct error error = {.text = ""};

    assert_int_equal(homes_open(homes, &error), ERROR_CORRUPT);
    if (!strstr(error.text, part) || !strstr(error.text, "restore a backup"))
        fail_msg("\"%s\" says nothing of \"%s\"", error.text, part);
}

static void assert_home_skips(struct homes *homes, uint64_t lost)
{
    homes->log.skips_damage = true;
    assert_int_equal(homes_open(homes, NULL), ERROR_NONE);
    assert_true(homes->log.has_loss);
    struct log_files_stats stats;
    log_files_get_stats(homes->log.files, &stats);
    assert_int_equal(homes->log.lost + stats.lost, lost);
    homes_append(homes, 1);
}

static bool homes_copy_one(void *context, const struct files_entry *entry)
{
    const struct homes *homes = context;
    char from[600], to[600];

    snprintf(from, sizeof(from), "%s/%s", homes->log_folder, entry->name);
    snprintf(to, sizeof(to), "%s/%s", homes->away, entry->name);
    assert_int_equal(files_copy(from, to, NULL), ERROR_NONE);
    return true;
}

static void homes_copy_log(struct homes *homes)
{
    assert_int_equal(files_make_folder(homes->away, NULL), ERROR_NONE);
    assert_int_equal(files_list(homes->log_folder, homes_copy_one, homes, NULL), ERROR_NONE);
}

static void homes_put_copy_back(struct homes *homes)
{
    log_home_close(&homes->log);
    files_remove_folder(homes->log_folder);
    assert_int_equal(rename(homes->away, homes->log_folder), 0);
}

static void test_home_is_kept(void **state)
{
    struct homes *homes = *state;

    homes_append(homes, 3);
    assert_home_opens(homes, 3);
    homes_append(homes, 2);
    assert_home_opens(homes, 5);
}

static void test_home_without_its_log(void **state)
{
    struct homes *homes = *state;

    homes_append(homes, 3);
    log_home_close(&homes->log);
    files_remove_folder(homes->log_folder);
    assert_home_refused(homes, "is missing");
    assert_home_skips(homes, 3);
}

static void test_home_with_an_older_log(void **state)
{
    struct homes *homes = *state;

    homes_append(homes, 1);
    homes_copy_log(homes);
    homes_append(homes, 2);
    homes_put_copy_back(homes);
    assert_home_refused(homes, "log");
    assert_home_skips(homes, 2);
}

/* What REACHED says is lost with it: the older log passes. */
static void test_home_with_a_damaged_mark(void **state)
{
    struct homes *homes = *state;

    homes_append(homes, 1);
    homes_copy_log(homes);
    homes_append(homes, 2);
    homes_put_copy_back(homes);
    assert_int_equal(files_write(homes->reached, BYTES("tickreac and no more"), NULL), ERROR_NONE);
    assert_home_opens(homes, 1);
}

static void test_home_with_another_log(void **state)
{
    struct homes *homes = *state;

    homes_append(homes, 3);
    homes_copy_log(homes);
    homes->log.has_id = false;
    assert_int_equal(log_home_make(&homes->log, 1, NULL), ERROR_NONE);
    assert_true(log_home_adopt(&homes->log)); /* the folder has a new one now */
    homes_append(homes, 3);
    homes_put_copy_back(homes);
    assert_home_refused(homes, "log");
    assert_home_skips(homes, 3);
}

static void test_home_of_a_backup(void **state)
{
    struct homes *homes = *state;
    struct error error = {.text = ""};

    log_home_close(&homes->log);
    assert_int_equal(log_home_check_unused(&homes->log, NULL), ERROR_NONE);
    assert_home_opens(homes, 0);
    homes_append(homes, 1);
    log_home_close(&homes->log);
    assert_int_equal(log_home_check_unused(&homes->log, &error), ERROR_CORRUPT);
    assert_non_null(strstr(error.text, "holds writes of tables that are not here"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, homes_set_up, homes_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_home_is_kept),           TEST(test_home_without_its_log),
        TEST(test_home_with_an_older_log), TEST(test_home_with_a_damaged_mark),
        TEST(test_home_with_another_log),  TEST(test_home_of_a_backup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
