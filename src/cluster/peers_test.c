/* Goal: a command comes to the node that owns its partition and its answer comes back, within
 * wait_ms whatever other nodes do; what was not done is told apart from what may have been; and no
 * node acts for one that lacks the secret. Method: peers of one process, whose hosts answer by a
 * rule, over loopback; and sockets that hang, reset, or talk rubbish in place of a node. */
#include "cluster/peers_testing.h"

/* ---- what goes well ---- */

static void test_commands_come_to_the_owner(void **state)
{
    struct seat one, two;
    struct peers_world world;
    struct passed passed;

    (void)state;
    world_init(&world, 2);
    seat_open(&one, &world, 1, 30000);
    seat_open(&two, &world, 2, 30000);
    passed_init(&passed, &world, COMMAND_GET, 3, 12345);
    assert_int_equal(passed_ask(&passed, one.peers), ERROR_NONE);
    assert_true(passed.version == 2 && passed.serial == 12345);
    passed_init(&passed, &world, COMMAND_CREATE, 3, 777);
    assert_int_equal(passed_ask(&passed, one.peers), ERROR_NONE);
    assert_int_equal(passed.serial, 777);
    passed_init(&passed, &world, COMMAND_CANCEL, 3, 1);
    passed.command.if_version = 99; /* which the host refuses */
    assert_int_equal(passed_ask(&passed, one.peers), ERROR_DISK_FULL);
    assert_int_equal(world.submitted[2], 2);
    assert_int_equal(world.submitted[1], 0);
    peers_stop(one.peers);
    peers_stop(two.peers);
    world_deinit(&world);
}

static void test_many_are_passed_at_once(void **state)
{
    enum { MANY = 10000 };
    struct passed *passed = calloc(MANY, sizeof(*passed));
    struct seat one, two;
    struct peers_world world;
    struct list list;

    (void)state;
    assert_non_null(passed);
    world_init(&world, 2);
    seat_open(&one, &world, 1, PATIENCE_MS);
    seat_open(&two, &world, 2, PATIENCE_MS);
    list_init(&list);
    for (size_t i = 0; i < MANY; i++) {
        passed_init(&passed[i], &world, i % 3 ? COMMAND_CREATE : COMMAND_GET, i % PARTITIONS,
                    i + 1);
        list_push(&list, &passed[i].request.link_);
    }
    peers_post(one.peers, &list);
    world_await(&world, &world.done_count, MANY);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(passed[i].error, ERROR_NONE);
        assert_int_equal(passed[i].serial, i + 1);
    }
    struct peers_stats stats;
    peers_stats(one.peers, &stats);
    assert_true(stats.sent >= 3 && stats.sent < MANY && stats.answered == stats.sent);
    peers_stop(one.peers);
    peers_stop(two.peers);
    world_deinit(&world);
    free(passed);
}

/* Node 1 believes that node 2 owns what node 3 does: node 2 says so. */
static void test_owner_is_told_by_the_one_before(void **state)
{
    struct seat seats[3];
    struct peers_world world;
    struct passed passed;

    (void)state;
    world_init(&world, 3);
    world.stale = 1;
    for (uint32_t i = 0; i < 3; i++)
        seat_open(&seats[i], &world, i + 1, 30000);
    passed_init(&passed, &world, COMMAND_CREATE, 4, 5);
    assert_int_equal(passed_ask(&passed, seats[0].peers), ERROR_NONE);
    assert_int_equal(world.submitted[2], 0);
    assert_int_equal(world.submitted[3], 1);
    struct peers_stats stats;
    peers_stats(seats[0].peers, &stats);
    assert_int_equal(stats.moved, 1);
    for (uint32_t i = 0; i < 3; i++)
        peers_stop(seats[i].peers);
    world_deinit(&world);
}

/* A partition without an owner gets one, another node or this one. */
static void test_owner_is_looked_up_again(void **state)
{
    struct seat one, two;
    struct peers_world world;
    struct passed passed[2];

    (void)state;
    world_init(&world, 0);
    seat_open(&one, &world, 1, 30000);
    seat_open(&two, &world, 2, 30000);
    for (uint16_t i = 0; i < 2; i++) {
        passed_init(&passed[i], &world, COMMAND_TOUCH, i, 5);
        passed[i].command.patch = testing_timer(0, 0, 0);
        passed[i].command.patch_fields = PATCH_DUE;
        passed_post(&passed[i], one.peers);
    }
    assert_false(passed[0].is_done);
    world_set_owner(&world, 0, 2);
    world_set_owner(&world, 1, 1);
    passed_await(&passed[0]);
    passed_await(&passed[1]);
    assert_true(passed[0].error == ERROR_NONE && passed[0].version == 2);
    assert_int_equal(world.taken_back, 1);
    timer_free(passed[1].command.patch); /* which only its engine would have taken */
    peers_stop(one.peers);
    peers_stop(two.peers);
    world_deinit(&world);
}

/* ---- what goes wrong ---- */

static void test_no_owner_fails_in_time(void **state)
{
    struct seat one;
    struct peers_world world;

    (void)state;
    world_init(&world, 0);
    seat_open(&one, &world, 1, 100);
    const struct instant begun = instant_now();
    assert_int_equal(ask_kind(&one, COMMAND_CREATE), ERROR_OVERLOADED);
    assert_true(instant_since_ns(begun, instant_now()) >= UINT64_C(100000000));
    world_set_owner(&world, 1, 2); /* who has no address, and then one where nobody listens */
    assert_int_equal(ask_kind(&one, COMMAND_CREATE), ERROR_OVERLOADED);
    struct seat two;
    seat_open(&two, &world, 2, 100);
    peers_stop(two.peers);
    assert_int_equal(ask_kind(&one, COMMAND_CREATE), ERROR_OVERLOADED);
    peers_stop(one.peers);
    world_deinit(&world);
}

/* A socket in the place of a node. */
enum stub_way {
    STUB_HANGS,    /* reads, and says nothing */
    STUB_LIES,     /* answers the greeting without the secret */
    STUB_STOPS,    /* greets, and says nothing more */
    STUB_CLOSES,   /* greets, reads a whole message, and closes */
    STUB_RUBBISH,  /* greets, and answers no HTTP */
    STUB_UNPROVEN, /* greets, and answers well-formed HTTP, without the secret */
    STUB_REFUSES,  /* greets, and cannot read the message, like a node of an earlier version */
};

#define REFUSAL "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"

struct stub {
    enum stub_way way;
    int listener;
    pthread_t thread;
};

/* Reads what comes of one message; true: all of it. */
static bool stub_read(int fd)
{
    char room[65536];
    size_t size = 0, wanted = SIZE_MAX;

    while (size < wanted && size < sizeof(room)) {
        const ssize_t got = recv(fd, room + size, sizeof(room) - size, 0);
        if (got <= 0)
            return false;
        size += (size_t)got;
        const char *end = memmem(room, size, "\r\n\r\n", 4);
        const char *length = memmem(room, size, "Content-Length: ", 16);
        if (end && length)
            wanted = (size_t)(end + 4 - room) + strtoul(length + 16, NULL, 10);
    }
    return true;
}

/* An answer as node 3 would write it, but for the proof. */
static void stub_send_unproven(int fd)
{
    const struct wire_head head = {WIRE_ANSWERS, CLUSTER, 3, 1};
    const struct wire_answer answer = {.fate = WIRE_FAILED, .error = ERROR_DISK_FULL};
    struct buffer message, out;

    buffer_init(&message);
    buffer_init(&out);
    const size_t begin = wire_begin(&message, &head);
    wire_put_answer(&message, begin, &answer, NULL);
    wire_end(&message, begin);
    buffer_printf(&out, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
                  PEERS_MAC_SIZE + message.size);
    buffer_append(&out, (char[PEERS_MAC_SIZE]){0}, PEERS_MAC_SIZE);
    buffer_append_bytes(&out, buffer_bytes(&message));
    (void)send(fd, out.data, out.size, MSG_NOSIGNAL);
    buffer_deinit(&out);
    buffer_deinit(&message);
}

/* Reads a greeting, and answers it as node 3 does. */
static bool stub_greet(int fd)
{
    char secret[] = SECRET, room[PEERS_STRANGER_SIZE_MAX], *body = NULL;
    struct peers peers = {.cluster = CLUSTER,
                          .id = 3,
                          .secrets_lock = PTHREAD_MUTEX_INITIALIZER,
                          .secrets = {{secret, strlen(secret)}}};
    struct buffer greeting, out;
    ssize_t got = 0;

    buffer_init(&greeting);
    buffer_init(&out);
    for (size_t size = 0; !body || body + PEERS_MAC_SIZE + 25 > room + size; size += (size_t)got) {
        got = recv(fd, room + size, sizeof(room) - size, 0);
        if (got <= 0)
            return false;
        const char *end = memmem(room, size + (size_t)got, "\r\n\r\n", 4);
        body = end ? room + (end + 4 - room) : NULL;
    }
    peers_put_greeting(&peers, 0, PEERS_ANSWERS, (const uint8_t *)body, &greeting);
    buffer_printf(&out, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", greeting.size);
    buffer_append_bytes(&out, buffer_bytes(&greeting));
    (void)send(fd, out.data, out.size, MSG_NOSIGNAL);
    buffer_deinit(&out);
    buffer_deinit(&greeting);
    return true;
}

static void *stub_run(void *argument)
{
    struct stub *stub = argument;
    int open[64];
    size_t count = 0;

    for (int fd; (fd = accept(stub->listener, NULL, NULL)) >= 0;) {
        if (stub->way >= STUB_STOPS && !stub_greet(fd)) {
            close(fd);
            continue;
        }
        if (stub->way != STUB_STOPS && stub_read(fd) && stub->way == STUB_RUBBISH)
            (void)send(fd, "what?\r\n\r\n", 9, MSG_NOSIGNAL);
        else if (stub->way == STUB_REFUSES)
            (void)send(fd, REFUSAL, strlen(REFUSAL), MSG_NOSIGNAL);
        else if (stub->way == STUB_UNPROVEN || stub->way == STUB_LIES)
            stub_send_unproven(fd);
        if ((stub->way == STUB_HANGS || stub->way == STUB_STOPS) && count < 64)
            open[count++] = fd;
        else
            close(fd);
    }
    while (count > 0)
        close(open[--count]);
    return NULL;
}

static void stub_open(struct stub *stub, struct peers_world *world, uint32_t id, enum stub_way way)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);

    stub->way = way;
    stub->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(stub->listener >= 0);
    assert_int_equal(bind(stub->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(stub->listener, 64), 0);
    assert_int_equal(getsockname(stub->listener, (struct sockaddr *)&address, &size), 0);
    world->ports[id] = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&stub->thread, NULL, stub_run, stub), 0);
}

static void stub_close(struct stub *stub)
{
    shutdown(stub->listener, SHUT_RDWR);
    pthread_join(stub->thread, NULL);
    close(stub->listener);
}

/* A silent node costs its own requests their time, and no other request anything. */
static void test_silent_node_holds_up_no_other(void **state)
{
    struct seat one, two;
    struct peers_world world;
    struct stub stub;
    struct passed silent[8], passed;

    (void)state;
    world_init(&world, 2);
    world.owners[7] = 3;
    seat_open(&one, &world, 1, 1000);
    seat_open(&two, &world, 2, 1000);
    stub_open(&stub, &world, 3, STUB_HANGS);
    const struct instant begun = instant_now();
    for (size_t i = 0; i < 8; i++) {
        passed_init(&silent[i], &world, i % 2 ? COMMAND_GET : COMMAND_CREATE, 7, i + 1);
        passed_post(&silent[i], one.peers);
    }
    size_t answered = 0;
    for (int i = 0; i < 50; i++) {
        passed_init(&passed, &world, COMMAND_GET, 1, 5);
        answered += passed_ask(&passed, one.peers) == ERROR_NONE;
    }
    for (size_t i = 0; i < 8; i++) {
        passed_await(&silent[i]);
        assert_int_equal(silent[i].error, ERROR_OVERLOADED); /* nothing was sent */
        assert_true(instant_since_ns(begun, silent[i].at) >= UINT64_C(1000000000));
    }
    assert_true(answered > 0);
    peers_stop(one.peers);
    peers_stop(two.peers);
    stub_close(&stub);
    world_deinit(&world);
}

static void test_nodes_that_answer_wrong(void **state)
{
    static const enum stub_way ways[] = {STUB_LIES, STUB_STOPS, STUB_CLOSES, STUB_RUBBISH,
                                         STUB_UNPROVEN};

    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        struct seat patient, one;
        struct peers_world world;
        struct stub stub;

        world_init(&world, 3);
        seat_open(&patient, &world, 2, ways[i] <= STUB_STOPS ? 1000 : PATIENCE_MS / 3);
        seat_open(&one, &world, 1, 200);
        stub_open(&stub, &world, 3, ways[i]);
        assert_int_equal(ask_kind(&patient, COMMAND_CREATE),
                         ways[i] == STUB_LIES ? ERROR_OVERLOADED : ERROR_IN_DOUBT);
        assert_int_equal(ask_kind(&one, COMMAND_GET), ERROR_OVERLOADED);
        peers_stop(patient.peers);
        peers_stop(one.peers);
        stub_close(&stub);
        world_deinit(&world);
    }
}

/* What a node says of its address cannot make another one send anything else than to an address. */
/* A node of an earlier version refuses a list with a filter: it is asked again without. */
static void test_a_node_that_knows_no_filter(void **state)
{
    const struct timer_filter filter = {.key_prefix = BYTES("order-")};
    struct seat one;
    struct peers_world world;
    struct stub stub;
    struct passed passed;

    (void)state;
    world_init(&world, 3);
    seat_open(&one, &world, 1, 300);
    stub_open(&stub, &world, 3, STUB_REFUSES);
    passed_init(&passed, &world, COMMAND_LIST, 1, 9);
    passed.command.scan = (struct storage_scan){.rows_max = 1, .filter = &filter};
    assert_int_equal(passed_ask(&passed, one.peers), ERROR_OVERLOADED);
    assert_null(passed.command.scan.filter);
    peers_stop(one.peers);
    stub_close(&stub);
    world_deinit(&world);
}

static void test_addresses_that_are_none(void **state)
{
    static const char *const ends[] = {"/x", "?", "#", " ", "@127.0.0.1:1", "\r\nX: y", "%41"};

    (void)state;
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        struct seat one;
        struct peers_world world;
        struct stub stub;

        world_init(&world, 3);
        seat_open(&one, &world, 1, 100);
        stub_open(&stub, &world, 3, STUB_CLOSES);
        world.behind = ends[i];
        assert_int_equal(ask_kind(&one, COMMAND_CREATE), ERROR_OVERLOADED);
        peers_stop(one.peers);
        stub_close(&stub);
        world_deinit(&world);
    }
}

/* Another secret, another cluster: nothing is done, on either side. */
static void test_strangers(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct seat one, two;
        struct peers_world world;
        struct peers_stats stats;

        world_init(&world, 2);
        seat_open(&one, &world, 1, 100);
        seat_open_as(&two, &world, 2, 100, i == 0 ? CLUSTER : CLUSTER + 1,
                     i == 0 ? "a secret of the other" : "a secret of the cluster");
        do { /* a slow machine may not come so far in the time */
            assert_int_equal(ask_kind(&one, COMMAND_CREATE), ERROR_OVERLOADED);
            peers_stats(two.peers, &stats);
        } while (stats.refused == 0);
        assert_int_equal(stats.refused, stats.received);
        assert_int_equal(world.submitted[2], 0);
        peers_stop(one.peers);
        peers_stop(two.peers);
        world_deinit(&world);
    }
}

/* Sends a request to a listener, and says the status of the answer. */
static int listener_status(uint16_t port, const char *path, struct bytes body)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    char text[512] = "";
    int status = 0;

    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    const int size =
        snprintf(text, sizeof(text), "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n",
                 path, body.size);
    assert_int_equal(send(fd, text, (size_t)size, MSG_NOSIGNAL), size);
    if (body.size)
        assert_int_equal(send(fd, body.data, body.size, MSG_NOSIGNAL), (ssize_t)body.size);
    assert_true(recv(fd, text, sizeof(text) - 1, 0) > 12);
    assert_int_equal(sscanf(text, "HTTP/1.1 %d", &status), 1);
    close(fd);
    return status;
}

static int attack_connect(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* proves: cluster-strangers */
static void test_strangers_take_nothing(void **state)
{
    enum { ROUNDS = 4, EACH = 150 };
    static const char large[] =
        "POST " PEERS_PATH " HTTP/1.1\r\nHost: x\r\nContent-Length: 71303168\r\n\r\n";
    char garbage[PEERS_STRANGER_SIZE_MAX];
    int open[ROUNDS * EACH];
    struct seat one, two, again;
    struct peers_world world;

    (void)state;
    memset(garbage, 'x', sizeof(garbage));
    world_init(&world, 2);
    seat_open(&two, &world, 2, 5000);
    seat_open(&again, &world, 3, 5000);
    assert_int_equal(ask_kind(&again, COMMAND_CREATE), ERROR_NONE);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < EACH; i++) {
            const int fd = open[round * EACH + i] = attack_connect(world.ports[2]);

            if (i % 3 == 0)
                (void)send(fd, large, sizeof(large) - 1, MSG_NOSIGNAL);
            if (i % 3 == 1)
                (void)send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL);
        }
        seat_open(&one, &world, 1, 5000);
        for (int i = 0; i < 5; i++)
            assert_int_equal(ask_kind(&one, COMMAND_CREATE), ERROR_NONE);
        assert_true(atomic_load(&two.peers->inbound) < 65536);
        assert_true(http_server_connections(two.peers->server) < PEERS_STRANGERS_MAX + 80);
        peers_stop(one.peers);
    }
    assert_int_equal(ask_kind(&again, COMMAND_CREATE), ERROR_NONE);
    for (int i = 0; i < ROUNDS * EACH; i++)
        close(open[i]);
    peers_stop(again.peers);
    peers_stop(two.peers);
    world_deinit(&world);
}

static void test_messages_of_no_node(void **state)
{
    struct seat one;
    struct peers_world world;
    struct buffer body;
    const struct command command = {.kind = COMMAND_GET};

    (void)state;
    world_init(&world, 1);
    seat_open(&one, &world, 1, 100);
    buffer_init(&body);
    buffer_append(&body, (char[PEERS_MAC_SIZE]){0}, PEERS_MAC_SIZE);
    const size_t begin = wire_begin(&body, &(struct wire_head){WIRE_COMMANDS, CLUSTER, 2, 1});
    assert_int_equal(wire_put_command(&body, begin, &command), ERROR_NONE);
    wire_end(&body, begin);
    const struct bytes message = {body.data + PEERS_MAC_SIZE, body.size - PEERS_MAC_SIZE};
    const uint16_t port = peers_port(one.peers);
    assert_int_equal(listener_status(port, "/v1/timers", buffer_bytes(&body)), 404);
    assert_int_equal(listener_status(port, PEERS_PATH, BYTES("")), 413);
    assert_int_equal(listener_status(port, PEERS_PATH, buffer_bytes(&body)), 401); /* no proof */
    assert_true(peers_mac(one.peers, 1, PEERS_ANSWERS, NULL, message, (uint8_t *)body.data));
    assert_int_equal(listener_status(port, PEERS_PATH, buffer_bytes(&body)),
                     401); /* of an answer */
    assert_true(peers_mac(one.peers, 1, PEERS_ASKS, NULL, message, (uint8_t *)body.data));
    assert_int_equal(listener_status(port, PEERS_PATH, buffer_bytes(&body)), 200);
    assert_int_equal(world.submitted[1], 1);
    world_set_owner(&world, 0, 3);
    assert_int_equal(listener_status(port, PEERS_PATH, buffer_bytes(&body)), 421);
    body.data[begin + 3]++; /* another version */
    body.size -= 4;
    wire_end(&body, begin);
    assert_true(peers_mac(one.peers, 1, PEERS_ASKS, NULL, message, (uint8_t *)body.data));
    assert_int_equal(listener_status(port, PEERS_PATH, buffer_bytes(&body)), 400);
    assert_int_equal(world.submitted[1], 1);
    buffer_deinit(&body);
    peers_stop(one.peers);
    world_deinit(&world);
}

/* Numbers that the cluster has forgotten leave their places to others. */
static void test_nodes_come_and_go(void **state)
{
    struct seat one, two;
    struct peers_world world;
    struct passed passed;

    (void)state;
    world_init(&world, 0);
    seat_open(&one, &world, 1, 20);
    seat_open(&two, &world, 2, 2000);
    for (uint32_t id = 100; id < 100 + PEERS_NODES_MAX; id++) {
        world_set_owner(&world, 1, id);
        assert_int_equal(ask_kind(&one, COMMAND_CREATE), ERROR_OVERLOADED);
    }
    world_set_owner(&world, 1, 2);
    enum error_code error = ERROR_OVERLOADED;
    for (int tries = 0; tries < 200 && error == ERROR_OVERLOADED; tries++) { /* each of 20 ms */
        passed_init(&passed, &world, COMMAND_GET, 1, 9);
        error = passed_ask(&passed, one.peers);
    }
    assert_int_equal(error, ERROR_NONE);
    peers_stop(one.peers);
    peers_stop(two.peers);
    world_deinit(&world);
}

/* An answer that comes after its time disturbs nothing. */
static void test_late_answer(void **state)
{
    struct seat one, two;
    struct peers_world world;
    struct passed passed;

    (void)state;
    world_init(&world, 2);
    seat_open(&one, &world, 1, 200);
    seat_open(&two, &world, 2, 200);
    world.holds = true;
    enum error_code error = ERROR_OVERLOADED;
    while (error == ERROR_OVERLOADED) /* it was not sent in time: the machine is slow */
        error = ask_kind(&one, COMMAND_CREATE);
    assert_int_equal(error, ERROR_IN_DOUBT);
    world_await(&world, &world.held_count, 1);
    seat_answer(world.held[0], 2);
    pthread_mutex_lock(&world.lock);
    world.holds = false;
    pthread_mutex_unlock(&world.lock);
    do
        passed_init(&passed, &world, COMMAND_GET, 1, 31);
    while (passed_ask(&passed, one.peers) == ERROR_OVERLOADED);
    assert_true(passed.error == ERROR_NONE && passed.serial == 31);
    peers_stop(one.peers);
    peers_stop(two.peers);
    world_deinit(&world);
}

/* ---- copies ---- */

struct copied {
    struct peers_copy copy;
    struct peers_world *world;
    bool is_done, has_page; /* guarded by the world's lock */
    struct storage_export at;
    uint32_t row_count;
    char rows[16];
};

static void copied_done(struct peers_copy *copy, const struct copy_page *page)
{
    struct copied *copied = list_item(copy, struct copied, copy);

    pthread_mutex_lock(&copied->world->lock);
    copied->is_done = true;
    copied->has_page = page != NULL;
    if (page) {
        copied->at = page->at;
        copied->row_count = page->row_count;
        snprintf(copied->rows, sizeof(copied->rows), "%.*s", (int)page->rows.size, page->rows.data);
    }
    copied->world->done_count++;
    pthread_cond_broadcast(&copied->world->changed);
    pthread_mutex_unlock(&copied->world->lock);
}

static void copied_ask(struct copied *copied, struct seat *seat, uint32_t node, uint16_t partition)
{
    *copied = (struct copied){.world = seat->world,
                              .copy = {.node = node, .done = copied_done, .at = {0}}};
    copied->copy.at.partition = partition;
    assert_true(storage_export_seek(&copied->copy.at, 1, BYTES("key")));
    peers_copy(seat->peers, &copied->copy);
}

static bool copied_await(struct copied *copied)
{
    const struct timespec until = instant_timespec(instant_add_ms(instant_now(), PATIENCE_MS));

    pthread_mutex_lock(&copied->world->lock);
    while (!copied->is_done)
        assert_int_equal(
            pthread_cond_timedwait(&copied->world->changed, &copied->world->lock, &until), 0);
    pthread_mutex_unlock(&copied->world->lock);
    return copied->has_page;
}

/* A page comes from the node that was asked. None comes from one that has none, is gone, gives none
 * at all as one of a version before, is of another cluster, has another secret, hangs, or lies. */
static void test_pages_of_copies(void **state)
{
    struct seat one, two, three, four;
    struct peers_world world;
    struct copied copied;
    struct stub stub;

    (void)state;
    world_init(&world, 1);
    seat_open(&one, &world, 1, 1000);
    seat_open(&two, &world, 2, 1000);
    seat_open(&four, &world, 4, 1000);
    copied_ask(&copied, &one, 2, 5);
    assert_true(copied_await(&copied));
    assert_true(copied.at.partition == 5 && copied.at.place.next == 102);
    assert_true(copied.row_count == 1 && !strcmp(copied.rows, "key") && !copied.at.is_done);
    copied_ask(&copied, &one, 2, 3);
    assert_false(copied_await(&copied));
    assert_int_equal(world.pages[2], 2);
    copied_ask(&copied, &one, 3, 5); /* not there */
    assert_false(copied_await(&copied));
    copied_ask(&copied, &one, 4, 5);
    assert_false(copied_await(&copied));
    seat_open_as(&three, &world, 3, 1000, CLUSTER + 1, "a secret of the cluster");
    copied_ask(&copied, &one, 3, 5);
    assert_false(copied_await(&copied));
    peers_stop(three.peers);
    seat_open_as(&three, &world, 3, 1000, CLUSTER, "another secret");
    copied_ask(&copied, &one, 3, 5);
    assert_false(copied_await(&copied));
    assert_int_equal(world.pages[3], 0);
    peers_stop(three.peers);
    stub_open(&stub, &world, 3, STUB_HANGS);
    copied_ask(&copied, &one, 3, 5);
    assert_false(copied_await(&copied));
    stub_close(&stub);
    copied_ask(&copied, &one, 2, 5);
    assert_true(copied_await(&copied));
    peers_stop(one.peers);
    peers_stop(two.peers);
    peers_stop(four.peers);
    world_deinit(&world);
}

/* A giver that reads for long holds up no commands; what asks too much is refused; and a stop ends
 * all, on both sides. */
static void test_copies_hold_up_nothing(void **state)
{
    enum { MANY = 3 };
    struct copied copied[MANY];
    struct seat one, two;
    struct peers_world world;
    struct passed passed;

    (void)state;
    world_init(&world, 2);
    world.holds = true;
    seat_open(&one, &world, 1, PATIENCE_MS);
    seat_open(&two, &world, 2, PATIENCE_MS);
    for (size_t i = 0; i < MANY; i++)
        copied_ask(&copied[i], &one, 2, 6);
    world_await(&world, &world.pages[2], 1);
    pthread_mutex_lock(&world.lock);
    world.holds = false; /* of jobs; the page waits until it is woken */
    pthread_mutex_unlock(&world.lock);
    passed_init(&passed, &world, COMMAND_GET, 1, 7);
    assert_int_equal(passed_ask(&passed, one.peers), ERROR_NONE);
    peers_stop(one.peers);
    for (size_t i = 0; i < MANY; i++)
        assert_true(copied[i].is_done);
    copied_ask(&copied[0], &two, 1, 5);
    assert_false(copied_await(&copied[0]));
    peers_stop(two.peers);
    world_deinit(&world);
}

/* More than PEERS_WAITING_MAX commands for one node are refused at once. A stop ends all others. */
static void test_what_waits_is_bounded_and_ends_at_a_stop(void **state)
{
    enum { FIT = PEERS_WAITING_MAX / PEERS_COMMANDS_MAX, MANY = FIT + 1 + 5 };
    struct passed *passed = calloc(MANY, sizeof(*passed));
    struct command_event *events = calloc((size_t)MANY * PEERS_COMMANDS_MAX, sizeof(*events));
    struct seat one;
    struct peers_world world;
    struct stub stub;
    struct list list;
    size_t refused = 0;

    (void)state;
    assert_true(passed && events);
    world_init(&world, 3);
    seat_open(&one, &world, 1, PATIENCE_MS);
    stub_open(&stub, &world, 3, STUB_HANGS);
    list_init(&list);
    for (size_t i = 0; i < MANY; i++) {
        passed_init(&passed[i], &world, COMMAND_COMPLETE, 1, i + 1);
        passed[i].command.each = COMMAND_CANCEL;
        passed[i].command.events = events + i * PEERS_COMMANDS_MAX;
        passed[i].command.event_count = PEERS_COMMANDS_MAX;
        list_push(&list, &passed[i].request.link_);
    }
    peers_post(one.peers, &list); /* one is on its way perhaps, the others wait or are refused */
    world_await(&world, &world.done_count, MANY - FIT - 1);
    peers_stop(one.peers);
    for (size_t i = 0; i < MANY; i++) {
        assert_true(passed[i].is_done && passed[i].error != ERROR_NONE);
        assert_false(pthread_equal(passed[i].by, pthread_self()) &&
                     passed[i].error == ERROR_OVERLOADED);
        refused += passed[i].error == ERROR_OVERLOADED;
    }
    assert_true(refused == MANY - FIT || refused == MANY - FIT - 1);
    assert_int_equal(world.done_count, MANY);
    stub_close(&stub);
    world_deinit(&world);
    free(events);
    free(passed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands_come_to_the_owner),
        cmocka_unit_test(test_many_are_passed_at_once),
        cmocka_unit_test(test_owner_is_told_by_the_one_before),
        cmocka_unit_test(test_owner_is_looked_up_again),
        cmocka_unit_test(test_no_owner_fails_in_time),
        cmocka_unit_test(test_silent_node_holds_up_no_other),
        cmocka_unit_test(test_nodes_that_answer_wrong),
        cmocka_unit_test(test_a_node_that_knows_no_filter),
        cmocka_unit_test(test_addresses_that_are_none),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_strangers_take_nothing),
        cmocka_unit_test(test_messages_of_no_node),
        cmocka_unit_test(test_nodes_come_and_go),
        cmocka_unit_test(test_late_answer),
        cmocka_unit_test(test_pages_of_copies),
        cmocka_unit_test(test_copies_hold_up_nothing),
        cmocka_unit_test(test_what_waits_is_bounded_and_ends_at_a_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
