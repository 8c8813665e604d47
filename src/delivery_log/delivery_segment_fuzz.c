/* Goal: no file and no question of another node makes a reader of the delivery log leave its
 * bounds or search without end, and what is accepted is encoded alike. Method: the input is a
 * segment on a disk in memory, and a question; its first byte chooses which checksums are made to
 * fit: of the header (1), of the first entry (2), of the trailer (4). */
#include "base/checksum.h"
#include "delivery_log/delivery_segment.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The only file of the disk. */
struct fuzz_disk {
    struct disk_calls calls;
    char *data;
    size_t size;
};

static int fuzz_open(const struct disk_calls *disk, const char *path, enum disk_access access,
                     int *ret_file)
{
    (void)disk;
    (void)path;
    *ret_file = 1;
    return access == DISK_READ ? 0 : EROFS;
}

static void fuzz_close(const struct disk_calls *disk, int file)
{
    (void)disk;
    (void)file;
}

static int fuzz_size(const struct disk_calls *disk, int file, uint64_t *ret_bytes)
{
    const struct fuzz_disk *self = disk->state;

    (void)file;
    *ret_bytes = self->size;
    return 0;
}

static int fuzz_read(const struct disk_calls *disk, int file, uint64_t at, void *to, size_t size,
                     size_t *ret_size)
{
    const struct fuzz_disk *self = disk->state;
    const size_t left = at < self->size ? self->size - at : 0;

    (void)file;
    *ret_size = size < left ? size : left;
    if (*ret_size)
        memcpy(to, self->data + at, *ret_size);
    return 0;
}

static int fuzz_remove(const struct disk_calls *disk, const char *path)
{
    (void)disk;
    (void)path;
    return 0;
}

static void fuzz_fit(struct fuzz_disk *disk, uint8_t flags)
{
    char *data = disk->data, *entry = data + DELIVERY_SEGMENT_HEADER_SIZE;
    const size_t head = DELIVERY_SEGMENT_HEADER_SIZE, tail = DELIVERY_SEGMENT_TRAILER_SIZE;

    if ((flags & 1) && disk->size >= head)
        put_le(data + head - 4, checksum_crc32c(0, data, head - 4), 4);
    const size_t size =
        disk->size > head ? delivery_entry_size((struct bytes){entry, disk->size - head}) : 0;
    if ((flags & 2) && size && size <= disk->size - head)
        put_le(entry, checksum_crc32c(0, entry + 4, size - 4), 4);
    if (!(flags & 4) || disk->size < head + tail)
        return;
    char *trailer = data + disk->size - tail;
    const uint64_t slots = get_le(trailer + 8, 8);
    if (slots <= disk->size - tail)
        put_le(trailer + 24, checksum_crc32c(0, data + slots, disk->size - tail - slots), 4);
    put_le(trailer + 28, checksum_crc32c(0, trailer, 28), 4);
}

static void fuzz_question(struct bytes bytes)
{
    struct delivery_query query;
    struct buffer again;

    if (!delivery_query_decode(bytes, &query))
        return;
    buffer_init(&again);
    delivery_query_encode(&query, &again);
    assert(bytes_equal(buffer_bytes(&again), bytes));
    buffer_deinit(&again);
}

static void fuzz_entry(struct bytes bytes)
{
    struct delivery_entry entry, twice;
    struct buffer again;

    if (!delivery_entry_decode(bytes, &entry))
        return;
    buffer_init(&again);
    delivery_entry_encode(&entry, &again);
    delivery_entry_place(again.data, entry.stamp, entry.links);
    const bool is_valid = delivery_entry_decode(buffer_bytes(&again), &twice);
    assert(is_valid && twice.ended_us == entry.ended_us && twice.outcome == entry.outcome);
    for (size_t i = 0; i < DELIVERY_TEXTS; i++)
        assert(bytes_equal(entry.texts[i], twice.texts[i]));
    buffer_deinit(&again);
}

static void fuzz_segment(struct delivery_folder *folder)
{
    struct delivery_segment segment;
    char tenant[TENANT_SIZE_MAX];
    size_t tenant_size = 0;

    if (delivery_segment_open(folder, 1, &segment, tenant, &tenant_size))
        return;
    assert(tenant_size <= TENANT_SIZE_MAX);
    if (!segment.is_sealed && delivery_segment_load(folder, &segment))
        return; /* it would have to be cut, on a disk that can be read only */
    for (unsigned outcomes = 1; outcomes < 8; outcomes++) {
        struct delivery_query query;

        delivery_query_init(&query);
        query.outcomes = outcomes;
        delivery_segment_search(folder, &segment, &query);
        assert(query.count <= query.looks && query.count <= DELIVERY_QUERY_COUNT_MAX);
        delivery_query_deinit(&query);
    }
    delivery_segment_deinit(&segment);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_disk disk = {.calls = {.state = &disk,
                                       .open = fuzz_open,
                                       .close = fuzz_close,
                                       .size = fuzz_size,
                                       .read = fuzz_read,
                                       .remove = fuzz_remove}};
    struct delivery_folder folder = {.disk = &disk.calls, .path = "memory"};

    if (size < 1)
        return 0;
    disk.size = size - 1;
    disk.data = malloc(size);
    assert(disk.data);
    memcpy(disk.data, data + 1, disk.size);
    fuzz_question((struct bytes){disk.data, disk.size});
    fuzz_fit(&disk, data[0]);
    fuzz_segment(&folder);
    if (disk.size > DELIVERY_SEGMENT_HEADER_SIZE)
        fuzz_entry((struct bytes){disk.data + DELIVERY_SEGMENT_HEADER_SIZE,
                                  disk.size - DELIVERY_SEGMENT_HEADER_SIZE});
    free(disk.data);
    return 0;
}
