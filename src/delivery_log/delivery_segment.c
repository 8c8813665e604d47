/* delivery_segment.c - writes, reads and searches the files of the delivery log. */
#include "delivery_log/delivery_segment.h"

#include "base/checksum.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define SEGMENT_MAGIC   BYTES("tickdlog")
#define SEGMENT_TRAILER BYTES("tickdend")

enum {
    SEGMENT_TENANT_SIZE = 16, /* offsets in the header */
    SEGMENT_TENANT = 17,
    SEGMENT_HEADER_SUM = DELIVERY_SEGMENT_HEADER_SIZE - 4,
    SEGMENT_SLOTS_SUM = 24, /* offsets in the trailer */
    SEGMENT_TRAILER_SUM = DELIVERY_SEGMENT_TRAILER_SIZE - 4,
    SEGMENT_PIECE = 1024, /* bytes read for an entry at first */
};

/* A path in the folder. */
struct segment_path {
    char text[PATH_MAX];
};

static struct segment_path delivery_segment_path(const struct delivery_folder *folder,
                                                 uint64_t number, const char *suffix)
{
    char name[DELIVERY_SEGMENT_NAME_SIZE];
    struct segment_path path;

    delivery_segment_name(number, name);
    snprintf(path.text, sizeof(path.text), "%s/%s%s", folder->path, name, suffix);
    return path;
}

static void delivery_segment_count_damage(struct delivery_folder *folder,
                                          struct delivery_segment *segment)
{
    folder->damaged += !segment->is_damaged;
    segment->is_damaged = true;
}

void delivery_segment_unload(struct delivery_segment *segment)
{
    delivery_table_deinit(&segment->table);
    buffer_deinit(&segment->pending);
    segment->pending_count = 0;
    segment->is_loaded = segment->has_tail = false;
}

void delivery_segment_deinit(struct delivery_segment *segment)
{
    delivery_segment_unload(segment);
}

/* Writes bytes into a file, which is made anew if `access` is DISK_MAKE. */
static enum error_code delivery_segment_write(const struct delivery_folder *folder,
                                              const char *path, enum disk_access access,
                                              uint64_t at, struct bytes bytes)
{
    int file = -1;
    int failed = folder->disk->open(folder->disk, path, access, &file);

    if (failed)
        return disk_failed(failed, "open", path, folder->failed);
    failed = folder->disk->write(folder->disk, file, at, bytes);
    folder->disk->close(folder->disk, file);
    return failed ? disk_failed(failed, "write", path, folder->failed) : ERROR_NONE;
}

/* ---- writing ---- */

enum error_code delivery_segment_make(const struct delivery_folder *folder, uint64_t number,
                                      struct bytes tenant, struct delivery_segment *ret_segment)
{
    const struct segment_path path = delivery_segment_path(folder, number, "");
    char header[DELIVERY_SEGMENT_HEADER_SIZE] = {0};

    assert(tenant.size <= TENANT_SIZE_MAX);
    memcpy(header, SEGMENT_MAGIC.data, 8);
    put_le(header + 8, number, 8);
    put_le(header + SEGMENT_TENANT_SIZE, tenant.size, 1);
    if (tenant.size)
        memcpy(header + SEGMENT_TENANT, tenant.data, tenant.size);
    put_le(header + SEGMENT_HEADER_SUM, checksum_crc32c(0, header, SEGMENT_HEADER_SUM), 4);
    const enum error_code code = delivery_segment_write(folder, path.text, DISK_MAKE, 0,
                                                        (struct bytes){header, sizeof(header)});
    if (code) {
        folder->disk->remove(folder->disk, path.text);
        return code;
    }
    *ret_segment = (struct delivery_segment){
        .number = number, .bytes = DELIVERY_SEGMENT_HEADER_SIZE, .is_loaded = true};
    return ERROR_NONE;
}

/* Enters the entry at `offset` into the table, as the newest one of each of its hashes. The caller
 * has reserved room in the table. */
static void delivery_segment_index(struct delivery_segment *segment,
                                   const struct delivery_entry *entry, uint64_t offset,
                                   uint32_t links[DELIVERY_INDEXES])
{
    for (enum delivery_index i = 0; i < DELIVERY_INDEXES; i++) {
        const uint32_t hash = delivery_entry_hash(entry, i);

        links[i] = hash ? delivery_table_put(&segment->table, hash, (uint32_t)offset) : 0;
    }
}

bool delivery_segment_add(struct delivery_segment *segment, struct bytes encoded, uint64_t stamp)
{
    const uint64_t offset = segment->bytes + segment->pending.size;
    uint32_t links[DELIVERY_INDEXES] = {0};
    struct delivery_entry entry;

    assert(segment->is_loaded && !segment->is_sealed && stamp > segment->last_stamp);
    char *to = buffer_reserve(&segment->pending, encoded.size);
    if (!to || !delivery_table_reserve(&segment->table, DELIVERY_INDEXES)) {
        segment->pending.failed = false;
        return false;
    }
    memcpy(to, encoded.data, encoded.size);
    const bool is_valid = delivery_entry_parse((struct bytes){to, encoded.size}, &entry);
    assert(is_valid);
    delivery_segment_index(segment, &entry, offset, links);
    delivery_entry_place(to, stamp, links);
    segment->pending.size += encoded.size;
    segment->pending_count++;
    segment->last_stamp = stamp;
    return true;
}

enum error_code delivery_segment_flush(const struct delivery_folder *folder,
                                       struct delivery_segment *segment)
{
    const struct segment_path path = delivery_segment_path(folder, segment->number, "");

    if (!segment->pending.size)
        return ERROR_NONE;
    const enum error_code code = delivery_segment_write(
        folder, path.text, DISK_WRITE, segment->bytes, buffer_bytes(&segment->pending));
    if (code) {
        delivery_segment_unload(segment);
        return code;
    }
    segment->bytes += segment->pending.size;
    segment->pending_count = 0;
    buffer_deinit(&segment->pending);
    return ERROR_NONE;
}

enum error_code delivery_segment_seal(const struct delivery_folder *folder,
                                      struct delivery_segment *segment)
{
    const struct segment_path path = delivery_segment_path(folder, segment->number, "");
    enum error_code code = ERROR_NO_MEMORY;
    char trailer[DELIVERY_SEGMENT_TRAILER_SIZE];
    struct buffer end;

    assert(segment->is_loaded && !segment->is_sealed && !segment->pending.size);
    buffer_init(&end);
    delivery_table_encode(&segment->table, &end);
    memcpy(trailer, SEGMENT_TRAILER.data, 8);
    put_le(trailer + 8, segment->bytes, 8);
    put_le(trailer + 16, segment->last_stamp, 8);
    put_le(trailer + SEGMENT_SLOTS_SUM, checksum_crc32c(0, end.data, end.size), 4);
    put_le(trailer + SEGMENT_TRAILER_SUM, checksum_crc32c(0, trailer, SEGMENT_TRAILER_SUM), 4);
    buffer_append(&end, trailer, sizeof(trailer));
    if (!buffer_failed(&end))
        code = delivery_segment_write(folder, path.text, DISK_WRITE, segment->bytes,
                                      buffer_bytes(&end));
    delivery_segment_unload(segment);
    if (!code) {
        segment->bytes += end.size;
        segment->is_sealed = true;
    }
    buffer_deinit(&end);
    return code;
}

/* ---- reading ---- */

/* Reads `size` bytes at `at`, fewer at the end of the file. Returns none after a failure. */
static struct bytes delivery_segment_read(const struct delivery_folder *folder, int file,
                                          uint64_t at, char *to, size_t size)
{
    size_t got = 0;

    if (folder->disk->read(folder->disk, file, at, to, size, &got))
        got = 0;
    return (struct bytes){to, got};
}

/* Decoded trailer of a sealed segment. */
struct segment_end {
    uint64_t slots; /* offset of the slots; 0 if the segment is not sealed */
    uint64_t last_stamp;
    uint32_t slots_sum;
};

/* Reads the trailer of a file of this size. Returns 0 or an errno. */
static int delivery_segment_read_end(const struct delivery_folder *folder, int file, uint64_t size,
                                     struct segment_end *ret_end)
{
    char room[DELIVERY_SEGMENT_TRAILER_SIZE];
    size_t got = 0;

    *ret_end = (struct segment_end){0};
    if (size < DELIVERY_SEGMENT_HEADER_SIZE + sizeof(room))
        return 0;
    const int failed =
        folder->disk->read(folder->disk, file, size - sizeof(room), room, sizeof(room), &got);
    if (failed)
        return failed;
    if (got < sizeof(room) || !bytes_has_prefix((struct bytes){room, got}, SEGMENT_TRAILER) ||
        get_le(room + SEGMENT_TRAILER_SUM, 4) != checksum_crc32c(0, room, SEGMENT_TRAILER_SUM))
        return 0;
    const uint64_t slots = get_le(room + 8, 8);
    if (slots >= DELIVERY_SEGMENT_HEADER_SIZE && slots <= size - sizeof(room))
        *ret_end = (struct segment_end){slots, get_le(room + 16, 8),
                                        (uint32_t)get_le(room + SEGMENT_SLOTS_SUM, 4)};
    return 0;
}

static bool delivery_segment_header_is_valid(struct bytes header, uint64_t number)
{
    return header.size == DELIVERY_SEGMENT_HEADER_SIZE && bytes_has_prefix(header, SEGMENT_MAGIC) &&
           get_le(header.data + SEGMENT_HEADER_SUM, 4) ==
               checksum_crc32c(0, header.data, SEGMENT_HEADER_SUM) &&
           get_le(header.data + 8, 8) == number &&
           (uint8_t)header.data[SEGMENT_TENANT_SIZE] <= TENANT_SIZE_MAX;
}

enum error_code delivery_segment_open(const struct delivery_folder *folder, uint64_t number,
                                      struct delivery_segment *ret_segment, char *ret_tenant,
                                      size_t *ret_tenant_size)
{
    const struct segment_path path = delivery_segment_path(folder, number, "");
    const struct disk_calls *disk = folder->disk;
    struct delivery_segment segment = {.number = number};
    char room[DELIVERY_SEGMENT_HEADER_SIZE];
    struct segment_end end = {0};
    size_t got = 0;
    int file = -1;
    int failed = disk->open(disk, path.text, DISK_READ, &file);

    if (failed)
        return disk_failed(failed, "open", path.text, NULL);
    failed = disk->size(disk, file, &segment.bytes);
    if (!failed)
        failed = disk->read(disk, file, 0, room, sizeof(room), &got);
    if (!failed)
        failed = delivery_segment_read_end(folder, file, segment.bytes, &end);
    segment.is_sealed = end.slots > 0;
    segment.last_stamp = end.last_stamp;
    disk->close(disk, file);
    if (failed)
        return disk_failed(failed, "read", path.text, NULL);
    if (segment.bytes > DELIVERY_SEGMENT_BYTES_MAX ||
        !delivery_segment_header_is_valid((struct bytes){room, got}, number))
        return ERROR_CORRUPT;
    *ret_tenant_size = (uint8_t)room[SEGMENT_TENANT_SIZE];
    memcpy(ret_tenant, room + SEGMENT_TENANT, *ret_tenant_size);
    *ret_segment = segment;
    return ERROR_NONE;
}

/* Indexes the entries of a segment's contents, and sets its end. */
static bool delivery_segment_scan(struct delivery_segment *segment, struct bytes contents)
{
    uint32_t links[DELIVERY_INDEXES];
    struct delivery_entry entry;

    segment->bytes = DELIVERY_SEGMENT_HEADER_SIZE;
    segment->last_stamp = 0;
    while (segment->bytes < contents.size) {
        const struct bytes rest = {contents.data + segment->bytes, contents.size - segment->bytes};

        if (!delivery_entry_decode(rest, &entry) || entry.stamp <= segment->last_stamp)
            break;
        if (!delivery_table_reserve(&segment->table, DELIVERY_INDEXES))
            return false;
        delivery_segment_index(segment, &entry, segment->bytes, links);
        segment->bytes += delivery_entry_size(rest);
        segment->last_stamp = entry.stamp;
    }
    return true;
}

/* True if the rest of a file is the begin of an entry, which an interrupted write leaves. */
static bool delivery_segment_is_torn(struct bytes rest)
{
    return rest.size < 8 || delivery_entry_size(rest) > rest.size;
}

/* Cuts the file off after its first bytes, by replacing it. */
static enum error_code delivery_segment_cut(const struct delivery_folder *folder,
                                            const struct delivery_segment *segment,
                                            struct bytes contents)
{
    const struct segment_path path = delivery_segment_path(folder, segment->number, ""),
                              other = delivery_segment_path(folder, segment->number,
                                                            DELIVERY_FOLDER_CUT);
    const enum error_code code = delivery_segment_write(
        folder, other.text, DISK_MAKE, 0, (struct bytes){contents.data, segment->bytes});
    const int failed = code ? 0 : folder->disk->rename(folder->disk, other.text, path.text);

    if (code || failed)
        folder->disk->remove(folder->disk, other.text);
    return failed ? disk_failed(failed, "rename", other.text, folder->failed) : code;
}

enum error_code delivery_segment_load(struct delivery_folder *folder,
                                      struct delivery_segment *segment)
{
    const struct segment_path path = delivery_segment_path(folder, segment->number, "");
    const struct disk_calls *disk = folder->disk;
    uint64_t size = 0;
    int file = -1;
    int failed = disk->open(disk, path.text, DISK_READ, &file);

    assert(!segment->is_sealed && !segment->is_loaded);
    if (failed)
        return disk_failed(failed, "open", path.text, NULL);
    failed = disk->size(disk, file, &size);
    char *room = failed || size > DELIVERY_SEGMENT_BYTES_MAX ? NULL : malloc(size + 1);
    const struct bytes contents =
        room ? delivery_segment_read(folder, file, 0, room, size) : (struct bytes){0};
    disk->close(disk, file);
    enum error_code code = room ? ERROR_NONE : ERROR_NO_MEMORY;
    if (room && contents.size < size)
        code = ERROR_IO;
    else if (room && !delivery_segment_scan(segment, contents))
        code = ERROR_NO_MEMORY;
    else if (room && segment->bytes < size) {
        if (!delivery_segment_is_torn((struct bytes){room + segment->bytes, size - segment->bytes}))
            delivery_segment_count_damage(folder, segment);
        if (folder->is_full)
            segment->has_tail = true;
        else
            code = delivery_segment_cut(folder, segment, contents);
    }
    free(room);
    segment->is_loaded = true;
    if (code)
        delivery_segment_unload(segment);
    return code;
}

/* ---- searching ---- */

/* Returns the newest entry with this hash in a sealed segment, and the end of its entries. */
static uint32_t delivery_segment_look_up(struct delivery_folder *folder,
                                         struct delivery_segment *segment, int file, uint32_t hash,
                                         uint64_t *ret_end)
{
    struct segment_end end;
    delivery_segment_read_end(folder, file, segment->bytes, &end);
    const size_t size = end.slots ? segment->bytes - DELIVERY_SEGMENT_TRAILER_SIZE - end.slots : 0;
    char *room = end.slots ? malloc(size + 1) : NULL;
    const struct bytes slots =
        room ? delivery_segment_read(folder, file, end.slots, room, size) : (struct bytes){0};
    uint32_t offset = 0;

    *ret_end = end.slots;
    if (room && slots.size == size && checksum_crc32c(0, room, size) == end.slots_sum)
        offset = delivery_table_find(slots, hash);
    else
        delivery_segment_count_damage(folder, segment);
    free(room);
    return offset;
}

/* Reads the entry at `offset`. `room` has DELIVERY_ENTRY_SIZE_MAX bytes. */
static bool delivery_segment_read_entry(const struct delivery_folder *folder, int file,
                                        uint64_t offset, char *room,
                                        struct delivery_entry *ret_entry)
{
    struct bytes bytes = delivery_segment_read(folder, file, offset, room, SEGMENT_PIECE);

    if (delivery_entry_size(bytes) > bytes.size)
        bytes = delivery_segment_read(folder, file, offset, room, delivery_entry_size(bytes));
    return delivery_entry_decode(bytes, ret_entry);
}

/* Follows a chain from the entry at `offset`. Each link points to an earlier entry, so that it
 * ends. */
static bool delivery_segment_follow(struct delivery_folder *folder,
                                    struct delivery_segment *segment, int file, uint64_t offset,
                                    uint64_t end, enum delivery_index index,
                                    struct delivery_query *query)
{
    char room[DELIVERY_ENTRY_SIZE_MAX];
    struct delivery_entry entry;

    while (offset && !delivery_query_is_full(query)) {
        if (offset < DELIVERY_SEGMENT_HEADER_SIZE || offset >= end ||
            !delivery_segment_read_entry(folder, file, offset, room, &entry)) {
            delivery_segment_count_damage(folder, segment);
            return true;
        }
        if (entry.stamp < query->since)
            return false;
        if (entry.stamp < query->before) {
            query->looks++;
            query->next = entry.stamp;
            if (delivery_query_wants(query, &entry)) {
                buffer_append(&query->found, room,
                              delivery_entry_size((struct bytes){room, sizeof(room)}));
                query->count++;
            }
        }
        end = offset;
        offset = entry.links[index];
    }
    return true;
}

bool delivery_segment_search(struct delivery_folder *folder, struct delivery_segment *segment,
                             struct delivery_query *query)
{
    const struct segment_path path = delivery_segment_path(folder, segment->number, "");
    const struct disk_calls *disk = folder->disk;
    uint32_t hash = 0;
    const enum delivery_index index = delivery_query_index(query, &hash);
    int file = -1;

    assert(segment->is_sealed || (segment->is_loaded && !segment->pending.size));
    if (segment->last_stamp && segment->last_stamp < query->since)
        return false;
    if (disk->open(disk, path.text, DISK_READ, &file)) {
        delivery_segment_count_damage(folder, segment);
        return true;
    }
    uint64_t end = segment->bytes;
    const uint64_t offset = segment->is_sealed
                                ? delivery_segment_look_up(folder, segment, file, hash, &end)
                                : delivery_table_get(&segment->table, hash);
    const bool goes_on = delivery_segment_follow(folder, segment, file, offset, end, index, query);
    disk->close(disk, file);
    return goes_on;
}
