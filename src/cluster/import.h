/*
 * import.h - the log of a partition that takes over the timers of a data folder.
 *
 * An empty log of a partition may begin with a sweep (sweep.h), without a claim. A reader takes
 * epoch and rows from it, so timers keep their ids, keys and counts. The records follow from the
 * folder and the epoch alone, bit by bit: an import that was interrupted compares its records with
 * those of the log, and goes on behind them. Which folder and epoch: import_choice.h.
 *
 *     import_open(storage, partition, cluster, epoch, &import, &error);
 *     while (import_next(import, &error) == ERROR_NONE && import_frame(import).size)
 *         ... the next record of the log is import_frame(import), or it is appended ...
 *     import_close(import);
 *
 * Errors     As storage_export: ERROR_CORRUPT when the folder is damaged.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_CLUSTER_IMPORT_H
#define TICKWHEEL_CLUSTER_IMPORT_H

#include "cluster/frame.h"
#include "store/storage.h"

struct import;

/* `epoch` is not 0; the first owner after the import has the next one. */
enum error_code import_open(struct storage *storage, uint16_t partition, uint64_t cluster,
                            uint64_t epoch, struct import **ret_import, struct error *ret_error);

/* NULL is allowed. */
void import_close(struct import *import);

/* Makes the next record. The last record releases the partition; after it there is none. */
enum error_code import_next(struct import *import, struct error *ret_error);

/* Returns that record; empty if there are no more. Valid until the next call. */
struct bytes import_frame(const struct import *import);

/* True if a record of the log is an earlier one of this import: a copy that an append in doubt
 * has left. */
bool import_is_repeat(const struct import *import, struct bytes record);

/* Returns the live timers of the records made so far; import_live_counted returns all of them,
 * as the folder counts. */
uint64_t import_live(const struct import *import);
uint64_t import_live_counted(const struct import *import);

#endif
