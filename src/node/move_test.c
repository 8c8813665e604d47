/*
 * Goal: partitions change their shard under load, and no client notices: no timer is lost, early or
 * delivered twice, commands are answered, workers are woken once, and nothing is later than 100 ms
 * because of a move. Method: a node with two shards on RocksDB, a receiver in this process, threads
 * that create, cancel and lease, and another that moves partitions. Partition 0 stays: its timers
 * tell how late this machine is by itself.
 */
#include "node/node.h"

#include "store/storage_testing.h"
#include "sys/clock.h"
#include "timer/queue_target.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum {
    MOVES = 200,
    TIMERS_MAX = 200000,
    CLIENTS_MAX = 256,
    CREATES_PER_MOVE = 10,
    CREATORS = 4,
    WORKERS = 3,
    LATE_MS_MAX = 100,
    STALLED_PART = 50, /* of the timers and the moves may be later: the system stalls threads */
    END_MS_MAX = 60000,
};

/* ---- what the clients know of each timer ---- */

enum move_kind { MOVE_WEBHOOK, MOVE_QUEUE };

struct move_timer {
    enum move_kind kind;
    struct timer_id id;
    struct wall due;
    atomic_bool is_created, is_cancelled;
    atomic_uint arrivals;
    _Atomic uint64_t arrived_ms;
};

struct move_fixture {
    struct testing_folder folder;
    struct config config;
    struct metrics *metrics;
    struct node *node;
    int listener;
    unsigned port;
    pthread_t receiver;
    atomic_bool ends, receiver_ends;
    atomic_uint next, refused;
    struct move_timer *timers;
};

static void move_arrived(struct move_fixture *fixture, unsigned number)
{
    assert_true(number < TIMERS_MAX);
    struct move_timer *timer = &fixture->timers[number];

    if (atomic_fetch_add(&timer->arrivals, 1) == 0)
        atomic_store(&timer->arrived_ms, wall_now().ms);
}

/* ---- the receiver ---- */

struct move_client {
    char head[4096];
    size_t size;
};

/* Answers each whole request in the buffer: the path has the number of the timer. */
static void client_answer(struct move_fixture *fixture, struct move_client *client, int fd)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    client->head[client->size] = '\0';
    char *end;
    while ((end = strstr(client->head, "\r\n\r\n"))) {
        const char *length = strstr(client->head, "ontent-Length: ");
        size_t body = length && length < end ? strtoul(length + 15, NULL, 10) : 0;
        size_t whole = (size_t)(end + 4 - client->head) + body;

        if (whole > client->size)
            return;
        move_arrived(fixture, (unsigned)strtoul(client->head + strlen("POST /"), NULL, 10));
        assert_int_equal(send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL), sizeof(answer) - 1);
        client->size -= whole;
        memmove(client->head, client->head + whole, client->size + 1);
    }
}

/* False: the connection has ended. */
static bool client_read(struct move_fixture *fixture, struct move_client *client, int fd)
{
    ssize_t size =
        recv(fd, client->head + client->size, sizeof(client->head) - 1 - client->size, 0);

    if (size <= 0)
        return false;
    client->size += (size_t)size;
    client_answer(fixture, client, fd);
    return true;
}

static void *receiver_run(void *argument)
{
    struct move_fixture *fixture = argument;
    struct move_client *clients = calloc(CLIENTS_MAX, sizeof(*clients));
    struct pollfd fds[CLIENTS_MAX] = {{.fd = fixture->listener, .events = POLLIN}};
    nfds_t count = 1;

    while (!atomic_load(&fixture->receiver_ends)) {
        poll(fds, count, 100);
        for (nfds_t i = count - 1; i > 0; i--)
            if (fds[i].revents && !client_read(fixture, &clients[i], fds[i].fd)) {
                close(fds[i].fd);
                fds[i] = fds[--count];
                clients[i] = clients[count];
            }
        if (fds[0].revents && count < CLIENTS_MAX) {
            fds[count] =
                (struct pollfd){.fd = accept(fixture->listener, NULL, NULL), .events = POLLIN};
            clients[count++].size = 0;
        }
    }
    for (nfds_t i = 0; i < count; i++)
        close(fds[i].fd);
    free(clients);
    return NULL;
}

static void receiver_begin(struct move_fixture *fixture)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fixture->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fixture->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fixture->listener, 512), 0);
    assert_int_equal(getsockname(fixture->listener, (struct sockaddr *)&address, &size), 0);
    fixture->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&fixture->receiver, NULL, receiver_run, fixture), 0);
}

/* ---- the node ---- */

static void move_set(struct move_fixture *fixture, const char *name, const char *value)
{
    assert_int_equal(config_set(&fixture->config, name, value, NULL), ERROR_NONE);
}

static int move_set_up(void **state)
{
    struct move_fixture *fixture = calloc(1, sizeof(*fixture));
    struct error error = {.text = ""};

    testing_folder_make(&fixture->folder);
    config_init(&fixture->config);
    move_set(fixture, "data_folder", fixture->folder.path);
    move_set(fixture, "partitions", "4");
    move_set(fixture, "shards", "2");
    move_set(fixture, "disk_reserve_bytes", "0");
    move_set(fixture, "webhook_allow", "127.0.0.1/32");
    fixture->metrics = metrics_create("test", wall_now());
    fixture->timers = calloc(TIMERS_MAX, sizeof(*fixture->timers));
    receiver_begin(fixture);
    if (node_start(&fixture->config, fixture->metrics, NULL, NULL, &fixture->node, &error))
        fail_msg("%s", error.text);
    *state = fixture;
    return 0;
}

static int move_tear_down(void **state)
{
    struct move_fixture *fixture = *state;

    if (fixture->node)
        node_stop(fixture->node);
    atomic_store(&fixture->receiver_ends, true);
    pthread_join(fixture->receiver, NULL);
    metrics_destroy(fixture->metrics);
    testing_folder_remove(&fixture->folder);
    free(fixture->timers);
    free(fixture);
    return 0;
}

/* ---- commands ---- */

struct move_reply {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_there; /* guarded by lock */
};

struct move_command {
    struct node_request request;
    struct move_reply reply;
};

static void reply_init(struct move_reply *reply)
{
    *reply = (struct move_reply){0};
    pthread_mutex_init(&reply->lock, NULL);
    pthread_cond_init(&reply->changed, NULL);
}

static void reply_give(struct move_reply *reply)
{
    pthread_mutex_lock(&reply->lock);
    assert_false(reply->is_there);
    reply->is_there = true;
    pthread_cond_signal(&reply->changed);
    pthread_mutex_unlock(&reply->lock);
}

static void reply_wait(struct move_reply *reply)
{
    pthread_mutex_lock(&reply->lock);
    while (!reply->is_there)
        pthread_cond_wait(&reply->changed, &reply->lock);
    pthread_mutex_unlock(&reply->lock);
    pthread_cond_destroy(&reply->changed);
    pthread_mutex_destroy(&reply->lock);
}

static void command_done(struct node_request *request)
{
    reply_give(&list_item(request, struct move_command, request)->reply);
}

static enum error_code move_ask(struct move_fixture *fixture, const struct command *asked)
{
    struct move_command command = {.request = {.command = *asked, .done = command_done}};

    reply_init(&command.reply);
    enum error_code code = node_submit(fixture->node, &command.request);
    if (code) {
        atomic_fetch_add(&fixture->refused, 1);
        return code;
    }
    reply_wait(&command.reply);
    return command.request.command.error;
}

static enum error_code move_create(struct move_fixture *fixture, uint16_t partition,
                                   enum move_kind kind, uint64_t after_ms, unsigned *ret_number)
{
    const unsigned number = atomic_fetch_add(&fixture->next, 1);

    assert_true(number < TIMERS_MAX);
    char target[64];
    snprintf(target, sizeof(target), kind == MOVE_QUEUE ? "queue:work" : "http://127.0.0.1:%u/%u",
             fixture->port, number);
    char payload[16];
    snprintf(payload, sizeof(payload), "%u", number);
    struct timer_texts texts = {.target = bytes_of(target), .payload = bytes_of(payload)};
    struct timer *timer = timer_alloc(&texts);
    timer->due = wall_add(wall_now(), after_ms);
    fixture->timers[number].kind = kind;
    fixture->timers[number].due = timer->due;

    struct command_created created = {0};
    struct command command = {.kind = COMMAND_CREATE,
                              .partition = partition,
                              .timers = &timer,
                              .results = &created,
                              .timer_count = 1};
    enum error_code code = move_ask(fixture, &command);
    fixture->timers[number].id = created.id;
    if (!code)
        atomic_store(&fixture->timers[number].is_created, true);
    *ret_number = number;
    return code;
}

/* ---- clients ---- */

static void *creator_run(void *argument)
{
    struct move_fixture *fixture = argument;

    for (unsigned round = 0; !atomic_load(&fixture->ends); round++) {
        enum move_kind kind = round % 3 == 2 ? MOVE_QUEUE : MOVE_WEBHOOK;
        uint64_t after_ms = round % 5 == 4 ? 500 : 1 + round * 7 % 120;
        const uint16_t partition = (uint16_t)(round % node_partition_count(fixture->node));
        unsigned number;

        assert_int_equal(move_create(fixture, partition, kind, after_ms, &number), ERROR_NONE);
        if (round % 5 == 4) {
            struct move_timer *timer = &fixture->timers[number];
            struct command cancel = {
                .kind = COMMAND_CANCEL, .partition = timer->id.partition, .id = timer->id};

            if (move_ask(fixture, &cancel) == ERROR_NONE)
                atomic_store(&timer->is_cancelled, true);
        }
    }
    return NULL;
}

struct move_worker {
    struct node_queue_request request;
    struct move_reply reply;
    struct queue_receipt receipts[16];
    enum queue_verdict verdicts[16];
    size_t count;
    struct move_fixture *fixture;
};

static void worker_leased(struct node_queue_request *request)
{
    struct move_worker *worker = list_item(request, struct move_worker, request);

    LIST_FOR_EACH (request->queue.leases, link) {
        const struct queue_lease *lease = list_item(link, struct queue_lease, link);
        char text[16] = {0};

        assert_true(lease->delivery->timer->texts.payload.size < sizeof(text));
        memcpy(text, lease->delivery->timer->texts.payload.data,
               lease->delivery->timer->texts.payload.size);
        move_arrived(worker->fixture, (unsigned)strtoul(text, NULL, 10));
        worker->receipts[worker->count++] = lease->receipt;
    }
}

static void worker_spoke(struct node_queue_request *request)
{
    reply_give(&list_item(request, struct move_worker, request)->reply);
}

static enum error_code worker_lease(struct move_worker *worker, uint32_t items_max,
                                    uint64_t wait_ms)
{
    worker->count = 0;
    worker->request = (struct node_queue_request){
        .queue = {.kind = QUEUE_LEASE,
                  .queue = BYTES("work"),
                  .items_max = items_max,
                  .bytes_max = 1 << 20,
                  .lease_ms = END_MS_MAX,
                  .wait_until = instant_add_ms(instant_now(), wait_ms)},
        .leased = worker_leased,
        .done = worker_spoke,
    };
    reply_init(&worker->reply);
    enum error_code code = node_queue_submit(worker->fixture->node, &worker->request);
    if (!code)
        reply_wait(&worker->reply);
    return code;
}

static void worker_ack(struct move_worker *worker)
{
    worker->request = (struct node_queue_request){
        .queue = {.kind = QUEUE_ACK,
                  .queue = BYTES("work"),
                  .receipts = worker->receipts,
                  .verdicts = worker->verdicts,
                  .receipt_count = worker->count},
        .done = worker_spoke,
    };
    reply_init(&worker->reply);
    assert_int_equal(node_queue_submit(worker->fixture->node, &worker->request), ERROR_NONE);
    reply_wait(&worker->reply);
    for (size_t i = 0; i < worker->count; i++)
        assert_int_equal(worker->verdicts[i], QUEUE_OK);
}

static void *worker_run(void *argument)
{
    struct move_worker worker = {.fixture = argument};

    while (!atomic_load(&worker.fixture->ends)) {
        assert_int_equal(worker_lease(&worker, 4, 100), ERROR_NONE);
        if (worker.count)
            worker_ack(&worker);
    }
    return NULL;
}

/* ---- the test ---- */

struct move_times {
    uint64_t pause_ns_max, reserve_ns_max;
    size_t long_pauses; /* over LATE_MS_MAX */
};

static uint64_t larger_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Each partition but the first goes from shard to shard, with creates between the moves. */
static void move_all(struct move_fixture *fixture, struct move_times *ret_times)
{
    *ret_times = (struct move_times){0};
    for (unsigned i = 0; i < MOVES; i++) {
        uint16_t partition = (uint16_t)(1 + i % 3);
        unsigned shard = (i / 3 + partition + 1) % 2;

        while (atomic_load(&fixture->next) < i * CREATES_PER_MOVE)
            sched_yield();
        struct node_move_times times;
        assert_int_equal(node_move(fixture->node, partition, shard, &times), ERROR_NONE);
        assert_true(times.adopted.ns > 0); /* it was elsewhere */
        uint64_t pause_ns = instant_since_ns(times.released, times.adopted);
        ret_times->pause_ns_max = larger_of(ret_times->pause_ns_max, pause_ns);
        ret_times->long_pauses += pause_ns > LATE_MS_MAX * UINT64_C(1000000);
        ret_times->reserve_ns_max =
            larger_of(ret_times->reserve_ns_max, instant_since_ns(times.asked, times.reserved));
    }
}

static bool is_missing(struct move_timer *timer)
{
    return atomic_load(&timer->is_created) && !atomic_load(&timer->is_cancelled) &&
           atomic_load(&timer->arrivals) == 0;
}

static size_t count_missing(struct move_fixture *fixture)
{
    size_t missing = 0;

    for (unsigned i = 0; i < atomic_load(&fixture->next); i++)
        missing += is_missing(&fixture->timers[i]);
    return missing;
}

/* How much later than due the webhook arrived; 0 when it is a queue item, or did not arrive. */
static uint64_t move_late_ms(struct move_timer *timer)
{
    uint64_t arrived_ms = atomic_load(&timer->arrived_ms);

    return timer->kind == MOVE_WEBHOOK && arrived_ms > timer->due.ms ? arrived_ms - timer->due.ms
                                                                     : 0;
}

/* The timers of partitions that moved which are late by more than `late_ms`. */
static size_t count_late(struct move_fixture *fixture, uint64_t late_ms)
{
    size_t late = 0;

    for (unsigned i = 0; i < atomic_load(&fixture->next); i++)
        late += fixture->timers[i].id.partition > 0 && move_late_ms(&fixture->timers[i]) > late_ms;
    return late;
}

/* proves: move */
static void test_partitions_move_under_load(void **state)
{
    struct move_fixture *fixture = *state;
    pthread_t creators[CREATORS];

    for (int i = 0; i < CREATORS; i++)
        assert_int_equal(pthread_create(&creators[i], NULL, creator_run, fixture), 0);
    pthread_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&workers[i], NULL, worker_run, fixture), 0);
    struct move_times times;
    move_all(fixture, &times);
    atomic_store(&fixture->ends, true);
    for (int i = 0; i < CREATORS; i++)
        pthread_join(creators[i], NULL);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    struct instant began = instant_now();
    struct move_worker last = {.fixture = fixture};
    while (count_missing(fixture) > 0 &&
           instant_since_ns(began, instant_now()) < END_MS_MAX * UINT64_C(1000000)) {
        assert_int_equal(worker_lease(&last, 16, 50), ERROR_NONE);
        if (last.count)
            worker_ack(&last);
    }
    uint64_t late_ms[2] = {0}; /* of partition 0, and of those that moved */
    size_t early = 0, twice = 0, after_cancel = 0;
    for (unsigned i = 0; i < atomic_load(&fixture->next); i++) {
        struct move_timer *timer = &fixture->timers[i];
        uint64_t *latest = &late_ms[timer->id.partition > 0];
        unsigned arrivals = atomic_load(&timer->arrivals);

        twice += arrivals > 1;
        after_cancel += arrivals > 0 && atomic_load(&timer->is_cancelled);
        early += arrivals > 0 && atomic_load(&timer->arrived_ms) < timer->due.ms;
        *latest = larger_of(*latest, move_late_ms(timer));
    }
    size_t late = count_late(fixture, late_ms[0] + LATE_MS_MAX);
    print_message("%u timers, %d moves: epoch at most %.1f ms, pause at most %.1f ms; latest %llu "
                  "ms, of the partition that stayed %llu ms; %zu later than that by 100 ms\n",
                  atomic_load(&fixture->next), MOVES, (double)times.reserve_ns_max / 1e6,
                  (double)times.pause_ns_max / 1e6, (unsigned long long)late_ms[1],
                  (unsigned long long)late_ms[0], late);
    assert_int_equal(count_missing(fixture), 0);
    assert_int_equal(early, 0);
    assert_int_equal(twice, 0);
    assert_int_equal(after_cancel, 0);
    assert_int_equal(atomic_load(&fixture->refused), 0);
    assert_true(late <= atomic_load(&fixture->next) / STALLED_PART);
    assert_true(times.long_pauses <= MOVES / STALLED_PART);
}

/* A disk that failed is tried again after a moment, and so is a partition whose read met it. */
static void create_when_taken(struct move_fixture *fixture)
{
    enum error_code code;
    unsigned number;

    while ((code = move_create(fixture, 0, MOVE_WEBHOOK, 3600 * 1000, &number)) != ERROR_NONE) {
        assert_true(code == ERROR_IO || code == ERROR_UNREADABLE);
        atomic_store(&fixture->next, number);
        sched_yield();
    }
}

/* Goal: what cannot move stays, and says why. Method: numbers that there are not, and a disk that
 * takes no byte while the epoch is written. */
static void test_a_move_that_cannot_be(void **state)
{
    struct move_fixture *fixture = *state;
    struct node_move_times times;

    assert_int_equal(node_move(fixture->node, 4, 0, &times), ERROR_NOT_FOUND);
    assert_int_equal(node_move(fixture->node, 0, 2, &times), ERROR_NOT_FOUND);
    assert_int_equal(node_move(fixture->node, 0, 0, &times), ERROR_NONE);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit none = {.rlim_cur = 1, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_int_equal(node_move(fixture->node, 0, 1, &times), ERROR_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    create_when_taken(fixture);
    assert_int_equal(node_move(fixture->node, 0, 1, &times), ERROR_NONE);
    create_when_taken(fixture);
}

static void *mover_run(void *argument)
{
    struct move_fixture *fixture = argument;
    struct node_move_times times;
    enum error_code code = ERROR_NONE;

    for (unsigned i = 0; code == ERROR_NONE; i++)
        code = node_move(fixture->node, (uint16_t)(i % 4), i / 4 % 2, &times);
    assert_true(code == ERROR_STOPPING || code == ERROR_IO);
    return NULL;
}

/* Goal: a stop does not wait for ever, whatever is moving, and answers everything. Method: a mover
 * that goes on until it is refused, and creates that are not waited for. */
static void test_a_stop_during_moves(void **state)
{
    enum { COUNT = 500 };
    struct move_fixture *fixture = *state;
    struct move_command *commands = calloc(COUNT, sizeof(*commands));
    struct command_created *created = calloc(COUNT, sizeof(*created));
    struct timer_texts texts = {.target = BYTES("http://a.example/"), .payload = BYTES("1")};
    struct timer **timers = calloc(COUNT, sizeof(*timers));
    pthread_t mover;

    assert_int_equal(pthread_create(&mover, NULL, mover_run, fixture), 0);
    for (unsigned i = 0; i < COUNT; i++) {
        timers[i] = timer_alloc(&texts);
        timers[i]->due = wall_add(wall_now(), 3600 * 1000);
        commands[i].request.done = command_done;
        commands[i].request.command = (struct command){.kind = COMMAND_CREATE,
                                                       .partition = (uint16_t)(i % 4),
                                                       .timers = &timers[i],
                                                       .results = &created[i],
                                                       .timer_count = 1};
        reply_init(&commands[i].reply);
        assert_int_equal(node_submit(fixture->node, &commands[i].request), ERROR_NONE);
    }
    node_stop(fixture->node);
    fixture->node = NULL;
    pthread_join(mover, NULL);
    for (unsigned i = 0; i < COUNT; i++)
        reply_wait(&commands[i].reply);
    free(commands);
    free(created);
    free(timers);
}

static void *waiter_run(void *argument)
{
    struct move_worker *worker = argument;

    assert_int_equal(worker_lease(worker, 1, END_MS_MAX), ERROR_NONE);
    assert_int_equal(worker->count, 1);
    worker_ack(worker);
    return NULL;
}

/* Goal: a worker that waits is woken by the shard that gets an item, once, whichever that is and
 * while the partition moves. Method: as many workers as items, one item each; a worker without an
 * item would wait for a minute. */
static void test_a_worker_is_woken_once(void **state)
{
    enum { COUNT = 24 };
    struct move_fixture *fixture = *state;
    pthread_t threads[COUNT];
    struct move_worker workers[COUNT]; /* until their threads have ended */

    for (unsigned i = 0; i < COUNT; i++) {
        workers[i] = (struct move_worker){.fixture = fixture};
        assert_int_equal(pthread_create(&threads[i], NULL, waiter_run, &workers[i]), 0);
    }
    struct node_move_times times;
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned number;

        assert_int_equal(move_create(fixture, (uint16_t)(i % 4), MOVE_QUEUE, i % 3, &number),
                         ERROR_NONE);
        assert_int_equal(node_move(fixture->node, (uint16_t)(i % 4), i / 4 % 2, &times),
                         ERROR_NONE);
    }
    for (unsigned i = 0; i < COUNT; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(atomic_load(&fixture->timers[i].arrivals), 1);
}

/* Goal: a lease moves with its partition, and its receipt is good afterwards.
 * Method: leases of each partition, moved twice, then acknowledged. */
static void test_leases_move(void **state)
{
    struct move_fixture *fixture = *state;
    struct move_worker worker = {.fixture = fixture};
    unsigned number;

    for (uint16_t i = 0; i < 8; i++)
        assert_int_equal(move_create(fixture, i % 4, MOVE_QUEUE, 0, &number), ERROR_NONE);
    struct node_move_times times;
    for (unsigned leased = 0; leased < 8; leased += (unsigned)worker.count) {
        assert_int_equal(worker_lease(&worker, 8, 10000), ERROR_NONE);
        for (unsigned i = 0; i < 8; i++)
            assert_int_equal(node_move(fixture->node, (uint16_t)(i % 4), i / 4, &times),
                             ERROR_NONE);
        if (worker.count)
            worker_ack(&worker);
    }
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(atomic_load(&fixture->timers[i].arrivals), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, move_set_up, move_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_partitions_move_under_load),
        TEST(test_a_move_that_cannot_be),
        TEST(test_a_stop_during_moves),
        TEST(test_a_worker_is_woken_once),
        TEST(test_leases_move),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
