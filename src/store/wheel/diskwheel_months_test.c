/* Goal: however long the service runs, runs are few, a record is copied a bounded number of times,
 * and a folder shrinks when all is over. Method: a month of creates, scaled down from a thousand a
 * second, of which one in a hundred is due in a year; time is virtual, and syncs do nothing. */
#include "store/storage_testing.h"
#include "store/wheel/diskwheel_choose.h"
#include "store/wheel/diskwheel_store.h"
#include "sys/clock.h"

enum {
    MONTHS_PARTITIONS = 2,
    MONTHS_STEPS = 30 * 12, /* of two hours */
    MONTHS_CREATES = 300,   /* in a step; a flush follows, as one does after five minutes */
    MONTHS_PAYLOAD = 100,
    MONTHS_MEMORY = 512 << 10,
    MONTHS_RUNS_MAX = 3 * 15 * (DISKWHEEL_TIERS - 1) + 63 * (DISKWHEEL_TIERS - 1),
    MONTHS_TIMERS = MONTHS_STEPS * MONTHS_PARTITIONS * MONTHS_CREATES,
    MONTHS_COPIES_MAX = DISKWHEEL_CLASSES * (DISKWHEEL_TIERS - 1),
    MONTHS_WRITES = 2, /* of a timer without copies: it is created, and it ends */
};

#define MONTHS_START  UINT64_C(1800000000000)
#define MONTHS_HOUR   (UINT64_C(3600) * 1000)
#define MONTHS_DAY    (24 * MONTHS_HOUR)
#define MONTHS_RETAIN MONTHS_DAY
#define MONTHS_SERIAL ((UINT64_C(1) << 40) - 1)

struct months {
    struct disk_calls disk; /* the system's, without syncs */
    struct testing_folder folder;
    struct storage *storage;
    struct random random;
    uint64_t serial, created, ended;
    size_t runs_max; /* number of runs that there were at a time */
    uint64_t bytes_max;
    atomic_uchar written[MONTHS_TIMERS + 1]; /* by serial: number of removed runs that had it */
};

static struct months *months_of(const struct disk_calls *disk)
{
    return (struct months *)(uintptr_t)disk; /* its first field */
}

/* Counts the rows of a run before it is removed. */
static int months_remove(const struct disk_calls *disk, const char *path)
{
    struct months *months = months_of(disk);
    struct diskwheel_cursor cursor = {.run = NULL};
    const char *name = strstr(path, "/run-");
    struct diskwheel_run *run;
    struct record_key key;
    struct bytes value;

    if (!name || diskwheel_run_open(disk_system(), months->folder.path,
                                    strtoull(name + 5, NULL, 16), MONTHS_PARTITIONS, &run, NULL))
        return disk_system()->remove(disk_system(), path);
    diskwheel_cursor_seek(&cursor, run, DISKWHEEL_TIMERS, (struct record_key){0, 0});
    while (!diskwheel_cursor_next(&cursor, &key, &value, NULL))
        atomic_fetch_add(&months->written[key.low & MONTHS_SERIAL], 1);
    diskwheel_cursor_deinit(&cursor);
    diskwheel_run_release(run);
    return disk_system()->remove(disk_system(), path);
}

static int months_sync(const struct disk_calls *disk, int file)
{
    (void)disk, (void)file;
    return 0;
}

static int months_sync_folder(const struct disk_calls *disk, const char *path)
{
    (void)disk, (void)path;
    return 0;
}

/* Nine of ten are due within six hours, most others within ten days, one of a hundred in a year. */
static uint64_t months_delay(struct random *random)
{
    const uint64_t kind = random_below(random, 100);

    if (kind == 0)
        return 365 * MONTHS_DAY + random_below(random, MONTHS_DAY);
    return 1 + random_below(random, kind < 10 ? 10 * MONTHS_DAY : 6 * MONTHS_HOUR);
}

/* Rows from `live` on may be live. */
static void months_write(struct months *months, uint16_t partition, struct storage_write *writes,
                         size_t count, struct wall live)
{
    const struct wall old = {wall_now().ms - MONTHS_RETAIN}, trim = old.ms < live.ms ? old : live;
    struct storage_batch batch = {.partition = partition,
                                  .meta = {.epoch = 1, .watermark = trim, .trim = trim},
                                  .writes = writes,
                                  .write_count = count};

    testing_commit_batch(months->storage, &batch);
}

static void months_create(struct months *months, uint16_t partition)
{
    struct storage_write writes[MONTHS_CREATES] = {{.timer = NULL}};
    char payload[MONTHS_PAYLOAD], key[24];

    for (size_t i = 0; i < MONTHS_CREATES; i++) {
        struct timer_texts texts = {.target = BYTES("http://127.0.0.1:9000/hooks/recheck"),
                                    .payload = {payload, sizeof(payload)}};

        for (size_t k = 0; k < sizeof(payload); k++)
            payload[k] = (char)('a' + random_below(&months->random, 26));
        if (i % 4 == 0) {
            snprintf(key, sizeof(key), "k%" PRIu64, months->serial);
            texts.key = (struct bytes){key, strlen(key)};
        }
        struct timer *timer = timer_alloc(&texts);
        assert_non_null(timer);
        const struct wall at = {wall_now().ms + months_delay(&months->random)};
        timer->id = (struct timer_id){at, partition, TIMER_SERIAL(1, ++months->serial)};
        timer->due = timer->at = at;
        timer->created = wall_now();
        writes[i].timer = timer;
    }
    months_write(months, partition, writes, MONTHS_CREATES,
                 (struct wall){wall_now().ms - MONTHS_RETAIN});
    for (size_t i = 0; i < MONTHS_CREATES; i++)
        timer_free(writes[i].timer);
    months->created += MONTHS_CREATES;
}

/* Ends what is due. */
static void months_end(struct months *months, uint16_t partition)
{
    struct storage_scan scan = {.partition = partition,
                                .to = {wall_now(), UINT64_MAX},
                                .rows_max = 1000,
                                .bytes_max = SIZE_MAX};
    struct storage_write writes[1000];

    while (storage_position_before(scan.from, scan.to)) {
        struct storage_page page;

        assert_int_equal(storage_scan(months->storage, &scan, &page, NULL), ERROR_NONE);
        for (size_t i = 0; i < page.count; i++) {
            struct timer *timer = page.timers[i];

            writes[i] = (struct storage_write){.timer = timer, .was_at = timer->at};
            timer->ended = wall_now();
            timer->state = TIMER_FIRED;
        }
        if (page.count)
            months_write(months, partition, writes, page.count, page.timers[0]->at);
        months->ended += page.count;
        storage_page_free(&page);
        scan.from = page.next;
    }
}

static void months_look(struct months *months)
{
    struct diskwheel_store *store = diskwheel_store_of(months->storage);
    struct storage_stats stats;

    assert_int_equal(storage_flush(months->storage, NULL), ERROR_NONE);
    diskwheel_storage_rest(months->storage);
    storage_stats(months->storage, &stats);
    pthread_mutex_lock(&store->lock);
    if (store->view->count > months->runs_max)
        months->runs_max = store->view->count;
    pthread_mutex_unlock(&store->lock);
    if (stats.disk_bytes > months->bytes_max)
        months->bytes_max = stats.disk_bytes;
}

static void months_open(struct months *months)
{
    const struct diskwheel_options options = {.disk = &months->disk,
                                              .folder = months->folder.path,
                                              .partition_count = MONTHS_PARTITIONS,
                                              .retain_ms = MONTHS_RETAIN,
                                              .memory_bytes = MONTHS_MEMORY};
    struct error error;

    if (diskwheel_storage_open(&options, &months->storage, &error))
        fail_msg("%s", error.text);
}

/* All timers are over, and all but a few runs removed. */
static void months_judge(struct months *months)
{
    struct storage_stats stats;
    uint64_t written = 0;
    unsigned most = 0;

    for (uint64_t i = 1; i <= months->serial; i++) {
        const unsigned one = atomic_load(&months->written[i]);

        written += one;
        most = one > most ? one : most;
    }
    storage_stats(months->storage, &stats);
    print_message("%" PRIu64 " timers, at most %zu runs with %" PRIu64 " bytes; a row is written "
                  "%.2f times, at most %u times; %" PRIu64 " bytes at the end\n",
                  months->created, months->runs_max, months->bytes_max,
                  (double)written / (double)months->created, most, stats.disk_bytes);
    assert_int_equal(months->ended, months->created);
    assert_true(months->runs_max <= MONTHS_RUNS_MAX);
    assert_true(most <= MONTHS_WRITES + MONTHS_COPIES_MAX);
    assert_true(stats.disk_bytes < months->bytes_max / 100);
}

static void test_a_month_and_a_year(void **state)
{
    struct months *months = calloc(1, sizeof(*months));

    (void)state;
    assert_non_null(months);
    months->random = random_seeded(testing_seed());
    months->disk = *disk_system();
    months->disk.sync = months_sync;
    months->disk.sync_folder = months_sync_folder;
    months->disk.remove = months_remove;
    testing_folder_make(&months->folder);
    months_open(months);
    for (uint64_t step = 1; step <= MONTHS_STEPS; step++) {
        for (uint16_t p = 0; p < MONTHS_PARTITIONS; p++) {
            months_create(months, p);
            months_end(months, p);
        }
        months_look(months);
        clock_move_virtual((struct wall){MONTHS_START + step * 2 * MONTHS_HOUR});
    }
    for (uint64_t day = 1; day <= 367; day += 61) {
        clock_move_virtual(
            (struct wall){MONTHS_START + MONTHS_STEPS * 2 * MONTHS_HOUR + day * MONTHS_DAY});
        for (uint16_t p = 0; p < MONTHS_PARTITIONS; p++)
            months_end(months, p);
        months_look(months);
    }
    clock_move_virtual((struct wall){wall_now().ms + 4 * MONTHS_RETAIN});
    for (uint16_t p = 0; p < MONTHS_PARTITIONS; p++)
        months_write(months, p, NULL, 0, wall_now());
    months_look(months);
    months_judge(months);
    storage_close(months->storage);
    testing_folder_remove(&months->folder);
    free(months);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_month_and_a_year)};

    clock_start_virtual((struct wall){MONTHS_START});
    return cmocka_run_group_tests(tests, NULL, NULL);
}
