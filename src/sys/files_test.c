/*
 * Goal: files come and go whole, and each failure says which path and why.
 * Method: real files in a fresh folder; the failures are those that a user can cause (missing, a
 * file in the way, too large, a full device).
 */
#include "sys/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char folder[64];
    char path[128]; /* where path_of writes */
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    snprintf(fixture->folder, sizeof(fixture->folder), "/tmp/tickwheel-files-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    static const char *const left[] = {"a/b/c", "a/b", "a", "file", "file.new/x", "file.new"};
    struct fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        snprintf(fixture->path, sizeof(fixture->path), "%s/%s", fixture->folder, left[i]);
        remove(fixture->path);
    }
    assert_int_equal(rmdir(fixture->folder), 0);
    free(fixture);
    return 0;
}

static const char *path_of(struct fixture *fixture, const char *name)
{
    snprintf(fixture->path, sizeof(fixture->path), "%s/%s", fixture->folder, name);
    return fixture->path;
}

static void makes_folders_and_keeps_those_that_exist(void **state)
{
    struct fixture *fixture = *state;
    struct stat info;
    struct error error;

    assert_int_equal(files_make_folder(path_of(fixture, "a//b/c/"), &error), ERROR_NONE);
    assert_int_equal(files_make_folder(path_of(fixture, "a/b/c"), &error), ERROR_NONE);
    assert_int_equal(stat(path_of(fixture, "a/b/c"), &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    assert_int_equal(info.st_mode & 0077, 0);
    assert_int_equal(files_make_folder("/", &error), ERROR_NONE);
}

static void refuses_a_folder_where_a_file_is(void **state)
{
    struct fixture *fixture = *state;
    struct error error;

    assert_int_equal(files_write(path_of(fixture, "file"), BYTES("x"), &error), ERROR_NONE);
    assert_int_equal(files_make_folder(path_of(fixture, "file"), &error), ERROR_IO);
    assert_non_null(strstr(error.text, "/file"));
    assert_int_equal(files_make_folder(path_of(fixture, "file/below"), &error), ERROR_IO);
    assert_int_equal(files_make_folder("", &error), ERROR_IO);
}

static void reads_back_what_it_wrote(void **state)
{
    static char large[100000];
    struct fixture *fixture = *state;
    struct buffer buffer;
    struct error error;

    memset(large, 'z', sizeof(large));
    buffer_init(&buffer);
    buffer_append_text(&buffer, "before:");
    assert_int_equal(files_write(path_of(fixture, "file"), BYTES("one"), &error), ERROR_NONE);
    assert_int_equal(files_read(fixture->path, 3, &buffer, &error), ERROR_NONE);
    assert_true(bytes_equal(buffer_bytes(&buffer), BYTES("before:one")));

    buffer_clear(&buffer);
    assert_int_equal(files_write(fixture->path, (struct bytes){large, sizeof(large)}, &error),
                     ERROR_NONE);
    assert_int_equal(files_read(fixture->path, sizeof(large), &buffer, &error), ERROR_NONE);
    assert_true(bytes_equal(buffer_bytes(&buffer), (struct bytes){large, sizeof(large)}));

    buffer_clear(&buffer);
    assert_int_equal(files_write(fixture->path, BYTES(""), &error), ERROR_NONE);
    assert_int_equal(files_read(fixture->path, 0, &buffer, &error), ERROR_NONE);
    assert_int_equal(buffer.size, 0);
    buffer_deinit(&buffer);
}

static void leaves_the_buffer_as_it_was_when_reading_fails(void **state)
{
    static char large[100000];
    struct fixture *fixture = *state;
    struct buffer buffer;
    struct error error;

    buffer_init(&buffer);
    buffer_append_text(&buffer, "kept");
    assert_int_equal(files_read(path_of(fixture, "missing"), 10, &buffer, &error), ERROR_IO);
    assert_non_null(strstr(error.text, "/missing: No such file"));
    assert_int_equal(
        files_write(path_of(fixture, "file"), (struct bytes){large, sizeof(large)}, &error),
        ERROR_NONE);
    assert_int_equal(files_read(fixture->path, sizeof(large) - 1, &buffer, &error),
                     ERROR_TOO_LARGE);
    assert_int_equal(files_read(fixture->folder, 10, &buffer, &error), ERROR_IO);
    assert_true(bytes_equal(buffer_bytes(&buffer), BYTES("kept")));
    buffer_deinit(&buffer);
}

static void a_failed_write_leaves_the_old_contents(void **state)
{
    struct fixture *fixture = *state;
    struct buffer buffer;
    struct error error;
    char fresh[160];

    buffer_init(&buffer);
    assert_int_equal(files_write(path_of(fixture, "file"), BYTES("old"), &error), ERROR_NONE);
    snprintf(fresh, sizeof(fresh), "%s.new", fixture->path);
    /* A folder where the new contents would go first. */
    assert_int_equal(mkdir(fresh, 0700), 0);
    assert_int_equal(files_write(fixture->path, BYTES("new"), &error), ERROR_IO);
    assert_int_equal(files_read(fixture->path, 10, &buffer, &error), ERROR_NONE);
    assert_true(bytes_equal(buffer_bytes(&buffer), BYTES("old")));
    assert_int_equal(files_write(path_of(fixture, "none/file"), BYTES("x"), &error), ERROR_IO);
    buffer_deinit(&buffer);
}

static void a_write_leaves_nothing_beside_the_file(void **state)
{
    struct fixture *fixture = *state;
    struct stat info;
    struct error error;

    assert_int_equal(files_write(path_of(fixture, "file"), BYTES("secret"), &error), ERROR_NONE);
    assert_int_equal(stat(fixture->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_not_equal(stat(path_of(fixture, "file.new"), &info), 0);
}

static void knows_the_free_disk(void **state)
{
    struct fixture *fixture = *state;
    struct error error;
    uint64_t bytes = 0;

    assert_int_equal(files_free_bytes(fixture->folder, &bytes, &error), ERROR_NONE);
    assert_true(bytes > 0);
    assert_int_equal(files_free_bytes(path_of(fixture, "missing"), &bytes, &error), ERROR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(makes_folders_and_keeps_those_that_exist, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_a_folder_where_a_file_is, setup, teardown),
        cmocka_unit_test_setup_teardown(reads_back_what_it_wrote, setup, teardown),
        cmocka_unit_test_setup_teardown(leaves_the_buffer_as_it_was_when_reading_fails, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_failed_write_leaves_the_old_contents, setup, teardown),
        cmocka_unit_test_setup_teardown(a_write_leaves_nothing_beside_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(knows_the_free_disk, setup, teardown),
    };

    return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
