/* figures.c - the rings of points, and their file. */
#include "ops/figures.h"

#include "base/checksum.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Bytes of a place: the time 8, the span 4, the numbers 4 each, zeros, and CRC-32C 4 of all before.
 * A place of zeros is empty. */
enum {
    FIGURES_SUM_AT = FIGURES_PLACE_BYTES - 4,
    FIGURES_NUMBERS = FIGURES_COUNTS + FIGURES_CAUSES + METRICS_BUCKET_COUNT,
    FIGURES_PLACES = 0
#define X(id, name, step_s, points) +points
    FIGURES_WINDOW_LIST(X)
#undef X
};
static_assert(12 + 4 * FIGURES_NUMBERS <= FIGURES_SUM_AT, "a place has room for each number");

/* Maximum of damaged places that a crash can leave: a write that was incomplete in each window, and
 * one in the page that belongs to another window. */
#define FIGURES_TORN 6

/* The head of the file. It has the size of a place, and ends like one. */
static const char figures_head[] = "tickwheel history 1\n";

static const struct {
    uint64_t step_ms;
    size_t count; /* number of its points */
} figures_windows[] = {
#define X(id, name, step_s, points) {step_s * UINT64_C(1000), points},
    FIGURES_WINDOW_LIST(X)
#undef X
};

struct figures {
    const struct disk_calls *disk;
    char path[PATH_MAX];
    bool is_unwritten[FIGURES_PLACES];
    pthread_mutex_t lock; /* guards `points` and `trouble` */
    struct figures_point points[FIGURES_PLACES];
    struct error trouble;
};

static size_t figures_first(enum figures_window window)
{
    size_t first = 0;

    for (size_t i = 0; i < window; i++)
        first += figures_windows[i].count;
    return first;
}

uint64_t figures_step_s(enum figures_window window)
{
    return figures_windows[window].step_ms / 1000;
}

/* Returns the place for the point that begins at `at`. */
static size_t figures_place(enum figures_window window, struct wall at)
{
    return figures_first(window) +
           (size_t)(at.ms / figures_windows[window].step_ms % figures_windows[window].count);
}

static struct wall figures_begin(enum figures_window window, struct wall time)
{
    return (struct wall){time.ms - time.ms % figures_windows[window].step_ms};
}

/* ---- bytes ---- */

static void figures_seal(char *place)
{
    put_le(place + FIGURES_SUM_AT, checksum_crc32c(0, place, FIGURES_SUM_AT), 4);
}

static bool figures_is_sealed(const char *place)
{
    return get_le(place + FIGURES_SUM_AT, 4) == checksum_crc32c(0, place, FIGURES_SUM_AT);
}

static void figures_encode_head(char ret_place[FIGURES_PLACE_BYTES])
{
    memset(ret_place, 0, FIGURES_PLACE_BYTES);
    memcpy(ret_place, figures_head, sizeof(figures_head));
    figures_seal(ret_place);
}

static void figures_encode(const struct figures_point *point, char ret_place[FIGURES_PLACE_BYTES])
{
    char *to = ret_place + 12;

    memset(ret_place, 0, FIGURES_PLACE_BYTES);
    if (point->at.ms == 0)
        return;
    put_le(ret_place, point->at.ms, 8);
    put_le(ret_place + 8, point->span_ms, 4);
    for (size_t i = 0; i < FIGURES_COUNTS; i++, to += 4)
        put_le(to, point->counts[i], 4);
    for (size_t i = 0; i < FIGURES_CAUSES; i++, to += 4)
        put_le(to, point->waiting[i], 4);
    for (size_t i = 0; i < METRICS_BUCKET_COUNT; i++, to += 4)
        put_le(to, point->late[i], 4);
    figures_seal(ret_place);
}

/* Reads the point of a place. Returns false if the place is damaged, or has a point of another
 * place. */
static bool figures_decode(enum figures_window window, size_t place, const char *bytes,
                           struct figures_point *ret_point)
{
    static const char empty[FIGURES_PLACE_BYTES];
    const char *from = bytes + 12;

    *ret_point = (struct figures_point){.at = {0}};
    if (memcmp(bytes, empty, sizeof(empty)) == 0)
        return true;
    const struct wall at = {get_le(bytes, 8)};
    if (!figures_is_sealed(bytes) || at.ms == 0 || figures_begin(window, at).ms != at.ms ||
        figures_place(window, at) != place)
        return false;
    ret_point->at = at;
    ret_point->span_ms = (uint32_t)get_le(bytes + 8, 4);
    for (size_t i = 0; i < FIGURES_COUNTS; i++, from += 4)
        ret_point->counts[i] = (uint32_t)get_le(from, 4);
    for (size_t i = 0; i < FIGURES_CAUSES; i++, from += 4)
        ret_point->waiting[i] = (uint32_t)get_le(from, 4);
    for (size_t i = 0; i < METRICS_BUCKET_COUNT; i++, from += 4)
        ret_point->late[i] = (uint32_t)get_le(from, 4);
    return true;
}

/* ---- the file ---- */

static void figures_set_trouble(struct figures *figures, const struct error *trouble)
{
    pthread_mutex_lock(&figures->lock);
    figures->trouble = *trouble;
    pthread_mutex_unlock(&figures->lock);
}

/* Takes the points from a file with a valid head. Returns the number of damaged places, which are
 * written anew. */
static size_t figures_take(struct figures *figures, const char *places, size_t size)
{
    size_t damaged = 0;

    for (enum figures_window window = 0; window < FIGURES_WINDOWS; window++) {
        const size_t first = figures_first(window);

        for (size_t i = first; i < first + figures_windows[window].count; i++) {
            const size_t at = i * FIGURES_PLACE_BYTES;

            if (at >= size)
                break;
            const bool is_whole = at + FIGURES_PLACE_BYTES <= size;
            figures->is_unwritten[i] =
                !is_whole || !figures_decode(window, i, places + at, &figures->points[i]);
            damaged += is_whole && figures->is_unwritten[i];
        }
    }
    return damaged;
}

static void figures_set_aside(struct figures *figures, const char *cause)
{
    char aside[PATH_MAX + sizeof(".damaged")];
    struct error trouble;

    snprintf(aside, sizeof(aside), "%s.damaged", figures->path);
    const int failed = figures->disk->rename(figures->disk, figures->path, aside);
    error_set(&trouble, ERROR_CORRUPT, "%.200s: %s; %s", figures->path, cause,
              failed ? "it could not be renamed" : "it was renamed to *.damaged");
    figures_set_trouble(figures, &trouble);
    memset(figures->points, 0, sizeof(figures->points));
}

static void figures_load(struct figures *figures, char *room)
{
    const struct disk_calls *disk = figures->disk;
    const size_t size_max = (FIGURES_PLACES + 1) * FIGURES_PLACE_BYTES;
    char head[FIGURES_PLACE_BYTES];
    struct error trouble;
    size_t size = 0;
    int file;
    int failed = disk->open(disk, figures->path, DISK_READ, &file);

    if (failed == ENOENT)
        return;
    if (!failed) {
        failed = disk->read(disk, file, 0, room, size_max, &size);
        disk->close(disk, file);
    }
    if (failed) {
        disk_failed(failed, "read", figures->path, &trouble);
        figures_set_trouble(figures, &trouble);
        return;
    }
    figures_encode_head(head);
    if (size > 0 && (size < sizeof(head) || memcmp(room, head, sizeof(head)) != 0))
        figures_set_aside(figures, "it does not begin as a history");
    else if (size > 0 &&
             figures_take(figures, room + sizeof(head), size - sizeof(head)) > FIGURES_TORN)
        figures_set_aside(figures, "its checksums are wrong");
}

/* Opens the file for writing, and makes it if it is missing. Returns 0 or an errno. */
static int figures_open_file(struct figures *figures, int *ret_file)
{
    const struct disk_calls *disk = figures->disk;
    char head[FIGURES_PLACE_BYTES];
    int failed = disk->open(disk, figures->path, DISK_WRITE, ret_file);

    if (failed != ENOENT)
        return failed;
    failed = disk->open(disk, figures->path, DISK_MAKE, ret_file);
    if (failed)
        return failed;
    figures_encode_head(head);
    failed = disk->write(disk, *ret_file, 0, (struct bytes){head, sizeof(head)});
    for (size_t i = 0; i < FIGURES_PLACES; i++)
        figures->is_unwritten[i] = figures->points[i].at.ms > 0;
    if (!failed)
        return 0;
    disk->close(disk, *ret_file);
    disk->remove(disk, figures->path);
    return failed;
}

void figures_write(struct figures *figures)
{
    const struct disk_calls *disk = figures->disk;
    char place[FIGURES_PLACE_BYTES];
    struct error trouble;
    int file;
    int failed = figures_open_file(figures, &file);

    if (!failed) {
        for (size_t i = 0; i < FIGURES_PLACES && !failed; i++) {
            if (!figures->is_unwritten[i])
                continue;
            figures_encode(&figures->points[i], place);
            failed = disk->write(disk, file, (i + 1) * FIGURES_PLACE_BYTES,
                                 (struct bytes){place, sizeof(place)});
            figures->is_unwritten[i] = failed != 0;
        }
        disk->close(disk, file);
    }
    if (failed) {
        disk_failed(failed, "write", figures->path, &trouble);
        figures_set_trouble(figures, &trouble);
    }
}

/* ---- its face ---- */

enum error_code figures_open(const struct disk_calls *disk, const char *path,
                             struct figures **ret_figures, struct error *ret_error)
{
    struct figures *figures = calloc(1, sizeof(*figures));
    char *room = malloc((FIGURES_PLACES + 1) * FIGURES_PLACE_BYTES);

    if (!figures || !room) {
        free(figures);
        free(room);
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    }
    assert(strlen(path) < sizeof(figures->path));
    figures->disk = disk;
    snprintf(figures->path, sizeof(figures->path), "%s", path);
    pthread_mutex_init(&figures->lock, NULL);
    figures_load(figures, room);
    free(room);
    *ret_figures = figures;
    return ERROR_NONE;
}

void figures_close(struct figures *figures)
{
    if (!figures)
        return;
    pthread_mutex_destroy(&figures->lock);
    free(figures);
}

static void figures_sum(uint32_t *sum, uint32_t one)
{
    *sum = one > UINT32_MAX - *sum ? UINT32_MAX : *sum + one;
}

static void figures_join(struct figures_point *point, const struct figures_point *sample)
{
    figures_sum(&point->span_ms, sample->span_ms);
    for (size_t i = 0; i < FIGURES_COUNTS; i++)
        figures_sum(&point->counts[i], sample->counts[i]);
    for (size_t i = 0; i < FIGURES_CAUSES; i++)
        if (sample->waiting[i] > point->waiting[i])
            point->waiting[i] = sample->waiting[i];
    for (size_t i = 0; i < METRICS_BUCKET_COUNT; i++)
        figures_sum(&point->late[i], sample->late[i]);
}

void figures_add(struct figures *figures, struct wall now, const struct figures_point *sample)
{
    /* A sample belongs to the step in which its middle lies: it may be taken a little late. */
    const uint64_t half_ms = sample->span_ms / 2;
    const struct wall middle = {now.ms > half_ms ? now.ms - half_ms : 0};

    pthread_mutex_lock(&figures->lock);
    for (enum figures_window window = 0; window < FIGURES_WINDOWS; window++) {
        const struct wall begin = figures_begin(window, middle);
        const size_t place = figures_place(window, middle);

        if (figures->points[place].at.ms != begin.ms)
            figures->points[place] = (struct figures_point){.at = begin};
        figures_join(&figures->points[place], sample);
        figures->is_unwritten[place] = true;
    }
    pthread_mutex_unlock(&figures->lock);
}

size_t figures_read(struct figures *figures, enum figures_window window, struct wall now,
                    struct figures_point ret_points[FIGURES_POINTS])
{
    const uint64_t step_ms = figures_windows[window].step_ms;
    const struct wall end = figures_begin(window, now);
    size_t count = 0;

    pthread_mutex_lock(&figures->lock);
    for (size_t i = figures_windows[window].count; i-- > 0;) {
        if (end.ms < i * step_ms)
            continue;
        const struct wall at = {end.ms - i * step_ms};
        const struct figures_point *point = &figures->points[figures_place(window, at)];

        if (at.ms > 0 && point->at.ms == at.ms)
            ret_points[count++] = *point;
    }
    pthread_mutex_unlock(&figures->lock);
    return count;
}

void figures_trouble(struct figures *figures, struct error *ret_trouble)
{
    pthread_mutex_lock(&figures->lock);
    *ret_trouble = figures->trouble;
    pthread_mutex_unlock(&figures->lock);
}
