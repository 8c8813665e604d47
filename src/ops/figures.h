/*
 * figures.h - the past of a node's main figures: what happened, how late deliveries were and what
 * waited, as points in one file of fixed size on disk.
 *
 *     figures_open(disk, "data/HISTORY", &figures, &error);
 *     figures_add(figures, wall_now(), &sample);          every FIGURES_STEP_MS
 *     figures_write(figures);
 *     count = figures_read(figures, FIGURES_DAY, wall_now(), points);
 *
 * Each window has a ring of points, whose places follow from their times. So a clock that steps
 * changes no order: points of the same time are joined, and later ones are not shown.
 *
 * File       A head, and a place of FIGURES_PLACE_BYTES for each point with a checksum. A point
 *            that a crash tore is left out. A file with another head, or with more damage than a
 *            crash does, is renamed to "PATH.damaged". Nothing is synced.
 * Time       Points begin at multiples of their step since 1970.
 * Errors     Of open: NO_MEMORY only. What is wrong with the file is in figures_trouble.
 * Threads    Any may read; one opens, adds, writes and closes. No lock is held across I/O.
 */
#ifndef TICKWHEEL_OPS_FIGURES_H
#define TICKWHEEL_OPS_FIGURES_H

#include "ops/metrics.h"
#include "sys/disk.h"

/* Name of the file in a data folder; backups omit it. */
#define FIGURES_FILE "HISTORY"

#define FIGURES_STEP_MS     UINT64_C(10000) /* interval of samples, and step of the first window */
#define FIGURES_PLACE_BYTES 256

/* X(ID, name in the API, step in seconds, number of points) */
#define FIGURES_WINDOW_LIST(X) \
    X(HOUR, "1h", 10, 360)     \
    X(DAY, "24h", 300, 288)    \
    X(WEEK, "7d", 1800, 336)

#define FIGURES_POINTS 360 /* number of points of the largest window */

enum figures_window {
#define X(id, name, step_s, points) FIGURES_##id,
    FIGURES_WINDOW_LIST(X)
#undef X
        FIGURES_WINDOWS
};

/* X(ID, name in the API): what is counted. The order is that of the file. */
#define FIGURES_COUNT_LIST(X) \
    X(CREATED, "created")     \
    X(FIRED, "fired")         \
    X(FAILED, "failed")       \
    X(DEAD, "dead")           \
    X(CANCELLED, "cancelled")

enum figures_count {
#define X(id, name) FIGURES_##id,
    FIGURES_COUNT_LIST(X)
#undef X
        FIGURES_COUNTS
};

#define FIGURES_CAUSES 12 /* number of places for the reasons of engine/explain.h, in their order */

struct figures_point {
    struct wall at;                  /* when the point begins; {0} if it is empty */
    uint32_t span_ms;                /* time for which it was counted, in milliseconds */
    uint32_t counts[FIGURES_COUNTS]; /* each number saturates, as do those below */
    /* maximum of timers that waited at the same time, by reason */
    uint32_t waiting[FIGURES_CAUSES];
    uint32_t late[METRICS_BUCKET_COUNT]; /* number of deliveries in each bucket of lateness */
};

struct figures;

/* Reads the file, if there is one. `disk` is borrowed. */
enum error_code figures_open(const struct disk_calls *disk, const char *path,
                             struct figures **ret_figures, struct error *ret_error);

/* Frees the memory, and writes nothing. NULL has no effect. */
void figures_close(struct figures *figures);

/* Adds what was counted during `sample->span_ms` before `now` to the current point of each window.
 * sample->at is not used. */
void figures_add(struct figures *figures, struct wall now, const struct figures_point *sample);

/* Writes the points that have changed since they were last written, and makes the file if it is
 * missing. What cannot be written now is written by the next call. */
void figures_write(struct figures *figures);

/* Returns the number of points in a window that ends now, and the points in order of time. There is
 * no point for times without samples. */
size_t figures_read(struct figures *figures, enum figures_window window, struct wall now,
                    struct figures_point ret_points[FIGURES_POINTS]);

/* Returns the duration of a window's points, in seconds. */
uint64_t figures_step_s(enum figures_window window);

/* Returns the last damage or failure of the file; its text is empty if there was none. */
void figures_trouble(struct figures *figures, struct error *ret_trouble);

#endif
