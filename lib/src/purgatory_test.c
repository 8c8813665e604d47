/*
 * Goal: each particular of the purgatory's contract, and what went wrong in Kafka's. Method: small
 * purgatories by hand; an allocator that counts and runs out; slots whose generations are nearly
 * used up; hot keys counted.
 */
#include "allocator_oracle.h"
#include "purgatory_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NOT_YET = -1 };

struct probe {
    bool is_ready;
    unsigned tries;
    unsigned completions;
    int why;        /* enum tw_completion, or NOT_YET */
    unsigned place; /* it was the so-manieth to be completed */
};

struct purgatory_log {
    unsigned completions;
    uint64_t told;
    unsigned tellings;
};

static struct probe probe_new(void)
{
    return (struct probe){.why = NOT_YET};
}

static bool probe_try(void *context, void *operation)
{
    struct probe *probe = operation;

    (void)context;
    probe->tries++;
    return probe->is_ready;
}

static void probe_complete(void *context, void *operation, enum tw_completion why)
{
    struct purgatory_log *log = context;
    struct probe *probe = operation;

    probe->completions++;
    probe->why = (int)why;
    probe->place = ++log->completions;
}

static void log_sooner(void *context, uint64_t wake_at)
{
    struct purgatory_log *log = context;

    log->told = wake_at;
    log->tellings++;
}

static struct tw_purgatory *purgatory_new(struct purgatory_log *log,
                                          struct tw_purgatory_options options)
{
    options.try_complete = probe_try;
    options.complete = probe_complete;
    options.on_sooner = log_sooner;
    options.context = log;
    return tw_purgatory_create(&options);
}

static struct tw_purgatory_stats stats_of(struct tw_purgatory *purgatory)
{
    struct tw_purgatory_stats stats;

    tw_purgatory_get_stats(purgatory, &stats);
    return stats;
}

/* The example of the header. */

struct purgatory_request {
    atomic_int acks;
    int acks_wanted;
};

static const char *answered;

static void answer(void *context, struct purgatory_request *request, const char *text)
{
    (void)context;
    assert_non_null(request);
    answered = text;
}

static bool try_complete(void *context, void *operation)
{
    struct purgatory_request *request = operation;
    (void)context;
    return atomic_load(&request->acks) >= request->acks_wanted;
}

static void complete(void *context, void *operation, enum tw_completion why)
{
    answer(context, operation, why == TW_COMPLETED_BY_TIMEOUT ? "timed out" : "done");
    free(operation);
}

static void the_example_of_the_header(void **state)
{
    uint64_t partition = 7, now = 1000;
    (void)state;

    for (int acks_wanted = 1; acks_wanted <= 2; acks_wanted++, now += 100000) {
        struct tw_purgatory *purgatory = tw_purgatory_create(
            &(struct tw_purgatory_options){.try_complete = try_complete, .complete = complete});
        struct purgatory_request *request = calloc(1, sizeof *request);
        request->acks_wanted = acks_wanted;
        assert_true(tw_purgatory_submit(purgatory, request, &partition, 1, now + 30000));
        atomic_fetch_add(&request->acks, 1);
        assert_int_equal(tw_purgatory_try_key(purgatory, partition), acks_wanted == 1);
        now += 30000;
        do
            tw_purgatory_expire(purgatory, now, 256);
        while (tw_purgatory_wake_at(purgatory) <= now);
        assert_string_equal(answered, acks_wanted == 1 ? "done" : "timed out");
        tw_purgatory_destroy(purgatory);
    }
    tw_purgatory_destroy(NULL);
}

static void completes_at_once_without_watching(void **state)
{
    struct purgatory_log log = {0};
    struct tw_purgatory *purgatory = purgatory_new(&log, (struct tw_purgatory_options){0});
    struct probe probe = {.is_ready = true};
    uint64_t key = 1;
    (void)state;

    assert_true(tw_purgatory_submit(purgatory, &probe, &key, 1, 0));
    assert_int_equal(probe.why, TW_COMPLETED_AT_ONCE);
    assert_int_equal(probe.tries, 1);
    assert_int_equal(stats_of(purgatory).watched, 0);
    assert_int_equal(tw_purgatory_expire(purgatory, 10, 10), 0);
    tw_purgatory_destroy(purgatory);
    assert_int_equal(probe.completions, 1);
}

static void any_of_its_keys_completes_it_once(void **state)
{
    const uint64_t keys[] = {10, 20, 30, 20};
    (void)state;

    for (size_t i = 0; i < 3; i++) {
        struct purgatory_log log = {0};
        struct tw_purgatory *purgatory = purgatory_new(&log, (struct tw_purgatory_options){0});
        struct probe probe = probe_new();
        assert_true(tw_purgatory_submit(purgatory, &probe, keys, 4, TW_NEVER));
        assert_int_equal(probe.tries, 2); /* before it was watched, and after */
        assert_int_equal(tw_purgatory_try_key(purgatory, keys[i]), 0);
        assert_int_equal(tw_purgatory_try_key(purgatory, 99), 0);
        assert_int_equal(probe.why, NOT_YET);
        probe.is_ready = true;
        assert_int_equal(tw_purgatory_try_key(purgatory, keys[i]), 1);
        assert_int_equal(probe.why, TW_COMPLETED_BY_EVENT);
        for (size_t j = 0; j < 4; j++) /* where the dead are found, they are taken out */
            assert_int_equal(tw_purgatory_try_key(purgatory, keys[j]), 0);
        assert_int_equal(stats_of(purgatory).watched, 0);
        assert_int_equal(stats_of(purgatory).keys, 0);
        /* All but that of the first key, and the one by which it was found. */
        assert_int_equal(stats_of(purgatory).purged_count, i == 0 ? 3 : 2);
        tw_purgatory_check(purgatory);
        tw_purgatory_destroy(purgatory);
        assert_int_equal(probe.completions, 1);
    }
}

/* Also where both its keys are of one shard. */
static void the_watch_by_which_it_is_found_leaves_at_once(void **state)
{
    struct purgatory_log log = {0};
    struct tw_purgatory *purgatory =
        purgatory_new(&log, (struct tw_purgatory_options){.shard_count = 1});
    struct probe probe = probe_new();
    (void)state;

    assert_true(tw_purgatory_submit(purgatory, &probe, (uint64_t[]){1, 2}, 2, 100));
    assert_int_equal(tw_purgatory_complete_key(purgatory, 2), 1);
    assert_int_equal(stats_of(purgatory).watched, 0);
    assert_int_equal(stats_of(purgatory).keys, 0);
    tw_purgatory_destroy(purgatory);
}

static void complete_key_asks_nobody(void **state)
{
    struct purgatory_log log = {0};
    struct tw_purgatory *purgatory = purgatory_new(&log, (struct tw_purgatory_options){0});
    struct probe probes[100];
    uint64_t key = 5, other = 6;
    (void)state;

    for (size_t i = 0; i < 100; i++) {
        probes[i] = probe_new();
        assert_true(tw_purgatory_submit(purgatory, &probes[i], i % 2 ? &key : &other, 1, 100));
    }
    assert_int_equal(tw_purgatory_complete_key(purgatory, key), 50);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(probes[i].why, i % 2 ? TW_COMPLETED_BY_EVENT : NOT_YET);
        assert_int_equal(probes[i].tries, 2);
        if (i % 2)
            assert_int_equal(probes[i].place, i / 2 + 1); /* in the order of submission */
    }
    assert_int_equal(tw_purgatory_expire(purgatory, 100, 1000), 50);
    assert_int_equal(stats_of(purgatory).delayed, 0);
    tw_purgatory_destroy(purgatory);
}

static void times_out_in_order_never_early_within_the_limit(void **state)
{
    struct purgatory_log log = {0};
    struct tw_purgatory *purgatory =
        purgatory_new(&log, (struct tw_purgatory_options){.start = 1000, .shard_count = 1});
    struct probe probes[90];
    (void)state;

    for (size_t i = 0; i < 90; i++) {
        uint64_t key = i;
        probes[i] = probe_new();
        assert_true(tw_purgatory_submit(purgatory, &probes[i], &key, 1, 1900 - 10 * i));
    }
    assert_int_equal(tw_purgatory_expire(purgatory, 1009, 100), 0);
    assert_int_equal(tw_purgatory_expire(purgatory, 1800, 50), 50);
    assert_true(tw_purgatory_wake_at(purgatory) <= 1800);
    assert_int_equal(tw_purgatory_expire(purgatory, 5, 100), 30);
    assert_int_equal(tw_purgatory_expire(purgatory, 1800, 100), 0);
    assert_in_range(tw_purgatory_wake_at(purgatory), 1801, 1810);
    assert_int_equal(tw_purgatory_expire(purgatory, TW_NEVER, 100), 10);
    for (size_t i = 0; i < 90; i++) {
        assert_int_equal(probes[i].why, TW_COMPLETED_BY_TIMEOUT);
        assert_int_equal(probes[i].place, 90 - i);
    }
    assert_true(tw_purgatory_wake_at(purgatory) == TW_NEVER);
    tw_purgatory_destroy(purgatory);
}

/* A limit smaller than what is due in the first shard must not starve the others. */
static void no_shard_is_always_last(void **state)
{
    struct purgatory_log log = {0};
    struct tw_purgatory *purgatory =
        purgatory_new(&log, (struct tw_purgatory_options){.shard_count = 4});
    struct probe probes[4000];
    size_t ended[4] = {0};
    (void)state;

    for (size_t i = 0; i < 4000; i++) {
        uint64_t key = i;
        probes[i] = probe_new();
        assert_true(tw_purgatory_submit(purgatory, &probes[i], &key, 1, 1));
    }
    for (unsigned turn = 0; turn < 8; turn++)
        assert_int_equal(tw_purgatory_expire(purgatory, 1, 10), 10);
    for (size_t i = 0; i < 4000; i++)
        ended[shard_of(purgatory, i) - purgatory->shards] += probes[i].completions;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(ended[i], 20);
    tw_purgatory_destroy(purgatory);
}

static void tells_only_of_what_is_sooner(void **state)
{
    struct purgatory_log log = {0};
    struct tw_purgatory *purgatory = purgatory_new(&log, (struct tw_purgatory_options){0});
    struct probe probes[40];
    (void)state;

    for (size_t i = 0; i < 40; i++)
        probes[i] = probe_new();
    uint64_t key = 0;
    assert_true(tw_purgatory_submit(purgatory, &probes[0], &key, 1, 500));
    assert_int_equal(log.tellings, 0); /* nobody has asked yet */
    assert_in_range(tw_purgatory_wake_at(purgatory), 1, 500);
    for (key = 1; key < 30; key++) /* in every shard, also those that were empty */
        assert_true(tw_purgatory_submit(purgatory, &probes[key], &key, 1, 500 + key));
    assert_int_equal(log.tellings, 0);
    assert_true(tw_purgatory_submit(purgatory, &probes[30], &key, 1, 40));
    assert_int_equal(log.tellings, 1);
    assert_int_equal(log.told, 40);
    key = 31;
    assert_true(tw_purgatory_submit(purgatory, &probes[31], &key, 1, 60));
    assert_int_equal(log.tellings, 1);
    assert_int_equal(tw_purgatory_wake_at(purgatory), 40);
    assert_int_equal(tw_purgatory_expire(purgatory, 40, 9), 1);
    assert_in_range(tw_purgatory_wake_at(purgatory), 41, 60);
    tw_purgatory_destroy(purgatory);
}

/* What a refused submission has told of a deadline must not silence the next one. */
static void a_refused_deadline_does_not_hide_a_later_one(void **state)
{
    struct allocator allocator = {.calls_left = SIZE_MAX};
    struct purgatory_log log = {0};
    struct tw_purgatory *purgatory =
        purgatory_new(&log, (struct tw_purgatory_options){.shard_count = 2,
                                                          .allocate = allocator_take,
                                                          .release = allocator_give,
                                                          .memory_context = &allocator});
    struct probe probes[2] = {probe_new(), probe_new()};
    uint64_t keys[2] = {0, 0};
    (void)state;

    while (shard_of(purgatory, keys[1]) == shard_of(purgatory, keys[0]))
        keys[1]++;
    assert_true(tw_purgatory_submit(purgatory, &probes[0], keys, 1, TW_NEVER));
    assert_true(tw_purgatory_wake_at(purgatory) == TW_NEVER);
    allocator.calls_left = 0; /* the second key's shard has nothing yet */
    assert_false(tw_purgatory_submit(purgatory, &probes[1], keys, 2, 50));
    assert_true(tw_purgatory_submit(purgatory, &probes[1], keys, 1, 70));
    assert_true(log.tellings > 0 && log.told <= 70);
    assert_true(tw_purgatory_wake_at(purgatory) <= 70);
    tw_purgatory_destroy(purgatory);
    assert_int_equal(allocator.bytes, 0);
}

static void limits_are_kept_and_given_back(void **state)
{
    struct purgatory_log log = {0};
    struct tw_purgatory *purgatory = purgatory_new(
        &log, (struct tw_purgatory_options){.operation_count_max = 3, .watch_count_max = 5});
    struct probe probes[4] = {probe_new(), probe_new(), probe_new(), probe_new()};
    const uint64_t keys[] = {1, 2, 3};
    (void)state;

    assert_true(tw_purgatory_submit(purgatory, &probes[0], keys, 3, 10));
    assert_false(tw_purgatory_submit(purgatory, &probes[1], keys, 3, 20)); /* 6 watches */
    assert_true(tw_purgatory_submit(purgatory, &probes[1], keys, 1, 20));
    assert_true(tw_purgatory_submit(purgatory, &probes[2], keys, 1, 30));
    assert_false(tw_purgatory_submit(purgatory, &probes[3], keys, 1, 40)); /* 4 operations */
    probes[3].is_ready = true;
    assert_true(tw_purgatory_submit(purgatory, &probes[3], keys, 1, 40)); /* needs no place */
    assert_int_equal(tw_purgatory_expire(purgatory, 10, 10), 1);
    probes[0] = probe_new();
    assert_true(
        tw_purgatory_submit(purgatory, &probes[0], keys, 3, 40)); /* the dead do not count */
    assert_int_equal(stats_of(purgatory).watched, 7);
    assert_int_equal(stats_of(purgatory).dead, 2);
    tw_purgatory_check(purgatory);
    tw_purgatory_destroy(purgatory);
    assert_int_equal(probes[0].why, TW_COMPLETED_BY_DESTROY);
}

/* Fails the N-th allocation for N = 1, 2, …: what is refused was not completed, and stays the
 * caller's; all else goes on. */
static void allocation_failures_are_answers(void **state)
{
    enum { COUNT = 1500 };
    size_t refused_count = 0;
    (void)state;

    for (size_t calls_left = 0; calls_left < 60; calls_left++) {
        struct allocator allocator = {.calls_left = calls_left};
        struct purgatory_log log = {0};
        struct tw_purgatory *purgatory =
            purgatory_new(&log, (struct tw_purgatory_options){.shard_count = 2,
                                                              .allocate = allocator_take,
                                                              .release = allocator_give,
                                                              .memory_context = &allocator});
        static struct probe probes[COUNT];
        size_t accepted = 0;
        if (!purgatory) {
            assert_int_equal(allocator.bytes, 0);
            continue;
        }
        for (uint64_t i = 0; i < COUNT; i++) {
            const uint64_t keys[] = {i, i + 1, i / 100};
            probes[i] = probe_new();
            bool is_accepted = tw_purgatory_submit(purgatory, &probes[i], keys, 3, 1 + i);
            accepted += is_accepted;
            refused_count += !is_accepted;
            if (!is_accepted) /* so that the end tells it apart */
                probes[i].place = COUNT + 1;
        }
        assert_int_equal(stats_of(purgatory).delayed, accepted);
        assert_int_equal(stats_of(purgatory).memory, allocator.bytes);
        tw_purgatory_check(purgatory);
        tw_purgatory_complete_key(purgatory, 3);
        while (tw_purgatory_expire(purgatory, COUNT, 100) > 0)
            ;
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(probes[i].completions, probes[i].place != COUNT + 1);
        allocator.calls_left = SIZE_MAX;
        probes[0] = probe_new();
        assert_true(tw_purgatory_submit(purgatory, &probes[0], &(uint64_t){1}, 1, 5));
        tw_purgatory_destroy(purgatory);
        assert_int_equal(probes[0].why, TW_COMPLETED_BY_DESTROY);
        assert_int_equal(allocator.bytes, 0);
    }
    assert_true(refused_count > 0);
}

struct holder {
    struct tw_purgatory *purgatory;
    struct purgatory_log log;
    struct probe *again; /* submitted by the completion of another */
    bool was_accepted;
};

static void resubmit(void *context, void *operation, enum tw_completion why)
{
    struct holder *holder = context;

    probe_complete(&holder->log, operation, why);
    if (operation != holder->again)
        holder->was_accepted =
            tw_purgatory_submit(holder->purgatory, holder->again, &(uint64_t){1}, 1, TW_NEVER);
}

static void destroy_completes_what_waits_and_refuses_more(void **state)
{
    struct probe probes[2] = {probe_new(), probe_new()};
    struct holder holder = {.again = &probes[1], .was_accepted = true};
    (void)state;

    holder.purgatory = tw_purgatory_create(&(struct tw_purgatory_options){
        .try_complete = probe_try, .complete = resubmit, .context = &holder});
    assert_true(
        tw_purgatory_submit(holder.purgatory, &probes[0], (uint64_t[]){1, 2, 3}, 3, TW_NEVER));
    tw_purgatory_destroy(holder.purgatory);
    assert_int_equal(probes[0].why, TW_COMPLETED_BY_DESTROY);
    assert_int_equal(probes[0].completions, 1);
    assert_false(holder.was_accepted);
    assert_int_equal(probes[1].completions, 0);
}

/* A slot's generations end after a quarter of a billion lives; here they are nearly over. */
static void a_slot_is_retired_when_its_generations_are_used_up(void **state)
{
    struct purgatory_log log = {0};
    struct tw_purgatory *purgatory =
        purgatory_new(&log, (struct tw_purgatory_options){.shard_count = 1});
    struct purgatory_shard *shard = &purgatory->shards[0];
    const uint64_t keys[] = {1, 2};
    struct probe probes[8];
    (void)state;

    for (size_t i = 0; i < 8; i++)
        probes[i] = probe_new();
    assert_true(tw_purgatory_submit(purgatory, &probes[0], keys, 1, 10));
    assert_int_equal(tw_purgatory_complete_key(purgatory, 1), 1);
    struct purgatory_operation *slot = (struct purgatory_operation *)shard->operations.free;
    atomic_store(&slot->state, (OPERATION_GENERATION_LAST - 3) << 4);
    for (size_t i = 1; i < 8; i++) {
        assert_true(tw_purgatory_submit(purgatory, &probes[i], keys, 2, 100 + i));
        assert_int_equal(tw_purgatory_expire(purgatory, 100 + i, 10), 1);
        tw_purgatory_check(purgatory);
        assert_int_equal(shard->retired_count, i >= 3);
    }
    assert_int_equal(stats_of(purgatory).dead, 7);
    assert_int_equal(tw_purgatory_try_key(purgatory, 1) + tw_purgatory_try_key(purgatory, 2), 0);
    assert_int_equal(stats_of(purgatory).watched, 0);
    tw_purgatory_destroy(purgatory);
    assert_int_equal(log.completions, 8);
}

/* Keys come and go by the hundred thousand; the table grows under them and loses none. */
static void finds_each_of_many_keys(void **state)
{
    enum { COUNT = 100000 };
    struct purgatory_log log = {0};
    struct tw_purgatory *purgatory =
        purgatory_new(&log, (struct tw_purgatory_options){.shard_count = 2});
    struct probe *probes = calloc(COUNT, sizeof *probes);
    (void)state;

    assert_non_null(probes);
    for (uint64_t round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < COUNT; i++) {
            uint64_t key = i << (round ? 40 : 0); /* differ in few bits, low or high */
            assert_true(tw_purgatory_submit(purgatory, &probes[i], &key, 1, TW_NEVER));
        }
        tw_purgatory_check(purgatory);
        assert_int_equal(stats_of(purgatory).keys, COUNT);
        for (uint64_t i = 0; i < COUNT; i++)
            assert_int_equal(tw_purgatory_complete_key(purgatory, i << (round ? 40 : 0)), 1);
        assert_int_equal(stats_of(purgatory).keys, 0);
    }
    tw_purgatory_destroy(purgatory);
    free(probes);
}

/* Goal: time-outs come at ticks, never early. Method: a coarse tick, a wheel so small that
 * operations wait in overflow wheels. */
static void time_outs_follow_the_tick(void **state)
{
    struct purgatory_log log = {0};
    struct probe probes[4] = {probe_new(), probe_new(), probe_new(), probe_new()};
    const uint64_t key = 1, deadlines[4] = {150, 200, 201, 123456};
    struct tw_purgatory *purgatory = purgatory_new(
        &log, (struct tw_purgatory_options){.start = 10, .tick = 100, .wheel_size = 2});
    (void)state;

    assert_true(tw_purgatory_wake_at(purgatory) == TW_NEVER);
    for (int i = 0; i < 4; i++)
        assert_true(tw_purgatory_submit(purgatory, &probes[i], &key, 1, deadlines[i]));
    assert_int_equal(log.tellings, 1);
    assert_int_equal(log.told, 200);
    assert_int_equal(tw_purgatory_expire(purgatory, 199, 10), 0);
    assert_int_equal(tw_purgatory_expire(purgatory, 200, 10), 2);
    assert_int_equal(tw_purgatory_expire(purgatory, 299, 10), 0);
    assert_int_equal(tw_purgatory_expire(purgatory, 300, 10), 1);
    assert_int_equal(tw_purgatory_expire(purgatory, 123499, 10), 0);
    assert_int_equal(tw_purgatory_expire(purgatory, 123500, 10), 1);
    tw_purgatory_check(purgatory);
    tw_purgatory_destroy(purgatory);
}

/* Goal: with TW_UNLINK_AT_ONCE a completed operation leaves no watch and no list. Method: complete
 * operations of five keys, one of them twice, in each way, and look at the gauges. */
static void unlinking_leaves_no_watch(void **state)
{
    struct purgatory_log log = {0};
    struct probe probe;
    const uint64_t keys[5] = {1, 2, 3, 2, 99};
    struct tw_purgatory *purgatory =
        purgatory_new(&log, (struct tw_purgatory_options){.unlink = TW_UNLINK_AT_ONCE});
    (void)state;

    for (unsigned way = 0; way < 7; way++) {
        probe = probe_new();
        assert_true(tw_purgatory_submit(purgatory, &probe, keys, 5, 100 + way));
        assert_int_equal(stats_of(purgatory).watched, 5);
        if (way < 5) {
            assert_int_equal(tw_purgatory_complete_key(purgatory, keys[way]), 1);
        } else if (way == 5) {
            probe.is_ready = true;
            assert_int_equal(tw_purgatory_try_key(purgatory, 2), 1);
        } else {
            assert_int_equal(tw_purgatory_expire(purgatory, 200, 10), 1);
        }
        assert_int_equal(probe.completions, 1);
        assert_int_equal(stats_of(purgatory).watched, 0);
        assert_int_equal(stats_of(purgatory).keys, 0);
        tw_purgatory_check(purgatory);
    }
    assert_int_equal(stats_of(purgatory).purged_count, 0);
    tw_purgatory_destroy(purgatory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_header),
        cmocka_unit_test(completes_at_once_without_watching),
        cmocka_unit_test(any_of_its_keys_completes_it_once),
        cmocka_unit_test(the_watch_by_which_it_is_found_leaves_at_once),
        cmocka_unit_test(complete_key_asks_nobody),
        cmocka_unit_test(times_out_in_order_never_early_within_the_limit),
        cmocka_unit_test(no_shard_is_always_last),
        cmocka_unit_test(tells_only_of_what_is_sooner),
        cmocka_unit_test(a_refused_deadline_does_not_hide_a_later_one),
        cmocka_unit_test(limits_are_kept_and_given_back),
        cmocka_unit_test(allocation_failures_are_answers),
        cmocka_unit_test(destroy_completes_what_waits_and_refuses_more),
        cmocka_unit_test(a_slot_is_retired_when_its_generations_are_used_up),
        cmocka_unit_test(finds_each_of_many_keys),
        cmocka_unit_test(time_outs_follow_the_tick),
        cmocka_unit_test(unlinking_leaves_no_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
