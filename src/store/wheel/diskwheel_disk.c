/* diskwheel_disk.c - room on the disk of the folder, and whether the folder is still at its place.
 *
 * A flush that finds no room takes that of the ballast. If there is still none, changes stay in
 * memory up to its limit, and are refused beyond it until a flush succeeds. */
#include "store/wheel/diskwheel_store.h"
#include "sys/clock.h"
#include "sys/files.h"

#include <limits.h>
#include <stdio.h>

enum {
    DISK_SEGMENT_BYTES = 16 << 20,
    DISK_FREE_MIN = 1 << 20, /* free bytes below which a start removes the log's spare file */
    DISK_LOOK_MS = 1000,     /* interval of looks at the folder by changes */
};

/* True if the store has files of the system that it may change. */
static bool diskwheel_disk_is_ours(const struct diskwheel_store *store)
{
    return !store->is_reader && !store->options.disk;
}

/* Returns the free bytes. A disk that does not answer has none. */
static uint64_t diskwheel_disk_free(const struct diskwheel_store *store)
{
    uint64_t bytes = 0;

    return files_free_bytes(store->folder, &bytes, NULL) ? 0 : bytes;
}

enum error_code diskwheel_disk_open(struct diskwheel_store *store, struct error *ret_error)
{
    struct ballast_sizes sizes = {
        .flush_bytes = store->options.memory_bytes / 2,
        .segment_bytes =
            store->options.segment_bytes ? store->options.segment_bytes : DISK_SEGMENT_BYTES,
    };
    uint64_t disk_bytes = UINT64_MAX;
    char spare[PATH_MAX];

    if (!diskwheel_disk_is_ours(store))
        return ERROR_NONE;
    if ((size_t)snprintf(spare, sizeof(spare), "%s/" FOLDER_SPARE_NAME, store->folder) >=
        sizeof(spare))
        return error_set(ret_error, ERROR_IO, "a path of %zu bytes", strlen(store->folder));
    files_disk_bytes(store->folder, &disk_bytes, NULL);
    sizes = ballast_fit(sizes, disk_bytes);
    store->options.memory_bytes = 2 * sizes.flush_bytes;
    if (!ballast_init(&store->ballast, store->folder, sizes))
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    if (diskwheel_disk_free(store) < ballast_floor(&store->ballast))
        ballast_release(&store->ballast);
    if (diskwheel_disk_free(store) < DISK_FREE_MIN)
        files_remove(spare, NULL); /* it is made again when there is room */
    return ERROR_NONE;
}

bool diskwheel_relieve(struct storage *storage)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);

    pthread_mutex_lock(&store->ballast_lock);
    const bool has_room = ballast_release(&store->ballast) > 0;
    pthread_mutex_unlock(&store->ballast_lock);
    return has_room;
}

void diskwheel_tend(struct storage *storage)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);

    if (!diskwheel_disk_is_ours(store))
        return;
    diskwheel_aside_blocks(store);
    pthread_mutex_lock(&store->ballast_lock);
    ballast_fill(&store->ballast, diskwheel_disk_free(store));
    pthread_mutex_unlock(&store->ballast_lock);
}

/* The ballast counts as free, because it is held back for the store itself. */
void diskwheel_disk_stats(struct diskwheel_store *store, struct storage_stats *ret_stats)
{
    if (!diskwheel_disk_is_ours(store))
        return;
    ret_stats->disk_free_bytes = diskwheel_disk_free(store) + ballast_held(&store->ballast);
    ret_stats->disk_floor_bytes = ballast_floor(&store->ballast);
    ret_stats->is_lost = diskwheel_disk_check(store, NULL) != ERROR_NONE;
}

enum error_code diskwheel_disk_check(struct diskwheel_store *store, struct error *ret_error)
{
    if (diskwheel_disk_is_ours(store) && !folder_is_there(store->folder, store->folder_lock)) {
        atomic_store(&store->looked_ns, 0);
        return error_set(ret_error, ERROR_IO, "%s was removed or replaced", store->folder);
    }
    atomic_store(&store->looked_ns, instant_now().ns);
    return ERROR_NONE;
}

enum error_code diskwheel_disk_check_now_and_then(struct diskwheel_store *store,
                                                  struct error *ret_error)
{
    const struct instant looked = {atomic_load(&store->looked_ns)};

    return looked.ns && instant_now().ns < instant_add_ms(looked, DISK_LOOK_MS).ns
               ? ERROR_NONE
               : diskwheel_disk_check(store, ret_error);
}

bool diskwheel_disk_has_room(const struct diskwheel_store *store, uint64_t bytes)
{
    return !diskwheel_disk_is_ours(store) || diskwheel_disk_free(store) >= bytes;
}
