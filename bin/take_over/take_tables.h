/*
 * take_tables.h - reads the tables of a data folder of format 9, which RocksDB keeps.
 *
 *     take_tables_open(folder, &tables, &error);
 *     take_tables_walk(tables, TAKE_TIMERS, visit, context, &error);
 *     take_tables_close(tables);
 *
 * Nothing in the folder is changed. The last state that RocksDB wrote to files is read; later
 * changes are in the log of the folder.
 *
 * Errors     ERROR_CORRUPT: a file is missing or damaged; the text says what can be done.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_TAKE_TABLES_H
#define TICKWHEEL_TAKE_TABLES_H

#include "base/bytes.h"
#include "base/error.h"

/* The tables, which are column families of RocksDB: key and value of a record are as record.h has
 * them, but the values of TAKE_TIMERS may have touches, which a walk applies. */
enum take_table {
    TAKE_META,   /* metas, notes, places, counts of tenants, and the numbers of the folder */
    TAKE_TIMERS, /* rows by position */
    TAKE_MOVED,  /* pointers by serial */
    TAKE_NAMES,  /* entries of names */
    TAKE_ASIDE,  /* damaged records: a letter for their table, then their key */
    TAKE_TABLE_COUNT
};

/* What to do about damage, for the end of an error's text. */
#define TAKE_ADVICE                                                                               \
    "nothing was changed. Start the version that made the folder once, which mends what it can, " \
    "or restore a backup, and repeat this"

struct take_tables;

/* How tables are compared with the manifest. One that the daemon has mended may have lost the id by
 * which the manifest knows it; a folder with such tables has a folder `damaged`. */
enum take_tables_state { TAKE_TABLES_WHOLE, TAKE_TABLES_MENDED };

enum error_code take_tables_open(const char *folder, enum take_tables_state state,
                                 struct take_tables **ret_tables, struct error *ret_error);
void take_tables_close(struct take_tables *tables);

/* Returns the size of the files that the tables consist of. */
uint64_t take_tables_bytes(const struct take_tables *tables);

/* Reads a number of the folder, such as `partitions`. */
enum error_code take_tables_number(const struct take_tables *tables, struct bytes name,
                                   uint64_t *ret_number, struct error *ret_error);

/* Calls `visit` with each record of the table, in the order of keys, until it fails. */
enum error_code take_tables_walk(const struct take_tables *tables, enum take_table table,
                                 enum error_code (*visit)(void *context, struct bytes key,
                                                          struct bytes value,
                                                          struct error *ret_error),
                                 void *context, struct error *ret_error);

#endif
