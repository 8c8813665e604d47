/* log_files_read.c - reading the records of a log in files, and checking the log for tests. */
#include "log/files/log_files_private.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdlib.h>

enum error_code log_files_load(const struct log_files *files, uint64_t number, uint64_t end,
                               char **ret_contents, struct error *ret_error)
{
    struct log_path path = log_path_of_segment(files, number);
    char *contents = malloc(end ? end : 1);
    size_t size = 0;
    int file;

    if (!contents)
        return error_set(ret_error, ERROR_NO_MEMORY, "read %s: out of memory", path.text);
    int error = files->disk->open(files->disk, path.text, DISK_READ, &file);
    if (!error) {
        error = files->disk->read(files->disk, file, 0, contents, end, &size);
        files->disk->close(files->disk, file);
    }
    if (!error && size == end) {
        *ret_contents = contents;
        return ERROR_NONE;
    }
    free(contents);
    return error ? disk_failed(error, "read", path.text, ret_error)
                 : error_set(ret_error, ERROR_CORRUPT, "%s ends at %zu, not at %" PRIu64, path.text,
                             size, end);
}

struct log_reading {
    struct log_files *files;
    uint64_t from;     /* first offset wanted */
    uint64_t expected; /* offset of the next record in the files */
    uint64_t counted;  /* offset up to which other readings have counted lost records */
    uint64_t lost;
    uint64_t end;  /* end of the log at the time when the reading began */
    uint64_t next; /* offset after the segment that was read last */
    bool is_of_one_segment;
    log_visit *visit;
    void *context;
    struct error *ret_error;
};

/* Reports that records are missing, or damaged at `position`. */
static enum error_code log_read_damage(struct log_reading *reading, const struct log_part *part,
                                       uint64_t position)
{
    if (reading->files->options.damage == LOG_FILES_DAMAGE_SKIP)
        return ERROR_NONE;
    return error_set(reading->ret_error, ERROR_CORRUPT,
                     "%s is damaged at byte %" PRIu64 ", within records that were acknowledged",
                     log_path_of_segment(reading->files, part->number).text, position);
}

/* Counts the records up to `offset` as lost. */
static void log_read_pass_over(struct log_reading *reading, uint64_t offset)
{
    uint64_t begin = reading->expected > reading->from ? reading->expected : reading->from;

    if (begin < reading->counted)
        begin = reading->counted;
    if (offset > begin)
        reading->lost += offset - begin;
    if (offset > reading->expected)
        reading->expected = offset;
}

static enum error_code log_read_frame(struct log_reading *reading,
                                      const struct segment_frame *frame)
{
    struct bytes body = frame->body;
    struct log_record record;

    for (uint64_t offset = frame->first; segment_record_next(&body, &record); offset++) {
        if (offset < reading->from)
            continue;
        record.offset = offset;
        enum error_code code = reading->visit(reading->context, &record, reading->ret_error);
        if (code)
            return code;
    }
    reading->expected = frame->first + frame->count;
    return ERROR_NONE;
}

static enum error_code log_read_part(struct log_reading *reading, const struct log_part *part,
                                     struct bytes contents)
{
    uint32_t sum = 0;
    struct segment_frame frame;
    enum error_code code = ERROR_NONE;
    uint64_t at = SEGMENT_HEADER_SIZE;

    for (; !code && at < part->end; at += frame.bytes) {
        uint64_t found = at;

        if (!segment_frame_decode(part->seed, contents, at, &frame) ||
            frame.first != reading->expected) {
            code = log_read_damage(reading, part, at);
            if (code || !segment_frame_find(part->seed, contents, &found, &frame) ||
                frame.first < reading->expected)
                break;
            log_read_pass_over(reading, frame.first);
        }
        at = found;
        sum = frame.sum;
        code = log_read_frame(reading, &frame);
    }
    if (!code && (at != part->end || reading->expected != part->next || sum != part->sum))
        code = log_read_damage(reading, part, at);
    if (!code)
        log_read_pass_over(reading, part->next);
    return code;
}

/* Reads segments, which are not removed meanwhile. */
static enum error_code log_read_parts(struct log_reading *reading, const struct log_part *parts,
                                      size_t count)
{
    enum error_code code = ERROR_NONE;

    for (size_t i = 0; !code && i < count; i++) {
        char *contents;

        if (parts[i].next <= reading->from)
            continue;
        reading->expected = parts[i].first;
        reading->next = i + 1 < count ? parts[i + 1].first : reading->end;
        code = log_files_load(reading->files, parts[i].number, parts[i].end, &contents,
                              reading->ret_error);
        if (code)
            break;
        code = log_read_part(reading, &parts[i], (struct bytes){contents, parts[i].end});
        free(contents);
        /* An earlier start has skipped the offsets between the two segments. */
        if (!code && i + 1 < count && parts[i + 1].first != parts[i].next) {
            code = log_read_damage(reading, &parts[i + 1], 0);
            log_read_pass_over(reading, parts[i + 1].first);
        }
        if (reading->is_of_one_segment)
            break;
    }
    return code;
}

static enum error_code log_read_check_from(struct log_files *files, const struct log_part *parts,
                                           size_t count, uint64_t from, struct error *ret_error)
{
    uint64_t first = count ? parts[0].first : files->next;

    if (files->options.damage == LOG_FILES_DAMAGE_SKIP || (from >= first && from <= files->next))
        return ERROR_NONE;
    return error_set(ret_error, ERROR_CORRUPT,
                     "the log in %s has the records %" PRIu64 " to %" PRIu64 ", and record %" PRIu64
                     " is asked for",
                     files->folder, first, files->next - 1, from);
}

static enum error_code log_read_all(struct log_reading *reading)
{
    struct log_files *files = reading->files;
    struct error *ret_error = reading->ret_error;

    pthread_mutex_lock(&files->lock);
    size_t count = files->part_count;
    enum error_code code =
        log_read_check_from(files, files->parts, count, reading->from, ret_error);
    reading->end = reading->next = files->next;
    reading->counted = files->lost_before;
    struct log_part *parts = code ? NULL : malloc((count + 1) * sizeof(*parts));
    if (parts && count)
        memcpy(parts, files->parts, count * sizeof(*parts));
    files->reader_count++;
    pthread_mutex_unlock(&files->lock);
    if (!code && !parts)
        code = error_set(ret_error, ERROR_NO_MEMORY, "read the log: out of memory");
    if (!code)
        code = log_read_parts(reading, parts, count);
    free(parts);
    pthread_mutex_lock(&files->lock);
    files->reader_count--;
    files->lost += reading->lost;
    /* so that a loss which each reading finds is counted once */
    if (reading->expected > files->lost_before)
        files->lost_before = reading->expected;
    pthread_mutex_unlock(&files->lock);
    return code;
}

enum error_code log_files_read(struct log_files *files, uint64_t from, log_visit *visit,
                               void *context, struct error *ret_error)
{
    struct log_reading reading = {
        .files = files, .from = from, .visit = visit, .context = context, .ret_error = ret_error};

    return log_read_all(&reading);
}

enum error_code log_files_read_segment(struct log_files *files, uint64_t from, log_visit *visit,
                                       void *context, uint64_t *ret_next, struct error *ret_error)
{
    struct log_reading reading = {.files = files,
                                  .from = from,
                                  .visit = visit,
                                  .context = context,
                                  .ret_error = ret_error,
                                  .is_of_one_segment = true};
    const enum error_code code = log_read_all(&reading);

    *ret_next = reading.next;
    return code;
}

void log_files_skip_damage(struct log_files *files)
{
    files->options.damage = LOG_FILES_DAMAGE_SKIP;
}

void log_files_check(struct log_files *files)
{
    for (size_t i = 0; i < files->part_count; i++) {
        const struct log_part *part = &files->parts[i];

        CHECK(part->end >= SEGMENT_HEADER_SIZE);
        CHECK(part->end <= part->bytes && part->end % 8 == 0);
        CHECK(part->first <= part->next && part->first > 0);
        CHECK(part->end > SEGMENT_HEADER_SIZE || part->sum == 0);
        CHECK(i == 0 || part->number > files->parts[i - 1].number);
        CHECK(i == 0 || part->first >= files->parts[i - 1].next);
    }
    const struct log_part *last = log_files_last(files);
    CHECK(!last || last->next <= files->next);
    CHECK(files->must_begin || !last || last->next == files->next);
    CHECK(!files->is_in_doubt || files->must_begin);
    CHECK(files->chain.first > 0 && files->chain.last + 1 >= files->chain.first);
    CHECK(!last || files->options.mode == LOG_FILES_READ || last->number + 1 >= files->chain.last);
    CHECK(files->reader_count == 0 && !files->is_making_spare && !files->is_writing_chain);
}
