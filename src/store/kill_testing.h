/*
 * kill_testing.h - for tests: the data folder that a killed process leaves, as a copy of the files
 * of one that runs.
 */
#ifndef TICKWHEEL_STORE_KILL_TESTING_H
#define TICKWHEEL_STORE_KILL_TESTING_H

#include "base/checksum.h"
#include "log/files/log_home.h"
#include "store/storage_testing.h"
#include "sys/files.h"

#include <sched.h>

struct testing_copy {
    char from[300], to[300];
    uint64_t sum; /* of names and sizes */
    bool has_failed;
};

static inline bool testing_sum_one(void *context, const struct files_entry *entry)
{
    struct testing_copy *copy = context;
    const uint32_t name = checksum_crc32c(0, entry->name, strlen(entry->name));

    if (!entry->is_folder)
        copy->sum += (uint64_t)name * (entry->bytes + 1);
    return true;
}

static inline bool testing_copy_one(void *context, const struct files_entry *entry)
{
    struct testing_copy *copy = context;
    char from[600], to[600];

    if (entry->is_folder)
        return true;
    snprintf(from, sizeof(from), "%s/%s", copy->from, entry->name);
    snprintf(to, sizeof(to), "%s/%s", copy->to, entry->name);
    copy->has_failed |= files_copy(from, to, NULL) != ERROR_NONE; /* a table may vanish */
    return true;
}

/* Replaces the folder `to` by the files of the folder `from`, as they were at one moment. */
static inline void testing_copy_folder(const char *from, const char *to)
{
    struct testing_copy copy;
    uint64_t before;

    do {
        copy = (struct testing_copy){.sum = 0};
        snprintf(copy.from, sizeof(copy.from), "%s", from);
        snprintf(copy.to, sizeof(copy.to), "%s", to);
        if (files_exists(to))
            files_remove_folder(to);
        assert_int_equal(files_make_folder(to, NULL), ERROR_NONE);
        assert_int_equal(files_list(from, testing_sum_one, &copy, NULL), ERROR_NONE);
        before = copy.sum;
        copy.sum = 0;
        assert_int_equal(files_list(from, testing_copy_one, &copy, NULL), ERROR_NONE);
        assert_int_equal(files_list(from, testing_sum_one, &copy, NULL), ERROR_NONE);
        if (copy.sum != before)
            sched_yield();
    } while (copy.has_failed || copy.sum != before);
}

static inline const char *testing_log_of(const struct testing_folder *folder, char ret_path[300])
{
    snprintf(ret_path, 300, "%s/" LOG_HOME_FOLDER, folder->path);
    return ret_path;
}

/* Replaces the log of the folder `to` by that of the folder `from`. */
static inline void testing_copy_log(const struct testing_folder *from,
                                    const struct testing_folder *to)
{
    char from_log[300], to_log[300];

    testing_copy_folder(testing_log_of(from, from_log), testing_log_of(to, to_log));
}

/* Makes of the folder `to` what a kill of the process would leave of the folder `from`. A log is
 * copied last: it has what the tables have, and may have more. */
static inline void testing_kill(const struct testing_folder *from, const struct testing_folder *to)
{
    char log[300];

    testing_folder_remove(to);
    testing_copy_folder(from->path, to->path);
    if (files_exists(testing_log_of(from, log)))
        testing_copy_log(from, to);
}

#endif
