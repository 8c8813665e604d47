/*
 * export.h - one part of an export: copies of stored records as one body of puts (rowop.h), from
 * whatever order a backend keeps them in.
 *
 *     export_begin(&part, export, forgotten_before, &body);
 *     export_leave_newer(&part, serial_max);         in the same moment as the rows are read
 *     while (!export->is_done && !export_is_full(&part))
 *         for each record of the table export_table(export) behind the key export_key(export):
 *             export_add(&part, key, value, &error);
 *         export_end_table(export);                  unless the part is full
 *     export_end(&part);
 *
 * Each row is followed by the entries of its timer's names. The names of all partitions are one
 * table, in order of their hashes: to copy them from there, all names of the node are examined for
 * each partition. A timer that moves to a position which was copied already has its names in the
 * write that moves it (record_name_next).
 *
 * The order of the tables is part of the format: rows come first, for a trim that a reader applies
 * between two parts finds pointers and names of rows by the rows that it has (memory.c).
 *
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_STORE_EXPORT_H
#define TICKWHEEL_STORE_EXPORT_H

#include "store/rowop.h"
#include "store/storage.h"

struct export_part {
    struct storage_export *export;
    struct wall forgotten_before; /* final records that ended before it are skipped */
    struct buffer *to;
    size_t begin;       /* offset of the body in the buffer */
    size_t rows, looks; /* rows copied; rows examined */
    bool is_first;
};

void export_begin(struct export_part *part, struct storage_export *export,
                  struct wall forgotten_before, struct buffer *to);

/* If this is the first part, timers with a greater serial than `serial_max`, the greatest of the
 * partition, are left out from now on: they are made later. As they are due later, too, an export
 * that took them would be longer the longer it takes. */
void export_leave_newer(struct export_part *part, uint64_t serial_max);

enum rowop_table export_table(const struct storage_export *export);

/* Returns the last key examined in the table; empty if none was. */
struct bytes export_key(const struct storage_export *export);

/* Adds the next record of the table, in order of keys. Skips those of other partitions.
 * ERROR_CORRUPT if it is damaged. */
enum error_code export_add(struct export_part *part, struct bytes key, struct bytes value,
                           struct error *ret_error);

bool export_is_full(const struct export_part *part);

void export_end_table(struct storage_export *export);

/* Ends the body, or removes it if it has no rows. */
void export_end(struct export_part *part);

#endif
