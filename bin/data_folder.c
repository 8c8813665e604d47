/* data_folder.c - the place of the data folder, and a restore into it. */
#include "steps.h"

#include "delivery_log/delivery_log.h"
#include "store/folder.h"
#include "sys/files.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* A file that marks a folder whose restore has not ended. It is the first file of the folder to be
 * made and the last to be removed. So a restore takes effect in one step, even if it is
 * interrupted. */
#define DATA_FOLDER_MARK "RESTORING"

enum { DATA_FOLDER_RESTORED = 0, DATA_FOLDER_FAILED = 2 };

static enum error_code data_folder_join(const char *folder, const char *name,
                                        char ret_path[PATH_MAX], struct error *ret_error)
{
    if ((size_t)snprintf(ret_path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
        return error_set(ret_error, ERROR_IO, "%s: the path is too long", folder);
    return ERROR_NONE;
}

/* ---- stores in the wrong place ---- */

/* Splits a path into the folder above and the last name: "." and "data" for both "./data/" and
 * "data". */
static void data_folder_split(const char *folder, char ret_above[PATH_MAX], char ret_name[PATH_MAX])
{
    size_t size = strlen(folder);

    while (size > 1 && folder[size - 1] == '/')
        size--;
    size_t start;
    for (start = size; start > 0 && folder[start - 1] != '/'; start--)
        continue;
    snprintf(ret_name, PATH_MAX, "%.*s", (int)(size - start), folder + start);
    while (start > 1 && folder[start - 1] == '/')
        start--;
    snprintf(ret_above, PATH_MAX, "%.*s", (int)start, start ? folder : ".");
    if (start == 0)
        snprintf(ret_above, PATH_MAX, ".");
}

static bool data_folder_has_store(const char *folder)
{
    char state[PATH_MAX];

    return !data_folder_join(folder, FOLDER_STATE_NAME, state, NULL) && files_exists(state);
}

/* A search of a folder for folders that hold a store. */
struct data_folder_search {
    const char *folder, *prefix; /* `prefix` is that of the names to examine */
    char found[PATH_MAX];        /* the folder that was found; empty if none was */
};

static bool data_folder_look(void *context, const struct files_entry *entry)
{
    struct data_folder_search *search = context;
    char path[PATH_MAX];

    if (!entry->is_folder || strncmp(entry->name, search->prefix, strlen(search->prefix)) != 0 ||
        data_folder_join(search->folder, entry->name, path, NULL) || !data_folder_has_store(path))
        return true;
    memcpy(search->found, path, sizeof(path));
    return false;
}

enum error_code data_folder_check(const char *folder, struct error *ret_error)
{
    char above[PATH_MAX], name[PATH_MAX], mark[PATH_MAX];
    struct data_folder_search within = {.folder = folder, .prefix = ""};
    struct data_folder_search beside = {.folder = above, .prefix = name};
    const char *found = within.found;
    enum error_code code = data_folder_join(folder, DATA_FOLDER_MARK, mark, ret_error);

    if (code)
        return code;
    if (files_exists(mark))
        return error_set(ret_error, ERROR_CORRUPT,
                         "%s: a restore into it did not end; repeat it: --restore BACKUP", folder);
    if (data_folder_has_store(folder))
        return ERROR_NONE;
    if (files_look_for(mark) == FILES_HIDDEN)
        return error_set(ret_error, ERROR_IO,
                         "data_folder: this user may not look into %.150s: run tickwheeld as the "
                         "owner of the folder",
                         folder);
    data_folder_split(folder, above, name);
    code = files_list(folder, data_folder_look, &within, ret_error);
    if (code && files_look_for(folder) != FILES_ABSENT)
        return code;
    if (!*found)
        files_list(above, data_folder_look, &beside, NULL);
    if (!*found)
        found = data_folder_has_store(above) ? above : beside.found;
    return *found ? error_set(ret_error, ERROR_INVALID,
                              "data_folder: %.80s is empty, but there is a store in %.80s; "
                              "restore it (--restore), set data_folder to it, or move it away",
                              folder, found)
                  : ERROR_NONE;
}

/* ---- restore ---- */

/* State of a restore. */
struct data_folder_copy {
    const char *backup, *folder;
    uint64_t bytes;
    struct error *error;
    enum error_code code;
};

static bool data_folder_clear_one(void *context, const struct files_entry *entry)
{
    struct data_folder_copy *copy = context;

    if (strcmp(entry->name, DATA_FOLDER_MARK) == 0 || entry->is_folder)
        return true;
    char path[PATH_MAX];
    copy->code = data_folder_join(copy->folder, entry->name, path, copy->error);
    if (!copy->code)
        copy->code = files_remove(path, copy->error);
    return !copy->code;
}

/* True for a folder that has no part of the timers, so that a restore omits it. */
static bool data_folder_is_beside(const struct files_entry *entry)
{
    return strcmp(entry->name, "lost+found") == 0 ||
           strcmp(entry->name, DELIVERY_LOG_FOLDER) == 0 ||
           strcmp(entry->name, FOLDER_TAKEN_NAME) == 0;
}

/* Refuses a backup that contains another folder: only a single node's data folder has one, for its
 * log. */
static bool data_folder_refuse_folder(void *context, const struct files_entry *entry)
{
    struct data_folder_copy *copy = context;

    if (entry->is_folder && !data_folder_is_beside(entry))
        copy->code = error_set(copy->error, ERROR_INVALID,
                               "%s/%s is a folder, and a backup has none; copy this one by hand",
                               copy->backup, entry->name);
    return !copy->code;
}

static bool data_folder_copy_one(void *context, const struct files_entry *entry)
{
    struct data_folder_copy *copy = context;
    char from[PATH_MAX], to[PATH_MAX];

    if (entry->is_folder)
        return true; /* it has no part of the timers */
    if (!(copy->code = data_folder_join(copy->backup, entry->name, from, copy->error)) &&
        !(copy->code = data_folder_join(copy->folder, entry->name, to, copy->error)))
        copy->code = files_copy(from, to, copy->error);
    copy->bytes += entry->bytes;
    return !copy->code;
}

/* Refuses any entry, except lost+found, which an empty file system has. */
static bool data_folder_see_one(void *context, const struct files_entry *entry)
{
    bool *has_files = context;

    *has_files = strncmp(entry->name, DATA_FOLDER_MARK, strlen(DATA_FOLDER_MARK)) != 0 &&
                 strcmp(entry->name, "lost+found") != 0;
    return !*has_files;
}

/* Marks the folder, which must be empty or marked already. */
static enum error_code data_folder_begin(const char *folder, const char *mark,
                                         struct error *ret_error)
{
    enum error_code code = files_make_folder(folder, ret_error);
    bool has_files = false;

    if (!code && !files_exists(mark))
        code = files_list(folder, data_folder_see_one, &has_files, ret_error);
    if (!code && has_files)
        code = error_set(ret_error, ERROR_INVALID,
                         "%.80s is not empty: stop the daemon and move it away first: "
                         "mv %.60s %.60s.old",
                         folder, folder, folder);
    return code
               ? code
               : files_write(mark, BYTES("A restore into this folder has not ended.\n"), ret_error);
}

/* Refuses a backup whose files may be from different moments. */
static enum error_code data_folder_check_sealed(const char *backup, struct error *ret_error)
{
    char path[PATH_MAX];
    const enum error_code code = data_folder_join(backup, FOLDER_CLOSED_NAME, path, ret_error);

    if (code || files_exists(path))
        return code;
    return error_set(ret_error, ERROR_INVALID,
                     "%.200s is neither a backup nor a data folder that was stopped cleanly",
                     backup);
}

/* Copies all files. Meanwhile the folder is locked, so that no daemon starts on it. */
static enum error_code data_folder_copy_files(struct data_folder_copy *copy, const char *mark)
{
    int backup_lock;

    enum error_code code =
        files_lock_folder(copy->backup, FILES_LOCK_SHARED, &backup_lock, copy->error);
    if (code)
        return code;
    if (!data_folder_has_store(copy->backup))
        code = error_set(copy->error, ERROR_INVALID, "%s is no data folder", copy->backup);
    struct folder_identity identity;
    if (!code)
        code = folder_identify(copy->backup, &identity, copy->error);
    if (!code)
        code = data_folder_check_sealed(copy->backup, copy->error);
    if (!code) /* checks before anything is written */
        code = files_list(copy->backup, data_folder_refuse_folder, copy, copy->error);
    if (!code)
        code = copy->code;
    if (!code)
        code = data_folder_begin(copy->folder, mark, copy->error);
    int lock;
    if (!code)
        code = files_lock_folder(copy->folder, FILES_LOCK_EXCLUSIVE, &lock, copy->error);
    if (!code) {
        code = files_list(copy->folder, data_folder_clear_one, copy, copy->error);
        if (!code && !copy->code)
            code = files_list(copy->backup, data_folder_copy_one, copy, copy->error);
        if (!code && !copy->code)
            code = files_give_folder(copy->folder, copy->error);
        files_unlock(lock);
    }
    files_unlock(backup_lock);
    return copy->code ? copy->code : code;
}

int data_folder_restore(const char *backup, const char *folder)
{
    struct error error = {.text = ""};
    struct data_folder_copy copy = {.backup = backup, .folder = folder, .error = &error};
    char mark[PATH_MAX];

    if (data_folder_join(folder, DATA_FOLDER_MARK, mark, &error) ||
        data_folder_copy_files(&copy, mark)) {
        fprintf(stderr, "tickwheeld: restore: %s\n", error.text);
        return DATA_FOLDER_FAILED;
    }
    int checked = check_data(folder, CHECK_PRINTS_LINES);
    if (checked) {
        fprintf(stderr,
                "tickwheeld: restore: the copy of %s is not valid, and no daemon starts on %s; "
                "restore another backup\n",
                backup, folder);
        return checked;
    }
    if (files_remove(mark, &error)) {
        fprintf(stderr, "tickwheeld: restore: %s\n", error.text);
        return DATA_FOLDER_FAILED;
    }
    printf("%s: restored from %s\n", folder, backup);
    return fflush(stdout) == 0 ? DATA_FOLDER_RESTORED : DATA_FOLDER_FAILED;
}
