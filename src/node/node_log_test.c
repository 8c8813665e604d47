/*
 * The log of a node without a cluster, on a folder of its own: which thread writes, and what a
 * start makes of the folder's state.
 */
#include "node/node_log.h"

#include "base/metric_list.h"
#include "store/storage_testing.h"
#include "sys/clock.h"

#include <pthread.h>

enum { PARTITIONS = 3 };

struct node_log_fixture {
    struct testing_folder folder;
    struct config config;
    struct tenant_pot inflight;
    struct storage *storage;
    struct node_log log;
    pthread_t writer; /* thread of the last write */
    uint64_t writes;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static void log_test_told(void *context, uint16_t partition)
{
    (void)context, (void)partition;
}

static void log_test_written(void *context, uint64_t bytes, uint64_t ns)
{
    struct node_log_fixture *fixture = context;

    (void)bytes, (void)ns;
    pthread_mutex_lock(&fixture->lock);
    fixture->writer = pthread_self();
    fixture->writes++;
    pthread_cond_signal(&fixture->changed);
    pthread_mutex_unlock(&fixture->lock);
}

static void log_test_start(struct node_log_fixture *fixture)
{
    const struct diskwheel_options options = {.folder = fixture->folder.path,
                                              .partition_count = PARTITIONS};
    struct error error = {.text = ""};

    if (diskwheel_storage_open(&options, &fixture->storage, &error))
        fail_msg("%s", error.text);
    fixture->log = (struct node_log){.config = &fixture->config,
                                     .storage = fixture->storage,
                                     .inflight = &fixture->inflight,
                                     .told = log_test_told,
                                     .written = log_test_written,
                                     .context = fixture};
    if (node_log_open(&fixture->log, &error) || node_log_start(&fixture->log, &error))
        fail_msg("%s", error.text);
}

static void log_test_stop(struct node_log_fixture *fixture)
{
    node_log_stop(&fixture->log);
    node_log_close(&fixture->log);
    storage_close(fixture->storage);
}

static int log_test_set_up(void **state)
{
    struct node_log_fixture *fixture = calloc(1, sizeof(*fixture));
    char partitions[8];

    testing_folder_make(&fixture->folder);
    config_init(&fixture->config);
    snprintf(partitions, sizeof(partitions), "%d", PARTITIONS);
    assert_int_equal(config_set(&fixture->config, "data_folder", fixture->folder.path, NULL), 0);
    assert_int_equal(config_set(&fixture->config, "partitions", partitions, NULL), 0);
    tenant_pot_init(&fixture->inflight, 1000, TENANT_POT_WHOLE);
    pthread_mutex_init(&fixture->lock, NULL);
    pthread_cond_init(&fixture->changed, NULL);
    *state = fixture;
    return 0;
}

static int log_test_tear_down(void **state)
{
    struct node_log_fixture *fixture = *state;

    pthread_cond_destroy(&fixture->changed);
    pthread_mutex_destroy(&fixture->lock);
    tenant_pot_deinit(&fixture->inflight);
    testing_folder_remove(&fixture->folder);
    free(fixture);
    return 0;
}

/* Appends so many bytes to partition 0, and returns whether this thread wrote them. */
static bool is_written_here(struct node_log_fixture *fixture, size_t size, bool is_quiet,
                            uint64_t write_ns)
{
    struct log *log = log_local_partition(fixture->log.local, 0);
    char *bytes = calloc(1, size);
    struct log_event event;
    const uint64_t writes = fixture->writes;

    atomic_store(&fixture->log.write_ns, write_ns);
    assert_int_equal(log_append(log, 7, (struct bytes){bytes, size}, NULL), ERROR_NONE);
    node_log_send(&fixture->log, is_quiet);
    pthread_mutex_lock(&fixture->lock);
    while (fixture->writes == writes)
        pthread_cond_wait(&fixture->changed, &fixture->lock);
    const bool is_here = pthread_equal(fixture->writer, pthread_self());
    pthread_mutex_unlock(&fixture->lock);
    while (log_wait(log, 1000, &event) != LOG_LANDED)
        assert_int_not_equal(event.kind, LOG_FAILED);
    free(bytes);
    return is_here;
}

/* Goal: a shard writes by itself only what is small, while the disk is quick and no timer is due
 * soon; and a slow write counts for some that follow. Method: each condition alone. */
static void test_writes_here_only_what_is_quick(void **state)
{
    struct node_log_fixture *fixture = *state;

    log_test_start(fixture);
    assert_true(is_written_here(fixture, 100, true, 0));
    assert_false(is_written_here(fixture, 100, false, 0));
    assert_false(is_written_here(fixture, 65537, true, 0));
    assert_false(is_written_here(fixture, 100, true, UINT64_C(1000000000)));
    assert_true(is_written_here(fixture, 100, true, 900000));
    assert_true(atomic_load(&fixture->log.write_ns) > 600000);
    log_test_stop(fixture);
}

/* Goal: a backup, which has no log, gets one behind the places of all its partitions; and
 * partitions without records do not keep a log from being opened. Method: places that differ, a
 * copy of the storage without its log, two starts. */
static void test_a_backup_begins_a_log(void **state)
{
    struct node_log_fixture *fixture = *state;
    struct storage_place place = {.next = 70, .epoch = 3};
    struct storage_backup backup;
    char copy[sizeof(fixture->folder.path) + 8];

    log_test_start(fixture);
    struct error error = {.text = ""};
    if (storage_apply(fixture->storage, 1, (struct bytes){0}, &place, &error))
        fail_msg("%s", error.text);
    snprintf(copy, sizeof(copy), "%s/copy", fixture->folder.path);
    assert_int_equal(storage_backup(fixture->storage, copy, &backup, NULL), ERROR_NONE);
    log_test_stop(fixture);
    assert_int_equal(config_set(&fixture->config, "data_folder", copy, NULL), 0);
    for (int i = 0; i < 2; i++) {
        const struct diskwheel_options options = {.folder = copy, .partition_count = PARTITIONS};
        struct log_local_stats stats;

        if (diskwheel_storage_open(&options, &fixture->storage, &error))
            fail_msg("%s", error.text);
        fixture->log.storage = fixture->storage;
        if (node_log_open(&fixture->log, &error))
            fail_msg("%s", error.text);
        log_local_get_stats(fixture->log.local, &stats);
        assert_int_equal(stats.end, 70);
        assert_int_equal(storage_load_place(fixture->storage, 1, &place, NULL), ERROR_NONE);
        assert_int_equal(place.next, 70);
        node_log_close(&fixture->log);
        storage_close(fixture->storage);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, log_test_set_up, log_test_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_writes_here_only_what_is_quick),
        TEST(test_a_backup_begins_a_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
