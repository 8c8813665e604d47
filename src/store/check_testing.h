/*
 * check_testing.h - for tests: looks through a folder that no process uses.
 */
#ifndef TICKWHEEL_STORE_CHECK_TESTING_H
#define TICKWHEEL_STORE_CHECK_TESTING_H

#include "store/wheel/diskwheel.h"
#include "store/wheel/diskwheel_check.h"

/* Examines the tables, without what a log has beyond them. */
static inline enum error_code testing_check(const char *folder, struct storage_check *check,
                                            struct error *ret_error)
{
    struct storage *storage;
    uint16_t partition_count;
    uint64_t cluster;
    enum error_code code =
        diskwheel_storage_open_to_export(folder, &storage, &partition_count, &cluster, ret_error);

    if (code)
        return code;
    code = diskwheel_check(storage, check, ret_error);
    storage_close(storage);
    return code;
}

#endif
