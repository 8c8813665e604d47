/* ballast.c - the file RESERVE of a data folder. */
#include "store/ballast.h"

#include "sys/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Maximum part of the disk for a flush or a file of the log, and the minimum of both sizes. */
#define BALLAST_DISK_PART UINT64_C(64)
#define BALLAST_LEAST     (UINT64_C(1) << 20)

static uint64_t ballast_fit_one(uint64_t wanted, uint64_t disk_bytes)
{
    const uint64_t part = disk_bytes / BALLAST_DISK_PART;
    const uint64_t most = part > BALLAST_LEAST ? part & ~(BALLAST_LEAST - 1) : BALLAST_LEAST;

    return wanted < most ? wanted : most;
}

struct ballast_sizes ballast_fit(struct ballast_sizes wanted, uint64_t disk_bytes)
{
    return (struct ballast_sizes){
        .flush_bytes = ballast_fit_one(wanted.flush_bytes, disk_bytes),
        .segment_bytes = ballast_fit_one(wanted.segment_bytes, disk_bytes),
    };
}

bool ballast_init(struct ballast *ballast, const char *folder, struct ballast_sizes sizes)
{
    const size_t size = strlen(folder) + sizeof("/" BALLAST_NAME);
    uint64_t held = 0;

    ballast->path = malloc(size);
    if (!ballast->path)
        return false;
    snprintf(ballast->path, size, "%s/" BALLAST_NAME, folder);
    /* Enough for two flushes and a file of the log. */
    ballast->bytes = 2 * sizes.flush_bytes + sizes.segment_bytes;
    if (files_taken_bytes(ballast->path, &held, NULL))
        held = 0;
    atomic_store(&ballast->held, held);
    return true;
}

void ballast_deinit(struct ballast *ballast)
{
    free(ballast->path);
}

void ballast_fill(struct ballast *ballast, uint64_t free_bytes)
{
    if (!ballast->path || ballast_held(ballast) >= ballast->bytes ||
        free_bytes / 2 < ballast->bytes)
        return;
    if (files_reserve(ballast->path, ballast->bytes, NULL))
        files_remove(ballast->path, NULL);
    else
        atomic_store(&ballast->held, ballast->bytes);
}

uint64_t ballast_release(struct ballast *ballast)
{
    const uint64_t held = ballast_held(ballast);

    if (!held || files_remove(ballast->path, NULL))
        return 0;
    atomic_store(&ballast->held, 0);
    return held;
}

uint64_t ballast_floor(const struct ballast *ballast)
{
    return 2 * ballast->bytes;
}
