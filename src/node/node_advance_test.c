/* Goal: the clock stays at an instant until nothing is under way, although work passes between
 * shards as messages that no report shows. Method: shards of a test, each a thread, that report as
 * real ones do; work that hops from one to the other and back. */
#include "node/node_advance.h"

#include "node/partition.h"
#include "store/storage_testing.h"
#include "sys/clock.h"

#include <pthread.h>
#include <stdatomic.h>

#define START UINT64_C(1798761600000) /* 2027-01-01T00:00:00Z */
#define HOPS  20                      /* passages of a firing between the shards */

/* A shard whose firings are due once a minute, if it has any. */
struct advance_shard {
    struct advance_test *test;
    unsigned index;
    pthread_t thread;
    atomic_uint inbox;   /* hops left of a message; 0 if there is none */
    atomic_bool is_rung; /* a turn is wanted */
    uint64_t moves, fired;
    struct wall next;
};

struct advance_test {
    struct node_advance *advance;
    struct testing_folder folder;
    struct advance_shard shards[2];
    atomic_bool is_over, hangs;
    atomic_uint under_way; /* firings that have begun and not ended */
    uint64_t firings_max;
    pthread_mutex_t lock;
    pthread_cond_t answered;
    bool is_answered;
};

static void advance_ring(void *context)
{
    struct advance_test *test = context;

    for (unsigned i = 0; i < 2; i++)
        atomic_store(&test->shards[i].is_rung, true);
}

/* One turn, in the order of a real one: the round, the time, the messages, the report. */
static void advance_turn(struct advance_shard *shard)
{
    struct advance_test *test = shard->test;
    const uint64_t round = node_advance_round(test->advance);
    const struct wall now = wall_now();
    struct advance_shard *other = &test->shards[!shard->index];
    const unsigned hops = atomic_exchange(&shard->inbox, 0);

    if (hops >
        1) { /* the message is under way to the other shard, which this one does not report */
        shard->moves++;
        atomic_store(&other->inbox, hops - 1);
        atomic_store(&other->is_rung, true);
    } else if (hops == 1) {
        shard->moves++;
        assert_int_equal(atomic_fetch_sub(&test->under_way, 1), 1);
    }
    if (shard->next.ms <= now.ms) {
        assert_int_equal(shard->next.ms, now.ms);                   /* no instant is passed over */
        assert_int_equal(atomic_fetch_add(&test->under_way, 1), 0); /* the one before has ended */
        shard->moves++;
        shard->fired++;
        shard->next = shard->fired < test->firings_max ? wall_add(now, 60000) : WALL_NEVER;
        atomic_store(&other->inbox, HOPS);
        atomic_store(&other->is_rung, true);
    }
    node_advance_report(
        test->advance, shard->index,
        &(struct node_advance_shard){
            .round = round,
            .moves = shard->moves,
            .next = shard->next,
            .is_settled = !atomic_load(&test->hangs),
            .counts = {.fired = shard->fired, .live = shard->next.ms != UINT64_MAX}});
}

static void *advance_shard_run(void *argument)
{
    struct advance_shard *shard = argument;

    while (!atomic_load(&shard->test->is_over))
        if (atomic_exchange(&shard->is_rung, false))
            advance_turn(shard);
        else
            sched_yield();
    return NULL;
}

static struct advance_test *advance_begin(uint64_t firings)
{
    struct advance_test *test = calloc(1, sizeof(*test));
    struct error error;

    testing_folder_make(&test->folder);
    pthread_mutex_init(&test->lock, NULL);
    pthread_cond_init(&test->answered, NULL);
    test->firings_max = firings;
    if (!clock_is_virtual())
        clock_start_virtual((struct wall){START});
    const struct node_advance_options options = {
        .shard_count = 2, .folder = test->folder.path, .wake = advance_ring, .context = test};
    assert_int_equal(node_advance_start(&options, &test->advance, &error), ERROR_NONE);
    for (unsigned i = 0; i < 2; i++) {
        struct advance_shard *shard = &test->shards[i];

        *shard = (struct advance_shard){.test = test, .index = i, .next = WALL_NEVER};
        if (i == 0 && firings)
            shard->next = wall_add(wall_now(), 60000);
        assert_int_equal(pthread_create(&shard->thread, NULL, advance_shard_run, shard), 0);
    }
    return test;
}

static void advance_end(struct advance_test *test)
{
    node_advance_stop(test->advance);
    atomic_store(&test->is_over, true);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(test->shards[i].thread, NULL);
    testing_folder_remove(&test->folder);
    free(test);
}

struct advance_asked {
    struct node_advance_request request;
    struct advance_test *test;
};

static void advance_answered(struct node_advance_request *request)
{
    struct advance_test *test = ((struct advance_asked *)request)->test;

    pthread_mutex_lock(&test->lock);
    test->is_answered = true;
    pthread_cond_signal(&test->answered);
    pthread_mutex_unlock(&test->lock);
}

static void advance_await(struct advance_test *test)
{
    pthread_mutex_lock(&test->lock);
    while (!test->is_answered)
        pthread_cond_wait(&test->answered, &test->lock);
    test->is_answered = false;
    pthread_mutex_unlock(&test->lock);
}

static struct node_advance_request advance_to(struct advance_test *test, struct wall to)
{
    struct advance_asked asked = {{.to = to, .done = advance_answered}, test};

    assert_int_equal(node_advance_ask(test->advance, &asked.request, NULL), ERROR_NONE);
    advance_await(test);
    return asked.request;
}

/* Likewise, however long it takes: a request ends early on a slow machine. */
static struct node_advance_request advance_all_to(struct advance_test *test, struct wall to)
{
    struct node_advance_request answer = advance_to(test, to);

    while (!answer.result && !answer.is_done) {
        const uint64_t fired = answer.counts.fired;

        answer = advance_to(test, to);
        answer.counts.fired += fired;
    }
    return answer;
}

/* Two rounds are needed: with one, a message on its way is missed, and the next firing would begin
 * before the one before has ended. */
static void no_instant_is_left_while_a_message_is_under_way(void **state)
{
    struct advance_test *test = advance_begin(2000);
    const uint64_t start = wall_now().ms;

    (void)state;
    const struct node_advance_request answer =
        advance_all_to(test, (struct wall){start + 60000 * 500});
    assert_int_equal(answer.result, ERROR_NONE);
    assert_int_equal(answer.now.ms, start + 60000 * 500);
    assert_int_equal(answer.counts.fired, 500);
    assert_int_equal(atomic_load(&test->under_way), 0);
    advance_end(test);
}

static void next_is_the_next_firing_and_none_moves_nothing(void **state)
{
    struct advance_test *test = advance_begin(2);
    const uint64_t start = wall_now().ms;

    (void)state;
    for (uint64_t i = 1; i <= 4; i++) {
        const struct node_advance_request answer = advance_to(test, WALL_NEVER);

        assert_true(answer.is_done);
        assert_int_equal(answer.counts.fired, i <= 2);
        assert_int_equal(answer.now.ms, start + 60000 * (i <= 2 ? i : 2));
    }
    advance_end(test);
}

static void a_second_request_and_the_past_are_refused(void **state)
{
    struct advance_test *test = advance_begin(0);
    struct advance_asked first = {{.to = wall_add(wall_now(), 1000), .done = advance_answered},
                                  test};
    struct advance_asked second = first;
    struct error error;

    (void)state;
    atomic_store(&test->hangs, true);
    assert_false(node_advance_is_running(test->advance));
    assert_int_equal(node_advance_ask(test->advance, &first.request, &error), ERROR_NONE);
    assert_true(node_advance_is_running(test->advance));
    assert_int_equal(node_advance_ask(test->advance, &second.request, &error), ERROR_CLOCK_RUNS);
    atomic_store(&test->hangs, false);
    advance_ring(test);
    advance_await(test);
    assert_true(first.request.is_done);
    second.request.to = (struct wall){wall_now().ms - 1};
    assert_int_equal(node_advance_ask(test->advance, &second.request, &error), ERROR_INVALID);
    second.request.to = (struct wall){clock_virtual_end().ms + 1};
    assert_int_equal(node_advance_ask(test->advance, &second.request, &error), ERROR_INVALID);
    advance_end(test);
}

static void a_stop_answers_what_runs(void **state)
{
    struct advance_test *test = advance_begin(0);
    struct advance_asked asked = {{.to = wall_add(wall_now(), 1000), .done = advance_answered},
                                  test};
    struct error error;

    (void)state;
    atomic_store(&test->hangs, true);
    assert_int_equal(node_advance_ask(test->advance, &asked.request, &error), ERROR_NONE);
    node_advance_interrupt(test->advance);
    advance_await(test);
    assert_int_equal(asked.request.result, ERROR_STOPPING);
    assert_false(asked.request.is_done);
    assert_int_equal(node_advance_ask(test->advance, &asked.request, &error), ERROR_STOPPING);
    advance_end(test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_instant_is_left_while_a_message_is_under_way),
        cmocka_unit_test(next_is_the_next_firing_and_none_moves_nothing),
        cmocka_unit_test(a_second_request_and_the_past_are_refused),
        cmocka_unit_test(a_stop_answers_what_runs),
    };

    return cmocka_run_group_tests_name("node_advance", tests, NULL, NULL);
}
