/*
 * Goal: however events, time-outs and submissions meet, each operation is completed exactly once,
 * its callbacks never overlap, and no event is missed. Method: first every interleaving at the
 * points where a thread has no lock, which are the callbacks: each call of one is interrupted by
 * each other call, two deep, on one thread, so a failure repeats. Then threads, under
 * ThreadSanitizer too, with operations that are freed when they complete and that no time-out
 * rescues from a missed event.
 */
#include "conformance_oracle.h"
#include "seed.h"

#include <tickwheel/purgatory.h>

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What may happen while a callback runs. */
enum purgatory_race_action {
    ACTION_NONE,
    ACTION_READY,   /* the event of all, without telling */
    ACTION_EVENT_A, /* the event of all, and a key is tried */
    ACTION_EVENT_B,
    ACTION_TRY_A, /* a key is tried without cause */
    ACTION_FORCE_B,
    ACTION_EXPIRE, /* all time-outs come */
    ACTION_SUBMIT, /* another operation comes */
    ACTION_WAKE_AT,
    ACTION_COUNT
};

enum { KEY_A = 1, KEY_B = 4, OPERATIONS = 8, DEADLINE = 10 };

struct script;

struct play {
    bool is_trying;
    unsigned completions;
    enum tw_completion why;
};

/* One run: at the callback number `at[0]` comes `what[0]`, and so on. */
struct script {
    struct tw_purgatory *purgatory;
    struct play plays[OPERATIONS];
    unsigned play_count;
    bool is_ready;  /* the event has come */
    bool is_forced; /* some key was completed */
    bool is_late;   /* the time-outs have come */
    unsigned callbacks;
    unsigned at[2];
    enum purgatory_race_action what[2];
};

/* Of two shards, if there are two. */
static const uint64_t keys[] = {KEY_A, KEY_B};

static void play_submit(struct script *script)
{
    if (script->play_count == OPERATIONS)
        return;
    struct play *play = &script->plays[script->play_count++];
    REQUIRE(tw_purgatory_submit(script->purgatory, play, keys, 2, DEADLINE));
}

static void act(struct script *script, enum purgatory_race_action action)
{
    switch (action) {
    case ACTION_READY:
        script->is_ready = true;
        break;
    case ACTION_EVENT_A:
    case ACTION_EVENT_B:
        script->is_ready = true;
        tw_purgatory_try_key(script->purgatory, action == ACTION_EVENT_A ? KEY_A : KEY_B);
        break;
    case ACTION_TRY_A:
        tw_purgatory_try_key(script->purgatory, KEY_A);
        break;
    case ACTION_FORCE_B:
        script->is_forced = true;
        tw_purgatory_complete_key(script->purgatory, KEY_B);
        break;
    case ACTION_EXPIRE:
        script->is_late = true;
        tw_purgatory_expire(script->purgatory, DEADLINE, 100);
        break;
    case ACTION_SUBMIT:
        play_submit(script);
        break;
    case ACTION_WAKE_AT:
        tw_purgatory_wake_at(script->purgatory);
        break;
    case ACTION_NONE:
    case ACTION_COUNT:
        break;
    }
}

static void interrupt(struct script *script)
{
    unsigned number = script->callbacks++;

    for (unsigned i = 0; i < 2; i++)
        if (script->at[i] == number)
            act(script, script->what[i]);
}

static bool play_try(void *context, void *operation)
{
    struct script *script = context;
    struct play *play = operation;

    REQUIRE(!play->is_trying && play->completions == 0);
    play->is_trying = true;
    bool is_ready = script->is_ready; /* what it sees may be stale by the time it answers */
    interrupt(script);
    play->is_trying = false;
    return is_ready;
}

static void play_complete(void *context, void *operation, enum tw_completion why)
{
    struct script *script = context;
    struct play *play = operation;

    REQUIRE(!play->is_trying && play->completions == 0);
    play->completions++;
    play->why = why;
    switch (why) {
    case TW_COMPLETED_AT_ONCE:
        REQUIRE(script->is_ready);
        break;
    case TW_COMPLETED_BY_EVENT:
        REQUIRE(script->is_ready || script->is_forced);
        break;
    case TW_COMPLETED_BY_TIMEOUT:
        REQUIRE(script->is_late);
        break;
    case TW_COMPLETED_BY_DESTROY:
        REQUIRE(!"nothing is left for destroy");
    }
    interrupt(script);
}

static void play_sooner(void *context, uint64_t wake_at)
{
    REQUIRE(wake_at == DEADLINE);
    interrupt(context);
}

/* Submits two operations and tries a key; returns how many callbacks there were. */
static unsigned script_run(struct script *script, unsigned shard_count,
                           enum tw_purgatory_unlink unlink)
{
    script->purgatory =
        tw_purgatory_create(&(struct tw_purgatory_options){.try_complete = play_try,
                                                           .complete = play_complete,
                                                           .on_sooner = play_sooner,
                                                           .context = script,
                                                           .shard_count = shard_count,
                                                           .unlink = unlink});
    REQUIRE(script->purgatory);
    tw_purgatory_wake_at(script->purgatory);
    play_submit(script);
    play_submit(script);
    tw_purgatory_try_key(script->purgatory, KEY_B);
    if (!script->is_late)
        for (unsigned i = 0; i < 2; i++)
            REQUIRE(script->plays[i].why != TW_COMPLETED_BY_TIMEOUT);
    tw_purgatory_check(script->purgatory);

    /* Outside of any callback: whatever has been left waiting, one event and one try complete. */
    script->is_ready = true;
    tw_purgatory_try_key(script->purgatory, KEY_A);
    for (unsigned i = 0; i < script->play_count; i++)
        REQUIRE(script->plays[i].completions == 1);
    tw_purgatory_check(script->purgatory);
    tw_purgatory_destroy(script->purgatory);
    return script->callbacks;
}

/* The same, where the event that came within a callback must not be missed: all are over without
 * another. */
static bool event_came_told(const struct script *script)
{
    for (unsigned i = 0; i < 2; i++)
        if (script->at[i] < script->callbacks &&
            (script->what[i] == ACTION_EVENT_A || script->what[i] == ACTION_EVENT_B))
            return true;
    return false;
}

static void no_event_is_missed_in_any_interleaving(struct script *script, unsigned shard_count,
                                                   enum tw_purgatory_unlink unlink)
{
    script->purgatory =
        tw_purgatory_create(&(struct tw_purgatory_options){.try_complete = play_try,
                                                           .complete = play_complete,
                                                           .context = script,
                                                           .shard_count = shard_count,
                                                           .unlink = unlink});
    REQUIRE(script->purgatory);
    play_submit(script);
    play_submit(script);
    tw_purgatory_try_key(script->purgatory, KEY_B);
    if (event_came_told(script))
        for (unsigned i = 0; i < script->play_count; i++)
            REQUIRE(script->plays[i].completions == 1);
    script->at[0] = script->at[1] = UINT_MAX;
    tw_purgatory_complete_key(script->purgatory, KEY_A);
    tw_purgatory_destroy(script->purgatory);
}

/* All pairs of moments for one pair of actions; returns how many there were. */
static unsigned interleave(enum purgatory_race_action first, enum purgatory_race_action second,
                           unsigned shard_count, enum tw_purgatory_unlink unlink)
{
    unsigned run_count = 0, callbacks = 1;

    for (unsigned i = 0; i < callbacks; i++)
        for (unsigned j = i; j <= callbacks; j++) { /* the last never comes */
            struct script script = {.at = {i, j}, .what = {first, second}};
            struct script same = script;
            callbacks = script_run(&script, shard_count, unlink);
            same.is_forced = true; /* complete_key at its end */
            no_event_is_missed_in_any_interleaving(&same, shard_count, unlink);
            run_count++;
        }
    return run_count;
}

static void each_callback_is_interrupted_by_each_call(void **state)
{
    unsigned run_count = 0;
    (void)state;

    for (unsigned shard_count = 1; shard_count <= 2; shard_count++)
        for (int first = 0; first < ACTION_COUNT; first++)
            for (int second = 0; second < ACTION_COUNT; second++)
                for (int unlink = TW_UNLINK_BY_PURGE; unlink <= TW_UNLINK_AT_ONCE; unlink++)
                    run_count += interleave((enum purgatory_race_action)first,
                                            (enum purgatory_race_action)second, shard_count,
                                            (enum tw_purgatory_unlink)unlink);
    print_message("%u interleavings\n", run_count);
    assert_true(run_count > 1000);
}

/* Threads. */

enum { LIVES = 2000, SUBMITTERS = 2, WINDOW = 64, HOT_KEYS = 4 };

struct arena;

struct life {
    struct arena *arena;
    atomic_int inside;   /* callbacks at the moment */
    atomic_int is_ready; /* its event has come */
    uint64_t keys[3];
    bool has_timeout;
};

struct arena {
    struct tw_purgatory *purgatory;
    atomic_uint completed[4]; /* by reason */
    atomic_uint submitted;
    atomic_uint_least32_t now;
    atomic_bool is_over;
    uint64_t seed;
    _Atomic(struct life *) window[SUBMITTERS][WINDOW]; /* whose event is to come */
};

static bool life_try(void *context, void *operation)
{
    struct life *life = operation;

    REQUIRE(life->arena == context);
    REQUIRE(atomic_fetch_add(&life->inside, 1) == 0);
    bool is_ready = atomic_load(&life->is_ready);
    if (((uintptr_t)life >> 5 & 7) == 0)
        sched_yield(); /* so that others meet it trying */
    REQUIRE(atomic_fetch_sub(&life->inside, 1) == 1);
    return is_ready;
}

static void life_complete(void *context, void *operation, enum tw_completion why)
{
    struct arena *arena = context;
    struct life *life = operation;

    REQUIRE(atomic_fetch_add(&life->inside, 1) == 0);
    atomic_fetch_add(&arena->completed[why], 1);
    memset(life, 0xdd, sizeof *life);
    free(life);
}

struct submitter {
    struct arena *arena;
    unsigned number;
    pthread_t thread;
};

/* Half of the operations time out or have their event, whichever is first; the others have only
 * their event, which is told once, by a key of their own or by a hot one. */
static void *submit_all(void *argument)
{
    struct submitter *submitter = argument;
    struct arena *arena = submitter->arena;
    struct conformance_source source = {.state = arena->seed + submitter->number};

    for (unsigned i = 0; i < LIVES; i++) {
        struct life *life = calloc(1, sizeof *life);
        REQUIRE(life);
        life->arena = arena;
        life->has_timeout = i % 2;
        uint64_t own = (uint64_t)(submitter->number + 1) << 32 | i;
        const uint64_t watched[] = {own, conformance_below(&source, HOT_KEYS),
                                    conformance_below(&source, HOT_KEYS)};
        uint64_t deadline = atomic_load(&arena->now) + conformance_below(&source, 20);
        /* The event of one without a time-out comes from another thread at about the same time. */
        if (!life->has_timeout) {
            atomic_int *is_ready = &life->is_ready;
            bool comes_before = conformance_below(&source, 8) == 0;
            if (comes_before)
                atomic_store(is_ready, 1);
            REQUIRE(tw_purgatory_submit(arena->purgatory, life, watched, 3, TW_NEVER));
            if (!comes_before) {
                /* Not completed yet, as its event has not come. */
                _Atomic(struct life *) *slot = &arena->window[submitter->number][i % WINDOW];
                while (atomic_load(slot))
                    sched_yield();
                life->keys[0] = watched[conformance_below(&source, 2)];
                atomic_store(slot, life);
            }
        } else {
            REQUIRE(tw_purgatory_submit(arena->purgatory, life, watched,
                                        1 + (size_t)conformance_below(&source, 3), deadline));
        }
        atomic_fetch_add(&arena->submitted, 1);
    }
    return NULL;
}

/* Brings the events: makes ready, then tries the key once, and never again. */
static void *bring_events(void *argument)
{
    struct arena *arena = argument;
    bool is_over;

    do {
        is_over = atomic_load(&arena->is_over);
        for (unsigned i = 0; i < SUBMITTERS; i++)
            for (unsigned j = 0; j < WINDOW; j++) {
                struct life *life = atomic_exchange(&arena->window[i][j], NULL);
                if (!life)
                    continue;
                uint64_t key = life->keys[0];
                atomic_store(&life->is_ready, 1); /* from here on it may be gone */
                tw_purgatory_try_key(arena->purgatory, key);
                is_over = false;
            }
        tw_purgatory_try_key(arena->purgatory, HOT_KEYS);
    } while (!is_over);
    return NULL;
}

static void *pass_time(void *argument)
{
    struct arena *arena = argument;

    while (!atomic_load(&arena->is_over)) {
        uint64_t now = atomic_fetch_add(&arena->now, 1);
        tw_purgatory_expire(arena->purgatory, now, 16);
        if (now % 8 == 0)
            tw_purgatory_wake_at(arena->purgatory);
        sched_yield();
    }
    return NULL;
}

static void *force_now_and_then(void *argument)
{
    struct arena *arena = argument;
    struct conformance_source source = {.state = arena->seed + 99};

    while (!atomic_load(&arena->is_over)) {
        struct tw_purgatory_stats stats;
        tw_purgatory_try_key(arena->purgatory, conformance_below(&source, HOT_KEYS));
        tw_purgatory_get_stats(arena->purgatory, &stats);
        sched_yield();
    }
    return NULL;
}

static void race_of_threads(enum tw_purgatory_unlink unlink)
{
    struct arena *arena = calloc(1, sizeof *arena);
    struct submitter submitters[SUBMITTERS];
    pthread_t others[3];
    void *(*const roles[3])(void *) = {bring_events, pass_time, force_now_and_then};

    assert_non_null(arena);
    arena->seed = testing_seed();
    arena->purgatory = tw_purgatory_create(&(struct tw_purgatory_options){.try_complete = life_try,
                                                                          .complete = life_complete,
                                                                          .context = arena,
                                                                          .shard_count = 4,
                                                                          .unlink = unlink});
    assert_non_null(arena->purgatory);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&others[i], NULL, roles[i], arena), 0);
    for (unsigned i = 0; i < SUBMITTERS; i++) {
        submitters[i] = (struct submitter){.arena = arena, .number = i};
        assert_int_equal(pthread_create(&submitters[i].thread, NULL, submit_all, &submitters[i]),
                         0);
    }
    for (unsigned i = 0; i < SUBMITTERS; i++)
        pthread_join(submitters[i].thread, NULL);
    atomic_store(&arena->is_over, true);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(others[i], NULL);
    tw_purgatory_expire(arena->purgatory, TW_NEVER, SIZE_MAX);
    tw_purgatory_check(arena->purgatory);

    struct tw_purgatory_stats stats;
    tw_purgatory_get_stats(arena->purgatory, &stats);
    if (unlink == TW_UNLINK_AT_ONCE)
        assert_int_equal(stats.watched + stats.purged_count, 0);
    assert_int_equal(stats.delayed, 0); /* also those that only their event could complete */
    assert_int_equal(arena->submitted, LIVES * SUBMITTERS);
    unsigned ended = arena->completed[0] + arena->completed[1] + arena->completed[2];
    assert_int_equal(ended, LIVES * SUBMITTERS);
    assert_int_equal(stats.by_event_count, arena->completed[TW_COMPLETED_BY_EVENT]);
    assert_int_equal(stats.by_timeout_count, arena->completed[TW_COMPLETED_BY_TIMEOUT]);
    print_message("%u at once, %u by event, %u by time-out, %" PRIu64 " watches purged\n",
                  arena->completed[0], arena->completed[1], arena->completed[2],
                  stats.purged_count);
    tw_purgatory_destroy(arena->purgatory);
    assert_int_equal(arena->completed[TW_COMPLETED_BY_DESTROY], 0);
    free(arena);
}

static void threads_race_and_each_life_ends_once(void **state)
{
    (void)state;
    race_of_threads(TW_UNLINK_BY_PURGE);
    race_of_threads(TW_UNLINK_AT_ONCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_callback_is_interrupted_by_each_call),
        cmocka_unit_test(threads_race_and_each_life_ends_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
