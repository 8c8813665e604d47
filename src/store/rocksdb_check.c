/* rocksdb_check.c - looks through a whole data folder.
 *
 * Each table is read once from end to end, past the cache, and each record is compared with those
 * it belongs to: a row with its pointer and its names, a pointer and a name with their row, the
 * metas with the count of rows. */
#include "store/rocksdb_check.h"

#include "store/rowop.h"
#include "store/rocksdb_store.h"
#include "sys/files.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { READAHEAD_BYTES = 1 << 20, SERIAL_EPOCH_SHIFT = 40 };

struct checker {
    struct rocksdb_check *check;
    struct rocksdb_store *store;
    struct tenant_counts *counted,
        *told;           /* [partitions]: live timers of tenants, by rows and by metas */
    struct buffer value; /* value of the record that is looked up */
    bool is_out_of_memory;
};

/* ---- findings ---- */

__attribute__((format(printf, 2, 3))) static void rocksdb_check_find(struct checker *checker,
                                                                     const char *format, ...)
{
    struct rocksdb_check *check = checker->check;

    if (check->findings++ >= ROCKSDB_CHECK_TOLD_MAX || !check->told)
        return;
    va_list list;
    va_start(list, format);
    char text[600];
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    check->told(check->context, text);
}

/* Formats bytes in hex, for a key that cannot be decoded. */
static const char *rocksdb_check_hex(struct bytes key, char ret_text[65])
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

static struct place rocksdb_check_place_of(const struct timer_id *id, struct wall at)
{
    char name[TIMER_ID_TEXT_SIZE];

    timer_id_format(id, name);
    struct place place;
    snprintf(place.text, sizeof(place.text), "partition %u, position %" PRIu64 ", id %s",
             id->partition, at.ms, name);
    return place;
}

static struct place rocksdb_check_place_of_key(struct record_key key)
{
    struct place place;

    snprintf(place.text, sizeof(place.text),
             "partition %" PRIu64 ", position %" PRIu64 ", serial %" PRIu64, key.high >> 48,
             key.high & RECORD_AT_MAX, key.low);
    return place;
}

/* ---- looking up ---- */

/* Reads the row at `at`; ERROR_NOT_FOUND if there is none. The view points into checker->value. */
static enum error_code rocksdb_check_get_row(struct checker *checker, uint16_t partition,
                                             struct wall at, uint64_t serial,
                                             struct timer *ret_view)
{
    const struct record_key key = record_row_key(partition, (struct storage_position){at, serial});
    const struct store_key bytes = store_row_key(key);
    enum error_code code = store_get(checker->store, STORE_TIMERS, NULL,
                                     (struct bytes){bytes.data, bytes.size}, &checker->value, NULL);

    return code ? code : record_row_decode(key, buffer_bytes(&checker->value), ret_view, NULL);
}

static enum error_code rocksdb_check_get_pointer(struct checker *checker, const struct timer_id *id,
                                                 struct record_pointer *ret_pointer)
{
    const struct record_key key = record_pointer_key(id->partition, id->serial);
    const struct store_key bytes = store_pointer_key(key);
    enum error_code code = store_get(checker->store, STORE_MOVED, NULL,
                                     (struct bytes){bytes.data, bytes.size}, &checker->value, NULL);

    return code ? code
                : record_pointer_decode(key, buffer_bytes(&checker->value), ret_pointer, NULL);
}

/* Reads the timer's row, wherever it is. */
static enum error_code rocksdb_check_get_timer(struct checker *checker, const struct timer_id *id,
                                               struct timer *ret_view)
{
    enum error_code code =
        rocksdb_check_get_row(checker, id->partition, id->first, id->serial, ret_view);

    if (code != ERROR_NOT_FOUND)
        return code;
    struct record_pointer pointer;
    code = rocksdb_check_get_pointer(checker, id, &pointer);
    return code ? code
                : rocksdb_check_get_row(checker, id->partition, pointer.at, id->serial, ret_view);
}

static bool rocksdb_check_has_name(struct checker *checker, uint64_t hash, uint64_t serial)
{
    const struct store_key key = store_row_key(record_name_key(hash, serial));

    return store_get(checker->store, STORE_NAMES, NULL, (struct bytes){key.data, key.size},
                     &checker->value, NULL) != ERROR_NOT_FOUND;
}

/* ---- rows ---- */

static void rocksdb_check_names_of(struct checker *checker, const struct timer *view)
{
    struct name_walk walk = {.timer = view};
    struct name name;

    while (name_next(&walk, &name))
        if (!rocksdb_check_has_name(checker, name.hash, view->id.serial))
            rocksdb_check_find(checker,
                               "timers: %s: a name of it has no entry, so it is not found by it",
                               rocksdb_check_place_of(&view->id, view->at).text);
}

static void rocksdb_check_pointer_to(struct checker *checker, const struct timer *view)
{
    struct record_pointer pointer;
    enum error_code code = rocksdb_check_get_pointer(checker, &view->id, &pointer);
    struct place place = rocksdb_check_place_of(&view->id, view->at);

    if (view->id.first.ms == view->at.ms) {
        if (!code && !timer_is_final(view->state) && pointer.at.ms != view->at.ms)
            rocksdb_check_find(checker,
                               "timers: %s: is at home, but a pointer says position %" PRIu64,
                               place.text, pointer.at.ms);
    } else if (code == ERROR_NOT_FOUND) {
        rocksdb_check_find(
            checker, "timers: %s: moved, and no pointer leads to it: it rings, but is not found",
            place.text);
    } else if (!code && pointer.at.ms != view->at.ms) {
        rocksdb_check_find(checker, "timers: %s: moved, but its pointer says position %" PRIu64,
                           place.text, pointer.at.ms);
    }
}

static void rocksdb_check_live(struct checker *checker, struct rocksdb_check_partition *partition,
                               const struct timer *view)
{
    partition->live++;
    if (!tenant_counts_add(&checker->counted[view->id.partition], view->texts.tenant, 1))
        checker->is_out_of_memory = true;
    if (!partition->oldest.ms || view->at.ms < partition->oldest.ms)
        partition->oldest = view->at;
    if (view->at.ms < partition->meta.watermark.ms)
        rocksdb_check_find(
            checker, "timers: %s: lives before the watermark %" PRIu64 ": no start looks there",
            rocksdb_check_place_of(&view->id, view->at).text, partition->meta.watermark.ms);
    rocksdb_check_pointer_to(checker, view);
    rocksdb_check_names_of(checker, view);
}

static void rocksdb_check_row(struct checker *checker, struct bytes key, struct bytes value)
{
    struct record_key at;

    if (!store_row_key_parse(key, &at)) {
        char text[65];
        rocksdb_check_find(checker, "timers: key %s: is no key of a row",
                           rocksdb_check_hex(key, text));
        return;
    }
    if (at.high >> 48 >= checker->check->partition_count) {
        rocksdb_check_find(checker, "timers: %s: there is no such partition",
                           rocksdb_check_place_of_key(at).text);
        return;
    }
    struct rocksdb_check_partition *partition = &checker->check->partitions[at.high >> 48];
    partition->bytes += key.size + value.size;
    struct timer view;
    struct error error;
    if (record_row_decode(at, value, &view, &error)) {
        partition->damaged++;
        rocksdb_check_find(checker, "timers: %s: %s", rocksdb_check_place_of_key(at).text,
                           error.text);
        return;
    }
    if (view.id.serial >> SERIAL_EPOCH_SHIFT > partition->meta.epoch)
        rocksdb_check_find(checker, "timers: %s: its epoch %" PRIu64 " is not reached yet",
                           rocksdb_check_place_of(&view.id, view.at).text,
                           view.id.serial >> SERIAL_EPOCH_SHIFT);
    if (view.state == TIMER_DEAD)
        partition->dead++;
    else if (timer_is_final(view.state))
        partition->over++;
    else
        rocksdb_check_live(checker, partition, &view);
}

/* ---- pointers and names ---- */

static void rocksdb_check_pointer(struct checker *checker, struct bytes key, struct bytes value)
{
    checker->check->pointers++;
    struct record_pointer pointer;
    struct record_key at;
    struct timer view;
    struct error error;
    char text[65];
    if (!store_pointer_key_parse(key, &at))
        rocksdb_check_find(checker, "moved: key %s: is no key of a pointer",
                           rocksdb_check_hex(key, text));
    else if (at.high >= checker->check->partition_count)
        rocksdb_check_find(checker,
                           "moved: partition %" PRIu64 ", serial %" PRIu64 ": no such partition",
                           at.high, at.low);
    else if (record_pointer_decode(at, value, &pointer, &error))
        rocksdb_check_find(checker, "moved: partition %" PRIu64 ", serial %" PRIu64 ": %s", at.high,
                           at.low, error.text);
    else if (!pointer.ended.ms && rocksdb_check_get_row(checker, (uint16_t)at.high, pointer.at,
                                                        at.low, &view) == ERROR_NOT_FOUND)
        rocksdb_check_find(checker,
                           "moved: partition %" PRIu64 ", serial %" PRIu64
                           ": leads to position %" PRIu64 ", where no row is",
                           at.high, at.low, pointer.at.ms);
}

static void rocksdb_check_name(struct checker *checker, struct bytes key, struct bytes value)
{
    checker->check->names++;
    struct record_key at;
    if (!store_row_key_parse(key, &at)) {
        char text[65];
        rocksdb_check_find(checker, "names: key %s: is no key of a name",
                           rocksdb_check_hex(key, text));
        return;
    }
    struct record_name entry;
    struct error error;
    if (record_name_decode(at, value, &entry, &error)) {
        rocksdb_check_find(checker, "names: hash %016" PRIx64 ", serial %" PRIu64 ": %s", at.high,
                           UINT64_MAX - at.low, error.text);
        return;
    }
    if (entry.id.partition >= checker->check->partition_count) {
        rocksdb_check_find(checker, "names: hash %016" PRIx64 ": there is no partition %u", at.high,
                           entry.id.partition);
        return;
    }
    struct timer view;
    enum error_code code = rocksdb_check_get_timer(checker, &entry.id, &view);
    if (code == ERROR_NOT_FOUND && !entry.ended.ms)
        rocksdb_check_find(checker, "names: hash %016" PRIx64 ": %s: there is no such timer",
                           at.high, rocksdb_check_place_of(&entry.id, entry.id.first).text);
    if (code) /* a final timer may be trimmed; a damaged row is reported with the rows */
        return;
    struct name_walk walk = {0};
    walk.timer = &view;
    struct name name;
    while (name_next(&walk, &name))
        if (name.hash == at.high)
            return;
    rocksdb_check_find(checker, "names: hash %016" PRIx64 ": %s: that timer has no such name",
                       at.high, rocksdb_check_place_of(&view.id, view.at).text);
}

/* ---- the metadata ---- */

static void rocksdb_check_tenant(struct checker *checker, struct bytes key, struct bytes value)
{
    uint64_t partition = key.size > STORE_TENANT_SIZE ? get_be(key.data + 1, 2) : UINT64_MAX;
    struct bytes name = {0};

    if (key.size > STORE_TENANT_SIZE)
        name = (struct bytes){key.data + STORE_TENANT_SIZE, key.size - STORE_TENANT_SIZE};
    struct error error;
    uint64_t count;
    char text[65];
    if (!tenant_is_valid(name) || partition >= checker->check->partition_count)
        rocksdb_check_find(checker, "default: key %s: is no key of a tenant",
                           rocksdb_check_hex(key, text));
    else if (record_number_decode(key, value, &count, &error))
        rocksdb_check_find(checker, "default: key %s: %s", rocksdb_check_hex(key, text),
                           error.text);
    else if (!tenant_counts_add(&checker->told[partition], name, (int64_t)(count & INT64_MAX)))
        checker->is_out_of_memory = true;
}

static void rocksdb_check_meta(struct checker *checker, struct bytes key, struct bytes value)
{
    enum storage_note note;
    const struct bytes numbers[] = {STORE_KEY_FORMAT, STORE_KEY_PARTITIONS, STORE_KEY_CORRUPT};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (bytes_equal(key, numbers[i])) {
            struct error error;
            uint64_t number;
            if (record_number_decode(key, value, &number, &error))
                rocksdb_check_find(checker, "default: %.*s: %s", (int)key.size, key.data,
                                   error.text);
            return;
        }
    if (bytes_has_prefix(key, BYTES(STORE_TENANT_PREFIX))) {
        rocksdb_check_tenant(checker, key, value);
        return;
    }
    char text[65];
    uint16_t partition;
    if (store_place_key_parse(key, &partition) && partition < checker->check->partition_count) {
        struct storage_place place;
        struct error error;
        if (record_place_decode(key, value, &place, &error))
            rocksdb_check_find(checker, "default: key %s: %s", rocksdb_check_hex(key, text),
                               error.text);
        else if (place.sweep_end || place.copy_end)
            rocksdb_check_find(checker,
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
            rocksdb_check_find(checker, "default: %s: %s",
                               note == STORAGE_HOLDS ? "the pauses and the maintenance"
                                                     : "what was taken from sources",
                               error.text);
        return;
    }
    if (!store_meta_key_parse(key, &partition) || partition >= checker->check->partition_count)
        rocksdb_check_find(checker, "default: key %s: is none of ours",
                           rocksdb_check_hex(key, text));
}

static void rocksdb_check_set_aside(struct checker *checker, struct bytes key, struct bytes value)
{
    (void)value;
    checker->check->set_aside++;
    struct record_key at;
    if (key.size == 1 + RECORD_ROW_SIZE && key.data[0] == 't' &&
        store_row_key_parse((struct bytes){key.data + 1, key.size - 1}, &at) &&
        at.high >> 48 < checker->check->partition_count) {
        checker->check->partitions[at.high >> 48].damaged++;
        rocksdb_check_find(checker, "quarantine: %s: a row was set aside",
                           rocksdb_check_place_of_key(at).text);
        return;
    }
    char text[65];
    rocksdb_check_find(checker, "quarantine: key %s: a record was set aside",
                       rocksdb_check_hex(key, text));
}

static void rocksdb_check_load_metas(struct checker *checker)
{
    struct rocksdb_check *check = checker->check;

    for (uint32_t i = 0; i < check->partition_count; i++) {
        struct storage_meta *meta = &check->partitions[i].meta;

        struct error error;
        if (store_load_meta(checker->store, (uint16_t)i, meta, &error))
            rocksdb_check_find(checker, "default: meta of partition %u: %s; it cannot be started",
                               i, error.text);
        else if (meta->trim.ms > meta->watermark.ms)
            rocksdb_check_find(checker,
                               "default: meta of partition %u: trim %" PRIu64
                               " is past the watermark "
                               "%" PRIu64,
                               i, meta->trim.ms, meta->watermark.ms);
    }
}

/* Checks that each tenant of `of` has the count of the other, and at most `more` further timers. */
static void rocksdb_check_compare_tenants(struct checker *checker, uint32_t partition,
                                          const struct tenant_counts *of)
{
    const struct rocksdb_check_partition *found = &checker->check->partitions[partition];
    const struct tenant_counts_tenant *tenant;
    size_t cursor = 0;

    while ((tenant = tenant_counts_next(of, &cursor))) {
        const struct bytes name = {tenant->name, tenant->name_size};
        uint64_t told = tenant_counts_count(&checker->told[partition], name);
        uint64_t counted = tenant_counts_count(&checker->counted[partition], name);

        if (of == &checker->told[partition] ? told < counted || told > counted + found->damaged
                                            : told == 0)
            rocksdb_check_find(checker,
                               "default: partition %" PRIu32 ", tenant %.*s: counts %" PRIu64
                               " live timers, and there are %" PRIu64,
                               partition, (int)name.size, name.data, told, counted);
    }
}

/* Compares the counts. A damaged row stays counted; whether it lived is unknown. */
static void rocksdb_check_compare_counts(struct checker *checker)
{
    for (uint32_t i = 0; i < checker->check->partition_count; i++) {
        const struct rocksdb_check_partition *partition = &checker->check->partitions[i];
        uint64_t pending = partition->meta.pending;

        if (pending < partition->live || pending > partition->live + partition->damaged)
            rocksdb_check_find(checker,
                               "default: meta of partition %u: counts %" PRIu64
                               " live timers, and there are "
                               "%" PRIu64,
                               i, pending, partition->live);
        if (pending > partition->live)
            checker->check->missing += pending - partition->live;
        rocksdb_check_compare_tenants(checker, i, &checker->told[i]);
        rocksdb_check_compare_tenants(checker, i, &checker->counted[i]);
    }
}

/* ---- all of it ---- */

static bool rocksdb_check_is_at(const rocksdb_iterator_t *records, const struct store_key *key)
{
    size_t size;
    const char *data = rocksdb_iter_key(records, &size);

    return key->size &&
           bytes_equal((struct bytes){data, size}, (struct bytes){key->data, key->size});
}

/* Reads the records after `key`, which becomes the last one read. Returns false if a block
 * cannot be read. */
static bool rocksdb_check_walk_on(struct checker *checker, enum store_table table, const char *name,
                                  struct store_key *key,
                                  void (*look)(struct checker *checker, struct bytes key,
                                               struct bytes value))
{
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();

    rocksdb_readoptions_set_readahead_size(options, READAHEAD_BYTES);
    rocksdb_readoptions_set_fill_cache(options, 0);
    rocksdb_readoptions_set_verify_checksums(options, 1);
    rocksdb_readoptions_set_total_order_seek(options, 1);
    rocksdb_iterator_t *records =
        rocksdb_create_iterator_cf(checker->store->db, options, checker->store->tables[table]);
    rocksdb_iter_seek(records, key->data, key->size);
    if (rocksdb_iter_valid(records) && rocksdb_check_is_at(records, key))
        rocksdb_iter_next(records);
    for (; rocksdb_iter_valid(records); rocksdb_iter_next(records)) {
        struct bytes at;

        at.data = rocksdb_iter_key(records, &at.size);
        struct bytes value;
        value.data = rocksdb_iter_value(records, &value.size);
        if (at.size <= sizeof(key->data)) {
            memcpy(key->data, at.data, at.size);
            key->size = at.size;
        }
        look(checker, at, value);
    }
    char *text = NULL;
    rocksdb_iter_get_error(records, &text);
    if (text) {
        rocksdb_check_find(checker, "%s: a block cannot be read: %s", name, text);
        store_note_damage(checker->store, text);
    }
    rocksdb_iter_destroy(records);
    rocksdb_readoptions_destroy(options);
    rocksdb_free(text);
    return !text;
}

/* Walks a table, and continues after each unreadable block in a mended copy. */
static void rocksdb_check_walk(struct checker *checker, enum store_table table, const char *name,
                               void (*look)(struct checker *checker, struct bytes key,
                                            struct bytes value))
{
    struct store_key key = {.size = 0};

    while (!rocksdb_check_walk_on(checker, table, name, &key, look)) {
        checker->check->blocks_unread++;
        if (!rocksdb_block_set_aside(checker->store))
            return;
    }
}

/* Verifies the tables, because a walk does not read filters. */
static void rocksdb_check_tables(struct checker *checker)
{
    const rocksdb_livefiles_t *files = rocksdb_livefiles(checker->store->db);
    struct buffer table;

    buffer_init(&table);
    for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
        char path[PATH_MAX];
        const char *name = rocksdb_livefiles_name(files, i);

        snprintf(path, sizeof(path), "%s/%s", checker->store->folder, name + (*name == '/'));
        buffer_clear(&table);
        if (files_read_regular(path, TABLEFILE_BYTES_MAX, &table, NULL) || buffer_failed(&table) ||
            !tablefile_is_sound(table.data, table.size)) {
            checker->check->blocks_unread++;
            rocksdb_check_find(checker, "%s: a block is damaged", name + (*name == '/'));
        }
    }
    buffer_deinit(&table);
    rocksdb_livefiles_destroy(files);
}

static void rocksdb_check_all(struct checker *checker)
{
    const struct folder_state *state = &checker->store->folder_state;

    if (state->has_loss)
        rocksdb_check_find(checker, "%s", state->loss.text);
    if (checker->store->has_mended) /* it could not be opened otherwise */
        rocksdb_check_find(checker, "%s", checker->store->block_found);
    else if (checker->store->block_records)
        rocksdb_check_find(checker,
                           FOLDER_DAMAGED_NAME ": %" PRIu64 " blocks of tables, about %" PRIu64
                                               " records, were set aside",
                           checker->store->blocks_aside, checker->store->block_records);
    rocksdb_check_load_metas(checker);
    rocksdb_check_walk(checker, STORE_META, "default", rocksdb_check_meta);
    rocksdb_check_walk(checker, STORE_QUARANTINE, "quarantine", rocksdb_check_set_aside);
    rocksdb_check_walk(checker, STORE_TIMERS, "timers", rocksdb_check_row);
    rocksdb_check_walk(checker, STORE_MOVED, "moved", rocksdb_check_pointer);
    rocksdb_check_walk(checker, STORE_NAMES, "names", rocksdb_check_name);
    rocksdb_check_compare_counts(checker);
    rocksdb_check_tables(checker);
}

static struct tenant_counts *rocksdb_check_create_counts(size_t count)
{
    struct tenant_counts *tenant_counts_of = calloc(count, sizeof(*tenant_counts_of));

    for (size_t i = 0; tenant_counts_of && i < count; i++)
        tenant_counts_init(&tenant_counts_of[i]);
    return tenant_counts_of;
}

static void rocksdb_check_destroy_counts(struct tenant_counts *tenant_counts_of, size_t count)
{
    for (size_t i = 0; tenant_counts_of && i < count; i++)
        tenant_counts_deinit(&tenant_counts_of[i]);
    free(tenant_counts_of);
}

enum error_code rocksdb_check(struct storage *storage, struct rocksdb_check *check,
                              struct error *ret_error)
{
    struct checker checker = {.check = check, .store = store_of(storage)};
    enum error_code code = store_enter(checker.store, ret_error);

    if (code)
        return code;
    store_leave(checker.store);
    check->format = checker.store->format;
    check->disk_bytes = checker.store->folder_state.bytes;
    check->was_closed = checker.store->folder_state.was_closed;
    check->partition_count = checker.store->partition_count;
    check->partitions = calloc(check->partition_count, sizeof(*check->partitions));
    checker.counted = rocksdb_check_create_counts(check->partition_count);
    checker.told = rocksdb_check_create_counts(check->partition_count);
    if (check->partitions && checker.counted && checker.told) {
        buffer_init(&checker.value);
        rocksdb_check_all(&checker);
        buffer_deinit(&checker.value);
    } else {
        checker.is_out_of_memory = true;
    }
    if (checker.is_out_of_memory)
        code = error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    rocksdb_check_destroy_counts(checker.counted, check->partition_count);
    rocksdb_check_destroy_counts(checker.told, check->partition_count);
    return code;
}

void rocksdb_check_deinit(struct rocksdb_check *check)
{
    free(check->partitions);
    check->partitions = NULL;
}
