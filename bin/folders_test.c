/* Goal: every kind of data folder either starts with all of its timers, or is refused with a
 * sentence that says whose it is and what to do. Method: a folder of each kind, made by a single
 * node and by nodes of two clusters on the broker in memory of librdkafka. Of each, a copy is
 * started as a single node and as a node of the cluster, imported, restored and checked; a table
 * has the answers. */
#ifdef TICKWHEEL_WITH_LOG_KAFKA

#include "import_folders.h"
#include "node/node_cluster_testing.h"
#include "steps.h"

#include "store/folder.h"
#include "sys/files.h"

enum { FOLDERS_EACH = 12, OTHER_ID = 78, PATH_SIZE = 600 };

enum folder_kind {
    KIND_EMPTY,
    KIND_SINGLE,
    KIND_CLUSTER,
    KIND_OTHER_CLUSTER,
    KIND_OLDER,
    KIND_NEWER_VERSION,
    KIND_COPY_OF_ANOTHER,
    KIND_BACKUP_OF_SINGLE,
    KIND_BACKUP_OF_CLUSTER,
    KIND_OF_OTHERS,
    KIND_COUNT,
};

/* What becomes of a kind: "" accepted, or a part of the refusal; and exit codes. */
struct folder_answers {
    const char *name, *single, *cluster, *import;
    int restore, check;
};

#define OF_CLUSTER "follows the log of a cluster"
#define OF_SINGLE  "--cluster-import"
#define NEWER      "newer version"

static const struct folder_answers answers[KIND_COUNT] = {
    [KIND_EMPTY] = {"an empty folder", "", "", "no data folder", 2, 2},
    [KIND_SINGLE] = {"of a single node", "", OF_SINGLE, "", 2, 0},
    [KIND_CLUSTER] = {"of this cluster", OF_CLUSTER, "", "", 0, 0},
    [KIND_OTHER_CLUSTER] = {"of another cluster", OF_CLUSTER, "is of the cluster", "", 0, 0},
    [KIND_OLDER] = {"an older copy", OF_CLUSTER, "", "", 0, 0},
    [KIND_NEWER_VERSION] = {"of a newer version", NEWER, NEWER, NEWER, 2, 2},
    [KIND_COPY_OF_ANOTHER] = {"a copy of another node's", OF_CLUSTER, "", "", 0, 0},
    [KIND_BACKUP_OF_SINGLE] = {"a backup of a single node", "", OF_SINGLE, "", 0, 0},
    [KIND_BACKUP_OF_CLUSTER] = {"a backup of a node", OF_CLUSTER, "", "", 0, 0},
    [KIND_OF_OTHERS] = {"with other people's files", "other files", "other files", "no data folder",
                        2, 2},
};

/* One for all tests, for each takes seconds to be made. */
struct folders {
    struct cluster_fixture *fixture; /* of the cluster; host 0 has made the folders */
    struct testing_folder room;
    struct timer_id single[FOLDERS_EACH];
    unsigned count; /* copies that were made */
};

static struct folders folders;

/* ---- folders ---- */

static const char *folders_path(const char *name, char ret_path[PATH_SIZE])
{
    snprintf(ret_path, PATH_SIZE, "%s/%s", folders.room.path, name);
    return ret_path;
}

struct folders_copy {
    const char *from, *to;
};

static bool folders_copy_one(void *context, const struct files_entry *entry)
{
    const struct folders_copy *copy = context;
    char from[2 * PATH_SIZE], to[2 * PATH_SIZE];

    snprintf(from, sizeof(from), "%s/%s", copy->from, entry->name);
    snprintf(to, sizeof(to), "%s/%s", copy->to, entry->name);
    if (!entry->is_folder) {
        assert_int_equal(files_copy(from, to, NULL), ERROR_NONE);
        return true;
    }
    struct folders_copy inner = {from, to};
    assert_int_equal(files_make_folder(to, NULL), ERROR_NONE);
    return files_list(from, folders_copy_one, &inner, NULL) == ERROR_NONE;
}

static void folders_copy(const char *from, const char *to)
{
    struct folders_copy copy = {from, to};

    assert_int_equal(files_make_folder(to, NULL), ERROR_NONE);
    assert_int_equal(files_list(from, folders_copy_one, &copy, NULL), ERROR_NONE);
}

/* A fresh copy of the folder of a kind, for one start. */
static const char *folders_fresh(enum folder_kind kind, char ret_path[PATH_SIZE])
{
    char from[PATH_SIZE], name[40];

    snprintf(name, sizeof(name), "kind-%d", (int)kind);
    folders_path(name, from);
    snprintf(name, sizeof(name), "copy-%u", folders.count++);
    folders_path(name, ret_path);
    folders_copy(from, ret_path);
    return ret_path;
}

static void folders_keep(const char *folder, enum folder_kind kind)
{
    char name[40], path[PATH_SIZE];

    snprintf(name, sizeof(name), "kind-%d", (int)kind);
    folders_copy(folder, folders_path(name, path));
}

static void folders_back_up(const char *folder, uint64_t cluster, enum folder_kind kind)
{
    const struct diskwheel_options options = {
        .folder = folder, .partition_count = CLUSTER_PARTITIONS, .cluster = cluster};
    struct storage_backup backup;
    struct storage *storage;
    char name[40], path[PATH_SIZE];

    snprintf(name, sizeof(name), "kind-%d", (int)kind);
    assert_int_equal(diskwheel_storage_open(&options, &storage, NULL), ERROR_NONE);
    assert_int_equal(storage_backup(storage, folders_path(name, path), &backup, NULL), ERROR_NONE);
    storage_close(storage);
}

/* ---- starts ---- */

static const char *folders_brokers(void)
{
    return rd_kafka_mock_cluster_bootstraps(folders.fixture->brokers);
}

/* Sets a host that does not run to the folder; `cluster` NULL: it is a single node. */
static struct cluster_host *folders_host(size_t index, const char *folder, const char *cluster)
{
    struct cluster_host *host = &folders.fixture->hosts[index];

    cluster_set(host, "data_folder", folder);
    cluster_set(host, "cluster_brokers", cluster ? folders_brokers() : "");
    cluster_set(host, "cluster_name", cluster ? cluster : "test");
    return host;
}

static void assert_said(enum folder_kind kind, const char *start, const char *expected,
                        bool is_accepted, const char *text)
{
    if (is_accepted ? *expected : !*expected || !strstr(text, expected))
        fail_msg("%s, %s: \"%s\" instead of \"%s\"", answers[kind].name, start, text, expected);
}

/* Whether the host starts. It runs then. */
static bool folders_start(struct cluster_host *host, struct error *ret_error)
{
    return !node_start(&host->config, host->metrics, NULL, NULL, &host->node, ret_error);
}

static void test_single(enum folder_kind kind)
{
    struct error error = {.text = ""};
    char path[PATH_SIZE];
    struct cluster_host *host = folders_host(1, folders_fresh(kind, path), NULL);
    const bool is_started = folders_start(host, &error);

    assert_said(kind, "as a single node", answers[kind].single, is_started, error.text);
    if (!is_started)
        return;
    cluster_await(host, true);
    for (size_t i = 0; kind != KIND_EMPTY && i < FOLDERS_EACH; i++)
        assert_int_equal(cluster_get(host, &folders.single[i]), ERROR_NONE);
    cluster_halt(host);
}

/* All timers of the cluster are there: what the folder lacks is in the log. */
static void test_cluster(enum folder_kind kind)
{
    struct error error = {.text = ""};
    char path[PATH_SIZE];
    const size_t index = kind == KIND_COPY_OF_ANOTHER ? 2 : 0;
    struct cluster_host *host = folders_host(index, folders_fresh(kind, path), "test");
    const bool is_started = folders_start(host, &error);

    assert_said(kind, "in a cluster", answers[kind].cluster, is_started, error.text);
    if (!is_started)
        return;
    cluster_await(host, true);
    for (size_t i = 0; i < folders.fixture->count; i++) {
        const struct timer_id *id = &folders.fixture->ids[i];
        const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
        enum error_code code;

        while (cluster_may_repeat(code = cluster_get(host, id), until))
            poll(NULL, 0, 10);
        assert_int_equal(code, ERROR_NONE);
    }
    cluster_halt(host);
}

static void test_import(enum folder_kind kind)
{
    struct error error = {.text = ""};
    char path[PATH_SIZE];
    const char *names[] = {folders_fresh(kind, path)};
    struct import_folders import;
    enum error_code code = import_folders_open(&import, names, 1, &error);

    if (!code)
        code = import_folders_choose(&import, &error);
    assert_said(kind, "imported", answers[kind].import, !code, error.text);
    import_folders_close(&import);
}

static void test_restore(enum folder_kind kind)
{
    char path[PATH_SIZE], name[40], to[PATH_SIZE];

    folders_fresh(kind, path);
    snprintf(name, sizeof(name), "restored-%d", (int)kind);
    if (data_folder_restore(path, folders_path(name, to)) != answers[kind].restore)
        fail_msg("%s, restored: not %d", answers[kind].name, answers[kind].restore);
}

static void test_check(enum folder_kind kind)
{
    char path[PATH_SIZE];

    if (check_data(folders_fresh(kind, path), CHECK_PRINTS_LINES) != answers[kind].check)
        fail_msg("%s, checked: not %d", answers[kind].name, answers[kind].check);
}

/* ---- tests ---- */

/* proves: folder-kinds */
static void test_every_pair(void **state)
{
    (void)state;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        test_single((enum folder_kind)kind);
        test_cluster((enum folder_kind)kind);
        test_import((enum folder_kind)kind);
        test_restore((enum folder_kind)kind);
        test_check((enum folder_kind)kind);
    }
}

/* A folder that has lost FOLDER is known by its log: one of a cluster has none.
 * proves: folder-kinds */
static void test_without_identity(void **state)
{
    struct error error = {.text = ""};
    char path[PATH_SIZE], name[PATH_SIZE + 10];

    (void)state;
    folders_fresh(KIND_CLUSTER, path);
    snprintf(name, sizeof(name), "%s/" FOLDER_IDENTITY_NAME, path);
    assert_int_equal(unlink(name), 0);
    assert_false(folders_start(folders_host(1, path, NULL), &error));
    assert_non_null(strstr(error.text, OF_CLUSTER));
    struct cluster_host *host = folders_host(0, path, "test");
    assert_true(folders_start(host, &error));
    cluster_await(host, true);
    cluster_halt(host);
    assert_false(folders_start(folders_host(0, path, "other"), &error)); /* it knows now */
    assert_non_null(strstr(error.text, "is of the cluster"));
}

/* The log is older than the folder: it was made again under its id, or put back.
 * proves: folder-kinds */
static void test_newer_than_its_log(void **state)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    struct node_cluster_stats stats = {0};
    struct node_damage damage;
    char path[PATH_SIZE];

    (void)state;
    struct cluster_host *host = folders_host(0, folders_fresh(KIND_CLUSTER, path), "again");
    cluster_boot(host);
    while (stats.broken < CLUSTER_PARTITIONS) {
        assert_true(instant_now().ns < until.ns);
        poll(NULL, 0, 10);
        node_cluster_stats(host->node, &stats);
    }
    node_damage(host->node, &damage);
    assert_non_null(strstr(damage.failed.text, "the log of the cluster: the log has lost records"));
    cluster_halt(host);
}

/* proves: folder-kinds */
static void test_two_at_a_time(void **state)
{
    struct error error = {.text = ""};
    char path[PATH_SIZE], to[PATH_SIZE], other[PATH_SIZE];
    const char *names[] = {path, other};
    struct import_folders import;

    (void)state;
    struct cluster_host *first = folders_host(0, folders_fresh(KIND_CLUSTER, path), "test");
    cluster_boot(first);
    assert_false(folders_start(folders_host(1, path, "test"), &error));
    assert_non_null(strstr(error.text, "in use by another process"));
    assert_false(folders_start(folders_host(1, path, NULL), &error));
    assert_non_null(strstr(error.text, "in use by another process"));
    assert_int_equal(import_folders_open(&import, names, 1, &error), ERROR_IO);
    assert_non_null(strstr(error.text, "in use by another process"));
    import_folders_close(&import);
    assert_int_equal(data_folder_restore(path, folders_path("restored", to)), 2);
    assert_int_equal(check_data(path, CHECK_PRINTS_LINES), 2);
    cluster_halt(first);
    folders_fresh(KIND_OTHER_CLUSTER, other);
    assert_int_equal(import_folders_open(&import, names, 2, &error), ERROR_INVALID);
    assert_non_null(strstr(error.text, "give the folders of one cluster"));
    import_folders_close(&import);
}

/* ---- the folders ---- */

static void folders_make_topics(const char *name, uint64_t id)
{
    char log[40], control[40];

    snprintf(log, sizeof(log), "%s.log", name);
    snprintf(control, sizeof(control), "%s.control", name);
    assert_int_equal(
        rd_kafka_mock_topic_create(folders.fixture->brokers, log, CLUSTER_PARTITIONS, 1), 0);
    assert_int_equal(rd_kafka_mock_topic_create(folders.fixture->brokers, control, 1, 1), 0);
    testing_found(folders_brokers(), control, id, CLUSTER_PARTITIONS);
}

static void folders_make_single(void)
{
    char path[PATH_SIZE];
    struct cluster_host *host = folders_host(0, folders_path("single", path), NULL);

    cluster_boot(host);
    cluster_await(host, true);
    for (size_t i = 0; i < FOLDERS_EACH; i++)
        assert_int_equal(
            cluster_create(host, (uint16_t)(i % CLUSTER_PARTITIONS), &folders.single[i]),
            ERROR_NONE);
    cluster_halt(host);
    folders_back_up(path, 0, KIND_BACKUP_OF_SINGLE);
    folders_keep(path, KIND_SINGLE);
    folders_keep(path, KIND_NEWER_VERSION);
}

static void folders_make_cluster(void)
{
    char path[PATH_SIZE];
    struct cluster_host *host = folders_host(0, folders_path("other", path), "other");

    cluster_boot(host);
    cluster_await(host, true);
    cluster_fill(folders.fixture, FOLDERS_EACH);
    cluster_halt(host);
    folders.fixture->count = 0; /* of the other cluster */
    folders_keep(path, KIND_OTHER_CLUSTER);
    folders_host(0, folders_path("cluster", path), "test");
    for (int i = 0; i < 2; i++) {
        cluster_boot(host);
        cluster_await(host, true);
        cluster_fill(folders.fixture, FOLDERS_EACH);
        cluster_halt(host);
        folders_keep(path, i ? KIND_CLUSTER : KIND_OLDER);
    }
    folders_keep(path, KIND_COPY_OF_ANOTHER);
    folders_back_up(path, CLUSTER_ID, KIND_BACKUP_OF_CLUSTER);
}

static int folders_set_up(void **state)
{
    const struct bytes newer = BYTES("tickwheel folder\nformat 999\n");
    char path[PATH_SIZE];

    if (cluster_set_up(state))
        return 1;
    folders.fixture = *state;
    testing_folder_make(&folders.room);
    folders_make_topics("other", OTHER_ID);
    folders_make_topics("again", CLUSTER_ID);
    folders_make_single();
    folders_make_cluster();
    snprintf(path, sizeof(path), "%s/kind-%d/" FOLDER_IDENTITY_NAME, folders.room.path,
             KIND_NEWER_VERSION);
    assert_int_equal(files_write(path, newer, NULL), ERROR_NONE);
    snprintf(path, sizeof(path), "%s/kind-%d", folders.room.path, KIND_EMPTY);
    assert_int_equal(files_make_folder(path, NULL), ERROR_NONE);
    snprintf(path, sizeof(path), "%s/kind-%d", folders.room.path, KIND_OF_OTHERS);
    assert_int_equal(files_make_folder(path, NULL), ERROR_NONE);
    snprintf(path, sizeof(path), "%s/kind-%d/letter", folders.room.path, KIND_OF_OTHERS);
    assert_int_equal(files_write(path, BYTES("dear all"), NULL), ERROR_NONE);
    return 0;
}

static int folders_tear_down(void **state)
{
    testing_folder_remove(&folders.room);
    return cluster_tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair),
        cmocka_unit_test(test_without_identity),
        cmocka_unit_test(test_newer_than_its_log),
        cmocka_unit_test(test_two_at_a_time),
    };

    return cmocka_run_group_tests(tests, folders_set_up, folders_tear_down);
}

#else

int main(void)
{
    return 0; /* without librdkafka there is no cluster */
}

#endif
