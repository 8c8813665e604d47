/*
 * import_folders.h - the data folders of --cluster-import, and the copy of each partition that is
 * taken from them (import_choice.h).
 *
 *     if (import_folders_open(&folders, names, count, &error) == ERROR_NONE &&
 *         import_folders_choose(&folders, &error) == ERROR_NONE)
 *         ... folders.storages[folders.choices[partition].taken] ...
 *     import_folders_close(&folders);
 *
 * Errors     As replay_open_folder; of import_folders_choose those in its text.
 * Ownership  The names are borrowed.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_BIN_IMPORT_FOLDERS_H
#define TICKWHEEL_BIN_IMPORT_FOLDERS_H

#include "cluster/import_choice.h"
#include "ops/config_load.h"

struct import_folders {
    const char *const *names;
    size_t count;
    struct storage *storages[CONFIG_FOLDERS_MAX]; /* array of `count` */
    /* array of `count`; true if the folder is that of a node without a cluster */
    bool is_single[CONFIG_FOLDERS_MAX];
    uint16_t partition_count; /* number of partitions; all folders have the same */
    /* id of the cluster that the folders name; 0 if they name none */
    uint64_t cluster;
    struct import_choice *choices; /* array of partition_count */
};

/* Opens all folders for reading. After a failure, call import_folders_close. */
enum error_code import_folders_open(struct import_folders *ret_folders, const char *const *names,
                                    size_t count, struct error *ret_error);

/* Chooses the copy of each partition. ERROR_NOT_FOUND if a partition has no complete copy; what
 * each folder has of it is then printed to standard error. ERROR_INVALID if the folders do not
 * belong together. */
enum error_code import_folders_choose(struct import_folders *folders, struct error *ret_error);

/* Prints from which folder the timers of the partition were taken. */
void import_folders_tell(const struct import_folders *folders, uint16_t partition, uint64_t live);

void import_folders_close(struct import_folders *folders);

#endif
