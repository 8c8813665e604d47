/*
 * rocksdb_check.h - looks through a whole data folder: is every record readable, and does what
 * belongs together agree?
 *
 *     struct rocksdb_check check = {.told = print_finding};
 *     if (rocksdb_storage_open_to_export("data", &storage, ...)) ... it cannot be opened
 *     if (rocksdb_check(storage, &check, &error)) ...
 *     printf("%llu findings\n", check.findings);
 *     rocksdb_check_deinit(&check);
 *
 * Nothing in the folder is changed, and no daemon can open it meanwhile. Takes the memory of the
 * log that a start would read, and a little, however many timers there are.
 *
 * Errors     ERROR_IO when a process has it open or it cannot be read; ERROR_INVALID when it is no
 *            data folder or one of a newer version; ERROR_CORRUPT when the database cannot be
 *            opened for damage. Damage inside the database is a finding, not an error.
 * Threads    One.
 */
#ifndef TICKWHEEL_STORE_ROCKSDB_CHECK_H
#define TICKWHEEL_STORE_ROCKSDB_CHECK_H

#include "base/error.h"
#include "base/time.h"
#include "store/storage.h"

struct rocksdb_check_partition {
    struct storage_meta meta;
    uint64_t live, over, dead; /* rows; a dead letter counts only as dead */
    uint64_t damaged;          /* unreadable rows, and those set aside before */
    uint64_t bytes;            /* size of keys and values of rows */
    struct wall oldest;        /* first live position; 0 if none is live */
};

struct rocksdb_check {
    /* Called with one line for each of the first TOLD_MAX findings. May be NULL. */
    void (*told)(void *context, const char *finding);
    void *context;

    uint64_t findings;
    uint64_t format;
    uint64_t pointers, names, set_aside;
    uint64_t blocks_unread; /* of tables */
    uint64_t missing;       /* live timers that are counted and cannot be read */
    uint64_t disk_bytes;
    bool was_closed; /* closed by a clean stop */
    uint16_t partition_count;
    struct rocksdb_check_partition *partitions; /* freed by rocksdb_check_deinit */
};

#define ROCKSDB_CHECK_TOLD_MAX 1000

/* `storage` is of rocksdb_storage_open_to_export. */
enum error_code rocksdb_check(struct storage *storage, struct rocksdb_check *check,
                              struct error *ret_error);

void rocksdb_check_deinit(struct rocksdb_check *check);

#endif
