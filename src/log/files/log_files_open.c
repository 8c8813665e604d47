/*
 * log_files_open.c - opens a log in files: lists its segments, compares them with the chain, and
 * finds the end.
 *
 * An append is only written when the one before is on the disk. So a frame that is not whole, with
 * no whole one behind it, was never acknowledged: a torn end. With a whole one behind it, it is
 * damage of acknowledged records.
 */
#include "log/files/log_files_private.h"
#include "sys/entropy.h"

#include <inttypes.h>
#include <stdlib.h>

enum { LOG_SEGMENT_DEFAULT = 16 << 20, LOG_SEGMENT_LEAST = 4096 };

/* The files that were found in the folder. */
struct log_found {
    uint64_t *numbers; /* numbers of the segments, sorted */
    size_t count, capacity;
    uint64_t spare_bytes;
    bool has_chain, is_out_of_memory;
};

/* Reports damage. Returns an error, unless the options say to skip it. */
static enum error_code log_open_damage(struct log_files *files, struct error *ret_error,
                                       const char *what, uint64_t number)
{
    if (files->options.damage == LOG_FILES_DAMAGE_SKIP) {
        files->must_begin = true;
        return ERROR_NONE;
    }
    return error_set(ret_error, ERROR_CORRUPT, "%s %s",
                     number ? log_path_of_segment(files, number).text : files->folder, what);
}

/* ---- the folder ---- */

static bool log_open_see(void *context, const struct files_entry *entry)
{
    struct log_found *found = context;
    uint64_t number = log_path_number(entry->name);

    if (strcmp(entry->name, LOG_FILES_CHAIN) == 0)
        found->has_chain = true;
    if (strcmp(entry->name, LOG_FILES_SPARE) == 0)
        found->spare_bytes = entry->bytes;
    if (!number)
        return true;
    if (found->count == found->capacity) {
        size_t capacity = found->capacity ? 2 * found->capacity : 16;
        uint64_t *numbers = realloc(found->numbers, capacity * sizeof(*numbers));

        found->is_out_of_memory = !numbers;
        if (!numbers)
            return false;
        found->numbers = numbers;
        found->capacity = capacity;
    }
    found->numbers[found->count++] = number;
    return true;
}

static int log_open_compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static enum error_code log_open_look(struct log_files *files, struct log_found *found,
                                     struct error *ret_error)
{
    enum error_code code = ERROR_NONE;

    if (files->options.mode == LOG_FILES_MAKE)
        code = files->disk->make_folder(files->disk, files->folder, ret_error);
    if (!code)
        code = files->disk->list(files->disk, files->folder, log_open_see, found, ret_error);
    if (!code && found->is_out_of_memory)
        code = error_set(ret_error, ERROR_NO_MEMORY, "open the log: out of memory");
    if (found->count)
        qsort(found->numbers, found->count, sizeof(*found->numbers), log_open_compare);
    return code;
}

/* ---- the chain ---- */

/* Makes the chain. It gets its name when it is complete. */
static enum error_code log_open_make_chain(struct log_files *files, struct segment_chain *chain,
                                           struct error *ret_error)
{
    struct log_path fresh = log_path_of(files, LOG_FILES_CHAIN ".new"),
                    path = log_path_of(files, LOG_FILES_CHAIN);
    char contents[2 * SEGMENT_CHAIN_SLOT] = {0};
    int file;

    chain->generation = 1;
    segment_chain_encode(chain, contents + SEGMENT_CHAIN_SLOT);
    int error = files->disk->open(files->disk, fresh.text, DISK_MAKE, &file);
    if (error)
        return disk_failed(error, "make", fresh.text, ret_error);
    error = files->disk->write(files->disk, file, 0, (struct bytes){contents, sizeof(contents)});
    if (!error)
        error = files->disk->sync(files->disk, file);
    files->disk->close(files->disk, file);
    if (!error)
        error = files->disk->rename(files->disk, fresh.text, path.text);
    if (!error)
        error = files->disk->sync_folder(files->disk, files->folder);
    files->chain = *chain;
    return error ? disk_failed(error, "make", path.text, ret_error) : ERROR_NONE;
}

static enum error_code log_open_make(struct log_files *files, struct error *ret_error)
{
    struct segment_chain chain = {.first = 1};

    if (files->options.mode != LOG_FILES_MAKE)
        return error_set(ret_error, ERROR_CORRUPT, "the log in %s is missing", files->folder);
    enum error_code code = entropy_fill(chain.id, sizeof(chain.id));
    if (code)
        return error_set(ret_error, code, "no random bytes for the id of a log");
    return log_open_make_chain(files, &chain, ret_error);
}

/* Reads the header of a segment. It must have this number, and the file must have the size in the
 * header. */
static enum error_code log_open_header(const struct log_files *files, uint64_t number,
                                       struct segment_header *ret_header, struct error *ret_error)
{
    struct log_path path = log_path_of_segment(files, number);
    char text[SEGMENT_HEADER_SIZE];
    struct segment_header header;
    uint64_t bytes = 0;
    size_t size = 0;
    int file;

    int error = files->disk->open(files->disk, path.text, DISK_READ, &file);
    if (!error) {
        error = files->disk->size(files->disk, file, &bytes);
        if (!error)
            error = files->disk->read(files->disk, file, 0, text, sizeof(text), &size);
        files->disk->close(files->disk, file);
    }
    if (error)
        return disk_failed(error, "read", path.text, ret_error);
    if (!segment_header_decode((struct bytes){text, size}, &header))
        return error_set(ret_error, ERROR_CORRUPT, "%s has a damaged header", path.text);
    if (header.number != number)
        return error_set(ret_error, ERROR_CORRUPT, "%s is segment %" PRIu64, path.text,
                         header.number);
    if (header.bytes != bytes)
        return error_set(ret_error, ERROR_CORRUPT, "%s has %" PRIu64 " bytes, not %" PRIu64,
                         path.text, bytes, header.bytes);
    *ret_header = header;
    return ERROR_NONE;
}

/* If the chain cannot be read, makes one from the headers that can. */
static enum error_code log_open_guess_chain(struct log_files *files, const struct log_found *found,
                                            struct error *ret_error)
{
    struct segment_chain chain = {.first = 1};

    for (size_t i = found->count; i-- > 0 && chain.last == 0;) {
        struct segment_header header;

        if (log_open_header(files, found->numbers[i], &header, ret_error))
            continue;
        memcpy(chain.id, header.id, SEGMENT_ID_SIZE);
        chain.first = found->numbers[0];
        chain.last = found->numbers[found->count - 1];
    }
    if (chain.last == 0)
        return error_set(ret_error, ERROR_CORRUPT, "no segment of the log in %s can be read",
                         files->folder);
    files->chain = chain;
    return files->options.mode == LOG_FILES_READ ? ERROR_NONE
                                                 : log_open_make_chain(files, &chain, ret_error);
}

static enum error_code log_open_chain(struct log_files *files, const struct log_found *found,
                                      struct error *ret_error)
{
    struct log_path path = log_path_of(files, LOG_FILES_CHAIN);
    char contents[2 * SEGMENT_CHAIN_SLOT];
    size_t size = 0;
    int file, error;

    if (!found->has_chain && found->count == 0)
        return log_open_make(files, ret_error);
    if (found->has_chain) {
        error = files->disk->open(files->disk, path.text, DISK_READ, &file);
        if (!error) {
            error = files->disk->read(files->disk, file, 0, contents, sizeof(contents), &size);
            files->disk->close(files->disk, file);
        }
        if (error)
            return disk_failed(error, "read", path.text, ret_error);
        if (segment_chain_decode((struct bytes){contents, size}, &files->chain))
            return ERROR_NONE;
    }
    enum error_code code =
        log_open_damage(files, ret_error,
                        found->has_chain ? "has a damaged CHAIN" : "has no CHAIN, but segments", 0);
    return code ? code : log_open_guess_chain(files, found, ret_error);
}

/* Compares the id. Only that distinguishes two logs that are both complete. */
static enum error_code log_open_check_id(const struct log_files *files, struct error *ret_error)
{
    if (!files->options.id || memcmp(files->chain.id, files->options.id, SEGMENT_ID_SIZE) == 0)
        return ERROR_NONE;
    return error_set(ret_error, ERROR_CORRUPT, "%.200s is the log of another data folder",
                     files->folder);
}

/* ---- segments ---- */

/* Sets the end of the last segment from the header of the next. */
static enum error_code log_open_end_last(struct log_files *files,
                                         const struct segment_header *header,
                                         struct error *ret_error)
{
    struct log_part *last = log_files_last(files);

    if (!last || header->number != last->number + 1)
        return ERROR_NONE;
    if (header->previous_end < SEGMENT_HEADER_SIZE || header->previous_end > last->bytes ||
        header->first < last->first)
        return log_open_damage(files, ret_error, "does not fit to the segment before it",
                               header->number);
    last->end = header->previous_end;
    last->next = header->first;
    last->sum = header->previous_sum;
    last->is_ended = true;
    return ERROR_NONE;
}

static enum error_code log_open_part(struct log_files *files, uint64_t number,
                                     struct error *ret_error)
{
    struct segment_header header;
    struct error error = {0};

    enum error_code code = log_open_header(files, number, &header, &error);
    if (!code && memcmp(header.id, files->chain.id, SEGMENT_ID_SIZE) != 0)
        code = error_set(&error, ERROR_CORRUPT, "%s is of another log",
                         log_path_of_segment(files, number).text);
    if (code) {
        if (code == ERROR_CORRUPT && files->options.damage == LOG_FILES_DAMAGE_SKIP) {
            files->must_begin = true;
            return ERROR_NONE;
        }
        return error_set(ret_error, code, "%s", error.text);
    }
    code = log_open_end_last(files, &header, ret_error);
    if (!code && !log_files_reserve_part(files))
        code = error_set(ret_error, ERROR_NO_MEMORY, "open the log: out of memory");
    if (code)
        return code;
    log_files_add_part(files, &(struct log_part){.number = number,
                                                 .seed = segment_seed(header.id, number),
                                                 .bytes = header.bytes,
                                                 .end = SEGMENT_HEADER_SIZE,
                                                 .first = header.first,
                                                 .next = header.first,
                                                 .is_unsynced = header.is_unsynced});
    return ERROR_NONE;
}

/* Lists the segments from the chain's first to its last. There may be one more, which a crash left
 * before the chain named it. */
static enum error_code log_open_parts(struct log_files *files, const struct log_found *found,
                                      struct error *ret_error)
{
    uint64_t expected = files->chain.first;
    enum error_code code = ERROR_NONE;

    for (size_t i = 0; !code && i < found->count; i++) {
        uint64_t number = found->numbers[i];

        if (number < files->chain.first)
            continue;
        if (number != expected)
            code = log_open_damage(files, ret_error, "is missing", expected);
        else if (number > files->chain.last + 1)
            code = log_open_damage(files, ret_error, "is newer than CHAIN", number);
        if (!code)
            code = log_open_part(files, number, ret_error);
        expected = number + 1;
    }
    if (!code && expected <= files->chain.last)
        code = log_open_damage(files, ret_error, "is missing", expected);
    return code;
}

/* ---- the end ---- */

/* Finds the end of a segment that the next header does not name. `*ret_last` is the position of its
 * last frame. */
static enum error_code log_open_scan(struct log_files *files, struct log_part *part,
                                     struct bytes contents, uint64_t *ret_last,
                                     struct error *ret_error)
{
    struct segment_frame frame;
    enum error_code code = ERROR_NONE;
    uint64_t at = SEGMENT_HEADER_SIZE;

    for (*ret_last = 0; !code; at += frame.bytes) {
        uint64_t found = at;

        if (!segment_frame_decode(part->seed, contents, at, &frame) || frame.first != part->next) {
            if (part->is_unsynced || !segment_frame_find(part->seed, contents, &found, &frame) ||
                frame.first < part->next)
                break;
            code = log_open_damage(
                files, ret_error, "is damaged within records that were acknowledged", part->number);
            if (code)
                return code;
        }
        at = *ret_last = found;
        part->end = at + frame.bytes;
        part->next = frame.first + frame.count;
        part->sum = frame.sum;
    }
    if (!code && !segment_is_end(contents, at)) {
        files->torn++;
        files->must_begin = true;
    }
    return code;
}

static enum error_code log_open_end(struct log_files *files, struct log_part *part,
                                    uint64_t *ret_last_frame, struct error *ret_error)
{
    const struct segment_chain *chain = &files->chain;
    bool is_last = part == log_files_last(files);
    char *text;

    enum error_code code = log_files_load(files, part->number, part->bytes, &text, ret_error);
    if (code)
        return code;
    struct bytes contents = {text, part->bytes};
    code = log_open_scan(files, part, contents, ret_last_frame, ret_error);
    if (!code && is_last && chain->is_closed &&
        (part->number != chain->last || part->end != chain->end || part->next != chain->next ||
         part->sum != chain->sum))
        code = log_open_damage(files, ret_error, "does not end where the last clean stop left it",
                               part->number);
    free(text);
    return code;
}

/* Finds the ends that no header names: of the last segment, and of segments before a gap. */
static enum error_code log_open_ends(struct log_files *files, uint64_t *ret_last_frame,
                                     struct error *ret_error)
{
    const struct log_part *last = log_files_last(files);
    enum error_code code = ERROR_NONE;

    for (size_t i = 0; !code && i < files->part_count; i++)
        if (!files->parts[i].is_ended)
            code = log_open_end(files, &files->parts[i], ret_last_frame, ret_error);
    if (last && last->is_unsynced != (files->options.sync == LOG_FILES_SYNC_NEVER))
        files->must_begin = true;
    files->next = last ? last->next : files->options.begin ? files->options.begin : 1;
    return code;
}

/* Checks that the log has the offset that the caller needs, or ends just before it, and that it has
 * come to `reached`. A log that is not synced may end earlier after a power cut. */
static enum error_code log_open_check_begin(struct log_files *files, struct error *ret_error)
{
    const struct log_files_options *options = &files->options;
    const struct log_part *last = log_files_last(files);
    const uint64_t needed = options->begin > options->reached ? options->begin : options->reached;

    if (last && options->begin && options->begin < files->parts[0].first &&
        options->damage == LOG_FILES_DAMAGE_REFUSE)
        return error_set(ret_error, ERROR_CORRUPT,
                         "the log in %s begins with record %" PRIu64 ", but record %" PRIu64
                         " is needed",
                         files->folder, files->parts[0].first, options->begin);
    if (needed <= files->next)
        return ERROR_NONE;
    const bool is_synced = !last || !last->is_unsynced;
    if (options->damage == LOG_FILES_DAMAGE_REFUSE && is_synced)
        return error_set(ret_error, ERROR_CORRUPT,
                         "the log in %s ends before record %" PRIu64 ", but records up to %" PRIu64
                         " were in it",
                         files->folder, files->next, needed - 1);
    const uint64_t held = options->begin > files->next ? options->begin : files->next;
    if (is_synced)
        files->lost_at_end = needed - held;
    files->next = needed;
    files->must_begin = true;
    return ERROR_NONE;
}

/* ---- making sure ---- */

/* The following functions make durable what was read while opening. It may be only in the system's
 * cache: an append whose sync failed, the name of a new segment, the chain. From here on the log
 * relies on it. */

/* Writes the chain first, into the slot that it has, because the other slot may be the only copy on
 * the disk. */
static enum error_code log_open_secure_names(struct log_files *files, struct error *ret_error)
{
    const struct log_part *last = log_files_last(files);
    struct segment_chain chain = files->chain;

    enum error_code code = log_files_put_chain(files, &chain, ret_error);
    if (code || !last || last->number <= chain.last)
        return code;
    int error = files->disk->sync_folder(files->disk, files->folder);
    if (error)
        return disk_failed(error, "sync folder", files->folder, ret_error);
    chain.last = last->number;
    chain.is_closed = false;
    return log_files_write_chain(files, &chain, ret_error);
}

/* Syncs the last frame, which may be an append whose sync failed. Earlier frames were synced before
 * it was written. */
static enum error_code log_open_secure_frame(struct log_files *files, uint64_t at,
                                             struct error *ret_error)
{
    const struct log_part *part = log_files_last(files);
    struct log_path path = log_path_of_segment(files, part->number);
    size_t size = part->end - at, got = 0;
    char *frame = malloc(size);

    if (!frame)
        return error_set(ret_error, ERROR_NO_MEMORY, "open the log: out of memory");
    int error = files->disk->read(files->disk, files->file, at, frame, size, &got);
    if (!error && got == size)
        error = files->disk->write(files->disk, files->file, at, (struct bytes){frame, size});
    if (!error)
        error = files->disk->sync(files->disk, files->file);
    free(frame);
    return error ? disk_failed(error, "write", path.text, ret_error) : ERROR_NONE;
}

static enum error_code log_open_secure(struct log_files *files, uint64_t last_frame,
                                       struct error *ret_error)
{
    const struct log_part *last = log_files_last(files);

    if (last) {
        struct log_path path = log_path_of_segment(files, last->number);
        int error = files->disk->open(files->disk, path.text, DISK_WRITE, &files->file);

        if (error) {
            files->file = -1;
            return disk_failed(error, "write", path.text, ret_error);
        }
    }
    enum error_code code = ERROR_NONE;
    if (last_frame && !files->chain.is_closed)
        code = log_open_secure_frame(files, last_frame, ret_error);
    return code ? code : log_open_secure_names(files, ret_error);
}

/* ---- all of it ---- */

/* Removes the files of segments that were trimmed. */
static void log_open_tidy(struct log_files *files, const struct log_found *found)
{
    files->disk->remove(files->disk, log_path_of(files, LOG_FILES_SPARE ".new").text);
    files->disk->remove(files->disk, log_path_of(files, LOG_FILES_CHAIN ".new").text);
    for (size_t i = 0; i < found->count; i++)
        if (found->numbers[i] < files->chain.first)
            files->disk->remove(files->disk, log_path_of_segment(files, found->numbers[i]).text);
    if (found->spare_bytes == files->options.segment_bytes)
        files->spare_bytes = found->spare_bytes;
}

static enum error_code log_open_all(struct log_files *files, struct error *ret_error)
{
    struct log_found found = {0};
    uint64_t last_frame = 0;

    enum error_code code = log_open_look(files, &found, ret_error);
    if (!code)
        code = log_open_chain(files, &found, ret_error);
    if (!code)
        code = log_open_check_id(files, ret_error);
    if (!code)
        code = log_open_parts(files, &found, ret_error);
    if (!code)
        code = log_open_ends(files, &last_frame, ret_error);
    if (!code)
        code = log_open_check_begin(files, ret_error);
    if (!code && files->options.mode != LOG_FILES_READ)
        code = log_open_secure(files, last_frame, ret_error);
    if (!code && files->options.mode != LOG_FILES_READ)
        log_open_tidy(files, &found);
    free(found.numbers);
    return code;
}

enum error_code log_files_open(const struct log_files_options *options, struct log_files **ret_log,
                               struct error *ret_error)
{
    struct log_files *files = calloc(1, sizeof(*files));
    char *folder = strdup(options->folder);

    if (!files || !folder || strlen(folder) > PATH_MAX - 64) {
        free(files);
        free(folder);
        return error_set(ret_error, ERROR_NO_MEMORY, "open the log: out of memory");
    }
    files->options = *options;
    files->options.folder = files->folder = folder;
    if (!files->options.segment_bytes)
        files->options.segment_bytes = LOG_SEGMENT_DEFAULT;
    if (files->options.segment_bytes < LOG_SEGMENT_LEAST)
        files->options.segment_bytes = LOG_SEGMENT_LEAST;
    files->options.segment_bytes &= ~UINT64_C(7);
    files->disk = options->disk ? options->disk : disk_system();
    files->file = files->next_file = -1;
    buffer_init(&files->frame);
    pthread_mutex_init(&files->lock, NULL);
    pthread_cond_init(&files->changed, NULL);
    enum error_code code = log_open_all(files, ret_error);
    if (code) {
        log_files_free(files);
        return code;
    }
    *ret_log = files;
    return ERROR_NONE;
}
