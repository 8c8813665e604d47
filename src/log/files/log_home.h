/*
 * log_home.h - the log of a data folder: its files (log_files.h) in the folder `log`, and beside
 * them the file REACHED, which says how far the log had come. Together with the id that the data
 * folder keeps they show whether a log is the one of the folder, and all of it. REACHED has
 * `tickreac` (8 bytes), the id (16), the offset after the last record (8) and CRC-32C (4).
 *
 *     log_home_init(&log, "data");
 *     log.has_id = ...                                        which log the folder has had
 *     log_home_make(&log, 1, &error);                         a new folder
 *     log_home_open(&log, LOG_FILES_OPEN, begin, &error);     or one that has a log
 *     log_home_adopt(&log);                                   log.id is to be kept
 *     log_home_append(&log, records, count, &error);
 *
 * Damage     Without `skips_damage` it is refused: ERROR_CORRUPT, with what can be done. With it
 *            what is intact is used, and has_loss, loss and lost say what it cost.
 * Errors     As log_files.h says.
 * Threads    One owner; log_home_append from one thread at a time.
 */
#ifndef TICKWHEEL_LOG_FILES_LOG_HOME_H
#define TICKWHEEL_LOG_FILES_LOG_HOME_H

#include "log/files/log_files.h"

#define LOG_HOME_FOLDER  "log"
#define LOG_HOME_REACHED "REACHED"

struct log_home {
    const char *home; /* path of the data folder; borrowed */
    uint64_t segment_bytes;
    enum log_files_sync sync;
    bool skips_damage;
    /* disk for the log's files; NULL means that of the operating system */
    const struct disk_calls *disk;
    uint64_t end_min; /* lower bound of the log's end, which the tables know; 0 if unknown */
    bool has_id;
    uint8_t id[LOG_ID_SIZE]; /* id of the log that belongs to the folder */

    struct log_files *files; /* NULL if no log is open */
    int reached;             /* descriptor of REACHED; -1 if it is not open */

    bool has_loss; /* records were lost and skipped; `loss` says why */
    struct error loss;
    /* number of appends that a power cut made incomplete; they were not acknowledged */
    uint64_t torn;
    uint64_t lost; /* number of lost records */
};

void log_home_init(struct log_home *log, const char *home);

/* Makes a new log, which replaces any that is there. */
enum error_code log_home_make(struct log_home *log, uint64_t begin, struct error *ret_error);

/* Returns ERROR_CORRUPT if there is a log with records although the folder has no log. */
enum error_code log_home_check_unused(const struct log_home *log, struct error *ret_error);

/* Opens the folder's log, whose records from `begin` on are needed. `mode` is LOG_FILES_OPEN or
 * LOG_FILES_READ. A lost log is replaced by a new one. */
enum error_code log_home_open(struct log_home *log, enum log_files_mode mode, uint64_t begin,
                              struct error *ret_error);

/* Returns ERROR_CORRUPT with the text of `cause`, and what can be done about it. */
enum error_code log_home_refuse(const struct error *cause, struct error *ret_error);

/* Makes the open log that of the folder: sets the id, and begins to write REACHED. Returns true if
 * the id has changed. */
bool log_home_adopt(struct log_home *log);

/* Appends as log_files_append, and writes the offset that the log has reached. */
enum error_code log_home_append(struct log_home *log, struct log_record *records, size_t count,
                                struct error *ret_error);

/* Closes the log, if one is open. */
void log_home_close(struct log_home *log);

#endif
