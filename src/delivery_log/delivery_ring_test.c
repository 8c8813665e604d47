/* Goal: the delivery log keeps what it can of what was flushed, whatever happens to its files, and
 * one tenant does not push out what another has. Method: a ring of 1 MiB on the real disk, with
 * writes that tear and fail, files that are cut and flipped, and a clock that is passed in. */
#include "delivery_log/delivery_log_testing.h"
#include "delivery_log/delivery_segment.h"

#include <dirent.h>
#include <sys/stat.h>

enum { START_MS = 1000000000, SOME = 1000 };

static struct wall at_start(void)
{
    return (struct wall){START_MS};
}

/* Adds entries of timers "t0", "t1", ... of an origin. */
static void ring_add_some(struct testing_log *log, const char *tenant, int from, int to)
{
    for (int i = from; i < to; i++) {
        char timer[32];
        struct delivery_entry entry = {.ended_us = START_MS * UINT64_C(1000) + (uint64_t)i,
                                       .outcome = i % 10 ? RUN_DONE : RUN_FAILED,
                                       .status = i % 10 ? 200 : 503,
                                       .attempt = 1};

        snprintf(timer, sizeof(timer), "t%d", i);
        entry.texts[DELIVERY_TEXT_timer] = bytes_of(timer);
        entry.texts[DELIVERY_TEXT_origin] = BYTES("http://origin");
        testing_log_add(log, tenant, &entry);
    }
}

/* Returns the number of entries of a tenant, over pages. */
static size_t ring_count(struct testing_log *log, const char *tenant)
{
    size_t count = 0;
    uint64_t before = UINT64_MAX;

    do {
        struct delivery_query query;

        delivery_query_init(&query);
        query.tenant = bytes_of(tenant);
        query.before = before;
        delivery_ring_search(log->ring, &query, at_start());
        count += query.count;
        before = query.next;
        delivery_query_deinit(&query);
    } while (before);
    delivery_ring_check(log->ring);
    return count;
}

static void ring_expect(struct testing_log *log, const struct delivery_query *question,
                        const char *timers)
{
    struct delivery_query query = *question;

    delivery_ring_search(log->ring, &query, at_start());
    char *found = testing_log_timers(&query);
    assert_string_equal(found, timers);
    free(found);
    delivery_query_deinit(&query);
}

/* Calls `each` for the path of each file, and returns the number of bytes they take. */
static uint64_t ring_each_file(struct testing_log *log, void (*each)(const char *path))
{
    DIR *folder = opendir(log->folder);
    uint64_t bytes = 0;

    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[400];
        struct stat info;

        snprintf(path, sizeof(path), "%s/%s", log->folder, entry->d_name);
        if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
            continue;
        bytes += (uint64_t)(info.st_size + 4095) / 4096 * 4096;
        if (each)
            each(path);
    }
    closedir(folder);
    return bytes;
}

static void finds_by_each_index(void **state)
{
    struct testing_log log;
    struct delivery_query query;

    (void)state;
    testing_log_init(&log, DELIVERY_RING_BYTES_MIN);
    for (int round = 0; round < 2; round++) {
        if (round == 0)
            ring_add_some(&log, "a", 0, SOME);
        delivery_query_init(&query);
        query.tenant = BYTES("a");
        query.limit = 2;
        ring_expect(&log, &query, "t999 t998 ");
        query.before = (START_MS * UINT64_C(1000)) + 998;
        ring_expect(&log, &query, "t997 t996 ");
        query.timer = BYTES("t5");
        ring_expect(&log, &query, "t5 ");
        query.timer = (struct bytes){0};
        query.outcomes = 1u << RUN_FAILED;
        ring_expect(&log, &query, "t990 t980 ");
        query.origin = BYTES("http://other");
        ring_expect(&log, &query, "");
        query.origin = BYTES("http://origin");
        query.outcomes = 1u << RUN_FAILED | 1u << RUN_DONE;
        query.status_min = query.status_max = 503;
        ring_expect(&log, &query, "t990 t980 ");
        query.since = (START_MS * UINT64_C(1000)) + 985;
        ring_expect(&log, &query, "t990 ");
        query.tenant = BYTES("b");
        ring_expect(&log, &query, "");
        delivery_ring_flush(log.ring, at_start());
        testing_log_reopen(&log);
    }
    testing_log_deinit(&log);
}

/* proves: delivery-log-shared, delivery_log_bytes */
static void one_tenant_does_not_push_out_another(void **state)
{
    struct testing_log log;
    struct delivery_ring_stats stats;

    (void)state;
    testing_log_init(&log, DELIVERY_RING_BYTES_MIN);
    ring_add_some(&log, "quiet", 0, 500);
    for (int i = 0; i < 40; i++) {
        ring_add_some(&log, "loud", i * SOME, (i + 1) * SOME);
        delivery_ring_flush(log.ring, at_start());
        delivery_ring_check(log.ring);
        delivery_ring_stats(log.ring, &stats);
        assert_int_equal(stats.bytes, ring_each_file(&log, NULL));
        assert_true(stats.bytes <= DELIVERY_RING_BYTES_MIN);
    }
    assert_int_equal(ring_count(&log, "quiet"), 500);
    assert_in_range(ring_count(&log, "loud"), 2 * SOME, 10 * SOME);
    delivery_ring_stats(log.ring, &stats);
    assert_int_equal(stats.dropped + stats.damaged, 0);
    testing_log_deinit(&log);
}

/* proves: delivery-log-days, delivery_log_days */
static void drops_what_is_too_old(void **state)
{
    struct testing_log log;
    const struct wall later = wall_add(at_start(), UINT64_C(8) * 24 * 3600 * 1000);
    struct delivery_query query;

    (void)state;
    testing_log_init(&log, DELIVERY_RING_BYTES_MIN);
    ring_add_some(&log, "a", 0, SOME);
    delivery_ring_flush(log.ring, at_start());
    assert_int_equal(ring_count(&log, "a"), SOME);
    delivery_query_init(&query);
    query.tenant = BYTES("a");
    delivery_ring_search(log.ring, &query, later); /* too old, although it is still there */
    assert_int_equal(query.count, 0);
    delivery_query_deinit(&query);
    testing_log_reopen(&log);
    delivery_ring_flush(log.ring, later);
    delivery_ring_check(log.ring);
    assert_int_equal(ring_each_file(&log, NULL), 0);
    testing_log_deinit(&log);
}

/* proves: delivery_log_days */
static void keeps_what_is_just_young_enough(void **state)
{
    struct testing_log log;
    struct delivery_query query;

    (void)state;
    testing_log_init(&log, DELIVERY_RING_BYTES_MIN);
    ring_add_some(&log, "a", 0, 1);
    const struct wall last = wall_add(at_start(), log.options.age_ms_max);
    delivery_ring_flush(log.ring, last);
    for (uint64_t late_ms = 0; late_ms < 2; late_ms++) {
        delivery_query_init(&query);
        query.tenant = BYTES("a");
        delivery_ring_search(log.ring, &query, wall_add(last, late_ms));
        assert_int_equal(query.count, late_ms == 0);
        delivery_query_deinit(&query);
    }
    testing_log_deinit(&log);
}

/* proves: delivery-log-full */
static void a_full_disk_costs_only_what_was_added_then(void **state)
{
    struct testing_log log;
    struct delivery_ring_stats stats;

    (void)state;
    testing_log_init(&log, DELIVERY_RING_BYTES_MIN);
    ring_add_some(&log, "a", 0, 10);
    delivery_ring_flush(log.ring, at_start());
    log.is_full = true;
    ring_add_some(&log, "a", 10, 25);
    delivery_ring_flush(log.ring, at_start());
    delivery_ring_flush(log.ring, at_start());
    ring_add_some(&log, "b", 0, 5);
    delivery_ring_flush(log.ring, at_start());
    delivery_ring_check(log.ring);
    delivery_ring_stats(log.ring, &stats);
    assert_int_equal(stats.dropped, 20);
    log.is_full = false;
    ring_add_some(&log, "a", 25, 30);
    delivery_ring_flush(log.ring, at_start());
    const size_t count = ring_count(&log, "a"); /* half of the batch that failed was written */
    assert_in_range(count, 15, 23);
    testing_log_reopen(&log);
    assert_int_equal(ring_count(&log, "a"), count);
    delivery_ring_stats(log.ring, &stats);
    assert_int_equal(stats.damaged, 0);
    testing_log_deinit(&log);
}

static void ring_cut_file(const char *path)
{
    struct stat info;

    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - 5), 0);
}

/* The file ends within an entry, as kill -9 leaves it when it interrupts a write. */
static void a_torn_tail_is_cut_off(void **state)
{
    struct testing_log log;
    struct delivery_ring_stats stats;

    (void)state;
    testing_log_init(&log, DELIVERY_RING_BYTES_MIN);
    ring_add_some(&log, "a", 0, 20);
    delivery_ring_flush(log.ring, at_start());
    ring_each_file(&log, ring_cut_file);
    testing_log_reopen(&log);
    ring_add_some(&log, "a", 20, 30);
    assert_int_equal(ring_count(&log, "a"), 29);
    delivery_ring_flush(log.ring, at_start());
    testing_log_reopen(&log);
    assert_int_equal(ring_count(&log, "a"), 29);
    delivery_ring_stats(log.ring, &stats);
    assert_int_equal(stats.damaged, 0);
    testing_log_deinit(&log);
}

static void ring_flip_file(const char *path)
{
    FILE *file = fopen(path, "r+b");

    assert_non_null(file);
    assert_int_equal(fseek(file, 5000, SEEK_SET), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, 5000, SEEK_SET), 0);
    fputc(byte ^ 0x10, file);
    fclose(file);
}

static void ring_break_header(const char *path)
{
    FILE *file = fopen(path, "r+b");

    assert_non_null(file);
    fputc('x', file);
    fclose(file);
}

/* proves: delivery-log-damage */
static void damage_is_skipped_and_counted(void **state)
{
    struct testing_log log;
    struct delivery_ring_stats stats;

    (void)state;
    testing_log_init(&log, DELIVERY_RING_BYTES_MIN);
    ring_add_some(&log, "a", 0, SOME);
    delivery_ring_flush(log.ring, at_start());
    ring_each_file(&log, ring_flip_file);
    for (int i = 0; i < 2; i++) {
        assert_in_range(ring_count(&log, "a"), SOME / 4, SOME - 1);
        delivery_ring_stats(log.ring, &stats);
        assert_true(stats.damaged > 1);
        testing_log_reopen(&log);
    }
    ring_each_file(&log, ring_break_header);
    testing_log_reopen(&log);
    assert_int_equal(ring_count(&log, "a"), 0);
    ring_add_some(&log, "a", 0, 10);
    assert_int_equal(ring_count(&log, "a"), 10);
    testing_log_deinit(&log);
}

/* An error that may pass, such as too many open files, costs no file.
 * proves: delivery-log-damage */
static void a_file_that_cannot_be_read_stays(void **state)
{
    static const int errors[] = {EMFILE, EACCES, EIO};
    struct testing_log log;
    struct delivery_ring_stats stats;

    (void)state;
    testing_log_init(&log, DELIVERY_RING_BYTES_MIN);
    ring_add_some(&log, "a", 0, SOME);
    delivery_ring_flush(log.ring, at_start());
    const uint64_t bytes = ring_each_file(&log, NULL);
    for (size_t i = 0; i < 2 * sizeof(errors) / sizeof(*errors); i++) {
        *(i % 2 ? &log.open_fails : &log.read_fails) = errors[i / 2];
        testing_log_reopen(&log);
        log.open_fails = log.read_fails = 0;
        delivery_ring_stats(log.ring, &stats);
        assert_true(stats.damaged > 1);
        assert_int_equal(ring_count(&log, "a"), 0);
        assert_int_equal(ring_each_file(&log, NULL), bytes);
    }
    ring_add_some(&log, "a", SOME, SOME + 10); /* into a new file */
    delivery_ring_flush(log.ring, at_start());
    testing_log_reopen(&log);
    assert_int_equal(ring_count(&log, "a"), SOME + 10);
    testing_log_deinit(&log);
}

/* Makes a file with these bytes in the folder, or a pipe if they are NULL. */
static void ring_put(struct testing_log *log, const char *name, const char *contents)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/%s", log->folder, name);
    if (!contents) {
        assert_int_equal(mkfifo(path, 0600), 0);
        return;
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(contents, file);
    fclose(file);
}

static bool ring_has(struct testing_log *log, const char *name)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/%s", log->folder, name);
    return access(path, F_OK) == 0;
}

/* A pipe with the name of a segment would hold up a start that opens it. */
static void files_of_others_stay(void **state)
{
    static const char *const others[] = {"notes.txt", "x.new", "0000000000000003.deliveries.old",
                                         "000000000000000z.deliveries.new",
                                         "ffffffffffffffff.deliveries"};
    static const char pipe[] = "0000000000000009.deliveries",
                      temporary[] = "0000000000000003.deliveries.new";
    struct testing_log log;
    struct delivery_ring_stats stats;

    (void)state;
    testing_log_init(&log, DELIVERY_RING_BYTES_MIN);
    ring_add_some(&log, "a", 0, 10);
    delivery_ring_flush(log.ring, at_start());
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        ring_put(&log, others[i], "mine");
    ring_put(&log, pipe, NULL);
    ring_put(&log, temporary, "half a segment");
    alarm(20);
    testing_log_reopen(&log);
    alarm(0);
    ring_add_some(&log, "b", 0, 10); /* its number is above that of the pipe */
    assert_int_equal(ring_count(&log, "a") + ring_count(&log, "b"), 20);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        assert_true(ring_has(&log, others[i]));
    assert_true(ring_has(&log, pipe) && ring_has(&log, "000000000000000a.deliveries"));
    assert_false(ring_has(&log, temporary));
    delivery_ring_stats(log.ring, &stats);
    assert_int_equal(stats.damaged, 0);
    testing_log_deinit(&log);
}

/* Below the reserve of the disk the log is searched, but takes no byte, and makes no folder either;
 * a torn tail waits to be cut off.
 * proves: delivery-log-full */
static void nothing_is_written_below_the_reserve(void **state)
{
    struct testing_log log;
    struct delivery_ring_stats stats;

    (void)state;
    testing_log_init(&log, DELIVERY_RING_BYTES_MIN);
    ring_add_some(&log, "a", 0, 10);
    delivery_ring_flush(log.ring, at_start());
    ring_add_some(&log, "a", 10, 20); /* pending when the disk is found to be full */
    atomic_store(&log.is_low, true);
    ring_each_file(&log, ring_cut_file);
    for (int round = 0; round < 2; round++) {
        const uint64_t bytes = ring_each_file(&log, NULL);

        log.writes = 0;
        ring_add_some(&log, "a", 20, 25);
        ring_add_some(&log, "b", 0, 5);
        delivery_ring_flush(log.ring, at_start());
        assert_int_equal(ring_count(&log, "a"), 9);
        assert_int_equal(log.writes, 0);
        assert_int_equal(ring_each_file(&log, NULL), bytes);
        delivery_ring_stats(log.ring, &stats);
        assert_int_equal(stats.dropped, round ? 10 : 20);
        assert_int_equal(stats.damaged, 0);
        testing_log_reopen(&log);
    }
    assert_int_equal(ring_count(&log, "a"), 9);
    atomic_store(&log.is_low, false);
    ring_add_some(&log, "a", 25, 35);
    delivery_ring_flush(log.ring, at_start());
    assert_int_equal(ring_count(&log, "a"), 19);
    testing_log_reopen(&log);
    assert_int_equal(ring_count(&log, "a"), 19);
    testing_log_deinit(&log);
}

/* proves: delivery-log-full */
static void a_log_opens_on_a_full_disk(void **state)
{
    struct testing_log log;

    (void)state;
    testing_log_init(&log, DELIVERY_RING_BYTES_MIN);
    delivery_ring_close(log.ring);
    assert_int_equal(rmdir(log.folder), 0);
    atomic_store(&log.is_low, true);
    testing_log_open(&log);
    ring_add_some(&log, "a", 0, 5);
    delivery_ring_flush(log.ring, at_start());
    assert_int_equal(ring_count(&log, "a"), 0);
    assert_int_not_equal(access(log.folder, F_OK), 0);
    atomic_store(&log.is_low, false);
    ring_add_some(&log, "a", 5, 10);
    delivery_ring_flush(log.ring, at_start());
    assert_int_equal(ring_count(&log, "a"), 5);
    testing_log_deinit(&log);
}

/* A log whose folder was removed makes it again, but not the folder around it: without that the
 * data folder is lost, which is not the log's to mend. */
static void a_folder_that_was_removed_is_made_again(void **state)
{
    struct testing_log log;
    struct delivery_ring_stats stats;
    char inner[100];

    (void)state;
    testing_log_init(&log, DELIVERY_RING_BYTES_MIN);
    delivery_ring_close(log.ring);
    snprintf(inner, sizeof(inner), "%s/inner", log.folder);
    log.options.folder = inner;
    testing_log_open(&log);
    ring_add_some(&log, "a", 0, 5);
    delivery_ring_flush(log.ring, at_start());
    files_remove_folder(inner);
    ring_add_some(&log, "a", 5, 10); /* into a segment whose file is gone */
    delivery_ring_flush(log.ring, at_start());
    delivery_ring_stats(log.ring, &stats);
    assert_true(stats.failed == 5 && stats.dropped == 5);
    assert_non_null(strstr(delivery_ring_failure(log.ring)->text, "No such file"));
    ring_add_some(&log, "a", 10, 15);
    delivery_ring_flush(log.ring, at_start());
    assert_int_equal(ring_count(&log, "a"), 5);
    files_remove_folder(log.folder);
    for (int i = 15; i < 25; i += 5) {
        ring_add_some(&log, "b", i, i + 5);
        delivery_ring_flush(log.ring, at_start());
    }
    assert_false(files_exists(log.folder));
    delivery_ring_stats(log.ring, &stats);
    assert_int_equal(stats.failed, 15);
    testing_log_deinit(&log);
}

/* The clock may step back: the deliveries stay in the order of their outcomes. */
static void the_order_survives_a_step_of_the_clock(void **state)
{
    struct testing_log log;
    struct delivery_query query;

    (void)state;
    testing_log_init(&log, DELIVERY_RING_BYTES_MIN);
    ring_add_some(&log, "a", 10, 12);
    ring_add_some(&log, "a", 3, 4);
    delivery_query_init(&query);
    query.tenant = BYTES("a");
    ring_expect(&log, &query, "t3 t11 t10 ");
    testing_log_deinit(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_by_each_index),
        cmocka_unit_test(one_tenant_does_not_push_out_another),
        cmocka_unit_test(drops_what_is_too_old),
        cmocka_unit_test(keeps_what_is_just_young_enough),
        cmocka_unit_test(a_full_disk_costs_only_what_was_added_then),
        cmocka_unit_test(a_torn_tail_is_cut_off),
        cmocka_unit_test(damage_is_skipped_and_counted),
        cmocka_unit_test(a_file_that_cannot_be_read_stays),
        cmocka_unit_test(files_of_others_stay),
        cmocka_unit_test(nothing_is_written_below_the_reserve),
        cmocka_unit_test(a_log_opens_on_a_full_disk),
        cmocka_unit_test(a_folder_that_was_removed_is_made_again),
        cmocka_unit_test(the_order_survives_a_step_of_the_clock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
