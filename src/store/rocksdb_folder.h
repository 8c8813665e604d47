/*
 * rocksdb_folder.h - looks at the files of a data folder before RocksDB opens it, for what RocksDB
 * would pass over without a word: files that went, shrank or changed while nothing ran.
 *
 * The file FOLDER says what the folder is: its format, the log that belongs to it, the cluster that
 * it is of. It is the first file of a new folder, and a start reads it first.
 *
 * A clean stop leaves the file CLOSED: the names, sizes and sums of what must be there at the next
 * start. It is removed before the database is opened to write. docs/storage.md has its format.
 *
 * Threads    The thread that has locked the folder.
 */
#ifndef TICKWHEEL_STORE_ROCKSDB_FOLDER_H
#define TICKWHEEL_STORE_ROCKSDB_FOLDER_H

#include "base/bytes.h"
#include "base/error.h"
#include "log/files/log_files.h"

#include <stdbool.h>

#define FOLDER_IDENTITY_NAME "FOLDER"
#define FOLDER_REACHED_NAME  "REACHED" /* how far the log had come: rocksdb_log.c */
#define FOLDER_CLOSED_NAME   "CLOSED"
#define FOLDER_LOG_NAME      "log" /* the folder of our log */
#define FOLDER_SPARE_NAME    "log/spare"
#define FOLDER_DAMAGED_NAME  "damaged" /* tables with damaged blocks, as they were */

#define FOLDER_NAME_SIZE 64 /* of a file of RocksDB, with its end */

/* What the file FOLDER says. */
struct folder_identity {
    bool is_known; /* false: there is no such file, as in a folder of an older version */
    bool has_log;  /* false: a log is still to be made for it, as for a backup */
    uint8_t log_id[LOG_ID_SIZE];
    uint64_t cluster; /* id of the cluster whose log its partitions follow; 0: a single node's */
};

struct folder_state {
    bool is_new;                     /* there is no database in it yet */
    bool has_strangers;              /* files that no version of tickwheeld makes */
    char stranger[FOLDER_NAME_SIZE]; /* name of one of them, cut short */
    bool was_closed;                 /* CLOSED is there and fits */
    bool has_no_log;                 /* and names no log: it is a backup */
    uint64_t bytes;                  /* of all its files */
    uint64_t torn_count;             /* appends at the end of the log that a power cut tore */
    uint64_t lost;                   /* writes that a damaged log lost */
    bool has_loss; /* the log or the manifest is missing or damaged: the text says how */
    struct error loss;
};

/* Reads FOLDER. ERROR_INVALID, before anything else in the file is looked at, if a newer version
 * wrote it; ERROR_CORRUPT if it is damaged. */
enum error_code folder_identify(const char *folder, struct folder_identity *ret_identity,
                                struct error *ret_error);

/* Replaces FOLDER, with the format of this version. */
enum error_code folder_write_identity(const char *folder, const struct folder_identity *identity,
                                      struct error *ret_error);

/* Looks at every file and changes none. ERROR_CORRUPT, with the file's name and what can be done,
 * when a file is missing or differs from the list of the last clean stop. */
enum error_code folder_look(const char *folder, struct folder_state *ret_state,
                            struct error *ret_error);

/* In words, what a start passes over; empty: nothing. */
void folder_describe(const struct folder_state *state, char *ret_text, size_t size);

/* Writes CLOSED, for a database that was closed or is a finished copy. */
enum error_code folder_seal(const char *folder, struct error *ret_error);

/* Removes it. */
enum error_code folder_unseal(const char *folder, struct error *ret_error);

/* Whether the database still lies where it was locked: a commit into files that were removed is no
 * commit. The files themselves stay open, and no write to them fails. */
bool folder_is_there(const char *folder, int lock);

/* ---- FOLDER ---- */

/* The text of a FOLDER. ERROR_INVALID: a newer version wrote it; the format is set then, too.
 * ERROR_CORRUPT: it is damaged. */
enum error_code folder_identity_decode(struct bytes text, struct folder_identity *ret_identity,
                                       uint64_t *ret_format);
void folder_identity_encode(const struct folder_identity *identity, struct buffer *to);

/* ---- one line of CLOSED ---- */

struct folder_file {
    char name[FOLDER_NAME_SIZE];
    uint64_t size;
    bool has_sum; /* the large ones are summed by RocksDB, block by block */
    uint32_t sum;
};

/* Reads the next line of a CLOSED whose sum fits; false at its end, or when it is none. */
bool folder_closed_next(struct bytes *text, struct folder_file *ret_file);

/* Checks the head and the sum of a CLOSED and cuts them off. */
bool folder_closed_open(struct bytes *text);

#endif
