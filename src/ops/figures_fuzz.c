/*
 * Goal: no file makes the history crash, leave its bounds or tell points out of order, and what it
 * has read it writes back alike. Method: a file in memory. Bits of the first byte of the input
 * choose a valid head (1) and valid checksums (2); the next two name the first place, from which
 * the rest fills the file.
 */
#include "base/check.h"
#include "base/checksum.h"
#include "ops/figures.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_PLACES 1024

/* The only file of the disk. */
struct figures_fuzz_disk {
    struct disk_calls calls;
    bool is_there;
    size_t size;
    char data[FUZZ_PLACES * FIGURES_PLACE_BYTES];
};

static int figures_fuzz_open(const struct disk_calls *disk, const char *path,
                             enum disk_access access, int *ret_file)
{
    struct figures_fuzz_disk *self = disk->state;

    (void)path;
    if (!self->is_there && access != DISK_MAKE)
        return ENOENT;
    if (access == DISK_MAKE)
        self->size = 0;
    self->is_there = true;
    *ret_file = 1;
    return 0;
}

static void figures_fuzz_close(const struct disk_calls *disk, int file)
{
    (void)disk;
    (void)file;
}

static int figures_fuzz_read(const struct disk_calls *disk, int file, uint64_t at, void *to,
                             size_t size, size_t *ret_size)
{
    const struct figures_fuzz_disk *self = disk->state;

    CHECK(file == 1 && at == 0);
    *ret_size = size < self->size ? size : self->size;
    memcpy(to, self->data, *ret_size);
    return 0;
}

static int figures_fuzz_write(const struct disk_calls *disk, int file, uint64_t at,
                              struct bytes bytes)
{
    struct figures_fuzz_disk *self = disk->state;

    CHECK(file == 1 && at + bytes.size <= sizeof(self->data));
    if (at > self->size)
        memset(self->data + self->size, 0, at - self->size);
    memcpy(self->data + at, bytes.data, bytes.size);
    if (at + bytes.size > self->size)
        self->size = (size_t)at + bytes.size;
    return 0;
}

static int figures_fuzz_rename(const struct disk_calls *disk, const char *from, const char *to)
{
    struct figures_fuzz_disk *self = disk->state;

    (void)from;
    (void)to;
    self->is_there = false;
    return 0;
}

static struct figures *figures_fuzz_start(struct figures_fuzz_disk *disk)
{
    struct figures *figures;
    struct error error;

    CHECK(!figures_open(&disk->calls, "HISTORY", &figures, &error));
    return figures;
}

/* Returns the number of points, in order, that a window ending at `now` has. */
static size_t figures_fuzz_look(struct figures *figures, enum figures_window window,
                                struct wall now, struct figures_point *ret_points)
{
    const size_t count = figures_read(figures, window, now, ret_points);
    const uint64_t step_ms = figures_step_s(window) * 1000;

    CHECK(count <= FIGURES_POINTS);
    for (size_t i = 0; i < count; i++) {
        CHECK(ret_points[i].at.ms > 0 && ret_points[i].at.ms <= now.ms);
        CHECK(ret_points[i].at.ms % step_ms == 0);
        CHECK(i == 0 || ret_points[i].at.ms > ret_points[i - 1].at.ms);
    }
    return count;
}

static void figures_fuzz_fill(struct figures_fuzz_disk *disk, const uint8_t *data, size_t size)
{
    const size_t first = ((size_t)data[1] << 8 | data[2]) % (FUZZ_PLACES - 1);
    const size_t from = (first + 1) * FIGURES_PLACE_BYTES;
    const size_t room = sizeof(disk->data) - from;
    const size_t taken = size - 3 < room ? size - 3 : room;

    if (data[0] & 1) { /* a head as it is written */
        struct figures *figures = figures_fuzz_start(disk);

        figures_write(figures);
        figures_close(figures);
    }
    memcpy(disk->data + from, data + 3, taken);
    if (from + taken > disk->size)
        disk->size = from + taken;
    for (size_t at = from; data[0] & 2 && at + FIGURES_PLACE_BYTES <= from + taken;
         at += FIGURES_PLACE_BYTES)
        put_le(disk->data + at + FIGURES_PLACE_BYTES - 4,
               checksum_crc32c(0, disk->data + at, FIGURES_PLACE_BYTES - 4), 4);
    disk->is_there = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct figures_fuzz_disk *disk = calloc(1, sizeof(*disk));
    struct figures_point *points = calloc(2 * FIGURES_POINTS, sizeof(*points));
    const struct figures_point sample = {.span_ms = 10000, .counts = {1}};

    CHECK(disk && points);
    disk->calls = (struct disk_calls){.state = disk,
                                      .open = figures_fuzz_open,
                                      .close = figures_fuzz_close,
                                      .read = figures_fuzz_read,
                                      .write = figures_fuzz_write,
                                      .rename = figures_fuzz_rename};
    if (size > 3 + 8) {
        figures_fuzz_fill(disk, data, size);
        const struct wall now = {get_le(data + 3, 8)};
        struct figures *figures = figures_fuzz_start(disk);
        for (enum figures_window window = 0; window < FIGURES_WINDOWS; window++)
            figures_fuzz_look(figures, window, now, points);
        figures_add(figures, now, &sample);
        figures_write(figures);
        struct figures *again = figures_fuzz_start(disk);
        for (enum figures_window window = 0; window < FIGURES_WINDOWS; window++) {
            const size_t count = figures_fuzz_look(figures, window, now, points);

            CHECK(figures_fuzz_look(again, window, now, points + FIGURES_POINTS) == count);
            CHECK(memcmp(points, points + FIGURES_POINTS, count * sizeof(*points)) == 0);
        }
        figures_close(again);
        figures_close(figures);
    }
    free(points);
    free(disk);
    return 0;
}
