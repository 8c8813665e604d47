/* Goal: on a node without a cluster a change of pauses or maintenance is answered when it is
 * durable, in the order of the requests, and is there at every later start, before a delivery
 * begins; one that is not durable changes nothing. Method: a node on a folder of its own, with the
 * real storage and threads. */
#include "node/node_replica.h"
#include "node/node_state.h"
#include "store/wheel/diskwheel_store.h"
#include "store/storage_testing.h"
#include "sys/clock.h"
#include "sys/files.h"

#include <limits.h>
#include <semaphore.h>

enum { HOLD_PARTITIONS = 3, HOLD_MANY = 40 };

struct hold_fixture {
    struct testing_folder folder;
    struct config config;
    struct metrics *metrics;
    struct node *node;
};

struct hold_asked {
    struct node_hold hold;
    char name[32];
    sem_t is_answered;
};

static void hold_set(struct hold_fixture *fixture, const char *name, const char *value)
{
    assert_int_equal(config_set(&fixture->config, name, value, NULL), ERROR_NONE);
}

static int hold_set_up(void **state)
{
    struct hold_fixture *fixture = calloc(1, sizeof(*fixture));

    testing_folder_make(&fixture->folder);
    config_init(&fixture->config);
    hold_set(fixture, "data_folder", fixture->folder.path);
    hold_set(fixture, "partitions", "3");
    hold_set(fixture, "shards", "3");
    hold_set(fixture, "disk_reserve_bytes", "0");
    fixture->metrics = metrics_create("test", wall_now());
    *state = fixture;
    return 0;
}

static int hold_tear_down(void **state)
{
    struct hold_fixture *fixture = *state;

    metrics_destroy(fixture->metrics);
    testing_folder_remove(&fixture->folder);
    free(fixture);
    return 0;
}

static enum error_code hold_start(struct hold_fixture *fixture, struct error *error)
{
    error->text[0] = '\0';
    return node_start(&fixture->config, fixture->metrics, NULL, NULL, &fixture->node, error);
}

static void hold_boot(struct hold_fixture *fixture)
{
    struct error error;

    if (hold_start(fixture, &error))
        fail_msg("%s", error.text);
}

static void hold_done(struct node_hold *hold)
{
    sem_post(&list_item(hold, struct hold_asked, hold)->is_answered);
}

static void hold_ask(struct hold_fixture *fixture, struct hold_asked *asked,
                     enum node_hold_kind kind, unsigned number)
{
    snprintf(asked->name, sizeof(asked->name), "queue:q%u", number);
    asked->hold = (struct node_hold){
        .kind = kind, .at = wall_now(), .done = hold_done, .pause.name = bytes_of(asked->name)};
    asked->hold.pause.since = asked->hold.at;
    asked->hold.pause.until = WALL_NEVER;
    if (kind == NODE_HOLD_MAINTAIN)
        asked->hold.pause.note = bytes_of(asked->name);
    assert_int_equal(sem_init(&asked->is_answered, 0, 0), 0);
    node_hold(fixture->node, &asked->hold);
}

static enum error_code hold_answer(struct hold_asked *asked)
{
    while (sem_wait(&asked->is_answered) != 0)
        continue;
    sem_destroy(&asked->is_answered);
    return asked->hold.result;
}

static enum error_code hold_change(struct hold_fixture *fixture, enum node_hold_kind kind,
                                   unsigned number)
{
    struct hold_asked asked;

    hold_ask(fixture, &asked, kind, number);
    return hold_answer(&asked);
}

static bool hold_is_paused(struct hold_fixture *fixture, unsigned number)
{
    struct target_pauses *pauses = node_pauses(fixture->node);
    char name[32];

    snprintf(name, sizeof(name), "queue:q%u", number);
    const bool is_paused = target_pauses_find(pauses, (struct bytes){0}, bytes_of(name)) != NULL;
    target_pauses_leave(pauses);
    return is_paused;
}

static bool hold_is_maintained(struct hold_fixture *fixture)
{
    char note[NODE_NOTE_SIZE_MAX];
    size_t size;
    const bool is_on = node_maintenance(fixture->node, note, &size);

    assert_true(bytes_equal((struct bytes){note, size}, is_on ? BYTES("queue:q7") : BYTES("")));
    return is_on;
}

/* Goal: several requests under way at once are all carried out, in their order. Method: each queue
 * is paused and every other one resumed, with no wait for an answer; a restart. */
static void test_many_changes(void **state)
{
    struct hold_fixture *fixture = *state;
    struct hold_asked asked[2 * HOLD_MANY + 1];
    size_t count = 0;

    hold_boot(fixture);
    for (unsigned i = 0; i < HOLD_MANY; i++) {
        hold_ask(fixture, &asked[count++], NODE_HOLD_PAUSE, i);
        if (i % 2)
            hold_ask(fixture, &asked[count++], NODE_HOLD_RESUME, i);
    }
    hold_ask(fixture, &asked[count++], NODE_HOLD_MAINTAIN, 7);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(hold_answer(&asked[i]), ERROR_NONE);
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < HOLD_MANY; i++)
            assert_true(hold_is_paused(fixture, i) == (i % 2 == 0));
        assert_true(hold_is_maintained(fixture));
        node_stop(fixture->node);
        hold_boot(fixture);
    }
    assert_int_equal(hold_change(fixture, NODE_HOLD_END, 0), ERROR_NONE);
    assert_false(hold_is_maintained(fixture));
    node_stop(fixture->node);
}

static enum error_code hold_define(struct hold_fixture *fixture, const char *value,
                                   uint64_t expected, uint64_t *ret_version)
{
    struct hold_asked asked = {.hold = {.kind = value ? NODE_HOLD_DEFINE : NODE_HOLD_UNDEFINE,
                                        .at = wall_now(),
                                        .definition = {BYTES("shop"),
                                                       BYTES("tbilling"),
                                                       bytes_of(value ? value : ""),
                                                       {0},
                                                       expected},
                                        .done = hold_done}};

    assert_int_equal(sem_init(&asked.is_answered, 0, 0), 0);
    node_hold(fixture->node, &asked.hold);
    const enum error_code code = hold_answer(&asked);
    *ret_version = asked.hold.version;
    return code;
}

static bool hold_is_defined(struct hold_fixture *fixture, const char *value)
{
    struct definitions *definitions = node_definitions(fixture->node);
    const struct definition *row =
        definitions_find(definitions, BYTES("shop"), DEFINITION_TARGET, BYTES("billing"));
    const bool is_so = row && bytes_equal(row->value, bytes_of(value));

    definitions_leave(definitions);
    return is_so;
}

/* Goal: a definition is made and changed on the version that its writer has seen, and is there at
 * each later start. */
static void test_node_definitions(void **state)
{
    struct hold_fixture *fixture = *state;
    uint64_t version, other;

    hold_boot(fixture);
    assert_int_equal(hold_define(fixture, "a", 0, &version), ERROR_NONE);
    assert_int_equal(hold_define(fixture, "b", 0, &other), ERROR_VERSION_MISMATCH);
    assert_true(hold_is_defined(fixture, "a"));
    assert_int_equal(hold_define(fixture, "b", version, &other), ERROR_NONE);
    assert_true(other > version);
    assert_int_equal(hold_change(fixture, NODE_HOLD_PAUSE, 1), ERROR_NONE);
    for (int round = 0; round < 2; round++) {
        assert_true(hold_is_defined(fixture, "b") && hold_is_paused(fixture, 1));
        node_stop(fixture->node);
        hold_boot(fixture);
    }
    assert_int_equal(hold_define(fixture, NULL, version, &version), ERROR_VERSION_MISMATCH);
    assert_int_equal(hold_define(fixture, NULL, NODE_ANY_VERSION, &version), ERROR_NONE);
    assert_int_equal(hold_define(fixture, NULL, NODE_ANY_VERSION, &version), ERROR_NOT_FOUND);
    assert_false(hold_is_defined(fixture, "b"));
    node_stop(fixture->node);
}

static void hold_configure(struct hold_fixture *fixture, const char *text, enum error_code expected)
{
    struct error error = {.text = ""};

    assert_int_equal(files_write(fixture->config.named_targets_file, bytes_of(text), NULL),
                     ERROR_NONE);
    assert_int_equal(node_reload_named_targets(fixture->node, &error), expected);
    assert_true((expected == ERROR_NONE) == !error.text[0]);
}

/* Goal: a definition of the configuration hides that of the log with its name, which stays, and can
 * be changed; it is not among the stored ones; a wrong file changes nothing.
 * proves: named-target-file-first */
static void test_configured_definitions(void **state)
{
    struct hold_fixture *fixture = *state;
    uint64_t version;
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s.json", fixture->folder.path);
    hold_set(fixture, "named_targets_file", path);
    assert_int_equal(files_write(path, BYTES("{}"), NULL), ERROR_NONE);
    hold_boot(fixture);
    assert_int_equal(hold_define(fixture, "a", 0, &version), ERROR_NONE);
    hold_configure(fixture, "{\"shop\":{\"billing\":{\"url\":\"http://a.example\"}}}", ERROR_NONE);
    assert_true(hold_is_defined(fixture, "{\"url\":\"http://a.example\"}"));
    assert_int_equal(hold_define(fixture, "b", version, &version), ERROR_NONE);
    assert_true(hold_is_defined(fixture, "{\"url\":\"http://a.example\"}"));
    struct definitions *stored = node_stored_definitions(fixture->node);
    assert_int_equal(stored->count, 1);
    assert_true(bytes_equal(stored->rows[0].value, BYTES("b")));
    definitions_leave(stored);
    hold_configure(fixture, "{\"shop\":{}", ERROR_INVALID);
    node_stop(fixture->node);
    assert_int_equal(
        files_write(path, BYTES("{\"shop\":{\"crm\":{\"url\":\"http://a.example\"}}}"), NULL),
        ERROR_NONE);
    hold_boot(fixture);
    assert_true(hold_is_defined(fixture, "b"));
    hold_configure(fixture, "{}", ERROR_NONE);
    struct definitions *definitions = node_definitions(fixture->node);
    assert_int_equal(definitions->count, 1);
    definitions_leave(definitions);
    node_stop(fixture->node);
    unlink(path);
}

/* Goal: each request is answered, also one that a stop overtakes; what was answered with success is
 * there at the next start. */
static void test_a_stop_answers(void **state)
{
    struct hold_fixture *fixture = *state;
    struct hold_asked asked[HOLD_MANY];
    enum error_code codes[HOLD_MANY];

    hold_boot(fixture);
    for (unsigned i = 0; i < HOLD_MANY; i++)
        hold_ask(fixture, &asked[i], NODE_HOLD_PAUSE, i);
    node_stop(fixture->node);
    for (unsigned i = 0; i < HOLD_MANY; i++)
        codes[i] = hold_answer(&asked[i]);
    hold_boot(fixture);
    for (unsigned i = 0; i < HOLD_MANY; i++)
        assert_true(codes[i] != ERROR_NONE || hold_is_paused(fixture, i));
    node_stop(fixture->node);
}

static enum error_code hold_refuse(struct storage *storage, struct storage_batch *const *batches,
                                   size_t count, struct buffer *to, struct error *ret_error)
{
    (void)storage, (void)batches, (void)count, (void)to;
    return error_set(ret_error, ERROR_DISK_FULL, "a test");
}

/* Exchanges the functions of a storage that threads use. Each table is right for them at any time;
 * the thread sanitizer is not to see the write, for which there is no lock. */
__attribute__((no_sanitize("thread"))) static void hold_use(struct storage *storage,
                                                            const struct storage_ops *ops)
{
    storage->ops = ops;
}

/* Goal: a change that is not durable is answered so, and changes nothing; later ones are made.
 * Method: a storage that takes no changes for a while. */
static void test_a_change_that_fails(void **state)
{
    struct hold_fixture *fixture = *state;

    hold_boot(fixture);
    const struct storage_ops *ops = fixture->node->disk.storage->ops;
    struct storage_ops refuses = *ops; /* before the threads that see it begin */
    refuses.prepare = hold_refuse;
    node_stop(fixture->node);
    hold_boot(fixture);
    struct storage *storage = fixture->node->disk.storage;
    assert_int_equal(hold_change(fixture, NODE_HOLD_PAUSE, 1), ERROR_NONE);
    hold_use(storage, &refuses);
    assert_int_equal(hold_change(fixture, NODE_HOLD_PAUSE, 2), ERROR_DISK_FULL);
    assert_int_equal(hold_change(fixture, NODE_HOLD_RESUME, 1), ERROR_DISK_FULL);
    hold_use(storage, ops);
    assert_true(hold_is_paused(fixture, 1) && !hold_is_paused(fixture, 2));
    assert_int_equal(hold_change(fixture, NODE_HOLD_PAUSE, 3), ERROR_NONE);
    for (int round = 0; round < 2; round++) {
        assert_true(hold_is_paused(fixture, 1) && hold_is_paused(fixture, 3));
        assert_false(hold_is_paused(fixture, 2));
        node_stop(fixture->node);
        hold_boot(fixture);
    }
    node_stop(fixture->node);
}

static void hold_damage(struct hold_fixture *fixture)
{
    struct diskwheel_options options = testing_options(&fixture->folder, HOLD_PARTITIONS);
    struct storage *storage = testing_open(&options);
    struct buffer *record = &diskwheel_store_of(storage)->parts[0].notes[STORAGE_HOLDS];

    assert_true(record->size > 0);
    buffer_clear(record);
    buffer_append_text(record, "\1garbage");
    assert_int_equal(storage_flush(storage, NULL), ERROR_NONE);
    storage_close(storage);
}

static uint64_t hold_epoch(struct hold_fixture *fixture, uint16_t partition)
{
    return atomic_load(&fixture->node->cluster.replicas[partition].epoch);
}

/* Goal: a damaged record stops the start, with what can be done, and before another partition is
 * claimed, which could deliver; with storage_damage = skip nothing is held, and the next change
 * makes the record anew. */
static void test_damaged_holds(void **state)
{
    struct hold_fixture *fixture = *state;
    struct error error;

    hold_boot(fixture);
    assert_int_equal(hold_change(fixture, NODE_HOLD_PAUSE, 1), ERROR_NONE);
    for (uint16_t p = 0; p < HOLD_PARTITIONS; p++)
        assert_int_equal(hold_epoch(fixture, p), 1);
    node_stop(fixture->node);
    hold_damage(fixture);
    assert_int_equal(hold_start(fixture, &error), ERROR_CORRUPT);
    assert_non_null(strstr(error.text, "restore a backup"));
    hold_set(fixture, "storage_damage", "skip");
    hold_boot(fixture);
    for (uint16_t p = 0; p < HOLD_PARTITIONS; p++)
        assert_int_equal(hold_epoch(fixture, p), p ? 2 : 3);
    assert_false(hold_is_paused(fixture, 1));
    assert_int_equal(hold_change(fixture, NODE_HOLD_PAUSE, 2), ERROR_NONE);
    node_stop(fixture->node);
    hold_set(fixture, "storage_damage", "refuse");
    hold_boot(fixture);
    assert_true(!hold_is_paused(fixture, 1) && hold_is_paused(fixture, 2));
    node_stop(fixture->node);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, hold_set_up, hold_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_many_changes),   TEST(test_node_definitions),
        TEST(test_a_stop_answers), TEST(test_a_change_that_fails),
        TEST(test_damaged_holds),  TEST(test_configured_definitions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
