/* backup_record.c - a kill after any step leaves either a whole backup or a note by which the rest
 * is removed later; see backup_record.h. */
#include "node/backup_record.h"

#include "calendar/rfc3339.h"
#include "store/folder.h"
#include "sys/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BACKUP_PARTIAL_END ".tmp"

void backup_name(struct wall at, char ret_name[BACKUP_NAME_SIZE])
{
    const time_t seconds = (time_t)(at.ms / 1000);
    struct tm parts;

    gmtime_r(&seconds, &parts);
    strftime(ret_name, BACKUP_NAME_SIZE, "%Y%m%dT%H%M%SZ", &parts);
}

/* Returns WALL_NEVER if it is not the name of a backup. */
static struct wall backup_record_time_of(const char *name)
{
    char text[24], again[BACKUP_NAME_SIZE];
    struct wall at;

    if (strlen(name) != BACKUP_NAME_SIZE - 1)
        return WALL_NEVER;
    snprintf(text, sizeof(text), "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", name, name + 4, name + 6,
             name + 9, name + 11, name + 13);
    if (rfc3339_parse(bytes_of(text), &at, NULL))
        return WALL_NEVER;
    backup_name(at, again);
    return strcmp(again, name) == 0 ? at : WALL_NEVER;
}

/* Joins FOLDER/FIRST SECOND THIRD. */
static enum error_code backup_record_join(const char *folder, const char *first, const char *second,
                                          const char *third, char ret_path[PATH_MAX],
                                          struct error *ret_error)
{
    if ((size_t)snprintf(ret_path, PATH_MAX, "%s/%s%s%s", folder, first, second, third) >= PATH_MAX)
        return error_set(ret_error, ERROR_IO, "a path of %zu bytes", strlen(folder));
    return ERROR_NONE;
}

static enum error_code backup_record_note(const struct backup_place *place, const char *kind,
                                          const char *name, struct error *ret_error)
{
    char path[PATH_MAX];
    enum error_code code = backup_record_join(place->data, kind, name, "", path, ret_error);

    return code ? code : files_write(path, bytes_of(place->backups), ret_error);
}

static enum error_code backup_record_forget(const char *data, const char *kind, const char *name,
                                            struct error *ret_error)
{
    char path[PATH_MAX];
    enum error_code code = backup_record_join(data, kind, name, "", path, ret_error);

    return code ? code : files_remove(path, ret_error);
}

/* Reads the folder of backups that a note has. */
static bool backup_record_read(const char *data, const char *kind, const char *name,
                               char ret_folder[PATH_MAX])
{
    struct buffer text;
    bool is_read = !backup_record_join(data, kind, name, "", ret_folder, NULL);

    buffer_init(&text);
    is_read = is_read && !files_read_regular(ret_folder, PATH_MAX - 1, &text, NULL) && text.size &&
              !memchr(text.data, '\0', text.size);
    if (is_read) {
        memcpy(ret_folder, text.data, text.size);
        ret_folder[text.size] = '\0';
    }
    buffer_deinit(&text);
    return is_read;
}

/* ---- partial backups ---- */

/* Returns false if something is left. */
static bool backup_record_remove_partial(const char *backups, const char *name)
{
    char path[PATH_MAX];

    if (files_look_for(backups) != FILES_THERE ||
        backup_record_join(backups, name, BACKUP_PARTIAL_END, "", path, NULL))
        return false;
    files_remove_folder(path);
    return files_look_for(path) == FILES_ABSENT;
}

/* True for a note that was being written at a kill: files_write gives it its name last. */
static bool backup_record_is_half(const char *name)
{
    const size_t size = strlen(name);

    return (strncmp(name, FOLDER_PARTIAL_NAME, sizeof(FOLDER_PARTIAL_NAME) - 1) == 0 ||
            strncmp(name, FOLDER_BACKUP_NAME, sizeof(FOLDER_BACKUP_NAME) - 1) == 0) &&
           size > 4 && strcmp(name + size - 4, ".new") == 0;
}

static bool backup_record_clean_one(void *context, const struct files_entry *entry)
{
    const char *data = context, *name = entry->name + sizeof(FOLDER_PARTIAL_NAME) - 1;
    char backups[PATH_MAX];

    if (backup_record_is_half(entry->name))
        backup_record_forget(data, "", entry->name, NULL);
    if (strncmp(entry->name, FOLDER_PARTIAL_NAME, sizeof(FOLDER_PARTIAL_NAME) - 1) != 0 ||
        backup_record_time_of(name).ms == WALL_NEVER.ms ||
        !backup_record_read(data, FOLDER_PARTIAL_NAME, name, backups))
        return true;
    if (backup_record_remove_partial(backups, name))
        backup_record_forget(data, FOLDER_PARTIAL_NAME, name, NULL);
    return true;
}

void backup_record_clean(const char *data)
{
    files_list(data, backup_record_clean_one, (char *)(uintptr_t)data, NULL);
}

/* ---- making one ---- */

enum error_code backup_record_begin(const struct backup_place *place, const char *name,
                                    char ret_partial[PATH_MAX], struct error *ret_error)
{
    char whole[PATH_MAX];
    enum error_code code = files_make_folder(place->backups, ret_error);

    if (!code)
        code = backup_record_join(place->backups, name, "", "", whole, ret_error);
    if (!code)
        code = backup_record_join(place->backups, name, BACKUP_PARTIAL_END, "", ret_partial,
                                  ret_error);
    if (!code && (files_exists(whole) || files_exists(ret_partial)))
        code = error_set(ret_error, ERROR_BACKUP_EXISTS, "%s is there already", whole);
    return code ? code : backup_record_note(place, FOLDER_PARTIAL_NAME, name, ret_error);
}

enum error_code backup_record_finish(const struct backup_place *place, const char *name,
                                     enum backup_kind kind, struct error *ret_error)
{
    char partial[PATH_MAX], whole[PATH_MAX];
    enum error_code code =
        backup_record_join(place->backups, name, BACKUP_PARTIAL_END, "", partial, ret_error);

    if (!code)
        code = backup_record_join(place->backups, name, "", "", whole, ret_error);
    if (!code && kind == BACKUP_PLANNED)
        code = backup_record_note(place, FOLDER_BACKUP_NAME, name, ret_error);
    if (!code)
        code = files_move_folder(partial, whole, ret_error);
    return code ? code : backup_record_forget(place->data, FOLDER_PARTIAL_NAME, name, ret_error);
}

/* ---- deleting old ones ---- */

struct backup_list {
    const struct backup_place *place;
    struct buffer names; /* of BACKUP_NAME_SIZE bytes each */
};

/* True if the folder has what the last step of a backup writes. */
static bool backup_record_is_whole(const struct backup_place *place, const char *name)
{
    char path[PATH_MAX];

    return !backup_record_join(place->backups, name, "/", FOLDER_CLOSED_NAME, path, NULL) &&
           files_exists(path);
}

static bool backup_record_list_one(void *context, const struct files_entry *entry)
{
    struct backup_list *list = context;
    const char *data = list->place->data, *name = entry->name + sizeof(FOLDER_BACKUP_NAME) - 1;
    char backups[PATH_MAX];

    if (strncmp(entry->name, FOLDER_BACKUP_NAME, sizeof(FOLDER_BACKUP_NAME) - 1) != 0 ||
        backup_record_time_of(name).ms == WALL_NEVER.ms ||
        !backup_record_read(data, FOLDER_BACKUP_NAME, name, backups) ||
        strcmp(backups, list->place->backups) != 0)
        return true;
    if (backup_record_is_whole(list->place, name))
        buffer_append(&list->names, name, BACKUP_NAME_SIZE);
    else if (files_look_for(backups) == FILES_THERE) /* its disk is there, and the backup is not */
        backup_record_forget(data, FOLDER_BACKUP_NAME, name, NULL);
    return true;
}

static int backup_record_compare(const void *left, const void *right)
{
    return strcmp(left, right);
}

/* Lists the planned backups that are whole, the oldest first. The caller frees list->names. */
static enum error_code backup_record_list(struct backup_list *list, struct error *ret_error)
{
    buffer_init(&list->names);
    enum error_code code = files_list(list->place->data, backup_record_list_one, list, ret_error);
    if (!code && buffer_failed(&list->names))
        code = error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    if (!code && list->names.size)
        qsort(list->names.data, list->names.size / BACKUP_NAME_SIZE, BACKUP_NAME_SIZE,
              backup_record_compare);
    return code;
}

static enum error_code backup_record_delete(const struct backup_place *place, const char *name,
                                            struct error *ret_error)
{
    char partial[PATH_MAX], whole[PATH_MAX];
    enum error_code code =
        backup_record_join(place->backups, name, BACKUP_PARTIAL_END, "", partial, ret_error);

    if (!code)
        code = backup_record_join(place->backups, name, "", "", whole, ret_error);
    if (!code)
        code = backup_record_note(place, FOLDER_PARTIAL_NAME, name, ret_error);
    if (code)
        return code;
    code = files_move_folder(whole, partial, ret_error);
    if (code) {
        backup_record_forget(place->data, FOLDER_PARTIAL_NAME, name, NULL);
        return code;
    }
    code = backup_record_forget(place->data, FOLDER_BACKUP_NAME, name, ret_error);
    if (!backup_record_remove_partial(place->backups, name))
        return error_set(ret_error, ERROR_IO, "%s: some of its files cannot be removed", partial);
    return code ? code : backup_record_forget(place->data, FOLDER_PARTIAL_NAME, name, ret_error);
}

enum error_code backup_record_prune(const struct backup_place *place, const char *newest,
                                    uint32_t keep, uint32_t *ret_removed, struct error *ret_error)
{
    struct backup_list list = {.place = place};
    enum error_code code = backup_record_list(&list, ret_error);
    const size_t count = list.names.size / BACKUP_NAME_SIZE;
    uint32_t removed = 0;

    for (size_t i = 0; i < count && !code && count - removed > keep; i++) {
        const char *name = list.names.data + i * BACKUP_NAME_SIZE;

        if (strcmp(name, newest) == 0)
            continue;
        code = backup_record_delete(place, name, ret_error);
        removed += !code;
    }
    buffer_deinit(&list.names);
    *ret_removed = removed;
    return code;
}

struct wall backup_record_latest(const struct backup_place *place)
{
    struct backup_list list = {.place = place};
    struct wall latest = WALL_NEVER;

    if (!backup_record_list(&list, NULL) && list.names.size)
        latest = backup_record_time_of(list.names.data + list.names.size - BACKUP_NAME_SIZE);
    buffer_deinit(&list.names);
    return latest;
}
