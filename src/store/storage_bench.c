/*
 * storage_bench - what the embedded storage does in a second, beside what the disk can do at all.
 *
 *     storage_bench [timers [group [folder]]]      1,000,000 timers in groups of 10,000, under /tmp
 *
 * Each timer has a payload of 100 bytes and is due in 30 to 90 minutes; each group is prepared and
 * applied, without a log. The floor is what a log adds at least: the same bytes, with a checksum
 * and a sync per group, in one file. log_bench measures the log.
 */
#include "base/checksum.h"
#include "base/random.h"
#include "store/record.h"
#include "store/storage_writing.h"
#include "store/wheel/diskwheel.h"
#include "sys/clock.h"
#include "sys/process.h"

#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PARTITIONS = 4, PAYLOAD_BYTES = 100, FINDS = 200000, PAGE_ROWS = 4096 };

#define START_MS  UINT64_C(1800000000000)
#define MINUTE_MS UINT64_C(60000)

struct bench {
    const char *folder;
    struct storage *storage;
    size_t count, group;
    struct timer **timers; /* one group of them, used again and again */
    struct timer_id *ids;  /* of all that were inserted */
    uint64_t serial;
    struct random random;
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "storage_bench: %s: %s\n", what, why);
    exit(1);
}

static double seconds_since(struct instant begin)
{
    return (double)instant_since_ns(begin, instant_now()) / 1e9;
}

/* What all threads have used. */
static double process_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* What this thread alone has used of a processor: steadier than the clock on a busy machine. */
static double thread_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void bench_report(const char *what, size_t count, double seconds)
{
    printf("%-44s %10.0f /s   %8.3f s\n", what, (double)count / seconds, seconds);
    fflush(stdout);
}

/* ---- timers ---- */

static void make_timers(struct bench *bench)
{
    char payload[PAYLOAD_BYTES];
    struct timer_texts texts = {.target = BYTES("http://127.0.0.1:9000/hooks/recheck"),
                                .payload = {payload, sizeof(payload)}};

    memset(payload, 'x', sizeof(payload));
    payload[0] = payload[sizeof(payload) - 1] = '"';
    bench->timers = calloc(bench->group, sizeof(struct timer *));
    bench->ids = calloc(bench->count, sizeof(*bench->ids));
    for (size_t i = 0; i < bench->group; i++) {
        for (size_t j = 1; j < sizeof(payload) - 1; j++)
            payload[j] = (char)('a' + random_below(&bench->random, 26));
        bench->timers[i] = timer_alloc(&texts);
    }
}

/* A new timer in place of an old one. */
static void renew(struct bench *bench, struct timer *timer, uint16_t partition, uint64_t at_ms)
{
    timer->id = (struct timer_id){{at_ms}, partition, TIMER_SERIAL(1, ++bench->serial)};
    timer->at.ms = timer->due.ms = at_ms;
    timer->created.ms = START_MS;
    timer->state = TIMER_SCHEDULED;
    timer->ended.ms = 0;
}

/* Writes `count` timers, which are in order of partition, as one batch for each partition. */
static void bench_write(struct bench *bench, struct storage_write *writes, size_t count,
                        struct wall trim)
{
    struct storage_batch batches[PARTITIONS] = {0};
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        uint16_t partition = writes[i].timer->id.partition;

        if (!used || batches[used - 1].partition != partition)
            batches[used++] =
                (struct storage_batch){.partition = partition,
                                       .meta = {.epoch = 1, .watermark = trim, .trim = trim},
                                       .writes = &writes[i]};
        batches[used - 1].write_count++;
    }
    struct storage_batch *pointers[PARTITIONS];
    for (size_t i = 0; i < used; i++)
        pointers[i] = &batches[i];
    struct error error;
    if (storage_write(bench->storage, pointers, used, &error))
        die("write", error.text);
}

/* ---- what is measured ---- */

static void floor_of_disk(struct bench *bench)
{
    struct buffer record;

    buffer_init(&record);
    struct buffer group;
    buffer_init(&group);
    renew(bench, bench->timers[0], 0, START_MS);
    record_row_encode(&record, (struct record_key){START_MS, 1}, bench->timers[0]);
    for (size_t i = 0; i < bench->group; i++) {
        buffer_append(&group, "0123456789abcdef", RECORD_ROW_SIZE);
        buffer_append_bytes(&group, buffer_bytes(&record));
    }
    char path[512];
    snprintf(path, sizeof(path), "%s/floor", bench->folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        die("floor", path);
    struct instant begin = instant_now();
    for (size_t done = 0; done < bench->count; done += bench->group) {
        uint32_t sum = checksum_crc32c(0, group.data, group.size);

        put_le(group.data, sum, 4);
        if (write(fd, group.data, group.size) != (ssize_t)group.size || fdatasync(fd))
            die("floor", path);
    }
    double seconds = seconds_since(begin);
    close(fd);
    unlink(path);
    bench_report("floor: append, checksum, fdatasync", bench->count, seconds);
    printf("%-44s %10zu bytes of key and value\n", "", record.size + RECORD_ROW_SIZE);
    buffer_deinit(&record);
    buffer_deinit(&group);
}

static void bench_open_storage(struct bench *bench)
{
    const struct diskwheel_options options = {.folder = bench->folder,
                                              .partition_count = PARTITIONS,
                                              .retain_ms = 3600 * 1000,
                                              .cluster = 1};
    struct error error;
    struct instant begin = instant_now();

    if (diskwheel_storage_open(&options, &bench->storage, &error))
        die("open", error.text);
    printf("%-44s %10.0f ms\n", "open", seconds_since(begin) * 1e3);
}

static void insert(struct bench *bench)
{
    struct storage_write *writes = calloc(bench->group, sizeof(*writes));
    double seconds = 0, longest = 0, busy = 0, all = -process_seconds();

    for (size_t done = 0; done < bench->count; done += bench->group) {
        for (size_t i = 0; i < bench->group; i++) {
            uint64_t due = START_MS + 30 * MINUTE_MS + random_below(&bench->random, 60 * MINUTE_MS);

            renew(bench, bench->timers[i], (uint16_t)(i * PARTITIONS / bench->group), due);
            bench->ids[done + i] = bench->timers[i]->id;
            writes[i] = (struct storage_write){.timer = bench->timers[i]};
        }
        busy -= thread_seconds();
        struct instant begin = instant_now();
        bench_write(bench, writes, bench->group, (struct wall){0});
        double taken = seconds_since(begin);
        busy += thread_seconds();
        seconds += taken;
        if (taken > longest)
            longest = taken;
    }
    bench_report("insert, prepared and applied", bench->count, seconds);
    printf("%-44s %10.2f us\n", "  work of the writing thread, each",
           busy * 1e6 / (double)bench->count);
    if (storage_flush(bench->storage, NULL))
        die("flush", bench->folder);
    all += process_seconds();
    printf("%-44s %10.2f us\n", "  work of all threads with a flush, each",
           all * 1e6 / (double)bench->count);
    printf("%-44s %10.1f ms\n", "  longest group", longest * 1e3);
    free(writes);
}

static void find(struct bench *bench)
{
    struct instant begin = instant_now();

    for (size_t i = 0; i < FINDS; i++) {
        struct timer *timer;

        if (storage_find(bench->storage, &bench->ids[random_below(&bench->random, bench->count)],
                         &timer, NULL))
            die("find", "a timer is lost");
        timer_free(timer);
    }
    bench_report("find, random", FINDS, seconds_since(begin));
    begin = instant_now();
    for (size_t i = 0; i < FINDS; i++) {
        struct timer_id id = bench->ids[random_below(&bench->random, bench->count)];

        id.serial ^= UINT64_C(1) << 63;
        struct timer *timer;
        if (storage_find(bench->storage, &id, &timer, NULL) != ERROR_NOT_FOUND)
            die("find", "a timer that never was");
    }
    bench_report("find, absent", FINDS, seconds_since(begin));
}

static void scan_all(struct bench *bench)
{
    struct instant begin = instant_now();
    size_t count = 0;

    for (uint16_t p = 0; p < PARTITIONS; p++) {
        struct storage_scan scan = {
            .partition = p, .to = {WALL_NEVER, 0}, .rows_max = PAGE_ROWS, .bytes_max = 4 << 20};

        while (storage_position_before(scan.from, scan.to)) {
            struct storage_page page;
            if (storage_scan(bench->storage, &scan, &page, NULL))
                die("scan", "failed");
            count += page.count;
            storage_page_free(&page);
            scan.from = page.next;
        }
    }
    if (count != bench->count)
        die("scan", "a timer is lost");
    bench_report("scan", count, seconds_since(begin));
}

/* Timers are created one minute ahead and end one minute later, in due order; what ended is
 * trimmed. A group has as many new ones as old ones. */
static void steady_state(struct bench *bench)
{
    size_t half = bench->group / 2, rounds = bench->count / half, lag = 20;
    struct storage_write *writes = calloc(bench->group, sizeof(*writes));
    uint64_t first_serial = bench->serial + 1;
    double seconds = 0, longest = 0;

    for (size_t round = 0; round < rounds; round++) {
        uint64_t now = START_MS + 1000 * round;
        size_t count = 0;

        for (size_t i = 0; i < half; i++) {
            uint16_t partition = (uint16_t)(i * PARTITIONS / half);
            struct timer *timer = bench->timers[2 * i];

            renew(bench, timer, partition, now + 1000 * i / half);
            writes[count++] = (struct storage_write){.timer = timer};
            if (round >= lag) { /* the same one, `lag` rounds ago */
                uint64_t was_at = now - 1000 * lag + 1000 * i / half;

                timer = bench->timers[2 * i + 1];
                renew(bench, timer, partition, was_at);
                bench->serial--;
                timer->id.serial = TIMER_SERIAL(1, first_serial + (round - lag) * half + i);
                timer->state = TIMER_FIRED;
                timer->ended.ms = now;
                writes[count++] = (struct storage_write){.timer = timer, .was_at = {was_at}};
            }
        }
        struct instant begin = instant_now();
        bench_write(bench, writes, count, (struct wall){round > lag ? now - 1000 * lag : 0});
        double taken = seconds_since(begin);
        if (round >= lag)
            seconds += taken;
        if (taken > longest)
            longest = taken;
    }
    bench_report("steady state: create and end, trimmed, each", (rounds - lag) * half, seconds);
    printf("%-44s %10.1f ms\n", "  longest group", longest * 1e3);
    free(writes);
}

static void print_sizes(struct bench *bench, size_t rows)
{
    struct storage_stats stats;
    struct instant begin = instant_now();

    storage_stats(bench->storage, &stats);
    printf("%-44s %10.1f us\n", "stats", seconds_since(begin) * 1e6);
    printf("%-44s %10.1f MB, %.0f bytes a timer\n", "on disk", (double)stats.disk_bytes / 1e6,
           (double)stats.disk_bytes / (double)rows);
    printf("%-44s %10.1f MB, resident %.1f MB\n", "in memory", (double)stats.memory_bytes / 1e6,
           (double)process_memory_bytes() / 1e6);
}

static int bench_remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

int main(int count, char **arguments)
{
    char folder[] = "/tmp/tickwheel-bench-XXXXXX";
    struct bench bench = {.count = 1000000, .group = 10000, .random = random_seeded(1)};

    if (count > 1)
        bench.count = strtoull(arguments[1], NULL, 10);
    if (count > 2)
        bench.group = strtoull(arguments[2], NULL, 10);
    bench.folder = count > 3 ? arguments[3] : mkdtemp(folder);
    if (!bench.folder || bench.group < PARTITIONS || bench.count < bench.group)
        die("use", "storage_bench [timers [group [folder]]]");
    bench.count -= bench.count % bench.group;
    make_timers(&bench);
    bench_open_storage(&bench);
    floor_of_disk(&bench);
    insert(&bench);
    print_sizes(&bench, bench.count);
    find(&bench);
    scan_all(&bench);
    storage_close(bench.storage);
    bench_open_storage(&bench);
    find(&bench);
    scan_all(&bench);
    steady_state(&bench);
    print_sizes(&bench, bench.count);
    storage_close(bench.storage);
    if (bench.folder == folder)
        nftw(folder, bench_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    for (size_t i = 0; i < bench.group; i++)
        timer_free(bench.timers[i]);
    free(bench.timers);
    free(bench.ids);
    return 0;
}
