/* export.c - copies of records as a body; see export.h. */
#include "store/export.h"

#include "store/store_key.h"

#include <assert.h>

/* A part ends after this many times its rows: those that are not copied are examined too. */
enum { EXPORT_LOOKS = 16 };

static const enum rowop_table export_tables[] = {ROWOP_TIMERS, ROWOP_MOVED, ROWOP_META};

enum { EXPORT_STEPS = sizeof(export_tables) / sizeof(export_tables[0]) };

_Static_assert((int)EXPORT_STEPS == (int)STORAGE_EXPORT_TABLES, "a cursor names a step");

void export_begin(struct export_part *part, struct storage_export *export,
                  struct wall forgotten_before, struct buffer *to)
{
    *part = (struct export_part){.export = export, .forgotten_before = forgotten_before, .to = to};
    part->begin = rowop_begin(to);
}

enum rowop_table export_table(const struct storage_export *export)
{
    assert(export->step_ < EXPORT_STEPS);
    return export_tables[export->step_];
}

struct bytes export_key(const struct storage_export *export)
{
    return (struct bytes){export->key_, export->key_size_};
}

void export_end_table(struct storage_export *export)
{
    export->key_size_ = 0;
    export->is_done = ++export->step_ == EXPORT_STEPS;
}

bool export_is_full(const struct export_part *part)
{
    const struct storage_export *export = part->export;

    return part->rows >= export->rows_max || part->looks >= EXPORT_LOOKS * export->rows_max ||
           (part->rows && part->to->size - part->begin >= export->bytes_max);
}

/* ---- which records belong to the copy ---- */

static bool export_is_forgotten(const struct export_part *part, struct wall ended)
{
    return ended.ms && ended.ms < part->forgotten_before.ms;
}

/* These functions decide whether a record is copied, and report a damaged one. */

static enum error_code export_look_at_row(const struct export_part *part, struct bytes key,
                                          struct bytes value, bool *ret_is_wanted,
                                          struct timer *ret_view, struct error *ret_error)
{
    struct record_key at;

    if (!store_row_key_parse(key, &at))
        return error_set(ret_error, ERROR_CORRUPT, "a key of %zu bytes", key.size);
    const enum error_code code = record_row_decode(at, value, ret_view, ret_error);
    *ret_is_wanted = !code && at.high >> 48 == part->export->partition &&
                     (!timer_is_final(ret_view->state) || storage_is_dead_letter(ret_view) ||
                      !export_is_forgotten(part, ret_view->ended));
    return code;
}

static enum error_code export_look_at_pointer(const struct export_part *part, struct bytes key,
                                              struct bytes value, bool *ret_is_wanted,
                                              struct error *ret_error)
{
    struct record_key at;
    struct record_pointer pointer = {.at = {0}};

    if (!store_pointer_key_parse(key, &at))
        return error_set(ret_error, ERROR_CORRUPT, "a key of %zu bytes", key.size);
    const enum error_code code = record_pointer_decode(at, value, &pointer, ret_error);
    *ret_is_wanted =
        at.high == part->export->partition &&
        (pointer.at.ms >= STORAGE_DEAD_FROM.ms || !export_is_forgotten(part, pointer.ended));
    return code;
}

static enum error_code export_look_at_meta(const struct export_part *part, struct bytes key,
                                           struct bytes value, bool *ret_is_wanted,
                                           struct error *ret_error)
{
    struct storage_meta meta;
    struct bytes tenant, bytes;
    enum storage_note note;
    uint16_t partition;
    uint64_t count;

    if (store_meta_key_parse(key, &partition) && partition == part->export->partition) {
        *ret_is_wanted = true;
        return record_meta_decode(partition, value, &meta, ret_error);
    }
    if (store_tenant_key_parse(key, &partition, &tenant) && partition == part->export->partition) {
        *ret_is_wanted = true;
        return record_number_decode(key, value, &count, ret_error);
    }
    if (store_note_key_parse(key, &note, &partition) && note == STORAGE_LEDGER &&
        partition == part->export->partition) {
        *ret_is_wanted = true;
        return record_note_decode(key, value, &bytes, ret_error);
    }
    *ret_is_wanted = false; /* of another partition, the node, or the folder */
    return ERROR_NONE;
}

static enum error_code export_look(const struct export_part *part, struct bytes key,
                                   struct bytes value, bool *ret_is_wanted, struct timer *ret_view,
                                   struct error *ret_error)
{
    switch (export_table(part->export)) {
    case ROWOP_TIMERS:
        return export_look_at_row(part, key, value, ret_is_wanted, ret_view, ret_error);
    case ROWOP_MOVED:
        return export_look_at_pointer(part, key, value, ret_is_wanted, ret_error);
    default:
        return export_look_at_meta(part, key, value, ret_is_wanted, ret_error);
    }
}

/* Adds the entries of the timer's names. */
static void export_put_names(struct export_part *part, struct timer *timer)
{
    const struct storage_write write = {.timer = timer};
    struct record_name_walk walk = {.write = &write};
    enum record_name_change change;
    struct record_key at;
    struct record_name name;

    while (record_name_next(&walk, &change, &at, &name)) {
        const struct store_key key = store_row_key(at);

        if (change == RECORD_NAME_DELETE || export_is_forgotten(part, name.ended))
            continue;
        const size_t value =
            rowop_put(part->to, ROWOP_PUT, ROWOP_NAMES, (struct bytes){key.data, key.size});
        record_name_encode(part->to, at, &name);
        rowop_put_end(part->to, value);
        part->rows++;
    }
}

enum error_code export_add(struct export_part *part, struct bytes key, struct bytes value,
                           struct error *ret_error)
{
    struct storage_export *export = part->export;
    const enum rowop_table table = export_table(export);
    bool is_wanted = false;
    struct timer view = {.version = 0};
    const enum error_code code =
        key.size > sizeof(export->key_)
            ? error_set(ret_error, ERROR_CORRUPT, "a key of %zu bytes", key.size)
            : export_look(part, key, value, &is_wanted, &view, ret_error);

    if (code)
        return code;
    part->looks++;
    if (is_wanted) {
        const size_t rows = part->rows++;
        const size_t at = rowop_put(part->to, ROWOP_PUT, table, key);
        buffer_append_bytes(part->to, value);
        rowop_put_end(part->to, at);
        if (table == ROWOP_TIMERS)
            export_put_names(part, &view);
        export->rows += part->rows - rows;
    }
    export->key_size_ = (uint8_t)key.size;
    memcpy(export->key_, key.data, key.size);
    return ERROR_NONE;
}

void export_end(struct export_part *part)
{
    if (part->rows)
        rowop_end(part->to, part->begin);
    else if (!buffer_failed(part->to))
        part->to->size = part->begin;
}
