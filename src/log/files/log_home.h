/*
 * log_home.h - the log of a data folder: its files (log_files.h) in the folder `log`, and beside
 * them the file REACHED, which says how far the log had come. Together with the id that the data
 * folder keeps they show whether a log is the one of the folder, and all of it.
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
    const char *home; /* the data folder; borrowed */
    uint64_t segment_bytes;
    enum log_files_sync sync;
    bool skips_damage;
    const struct disk_calls *disk; /* disk of the log's files; NULL for the operating system's */
    uint64_t end_min;              /* lower bound of the log's end, by the tables; 0 if unknown */
    bool has_id;
    uint8_t id[LOG_ID_SIZE]; /* of the log that belongs to the folder */

    struct log_files *files; /* NULL: none is open */
    int reached;             /* descriptor of REACHED; -1: none */

    bool has_loss; /* records are lost, and were passed over; the text says why */
    struct error loss;
    uint64_t torn; /* appends that a power cut tore: they were not acknowledged */
    uint64_t lost; /* records */
};

void log_home_init(struct log_home *log, const char *home);

/* Begins a log in place of any that is there. */
enum error_code log_home_make(struct log_home *log, uint64_t begin, struct error *ret_error);

/* Refuses a log that holds records, where none belongs to the folder: ERROR_CORRUPT. */
enum error_code log_home_check_unused(const struct log_home *log, struct error *ret_error);

/* Opens the log of the folder, from which the records from `begin` on are needed. `mode` is
 * LOG_FILES_OPEN or LOG_FILES_READ. Another one begins in place of one that is lost. */
enum error_code log_home_open(struct log_home *log, enum log_files_mode mode, uint64_t begin,
                              struct error *ret_error);

/* Reading has met damage: opens the log again from `begin` on, with what is intact. Refused without
 * skips_damage. `ret_error` may be `cause`. */
enum error_code log_home_open_rest(struct log_home *log, uint64_t begin, const struct error *cause,
                                   struct error *ret_error);

/* Refuses damage: the text is that of `cause` with what can be done. */
enum error_code log_home_refuse(const struct error *cause, struct error *ret_error);

/* The open log becomes that of the folder: sets the id, and begins to write REACHED. True: the id
 * is another one than before. */
bool log_home_adopt(struct log_home *log);

/* log_files_append; and notes how far the log has come. */
enum error_code log_home_append(struct log_home *log, struct log_record *records, size_t count,
                                struct error *ret_error);

/* Fine when none is open. */
void log_home_close(struct log_home *log);

#endif
