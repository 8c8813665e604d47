/*
 * Goal: members of a budget hold no more places than its limits, free places go to the claims that
 * wait in FIFO order, and what a member leaves goes to the others. Method: a few cases by hand;
 * random members against a model of plain arrays; threads that share few places.
 */
#include "engine/budget.h"

#include "base/random.h"
#include "base/share.h"
#include "seed.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOW ((struct wall){1000})

static void count_wake(void *context)
{
    ++*(size_t *)context;
}

static struct budget *budget_of(uint32_t webhooks, uint32_t each, uint32_t parts)
{
    const struct budget_limits limits = {.webhooks = webhooks, .each = {each, each, each, each}};
    struct budget *budget = budget_create(&limits, parts, 1);

    assert_non_null(budget);
    return budget;
}

/* Two members by hand, each with a claim to one pool, and how often they were woken. */
struct budget_pair {
    struct budget *budget;
    struct budget_member members[2];
    struct budget_claim claims[2];
    size_t wakes[2];
};

static void budget_pair_init(struct budget_pair *pair, enum budget_kind kind, uint32_t limit)
{
    *pair = (struct budget_pair){.budget = budget_of(limit, limit, 2)};
    for (int i = 0; i < 2; i++) {
        budget_join(pair->budget, &pair->members[i], count_wake, &pair->wakes[i]);
        assert_true(budget_open(&pair->members[i], &pair->claims[i], kind, 7, 7));
    }
}

static void budget_pair_deinit(struct budget_pair *pair)
{
    for (int i = 0; i < 2; i++)
        budget_leave(&pair->members[i]);
    budget_destroy(pair->budget);
}

/* Whether the member finds places for its claim. */
static bool budget_pair_takes(struct budget_pair *pair, int i)
{
    struct list placed;

    list_init(&placed);
    budget_take(&pair->members[i], NOW, &placed);
    budget_check(pair->budget);
    list_remove(&pair->claims[i].link);
    return budget_has_place(&pair->claims[i]);
}

/* One member may have all places; the other one waits, is woken for the first that comes back, and
 * that one is not to be had by the first member any more. */
static void test_a_place_goes_to_the_first_that_waits(void **state)
{
    (void)state;
    for (int kind = 0; kind < BUDGET_KIND_COUNT; kind++) {
        struct budget_pair pair;

        budget_pair_init(&pair, (enum budget_kind)kind, 2);
        budget_ask(&pair.claims[0], 3);
        assert_true(budget_pair_takes(&pair, 0));
        budget_use(&pair.claims[0]);
        const enum share_class class = budget_use(&pair.claims[0]);
        assert_false(budget_has_place(&pair.claims[0]));
        assert_int_equal(budget_held(&pair.claims[1]), budget_max(&pair.claims[1]));
        budget_ask(&pair.claims[1], 1);
        assert_false(budget_pair_takes(&pair, 1));
        budget_ask(&pair.claims[0], 0);
        budget_ask(&pair.claims[0], 1); /* behind the other */
        budget_end(&pair.claims[0], class, BUDGET_PROOF_NONE);
        assert_false(budget_pair_takes(&pair, 0));
        assert_int_equal(pair.wakes[1], 1);
        assert_true(budget_has_news(&pair.members[1]));
        assert_true(budget_pair_takes(&pair, 1));
        assert_false(budget_has_news(&pair.members[1]));
        budget_ask(&pair.claims[1], 0); /* it was cancelled meanwhile */
        budget_pair_takes(&pair, 1);
        assert_int_equal(pair.wakes[0], 1);
        assert_true(budget_pair_takes(&pair, 0));
        budget_pair_deinit(&pair);
    }
}

/* A claim that was granted a place, and is closed before its member looks, loses none. */
static void test_a_grant_outlives_its_claim(void **state)
{
    (void)state;
    for (int kind = 0; kind < BUDGET_KIND_COUNT; kind++)
        for (int ends = 0; ends < 3; ends++) {
            struct budget_pair pair;

            budget_pair_init(&pair, (enum budget_kind)kind, 1);
            budget_ask(&pair.claims[0], 1);
            assert_true(budget_pair_takes(&pair, 0));
            const enum share_class class = budget_use(&pair.claims[0]);
            budget_ask(&pair.claims[1], 1);
            assert_false(budget_pair_takes(&pair, 1));
            budget_end(&pair.claims[0], class, BUDGET_SILENT);
            budget_ask(&pair.claims[0], 1);
            assert_false(budget_pair_takes(&pair, 0)); /* it is the other's */
            if (ends == 0)
                budget_close(&pair.claims[1]);
            else if (ends == 1)
                budget_retire(&pair.members[1]);
            else
                budget_leave(&pair.members[1]);
            assert_true(budget_pair_takes(&pair, 0));
            budget_leave(&pair.members[0]);
            if (ends < 2)
                budget_leave(&pair.members[1]);
            budget_destroy(pair.budget);
        }
}

/* A member that ends while deliveries are out gives their places back. */
static void test_a_member_that_ends_leaves_all(void **state)
{
    (void)state;
    for (int kind = 0; kind < BUDGET_KIND_COUNT; kind++) {
        struct budget_pair pair;

        budget_pair_init(&pair, (enum budget_kind)kind, 2);
        budget_ask(&pair.claims[0], 2);
        assert_true(budget_pair_takes(&pair, 0));
        budget_use(&pair.claims[0]);
        budget_ask(&pair.claims[1], 5);
        assert_false(budget_pair_takes(&pair, 1));
        budget_leave(&pair.members[0]);
        assert_int_equal(budget_max(&pair.claims[1]), 1); /* it has half of the node's */
        assert_true(budget_pair_takes(&pair, 1));
        assert_int_equal(budget_held(&pair.claims[1]), 1);
        budget_leave(&pair.members[1]);
        budget_destroy(pair.budget);
    }
}

/* The limits are the members' part, rounded up. */
static void test_limits_are_of_the_members(void **state)
{
    static const uint32_t parts[][3] = {{128, 24, 8}, {1, 24, 1}, {10, 3, 2}, {1000000, 256, 7}};

    (void)state;
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        const uint32_t limit = parts[i][0], all = parts[i][1], owned = parts[i][2];
        struct budget *budget = budget_of(limit, limit, all);
        struct budget_member *members = calloc(all, sizeof(*members));
        struct budget_claim claim;

        for (uint32_t j = 0; j < all; j++) {
            budget_join(budget, &members[j], NULL, NULL);
            if (j == 0)
                assert_true(budget_open(&members[0], &claim, BUDGET_TARGET, 1, 1));
            if (j + 1 == owned)
                assert_int_equal(budget_max(&claim), ((uint64_t)limit * owned + all - 1) / all);
        }
        assert_int_equal(budget_max(&claim), limit);
        for (uint32_t j = all; j-- > 0;)
            budget_leave(&members[j]);
        free(members);
        budget_destroy(budget);
    }
}

/* A target's own limit is divided like that of the node, which is the most. A lower one takes no
 * place away, and a higher one gives places to who waits. */
static void test_a_target_has_its_own_limit(void **state)
{
    struct budget_pair pair;
    struct budget_claim *claim = &pair.claims[0];
    struct budget_member third;

    (void)state;
    budget_pair_init(&pair, BUDGET_TARGET, 10);
    budget_limit(claim, 20);
    assert_int_equal(budget_max(claim), 10);
    budget_limit(claim, 3);
    assert_int_equal(budget_max(claim), 3);
    budget_ask(claim, 5);
    assert_true(budget_pair_takes(&pair, 0));
    assert_int_equal(claim->places[SHARE_PROVEN] + claim->places[SHARE_UNPROVEN], 3);
    budget_limit(&pair.claims[1], 4); /* by another member */
    assert_true(budget_pair_takes(&pair, 0));
    assert_int_equal(claim->places[SHARE_PROVEN] + claim->places[SHARE_UNPROVEN], 4);
    budget_limit(claim, 1);
    budget_ask(&pair.claims[1], 1);
    assert_false(budget_pair_takes(&pair, 1));
    budget_ask(claim, 0);
    assert_true(budget_pair_takes(&pair, 1));
    budget_limit(claim, 3);
    budget_retire(&pair.members[1]);
    assert_int_equal(budget_max(claim), 2); /* half of it, rounded up */
    budget_join(pair.budget, &third, NULL, NULL);
    assert_int_equal(budget_max(claim), 3);
    budget_leave(&third);
    budget_pair_deinit(&pair);
}

/* Members count their starts together, each for its part of the rate. */
static void test_a_rate_is_shared(void **state)
{
    struct wall next, full;
    struct budget_pair pair;

    (void)state;
    budget_pair_init(&pair, BUDGET_TARGET, 10);
    assert_true(budget_start(&pair.claims[0], PACE_ONE, NOW, &next, &full));
    assert_int_equal(next.ms, NOW.ms + 1000);
    assert_int_equal(full.ms, NOW.ms + 1000);
    assert_false(budget_start(&pair.claims[1], PACE_ONE, NOW, &next, &full));
    assert_true(budget_start(&pair.claims[1], PACE_ONE, next, &next, &full));
    budget_retire(&pair.members[1]);
    assert_false(
        budget_start(&pair.claims[0], PACE_ONE, (struct wall){NOW.ms + 2000}, &next, &full));
    assert_int_equal(next.ms, NOW.ms + 3000);
    budget_pair_deinit(&pair);
}

/* ---- random members ---- */

enum { MEMBERS = 5, TENANTS = 3, TARGETS = 7, CONNECTIONS = 2, LEASES = TARGETS + CONNECTIONS };
enum { POOLS = LEASES + TENANTS };

struct budget_twin {
    bool is_open;
    uint32_t waiting, got, used[SHARE_CLASSES]; /* got: granted, or places */
};

struct budget_model {
    struct budget *budget;
    struct budget_limits whole;
    struct random random;
    struct wall now, told; /* told: with the last take */
    struct budget_member members[MEMBERS];
    bool is_member[MEMBERS], is_retired[MEMBERS];
    size_t wakes[MEMBERS];
    struct budget_claim claims[MEMBERS][POOLS];
    struct budget_twin twins[MEMBERS][POOLS];
    int order[POOLS][MEMBERS]; /* which members wait, first come first served */
    int order_count[POOLS];
    uint64_t answered_ms[TARGETS]; /* 0: silent */
};

static enum budget_kind kind_of(int pool)
{
    return pool < TARGETS                 ? BUDGET_TARGET
           : pool < TARGETS + CONNECTIONS ? BUDGET_CONNECTION
                                          : BUDGET_LEASES;
}

static uint32_t budget_model_limit(const struct budget_model *model, uint32_t whole)
{
    uint32_t count = 0;

    for (int i = 0; i < MEMBERS; i++)
        count += model->is_member[i] && !model->is_retired[i];
    return (whole * count + MEMBERS - 1) / MEMBERS;
}

static uint32_t budget_model_held(const struct budget_model *model, int pool)
{
    uint32_t held = 0;

    for (int i = 0; i < MEMBERS; i++)
        held += model->twins[i][pool].got + model->twins[i][pool].used[0] +
                model->twins[i][pool].used[1];
    return held;
}

static bool budget_model_is_proven(const struct budget_model *model, int target)
{
    return model->answered_ms[target] &&
           model->now.ms - model->answered_ms[target] < SHARES_PROOF_MS;
}

static void budget_model_stop_waiting(struct budget_model *model, int member, int pool)
{
    int *order = model->order[pool], count = 0;

    for (int i = 0; i < model->order_count[pool]; i++)
        if (order[i] != member)
            order[count++] = order[i];
    model->order_count[pool] = count;
    model->twins[member][pool].waiting = 0;
}

/* The first that waits gets a place, and goes behind the others if it wants more. */
static void budget_model_grant(struct budget_model *model, int pool)
{
    assert_true(model->order_count[pool] > 0);
    const int member = model->order[pool][0];
    struct budget_twin *twin = &model->twins[member][pool];
    const uint32_t left = twin->waiting - 1;

    twin->got++;
    budget_model_stop_waiting(model, member, pool);
    twin->waiting = left;
    if (left > 0)
        model->order[pool][model->order_count[pool]++] = member;
}

static uint32_t budget_real_got(const struct budget_claim *claim)
{
    return claim->granted_[0] + claim->granted_[1] + claim->places[0] + claim->places[1];
}

/* What a tenant's targets hold, or those of all tenants (-1); and of that, without proof. */
static uint32_t budget_real_held(const struct budget_model *model, int tenant,
                                 uint32_t *ret_unproven)
{
    uint32_t held = 0;

    *ret_unproven = 0;
    for (int pool = 0; pool < TARGETS; pool++)
        for (int i = 0; i < MEMBERS; i++) {
            const struct budget_claim *claim = &model->claims[i][pool];

            if ((tenant >= 0 && pool % TENANTS != tenant) || !model->twins[i][pool].is_open)
                continue;
            held += budget_real_got(claim) + claim->used_[0] + claim->used_[1];
            *ret_unproven += claim->granted_[SHARE_UNPROVEN] + claim->places[SHARE_UNPROVEN] +
                             claim->used_[SHARE_UNPROVEN];
        }
    return held;
}

static uint32_t left_of(uint32_t max, uint32_t held)
{
    return held < max ? max - held : 0;
}

/* The rule of shares.h for leases: whether the tenant may hold one more. */
static bool may_lease(const struct budget_model *model, int pool)
{
    const uint32_t max = budget_model_limit(model, model->whole.each[BUDGET_LEASES]);
    uint32_t held = 0;

    for (int i = LEASES; i < POOLS; i++)
        held += budget_model_held(model, i);
    return share_allows(max, held, budget_model_held(model, pool), 1);
}

/* The rule of shares.h, for a target that has `held` places. */
static bool may_have(const struct budget_model *model, int target, uint32_t held)
{
    const uint32_t max = budget_model_limit(model, model->whole.webhooks), most = max - max / 8;
    uint32_t unproven, tenant_unproven;
    const uint32_t all = budget_real_held(model, -1, &unproven);
    const uint32_t of_tenant = budget_real_held(model, target % TENANTS, &tenant_unproven);
    uint32_t left = left_of(max, all), step = 1;

    if (max < SHARES_MIN || left == 0)
        return left > 0;
    while (step * 2 <= held)
        step *= 2;
    left = left < left_of(most, of_tenant) ? left : left_of(most, of_tenant);
    if (budget_model_is_proven(model, target))
        return left > 0 && (held == 0 || step < left);
    left = left < left_of(most, unproven) ? left : left_of(most, unproven);
    if (left > left_of(most / 2, tenant_unproven))
        left = left_of(most / 2, tenant_unproven);
    return left > 0 && (held == 0 || step < left / 8);
}

enum budget_moment { MODEL_ANY, MODEL_SHARED_OUT };

/* Whether the budget has granted what it should have since the model was told what happened. */
static void budget_model_compare(struct budget_model *model, enum budget_moment moment)
{
    budget_check(model->budget);
    for (int pool = 0; pool < POOLS; pool++) {
        const uint32_t max = budget_model_limit(model, model->whole.each[kind_of(pool)]);
        uint32_t held = 0;
        bool has_new = false;

        for (int i = 0; i < MEMBERS; i++)
            if (model->twins[i][pool].is_open)
                held += budget_real_got(&model->claims[i][pool]) + model->claims[i][pool].used_[0] +
                        model->claims[i][pool].used_[1];
        for (; budget_model_held(model, pool) < held; has_new = true)
            budget_model_grant(model, pool);
        assert_int_equal(budget_model_held(model, pool), held);
        assert_true(!has_new || held <= max);
        for (int i = 0; i < MEMBERS; i++)
            if (model->twins[i][pool].is_open) {
                assert_int_equal(model->twins[i][pool].got,
                                 budget_real_got(&model->claims[i][pool]));
                assert_int_equal(model->twins[i][pool].waiting, model->claims[i][pool].waiting_);
            }
        if (kind_of(pool) == BUDGET_CONNECTION)
            assert_true(held >= max || model->order_count[pool] == 0);
        else if (kind_of(pool) == BUDGET_LEASES)
            continue;
        else if (moment == MODEL_SHARED_OUT && held < max && model->order_count[pool] > 0)
            assert_false(may_have(model, pool, held));
        if (has_new && kind_of(pool) == BUDGET_TARGET) {
            uint32_t unproven;
            assert_true(budget_real_held(model, -1, &unproven) <=
                        budget_model_limit(model, model->whole.webhooks));
        }
    }
    for (int pool = LEASES; pool < POOLS; pool++)
        assert_false(model->order_count[pool] > 0 && may_lease(model, pool));
}

static void budget_model_take(struct budget_model *model, int member)
{
    struct list placed;

    list_init(&placed);
    budget_take(&model->members[member], model->now, &placed);
    model->told = model->now;
    for (struct list *link; (link = list_pop(&placed));)
        assert_true(budget_has_place(list_item(link, struct budget_claim, link)));
    for (int pool = 0; pool < POOLS; pool++)
        if (model->twins[member][pool].is_open)
            assert_int_equal(model->claims[member][pool].granted_[0] +
                                 model->claims[member][pool].granted_[1],
                             0);
    assert_false(budget_has_news(&model->members[member]));
}

static void budget_model_forget(struct budget_model *model, int member, int pool)
{
    budget_model_stop_waiting(model, member, pool);
    model->twins[member][pool].got = 0;
}

static void budget_model_ask(struct budget_model *model, int member, int pool, uint32_t wanted)
{
    struct budget_twin *twin = &model->twins[member][pool];

    if (wanted <= twin->got) {
        budget_model_stop_waiting(model, member, pool);
        twin->got = wanted;
    } else {
        if (twin->waiting == 0)
            model->order[pool][model->order_count[pool]++] = member;
        twin->waiting = wanted - twin->got;
    }
    budget_ask(&model->claims[member][pool], wanted);
}

/* Deliveries begin in some of the places that the member knows of. */
static void budget_model_use(struct budget_model *model, int member, int pool)
{
    struct budget_claim *claim = &model->claims[member][pool];

    while (budget_has_place(claim) && random_below(&model->random, 4)) {
        model->twins[member][pool].used[budget_use(claim)]++;
        model->twins[member][pool].got--;
    }
}

static void budget_model_end(struct budget_model *model, int member, int pool)
{
    struct budget_twin *twin = &model->twins[member][pool];
    const enum budget_proof proof = (enum budget_proof)random_below(&model->random, 3);

    for (int class = 0; class < SHARE_CLASSES; class ++) {
        if (twin->used[class] == 0 || random_below(&model->random, 3) == 0)
            continue;
        twin->used[class]--;
        if (pool < TARGETS && proof == BUDGET_ANSWERED)
            model->answered_ms[pool] = model->told.ms;
        if (pool < TARGETS && proof == BUDGET_SILENT)
            model->answered_ms[pool] = 0;
        budget_end(&model->claims[member][pool], (enum share_class) class,
                   pool < TARGETS ? proof : BUDGET_PROOF_NONE);
    }
}

static void budget_model_open_or_close(struct budget_model *model, int member, int pool)
{
    struct budget_twin *twin = &model->twins[member][pool];

    if (!twin->is_open) {
        *twin = (struct budget_twin){.is_open = true};
        assert_true(budget_open(&model->members[member], &model->claims[member][pool],
                                kind_of(pool), (uint64_t)pool + 1, (uint64_t)pool % TENANTS));
    } else if (twin->used[0] + twin->used[1] == 0) {
        budget_model_forget(model, member, pool);
        twin->is_open = false;
        budget_close(&model->claims[member][pool]);
    }
}

static void budget_model_come_or_go(struct budget_model *model, int member)
{
    if (!model->is_member[member]) {
        model->is_member[member] = true;
        model->is_retired[member] = false;
        memset(model->twins[member], 0, sizeof(model->twins[member]));
        budget_join(model->budget, &model->members[member], count_wake, &model->wakes[member]);
        return;
    }
    const bool leaves = model->is_retired[member] || random_below(&model->random, 2);
    for (int pool = 0; pool < POOLS; pool++) {
        budget_model_forget(model, member, pool);
        if (leaves)
            model->twins[member][pool] = (struct budget_twin){0};
    }
    model->is_retired[member] = true;
    if (leaves)
        budget_leave(&model->members[member]);
    else
        budget_retire(&model->members[member]);
    model->is_member[member] = !leaves;
}

static void budget_model_step(struct budget_model *model)
{
    const int member = (int)random_below(&model->random, MEMBERS);
    const int pool = (int)random_below(&model->random, POOLS);
    const bool is_open = model->twins[member][pool].is_open;
    const bool may_ask = model->is_member[member] && !model->is_retired[member];
    enum budget_moment moment = MODEL_ANY;

    model->now.ms += random_below(&model->random, SHARES_PROOF_MS / 20);
    switch (random_below(&model->random, 12)) {
    case 0:
        if (random_below(&model->random, 8) == 0 || !model->is_member[member]) {
            budget_model_come_or_go(model, member);
            moment = MODEL_ANY; /* by the time of the last take */
        }
        break;
    case 1:
        if (may_ask && random_below(&model->random, 4) == 0)
            budget_model_open_or_close(model, member, pool);
        break;
    case 2:
    case 3:
    case 4:
        if (may_ask && !is_open)
            budget_model_open_or_close(model, member, pool);
        if (may_ask)
            budget_model_ask(model, member, pool, (uint32_t)random_below(&model->random, 7));
        break;
    case 5:
    case 6:
        if (is_open)
            budget_model_use(model, member, pool);
        break;
    case 7:
    case 8:
        if (is_open)
            budget_model_end(model, member, pool);
        break;
    default:
        if (model->is_member[member]) {
            budget_model_take(model, member);
            moment = MODEL_SHARED_OUT;
        }
    }
    budget_model_compare(model, moment);
}

static void test_random_members(void **state)
{
    const uint64_t seed = testing_seed();

    (void)state;
    for (uint64_t run = 0; run < 60; run++) {
        struct budget_model *model = calloc(1, sizeof(*model));

        model->random = random_seeded(seed + run);
        model->now = model->told = NOW;
        const uint32_t webhooks = 1 + (uint32_t)random_below(&model->random, run % 2 ? 10 : 60);
        model->whole =
            (struct budget_limits){.webhooks = webhooks,
                                   .each = {1 + (uint32_t)random_below(&model->random, webhooks),
                                            1 + (uint32_t)random_below(&model->random, 6),
                                            1 + (uint32_t)random_below(&model->random, 60)}};
        model->budget = budget_create(&model->whole, MEMBERS, seed);
        assert_non_null(model->budget);
        for (int i = 0; i < 4000; i++)
            budget_model_step(model);
        for (int i = 0; i < MEMBERS; i++)
            if (model->is_member[i])
                budget_leave(&model->members[i]);
        budget_destroy(model->budget);
        free(model);
    }
}

/* ---- leases ---- */

/* One tenant that leases all that it gets, and then others likewise, leave some to the next. */
static void test_leases_are_shared_among_tenants(void **state)
{
    enum { LIMIT = 1024, LESSEES = 20 };
    struct budget *budget = budget_of(LIMIT, LIMIT, 1);
    struct budget_claim claims[LESSEES];
    struct budget_member member;
    uint32_t held[LESSEES] = {0}, all = 0;

    (void)state;
    budget_join(budget, &member, NULL, NULL);
    for (uint64_t i = 0; i < LESSEES; i++) {
        assert_true(budget_open(&member, &claims[i], BUDGET_LEASES, i + 1, i + 1));
        budget_ask(&claims[i], BUDGET_ALL_PLACES);
        for (; budget_has_place(&claims[i]); held[i]++)
            budget_use(&claims[i]);
        assert_true(held[i] > 0);
        assert_int_equal(budget_held(&claims[i]), held[i]);
        assert_int_equal(budget_max(&claims[i]), LIMIT);
        all += held[i];
        assert_in_range(all, 1, LIMIT - 1);
        budget_check(budget);
    }
    assert_int_equal(held[0], LIMIT - LIMIT / 8);
    for (; held[0] > 0; held[0]--)
        budget_end(&claims[0], SHARE_PROVEN, BUDGET_PROOF_NONE);
    budget_check(budget);
    struct list placed;
    list_init(&placed);
    budget_take(&member, NOW, &placed);
    assert_false(list_is_empty(&placed)); /* the others want what the first has left */
    budget_leave(&member);
    budget_destroy(budget);
}

/* ---- threads ---- */

enum { THREADS = 4, EACH = 3000 };

struct budget_crew {
    struct budget *budget;
    atomic_uint inflight[BUDGET_KIND_COUNT];
    atomic_uint peak[BUDGET_KIND_COUNT];
    uint32_t max;
};

struct budget_worker {
    struct budget_crew *crew;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool is_woken;
    struct budget_member member;
    struct budget_claim claims[BUDGET_KIND_COUNT];
};

static void budget_worker_wake(void *context)
{
    struct budget_worker *worker = context;

    pthread_mutex_lock(&worker->lock);
    worker->is_woken = true;
    pthread_cond_signal(&worker->woken);
    pthread_mutex_unlock(&worker->lock);
}

static void budget_worker_wait(struct budget_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    while (!worker->is_woken)
        pthread_cond_wait(&worker->woken, &worker->lock);
    worker->is_woken = false;
    pthread_mutex_unlock(&worker->lock);
}

/* Begins what it may, ends it again, and waits for places in between: each time it has none it is
 * in the queue of each pool, so that it must be woken. */
static void *budget_worker_run(void *argument)
{
    struct budget_worker *worker = argument;
    struct budget_crew *crew = worker->crew;
    size_t left[BUDGET_KIND_COUNT];

    for (int kind = 0; kind < BUDGET_KIND_COUNT; kind++)
        left[kind] = EACH;
    for (;;) {
        size_t done = 0, rest = 0;
        struct list placed;

        list_init(&placed);
        for (int kind = 0; kind < BUDGET_KIND_COUNT; kind++)
            budget_ask(&worker->claims[kind], left[kind] < 3 ? (uint32_t)left[kind] : 3);
        budget_take(&worker->member, NOW, &placed);
        while (list_pop(&placed))
            ;
        for (int kind = 0; kind < BUDGET_KIND_COUNT; kind++)
            while (budget_has_place(&worker->claims[kind])) {
                const enum share_class class = budget_use(&worker->claims[kind]);
                const unsigned out = atomic_fetch_add(&crew->inflight[kind], 1) + 1;

                if (out > atomic_load(&crew->peak[kind]))
                    atomic_store(&crew->peak[kind], out);
                assert_true(out <= crew->max);
                assert_true(budget_held(&worker->claims[kind]) <= crew->max);
                atomic_fetch_sub(&crew->inflight[kind], 1);
                budget_end(&worker->claims[kind], class, BUDGET_ANSWERED);
                left[kind]--;
                done++;
            }
        budget_take(&worker->member, NOW, &placed); /* the end of the turn */
        while (list_pop(&placed))
            done++;
        for (int kind = 0; kind < BUDGET_KIND_COUNT; kind++)
            rest += left[kind];
        if (rest == 0)
            return NULL;
        if (done == 0)
            budget_worker_wait(worker);
    }
}

static void test_threads_share(void **state)
{
    (void)state;
    for (uint32_t max = 1; max <= 3; max++) {
        struct budget_crew crew = {.budget = budget_of(max, max, THREADS), .max = max};
        struct budget_worker workers[THREADS];

        for (int i = 0; i < THREADS; i++) {
            struct budget_worker *worker = &workers[i];

            *worker = (struct budget_worker){.crew = &crew};
            pthread_mutex_init(&worker->lock, NULL);
            pthread_cond_init(&worker->woken, NULL);
            budget_join(crew.budget, &worker->member, budget_worker_wake, worker);
            for (int kind = 0; kind < BUDGET_KIND_COUNT; kind++)
                assert_true(budget_open(&worker->member, &worker->claims[kind],
                                        (enum budget_kind)kind, 1, 1));
        }
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(
                pthread_create(&workers[i].thread, NULL, budget_worker_run, &workers[i]), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(workers[i].thread, NULL);
        budget_check(crew.budget);
        for (int i = 0; i < THREADS; i++) {
            budget_leave(&workers[i].member);
            pthread_mutex_destroy(&workers[i].lock);
            pthread_cond_destroy(&workers[i].woken);
        }
        budget_destroy(crew.budget);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_place_goes_to_the_first_that_waits),
        cmocka_unit_test(test_a_grant_outlives_its_claim),
        cmocka_unit_test(test_a_member_that_ends_leaves_all),
        cmocka_unit_test(test_limits_are_of_the_members),
        cmocka_unit_test(test_a_target_has_its_own_limit),
        cmocka_unit_test(test_a_rate_is_shared),
        cmocka_unit_test(test_random_members),
        cmocka_unit_test(test_leases_are_shared_among_tenants),
        cmocka_unit_test(test_threads_share),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
