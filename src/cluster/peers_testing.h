/*
 * peers_testing.h - peers of one process over loopback, whose hosts answer by a rule.
 */
#ifndef TICKWHEEL_CLUSTER_PEERS_TESTING_H
#define TICKWHEEL_CLUSTER_PEERS_TESTING_H

#include "cluster/peers_private.h"
#include "sys/clock.h"
#include "timer/timer_testing.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLUSTER     UINT64_C(77)
#define SECRET      "a secret of the cluster"
#define HOSTS       4
#define PARTITIONS  16
#define PATIENCE_MS 60000

/* ---- hosts ---- */

/* Everything that nodes know, shared. */
struct peers_world {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t owners[PARTITIONS]; /* as all but a stale node see them */
    uint16_t ports[HOSTS + 1];
    const char *behind; /* of each address; NULL: nothing */
    uint32_t stale;     /* this node thinks that node 2 owns everything */
    bool holds;         /* hosts keep jobs instead of answering */
    struct peers_job *held[64];
    size_t held_count, done_count;
    size_t submitted[HOSTS + 1];
    size_t taken_back;
    size_t pages[HOSTS + 1]; /* that were given */
    struct event_loop loop;  /* of all hosts */
    pthread_t looper;
    atomic_bool ends;
};

struct seat {
    struct peers_world *world;
    uint32_t id;
    struct peers_host host;
    struct peers *peers;
};

static inline bool seat_is_here(void *context, uint16_t partition, uint32_t *ret_node)
{
    const struct seat *seat = context;

    pthread_mutex_lock(&seat->world->lock);
    const uint32_t owner = seat->world->stale == seat->id && seat->id != 2
                               ? 2
                               : seat->world->owners[partition % PARTITIONS];
    pthread_mutex_unlock(&seat->world->lock);
    *ret_node = owner;
    return owner == seat->id;
}

static inline bool seat_address(void *context, uint32_t node, char ret_address[PEERS_ADDRESS_SIZE])
{
    const struct seat *seat = context;

    if (node > HOSTS || !seat->world->ports[node])
        return false;
    snprintf(ret_address, PEERS_ADDRESS_SIZE, "127.0.0.1:%u%s", seat->world->ports[node],
             seat->world->behind ? seat->world->behind : "");
    return true;
}

/* The answer of a host: a timer whose version is the node's id; ids that count. */
static inline void seat_answer(struct peers_job *job, uint32_t node)
{
    struct command *command = &job->command;
    struct timer *timer = NULL;

    if (command->kind == COMMAND_CREATE) {
        for (size_t i = 0; i < command->timer_count; i++) {
            command->results[i].id.serial = command->timers[i]->due.ms;
            timer_free(command->timers[i]);
        }
    } else {
        timer = testing_timer(command->partition, command->id.serial, 1000);
        timer->version = node;
        command->timer = timer;
    }
    timer_free(command->patch);
    job->done(job);
    timer_free(timer);
}

static inline enum error_code seat_submit(void *context, struct peers_job *job)
{
    const struct seat *seat = context;
    struct peers_world *world = seat->world;
    bool is_held;

    if (job->command.if_version == 99)
        return ERROR_DISK_FULL;
    pthread_mutex_lock(&world->lock);
    world->submitted[seat->id]++;
    is_held = world->holds && world->held_count < 64;
    if (is_held)
        world->held[world->held_count++] = job;
    pthread_cond_broadcast(&world->changed);
    pthread_mutex_unlock(&world->lock);
    if (!is_held)
        seat_answer(job, seat->id);
    return ERROR_NONE;
}

static inline void seat_take_back(void *context, struct peers_request *request)
{
    const struct seat *seat = context;

    pthread_mutex_lock(&seat->world->lock);
    seat->world->taken_back++;
    pthread_mutex_unlock(&seat->world->lock);
    request->done(request);
}

/* A page of partition 5 has its table as its number of rows. Other partitions have no pages. A page
 * of partition 6 waits while world->holds is set. */
static inline bool seat_give(void *context, struct copy_page *page, struct buffer *rows)
{
    const struct seat *seat = context;
    struct peers_world *world = seat->world;
    uint8_t table;
    const struct bytes key = storage_export_cursor(&page->at, &table);

    pthread_mutex_lock(&world->lock);
    world->pages[seat->id]++;
    pthread_cond_broadcast(&world->changed);
    while (page->at.partition == 6 && world->holds)
        pthread_cond_wait(&world->changed, &world->lock);
    pthread_mutex_unlock(&world->lock);
    if (page->at.partition != 5)
        return false;
    buffer_append_bytes(rows, key);
    page->at.place.next = 100 + seat->id;
    page->row_count = table;
    return storage_export_seek(&page->at, table + 1, (struct bytes){0});
}

static inline void seat_open_as(struct seat *seat, struct peers_world *world, uint32_t id,
                                uint64_t wait_ms, uint64_t cluster, const char *secret)
{
    *seat = (struct seat){.world = world,
                          .id = id,
                          .host = {.job_room = 24,
                                   .is_here = seat_is_here,
                                   .address = seat_address,
                                   .submit = seat_submit,
                                   .take_back = seat_take_back,
                                   .give = id == 4 ? NULL : seat_give}};
    seat->host.context = seat;
    const struct peers_options options = {.cluster = cluster,
                                          .node = id,
                                          .secret = bytes_of(secret),
                                          .address = "127.0.0.1",
                                          .wait_ms = wait_ms,
                                          .host = &seat->host,
                                          .loop = &world->loop};
    struct error error = {.text = ""};
    if (peers_start(&options, &seat->peers, &error))
        fail_msg("%s", error.text);
    pthread_mutex_lock(&world->lock);
    world->ports[id] = peers_port(seat->peers);
    pthread_mutex_unlock(&world->lock);
}

static inline void seat_open(struct seat *seat, struct peers_world *world, uint32_t id,
                             uint64_t wait_ms)
{
    seat_open_as(seat, world, id, wait_ms, CLUSTER, SECRET);
}

static inline void *world_run(void *argument)
{
    struct peers_world *world = argument;

    while (!atomic_load(&world->ends))
        event_loop_turn(&world->loop);
    return NULL;
}

static inline void world_init(struct peers_world *world, uint32_t owner)
{
    *world = (struct peers_world){.holds = false};
    assert_int_equal(event_loop_init(&world->loop), ERROR_NONE);
    assert_int_equal(pthread_create(&world->looper, NULL, world_run, world), 0);
    pthread_mutex_init(&world->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&world->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    for (size_t i = 0; i < PARTITIONS; i++)
        world->owners[i] = owner;
}

static inline void world_deinit(struct peers_world *world)
{
    atomic_store(&world->ends, true);
    event_loop_wake(&world->loop);
    pthread_join(world->looper, NULL);
    event_loop_deinit(&world->loop);
    pthread_cond_destroy(&world->changed);
    pthread_mutex_destroy(&world->lock);
}

/* Waits until `*count` is as large; the test fails after a minute. */
static inline void world_await(struct peers_world *world, const size_t *count, size_t wanted)
{
    const struct timespec until = instant_timespec(instant_add_ms(instant_now(), PATIENCE_MS));

    pthread_mutex_lock(&world->lock);
    while (*count < wanted)
        assert_int_equal(pthread_cond_timedwait(&world->changed, &world->lock, &until), 0);
    pthread_mutex_unlock(&world->lock);
}

static inline void world_set_owner(struct peers_world *world, uint16_t partition, uint32_t owner)
{
    pthread_mutex_lock(&world->lock);
    world->owners[partition] = owner;
    pthread_mutex_unlock(&world->lock);
}

/* ---- requests ---- */

struct passed {
    struct peers_request request;
    struct command command;
    struct peers_world *world;
    struct timer *timer;
    struct command_created result;
    enum error_code error;
    uint32_t version; /* of the timer in the answer: the node that answered */
    uint64_t serial;
    bool is_done; /* guarded by the world's lock */
    struct instant at;
    pthread_t by; /* thread that called `done` */
};

static inline void passed_done(struct peers_request *request)
{
    struct passed *passed = list_item(request, struct passed, request);
    const struct timer *timer = passed->command.timer;

    passed->error = passed->command.error;
    passed->version = timer ? timer->version : 0;
    passed->serial = timer ? timer->id.serial : passed->result.id.serial;
    passed->at = instant_now();
    passed->by = pthread_self();
    pthread_mutex_lock(&passed->world->lock);
    passed->is_done = true;
    passed->world->done_count++;
    pthread_cond_broadcast(&passed->world->changed);
    pthread_mutex_unlock(&passed->world->lock);
}

static inline void passed_init(struct passed *passed, struct peers_world *world,
                               enum command_kind kind, uint16_t partition, uint64_t serial)
{
    *passed = (struct passed){.world = world, .request.done = passed_done};
    passed->request.command = &passed->command;
    passed->command =
        (struct command){.kind = kind, .partition = partition, .id = {{5}, partition, serial}};
    if (kind == COMMAND_CREATE) {
        passed->timer = testing_timer(0, 0, 0);
        passed->timer->due.ms = serial;
        passed->command.timers = &passed->timer;
        passed->command.results = &passed->result;
        passed->command.timer_count = 1;
    }
}

static inline void passed_post(struct passed *passed, struct peers *peers)
{
    struct list list;

    list_init(&list);
    list_push(&list, &passed->request.link_);
    peers_post(peers, &list);
    assert_true(list_is_empty(&list));
}

static inline void passed_await(struct passed *passed)
{
    struct peers_world *world = passed->world;
    const struct timespec until = instant_timespec(instant_add_ms(instant_now(), PATIENCE_MS));

    pthread_mutex_lock(&world->lock);
    while (!passed->is_done)
        assert_int_equal(pthread_cond_timedwait(&world->changed, &world->lock, &until), 0);
    pthread_mutex_unlock(&world->lock);
}

static inline enum error_code passed_ask(struct passed *passed, struct peers *peers)
{
    passed_post(passed, peers);
    passed_await(passed);
    return passed->error;
}

static inline enum error_code ask_kind(struct seat *seat, enum command_kind kind)
{
    struct passed passed;

    passed_init(&passed, seat->world, kind, 1, 9);
    return passed_ask(&passed, seat->peers);
}

#endif
