/* log_home.c - the log of a data folder; see log_home.h. */
#include "log/files/log_home.h"

#include "base/checksum.h"
#include "sys/disk.h"
#include "sys/files.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    SEGMENTS_KEPT = 8, /* about as many segments as a flush of the tables allows to drop */
    REACHED_SIZE = 36,
};

#define REACHED_MARK BYTES("tickreac")

void log_home_init(struct log_home *log, const char *home)
{
    *log = (struct log_home){.home = home, .reached = -1};
}

static enum error_code log_home_path(const struct log_home *log, const char *name,
                                     char ret_path[PATH_MAX], struct error *ret_error)
{
    if ((size_t)snprintf(ret_path, PATH_MAX, "%s/%s", log->home, name) >= PATH_MAX)
        return error_set(ret_error, ERROR_IO, "a path of %zu bytes", strlen(log->home));
    return ERROR_NONE;
}

/* ---- how far the log had come ---- */

/* REACHED is a file with the offset that the log has reached. It is written in place, and not
 * synced after each append. So its offset is never beyond the end of the log, and after a process
 * has ended it is exact. The file is outside of the log's folder, so an older copy of the log does
 * not contain it. A damaged file counts as unknown. */

static void log_home_encode_reached(const struct log_home *log, uint64_t end, char to[REACHED_SIZE])
{
    memcpy(to, REACHED_MARK.data, 8);
    memcpy(to + 8, log->id, LOG_ID_SIZE);
    put_le(to + 24, end, 8);
    put_le(to + 32, checksum_crc32c(0, to, 32), 4);
}

/* Reads the offset that this folder's log had reached; 0 if unknown. */
static uint64_t log_home_read_reached(const struct log_home *log)
{
    char path[PATH_MAX];
    struct buffer text;
    uint64_t end = 0;

    if (!log->has_id || log_home_path(log, LOG_HOME_REACHED, path, NULL))
        return 0;
    buffer_init(&text);
    if (!files_read_regular(path, REACHED_SIZE, &text, NULL) && text.size == REACHED_SIZE &&
        bytes_has_prefix(buffer_bytes(&text), REACHED_MARK) &&
        get_le(text.data + 32, 4) == checksum_crc32c(0, text.data, 32) &&
        memcmp(text.data + 8, log->id, LOG_ID_SIZE) == 0)
        end = get_le(text.data + 24, 8);
    buffer_deinit(&text);
    return end;
}

static void log_home_write_reached(const struct log_home *log, uint64_t end)
{
    char text[REACHED_SIZE];

    if (log->reached < 0)
        return;
    log_home_encode_reached(log, end, text);
    disk_system()->write(disk_system(), log->reached, 0, (struct bytes){text, sizeof(text)});
}

/* Opens REACHED. If it exists it is written in place, because a full disk has no room for another
 * file. If that fails, the next start cannot check the end of the log. */
static void log_home_open_reached(struct log_home *log, uint64_t end)
{
    const struct disk_calls *disk = disk_system();
    char path[PATH_MAX], text[REACHED_SIZE];
    uint64_t size = 0;

    if (log->reached >= 0)
        disk->close(disk, log->reached);
    log->reached = -1;
    if (log_home_path(log, LOG_HOME_REACHED, path, NULL))
        return;
    log_home_encode_reached(log, end, text);
    for (int tries = 0; tries < 2 && log->reached < 0; tries++) {
        if (tries > 0 && files_write(path, (struct bytes){text, sizeof(text)}, NULL))
            return;
        if (disk->open(disk, path, DISK_WRITE, &log->reached))
            log->reached = -1;
        else if (disk->size(disk, log->reached, &size) || size != REACHED_SIZE) {
            disk->close(disk, log->reached);
            log->reached = -1;
        }
    }
    log_home_write_reached(log, end);
}

bool log_home_adopt(struct log_home *log)
{
    struct log_files_stats stats;

    log_files_get_stats(log->files, &stats);
    const bool is_same = log->has_id && memcmp(log->id, stats.id, sizeof(stats.id)) == 0;
    log->has_id = true;
    memcpy(log->id, stats.id, sizeof(stats.id));
    /* While the log has no records, REACHED says nothing. */
    log_home_open_reached(log, stats.end > stats.first ? stats.end : 0);
    return !is_same;
}

/* ---- opening ---- */

enum error_code log_home_refuse(const struct error *cause, struct error *ret_error)
{
    const struct error copy = *cause;

    return error_set(ret_error, ERROR_CORRUPT,
                     "%.150s; restore a backup, or set storage_damage = skip to start without what "
                     "it cost",
                     copy.text);
}

static void log_home_note_loss(struct log_home *log, const struct error *cause)
{
    log->has_loss = true;
    log->loss = *cause;
}

static enum error_code log_home_open_files(struct log_home *log, enum log_files_mode mode,
                                           uint64_t begin, struct error *ret_error)
{
    const bool is_made = mode == LOG_FILES_MAKE;
    const uint64_t reached = is_made ? 0 : log_home_read_reached(log);
    struct error cause = {.text = ""};
    char path[PATH_MAX];
    enum error_code code = log_home_path(log, LOG_HOME_FOLDER, path, ret_error);
    struct log_files_options options = {
        .folder = path,
        .segment_bytes = log->segment_bytes,
        .segments_kept = SEGMENTS_KEPT,
        .begin = begin,
        .id = !is_made && log->has_id ? log->id : NULL,
        .reached = is_made || reached > log->end_min ? reached : log->end_min,
        .mode = mode,
        .sync = log->sync,
        .disk = log->disk,
        .damage =
            log->has_loss && log->skips_damage ? LOG_FILES_DAMAGE_SKIP : LOG_FILES_DAMAGE_REFUSE,
    };

    if (code)
        return code;
    code = log_files_open(&options, &log->files, &cause);
    if (code == ERROR_CORRUPT && log->skips_damage) {
        options.damage = LOG_FILES_DAMAGE_SKIP;
        log_home_note_loss(log, &cause);
        code = log_files_open(&options, &log->files, &cause);
    } else if (code == ERROR_CORRUPT) {
        return log_home_refuse(&cause, ret_error);
    }
    if (code) {
        if (ret_error)
            *ret_error = cause;
        return code;
    }
    struct log_files_stats stats;
    log_files_get_stats(log->files, &stats);
    log->torn += stats.torn;
    return ERROR_NONE;
}

enum error_code log_home_make(struct log_home *log, uint64_t begin, struct error *ret_error)
{
    char path[PATH_MAX];
    const enum error_code code = log_home_path(log, LOG_HOME_FOLDER, path, ret_error);

    if (code)
        return code;
    log_files_close(log->files);
    log->files = NULL;
    /* left by a start that was killed before the tables had the log's id */
    files_remove_folder(path);
    return log_home_open_files(log, LOG_FILES_MAKE, begin, ret_error);
}

/* True if a log has records. If it cannot be opened, it counts as unfinished and so as unused. */
static bool log_home_is_used(const struct log_home *log, const char *path)
{
    const struct log_files_options options = {
        .folder = path, .mode = LOG_FILES_READ, .disk = log->disk};
    struct log_files *files;

    if (!files_exists(path) || log_files_open(&options, &files, NULL))
        return false;
    const bool is_used = log_files_end(files) > log_files_first(files);
    log_files_close(files);
    return is_used;
}

enum error_code log_home_check_unused(const struct log_home *log, struct error *ret_error)
{
    char path[PATH_MAX];
    const enum error_code code = log_home_path(log, LOG_HOME_FOLDER, path, ret_error);

    if (code || !log_home_is_used(log, path))
        return code;
    return error_set(ret_error, ERROR_CORRUPT,
                     "%.150s holds writes of tables that are not here; restore a backup", path);
}

/* Begins a log that replaces a lost one, and counts the records that only the lost one had. No
 * offset of the tables is used again. */
static enum error_code log_home_replace(struct log_home *log, uint64_t begin,
                                        struct error *ret_error)
{
    const uint64_t reached = log_home_read_reached(log);

    if (reached > begin)
        log->lost += reached - begin;
    return log_home_make(log, begin > log->end_min ? begin : log->end_min, ret_error);
}

/* Opens the log that should be there. If it is missing, or belongs to another folder, none of its
 * records are used. */
enum error_code log_home_open(struct log_home *log, enum log_files_mode mode, uint64_t begin,
                              struct error *ret_error)
{
    struct error cause = {.text = ""};
    char path[PATH_MAX];
    enum error_code code = log_home_path(log, LOG_HOME_FOLDER, path, ret_error);

    if (code)
        return code;
    if (files_exists(path)) {
        code = log_home_open_files(log, mode, begin, &cause);
        if (!code || code != ERROR_CORRUPT || !log->skips_damage) {
            if (code && ret_error)
                *ret_error = cause;
            return code;
        }
    } else {
        error_set(&cause, ERROR_CORRUPT, "%.150s is missing: it held writes that were acknowledged",
                  path);
    }
    log_home_note_loss(log, &cause);
    return log->skips_damage ? log_home_replace(log, begin, ret_error)
                             : log_home_refuse(&cause, ret_error);
}

/* ---- use ---- */

enum error_code log_home_append(struct log_home *log, struct log_record *records, size_t count,
                                struct error *ret_error)
{
    const enum error_code code = log_files_append(log->files, records, count, ret_error);

    if (!code)
        log_home_write_reached(log, records[count - 1].offset + 1);
    return code;
}

void log_home_close(struct log_home *log)
{
    log_files_close(log->files);
    log->files = NULL;
    if (log->reached >= 0)
        disk_system()->close(disk_system(), log->reached);
    log->reached = -1;
}
