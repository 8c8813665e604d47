/*
 * rocksdb_block.h - mends tables with damaged blocks, so that everything else goes on.
 *
 * RocksDB ends each scan, look-up and compaction at a block whose checksum is wrong; after a failed
 * compaction it accepts no writes, and a table whose end is damaged keeps it from starting. So the
 * table is mended (tablefile.h): a flipped bit is turned back, a new index is made from the blocks
 * of records, and of these only those that are damaged themselves are set aside. The file as it was
 * stays in the folder FOLDER_DAMAGED_NAME, with a note for each damaged block: what was done, and
 * how many records it had, of which table. A file is never changed in place, because backups share
 * files by links.
 *
 * Threads    Any; the database is closed and opened again meanwhile.
 */
#ifndef TICKWHEEL_STORAGE_ROCKSDB_BLOCK_H
#define TICKWHEEL_STORAGE_ROCKSDB_BLOCK_H

#include "storage/rocksdb_store.h"

/* Notes the table that a text of RocksDB names as damaged, if it tells of damage. */
void rocksdb_block_note(struct rocksdb_store *store, const char *text);

/* Mends the table that was noted last. True: the call that met it may be repeated. A reader of a
 * folder works on links to its files from then on. */
bool rocksdb_block_set_aside(struct rocksdb_store *store);

/* Makes a reader of a folder go on with links to its files, some of which it may replace. */
enum error_code rocksdb_block_begin_shadow(struct rocksdb_store *store, struct error *ret_error);

/* Counts what was mended in earlier runs. */
enum error_code rocksdb_block_load(struct rocksdb_store *store, struct error *ret_error);

#endif
