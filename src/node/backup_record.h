/*
 * backup_record.h - notes in the data folder on the backups made of it, so that a partial backup is
 * removed, and a planned one is deleted when enough newer ones exist. Nothing else is deleted.
 *
 * A note is a file. Its name ends with the name of the backup; its contents are the folder of
 * backups:
 *
 *     PARTIAL-20261120T235959Z   20261120T235959Z.tmp there is being made or deleted
 *     BACKUP-20261120T235959Z    20261120T235959Z there is whole, and was planned
 *
 * A backup has its name only while it is whole: it is made, and deleted, under the name with
 * `.tmp` at its end.
 *
 * Errors     ERROR_IO with the path and the cause; ERROR_BACKUP_EXISTS; ERROR_NO_MEMORY.
 * Threads    One at a time: that of the start, then that of the running backup.
 */
#ifndef TICKWHEEL_NODE_BACKUP_RECORD_H
#define TICKWHEEL_NODE_BACKUP_RECORD_H

#include "base/error.h"
#include "base/time.h"

#include <limits.h>
#include <stdint.h>

#define BACKUP_NAME_SIZE 17 /* 20261120T235959Z and its NUL */

struct backup_place {
    const char *data;    /* the data folder */
    const char *backups; /* the folder of backups */
};

enum backup_kind {
    BACKUP_ASKED,
    BACKUP_PLANNED, /* may be deleted by backup_record_prune */
};

void backup_name(struct wall at, char ret_name[BACKUP_NAME_SIZE]);

/* Notes that a backup begins. `ret_partial` is the folder to make, whose parents exist.
 * ERROR_BACKUP_EXISTS if there is one of that name. */
enum error_code backup_record_begin(const struct backup_place *place, const char *name,
                                    char ret_partial[PATH_MAX], struct error *ret_error);

/* Gives the backup that was made its name. */
enum error_code backup_record_finish(const struct backup_place *place, const char *name,
                                     enum backup_kind kind, struct error *ret_error);

/* Removes what interrupted and failed backups left, in whichever folder. */
void backup_record_clean(const char *data);

/* Deletes the oldest planned backups in place->backups until `keep` are left; never `newest`. */
enum error_code backup_record_prune(const struct backup_place *place, const char *newest,
                                    uint32_t keep, uint32_t *ret_removed, struct error *ret_error);

/* Returns the time of the newest planned backup that is there; WALL_NEVER if there is none. */
struct wall backup_record_latest(const struct backup_place *place);

#endif
