/* log_local_read.c - how the partitions read their records of a data folder's log together.
 *
 * The window holds the records of one segment. A follower takes those of its partition. When all
 * followers have passed the window, the last of them loads the next one. A follower that needs
 * earlier records loads the window again from there, and the others pass over what they had. */
#include "log/files/log_local_private.h"

#include "sys/clock.h"

#include <inttypes.h>
#include <stdlib.h>

/* time for which followers wait for one that does not read, in milliseconds */
enum { LATE_MS = 1000 };

/* ---- the window ---- */

void log_window_deinit(struct log_window *window)
{
    buffer_deinit(&window->bytes);
    free(window->records);
    free(window->heads);
    *window = (struct log_window){0};
}

struct log_window_loading {
    struct log_window window;
    uint16_t partition_count;
    uint64_t end; /* end of the log at the time when the loading began */
};

static bool log_window_reserve(struct log_window *window)
{
    if (window->count < window->capacity)
        return true;
    const size_t capacity = window->capacity ? 2 * window->capacity : 256;
    struct log_window_record *records = realloc(window->records, capacity * sizeof(*records));
    if (!records)
        return false;
    window->records = records;
    window->capacity = capacity;
    return true;
}

static enum error_code log_window_visit(void *context, const struct log_record *record,
                                        struct error *ret_error)
{
    struct log_window_loading *loading = context;
    struct log_window *window = &loading->window;
    const size_t at = window->bytes.size;

    if (record->offset >= loading->end)
        return ERROR_NONE; /* appended after the loading began; LOG_LANDED reports it */
    if (record->partition >= loading->partition_count)
        return error_set(ret_error, ERROR_CORRUPT, "the log has records of partition %u",
                         record->partition);
    buffer_append_bytes(&window->bytes, record->body);
    if (buffer_failed(&window->bytes) || !log_window_reserve(window))
        return error_set(ret_error, ERROR_NO_MEMORY, "read the log: out of memory");
    window->records[window->count++] = (struct log_window_record){.offset = record->offset,
                                                                  .at = at,
                                                                  .size = record->body.size,
                                                                  .partition = record->partition};
    return ERROR_NONE;
}

/* Links the records of each partition in order, and sets `heads`. Returns false if out of
 * memory. */
static bool log_window_link(struct log_window *window, uint16_t partition_count)
{
    window->heads = malloc(partition_count * sizeof(*window->heads));
    if (!window->heads)
        return false;
    for (uint16_t i = 0; i < partition_count; i++)
        window->heads[i] = LOG_WINDOW_NONE;
    for (size_t i = window->count; i-- > 0;) {
        struct log_window_record *record = &window->records[i];

        record->following = window->heads[record->partition];
        window->heads[record->partition] = i;
    }
    return true;
}

/* Reads the records from `from` on, to the end of a segment. On failure `end` is the offset after
 * the records that cannot be read. */
static enum error_code log_window_load(struct log_local *local, uint64_t from, uint64_t end,
                                       struct log_window *ret_window, struct error *ret_error)
{
    struct log_window_loading loading = {.partition_count = local->options.partition_count,
                                         .end = end};
    struct log_window *window = &loading.window;
    uint64_t next = from + 1;

    buffer_init(&window->bytes);
    enum error_code code = log_files_read_segment(local->home.files, from, log_window_visit,
                                                  &loading, &next, ret_error);
    if (!code && !log_window_link(window, local->options.partition_count))
        code = error_set(ret_error, ERROR_NO_MEMORY, "read the log: out of memory");
    if (code)
        log_window_deinit(window);
    window->from = from;
    window->end = next < end ? next : end;
    *ret_window = *window;
    return code;
}

/* ---- followers ---- */

static bool log_local_window_has(const struct log_local *local, uint64_t offset)
{
    return offset >= local->window.from && offset < local->window.end;
}

/* Sets the state of the partition's reading. Frees the window if no partition reads any more. */
static void log_local_set_reading(struct log_local_part *part, enum log_local_reading reading)
{
    struct log_local *local = part->local;

    part->reading = reading;
    atomic_store(&part->must_look, true);
    part->is_late = false;
    for (uint16_t i = 0; i < local->options.partition_count; i++)
        if (local->parts[i].reading == LOG_LOCAL_FOLLOWS)
            return;
    log_window_deinit(&local->window);
}

/* Marks all followers, because those that waited for this one may load the next window now. */
static void log_local_mark_followers(struct log_local *local)
{
    for (uint16_t i = 0; i < local->options.partition_count; i++)
        if (local->parts[i].reading == LOG_LOCAL_FOLLOWS)
            log_local_mark(&local->parts[i]);
    pthread_cond_broadcast(&local->news);
}

void log_local_unfollow(struct log_local_part *part)
{
    const bool has_followed = part->reading == LOG_LOCAL_FOLLOWS;

    part->has_end_due = false;
    log_local_set_reading(part, LOG_LOCAL_IDLE);
    if (has_followed)
        log_local_mark_followers(part->local);
}

static void log_local_lose(struct log_local_part *part, const struct error *cause)
{
    part->lost = *cause;
    log_local_set_reading(part, LOG_LOCAL_LOST);
    log_local_mark(part);
    log_local_mark_followers(part->local);
}

/* Begins to read at `offset`. If damage was skipped there, begins at the nearest offset that
 * exists. */
static void log_local_begin(struct log_local_part *part, uint64_t offset)
{
    struct log_local *local = part->local;
    struct error cause;

    if (local->is_skipping && offset < local->first)
        offset = local->first;
    if (local->is_skipping && offset > local->end)
        offset = local->end;
    if (offset < local->first || offset > local->end) {
        error_set(&cause, ERROR_CORRUPT,
                  "the log has the records %" PRIu64 " to %" PRIu64 ", and record %" PRIu64
                  " is asked for",
                  local->first, local->end - 1, offset);
        log_local_lose(part, &cause);
        return;
    }
    part->next = offset;
    if (local->window.heads)
        part->window_at = local->window.heads[part->partition];
    log_local_set_reading(part, LOG_LOCAL_FOLLOWS);
}

enum error_code log_local_follow(struct log *log, enum log_from from, uint64_t number,
                                 struct error *ret_error)
{
    struct log_local_part *part = (struct log_local_part *)(void *)log;
    struct log_local *local = part->local;

    if (from == LOG_FROM_END)
        return error_set(ret_error, ERROR_INVALID, "this log is not read from its end");
    pthread_mutex_lock(&local->lock);
    part->has_end_due = false;
    if (from == LOG_FROM_BEGIN)
        number = local->first;
    log_local_begin(part, number ? number : 1); /* the first offset is 1 */
    pthread_mutex_unlock(&local->lock);
    return ERROR_NONE;
}

/* ---- moving the window ---- */

/* Returns the lowest offset, from `least` on, that a follower needs; UINT64_MAX if none. */
static uint64_t log_local_lowest(const struct log_local *local, uint64_t least)
{
    uint64_t lowest = UINT64_MAX;

    for (uint16_t i = 0; i < local->options.partition_count; i++) {
        const struct log_local_part *part = &local->parts[i];

        if (part->reading == LOG_LOCAL_FOLLOWS && !part->is_late && part->next >= least &&
            part->next < lowest)
            lowest = part->next;
    }
    return lowest;
}

/* True if followers that are still in the window have not read for so long that the others stop
 * waiting for them. */
static bool log_local_leaves_late(struct log_local *local)
{
    const struct instant now = instant_now();

    if (local->exhausted_at.ns == 0)
        local->exhausted_at = now;
    if (now.ns < instant_add_ms(local->exhausted_at, LATE_MS).ns)
        return false;
    for (uint16_t i = 0; i < local->options.partition_count; i++)
        if (local->parts[i].next < local->window.end)
            local->parts[i].is_late = true;
    return true;
}

/* Sets a window for the followers. If it could not be loaded, reports that to those that need
 * it. */
static void log_local_set_window(struct log_local *local, struct log_window *window,
                                 enum error_code code, const struct error *cause)
{
    if (!code) {
        log_window_deinit(&local->window);
        local->window = *window;
    }
    local->exhausted_at = (struct instant){0};
    for (uint16_t i = 0; i < local->options.partition_count; i++) {
        struct log_local_part *part = &local->parts[i];

        if (part->reading != LOG_LOCAL_FOLLOWS)
            continue;
        if (!code)
            part->window_at = local->window.heads[i];
        else if (part->next >= window->from && part->next < window->end)
            log_local_lose(part, cause);
    }
    log_local_mark_followers(local);
}

/* Loads the window from the offset `from` on. The lock is released meanwhile. */
static void log_local_load(struct log_local *local, uint64_t from)
{
    struct error cause = {.text = ""};
    struct log_window window;
    const uint64_t end = local->end;

    local->is_loading = true;
    pthread_mutex_unlock(&local->lock);
    enum error_code code = log_window_load(local, from, end, &window, &cause);
    const struct error damage = cause;
    const bool is_damage = code == ERROR_CORRUPT && local->options.skips_damage;
    if (is_damage) {
        log_files_skip_damage(local->home.files);
        code = log_window_load(local, from, end, &window, &cause);
    } else if (code == ERROR_CORRUPT) {
        log_home_refuse(&damage, &cause);
    }
    pthread_mutex_lock(&local->lock);
    local->is_loading = false;
    if (is_damage) {
        local->is_skipping = local->home.has_loss = true;
        local->home.loss = damage;
    }
    log_local_set_window(local, &window, code, &cause);
}

/* Returns the offset from which to load a window for this follower, which has read all of the
 * current one. 0 if it has to wait. */
static uint64_t log_local_wanted(struct log_local_part *part)
{
    struct log_local *local = part->local;

    part->is_late = false;
    uint64_t lowest = log_local_lowest(local, 0);
    if (local->is_loading || lowest >= local->end)
        return 0;
    if (!log_local_window_has(local, lowest))
        return lowest;
    if (!log_local_leaves_late(local))
        return 0;
    lowest = log_local_lowest(local, local->window.end);
    return lowest < local->end ? lowest : 0;
}

/* ---- events ---- */

/* Returns the follower's next record in the window. False if there is none. */
static bool log_local_take_record(struct log_local_part *part, struct log_event *ret_event)
{
    struct log_local *local = part->local;

    if (!log_local_window_has(local, part->next))
        return false;
    while (part->window_at != LOG_WINDOW_NONE) {
        const struct log_window_record *record = &local->window.records[part->window_at];

        part->window_at = record->following;
        if (record->offset < part->next)
            continue;
        buffer_clear(&part->record);
        buffer_append(&part->record, local->window.bytes.data + record->at, record->size);
        if (buffer_failed(&part->record)) {
            struct error cause;

            error_set(&cause, ERROR_NO_MEMORY, "read the log: out of memory");
            log_local_lose(part, &cause);
            return false;
        }
        part->next = record->offset + 1;
        *ret_event = (struct log_event){
            .kind = LOG_RECORD, .offset = record->offset, .bytes = buffer_bytes(&part->record)};
        return true;
    }
    part->next = local->window.end;
    return false;
}

static enum log_kind log_local_take_end(struct log_local_part *part, struct log_event *ret_event)
{
    log_local_set_reading(part, LOG_LOCAL_ENDED);
    buffer_deinit(&part->record);
    buffer_init(&part->record);
    part->has_end_due = false;
    part->next = part->local->end;
    *ret_event = (struct log_event){.kind = LOG_END, .offset = part->next};
    return LOG_END;
}

static enum log_kind log_local_take_lost(struct log_local_part *part, struct log_event *ret_event)
{
    log_local_set_reading(part, LOG_LOCAL_IDLE);
    *ret_event =
        (struct log_event){.kind = LOG_LOST, .code = part->lost.code, .reason = part->lost.text};
    return LOG_LOST;
}

enum log_kind log_local_take_reading(struct log_local_part *part, struct log_event *ret_event)
{
    struct log_local *local = part->local;

    while (part->reading == LOG_LOCAL_FOLLOWS) {
        if (log_local_take_record(part, ret_event))
            return LOG_RECORD;
        if (part->reading == LOG_LOCAL_FOLLOWS && part->next >= local->end && !local->is_in_doubt)
            return log_local_take_end(part, ret_event);
        const uint64_t from =
            part->reading == LOG_LOCAL_FOLLOWS ? log_local_wanted(part) : UINT64_MAX;
        if (from == 0)
            return LOG_NOTHING;
        if (from < UINT64_MAX)
            log_local_load(local, from);
    }
    if (part->reading == LOG_LOCAL_LOST)
        return log_local_take_lost(part, ret_event);
    if (part->reading == LOG_LOCAL_ENDED && part->has_end_due && part->step == LOG_LOCAL_NONE &&
        !local->is_in_doubt)
        return log_local_take_end(part, ret_event);
    return LOG_NOTHING;
}
