/*
 * Goal: zones come by name from the installed database, once each, from any thread, and a request
 * can name nothing else.
 * Method: the real database, and folders made for the failures; the sources are compiled into this
 * test with an allocator that fails at the N-th call.
 */
#include <stdlib.h>

static __thread size_t allocation_count, allocation_fails_at; /* 0: never */

static void *zones_failing(void *memory)
{
    if (++allocation_count != allocation_fails_at)
        return memory;
    free(memory);
    return NULL;
}

static void *zones_failing_realloc(void *memory, size_t size)
{
    /* The old block must survive. */
    return ++allocation_count == allocation_fails_at ? NULL : realloc(memory, size);
}

#define malloc(size)          zones_failing(malloc(size))
#define calloc(count, size)   zones_failing(calloc(count, size))
#define realloc(memory, size) zones_failing_realloc(memory, size)
#include "base/bytes.c"
#include "calendar/zone_parse.c"
#include "calendar/zones.c"
#undef malloc
#undef calloc
#undef realloc

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREAD_COUNT = 8 };

static int zones_setup(void **state)
{
    struct zones *zones;
    struct error error;

    if (zones_create(ZONES_FOLDER, &zones, &error))
        fail_msg("%s", error.text);
    *state = zones;
    return 0;
}

static int zones_teardown(void **state)
{
    zones_destroy(*state);
    return 0;
}

/* proves: timezone */
static void finds_zones_and_keeps_them(void **state)
{
    struct zones *zones = *state;
    const struct zone *berlin;

    assert_int_equal(zones_get(zones, BYTES("Europe/Berlin"), &berlin, NULL), ERROR_NONE);
    const struct zone *utc;
    assert_int_equal(zones_get(zones, BYTES("UTC"), &utc, NULL), ERROR_NONE);
    const struct zone *again;
    assert_int_equal(zones_get(zones, BYTES("Europe/Berlin"), &again, NULL), ERROR_NONE);
    assert_ptr_equal(berlin, again);
    /* 2026-07-01 */
    assert_int_equal(zone_stretch_at(berlin, 1782864000).offset_s, 7200);
    assert_int_equal(zone_stretch_at(utc, 1782864000).offset_s, 0);
}

static void does_not_look_at_the_environment(void **state)
{
    (void)state;
    setenv("TZ", "Asia/Tokyo", 1);
    setenv("TZDIR", "/nowhere", 1);
    struct zones *zones;
    assert_int_equal(zones_create(ZONES_FOLDER, &zones, NULL), ERROR_NONE);
    const struct zone *zone;
    assert_int_equal(zones_get(zones, BYTES("America/New_York"), &zone, NULL), ERROR_NONE);
    assert_int_equal(zone_stretch_at(zone, 1782864000).offset_s, -4 * 3600);
    zones_destroy(zones);
    unsetenv("TZ");
    unsetenv("TZDIR");
}

/* proves: timezone, zone-file (beyond) */
static void refuses_what_is_no_zone(void **state)
{
    static const struct {
        const char *name, *reason;
    } cases[] = {
        {"Europe/Atlantis", "there is no time zone Europe/Atlantis"},
        {"europe/berlin", "there is no time zone europe/berlin: did you mean Europe/Berlin?"},
        {"Berlin", "there is no time zone Berlin: did you mean Europe/Berlin?"},
        {"new_york", "there is no time zone new_york: did you mean America/New_York?"},
        {"Europe", "there is no time zone Europe"},
        {"UTC/UTC", "there is no time zone UTC/UTC"},
        {"leapseconds", "not a time zone file: it does not begin with TZif"},
        {"../zoneinfo/UTC", "a time zone is named as IANA does, such as Europe/Berlin"},
        {"/usr/share/zoneinfo/UTC", "a time zone's name has no empty part and no / at its ends"},
        {"right/UTC", "that is a file, and no time zone of IANA's"},
    };
    const struct zone *zone = NULL;
    struct error error;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(zones_get(*state, bytes_of(cases[i].name), &zone, &error), ERROR_INVALID);
        assert_string_equal(error.text, cases[i].reason);
    }
    assert_null(zone);
}

static void notices_that_the_database_is_missing(void **state)
{
    (void)state;
    struct zones *zones = NULL;
    struct error error;
    assert_int_equal(zones_create("/nonexistent", &zones, &error), ERROR_NOT_FOUND);
    assert_string_equal(error.text, "no tz database in /nonexistent (is tzdata installed?): there "
                                    "is no time zone UTC");
    char path[PATH_MAX];
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(zones_create(path, &zones, &error), ERROR_IO);
    assert_null(zones);
    zones_destroy(NULL);
}

/* The version is in the text that the installed database is made of, if that is installed. */
static void tells_the_version_of_the_database(void **state)
{
    char line[64] = "", expected[72];
    FILE *file = fopen(ZONES_FOLDER "/tzdata.zi", "re");

    if (file) {
        assert_non_null(fgets(line, sizeof(line), file));
        fclose(file);
    }
    char version[ZONES_VERSION_SIZE];
    zones_version(*state, version);
    snprintf(expected, sizeof(expected), "# version %s\n", version);
    assert_string_equal(expected, file ? line : "# version unknown\n");
}

/* A folder whose file UTC is a pipe, too long or empty: nothing waits, nothing is believed. */
static void waits_for_nothing_and_believes_nothing(void **state)
{
    char folder[] = "/tmp/tickwheel-zones-XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(folder));
    char path[64];
    snprintf(path, sizeof(path), "%s/UTC", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    struct zones *zones;
    struct error error;
    assert_int_equal(zones_create(folder, &zones, &error), ERROR_NOT_FOUND);
    unlink(path);
    assert_int_equal(files_write(path, BYTES(""), NULL), ERROR_NONE);
    assert_int_equal(zones_create(folder, &zones, &error), ERROR_NOT_FOUND);
    assert_non_null(strstr(error.text, "it ends within a header"));
    struct buffer large;
    buffer_init(&large);
    memset(buffer_reserve(&large, ZONE_FILE_SIZE_MAX + 1), 0, ZONE_FILE_SIZE_MAX + 1);
    large.size = ZONE_FILE_SIZE_MAX + 1;
    assert_int_equal(files_write(path, buffer_bytes(&large), NULL), ERROR_NONE);
    assert_int_equal(zones_create(folder, &zones, &error), ERROR_NOT_FOUND);
    assert_non_null(strstr(error.text, "is too long"));
    buffer_deinit(&large);
    unlink(path);
    rmdir(folder);
}

/* Links by the thousand to one file: the limit refuses, and what was loaded stays. */
/* proves: zones */
static void holds_so_many_and_no_more(void **state)
{
    char folder[] = "/tmp/tickwheel-zones-XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(folder));
    char path[64];
    snprintf(path, sizeof(path), "%s/UTC", folder);
    assert_int_equal(symlink(ZONES_FOLDER "/UTC", path), 0);
    struct zones *zones;
    assert_int_equal(zones_create(folder, &zones, NULL), ERROR_NONE);
    const struct zone *zone, *first;
    struct error error;
    for (int i = 1; i <= ZONES_COUNT_MAX; i++) {
        char name[32];
        snprintf(name, sizeof(name), "Z%d", i);
        snprintf(path, sizeof(path), "%s/%s", folder, name);
        assert_int_equal(symlink(ZONES_FOLDER "/UTC", path), 0);
        assert_int_equal(zones_get(zones, bytes_of(name), &zone, &error),
                         i < ZONES_COUNT_MAX ? ERROR_NONE : ERROR_TOO_MANY);
        if (i == 1)
            first = zone;
        unlink(path);
    }
    assert_int_equal(zones_get(zones, BYTES("Z1"), &zone, NULL), ERROR_NONE);
    assert_ptr_equal(zone, first);
    zones_destroy(zones);
    snprintf(path, sizeof(path), "%s/UTC", folder);
    unlink(path);
    rmdir(folder);
}

static void zones_test_put(const char *folder, const char *name, const char *from)
{
    char path[128], source[128];
    struct buffer text;

    buffer_init(&text);
    snprintf(source, sizeof(source), ZONES_FOLDER "/%s", from);
    assert_int_equal(files_read(source, ZONE_FILE_SIZE_MAX, &text, NULL), ERROR_NONE);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    unlink(path);
    assert_int_equal(files_write(path, buffer_bytes(&text), NULL), ERROR_NONE);
    buffer_deinit(&text);
}

static int32_t zones_test_offset(struct zones *zones, const char *name)
{
    const struct zone *zone;

    return zones_get_used(zones, bytes_of(name), &zone, NULL)
               ? -1
               : zone_stretch_at(zone, 1782864000).offset_s;
}

/* A database that comes, changes and loses zones while it is in use: what is missing has a name, a
 * file that changed is read again, and a zone whose file goes away stays. */
/* proves: zone-missing */
static void follows_the_database(void **state)
{
    char folder[] = "/tmp/tickwheel-zones-XXXXXX", path[64];
    struct zones *zones;
    struct absent_names missing;

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(zones_create_anyway(folder, &zones, NULL), ERROR_NONE);
    const _Atomic uint64_t *generation = zones_generation(zones);
    const uint64_t first = atomic_load(generation);
    const struct zone *zone;
    assert_int_equal(zones_get(zones, BYTES("CET"), &zone, NULL), ERROR_INVALID); /* a request */
    assert_int_equal(zones_test_offset(zones, "ZULU/B"), -1);
    assert_int_equal(zones_test_offset(zones, "ZULU/A"), -1);
    assert_int_equal(zones_test_offset(zones, "ZULU/A"), -1);
    zones_missing(zones, &missing);
    assert_int_equal(missing.count, 2);
    assert_string_equal(missing.names[0], "ZULU/A");
    assert_string_equal(missing.names[1], "ZULU/B");
    assert_int_equal(atomic_load(generation), first);

    snprintf(path, sizeof(path), "%s/ZULU", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    zones_test_put(folder, "ZULU/A", "Asia/Tokyo");
    zones_refresh(zones);
    assert_int_equal(atomic_load(generation), first + 1);
    assert_int_equal(zones_test_offset(zones, "ZULU/A"), 9 * 3600);
    zones_refresh(zones);
    assert_int_equal(atomic_load(generation), first + 1);
    zones_test_put(folder, "ZULU/A", "Europe/Berlin");
    assert_int_equal(zones_test_offset(zones, "ZULU/A"), 9 * 3600);
    zones_refresh(zones);
    assert_int_equal(atomic_load(generation), first + 2);
    assert_int_equal(zones_test_offset(zones, "ZULU/A"), 2 * 3600);
    snprintf(path, sizeof(path), "%s/ZULU/A", folder);
    unlink(path);
    zones_refresh(zones);
    assert_int_equal(zones_test_offset(zones, "ZULU/A"), 2 * 3600);

    for (int i = 5; i < ABSENT_AGE_MAX; i++)
        zones_refresh(zones);
    zones_missing(zones, &missing);
    assert_int_equal(missing.count, 1);
    zones_refresh(zones); /* nothing needs it any more */
    zones_refresh(zones);
    zones_missing(zones, &missing);
    assert_int_equal(missing.count, 0);
    zones_destroy(zones);
    snprintf(path, sizeof(path), "%s/ZULU", folder);
    rmdir(path);
    rmdir(folder);
}

/* An old name without a file of its own is the zone of its present name. */
/* proves: zone-names */
static void reads_old_names_by_present_ones(void **state)
{
    char folder[] = "/tmp/tickwheel-zones-XXXXXX", path[64];
    struct zones *zones;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/America", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    zones_test_put(folder, "America/Los_Angeles", "America/Los_Angeles");
    assert_int_equal(zones_create_anyway(folder, &zones, NULL), ERROR_NONE);
    assert_int_equal(zones_test_offset(zones, "US/Pacific"), -7 * 3600);
    assert_int_equal(zones_test_offset(zones, "US/Pacific-New"), -1);
    assert_int_equal(zones_test_offset(zones, "US/Eastern"), -1);
    zones_destroy(zones);
    snprintf(path, sizeof(path), "%s/America/Los_Angeles", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/America", folder);
    rmdir(path);
    rmdir(folder);
}

static const char *const shared_names[] = {"Asia/Tokyo", "America/Lima", "Europe/Paris",
                                           "Africa/Cairo", "Australia/Sydney"};

struct zones_worker {
    pthread_t thread;
    pthread_barrier_t *start;
    struct zones *zones;
    const struct zone *found[5];
};

static void *work(void *context)
{
    struct zones_worker *worker = context;

    pthread_barrier_wait(worker->start);
    for (unsigned i = 0; i < 5; i++)
        if (zones_get(worker->zones, bytes_of(shared_names[i]), &worker->found[i], NULL))
            abort();
    return NULL;
}

/* Several load the same zone at once and one of them keeps it: again and again, as it is a race. */
static void all_threads_see_one_zone(void **state)
{
    (void)state;
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREAD_COUNT);
    for (int round = 0; round < 100; round++) {
        struct zones *zones;

        assert_int_equal(zones_create(ZONES_FOLDER, &zones, NULL), ERROR_NONE);
        struct zones_worker workers[THREAD_COUNT] = {0};
        for (int i = 0; i < THREAD_COUNT; i++) {
            workers[i].zones = zones;
            workers[i].start = &start;
            assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        }
        for (int i = 0; i < THREAD_COUNT; i++)
            pthread_join(workers[i].thread, NULL);
        for (int i = 1; i < THREAD_COUNT; i++)
            assert_memory_equal(workers[i].found, workers[0].found, sizeof(workers[0].found));
        zones_destroy(zones);
    }
    pthread_barrier_destroy(&start);
}

static void survives_want_of_memory_at_every_point(void **state)
{
    (void)state;
    size_t failures = 0;
    for (size_t n = 1;; n++) {
        allocation_count = 0;
        allocation_fails_at = n;
        struct zones *zones = NULL;
        struct error error = {0};
        enum error_code code = zones_create(ZONES_FOLDER, &zones, &error);
        const struct zone *zone;
        if (!code)
            code = zones_get(zones, BYTES("Europe/Berlin"), &zone, &error);
        bool was_hit = allocation_count >= n;
        allocation_fails_at = 0;
        assert_true(code == ERROR_NONE || code == ERROR_NO_MEMORY);
        if (code == ERROR_NO_MEMORY)
            failures++;
        if (zones) /* what failed once is done the next time */
            assert_int_equal(zones_get(zones, BYTES("Europe/Berlin"), &zone, NULL), ERROR_NONE);
        zones_destroy(zones);
        if (!was_hit)
            break;
    }
    assert_true(failures >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_database),
        cmocka_unit_test(reads_old_names_by_present_ones),
        cmocka_unit_test_setup_teardown(finds_zones_and_keeps_them, zones_setup, zones_teardown),
        cmocka_unit_test(does_not_look_at_the_environment),
        cmocka_unit_test_setup_teardown(refuses_what_is_no_zone, zones_setup, zones_teardown),
        cmocka_unit_test(notices_that_the_database_is_missing),
        cmocka_unit_test_setup_teardown(tells_the_version_of_the_database, zones_setup,
                                        zones_teardown),
        cmocka_unit_test(waits_for_nothing_and_believes_nothing),
        cmocka_unit_test(holds_so_many_and_no_more),
        cmocka_unit_test(all_threads_see_one_zone),
        cmocka_unit_test(survives_want_of_memory_at_every_point),
    };

    return cmocka_run_group_tests_name("zones", tests, NULL, NULL);
}
