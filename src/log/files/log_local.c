/* log_local.c - the log of a data folder, and of each partition on it; see log_local.h. */
#include "log/files/log_local_private.h"

#include "sys/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOW_MS = 1000 }; /* age in milliseconds from which an append counts as slow */

static struct log_local_part *log_local_part_of(struct log *log)
{
    return (struct log_local_part *)(void *)log;
}

/* ---- the log of a partition ---- */

/* Copies the bytes without the lock, because only the owner uses them until the append waits to be
 * written. */
static enum error_code log_local_append(struct log *log, uint64_t ticket, struct bytes bytes,
                                        struct error *ret_error)
{
    struct log_local_part *part = log_local_part_of(log);
    struct log_local *local = part->local;

    if (local->options.mode == LOG_FILES_READ)
        return error_set(ret_error, ERROR_IO, "the log is open for reading");
    if (bytes.size == 0)
        return error_set(ret_error, ERROR_INVALID, "an empty record");
    if (part->step != LOG_LOCAL_NONE)
        return error_set(ret_error, ERROR_OVERLOADED, "another append is in flight");
    buffer_clear(&part->bytes);
    buffer_append_bytes(&part->bytes, bytes);
    if (buffer_failed(&part->bytes))
        return error_set(ret_error, ERROR_NO_MEMORY, "append to the log: out of memory");
    pthread_mutex_lock(&local->lock);
    part->ticket = ticket;
    part->since = instant_now();
    part->step = LOG_LOCAL_WAITS;
    list_push(&local->waiting, &part->link);
    atomic_fetch_add(&local->pending_count, 1);
    atomic_fetch_add(&local->pending_bytes, bytes.size);
    pthread_mutex_unlock(&local->lock);
    return ERROR_NONE;
}

static enum error_code log_local_note_trim(struct log *log, uint64_t before,
                                           struct error *ret_error)
{
    struct log_local_part *part = log_local_part_of(log);
    struct log_local *local = part->local;

    if (local->options.mode == LOG_FILES_READ)
        return error_set(ret_error, ERROR_IO, "the log is open for reading");
    pthread_mutex_lock(&local->lock);
    const bool is_free = !part->is_trimming;
    if (is_free) {
        part->is_trimming = true;
        part->is_trim_taken = false;
        if (before > part->trim_before)
            part->trim_before = before;
        local->wants_trim = true;
        pthread_cond_broadcast(&local->trims);
    }
    pthread_mutex_unlock(&local->lock);
    return is_free ? ERROR_NONE
                   : error_set(ret_error, ERROR_OVERLOADED, "another trim is in flight");
}

static enum log_kind log_local_take_result(struct log_local_part *part, struct log_event *ret_event)
{
    part->step = LOG_LOCAL_NONE;
    *ret_event = (struct log_event){.kind = part->result, .ticket = part->ticket};
    if (part->result == LOG_LANDED) {
        ret_event->offset = part->landed;
    } else {
        ret_event->code = part->failure.code;
        ret_event->reason = part->failure.text;
    }
    return ret_event->kind;
}

static enum log_kind log_local_take_trim(struct log_local_part *part, struct log_event *ret_event)
{
    part->is_trimming = part->has_trim_result = false;
    *ret_event = (struct log_event){.kind = LOG_TRIMMED, .offset = part->local->first};
    if (part->trim_failure.code)
        *ret_event = (struct log_event){.kind = LOG_TRIM_FAILED,
                                        .code = part->trim_failure.code,
                                        .reason = part->trim_failure.text};
    return ret_event->kind;
}

static enum log_kind log_local_take(struct log_local_part *part, struct log_event *ret_event)
{
    if (part->step == LOG_LOCAL_DONE)
        return log_local_take_result(part, ret_event);
    if (part->has_trim_result)
        return log_local_take_trim(part, ret_event);
    return log_local_take_reading(part, ret_event);
}

/* True if the partition has no event until log_local_mark or a call of its owner. */
static bool log_local_is_exhausted(const struct log_local_part *part)
{
    return part->step != LOG_LOCAL_DONE && !part->has_trim_result && !part->has_end_due &&
           (part->reading == LOG_LOCAL_ENDED || part->reading == LOG_LOCAL_IDLE);
}

static enum log_kind log_local_wait(struct log *log, uint64_t timeout_ms,
                                    struct log_event *ret_event)
{
    struct log_local_part *part = log_local_part_of(log);
    struct log_local *local = part->local;

    *ret_event = (struct log_event){.kind = LOG_NOTHING};
    if (timeout_ms == 0 && !atomic_load(&part->must_look))
        return LOG_NOTHING;
    const struct instant begin = timeout_ms ? instant_now() : (struct instant){0};
    const struct timespec end = instant_timespec(instant_add_ms(begin, timeout_ms));
    bool is_over = timeout_ms == 0;

    pthread_mutex_lock(&local->lock);
    for (;;) {
        *ret_event = (struct log_event){.kind = LOG_NOTHING};
        if (log_local_take(part, ret_event) || is_over || part->is_woken)
            break;
        is_over = pthread_cond_timedwait(&local->news, &local->lock, &end) != 0;
    }
    if (ret_event->kind == LOG_NOTHING)
        part->is_woken = false;
    if (log_local_is_exhausted(part))
        atomic_store(&part->must_look, false);
    pthread_mutex_unlock(&local->lock);
    log_local_tell(local);
    return ret_event->kind;
}

static void log_local_wake(struct log *log)
{
    struct log_local_part *part = log_local_part_of(log);

    pthread_mutex_lock(&part->local->lock);
    part->is_woken = true;
    atomic_store(&part->must_look, true);
    pthread_cond_broadcast(&part->local->news);
    pthread_mutex_unlock(&part->local->lock);
}

static enum log_trouble log_local_trouble(const struct log *log, char *ret_text, size_t size)
{
    const struct log_local_part *part = (const void *)log;
    struct log_local *local = part->local;
    enum log_trouble trouble = LOG_SLOW;

    pthread_mutex_lock(&local->lock);
    const bool is_in_flight = part->step == LOG_LOCAL_WAITS || part->step == LOG_LOCAL_WRITING;
    const uint64_t age_ms = instant_since_ns(part->since, instant_now()) / 1000000;
    if (part->has_failed)
        snprintf(ret_text, size, "%s", part->failure.text);
    else if (is_in_flight && age_ms >= SLOW_MS)
        snprintf(ret_text, size, "an append has waited for %llu ms", (unsigned long long)age_ms);
    else
        trouble = LOG_FINE;
    pthread_mutex_unlock(&local->lock);
    return trouble;
}

static void log_local_end(struct log *log)
{
    struct log_local_part *part = log_local_part_of(log);

    pthread_mutex_lock(&part->local->lock);
    log_local_unfollow(part);
    if (part->step == LOG_LOCAL_WAITS)
        log_local_withdraw(part);
    else if (part->step == LOG_LOCAL_WRITING)
        part->is_dropped = true;
    else
        part->step = LOG_LOCAL_NONE;
    part->is_trimming = part->has_trim_result = part->has_failed = part->is_woken = false;
    pthread_mutex_unlock(&part->local->lock);
    log_local_tell(part->local);
}

/* ---- all of them ---- */

static const struct log_ops log_local_ops = {
    .follow = log_local_follow,
    .append = log_local_append,
    .trim = log_local_note_trim,
    .wait = log_local_wait,
    .wake = log_local_wake,
    .trouble = log_local_trouble,
    .close = log_local_end,
};

static void log_local_init(struct log_local *local, const struct log_local_options *options)
{
    local->options = *options;
    local->options.home = local->home_path;
    log_home_init(&local->home, local->home_path);
    local->home.segment_bytes = options->segment_bytes;
    local->home.sync = options->sync;
    local->home.skips_damage = options->skips_damage;
    local->home.disk = options->disk;
    local->home.end_min = options->reached;
    local->home.has_id = options->has_id;
    memcpy(local->home.id, options->id, LOG_ID_SIZE);
    pthread_mutex_init(&local->lock, NULL);
    instant_condition_init(&local->news);
    instant_condition_init(&local->work);
    pthread_cond_init(&local->trims, NULL);
    list_init(&local->waiting);
    list_init(&local->writing);
    for (uint16_t i = 0; i < options->partition_count; i++) {
        struct log_local_part *part = &local->parts[i];

        part->log = (struct log){.ops = &log_local_ops, .is_private = true};
        part->local = local;
        part->partition = i;
        list_init(&part->link);
    }
}

/* Makes a log in a folder that has none. */
static enum error_code log_local_make(struct log_local *local, struct error *ret_error)
{
    const struct log_local_options *options = &local->options;
    const uint64_t begin = options->begin > options->reached ? options->begin : options->reached;
    const enum error_code code =
        options->replaces ? ERROR_NONE : log_home_check_unused(&local->home, ret_error);

    return code ? code : log_home_make(&local->home, begin ? begin : 1, ret_error);
}

static enum error_code log_local_open_home(struct log_local *local, struct error *ret_error)
{
    const struct log_local_options *options = &local->options;
    struct log_files_stats stats;
    const enum error_code code =
        options->mode == LOG_FILES_MAKE
            ? log_local_make(local, ret_error)
            : log_home_open(&local->home, options->mode, options->begin, ret_error);

    if (code)
        return code;
    if (options->mode != LOG_FILES_READ)
        log_home_adopt(&local->home);
    log_files_get_stats(local->home.files, &stats);
    local->first = stats.first;
    local->end = stats.end;
    local->is_skipping = local->home.has_loss;
    return ERROR_NONE;
}

enum error_code log_local_open(const struct log_local_options *options,
                               struct log_local **ret_local, struct error *ret_error)
{
    const size_t count = options->partition_count;
    struct log_local *local = calloc(1, sizeof(*local) + count * sizeof(local->parts[0]));

    assert(count > 0);
    if (local) {
        local->records = malloc(count * sizeof(*local->records));
        local->home_path = strdup(options->home);
    }
    if (!local || !local->records || !local->home_path) {
        if (local) {
            free(local->records);
            free(local->home_path);
        }
        free(local);
        return error_set(ret_error, ERROR_NO_MEMORY, "open the log: out of memory");
    }
    log_local_init(local, options);
    const enum error_code code = log_local_open_home(local, ret_error);
    if (code)
        log_local_close(local);
    else
        *ret_local = local;
    return code;
}

void log_local_close(struct log_local *local)
{
    if (!local)
        return;
    log_local_stop(local);
    log_home_close(&local->home);
    log_window_deinit(&local->window);
    for (uint16_t i = 0; i < local->options.partition_count; i++) {
        buffer_deinit(&local->parts[i].bytes);
        buffer_deinit(&local->parts[i].record);
    }
    pthread_cond_destroy(&local->trims);
    pthread_cond_destroy(&local->work);
    pthread_cond_destroy(&local->news);
    pthread_mutex_destroy(&local->lock);
    free(local->records);
    free(local->home_path);
    free(local);
}

struct log *log_local_partition(struct log_local *local, uint16_t partition)
{
    assert(partition < local->options.partition_count);
    return &local->parts[partition].log;
}

bool log_local_is_in_doubt(struct log_local *local)
{
    pthread_mutex_lock(&local->lock);
    const bool is_in_doubt = local->is_in_doubt;
    pthread_mutex_unlock(&local->lock);
    return is_in_doubt;
}

void log_local_get_stats(struct log_local *local, struct log_local_stats *ret_stats)
{
    struct log_files_stats files;

    log_files_get_stats(local->home.files, &files);
    *ret_stats = (struct log_local_stats){.first = files.first,
                                          .end = files.end,
                                          .bytes = files.bytes,
                                          .reserved = files.reserved,
                                          .torn = local->home.torn,
                                          .lost = local->home.lost + files.lost,
                                          .is_in_doubt = files.is_in_doubt};
    memcpy(ret_stats->id, files.id, sizeof(ret_stats->id));
    pthread_mutex_lock(&local->lock);
    ret_stats->has_loss = local->home.has_loss;
    ret_stats->loss = local->home.loss;
    pthread_mutex_unlock(&local->lock);
}
