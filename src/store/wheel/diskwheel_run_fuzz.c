/* Goal: no index makes a run be read out of bounds. Method: the input is an index, behind as many
 * bytes of blocks as its first byte says, with a foot that fits; a run that opens is walked. */
#include "base/checksum.h"
#include "store/wheel/diskwheel_run_private.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RUN = 5, PARTITIONS = 4 };

/* A disk with one file. */
static int run_fuzz_open(const struct disk_calls *disk, const char *path, enum disk_access access,
                         int *ret_file)
{
    (void)disk, (void)path, (void)access;
    *ret_file = 0;
    return 0;
}

static void run_fuzz_close(const struct disk_calls *disk, int file)
{
    (void)disk, (void)file;
}

static int run_fuzz_size(const struct disk_calls *disk, int file, uint64_t *ret_bytes)
{
    (void)file;
    *ret_bytes = ((const struct buffer *)disk->state)->size;
    return 0;
}

static int run_fuzz_read(const struct disk_calls *disk, int file, uint64_t at, void *to,
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

static void run_fuzz_walk(struct diskwheel_run *run)
{
    for (enum diskwheel_table table = 0; table < DISKWHEEL_TABLES; table++) {
        struct diskwheel_cursor cursor = {.run = NULL};
        struct record_key key = {UINT64_C(1) << 48, 7};
        struct bytes value;

        diskwheel_run_may_have(run, table, key);
        diskwheel_run_rows_before(&run->tables[table], key);
        diskwheel_cursor_seek(&cursor, run, table, (struct record_key){0, 0});
        while (diskwheel_cursor_next(&cursor, &key, &value, NULL) != ERROR_NOT_FOUND)
            continue;
        diskwheel_cursor_deinit(&cursor);
        assert(run->tables[table].marked_count == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char zeros[8 * UINT8_MAX];
    struct buffer file = {0};
    const struct disk_calls disk = {.state = &file,
                                    .open = run_fuzz_open,
                                    .close = run_fuzz_close,
                                    .size = run_fuzz_size,
                                    .read = run_fuzz_read};
    char foot[DISKWHEEL_RUN_FOOT] = DISKWHEEL_RUN_MAGIC;
    struct diskwheel_run *run;

    if (!size)
        return 0;
    buffer_append(&file, zeros, 8 * (size_t)data[0]);
    put_le(foot + 8, DISKWHEEL_RUN_VERSION, 4);
    put_le(foot + 16, RUN, 8);
    put_le(foot + 32, file.size, 8);
    buffer_append(&file, data + 1, size - 1);
    put_le(foot + 40, checksum_crc32c(0, data + 1, size - 1), 4);
    put_le(foot + 44, checksum_crc32c(0, foot, 44), 4);
    buffer_append(&file, foot, sizeof(foot));
    assert(!buffer_failed(&file));
    if (!diskwheel_run_open(&disk, "/d", RUN, PARTITIONS, &run, NULL)) {
        run_fuzz_walk(run);
        diskwheel_run_release(run);
    }
    buffer_deinit(&file);
    return 0;
}
