/*
 * rocksdb_check.h - looks through a whole data folder of RocksDB (storage_check.h).
 *
 *     struct storage_check check = {.told = print_finding};
 *     if (rocksdb_storage_open_to_export("data", &storage, ...)) ... it cannot be opened
 *     if (rocksdb_check(storage, &check, &error)) ...
 *     printf("%llu findings\n", check.findings);
 *     storage_check_deinit(&check);
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

#include "store/storage_check.h"

/* `storage` is of rocksdb_storage_open_to_export. */
enum error_code rocksdb_check(struct storage *storage, struct storage_check *check,
                              struct error *ret_error);

#endif
