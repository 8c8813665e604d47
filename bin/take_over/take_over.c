/* take_over.c - tickwheel-take-over: gives a data folder of format 9, whose tables RocksDB keeps,
 * the store on a wheel. Everything is kept: see take_fill.h for the records, and take_folder.h for
 * the files. */
#include "cluster/replay.h"
#include "sys/clock.h"
#include "sys/files.h"
#include "sys/process.h"
#include "take_fill.h"
#include "take_folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAKE_DONE = 0, TAKE_FAILED = 1, TAKE_USAGE = 2 };

enum { TAKE_FILES = 4096 }; /* descriptors that are asked for: each run has one, of 160 MiB */

/* The new store takes about what the tables take, a quarter more at most, and this. */
#define TAKE_ROOM_BYTES (UINT64_C(64) << 20)

struct take_job {
    const char *folder;
    char fresh[PATH_MAX]; /* folder of the new store */
    enum take_damage damage;
    struct folder_identity identity;
    struct take_tables *tables;
    struct take_fill *fill;
};

/* Files that root makes would be of no use to the daemon: goes on as the owner of the folder. */
static enum error_code take_over_become_owner(const char *folder, struct error *ret_error)
{
    struct stat info;

    if (stat(folder, &info) != 0)
        return error_set(ret_error, ERROR_IO, "%.200s: there is no such folder", folder);
    if (geteuid() != 0 || info.st_uid == 0)
        return ERROR_NONE;
    return setegid(info.st_gid) == 0 && seteuid(info.st_uid) == 0
               ? ERROR_NONE
               : error_set(ret_error, ERROR_IO, "cannot go on as the owner of %.150s", folder);
}

static enum error_code take_over_check_room(const struct take_job *job, struct error *ret_error)
{
    const uint64_t tables = take_tables_bytes(job->tables);
    const uint64_t wanted = tables + tables / 4 + TAKE_ROOM_BYTES;
    uint64_t has = 0;
    const enum error_code code = files_free_bytes(job->folder, &has, ret_error);

    if (code || has >= wanted)
        return code;
    return error_set(ret_error, ERROR_DISK_FULL,
                     "the disk of %.100s has %" PRIu64 " MiB free, and this needs %" PRIu64
                     " MiB: nothing was changed",
                     job->folder, has >> 20, (wanted >> 20) + 1);
}

struct take_walk {
    struct take_fill *fill;
    enum take_table table;
};

static enum error_code take_over_visit(void *context, struct bytes key, struct bytes value,
                                       struct error *ret_error)
{
    const struct take_walk *walk = context;

    return take_fill_add(walk->fill, walk->table, key, value, ret_error);
}

/* Makes the new store, and writes all records into it. */
static enum error_code take_over_fill(struct take_job *job, struct error *ret_error)
{
    uint64_t format, partitions = 0;
    enum error_code code = take_tables_number(job->tables, BYTES("format"), &format, ret_error);

    if (!code && format != TAKE_FORMAT)
        code = error_set(ret_error, ERROR_INVALID, "the tables of %.100s have format %" PRIu64,
                         job->folder, format);
    if (!code)
        code = take_tables_number(job->tables, BYTES("partitions"), &partitions, ret_error);
    if (!code && (partitions == 0 || partitions > UINT16_MAX))
        code = error_set(ret_error, ERROR_CORRUPT, "%.100s has %" PRIu64 " partitions", job->folder,
                         partitions);
    if (!code)
        code = take_fill_open(job->fresh, (uint16_t)partitions, job->identity.cluster, &job->fill,
                              ret_error);
    for (enum take_table table = 0; table < TAKE_TABLE_COUNT && !code; table++)
        code = take_tables_walk(job->tables, table, take_over_visit,
                                &(struct take_walk){job->fill, table}, ret_error);
    return code ? code : take_fill_end(job->fill, job->damage, ret_error);
}

/* Refuses a log that is not the one of the folder, or that begins after the tables: older ones
 * were put back. */
static enum error_code take_over_check_log(const struct take_job *job, struct storage *storage,
                                           uint16_t partition_count, struct error *ret_error)
{
    struct log_local_options options = {.home = job->folder,
                                        .partition_count = partition_count,
                                        .mode = LOG_FILES_READ,
                                        .has_id = true};
    struct log_local *local;

    if (!job->identity.has_log)
        return ERROR_NONE;
    memcpy(options.id, job->identity.log_id, sizeof(options.id));
    enum error_code code =
        replay_bounds(storage, partition_count, &options.begin, &options.reached, ret_error);
    if (!code)
        code = log_local_open(&options, &local, ret_error);
    if (!code)
        log_local_close(local);
    return code;
}

/* Reads everything back. */
static enum error_code take_over_compare(struct take_job *job, struct error *ret_error)
{
    struct storage *storage;
    enum error_code code = take_fill_compare(job->fill, &storage, ret_error);

    if (code)
        return code;
    code =
        take_over_check_log(job, storage, take_fill_report(job->fill).partition_count, ret_error);
    storage_close(storage);
    return code;
}

static enum error_code take_over_build(struct take_job *job, struct error *ret_error)
{
    char mended[PATH_MAX];
    enum error_code code = take_folder_path(job->folder, FOLDER_DAMAGED_NAME, mended, ret_error);

    if (!code)
        code = take_folder_look(job->folder, ret_error);
    if (!code)
        code = take_folder_clear(job->folder, ret_error);
    if (!code)
        code = take_tables_open(job->folder,
                                files_exists(mended) ? TAKE_TABLES_MENDED : TAKE_TABLES_WHOLE,
                                &job->tables, ret_error);
    if (!code)
        code = take_over_check_room(job, ret_error);
    if (!code)
        code = take_over_fill(job, ret_error);
    if (!code)
        code = take_over_compare(job, ret_error);
    return code;
}

static void take_over_print(const struct take_job *job, double seconds)
{
    const struct take_report report = take_fill_report(job->fill);

    printf("%s: %" PRIu64 " timers taken over in %.1f s (%.0f a second): %" PRIu64
           " live ones, %" PRIu64 " ended ones\n",
           job->folder, report.rows, seconds, (double)report.rows / seconds, report.live,
           report.rows - report.live);
    if (report.aside)
        printf("%" PRIu64 " damaged records stay set aside\n", report.aside);
    if (report.missing)
        printf("%" PRIu64 " live timers are missing: they were lost before\n", report.missing);
}

static void take_over_print_left(const char *folder)
{
    printf("The files of RocksDB are in %s/" TAKE_OLD_FOLDER
           ". Nothing reads them: remove %s/" FOLDER_TAKEN_NAME " when the new version runs.\n",
           folder, folder);
}

/* Ends what an earlier run had begun; or there is nothing to do. */
static enum error_code take_over_end(const char *folder, struct error *ret_error)
{
    char left[PATH_MAX];
    enum error_code code = take_folder_path(folder, FOLDER_TAKEN_NAME, left, ret_error);
    const bool is_left = !code && files_exists(left);

    if (is_left)
        code = take_folder_finish(folder, ret_error);
    if (!code)
        printf("%s has the format of this version.\n", folder);
    if (!code && is_left)
        take_over_print_left(folder);
    return code;
}

/* The caller has locked the folder. */
static enum error_code take_over_run(struct take_job *job, struct error *ret_error)
{
    const struct instant begin = instant_now();
    enum take_state state = TAKE_STATE_OLD;
    char mark[PATH_MAX];

    enum error_code code = take_folder_path(job->folder, "RESTORING", mark, ret_error);
    if (!code && files_exists(mark))
        code = error_set(ret_error, ERROR_CORRUPT,
                         "%.150s: a restore into it did not end; repeat that first", job->folder);
    if (!code)
        code = take_folder_identify(job->folder, &state, &job->identity, ret_error);
    if (!code && state == TAKE_STATE_TAKEN)
        return take_over_end(job->folder, ret_error);
    if (!code)
        code = take_folder_path(job->folder, TAKE_NEW_FOLDER, job->fresh, ret_error);
    if (!code && (code = take_over_build(job, ret_error))) {
        files_remove_folder(job->fresh);
        if (!take_folder_path(job->folder, FOLDER_TAKEN_NAME, mark, NULL))
            rmdir(mark); /* if it is empty */
    }
    take_tables_close(job->tables);
    if (!code)
        code = take_folder_replace(job->folder, &job->identity, ret_error);
    if (!code)
        code = take_folder_finish(job->folder, ret_error);
    if (!code) {
        take_over_print(job, (double)(instant_now().ns - begin.ns) / 1e9);
        take_over_print_left(job->folder);
    }
    take_fill_close(job->fill);
    return code;
}

int main(int argc, char **argv)
{
    struct take_job job = {.folder = argc > 1 ? argv[argc - 1] : NULL};
    struct error error = {.text = ""};
    int lock;

    if (argc == 3 && strcmp(argv[1], "--accept-loss") == 0)
        job.damage = TAKE_DAMAGE_ACCEPT;
    else if (argc != 2 || !*job.folder || *job.folder == '-') {
        fprintf(stderr, "usage: tickwheel-take-over [--accept-loss] FOLDER\n"
                        "Takes over a data folder of format 9 for this version of tickwheeld.\n");
        return TAKE_USAGE;
    }
    process_raise_file_limit(TAKE_FILES);
    enum error_code code = take_over_become_owner(job.folder, &error);
    if (!code)
        code = files_lock_folder(job.folder, FILES_LOCK_EXCLUSIVE, &lock, &error);
    if (!code) {
        code = take_over_run(&job, &error);
        files_unlock(lock);
    }
    if (!code)
        return fflush(stdout) == 0 ? TAKE_DONE : TAKE_FAILED;
    fprintf(stderr, "tickwheel-take-over: %s\n", error.text);
    return TAKE_FAILED;
}
