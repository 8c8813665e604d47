/*
 * delivery_folder.h - the folder of the delivery log: the names of its segments, and which there
 * are. Other files in it are left alone.
 *
 *     delivery_folder_list(&folder, &listing, &error);
 *     ... listing.numbers[0 .. listing.count) ...
 *     free(listing.numbers);
 *
 * Errors     Codes of the disk; NO_MEMORY.
 * Threads    None: one owner. All of it waits for the disk.
 */
#ifndef TICKWHEEL_DELIVERY_LOG_DELIVERY_FOLDER_H
#define TICKWHEEL_DELIVERY_LOG_DELIVERY_FOLDER_H

#include "sys/disk.h"

#define DELIVERY_SEGMENT_NAME_SIZE 32 /* size of a file's name, with the NUL */

/* After the name of a segment: the file that is to replace it when it is cut. */
#define DELIVERY_FOLDER_CUT ".new"

/* Where the segments are. */
struct delivery_folder {
    const struct disk_calls *disk; /* borrowed, as is the path */
    const char *path;
    struct error *failed; /* gets the cause of each write that fails; may be NULL */
    bool is_full;         /* nothing may be written; removing is allowed */
    uint64_t damaged;     /* number of segments in which an invalid part was found */
};

struct delivery_listing {
    const struct delivery_folder *folder;
    uint64_t *numbers; /* of the segments, rising; the caller's to free */
    size_t count, capacity;
    uint64_t next_number; /* above those of all segments, and of what only has such a name */
    bool has_failed;
};

void delivery_segment_name(uint64_t number, char ret_name[DELIVERY_SEGMENT_NAME_SIZE]);

/* Returns the number in the name of a segment; 0 if it is none. */
uint64_t delivery_segment_number(const char *name);

/* Removes the file of a segment. */
void delivery_folder_remove(const struct delivery_folder *folder, uint64_t number);

/* Makes the folder if it was removed, but not the folder around it: without that the data folder is
 * lost. Returns true if it is there. */
bool delivery_folder_remake(const struct delivery_folder *folder);

/* Lists the segments, and removes what a crash left of a cut. */
enum error_code delivery_folder_list(const struct delivery_folder *folder,
                                     struct delivery_listing *ret_listing, struct error *ret_error);

#endif
