/*
 * Goal: what went wrong in the purgatories of others does not in ours. Method: each trouble of
 * Kafka's, by its number in their tracker, played out in small; and the costs that its redesign was
 * about, counted.
 */
#include "conformance_oracle.h"

#include <tickwheel/purgatory.h>

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct tw_purgatory_stats stats_of(struct tw_purgatory *purgatory)
{
    struct tw_purgatory_stats stats;

    tw_purgatory_get_stats(purgatory, &stats);
    return stats;
}

static bool never_ready(void *context, void *operation)
{
    (void)context;
    (void)operation;
    return false;
}

/* An operation is a counter of its completions, freed by nobody. */
static void count_completion(void *context, void *operation, enum tw_completion why)
{
    (void)context;
    (void)why;
    ++*(unsigned *)operation;
}

/* KAFKA-3994: a watch list's lock was held while its operations were tried, and the try of one
 * tried another list: two threads that did it crosswise stood still. */

struct cross {
    struct tw_purgatory *purgatory;
    uint64_t keys[2];
};

struct crossing {
    uint64_t other; /* the key that its try tries */
    atomic_uint tries;
};

static bool crossing_try(void *context, void *operation)
{
    struct cross *cross = context;
    struct crossing *crossing = operation;

    /* Its own key is among those that the other's try tries, so it would never end. */
    if (atomic_fetch_add(&crossing->tries, 1) % 4 == 2)
        tw_purgatory_try_key(cross->purgatory, crossing->other);
    return false;
}

static void crossing_complete(void *context, void *operation, enum tw_completion why)
{
    (void)context;
    (void)operation;
    assert_int_equal(why, TW_COMPLETED_BY_DESTROY);
}

struct walker {
    struct cross *cross;
    uint64_t key;
};

static void *try_often(void *argument)
{
    struct walker *walker = argument;

    for (unsigned i = 0; i < 20000; i++)
        tw_purgatory_try_key(walker->cross->purgatory, walker->key);
    return NULL;
}

static void lesson_kafka_3994_tries_that_cross_do_not_stand_still(void **state)
{
    struct cross cross = {.keys = {1, 4}};
    struct crossing crossings[2] = {{.other = 4}, {.other = 1}};
    struct walker walkers[2] = {{&cross, 1}, {&cross, 4}};
    pthread_t threads[2];
    (void)state;

    cross.purgatory = tw_purgatory_create(&(struct tw_purgatory_options){
        .try_complete = crossing_try, .complete = crossing_complete, .context = &cross});
    for (unsigned i = 0; i < 2; i++)
        assert_true(tw_purgatory_submit(cross.purgatory, &crossings[i], &cross.keys[i], 1, 100));
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, try_often, &walkers[i]), 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    tw_purgatory_destroy(cross.purgatory);
}

/* KAFKA-6653: whoever found an operation being tried by another thread went by, and if that thread
 * had looked too early the event was lost; the operation then waited for its time-out. */

struct early {
    struct tw_purgatory *purgatory;
    bool is_ready;
    unsigned tries;
    int why;
};

static bool early_try(void *context, void *operation)
{
    struct early *early = operation;
    bool was_ready = early->is_ready;

    (void)context;
    if (++early->tries == 3) { /* the event comes after it has looked, before it says so */
        early->is_ready = true;
        assert_int_equal(tw_purgatory_try_key(early->purgatory, 1), 0);
    }
    return was_ready;
}

static void early_complete(void *context, void *operation, enum tw_completion why)
{
    (void)context;
    ((struct early *)operation)->why = (int)why;
}

static void lesson_kafka_6653_an_event_during_a_try_is_not_lost(void **state)
{
    struct early early = {.why = -1};
    (void)state;

    early.purgatory = tw_purgatory_create(
        &(struct tw_purgatory_options){.try_complete = early_try, .complete = early_complete});
    assert_true(tw_purgatory_submit(early.purgatory, &early, &(uint64_t){1}, 1, 1000));
    assert_int_equal(tw_purgatory_try_key(early.purgatory, 1), 1);
    assert_int_equal(early.why, TW_COMPLETED_BY_EVENT);
    assert_int_equal(early.tries, 4);
    tw_purgatory_destroy(early.purgatory);
}

/* The same, and then the time-out comes too, before the try is over: the event was first. */
static bool early_and_late_try(void *context, void *operation)
{
    struct early *early = operation;
    bool was_ready = early_try(context, operation);

    if (early->tries == 3)
        assert_int_equal(tw_purgatory_expire(early->purgatory, 1000, 10), 0);
    return was_ready;
}

static void an_event_and_then_a_time_out_during_a_try_are_an_event(void **state)
{
    struct early early = {.why = -1};
    (void)state;

    early.purgatory = tw_purgatory_create(&(struct tw_purgatory_options){
        .try_complete = early_and_late_try, .complete = early_complete});
    assert_true(tw_purgatory_submit(early.purgatory, &early, &(uint64_t){1}, 1, 1000));
    assert_int_equal(tw_purgatory_try_key(early.purgatory, 1), 1);
    assert_int_equal(early.why, TW_COMPLETED_BY_EVENT);
    tw_purgatory_destroy(early.purgatory);
}

/* KAFKA-19763: completed operations that nobody's event met stayed in watch lists until a purge,
 * and everything that they referred to with them. Here only the watch stays. */

static void free_operation(void *context, void *operation, enum tw_completion why)
{
    (void)why;
    --*(unsigned *)context;
    free(operation);
}

static void lesson_kafka_19763_the_dead_hold_no_operation(void **state)
{
    unsigned held = 0;
    struct tw_purgatory *purgatory = tw_purgatory_create(&(struct tw_purgatory_options){
        .try_complete = never_ready, .complete = free_operation, .context = &held});
    (void)state;

    for (uint64_t i = 0; i < 900; i++) { /* too few for a purge */
        held++;
        assert_true(tw_purgatory_submit(purgatory, malloc(100000), (uint64_t[]){i, i + 1}, 2, 1));
    }
    assert_int_equal(tw_purgatory_expire(purgatory, 1, 1000), 900);
    assert_int_equal(held, 0); /* a leak checker agrees */
    assert_int_equal(stats_of(purgatory).dead, 900);
    tw_purgatory_destroy(purgatory);
}

/* Kafka's redesign was about purges that cost too much or came too late: each walked all
 * lists. Here a million operations are watched under one hot key and one of their own; all time
 * out, and no key is ever tried. */
static void a_hot_key_is_purged_in_small_steps(void **state)
{
    enum { COUNT = 1000000, ALIVE = 20000, HOT = 0 };
    struct tw_purgatory *purgatory = tw_purgatory_create(
        &(struct tw_purgatory_options){.try_complete = never_ready, .complete = count_completion});
    unsigned completions = 0;
    struct tw_purgatory_stats stats = {0};
    size_t watched_most = 0, memory_half = 0;
    uint64_t looks_most = 0;
    (void)state;

    for (uint64_t i = 1; i <= COUNT; i++) {
        const uint64_t keys[] = {i, HOT};
        uint64_t looks = stats.look_count;
        assert_true(tw_purgatory_submit(purgatory, &completions, keys, 2, i + ALIVE));
        size_t count = tw_purgatory_expire(purgatory, i, 8);
        tw_purgatory_get_stats(purgatory, &stats);
        if (stats.look_count - looks > looks_most)
            looks_most = stats.look_count - looks;
        assert_true(stats.look_count - looks <= (count + 1) * 2 * TW_PURGATORY_LOOKS_MAX);
        if (stats.watched > watched_most)
            watched_most = stats.watched;
        if (i == COUNT / 2)
            memory_half = stats.memory;
    }
    tw_purgatory_check(purgatory);
    print_message("%d alive, at most %zu watches; %.2f looks a watch purged, at most %" PRIu64
                  " at a time; %zu bytes\n",
                  ALIVE, watched_most, (double)stats.look_count / (double)stats.purged_count,
                  looks_most, stats.memory);
    /* Half of all are alive, and no purge takes long; the bound is in purgatory_purge.c. */
    assert_true(watched_most <= 2 * ALIVE * 9 / 4 + TW_PURGATORY_DEAD_MIN);
    assert_true(stats.look_count <= 4 * stats.purged_count);
    assert_int_equal(stats.memory, memory_half); /* flat */
    assert_true(tw_purgatory_expire(purgatory, TW_NEVER, SIZE_MAX) == ALIVE);
    assert_int_equal(completions, COUNT);
    tw_purgatory_destroy(purgatory);
}

/* The hot key's list may be all there is. */
static void a_single_list_is_purged_too(void **state)
{
    struct tw_purgatory *purgatory = tw_purgatory_create(&(struct tw_purgatory_options){
        .try_complete = never_ready, .complete = count_completion, .shard_count = 1});
    unsigned completions = 0;
    (void)state;

    for (uint64_t i = 1; i <= 20000; i++) {
        assert_true(tw_purgatory_submit(purgatory, &completions, (uint64_t[]){7, 7}, 2, i));
        assert_int_equal(tw_purgatory_expire(purgatory, i, 8), 1);
        assert_true(stats_of(purgatory).watched <= 2 * TW_PURGATORY_DEAD_MIN);
    }
    tw_purgatory_destroy(purgatory);
    assert_int_equal(completions, 20000);
}

/* With one hot key, event after event for one operation each: no event may walk what is dead again
 * and again. */
static void an_event_pays_for_the_dead_once(void **state)
{
    enum { COUNT = 200000 };
    struct tw_purgatory *purgatory = tw_purgatory_create(&(struct tw_purgatory_options){
        .try_complete = never_ready, .complete = count_completion, .dead_percent_max = 90});
    unsigned completions = 0, kept = 0;
    (void)state;

    assert_true(tw_purgatory_submit(purgatory, &kept, &(uint64_t){7}, 1, TW_NEVER));
    for (uint64_t i = 0; i < 1000; i++)
        assert_true(tw_purgatory_submit(purgatory, &completions, (uint64_t[]){8, 7}, 2, 1));
    assert_int_equal(tw_purgatory_expire(purgatory, 1, 2000), 1000);
    assert_int_equal(stats_of(purgatory).watched, 1001);
    assert_int_equal(tw_purgatory_try_key(purgatory, 7), 0);
    assert_int_equal(stats_of(purgatory).watched, 1);
    for (uint64_t i = 0; i < COUNT; i++)
        assert_int_equal(tw_purgatory_try_key(purgatory, 7), 0);
    assert_int_equal(kept, 0);
    tw_purgatory_destroy(purgatory);
    assert_int_equal(kept, 1);
}

/* Netty issue 2541 and wheels' other memory: a hundred operations at a time, each completed by its
 * event long before its time-out, for a million. */
static void lesson_completed_operations_hold_no_timer(void **state)
{
    enum { COUNT = 1000000, ALIVE = 100 };
    struct tw_purgatory *purgatory = tw_purgatory_create(
        &(struct tw_purgatory_options){.try_complete = never_ready, .complete = count_completion});
    unsigned completions = 0;
    size_t memory = 0;
    (void)state;

    for (uint64_t i = 0; i < COUNT; i++) {
        assert_true(tw_purgatory_submit(purgatory, &completions, &i, 1, i / 1000 + 3600000));
        if (i >= ALIVE)
            assert_int_equal(tw_purgatory_complete_key(purgatory, i - ALIVE), 1);
        if (i == COUNT / 2)
            memory = stats_of(purgatory).memory;
    }
    assert_int_equal(stats_of(purgatory).memory, memory);
    assert_int_equal(stats_of(purgatory).delayed, ALIVE);
    tw_purgatory_destroy(purgatory);
    assert_int_equal(completions, COUNT);
}

/* Netty issue 7760 and its kin: a deadline at the end of time is not overdue. */
static void lesson_a_deadline_at_the_end_of_time_waits(void **state)
{
    struct tw_purgatory *purgatory = tw_purgatory_create(&(struct tw_purgatory_options){
        .try_complete = never_ready, .complete = count_completion, .start = 5000000000});
    const uint64_t deadlines[] = {INT64_MAX, (uint64_t)INT64_MAX + 1, TW_NEVER - 1, TW_NEVER};
    unsigned completions[4] = {0};
    (void)state;

    for (uint64_t i = 0; i < 4; i++)
        assert_true(tw_purgatory_submit(purgatory, &completions[i], &i, 1, deadlines[i]));
    assert_int_equal(tw_purgatory_expire(purgatory, INT64_MAX - 1, 9), 0);
    assert_int_equal(tw_purgatory_expire(purgatory, INT64_MAX, 9), 1);
    assert_int_equal(tw_purgatory_expire(purgatory, TW_NEVER, 9), 2);
    assert_int_equal(completions[3], 0);
    assert_true(tw_purgatory_wake_at(purgatory) == TW_NEVER);
    tw_purgatory_destroy(purgatory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lesson_kafka_3994_tries_that_cross_do_not_stand_still),
        cmocka_unit_test(lesson_kafka_6653_an_event_during_a_try_is_not_lost),
        cmocka_unit_test(an_event_and_then_a_time_out_during_a_try_are_an_event),
        cmocka_unit_test(lesson_kafka_19763_the_dead_hold_no_operation),
        cmocka_unit_test(a_hot_key_is_purged_in_small_steps),
        cmocka_unit_test(a_single_list_is_purged_too),
        cmocka_unit_test(an_event_pays_for_the_dead_once),
        cmocka_unit_test(lesson_completed_operations_hold_no_timer),
        cmocka_unit_test(lesson_a_deadline_at_the_end_of_time_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
