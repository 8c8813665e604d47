/*
 * log_bench - what the log does in a second, beside what the disk can do at all.
 *
 *     log_bench [folder [seconds]]         a new folder under /tmp, 2 seconds for each line
 *
 * Records of 200 bytes. Appends of one record wait for one sync each; the floor is a pwrite of as
 * many bytes and an fdatasync, into a file that was written before, so that a sync writes its
 * blocks and no metadata. Both take turns, so that both see one disk. Appends of many records
 * show the cost of the log itself.
 */
#include "log/files/log_files.h"
#include "log/files/log_segment.h"
#include "sys/clock.h"
#include "sys/disk.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BODY = 200, BATCH_MOST = 10000, TURN = 100, LATENCIES = 1 << 20, FLOOR_BYTES = 16 << 20 };

struct side {
    double *latencies_us;
    size_t count;
    double seconds;
};

static void bench_die(const char *text, const char *cause)
{
    fprintf(stderr, "log_bench: %s: %s\n", text, cause);
    exit(1);
}

static int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void bench_note(struct side *side, struct instant begin)
{
    double seconds = (double)instant_since_ns(begin, instant_now()) / 1e9;

    side->seconds += seconds;
    if (side->count < LATENCIES)
        side->latencies_us[side->count++] = seconds * 1e6;
}

static void side_print(const char *name, struct side *side)
{
    qsort(side->latencies_us, side->count, sizeof(double), bench_compare);
    printf("%-34s %10.0f /s   p50 %7.1f us   p99 %7.1f us\n", name,
           (double)side->count / side->seconds, side->latencies_us[side->count / 2],
           side->latencies_us[side->count * 99 / 100]);
}

static void bench_append(struct log_files *log, struct log_record *records, size_t count)
{
    struct error error = {0};

    if (log_files_append(log, records, count, &error))
        bench_die("append", error.text);
    if (log_files_trim(log, records[0].offset, &error))
        bench_die("trim", error.text);
}

/* One record at a time, and the floor, in turns. */
static void bench_single(struct log_files *log, struct log_record *records, const char *folder,
                         double seconds)
{
    const struct disk_calls *disk = disk_system();
    struct side ours = {.latencies_us = malloc(LATENCIES * sizeof(double))},
                floor_ = {.latencies_us = malloc(LATENCIES * sizeof(double))};
    uint64_t size = segment_frame_size(records, 1), at = 0;
    char path[512], *zeros = calloc(1, FLOOR_BYTES);
    int file;

    snprintf(path, sizeof(path), "%s/floor", folder);
    if (!ours.latencies_us || !floor_.latencies_us || !zeros ||
        disk->open(disk, path, DISK_MAKE, &file) ||
        disk->write(disk, file, 0, (struct bytes){zeros, FLOOR_BYTES}) || disk->sync(disk, file))
        bench_die("floor", path);
    while (ours.seconds < seconds) {
        for (int i = 0; i < TURN; i++) {
            struct instant begin = instant_now();

            bench_append(log, records, 1);
            bench_note(&ours, begin);
        }
        for (int i = 0; i < TURN; i++) {
            struct instant begin = instant_now();

            if (disk->write(disk, file, at, (struct bytes){zeros, size}) || disk->sync(disk, file))
                bench_die("floor", path);
            bench_note(&floor_, begin);
            at = at + 2 * size < FLOOR_BYTES ? at + size : 0;
        }
    }
    disk->close(disk, file);
    side_print("append of 1 record", &ours);
    side_print("floor: pwrite and fdatasync", &floor_);
    free(ours.latencies_us);
    free(floor_.latencies_us);
    free(zeros);
}

static void bench_batches(struct log_files *log, struct log_record *records, size_t count,
                          double seconds)
{
    struct side side = {.latencies_us = malloc(LATENCIES * sizeof(double))};
    char name[64];

    if (!side.latencies_us)
        bench_die("batches", "out of memory");
    while (side.seconds < seconds) {
        struct instant begin = instant_now();

        bench_append(log, records, count);
        bench_note(&side, begin);
    }
    snprintf(name, sizeof(name), "appends of %zu records", count);
    side_print(name, &side);
    printf("%-34s %10.0f /s   at the median %10.0f /s\n", "  records",
           (double)(side.count * count) / side.seconds,
           (double)count * 1e6 / side.latencies_us[side.count / 2]);
    free(side.latencies_us);
}

static int bench_remove(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

int main(int count, char **arguments)
{
    char folder[256] = "/tmp/log-bench-XXXXXX", log_folder[300];
    double seconds = count > 2 ? strtod(arguments[2], NULL) : 2;
    static struct log_record records[BATCH_MOST];
    static char body[BODY];
    struct error error = {0};
    struct log_files *log;

    if (count > 1)
        snprintf(folder, sizeof(folder), "%s/log-bench-XXXXXX", arguments[1]);
    if (!mkdtemp(folder))
        bench_die("make folder", folder);
    snprintf(log_folder, sizeof(log_folder), "%s/log", folder);
    memset(body, 'x', sizeof(body));
    for (size_t i = 0; i < BATCH_MOST; i++)
        records[i].body = (struct bytes){body, sizeof(body)};
    struct log_files_options options = {.folder = log_folder};
    if (log_files_open(&options, &log, &error))
        bench_die("open", error.text);
    bench_single(log, records, folder, seconds);
    bench_batches(log, records, 100, seconds);
    bench_batches(log, records, BATCH_MOST, seconds);
    log_files_close(log);
    options.sync = LOG_FILES_SYNC_NEVER;
    if (log_files_open(&options, &log, &error))
        bench_die("open", error.text);
    printf("without syncs:\n");
    bench_batches(log, records, BATCH_MOST, seconds);
    log_files_close(log);
    nftw(folder, bench_remove, 8, FTW_DEPTH | FTW_PHYS);
    return 0;
}
