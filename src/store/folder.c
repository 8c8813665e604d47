/* folder.c - checks the files of a data folder before its store is opened. */
#include "store/folder.h"

#include "base/checksum.h"
#include "base/number.h"
#include "store/record.h"
#include "sys/files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CLOSED_BYTES_MAX = 64 << 20, /* enough for a million files */
    IDENTITY_BYTES_MAX = 4096,
    READ_BYTES = 1 << 20,
};

/* The format number stands between this text and the next line feed in every version; the rest
 * of the file may change. */
#define IDENTITY_HEAD "tickwheel folder\nformat "

#define CLOSED_HEAD "tickwheel closed 1\n"

enum file_kind {
    FILE_OTHER,   /* is not listed in CLOSED */
    FILE_SEGMENT, /* of the log */
    FILE_STATE,   /* names the runs */
    FILE_RUN,     /* timers */
};

enum {
    RUN_NAME_SIZE = 20,
    FORMAT_OF_ROCKSDB = 9, /* which a program takes over */
};

static enum file_kind folder_kind_of(const char *name)
{
    size_t size = strlen(name);

    if (size >= FOLDER_NAME_SIZE)
        return FILE_OTHER;
    if (strncmp(name, FOLDER_LOG_NAME "/", sizeof(FOLDER_LOG_NAME)) == 0)
        return FILE_SEGMENT;
    if (strcmp(name, FOLDER_STATE_NAME) == 0)
        return FILE_STATE;
    uint64_t number;
    if (size == RUN_NAME_SIZE && strncmp(name, "run-", 4) == 0 &&
        number_parse((struct bytes){name + 4, size - 4}, 16, &number))
        return FILE_RUN;
    return FILE_OTHER;
}

static enum error_code folder_path_of(const char *folder, const char *name, char ret_path[PATH_MAX],
                                      struct error *ret_error)
{
    if ((size_t)snprintf(ret_path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
        return error_set(ret_error, ERROR_IO, "a path of %zu bytes", strlen(folder));
    return ERROR_NONE;
}

/* ---- all files of a folder ---- */

struct listing {
    struct folder_file *files;
    size_t count, capacity;
    uint64_t bytes;
    bool has_log_folder;
    bool has_stranger;
    char stranger[FOLDER_NAME_SIZE];
    bool is_out_of_memory;
};

/* True for names of files that tickwheeld or the file system makes. */
static bool folder_is_known(const char *name)
{
    static const char *const names[] = {
        FOLDER_IDENTITY_NAME "*",
        FOLDER_REACHED_NAME "*",
        FOLDER_CLOSED_NAME "*",
        FOLDER_STATE_NAME "*",
        FOLDER_LOG_NAME,
        FOLDER_DAMAGED_NAME,
        FOLDER_BACKUP_NAME "*",
        FOLDER_PARTIAL_NAME "*",
        FOLDER_CLOCK_NAME "*",
        "RESTORING*",
        "probe*",
        "lost+found",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const size_t known = strlen(names[i]);
        const bool is_prefix = names[i][known - 1] == '*'; /* it stands for any rest */

        if (is_prefix ? strncmp(name, names[i], known - 1) == 0 : strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static bool folder_add_file(struct listing *listing, const char *name, uint64_t size)
{
    struct folder_file *files = listing->files;

    if (listing->count == listing->capacity) {
        listing->capacity = listing->capacity ? 2 * listing->capacity : 64;
        files = realloc(files, listing->capacity * sizeof(*files));
        if (!files) {
            listing->is_out_of_memory = true;
            return false;
        }
        listing->files = files;
    }
    files[listing->count] = (struct folder_file){.size = size};
    snprintf(files[listing->count++].name, FOLDER_NAME_SIZE, "%s", name);
    return true;
}

static bool folder_list_one(void *context, const struct files_entry *entry)
{
    struct listing *listing = context;

    const enum file_kind kind = folder_kind_of(entry->name);

    listing->bytes += entry->is_folder ? 0 : entry->bytes;
    if (!listing->has_stranger && !folder_is_known(entry->name) &&
        (entry->is_folder || kind == FILE_OTHER)) {
        listing->has_stranger = true;
        snprintf(listing->stranger, sizeof(listing->stranger), "%.63s", entry->name);
    }
    listing->has_log_folder |= entry->is_folder && strcmp(entry->name, FOLDER_LOG_NAME) == 0;
    return entry->is_folder || kind == FILE_OTHER ||
           folder_add_file(listing, entry->name, entry->bytes);
}

static bool folder_list_segment(void *context, const struct files_entry *entry)
{
    struct listing *listing = context;
    char name[FOLDER_NAME_SIZE];

    listing->bytes += entry->is_folder ? 0 : entry->bytes;
    return entry->is_folder ||
           (size_t)snprintf(name, sizeof(name), FOLDER_LOG_NAME "/%s", entry->name) >=
               sizeof(name) ||
           folder_add_file(listing, name, entry->bytes);
}

/* Orders by number: a shorter name has a lower one. */
static int folder_compare_files(const void *left, const void *right)
{
    const struct folder_file *a = left, *b = right;
    size_t size_a = strlen(a->name), size_b = strlen(b->name);

    if (size_a != size_b)
        return size_a < size_b ? -1 : 1;
    return strcmp(a->name, b->name);
}

static enum error_code folder_list(const char *folder, struct listing *ret_listing,
                                   struct error *ret_error)
{
    *ret_listing = (struct listing){0};
    enum error_code code = files_list(folder, folder_list_one, ret_listing, ret_error);
    char path[PATH_MAX];
    if (!code && ret_listing->has_log_folder &&
        !(code = folder_path_of(folder, FOLDER_LOG_NAME, path, ret_error)))
        code = files_list(path, folder_list_segment, ret_listing, ret_error);
    if (!code && ret_listing->is_out_of_memory)
        code = error_set(ret_error, ERROR_NO_MEMORY, "%s: out of memory", folder);
    if (code)
        free(ret_listing->files);
    else if (ret_listing->count)
        qsort(ret_listing->files, ret_listing->count, sizeof(*ret_listing->files),
              folder_compare_files);
    return code;
}

static const struct folder_file *folder_find(const struct listing *listing, const char *name)
{
    for (size_t i = 0; i < listing->count; i++)
        if (strcmp(listing->files[i].name, name) == 0)
            return &listing->files[i];
    return NULL;
}

static bool folder_has_kind(const struct listing *listing, enum file_kind kind)
{
    for (size_t i = 0; i < listing->count; i++)
        if (folder_kind_of(listing->files[i].name) == kind)
            return true;
    return false;
}

/* ---- CLOSED ---- */

static void folder_add_block(void *context, struct bytes block)
{
    uint32_t *sum = context;

    *sum = checksum_crc32c(*sum, block.data, block.size);
}

static enum error_code folder_sum_file(const char *folder, struct folder_file *file,
                                       struct error *ret_error)
{
    char path[PATH_MAX];
    enum error_code code = folder_path_of(folder, file->name, path, ret_error);

    file->sum = 0;
    return code ? code
                : files_each_block(path, READ_BYTES, folder_add_block, &file->sum, ret_error);
}

/* Removes the first line of a text. */
static bool folder_next_line(struct bytes *text, struct bytes *ret_line)
{
    const char *end = text->size ? memchr(text->data, '\n', text->size) : NULL;

    if (!end)
        return false;
    *ret_line = (struct bytes){text->data, (size_t)(end - text->data)};
    text->size -= ret_line->size + 1;
    text->data = end + 1;
    return true;
}

/* Removes the first word of a line. */
static struct bytes folder_next_word(struct bytes *line)
{
    const char *end = line->size ? memchr(line->data, ' ', line->size) : NULL;
    struct bytes word = {line->data, end ? (size_t)(end - line->data) : line->size};

    line->data += word.size + (end != NULL);
    line->size -= word.size + (end != NULL);
    return word;
}

/* True if it is a plain name, and no path elsewhere. */
static bool folder_is_name(struct bytes name)
{
    const struct bytes folder = BYTES(FOLDER_LOG_NAME "/");
    const size_t skip = bytes_has_prefix(name, folder) ? folder.size : 0;
    const struct bytes rest = {name.data + skip, name.size - skip};

    return rest.size > 0 && !memchr(rest.data, '/', rest.size) && !bytes_equal(rest, BYTES(".")) &&
           !bytes_equal(rest, BYTES(".."));
}

bool folder_closed_next(struct bytes *text, struct folder_file *ret_file)
{
    struct bytes line;

    if (!folder_next_line(text, &line))
        return false;
    struct bytes name = folder_next_word(&line);
    struct bytes size = folder_next_word(&line);
    struct bytes sum = folder_next_word(&line);
    *ret_file = (struct folder_file){.has_sum = !bytes_equal(sum, BYTES("-"))};
    uint64_t number = 0;
    if (name.size == 0 || name.size >= FOLDER_NAME_SIZE || line.size ||
        memchr(name.data, '\0', name.size) || !folder_is_name(name) ||
        !number_parse(size, 10, &ret_file->size) ||
        (ret_file->has_sum && (sum.size != 8 || !number_parse(sum, 16, &number))))
        return false;
    memcpy(ret_file->name, name.data, name.size);
    ret_file->sum = (uint32_t)number;
    return true;
}

static bool folder_open_list(struct bytes *text, struct bytes head)
{
    const size_t end_size = sizeof("sum 01234567\n") - 1;

    if (!bytes_has_prefix(*text, head) || text->size < head.size + end_size)
        return false;
    struct bytes end = {text->data + text->size - end_size, end_size};
    uint64_t sum;
    if (!bytes_has_prefix(end, BYTES("sum ")) || end.data[end_size - 1] != '\n' ||
        !number_parse((struct bytes){end.data + 4, 8}, 16, &sum) ||
        sum != checksum_crc32c(0, text->data, text->size - end_size))
        return false;
    text->data += head.size;
    text->size -= head.size + end_size;
    return true;
}

bool folder_closed_open(struct bytes *text)
{
    return folder_open_list(text, BYTES(CLOSED_HEAD));
}

/* Writes the list with its checksum. */
static enum error_code folder_write_list(const char *path, struct buffer *text,
                                         struct error *ret_error)
{
    if (!buffer_failed(text))
        buffer_printf(text, "sum %08x\n", checksum_crc32c(0, text->data, text->size));
    return buffer_failed(text) ? error_set(ret_error, ERROR_NO_MEMORY, "out of memory")
                               : files_write(path, buffer_bytes(text), ret_error);
}

/* ---- FOLDER ---- */

void folder_identity_encode(const struct folder_identity *identity, struct buffer *to)
{
    const size_t begin = to->size;

    buffer_printf(to, IDENTITY_HEAD "%llu\n", (unsigned long long)FOLDER_FORMAT);
    if (identity->has_log) {
        buffer_append_text(to, "log ");
        for (size_t i = 0; i < LOG_ID_SIZE; i++)
            buffer_printf(to, "%02x", identity->log_id[i]);
        buffer_append_text(to, "\n");
    }
    if (identity->cluster)
        buffer_printf(to, "cluster %016llx\n", (unsigned long long)identity->cluster);
    if (!buffer_failed(to))
        buffer_printf(to, "sum %08x\n", checksum_crc32c(0, to->data + begin, to->size - begin));
}

static bool folder_parse_log_id(struct bytes hex, uint8_t ret_id[LOG_ID_SIZE])
{
    uint64_t high, low;

    if (hex.size != 2 * LOG_ID_SIZE || !number_parse((struct bytes){hex.data, 16}, 16, &high) ||
        !number_parse((struct bytes){hex.data + 16, 16}, 16, &low))
        return false;
    for (size_t i = 0; i < 8; i++) {
        ret_id[i] = (uint8_t)(high >> (56 - 8 * i));
        ret_id[8 + i] = (uint8_t)(low >> (56 - 8 * i));
    }
    return true;
}

enum error_code folder_identity_decode(struct bytes text, struct folder_identity *ret_identity,
                                       uint64_t *ret_format)
{
    struct folder_identity identity = {.is_known = true};
    const struct bytes head = BYTES(IDENTITY_HEAD);
    struct bytes rest = text, line;

    if (!bytes_has_prefix(text, head))
        return ERROR_CORRUPT;
    rest = (struct bytes){text.data + head.size, text.size - head.size};
    if (!folder_next_line(&rest, &line) || !number_parse(line, 10, ret_format))
        return ERROR_CORRUPT;
    if (*ret_format != FOLDER_FORMAT)
        return ERROR_INVALID;
    if (!folder_open_list(&text, head))
        return ERROR_CORRUPT;
    folder_next_line(&text, &line);
    while (folder_next_line(&text, &line)) {
        const struct bytes key = folder_next_word(&line);

        const bool is_log = bytes_equal(key, BYTES("log")) && !identity.has_log &&
                            folder_parse_log_id(line, identity.log_id);
        const bool is_cluster = bytes_equal(key, BYTES("cluster")) && !identity.cluster &&
                                line.size == 16 && number_parse(line, 16, &identity.cluster) &&
                                identity.cluster;
        if (!is_log && !is_cluster)
            return ERROR_CORRUPT;
        identity.has_log |= is_log;
    }
    *ret_identity = identity;
    return ERROR_NONE;
}

#define FOLDER_EXPORT                                                                         \
    "Run `tickwheel export` with the version that made it, and `tickwheel import` with this " \
    "one and a new folder"

/* Says what to do with a folder of another format. */
static enum error_code folder_refuse_format(const char *folder, uint64_t format,
                                            struct error *ret_error)
{
    const unsigned long long number = format;

    if (format > FOLDER_FORMAT)
        return error_set(ret_error, ERROR_INVALID,
                         "%s was made by a newer version: its format is %llu, ours %d", folder,
                         number, FOLDER_FORMAT);
    if (format == FORMAT_OF_ROCKSDB)
        return error_set(ret_error, ERROR_INVALID,
                         "%.200s was made by an older version: its format is %llu, ours %d. Stop "
                         "that version and run `make take-over FOLDER=%.200s` in the sources of "
                         "this one",
                         folder, number, FOLDER_FORMAT, folder);
    return error_set(
        ret_error, ERROR_INVALID,
        "%.200s was made by an older version: its format is %llu, ours %d. " FOLDER_EXPORT, folder,
        number, FOLDER_FORMAT);
}

/* Refuses a folder without FOLDER that a version before format 5 stopped cleanly: its files are no
 * store of ours, and its CLOSED names them. */
static enum error_code folder_refuse_nameless(const char *folder, struct error *ret_error)
{
    char current[PATH_MAX], closed[PATH_MAX];

    if (folder_path_of(folder, "CURRENT", current, NULL) ||
        folder_path_of(folder, FOLDER_CLOSED_NAME, closed, NULL) || !files_exists(current) ||
        !files_exists(closed))
        return ERROR_NONE;
    return error_set(
        ret_error, ERROR_INVALID,
        "%.200s was made by an older version, before format 5, ours is %d. " FOLDER_EXPORT, folder,
        FOLDER_FORMAT);
}

enum error_code folder_identify(const char *folder, struct folder_identity *ret_identity,
                                struct error *ret_error)
{
    char path[PATH_MAX];
    enum error_code code = folder_path_of(folder, FOLDER_IDENTITY_NAME, path, ret_error);
    struct buffer text;
    uint64_t format = 0;

    *ret_identity = (struct folder_identity){0};
    if (code)
        return code;
    if (!files_exists(path))
        return folder_refuse_nameless(folder, ret_error);
    buffer_init(&text);
    code = files_read_regular(path, IDENTITY_BYTES_MAX, &text, ret_error);
    if (code == ERROR_TOO_LARGE)
        code = ERROR_CORRUPT;
    else if (!code)
        code = folder_identity_decode(buffer_bytes(&text), ret_identity, &format);
    buffer_deinit(&text);
    if (code == ERROR_INVALID)
        return folder_refuse_format(folder, format, ret_error);
    if (code == ERROR_CORRUPT)
        return error_set(ret_error, code,
                         "%s is damaged; restore a backup, or remove it to start without knowing "
                         "whether the log is that of this folder",
                         path);
    return code;
}

enum error_code folder_write_identity(const char *folder, const struct folder_identity *identity,
                                      struct error *ret_error)
{
    char path[PATH_MAX];
    enum error_code code = folder_path_of(folder, FOLDER_IDENTITY_NAME, path, ret_error);
    struct buffer text;

    if (code)
        return code;
    buffer_init(&text);
    folder_identity_encode(identity, &text);
    code = buffer_failed(&text) ? error_set(ret_error, ERROR_NO_MEMORY, "out of memory")
                                : files_write(path, buffer_bytes(&text), ret_error);
    buffer_deinit(&text);
    return code;
}

void folder_find_log(const char *folder, struct folder_identity *identity)
{
    char path[PATH_MAX];
    const struct log_files_options options = {
        .folder = path, .mode = LOG_FILES_READ, .damage = LOG_FILES_DAMAGE_SKIP};
    struct log_files_stats stats;
    struct log_files *files;

    if (folder_path_of(folder, FOLDER_LOG_NAME, path, NULL) || !files_exists(path) ||
        log_files_open(&options, &files, NULL))
        return;
    log_files_get_stats(files, &stats);
    log_files_close(files);
    identity->has_log = true;
    memcpy(identity->log_id, stats.id, LOG_ID_SIZE);
}

enum error_code folder_guess_identity(const char *folder, const struct folder_state *state,
                                      uint64_t cluster, struct folder_identity *identity,
                                      struct error *ret_error)
{
    if (identity->is_known || state->is_new)
        return ERROR_NONE;
    folder_find_log(folder, identity);
    if (identity->has_log)
        return ERROR_NONE;
    identity->cluster = cluster;
    return cluster ? ERROR_NONE
                   : error_set(ret_error, ERROR_INVALID,
                               "%.150s follows the log of a cluster: start it with the cluster_* "
                               "settings of its node",
                               folder);
}

enum error_code folder_check_cluster(const char *folder, const struct folder_identity *identity,
                                     uint64_t wanted, struct error *ret_error)
{
    const uint64_t own = identity->cluster;

    if (own == 0 || own == wanted)
        return ERROR_NONE;
    if (wanted == 0)
        return error_set(
            ret_error, ERROR_INVALID,
            "%.150s follows the log of a cluster, %016llx: start it with the cluster_* "
            "settings of its node",
            folder, (unsigned long long)own);
    return error_set(
        ret_error, ERROR_INVALID,
        "%.150s is of the cluster %016llx, and cluster_name is that of the cluster "
        "%016llx: move it away, an empty folder gets its copies from the log; or make a "
        "new cluster of it with --cluster-import",
        folder, (unsigned long long)own, (unsigned long long)wanted);
}

enum error_code folder_refuse_single(const char *folder, struct error *ret_error)
{
    return error_set(ret_error, ERROR_INVALID,
                     "%.150s has timers of a single node, which no cluster reads: put them into "
                     "the log of a new cluster with tickwheeld --cluster-import %.150s, and "
                     "start with an empty data_folder",
                     folder, folder);
}

/* ---- CLOSED, written ---- */

enum error_code folder_seal(const char *folder, struct error *ret_error)
{
    struct listing listing;
    char path[PATH_MAX];
    enum error_code code = folder_path_of(folder, FOLDER_CLOSED_NAME, path, ret_error);

    if (code || (code = folder_list(folder, &listing, ret_error)))
        return code;
    struct buffer text;
    buffer_init(&text);
    buffer_append_text(&text, CLOSED_HEAD);
    for (size_t i = 0; i < listing.count && !code; i++) {
        struct folder_file *file = &listing.files[i];

        buffer_printf(&text, "%s %llu ", file->name, (unsigned long long)file->size);
        const enum file_kind kind = folder_kind_of(file->name);
        if (kind == FILE_RUN || kind == FILE_SEGMENT) {
            buffer_append_text(&text, "-\n");
            continue;
        }
        code = folder_sum_file(folder, file, ret_error);
        buffer_printf(&text, "%08x\n", file->sum);
    }
    if (!code)
        code = folder_write_list(path, &text, ret_error);
    buffer_deinit(&text);
    free(listing.files);
    return code;
}

enum error_code folder_unseal(const char *folder, struct error *ret_error)
{
    char path[PATH_MAX];
    enum error_code code = folder_path_of(folder, FOLDER_CLOSED_NAME, path, ret_error);

    return code ? code : files_remove(path, ret_error);
}

#define ADVICE "; restore a backup, or remove %s/" FOLDER_CLOSED_NAME " to start with what is left"

static enum error_code folder_compare_file(const char *folder, const struct listing *listing,
                                           const struct folder_file *closed,
                                           struct error *ret_error)
{
    const struct folder_file *found = folder_find(listing, closed->name);

    /* The log's spare file has no content yet. A start on a full disk removes it. */
    if (!found && strcmp(closed->name, FOLDER_SPARE_NAME) == 0)
        return ERROR_NONE;
    if (!found)
        return error_set(ret_error, ERROR_CORRUPT, "%s/%s is missing since the last stop" ADVICE,
                         folder, closed->name, folder);
    if (found->size != closed->size)
        return error_set(ret_error, ERROR_CORRUPT,
                         "%s/%s has %llu bytes, and had %llu at the last stop" ADVICE, folder,
                         closed->name, (unsigned long long)found->size,
                         (unsigned long long)closed->size, folder);
    if (!closed->has_sum)
        return ERROR_NONE;
    struct folder_file now = *found;
    enum error_code code = folder_sum_file(folder, &now, ret_error);
    if (!code && now.sum != closed->sum)
        code = error_set(ret_error, ERROR_CORRUPT, "%s/%s was changed since the last stop" ADVICE,
                         folder, closed->name, folder);
    return code;
}

/* Compares the files with CLOSED. NOT_FOUND if there is none. */
static enum error_code folder_compare_closed(const char *folder, const struct listing *listing,
                                             struct error *ret_error)
{
    char path[PATH_MAX];
    enum error_code code = folder_path_of(folder, FOLDER_CLOSED_NAME, path, ret_error);

    if (code)
        return code;
    if (!files_exists(path))
        return ERROR_NOT_FOUND;
    struct buffer text;
    buffer_init(&text);
    code = files_read_regular(path, CLOSED_BYTES_MAX, &text, ret_error);
    struct bytes rest = buffer_bytes(&text);
    if (!code && !folder_closed_open(&rest))
        code = error_set(ret_error, ERROR_CORRUPT,
                         "%s is damaged; restore a backup, or remove it to start without "
                         "knowing whether all other files are as they were",
                         path);
    struct folder_file closed;
    while (!code && rest.size)
        code = folder_closed_next(&rest, &closed)
                   ? folder_compare_file(folder, listing, &closed, ret_error)
                   : error_set(ret_error, ERROR_CORRUPT, "%s: a line is wrong", path);
    buffer_deinit(&text);
    return code;
}

/* ---- a look at all ---- */

/* Checks that STATE is there, unless the folder is new. A start without it would remove the
 * runs. */
static enum error_code folder_look_at_state(const char *folder, const struct listing *listing,
                                            struct folder_state *state, struct error *ret_error)
{
    if (folder_find(listing, FOLDER_STATE_NAME))
        return ERROR_NONE;
    if (folder_has_kind(listing, FILE_RUN) || folder_has_kind(listing, FILE_SEGMENT))
        return error_set(ret_error, ERROR_CORRUPT,
                         "%s/" FOLDER_STATE_NAME
                         " is missing beside files of a store; restore a backup",
                         folder);
    state->is_new = true;
    return ERROR_NONE;
}

enum error_code folder_look(const char *folder, struct folder_state *ret_state,
                            struct error *ret_error)
{
    struct listing listing;
    enum error_code code = folder_list(folder, &listing, ret_error);

    *ret_state = (struct folder_state){0};
    if (code)
        return code;
    ret_state->bytes = listing.bytes;
    ret_state->has_strangers = listing.has_stranger;
    memcpy(ret_state->stranger, listing.stranger, sizeof(ret_state->stranger));
    code = folder_compare_closed(folder, &listing, ret_error);
    ret_state->was_closed = !code;
    if (!code || code == ERROR_NOT_FOUND)
        code = folder_look_at_state(folder, &listing, ret_state, ret_error);
    free(listing.files);
    return code;
}

enum error_code folder_check_strangers(const char *folder, const struct folder_state *state,
                                       struct error *ret_error)
{
    if (!state->has_strangers)
        return ERROR_NONE;
    return error_set(ret_error, ERROR_INVALID,
                     "%.200s holds other files, such as %s, and is left as it is: set data_folder "
                     "to an empty folder or a new one",
                     folder, state->stranger);
}

bool folder_is_there(const char *folder, int lock)
{
    char path[PATH_MAX];

    return files_is_locked_folder(folder, lock) &&
           !folder_path_of(folder, FOLDER_STATE_NAME, path, NULL) && files_exists(path);
}
