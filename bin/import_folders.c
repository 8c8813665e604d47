/* import_folders.c - the data folders of --cluster-import; see import_folders.h. */
#include "import_folders.h"

#include "cluster/replay.h"
#include "sys/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FOLDER_NAME_SHOWN = 80, /* number of bytes of a name that an error shows */
    FOLDER_FILES = 300,     /* approximate number of open files that a folder needs */
};

enum error_code import_folders_open(struct import_folders *ret_folders, const char *const *names,
                                    size_t count, struct error *ret_error)
{
    struct import_folders *folders = ret_folders;

    *folders = (struct import_folders){.names = names};
    process_raise_file_limit((count + 1) * FOLDER_FILES);
    while (folders->count < count) {
        const size_t i = folders->count;
        struct replay_folder folder;
        const enum error_code code = replay_open_folder(names[i], &folder, ret_error);
        const uint16_t partition_count = folder.partition_count;
        const uint64_t cluster = folder.cluster;

        if (code)
            return code;
        folders->storages[i] = folder.storage;
        folders->is_single[i] = cluster == 0;
        folders->count++;
        if (i > 0 && partition_count != folders->partition_count)
            return error_set(ret_error, ERROR_INVALID,
                             "%.*s has %u partitions, and %.*s has %u: they are not of one cluster",
                             FOLDER_NAME_SHOWN, names[0], folders->partition_count,
                             FOLDER_NAME_SHOWN, names[i], partition_count);
        folders->partition_count = partition_count;
        if (cluster && folders->cluster && cluster != folders->cluster)
            return error_set(ret_error, ERROR_INVALID,
                             "%.*s is of the cluster %016" PRIx64 ", and others are of the cluster "
                             "%016" PRIx64 ": give the folders of one cluster",
                             FOLDER_NAME_SHOWN, names[i], cluster, folders->cluster);
        if (cluster)
            folders->cluster = cluster;
    }
    folders->choices = calloc(folders->partition_count, sizeof(*folders->choices));
    return folders->choices ? ERROR_NONE : error_set(ret_error, ERROR_NO_MEMORY, "folders");
}

void import_folders_close(struct import_folders *folders)
{
    for (size_t i = 0; i < folders->count; i++)
        storage_close(folders->storages[i]);
    free(folders->choices);
}

static enum error_code import_folders_load(const struct import_folders *folders, uint16_t partition,
                                           struct import_copy *ret_copies, struct error *ret_error)
{
    enum error_code code = ERROR_NONE;

    for (size_t i = 0; i < folders->count && !code; i++) {
        struct storage_meta meta = {.epoch = 0};

        code = storage_load_meta(folders->storages[i], partition, &meta, ret_error);
        if (!code)
            code = storage_load_place(folders->storages[i], partition, &ret_copies[i].place,
                                      ret_error);
        ret_copies[i].epoch = meta.epoch;
        if (!folders->is_single[i])
            continue;
        if (ret_copies[i].place.epoch > meta.epoch)
            ret_copies[i].epoch = ret_copies[i].place.epoch;
        /* a folder without a cluster has its own log, whose position means nothing in another
         * one */
        ret_copies[i].place = (struct storage_place){0};
    }
    return code;
}

static void import_folders_tell_missing(const struct import_folders *folders, uint16_t partition,
                                        const struct import_copy *copies)
{
    fprintf(stderr, "partition %u: no folder has a whole copy\n", partition);
    for (size_t i = 0; i < folders->count; i++) {
        if (import_copy_kind(&copies[i]) == IMPORT_COPY_NONE)
            fprintf(stderr, "  %s has none\n", folders->names[i]);
        else
            fprintf(stderr, "  %s has a part, up to record %" PRIu64 " of epoch %" PRIu64 "\n",
                    folders->names[i], copies[i].place.next, copies[i].place.epoch);
    }
}

static enum error_code import_folders_refuse(const struct import_folders *folders,
                                             uint16_t partition, struct error *ret_error)
{
    const struct import_choice *choice = &folders->choices[partition];

    return error_set(ret_error, ERROR_INVALID,
                     "partition %u: %.*s and %.*s are not copies of one log: give the folders of "
                     "one cluster, or one of a single node",
                     partition, FOLDER_NAME_SHOWN, folders->names[choice->taken], FOLDER_NAME_SHOWN,
                     folders->names[choice->stranger]);
}

enum error_code import_folders_choose(struct import_folders *folders, struct error *ret_error)
{
    struct import_copy copies[CONFIG_FOLDERS_MAX];
    uint32_t missing = 0;

    for (uint32_t i = 0; i < folders->partition_count; i++) {
        struct import_choice *choice = &folders->choices[i];
        const enum error_code code = import_folders_load(folders, (uint16_t)i, copies, ret_error);

        if (code)
            return code;
        import_choose(copies, folders->count, choice);
        if (choice->stranger != IMPORT_NO_COPY)
            return import_folders_refuse(folders, (uint16_t)i, ret_error);
        if (choice->taken == IMPORT_NO_COPY) {
            import_folders_tell_missing(folders, (uint16_t)i, copies);
            missing++;
        }
    }
    return missing ? error_set(ret_error, ERROR_NOT_FOUND,
                               "%" PRIu32 " of %u partitions have no whole copy in the folders; "
                               "nothing was written",
                               missing, folders->partition_count)
                   : ERROR_NONE;
}

void import_folders_tell(const struct import_folders *folders, uint16_t partition, uint64_t live)
{
    const struct import_choice *choice = &folders->choices[partition];

    printf("partition %u: %" PRIu64 " live timers from %s; owners from epoch %" PRIu64 " on\n",
           partition, live, folders->names[choice->taken], choice->epoch + 1);
    if (choice->further != IMPORT_NO_COPY)
        printf("  %s had read further, and has a part: what came later is lost\n",
               folders->names[choice->further]);
}
