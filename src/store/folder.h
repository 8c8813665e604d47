/*
 * folder.h - looks at the files of a data folder before its store opens it, for those that went,
 * shrank or changed while nothing ran.
 *
 * The file FOLDER says what the folder is: its format, the log that belongs to it, the cluster that
 * it is of. It is the first file of a new folder, is replaced as a whole, and a start reads it
 * first. It is text, a line each:
 *     tickwheel folder     the first
 *     format NUMBER        the second, in every version
 *     log HEX              id of the log of a node without a cluster, 32 digits; without it the
 *                          next start makes a log
 *     cluster HEX          id of the cluster whose log the partitions follow, 16 digits
 *     sum HEX              CRC-32C of the lines before, 8 digits
 *
 * A clean stop leaves the file CLOSED: the names, sizes and sums of what must be there at the next
 * start. It is removed before the store is opened to write. It is text: `tickwheel closed 1`;
 * for each file name, size, and CRC-32C in 8 hex digits or `-`; `sum` with that of the lines
 * before.
 *
 * Threads    The thread that has locked the folder.
 */
#ifndef TICKWHEEL_STORE_FOLDER_H
#define TICKWHEEL_STORE_FOLDER_H

#include "base/bytes.h"
#include "base/error.h"
#include "log/files/log_home.h"

#include <stdbool.h>

#define FOLDER_IDENTITY_NAME "FOLDER"
#define FOLDER_REACHED_NAME  LOG_HOME_REACHED
#define FOLDER_CLOSED_NAME   "CLOSED"
#define FOLDER_LOG_NAME      LOG_HOME_FOLDER
#define FOLDER_SPARE_NAME    LOG_HOME_FOLDER "/spare"
#define FOLDER_DAMAGED_NAME  "damaged" /* bytes of blocks that were set aside */
#define FOLDER_BACKUP_NAME   "BACKUP-" /* notes of backups, node/backup_record.h */
#define FOLDER_PARTIAL_NAME  "PARTIAL-"
#define FOLDER_CLOCK_NAME    "CLOCK" /* the time of a virtual clock, node/clock_mark.h */

#define FOLDER_TAKEN_NAME "take-over" /* files of RocksDB that a take-over left, for nobody */

#define FOLDER_STATE_NAME "STATE" /* names the runs */

#define FOLDER_NAME_SIZE 64 /* maximum name of a file of a store, with its NUL */

/* Format of the folder that this version makes and reads. Up to 9 the store was RocksDB. */
enum { FOLDER_FORMAT = 10 };

/* Contents of the file FOLDER. */
struct folder_identity {
    bool is_known; /* false if there is no such file */
    bool has_log;  /* false if its log must still be made, as for a backup, or in a cluster */
    uint8_t log_id[LOG_ID_SIZE];
    uint64_t cluster; /* id of the cluster whose log its partitions follow; 0 for a single node */
};

struct folder_state {
    bool is_new;                     /* has no files of the store yet */
    bool has_strangers;              /* has files that no version of tickwheeld makes */
    char stranger[FOLDER_NAME_SIZE]; /* name of one of them, cut if long */
    bool was_closed;                 /* CLOSED exists and matches */
    uint64_t bytes;                  /* size of all its files */
};

/* Reads FOLDER. ERROR_INVALID, before anything else is examined, if it has another format than
 * this version's; ERROR_CORRUPT if it is damaged. */
enum error_code folder_identify(const char *folder, struct folder_identity *ret_identity,
                                struct error *ret_error);

/* Replaces FOLDER, with this version's format. */
enum error_code folder_write_identity(const char *folder, const struct folder_identity *identity,
                                      struct error *ret_error);

/* If there is no FOLDER, takes the log that is beside the files for the folder's. */
void folder_find_log(const char *folder, struct folder_identity *identity);

/* Completes the identity of a folder with files and without FOLDER: one without a log follows the
 * log of `cluster`. ERROR_INVALID if that is 0. */
enum error_code folder_guess_identity(const char *folder, const struct folder_state *state,
                                      uint64_t cluster, struct folder_identity *identity,
                                      struct error *ret_error);

/* Refuses the folder of another cluster than `wanted`. That of a single node passes: its caller
 * refuses it if it has timers. */
enum error_code folder_check_cluster(const char *folder, const struct folder_identity *identity,
                                     uint64_t wanted, struct error *ret_error);

/* Fails with ERROR_INVALID: a single node's folder with timers, opened for a cluster. */
enum error_code folder_refuse_single(const char *folder, struct error *ret_error);

/* Examines every file and changes none. ERROR_CORRUPT, with the file's name and what can be
 * done, if a file is missing or differs from the list of the last clean stop. */
enum error_code folder_look(const char *folder, struct folder_state *ret_state,
                            struct error *ret_error);

/* Refuses a folder with files of others. */
enum error_code folder_check_strangers(const char *folder, const struct folder_state *state,
                                       struct error *ret_error);

/* Writes CLOSED, for a closed store or a finished copy. */
enum error_code folder_seal(const char *folder, struct error *ret_error);

/* Removes it. */
enum error_code folder_unseal(const char *folder, struct error *ret_error);

/* True if the store's files are still where they were locked. Writes to removed files do not fail,
 * so commits must check this. */
bool folder_is_there(const char *folder, int lock);

/* ---- FOLDER ---- */

/* Decodes FOLDER. ERROR_INVALID if it has another format than this version's, which is set;
 * ERROR_CORRUPT if it is damaged. */
enum error_code folder_identity_decode(struct bytes text, struct folder_identity *ret_identity,
                                       uint64_t *ret_format);
void folder_identity_encode(const struct folder_identity *identity, struct buffer *to);

/* ---- one line of CLOSED ---- */

struct folder_file {
    char name[FOLDER_NAME_SIZE];
    uint64_t size;
    bool has_sum; /* false for large files, whose blocks have sums */
    uint32_t sum;
};

/* Reads the next line of a valid CLOSED. Returns false at its end, or if it is no line. */
bool folder_closed_next(struct bytes *text, struct folder_file *ret_file);

/* Checks head and checksum of a CLOSED, and removes them. */
bool folder_closed_open(struct bytes *text);

#endif
