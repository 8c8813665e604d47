/* delivery_folder.c - names and lists the files of the delivery log. */
#include "delivery_log/delivery_folder.h"

#include "base/number.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define FOLDER_SUFFIX ".deliveries"

void delivery_segment_name(uint64_t number, char ret_name[DELIVERY_SEGMENT_NAME_SIZE])
{
    snprintf(ret_name, DELIVERY_SEGMENT_NAME_SIZE, "%016" PRIx64 FOLDER_SUFFIX, number);
}

uint64_t delivery_segment_number(const char *name)
{
    char again[DELIVERY_SEGMENT_NAME_SIZE];
    uint64_t number = 0;

    if (strlen(name) != 16 + sizeof(FOLDER_SUFFIX) - 1 ||
        !number_parse((struct bytes){name, 16}, 16, &number))
        return 0;
    delivery_segment_name(number, again);
    /* the numbers after the largest one must not overflow */
    return number <= INT64_MAX && strcmp(name, again) == 0 ? number : 0;
}

/* True for the name of a file that a cut makes, and that a crash may leave. */
static bool delivery_segment_is_temporary(const char *name)
{
    const size_t size = strlen(name), suffix = sizeof(DELIVERY_FOLDER_CUT) - 1;
    char segment[DELIVERY_SEGMENT_NAME_SIZE];

    if (size < suffix || size - suffix >= sizeof(segment) ||
        strcmp(name + size - suffix, DELIVERY_FOLDER_CUT) != 0)
        return false;
    memcpy(segment, name, size - suffix);
    segment[size - suffix] = '\0';
    return delivery_segment_number(segment) > 0;
}

static void delivery_folder_remove_file(const struct delivery_folder *folder, const char *name)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s", folder->path, name) < (int)sizeof(path))
        folder->disk->remove(folder->disk, path);
}

void delivery_folder_remove(const struct delivery_folder *folder, uint64_t number)
{
    char name[DELIVERY_SEGMENT_NAME_SIZE];

    delivery_segment_name(number, name);
    delivery_folder_remove_file(folder, name);
}

bool delivery_folder_remake(const struct delivery_folder *folder)
{
    const struct disk_calls *disk = folder->disk;
    const char *slash = strrchr(folder->path, '/');
    const size_t size = slash ? (size_t)(slash - folder->path) : 0;
    char parent[PATH_MAX];
    int file = -1;

    if (size == 0 || size >= sizeof(parent))
        return false;
    memcpy(parent, folder->path, size);
    parent[size] = '\0';
    if (disk->open(disk, parent, DISK_READ, &file))
        return false;
    disk->close(disk, file);
    return !disk->make_folder(disk, folder->path, folder->failed);
}

static bool delivery_folder_list_one(void *context, const struct files_entry *entry)
{
    struct delivery_listing *listing = context;
    const uint64_t number = delivery_segment_number(entry->name);

    if (entry->is_file && delivery_segment_is_temporary(entry->name))
        delivery_folder_remove_file(listing->folder, entry->name);
    if (number >= listing->next_number)
        listing->next_number = number + 1;
    if (!number || !entry->is_file) /* not of this module; to open a pipe would wait */
        return true;
    if (listing->count == listing->capacity) {
        const size_t capacity = listing->capacity ? 2 * listing->capacity : 64;
        uint64_t *numbers = realloc(listing->numbers, capacity * sizeof(*numbers));

        listing->has_failed = !numbers;
        if (!numbers)
            return false;
        listing->numbers = numbers;
        listing->capacity = capacity;
    }
    listing->numbers[listing->count++] = number;
    return true;
}

static int delivery_folder_compare(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

enum error_code delivery_folder_list(const struct delivery_folder *folder,
                                     struct delivery_listing *ret_listing, struct error *ret_error)
{
    struct delivery_listing listing = {.folder = folder, .next_number = 1};
    enum error_code code = folder->disk->list(folder->disk, folder->path, delivery_folder_list_one,
                                              &listing, ret_error);

    if (!code && listing.has_failed)
        code = error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    if (code) {
        free(listing.numbers);
        return code;
    }
    if (listing.count)
        qsort(listing.numbers, listing.count, sizeof(*listing.numbers), delivery_folder_compare);
    *ret_listing = listing;
    return ERROR_NONE;
}
