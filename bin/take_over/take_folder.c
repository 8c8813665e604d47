/* take_folder.c - the files of a data folder while its tables are replaced; see take_folder.h. */
#include "take_folder.h"

#include "base/checksum.h"
#include "base/number.h"
#include "sys/disk.h"
#include "take_tables.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    TAKE_TEXT_BYTES = 64 << 20, /* maximum of CLOSED, enough for a million files */
    TAKE_RUN_NAME_SIZE = 20,    /* size of `run-` and 16 digits */
    TAKE_BLOCK = 32 << 10,      /* size of a block of a manifest */
    TAKE_READ = 1 << 20,
};

#define TAKE_HEAD "tickwheel folder\nformat "

enum error_code take_folder_path(const char *folder, const char *name, char ret_path[PATH_MAX],
                                 struct error *ret_error)
{
    if ((size_t)snprintf(ret_path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
        return error_set(ret_error, ERROR_IO, "a path of %zu bytes", strlen(folder));
    return ERROR_NONE;
}

/* Reads a file of the folder; NOT_FOUND if there is none. */
static enum error_code take_folder_read(const char *folder, const char *name, struct buffer *to,
                                        struct error *ret_error)
{
    char path[PATH_MAX];
    enum error_code code = take_folder_path(folder, name, path, ret_error);

    if (!code && !files_exists(path))
        return error_set(ret_error, ERROR_NOT_FOUND, "%.150s is missing", path);
    return code ? code : files_read_regular(path, TAKE_TEXT_BYTES, to, ret_error);
}

/* ---- FOLDER ---- */

/* Decodes FOLDER of format 9. Its text differs from this version's by the number of the format, and
 * so by the sum, which is the last line. */
static enum error_code take_folder_convert(struct bytes text, struct folder_identity *ret_identity)
{
    const size_t head = sizeof(TAKE_HEAD) - 1, line = sizeof("sum 01234567\n") - 1;
    struct buffer fresh;
    uint64_t sum, format;

    if (text.size < head + line ||
        !number_parse((struct bytes){text.data + text.size - 9, 8}, 16, &sum) ||
        sum != checksum_crc32c(0, text.data, text.size - line))
        return ERROR_CORRUPT;
    struct bytes rest = {text.data + head, text.size - line - head};
    bytes_cut(&rest, '\n'); /* the number */
    buffer_init(&fresh);
    buffer_printf(&fresh, TAKE_HEAD "%d\n%.*s", FOLDER_FORMAT, (int)rest.size, rest.data);
    if (!buffer_failed(&fresh))
        buffer_printf(&fresh, "sum %08x\n", checksum_crc32c(0, fresh.data, fresh.size));
    const enum error_code code =
        buffer_failed(&fresh) ? ERROR_NO_MEMORY
                              : folder_identity_decode(buffer_bytes(&fresh), ret_identity, &format);
    buffer_deinit(&fresh);
    return code;
}

enum error_code take_folder_identify(const char *folder, enum take_state *ret_state,
                                     struct folder_identity *ret_identity, struct error *ret_error)
{
    struct bytes rest, number;
    struct buffer text;
    uint64_t format = 0;

    buffer_init(&text);
    enum error_code code = take_folder_read(folder, FOLDER_IDENTITY_NAME, &text, ret_error);
    if (code == ERROR_NOT_FOUND)
        code = error_set(ret_error, ERROR_INVALID,
                         "%.150s has no file " FOLDER_IDENTITY_NAME
                         ": it is no data folder of format 9",
                         folder);
    rest = buffer_bytes(&text);
    if (!code && bytes_has_prefix(rest, BYTES(TAKE_HEAD))) {
        rest = (struct bytes){rest.data + sizeof(TAKE_HEAD) - 1, rest.size - sizeof(TAKE_HEAD) + 1};
        number = bytes_cut(&rest, '\n');
        code = number_parse(number, 10, &format) ? ERROR_NONE : ERROR_CORRUPT;
    } else if (!code)
        code = ERROR_CORRUPT;
    if (!code && format == TAKE_FORMAT)
        code = take_folder_convert(buffer_bytes(&text), ret_identity);
    else if (!code && format != FOLDER_FORMAT)
        code = error_set(ret_error, ERROR_INVALID,
                         "%.100s has format %llu, and this command takes over format 9. Run "
                         "`tickwheel export` with the version that made it, and import",
                         folder, (unsigned long long)format);
    buffer_deinit(&text);
    *ret_state = format == TAKE_FORMAT ? TAKE_STATE_OLD : TAKE_STATE_TAKEN;
    return code == ERROR_CORRUPT
               ? error_set(ret_error, code,
                           "%.100s/" FOLDER_IDENTITY_NAME " is damaged; restore a backup", folder)
               : code;
}

/* ---- CLOSED ---- */

struct take_listing {
    const char *prefix;  /* of the names of a subfolder */
    struct buffer files; /* struct folder_file */
};

static bool take_folder_list_one(void *context, const struct files_entry *entry)
{
    struct take_listing *listing = context;
    struct folder_file file = {.size = entry->bytes};

    if (!entry->is_folder && (size_t)snprintf(file.name, sizeof(file.name), "%s%s", listing->prefix,
                                              entry->name) < sizeof(file.name))
        buffer_append(&listing->files, &file, sizeof(file));
    return true;
}

static void take_folder_sum_block(void *context, struct bytes block)
{
    uint32_t *sum = context;

    *sum = checksum_crc32c(*sum, block.data, block.size);
}

static enum error_code take_folder_compare(const char *folder, const struct take_listing *listing,
                                           const struct folder_file *closed,
                                           struct error *ret_error)
{
    const struct folder_file *files = (const void *)listing->files.data, *found = NULL;
    char path[PATH_MAX];
    uint32_t sum = 0;
    enum error_code code = take_folder_path(folder, closed->name, path, ret_error);

    for (size_t i = 0; i < listing->files.size / sizeof(*files) && !found; i++)
        if (strcmp(files[i].name, closed->name) == 0)
            found = &files[i];
    if (!found && strcmp(closed->name, FOLDER_SPARE_NAME) == 0)
        return code; /* the next file of the log; it is removed when the disk is full */
    if (!code && found && found->size == closed->size && closed->has_sum)
        code = files_each_block(path, TAKE_READ, take_folder_sum_block, &sum, ret_error);
    if (code || (found && found->size == closed->size && (!closed->has_sum || sum == closed->sum)))
        return code;
    return error_set(ret_error, ERROR_CORRUPT, "%.60s %s since the last stop, and " TAKE_ADVICE,
                     path, found ? "was changed" : "is missing");
}

static enum error_code take_folder_look_at_closed(const char *folder, struct error *ret_error)
{
    struct take_listing listing = {.prefix = ""};
    struct folder_file closed;
    char log[PATH_MAX];
    struct buffer text;

    buffer_init(&text);
    enum error_code code = take_folder_read(folder, FOLDER_CLOSED_NAME, &text, ret_error);
    struct bytes rest = buffer_bytes(&text);
    if (!code)
        code = files_list(folder, take_folder_list_one, &listing, ret_error);
    listing.prefix = FOLDER_LOG_NAME "/";
    if (!code && !(code = take_folder_path(folder, FOLDER_LOG_NAME, log, ret_error)) &&
        files_exists(log))
        code = files_list(log, take_folder_list_one, &listing, ret_error);
    if (!code && buffer_failed(&listing.files))
        code = error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    bool is_whole = code || folder_closed_open(&rest);
    while (!code && is_whole && rest.size)
        if ((is_whole = folder_closed_next(&rest, &closed)))
            code = take_folder_compare(folder, &listing, &closed, ret_error);
    if (!code && !is_whole)
        code = error_set(ret_error, ERROR_CORRUPT,
                         "%.60s/" FOLDER_CLOSED_NAME " is damaged, and " TAKE_ADVICE, folder);
    buffer_deinit(&listing.files);
    buffer_deinit(&text);
    return code == ERROR_NOT_FOUND ? ERROR_NONE : code;
}

/* ---- RocksDB's manifest ---- */

/* Walks the parts of records: checksum 4 (masked), size 2, kind 1: 1 a whole record, 2 its first
 * part, 3 a middle one, 4 the last. A part is within a block, whose last six bytes may be
 * unused. */
struct take_manifest {
    bool is_damaged;
    bool is_open; /* within a record */
    uint64_t records;
};

static void take_folder_look_at_block(void *context, struct bytes block)
{
    struct take_manifest *manifest = context;

    while (block.size >= 7 && !manifest->is_damaged) {
        const size_t size = 7 + get_le(block.data + 4, 2);
        const uint8_t kind = (uint8_t)block.data[6];
        const uint32_t sum = size <= block.size ? checksum_crc32c(0, block.data + 6, size - 6) : 0;
        const bool begins = kind == 1 || kind == 2;

        manifest->is_damaged =
            size > block.size || kind < 1 || kind > 4 || begins == manifest->is_open ||
            get_le(block.data, 4) != (uint32_t)((sum >> 15 | sum << 17) + UINT32_C(0xa282ead8));
        manifest->is_open = kind == 2 || kind == 3;
        manifest->records += !manifest->is_open;
        block = (struct bytes){block.data + size,
                               block.size - (size <= block.size ? size : block.size)};
    }
}

static enum error_code take_folder_look_at_manifest(const char *folder, struct error *ret_error)
{
    struct take_manifest manifest = {.records = 0};
    char name[PATH_MAX], path[PATH_MAX];
    struct buffer current;

    buffer_init(&current);
    enum error_code code = take_folder_read(folder, "CURRENT", &current, ret_error);
    struct bytes rest = buffer_bytes(&current);
    const struct bytes line = bytes_cut(&rest, '\n');
    snprintf(name, sizeof(name), "%.*s", (int)(line.size < FOLDER_NAME_SIZE ? line.size : 0),
             line.data);
    buffer_deinit(&current);
    if (!code)
        code = take_folder_path(folder, name, path, ret_error);
    if (!code)
        code = files_each_block(path, TAKE_BLOCK, take_folder_look_at_block, &manifest, ret_error);
    if (code || (!manifest.is_damaged && !manifest.is_open && manifest.records))
        return code == ERROR_NOT_FOUND || code == ERROR_IO
                   ? error_set(ret_error, ERROR_CORRUPT,
                               "%.60s lacks a part of its tables, and " TAKE_ADVICE, folder)
                   : code;
    return error_set(ret_error, ERROR_CORRUPT, "%.60s/%.30s is damaged, and " TAKE_ADVICE, folder,
                     name);
}

enum error_code take_folder_look(const char *folder, struct error *ret_error)
{
    const enum error_code code = take_folder_look_at_closed(folder, ret_error);

    return code ? code : take_folder_look_at_manifest(folder, ret_error);
}

/* ---- moving ---- */

/* The files of one folder that are to be moved to another, or removed. */
struct take_move {
    bool (*is_wanted)(const char *name);
    const char *from, *to; /* `to` NULL: they are removed */
    struct buffer names;   /* each with its zero */
};

static bool take_folder_is_any(const char *name)
{
    (void)name;
    return true;
}

/* True for a file of the store on a wheel. */
static bool take_folder_is_new(const char *name)
{
    return strcmp(name, FOLDER_STATE_NAME) == 0 ||
           (strncmp(name, "run-", 4) == 0 && strlen(name) == TAKE_RUN_NAME_SIZE);
}

/* True for a file of RocksDB. */
static bool take_folder_is_old(const char *name)
{
    static const char *const begins[] = {"CURRENT", "MANIFEST-", "IDENTITY", "OPTIONS-", "LOG"};
    static const char *const ends[] = {".sst", ".log", ".dbtmp"};
    const size_t size = strlen(name);

    for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0)
            return true;
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
        if (size > strlen(ends[i]) && strcmp(name + size - strlen(ends[i]), ends[i]) == 0)
            return true;
    return strcmp(name, "LOCK") == 0;
}

static bool take_folder_choose_one(void *context, const struct files_entry *entry)
{
    struct take_move *move = context;

    if (!entry->is_folder && move->is_wanted(entry->name))
        buffer_append(&move->names, entry->name, strlen(entry->name) + 1);
    return true;
}

/* Moves or removes the files, and syncs both folders. */
static enum error_code take_folder_move(struct take_move move, struct error *ret_error)
{
    const struct disk_calls *disk = disk_system();
    char from[PATH_MAX], to[PATH_MAX];
    int failed = 0;

    buffer_init(&move.names);
    enum error_code code = files_list(move.from, take_folder_choose_one, &move, ret_error);
    if (!code && buffer_failed(&move.names))
        code = error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    for (const char *name = move.names.data; !code && name < move.names.data + move.names.size;
         name += strlen(name) + 1) {
        code = take_folder_path(move.from, name, from, ret_error);
        if (!code && move.to)
            code = take_folder_path(move.to, name, to, ret_error);
        if (!code)
            failed = move.to ? disk->rename(disk, from, to) : disk->remove(disk, from);
        if (failed)
            code = disk_failed(failed, "move", from, ret_error);
    }
    buffer_deinit(&move.names);
    if (!code && move.to && (failed = disk->sync_folder(disk, move.to)))
        code = disk_failed(failed, "sync", move.to, ret_error);
    if (!code && (failed = disk->sync_folder(disk, move.from)))
        code = disk_failed(failed, "sync", move.from, ret_error);
    return code;
}

enum error_code take_folder_clear(const char *folder, struct error *ret_error)
{
    char path[PATH_MAX];
    enum error_code code = take_folder_path(folder, TAKE_NEW_FOLDER, path, ret_error);

    if (code)
        return code;
    files_remove_folder(path);
    if (files_exists(path))
        return error_set(ret_error, ERROR_IO, "%s cannot be removed", path);
    return take_folder_move((struct take_move){take_folder_is_new, folder, NULL, {0}}, ret_error);
}

/* Moves the damaged records to those that the daemon has set aside before. */
static enum error_code take_folder_move_damaged(const char *folder, struct error *ret_error)
{
    char from[PATH_MAX], to[PATH_MAX];
    enum error_code code =
        take_folder_path(folder, TAKE_NEW_FOLDER "/" FOLDER_DAMAGED_NAME, from, ret_error);

    if (code || !files_exists(from))
        return code;
    code = take_folder_path(folder, FOLDER_DAMAGED_NAME, to, ret_error);
    if (!code)
        code = files_make_folder(to, ret_error);
    return code
               ? code
               : take_folder_move((struct take_move){take_folder_is_any, from, to, {0}}, ret_error);
}

enum error_code take_folder_replace(const char *folder, const struct folder_identity *identity,
                                    struct error *ret_error)
{
    char from[PATH_MAX];
    enum error_code code = take_folder_path(folder, TAKE_NEW_FOLDER, from, ret_error);

    if (!code)
        code = take_folder_move_damaged(folder, ret_error);
    if (!code)
        code =
            take_folder_move((struct take_move){take_folder_is_new, from, folder, {0}}, ret_error);
    return code ? code : folder_write_identity(folder, identity, ret_error);
}

/* Replaces a list of the old files, which a clean stop has made, by one of the new files. Until
 * then the old ones are still there. */
static enum error_code take_folder_seal(const char *folder, struct error *ret_error)
{
    struct folder_file closed;
    struct buffer text;
    bool is_old = false;

    buffer_init(&text);
    enum error_code code = take_folder_read(folder, FOLDER_CLOSED_NAME, &text, ret_error);
    struct bytes rest = buffer_bytes(&text);
    if (!code && folder_closed_open(&rest))
        while (!is_old && folder_closed_next(&rest, &closed))
            is_old = strcmp(closed.name, "CURRENT") == 0;
    buffer_deinit(&text);
    if (is_old)
        code = folder_seal(folder, ret_error);
    return code == ERROR_NOT_FOUND ? ERROR_NONE : code;
}

enum error_code take_folder_finish(const char *folder, struct error *ret_error)
{
    char fresh[PATH_MAX], old[PATH_MAX];
    enum error_code code = take_folder_path(folder, TAKE_NEW_FOLDER, fresh, ret_error);

    if (!code)
        code = take_folder_path(folder, TAKE_OLD_FOLDER, old, ret_error);
    if (!code)
        code = take_folder_seal(folder, ret_error);
    if (!code)
        code = files_make_folder(old, ret_error);
    if (!code)
        code =
            take_folder_move((struct take_move){take_folder_is_old, folder, old, {0}}, ret_error);
    if (!code)
        files_remove_folder(fresh); /* it still has FOLDER and CLOSED of its own */
    return code;
}
