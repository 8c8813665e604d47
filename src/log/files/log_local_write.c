/* log_local_write.c - how a data folder's log writes the appends that wait, and trims its files.
 *
 * One thread at a time writes: it takes all appends that wait, makes them durable with one call,
 * and reports the results. An append that fails in doubt is removed by a repair before the next one
 * is written, so a later failure is never mistaken for it. */
#include "log/files/log_local_private.h"

#include "sys/clock.h"
#include "sys/process.h"

enum {
    GROUP_BYTES = 64 << 20, /* maximum size of one write, unless a single append is larger */
    BYTES_KEPT = 64 << 10,  /* maximum size of an empty buffer that is kept */
    TRIM_BYTES = 4 << 20,   /* number of appended bytes after which a trim is due */
    REPAIR_MS = 1000,       /* interval at which it is tried to remove an append that is in doubt */
};

void log_local_mark(struct log_local_part *part)
{
    atomic_store(&part->must_look, true);
    atomic_store(&part->must_tell, true);
    atomic_store(&part->local->must_tell, true);
}

void log_local_tell(struct log_local *local)
{
    if (!atomic_load(&local->must_tell) || !atomic_exchange(&local->must_tell, false))
        return;
    for (uint16_t i = 0; i < local->options.partition_count; i++)
        if (atomic_load(&local->parts[i].must_tell) &&
            atomic_exchange(&local->parts[i].must_tell, false) && local->options.told)
            local->options.told(local->options.context, i);
}

/* ---- appends ---- */

void log_local_withdraw(struct log_local_part *part)
{
    struct log_local *local = part->local;

    list_remove(&part->link);
    atomic_fetch_sub(&local->pending_count, 1);
    atomic_fetch_sub(&local->pending_bytes, part->bytes.size);
    part->step = LOG_LOCAL_NONE;
}

/* Takes the oldest waiting appends: at least one, if there is any. Returns their number and
 * size. */
static size_t log_local_collect(struct log_local *local, size_t *ret_bytes)
{
    size_t count = 0, bytes = 0;

    while (!list_is_empty(&local->waiting)) {
        struct log_local_part *part = list_item(local->waiting.next, struct log_local_part, link);

        if (count && bytes + part->bytes.size > GROUP_BYTES) {
            local->is_kicked = true;
            break;
        }
        log_local_withdraw(part);
        part->step = LOG_LOCAL_WRITING;
        list_push(&local->writing, &part->link);
        local->records[count++] =
            (struct log_record){.partition = part->partition, .body = buffer_bytes(&part->bytes)};
        bytes += part->bytes.size;
    }
    local->untrimmed_bytes += bytes;
    *ret_bytes = bytes;
    return count;
}

/* Removes an append that is in doubt, and then makes the records durable. If `count` is 0, only the
 * former. */
static enum error_code log_local_try(struct log_local *local, size_t count, bool *ret_is_in_doubt,
                                     struct error *ret_error)
{
    struct log_files_stats stats;
    enum error_code code = log_files_repair(local->home.files, ret_error);

    *ret_is_in_doubt = false;
    if (code || !count)
        return code;
    code = log_home_append(&local->home, local->records, count, ret_error);
    log_files_get_stats(local->home.files, &stats);
    *ret_is_in_doubt = code && stats.is_in_doubt;
    return code;
}

static void log_local_finish_one(struct log_local_part *part, enum log_kind result,
                                 const struct error *failure)
{
    list_remove(&part->link);
    buffer_clear(&part->bytes);
    if (part->bytes.capacity > BYTES_KEPT)
        buffer_deinit(&part->bytes), buffer_init(&part->bytes);
    part->has_failed = result != LOG_LANDED;
    if (part->has_failed)
        part->failure = *failure;
    part->result = result;
    part->has_end_due |= result == LOG_FAILED;
    part->step = part->is_dropped ? LOG_LOCAL_NONE : LOG_LOCAL_DONE;
    part->is_dropped = false;
    log_local_mark(part);
}

/* Stores whether an append is in doubt. Partitions report LOG_END only when none is. */
static void log_local_set_doubt(struct log_local *local, bool is_in_doubt)
{
    if (local->is_in_doubt && !is_in_doubt)
        for (uint16_t i = 0; i < local->options.partition_count; i++)
            log_local_mark(&local->parts[i]);
    local->is_in_doubt = is_in_doubt;
}

static void log_local_finish(struct log_local *local, size_t count, enum log_kind result,
                             const struct error *failure)
{
    struct log_files_stats stats;
    const uint64_t segment_bytes = local->options.segment_bytes;

    log_files_get_stats(local->home.files, &stats);
    for (size_t i = 0; i < count; i++) {
        struct log_local_part *part = list_item(local->writing.next, struct log_local_part, link);

        part->landed = local->records[i].offset;
        log_local_finish_one(part, result, failure);
    }
    local->end = stats.end;
    log_local_set_doubt(local, stats.is_in_doubt);
    pthread_cond_broadcast(&local->news);
    if (local->untrimmed_bytes < TRIM_BYTES &&
        (!segment_bytes || local->untrimmed_bytes < segment_bytes))
        return;
    local->untrimmed_bytes = 0;
    atomic_fetch_add(&local->trims_due, 1);
    local->wants_trim = true;
    pthread_cond_broadcast(&local->trims);
}

/* Writes the waiting appends. The caller holds the lock, which is released meanwhile. */
static void log_local_write(struct log_local *local)
{
    struct error error = {.text = ""};
    bool is_in_doubt = false;
    enum error_code code = ERROR_NONE;

    size_t bytes;

    local->is_writing = true;
    local->is_kicked = false;
    const size_t count = log_local_collect(local, &bytes);
    if (count || local->is_in_doubt) {
        pthread_mutex_unlock(&local->lock);
        const struct instant begin = instant_now();
        do {
            code = log_local_try(local, count, &is_in_doubt, &error);
        } while (code == ERROR_DISK_FULL && local->options.relieve &&
                 local->options.relieve(local->options.context));
        if (count && local->options.written)
            local->options.written(local->options.context, bytes,
                                   instant_since_ns(begin, instant_now()));
        pthread_mutex_lock(&local->lock);
        log_local_finish(local, count,
                         !code         ? LOG_LANDED
                         : is_in_doubt ? LOG_FAILED
                                       : LOG_REFUSED,
                         &error);
    }
    local->is_writing = false;
    if (local->is_kicked || local->is_in_doubt)
        pthread_cond_signal(&local->work);
}

bool log_local_flush(struct log_local *local)
{
    if (local->options.mode == LOG_FILES_READ)
        return true;
    pthread_mutex_lock(&local->lock);
    const bool is_free = !local->is_writing;
    if (is_free)
        log_local_write(local);
    else
        local->is_kicked = true; /* the writing thread continues when the other thread is done */
    pthread_mutex_unlock(&local->lock);
    log_local_tell(local);
    return is_free;
}

/* Signals without holding the lock, because the woken thread would wait for it. */
void log_local_kick(struct log_local *local)
{
    pthread_mutex_lock(&local->lock);
    const bool is_news = !local->is_kicked && !local->is_writing;
    local->is_kicked = true;
    pthread_mutex_unlock(&local->lock);
    if (is_news)
        pthread_cond_signal(&local->work);
}

void log_local_pending(const struct log_local *local, uint64_t *ret_count, uint64_t *ret_bytes)
{
    *ret_count = atomic_load(&local->pending_count);
    *ret_bytes = atomic_load(&local->pending_bytes);
}

void log_local_note_end(struct log_local *local)
{
    pthread_mutex_lock(&local->lock);
    for (uint16_t i = 0; i < local->options.partition_count; i++) {
        struct log_local_part *part = &local->parts[i];

        if (part->reading != LOG_LOCAL_ENDED)
            continue;
        part->has_end_due = true;
        log_local_mark(part);
    }
    pthread_cond_broadcast(&local->news);
    pthread_mutex_unlock(&local->lock);
    log_local_tell(local);
}

/* ---- trims ---- */

uint64_t log_local_trims_due(const struct log_local *local)
{
    return atomic_load(&local->trims_due);
}

/* Returns the offset before which no partition needs records. */
static uint64_t log_local_take_trims(struct log_local *local)
{
    uint64_t before = UINT64_MAX;

    for (uint16_t i = 0; i < local->options.partition_count; i++) {
        struct log_local_part *part = &local->parts[i];

        part->is_trim_taken = part->is_trimming;
        if (part->trim_before < before)
            before = part->trim_before;
    }
    return before;
}

static void log_local_answer_trims(struct log_local *local, const struct error *failure)
{
    for (uint16_t i = 0; i < local->options.partition_count; i++) {
        struct log_local_part *part = &local->parts[i];

        if (!part->is_trim_taken || !part->is_trimming)
            continue;
        part->has_trim_result = true;
        part->trim_failure = *failure;
        log_local_mark(part);
    }
    pthread_cond_broadcast(&local->news);
}

void log_local_trim(struct log_local *local)
{
    struct error failure = {.text = ""};
    struct log_files_stats stats;

    pthread_mutex_lock(&local->lock);
    while (local->is_trimming)
        pthread_cond_wait(&local->trims, &local->lock);
    local->is_trimming = true;
    local->wants_trim = false;
    const uint64_t before = log_local_take_trims(local);
    pthread_mutex_unlock(&local->lock);
    failure.code = log_files_trim(local->home.files, before, &failure);
    log_files_get_stats(local->home.files, &stats);
    pthread_mutex_lock(&local->lock);
    local->is_trimming = false;
    local->first = stats.first;
    log_local_answer_trims(local, &failure);
    pthread_cond_broadcast(&local->trims);
    pthread_mutex_unlock(&local->lock);
    log_local_tell(local);
}

/* ---- the threads ---- */

/* Waits for work. While an append is in doubt, waits at most until the next attempt to repair. */
static void log_local_wait_for_work(struct log_local *local)
{
    if (!local->is_in_doubt || local->is_writing) {
        pthread_cond_wait(&local->work, &local->lock);
        return;
    }
    const struct timespec end = instant_timespec(instant_add_ms(instant_now(), REPAIR_MS));

    if (pthread_cond_timedwait(&local->work, &local->lock, &end))
        local->is_kicked = true;
}

/* Waits for more appends, because one sync for a thousand costs as much as for one. */
static void log_local_linger(struct log_local *local)
{
    const struct log_local_options *options = &local->options;
    const struct instant begin = instant_now();
    bool is_over = !options->linger_ns || !atomic_load(&local->pending_count);

    while (!is_over && !local->is_ending) {
        const uint64_t ns =
            options->linger_ns(options->context, atomic_load(&local->pending_bytes));
        const struct timespec end = instant_timespec((struct instant){begin.ns + ns});

        is_over = ns == 0 || pthread_cond_timedwait(&local->work, &local->lock, &end) != 0;
    }
}

static void *log_local_run_writes(void *argument)
{
    struct log_local *local = argument;

    pthread_mutex_lock(&local->lock);
    while (!local->is_ending || local->is_kicked) {
        if (!local->is_kicked || local->is_writing) {
            log_local_wait_for_work(local);
            continue;
        }
        log_local_linger(local);
        if (!local->is_writing) /* another thread may be writing by now */
            log_local_write(local);
        pthread_mutex_unlock(&local->lock);
        log_local_tell(local);
        pthread_mutex_lock(&local->lock);
    }
    pthread_mutex_unlock(&local->lock);
    return NULL;
}

static void *log_local_run_trims(void *argument)
{
    struct log_local *local = argument;

    pthread_mutex_lock(&local->lock);
    while (!local->is_ending) {
        if (!local->wants_trim) {
            pthread_cond_wait(&local->trims, &local->lock);
            continue;
        }
        pthread_mutex_unlock(&local->lock);
        log_local_trim(local);
        pthread_mutex_lock(&local->lock);
    }
    pthread_mutex_unlock(&local->lock);
    return NULL;
}

void log_local_stop(struct log_local *local)
{
    pthread_mutex_lock(&local->lock);
    local->is_ending = true;
    pthread_cond_broadcast(&local->work);
    pthread_cond_broadcast(&local->trims);
    pthread_mutex_unlock(&local->lock);
    if (local->has_write_thread)
        pthread_join(local->write_thread, NULL);
    if (local->has_trim_thread)
        pthread_join(local->trim_thread, NULL);
    local->has_write_thread = local->has_trim_thread = false;
}

enum error_code log_local_start(struct log_local *local, struct error *ret_error)
{
    if (local->options.mode == LOG_FILES_READ)
        return ERROR_NONE;
    pthread_mutex_lock(&local->lock);
    local->is_ending = false;
    /* the first append uses the spare, so a trim is due at once, which makes another one */
    local->untrimmed_bytes = TRIM_BYTES;
    pthread_mutex_unlock(&local->lock);
    local->has_write_thread =
        !thread_start(&local->write_thread, log_local_run_writes, local, "commit");
    local->has_trim_thread = local->has_write_thread &&
                             !thread_start(&local->trim_thread, log_local_run_trims, local, "trim");
    if (local->has_trim_thread)
        return ERROR_NONE;
    log_local_stop(local);
    return error_set(ret_error, ERROR_NO_MEMORY, "no thread for the log");
}
