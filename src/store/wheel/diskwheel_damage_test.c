/* Goal: whatever happened to the files of a folder, no wrong record is served as right, nothing
 * crashes, and what is lost is told: by ERROR_CORRUPT, or by counts. Method: the folder of a store
 * that wrote and rewrote runs on a disk in memory; each round damages one of its files, opens it,
 * compares all that is read with a storage of the same place, and goes on working. */
#define DISK_SECTORS 256

#include "store/wheel/diskwheel_testing.h"

enum {
    DAMAGE_COMMITS = 24, /* in the folder */
    DAMAGE_MORE = 6,     /* applied after the damage */
    DAMAGE_OLD = 14,     /* in the older folder, whose files come back */
    DAMAGE_ROUNDS = 400, /* of each test */
};

struct damage_case {
    struct testing_bodies *log;
    uint64_t in_folder;                             /* bodies */
    struct disk_memory *image, *older, *other, *at; /* `at` is the one that is damaged */
    struct storage *storage;
    struct random random;
    uint64_t refused, lost, whole; /* how rounds ended */
};

/* Files of a folder with the bodies before `count`; `every` of them are a flush. */
static struct disk_memory *damage_make_folder(struct testing_bodies *log, uint64_t count,
                                              uint64_t every)
{
    struct disk_memory *memory = disk_memory_create(1);
    struct storage *storage;

    assert_int_equal(testing_open_on(&memory->disk, &storage, NULL), ERROR_NONE);
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(testing_bodies_apply(log, i, storage), ERROR_NONE);
        if (i % every == every - 1)
            assert_int_equal(testing_flush(storage), ERROR_NONE);
    }
    storage_close(storage);
    return memory;
}

static void damage_begin(struct damage_case *damage, uint64_t seed)
{
    struct testing_bodies *other = testing_bodies_create(seed ^ 2);

    *damage = (struct damage_case){.log = testing_bodies_create(seed),
                                   .random = random_seeded(seed ^ 1),
                                   .at = disk_memory_create(1)};
    uint64_t old = 0;
    for (int i = 0; i < DAMAGE_COMMITS; i++) {
        testing_bodies_commit(damage->log);
        testing_bodies_commit(other);
        if (i == DAMAGE_OLD)
            old = damage->log->count;
    }
    damage->in_folder = damage->log->count;
    damage->image = damage_make_folder(damage->log, damage->in_folder, 5);
    damage->older = damage_make_folder(damage->log, old, 5);
    damage->other = damage_make_folder(other, other->count, 5);
    for (int i = 0; i < DAMAGE_MORE; i++)
        testing_bodies_commit(damage->log);
    testing_bodies_free(other);
}

static void damage_end(struct damage_case *damage)
{
    print_message("%" PRIu64 " refused, %" PRIu64 " with losses, %" PRIu64 " whole\n",
                  damage->refused, damage->lost, damage->whole);
    testing_bodies_free(damage->log);
    free(damage->image);
    free(damage->older);
    free(damage->other);
    free(damage->at);
}

/* ---- what is read ---- */

/* Returns the number of rows that are missing. */
static size_t damage_assert_rows(struct damage_case *damage, struct storage *exact, uint16_t p,
                                 bool *is_short)
{
    struct storage_page ours = testing_scan_all(damage->storage, p, STORAGE_SCAN_ALL, 1000);
    struct storage_page all = testing_scan_all(exact, p, STORAGE_SCAN_ALL, 1000);
    size_t at = 0, missing;

    for (size_t i = 0; i < all.count; i++) {
        const struct timer *expected = all.timers[i];
        struct timer *found = NULL;
        const enum error_code code = storage_find(damage->storage, &expected->id, &found, NULL);

        assert_true(code == ERROR_NONE || code == ERROR_CORRUPT);
        if (found)
            testing_assert_timer(found, expected, expected->at);
        timer_free(found);
        if (at < ours.count && timer_id_equal(&ours.timers[at]->id, &expected->id))
            testing_assert_timer(ours.timers[at++], expected, expected->at);
        else
            *is_short = true;
        *is_short = *is_short || code;
    }
    assert_int_equal(at, ours.count); /* no others */
    missing = all.count - at;
    storage_page_free(&ours);
    storage_page_free(&all);
    return missing;
}

static void damage_assert_name(struct damage_case *damage, struct storage *exact,
                               const struct storage_lookup *lookup, bool *is_short)
{
    struct storage_names ours, all;
    const enum error_code code = storage_lookup(damage->storage, lookup, &ours, NULL);

    assert_true(code == ERROR_NONE || code == ERROR_CORRUPT);
    *is_short = *is_short || code;
    if (code)
        return;
    assert_int_equal(storage_lookup(exact, lookup, &all, NULL), ERROR_NONE);
    size_t at = 0;
    for (size_t i = 0; i < ours.count; i++) {
        if (at < all.count && timer_id_equal(&ours.ids[i], &all.ids[at]))
            at++;
        else /* a trimmed row may still have names */
            testing_assert_not_found(exact, &ours.ids[i], ERROR_NOT_FOUND);
    }
    *is_short = *is_short || at < all.count;
    free(ours.ids);
    free(all.ids);
}

static void damage_assert_names(struct damage_case *damage, struct storage *exact, uint16_t p,
                                bool *is_short)
{
    for (size_t i = 0; i < MODEL_TENANTS; i++) {
        const struct name_space space = {p, bytes_of(model_tenants[i])};
        const struct storage_lookup lookup = {
            p, name_hash(space, NAME_KEY, bytes_of("0123456789abcdef-a")), UINT64_MAX, 1000};

        damage_assert_name(damage, exact, &lookup, is_short);
    }
}

static void damage_assert_export(struct damage_case *damage, uint16_t p, bool *is_short)
{
    struct storage_export export = {.partition = p, .rows_max = 1000, .bytes_max = SIZE_MAX};
    enum error_code code = ERROR_NONE;
    struct buffer body;

    buffer_init(&body);
    while (!code && !export.is_done)
        code = storage_export(damage->storage, &export, &body, NULL);
    assert_true(code == ERROR_NONE || code == ERROR_CORRUPT);
    assert_true(code || !*is_short); /* a copy lacks nothing */
    *is_short = *is_short || code;
    buffer_deinit(&body);
}

/* Compares all that is read with a storage of the same places. Returns true if something is lost,
 * which was told. */
static bool damage_assert_read(struct damage_case *damage)
{
    struct storage *exact = memory_storage_create(MODEL_PARTITIONS);
    struct storage_stats stats;
    bool is_short = false;
    size_t missing = 0; /* rows */

    assert_non_null(exact);
    for (uint16_t p = 0; p < MODEL_PARTITIONS; p++) {
        struct storage_place place;

        assert_int_equal(storage_load_place(damage->storage, p, &place, NULL), ERROR_NONE);
        for (uint64_t i = 0; i < place.next; i++)
            if (damage->log->bodies[i].partition == p)
                assert_int_equal(testing_bodies_apply(damage->log, i, exact), ERROR_NONE);
        missing += damage_assert_rows(damage, exact, p, &is_short);
        damage_assert_names(damage, exact, p, &is_short);
        damage_assert_export(damage, p, &is_short);
    }
    storage_close(exact);
    storage_stats(damage->storage, &stats);
    assert_true(!is_short || stats.corrupt_blocks || stats.corrupt_records);
    assert_true(missing <= stats.corrupt_records);
    return is_short;
}

/* ---- a round ---- */

static void damage_round(struct damage_case *damage)
{
    struct error error = {.text = ""};
    const enum error_code code = testing_open_on(&damage->at->disk, &damage->storage, &error);

    if (code) { /* a version is told before the checksum is looked at */
        assert_true(code == ERROR_CORRUPT ||
                    (code == ERROR_INVALID && strstr(error.text, "version")));
        assert_true(*error.text);
        damage->refused++;
        return;
    }
    bool is_lost = damage_assert_read(damage);
    for (uint64_t i = 0; i < damage->log->count; i++)
        assert_int_equal(testing_bodies_apply(damage->log, i, damage->storage), ERROR_NONE);
    assert_int_equal(testing_flush(damage->storage), ERROR_NONE);
    is_lost = damage_assert_read(damage) || is_lost;
    storage_close(damage->storage);
    assert_int_equal(testing_open_on(&damage->at->disk, &damage->storage, NULL), ERROR_NONE);
    damage_assert_read(damage);
    storage_close(damage->storage);
    damage->lost += is_lost;
    damage->whole += !is_lost;
}

/* The disk of a round is a copy of the image. */
static void damage_restore(struct damage_case *damage)
{
    const struct disk_calls disk = damage->at->disk;

    memcpy(damage->at, damage->image, sizeof(*damage->at));
    damage->at->disk = disk;
}

static struct disk_file *damage_file(struct disk_memory *memory, const char *name)
{
    struct disk_name *known = disk_memory_find(memory->live, memory->live_count, name);

    return known ? &memory->files[known->file] : NULL;
}

/* A random file: in half of the rounds the state. */
static const char *damage_pick(struct damage_case *damage)
{
    struct disk_memory *at = damage->at;

    return random_below(&damage->random, 2)
               ? "STATE"
               : at->live[random_below(&damage->random, at->live_count)].name;
}

static char *damage_byte(struct disk_file *file, uint64_t at)
{
    return &file->sectors[at / DISK_SECTOR].live[at % DISK_SECTOR];
}

/* A random part of the file: from *ret_at on; returns its size. */
static uint64_t damage_range(struct damage_case *damage, const struct disk_file *file,
                             uint64_t *ret_at)
{
    *ret_at = random_below(&damage->random, file->live_bytes);
    const uint64_t left = file->live_bytes - *ret_at;
    return 1 + random_below(&damage->random,
                            random_below(&damage->random, 2) ? left : (left < 64 ? left : 64));
}

/* Bytes flipped, zeroed, cut off, exchanged with others or written twice. */
static void damage_bytes(struct damage_case *damage)
{
    struct disk_file *file = damage_file(damage->at, damage_pick(damage));
    struct disk_file *from = damage_file(damage->at, damage_pick(damage));
    uint64_t at, then, size = damage_range(damage, file, &at);
    const uint64_t source = damage_range(damage, from, &then);
    const uint64_t kind = random_below(&damage->random, 5);

    if (kind >= 3)
        size = size < source ? size : source;
    if (kind == 2)
        file->live_bytes = at;
    for (uint64_t i = 0; i < size && kind != 2; i++) {
        char *byte = damage_byte(file, at + i), *other = damage_byte(from, then + i);
        const char was = *byte;

        if (kind == 0)
            *byte = (char)(was ^ (1 << random_below(&damage->random, 8)));
        else if (kind == 1)
            *byte = 0;
        else
            *byte = *other;
        if (kind == 3)
            *other = was;
    }
}

static void test_damaged_bytes(void **state)
{
    struct damage_case damage;

    (void)state;
    damage_begin(&damage, testing_seed());
    for (int i = 0; i < DAMAGE_ROUNDS; i++) {
        damage_restore(&damage);
        damage_bytes(&damage);
        damage_round(&damage);
    }
    assert_true(damage.refused > 0 && damage.lost > 0 && damage.whole > 0);
    damage_end(&damage);
}

/* One flipped bit of a run costs nothing. */
static void test_flipped_bits_of_runs(void **state)
{
    struct damage_case damage;

    (void)state;
    damage_begin(&damage, testing_seed());
    for (int i = 0; i < DAMAGE_ROUNDS / 2; i++) {
        const char *name;

        damage_restore(&damage);
        do
            name = damage_pick(&damage);
        while (!strstr(name, "run-"));
        struct disk_file *run = damage_file(damage.at, name);
        const uint64_t bit = random_below(&damage.random, 8 * run->live_bytes);
        *damage_byte(run, bit / 8) ^= (char)(1 << bit % 8);
        damage_round(&damage);
    }
    assert_int_equal(damage.whole, DAMAGE_ROUNDS / 2);
    damage_end(&damage);
}

/* Each file is missing, is that of another folder, or an older one. */
static void test_damaged_files(void **state)
{
    struct damage_case damage;

    (void)state;
    damage_begin(&damage, testing_seed());
    for (size_t i = 0; i < damage.image->live_count; i++) {
        const char *name = damage.image->live[i].name;
        struct disk_memory *const sources[] = {NULL, damage.other, damage.older};

        for (size_t k = 0; k < sizeof(sources) / sizeof(*sources); k++) {
            const struct disk_file *source = k ? damage_file(sources[k], name) : NULL;
            const uint64_t refused = damage.refused;

            if (k && !source)
                continue;
            damage_restore(&damage);
            if (k)
                *damage_file(damage.at, name) = *source;
            else
                disk_memory_remove(&damage.at->disk, name);
            damage_round(&damage);
            /* An older state may be that of an older moment, of which all runs are there. */
            assert_true(damage.refused > refused || k == 2);
        }
    }
    damage_end(&damage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_bytes),
        cmocka_unit_test(test_flipped_bits_of_runs),
        cmocka_unit_test(test_damaged_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
