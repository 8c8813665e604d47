/*
 * diskwheel_check.h - looks through the whole folder of a store on a wheel (storage_check.h).
 *
 *     struct storage_check check = {.told = print_finding};
 *     if (diskwheel_storage_open_to_export("data", &storage, ...)) ... it cannot be opened
 *     if (diskwheel_check(storage, &check, &error)) ...
 *     printf("%llu findings\n", check.findings);
 *     storage_check_deinit(&check);
 *
 * Each file is read from end to end, and each block is compared with the index; a finding names the
 * file, the offset and what is wrong. Then each record is compared with those that it belongs to.
 * Nothing in the folder is changed, and no daemon can open it meanwhile.
 *
 * Errors     ERROR_NO_MEMORY. The open before fails with ERROR_CORRUPT if the state is damaged, or
 *            a run is missing, cut short, or damaged in its index and elsewhere. Other damage is a
 *            finding, not an error, and so is a block that cannot be read.
 * Threads    One.
 */
#ifndef TICKWHEEL_STORE_WHEEL_DISKWHEEL_CHECK_H
#define TICKWHEEL_STORE_WHEEL_DISKWHEEL_CHECK_H

#include "store/storage_check.h"

/* `storage` is of diskwheel_storage_open_to_export. */
enum error_code diskwheel_check(struct storage *storage, struct storage_check *check,
                                struct error *ret_error);

#endif
