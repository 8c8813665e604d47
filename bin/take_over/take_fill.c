/* take_fill.c - a new store on a wheel, filled in order; see take_fill.h. */
#include "take_fill.h"

#include "base/checksum.h"
#include "store/wheel/diskwheel_choose.h"
#include "store/wheel/diskwheel_store.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    FILL_RUN_BYTES = 160 << 20, /* size at which a run ends; it is not rewritten for being small */
    FILL_RUN_RECORDS = 4 << 20, /* each takes 8 bytes of memory until its run ends */
    FILL_RETAIN_MS = 86400 * 1000, /* time for which final records are kept, probably */
};

/* A run that is being written. */
struct fill_run {
    struct diskwheel_writer *writer; /* NULL if there is none */
    uint64_t records;
};

/* Counts of the records of a partition that were read from RocksDB. */
struct fill_part {
    uint64_t live;
    uint64_t aside; /* number of rows that were set aside; each may be that of a live timer */
};

/* Number of records, and a sum of their checksums that is the same in any order. */
struct fill_sum {
    uint64_t count, sum;
};

struct take_fill {
    struct storage *storage; /* NULL after take_fill_end */
    struct diskwheel_store *store;
    char *folder;
    uint16_t partition_count;
    struct wall now;
    struct fill_run runs[DISKWHEEL_CLASSES];
    uint64_t first_run, next_run;
    struct fill_part *parts;
    struct fill_sum sums[DISKWHEEL_TABLES];
    struct take_report report;
};

/* ---- opening ---- */

enum error_code take_fill_open(const char *folder, uint16_t partition_count, uint64_t cluster,
                               struct take_fill **ret_fill, struct error *ret_error)
{
    const struct diskwheel_options options = {.folder = folder,
                                              .partition_count = partition_count,
                                              .cluster = cluster,
                                              .retain_ms = FILL_RETAIN_MS};
    struct take_fill *fill = calloc(1, sizeof(*fill));
    enum error_code code;

    if (!fill || !(fill->folder = strdup(folder)) ||
        !(fill->parts = calloc(partition_count, sizeof(*fill->parts)))) {
        take_fill_close(fill);
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    }
    fill->partition_count = fill->report.partition_count = partition_count;
    fill->now = wall_now();
    code = diskwheel_storage_open(&options, &fill->storage, ret_error);
    if (code) {
        take_fill_close(fill);
        return code;
    }
    fill->store = diskwheel_store_of(fill->storage);
    fill->first_run = fill->next_run = fill->store->next_run;
    *ret_fill = fill;
    return ERROR_NONE;
}

void take_fill_close(struct take_fill *fill)
{
    if (!fill)
        return;
    for (size_t i = 0; i < DISKWHEEL_CLASSES; i++)
        diskwheel_writer_drop(fill->runs[i].writer);
    storage_close(fill->storage);
    free(fill->parts);
    free(fill->folder);
    free(fill);
}

struct take_report take_fill_report(const struct take_fill *fill)
{
    return fill->report;
}

/* ---- records of runs ---- */

static void fill_sum_add(struct fill_sum *sum, struct record_key key, struct bytes value)
{
    const uint32_t crc = checksum_crc32c(0, &key, sizeof(key));

    sum->count++;
    sum->sum += checksum_crc32c(crc, value.data, value.size);
}

static enum error_code fill_end_run(struct fill_run *run, struct error *ret_error)
{
    struct diskwheel_writer *writer = run->writer;

    *run = (struct fill_run){.writer = NULL};
    return writer ? diskwheel_writer_end(writer, ret_error) : ERROR_NONE;
}

/* Writes a record that is probably over at `ends_ms`. No row of the store is older: each is new. */
static enum error_code fill_write(struct take_fill *fill, enum diskwheel_table table,
                                  struct record_key key, struct bytes value, uint64_t ends_ms,
                                  struct error *ret_error)
{
    struct fill_run *run = &fill->runs[diskwheel_choose_class(fill->now, ends_ms)];
    enum error_code code = ERROR_NONE;

    if (run->writer &&
        (run->records == FILL_RUN_RECORDS || diskwheel_writer_bytes(run->writer) >= FILL_RUN_BYTES))
        code = fill_end_run(run, ret_error);
    if (!code && !run->writer) {
        code = diskwheel_writer_open(fill->store->disk, fill->folder, fill->next_run, &run->writer,
                                     ret_error);
        fill->next_run += !code;
    }
    if (code)
        return code;
    diskwheel_writer_add(run->writer, table, key, table == DISKWHEEL_TIMERS, value);
    run->records++;
    fill_sum_add(&fill->sums[table], key, value);
    return ERROR_NONE;
}

static uint64_t fill_final_until(struct wall ended)
{
    return wall_add(ended, FILL_RETAIN_MS).ms;
}

static void fill_note_serial(struct take_fill *fill, uint64_t partition, uint64_t serial)
{
    struct diskwheel_part *part = &fill->store->parts[partition];

    if (serial > part->serial_max)
        part->serial_max = serial;
}

/* Keeps a damaged record as the store keeps those that it finds itself. */
static enum error_code fill_set_aside(struct take_fill *fill, enum diskwheel_table table,
                                      struct record_key key, struct bytes value)
{
    const struct diskwheel_key of = {table, key};
    struct buffer *aside = &fill->store->aside;

    if (table == DISKWHEEL_TIMERS && key.high >> 48 < fill->partition_count)
        fill->parts[key.high >> 48].aside++;
    fill->report.aside++;
    if (aside->size < DISKWHEEL_ASIDE_MAX * sizeof(of))
        buffer_append(aside, &of, sizeof(of));
    diskwheel_aside_record(fill->store, table, key, value);
    return ERROR_NONE;
}

/* Refuses a key that no version has written. The checksum of its block is right, so the disk is not
 * at fault. */
static enum error_code fill_refuse_key(const struct take_fill *fill, const char *table,
                                       struct error *ret_error)
{
    return error_set(ret_error, ERROR_CORRUPT,
                     "the table \"%s\" has a key that no timer of %u partitions has, and "
                     "nothing was changed: restore a backup, and repeat this",
                     table, fill->partition_count);
}

static enum error_code fill_row(struct take_fill *fill, struct bytes key, struct bytes value,
                                struct error *ret_error)
{
    struct record_key at;
    struct timer view;

    if (!store_row_key_parse(key, &at) || at.high >> 48 >= fill->partition_count)
        return fill_refuse_key(fill, "timers", ret_error);
    if (record_row_decode(at, value, &view, NULL)) {
        fill->store->corrupt_records++;
        return fill_set_aside(fill, DISKWHEEL_TIMERS, at, value);
    }
    const bool is_final = timer_is_final(view.state);
    fill->report.rows++;
    fill->report.live += !is_final;
    fill->parts[at.high >> 48].live += !is_final;
    fill_note_serial(fill, at.high >> 48, at.low);
    return fill_write(fill, DISKWHEEL_TIMERS, at, value,
                      is_final && !storage_is_dead_letter(&view) ? fill_final_until(view.ended)
                                                                 : view.at.ms,
                      ret_error);
}

static enum error_code fill_pointer(struct take_fill *fill, struct bytes key, struct bytes value,
                                    struct error *ret_error)
{
    struct record_pointer pointer;
    struct record_key at;

    if (!store_pointer_key_parse(key, &at) || at.high >= fill->partition_count)
        return fill_refuse_key(fill, "moved", ret_error);
    if (record_pointer_decode(at, value, &pointer, NULL)) {
        fill->store->corrupt_records++;
        return fill_set_aside(fill, DISKWHEEL_MOVED, at, value);
    }
    fill_note_serial(fill, at.high, at.low);
    return fill_write(fill, DISKWHEEL_MOVED, at, value,
                      pointer.ended.ms && pointer.at.ms < STORAGE_DEAD_FROM.ms
                          ? fill_final_until(pointer.ended)
                          : pointer.at.ms,
                      ret_error);
}

static enum error_code fill_name(struct take_fill *fill, struct bytes key, struct bytes value,
                                 struct error *ret_error)
{
    struct record_name name;
    struct record_key at;

    if (!store_row_key_parse(key, &at))
        return fill_refuse_key(fill, "names", ret_error);
    if (record_name_decode(at, value, &name, NULL)) {
        fill->store->corrupt_records++;
        return fill_set_aside(fill, DISKWHEEL_NAMES, at, value);
    }
    if (name.id.partition >= fill->partition_count)
        return fill_refuse_key(fill, "names", ret_error);
    fill_note_serial(fill, name.id.partition, name.id.serial);
    return fill_write(fill, DISKWHEEL_NAMES, at, value,
                      name.ended.ms ? fill_final_until(name.ended) : name.id.first.ms, ret_error);
}

/* A record that the daemon has set aside: a letter for its table, then its key. */
static enum error_code fill_aside(struct take_fill *fill, struct bytes key, struct bytes value)
{
    const struct bytes of = {key.data + 1, key.size ? key.size - 1 : 0};
    const char table = key.size ? key.data[0] : '\0';
    struct record_key at;

    if (table == 'm' && store_pointer_key_parse(of, &at))
        return fill_set_aside(fill, DISKWHEEL_MOVED, at, value);
    if ((table == 't' || table == 'n') && store_row_key_parse(of, &at))
        return fill_set_aside(fill, table == 't' ? DISKWHEEL_TIMERS : DISKWHEEL_NAMES, at, value);
    fill->report.aside++; /* its key is damaged, too: no request leads to it */
    return ERROR_NONE;
}

/* ---- what a partition has once ---- */

static enum error_code fill_meta(struct take_fill *fill, struct bytes key, struct bytes value,
                                 struct error *ret_error)
{
    struct diskwheel_store *store = fill->store;
    struct bytes tenant, bytes;
    enum storage_note note;
    uint16_t partition = 0;
    uint64_t number;
    bool is_right = false;

    if (bytes_equal(key, BYTES("format")) || bytes_equal(key, BYTES("partitions")))
        return ERROR_NONE;
    if (bytes_equal(key, BYTES("corrupt"))) {
        is_right = !record_number_decode(key, value, &number, NULL);
        if (is_right)
            store->corrupt_records += number;
    } else if (store_place_key_parse(key, &partition))
        is_right = partition < fill->partition_count &&
                   !record_place_decode(key, value, &store->parts[partition].place, NULL);
    else if (store_meta_key_parse(key, &partition) ||
             store_tenant_key_parse(key, &partition, &tenant) ||
             (store_note_key_parse(key, &note, &partition) &&
              !record_note_decode(key, value, &bytes, NULL)))
        is_right = partition < fill->partition_count &&
                   diskwheel_part_set(&store->parts[partition], partition, ROWOP_PUT, key, value);
    return is_right ? ERROR_NONE
                    : error_set(ret_error, ERROR_CORRUPT,
                                "a record of the table \"default\" is damaged, and " TAKE_ADVICE);
}

enum error_code take_fill_add(struct take_fill *fill, enum take_table table, struct bytes key,
                              struct bytes value, struct error *ret_error)
{
    switch (table) {
    case TAKE_META:
        return fill_meta(fill, key, value, ret_error);
    case TAKE_TIMERS:
        return fill_row(fill, key, value, ret_error);
    case TAKE_MOVED:
        return fill_pointer(fill, key, value, ret_error);
    case TAKE_NAMES:
        return fill_name(fill, key, value, ret_error);
    default:
        return fill_aside(fill, key, value);
    }
}

/* ---- the end ---- */

/* Compares the number of live rows of each partition with the one that its meta has. Damage that
 * RocksDB ignores is found so. */
static enum error_code fill_check_counts(struct take_fill *fill, enum take_damage damage,
                                         struct error *ret_error)
{
    for (uint16_t i = 0; i < fill->partition_count; i++) {
        const struct diskwheel_part *part = &fill->store->parts[i];
        const struct fill_part *found = &fill->parts[i];
        const uint64_t wanted = part->counts.pending;

        if (part->place.copy_end || part->place.sweep_end)
            continue; /* its node was copying the partition, and will go on with that */
        if (damage == TAKE_DAMAGE_REFUSE &&
            (found->live > wanted || found->live + found->aside < wanted))
            return error_set(ret_error, ERROR_CORRUPT,
                             "partition %u has %" PRIu64 " live timers, and should have %" PRIu64
                             ": " TAKE_ADVICE ". With --accept-loss it is taken as it is",
                             i, found->live, wanted);
        fill->report.missing += wanted > found->live ? wanted - found->live : 0;
    }
    return ERROR_NONE;
}

/* Makes the runs a part of the store. The caller holds its lock. */
static enum error_code fill_install(struct take_fill *fill, struct error *ret_error)
{
    struct diskwheel_store *store = fill->store;
    struct diskwheel_view *view = diskwheel_view_create(fill->next_run - fill->first_run);
    enum error_code code = view ? ERROR_NONE : ERROR_NO_MEMORY;

    for (uint64_t number = fill->first_run; !code && number < fill->next_run; number++) {
        code = diskwheel_run_open(store->disk, fill->folder, number, fill->partition_count,
                                  &view->runs[view->count], ret_error);
        view->count += !code;
    }
    if (!code &&
        (buffer_failed(&store->aside) ||
         !diskwheel_view_reserve(view, fill->partition_count, view->runs, view->count, NULL, 0)))
        code = ERROR_NO_MEMORY;
    if (code) {
        diskwheel_view_release(view);
        return code == ERROR_NO_MEMORY ? error_set(ret_error, code, "out of memory") : code;
    }
    diskwheel_view_index(view);
    diskwheel_view_release(store->view);
    store->view = view;
    store->next_run = fill->next_run;
    store->has_changed = true;
    return ERROR_NONE;
}

enum error_code take_fill_end(struct take_fill *fill, enum take_damage damage,
                              struct error *ret_error)
{
    enum error_code code = fill_check_counts(fill, damage, ret_error);

    for (size_t i = 0; i < DISKWHEEL_CLASSES && !code; i++)
        code = fill_end_run(&fill->runs[i], ret_error);
    if (code)
        return code;
    pthread_mutex_lock(&fill->store->lock);
    code = fill_install(fill, ret_error);
    pthread_mutex_unlock(&fill->store->lock);
    if (!code)
        code = storage_flush(fill->storage, ret_error);
    storage_close(fill->storage);
    fill->storage = NULL;
    return code;
}

/* ---- reading back ---- */

static enum error_code fill_sum_run(struct diskwheel_run *run, enum diskwheel_table table,
                                    struct fill_sum *sum, struct error *ret_error)
{
    struct diskwheel_cursor cursor = {.run = NULL};
    enum error_code code;
    struct record_key key;
    struct bytes value;

    diskwheel_cursor_seek(&cursor, run, table, (struct record_key){0, 0});
    while (!(code = diskwheel_cursor_next(&cursor, &key, &value, ret_error)))
        fill_sum_add(sum, key, value);
    diskwheel_cursor_deinit(&cursor);
    return code == ERROR_NOT_FOUND ? ERROR_NONE : code;
}

enum error_code take_fill_compare(struct take_fill *fill, struct storage **ret_storage,
                                  struct error *ret_error)
{
    struct fill_sum sums[DISKWHEEL_TABLES] = {{0}};
    struct storage *storage;
    uint16_t partition_count;
    uint64_t cluster;
    enum error_code code = diskwheel_storage_open_to_export(fill->folder, &storage,
                                                            &partition_count, &cluster, ret_error);

    if (code)
        return code;
    const struct diskwheel_view *view = diskwheel_store_of(storage)->view;
    for (size_t i = 0; i < view->count && !code; i++)
        for (enum diskwheel_table table = 0; table < DISKWHEEL_TABLES && !code; table++)
            code = fill_sum_run(view->runs[i], table, &sums[table], ret_error);
    for (enum diskwheel_table table = 0; table < DISKWHEEL_TABLES && !code; table++)
        if (sums[table].count != fill->sums[table].count ||
            sums[table].sum != fill->sums[table].sum)
            code = error_set(ret_error, ERROR_IO,
                             "%.100s has other records than were written: the disk is at fault, "
                             "and nothing was changed",
                             fill->folder);
    if (code)
        storage_close(storage);
    else
        *ret_storage = storage;
    return code;
}
