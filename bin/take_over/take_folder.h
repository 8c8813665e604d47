/*
 * take_folder.h - the files of a data folder while its tables are replaced.
 *
 * FOLDER says by its format which store the folder has. It is replaced in one step, which is the
 * take-over: before it the tables of RocksDB count, and after it the store on a wheel.
 *
 *     FOLDER/take-over/store       the new store, until its files are moved to the others
 *     FOLDER/take-over/format-9    the files of RocksDB, from then on
 *
 * A run that was killed before that step is begun anew, and one that was killed later is ended.
 * The log, the delivery log and all other files stay as they are.
 *
 * Errors     ERROR_INVALID: it is no folder of format 9; ERROR_CORRUPT: files are missing or
 *            damaged. The text says what can be done.
 * Threads    The one that has locked the folder.
 */
#ifndef TICKWHEEL_TAKE_FOLDER_H
#define TICKWHEEL_TAKE_FOLDER_H

#include "store/folder.h"

#include <limits.h>

enum { TAKE_FORMAT = 9 }; /* of the folders that this program reads */

/* A folder deeper than those in which a daemon looks for a store that was left. */
#define TAKE_NEW_FOLDER FOLDER_TAKEN_NAME "/store"
#define TAKE_OLD_FOLDER FOLDER_TAKEN_NAME "/format-9"

enum take_state { TAKE_STATE_OLD, TAKE_STATE_TAKEN };

/* Writes the path of a file of the folder. */
enum error_code take_folder_path(const char *folder, const char *name, char ret_path[PATH_MAX],
                                 struct error *ret_error);

/* Reads FOLDER. `ret_identity` is that of the folder with the new store; valid unless it is
 * taken. */
enum error_code take_folder_identify(const char *folder, enum take_state *ret_state,
                                     struct folder_identity *ret_identity, struct error *ret_error);

/* Checks the files against the list of the last clean stop, if there is one, and the framing of
 * RocksDB's manifest, of which RocksDB ignores a damaged end. */
enum error_code take_folder_look(const char *folder, struct error *ret_error);

/* Removes what an earlier run has left that did not end. */
enum error_code take_folder_clear(const char *folder, struct error *ret_error);

/* Moves the new store in, and makes the folder one with this identity. */
enum error_code take_folder_replace(const char *folder, const struct folder_identity *identity,
                                    struct error *ret_error);

/* Ends a take-over: the files of RocksDB move to a folder of their own. May be repeated. */
enum error_code take_folder_finish(const char *folder, struct error *ret_error);

#endif
