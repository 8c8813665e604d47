/*
 * The model is an array of operations, each with its keys, its deadline and whether it is ready.
 * One thread, no interleaving: what each call completes is then known exactly, but for the order in
 * which shards are asked for what is due.
 */
#include "oracles.h"

#include <tickwheel/purgatory.h>

#include <string.h>

enum { ITEMS = 300, KEYS = 24, KEYS_MAX = 5 };

enum purgatory_phase { PHASE_FREE, PHASE_WAITING };

struct purgatory_item {
    struct purgatory_run *run;
    enum purgatory_phase phase;
    bool is_ready;
    bool is_expected; /* in the call under way, for the reason in `run->why` */
    uint64_t order;   /* of submission */
    uint64_t deadline;
    uint64_t keys[KEYS_MAX];
    size_t key_count;
};

struct purgatory_run {
    struct conformance_source *source;
    struct tw_purgatory *purgatory;
    struct purgatory_item items[ITEMS];
    uint64_t now;
    uint64_t orders;
    uint64_t told; /* what a driver that has been told sleeps until */
    uint64_t told_before;
    bool is_told; /* within the call under way */
    size_t operation_count_max;
    size_t watch_count_max;
    uint64_t tick;
    bool is_unlinking;
    size_t watched_most; /* since the last full purge, alive ones */
    enum tw_completion why;
    bool is_in_order;
    uint64_t order_last;
    size_t completed_count; /* by the call under way */
    struct purgatory_tally tally;
};

static bool item_try(void *context, void *operation)
{
    struct purgatory_run *run = context;
    struct purgatory_item *item = operation;

    REQUIRE(item->run == run);
    return item->is_ready;
}

static void item_complete(void *context, void *operation, enum tw_completion why)
{
    struct purgatory_run *run = context;
    struct purgatory_item *item = operation;

    REQUIRE(item->is_expected && why == run->why);
    REQUIRE(why == TW_COMPLETED_AT_ONCE || item->phase == PHASE_WAITING);
    if (run->is_in_order)
        REQUIRE(item->order > run->order_last);
    run->order_last = item->order;
    run->completed_count++;
    item->phase = PHASE_FREE;
    item->is_expected = false;
    run->tally.at_once += why == TW_COMPLETED_AT_ONCE;
    run->tally.by_event += why == TW_COMPLETED_BY_EVENT;
    run->tally.by_timeout += why == TW_COMPLETED_BY_TIMEOUT;
    run->tally.by_destroy += why == TW_COMPLETED_BY_DESTROY;
}

static void sooner(void *context, uint64_t wake_at)
{
    struct purgatory_run *run = context;

    REQUIRE(wake_at < run->told && !run->is_told);
    run->told = wake_at;
    run->is_told = true;
}

static size_t waiting_count(const struct purgatory_run *run, size_t *ret_watches)
{
    size_t count = 0;

    *ret_watches = 0;
    for (size_t i = 0; i < ITEMS; i++)
        if (run->items[i].phase == PHASE_WAITING) {
            count++;
            *ret_watches += run->items[i].key_count;
        }
    return count;
}

static bool item_has_key(const struct purgatory_item *item, uint64_t key)
{
    for (size_t i = 0; i < item->key_count; i++)
        if (item->keys[i] == key)
            return true;
    return false;
}

/* The tick at which an operation times out that is submitted before its deadline. */
static uint64_t due_of(const struct purgatory_run *run, uint64_t deadline)
{
    uint64_t over = deadline % run->tick;

    if (deadline == TW_NEVER || over == 0)
        return deadline;
    return run->tick - over < TW_NEVER - 1 - deadline ? deadline - over + run->tick : TW_NEVER - 1;
}

/* Few keys, so that some are hot, and now and then one that is nobody else's. */
static uint64_t choose_key(struct purgatory_run *run)
{
    return conformance_below(run->source, 16) == 0 ? conformance_choose(run->source)
                                                   : conformance_below(run->source, KEYS);
}

static void step_submit(struct purgatory_run *run)
{
    struct purgatory_item *item = NULL;
    size_t watches, count = waiting_count(run, &watches);

    for (size_t i = 0; i < ITEMS && !item; i++)
        if (run->items[i].phase == PHASE_FREE)
            item = &run->items[i];
    if (!item)
        return;
    item->run = run;
    item->order = ++run->orders;
    item->is_ready = conformance_below(run->source, 8) == 0;
    item->key_count = 1 + (size_t)conformance_below(run->source, KEYS_MAX);
    for (size_t i = 0; i < item->key_count; i++)
        item->keys[i] = choose_key(run);
    uint64_t delay = conformance_below(run->source, 2000);
    item->deadline = delay > 1900               ? TW_NEVER
                     : run->now + delay < delay ? TW_NEVER - 1
                                                : run->now + delay;
    if (delay < 50) /* overdue */
        item->deadline = run->now - (run->now < delay ? run->now : delay);

    run->why = TW_COMPLETED_AT_ONCE;
    item->is_expected = item->is_ready;
    run->told_before = run->told;
    bool was_ready = item->is_ready;
    bool is_refused = !was_ready && (count >= run->operation_count_max ||
                                     watches + item->key_count > run->watch_count_max);
    REQUIRE(tw_purgatory_submit(run->purgatory, item, item->keys, item->key_count,
                                item->deadline) == !is_refused);
    /* A deadline that its shard knows to be reached is due at once, without a tick. */
    bool is_added = !was_ready && !is_refused;
    REQUIRE(!run->is_told || (is_added && item->deadline < run->told_before));
    REQUIRE(run->is_told || !is_added || due_of(run, item->deadline) >= run->told_before);
    REQUIRE(!item->is_expected);
    run->tally.refused += is_refused;
    if (!was_ready && !is_refused)
        item->phase = PHASE_WAITING;
}

/* One call that completes by an event just those under `key` that are ready, or all. */
static void step_key(struct purgatory_run *run, bool is_forced)
{
    uint64_t key = choose_key(run);
    size_t expected = 0;

    run->why = TW_COMPLETED_BY_EVENT;
    run->is_in_order = true;
    run->order_last = 0;
    for (size_t i = 0; i < ITEMS; i++) {
        struct purgatory_item *item = &run->items[i];
        item->is_expected = item->phase == PHASE_WAITING && item_has_key(item, key) &&
                            (item->is_ready || is_forced);
        expected += item->is_expected;
    }
    size_t count = is_forced ? tw_purgatory_complete_key(run->purgatory, key)
                             : tw_purgatory_try_key(run->purgatory, key);
    REQUIRE(count == expected && run->completed_count == expected);
    run->is_in_order = false;
}

static void step_expire(struct purgatory_run *run)
{
    uint64_t delay = conformance_below(run->source, 200);
    size_t limit = 1 + (size_t)conformance_below(run->source, 100), expected = 0;

    if (conformance_below(run->source, 10) == 0) /* back: changes nothing */
        delay = 0;
    run->now = run->now > TW_NEVER - 1 - delay ? TW_NEVER - 1 : run->now + delay;
    run->why = TW_COMPLETED_BY_TIMEOUT;
    for (size_t i = 0; i < ITEMS; i++) {
        struct purgatory_item *item = &run->items[i];
        item->is_expected = item->phase == PHASE_WAITING && item->deadline <= run->now;
        expected += item->is_expected && due_of(run, item->deadline) <= run->now;
    }
    if (expected > limit)
        expected = limit;
    uint64_t given = delay == 0 && run->now > 0 ? run->now - 1 : run->now;
    size_t count = tw_purgatory_expire(run->purgatory, given, limit);
    REQUIRE(count == run->completed_count && count <= limit);
    if (given == run->now)
        REQUIRE(count == expected || (count > expected && run->tick > 1));
    for (size_t i = 0; i < ITEMS; i++)
        run->items[i].is_expected = false;
}

static void step_wake_at(struct purgatory_run *run)
{
    uint64_t earliest = TW_NEVER;

    for (size_t i = 0; i < ITEMS; i++)
        if (run->items[i].phase == PHASE_WAITING && run->items[i].deadline < earliest)
            earliest = run->items[i].deadline;
    run->told = tw_purgatory_wake_at(run->purgatory);
    REQUIRE(run->told <= due_of(run, earliest) || run->told <= run->now);
}

static void run_compare(struct purgatory_run *run)
{
    struct tw_purgatory_stats stats;
    size_t watches, count = waiting_count(run, &watches);

    tw_purgatory_get_stats(run->purgatory, &stats);
    REQUIRE(stats.delayed == count);
    REQUIRE(stats.watched - stats.dead == watches);
    REQUIRE(!run->is_unlinking || stats.dead == 0);
    REQUIRE(stats.by_event_count == run->tally.by_event);
    REQUIRE(stats.by_timeout_count == run->tally.by_timeout);
    /* More than half dead, an eighth of the most there were, and the first purge's floor. */
    if (watches > run->watched_most)
        run->watched_most = watches;
    REQUIRE(stats.watched <= 3 * run->watched_most + 2 * TW_PURGATORY_DEAD_MIN);
    REQUIRE(stats.keys <= stats.watched + 1); /* one may be pinned by the purge */
    run->tally.purged = stats.purged_count;
}

struct purgatory_tally purgatory_model_run(struct conformance_source *source, uint64_t steps)
{
    struct purgatory_run run = {.source = source, .now = conformance_below(source, 4) * 1000};

    if (conformance_below(source, 4) == 0)
        run.now = TW_NEVER - conformance_below(source, 5000) - 2;
    run.told = run.now;
    run.operation_count_max =
        conformance_below(source, 2) ? ITEMS : 1 + (size_t)conformance_below(source, ITEMS);
    run.watch_count_max =
        conformance_below(source, 2) ? SIZE_MAX : 1 + (size_t)conformance_below(source, 3 * ITEMS);
    /* No draw of their own: inputs kept from before mean what they did. */
    run.tick = (const uint64_t[]){1, 7, 100}[run.operation_count_max % 3];
    run.is_unlinking = run.operation_count_max / 3 % 2;
    run.purgatory = tw_purgatory_create(&(struct tw_purgatory_options){
        .try_complete = item_try,
        .complete = item_complete,
        .on_sooner = sooner,
        .context = &run,
        .start = run.now,
        .tick = run.tick,
        .wheel_size = run.tick == 7 ? 3 : 0,
        .unlink = run.is_unlinking ? TW_UNLINK_AT_ONCE : TW_UNLINK_BY_PURGE,
        .operation_count_max = run.operation_count_max,
        .watch_count_max = run.watch_count_max,
        .shard_count = 1u << conformance_below(source, 5)});
    REQUIRE(run.purgatory);
    /* Whether keys are rarely tried, so that the dead pile up, or often. */
    uint64_t key_steps = conformance_below(source, 2) ? 1 : 20;
    for (; run.tally.steps < steps && (!source->bytes || source->byte_count > 0);
         run.tally.steps++) {
        uint64_t choice = conformance_below(source, 60 + 2 * key_steps);
        run.completed_count = 0;
        run.is_told = false;
        if (choice < 35)
            step_submit(&run);
        else if (choice < 45)
            run.items[conformance_below(source, ITEMS)].is_ready = true;
        else if (choice < 58)
            step_expire(&run);
        else if (choice < 60)
            step_wake_at(&run);
        else
            step_key(&run, choice >= 60 + key_steps + key_steps / 2);
        run_compare(&run);
        if (run.tally.steps % 16 == 0)
            tw_purgatory_check(run.purgatory);
    }
    run.why = TW_COMPLETED_BY_DESTROY;
    for (size_t i = 0; i < ITEMS; i++)
        run.items[i].is_expected = run.items[i].phase == PHASE_WAITING;
    tw_purgatory_destroy(run.purgatory);
    for (size_t i = 0; i < ITEMS; i++)
        REQUIRE(run.items[i].phase == PHASE_FREE);
    return run.tally;
}
