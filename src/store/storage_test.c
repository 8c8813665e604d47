/* Goal: what storage.h promises holds for every backend. Method: one suite, run against each; each
 * test starts with an empty storage. What random commits do is in storage_model_test.c. */
#include "store/wheel/diskwheel_store.h"
#include "store/storage_testing.h"
#include "sys/clock.h"
#include "sys/files.h"

enum { PARTITIONS = 3 };

struct storage_fixture {
    enum testing_backend backend;
    struct testing_folder folder;
    struct storage *storage;
};

static const struct storage_meta no_meta;

/* ---- the backends ---- */

static void storage_open_storage(struct storage_fixture *fixture)
{
    struct diskwheel_options options = testing_options(&fixture->folder, PARTITIONS);

    options.cluster = TESTING_CLUSTER;
    fixture->storage = testing_open_backend(fixture->backend, &options);
    assert_non_null(fixture->storage);
}

static int storage_set_up(void **state)
{
    struct storage_fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    fixture->backend = (enum testing_backend)(uintptr_t)*state;
    if (fixture->backend != TESTING_MEMORY)
        testing_folder_make(&fixture->folder);
    storage_open_storage(fixture);
    for (uint16_t p = 0; p < PARTITIONS; p++) /* they follow a log */
        assert_int_equal(storage_apply(fixture->storage, p, (struct bytes){0},
                                       &(struct storage_place){.next = 1}, NULL),
                         ERROR_NONE);
    *state = fixture;
    return 0;
}

static int storage_tear_down(void **state)
{
    struct storage_fixture *fixture = *state;

    if (fixture->backend == TESTING_MEMORY)
        memory_storage_check(fixture->storage);
    storage_close(fixture->storage);
    if (fixture->backend != TESTING_MEMORY)
        testing_folder_remove(&fixture->folder);
    free(fixture);
    return 0;
}

/* Closes the storage and opens it again. All that it had must be there. */
static void storage_reopen(struct storage_fixture *fixture)
{
    if (fixture->backend == TESTING_MEMORY)
        return;
    storage_close(fixture->storage);
    storage_open_storage(fixture);
}

/* The row is in memory: a damaged file is another test's. */
static void damage_wheel(struct storage_fixture *fixture, const struct timer_id *id, uint64_t at_ms)
{
    struct diskwheel_store *store = diskwheel_store_of(fixture->storage);
    const struct record_key key =
        record_row_key(id->partition, (struct storage_position){{at_ms}, id->serial});
    const struct diskwheel_entry *entry =
        diskwheel_layer_find(&store->active->layer, DISKWHEEL_TIMERS, key);

    assert_non_null(entry);
    ((struct diskwheel_entry *)(uintptr_t)entry)->value[entry->size / 2] ^= 1;
}

/* Flips one bit in the stored row at `at_ms`. */
static void damage(struct storage_fixture *fixture, const struct timer_id *id, uint64_t at_ms)
{
    testing_settle(fixture->storage);
    if (fixture->backend == TESTING_MEMORY) {
        assert_true(memory_storage_damage(fixture->storage, id));
        return;
    }
    damage_wheel(fixture, id, at_ms);
}

/* ---- short words ---- */

static struct timer *written(struct storage_fixture *fixture, uint16_t partition, uint64_t serial,
                             uint64_t at_ms)
{
    struct timer *timer = testing_timer(partition, serial, at_ms);

    testing_write(fixture->storage, timer, 0, no_meta);
    return timer;
}

static void assert_serials(struct storage_fixture *fixture, uint16_t partition,
                           enum storage_scan_kind kind, const uint64_t *serials, size_t count)
{
    struct storage_page page = testing_scan_all(fixture->storage, partition, kind, 2);

    assert_int_equal(page.count, count);
    for (size_t i = 0; i < count; i++)
        assert_true(page.timers[i]->id.serial == serials[i]);
    storage_page_free(&page);
}

#define ASSERT_SERIALS(fixture, partition, kind, ...)                                        \
    assert_serials(fixture, partition, STORAGE_SCAN_##kind, (const uint64_t[]){__VA_ARGS__}, \
                   sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))
#define ASSERT_NONE(fixture, partition, kind) \
    assert_serials(fixture, partition, STORAGE_SCAN_##kind, NULL, 0)

static uint64_t storage_corrupt_count(struct storage_fixture *fixture)
{
    struct storage_stats stats;

    storage_stats(fixture->storage, &stats);
    return stats.corrupt_records;
}

/* ---- the life of one timer ---- */

static void test_empty(void **state)
{
    struct storage_fixture *fixture = *state;
    struct storage_meta meta = {.epoch = 1, .watermark = {2}, .trim = {3}};

    assert_int_equal(storage_load_meta(fixture->storage, 0, &meta, NULL), ERROR_NONE);
    assert_memory_equal(&meta, &no_meta, sizeof(meta));
    ASSERT_NONE(fixture, 0, ALL);
    testing_assert_not_found(fixture->storage, &(struct timer_id){{5}, 0, 1}, ERROR_NOT_FOUND);
    /* A client may send an id with any partition. */
    testing_assert_not_found(fixture->storage, &(struct timer_id){{5}, PARTITIONS, 1},
                             ERROR_NOT_FOUND);
    testing_assert_not_found(fixture->storage, &(struct timer_id){{5}, UINT16_MAX, 1},
                             ERROR_NOT_FOUND);
}

static void test_create_and_replace(void **state)
{
    struct storage_fixture *fixture = *state;
    struct timer *timer = written(fixture, 1, 7, 1000);
    struct timer_id other = timer->id;

    testing_assert_found(fixture->storage, timer, 1000);
    timer->version = 2;
    timer->attempts = 1;
    timer->state = TIMER_RETRYING;
    timer->due.ms = 900; /* the row stays: position and due are two things */
    testing_write(fixture->storage, timer, 1000, no_meta);
    testing_assert_found(fixture->storage, timer, 1000);
    ASSERT_SERIALS(fixture, 1, ALL, 7);
    storage_reopen(fixture);
    testing_assert_found(fixture->storage, timer, 1000);
    /* An id is found only if all of its parts are equal. */
    other.first.ms++;
    testing_assert_not_found(fixture->storage, &other, ERROR_NOT_FOUND);
    other = timer->id;
    other.serial++;
    testing_assert_not_found(fixture->storage, &other, ERROR_NOT_FOUND);
    other = timer->id;
    other.partition++;
    testing_assert_not_found(fixture->storage, &other, ERROR_NOT_FOUND);
    timer_free(timer);
}

static void test_move(void **state)
{
    struct storage_fixture *fixture = *state;
    struct timer *timer = written(fixture, 0, 7, 1000);
    struct timer_id there = timer->id;
    static const uint64_t stops[] = {3000, 500, 501, 1000, 2000};
    uint64_t was_at_ms = 1000;

    for (size_t i = 0; i < 5; i++) {
        timer->at.ms = stops[i];
        timer->version++;
        testing_write(fixture->storage, timer, was_at_ms, no_meta);
        was_at_ms = stops[i];
        testing_assert_found(fixture->storage, timer, stops[i]);
        ASSERT_SERIALS(fixture, 0, ALL, 7);
        if (fixture->backend == TESTING_MEMORY)
            memory_storage_check(fixture->storage);
        storage_reopen(fixture);
        testing_assert_found(fixture->storage, timer, stops[i]);
    }
    /* The row is replaced where it is, which is not id.first. */
    timer->version++;
    testing_write(fixture->storage, timer, 2000, no_meta);
    testing_assert_found(fixture->storage, timer, 2000);
    /* The position of the row does not find the timer. */
    there.first.ms = 2000;
    testing_assert_not_found(fixture->storage, &there, ERROR_NOT_FOUND);
    timer_free(timer);
}

static void test_end(void **state)
{
    struct storage_fixture *fixture = *state;
    struct timer *at_home = written(fixture, 0, 1, 1000), *moved = written(fixture, 0, 2, 1000);
    struct timer *twice = written(fixture, 0, 3, 1000), *alive = written(fixture, 0, 4, 1500);

    at_home->state = TIMER_FIRED;
    at_home->ended.ms = 1001;
    at_home->at.ms = 77; /* no meaning any more: the row stays where it is */
    testing_write(fixture->storage, at_home, 1000, no_meta);
    moved->at.ms = twice->at.ms = 2000;
    testing_write(fixture->storage, moved, 1000, no_meta);
    testing_write(fixture->storage, twice, 1000, no_meta);
    moved->state = TIMER_CANCELLED;
    moved->ended.ms = 1002;
    testing_write(fixture->storage, moved, 2000, no_meta);
    twice->at.ms = 1000;
    testing_write(fixture->storage, twice, 2000, no_meta);
    twice->state = TIMER_DEAD;
    twice->ended.ms = 1003;
    testing_write(fixture->storage, twice, 1000, no_meta);
    for (int round = 0; round < 2; round++) {
        testing_assert_found(fixture->storage, at_home, 1000);
        testing_assert_found(fixture->storage, moved, 2000);
        testing_assert_found(fixture->storage, twice, 1000);
        ASSERT_SERIALS(fixture, 0, ALL, 1, 3, 4, 2);
        ASSERT_SERIALS(fixture, 0, LIVE, 4);
        storage_reopen(fixture);
    }
    timer_free(at_home);
    timer_free(moved);
    timer_free(twice);
    timer_free(alive);
}

static void test_create_elsewhere(void **state)
{
    struct storage_fixture *fixture = *state;
    struct timer *away = testing_timer(0, 1, 1000), *over = testing_timer(0, 2, 1000);

    /* One timer is not at id.first when it is first written. The other ended before it was written:
     * its record is at id.first. */
    away->at.ms = 5000;
    testing_write(fixture->storage, away, 0, no_meta);
    testing_assert_found(fixture->storage, away, 5000);
    over->state = TIMER_CANCELLED;
    over->ended.ms = 9;
    over->at.ms = 5000;
    testing_write(fixture->storage, over, 0, no_meta);
    testing_assert_found(fixture->storage, over, 1000);
    timer_free(away);
    timer_free(over);
}

/* ---- scans ---- */

static void test_scan_pages(void **state)
{
    enum { COUNT = 23 };
    struct storage_fixture *fixture = *state;

    /* Groups of equal milliseconds, written in no order, with the largest of serials among them. */
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t n = i * 7 % COUNT, serial = n == COUNT - 1 ? UINT64_MAX : n;

        timer_free(written(fixture, 1, serial, 10 + n / 5));
    }
    for (size_t rows_max = 1; rows_max <= COUNT + 1; rows_max++) {
        struct storage_page page =
            testing_scan_all(fixture->storage, 1, STORAGE_SCAN_LIVE, rows_max);
        assert_int_equal(page.count, COUNT);
        for (uint64_t i = 0; i < COUNT; i++) {
            assert_true(page.timers[i]->at.ms == 10 + i / 5);
            assert_true(page.timers[i]->id.serial == (i == COUNT - 1 ? UINT64_MAX : i));
        }
        storage_page_free(&page);
    }
}

static void test_scan_range(void **state)
{
    struct storage_fixture *fixture = *state;
    struct storage_scan scan = {.partition = 0, .rows_max = 10, .bytes_max = SIZE_MAX};

    for (uint64_t i = 1; i <= 6; i++)
        timer_free(written(fixture, 0, i, 100 + i / 2)); /* 100, 101 101, 102 102, 103 */
    scan.from = (struct storage_position){{101}, 3};
    scan.to = (struct storage_position){{102}, 5};
    struct storage_page page;
    assert_int_equal(storage_scan(fixture->storage, &scan, &page, NULL), ERROR_NONE);
    assert_int_equal(page.count, 2);
    assert_true(page.timers[0]->id.serial == 3 && page.timers[1]->id.serial == 4);
    assert_memory_equal(&page.next, &scan.to, sizeof(scan.to)); /* finished */
    storage_page_free(&page);
    scan.rows_max = 1;
    assert_int_equal(storage_scan(fixture->storage, &scan, &page, NULL), ERROR_NONE);
    assert_true(page.count == 1 && page.next.at.ms == 101 && page.next.serial == 4);
    storage_page_free(&page);
    /* Empty and reversed ranges are finished. */
    for (uint64_t to = 101; to > 90; to -= 5) {
        scan.to = (struct storage_position){{to}, 3};
        assert_int_equal(storage_scan(fixture->storage, &scan, &page, NULL), ERROR_NONE);
        assert_int_equal(page.count, 0);
        assert_memory_equal(&page.next, &scan.to, sizeof(scan.to));
        storage_page_free(&page);
    }
}

static void test_scan_bytes(void **state)
{
    struct storage_fixture *fixture = *state;
    struct timer *timer = testing_timer(0, 1, 50);
    struct storage_scan scan = {.to = {{60}, 0}, .rows_max = 10};
    size_t footprint = timer->footprint;

    timer_free(timer);
    for (uint64_t i = 1; i <= 5; i++)
        timer_free(written(fixture, 0, i, 50));
    struct storage_page page;
    for (size_t bytes = 0; bytes <= 6; bytes++) {
        static const size_t expected[] = {1, 1, 2, 3, 4, 5, 5};

        scan.bytes_max = bytes * footprint;
        assert_int_equal(storage_scan(fixture->storage, &scan, &page, NULL), ERROR_NONE);
        assert_int_equal(page.count, expected[bytes]);
        storage_page_free(&page);
    }
    scan.bytes_max = footprint + 1; /* reached by the second */
    assert_int_equal(storage_scan(fixture->storage, &scan, &page, NULL), ERROR_NONE);
    assert_int_equal(page.count, 2);
    storage_page_free(&page);
}

/* Goal: a scan for a tenant returns its timers that have the labels, and each of its pages has a
 * bound on the rows that it passes over, in number and in bytes. Method: a row of one tenant among
 * nine of another, some over, in pages of each size. */
static void test_scan_of_a_tenant(void **state)
{
    enum { ROWS = 40, STEP = 10 };
    struct storage_fixture *fixture = *state;

    for (uint64_t i = 0; i < ROWS; i++) {
        const bool is_own = i % STEP == 3;
        const struct timer_texts texts = {
            .target = BYTES("queue:jobs"),
            .tenant = bytes_of(is_own ? "shop" : "rival"),
            .labels = bytes_of(i < ROWS / 2 ? "{\"a\":\"b\",\"n\":\"1\"}" : "{\"n\":\"1\"}"),
        };
        struct timer *timer = timer_alloc(&texts);

        timer->id = (struct timer_id){{100 + i / 3}, 0, i + 1};
        timer->due = timer->at = timer->id.first;
        timer->version = 1;
        testing_write(fixture->storage, timer, 0, no_meta);
        timer_free(timer);
    }
    for (size_t looks_max = 1; looks_max <= ROWS + 1; looks_max++) {
        struct storage_scan scan = {
            .to = {{200}, 0}, .rows_max = ROWS, .bytes_max = SIZE_MAX, .looks_max = looks_max};
        size_t found = 0, looked = 0, pages = 0;

        scan.tenant = BYTES("shop");
        scan.labels = BYTES("{\"a\":\"b\"}");
        while (storage_position_before(scan.from, scan.to)) {
            struct storage_page page;

            assert_int_equal(storage_scan(fixture->storage, &scan, &page, NULL), ERROR_NONE);
            assert_in_range(page.looked, 0, looks_max);
            for (size_t i = 0; i < page.count; i++)
                assert_int_equal(page.timers[i]->id.serial, 1 + 3 + STEP * found++);
            looked += page.looked;
            pages++;
            scan.from = page.next;
            storage_page_free(&page);
        }
        assert_int_equal(found, ROWS / 2 / STEP);
        assert_int_equal(looked, ROWS);
        assert_int_equal(pages, ROWS / looks_max + 1);
    }
    struct storage_scan scan = {
        .to = {{200}, 0}, .rows_max = ROWS, .bytes_max = 200, .looks_max = ROWS};
    struct storage_page page;
    assert_int_equal(storage_scan(fixture->storage, &scan, &page, NULL), ERROR_NONE);
    assert_int_equal(page.count, 0); /* rows of the tenant without a name */
    assert_in_range(page.looked, 1, ROWS / 2);
    storage_page_free(&page);
}

enum { FILTERED = 120 };

/* Writes rows of two tenants with few keys, labels and targets, some moved, changed or over. */
static void storage_test_write_filtered(struct storage_fixture *fixture,
                                        struct timer *timers[FILTERED])
{
    static const char *const keys[] = {"", "order-1", "order-22", "border-2"};
    static const char *const labels[] = {"", "{\"a\":\"b\"}", "{\"a\":\"c\",\"n\":\"1\"}"};

    for (uint64_t i = 0; i < FILTERED; i++) {
        struct timer_texts texts = {
            .target = i % 5 ? BYTES("queue:jobs?priority=2") : BYTES("queue:mail"),
            .tenant = i % 7 ? BYTES("shop") : BYTES("rival"),
            .key = bytes_of(keys[i % 4]),
            .labels = bytes_of(labels[i % 3]),
        };
        struct timer *timer = timer_alloc(&texts);

        timer->id = (struct timer_id){{100 + i / 3}, 0, i + 1};
        timer->due = timer->at = timer->id.first;
        testing_write(fixture->storage, timer, 0, no_meta);
        timer->version++;
        if (i % 11 == 0) { /* it ends */
            timer->state = TIMER_CANCELLED;
            timer->ended = wall_now();
            testing_write(fixture->storage, timer, timer->at.ms, no_meta);
        } else if (i % 8 == 0) { /* it moves, and its labels and its target change */
            texts.labels = BYTES("{\"a\":\"b\",\"n\":\"1\"}");
            texts.target = BYTES("queue:mail");
            struct timer *changed = timer_copy(timer, &texts);

            changed->due = changed->at = wall_add(timer->at, 50);
            testing_write(fixture->storage, changed, timer->at.ms, no_meta);
            timer_free(timer);
            timer = changed;
        }
        timers[i] = timer;
    }
}

/* Goal: a scan with a filter returns exactly the timers of its tenant that fit, in pages of any
 * size, and counts the tenant's others. Method: each page is compared with a pass over a list. */
static void test_scan_with_a_filter(void **state)
{
    static const struct timer_filter filters[] = {
        {.key_prefix = {"order-", 6}},
        {.key_contains = {"-2", 2}},
        {.target = {"queue:mail", 10}},
        {.origin = {"queue:jobs", 10}},
        {.labels = {{{"a", 1}, {"b", 1}}}, .label_count = 1},
        {.key_prefix = {"border", 6}, .labels = {{{"n", 1}, {"1", 1}}}, .label_count = 1},
        {.states = 1u << TIMER_CANCELLED},
        {.states = 1u << TIMER_SCHEDULED, .key_contains = {"order", 5}},
        {.repeats = true},
    };
    struct storage_fixture *fixture = *state;
    struct timer *timers[FILTERED];

    storage_test_write_filtered(fixture, timers);
    for (size_t f = 0; f < sizeof(filters) / sizeof(*filters); f++)
        for (size_t rows_max = 1; rows_max <= FILTERED; rows_max *= 3) {
            struct storage_scan scan = {.kind = STORAGE_SCAN_ALL,
                                        .to = {{1000}, 0},
                                        .rows_max = rows_max,
                                        .bytes_max = SIZE_MAX,
                                        .looks_max = 17,
                                        .tenant = BYTES("shop"),
                                        .filter = &filters[f]};
            size_t wanted = 0, found = 0, own = 0;

            for (size_t i = 0; i < FILTERED; i++)
                wanted += i % 7 && timer_filter_fits(&filters[f], timers[i]);
            while (storage_position_before(scan.from, scan.to)) {
                struct storage_page page;

                assert_int_equal(storage_scan(fixture->storage, &scan, &page, NULL), ERROR_NONE);
                for (size_t i = 0; i < page.count; i++) {
                    const struct timer *timer = page.timers[i];

                    assert_true(timer_filter_fits(&filters[f], timers[timer->id.serial - 1]));
                    assert_true((timer->id.serial - 1) % 7);
                    found++;
                }
                own += page.own;
                scan.from = page.next;
                storage_page_free(&page);
            }
            assert_int_equal(found, wanted);
            assert_int_equal(own, FILTERED - (FILTERED + 6) / 7);
        }
    for (size_t i = 0; i < FILTERED; i++)
        timer_free(timers[i]);
}

static void test_partitions(void **state)
{
    struct storage_fixture *fixture = *state;

    /* The same positions and serials in each, at the ends of the ranges of their keys. */
    for (uint16_t p = 0; p < PARTITIONS; p++) {
        timer_free(written(fixture, p, 0, 1));
        timer_free(written(fixture, p, UINT64_MAX, RECORD_AT_MAX - 1));
    }
    testing_write_meta(
        fixture->storage, 1,
        (struct storage_meta){.watermark = {RECORD_AT_MAX}, .trim = {RECORD_AT_MAX}});
    ASSERT_SERIALS(fixture, 0, ALL, 0, UINT64_MAX);
    ASSERT_NONE(fixture, 1, ALL);
    ASSERT_SERIALS(fixture, 2, ALL, 0, UINT64_MAX);
}

/* A dead letter keeps its contents. When it is redriven its row moves, and it counts as live
 * again. */
static void test_redriven(void **state)
{
    struct storage_fixture *fixture = *state;
    struct timer *timer = written(fixture, 0, 1, 100);

    timer->state = TIMER_DEAD;
    timer->ended = wall_now();
    testing_write(fixture->storage, timer, 100, no_meta);
    testing_assert_found(fixture->storage, timer, 100);
    storage_reopen(fixture);
    ASSERT_NONE(fixture, 0, LIVE);
    ASSERT_SERIALS(fixture, 0, ALL, 1);
    testing_assert_found(fixture->storage, timer, 100);
    timer->state = TIMER_SCHEDULED;
    timer->at.ms = 900;
    timer->ended.ms = 0;
    testing_commit(fixture->storage,
                   (struct storage_write){.timer = timer, .was_at = {100}, .was_final = true},
                   no_meta);
    struct storage_meta meta;
    for (int round = 0; round < 2; round++) {
        assert_int_equal(storage_load_meta(fixture->storage, 0, &meta, NULL), ERROR_NONE);
        assert_int_equal(meta.pending, 1);
        ASSERT_SERIALS(fixture, 0, LIVE, 1);
        testing_assert_found(fixture->storage, timer, 900);
        storage_reopen(fixture);
    }
    timer_free(timer);
}

/* ---- metas and trims ---- */

static void test_meta(void **state)
{
    struct storage_fixture *fixture = *state;
    const struct storage_meta metas[PARTITIONS] = {{1, {2}, {0}, 3, {0}, {0}},
                                                   {4, {500}, {6}, 7, {8}, {9}}};
    const uint64_t pending[PARTITIONS] = {0, 1, 0}; /* counted, whatever a batch says */
    struct timer *timer = testing_timer(1, 1, 600);
    struct storage_write write = {.timer = timer};
    struct storage_batch first = {.partition = 0, .meta = metas[0]};
    struct storage_batch second = {
        .partition = 1, .meta = metas[1], .writes = &write, .write_count = 1};
    struct storage_batch *const batches[] = {&first, &second};

    assert_int_equal(storage_write(fixture->storage, batches, 2, NULL), ERROR_NONE);
    for (int round = 0; round < 2; round++) {
        for (uint16_t p = 0; p < PARTITIONS; p++) {
            struct storage_meta meta;

            assert_int_equal(storage_load_meta(fixture->storage, p, &meta, NULL), ERROR_NONE);
            assert_true(meta.epoch == metas[p].epoch && meta.pending == pending[p]);
            assert_true(meta.watermark.ms == metas[p].watermark.ms);
            assert_true(meta.trim.ms == metas[p].trim.ms);
            assert_true(meta.placed.ms == metas[p].placed.ms);
            assert_true(meta.over_to.ms == metas[p].over_to.ms);
        }
        testing_assert_found(fixture->storage, timer, 600);
        storage_reopen(fixture);
    }
    timer_free(timer);
}

static void assert_stored(struct storage_fixture *fixture, enum storage_note note,
                          uint16_t partition, const char *expected)
{
    struct buffer bytes;

    buffer_init(&bytes);
    assert_int_equal(storage_load_note(fixture->storage, note, partition, &bytes, NULL),
                     ERROR_NONE);
    assert_true(bytes_equal(buffer_bytes(&bytes), bytes_of(expected)));
    buffer_deinit(&bytes);
}

static void assert_stored_holds(struct storage_fixture *fixture, uint16_t partition,
                                const char *expected)
{
    assert_stored(fixture, STORAGE_HOLDS, partition, expected);
}

/* Goal: the ledger of a partition is that of the last batch with one, and is written with the rows
 * of its batch. It is apart from the holds. An empty partition has none. */
static void test_stored_ledger(void **state)
{
    struct storage_fixture *fixture = *state;
    const struct storage_place nothing = {0};
    struct timer *timer = testing_timer(1, 1, 600);
    struct storage_write write = {.timer = timer};
    struct storage_batch first = {.partition = 1,
                                  .meta = {4, {500}, {6}, 1, {8}, {9}},
                                  .writes = &write,
                                  .write_count = 1,
                                  .ledger = BYTES("rows 1 and 2")};
    struct storage_batch second = {.partition = 1, .meta = first.meta, .ledger = BYTES("row 3")};
    struct storage_batch third = {.partition = 1, .meta = first.meta};
    struct storage_batch holds = {.partition = 1, .holds = BYTES("paused")};
    struct storage_batch *const batches[] = {&first, &second, &third, &holds};

    assert_stored(fixture, STORAGE_LEDGER, 1, "");
    assert_int_equal(storage_write(fixture->storage, batches, 1, NULL), ERROR_NONE);
    assert_stored(fixture, STORAGE_LEDGER, 1, "rows 1 and 2");
    testing_assert_found(fixture->storage, timer, 600);
    assert_int_equal(storage_write(fixture->storage, batches + 1, 3, NULL), ERROR_NONE);
    for (int round = 0; round < 2; round++) {
        assert_stored(fixture, STORAGE_LEDGER, 1, "row 3");
        assert_stored(fixture, STORAGE_LEDGER, 0, "");
        assert_stored(fixture, STORAGE_HOLDS, 1, "paused");
        storage_reopen(fixture);
    }
    assert_int_equal(storage_partition_clear(fixture->storage, 1, &nothing, NULL), ERROR_NONE);
    assert_stored(fixture, STORAGE_LEDGER, 1, "");
    timer_free(timer);
}

/* Goal: the holds of a partition are those that a batch wrote last; such a batch keeps the meta,
 * and may share a body with others. An empty partition has none. */
static void test_stored_holds(void **state)
{
    struct storage_fixture *fixture = *state;
    const struct storage_place nothing = {0};
    struct timer *timer = testing_timer(1, 1, 600);
    struct storage_write write = {.timer = timer};
    struct storage_batch rows = {
        .partition = 1, .meta = {4, {500}, {6}, 1, {8}, {9}}, .writes = &write, .write_count = 1};
    struct storage_batch first = {.partition = 1, .holds = BYTES("first")};
    struct storage_batch second = {.partition = 1, .holds = BYTES("the second")};
    struct storage_batch *const batches[] = {&first, &rows, &second};

    assert_stored_holds(fixture, 1, "");
    assert_int_equal(storage_write(fixture->storage, batches, 1, NULL), ERROR_NONE);
    assert_stored_holds(fixture, 1, "first");
    assert_int_equal(storage_write(fixture->storage, batches, 3, NULL), ERROR_NONE);
    for (int round = 0; round < 2; round++) {
        struct storage_meta meta;

        assert_stored_holds(fixture, 1, "the second");
        assert_stored_holds(fixture, 0, "");
        assert_int_equal(storage_load_meta(fixture->storage, 1, &meta, NULL), ERROR_NONE);
        assert_memory_equal(&meta, &rows.meta, sizeof(meta));
        testing_assert_found(fixture->storage, timer, 600);
        storage_reopen(fixture);
    }
    assert_int_equal(storage_partition_clear(fixture->storage, 1, &nothing, NULL), ERROR_NONE);
    assert_stored_holds(fixture, 1, "");
    timer_free(timer);
}

static void storage_write_over(struct storage_fixture *fixture, uint64_t serial, uint64_t at_ms)
{
    struct timer *timer = testing_timer(1, serial, at_ms);

    timer->state = TIMER_FIRED;
    timer->ended.ms = 1;
    testing_write(fixture->storage, timer, 0, no_meta);
    timer_free(timer);
}

static void test_trim(void **state)
{
    struct storage_fixture *fixture = *state;
    struct storage_meta meta = {.watermark = {1000}};

    for (uint64_t i = 1; i <= 6; i++)
        storage_write_over(fixture, i, 100 * i);
    timer_free(written(fixture, 0, 1, 100));
    timer_free(written(fixture, 2, 1, 100));
    meta.trim.ms = 200; /* the first position that is kept */
    testing_write_meta(fixture->storage, 1, meta);
    ASSERT_SERIALS(fixture, 1, ALL, 2, 3, 4, 5, 6);
    storage_reopen(fixture);
    meta.trim.ms = 301;
    testing_write_meta(fixture->storage, 1, meta);
    ASSERT_SERIALS(fixture, 1, ALL, 4, 5, 6);
    testing_assert_not_found(fixture->storage, &(struct timer_id){{300}, 1, 3}, ERROR_NOT_FOUND);
    /* The trim goes down: nothing is dropped, and rows may be written below it again. */
    meta.trim.ms = 150;
    testing_write_meta(fixture->storage, 1, meta);
    storage_write_over(fixture, 7, 160);
    storage_write_over(fixture, 8, 310);
    meta.trim.ms = 150;
    testing_write_meta(fixture->storage, 1, meta);
    ASSERT_SERIALS(fixture, 1, ALL, 7, 8, 4, 5, 6);
    storage_reopen(fixture);
    meta.trim.ms = 305; /* up again: from 150, not from 301 */
    testing_write_meta(fixture->storage, 1, meta);
    ASSERT_SERIALS(fixture, 1, ALL, 8, 4, 5, 6);
    /* The other partitions are unchanged. */
    ASSERT_SERIALS(fixture, 0, ALL, 1);
    ASSERT_SERIALS(fixture, 2, ALL, 1);
}

/* A trim takes effect after the writes of its own batch and before those of the next. */
static void test_trim_within_commit(void **state)
{
    struct storage_fixture *fixture = *state;
    struct timer *timer = testing_timer(1, 1, 100), *later = testing_timer(1, 2, 100);
    struct storage_write over = {.timer = timer}, fresh = {.timer = later};
    struct storage_batch up = {.partition = 1,
                               .meta = {.epoch = 0, .watermark = {500}, .trim = {500}},
                               .writes = &over,
                               .write_count = 1};
    struct storage_batch down = {.partition = 1,
                                 .meta = {.epoch = 0, .watermark = {100}, .trim = {100}},
                                 .writes = &fresh,
                                 .write_count = 1};
    struct storage_batch again = {.partition = 1,
                                  .meta = {.epoch = 0, .watermark = {100}, .trim = {100}}};
    struct storage_batch *const batches[] = {&up, &down, &again};

    timer->state = TIMER_FIRED;
    timer->ended.ms = 1;
    assert_int_equal(storage_write(fixture->storage, batches, 3, NULL), ERROR_NONE);
    ASSERT_SERIALS(fixture, 1, ALL, 2);
    storage_reopen(fixture);
    ASSERT_SERIALS(fixture, 1, ALL, 2);
    timer_free(timer);
    timer_free(later);
}

/* ---- damage ---- */

static void test_damage_scanned(void **state)
{
    struct storage_fixture *fixture = *state;
    struct timer *bad = written(fixture, 0, 2, 200);

    timer_free(written(fixture, 0, 1, 100));
    timer_free(written(fixture, 0, 3, 300));
    damage(fixture, &bad->id, 200);
    ASSERT_SERIALS(fixture, 0, LIVE, 1, 3);
    assert_int_equal(storage_corrupt_count(fixture), 1);
    ASSERT_SERIALS(fixture, 0, ALL, 1, 3);
    assert_int_equal(storage_corrupt_count(fixture), 1); /* it is counted once */
    storage_reopen(fixture);
    assert_int_equal(storage_corrupt_count(fixture), 1);
    testing_assert_not_found(fixture->storage, &bad->id, ERROR_CORRUPT);
    /* A caller that still has the timer may write it again. */
    bad->version++;
    testing_write(fixture->storage, bad, 200, no_meta);
    testing_assert_found(fixture->storage, bad, 200);
    assert_int_equal(storage_corrupt_count(fixture), 1);
    timer_free(bad);
}

static void test_damage_found(void **state)
{
    struct storage_fixture *fixture = *state;
    struct timer *home = written(fixture, 0, 1, 100), *moved = written(fixture, 0, 2, 100);

    moved->at.ms = 250;
    testing_write(fixture->storage, moved, 100, no_meta);
    damage(fixture, &home->id, 100);
    damage(fixture, &moved->id, 250);
    for (int round = 0; round < 2; round++) {
        testing_assert_not_found(fixture->storage, &home->id, ERROR_CORRUPT);
        testing_assert_not_found(fixture->storage, &moved->id, ERROR_CORRUPT);
        assert_int_equal(storage_corrupt_count(fixture), 2);
        ASSERT_NONE(fixture, 0, ALL);
        storage_reopen(fixture);
    }
    /* A caller that still has it has moved it: it is found by its id again. */
    home->at.ms = 400;
    testing_write(fixture->storage, home, 100, no_meta);
    testing_assert_found(fixture->storage, home, 400);
    timer_free(home);
    timer_free(moved);
}

/* A final record that is damaged does not count as a live one, nor a live one as final. */
static void test_damage_of_state(void **state)
{
    struct storage_fixture *fixture = *state;

    timer_free(written(fixture, 1, 1, 100));
    storage_write_over(fixture, 2, 200);
    damage(fixture, &(struct timer_id){{100}, 1, 1}, 100);
    damage(fixture, &(struct timer_id){{200}, 1, 2}, 200);
    ASSERT_NONE(fixture, 1, LIVE);
    assert_int_equal(storage_corrupt_count(fixture), 2);
}

static void test_stats(void **state)
{
    struct storage_fixture *fixture = *state;

    timer_free(written(fixture, 0, 1, 100));
    assert_int_equal(storage_flush(fixture->storage, NULL), ERROR_NONE);
    struct storage_stats stats;
    storage_stats(fixture->storage, &stats);
    assert_int_equal(stats.corrupt_records, 0);
    assert_true(stats.memory_bytes > 0 && stats.memory_bytes < 64 << 20);
    assert_true(stats.disk_free_bytes > 0);
    assert_true(stats.disk_bytes < 64 << 20);
    assert_true(fixture->backend != TESTING_WHEEL || stats.disk_bytes > 0);
    assert_true((fixture->backend == TESTING_MEMORY) == (stats.disk_free_bytes == UINT64_MAX));
    assert_true((fixture->backend == TESTING_MEMORY) == (stats.disk_floor_bytes == 0));
    assert_false(stats.is_lost);
}

/* storage_tend takes the space that is held back. Reading the statistics takes none. */
static void test_tend(void **state)
{
    struct storage_fixture *fixture = *state;
    struct storage_stats stats;
    char path[300];

    if (fixture->backend == TESTING_MEMORY) {
        storage_tend(fixture->storage);
        return;
    }
    snprintf(path, sizeof(path), "%s/" BALLAST_NAME, fixture->folder.path);
    storage_stats(fixture->storage, &stats);
    assert_int_equal(files_look_for(path), FILES_ABSENT);
    storage_tend(fixture->storage);
    assert_int_equal(files_look_for(path), FILES_THERE);
}

#define ON(test, name, backend)                                                                    \
    {                                                                                              \
#test " (" name ")", test, storage_set_up, storage_tear_down, (void *)(uintptr_t)(backend) \
    }
#define EACH(test) ON(test, "memory", TESTING_MEMORY), ON(test, "wheel", TESTING_WHEEL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_empty),
        EACH(test_create_and_replace),
        EACH(test_move),
        EACH(test_end),
        EACH(test_create_elsewhere),
        EACH(test_scan_pages),
        EACH(test_scan_range),
        EACH(test_scan_bytes),
        EACH(test_scan_of_a_tenant),
        EACH(test_scan_with_a_filter),
        EACH(test_partitions),
        EACH(test_redriven),
        EACH(test_meta),
        EACH(test_trim),
        EACH(test_trim_within_commit),
        EACH(test_damage_scanned),
        EACH(test_damage_found),
        EACH(test_damage_of_state),
        EACH(test_stats),
        EACH(test_tend),
        EACH(test_stored_holds),
        EACH(test_stored_ledger),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
