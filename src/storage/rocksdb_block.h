/*
 * rocksdb_block.h - sets a damaged block of a table aside, so that the rest of the table goes on.
 *
 * RocksDB ends each scan, look-up and compaction at a block whose checksum is wrong, and after a
 * failed compaction it accepts no writes. So the block is emptied: a copy of the file, in which the
 * block holds no records, takes the place of the file. The file as it was stays in the folder
 * FOLDER_DAMAGED_NAME, with a note for each block: how many records it had, and of which table. A
 * file is never changed in place, because backups share files by links.
 *
 * Threads    Any; the database is closed and opened again meanwhile.
 */
#ifndef TICKWHEEL_STORAGE_ROCKSDB_BLOCK_H
#define TICKWHEEL_STORAGE_ROCKSDB_BLOCK_H

#include "storage/rocksdb_store.h"

/* Notes the block that a text of RocksDB names as damaged, if it names one. */
void rocksdb_block_note(struct rocksdb_store *store, const char *text);

/* Sets the block that was noted last aside. True: the call that met it may be repeated. */
bool rocksdb_block_set_aside(struct rocksdb_store *store);

/* For a reader that changes nothing: a read from `key` failed, and *key becomes the first one
 * behind the damage. False: there is none. */
bool rocksdb_block_pass(struct rocksdb_store *store, enum store_table table, struct store_key *key);

/* Counts what was set aside in earlier runs. */
enum error_code rocksdb_block_load(struct rocksdb_store *store, struct error *ret_error);

#endif
