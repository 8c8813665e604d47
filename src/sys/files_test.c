/*
 * Goal: files come and go whole, and each failure says which path and why.
 * Method: real files in a fresh folder; the failures are those that a user can cause (missing, a
 * file in the way, too large, a full device).
 */
#include "sys/files.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

struct files_fixture {
    char folder[64];
    char path[128]; /* where path_of writes */
};

static int files_setup(void **state)
{
    struct files_fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    snprintf(fixture->folder, sizeof(fixture->folder), "/tmp/tickwheel-files-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    *state = fixture;
    return 0;
}

static int files_teardown(void **state)
{
    static const char *const left[] = {"a/b/c", "a/b", "a", "file", "file.new/x", "file.new"};
    struct files_fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        snprintf(fixture->path, sizeof(fixture->path), "%s/%s", fixture->folder, left[i]);
        remove(fixture->path);
    }
    assert_int_equal(rmdir(fixture->folder), 0);
    free(fixture);
    return 0;
}

static const char *files_test_path(struct files_fixture *fixture, const char *name)
{
    snprintf(fixture->path, sizeof(fixture->path), "%s/%s", fixture->folder, name);
    return fixture->path;
}

static void makes_folders_and_keeps_those_that_exist(void **state)
{
    struct files_fixture *fixture = *state;
    struct error error;

    assert_int_equal(files_make_folder(files_test_path(fixture, "a//b/c/"), &error), ERROR_NONE);
    assert_int_equal(files_make_folder(files_test_path(fixture, "a/b/c"), &error), ERROR_NONE);
    struct stat info;
    assert_int_equal(stat(files_test_path(fixture, "a/b/c"), &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    assert_int_equal(info.st_mode & 0077, 0);
    assert_int_equal(files_make_folder("/", &error), ERROR_NONE);
}

/* Every sync of these tests lands here, and may be refused. */
static unsigned sync_count;
static int sync_error;

int fsync(int fd)
{
    sync_count++;
    if (sync_error) {
        errno = sync_error;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

/* A folder of a power cut ago is one whose name was synced, whoever made it. */
static void syncs_the_names_of_folders(void **state)
{
    struct files_fixture *fixture = *state;
    struct error error;
    unsigned before = sync_count;

    assert_int_equal(files_make_folder(files_test_path(fixture, "a/b"), &error), ERROR_NONE);
    assert_int_equal(sync_count, before + 4); /* of /, /tmp, the fixture's and a */
    before = sync_count;
    assert_int_equal(files_make_folder(files_test_path(fixture, "a/b"), &error), ERROR_NONE);
    assert_int_equal(sync_count, before + 4);
    sync_error = EROFS; /* as the root's may be: not ours */
    assert_int_equal(files_make_folder(files_test_path(fixture, "a/b"), &error), ERROR_NONE);
    assert_int_equal(files_make_folder(files_test_path(fixture, "a/b/c"), &error), ERROR_IO);
    assert_non_null(strstr(error.text, "sync the folder of"));
    sync_error = EIO;
    assert_int_equal(files_make_folder(files_test_path(fixture, "a/b"), &error), ERROR_IO);
    sync_error = 0;
}

static void refuses_a_folder_where_a_file_is(void **state)
{
    struct files_fixture *fixture = *state;
    struct error error;

    assert_int_equal(files_write(files_test_path(fixture, "file"), BYTES("x"), &error), ERROR_NONE);
    assert_int_equal(files_make_folder(files_test_path(fixture, "file"), &error), ERROR_IO);
    assert_non_null(strstr(error.text, "/file"));
    assert_int_equal(files_make_folder(files_test_path(fixture, "file/below"), &error), ERROR_IO);
    assert_int_equal(files_make_folder("", &error), ERROR_IO);
}

static void refuses_a_pipe_where_a_regular_file_is_wanted(void **state)
{
    struct files_fixture *fixture = *state;
    struct buffer buffer;
    struct error error;

    buffer_init(&buffer);
    assert_int_equal(files_write(files_test_path(fixture, "file"), BYTES("one"), &error),
                     ERROR_NONE);
    assert_int_equal(files_read_regular(fixture->path, 3, &buffer, &error), ERROR_NONE);
    assert_true(bytes_equal(buffer_bytes(&buffer), BYTES("one")));
    assert_int_equal(files_read_regular(fixture->path, 2, &buffer, &error), ERROR_TOO_LARGE);
    assert_int_equal(files_read_regular(files_test_path(fixture, "none"), 3, &buffer, &error),
                     ERROR_IO);
    assert_int_equal(mkfifo(files_test_path(fixture, "pipe"), 0600), 0);
    assert_int_equal(files_read_regular(fixture->path, 3, &buffer, &error), ERROR_IO);
    assert_non_null(strstr(error.text, "pipe: it is not a regular file"));
    assert_int_equal(files_read_regular("/dev/null", 3, &buffer, &error), ERROR_IO);
    assert_int_equal(buffer.size, 3);
    unlink(files_test_path(fixture, "pipe"));
    buffer_deinit(&buffer);
}

static void reads_back_what_it_wrote(void **state)
{
    static char large[100000];
    struct files_fixture *fixture = *state;

    memset(large, 'z', sizeof(large));
    struct buffer buffer;
    buffer_init(&buffer);
    buffer_append_text(&buffer, "before:");
    struct error error;
    assert_int_equal(files_write(files_test_path(fixture, "file"), BYTES("one"), &error),
                     ERROR_NONE);
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
    struct files_fixture *fixture = *state;
    struct buffer buffer;

    buffer_init(&buffer);
    buffer_append_text(&buffer, "kept");
    struct error error;
    assert_int_equal(files_read(files_test_path(fixture, "missing"), 10, &buffer, &error),
                     ERROR_IO);
    assert_non_null(strstr(error.text, "/missing: No such file"));
    assert_int_equal(
        files_write(files_test_path(fixture, "file"), (struct bytes){large, sizeof(large)}, &error),
        ERROR_NONE);
    assert_int_equal(files_read(fixture->path, sizeof(large) - 1, &buffer, &error),
                     ERROR_TOO_LARGE);
    assert_int_equal(files_read(fixture->folder, 10, &buffer, &error), ERROR_IO);
    assert_true(bytes_equal(buffer_bytes(&buffer), BYTES("kept")));
    buffer_deinit(&buffer);
}

static void a_failed_write_leaves_the_old_contents(void **state)
{
    struct files_fixture *fixture = *state;
    struct buffer buffer;

    buffer_init(&buffer);
    struct error error;
    assert_int_equal(files_write(files_test_path(fixture, "file"), BYTES("old"), &error),
                     ERROR_NONE);
    char fresh[160];
    snprintf(fresh, sizeof(fresh), "%s.new", fixture->path);
    /* A folder where the new contents would go first. */
    assert_int_equal(mkdir(fresh, 0700), 0);
    assert_int_equal(files_write(fixture->path, BYTES("new"), &error), ERROR_IO);
    assert_int_equal(files_read(fixture->path, 10, &buffer, &error), ERROR_NONE);
    assert_true(bytes_equal(buffer_bytes(&buffer), BYTES("old")));
    assert_int_equal(files_write(files_test_path(fixture, "none/file"), BYTES("x"), &error),
                     ERROR_IO);
    buffer_deinit(&buffer);
}

static void a_write_leaves_nothing_beside_the_file(void **state)
{
    struct files_fixture *fixture = *state;
    struct error error;

    assert_int_equal(files_write(files_test_path(fixture, "file"), BYTES("secret"), &error),
                     ERROR_NONE);
    struct stat info;
    assert_int_equal(stat(fixture->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_not_equal(stat(files_test_path(fixture, "file.new"), &info), 0);
}

static void knows_the_free_disk(void **state)
{
    struct files_fixture *fixture = *state;
    struct error error;
    uint64_t bytes = 0;

    assert_int_equal(files_free_bytes(fixture->folder, &bytes, &error), ERROR_NONE);
    assert_true(bytes > 0);
    assert_int_equal(files_free_bytes(files_test_path(fixture, "missing"), &bytes, &error),
                     ERROR_IO);
}

struct files_seen {
    size_t count;
    uint64_t bytes;
};

static bool see(void *context, const struct files_entry *entry)
{
    struct files_seen *seen = context;

    seen->count++;
    seen->bytes += entry->is_folder ? 0 : entry->bytes;
    return strcmp(entry->name, "file") != 0;
}

static void add_sizes(void *context, struct bytes block)
{
    struct files_seen *seen = context;

    seen->count++;
    seen->bytes += block.size;
}

static void lists_and_removes(void **state)
{
    struct files_fixture *fixture = *state;

    assert_int_equal(files_write(files_test_path(fixture, "file"), BYTES("seven b"), NULL),
                     ERROR_NONE);
    struct files_seen seen = {0};
    assert_int_equal(files_list(fixture->folder, see, &seen, NULL), ERROR_NONE);
    assert_true(seen.count == 1 && seen.bytes == 7);
    assert_true(files_exists(files_test_path(fixture, "file")));
    assert_int_equal(files_look_for(files_test_path(fixture, "file")), FILES_THERE);
    assert_int_equal(files_look_for(files_test_path(fixture, "file/in-it")), FILES_ABSENT);
    assert_int_equal(files_look_for(files_test_path(fixture, "other")), FILES_ABSENT);
    assert_int_equal(files_remove(files_test_path(fixture, "file"), NULL), ERROR_NONE);
    assert_int_equal(files_remove(files_test_path(fixture, "file"), NULL), ERROR_NONE);
    assert_false(files_exists(files_test_path(fixture, "file")));
    struct error error;
    assert_int_equal(files_list(files_test_path(fixture, "none"), see, &seen, &error), ERROR_IO);
    assert_non_null(strstr(error.text, "/none"));
}

static void reads_block_by_block(void **state)
{
    struct files_fixture *fixture = *state;

    assert_int_equal(files_write(files_test_path(fixture, "file"), BYTES("seven b"), NULL),
                     ERROR_NONE);
    struct files_seen seen = {0};
    assert_int_equal(files_each_block(files_test_path(fixture, "file"), 3, add_sizes, &seen, NULL),
                     ERROR_NONE);
    assert_true(seen.count == 3 && seen.bytes == 7);
    assert_int_equal(files_each_block(files_test_path(fixture, "none"), 3, add_sizes, &seen, NULL),
                     ERROR_IO);
}

static void locks_a_folder_alone_or_shared(void **state)
{
    struct files_fixture *fixture = *state;
    int first;

    assert_int_equal(files_lock_folder(fixture->folder, FILES_LOCK_SHARED, &first, NULL),
                     ERROR_NONE);
    int second;
    assert_int_equal(files_lock_folder(fixture->folder, FILES_LOCK_SHARED, &second, NULL),
                     ERROR_NONE);
    files_unlock(second);
    int untouched = -5;
    struct error error;
    assert_int_equal(files_lock_folder(fixture->folder, FILES_LOCK_EXCLUSIVE, &untouched, &error),
                     ERROR_IO);
    assert_int_equal(untouched, -5);
    assert_non_null(strstr(error.text, "is in use by another process"));
    files_unlock(first);
    assert_int_equal(files_lock_folder(fixture->folder, FILES_LOCK_EXCLUSIVE, &first, NULL),
                     ERROR_NONE);
    assert_int_equal(files_lock_folder(fixture->folder, FILES_LOCK_SHARED, &untouched, NULL),
                     ERROR_IO);
    files_unlock(first);
}

static void copies_for_the_owner_only(void **state)
{
    struct files_fixture *fixture = *state;
    static char large[3 * 1024 * 1024 / 2];
    struct buffer text;

    buffer_init(&text);
    memset(large, 'x', sizeof(large));
    char from[sizeof(fixture->path)];
    memcpy(from, files_test_path(fixture, "from"), sizeof(from));
    struct error error;
    assert_int_equal(files_write(from, (struct bytes){large, sizeof(large)}, &error), ERROR_NONE);
    assert_int_equal(chmod(from, 0644), 0);
    assert_int_equal(chmod(fixture->folder, 0755), 0);
    assert_int_equal(files_copy(from, files_test_path(fixture, "to"), &error), ERROR_NONE);
    assert_int_equal(files_read(fixture->path, sizeof(large), &text, &error), ERROR_NONE);
    assert_true(bytes_equal(buffer_bytes(&text), (struct bytes){large, sizeof(large)}));
    struct stat info;
    assert_int_equal(stat(fixture->path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    sync_error = EIO;
    assert_int_equal(files_copy(from, fixture->path, &error), ERROR_IO);
    assert_int_equal(files_give_folder(fixture->folder, &error), ERROR_IO);
    sync_error = 0;
    assert_int_equal(files_copy(files_test_path(fixture, "missing"), from, &error), ERROR_IO);
    assert_int_equal(files_copy(from, "/dev/full", &error), ERROR_IO);
    assert_int_equal(files_give_folder(fixture->folder, &error), ERROR_NONE);
    assert_int_equal(stat(fixture->folder, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    assert_int_equal(stat(from, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(files_give_folder(files_test_path(fixture, "missing"), &error), ERROR_IO);
    assert_int_equal(files_remove(from, &error), ERROR_NONE);
    assert_int_equal(files_remove(files_test_path(fixture, "to"), &error), ERROR_NONE);
    buffer_deinit(&text);
}

/* What a link leads to stays. */
static void removes_a_folder(void **state)
{
    struct files_fixture *fixture = *state;
    char file[200], folder[200], path[210];
    struct buffer text;

    snprintf(file, sizeof(file), "%s", files_test_path(fixture, "file"));
    snprintf(folder, sizeof(folder), "%s", files_test_path(fixture, "folder"));
    assert_int_equal(files_write(file, BYTES("old"), NULL), ERROR_NONE);
    assert_int_equal(files_make_folder(folder, NULL), ERROR_NONE);
    snprintf(path, sizeof(path), "%s/link", folder);
    assert_int_equal(symlink(file, path), 0);
    snprintf(path, sizeof(path), "%s/a", folder);
    assert_int_equal(files_make_folder(path, NULL), ERROR_NONE);
    snprintf(path, sizeof(path), "%s/a/b", folder);
    assert_int_equal(files_write(path, BYTES("b"), NULL), ERROR_NONE);
    files_remove_folder(folder);
    assert_false(files_exists(folder));
    buffer_init(&text);
    assert_int_equal(files_read(file, 10, &text, NULL), ERROR_NONE);
    assert_true(bytes_equal(buffer_bytes(&text), BYTES("old")));
    buffer_deinit(&text);
}

static void probes_the_disk(void **state)
{
    struct files_fixture *fixture = *state;
    struct error error;

    assert_int_equal(files_probe(fixture->folder, 1, &error), ERROR_NONE);
    sync_error = EIO;
    assert_int_equal(files_probe(fixture->folder, 1, &error), ERROR_IO);
    sync_error = 0;
    assert_int_not_equal(access(files_test_path(fixture, "probe"), F_OK), 0); /* nothing is left */
    assert_int_equal(files_probe(files_test_path(fixture, "missing"), 1, &error), ERROR_IO);
}

static void measures_syncs(void **state)
{
    struct files_fixture *fixture = *state;
    uint64_t ns[3] = {0};
    struct error error;

    assert_int_equal(files_measure_syncs(fixture->folder, ns, 3, &error), ERROR_NONE);
    for (size_t i = 0; i < 3; i++)
        assert_in_range(ns[i], 1, UINT64_C(600) * 1000000000);
    sync_error = EIO;
    assert_int_equal(files_measure_syncs(fixture->folder, ns, 3, &error), ERROR_IO);
    sync_error = 0;
    assert_int_equal(files_measure_syncs("/none/at/all", ns, 3, &error), ERROR_IO);
    /* The folder is empty, or the teardown fails. */
}

static void knows_the_owner(void **state)
{
    struct files_fixture *fixture = *state;
    uint32_t user = UINT32_MAX;
    struct error error;

    assert_int_equal(files_owner(fixture->folder, &user, &error), ERROR_NONE);
    assert_int_equal(user, geteuid());
    assert_int_equal(files_owner(files_test_path(fixture, "missing"), &user, &error), ERROR_IO);
    assert_int_equal(user, geteuid());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(makes_folders_and_keeps_those_that_exist, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(syncs_the_names_of_folders, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(refuses_a_folder_where_a_file_is, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(reads_back_what_it_wrote, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(refuses_a_pipe_where_a_regular_file_is_wanted, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(leaves_the_buffer_as_it_was_when_reading_fails, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(a_failed_write_leaves_the_old_contents, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(a_write_leaves_nothing_beside_the_file, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(lists_and_removes, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(reads_block_by_block, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(locks_a_folder_alone_or_shared, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(copies_for_the_owner_only, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(removes_a_folder, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(probes_the_disk, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(measures_syncs, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(knows_the_owner, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(knows_the_free_disk, files_setup, files_teardown),
    };

    return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
