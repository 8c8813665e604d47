/*
 * take_fill.h - fills a new store on a wheel with the records of the tables, and reads them back.
 *
 * The records come in order of their keys, each once, as runs want them: so runs are written at
 * once, one for each distance of due times until it is large enough. Nothing is sorted or kept in
 * memory, and no row is looked for in older runs.
 *
 *     take_fill_open(folder, partition_count, cluster, &fill, &error);
 *     for each table from TAKE_META on, for each record: take_fill_add(fill, table, ...);
 *     take_fill_end(fill, TAKE_DAMAGE_REFUSE, &error);    the state is on disk
 *     take_fill_compare(fill, &error);                    it is what was added
 *     take_fill_close(fill);
 *
 * Errors     ERROR_CORRUPT: a record of the metas is damaged, or live timers are missing.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_TAKE_FILL_H
#define TICKWHEEL_TAKE_FILL_H

#include "store/storage.h"
#include "take_tables.h"

struct take_fill;

/* Whether live timers may be missing, as those in blocks that the daemon has set aside are. */
enum take_damage { TAKE_DAMAGE_REFUSE, TAKE_DAMAGE_ACCEPT };

/* Numbers of the records that the new store was given. */
struct take_report {
    uint64_t rows;            /* timers with all that ended */
    uint64_t live;            /* of those, live ones */
    uint64_t aside;           /* damaged records that are set aside */
    uint64_t missing;         /* live timers that the metas count and no row has */
    uint16_t partition_count; /* of the store */
};

/* Makes the store in a folder that does not exist. */
enum error_code take_fill_open(const char *folder, uint16_t partition_count, uint64_t cluster,
                               struct take_fill **ret_fill, struct error *ret_error);

/* Adds the next record. Damaged ones but metas are set aside, as their readers do. */
enum error_code take_fill_add(struct take_fill *fill, enum take_table table, struct bytes key,
                              struct bytes value, struct error *ret_error);

/* Writes what is left, and closes the store. Unless damage is accepted, it is an error if a
 * partition has other live timers than its meta counts. */
enum error_code take_fill_end(struct take_fill *fill, enum take_damage damage,
                              struct error *ret_error);

/* Reads all records back from the disk. The storage that was opened for that is the caller's to
 * close. */
enum error_code take_fill_compare(struct take_fill *fill, struct storage **ret_storage,
                                  struct error *ret_error);

/* Returns the counts after take_fill_end. */
struct take_report take_fill_report(const struct take_fill *fill);

/* Frees it. NULL has no effect. */
void take_fill_close(struct take_fill *fill);

#endif
