/*
 * export.h - one part of an export: copies of stored records as one body of puts (rowop.h), from
 * whatever order a backend keeps them in.
 *
 *     export_begin(&part, export, forgotten_before, &body);
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
};

void export_begin(struct export_part *part, struct storage_export *export,
                  struct wall forgotten_before, struct buffer *to);

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
