/* Goal: no state makes an open read out of bounds, and one that opens is written again as it was.
 * Method: the input is a state without its checksum, of a store of two partitions whose folder has
 * no runs. */
#include "base/checksum.h"
#include "store/wheel/diskwheel_store.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PARTITIONS = 2 };

static int state_fuzz_open(const struct disk_calls *disk, const char *path, enum disk_access access,
                           int *ret_file)
{
    struct buffer *state = disk->state;

    *ret_file = 0;
    if (strstr(path, "run-"))
        return ENOENT;
    if (access == DISK_MAKE)
        buffer_clear(state);
    return 0;
}

static void state_fuzz_close(const struct disk_calls *disk, int file)
{
    (void)disk, (void)file;
}

static int state_fuzz_size(const struct disk_calls *disk, int file, uint64_t *ret_bytes)
{
    (void)file;
    *ret_bytes = ((const struct buffer *)disk->state)->size;
    return 0;
}

static int state_fuzz_read(const struct disk_calls *disk, int file, uint64_t at, void *to,
                           size_t size, size_t *ret_size)
{
    const struct buffer *all = disk->state;

    (void)file;
    *ret_size = at < all->size ? all->size - at : 0;
    *ret_size = *ret_size < size ? *ret_size : size;
    if (*ret_size)
        memcpy(to, all->data + at, *ret_size);
    return 0;
}

static int state_fuzz_write(const struct disk_calls *disk, int file, uint64_t at,
                            struct bytes bytes)
{
    struct buffer *all = disk->state;

    (void)file;
    assert(at == all->size);
    buffer_append_bytes(all, bytes);
    return 0;
}

static int state_fuzz_sync(const struct disk_calls *disk, int file)
{
    (void)disk, (void)file;
    return 0;
}

static int state_fuzz_rename(const struct disk_calls *disk, const char *from, const char *to)
{
    (void)disk, (void)from, (void)to;
    return 0;
}

static int state_fuzz_path(const struct disk_calls *disk, const char *path)
{
    (void)disk, (void)path;
    return 0;
}

static enum error_code state_fuzz_make_folder(const struct disk_calls *disk, const char *path,
                                              struct error *ret_error)
{
    (void)disk, (void)path, (void)ret_error;
    return ERROR_NONE;
}

static enum error_code state_fuzz_list(const struct disk_calls *disk, const char *path,
                                       bool (*each)(void *context, const struct files_entry *entry),
                                       void *context, struct error *ret_error)
{
    (void)disk, (void)path, (void)each, (void)context, (void)ret_error;
    return ERROR_NONE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer state = {0};
    const struct disk_calls disk = {.state = &state,
                                    .open = state_fuzz_open,
                                    .close = state_fuzz_close,
                                    .size = state_fuzz_size,
                                    .read = state_fuzz_read,
                                    .write = state_fuzz_write,
                                    .sync = state_fuzz_sync,
                                    .rename = state_fuzz_rename,
                                    .remove = state_fuzz_path,
                                    .sync_folder = state_fuzz_path,
                                    .make_folder = state_fuzz_make_folder,
                                    .list = state_fuzz_list};
    const struct diskwheel_options options = {
        .disk = &disk, .folder = "/d", .partition_count = PARTITIONS, .retain_ms = UINT64_MAX};
    struct storage *storage;

    buffer_append(&state, data, size);
    buffer_append_le(&state, checksum_crc32c(0, data, size), 4);
    if (!diskwheel_storage_open(&options, &storage, NULL)) {
        const size_t before = state.size;
        struct storage_place places[PARTITIONS];

        for (uint16_t p = 0; p < PARTITIONS; p++)
            storage_load_place(storage, p, &places[p], NULL);
        assert(!storage_flush(storage, NULL));
        storage_close(storage);
        assert(state.size <= before); /* counts of a tenant may have been there twice */
        assert(!diskwheel_storage_open(&options, &storage, NULL));
        for (uint16_t p = 0; p < PARTITIONS; p++) {
            struct storage_place place;

            storage_load_place(storage, p, &place, NULL);
            assert(place.next == places[p].next && place.seq == places[p].seq);
        }
        storage_close(storage);
    }
    buffer_deinit(&state);
    return 0;
}
