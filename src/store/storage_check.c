/* storage_check.c - compares the records of a folder with each other; see storage_check.h. */
#include "store/storage_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { SERIAL_EPOCH_SHIFT = 40 };

/* ---- findings ---- */

void storage_checker_find(struct storage_checker *checker, const char *format, ...)
{
    struct storage_check *check = checker->check;

    if (check->findings++ >= STORAGE_CHECK_TOLD_MAX || !check->told)
        return;
    va_list list;
    va_start(list, format);
    char text[600];
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    check->told(check->context, text);
}

/* Formats bytes in hex, for a key that cannot be decoded. */
static const char *storage_check_hex(struct bytes key, char ret_text[65])
{
    size_t size = key.size < 32 ? key.size : 32;

    ret_text[0] = '\0';
    for (size_t i = 0; i < size; i++)
        snprintf(ret_text + 2 * i, 3, "%02x", (uint8_t)key.data[i]);
    return ret_text;
}

/* "partition 1, position 1700000000000, id ..." */
struct place {
    char text[128];
};

static struct place storage_check_place_of(const struct timer_id *id, struct wall at)
{
    char name[TIMER_ID_TEXT_SIZE];

    timer_id_format(id, name);
    struct place place;
    snprintf(place.text, sizeof(place.text), "partition %u, position %" PRIu64 ", id %s",
             id->partition, at.ms, name);
    return place;
}

static struct place storage_check_place_of_key(struct record_key key)
{
    struct place place;

    snprintf(place.text, sizeof(place.text),
             "partition %" PRIu64 ", position %" PRIu64 ", serial %" PRIu64, key.high >> 48,
             key.high & RECORD_AT_MAX, key.low);
    return place;
}

/* ---- looking up ---- */

static enum error_code storage_check_get(struct storage_checker *checker, enum rowop_table table,
                                         struct store_key key)
{
    return checker->get(checker->context, table, (struct bytes){key.data, key.size},
                        &checker->value);
}

/* Reads the row at `at`; ERROR_NOT_FOUND if there is none. The view points into checker->value. */
static enum error_code storage_check_get_row(struct storage_checker *checker, uint16_t partition,
                                             struct wall at, uint64_t serial,
                                             struct timer *ret_view)
{
    const struct record_key key = record_row_key(partition, (struct storage_position){at, serial});
    const struct store_key bytes = store_row_key(key);
    enum error_code code = storage_check_get(checker, ROWOP_TIMERS, bytes);

    return code ? code : record_row_decode(key, buffer_bytes(&checker->value), ret_view, NULL);
}

static enum error_code storage_check_get_pointer(struct storage_checker *checker,
                                                 const struct timer_id *id,
                                                 struct record_pointer *ret_pointer)
{
    const struct record_key key = record_pointer_key(id->partition, id->serial);
    const struct store_key bytes = store_pointer_key(key);
    enum error_code code = storage_check_get(checker, ROWOP_MOVED, bytes);

    return code ? code
                : record_pointer_decode(key, buffer_bytes(&checker->value), ret_pointer, NULL);
}

/* Reads the timer's row, wherever it is. */
static enum error_code storage_check_get_timer(struct storage_checker *checker,
                                               const struct timer_id *id, struct timer *ret_view)
{
    enum error_code code =
        storage_check_get_row(checker, id->partition, id->first, id->serial, ret_view);

    if (code != ERROR_NOT_FOUND)
        return code;
    struct record_pointer pointer;
    code = storage_check_get_pointer(checker, id, &pointer);
    return code ? code
                : storage_check_get_row(checker, id->partition, pointer.at, id->serial, ret_view);
}

static bool storage_check_has_name(struct storage_checker *checker, uint64_t hash, uint64_t serial)
{
    const struct store_key key = store_row_key(record_name_key(hash, serial));

    return storage_check_get(checker, ROWOP_NAMES, key) != ERROR_NOT_FOUND;
}

/* ---- rows ---- */

static void storage_check_names_of(struct storage_checker *checker, const struct timer *view)
{
    struct name_walk walk = {.timer = view};
    struct name name;

    while (name_next(&walk, &name))
        if (!storage_check_has_name(checker, name.hash, view->id.serial))
            storage_checker_find(checker,
                                 "timers: %s: a name of it has no entry, so it is not found by it",
                                 storage_check_place_of(&view->id, view->at).text);
}

static void storage_check_pointer_to(struct storage_checker *checker, const struct timer *view)
{
    struct record_pointer pointer;
    enum error_code code = storage_check_get_pointer(checker, &view->id, &pointer);
    struct place place = storage_check_place_of(&view->id, view->at);

    if (view->id.first.ms == view->at.ms) {
        if (!code && !timer_is_final(view->state) && pointer.at.ms != view->at.ms)
            storage_checker_find(checker,
                                 "timers: %s: is at home, but a pointer says position %" PRIu64,
                                 place.text, pointer.at.ms);
    } else if (code == ERROR_NOT_FOUND) {
        storage_checker_find(
            checker, "timers: %s: moved, and no pointer leads to it: it rings, but is not found",
            place.text);
    } else if (!code && pointer.at.ms != view->at.ms) {
        storage_checker_find(checker, "timers: %s: moved, but its pointer says position %" PRIu64,
                             place.text, pointer.at.ms);
    }
}

static void storage_check_live(struct storage_checker *checker,
                               struct storage_check_partition *partition, const struct timer *view)
{
    partition->live++;
    if (!tenant_counts_add(&checker->counted[view->id.partition], view->texts.tenant, 1))
        checker->is_out_of_memory = true;
    if (!partition->oldest.ms || view->at.ms < partition->oldest.ms)
        partition->oldest = view->at;
    if (view->at.ms < partition->meta.watermark.ms)
        storage_checker_find(
            checker, "timers: %s: lives before the watermark %" PRIu64 ": no start looks there",
            storage_check_place_of(&view->id, view->at).text, partition->meta.watermark.ms);
    storage_check_pointer_to(checker, view);
    storage_check_names_of(checker, view);
}

static void storage_check_row(struct storage_checker *checker, struct bytes key, struct bytes value)
{
    struct record_key at;

    if (!store_row_key_parse(key, &at)) {
        char text[65];
        storage_checker_find(checker, "timers: key %s: is no key of a row",
                             storage_check_hex(key, text));
        return;
    }
    if (at.high >> 48 >= checker->check->partition_count) {
        storage_checker_find(checker, "timers: %s: there is no such partition",
                             storage_check_place_of_key(at).text);
        return;
    }
    struct storage_check_partition *partition = &checker->check->partitions[at.high >> 48];
    partition->bytes += key.size + value.size;
    struct timer view;
    struct error error;
    if (record_row_decode(at, value, &view, &error)) {
        partition->damaged++;
        storage_checker_find(checker, "timers: %s: %s", storage_check_place_of_key(at).text,
                             error.text);
        return;
    }
    if (view.id.serial >> SERIAL_EPOCH_SHIFT > partition->meta.epoch)
        storage_checker_find(checker, "timers: %s: its epoch %" PRIu64 " is not reached yet",
                             storage_check_place_of(&view.id, view.at).text,
                             view.id.serial >> SERIAL_EPOCH_SHIFT);
    if (view.state == TIMER_DEAD)
        partition->dead++;
    else if (timer_is_final(view.state))
        partition->over++;
    else
        storage_check_live(checker, partition, &view);
}

/* ---- pointers and names ---- */

static void storage_check_pointer(struct storage_checker *checker, struct bytes key,
                                  struct bytes value)
{
    checker->check->pointers++;
    struct record_pointer pointer;
    struct record_key at;
    struct timer view;
    struct error error;
    char text[65];
    if (!store_pointer_key_parse(key, &at))
        storage_checker_find(checker, "moved: key %s: is no key of a pointer",
                             storage_check_hex(key, text));
    else if (at.high >= checker->check->partition_count)
        storage_checker_find(checker,
                             "moved: partition %" PRIu64 ", serial %" PRIu64 ": no such partition",
                             at.high, at.low);
    else if (record_pointer_decode(at, value, &pointer, &error))
        storage_checker_find(checker, "moved: partition %" PRIu64 ", serial %" PRIu64 ": %s",
                             at.high, at.low, error.text);
    else if (!pointer.ended.ms && storage_check_get_row(checker, (uint16_t)at.high, pointer.at,
                                                        at.low, &view) == ERROR_NOT_FOUND)
        storage_checker_find(checker,
                             "moved: partition %" PRIu64 ", serial %" PRIu64
                             ": leads to position %" PRIu64 ", where no row is",
                             at.high, at.low, pointer.at.ms);
}

static void storage_check_name(struct storage_checker *checker, struct bytes key,
                               struct bytes value)
{
    checker->check->names++;
    struct record_key at;
    if (!store_row_key_parse(key, &at)) {
        char text[65];
        storage_checker_find(checker, "names: key %s: is no key of a name",
                             storage_check_hex(key, text));
        return;
    }
    struct record_name entry;
    struct error error;
    if (record_name_decode(at, value, &entry, &error)) {
        storage_checker_find(checker, "names: hash %016" PRIx64 ", serial %" PRIu64 ": %s", at.high,
                             UINT64_MAX - at.low, error.text);
        return;
    }
    if (entry.id.partition >= checker->check->partition_count) {
        storage_checker_find(checker, "names: hash %016" PRIx64 ": there is no partition %u",
                             at.high, entry.id.partition);
        return;
    }
    struct timer view;
    enum error_code code = storage_check_get_timer(checker, &entry.id, &view);
    if (code == ERROR_NOT_FOUND && !entry.ended.ms)
        storage_checker_find(checker, "names: hash %016" PRIx64 ": %s: there is no such timer",
                             at.high, storage_check_place_of(&entry.id, entry.id.first).text);
    if (code) /* a final timer may be trimmed; a damaged row is reported with the rows */
        return;
    struct name_walk walk = {0};
    walk.timer = &view;
    struct name name;
    while (name_next(&walk, &name))
        if (name.hash == at.high)
            return;
    storage_checker_find(checker, "names: hash %016" PRIx64 ": %s: that timer has no such name",
                         at.high, storage_check_place_of(&view.id, view.at).text);
}

/* ---- the metadata ---- */

static void storage_check_tenant(struct storage_checker *checker, struct bytes key,
                                 struct bytes value)
{
    uint64_t partition = key.size > STORE_TENANT_SIZE ? get_be(key.data + 1, 2) : UINT64_MAX;
    struct bytes name = {0};

    if (key.size > STORE_TENANT_SIZE)
        name = (struct bytes){key.data + STORE_TENANT_SIZE, key.size - STORE_TENANT_SIZE};
    struct error error;
    uint64_t count;
    char text[65];
    if (!tenant_is_valid(name) || partition >= checker->check->partition_count)
        storage_checker_find(checker, "default: key %s: is no key of a tenant",
                             storage_check_hex(key, text));
    else if (record_number_decode(key, value, &count, &error))
        storage_checker_find(checker, "default: key %s: %s", storage_check_hex(key, text),
                             error.text);
    else if (!tenant_counts_add(&checker->told[partition], name, (int64_t)(count & INT64_MAX)))
        checker->is_out_of_memory = true;
}

static void storage_check_meta(struct storage_checker *checker, struct bytes key,
                               struct bytes value)
{
    enum storage_note note;
    if (bytes_has_prefix(key, BYTES(STORE_TENANT_PREFIX))) {
        storage_check_tenant(checker, key, value);
        return;
    }
    char text[65];
    uint16_t partition;
    if (store_place_key_parse(key, &partition) && partition < checker->check->partition_count) {
        struct storage_place place;
        struct error error;
        if (record_place_decode(key, value, &place, &error))
            storage_checker_find(checker, "default: key %s: %s", storage_check_hex(key, text),
                                 error.text);
        else if (place.sweep_end || place.copy_end)
            storage_checker_find(checker,
                                 "default: partition %u was being restored from the log of its "
                                 "cluster, and lacks rows: its node goes on with that",
                                 partition);
        return;
    }
    if (store_note_key_parse(key, &note, &partition) &&
        partition < checker->check->partition_count) {
        struct bytes bytes;
        struct error error;
        if (record_note_decode(key, value, &bytes, &error))
            storage_checker_find(checker, "default: %s: %s",
                                 note == STORAGE_HOLDS ? "the pauses and the maintenance"
                                                       : "what was taken from sources",
                                 error.text);
        return;
    }
    if (!store_meta_key_parse(key, &partition) || partition >= checker->check->partition_count)
        storage_checker_find(checker, "default: key %s: is none of ours",
                             storage_check_hex(key, text));
}

void storage_checker_look_set_aside(struct storage_checker *checker, enum rowop_table table,
                                    struct bytes key)
{
    struct storage_check *check = checker->check;
    struct record_key at;
    char text[65];

    check->set_aside++;
    if (table == ROWOP_TIMERS && store_row_key_parse(key, &at) &&
        at.high >> 48 < check->partition_count) {
        check->partitions[at.high >> 48].damaged++;
        storage_checker_find(checker, "quarantine: %s: a row was set aside",
                             storage_check_place_of_key(at).text);
        return;
    }
    storage_checker_find(checker, "quarantine: key %s: a record was set aside",
                         storage_check_hex(key, text));
}

void storage_checker_load_metas(struct storage_checker *checker, struct storage *storage)
{
    struct storage_check *check = checker->check;

    for (uint32_t i = 0; i < check->partition_count; i++) {
        struct storage_meta *meta = &check->partitions[i].meta;

        struct error error;
        if (storage_load_meta(storage, (uint16_t)i, meta, &error))
            storage_checker_find(checker, "default: meta of partition %u: %s; it cannot be started",
                                 i, error.text);
        else if (meta->trim.ms > meta->watermark.ms)
            storage_checker_find(checker,
                                 "default: meta of partition %u: trim %" PRIu64
                                 " is past the watermark "
                                 "%" PRIu64,
                                 i, meta->trim.ms, meta->watermark.ms);
    }
}

/* Checks that each tenant of `of` has the count of the other, and at most `more` further timers. */
static void storage_check_compare_tenants(struct storage_checker *checker, uint32_t partition,
                                          const struct tenant_counts *of)
{
    const struct storage_check_partition *found = &checker->check->partitions[partition];
    const struct tenant_counts_tenant *tenant;
    size_t cursor = 0;

    while ((tenant = tenant_counts_next(of, &cursor))) {
        const struct bytes name = {tenant->name, tenant->name_size};
        uint64_t told = tenant_counts_count(&checker->told[partition], name);
        uint64_t counted = tenant_counts_count(&checker->counted[partition], name);

        if (of == &checker->told[partition] ? told < counted || told > counted + found->damaged
                                            : told == 0)
            storage_checker_find(checker,
                                 "default: partition %" PRIu32 ", tenant %.*s: counts %" PRIu64
                                 " live timers, and there are %" PRIu64,
                                 partition, (int)name.size, name.data, told, counted);
    }
}

/* Compares the counts. A damaged row stays counted; whether it lived is unknown. */
static void storage_check_compare_counts(struct storage_checker *checker)
{
    for (uint32_t i = 0; i < checker->check->partition_count; i++) {
        const struct storage_check_partition *partition = &checker->check->partitions[i];
        uint64_t pending = partition->meta.pending;

        if (pending < partition->live || pending > partition->live + partition->damaged)
            storage_checker_find(checker,
                                 "default: meta of partition %u: counts %" PRIu64
                                 " live timers, and there are "
                                 "%" PRIu64,
                                 i, pending, partition->live);
        if (pending > partition->live)
            checker->check->missing += pending - partition->live;
        storage_check_compare_tenants(checker, i, &checker->told[i]);
        storage_check_compare_tenants(checker, i, &checker->counted[i]);
    }
}

/* ---- all of it ---- */

void storage_checker_look(struct storage_checker *checker, enum rowop_table table, struct bytes key,
                          struct bytes value)
{
    switch (table) {
    case ROWOP_TIMERS:
        storage_check_row(checker, key, value);
        break;
    case ROWOP_MOVED:
        storage_check_pointer(checker, key, value);
        break;
    case ROWOP_NAMES:
        storage_check_name(checker, key, value);
        break;
    default:
        storage_check_meta(checker, key, value);
    }
}

static struct tenant_counts *storage_check_create_counts(size_t count)
{
    struct tenant_counts *tenant_counts_of = calloc(count, sizeof(*tenant_counts_of));

    for (size_t i = 0; tenant_counts_of && i < count; i++)
        tenant_counts_init(&tenant_counts_of[i]);
    return tenant_counts_of;
}

static void storage_check_destroy_counts(struct tenant_counts *tenant_counts_of, size_t count)
{
    for (size_t i = 0; tenant_counts_of && i < count; i++)
        tenant_counts_deinit(&tenant_counts_of[i]);
    free(tenant_counts_of);
}

bool storage_checker_begin(struct storage_checker *checker)
{
    struct storage_check *check = checker->check;

    buffer_init(&checker->value);
    check->partitions = calloc(check->partition_count, sizeof(*check->partitions));
    checker->counted = storage_check_create_counts(check->partition_count);
    checker->told = storage_check_create_counts(check->partition_count);
    return check->partitions && checker->counted && checker->told;
}

enum error_code storage_checker_end(struct storage_checker *checker, struct error *ret_error)
{
    const uint16_t partition_count = checker->check->partition_count;

    if (!checker->check->partitions || !checker->counted || !checker->told)
        checker->is_out_of_memory = true;
    else
        storage_check_compare_counts(checker);
    storage_check_destroy_counts(checker->counted, partition_count);
    storage_check_destroy_counts(checker->told, partition_count);
    buffer_deinit(&checker->value);
    return checker->is_out_of_memory ? error_set(ret_error, ERROR_NO_MEMORY, "out of memory")
                                     : ERROR_NONE;
}

void storage_check_deinit(struct storage_check *check)
{
    free(check->partitions);
    check->partitions = NULL;
}
