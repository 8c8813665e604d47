/*
 * Goal: a listener sees each event of its tenant once and in order, or is told that some are
 * missing; it goes on behind an event that it names; nothing grows without bound; names do not tell
 * how many events others have. Method: the feed by hand, up to its limits and beyond.
 */
#include "node/feed.h"
#include "timer/timer_testing.h"

#include <stdio.h>
#include <stdlib.h>

/* What one listener has taken. */
struct feed_seen {
    struct feed_listener listener;
    size_t woken, count, room; /* takes up to `room` events */
    uint32_t versions[FEED_EVENTS_MAX];
    char last[FEED_NAME_SIZE], first[FEED_NAME_SIZE];
};

static void feed_note_wake(struct feed_listener *listener)
{
    list_item(listener, struct feed_seen, listener)->woken++;
}

static bool feed_note(void *context, const struct feed_event *event, const char *name)
{
    struct feed_seen *seen = context;

    if (seen->count == seen->room)
        return false;
    if (seen->count == 0)
        memcpy(seen->first, name, FEED_NAME_SIZE);
    seen->versions[seen->count++] = event->timer ? event->timer->version : (uint32_t)event->kind;
    memcpy(seen->last, name, FEED_NAME_SIZE);
    return true;
}

static struct feed_seen *feed_watch(struct feed *feed, const char *tenant, const char *last)
{
    struct feed_seen *seen = calloc(1, sizeof(*seen));

    assert_non_null(seen);
    seen->room = FEED_EVENTS_MAX;
    seen->listener.tenant = bytes_of(tenant);
    seen->listener.wake = feed_note_wake;
    assert_int_equal(feed_listen(feed, &seen->listener, bytes_of(last)), ERROR_NONE);
    return seen;
}

static void feed_unwatch(struct feed *feed, struct feed_seen *seen)
{
    feed_leave(feed, &seen->listener);
    free(seen);
}

static enum feed_result feed_take_all(struct feed *feed, struct feed_seen *seen)
{
    enum feed_result result;

    while ((result = feed_read(feed, &seen->listener, feed_note, seen)) == FEED_MORE &&
           seen->count < seen->room)
        ;
    return result;
}

static void feed_add_quickly(struct feed *feed, const char *tenant, uint32_t version,
                             size_t padding)
{
    char error[1 << 16];
    struct list events;

    assert_true(padding < sizeof(error));
    memset(error, 'e', sizeof(error));
    struct timer *timer = timer_alloc(&(struct timer_texts){
        .target = BYTES("log:"), .tenant = bytes_of(tenant), .last_error = {error, padding}});
    timer->version = version;
    struct feed_event *event = feed_event_create(FEED_CHANGED, (struct wall){1}, timer);
    timer_free(timer);
    list_init(&events);
    list_push(&events, &event->link);
    feed_post(feed, &events, 0);
}

static void feed_add(struct feed *feed, const char *tenant, uint32_t version, size_t padding)
{
    feed_add_quickly(feed, tenant, version, padding);
    if (version % 16 == 0)
        feed_check(feed);
}

/* proves: events, events-tenant */
static void each_sees_its_own_in_order(void **state)
{
    struct feed *feed = feed_create();
    struct feed_seen *a = feed_watch(feed, "a", ""), *b = feed_watch(feed, "b", "");

    (void)state;
    for (uint32_t i = 0; i < 3000; i++)
        feed_add(feed, i % 3 ? "a" : "b", i, 0);
    a->room = 5;
    assert_int_equal(feed_take_all(feed, a), FEED_MORE);
    a->room = FEED_EVENTS_MAX;
    assert_int_equal(feed_take_all(feed, a), FEED_ALL);
    assert_int_equal(feed_take_all(feed, b), FEED_ALL);
    assert_int_equal(a->count, 2000);
    assert_int_equal(b->count, 1000);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(b->versions[i], 3 * i);
        assert_int_equal(a->versions[2 * i], 3 * i + 1);
        assert_int_equal(a->versions[2 * i + 1], 3 * i + 2);
    }
    assert_int_equal(a->woken, 3000);
    /* The second halves of names are no numbers in a row. */
    assert_memory_equal(b->first, b->last, 17);
    assert_true(strtoull(b->last + 17, NULL, 16) - strtoull(b->first + 17, NULL, 16) != 2997);
    feed_stop(feed);
    assert_int_equal(feed_take_all(feed, a), FEED_ENDED);
    feed_unwatch(feed, a);
    feed_unwatch(feed, b);
    feed_destroy(feed);
}

/* What holds deliveries back is told its tenant, and maintenance to all; without a listener to
 * none. */
/* proves: events-holds, events-tenant */
static void holds_are_told(void **state)
{
    struct feed *feed = feed_create();
    char note[] = "a deploy";
    const struct target_pause hold = {
        .tenant = BYTES("a"), .name = BYTES("queue:mail"), .note = bytes_of(note)};

    (void)state;
    feed_tell_hold(feed, FEED_QUEUE_PAUSED, &hold, 0);
    struct feed_seen *a = feed_watch(feed, "a", ""), *b = feed_watch(feed, "b", "");
    feed_tell_hold(feed, FEED_QUEUE_PAUSED, &hold, 0);
    memset(note, 'x', sizeof(note)); /* the event has its own */
    feed_tell_hold(feed, FEED_TARGET_RESET, &hold, 2);
    feed_tell_hold(feed, FEED_MAINTENANCE_BEGUN, &(struct target_pause){0}, 0);
    feed_check(feed);
    assert_int_equal(feed_take_all(feed, a), FEED_ALL);
    assert_int_equal(feed_take_all(feed, b), FEED_ALL);
    assert_int_equal(a->count, 3);
    assert_int_equal(a->versions[0], FEED_QUEUE_PAUSED);
    assert_int_equal(a->versions[1], FEED_TARGET_RESET);
    assert_int_equal(a->versions[2], FEED_MAINTENANCE_BEGUN);
    assert_int_equal(b->count, 1);
    assert_int_equal(b->versions[0], FEED_MAINTENANCE_BEGUN);
    feed_unwatch(feed, a);
    feed_unwatch(feed, b);
    feed_destroy(feed);
}

/* proves: events-resume */
static void one_goes_on_behind_the_event_it_names(void **state)
{
    struct feed *feed = feed_create();
    struct feed_seen *seen = feed_watch(feed, "a", "");

    (void)state;
    for (uint32_t i = 0; i < 10; i++)
        feed_add(feed, "a", i, 0);
    seen->room = 4;
    assert_int_equal(feed_take_all(feed, seen), FEED_MORE);
    struct feed_seen *again = feed_watch(feed, "a", seen->last);
    feed_unwatch(feed, seen);
    assert_int_equal(feed_take_all(feed, again), FEED_ALL);
    assert_int_equal(again->count, 6);
    assert_int_equal(again->versions[0], 4);
    /* A name of another process, one that is none, and one of no event: what is there is seen. */
    static const char *const strange[] = {"0000000000000000-0000000000000000", "x"};
    char made_up[FEED_NAME_SIZE];
    memcpy(made_up, again->last, sizeof(made_up));
    made_up[20] = made_up[20] == '0' ? '1' : '0';
    for (size_t i = 0; i < 3; i++) {
        struct feed_seen *lost = feed_watch(feed, "a", i < 2 ? strange[i] : made_up);

        assert_int_equal(feed_take_all(feed, lost), FEED_LOST);
        assert_int_equal(feed_take_all(feed, lost), FEED_ALL);
        assert_int_equal(lost->count, 10);
        feed_unwatch(feed, lost);
    }
    feed_unwatch(feed, again);
    feed_destroy(feed);
}

/* proves: events-lost, feed-events */
static void one_that_is_slow_is_told(void **state)
{
    struct feed *feed = feed_create();
    struct feed_seen *slow = feed_watch(feed, "a", "");

    (void)state;
    for (uint32_t i = 0; i < FEED_EVENTS_MAX; i++)
        feed_add(feed, "a", i, 0);
    slow->room = 0;
    assert_int_equal(feed_take_all(feed, slow), FEED_MORE);
    slow->room = FEED_EVENTS_MAX;
    feed_add(feed, "a", FEED_EVENTS_MAX, 0);
    assert_int_equal(feed_take_all(feed, slow), FEED_LOST);
    assert_int_equal(feed_take_all(feed, slow), FEED_ALL);
    assert_int_equal(slow->count, FEED_EVENTS_MAX);
    assert_int_equal(slow->versions[0], 1);
    /* What an engine could not keep is missing where it happened. */
    struct list none;
    list_init(&none);
    feed_post(feed, &none, 7);
    assert_int_equal(feed_take_all(feed, slow), FEED_LOST);
    assert_int_equal(feed_take_all(feed, slow), FEED_ALL);
    feed_unwatch(feed, slow);
    feed_destroy(feed);
}

/* proves: feed-bytes */
static void the_buffer_has_a_size(void **state)
{
    struct feed *feed = feed_create();
    struct feed_seen *slow = feed_watch(feed, "a", "");
    const size_t padding = 60000;

    (void)state;
    const uint32_t fit = FEED_BYTES_MAX / (padding + 2048), too_many = FEED_BYTES_MAX / padding + 1;
    for (uint32_t i = 0; i < fit; i++)
        feed_add(feed, "a", i, padding);
    slow->room = 1;
    assert_int_equal(feed_take_all(feed, slow), FEED_MORE);
    assert_int_equal(slow->versions[0], 0);
    for (uint32_t i = fit; i < too_many + 1; i++)
        feed_add(feed, "a", i, padding);
    slow->room = FEED_EVENTS_MAX;
    assert_int_equal(feed_take_all(feed, slow), FEED_LOST);
    assert_int_equal(feed_take_all(feed, slow), FEED_ALL);
    assert_true(slow->count < too_many);
    feed_unwatch(feed, slow);
    feed_destroy(feed);
}

/* Reads up to a gap, which must be there, and then the rest. */
static enum feed_result feed_take_behind_gap(struct feed *feed, struct feed_seen *seen)
{
    assert_int_equal(feed_take_all(feed, seen), FEED_LOST);
    return feed_take_all(feed, seen);
}

/* A quiet tenant's events stay, in their order, beside those of a storm of several times the
 * buffer, and it is told of no gap, neither while it listens nor when it comes back. The storming
 * tenant is told. What all see stays, too. */
/* proves: tenant-shares, events-lost, feed-events */
static void a_storm_pushes_out_its_own(void **state)
{
    enum { QUIET = 100, STORM = 4 * FEED_EVENTS_MAX, EACH = STORM / QUIET };
    struct feed *feed = feed_create();
    struct feed_seen *quiet = feed_watch(feed, "quiet", ""), *first = feed_watch(feed, "quiet", "");
    struct feed_seen *greedy = feed_watch(feed, "greedy", ""), *none = feed_watch(feed, "", "");
    uint32_t stormed = 0;

    (void)state;
    feed_add(feed, "quiet", 0, 0);
    first->room = 1;
    assert_int_equal(feed_take_all(feed, first), FEED_ALL);
    feed_tell_hold(feed, FEED_MAINTENANCE_BEGUN, &(struct target_pause){0}, 0);
    for (uint32_t i = 1; i <= QUIET; i++) {
        for (uint32_t j = 0; j < EACH; j++)
            feed_add_quickly(feed, "greedy", stormed++, 0);
        feed_add(feed, "quiet", i, 0);
    }
    feed_check(feed);
    struct feed_seen *back = feed_watch(feed, "quiet", first->last);
    assert_int_equal(feed_take_all(feed, quiet), FEED_ALL);
    assert_int_equal(feed_take_all(feed, back), FEED_ALL);
    assert_int_equal(feed_take_all(feed, none), FEED_ALL);
    assert_int_equal(none->count, 1);
    assert_int_equal(none->versions[0], FEED_MAINTENANCE_BEGUN);
    assert_int_equal(quiet->count, QUIET + 2);
    assert_int_equal(back->count, QUIET + 1);
    assert_int_equal(quiet->versions[0], 0);
    assert_int_equal(quiet->versions[1], FEED_MAINTENANCE_BEGUN);
    for (uint32_t i = 1; i <= QUIET; i++) {
        assert_int_equal(quiet->versions[i + 1], i);
        assert_int_equal(back->versions[i], i);
    }
    assert_int_equal(feed_take_behind_gap(feed, greedy), FEED_ALL);
    assert_int_equal(greedy->count, FEED_EVENTS_MAX - QUIET - 1); /* one of them is of all */
    for (size_t i = 1; i < greedy->count; i++)
        assert_int_equal(greedy->versions[i], stormed - (greedy->count - i));
    /* It has read everything: what is dropped then is no gap for it. */
    for (uint32_t i = 0; i < 10; i++)
        feed_add(feed, "greedy", i, 0);
    greedy->count = 0;
    assert_int_equal(feed_take_all(feed, greedy), FEED_ALL);
    assert_int_equal(greedy->count, 10);
    feed_unwatch(feed, quiet);
    feed_unwatch(feed, first);
    feed_unwatch(feed, back);
    feed_unwatch(feed, greedy);
    feed_unwatch(feed, none);
    feed_destroy(feed);
}

/* So it is with the size. */
/* proves: tenant-shares, feed-bytes */
static void a_storm_of_large_events_pushes_out_its_own(void **state)
{
    struct feed *feed = feed_create();
    struct feed_seen *quiet = feed_watch(feed, "quiet", ""),
                     *greedy = feed_watch(feed, "greedy", "");

    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        if (i % 100 == 0)
            feed_add(feed, "quiet", i, 0);
        feed_add(feed, "greedy", i, 60000);
    }
    assert_int_equal(feed_take_all(feed, quiet), FEED_ALL);
    assert_int_equal(quiet->count, 10);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(quiet->versions[i], 100 * i);
    assert_int_equal(feed_take_behind_gap(feed, greedy), FEED_ALL);
    assert_in_range(greedy->count, FEED_BYTES_MAX / 70000, FEED_BYTES_MAX / 60000);
    feed_unwatch(feed, quiet);
    feed_unwatch(feed, greedy);
    feed_destroy(feed);
}

/* With an event each, of more tenants than have room, the events of some are dropped, and those
 * tenants are told, though they have no other event. */
/* proves: events-lost */
static void tenants_without_events_are_told(void **state)
{
    enum { TENANTS = FEED_BYTES_MAX / 60000 + 8 };
    struct feed *feed = feed_create();
    struct feed_seen *seen = feed_watch(feed, "t0", ""), *last = NULL;
    char tenant[16];

    (void)state;
    for (uint32_t i = 0; i < TENANTS; i++) {
        snprintf(tenant, sizeof(tenant), "t%u", i);
        if (i == TENANTS - 1)
            last = feed_watch(feed, tenant, "");
        feed_add(feed, tenant, i, 60000);
    }
    assert_int_equal(feed_take_behind_gap(feed, seen), FEED_ALL);
    assert_int_equal(seen->count, 0);
    assert_int_equal(feed_take_all(feed, last), FEED_ALL); /* it came after the gaps */
    assert_int_equal(last->count, 1);
    feed_unwatch(feed, seen);
    feed_unwatch(feed, last);
    feed_destroy(feed);
}

/* Beside a twin too simple to be wrong: each reader sees the events of its tenant in order, and is
 * told wherever one is missing, at no other place. */
/* proves: events-lost, events-tenant */
static void any_order_of_storms_and_readers(void **state)
{
    enum { TENANTS = 4, STEPS = 400, BURST = 2000 };
    static const char *const tenants[TENANTS] = {"a", "b", "c", "d"};
    struct feed *feed = feed_create();
    struct feed_seen *seen[TENANTS];
    uint32_t made[TENANTS] = {0}, next[TENANTS] = {0}; /* versions; the next that is not seen */
    size_t told = 0;
    struct random random = random_seeded(testing_seed());

    (void)state;
    for (size_t i = 0; i < TENANTS; i++)
        seen[i] = feed_watch(feed, tenants[i], "");
    for (size_t step = 0; step < STEPS; step++) {
        const size_t i = random_below(&random, TENANTS);

        if (random_below(&random, 8) > 0) {
            const size_t count = random_below(&random, i ? BURST : 5);
            for (size_t j = 0; j < count; j++)
                feed_add_quickly(feed, tenants[i], made[i]++,
                                 random_below(&random, 64) ? 0 : 40000);
            continue;
        }
        feed_check(feed);
        seen[i]->count = 0;
        seen[i]->room = random_below(&random, 2000);
        const bool has_lost = feed_take_all(feed, seen[i]) == FEED_LOST;
        for (size_t j = 0; j < seen[i]->count; j++)
            assert_int_equal(seen[i]->versions[j], next[i]++);
        if (!has_lost)
            continue;
        told++;
        assert_true(i > 0);
        seen[i]->count = 0;
        seen[i]->room = 1;
        feed_take_all(feed, seen[i]);
        assert_int_equal(seen[i]->count, 1);
        assert_true(seen[i]->versions[0] > next[i]);
        next[i] = seen[i]->versions[0] + 1;
    }
    assert_true(told > 0);
    for (size_t i = 0; i < TENANTS; i++)
        feed_unwatch(feed, seen[i]);
    feed_destroy(feed);
}

/* proves: feed-listeners, feed-tenant-listeners */
static void listeners_are_bounded(void **state)
{
    struct feed *feed = feed_create();
    struct feed_seen *seen[FEED_LISTENERS_MAX];
    char tenants[FEED_LISTENERS_MAX][16];

    (void)state;
    for (size_t i = 0; i < FEED_LISTENERS_MAX; i++) {
        snprintf(tenants[i], sizeof(tenants[i]), "t%zu", i / FEED_TENANT_LISTENERS_MAX);
        struct feed_seen more = {
            .listener = {.tenant = bytes_of(tenants[0]), .wake = feed_note_wake}};

        if (i == FEED_TENANT_LISTENERS_MAX)
            assert_int_equal(feed_listen(feed, &more.listener, BYTES("")), ERROR_TOO_MANY);
        seen[i] = feed_watch(feed, tenants[i], "");
    }
    struct feed_seen more = {.listener = {.tenant = BYTES("new"), .wake = feed_note_wake}};
    assert_int_equal(feed_listen(feed, &more.listener, BYTES("")), ERROR_TOO_MANY);
    assert_int_equal(feed_listeners(feed), FEED_LISTENERS_MAX);
    feed_unwatch(feed, seen[0]);
    seen[0] = feed_watch(feed, "new", "");
    feed_check(feed);
    for (size_t i = 0; i < FEED_LISTENERS_MAX; i++)
        feed_unwatch(feed, seen[i]);
    assert_true(atomic_load(feed_is_watched(feed))); /* one may come back */
    feed_destroy(feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sees_its_own_in_order),
        cmocka_unit_test(holds_are_told),
        cmocka_unit_test(one_goes_on_behind_the_event_it_names),
        cmocka_unit_test(one_that_is_slow_is_told),
        cmocka_unit_test(the_buffer_has_a_size),
        cmocka_unit_test(a_storm_pushes_out_its_own),
        cmocka_unit_test(a_storm_of_large_events_pushes_out_its_own),
        cmocka_unit_test(tenants_without_events_are_told),
        cmocka_unit_test(any_order_of_storms_and_readers),
        cmocka_unit_test(listeners_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
