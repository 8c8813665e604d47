/* probe.c - stands between the API and a real node, for tests. */
#include "api/testing/probe.h"

#include "node/node_state.h"
#include "store/testing/memory.h"
#include "store/wheel/diskwheel.h"
#include "sys/clock.h"

#include <assert.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WRAP(type, name, ...)        \
    type __real_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__)

WRAP(enum error_code, node_submit, struct node *node, struct node_request *request);
WRAP(enum error_code, node_submit_later, struct node *node, struct node_request *request,
     struct list *outbox);
WRAP(void, node_send, struct node *node, struct list *outbox);
WRAP(enum error_code, node_queue_submit, struct node *node, struct node_queue_request *request);
WRAP(void, node_queue_give_up, struct node *node, struct node_queue_request *request);
WRAP(void, node_health, struct node *node, struct node_health *ret_health);
WRAP(size_t, node_others, struct node *node, uint32_t ret_nodes[NODE_OTHERS_MAX]);

WRAP(enum error_code, diskwheel_storage_open, const struct diskwheel_options *options,
     struct storage **ret_storage, struct error *ret_error);

/* Locked. */
static struct node_probe *probe_of(const struct node *node)
{
    struct node_probe *probe =
        (struct node_probe *)((uintptr_t)node->config - offsetof(struct node_probe, config));

    pthread_mutex_lock(&probe->lock_);
    return probe;
}

static void probe_unlock(struct node_probe *probe)
{
    pthread_cond_broadcast(&probe->changed_);
    pthread_mutex_unlock(&probe->lock_);
}

/* ---- node.h ---- */

enum error_code __wrap_node_submit_later(struct node *node, struct node_request *request,
                                         struct list *outbox)
{
    struct node_probe *probe = probe_of(node);
    struct command *command = &request->command;
    enum error_code error = probe->refuses_;

    if (!error && probe->outpaced_ > 0 && command->kind == COMMAND_PATCH && command->if_version) {
        probe->outpaced_--;
        command->if_version += 1000; /* a version that the timer does not have */
    }
    probe_unlock(probe);
    if (error)
        return error;
    error = __real_node_submit_later(node, request, outbox);
    probe_of(node)->overloaded_ += error == ERROR_OVERLOADED;
    probe_unlock(probe);
    return error;
}

/* A request that fails, and another in its place, so that its answer comes as answers do. */
struct probe_failed {
    struct node_request instead;
    struct node_probe *probe;
    struct node_request *request;
    enum error_code error;
};

static void probe_failed_done(struct node_request *instead)
{
    struct probe_failed *failed = list_item(instead, struct probe_failed, instead);
    struct node_request *request = failed->request;
    struct node *node = failed->probe->node;

    command_drop_timers(&request->command);
    command_fail(&request->command, failed->error);
    free(failed);
    node_answered(node, request);
}

static void probe_fail_request(struct node_probe *probe, struct node_request *request,
                               enum error_code error)
{
    struct probe_failed *failed = calloc(1, sizeof(*failed));

    *failed = (struct probe_failed){.probe = probe, .request = request, .error = error};
    failed->instead.command =
        (struct command){.kind = COMMAND_GET, .partition = request->command.partition};
    failed->instead.done = probe_failed_done;
    if (__real_node_submit(probe->node, &failed->instead))
        abort();
}

void __wrap_node_send(struct node *node, struct list *outbox)
{
    struct node_probe *probe = probe_of(node);
    const enum error_code fails = probe->fails_;

    LIST_FOR_EACH (outbox, link)
        probe->submitted_++;
    for (struct list *link; probe->is_held_ && (link = list_pop(outbox));)
        list_push(&probe->held_, link);
    probe_unlock(probe);
    for (struct list *link; fails && (link = list_pop(outbox));)
        probe_fail_request(probe, list_item(link, struct node_request, link_), fails);
    if (!list_is_empty(outbox))
        __real_node_send(node, outbox);
}

enum error_code __wrap_node_submit(struct node *node, struct node_request *request)
{
    struct command *command = &request->command;
    struct list outbox;

    list_init(&outbox);
    if (!command_is_of_node(command)) {
        const enum error_code error = __wrap_node_submit_later(node, request, &outbox);

        if (!error)
            __wrap_node_send(node, &outbox);
        return error;
    }
    struct node_probe *probe = probe_of(node);
    enum error_code (*answer)(struct survey * survey) = probe->answer_;
    probe_unlock(probe);
    if (!answer)
        return __real_node_submit(node, request);
    command->error = answer(command->survey);
    request->done(request);
    return ERROR_NONE;
}

enum error_code __wrap_node_queue_submit(struct node *node, struct node_queue_request *request)
{
    struct node_probe *probe = probe_of(node);
    const enum error_code error = probe->refuses_;

    probe_unlock(probe);
    return error ? error : __real_node_queue_submit(node, request);
}

void __wrap_node_queue_give_up(struct node *node, struct node_queue_request *request)
{
    struct node_probe *probe = probe_of(node);

    probe->given_up_++;
    probe_unlock(probe);
    __real_node_queue_give_up(node, request);
}

void __wrap_node_health(struct node *node, struct node_health *ret_health)
{
    struct node_probe *probe = probe_of(node);
    const char *reason = probe->not_ready_;

    probe_unlock(probe);
    __real_node_health(node, ret_health);
    if (!reason)
        return;
    ret_health->is_ready = false;
    snprintf(ret_health->reason, sizeof(ret_health->reason), "%s", reason);
}

size_t __wrap_node_others(struct node *node, uint32_t ret_nodes[NODE_OTHERS_MAX])
{
    struct node_probe *probe = probe_of(node);
    const size_t count = probe->other_count_;

    probe_unlock(probe);
    for (size_t i = 0; i < count; i++)
        ret_nodes[i] = (uint32_t)i + 2;
    return count;
}

/* The node's storage is in memory. */
enum error_code __wrap_diskwheel_storage_open(const struct diskwheel_options *options,
                                              struct storage **ret_storage, struct error *ret_error)
{
    *ret_storage = memory_storage_create(options->partition_count);
    return *ret_storage ? ERROR_NONE : error_set(ret_error, ERROR_NO_MEMORY, "a test");
}

/* ---- the tests' side ---- */

void probe_start(struct node_probe *probe)
{
    const char *parent = getenv("TMPDIR");
    struct error error;

    probe->config.partitions = PROBE_PARTITIONS;
    probe->config.shards = 2;
    probe->config.disk_reserve_bytes = 0;
    snprintf(probe->folder_, sizeof(probe->folder_), "%s/tickwheel-api-XXXXXX",
             parent ? parent : "/tmp");
    pthread_mutex_init(&probe->lock_, NULL);
    pthread_cond_init(&probe->changed_, NULL);
    list_init(&probe->held_);
    probe->metrics = metrics_create("test", wall_now());
    if (!mkdtemp(probe->folder_) ||
        config_set(&probe->config, "data_folder", probe->folder_, &error) ||
        node_start(&probe->config, probe->metrics, NULL, NULL, &probe->node, &error)) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
}

static int probe_remove(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

void probe_stop(struct node_probe *probe)
{
    node_stop(probe->node);
    metrics_destroy(probe->metrics);
    nftw(probe->folder_, probe_remove, 16, FTW_DEPTH | FTW_PHYS);
    pthread_cond_destroy(&probe->changed_);
    pthread_mutex_destroy(&probe->lock_);
}

#define PROBE_SET(probe, member, value)      \
    do {                                     \
        pthread_mutex_lock(&(probe)->lock_); \
        (probe)->member = (value);           \
        probe_unlock(probe);                 \
    } while (0)

void probe_refuse(struct node_probe *probe, enum error_code error)
{
    PROBE_SET(probe, refuses_, error);
}

void probe_fail(struct node_probe *probe, enum error_code error)
{
    PROBE_SET(probe, fails_, error);
}

void probe_outpace(struct node_probe *probe, size_t count)
{
    PROBE_SET(probe, outpaced_, count);
}

void probe_set_not_ready(struct node_probe *probe, const char *reason)
{
    PROBE_SET(probe, not_ready_, reason);
}

void probe_set_others(struct node_probe *probe, size_t count,
                      enum error_code (*answer)(struct survey *survey))
{
    PROBE_SET(probe, answer_, answer);
    PROBE_SET(probe, other_count_, count);
}

void probe_fail_commit(struct node_probe *probe, enum error_code error)
{
    memory_storage_fail_commit(probe->node->disk.storage, 1, error);
}

void probe_hold(struct node_probe *probe)
{
    PROBE_SET(probe, is_held_, true);
}

void probe_release(struct node_probe *probe)
{
    struct list reversed;

    list_init(&reversed);
    pthread_mutex_lock(&probe->lock_);
    probe->is_held_ = false;
    while (!list_is_empty(&probe->held_)) {
        struct list *last = probe->held_.prev;

        list_remove(last);
        list_push(&reversed, last);
    }
    probe_unlock(probe);
    if (!list_is_empty(&reversed))
        __real_node_send(probe->node, &reversed);
}

void probe_await_submitted(struct node_probe *probe, size_t count)
{
    pthread_mutex_lock(&probe->lock_);
    while (probe->submitted_ < count)
        pthread_cond_wait(&probe->changed_, &probe->lock_);
    pthread_mutex_unlock(&probe->lock_);
}

static size_t probe_read(struct node_probe *probe, const size_t *count)
{
    pthread_mutex_lock(&probe->lock_);
    const size_t value = *count;
    pthread_mutex_unlock(&probe->lock_);
    return value;
}

size_t probe_submitted(struct node_probe *probe)
{
    return probe_read(probe, &probe->submitted_);
}

size_t probe_overloaded(struct node_probe *probe)
{
    return probe_read(probe, &probe->overloaded_);
}

size_t probe_live(struct node_probe *probe)
{
    return atomic_load(&probe->node->counts.pending_all);
}

size_t probe_given_up(struct node_probe *probe)
{
    return probe_read(probe, &probe->given_up_);
}
