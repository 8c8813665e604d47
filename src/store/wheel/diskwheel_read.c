/* diskwheel_read.c - scans, finds, lookups and exports.
 *
 * A read takes what it needs of the active stage while it has the lock, and then reads the frozen
 * stage and the runs without it. Those do not change, but a flush marks records that changes ended
 * which the read has not seen: then it is repeated. */
#include "store/export.h"
#include "store/page.h"
#include "store/wheel/diskwheel_store.h"
#include "sys/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    READ_REPEATS = 16,
    READ_NAMES = 16, /* entries of a name that a look visits beside those that are wanted */
};

/* The store at a moment: the changes of the active stage in a range, and all that is older. */
struct diskwheel_sight {
    struct diskwheel_stage *active, *frozen;
    struct diskwheel_view *view;
    struct diskwheel_seen *seen;
    size_t seen_count;
    struct record_key end; /* at most `to`; less if there was more to see than allowed */
    uint64_t marked;       /* store->marked */
};

/* Looks at the range of the active stage, at most `max` changes of it. The caller holds the lock.
 * Returns false if out of memory. */
static bool diskwheel_read_look(struct diskwheel_store *store, enum diskwheel_table table,
                                struct record_key from, struct record_key to, size_t max,
                                struct diskwheel_sight *ret_sight)
{
    struct diskwheel_walk walk = diskwheel_layer_from(&store->active->layer, table, from);
    size_t capacity = 0;
    struct diskwheel_entry *entry;
    struct record_key key;

    *ret_sight = (struct diskwheel_sight){.end = to, .marked = store->marked};
    while (diskwheel_walk_next(&walk, &key, &entry) && record_key_before(key, to)) {
        if (ret_sight->seen_count == max) {
            ret_sight->end = key;
            break;
        }
        if (ret_sight->seen_count == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            struct diskwheel_seen *seen = realloc(ret_sight->seen, capacity * sizeof(*seen));
            if (!seen) {
                free(ret_sight->seen);
                return false;
            }
            ret_sight->seen = seen;
        }
        ret_sight->seen[ret_sight->seen_count++] =
            (struct diskwheel_seen){key, entry, (enum diskwheel_change)entry->change};
    }
    ret_sight->active = diskwheel_stage_hold(store->active);
    ret_sight->frozen = store->frozen ? diskwheel_stage_hold(store->frozen) : NULL;
    ret_sight->view = diskwheel_view_hold(store->view);
    return true;
}

/* Returns why there is no sight of the partition. */
static enum error_code diskwheel_read_unseen(struct diskwheel_store *store, uint16_t partition,
                                             struct error *ret_error)
{
    pthread_mutex_lock(&store->lock);
    const enum error_code code = diskwheel_part_check(&store->parts[partition], ret_error);
    pthread_mutex_unlock(&store->lock);
    return code ? code : error_set(ret_error, ERROR_NO_MEMORY, "read");
}

/* Ends the sight. Returns false if records were marked meanwhile: the read is to be repeated. */
static bool diskwheel_read_end(struct diskwheel_store *store, struct diskwheel_sight *sight)
{
    pthread_mutex_lock(&store->lock);
    const bool is_whole = store->marked == sight->marked;
    pthread_mutex_unlock(&store->lock);
    diskwheel_stage_release(sight->active);
    diskwheel_stage_release(sight->frozen);
    diskwheel_view_release(sight->view);
    free(sight->seen);
    return is_whole;
}

/* True if the run may have records of the table from `from` up to `to`. */
static bool diskwheel_read_overlaps(const struct diskwheel_run *run, enum diskwheel_table table,
                                    struct record_key from, struct record_key to)
{
    const struct diskwheel_run_table *of = &run->tables[table];

    return of->index.count && record_key_before(diskwheel_index_first(&of->index, 0), to) &&
           !record_key_before(of->last, from);
}

/* Adds the runs that may have entries of one name. */
static bool diskwheel_read_merge_name(const struct diskwheel_sight *sight, struct record_key from,
                                      struct diskwheel_merge *merge)
{
    struct diskwheel_probe probe;
    size_t i;

    diskwheel_probe_begin(&probe, sight->view, DISKWHEEL_NAMES, from);
    while (diskwheel_probe_next(&probe, &i)) {
        struct diskwheel_run *run = sight->view->runs[i];

        if (diskwheel_read_overlaps(run, DISKWHEEL_NAMES, from, sight->end) &&
            !diskwheel_merge_add_run(merge, run, run->cuts, from))
            return false;
    }
    return true;
}

/* Adds all sources, the newest first. */
static bool diskwheel_read_merge(struct diskwheel_sight *sight, enum diskwheel_table table,
                                 struct record_key from, struct diskwheel_merge *merge)
{
    diskwheel_merge_init(merge, table);
    if (!diskwheel_merge_add_seen(merge, sight->seen, sight->seen_count) ||
        (sight->frozen &&
         !diskwheel_merge_add_stage(merge, sight->frozen, sight->frozen->cuts, from)))
        return false;
    if (table == DISKWHEEL_NAMES && from.high == sight->end.high)
        return diskwheel_read_merge_name(sight, from, merge);
    for (size_t i = sight->view->count; i-- > 0;) {
        struct diskwheel_run *run = sight->view->runs[i];

        if (diskwheel_read_overlaps(run, table, from, sight->end) &&
            !diskwheel_merge_add_run(merge, run, run->cuts, from))
            return false;
    }
    return true;
}

/* ---- damage ---- */

/* The run counts a damaged block, whose records are passed over. */
static void diskwheel_read_note_damage(struct diskwheel_store *store, const char *text)
{
    pthread_mutex_lock(&store->lock);
    snprintf(store->found, sizeof(store->found), "%s", text);
    pthread_mutex_unlock(&store->lock);
}

static bool diskwheel_read_is_aside(const struct diskwheel_store *store, enum diskwheel_table table,
                                    struct record_key key)
{
    const struct diskwheel_key *aside = (const void *)store->aside.data;

    for (size_t i = 0; i < store->aside.size / sizeof(*aside); i++)
        if (aside[i].table == table && record_key_equal(aside[i].key, key))
            return true;
    return false;
}

static bool diskwheel_read_was_set_aside(struct diskwheel_store *store, enum diskwheel_table table,
                                         struct record_key key)
{
    pthread_mutex_lock(&store->lock);
    const bool is_aside = diskwheel_read_is_aside(store, table, key);
    pthread_mutex_unlock(&store->lock);
    return is_aside;
}

static uint64_t diskwheel_read_marked(struct diskwheel_store *store)
{
    pthread_mutex_lock(&store->lock);
    const uint64_t marked = store->marked;
    pthread_mutex_unlock(&store->lock);
    return marked;
}

/* Ends a damaged record, remembers its key, and keeps its bytes for the operator. A record that
 * replaced it meanwhile stays. If records were marked since the read began, `marked` being their
 * count then, what was read may never have been there: then nothing is done. */
static void diskwheel_read_set_aside(struct diskwheel_store *store, enum diskwheel_table table,
                                     struct record_key key, struct bytes value, uint64_t marked)
{
    const struct diskwheel_key one = {table, key};
    bool is_aside = false;

    pthread_mutex_lock(&store->lock);
    const struct diskwheel_entry *now = diskwheel_layer_find(&store->active->layer, table, key);
    const bool is_new = now && now->is_new;
    const bool was_replaced =
        store->marked != marked ||
        (now && (now->change != DISKWHEEL_PUT ||
                 diskwheel_block_is_record(table, key, diskwheel_entry_value(now))));
    if (!was_replaced &&
        diskwheel_layer_put(&store->active->layer, table, key,
                            is_new ? DISKWHEEL_NONE : DISKWHEEL_GONE, is_new, (struct bytes){0})) {
        store->has_changed = is_aside = true;
        store->corrupt_records++;
        if (store->aside.size < DISKWHEEL_ASIDE_MAX * sizeof(one) &&
            !diskwheel_read_is_aside(store, table, key))
            buffer_append(&store->aside, &one, sizeof(one));
        snprintf(store->found, sizeof(store->found), "a record is damaged");
    }
    pthread_mutex_unlock(&store->lock);
    if (is_aside)
        diskwheel_aside_record(store, table, key, value);
}

static struct wall diskwheel_read_forgotten_before(const struct diskwheel_store *store)
{
    return (struct wall){wall_since((struct wall){store->options.retain_ms}, wall_now())};
}

/* ---- scans ---- */

static enum error_code diskwheel_read_rows(struct diskwheel_store *store,
                                           struct diskwheel_merge *merge,
                                           const struct diskwheel_sight *sight,
                                           struct page_builder *builder, struct error *ret_error)
{
    enum error_code code = ERROR_NONE;

    while (!code && !page_builder_is_full(builder)) {
        struct diskwheel_record record;
        struct error error;

        code = diskwheel_merge_next(merge, &record, &error);
        if (code == ERROR_CORRUPT) {
            diskwheel_read_note_damage(store, error.text);
            code = ERROR_NONE;
            continue;
        }
        if (code)
            return code == ERROR_NOT_FOUND ? ERROR_NONE
                                           : error_set(ret_error, code, "%s", error.text);
        if (!record_key_before(record.key, sight->end))
            return ERROR_NONE;
        code = page_builder_add(builder, record.key, record.value);
        if (code == ERROR_CORRUPT) {
            diskwheel_read_set_aside(store, DISKWHEEL_TIMERS, record.key, record.value,
                                     sight->marked);
            code = ERROR_NONE;
        }
    }
    return code;
}

/* ERROR_OVERLOADED: the scan is to be repeated. */
static enum error_code diskwheel_read_page(struct diskwheel_store *store,
                                           const struct storage_scan *scan,
                                           struct storage_page *ret_page, struct error *ret_error)
{
    const bool has_end = scan->kind == STORAGE_SCAN_LIVE && scan->to.at.ms > STORAGE_DEAD_FROM.ms;
    const struct storage_position to =
        has_end ? (struct storage_position){STORAGE_DEAD_FROM, 0} : scan->to;
    const struct record_key from = record_row_key(scan->partition, scan->from);
    const size_t most = scan->looks_max ? scan->looks_max : scan->rows_max;
    struct page_builder builder;
    struct diskwheel_sight sight;
    struct diskwheel_merge merge;

    assert(scan->partition < store->partition_count && scan->rows_max);
    page_builder_init(&builder, scan, diskwheel_read_forgotten_before(store));
    pthread_mutex_lock(&store->lock);
    const bool is_seen =
        !store->parts[scan->partition].is_torn &&
        diskwheel_read_look(store, DISKWHEEL_TIMERS, from, record_row_key(scan->partition, to),
                            most + (most < SIZE_MAX), &sight);
    pthread_mutex_unlock(&store->lock);
    if (!is_seen)
        return diskwheel_read_unseen(store, scan->partition, ret_error);
    enum error_code code = diskwheel_read_merge(&sight, DISKWHEEL_TIMERS, from, &merge)
                               ? diskwheel_read_rows(store, &merge, &sight, &builder, ret_error)
                               : error_set(ret_error, ERROR_NO_MEMORY, "scan");
    diskwheel_merge_deinit(&merge);
    if (code) {
        page_builder_drop(&builder);
    } else {
        const bool is_full = page_builder_is_full(&builder);

        page_builder_finish(&builder, ret_page);
        if (!is_full && record_key_before(sight.end, record_row_key(scan->partition, to)))
            ret_page->next = record_row_position(sight.end);
    }
    if (diskwheel_read_end(store, &sight) || code)
        return code;
    storage_page_free(ret_page);
    return ERROR_OVERLOADED;
}

enum error_code diskwheel_scan(struct storage *storage, const struct storage_scan *scan,
                               struct storage_page *ret_page, struct error *ret_error)
{
    enum error_code code;

    do
        code = diskwheel_read_page(diskwheel_store_of(storage), scan, ret_page, ret_error);
    while (code == ERROR_OVERLOADED);
    return code;
}

/* ---- finding one ---- */

/* Appends the record of the key. ERROR_NOT_FOUND if there is none. */
static enum error_code diskwheel_read_record(struct diskwheel_store *store,
                                             enum diskwheel_table table, struct record_key key,
                                             struct buffer *to, struct error *ret_error)
{
    const size_t before = to->size;
    struct diskwheel_sight sight;
    struct diskwheel_merge merge;
    struct diskwheel_record record;
    struct diskwheel_probe probe;
    size_t i;

    pthread_mutex_lock(&store->lock);
    const uint16_t partition = (uint16_t)(table == DISKWHEEL_TIMERS ? key.high >> 48 : key.high);
    const bool is_seen = !store->parts[partition].is_torn &&
                         diskwheel_read_look(store, table, key, record_key_after(key), 1, &sight);
    pthread_mutex_unlock(&store->lock);
    if (!is_seen)
        return diskwheel_read_unseen(store, partition, ret_error);
    diskwheel_merge_init(&merge, table);
    bool is_added = diskwheel_merge_add_seen(&merge, sight.seen, sight.seen_count);
    const struct diskwheel_entry *entry =
        sight.frozen ? diskwheel_layer_find(&sight.frozen->layer, table, key) : NULL;
    const struct diskwheel_seen frozen = {key, entry,
                                          entry ? (enum diskwheel_change)entry->change : 0};
    if (entry && !diskwheel_is_cut(table, sight.frozen->cuts, key, diskwheel_entry_value(entry)))
        is_added = is_added && diskwheel_merge_add_seen(&merge, &frozen, 1);
    diskwheel_probe_begin(&probe, sight.view, table, key);
    while (is_added && diskwheel_probe_next(&probe, &i))
        is_added =
            diskwheel_merge_add_run(&merge, sight.view->runs[i], sight.view->runs[i]->cuts, key);
    enum error_code code;
    bool is_damaged = false; /* a block in which the record may be */
    while ((code = is_added ? diskwheel_merge_next(&merge, &record, ret_error)
                            : error_set(ret_error, ERROR_NO_MEMORY, "find")) == ERROR_CORRUPT)
        is_damaged = true;
    if (!code && !record_key_equal(record.key, key))
        code = ERROR_NOT_FOUND;
    if (code == ERROR_NOT_FOUND && is_damaged)
        code = ERROR_CORRUPT;
    if (!code)
        buffer_append_bytes(to, record.value);
    if (!code && buffer_failed(to))
        code = error_set(ret_error, ERROR_NO_MEMORY, "find");
    diskwheel_merge_deinit(&merge);
    if (diskwheel_read_end(store, &sight) || (code && code != ERROR_NOT_FOUND))
        return code;
    to->size = before;
    return diskwheel_read_record(store, table, key, to, ret_error);
}

static enum error_code diskwheel_read_timer(struct diskwheel_store *store,
                                            const struct timer_id *id, struct wall at,
                                            struct timer **ret_timer, struct error *ret_error)
{
    const struct record_key key =
        record_row_key(id->partition, (struct storage_position){at, id->serial});
    struct buffer value;
    struct timer view;

    buffer_init(&value);
    const uint64_t marked = diskwheel_read_marked(store);
    enum error_code code = diskwheel_read_record(store, DISKWHEEL_TIMERS, key, &value, ret_error);
    if (!code && (code = record_row_decode(key, buffer_bytes(&value), &view, ret_error)))
        diskwheel_read_set_aside(store, DISKWHEEL_TIMERS, key, buffer_bytes(&value), marked);
    if (code == ERROR_NOT_FOUND && diskwheel_read_was_set_aside(store, DISKWHEEL_TIMERS, key))
        code = error_set(ret_error, ERROR_CORRUPT, "the record was set aside");
    if (!code && (!timer_id_equal(&view.id, id) ||
                  (timer_is_final(view.state) && !storage_is_dead_letter(&view) &&
                   view.ended.ms < diskwheel_read_forgotten_before(store).ms)))
        code = ERROR_NOT_FOUND;
    if (!code && !(*ret_timer = timer_copy(&view, &view.texts)))
        code = error_set(ret_error, ERROR_NO_MEMORY, "find");
    buffer_deinit(&value);
    return code;
}

static enum error_code diskwheel_read_moved(struct diskwheel_store *store,
                                            const struct timer_id *id, struct timer **ret_timer,
                                            struct error *ret_error)
{
    const struct record_key key = record_pointer_key(id->partition, id->serial);
    struct record_pointer pointer;
    struct buffer value;

    buffer_init(&value);
    const uint64_t marked = diskwheel_read_marked(store);
    enum error_code code = diskwheel_read_record(store, DISKWHEEL_MOVED, key, &value, ret_error);
    if (!code && (code = record_pointer_decode(key, buffer_bytes(&value), &pointer, ret_error)))
        diskwheel_read_set_aside(store, DISKWHEEL_MOVED, key, buffer_bytes(&value), marked);
    if (code == ERROR_NOT_FOUND && diskwheel_read_was_set_aside(store, DISKWHEEL_MOVED, key))
        code = error_set(ret_error, ERROR_CORRUPT, "the record was set aside");
    buffer_deinit(&value);
    return code ? code : diskwheel_read_timer(store, id, pointer.at, ret_timer, ret_error);
}

static uint64_t diskwheel_read_place(struct diskwheel_store *store, uint16_t partition)
{
    pthread_mutex_lock(&store->lock);
    const uint64_t next = store->parts[partition].place.next;
    pthread_mutex_unlock(&store->lock);
    return next;
}

/* A timer that moves between two looks is looked for again. */
enum error_code diskwheel_find(struct storage *storage, const struct timer_id *id,
                               struct timer **ret_timer, struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);
    enum error_code code = ERROR_NOT_FOUND;

    if (id->partition >= store->partition_count)
        return error_set(ret_error, ERROR_NOT_FOUND, "there is no partition %u", id->partition);
    for (unsigned i = 0; i < READ_REPEATS; i++) {
        const uint64_t place = diskwheel_read_place(store, id->partition);

        code = diskwheel_read_timer(store, id, id->first, ret_timer, ret_error);
        if (code == ERROR_NOT_FOUND || code == ERROR_CORRUPT) {
            const enum error_code moved = diskwheel_read_moved(store, id, ret_timer, ret_error);

            code = moved == ERROR_NOT_FOUND ? code : moved;
        }
        if (code != ERROR_NOT_FOUND || diskwheel_read_place(store, id->partition) == place)
            break;
    }
    return code == ERROR_NOT_FOUND ? error_set(ret_error, code, "there is no such timer") : code;
}

/* ---- names ---- */

static enum error_code diskwheel_read_names(struct diskwheel_store *store,
                                            struct diskwheel_merge *merge,
                                            const struct storage_lookup *lookup,
                                            struct record_key end, struct storage_names *names,
                                            struct error *ret_error)
{
    const struct wall forgotten = diskwheel_read_forgotten_before(store);

    while (names->count < lookup->count_max) {
        struct diskwheel_record record;
        struct record_name name;
        const enum error_code code = diskwheel_merge_next(merge, &record, ret_error);

        if (code == ERROR_NOT_FOUND || (!code && !record_key_before(record.key, end)))
            return ERROR_NONE;
        if (code)
            return code;
        if (!record_name_decode(record.key, record.value, &name, NULL) &&
            name.id.partition == lookup->partition &&
            !(name.ended.ms && name.ended.ms < forgotten.ms))
            names->ids[names->count++] = name.id;
    }
    return ERROR_NONE;
}

/* Looks at some of the names from `*from` on, adds those that are wanted, and moves `*from` behind
 * them. ERROR_OVERLOADED: it is to be repeated. */
static enum error_code diskwheel_read_lookup(struct diskwheel_store *store,
                                             const struct storage_lookup *lookup,
                                             struct record_key *from, struct storage_names *names,
                                             struct error *ret_error)
{
    const struct record_key end = {lookup->name, UINT64_MAX}; /* no serial is 0 */
    const size_t before = names->count;
    struct diskwheel_sight sight;
    struct diskwheel_merge merge;

    pthread_mutex_lock(&store->lock);
    const bool is_seen = !store->parts[lookup->partition].is_torn &&
                         diskwheel_read_look(store, DISKWHEEL_NAMES, *from, end,
                                             lookup->count_max + READ_NAMES, &sight);
    pthread_mutex_unlock(&store->lock);
    if (!is_seen)
        return diskwheel_read_unseen(store, lookup->partition, ret_error);
    const struct record_key to = sight.end;
    enum error_code code = diskwheel_read_merge(&sight, DISKWHEEL_NAMES, *from, &merge)
                               ? diskwheel_read_names(store, &merge, lookup, to, names, ret_error)
                               : error_set(ret_error, ERROR_NO_MEMORY, "lookup");
    diskwheel_merge_deinit(&merge);
    if (!diskwheel_read_end(store, &sight) && !code)
        code = ERROR_OVERLOADED;
    if (code)
        names->count = before;
    else
        *from = to;
    return code;
}

enum error_code diskwheel_lookup(struct storage *storage, const struct storage_lookup *lookup,
                                 struct storage_names *ret_names, struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);
    const bool is_all = lookup->serial_below == UINT64_MAX;
    const struct record_key end = {lookup->name, UINT64_MAX};
    struct record_key from = record_name_key(lookup->name, lookup->serial_below - !is_all);
    struct storage_names names = {malloc(lookup->count_max * sizeof(*names.ids)), 0};
    enum error_code code = names.ids ? ERROR_NONE : error_set(ret_error, ERROR_NO_MEMORY, "lookup");

    assert(lookup->partition < store->partition_count && lookup->count_max);
    while ((!code || code == ERROR_OVERLOADED) && names.count < lookup->count_max &&
           record_key_before(from, end))
        code = diskwheel_read_lookup(store, lookup, &from, &names, ret_error);
    if (code)
        free(names.ids);
    else
        *ret_names = names;
    return code;
}

/* ---- exports ---- */

static struct bytes diskwheel_read_key_bytes(enum diskwheel_table table, struct record_key key,
                                             struct store_key *ret_key)
{
    *ret_key = table == DISKWHEEL_MOVED ? store_pointer_key(key) : store_row_key(key);
    return (struct bytes){ret_key->data, ret_key->size};
}

/* Returns the range of a partition's records behind the last one examined. */
static void diskwheel_read_export_range(const struct storage_export *export,
                                        enum diskwheel_table table, struct record_key *ret_from,
                                        struct record_key *ret_to)
{
    const uint64_t partition = export->partition;
    const struct bytes last = export_key(export);

    *ret_from = (struct record_key){0, 0};
    *ret_to = (struct record_key){UINT64_MAX, UINT64_MAX};
    if (table == DISKWHEEL_TIMERS) {
        *ret_from = (struct record_key){partition << 48, 0};
        *ret_to = (struct record_key){(partition << 48) | RECORD_AT_MAX, UINT64_MAX};
    } else if (table == DISKWHEEL_MOVED) {
        *ret_from = (struct record_key){partition, 0};
        *ret_to = (struct record_key){partition + 1, 0};
    }
    if (!last.size)
        return;
    if (table == DISKWHEEL_MOVED)
        store_pointer_key_parse(last, ret_from);
    else
        store_row_key_parse(last, ret_from);
    *ret_from = record_key_after(*ret_from);
}

static enum error_code diskwheel_read_export_records(struct diskwheel_store *store,
                                                     struct export_part *part,
                                                     enum diskwheel_table table,
                                                     struct error *ret_error)
{
    struct record_key from, to;
    struct diskwheel_sight sight;
    struct diskwheel_merge merge;
    struct diskwheel_record record;
    struct store_key bytes;

    diskwheel_read_export_range(part->export, table, &from, &to);
    pthread_mutex_lock(&store->lock);
    const bool is_seen = !store->parts[part->export->partition].is_torn &&
                         diskwheel_read_look(store, table, from, to, SIZE_MAX, &sight);
    part->export->place = store->parts[part->export->partition].place;
    pthread_mutex_unlock(&store->lock);
    if (!is_seen)
        return diskwheel_read_unseen(store, part->export->partition, ret_error);
    enum error_code code = diskwheel_read_merge(&sight, table, from, &merge)
                               ? ERROR_NONE
                               : error_set(ret_error, ERROR_NO_MEMORY, "export");
    while (!code && !export_is_full(part)) {
        code = diskwheel_merge_next(&merge, &record, ret_error);
        if (code == ERROR_NOT_FOUND || (!code && !record_key_before(record.key, sight.end))) {
            export_end_table(part->export);
            code = ERROR_NONE;
            break;
        }
        if (!code)
            code = export_add(part, diskwheel_read_key_bytes(table, record.key, &bytes),
                              record.value, ret_error);
    }
    diskwheel_merge_deinit(&merge);
    /* a touch whose row was marked meanwhile is read without it, and seems damaged */
    const bool is_whole = diskwheel_read_end(store, &sight);
    return is_whole || (code && code != ERROR_CORRUPT) ? code : ERROR_OVERLOADED;
}

/* Adds the ledger, the meta and the counts of tenants, which are all in one part. */
static enum error_code diskwheel_read_export_meta(struct diskwheel_store *store,
                                                  struct export_part *part, struct error *ret_error)
{
    const uint16_t partition = part->export->partition;
    struct diskwheel_part *of = &store->parts[partition];
    const struct store_key meta = store_meta_key(partition);
    const struct store_key ledger = store_note_key(STORAGE_LEDGER, partition);
    const struct buffer *taken = &of->notes[STORAGE_LEDGER];
    const struct tenant_counts_tenant *tenant;
    enum error_code code = ERROR_NONE;
    struct buffer value;
    size_t cursor = 0;

    buffer_init(&value);
    pthread_mutex_lock(&store->lock);
    pthread_mutex_lock(&of->counts_lock);
    part->export->place = of->place;
    code = diskwheel_part_check(of, ret_error);
    if (!code && taken->size)
        code = export_add(part, (struct bytes){ledger.data, ledger.size}, buffer_bytes(taken),
                          ret_error);
    if (!code && of->meta.size)
        code = export_add(part, (struct bytes){meta.data, meta.size}, buffer_bytes(&of->meta),
                          ret_error);
    while (!code && (tenant = tenant_counts_next(&of->counts.tenant_counts, &cursor))) {
        const uint64_t count = atomic_load(&tenant->count);
        const struct store_tenant_key key =
            store_tenant_key(partition, (struct bytes){tenant->name, tenant->name_size});
        const struct bytes at = {key.data, key.size};

        if (!count)
            continue;
        buffer_clear(&value);
        record_number_encode(&value, at, count);
        code = export_add(part, at, buffer_bytes(&value), ret_error);
    }
    pthread_mutex_unlock(&of->counts_lock);
    pthread_mutex_unlock(&store->lock);
    buffer_deinit(&value);
    if (!code)
        export_end_table(part->export);
    return code;
}

/* A part is of one table, so that it is of one moment. ERROR_OVERLOADED: it is to be repeated. */
static enum error_code diskwheel_read_part(struct diskwheel_store *store,
                                           struct storage_export *export, struct buffer *to,
                                           struct error *ret_error)
{
    struct export_part part;

    assert(export->partition < store->partition_count && export->rows_max);
    struct storage_stats stats;
    storage_stats(&store->storage, &stats);
    if (stats.corrupt_records)
        return error_set(ret_error, ERROR_CORRUPT, "records of %s are damaged", store->folder);
    export_begin(&part, export, diskwheel_read_forgotten_before(store), to);
    const enum rowop_table table = export_table(export);
    const enum error_code code =
        table == ROWOP_META
            ? diskwheel_read_export_meta(store, &part, ret_error)
            : diskwheel_read_export_records(
                  store, &part, table == ROWOP_TIMERS ? DISKWHEEL_TIMERS : DISKWHEEL_MOVED,
                  ret_error);
    export_end(&part);
    if (!code && buffer_failed(to))
        return error_set(ret_error, ERROR_NO_MEMORY, "export");
    return code;
}

enum error_code diskwheel_export(struct storage *storage, struct storage_export *export,
                                 struct buffer *to, struct error *ret_error)
{
    const struct storage_export before = *export;
    const size_t size = to->size;
    enum error_code code;

    while ((code = diskwheel_read_part(diskwheel_store_of(storage), export, to, ret_error)) ==
           ERROR_OVERLOADED) {
        *export = before;
        to->size = size;
    }
    return code;
}
