/*
 * Goal: a lease goes to the shard with the first item, a worker that waits is taken once by a shard
 * with items, in the order in which workers came, and no worker waits beside an item. Method: the
 * board by hand; then threads that publish and take while others wait.
 */
#include "node/queue_board.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <cmocka.h>

#define BOARD_NOW ((struct instant){UINT64_C(1000000000)})

static struct queue_board *board_of(unsigned shards)
{
    struct queue_board *board = queue_board_create(shards, 7, BOARD_NOW);

    assert_non_null(board);
    return board;
}

static struct node_queue_request board_worker(const char *queue, uint64_t wait_ms)
{
    return (struct node_queue_request){
        .queue = {.kind = QUEUE_LEASE, .queue = bytes_of(queue)},
        .wait_until_ = instant_add_ms(BOARD_NOW, wait_ms),
    };
}

static int board_send(struct queue_board *board, struct node_queue_request *request)
{
    list_init(&request->link_);
    bool is_first;
    return queue_board_route(board, request, BOARD_NOW, &is_first);
}

static void test_the_first_item_is_found(void **state)
{
    struct queue_board *board = board_of(3);
    struct node_queue_request request = board_worker("mail", 1000);

    (void)state;
    queue_board_publish(board, 1, BYTES("mail"), queue_board_first(5, (struct wall){2000}));
    queue_board_publish(board, 2, BYTES("mail"), queue_board_first(5, (struct wall){1000}));
    queue_board_publish(board, 0, BYTES("other"), queue_board_first(9, (struct wall){1}));
    assert_int_equal(board_send(board, &request), 2);
    queue_board_publish(board, 1, BYTES("mail"), queue_board_first(6, (struct wall){2000}));
    assert_int_equal(board_send(board, &request), 1);
    queue_board_publish(board, 1, BYTES("mail"), QUEUE_BOARD_NONE);
    assert_int_equal(board_send(board, &request), 2);
    assert_int_equal(queue_board_more(board, BYTES("mail")), 2);
    queue_board_publish(board, 2, BYTES("mail"), QUEUE_BOARD_NONE);
    assert_int_equal(queue_board_more(board, BYTES("mail")), QUEUE_BOARD_ANSWERED);
    queue_board_destroy(board);
}

/* A lease leaves a shard for a higher priority, or for an item that was due well before. */
static void test_what_goes_before(void **state)
{
    struct queue_board *board = board_of(2);
    const struct wall at = {100000}, later = {100000 + QUEUE_BOARD_SLACK_MS};

    (void)state;
    queue_board_publish(board, 1, BYTES("mail"), queue_board_first(5, at));
    assert_false(queue_board_goes_before(board, 0, BYTES("mail"), queue_board_first(5, later)));
    assert_true(
        queue_board_goes_before(board, 0, BYTES("mail"), queue_board_first(5, wall_add(later, 1))));
    assert_true(queue_board_goes_before(board, 0, BYTES("mail"), queue_board_first(4, at)));
    assert_false(queue_board_goes_before(board, 0, BYTES("mail"), queue_board_first(6, later)));
    assert_false(queue_board_goes_before(board, 1, BYTES("mail"), queue_board_first(0, later)));
    queue_board_destroy(board);
}

/* A worker that does not wait is shown to every shard once. */
static void test_no_wait_asks_each_shard(void **state)
{
    struct queue_board *board = board_of(2);
    struct node_queue_request request = board_worker("mail", 0);

    (void)state;
    assert_int_equal(board_send(board, &request), 0);
    assert_int_equal(board_send(board, &request), 1);
    assert_int_equal(board_send(board, &request), QUEUE_BOARD_ANSWERED);
    queue_board_destroy(board);
}

static void test_workers_are_taken_in_order(void **state)
{
    struct queue_board *board = board_of(2);
    struct node_queue_request first = board_worker("mail", 1000),
                              second = board_worker("mail", 2000);

    (void)state;
    assert_int_equal(board_send(board, &first), QUEUE_BOARD_WAITS);
    assert_int_equal(board_send(board, &second), QUEUE_BOARD_WAITS);
    assert_int_equal(queue_board_waiting(board), 2);
    assert_null(queue_board_take(board, 0));
    queue_board_publish(board, 1, BYTES("mail"), queue_board_first(5, (struct wall){1}));
    assert_false(queue_board_has_work(board, 0));
    assert_true(queue_board_has_work(board, 1));
    assert_ptr_equal(queue_board_take(board, 1), &first);
    queue_board_publish(board, 1, BYTES("mail"), QUEUE_BOARD_NONE);
    assert_null(queue_board_take(board, 1));
    queue_board_publish(board, 0, BYTES("mail"), queue_board_first(5, (struct wall){1}));
    assert_ptr_equal(queue_board_take(board, 0), &second);
    assert_null(queue_board_take(board, 0));
    assert_int_equal(queue_board_waiting(board), 0);
    queue_board_destroy(board);
}

static void test_waits_end(void **state)
{
    struct queue_board *board = board_of(2);
    struct node_queue_request first = board_worker("mail", 1000),
                              second = board_worker("mail", 500);

    (void)state;
    assert_int_equal(board_send(board, &first), QUEUE_BOARD_WAITS);
    assert_int_equal(board_send(board, &second), QUEUE_BOARD_WAITS);
    assert_null(queue_board_take_late(board, instant_add_ms(BOARD_NOW, 499)));
    assert_true(queue_board_wake_at(board).ns >= instant_add_ms(BOARD_NOW, 500).ns);
    assert_ptr_equal(queue_board_take_late(board, instant_add_ms(BOARD_NOW, 502)), &second);
    assert_null(queue_board_take_late(board, instant_add_ms(BOARD_NOW, 502)));
    assert_ptr_equal(queue_board_stop(board), &first);
    assert_null(queue_board_stop(board));
    assert_int_equal(board_send(board, &first), QUEUE_BOARD_ANSWERED);
    queue_board_destroy(board);
}

/* A worker that is given up while it waits is taken out, and one on its way does not wait. */
static void test_a_worker_is_given_up(void **state)
{
    struct queue_board *board = board_of(2);
    struct node_queue_request first = board_worker("mail", 1000),
                              second = board_worker("mail", 1000);

    (void)state;
    assert_int_equal(board_send(board, &first), QUEUE_BOARD_WAITS);
    assert_int_equal(board_send(board, &second), QUEUE_BOARD_WAITS);
    assert_false(queue_board_is_given_up(board, &first));
    assert_ptr_equal(queue_board_give_up(board, &first), &first);
    assert_true(queue_board_is_given_up(board, &first));
    assert_null(queue_board_give_up(board, &first));
    assert_int_equal(queue_board_waiting(board), 1);
    queue_board_publish(board, 1, BYTES("mail"), queue_board_first(5, (struct wall){1}));
    assert_int_equal(board_send(board, &first), QUEUE_BOARD_ANSWERED);
    assert_ptr_equal(queue_board_take(board, 1), &second);
    assert_null(queue_board_give_up(board, &second));
    assert_int_equal(board_send(board, &second), QUEUE_BOARD_ANSWERED);
    assert_int_equal(queue_board_waiting(board), 0);
    queue_board_destroy(board);
}

/* What waits in the place of a worker's request ends with that, and does not wait after it. */
static void test_a_worker_is_given_up_elsewhere(void **state)
{
    struct queue_board *board = board_of(2);
    struct node_queue_request whole = board_worker("mail", 1000), here = board_worker("mail", 1000);

    (void)state;
    here.whole_ = &whole;
    assert_int_equal(board_send(board, &here), QUEUE_BOARD_WAITS);
    assert_ptr_equal(queue_board_give_up(board, &whole), &here);
    assert_int_equal(queue_board_waiting(board), 0);
    assert_null(queue_board_give_up(board, &whole));
    assert_int_equal(board_send(board, &here), QUEUE_BOARD_ANSWERED);
    queue_board_destroy(board);
}

/* ---- threads ---- */

enum { BOARD_SHARDS = 2, BOARD_WORKERS = 20000 };

struct board_race {
    struct queue_board *board;
    struct node_queue_request *requests;
    atomic_uint *taken; /* how often each worker was */
    atomic_uint total, next_shard;
};

static void board_count(struct board_race *race, const struct node_queue_request *request)
{
    atomic_fetch_add(&race->taken[request - race->requests], 1);
    atomic_fetch_add(&race->total, 1);
}

/* A shard that has items for the workers that wait, and then none. */
static void *board_shard_run(void *argument)
{
    struct board_race *race = argument;
    const unsigned shard = atomic_fetch_add(&race->next_shard, 1);

    while (atomic_load(&race->total) < BOARD_WORKERS) {
        queue_board_publish(race->board, shard, BYTES("mail"),
                            queue_board_first(5, (struct wall){1}));
        struct node_queue_request *request;
        while ((request = queue_board_take(race->board, shard)))
            board_count(race, request);
        queue_board_publish(race->board, shard, BYTES("mail"), QUEUE_BOARD_NONE);
    }
    return NULL;
}

static void test_each_worker_is_taken_once(void **state)
{
    struct board_race race = {.board = board_of(BOARD_SHARDS)};

    (void)state;
    race.requests = calloc(BOARD_WORKERS, sizeof(*race.requests));
    race.taken = calloc(BOARD_WORKERS, sizeof(*race.taken));
    pthread_t threads[BOARD_SHARDS];
    for (unsigned i = 0; i < BOARD_SHARDS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, board_shard_run, &race), 0);
    for (unsigned i = 0; i < BOARD_WORKERS; i++) {
        race.requests[i] = board_worker("mail", 1000);
        if (board_send(race.board, &race.requests[i]) != QUEUE_BOARD_WAITS)
            board_count(&race, &race.requests[i]); /* a shard would serve it */
    }
    for (unsigned i = 0; i < BOARD_SHARDS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < BOARD_WORKERS; i++)
        assert_int_equal(atomic_load(&race.taken[i]), 1);
    assert_int_equal(queue_board_waiting(race.board), 0);
    queue_board_destroy(race.board);
    free(race.requests);
    free(race.taken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_item_is_found),
        cmocka_unit_test(test_what_goes_before),
        cmocka_unit_test(test_no_wait_asks_each_shard),
        cmocka_unit_test(test_workers_are_taken_in_order),
        cmocka_unit_test(test_waits_end),
        cmocka_unit_test(test_a_worker_is_given_up),
        cmocka_unit_test(test_a_worker_is_given_up_elsewhere),
        cmocka_unit_test(test_each_worker_is_taken_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
