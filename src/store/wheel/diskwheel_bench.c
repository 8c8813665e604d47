/*
 * diskwheel_bench - the store on a wheel with many timers: speed, waits, bytes written, a start.
 *
 *     diskwheel_bench [timers [megabytes [folder]]]
 *                                  5,000,000 timers, 64 MB of changes in memory, under /tmp
 *
 * Each timer has a payload of 100 bytes, every fourth one a key; they are due within 30 days, at
 * random. They are created, found, looked up by key, and scanned; the store is closed as a crash
 * does it, opened again, and gets what it lacks; then all timers end in due order, a time is passed
 * and the rest is trimmed. Time of timers is virtual. Besides the clock's time it prints processor
 * time, which other programs disturb less.
 */
#include "base/random.h"
#include "store/record.h"
#include "store/storage_writing.h"
#include "store/wheel/diskwheel_store.h"
#include "sys/clock.h"
#include "sys/process.h"

#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    PARTITIONS = 4,
    GROUP = 10000, /* timers written at once, in equal parts for the partitions */
    PART = GROUP / PARTITIONS,
    MILLION = 1000000,
    FINDS = 100000,
    ROUNDS = 5, /* of finds; the quickest counts, as other programs disturbed it least */
    KEY_EACH = 4,
    KEY_SIZE = 12,
    PAYLOAD_BYTES = 100,
};

#define START_MS UINT64_C(1800000000000)
#define DAY_MS   (UINT64_C(24) * 3600 * 1000)
#define DUE_MS   (30 * DAY_MS)
#define RETAIN   (UINT64_C(3600) * 1000)

struct wheelbench {
    struct disk_calls disk; /* the system's, and counts what is written, and reads */
    atomic_ullong written, reads;
    const char *folder;
    uint64_t memory;
    size_t count;
    struct storage *storage;
    struct timer *timers[GROUP];
    struct storage_write writes[GROUP];
    uint64_t ended[PARTITIONS]; /* number of bodies of ends */
    struct random random;
};

static void wheelbench_die(const char *what, const char *why)
{
    fprintf(stderr, "diskwheel_bench: %s: %s\n", what, why);
    exit(1);
}

/* ---- time ---- */

static double wheelbench_used(int who)
{
    struct rusage usage;

    getrusage(who, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

struct wheelbench_watch {
    struct instant begin;
    double used, all;
};

static struct wheelbench_watch wheelbench_start(void)
{
    return (struct wheelbench_watch){instant_now(), wheelbench_used(RUSAGE_THREAD),
                                     wheelbench_used(RUSAGE_SELF)};
}

static double wheelbench_seconds(const struct wheelbench_watch *watch)
{
    return (double)instant_since_ns(watch->begin, instant_now()) / 1e9;
}

static void wheelbench_report(const struct wheelbench_watch *watch, const char *what, size_t count)
{
    const double each = 1e6 / (double)count;

    printf("%-32s %8.3f s  %9.0f /s  each %6.2f us of this thread, %6.2f us of all\n", what,
           wheelbench_seconds(watch), (double)count / wheelbench_seconds(watch),
           (wheelbench_used(RUSAGE_THREAD) - watch->used) * each,
           (wheelbench_used(RUSAGE_SELF) - watch->all) * each);
    fflush(stdout);
}

/* ---- timers, each of which follows from its number ---- */

/* The serials of a partition have no gaps, as an engine makes them. */
static struct timer_id wheelbench_id(size_t i)
{
    const uint64_t due = START_MS + 60000 + random_mix(i) % DUE_MS;

    return (struct timer_id){
        {due}, (uint16_t)(i / PART % PARTITIONS), TIMER_SERIAL(1, i / GROUP * PART + i % PART + 1)};
}

static void wheelbench_key(size_t i, char ret_key[KEY_SIZE + 1])
{
    snprintf(ret_key, KEY_SIZE + 1, "k%011u", (unsigned)i);
}

static void wheelbench_make_timers(struct wheelbench *bench)
{
    char payload[PAYLOAD_BYTES], key[KEY_SIZE + 1];

    for (size_t i = 0; i < GROUP; i++) {
        struct timer_texts texts = {.target = BYTES("http://127.0.0.1:9000/hooks/recheck"),
                                    .payload = {payload, sizeof(payload)}};

        wheelbench_key(i, key);
        if (i % KEY_EACH == 0)
            texts.key = (struct bytes){key, KEY_SIZE};
        for (size_t k = 0; k < sizeof(payload); k++)
            payload[k] = (char)('a' + random_below(&bench->random, 26));
        payload[0] = payload[sizeof(payload) - 1] = '"';
        bench->timers[i] = timer_alloc(&texts);
    }
}

/* Makes the timers of a group anew, those of one partition or all of them. */
static void wheelbench_renew(struct wheelbench *bench, size_t group, size_t from, size_t to)
{
    char key[KEY_SIZE + 1];

    for (size_t i = from; i < to; i++) {
        struct timer *timer = bench->timers[i];

        timer->id = wheelbench_id(group * GROUP + i);
        timer->at = timer->due = timer->id.first;
        timer->created.ms = START_MS;
        wheelbench_key(group * GROUP + i, key);
        if (i % KEY_EACH == 0)
            memcpy((char *)(uintptr_t)timer->texts.key.data, key, KEY_SIZE);
        bench->writes[i] = (struct storage_write){.timer = timer};
    }
}

/* Writes timers of one partition as one body. Returns the seconds that it took. */
static double wheelbench_write(struct wheelbench *bench, struct storage_write *writes, size_t count,
                               struct wall trim)
{
    struct storage_batch batch = {.partition = writes->timer->id.partition,
                                  .meta = {.epoch = 1, .watermark = trim, .trim = trim},
                                  .writes = writes,
                                  .write_count = count};
    struct storage_batch *pointer = &batch;
    const struct instant begin = instant_now();
    struct error error;

    if (storage_write_body(bench->storage, &pointer, 1, &error))
        wheelbench_die("write", error.text);
    return (double)instant_since_ns(begin, instant_now()) / 1e9;
}

/* ---- the store ---- */

static struct wheelbench *wheelbench_of(const struct disk_calls *disk)
{
    return (struct wheelbench *)(uintptr_t)disk; /* its first field */
}

static int wheelbench_disk_write(const struct disk_calls *disk, int file, uint64_t at,
                                 struct bytes bytes)
{
    atomic_fetch_add(&wheelbench_of(disk)->written, bytes.size);
    return disk_system()->write(disk_system(), file, at, bytes);
}

static int wheelbench_disk_read(const struct disk_calls *disk, int file, uint64_t at, void *to,
                                size_t size, size_t *ret_size)
{
    atomic_fetch_add(&wheelbench_of(disk)->reads, 1);
    return disk_system()->read(disk_system(), file, at, to, size, ret_size);
}

static void wheelbench_open(struct wheelbench *bench)
{
    const struct diskwheel_options options = {.disk = &bench->disk,
                                              .folder = bench->folder,
                                              .partition_count = PARTITIONS,
                                              .retain_ms = RETAIN,
                                              .memory_bytes = bench->memory};
    const struct wheelbench_watch watch = wheelbench_start();
    struct error error;

    if (diskwheel_storage_open(&options, &bench->storage, &error))
        wheelbench_die("open", error.text);
    printf("%-32s %8.3f s\n", "open", wheelbench_seconds(&watch));
}

static void wheelbench_print(struct wheelbench *bench, const char *what)
{
    const struct diskwheel_store *store = diskwheel_store_of(bench->storage);
    struct storage_stats stats;

    storage_stats(bench->storage, &stats);
    printf("%-32s %zu runs, %.1f MB on disk, %.1f MB written, memory %.1f MB, resident %.1f MB\n",
           what, store->view->count, (double)stats.disk_bytes / 1e6,
           (double)atomic_load(&bench->written) / 1e6, (double)stats.memory_bytes / 1e6,
           (double)process_memory_bytes() / 1e6);
}

/* ---- what is measured ---- */

static double wheelbench_find(struct wheelbench *bench, size_t count)
{
    const unsigned long long before = atomic_load(&bench->reads);
    const struct wheelbench_watch watch = wheelbench_start();

    for (size_t i = 0; i < FINDS; i++) {
        const struct timer_id id = wheelbench_id(random_below(&bench->random, count));
        struct timer *timer;

        if (storage_find(bench->storage, &id, &timer, NULL))
            wheelbench_die("find", "a timer is lost");
        timer_free(timer);
    }
    wheelbench_report(&watch, "find, random", FINDS);
    printf("%-32s %8.2f\n", "  blocks read by each",
           (double)(atomic_load(&bench->reads) - before) / FINDS);
    return wheelbench_used(RUSAGE_THREAD) - watch.used;
}

static double wheelbench_lookup(struct wheelbench *bench, size_t count)
{
    const struct wheelbench_watch watch = wheelbench_start();
    char key[KEY_SIZE + 1];

    for (size_t i = 0; i < FINDS; i++) {
        const size_t at = random_below(&bench->random, count) / KEY_EACH * KEY_EACH;
        const struct timer_id id = wheelbench_id(at);
        struct storage_names names;

        wheelbench_key(at, key);
        const struct storage_lookup lookup = {
            .partition = id.partition,
            .name = name_hash((struct name_space){id.partition, {0}}, NAME_KEY,
                              (struct bytes){key, KEY_SIZE}),
            .serial_below = UINT64_MAX,
            .count_max = 2};
        if (storage_lookup(bench->storage, &lookup, &names, NULL) || names.count != 1 ||
            !timer_id_equal(&names.ids[0], &id))
            wheelbench_die("lookup", "a name is lost");
        free(names.ids);
    }
    wheelbench_report(&watch, "lookup of a key, random", FINDS);
    return wheelbench_used(RUSAGE_THREAD) - watch.used;
}

/* Returns the quickest of some rounds. */
static double wheelbench_quickest(struct wheelbench *bench, size_t count,
                                  double (*measure)(struct wheelbench *bench, size_t count))
{
    double quickest = measure(bench, count);

    for (int i = 1; i < ROUNDS; i++) {
        const double seconds = measure(bench, count);

        quickest = seconds < quickest ? seconds : quickest;
    }
    return quickest;
}

/* Measures while all timers are in runs: those in memory cost less. */
static void wheelbench_read(struct wheelbench *bench, size_t count, const char *what,
                            double *ret_find, double *ret_lookup)
{
    storage_flush(bench->storage, NULL);
    diskwheel_storage_rest(bench->storage);
    wheelbench_print(bench, what);
    *ret_find = wheelbench_quickest(bench, count, wheelbench_find);
    *ret_lookup = wheelbench_quickest(bench, count, wheelbench_lookup);
}

static void wheelbench_fill(struct wheelbench *bench, double *ret_find, double *ret_lookup)
{
    double slowest = 0, fastest = 0, longest = 0;
    struct wheelbench_watch watch = wheelbench_start();

    for (size_t group = 0; group < bench->count / GROUP; group++) {
        wheelbench_renew(bench, group, 0, GROUP);
        for (size_t part = 0; part < PARTITIONS; part++) {
            const double taken =
                wheelbench_write(bench, bench->writes + part * PART, PART, (struct wall){0});
            longest = taken > longest ? taken : longest;
        }
        const size_t done = (group + 1) * GROUP;
        if (done % MILLION)
            continue;
        const double seconds = wheelbench_seconds(&watch);
        char what[64];
        snprintf(what, sizeof(what), "fill to %3zu M, longest %5.1f ms", done / MILLION,
                 longest * 1e3);
        wheelbench_report(&watch, what, MILLION);
        slowest = seconds > slowest ? seconds : slowest;
        fastest = !fastest || seconds < fastest ? seconds : fastest;
        longest = 0;
        if (done == MILLION)
            wheelbench_read(bench, done, "1 M", ret_find, ret_lookup);
        watch = wheelbench_start();
    }
    printf("%-32s %8.2f\n", "slowest million / fastest", slowest ? fastest / slowest : 1.0);
}

static void wheelbench_scan(struct wheelbench *bench)
{
    const struct wheelbench_watch watch = wheelbench_start();
    size_t count = 0;

    for (uint16_t p = 0; p < PARTITIONS; p++) {
        struct storage_scan scan = {
            .partition = p, .to = {WALL_NEVER, 0}, .rows_max = 4096, .bytes_max = 4 << 20};

        while (storage_position_before(scan.from, scan.to)) {
            struct storage_page page;
            if (storage_scan(bench->storage, &scan, &page, NULL))
                wheelbench_die("scan", "failed");
            count += page.count;
            storage_page_free(&page);
            scan.from = page.next;
        }
    }
    if (count != bench->count)
        wheelbench_die("scan", "a timer is lost");
    wheelbench_report(&watch, "scan", count);
}

/* Closes as a crash does, opens, and applies what the log would have. */
static void wheelbench_crash(struct wheelbench *bench)
{
    size_t bodies = 0;

    diskwheel_storage_crash(bench->storage);
    wheelbench_open(bench);
    const struct wheelbench_watch watch = wheelbench_start();
    for (uint16_t p = 0; p < PARTITIONS; p++) {
        struct storage_place place;

        storage_load_place(bench->storage, p, &place, NULL);
        for (size_t group = place.next; group < bench->count / GROUP; group++, bodies++) {
            wheelbench_renew(bench, group, p * PART, (p + 1) * PART);
            wheelbench_write(bench, bench->writes + p * PART, PART, (struct wall){0});
        }
    }
    wheelbench_report(&watch, "what the crash lost, again", bodies * PART + 1);
}

/* Ends a page of timers of the partition. Returns where the next one begins. */
static struct storage_position wheelbench_end_page(struct wheelbench *bench, uint16_t partition,
                                                   struct storage_position from, double *longest)
{
    const struct storage_scan scan = {.partition = partition,
                                      .from = from,
                                      .to = {WALL_NEVER, 0},
                                      .rows_max = PART,
                                      .bytes_max = 64 << 20};
    struct storage_page page;

    if (storage_scan(bench->storage, &scan, &page, NULL))
        wheelbench_die("scan", "failed");
    for (size_t i = 0; i < page.count; i++) {
        struct timer *timer = page.timers[i];

        bench->writes[i] = (struct storage_write){.timer = timer, .was_at = timer->at};
        timer->ended = timer->at;
        timer->state = TIMER_FIRED;
        if (wall_now().ms < timer->at.ms)
            clock_move_virtual(timer->at);
    }
    const uint64_t at = page.count ? page.timers[0]->at.ms : from.at.ms;
    if (page.count) {
        const double taken =
            wheelbench_write(bench, bench->writes, page.count, (struct wall){at - 2 * RETAIN});
        *longest = taken > *longest ? taken : *longest;
    }
    storage_page_free(&page);
    return page.next;
}

/* All timers end, each partition's in due order. */
static void wheelbench_end(struct wheelbench *bench)
{
    struct storage_position at[PARTITIONS] = {0};
    const struct wheelbench_watch watch = wheelbench_start();
    double longest = 0;
    bool is_more = true;
    char what[64];

    while (is_more) {
        is_more = false;
        for (uint16_t p = 0; p < PARTITIONS; p++)
            if (at[p].at.ms != WALL_NEVER.ms) {
                at[p] = wheelbench_end_page(bench, p, at[p], &longest);
                is_more = true;
            }
    }
    snprintf(what, sizeof(what), "end, longest %5.1f ms", longest * 1e3);
    wheelbench_report(&watch, what, bench->count);
}

static int wheelbench_remove_one(const char *path, const struct stat *info, int kind,
                                 struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

int main(int count, char **arguments)
{
    static struct wheelbench bench;
    char folder[] = "/tmp/tickwheel-bench-XXXXXX";
    double find = 0, lookup = 0, find_all, lookup_all;

    bench.disk = *disk_system();
    bench.disk.write = wheelbench_disk_write;
    bench.disk.read = wheelbench_disk_read;
    bench.random = random_seeded(1);
    bench.count = count > 1 ? strtoull(arguments[1], NULL, 10) : 5 * MILLION;
    bench.memory = (count > 2 ? strtoull(arguments[2], NULL, 10) : 64) << 20;
    bench.folder = count > 3 ? arguments[3] : mkdtemp(folder);
    if (!bench.folder || bench.count < MILLION || bench.count % MILLION)
        wheelbench_die("use", "diskwheel_bench [millions of timers [megabytes [folder]]]");
    clock_start_virtual((struct wall){START_MS});
    wheelbench_make_timers(&bench);
    wheelbench_open(&bench);
    wheelbench_fill(&bench, &find, &lookup);
    wheelbench_print(&bench, "filled");
    wheelbench_crash(&bench);
    storage_flush(bench.storage, NULL);
    diskwheel_storage_rest(bench.storage);
    wheelbench_scan(&bench);
    wheelbench_read(&bench, bench.count, "at rest", &find_all, &lookup_all);
    printf("%-32s %8.2f, of a key %.2f\n", "find / find at 1 M", find_all / find,
           lookup_all / lookup);
    wheelbench_end(&bench);
    wheelbench_print(&bench, "ended");
    clock_move_virtual((struct wall){START_MS + DUE_MS + DAY_MS});
    for (uint16_t p = 0; p < PARTITIONS; p++) {
        struct storage_batch batch = {
            .partition = p, .meta = {.epoch = 1, .trim = {START_MS + DUE_MS + DAY_MS / 2}}};
        struct storage_batch *pointer = &batch;

        storage_write_body(bench.storage, &pointer, 1, NULL);
    }
    storage_flush(bench.storage, NULL);
    diskwheel_storage_rest(bench.storage);
    wheelbench_print(&bench, "trimmed");
    wheelbench_renew(&bench, 0, 0, 1);
    struct buffer row;
    buffer_init(&row);
    record_row_encode(&row, (struct record_key){START_MS, 1}, bench.timers[1]);
    const double bytes = (double)(row.size + RECORD_ROW_SIZE) * (double)bench.count;
    printf("%-32s %8.2f of %.0f bytes each\n", "written / timers", (double)bench.written / bytes,
           bytes / (double)bench.count);
    buffer_deinit(&row);
    storage_close(bench.storage);
    if (bench.folder == folder)
        nftw(folder, wheelbench_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    for (size_t i = 0; i < GROUP; i++)
        timer_free(bench.timers[i]);
    return 0;
}
