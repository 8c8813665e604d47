/* Goal: a start refuses a log that lacks or changed an acknowledged record, names the file, and
 * changes nothing; it drops a torn end; skipping damage keeps all other records. Method: a log of
 * five segments on a disk in memory; a file is removed, cut, exchanged or has one flipped bit. The
 * real disk shows modes, and appends beside trims. */
#include "log/files/log_disk_testing.h"
#include "log/files/log_files_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opening and reading in both refusing modes says `text`, and changes nothing. */
static void assert_refused(struct logs *logs, const char *text)
{
    for (int i = 0; i < 2; i++) {
        struct log_files *log = NULL;
        struct error error = {0};
        uint64_t calls = logs->memory->calls, count = 0;

        logs->options.mode = i ? LOG_FILES_READ : LOG_FILES_MAKE;
        enum error_code code = log_files_open(&logs->options, &log, &error);
        if (i || code)
            assert_true(logs->memory->calls == calls);
        if (!code)
            code = log_files_read(log, 1, logs_count_one, &count, &error);
        assert_int_equal(code, ERROR_CORRUPT);
        if (!strstr(error.text, text))
            fail_msg("\"%s\" lacks \"%s\"", error.text, text);
        logs->memory->has_ended = true;
        log_files_close(log);
        logs->memory->has_ended = false;
        assert_int_equal(logs->memory->open_count, 0);
    }
    logs->options.mode = LOG_FILES_MAKE;
}

/* With storage_damage = skip `kept` records come and the others are counted; new records have new
 * offsets, and once the old ones are trimmed a strict start is content. */
static void assert_skipped(struct logs *logs, uint64_t kept)
{
    struct log_files_stats stats;

    logs->options.damage = LOG_FILES_DAMAGE_SKIP;
    logs->options.begin = LOGS_RECORDS + 1;
    logs_open(logs);
    uint64_t count = 0;
    assert_int_equal(log_files_read(logs->log, 1, logs_count_one, &count, NULL), ERROR_NONE);
    assert_int_equal(count, kept);
    log_files_get_stats(logs->log, &stats);
    assert_int_equal(stats.end, LOGS_RECORDS + 1);
    logs_append(logs->log, LOGS_RECORDS + 1);
    assert_int_equal(log_files_trim(logs->log, LOGS_RECORDS + 1, NULL), ERROR_NONE);
    logs_kill(logs);
    logs->options.damage = LOG_FILES_DAMAGE_REFUSE;
    logs_open(logs);
    assert_int_equal(logs_count(logs, LOGS_RECORDS + 1), 1);
}

static void remove_file(struct logs *logs, const char *name)
{
    assert_int_equal(logs->memory->disk.remove(&logs->memory->disk, name), 0);
}

static void cut_file(struct logs *logs, const char *name, uint64_t bytes)
{
    struct disk_name *known = disk_memory_find(logs->memory->live, logs->memory->live_count, name);

    assert_non_null(known);
    logs->memory->files[known->file].live_bytes = bytes;
}

static void flip(struct logs *logs, const char *name, uint64_t at)
{
    char *byte = disk_memory_byte(logs->memory, name, at);

    assert_non_null(byte);
    *byte ^= 4;
}

/* ---- nothing is wrong ---- */

static void test_kept(void **state)
{
    struct logs logs = logs_make();

    (void)state;
    logs_open(&logs);
    assert_int_equal(logs_count(&logs, 1), LOGS_RECORDS);
    assert_int_equal(logs_count(&logs, 20), 21);
    assert_int_equal(logs_count(&logs, LOGS_RECORDS + 1), 0);
    assert_true(log_files_first(logs.log) == 1 && log_files_end(logs.log) == LOGS_RECORDS + 1);
    uint64_t count = 0;
    assert_int_equal(log_files_read(logs.log, LOGS_RECORDS + 2, logs_count_one, &count, NULL),
                     ERROR_CORRUPT);
    logs_append(logs.log, LOGS_RECORDS + 1);
    logs_free(&logs);
}

static enum error_code end_reading(void *context, const struct log_record *record,
                                   struct error *ret_error)
{
    (void)context;
    return record->offset == 3 ? error_set(ret_error, ERROR_OVERLOADED, "enough") : ERROR_NONE;
}

static void test_visitor_ends(void **state)
{
    struct logs logs = logs_make();
    struct error error = {0};

    (void)state;
    logs_open(&logs);
    assert_int_equal(log_files_read(logs.log, 1, end_reading, NULL, &error), ERROR_OVERLOADED);
    assert_string_equal(error.text, "enough");
    logs_free(&logs);
}

static void test_large_append(void **state)
{
    struct logs logs = logs_make();
    struct log_record records[3];
    static char body[LOGS_SEGMENT];
    struct bytes huge = {body, (size_t)1 << 31};
    struct log_files_stats stats;

    (void)state;
    logs_open(&logs);
    for (size_t i = 0; i < 3; i++)
        records[i] = (struct log_record){.body = {body, sizeof(body)}};
    assert_int_equal(log_files_append(logs.log, records, 3, NULL), ERROR_NONE);
    assert_true(records[2].offset == LOGS_RECORDS + 3);
    records[1].body = huge;
    assert_int_equal(log_files_append(logs.log, records, 3, NULL), ERROR_TOO_LARGE);
    log_files_get_stats(logs.log, &stats);
    assert_true(stats.end == LOGS_RECORDS + 4 && !stats.is_in_doubt);
    logs_free(&logs);
}

/* ---- trimming ---- */

static void test_trim_recycles(void **state)
{
    struct logs logs = logs_make();
    struct log_files_stats before, after;

    (void)state;
    logs_open(&logs);
    log_files_get_stats(logs.log, &before);
    assert_int_equal(log_files_trim(logs.log, 20, NULL), ERROR_NONE);
    assert_true(log_files_first(logs.log) == 17);
    logs.memory->room = 0;
    /* Stale frames of its earlier life lie behind the end of the recycled segment. */
    for (uint64_t i = LOGS_RECORDS + 1; i <= LOGS_RECORDS + 3; i++)
        logs_append(logs.log, i);
    log_files_get_stats(logs.log, &after);
    assert_true(after.reserved <= before.reserved);
    logs_kill(&logs);
    logs.options.begin = 20;
    logs_open(&logs);
    assert_int_equal(logs_count(&logs, 17), LOGS_RECORDS + 3 - 16);
    log_files_get_stats(logs.log, &after);
    assert_int_equal(after.torn, 0);
    uint64_t count = 0;
    assert_int_equal(log_files_read(logs.log, 16, logs_count_one, &count, NULL), ERROR_CORRUPT);
    logs_free(&logs);
}

/* Segments that may go are kept, and each becomes the spare when there is none: no new one is
 * written. */
static void test_trim_keeps(void **state)
{
    struct logs logs = logs_make();

    (void)state;
    logs.options.segments_kept = 2;
    logs_open(&logs);
    for (int i = 0; i < 2; i++)
        assert_int_equal(log_files_trim(logs.log, 20, NULL), ERROR_NONE);
    assert_true(log_files_first(logs.log) < 17);
    logs.memory->room = 0;
    const uint64_t last = LOGS_RECORDS + 16; /* two segments */
    for (uint64_t i = LOGS_RECORDS + 1; i <= last; i++) {
        logs_append(logs.log, i);
        assert_int_equal(log_files_trim(logs.log, 20, NULL), ERROR_NONE);
    }
    assert_true(log_files_first(logs.log) > 1);
    logs_kill(&logs);
    logs.options.begin = 20;
    logs_open(&logs);
    assert_int_equal(logs_count(&logs, 17), last - 16);
    logs_free(&logs);
}

/* Whatever is asked for, the segment with the newest record stays. */
static void test_trim_all(void **state)
{
    struct logs logs = logs_make();

    (void)state;
    logs_open(&logs);
    assert_int_equal(log_files_trim(logs.log, UINT64_MAX, NULL), ERROR_NONE);
    assert_true(log_files_first(logs.log) == LOGS_FIRST_OF_LAST &&
                log_files_end(logs.log) == LOGS_RECORDS + 1);
    logs_free(&logs);
}

/* ---- refusals ---- */

static void test_missing(void **state)
{
    (void)state;
    for (int number = 1; number <= 5; number++) {
        struct logs logs = logs_make();
        char name[32];

        snprintf(name, sizeof(name), "%012d.segment", number);
        remove_file(&logs, name);
        snprintf(name, sizeof(name), "%012d.segment is missing", number);
        assert_refused(&logs, name);
        assert_skipped(&logs, LOGS_RECORDS - 8);
        logs_free(&logs);
    }
}

static void test_shortened(void **state)
{
    static const uint64_t sizes[] = {0, 8, 512, 4096, LOGS_SEGMENT - 1};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int number = 1; number <= 5; number += 2) {
            struct logs logs = logs_make();
            char name[32];

            snprintf(name, sizeof(name), "%012d.segment", number);
            cut_file(&logs, name, sizes[i]);
            assert_refused(&logs, name);
            assert_skipped(&logs, LOGS_RECORDS - 8);
            logs_free(&logs);
        }
}

static void test_exchanged(void **state)
{
    struct logs logs = logs_make();
    const struct disk_calls *disk = &logs.memory->disk;

    (void)state;
    assert_int_equal(disk->rename(disk, "000000000002.segment", "x"), 0);
    assert_int_equal(disk->rename(disk, "000000000003.segment", "000000000002.segment"), 0);
    assert_int_equal(disk->rename(disk, "x", "000000000003.segment"), 0);
    assert_refused(&logs, "000000000002.segment is segment 3");
    assert_skipped(&logs, LOGS_RECORDS - 16);
    logs_free(&logs);
}

/* The files of `from`, whole, under the name. */
static void copy_file(struct logs *from, struct logs *to, const char *name)
{
    struct disk_name *source = disk_memory_find(from->memory->live, from->memory->live_count, name);
    struct disk_name *target = disk_memory_find(to->memory->live, to->memory->live_count, name);

    assert_true(source && target);
    to->memory->files[target->file] = from->memory->files[source->file];
}

static void test_of_another_log(void **state)
{
    static const char *const names[] = {"000000000001.segment", "000000000005.segment"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct logs logs = logs_make(), other = logs_make();

        copy_file(&other, &logs, names[i]);
        assert_refused(&logs, "is of another log");
        assert_skipped(&logs, LOGS_RECORDS - 8);
        logs_free(&logs);
        logs_free(&other);
    }
}

/* An older copy of a segment, from before its last records were appended. */
static void test_older_copy(void **state)
{
    struct logs logs = logs_make();

    (void)state;
    logs_open(&logs);
    logs_append(logs.log, LOGS_RECORDS + 1);
    const struct disk_name *known =
        disk_memory_find(logs.memory->live, logs.memory->live_count, "000000000006.segment");
    assert_non_null(known);
    struct disk_file *now = &logs.memory->files[known->file], *copy = malloc(sizeof(*copy));
    assert_non_null(copy);
    *copy = *now;
    logs_append(logs.log, LOGS_RECORDS + 2);
    logs_kill(&logs);
    *now = *copy;
    free(copy);
    logs.options.begin = LOGS_RECORDS + 3;
    assert_refused(&logs, "ends before record 42, but records up to 42 were in it");
    logs_free(&logs);
}

/* Another log with equal records is known by its id, whatever damage is skipped. A log that ends
 * before the offset that it had reached lacks its end, also without a record. */
static void test_identity(void **state)
{
    struct logs logs = logs_make(), other = logs_make();
    struct log_files_stats stats;
    uint8_t id[LOG_ID_SIZE];

    (void)state;
    logs_open(&logs);
    log_files_get_stats(logs.log, &stats);
    logs_kill(&logs);
    memcpy(id, stats.id, sizeof(id));
    logs.options.id = other.options.id = id;
    assert_refused(&other, "is the log of another data folder");
    other.options.damage = LOG_FILES_DAMAGE_SKIP;
    assert_int_equal(log_files_open(&other.options, &other.log, NULL), ERROR_CORRUPT);
    logs.options.reached = LOGS_RECORDS + 1;
    logs_open(&logs);
    logs_kill(&logs);
    logs.options.reached = LOGS_RECORDS + 5;
    assert_refused(&logs, "ends before record 41, but records up to 44 were in it");
    logs.options.damage = LOG_FILES_DAMAGE_SKIP;
    logs_open(&logs);
    log_files_get_stats(logs.log, &stats);
    assert_int_equal(stats.lost, 4);
    assert_int_equal(stats.end, LOGS_RECORDS + 5);
    logs_kill(&logs);
    other.log = NULL;
    logs_free(&logs);
    logs_free(&other);
}

/* After a clean stop even the last record is known. */
static void test_clean_stop(void **state)
{
    struct logs logs = logs_make();

    (void)state;
    logs_open(&logs);
    log_files_close(logs.log);
    logs_open(&logs);
    const struct log_part *last = log_files_last(logs.log);
    uint64_t at = last->end - 16;
    log_files_close(logs.log);
    logs.log = NULL;
    flip(&logs, "000000000005.segment", at);
    assert_refused(&logs, "does not end where the last clean stop left it");
    assert_skipped(&logs, LOGS_RECORDS - 1);
    logs_free(&logs);
}

/* ---- flipped bits ---- */

static void test_flipped_header(void **state)
{
    (void)state;
    for (uint64_t at = 0; at < SEGMENT_HEADER_SIZE; at++)
        for (int number = 1; number <= 5; number += 2) {
            struct logs logs = logs_make();
            char name[32];

            snprintf(name, sizeof(name), "%012d.segment", number);
            flip(&logs, name, at);
            assert_refused(&logs, "has a damaged header");
            if (at % 16 == 0)
                assert_skipped(&logs, LOGS_RECORDS - 8);
            logs_free(&logs);
        }
}

/* In a frame that is not the last one: damage, wherever its bit is. */
static void test_flipped_frame(void **state)
{
    const uint64_t frame =
        SEGMENT_FRAME_HEADER_SIZE + (SEGMENT_RECORD_HEADER_SIZE + LOGS_BODY + 7) / 8 * 8;

    (void)state;
    for (uint64_t at = 0; at < frame; at += at < 48 ? 1 : 37)
        for (int number = 1; number <= 5; number += 2) {
            struct logs logs = logs_make();
            char name[32];

            snprintf(name, sizeof(name), "%012d.segment", number);
            flip(&logs, name, SEGMENT_HEADER_SIZE + 2 * frame + at);
            assert_refused(&logs, name);
            if (at % 8 == 0)
                assert_skipped(&logs, LOGS_RECORDS - 1);
            logs_free(&logs);
        }
}

/* In the last frame it cannot be told from a torn end. */
static void test_torn_end(void **state)
{
    const uint64_t frame =
        SEGMENT_FRAME_HEADER_SIZE + (SEGMENT_RECORD_HEADER_SIZE + LOGS_BODY + 7) / 8 * 8;

    (void)state;
    for (uint64_t at = 0; at < frame; at += at < 48 ? 1 : 37) {
        struct logs logs = logs_make();
        struct log_files_stats stats;

        flip(&logs, "000000000005.segment", SEGMENT_HEADER_SIZE + 7 * frame + at);
        logs_open(&logs);
        log_files_get_stats(logs.log, &stats);
        assert_int_equal(stats.torn, 1);
        assert_int_equal(logs_count(&logs, 1), LOGS_RECORDS - 1);
        logs_append(logs.log, LOGS_RECORDS);
        logs_kill(&logs);
        logs_open(&logs);
        assert_int_equal(logs_count(&logs, 1), LOGS_RECORDS);
        log_files_get_stats(logs.log, &stats);
        assert_int_equal(stats.torn, 0);
        logs_kill(&logs);
        /* A caller that has applied the record knows better. */
        logs.options.begin = LOGS_RECORDS + 2;
        assert_refused(&logs, "ends before record 41, but records up to 41 were in it");
        logs_free(&logs);
    }
}

static void test_flipped_chain(void **state)
{
    (void)state;
    for (uint64_t at = 0; at < SEGMENT_CHAIN_SIZE; at++) {
        struct logs logs = logs_make();

        /* One slot is enough. */
        flip(&logs, "CHAIN", at);
        logs_open(&logs);
        assert_int_equal(logs_count(&logs, 1), LOGS_RECORDS);
        logs_free(&logs);
    }
    struct logs logs = logs_make();
    flip(&logs, "CHAIN", 40);
    flip(&logs, "CHAIN", SEGMENT_CHAIN_SLOT + 40);
    assert_refused(&logs, "has a damaged CHAIN");
    assert_skipped(&logs, LOGS_RECORDS);
    logs_free(&logs);
    logs = logs_make();
    remove_file(&logs, "CHAIN");
    assert_refused(&logs, "has no CHAIN, but segments");
    assert_skipped(&logs, LOGS_RECORDS);
    logs_free(&logs);
}

/* ---- what the caller needs ---- */

static void test_begin(void **state)
{
    struct logs logs = logs_make();

    (void)state;
    logs_open(&logs);
    assert_int_equal(log_files_trim(logs.log, 20, NULL), ERROR_NONE);
    logs_kill(&logs);
    logs.options.begin = 16;
    assert_refused(&logs, "begins with record 17, but record 16 is needed");
    logs_free(&logs);

    struct disk_memory *memory = disk_memory_create(2);
    logs = (struct logs){.memory = memory,
                         .options = {.folder = "memory",
                                     .segment_bytes = LOGS_SEGMENT,
                                     .begin = 1000,
                                     .mode = LOG_FILES_OPEN,
                                     .disk = &memory->disk}};
    assert_int_equal(log_files_open(&logs.options, &logs.log, NULL), ERROR_IO);
    memory->is_folder = true;
    assert_int_equal(log_files_open(&logs.options, &logs.log, NULL), ERROR_CORRUPT);
    logs.options.mode = LOG_FILES_MAKE;
    logs_open(&logs);
    logs_append(logs.log, 1000);
    assert_true(log_files_first(logs.log) == 1000);
    logs_free(&logs);
}

/* ---- failures ---- */

/* Whatever call fails, and however, an append that failed is absent once another succeeded, and the
 * new segment says so. */
static void test_failed_append(void **state)
{
    (void)state;
    for (uint64_t call = 1; call <= 2; call++) {
        struct logs logs = logs_make();
        struct log_record record = {.body = BYTES("failed")};
        struct log_files_stats stats;

        logs_open(&logs);
        disk_memory_fail(logs.memory, call, 1, EIO);
        assert_int_equal(log_files_append(logs.log, &record, 1, NULL), ERROR_IO);
        assert_true(record.offset == 0);
        log_files_get_stats(logs.log, &stats);
        assert_true(stats.is_in_doubt && stats.end == LOGS_RECORDS + 1);
        uint64_t number = log_files_last(logs.log)->number;
        assert_int_equal(log_files_repair(logs.log, NULL), ERROR_NONE);
        log_files_get_stats(logs.log, &stats);
        assert_false(stats.is_in_doubt);
        assert_true(log_files_last(logs.log)->number == number + 1);
        logs_kill(&logs);
        logs_open(&logs);
        assert_int_equal(logs_count(&logs, 1), LOGS_RECORDS);
        logs_free(&logs);
    }
}

/* A full disk is met before anything is written. */
static void test_full_disk(void **state)
{
    struct logs logs = logs_make();
    struct log_record record = {.body = BYTES("no room")};
    struct log_files_stats stats;
    static char body[LOGS_BODY];

    (void)state;
    logs_open(&logs);
    logs.memory->room = LOGS_SEGMENT / 2;
    record.body = (struct bytes){body, LOGS_BODY};
    enum error_code code = ERROR_NONE;
    for (int i = 0; !code && i < 40; i++)
        code = log_files_append(logs.log, &record, 1, NULL);
    assert_int_equal(code, ERROR_DISK_FULL);
    log_files_get_stats(logs.log, &stats);
    assert_false(stats.is_in_doubt);
    /* A trim makes room on a full disk, and its segment is used. */
    assert_int_equal(log_files_trim(logs.log, 20, NULL), ERROR_NONE);
    assert_int_equal(log_files_append(logs.log, &record, 1, NULL), ERROR_NONE);
    logs_free(&logs);
}

/* ---- reading only ---- */

static void test_reading_only(void **state)
{
    struct logs logs = logs_make();
    struct log_record record = {.body = BYTES("x")};

    (void)state;
    uint64_t calls = logs.memory->calls;
    logs.options.mode = LOG_FILES_READ;
    logs_open(&logs);
    assert_int_equal(logs_count(&logs, 1), LOGS_RECORDS);
    assert_int_equal(log_files_append(logs.log, &record, 1, NULL), ERROR_IO);
    assert_int_equal(log_files_trim(logs.log, 20, NULL), ERROR_IO);
    log_files_close(logs.log);
    logs.log = NULL;
    assert_true(logs.memory->calls == calls);
    logs_free(&logs);
}

/* ---- without syncs ---- */

/* A power cut may leave any part of what was not synced: the log ends before the first gap. */
static void test_unsynced(void **state)
{
    uint64_t short_count = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct disk_memory *memory = disk_memory_create(seed);
        struct logs logs = {.memory = memory,
                            .options = {.folder = "memory",
                                        .segment_bytes = LOGS_SEGMENT,
                                        .begin = 1,
                                        .sync = LOG_FILES_SYNC_NEVER,
                                        .disk = &memory->disk}};

        logs_open(&logs);
        for (uint64_t i = 1; i <= 20; i++)
            logs_append(logs.log, i);
        logs_kill(&logs);
        disk_memory_cut(memory);
        logs_open(&logs);
        uint64_t end = log_files_end(logs.log);
        assert_int_equal(logs_count(&logs, 1), end - 1);
        short_count += end <= 20;
        /* The caller's state may be ahead of it. */
        logs_kill(&logs);
        logs.options.begin = 21;
        logs.options.sync = LOG_FILES_SYNC_ALWAYS;
        logs_open(&logs);
        logs_append(logs.log, 21);
        logs_free(&logs);
    }
    assert_true(short_count > 0);
}

/* ---- the real disk ---- */

static int log_folder_remove(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static void assert_mode(const char *folder, const char *name, mode_t mode)
{
    char path[512];
    struct stat info;

    snprintf(path, sizeof(path), "%s%s", folder, name);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, mode);
}

/* An own folder on the real disk. */
struct log_folder {
    char top[256], log[300];
};

static void make_folder(struct log_folder *folder)
{
    const char *parent = getenv("TMPDIR");

    snprintf(folder->top, sizeof(folder->top), "%s/tickwheel-log-XXXXXX", parent ? parent : "/tmp");
    assert_non_null(mkdtemp(folder->top));
    snprintf(folder->log, sizeof(folder->log), "%s/log", folder->top);
}

static void test_real_disk(void **state)
{
    struct log_folder folder;

    (void)state;
    make_folder(&folder);
    struct logs logs = {
        .options = {.folder = folder.log, .segment_bytes = LOGS_SEGMENT, .begin = 1}};
    mode_t mask = umask(0);
    logs_open(&logs);
    for (uint64_t i = 1; i <= 12; i++)
        logs_append(logs.log, i);
    assert_int_equal(log_files_trim(logs.log, 1, NULL), ERROR_NONE);
    umask(mask);
    assert_mode(folder.log, "", 0700);
    assert_mode(folder.log, "/CHAIN", 0600);
    assert_mode(folder.log, "/spare", 0600);
    assert_mode(folder.log, "/000000000001.segment", 0600);
    log_files_close(logs.log);
    logs_open(&logs);
    assert_int_equal(logs_count(&logs, 1), 12);
    log_files_close(logs.log);
    nftw(folder.top, log_folder_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- threads ---- */

struct trimmer {
    struct log_files *log;
    atomic_bool is_over;
};

/* Trims all that is there, and reads, as the thread that applies the log does. */
static void *trim_on(void *context)
{
    struct trimmer *trimmer = context;

    while (!atomic_load(&trimmer->is_over)) {
        uint64_t end = log_files_end(trimmer->log), count = 0;

        assert_int_equal(log_files_trim(trimmer->log, end, NULL), ERROR_NONE);
        assert_int_equal(log_files_read(trimmer->log, end, logs_count_one, &count, NULL),
                         ERROR_NONE);
    }
    return NULL;
}

static void test_trim_beside_appends(void **state)
{
    struct log_folder folder;
    struct trimmer trimmer = {0};
    pthread_t thread;
    uint64_t count = 600;

    (void)state;
    make_folder(&folder);
    struct logs logs = {
        .options = {.folder = folder.log, .segment_bytes = LOGS_SEGMENT, .begin = 1}};
    logs_open(&logs);
    trimmer.log = logs.log;
    assert_int_equal(pthread_create(&thread, NULL, trim_on, &trimmer), 0);
    for (uint64_t i = 1; i <= count; i++)
        logs_append(logs.log, i);
    atomic_store(&trimmer.is_over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    log_files_check(logs.log);
    uint64_t first = log_files_first(logs.log);
    log_files_close(logs.log);
    logs.options.begin = first;
    logs_open(&logs);
    assert_int_equal(logs_count(&logs, first), count + 1 - first);
    log_files_close(logs.log);
    nftw(folder.top, log_folder_remove, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),          cmocka_unit_test(test_visitor_ends),
        cmocka_unit_test(test_large_append),  cmocka_unit_test(test_trim_recycles),
        cmocka_unit_test(test_trim_keeps),    cmocka_unit_test(test_trim_all),
        cmocka_unit_test(test_missing),       cmocka_unit_test(test_shortened),
        cmocka_unit_test(test_exchanged),     cmocka_unit_test(test_of_another_log),
        cmocka_unit_test(test_older_copy),    cmocka_unit_test(test_identity),
        cmocka_unit_test(test_clean_stop),    cmocka_unit_test(test_flipped_header),
        cmocka_unit_test(test_flipped_frame), cmocka_unit_test(test_torn_end),
        cmocka_unit_test(test_flipped_chain), cmocka_unit_test(test_begin),
        cmocka_unit_test(test_failed_append), cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_reading_only),  cmocka_unit_test(test_unsynced),
        cmocka_unit_test(test_real_disk),     cmocka_unit_test(test_trim_beside_appends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
