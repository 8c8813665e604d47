/* diskwheel_change.c - bodies are made and applied: records go into the active stage, and what a
 * partition has once into memory of its own. */
#include "store/wheel/diskwheel_store.h"

#include <assert.h>

/* ---- making a body ---- */

enum error_code diskwheel_prepare(struct storage *storage, struct storage_batch *const *batches,
                                  size_t count, struct buffer *to, struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);
    struct diskwheel_part *part = &store->parts[batches[0]->partition];

    assert(batches[0]->partition < store->partition_count);
    pthread_mutex_lock(&store->lock);
    enum error_code code = diskwheel_worker_make_room(store, DISKWHEEL_ROOM_TO_PREPARE, ret_error);
    if (!code && diskwheel_part_check(part, ret_error))
        code = ERROR_UNREADABLE; /* its place is to be loaded, and the log applied from there */
    pthread_mutex_unlock(&store->lock);
    pthread_mutex_lock(&part->counts_lock);
    if (!code && !prepare_body(&part->rows, &part->counts, batches, count, to))
        code = error_set(ret_error, ERROR_NO_MEMORY, "prepare");
    pthread_mutex_unlock(&part->counts_lock);
    return code;
}

/* ---- applying one ---- */

/* Ends the records of the active stage from `begin` up to `end`. Those of names are only ended if
 * they are of the partition, which their values say. */
static void diskwheel_change_end_range(struct diskwheel_store *store, enum diskwheel_table table,
                                       struct record_key begin, struct record_key end,
                                       uint16_t partition)
{
    struct diskwheel_walk walk = diskwheel_layer_from(&store->active->layer, table, begin);
    struct record_key key;
    struct diskwheel_entry *entry;
    struct record_name name;

    while (diskwheel_walk_next(&walk, &key, &entry) && record_key_before(key, end)) {
        if (table == DISKWHEEL_NAMES &&
            (entry->change != DISKWHEEL_PUT ||
             record_name_decode(key, diskwheel_entry_value(entry), &name, NULL) ||
             name.id.partition != partition))
            continue;
        entry->change = entry->is_new ? DISKWHEEL_NONE : DISKWHEEL_GONE;
    }
}

/* A trim of a partition's rows, from `begin` up to `end`. */
struct diskwheel_trim {
    uint16_t partition;
    uint64_t begin, end;
};

/* A cut ends all rows before it. So it can be moved to the end of the trim if it is in it, or if no
 * row is between it and the trim: `at_min` is the least position of a row. */
static bool diskwheel_change_move_cut(_Atomic uint64_t *cut, const struct diskwheel_trim *trim,
                                      uint64_t at_min)
{
    const uint64_t at = atomic_load(cut);

    if (at >= trim->end)
        return true;
    if (at < trim->begin && at_min < trim->begin)
        return false;
    atomic_store(cut, trim->end);
    return true;
}

static struct record_key diskwheel_change_trim_key(const struct diskwheel_trim *trim, uint64_t at)
{
    return record_row_key(trim->partition, (struct storage_position){{at}, 0});
}

static bool diskwheel_change_trim_frozen(struct diskwheel_store *store,
                                         const struct diskwheel_trim *trim)
{
    struct diskwheel_stage *frozen = store->frozen;
    struct diskwheel_walk walk =
        diskwheel_layer_from(&frozen->layer, DISKWHEEL_TIMERS, diskwheel_change_trim_key(trim, 0));
    const struct record_key end = diskwheel_change_trim_key(trim, trim->end);
    struct diskwheel_walk first = walk;
    struct diskwheel_entry *entry;
    struct record_key key;
    bool is_ended = true;

    if (!diskwheel_walk_next(&first, &key, &entry) || !record_key_before(key, end) ||
        diskwheel_change_move_cut(&frozen->cuts[trim->partition], trim, key.high & RECORD_AT_MAX))
        return true;
    walk = diskwheel_layer_from(&frozen->layer, DISKWHEEL_TIMERS,
                                diskwheel_change_trim_key(trim, trim->begin));
    while (is_ended && diskwheel_walk_next(&walk, &key, &entry) && record_key_before(key, end))
        is_ended = diskwheel_stage_end_row(store->active, key);
    return is_ended;
}

/* Rows of damaged blocks are ended by nothing, and are reported when they are scanned. */
static enum error_code diskwheel_change_trim_run(struct diskwheel_store *store,
                                                 struct diskwheel_run *run,
                                                 const struct diskwheel_trim *trim,
                                                 struct error *ret_error)
{
    const struct diskwheel_run_slice *slice = diskwheel_run_find_slice(run, trim->partition);
    const struct record_key end = diskwheel_change_trim_key(trim, trim->end);
    struct diskwheel_cursor cursor = {.run = NULL};
    enum error_code code = ERROR_NONE;
    struct record_key key;
    struct bytes value;

    if (!slice || slice->at_min >= trim->end ||
        diskwheel_change_move_cut(&run->cuts[trim->partition], trim, slice->at_min))
        return ERROR_NONE;
    diskwheel_cursor_seek(&cursor, run, DISKWHEEL_TIMERS,
                          diskwheel_change_trim_key(trim, trim->begin));
    while (!code || code == ERROR_CORRUPT) {
        code = diskwheel_cursor_next(&cursor, &key, &value, ret_error);
        if (!code && !record_key_before(key, end))
            break;
        if (!code && !diskwheel_stage_end_row(store->active, key))
            code = error_set(ret_error, ERROR_NO_MEMORY, "apply");
    }
    diskwheel_cursor_deinit(&cursor);
    return code == ERROR_NOT_FOUND ? ERROR_NONE : code;
}

static enum error_code diskwheel_change_trim(struct diskwheel_store *store, uint16_t partition,
                                             const struct rowop *op, struct error *ret_error)
{
    struct record_key begin, end;

    store_row_key_parse(op->key, &begin);
    store_row_key_parse(op->value, &end);
    diskwheel_change_end_range(store, DISKWHEEL_TIMERS, begin, end, partition);
    const struct diskwheel_trim trim = {partition, begin.high & RECORD_AT_MAX,
                                        end.high & RECORD_AT_MAX};
    enum error_code code = !store->frozen || diskwheel_change_trim_frozen(store, &trim)
                               ? ERROR_NONE
                               : error_set(ret_error, ERROR_NO_MEMORY, "apply");
    for (size_t i = 0; i < store->view->count && !code; i++)
        code = diskwheel_change_trim_run(store, store->view->runs[i], &trim, ret_error);
    return code;
}

/* Returns the timer's serial in a key of the table. */
static uint64_t diskwheel_change_serial(enum diskwheel_table table, struct record_key key)
{
    return table == DISKWHEEL_NAMES ? UINT64_MAX - key.low : key.low;
}

/* `serial_max` is the greatest serial of all records before the body: one with a greater serial is
 * new. `greatest` becomes that of this record, if it is greater. */
static bool diskwheel_change_apply_record(struct diskwheel_store *store, uint64_t serial_max,
                                          const struct rowop *op, uint64_t *greatest)
{
    static const enum diskwheel_table tables[] = {[ROWOP_TIMERS] = DISKWHEEL_TIMERS,
                                                  [ROWOP_MOVED] = DISKWHEEL_MOVED,
                                                  [ROWOP_NAMES] = DISKWHEEL_NAMES};
    static const enum diskwheel_change changes[] = {[ROWOP_PUT] = DISKWHEEL_PUT,
                                                    [ROWOP_DELETE] = DISKWHEEL_GONE,
                                                    [ROWOP_TOUCH] = DISKWHEEL_TOUCH};
    const enum diskwheel_table table = tables[op->table];
    struct diskwheel_layer *layer = &store->active->layer;
    struct record_key key = {0};

    if (table == DISKWHEEL_MOVED)
        store_pointer_key_parse(op->key, &key);
    else
        store_row_key_parse(op->key, &key);
    const uint64_t serial = diskwheel_change_serial(table, key);
    const bool is_new = serial > serial_max;
    *greatest = serial > *greatest ? serial : *greatest;
    enum diskwheel_change change = changes[op->kind];
    if (is_new && change == DISKWHEEL_GONE)
        change = DISKWHEEL_NONE;
    const struct diskwheel_entry *old =
        change == DISKWHEEL_TOUCH ? diskwheel_layer_find(layer, table, key) : NULL;
    if (!old || old->change != DISKWHEEL_PUT)
        return diskwheel_layer_put(layer, table, key, change, is_new, op->value);
    struct buffer row;
    buffer_init(&row);
    record_touch_apply(&row, key, diskwheel_entry_value(old), op->value);
    const bool is_put =
        !buffer_failed(&row) &&
        diskwheel_layer_put(layer, table, key, DISKWHEEL_PUT, old->is_new, buffer_bytes(&row));
    buffer_deinit(&row);
    return is_put;
}

/* Applies the operations. They are absolute, so after a failure they may be applied again; records
 * that were new may then be in a run. */
static enum error_code diskwheel_change_apply_all(struct diskwheel_store *store, uint16_t partition,
                                                  struct bytes ops, struct error *ret_error)
{
    struct diskwheel_part *part = &store->parts[partition];
    const uint64_t serial_max = part->serial_max;
    enum error_code code = ERROR_NONE;
    struct rowop op;

    while (!code && rowop_next(&ops, &op)) {
        bool is_applied = true;

        if (op.table == ROWOP_META) {
            pthread_mutex_lock(&part->counts_lock);
            is_applied = diskwheel_part_set(part, partition, op.kind, op.key, op.value);
            pthread_mutex_unlock(&part->counts_lock);
        } else if (op.kind == ROWOP_DELETE_RANGE)
            code = diskwheel_change_trim(store, partition, &op, ret_error);
        else
            is_applied = diskwheel_change_apply_record(store, serial_max, &op, &part->serial_max);
        if (!is_applied)
            code = error_set(ret_error, ERROR_NO_MEMORY, "apply");
    }
    return code;
}

enum error_code diskwheel_apply(struct storage *storage, uint16_t partition, struct bytes body,
                                enum storage_body kind, const struct storage_place *place,
                                struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);
    struct diskwheel_part *part = &store->parts[partition];

    assert(partition < store->partition_count);
    if (body.size && !prepare_open(&body, kind, partition))
        return error_set(ret_error, ERROR_CORRUPT, "the changes of partition %u are damaged",
                         partition);
    pthread_mutex_lock(&store->lock);
    enum error_code code = ERROR_NONE;
    /* nothing is flushed before a torn body is whole */
    if ((place->next > part->place.next || part->place.copy_end == STORAGE_COPYING) &&
        !part->is_torn)
        code = diskwheel_worker_make_room(store, DISKWHEEL_ROOM_TO_APPLY, ret_error);
    if (!code && (place->next > part->place.next || part->place.copy_end == STORAGE_COPYING)) {
        store->has_changed = true;
        code = diskwheel_change_apply_all(store, partition, body, ret_error);
        part->is_torn = code != ERROR_NONE;
        if (!code)
            part->place = *place;
    }
    pthread_mutex_unlock(&store->lock);
    return code;
}

enum error_code diskwheel_clear(struct storage *storage, uint16_t partition,
                                const struct storage_place *place, struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);
    const uint64_t high = partition;

    (void)ret_error;
    assert(partition < store->partition_count);
    pthread_mutex_lock(&store->lock);
    diskwheel_change_end_range(store, DISKWHEEL_TIMERS, (struct record_key){high << 48, 0},
                               (struct record_key){(high << 48) | RECORD_AT_MAX, UINT64_MAX},
                               partition);
    diskwheel_change_end_range(store, DISKWHEEL_MOVED, (struct record_key){high, 0},
                               (struct record_key){high + 1, 0}, partition);
    diskwheel_change_end_range(store, DISKWHEEL_NAMES, (struct record_key){0, 0},
                               (struct record_key){UINT64_MAX, UINT64_MAX}, partition);
    if (store->frozen)
        atomic_store(&store->frozen->cuts[partition], DISKWHEEL_CUT_ALL);
    for (size_t i = 0; i < store->view->count; i++)
        atomic_store(&store->view->runs[i]->cuts[partition], DISKWHEEL_CUT_ALL);
    pthread_mutex_lock(&store->parts[partition].counts_lock);
    diskwheel_part_reset(&store->parts[partition]);
    pthread_mutex_unlock(&store->parts[partition].counts_lock);
    store->parts[partition].place = *place;
    store->has_changed = true;
    pthread_mutex_unlock(&store->lock);
    return ERROR_NONE;
}
