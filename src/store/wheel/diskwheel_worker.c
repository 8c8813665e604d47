/* diskwheel_worker.c - the thread that writes runs.
 *
 * A flush freezes the active stage and what the partitions have at that moment, writes the stage as
 * runs, marks the older records that it replaces, and then writes the state. The state on disk is
 * that of the moment of the freeze: marks come from frozen stages alone, and cuts are kept as they
 * were then. If a flush fails before that, its stage stays frozen, and the next flush writes it
 * first; until then no state is written. */
#include "store/wheel/diskwheel_choose.h"
#include "store/wheel/diskwheel_store.h"
#include "sys/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    WORKER_PARTS = 4,           /* parts of the memory beside a frozen stage; see worker_room */
    WORKER_RUNS_MAX = 512,      /* runs that are not rewritten for their number */
    WORKER_MANY = 4,            /* part of that number from which rewriting goes before writing */
    WORKER_LOOK = 64,           /* records between looks for a flush that is asked for */
    WORKER_TELL = 1024,         /* changes between signals that a part of the stage is written */
    WORKER_STALE = 3600 * 1000, /* milliseconds for which a run is not stale, at least */
};

/* ---- writing runs, one for each distance ---- */

struct worker_writers {
    struct diskwheel_store *store;
    struct wall now;
    struct diskwheel_writer *writers[DISKWHEEL_CLASSES];
    uint64_t numbers[DISKWHEEL_CLASSES];
    struct diskwheel_run *runs[DISKWHEEL_CLASSES]; /* when all are written */
    uint64_t stale_at[DISKWHEEL_CLASSES];          /* of the runs */
    size_t run_count;
    bool is_copying; /* runs are rewritten */
};

/* Returns when a record is probably over: a final one is kept for a while. */
static uint64_t worker_end_of(const struct worker_writers *writers, enum diskwheel_table table,
                              struct record_key key, struct bytes value)
{
    const uint64_t retain = writers->store->options.retain_ms;
    struct record_pointer pointer;
    struct record_name name;
    uint64_t at = 0, kept = 0;

    if (table == DISKWHEEL_TIMERS) {
        at = key.high & RECORD_AT_MAX;
        kept = record_row_is_over(value) ? retain : 0;
    } else if (table == DISKWHEEL_MOVED && !record_pointer_decode(key, value, &pointer, NULL)) {
        at = pointer.ended.ms && pointer.at.ms < STORAGE_DEAD_FROM.ms ? pointer.ended.ms
                                                                      : pointer.at.ms;
        kept = pointer.ended.ms ? retain : 0;
    } else if (table == DISKWHEEL_NAMES && !record_name_decode(key, value, &name, NULL)) {
        at = name.ended.ms ? name.ended.ms : name.id.first.ms;
        kept = name.ended.ms ? retain : 0;
    }
    return at > UINT64_MAX - kept ? UINT64_MAX : at + kept;
}

/* Returns when a record is to be looked at again if it is not over by then. What should have been
 * over, like the name of a timer that was moved, is looked at when that is twice as long ago. */
static uint64_t worker_stale_at(const struct worker_writers *writers, uint64_t ends_ms)
{
    const uint64_t retain = writers->store->options.retain_ms, now = writers->now.ms;
    const uint64_t at = ends_ms > UINT64_MAX - retain ? UINT64_MAX : ends_ms + retain;

    return at > now + WORKER_STALE ? at : now + WORKER_STALE + (now > at ? now - at : 0);
}

static enum error_code worker_add(struct worker_writers *writers, enum diskwheel_table table,
                                  struct record_key key, bool is_new, struct bytes value,
                                  struct error *ret_error)
{
    struct diskwheel_store *store = writers->store;
    const uint64_t ends_ms = worker_end_of(writers, table, key, value);
    const unsigned class = diskwheel_choose_class(writers->now, ends_ms);

    if (!writers->writers[class]) {
        const enum error_code code = diskwheel_writer_open(
            store->disk, store->folder, store->next_run, &writers->writers[class], ret_error);

        if (code)
            return code;
        writers->numbers[class] = store->next_run++;
    }
    const uint64_t stale_at = worker_stale_at(writers, ends_ms);
    if (stale_at > writers->stale_at[class])
        writers->stale_at[class] = stale_at;
    diskwheel_writer_add(writers->writers[class], table, key, is_new, value);
    return ERROR_NONE;
}

static void worker_drop(struct worker_writers *writers)
{
    for (unsigned i = 0; i < DISKWHEEL_CLASSES; i++)
        diskwheel_writer_drop(writers->writers[i]);
    for (size_t i = 0; i < writers->run_count; i++) {
        atomic_store(&writers->runs[i]->is_over, true);
        diskwheel_run_release(writers->runs[i]);
    }
}

/* A flush that is asked for while runs are rewritten does not wait for the end. Fails if it did, or
 * the store closes: then the rewriting is given up. */
static enum error_code worker_flush_between(struct diskwheel_store *store);

/* Ends the file of a distance, if there is one, and opens the run. */
static enum error_code worker_end_class(struct worker_writers *writers, unsigned class,
                                        struct error *ret_error)
{
    const struct diskwheel_store *store = writers->store;
    struct diskwheel_writer *writer = writers->writers[class];

    writers->writers[class] = NULL;
    if (!writer)
        return ERROR_NONE;
    enum error_code code = diskwheel_writer_end(writer, ret_error);
    if (!code)
        code = diskwheel_run_open(store->disk, store->folder, writers->numbers[class],
                                  store->partition_count, &writers->runs[writers->run_count],
                                  ret_error);
    if (!code)
        writers->runs[writers->run_count++]->stale_at = writers->stale_at[class];
    return code;
}

/* Ends the files and opens the runs. A large one has a large index, so a flush that is asked for
 * while copies end is done between two. */
static enum error_code worker_end(struct worker_writers *writers, struct error *ret_error)
{
    struct diskwheel_store *store = writers->store;
    enum error_code code = ERROR_NONE;

    for (unsigned i = 0; i < DISKWHEEL_CLASSES && !code; i++) {
        code = worker_end_class(writers, i, ret_error);
        if (!code && writers->is_copying)
            code = worker_flush_between(store);
    }
    const int failed = code ? 0 : store->disk->sync_folder(store->disk, store->folder);
    return failed ? disk_failed(failed, "sync", store->folder, ret_error) : code;
}

/* ---- what a frozen stage replaces ---- */

struct worker_mark {
    struct diskwheel_run *run;
    struct diskwheel_key record;
    uint32_t ordinal;
};

/* A cursor for each run, so that records in order of their keys read each block once. */
struct worker_search {
    struct diskwheel_view *view;
    struct diskwheel_cursor *cursors;
    enum diskwheel_table table;
    struct buffer marks; /* struct worker_mark */
};

static bool worker_search_init(struct worker_search *search, struct diskwheel_view *view)
{
    *search = (struct worker_search){.view = view};
    search->cursors = calloc(view->count + 1, sizeof(*search->cursors));
    return search->cursors != NULL;
}

static void worker_search_deinit(struct worker_search *search)
{
    for (size_t i = 0; i < search->view->count && search->cursors; i++)
        diskwheel_cursor_deinit(&search->cursors[i]);
    free(search->cursors);
    buffer_deinit(&search->marks);
}

/* Looks for the record of the key in one run. `ret_value` is empty if it has none. */
static enum error_code worker_search_run(struct worker_search *search, size_t at,
                                         struct record_key key, struct bytes *ret_value,
                                         struct error *ret_error)
{
    struct diskwheel_run *run = search->view->runs[at];
    struct diskwheel_cursor *cursor = &search->cursors[at];
    struct record_key found;
    struct bytes value;

    *ret_value = (struct bytes){0};
    diskwheel_cursor_seek(cursor, run, search->table, key);
    const enum error_code code = diskwheel_cursor_next(cursor, &found, &value, ret_error);
    if (code)
        return code == ERROR_NOT_FOUND || code == ERROR_CORRUPT ? ERROR_NONE : code;
    /* later cuts are not of the state that is written */
    if (!record_key_equal(found, key) ||
        diskwheel_is_cut(search->table, run->kept_cuts, key, value))
        return ERROR_NONE;
    const struct worker_mark mark = {run, {search->table, key}, cursor->ordinal};
    buffer_append(&search->marks, &mark, sizeof(mark));
    *ret_value = value;
    return ERROR_NONE;
}

/* Notes the older record of the key, if there is one. */
static enum error_code worker_search_old(struct worker_search *search, struct record_key key,
                                         struct bytes *ret_value, struct error *ret_error)
{
    enum error_code code = ERROR_NONE;
    struct diskwheel_probe probe;
    size_t i;

    *ret_value = (struct bytes){0};
    diskwheel_probe_begin(&probe, search->view, search->table, key);
    while (!code && !ret_value->size && diskwheel_probe_next(&probe, &i))
        code = worker_search_run(search, i, key, ret_value, ret_error);
    return code;
}

/* Writes one change of the frozen stage. */
static enum error_code worker_write_change(struct worker_writers *writers,
                                           struct worker_search *search, struct record_key key,
                                           const struct diskwheel_entry *entry,
                                           struct buffer *touched, struct error *ret_error)
{
    struct bytes value = diskwheel_entry_value(entry), old;
    enum error_code code = ERROR_NONE;

    if (entry->change == DISKWHEEL_NONE)
        return ERROR_NONE;
    if (!entry->is_new && (code = worker_search_old(search, key, &old, ret_error)))
        return code;
    if (entry->change == DISKWHEEL_GONE)
        return ERROR_NONE;
    if (entry->change == DISKWHEEL_TOUCH) {
        buffer_clear(touched);
        record_touch_apply(touched, key, entry->is_new ? (struct bytes){0} : old, value);
        value = buffer_bytes(touched);
        if (buffer_failed(touched))
            return error_set(ret_error, ERROR_NO_MEMORY, "flush");
    }
    return worker_add(writers, search->table, key, entry->is_new, value, ret_error);
}

/* Lets those go on who wait for a part of the frozen stage. */
static void worker_tell(struct diskwheel_store *store, size_t done)
{
    pthread_mutex_lock(&store->lock);
    store->frozen_done = done;
    pthread_cond_broadcast(&store->done);
    pthread_mutex_unlock(&store->lock);
}

static enum error_code worker_write_stage(struct worker_writers *writers,
                                          struct worker_search *search,
                                          struct diskwheel_stage *stage, struct error *ret_error)
{
    enum error_code code = ERROR_NONE;
    struct buffer touched;
    size_t done = 0;

    buffer_init(&touched);
    for (enum diskwheel_table table = 0; table < DISKWHEEL_TABLES && !code; table++) {
        struct diskwheel_walk walk =
            diskwheel_layer_from(&stage->layer, table, (struct record_key){0, 0});
        struct diskwheel_entry *entry;
        struct record_key key;

        search->table = table;
        while (!code && diskwheel_walk_next(&walk, &key, &entry)) {
            code = worker_write_change(writers, search, key, entry, &touched, ret_error);
            if (++done % WORKER_TELL == 0)
                worker_tell(writers->store, done);
        }
    }
    buffer_deinit(&touched);
    if (!code && buffer_failed(&search->marks))
        code = error_set(ret_error, ERROR_NO_MEMORY, "flush");
    worker_tell(writers->store, done);
    return code ? code : worker_end(writers, ret_error);
}

/* ---- installing ---- */

static bool worker_has(const struct diskwheel_view *view, const struct diskwheel_run *run)
{
    for (size_t i = 0; view && i < view->count; i++)
        if (view->runs[i] == run)
            return true;
    return false;
}

/* Makes room for the next view. The caller holds the lock. NULL if out of memory. */
static struct diskwheel_view *worker_make_view(const struct diskwheel_store *store,
                                               const struct worker_writers *writers)
{
    const struct diskwheel_view *view = store->view;
    struct diskwheel_view *next = diskwheel_view_create(view->count + writers->run_count);

    if (next && diskwheel_view_reserve(next, store->partition_count, view->runs, view->count,
                                       writers->runs, writers->run_count))
        return next;
    diskwheel_view_release(next);
    return NULL;
}

/* Fills the next view: the runs that are needed, without `gone`, and the new ones. The caller holds
 * the lock. */
static void worker_fill_view(const struct diskwheel_store *store, struct worker_writers *writers,
                             const struct diskwheel_view *gone, struct diskwheel_view *next)
{
    const struct diskwheel_view *view = store->view;

    for (size_t i = 0; i < view->count; i++)
        if (!worker_has(gone, view->runs[i]) &&
            (diskwheel_choose_live(view->runs[i]) || view->runs[i]->is_copied))
            next->runs[next->count++] = diskwheel_run_hold(view->runs[i]);
    for (size_t i = 0; i < writers->run_count; i++)
        next->runs[next->count++] = writers->runs[i];
    writers->run_count = 0;
    diskwheel_view_index(next);
}

/* Lets go of the runs that the next view lacks. The caller holds the lock. */
static void worker_let_go(struct diskwheel_store *store, const struct diskwheel_view *before,
                          const struct diskwheel_view *next)
{
    for (size_t i = 0; i < before->count; i++) {
        struct diskwheel_run *run = before->runs[i];

        if (worker_has(next, run))
            continue;
        const uint64_t blocks = atomic_load(&run->damaged_blocks);
        const uint64_t records = atomic_load(&run->damaged_records);
        store->corrupt_blocks += blocks;
        store->corrupt_records += records;
        store->kept.corrupt_blocks += blocks; /* the state that follows lacks the run */
        store->kept.corrupt_records += records;
        diskwheel_run_hold(run);
        buffer_append(&store->gone, &run, sizeof(struct diskwheel_run *));
        if (buffer_failed(&store->gone)) { /* its file stays until the next start */
            diskwheel_run_release(run);
            store->gone.failed = false;
        }
    }
}

/* Removes the files of runs that were let go, each with its last reader. */
static void worker_remove_gone(struct diskwheel_store *store)
{
    struct diskwheel_run **runs = (void *)store->gone.data;

    for (size_t i = 0; i < store->gone.size / sizeof(struct diskwheel_run *); i++) {
        atomic_store(&runs[i]->is_over, true);
        diskwheel_run_release(runs[i]);
    }
    buffer_clear(&store->gone);
}

/* Replaces the view, and writes the state with it. Files of runs that it lacks go after a state
 * without them is on disk. The caller holds the lock. */
static enum error_code worker_install(struct diskwheel_store *store, struct diskwheel_view *next,
                                      struct error *ret_error)
{
    struct diskwheel_view *before = store->view;

    worker_let_go(store, before, next);
    store->view = next;
    pthread_mutex_unlock(&store->lock);
    diskwheel_view_release(before);
    const enum error_code code = diskwheel_state_write(store, next, ret_error);
    if (!code)
        worker_remove_gone(store);
    pthread_mutex_lock(&store->lock);
    if (code)
        return code;
    store->unsaved = 0;
    for (uint16_t i = 0; i < store->partition_count; i++)
        store->parts[i].kept = store->kept.places[i];
    return ERROR_NONE;
}

/* ---- a flush ---- */

/* Freezes the active stage, and keeps the cuts of this moment, which are those of the state. The
 * caller holds the lock. */
static enum error_code worker_freeze(struct diskwheel_store *store, struct error *ret_error)
{
    enum error_code code = ERROR_NONE;

    for (uint16_t i = 0; i < store->partition_count && !code; i++)
        code = diskwheel_part_check(&store->parts[i], ret_error);
    if (code)
        return code;
    struct diskwheel_stage *active = diskwheel_stage_create(store->partition_count);

    if (!active || !diskwheel_state_keep(store, &store->frozen_kept)) {
        diskwheel_stage_release(active);
        return error_set(ret_error, ERROR_NO_MEMORY, "flush");
    }
    for (size_t i = 0; i < store->view->count; i++)
        for (uint16_t k = 0; k < store->partition_count; k++)
            atomic_store(&store->view->runs[i]->kept_cuts[k],
                         atomic_load(&store->view->runs[i]->cuts[k]));
    store->frozen = store->active;
    store->frozen_count = 0;
    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES; i++)
        store->frozen_count += store->frozen->layer.trees[i].count;
    store->active = active;
    store->has_changed = false;
    return ERROR_NONE;
}

/* Marks what the stage replaced. */
static void worker_set_marks(struct diskwheel_store *store, const struct worker_search *search)
{
    const struct worker_mark *marks = (const void *)search->marks.data;

    store->marked++;
    for (size_t i = 0; i < search->marks.size / sizeof(*marks); i++) {
        diskwheel_run_mark(marks[i].run, marks[i].record.table, marks[i].ordinal);
        if (marks[i].run->is_copied)
            buffer_append(&store->late, &marks[i].record, sizeof(marks[i].record));
    }
}

/* Makes the runs of the frozen stage a part of the store. The caller holds the lock. */
static enum error_code worker_flush_install(struct diskwheel_store *store,
                                            struct worker_writers *writers,
                                            const struct worker_search *search,
                                            struct error *ret_error)
{
    struct diskwheel_stage *frozen = store->frozen;
    struct diskwheel_view *next = worker_make_view(store, writers);

    if (!next)
        return error_set(ret_error, ERROR_NO_MEMORY, "flush");
    worker_set_marks(store, search);
    for (size_t i = 0; i < writers->run_count; i++)
        for (uint16_t k = 0; k < store->partition_count; k++)
            atomic_store(&writers->runs[i]->cuts[k], atomic_load(&frozen->cuts[k]));
    worker_fill_view(store, writers, NULL, next);
    diskwheel_state_drop(&store->kept);
    store->kept = store->frozen_kept;
    store->frozen_kept = (struct diskwheel_kept){.places = NULL};
    store->frozen = NULL;
    store->unsaved += frozen->layer.held;
    const enum error_code code = worker_install(store, next, ret_error);
    pthread_mutex_unlock(&store->lock);
    diskwheel_stage_release(frozen);
    pthread_mutex_lock(&store->lock);
    return code;
}

/* The caller holds the lock, which is given back for the work. */
static enum error_code worker_write_frozen(struct diskwheel_store *store, struct error *ret_error)
{
    struct worker_writers writers = {.store = store, .now = wall_now()};
    struct diskwheel_view *view = diskwheel_view_hold(store->view);
    struct diskwheel_stage *frozen = store->frozen;
    struct worker_search search;

    store->frozen_done = 0;
    pthread_mutex_unlock(&store->lock);
    enum error_code code = worker_search_init(&search, view)
                               ? worker_write_stage(&writers, &search, frozen, ret_error)
                               : error_set(ret_error, ERROR_NO_MEMORY, "flush");
    pthread_mutex_lock(&store->lock);
    if (!code)
        code = worker_flush_install(store, &writers, &search, ret_error);
    worker_drop(&writers);
    worker_search_deinit(&search);
    diskwheel_view_release(view);
    return code;
}

/* Writes what is in memory: first what an earlier flush left frozen. The caller holds the lock. */
static enum error_code worker_flush(struct diskwheel_store *store, struct error *ret_error)
{
    enum error_code code = store->frozen ? worker_write_frozen(store, ret_error) : ERROR_NONE;

    if (!code)
        code = worker_freeze(store, ret_error);
    if (!code)
        code = worker_write_frozen(store, ret_error);
    store->has_changed = store->has_changed || code;
    return code;
}

/* ---- rewriting ---- */

static uint64_t worker_records(const struct diskwheel_run *run)
{
    uint64_t records = 0;

    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES; i++)
        records += run->tables[i].record_count;
    return records;
}

static unsigned worker_runs_max(const struct diskwheel_store *store)
{
    return store->options.runs_max ? store->options.runs_max : WORKER_RUNS_MAX;
}

/* Returns how many records are to be rewritten before the next stage is frozen, after one with
 * `count` changes: none up to a quarter of the greatest number of runs, then as many as changes,
 * and four times as many if that number is reached. So writers are no quicker than rewriting. */
static size_t worker_owed(const struct diskwheel_store *store, size_t count)
{
    const size_t runs_max = worker_runs_max(store), many = runs_max / WORKER_MANY;
    const size_t above = store->view->count > many ? store->view->count - many : 0;

    return above ? count + count * WORKER_MANY * above / runs_max : 0;
}

/* The caller holds the lock. NULL if there is nothing to rewrite. */
static struct diskwheel_view *worker_choose(const struct diskwheel_store *store, struct wall now)
{
    const struct diskwheel_choice choice = {.now = now,
                                            .retain_ms = store->options.retain_ms,
                                            .memory = store->options.memory_bytes,
                                            .runs_max = worker_runs_max(store)};

    return diskwheel_choose(&choice, store->view);
}

/* Returns the size that the copies of the runs have, at most. */
static uint64_t worker_live_bytes(const struct diskwheel_view *view)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < view->count; i++) {
        const uint64_t records = worker_records(view->runs[i]);

        bytes +=
            records ? view->runs[i]->bytes / records * diskwheel_choose_live(view->runs[i]) : 0;
    }
    return bytes;
}

/* True if nobody sees the record any more. */
static bool worker_is_forgotten(const struct diskwheel_store *store, struct wall now,
                                enum diskwheel_table table, struct record_key key,
                                struct bytes value)
{
    const struct wall before = {wall_since((struct wall){store->options.retain_ms}, now)};
    struct record_pointer pointer;
    struct record_name name;
    struct timer view;

    if (table == DISKWHEEL_TIMERS)
        return record_row_is_over(value) && !record_row_decode(key, value, &view, NULL) &&
               !storage_is_dead_letter(&view) && view.ended.ms < before.ms;
    if (table == DISKWHEEL_MOVED)
        return !record_pointer_decode(key, value, &pointer, NULL) && pointer.ended.ms &&
               pointer.at.ms < STORAGE_DEAD_FROM.ms && pointer.ended.ms < before.ms;
    return !record_name_decode(key, value, &name, NULL) && name.ended.ms &&
           name.ended.ms < before.ms;
}

static enum error_code worker_copy_table(struct worker_writers *writers, enum diskwheel_table table,
                                         struct error *ret_error)
{
    const struct diskwheel_view *inputs = writers->store->rewritten;
    struct diskwheel_density density = {.view = inputs, .partition = UINT64_MAX};
    struct diskwheel_merge merge;
    struct diskwheel_record record;
    enum error_code code = ERROR_NONE;

    diskwheel_merge_init(&merge, table);
    for (size_t i = inputs->count; i-- > 0 && !code;)
        if (!diskwheel_merge_add_run(&merge, inputs->runs[i], inputs->runs[i]->kept_cuts,
                                     (struct record_key){0, 0}))
            code = error_set(ret_error, ERROR_NO_MEMORY, "rewriting");
    for (unsigned count = 1; !code; count++) {
        code = diskwheel_merge_next(&merge, &record, ret_error);
        if (!code &&
            !worker_is_forgotten(writers->store, writers->now, table, record.key, record.value))
            code = worker_add(writers, table, record.key,
                              table == DISKWHEEL_TIMERS &&
                                  diskwheel_density_keeps(&density, record.run, record.key),
                              record.value, ret_error);
        if (!code && count % WORKER_LOOK == 0)
            code = worker_flush_between(writers->store);
    }
    diskwheel_merge_deinit(&merge);
    return code == ERROR_NOT_FOUND ? ERROR_NONE : code;
}

/* True if the cut of the input can as well be `cut`: no row of it is between them. */
static bool worker_carry_is_equal(const struct diskwheel_run *run, uint16_t partition, uint64_t own,
                                  uint64_t cut)
{
    const struct diskwheel_run_slice *slice = diskwheel_run_find_slice(run, partition);

    return own == cut ||
           (cut != DISKWHEEL_CUT_ALL && own < cut && (!slice || slice->at_min >= cut));
}

/* True if all inputs can have the same cuts of the partition: then those are the cuts of the
 * copies. */
static bool worker_carry_equal_cuts(const struct worker_writers *writers, uint16_t partition)
{
    const struct diskwheel_view *inputs = writers->store->rewritten;
    uint64_t cut = 0, kept = 0;

    for (size_t i = 0; i < inputs->count; i++) {
        const uint64_t own = atomic_load(&inputs->runs[i]->cuts[partition]);
        const uint64_t own_kept = atomic_load(&inputs->runs[i]->kept_cuts[partition]);

        cut = own > cut ? own : cut;
        kept = own_kept > kept ? own_kept : kept;
    }
    for (size_t i = 0; i < inputs->count; i++) {
        const struct diskwheel_run *run = inputs->runs[i];

        if (!worker_carry_is_equal(run, partition, atomic_load(&run->cuts[partition]), cut) ||
            !worker_carry_is_equal(run, partition, atomic_load(&run->kept_cuts[partition]), kept))
            return false;
    }
    for (size_t i = 0; i < writers->run_count; i++) {
        atomic_store(&writers->runs[i]->cuts[partition], cut);
        atomic_store(&writers->runs[i]->kept_cuts[partition], kept);
    }
    return true;
}

/* If the partition was cleared since the copying began, all its copies are over. */
static bool worker_carry_clear(const struct worker_writers *writers, uint16_t partition,
                               const uint64_t *began)
{
    const struct diskwheel_store *store = writers->store;
    const struct diskwheel_view *inputs = store->rewritten;
    bool is_cleared = false, is_kept = false;

    for (size_t i = 0; i < inputs->count; i++) {
        const struct diskwheel_run *run = inputs->runs[i];

        if (atomic_load(&run->cuts[partition]) != DISKWHEEL_CUT_ALL ||
            began[i * store->partition_count + partition] == DISKWHEEL_CUT_ALL)
            continue;
        is_cleared = true;
        is_kept = atomic_load(&run->kept_cuts[partition]) == DISKWHEEL_CUT_ALL;
    }
    for (size_t i = 0; is_cleared && i < writers->run_count; i++) {
        atomic_store(&writers->runs[i]->cuts[partition], DISKWHEEL_CUT_ALL);
        atomic_store(&writers->runs[i]->kept_cuts[partition], is_kept ? DISKWHEEL_CUT_ALL : 0);
    }
    return is_cleared;
}

/* Ends the copies of rows that the input lost since the copying began: those of the state by marks,
 * later ones in the active stage. */
static enum error_code worker_carry_cut(struct diskwheel_store *store, struct worker_search *copies,
                                        struct diskwheel_run *run, uint16_t partition,
                                        uint64_t began, struct error *ret_error)
{
    const uint64_t kept = atomic_load(&run->kept_cuts[partition]);
    const uint64_t cut = atomic_load(&run->cuts[partition]);
    const struct record_key end = record_row_key(partition, (struct storage_position){{cut}, 0});
    struct diskwheel_cursor cursor = {.run = NULL};
    enum error_code code = ERROR_NONE;
    struct record_key key;
    struct bytes value;

    if (cut <= began || !diskwheel_run_find_slice(run, partition))
        return ERROR_NONE;
    diskwheel_cursor_seek(&cursor, run, DISKWHEEL_TIMERS,
                          record_row_key(partition, (struct storage_position){{began}, 0}));
    copies->table = DISKWHEEL_TIMERS;
    while (!code && !(code = diskwheel_cursor_next(&cursor, &key, &value, ret_error)) &&
           record_key_before(key, end)) {
        if ((key.high & RECORD_AT_MAX) < kept)
            code = worker_search_old(copies, key, &value, ret_error);
        else if (!diskwheel_stage_end_row(store->active, key))
            code = error_set(ret_error, ERROR_NO_MEMORY, "rewriting");
    }
    diskwheel_cursor_deinit(&cursor);
    return code == ERROR_NOT_FOUND ? ERROR_NONE : code;
}

/* The copies lack the trims since the copying began. `began` has the inputs' cuts at that time. The
 * caller holds the lock. */
static enum error_code worker_carry_cuts(struct worker_writers *writers,
                                         struct worker_search *copies, const uint64_t *began,
                                         struct error *ret_error)
{
    struct diskwheel_store *store = writers->store;
    const struct diskwheel_view *inputs = store->rewritten;
    enum error_code code = ERROR_NONE;

    for (uint16_t partition = 0; partition < store->partition_count && !code; partition++) {
        if (worker_carry_equal_cuts(writers, partition) ||
            worker_carry_clear(writers, partition, began))
            continue;
        for (size_t i = 0; i < inputs->count && !code; i++)
            code = worker_carry_cut(store, copies, inputs->runs[i], partition,
                                    began[i * store->partition_count + partition], ret_error);
    }
    return code;
}

/* Ends the copies of what ended since the copying began. Only this thread adds to those. */
static enum error_code worker_carry_late(struct diskwheel_store *store,
                                         struct worker_search *copies, struct error *ret_error)
{
    const struct diskwheel_key *late = (const void *)store->late.data;
    const size_t count = store->late.size / sizeof(*late);
    enum error_code code = ERROR_NONE;
    struct bytes value;

    if (buffer_failed(&store->late))
        return error_set(ret_error, ERROR_NO_MEMORY, "rewriting");
    for (size_t i = 0; i < count && !code; i++) {
        copies->table = late[i].table;
        code = worker_search_old(copies, late[i].key, &value, ret_error);
    }
    return code;
}

/* The caller holds the lock. */
static enum error_code worker_rewrite_install(struct diskwheel_store *store,
                                              struct worker_writers *writers,
                                              struct worker_search *copies, const uint64_t *began,
                                              struct error *ret_error)
{
    enum error_code code = worker_carry_cuts(writers, copies, began, ret_error);
    struct diskwheel_view *next = code ? NULL : worker_make_view(store, writers);

    if (!code && (!next || buffer_failed(&copies->marks)))
        code = error_set(ret_error, ERROR_NO_MEMORY, "rewriting");
    if (code) {
        diskwheel_view_release(next);
        return code;
    }
    worker_set_marks(store, copies);
    worker_fill_view(store, writers, store->rewritten, next);
    return worker_install(store, next, ret_error);
}

/* Makes the copies a part of the store in place of what was copied. */
static enum error_code worker_rewrite_end(struct diskwheel_store *store,
                                          struct worker_writers *writers, const uint64_t *began,
                                          struct error *ret_error)
{
    struct diskwheel_view *outputs = diskwheel_view_create(writers->run_count);
    struct worker_search copies = {.view = outputs};
    enum error_code code = ERROR_NONE;

    for (size_t i = 0; outputs && i < writers->run_count; i++)
        outputs->runs[outputs->count++] = diskwheel_run_hold(writers->runs[i]);
    if (!outputs || !diskwheel_view_reserve(outputs, store->partition_count, outputs->runs,
                                            outputs->count, NULL, 0)) {
        diskwheel_view_release(outputs);
        return error_set(ret_error, ERROR_NO_MEMORY, "rewriting");
    }
    diskwheel_view_index(outputs);
    code = worker_search_init(&copies, outputs)
               ? worker_carry_late(store, &copies, ret_error)
               : error_set(ret_error, ERROR_NO_MEMORY, "rewriting");
    pthread_mutex_lock(&store->lock);
    if (!code)
        code = worker_rewrite_install(store, writers, &copies, began, ret_error);
    pthread_mutex_unlock(&store->lock);
    worker_search_deinit(&copies);
    diskwheel_view_release(outputs);
    return code;
}

/* The caller holds the lock. */
static void worker_set_rewritten(struct diskwheel_store *store, struct diskwheel_view *inputs,
                                 bool is_copied)
{
    for (size_t i = 0; i < inputs->count; i++)
        inputs->runs[i]->is_copied = is_copied;
    store->rewritten = is_copied ? inputs : NULL;
}

/* Gives back the runs that were rewritten, whose files go with them. Removing one takes a while, so
 * a flush that is asked for meanwhile is done between two. */
static void worker_release_inputs(struct diskwheel_store *store, struct diskwheel_view *inputs)
{
    while (inputs->count) {
        diskwheel_run_release(inputs->runs[--inputs->count]);
        worker_flush_between(store);
    }
    diskwheel_view_release(inputs);
}

/* Rewrites some runs. Returns false if there is nothing to do, or it failed: then the runs stay.
 * The caller holds the lock. */
static bool worker_rewrite(struct diskwheel_store *store)
{
    struct worker_writers writers = {.store = store, .now = wall_now(), .is_copying = true};
    struct diskwheel_view *inputs = worker_choose(store, writers.now);
    enum error_code code = ERROR_NONE;
    struct error error;

    if (inputs &&
        !diskwheel_disk_has_room(store, worker_live_bytes(inputs) + store->ballast.bytes)) {
        diskwheel_view_release(inputs);
        return false;
    }
    if (!inputs)
        return false;
    uint64_t *began = calloc(inputs->count * store->partition_count, sizeof(*began));
    if (!began) {
        diskwheel_view_release(inputs);
        return false;
    }
    for (size_t i = 0; i < inputs->count; i++)
        for (uint16_t k = 0; k < store->partition_count; k++)
            began[i * store->partition_count + k] = atomic_load(&inputs->runs[i]->kept_cuts[k]);
    worker_set_rewritten(store, inputs, true);
    buffer_clear(&store->late);
    pthread_mutex_unlock(&store->lock);
    for (enum diskwheel_table table = 0; table < DISKWHEEL_TABLES && !code; table++)
        code = worker_copy_table(&writers, table, &error);
    diskwheel_aside_blocks(store); /* of runs whose copies replace them */
    pthread_mutex_lock(&store->lock);
    store->is_installing = true;
    pthread_cond_broadcast(&store->done);
    pthread_mutex_unlock(&store->lock);
    if (!code)
        code = worker_end(&writers, &error);
    if (!code)
        code = worker_rewrite_end(store, &writers, began, &error);
    pthread_mutex_lock(&store->lock);
    worker_set_rewritten(store, inputs, false);
    pthread_mutex_unlock(&store->lock);
    worker_drop(&writers);
    free(began);
    worker_release_inputs(store, inputs);
    pthread_mutex_lock(&store->lock);
    store->is_installing = false;
    return !code;
}

/* ---- the thread ---- */

/* Does the flush that was asked for. The caller holds the lock. */
static void worker_flush_asked(struct diskwheel_store *store)
{
    while (store->takers)
        pthread_cond_wait(&store->done, &store->lock);
    const uint64_t wanted = store->wanted;
    struct error error = {.text = ""};
    enum error_code code = diskwheel_disk_check(store, &error);

    if (!code)
        code = worker_flush(store, &error);
    if (code == ERROR_DISK_FULL && diskwheel_relieve(&store->storage))
        code = worker_flush(store, &error);
    store->owed_count = worker_owed(store, store->frozen_count);
    store->owed_done = 0;
    store->flush_code = code;
    store->flush_error = error;
    store->flushed = wanted;
    pthread_cond_broadcast(&store->done);
}

static enum error_code worker_flush_between(struct diskwheel_store *store)
{
    pthread_mutex_lock(&store->lock);
    store->owed_done += WORKER_LOOK;
    if (store->wanted != store->flushed &&
        (store->owed_done >= store->owed_count || store->is_installing))
        worker_flush_asked(store);
    else if (store->owed_count)
        pthread_cond_broadcast(&store->done);
    const enum error_code code = store->is_ending ? ERROR_STOPPING : store->flush_code;
    pthread_mutex_unlock(&store->lock);
    return code;
}

static void *worker_run(void *context)
{
    struct diskwheel_store *store = context;

    pthread_mutex_lock(&store->lock);
    for (;;) {
        while (store->wanted == store->flushed && !store->is_ending)
            pthread_cond_wait(&store->work, &store->lock);
        if (store->wanted == store->flushed)
            break;
        store->is_working = true;
        worker_flush_asked(store);
        while (!store->flush_code && !store->is_ending && worker_rewrite(store))
            continue;
        store->owed_count = 0;
        store->is_working = false;
        pthread_cond_broadcast(&store->done);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

enum error_code diskwheel_worker_start(struct diskwheel_store *store, struct error *ret_error)
{
    if (pthread_create(&store->worker, NULL, worker_run, store))
        return error_set(ret_error, ERROR_NO_MEMORY, "a thread");
    store->has_worker = true;
    return ERROR_NONE;
}

void diskwheel_worker_stop(struct diskwheel_store *store)
{
    if (!store->has_worker)
        return;
    pthread_mutex_lock(&store->lock);
    store->is_ending = true;
    pthread_cond_broadcast(&store->work);
    pthread_mutex_unlock(&store->lock);
    pthread_join(store->worker, NULL);
    store->has_worker = false;
}

uint64_t diskwheel_worker_ask(struct diskwheel_store *store)
{
    pthread_cond_signal(&store->work);
    return ++store->wanted;
}

enum error_code diskwheel_flush(struct storage *storage, struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);

    if (store->is_reader)
        return ERROR_NONE; /* its changes stay in memory */
    pthread_mutex_lock(&store->lock);
    const uint64_t number = diskwheel_worker_ask(store);
    while (store->flushed < number)
        pthread_cond_wait(&store->done, &store->lock);
    const enum error_code code = store->flush_code;
    if (code)
        error_set(ret_error, code, "%s", store->flush_error.text);
    pthread_mutex_unlock(&store->lock);
    return code;
}

/* Returns the size of all changes that a start after a crash takes from the log: it removes runs
 * that are in no state. If the disk is full, it has them in memory, and has room for them. */
static uint64_t worker_held(const struct diskwheel_store *store)
{
    return store->active->layer.held + (store->frozen ? store->frozen->layer.held : 0) +
           store->unsaved;
}

/* Returns how much the active stage may have, so that both together keep within the memory. Alone
 * it may have three quarters. If records are to be rewritten before it is frozen, it may have half,
 * and an eighth by how many are rewritten, until their files are synced. Beside a frozen stage it
 * may have a quarter of what is left, another one by how much of that is written, and all of it
 * while files are synced. */
static uint64_t worker_room(const struct diskwheel_store *store)
{
    const uint64_t most = store->options.memory_bytes, part = most / WORKER_PARTS;
    const bool is_owed = store->owed_done < store->owed_count && !store->is_installing;

    if (!store->frozen && is_owed)
        return most / 2 +
               (uint64_t)((double)part / 2 * (double)store->owed_done / (double)store->owed_count);
    if (!store->frozen)
        return most - part;
    const uint64_t frozen = store->frozen->layer.held;
    const uint64_t left = frozen < most - part ? most - frozen : part;
    const size_t count = store->frozen_count, done = store->frozen_done;
    if (done >= count)
        return left;
    return left / WORKER_PARTS +
           (uint64_t)((double)left / WORKER_PARTS * (double)done / (double)count);
}

/* True if the last flush failed and the changes in memory have this size. */
static bool worker_is_stuck(const struct diskwheel_store *store, uint64_t full)
{
    return store->flush_code && worker_held(store) >= full;
}

enum error_code diskwheel_worker_make_room(struct diskwheel_store *store, enum diskwheel_room room,
                                           struct error *ret_error)
{
    const uint64_t most = store->options.memory_bytes, full = room * most;
    const struct diskwheel_stage *first = store->frozen ? store->frozen : store->active;

    if (store->is_reader)
        return ERROR_NONE;
    const enum error_code code = diskwheel_disk_check_now_and_then(store, ret_error);
    if (code)
        return code;
    /* while the disk is full, a flush without a chance is not tried again and again */
    if ((store->active->layer.held >= most / 2 || worker_is_stuck(store, full)) &&
        store->wanted == store->flushed &&
        (store->flush_code != ERROR_DISK_FULL ||
         diskwheel_disk_has_room(store, first->layer.held / 2)))
        diskwheel_worker_ask(store);
    while (store->wanted != store->flushed &&
           (worker_is_stuck(store, full) ||
            (!store->flush_code && store->active->layer.held >= worker_room(store))))
        pthread_cond_wait(&store->done, &store->lock);
    if (!worker_is_stuck(store, full))
        return ERROR_NONE;
    return error_set(ret_error, store->flush_code, "%s", store->flush_error.text);
}
